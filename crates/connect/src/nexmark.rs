//! `nexmark`: people, auctions and bids of an online auction house, with the options of Nexmark's own connector for Flink
//! and its mix of events. Event `n` depends on the options, the seed and `n` alone, however it is read.

mod columns;
mod event;

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use laxity_graph::{EventClock, EventTime, ProcessingTime};

use self::columns::Column;
use self::event::Mix;
use crate::options::OptionReader;
use crate::pace::{Pace, TICK_DEFAULT};
use crate::timestamp::parse_timestamp;
use crate::{
    ConnectError, Connector, GENERATOR_OPENING_NS, MAX_BATCH_ROWS, OptionError, Scan, ScanEnvironment,
    ScanEvent, ScanSpec, ScannedBatch, SourceConnector, TableSpec,
};

#[derive(Debug)]
struct NexmarkOptions {
    mix: Mix,
    /// `None`: no end.
    events: Option<u64>,
    /// Rows wait until they are due.
    is_paced: bool,
    /// Event time of event 0, in milliseconds. `None`: the start of the engine.
    base_ms: Option<i64>,
}

impl NexmarkOptions {
    fn read(options: &OptionReader<'_>) -> Result<NexmarkOptions, OptionError> {
        let least_one = |key: &str, default: u64| Ok(options.count(key, 1)?.unwrap_or(default));
        let bytes = |key: &str, default: u64| Ok(options.bytes(key)?.unwrap_or(default));
        let defaults = Mix::default();
        let mix = Mix {
            events_per_s: least_one("first-event.rate", defaults.events_per_s)?,
            people: least_one("person.proportion", defaults.people)?,
            auctions: least_one("auction.proportion", defaults.auctions)?,
            bids: options.count("bid.proportion", 0)?.unwrap_or(defaults.bids),
            person_bytes: bytes("person.avg-size", defaults.person_bytes)?,
            auction_bytes: bytes("auction.avg-size", defaults.auction_bytes)?,
            bid_bytes: bytes("bid.avg-size", defaults.bid_bytes)?,
            hot_auctions: least_one("bid.hot-ratio.auctions", defaults.hot_auctions)?,
            hot_bidders: least_one("bid.hot-ratio.bidders", defaults.hot_bidders)?,
            hot_sellers: least_one("auction.hot-ratio.sellers", defaults.hot_sellers)?,
            seed: options.count("laxity.nexmark.seed", 0)?.unwrap_or(0),
        };
        // A rate that changes is an option of Nexmark's own connector too, and changes nothing there either.
        least_one("next-event.rate", 1)?;
        options.duration("rate.period")?;
        options.choice("rate.shape", &[("SQUARE", ()), ("SINE", ())])?;
        let is_limited = options.boolean("rate.limited")?.unwrap_or(false);
        let at_once = options.boolean("max-emit-speed")?.unwrap_or(true);
        if options.boolean("keep-alive")? == Some(true) {
            return Err(
                options.error("keep-alive", "a source that has ended cannot stay; take 'events.num' out")
            );
        }
        let number = options.count("events.num", 0)?.filter(|number| *number > 0);
        let stop_at = options.parsed("stop-at", "a whole number", |text| text.parse::<i64>().ok())?;
        let stop_at = stop_at.and_then(|at| u64::try_from(at).ok());
        let base_ms =
            options.parsed("laxity.nexmark.base-time", "a time such as '2024-01-01 00:00:00'", |text| {
                parse_timestamp(text.as_bytes(), arrow::datatypes::TimeUnit::Millisecond)
            })?;
        options.finish()?;
        Ok(NexmarkOptions {
            mix,
            events: [number, stop_at].into_iter().flatten().min(),
            is_paced: is_limited || !at_once,
            base_ms,
        })
    }
}

fn columns(options: &OptionReader<'_>) -> Result<Vec<Column>, OptionError> {
    let fields = options.table().schema.fields().iter();
    fields.map(|field| Column::read(field).map_err(|wrong| options.error("connector", wrong))).collect()
}

/// `'connector' = 'nexmark'`.
pub(crate) struct Nexmark;

impl Connector for Nexmark {
    fn name(&self) -> &'static str {
        "nexmark"
    }

    fn source(&self) -> Option<&dyn SourceConnector> {
        Some(self)
    }
}

impl SourceConnector for Nexmark {
    fn validate(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        NexmarkOptions::read(options)?;
        columns(options).map(drop)
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
        let option = |key: &str| table.options.get(key);
        option("events.num").is_some_and(|number| number.trim() != "0")
            || option("stop-at").is_some_and(|at| at.trim() != "0" && !at.starts_with('-'))
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
    let NexmarkOptions { mix, events, is_paced, base_ms } = NexmarkOptions::read(options)?;
    let all = columns(options)?;
    let fields: Vec<Arc<Field>> =
        spec.columns.iter().map(|&column| spec.table.schema.fields()[column].clone()).collect();
    Ok(Box::new(NexmarkScan {
        schema: Arc::new(Schema::new(fields)),
        columns: spec.columns.iter().map(|&column| all[column].clone()).collect(),
        batch_rows_max: (BATCH_BYTES_MAX / mix.event_bytes_max()).clamp(1, MAX_BATCH_ROWS as u64),
        first_due_ns: mix.since_start_ns(env.first_due_row()),
        mix,
        events,
        pace: is_paced.then_some(Pace { start: env.start, tick: TICK_DEFAULT }),
        start: env.start,
        base_ms: base_ms.unwrap_or(env.start_wall.0),
        next: env.skip_rows,
    }))
}

/// What is made at once: about a millisecond's work.
const BATCH_BYTES_MAX: u64 = 1 << 20;

struct NexmarkScan {
    schema: SchemaRef,
    columns: Vec<Column>,
    mix: Mix,
    events: Option<u64>,
    pace: Option<Pace>,
    start: ProcessingTime,
    base_ms: i64,
    /// From the first event of all to the one that is due at the start.
    first_due_ns: u64,
    /// Number of the next event.
    next: u64,
    batch_rows_max: u64,
}

impl Scan for NexmarkScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        let left = self.events.map_or(u64::MAX, |events| events.saturating_sub(self.next));
        if left == 0 {
            return Ok(ScanEvent::End);
        }
        let mut count = left.min(self.batch_rows_max);
        let mut arrival = now;
        if let Some(pace) = self.pace {
            let next_due = self.due(self.next);
            let Some(released) = pace.released(now).filter(|released| next_due <= *released) else {
                return Ok(ScanEvent::NotBefore(pace.release(next_due)));
            };
            let due = self.mix.events_due_by(released.since_ns(self.start) + self.first_due_ns);
            count = count.min(due - self.next);
            arrival = self.due(self.next + count - 1);
        }
        let events: Vec<_> =
            (self.next..self.next + count).map(|n| self.mix.event(n, self.base_ms)).collect();
        self.next += count;
        let columns = self.columns.iter().map(|column| column.of(&events)).collect();
        let size = RecordBatchOptions::new().with_row_count(Some(events.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &size)
            .expect("columns are generated from the schema");
        Ok(ScanEvent::Batch(ScannedBatch { rows, arrival }))
    }

    fn event_clock(&self) -> Option<EventClock> {
        self.pace.map(|pace| EventClock {
            event_origin: EventTime(self.base_ms + (self.first_due_ns / 1_000_000) as i64),
            processing_origin: pace.start,
            speed: 1.0,
        })
    }

    fn progress(&self) -> Option<f64> {
        self.events.map(|events| (self.next as f64 / events.max(1) as f64).min(1.0))
    }
}

impl NexmarkScan {
    fn due(&self, event: u64) -> ProcessingTime {
        self.start.plus_ns(self.mix.since_start_ns(event).saturating_sub(self.first_due_ns))
    }
}

#[cfg(test)]
mod tests;
