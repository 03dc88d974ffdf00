//! How many rows a second a topic gives: what the client alone brings, what decoding alone does, and a table that does
//! both. For one core: `taskset -c 0 kafka_speed SERVERS`. The topics `speed-json`, `speed-avro` and `speed-protobuf` are to
//! be there, of one partition, and are filled once: `scripts/kafka.sh topic --create --topic speed-json`.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use laxity_connect::{
    Direction, OptionReader, RECORDS_MAX, RecordFormat, Records, ScanEnvironment, ScanEvent, ScanSpec,
    TableSpec, open_scan,
};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_kafka::{Batches, Record};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

const ROWS: usize = 4_000_000;

fn main() {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:19092".to_owned());
    laxity_kafka::register();
    for format in ["json", "avro", "protobuf"] {
        let topic = format!("speed-{format}");
        let table = table(&servers, &topic, format);
        let records = records(&table);
        let mean = records.bytes() / records.len();
        println!("{format}, {mean} bytes a record, million rows/s:");
        fill(&servers, &topic, &records);
        for round in 1..=3 {
            let one_by_one = one_by_one(&servers, &topic);
            let (client, decoding, both) =
                (client(&servers, &topic), decoding(&table, &records), scan(&table));
            println!(
                "  round {round}: client alone {client:.2}, one by one {one_by_one:.2}, decoding alone {decoding:.2}, table {both:.2}"
            );
        }
    }
}

fn table(servers: &str, topic: &str, format: &str) -> Arc<TableSpec> {
    let options = [
        ("connector", "kafka"),
        ("topic", topic),
        ("properties.bootstrap.servers", servers),
        ("scan.startup.mode", "earliest-offset"),
        ("scan.bounded.mode", "latest-offset"),
        ("format", format),
    ];
    let of_protobuf = [("protobuf.descriptor", "row.proto"), ("protobuf.message-class-name", "speed.Row")];
    let of_protobuf = of_protobuf.into_iter().filter(|_| format == "protobuf");
    let options = options.into_iter().chain(of_protobuf);
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let base = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"));
    let table = TableSpec { name: "t".into(), schema: schema(), options, base };
    Arc::new(table)
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("auction", DataType::Int64, true),
        Field::new("price", DataType::Float64, true),
        Field::new("channel", DataType::Utf8, true),
        Field::new("at_ms", DataType::Int64, true),
    ]))
}

fn format_of(table: &TableSpec) -> RecordFormat {
    RecordFormat::read(&OptionReader::new(table), "format", &schema(), Direction::Read).expect("a format")
}

/// A hundred thousand rows, which are sent again and again.
fn records(table: &TableSpec) -> Records {
    let count = 100_000_i64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..count)),
        Arc::new(Int64Array::from_iter_values((0..count).map(|n| n * 7 % 1_000))),
        Arc::new(Float64Array::from_iter_values((0..count).map(|n| n as f64 / 4.0))),
        Arc::new(StringArray::from_iter_values((0..count).map(|n| format!("channel-{}", n % 50)))),
        Arc::new(Int64Array::from_iter_values((0..count).map(|n| 1_700_000_000_000 + n))),
    ];
    let rows = RecordBatch::try_new(schema(), columns).expect("columns of the schema");
    let mut records = Records::default();
    format_of(table).encoder().encode(&rows, &mut records).expect("the format holds them");
    records
}

fn client_config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "speed").set("enable.auto.commit", "false");
    config.set("queued.max.messages.kbytes", "16384").set("fetch.queue.backoff.ms", "10");
    config
}

fn fill(servers: &str, topic: &str, records: &Records) {
    let consumer: BaseConsumer = client_config(servers).create().expect("a client");
    let (low, high) =
        consumer.fetch_watermarks(topic, 0, Duration::from_secs(10)).expect("the topic is there");
    let there = usize::try_from(high - low).unwrap_or_default();
    let mut config = client_config(servers);
    config
        .remove("group.id")
        .remove("enable.auto.commit")
        .set("linger.ms", "50")
        .set("batch.num.messages", "10000");
    let producer: BaseProducer = config.create().expect("a client");
    for n in there..ROWS {
        let record = || BaseRecord::<(), [u8]>::to(topic).payload(records.get(n % records.len()));
        while producer.send(record()).is_err() {
            producer.poll(Duration::from_millis(10));
        }
    }
    producer.flush(Duration::from_secs(60)).expect("the broker takes them");
}

/// What comes without decoding, by the batch as a table takes it.
fn client(servers: &str, topic: &str) -> f64 {
    let consumer: Arc<BaseConsumer> = Arc::new(client_config(servers).create().expect("a client"));
    let mut batches = Batches::new(Arc::clone(&consumer));
    batches.join(topic, 0);
    let mut assigned = TopicPartitionList::new();
    assigned.add_partition_offset(topic, 0, Offset::Beginning).expect("an offset");
    consumer.incremental_assign(&assigned).expect("assigned");
    let (mut rows, mut bytes, started) = (0_usize, 0, Instant::now());
    while rows < ROWS {
        batches.take(Duration::from_millis(100), 1_024, |record| {
            if let Some(value) = record.ok().and_then(Record::value) {
                rows += 1;
                bytes += value.len();
            }
        });
    }
    assert!(bytes > 0);
    million_a_second(rows, started)
}

/// The same one by one, as the client's Rust side has it.
fn one_by_one(servers: &str, topic: &str) -> f64 {
    let consumer: BaseConsumer = client_config(servers).create().expect("a client");
    let mut assigned = TopicPartitionList::new();
    assigned.add_partition_offset(topic, 0, Offset::Beginning).expect("an offset");
    consumer.assign(&assigned).expect("assigned");
    let (mut rows, mut bytes, started) = (0_usize, 0, Instant::now());
    while rows < ROWS {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            rows += 1;
            bytes += message.payload_len();
        }
    }
    assert!(bytes > 0);
    million_a_second(rows, started)
}

fn decoding(table: &TableSpec, records: &Records) -> f64 {
    let mut decoder = format_of(table).decoder(&[0, 1, 2, 3, 4]);
    let (mut rows, mut bad, started) = (0, Vec::new(), Instant::now());
    while rows < ROWS {
        for start in (0..records.len()).step_by(RECORDS_MAX) {
            let range = start..records.len().min(start + RECORDS_MAX);
            rows += decoder.decode(records, range, &mut bad).num_rows();
        }
    }
    assert!(bad.is_empty());
    million_a_second(rows, started)
}

fn scan(table: &Arc<TableSpec>) -> f64 {
    let spec = ScanSpec { table: Arc::clone(table), columns: (0..5).collect() };
    let environment = ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0));
    let mut scan = open_scan(&spec, &environment).expect("a table");
    let (mut rows, started) = (0, Instant::now());
    loop {
        match scan.poll(ProcessingTime(1)).expect("readable") {
            ScanEvent::Batch(batch) => rows += batch.rows.num_rows(),
            ScanEvent::End => break,
            _ => std::thread::sleep(Duration::from_micros(200)),
        }
    }
    million_a_second(rows, started)
}

fn million_a_second(rows: usize, started: Instant) -> f64 {
    rows as f64 / started.elapsed().as_secs_f64() / 1e6
}
