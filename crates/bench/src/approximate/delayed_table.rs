//! Rows in memory whose events lie before their arrival, by a law of delays, and whose pace is given.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMillisecondArray};
use laxity_connect::{ConnectError, Scan, ScanEnvironment, ScanEvent, ScanSpec, ScannedBatch};
use laxity_graph::{EventClock, EventTime, ProcessingTime};

/// About where trips begin: longitude and latitude.
pub const MIDDLE: (f64, f64) = (-73.98, 40.75);

/// How rows of a table come.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Rows per second of event time, and for how many seconds, one stretch after the other.
    pub stretches: Vec<(f64, f64)>,
    /// Mean of the exponential delay, ms of event time; none is longer than 3 s, which the table's watermark waits.
    pub delay_ms: f64,
    /// Seconds of event time per second.
    pub speed: f64,
    /// Which rows.
    pub seed: u64,
}

/// A table's rows by arrival.
#[derive(Clone, Debug)]
pub struct DelayedTable {
    /// (k, x, y, u, v, ts), what arrives within 10 ms of the clock together, and when that is, ns from the start.
    batches: Arc<Vec<(u64, RecordBatch)>>,
    speed: f64,
}

const DELAY_MAX_MS: f64 = 2_999.0;
const TICK_NS: f64 = 10e6;

impl DelayedTable {
    /// Makes the rows; event time begins at 0.
    pub fn new(pace: &Pace) -> DelayedTable {
        let mut dice = Dice(pace.seed);
        let mut rows: Vec<Trip> = Vec::new();
        let mut begins_ms = 0.0;
        for &(rate, seconds) in &pace.stretches {
            for number in 0..(rate * seconds) as usize {
                rows.push(Trip::new(&mut dice, begins_ms + number as f64 * 1e3 / rate, pace.delay_ms));
            }
            begins_ms += seconds * 1e3;
        }
        rows.sort_by(|a, b| a.arrival_ms.total_cmp(&b.arrival_ms));
        let due_ns = |trip: &Trip| ((trip.arrival_ms * 1e6 / pace.speed / TICK_NS).ceil() * TICK_NS) as u64;
        let batches =
            rows.chunk_by(|a, b| due_ns(a) == due_ns(b)).map(|rows| (due_ns(&rows[0]), batch(rows)));
        DelayedTable { batches: Arc::new(batches.collect()), speed: pace.speed }
    }

    /// Its batches with their arrival, ns from the start.
    pub fn batches(&self) -> &[(u64, RecordBatch)] {
        &self.batches
    }

    /// A scan of it, as `Engine::provide` wants it.
    pub fn opener(
        &self,
    ) -> impl Fn(&ScanSpec, &ScanEnvironment) -> Result<Box<dyn Scan>, ConnectError> + Send + Sync + 'static
    {
        let table = self.clone();
        move |spec, environment| {
            let table = table.clone();
            Ok(Box::new(DelayedScan {
                table,
                columns: spec.columns.clone(),
                start: environment.start,
                next: 0,
            }))
        }
    }
}

struct DelayedScan {
    table: DelayedTable,
    columns: Vec<usize>,
    start: ProcessingTime,
    next: usize,
}

impl Scan for DelayedScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        let Some((due_ns, rows)) = self.table.batches.get(self.next) else { return Ok(ScanEvent::End) };
        let arrival = self.start.plus_ns(*due_ns);
        if arrival > now {
            return Ok(ScanEvent::NotBefore(arrival));
        }
        self.next += 1;
        let rows = rows.project(&self.columns).expect("columns of the table");
        Ok(ScanEvent::Batch(ScannedBatch { rows, arrival }))
    }

    fn event_clock(&self) -> Option<EventClock> {
        Some(EventClock {
            event_origin: EventTime(0),
            processing_origin: self.start,
            speed: self.table.speed,
        })
    }

    fn progress(&self) -> Option<f64> {
        Some(self.next as f64 / self.table.batches.len().max(1) as f64)
    }
}

struct Trip {
    arrival_ms: f64,
    time_ms: i64,
    key: i64,
    from: (f64, f64),
    to: (f64, f64),
}

impl Trip {
    fn new(dice: &mut Dice, time_ms: f64, delay_ms: f64) -> Trip {
        let from = (MIDDLE.0 + 0.05 * dice.normal(), MIDDLE.1 + 0.05 * dice.normal());
        // An exponential distance in any direction.
        let (reach, angle) = (-0.03 * dice.uniform().ln(), std::f64::consts::TAU * dice.uniform());
        Trip {
            arrival_ms: time_ms + (-delay_ms * dice.uniform().ln()).min(DELAY_MAX_MS),
            time_ms: time_ms as i64,
            key: (dice.uniform() * 100.0) as i64,
            from,
            to: (from.0 + reach * angle.cos(), from.1 + reach * angle.sin()),
        }
    }
}

fn batch(trips: &[Trip]) -> RecordBatch {
    let double =
        |of: fn(&Trip) -> f64| Arc::new(Float64Array::from_iter_values(trips.iter().map(of))) as ArrayRef;
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(trips.iter().map(|trip| trip.key)));
    let ts: ArrayRef =
        Arc::new(TimestampMillisecondArray::from_iter_values(trips.iter().map(|trip| trip.time_ms)));
    RecordBatch::try_from_iter([
        ("k", k),
        ("x", double(|trip| trip.from.0)),
        ("y", double(|trip| trip.from.1)),
        ("u", double(|trip| trip.to.0)),
        ("v", double(|trip| trip.to.1)),
        ("ts", ts),
    ])
    .expect("six equal columns")
}

/// Splitmix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    /// Above 0, to 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::TimestampMillisecondType;

    use super::*;

    #[test]
    fn rows_come_after_their_events_and_at_their_pace() {
        let stretches = vec![(1_000.0, 2.0), (100.0, 1.0)];
        let table = DelayedTable::new(&Pace { stretches, delay_ms: 100.0, speed: 2.0, seed: 1 });
        let mut count = 0;
        let mut delays_ms = 0.0;
        for (due_ns, rows) in table.batches() {
            let arrival_ms = *due_ns as f64 / 1e6 * 2.0;
            for time_ms in rows.column(5).as_primitive::<TimestampMillisecondType>().values() {
                // What comes within a tick of 10 ms, 20 ms of event time, comes at its end.
                assert!(arrival_ms >= *time_ms as f64 && arrival_ms < *time_ms as f64 + DELAY_MAX_MS + 22.0);
                delays_ms += arrival_ms - *time_ms as f64;
                count += 1;
            }
        }
        assert_eq!(count, 2_100);
        let mean_ms = delays_ms / 2_100.0;
        assert!((95.0..125.0).contains(&mean_ms), "{mean_ms}");
        assert!(table.batches().is_sorted_by_key(|(due_ns, _)| *due_ns));
    }
}
