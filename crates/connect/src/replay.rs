//! Replay: rows of a file are offered at the pace of an ingestion-time column, times a speed factor.
//!
//! Open loop: the instant at which a row is due depends on the file and the start alone, never on how fast
//! rows are taken. A reader that comes late gets all rows due since, and their latency counts from when they
//! were due. Real delays and disorder of the data are kept, because only the ingestion time paces it.
//!
//! Start with [`ReplayOptions`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use laxity_graph::{EventClock, EventTime, ProcessingTime};

use crate::options::OptionReader;
use crate::pace::{Pace, TICK_DEFAULT};
use crate::reader::TableReader;
use crate::spread::{Spread, can_spread};
use crate::{
    ConnectError, MAX_BATCH_ROWS, OptionError, Scan, ScanEnvironment, ScanEvent, ScanSpec, ScannedBatch,
};

/// The options `laxity.replay.*`.
#[derive(Clone, Debug)]
pub(crate) struct ReplayOptions {
    /// Ingestion-time column: TIMESTAMP, or BIGINT milliseconds.
    time_column: usize,
    /// Milliseconds of the file that pass in one of the clock.
    speed: f64,
    /// Times the file is read; `None` is for ever.
    passes: Option<u64>,
    copies: usize,
    spread_keys: Vec<usize>,
    cache_bytes_max: u64,
    tick: Duration,
}

impl ReplayOptions {
    /// `None` if the table is not replayed.
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<Option<ReplayOptions>, OptionError> {
        let schema = &options.table().schema;
        let column = |key: &str, name: &str| {
            schema.index_of(name).map_err(|_| {
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                options.error(key, format!("no column '{name}'; the table has {}", names.join(", ")))
            })
        };
        let time_key = "laxity.replay.time-column";
        let time_column = options.text(time_key).map(|name| column(time_key, name)).transpose()?;
        let speed =
            options.parsed("laxity.replay.speed", "a factor above 0, such as '1' or '3600'", |text| {
                text.parse().ok().filter(|speed: &f64| *speed > 0.0 && speed.is_finite())
            })?;
        let passes =
            options.parsed("laxity.replay.loop", "a number of passes or 'forever'", |text| match text {
                "forever" => Some(None),
                number => number.parse().ok().filter(|passes| *passes > 0).map(Some),
            })?;
        let copies = options.parsed("laxity.replay.copies", "a whole number from 1 to 8192", |text| {
            text.parse().ok().filter(|copies| (1..=MAX_BATCH_ROWS).contains(copies))
        })?;
        let spread_key = "laxity.replay.spread-keys";
        let mut spread_keys = Vec::new();
        for name in
            options.text(spread_key).unwrap_or("").split(',').map(str::trim).filter(|name| !name.is_empty())
        {
            let index = column(spread_key, name)?;
            if !can_spread(schema.field(index)) {
                let message = format!(
                    "column '{name}' is {}; keys of STRING, SMALLINT, INT and BIGINT can be spread",
                    schema.field(index).data_type()
                );
                return Err(options.error(spread_key, message));
            }
            spread_keys.push(index);
        }
        let cache = options.bytes("laxity.replay.cache")?;
        let tick = options.duration("laxity.replay.tick")?;
        let Some(time_column) = time_column else {
            let set = options.table().options.keys().find(|key| key.starts_with("laxity.replay."));
            return match set {
                Some(key) => {
                    Err(options.error(key, format!("needs '{time_key}': the column that paces the replay")))
                }
                None => Ok(None),
            };
        };
        let field = schema.field(time_column);
        if !matches!(field.data_type(), DataType::Timestamp(..) | DataType::Int64) {
            let message = format!(
                "column '{}' is {}; a TIMESTAMP, or BIGINT milliseconds, is needed",
                field.name(),
                field.data_type()
            );
            return Err(options.error(time_key, message));
        }
        Ok(Some(ReplayOptions {
            time_column,
            speed: speed.unwrap_or(1.0),
            passes: passes.unwrap_or(Some(1)),
            copies: copies.unwrap_or(1),
            spread_keys,
            cache_bytes_max: cache.unwrap_or(256 << 20),
            tick: tick.unwrap_or(TICK_DEFAULT),
        }))
    }
}

/// Opens a replay over the reader that `open_reader` makes for the columns it is given.
pub(crate) fn open_scan(
    spec: &ScanSpec,
    env: &ScanEnvironment,
    options: ReplayOptions,
    open_reader: impl FnOnce(Vec<usize>) -> Result<TableReader, ConnectError>,
) -> Result<Box<dyn Scan>, ConnectError> {
    // The time column is read even where no query asks for it. It comes last then, and is cut off.
    let mut columns = spec.columns.clone();
    let time_index = columns.iter().position(|column| *column == options.time_column).unwrap_or_else(|| {
        columns.push(options.time_column);
        columns.len() - 1
    });
    let is_shifted = |column: &usize| {
        *column == options.time_column
            || matches!(spec.table.schema.field(*column).data_type(), DataType::Timestamp(..))
    };
    let indices = |wanted: &dyn Fn(&usize) -> bool| -> Vec<usize> {
        spec.columns.iter().enumerate().filter(|(_, column)| wanted(column)).map(|(index, _)| index).collect()
    };
    let spread = Spread {
        copies: options.copies,
        shifted: indices(&is_shifted),
        keys: indices(&|column| options.spread_keys.contains(column)),
    };
    let caches = options.passes != Some(1);
    let mut scan = ReplayScan {
        reader: open_reader(columns)?,
        output: (0..spec.columns.len()).collect(),
        time_index,
        spread,
        pace: Pace { start: env.start, tick: options.tick },
        cache: caches.then(VecDeque::new),
        cached_bytes: 0,
        pass: 0,
        passed: Passed::default(),
        first_ms: None,
        current: None,
        next_cached: 0,
        row: 0,
        ended: false,
        rows_to_skip: env.skip_rows,
        options,
    };
    // The pace needs the first row.
    scan.load()?;
    Ok(Box::new(scan))
}

/// See the module. Position: `row` of `current` in pass `pass` is offered next.
struct ReplayScan {
    reader: TableReader,
    /// Columns of a decoded batch that are delivered.
    output: Vec<usize>,
    time_index: usize,
    spread: Spread,
    options: ReplayOptions,
    pace: Pace,
    /// All decoded batches, for the passes to come; `None` if there are none or memory does not suffice.
    cache: Option<VecDeque<Arc<TimedBatch>>>,
    cached_bytes: u64,
    pass: u64,
    passed: Passed,
    /// The time of the first row of the file that has one.
    first_ms: Option<i64>,
    current: Option<Arc<TimedBatch>>,
    next_cached: usize,
    row: usize,
    ended: bool,
    /// Delivered rows still to leave out.
    rows_to_skip: u64,
}

/// Rows with the times at which they are due.
struct TimedBatch {
    rows: RecordBatch,
    /// The highest time column so far: a row out of order is due with the rows around it.
    due_ms: Vec<i64>,
}

/// What a pass has seen; complete when its last batch is loaded.
#[derive(Clone, Copy, Default)]
struct Passed {
    /// Rows loaded.
    rows: u64,
    /// `None` until a row has a time.
    max_ms: Option<i64>,
    /// Distance between two passes. Known after the first one.
    span_ms: i64,
    /// Rows of a whole pass. Known after the first one.
    rows_total: u64,
}

impl Scan for ReplayScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        self.skip()?;
        let Some(batch) = self.load()? else { return Ok(ScanEvent::End) };
        let next_due = self.due(batch.due_ms[self.row]);
        let Some(released) = self.pace.released(now).filter(|released| next_due <= *released) else {
            return Ok(ScanEvent::NotBefore(self.pace.release(next_due)));
        };
        let limit = (MAX_BATCH_ROWS / self.options.copies).max(1).min(batch.rows.num_rows() - self.row);
        let ahead = &batch.due_ms[self.row..self.row + limit];
        let count = ahead.partition_point(|due_ms| self.due(*due_ms) <= released);
        let arrival = self.due(ahead[count - 1]);
        let rows = batch
            .rows
            .slice(self.row, count)
            .project(&self.output)
            .expect("the output is a part of the columns");
        let mut rows = self.spread.apply(&rows, self.pass, self.shift_ms());
        self.advance(&batch, count);
        if self.rows_to_skip > 0 {
            let skipped = self.rows_to_skip as usize;
            rows = rows.slice(skipped, rows.num_rows() - skipped);
            self.rows_to_skip = 0;
        }
        Ok(ScanEvent::Batch(ScannedBatch { rows, arrival }))
    }

    fn event_clock(&self) -> Option<EventClock> {
        self.first_ms.map(|first_ms| EventClock {
            event_origin: EventTime(first_ms),
            processing_origin: self.pace.start,
            speed: self.options.speed,
        })
    }

    fn dead_rows(&self) -> u64 {
        self.reader.dead_rows()
    }

    fn progress(&self) -> Option<f64> {
        let passes = self.options.passes?;
        if self.ended {
            return Some(1.0);
        }
        let part = match self.passed.rows_total {
            0 => self.reader.progress(),
            total => {
                let waiting = self.current.as_ref().map_or(0, |batch| batch.rows.num_rows() - self.row);
                (self.passed.rows - waiting as u64) as f64 / total as f64
            }
        };
        Some((self.pass as f64 + part) / passes as f64)
    }
}

impl ReplayScan {
    /// When a row of the current pass is due.
    fn due(&self, due_ms: i64) -> ProcessingTime {
        let first_ms = self.first_ms.unwrap_or(due_ms);
        // Rows before the first one that has a time are due at once.
        let ahead_ms = due_ms.saturating_sub(first_ms).max(0) as f64 + self.shift_ms() as f64;
        self.pace.start.plus_ns((ahead_ms * 1e6 / self.options.speed) as u64)
    }

    fn shift_ms(&self) -> i64 {
        (self.pass as i64).saturating_mul(self.passed.span_ms)
    }

    fn advance(&mut self, batch: &TimedBatch, count: usize) {
        self.row += count;
        if self.row == batch.rows.num_rows() {
            self.current = None;
        }
    }

    /// Leaves out whole rows of the file; what is left of `rows_to_skip` are copies of one row.
    fn skip(&mut self) -> Result<(), ConnectError> {
        let copies = self.options.copies as u64;
        while self.rows_to_skip >= copies {
            let Some(batch) = self.load()? else { return Ok(()) };
            let left = (batch.rows.num_rows() - self.row) as u64;
            let count = left.min(self.rows_to_skip / copies);
            self.rows_to_skip -= count * copies;
            self.advance(&batch, count as usize);
        }
        Ok(())
    }

    /// The batch that holds the next row; `None` at the end of the last pass.
    fn load(&mut self) -> Result<Option<Arc<TimedBatch>>, ConnectError> {
        while self.current.is_none() && !self.ended {
            self.current = self.next_batch()?;
            self.row = 0;
            match &self.current {
                Some(batch) => self.passed.rows += batch.rows.num_rows() as u64,
                None => self.end_pass(),
            }
        }
        Ok(self.current.clone())
    }

    fn next_batch(&mut self) -> Result<Option<Arc<TimedBatch>>, ConnectError> {
        if let (Some(cache), true) = (&self.cache, self.pass > 0) {
            self.next_cached += 1;
            return Ok(cache.get(self.next_cached - 1).cloned());
        }
        let Some(rows) = self.reader.next()? else { return Ok(None) };
        let batch = Arc::new(self.timed(rows));
        if let Some(cache) = &mut self.cache {
            self.cached_bytes += (batch.rows.get_array_memory_size() + batch.due_ms.len() * 8) as u64;
            cache.push_back(Arc::clone(&batch));
            if self.cached_bytes > self.options.cache_bytes_max {
                self.cache = None;
            }
        }
        Ok(Some(batch))
    }

    fn end_pass(&mut self) {
        if self.pass == 0 {
            self.passed.rows_total = self.passed.rows;
            self.passed.span_ms = self.span_ms();
        }
        self.pass += 1;
        if self.passed.rows_total > 0 {
            // Whole passes need not be loaded to be left out.
            let offered = self.passed.rows_total * self.options.copies as u64;
            let left = self.options.passes.map_or(u64::MAX, |passes| passes - self.pass);
            let passes = (self.rows_to_skip / offered).min(left);
            self.pass += passes;
            self.rows_to_skip -= passes * offered;
        }
        self.ended = self.passed.rows_total == 0 || self.options.passes == Some(self.pass);
        if self.ended {
            return;
        }
        self.passed.rows = 0;
        self.passed.max_ms = None;
        self.next_cached = 0;
        if self.cache.is_none() {
            self.reader.rewind();
        }
    }

    /// From the first row of a pass to the first one of the next, which follows the last one at the mean
    /// distance of two rows.
    fn span_ms(&self) -> i64 {
        let (Some(first), Some(max)) = (self.first_ms, self.passed.max_ms) else { return 1 };
        let length = max.saturating_sub(first);
        let gaps = i64::try_from(self.passed.rows).unwrap_or(i64::MAX).saturating_sub(1).max(1);
        length.saturating_add((length / gaps).max(1))
    }

    fn timed(&mut self, rows: RecordBatch) -> TimedBatch {
        let mut max_ms = self.passed.max_ms;
        let mut due_ms = Vec::with_capacity(rows.num_rows());
        for time_ms in times_ms(&rows, self.time_index) {
            if let Some(time_ms) = time_ms {
                self.first_ms.get_or_insert(time_ms);
                max_ms = Some(max_ms.map_or(time_ms, |max| max.max(time_ms)));
            }
            due_ms.push(max_ms.unwrap_or(i64::MIN));
        }
        self.passed.max_ms = max_ms;
        TimedBatch { rows, due_ms }
    }
}

fn times_ms(rows: &RecordBatch, column: usize) -> Vec<Option<i64>> {
    let column = rows.column(column);
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => column
            .as_primitive::<TimestampSecondType>()
            .iter()
            .map(|time| time.map(|s| s.saturating_mul(1_000)))
            .collect(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().iter().collect()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => column
            .as_primitive::<TimestampMicrosecondType>()
            .iter()
            .map(|time| time.map(|us| us.div_euclid(1_000)))
            .collect(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => column
            .as_primitive::<TimestampNanosecondType>()
            .iter()
            .map(|time| time.map(|ns| ns.div_euclid(1_000_000)))
            .collect(),
        _ => column.as_primitive::<Int64Type>().iter().collect(),
    }
}

#[cfg(test)]
mod tests;
