//! How a few seconds that were recorded become arrivals for as long as the simulation lasts, at any rate.

use std::sync::Arc;

use laxity_graph::{EventClock, EventTime, ProcessingTime};
use laxity_workload::{Arrival, Arrivals, Offered};

/// What was recorded, over and over, at another rate. Event time goes on from one pass to the next.
#[derive(Clone, Debug)]
pub struct Replay {
    arrivals: Arc<[Arrival]>,
    /// When event times of the first pass are due, where that is known.
    clock: Option<EventClock>,
    /// From one pass to the next.
    cycle_ns: u64,
    event_cycle_ms: i64,
    /// Rows for a row.
    rate: f64,
    /// Everything comes so much later: tenants do not beat in time.
    offset_ns: u64,
    next: usize,
    passes: u64,
    /// Of a row that is still to come.
    fraction: f64,
}

impl Replay {
    /// `arrivals` stand in order, and all of them before `cycle_ns`.
    pub fn new(
        arrivals: Arc<[Arrival]>,
        clock: Option<EventClock>,
        cycle_ns: u64,
        event_cycle_ms: i64,
        rate: f64,
        offset_ns: u64,
    ) -> Replay {
        Replay {
            arrivals,
            clock,
            cycle_ns: cycle_ns.max(1),
            event_cycle_ms,
            rate,
            offset_ns,
            next: 0,
            passes: 0,
            fraction: 0.0,
        }
    }

    fn rows(&self) -> u64 {
        self.arrivals.iter().map(|arrival| u64::from(arrival.rows)).sum()
    }
}

impl Arrivals for Replay {
    fn next(&mut self) -> Option<Arrival> {
        // Without rows and watermarks nothing would ever come.
        if !self.arrivals.iter().any(|arrival| arrival.rows > 0 || arrival.watermark.is_some()) {
            return None;
        }
        loop {
            if self.next == self.arrivals.len() {
                self.next = 0;
                self.passes += 1;
            }
            let recorded = self.arrivals[self.next];
            self.next += 1;
            let exact = f64::from(recorded.rows) * self.rate + self.fraction;
            let rows = exact as u32;
            self.fraction = exact - f64::from(rows);
            if rows == 0 && recorded.watermark.is_none() {
                continue;
            }
            let row_bytes = recorded.bytes as f64 / f64::from(recorded.rows.max(1));
            let shift_ms = (self.passes as i64).saturating_mul(self.event_cycle_ms);
            let shifted = |time: EventTime| EventTime(time.0.saturating_add(shift_ms));
            return Some(Arrival {
                at: recorded.at.plus_ns(self.passes * self.cycle_ns + self.offset_ns),
                event_time: shifted(recorded.event_time),
                rows,
                bytes: (row_bytes * f64::from(rows)) as u64,
                watermark: recorded.watermark.map(shifted),
            });
        }
    }

    fn offered(&self) -> Option<Offered> {
        let per_s = |count: f64| count * 1e9 / self.cycle_ns as f64;
        let batches = self.arrivals.iter().filter(|arrival| arrival.rows > 0).count();
        Some(Offered {
            rows_per_s: per_s(self.rows() as f64 * self.rate),
            batches_per_s: per_s(batches as f64),
            watermarks_per_s: per_s((self.arrivals.len() - batches) as f64),
        })
    }

    fn clock(&self) -> EventClock {
        if let Some(clock) = self.clock {
            return EventClock {
                processing_origin: clock.processing_origin.plus_ns(self.offset_ns),
                ..clock
            };
        }
        let first = self.arrivals.first();
        EventClock {
            event_origin: first.map_or(EventTime(0), |first| first.event_time),
            processing_origin: first.map_or(ProcessingTime::ZERO, |first| first.at.plus_ns(self.offset_ns)),
            speed: self.event_cycle_ms as f64 * 1e6 / self.cycle_ns as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_follow_each_other_and_rows_scale_exactly() {
        let arrival = |at: u64, rows, watermark: i64| Arrival {
            at: ProcessingTime(at),
            event_time: EventTime(watermark + 1),
            rows,
            bytes: u64::from(rows) * 10,
            watermark: Some(EventTime(watermark)),
        };
        let mut replay = Replay::new([arrival(0, 3, 100), arrival(40, 2, 150)].into(), None, 100, 90, 1.5, 7);
        let seen: Vec<(u64, u32, u64, i64)> = (0..4)
            .map(|_| replay.next().unwrap())
            .map(|a| (a.at.0, a.rows, a.bytes, a.watermark.unwrap().0))
            .collect();
        // 4.5 rows, 3; then 4.5, 3: 15 rows for 10.
        assert_eq!(seen, [(7, 4, 40, 100), (47, 3, 30, 150), (107, 5, 50, 190), (147, 3, 30, 240)]);
        assert_eq!(replay.offered().unwrap().rows_per_s, 7.5e7);
    }

    #[test]
    fn silence_ends() {
        assert_eq!(Replay::new(Arc::new([]), None, 100, 100, 1.0, 0).next(), None);
    }
}
