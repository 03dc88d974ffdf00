//! How fast one thread reads rows from disk into Arrow, and how long it is at it in one go: CSV of 54 bytes a row,
//! JSON lines of 90 and Parquet.
//!
//! `cargo run --release -p laxity-connect --example decode_speed [ROWS] [FOLDER]`. The files are written to the
//! folder (default: the system's temporary one) and read from the page cache, three times each; the best is
//! what the decoder can do, and the spread says how quiet the machine was.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use laxity_connect::{
    Preparation, ScanEnvironment, ScanEvent, ScanSpec, SinkEnvironment, SinkSpec, TableSpec, open_scan,
    open_sink,
};
use laxity_graph::{EventTime, ProcessingTime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join("laxity-decode-speed");
    std::fs::create_dir_all(&folder)?;
    write_csv(&folder.join("rows.csv"), rows)?;
    write_json(&folder.join("rows.json"), rows)?;
    pack(&folder.join("rows.csv"), &folder.join("rows.csv.gz"))?;
    let parquet = table(&folder, "parquet", "rows.parquet", &[]);
    copy(&table(&folder, "csv", "rows.csv", &[]), &parquet)?;
    for (what, table, columns) in [
        ("csv", table(&folder, "csv", "rows.csv", &[]), vec![0, 1, 2, 3, 4]),
        ("csv, 2 of 5 columns", table(&folder, "csv", "rows.csv", &[]), vec![0, 3]),
        ("csv.gz", table(&folder, "csv", "rows.csv.gz", &[]), vec![0, 1, 2, 3, 4]),
        ("json", table(&folder, "json", "rows.json", &[]), vec![0, 1, 2, 3, 4]),
        ("json, 2 of 5 columns", table(&folder, "json", "rows.json", &[]), vec![0, 3]),
        ("parquet", parquet, vec![0, 1, 2, 3, 4]),
        (
            "csv, replayed at once",
            table(
                &folder,
                "csv",
                "rows.csv",
                &[("laxity.replay.time-column", "ts"), ("laxity.replay.speed", "1e12")],
            ),
            vec![0, 1, 2, 3, 4],
        ),
    ] {
        let bytes = std::fs::metadata(folder.join(&table.options["path"]))?.len();
        let (mut rates, mut cpu_rates) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (read, seconds, cpu_seconds) = time(&table, &columns)?;
            assert_eq!(read, rows, "every row is read");
            rates.push(read as f64 / seconds / 1e6);
            cpu_rates.push(read as f64 / cpu_seconds / 1e6);
        }
        println!(
            "{what:24} {:6.2} M rows per second of the CPU, {:6.2} of the clock (best of 3: {rates:.2?}), {:4.0} bytes a row",
            best(&cpu_rates),
            best(&rates),
            bytes as f64 / rows as f64
        );
        let [p50, p99, p999] = steps_us(&table, &columns)?;
        println!("{:24} a step: p50 {p50:.0} us, p99 {p99:.0} us, p99.9 {p999:.0} us", "");
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn best(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

/// Rows read, seconds of the clock, and seconds that this thread ran: on a busy machine only the last tells
/// what decoding costs.
#[allow(clippy::disallowed_methods)]
fn time(table: &Arc<TableSpec>, columns: &[usize]) -> Result<(usize, f64, f64), Box<dyn std::error::Error>> {
    let (started, cpu_started) = (Instant::now(), cpu_seconds());
    let spec = ScanSpec { table: Arc::clone(table), columns: columns.to_vec() };
    let mut scan = open_scan(&spec, &ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0)))?;
    let mut rows = 0;
    while let ScanEvent::Batch(batch) = scan.poll(ProcessingTime(u64::MAX / 2))? {
        rows += batch.rows.num_rows();
    }
    Ok((rows, started.elapsed().as_secs_f64(), cpu_seconds() - cpu_started))
}

/// Percentiles of what a call of `prepare` takes by the clock, because Linux accounts for the CPU by ticks. Not its
/// maximum: that is the machine's.
#[allow(clippy::disallowed_methods)]
fn steps_us(table: &Arc<TableSpec>, columns: &[usize]) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let spec = ScanSpec { table: Arc::clone(table), columns: columns.to_vec() };
    let mut scan = open_scan(&spec, &ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0)))?;
    let mut steps = Vec::new();
    loop {
        let mut preparation = Preparation::More;
        while preparation == Preparation::More {
            let started = Instant::now();
            preparation = scan.prepare()?;
            steps.push(started.elapsed().as_secs_f64() * 1e6);
        }
        let ScanEvent::Batch(_) = scan.poll(ProcessingTime(u64::MAX / 2))? else { break };
    }
    steps.sort_by(f64::total_cmp);
    Ok([0.5, 0.99, 0.999].map(|share| steps[(share * (steps.len() - 1) as f64) as usize]))
}

/// Not a number where Linux's accounting is missing.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).map_or(f64::NAN, |ns: f64| ns / 1e9)
}

fn pack(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut packer = flate2::write::GzEncoder::new(File::create(to)?, flate2::Compression::default());
    std::io::copy(&mut File::open(from)?, &mut packer)?;
    packer.finish().map(drop)
}

fn copy(from: &Arc<TableSpec>, to: &Arc<TableSpec>) -> Result<(), Box<dyn std::error::Error>> {
    let spec = ScanSpec { table: Arc::clone(from), columns: (0..from.schema.fields().len()).collect() };
    let mut scan = open_scan(&spec, &ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0)))?;
    let mut sink = open_sink(&SinkSpec { table: Arc::clone(to) }, &SinkEnvironment::default())?;
    while let ScanEvent::Batch(batch) = scan.poll(ProcessingTime::ZERO)? {
        sink.write(&batch.rows)?;
    }
    Ok(sink.close()?)
}

fn table(folder: &Path, format: &str, path: &str, more: &[(&str, &str)]) -> Arc<TableSpec> {
    let schema = Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("key", DataType::Int64, true),
        Field::new("price", DataType::Float64, true),
        Field::new("amount", DataType::Int32, true),
        Field::new("name", DataType::Utf8, true),
    ]);
    let mut options: BTreeMap<String, String> =
        more.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    for (key, value) in [("connector", "filesystem"), ("path", path), ("format", format)] {
        options.insert(key.to_owned(), value.to_owned());
    }
    Arc::new(TableSpec {
        name: "rows".to_owned(),
        schema: Arc::new(schema),
        options,
        base: folder.to_owned(),
    })
}

/// Time (1 ms apart), key, price, amount and name of a made-up row.
fn row(index: usize) -> (String, usize, f64, usize, usize) {
    let (seconds, ms) = (index / 1_000, index % 1_000);
    let time = format!(
        "2013-01-01 {:02}:{:02}:{:02}.{ms:03}",
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60
    );
    let scrambled = index.wrapping_mul(2_654_435_761) % 100_000;
    (time, scrambled, scrambled as f64 / 100.0, index % 1_000, scrambled % 1_000)
}

fn write_csv(path: &Path, rows: usize) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for index in 0..rows {
        let (time, key, price, amount, name) = row(index);
        writeln!(file, "{time},{key:05},{price:06.2},{amount},customer-{name:03}")?;
    }
    file.flush()
}

fn write_json(path: &Path, rows: usize) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for index in 0..rows {
        let (time, key, price, amount, name) = row(index);
        writeln!(
            file,
            "{{\"ts\":\"{time}\",\"key\":{key},\"price\":{price},\"amount\":{amount},\"name\":\"c-{name:03}\"}}"
        )?;
    }
    file.flush()
}
