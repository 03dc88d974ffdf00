//! Options of tables that are written, and the records that rows become. Cannot catch: what a broker makes of them;
//! none runs here.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use laxity_connect::{Encoder, OptionReader, SinkConnector, SinkEnvironment, TableSpec};

use super::encoder::KafkaEncoder;
use super::frame::Frame;
use super::{KafkaSink, SinkOptions};
use crate::source::tests::table;

#[test]
fn every_wrong_option_is_named() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "nothing"),
        (&[("scan.startup.mode", "latest-offset")], "nothing"),
        (&[("topic", "a;b")], "topic: several"),
        (&[("topic", "(none)"), ("topic-pattern", "a.*")], "topic-pattern: a table that is written has one"),
        (
            &[("sink.delivery-guarantee", "exactly-once")],
            "sink.transactional-id-prefix: missing; 'exactly-once' writes in transactions",
        ),
        (&[("sink.delivery-guarantee", "once")], "sink.delivery-guarantee: 'once' is not known"),
        (&[("sink.transactional-id-prefix", "x")], "sink.transactional-id-prefix: is for"),
        (&[("sink.partitioner", "com.example.P")], "sink.partitioner: 'com.example.P' is not known"),
        (
            &[("sink.partitioner", "round-robin"), ("key.fields", "v"), ("key.format", "raw")],
            "sink.partitioner: 'round-robin' is for rows without a key",
        ),
        (
            &[("sink.partitoner", "fixed")],
            "sink.partitoner: unknown option, did you mean 'sink.partitioner'?",
        ),
    ];
    for (options, expected) in cases {
        let table = table(&[("n", DataType::Int64)], options);
        let said = match KafkaSink.validate(&table, &OptionReader::new(&table)) {
            Ok(()) => "nothing".to_owned(),
            Err(error) => format!("{}: {}", error.key, error.message),
        };
        assert!(said.starts_with(expected), "{options:?}: {said}");
    }
}

#[test]
fn a_transaction_has_to_last_from_checkpoint_to_checkpoint() {
    let once = [("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", "x")];
    let open = |more: &[(&str, &str)], seconds| {
        let table = table(&[], &[&once, more].concat());
        let env = SinkEnvironment {
            is_checkpointed: true,
            checkpoint_interval: Some(Duration::from_secs(seconds)),
            ..SinkEnvironment::default()
        };
        KafkaSink.open(&table, &env, &OptionReader::new(&table)).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(open(&[], 899), Ok(()));
    assert!(open(&[], 900).unwrap_err().contains("'properties.transaction.timeout.ms' of table t: 900s"));
    let short = [("properties.transaction.timeout.ms", "60000")];
    assert_eq!(open(&short, 59), Ok(()));
    assert!(open(&short, 61).unwrap_err().contains("checkpoints more frequent"));
}

fn records_of(table: &TableSpec) -> Vec<(Option<String>, String)> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("v", DataType::Utf8, true),
        Field::new("n", DataType::Int64, true),
    ]));
    let rows = RecordBatch::try_new(
        schema,
        vec![
            Arc::new(StringArray::from(vec![Some("a\nb"), None])),
            Arc::new(Int64Array::from(vec![Some(1), None])),
        ],
    );
    let options = SinkOptions::read(&OptionReader::new(table)).unwrap();
    let mut bytes = Vec::new();
    KafkaEncoder::new(&options, &table.schema).encode(&rows.unwrap(), &mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let frames = std::iter::from_fn(|| Frame::take(&mut rest));
    frames.map(|frame| (frame.key.map(text), frame.value.map_or_else(|| "-".to_owned(), text))).collect()
}

#[test]
fn a_row_is_a_record_with_its_key() {
    let columns = [("n", DataType::Int64)];
    let keyed = [("key.fields", "n"), ("key.format", "csv")];
    let some = |key: &str| Some(key.to_owned());
    let json = [
        (some("1"), r#"{"v":"a\nb","n":1}"#.to_owned()),
        (some("\"\""), r#"{"v":null,"n":null}"#.to_owned()),
    ];
    assert_eq!(records_of(&table(&columns, &keyed)), json);
    let csv = [&keyed[..], &[("format", "csv"), ("value.fields-include", "EXCEPT_KEY")]].concat();
    let lines = records_of(&table(&columns, &csv));
    assert_eq!(lines[0], (some("1"), "\"a\nb\"".to_owned()));
    let raw = [&keyed[..], &[("format", "raw"), ("value.fields-include", "EXCEPT_KEY")]].concat();
    assert_eq!(records_of(&table(&columns, &raw))[1], (some("\"\""), "-".to_owned()));
}
