//! `datagen`: made-up rows at a fixed rate, with Flink's options. Row `n` is due at start + n / rate, and its
//! values depend on the seed, the column and `n` alone: however late or in whatever pieces it is read, the
//! rows are the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use laxity_graph::{EventClock, EventTime, ProcessingTime, fetch};

use self::column::Generator;
use crate::options::OptionReader;
use crate::pace::{Pace, TICK_DEFAULT};
use crate::{
    ConnectError, Connector, GENERATOR_OPENING_NS, MAX_BATCH_ROWS, OptionError, Scan, ScanEnvironment,
    ScanEvent, ScanSpec, ScannedBatch, SourceConnector, TableSpec,
};

mod column;

struct DatagenOptions {
    rows_per_second: u64,
    rows: Option<u64>,
    tick: Duration,
    /// By column.
    generators: BTreeMap<usize, Generator>,
}

impl DatagenOptions {
    fn read(options: &OptionReader<'_>) -> Result<DatagenOptions, OptionError> {
        let rows_per_second = options.count("rows-per-second", 1)?.unwrap_or(10_000);
        let mut rows = options.count("number-of-rows", 0)?;
        let seed = options.count("laxity.datagen.seed", 0)?.unwrap_or(0);
        let tick = options.duration("laxity.replay.tick")?.unwrap_or(TICK_DEFAULT);
        let mut generators = BTreeMap::new();
        for (index, field) in options.table().schema.fields().iter().enumerate() {
            let (generator, length) = Generator::read(field, seed, index as u64, options)?;
            // The shortest sequence ends the source, as in Flink.
            rows = match (rows, length) {
                (Some(rows), Some(length)) => Some(rows.min(length)),
                (rows, length) => rows.or(length),
            };
            generators.insert(index, generator);
        }
        options.finish()?;
        Ok(DatagenOptions { rows_per_second, rows, tick, generators })
    }
}

/// `'connector' = 'datagen'`.
pub(crate) struct Datagen;

impl Connector for Datagen {
    fn name(&self) -> &'static str {
        "datagen"
    }

    fn source(&self) -> Option<&dyn SourceConnector> {
        Some(self)
    }
}

impl SourceConnector for Datagen {
    fn validate(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        DatagenOptions::read(options).map(drop)
    }

    fn open(
        &self,
        spec: &ScanSpec,
        env: &ScanEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<Box<dyn Scan>, ConnectError> {
        open_scan(spec, env, options)
    }

    fn is_bounded(&self, table: &TableSpec) -> bool {
        let is_sequence = |(key, kind): (&String, &String)| {
            key.starts_with("fields.") && key.ends_with(".kind") && kind == "sequence"
        };
        table.options.contains_key("number-of-rows") || table.options.iter().any(is_sequence)
    }

    fn opening_ns(&self) -> u64 {
        GENERATOR_OPENING_NS
    }
}

fn open_scan(
    spec: &ScanSpec,
    env: &ScanEnvironment,
    options: &OptionReader<'_>,
) -> Result<Box<dyn Scan>, ConnectError> {
    let mut options = DatagenOptions::read(options)?;
    let fields: Vec<Arc<Field>> =
        spec.columns.iter().map(|&column| spec.table.schema.fields()[column].clone()).collect();
    let generators: Vec<Generator> =
        spec.columns.iter().filter_map(|column| options.generators.remove(column)).collect();
    let row_bytes: u64 = generators.iter().map(Generator::value_bytes).sum();
    Ok(Box::new(DatagenScan {
        schema: Arc::new(Schema::new(fields)),
        generators,
        rows_per_second: options.rows_per_second,
        rows: options.rows,
        pace: Pace { start: env.start, tick: options.tick },
        start_wall: env.start_wall,
        first_due: env.first_due_row(),
        next: env.skip_rows,
        batch_rows_max: (BATCH_BYTES_MAX / row_bytes.max(1)).clamp(1, MAX_BATCH_ROWS as u64),
    }))
}

struct DatagenScan {
    schema: SchemaRef,
    generators: Vec<Generator>,
    rows_per_second: u64,
    rows: Option<u64>,
    pace: Pace,
    start_wall: EventTime,
    /// Number of the row that is due at the start.
    first_due: u64,
    /// Number of the next row.
    next: u64,
    batch_rows_max: u64,
}

/// What is made at once: about a millisecond's work, and far from where the offsets of a text column overflow.
const BATCH_BYTES_MAX: u64 = 1 << 20;

impl Scan for DatagenScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        let left = self.rows.map_or(u64::MAX, |rows| rows.saturating_sub(self.next));
        if left == 0 {
            return Ok(ScanEvent::End);
        }
        let next_due = self.due(self.next);
        let Some(released) = self.pace.released(now).filter(|released| next_due <= *released) else {
            return Ok(ScanEvent::NotBefore(self.pace.release(next_due)));
        };
        let due_rows = self.rows_due_by(released) - self.next;
        let count = due_rows.min(left).min(self.batch_rows_max);
        let arrival = self.due(self.next + count - 1);
        let rows = self.generate(count as usize)?;
        self.next += count;
        Ok(ScanEvent::Batch(ScannedBatch { rows, arrival }))
    }

    fn fetch(&self) {
        fetch(&self.generators[..]);
        fetch(&*self.schema);
    }

    fn event_clock(&self) -> Option<EventClock> {
        let event_origin = EventTime(self.wall_ms(self.first_due));
        Some(EventClock { event_origin, processing_origin: self.pace.start, speed: 1.0 })
    }

    fn progress(&self) -> Option<f64> {
        self.rows.map(|rows| (self.next as f64 / rows.max(1) as f64).min(1.0))
    }
}

impl DatagenScan {
    fn due(&self, row: u64) -> ProcessingTime {
        self.pace.start.plus_ns(self.since_first_ns(row).saturating_sub(self.since_first_ns(self.first_due)))
    }

    /// From the first row of all to this one.
    fn since_first_ns(&self, row: u64) -> u64 {
        const NS_PER_S: u64 = 1_000_000_000;
        // A division of 128 bits is ten times as dear, and this is done for each row.
        if let Some(ns) = row.checked_mul(NS_PER_S) {
            return ns / self.rows_per_second;
        }
        let ns = u128::from(row) * u128::from(NS_PER_S) / u128::from(self.rows_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// What a row is stamped with: it depends on its number alone, wherever reading began.
    fn wall_ms(&self, row: u64) -> i64 {
        self.start_wall.0 + (self.since_first_ns(row) / 1_000_000) as i64
    }

    /// Rows whose due instant, rounded down to a nanosecond as above, is `by` or before.
    fn rows_due_by(&self, by: ProcessingTime) -> u64 {
        let ns = u128::from(by.since_ns(self.pace.start)) + u128::from(self.since_first_ns(self.first_due));
        let rows = ((ns + 1) * u128::from(self.rows_per_second)).div_ceil(1_000_000_000);
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    fn generate(&self, count: usize) -> Result<RecordBatch, ConnectError> {
        let wall_ms = |row: u64| self.wall_ms(row);
        let columns: Vec<ArrayRef> =
            self.generators.iter().map(|generator| generator.column(self.next, count, &wall_ms)).collect();
        let size = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &size)
            .expect("columns are generated from the schema"))
    }
}

/// The types that have a generator.
fn is_supported(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal128(..)
            | Date32
            | Time32(_)
            | Timestamp(..)
            | Utf8
    )
}

#[cfg(test)]
mod tests;
