//! Tables and files for tests.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use laxity_graph::{EventTime, ProcessingTime};

use crate::{ConnectError, Scan, ScanEnvironment, ScanEvent, ScanSpec, ScannedBatch, TableSpec, open_scan};

pub(crate) const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// A table with nullable columns; a name with `!` at its end is NOT NULL.
pub(crate) fn table(base: &Path, columns: &[(&str, DataType)], options: &[(&str, &str)]) -> Arc<TableSpec> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, data_type)| {
            Field::new(name.trim_end_matches('!'), data_type.clone(), !name.ends_with('!'))
        })
        .collect();
    Arc::new(TableSpec {
        name: "t".to_owned(),
        schema: Arc::new(Schema::new(fields)),
        options: options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        base: base.to_owned(),
    })
}

/// A table over a file of the folder.
pub(crate) fn file_table(
    base: &Path,
    format: &str,
    path: &str,
    columns: &[(&str, DataType)],
    more: &[(&str, &str)],
) -> Arc<TableSpec> {
    let mut options = vec![("connector", "filesystem"), ("path", path), ("format", format)];
    options.extend_from_slice(more);
    table(base, columns, &options)
}

pub(crate) fn all_columns(table: &Arc<TableSpec>) -> ScanSpec {
    ScanSpec { table: Arc::clone(table), columns: (0..table.schema.fields().len()).collect() }
}

/// A scan of all columns that starts at instant 0.
pub(crate) fn open(table: &Arc<TableSpec>) -> Result<Box<dyn Scan>, ConnectError> {
    open_scan(&all_columns(table), &ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0)))
}

/// All that is due by `now`, and what comes after it.
pub(crate) fn take_due(scan: &mut dyn Scan, now: ProcessingTime) -> (Vec<ScannedBatch>, ScanEvent) {
    let mut batches = Vec::new();
    loop {
        match scan.poll(now).expect("readable") {
            ScanEvent::Batch(batch) => batches.push(batch),
            other => return (batches, other),
        }
    }
}

/// All rows of a source without pace, in one batch.
pub(crate) fn drain(scan: &mut dyn Scan) -> RecordBatch {
    let (batches, end) = take_due(scan, ProcessingTime::ZERO);
    assert!(matches!(end, ScanEvent::End));
    let rows: Vec<RecordBatch> = batches.into_iter().map(|batch| batch.rows).collect();
    concat_batches(&rows.first().expect("at least one row").schema(), &rows).expect("one schema")
}

/// Rows as `a|b` lines, null as `NULL`.
pub(crate) fn lines(rows: &RecordBatch) -> Vec<String> {
    let options = arrow::util::display::FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = rows
        .columns()
        .iter()
        .map(|column| arrow::util::display::ArrayFormatter::try_new(column, &options).expect("printable"))
        .collect();
    (0..rows.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"))
        .collect()
}

/// The dead letters as `line: reason: raw`.
pub(crate) fn dead_letters(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("dead letters were asked for");
    text.lines()
        .map(|line| {
            let letter: serde_json::Value = serde_json::from_str(line).expect("JSON lines");
            format!(
                "{}: {}: {}",
                letter["line"],
                letter["reason"].as_str().unwrap(),
                letter["raw"].as_str().unwrap()
            )
        })
        .collect()
}
