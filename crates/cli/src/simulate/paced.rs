//! What came from a table that has a pace: its rows one after the other, each when it was due, however many a look found.

use laxity_graph::{EventClock, EventTime, ProcessingTime, WindowEnds};
use laxity_workload::Arrival;

use crate::simulate::costs::ArrivalCosts;

/// When the rows of a table are due, and how finely they are told apart.
pub struct Paced {
    /// When event times are due.
    pub clock: EventClock,
    /// Time that a piece stands for, at most.
    pub grain_ns: u64,
    /// The row that ends a window is a piece of its own: the result counts from there.
    pub ends: Option<WindowEnds>,
}

/// A batch, its rows evenly spread over the time in which they came.
struct Batch {
    rows: u64,
    from_ns: u64,
    until_ns: u64,
}

impl Paced {
    /// These batches, cut; in order.
    pub fn pieces(&self, batches: &[ArrivalCosts]) -> Vec<Arrival> {
        let mut pieces = Vec::with_capacity(batches.len());
        let mut before_ns = 0;
        for batch in batches {
            self.cut(batch, before_ns, &mut pieces);
            before_ns = batch.at_ns;
        }
        pieces
    }

    fn cut(&self, batch: &ArrivalCosts, before_ns: u64, pieces: &mut Vec<Arrival>) {
        let Some((_, latest)) = batch.event_times.filter(|_| batch.rows > 0) else {
            let event_ms = batch.watermark.map_or(0, |watermark| watermark.saturating_add(1));
            pieces.push(Arrival {
                at: ProcessingTime(batch.at_ns),
                event_time: EventTime(event_ms),
                rows: batch.rows,
                bytes: batch.bytes,
                watermark: batch.watermark.map(EventTime),
            });
            return;
        };
        let whole_ms = (1e6 / self.clock.speed) as u64;
        let least_ns = batch.at_ns.saturating_sub(batch.span_ns(self.clock.speed) + whole_ms);
        let spread = Batch {
            rows: u64::from(batch.rows),
            from_ns: least_ns.max(before_ns).min(batch.at_ns),
            until_ns: batch.at_ns,
        };
        // How far the watermark is behind the rows.
        let lag_ms = batch.watermark.map(|watermark| latest.saturating_sub(watermark));
        let (mut done, mut before) = (0, self.event_ms(spread.from_ns));
        for (rows, end) in self.cuts(&spread, lag_ms) {
            if rows <= done {
                continue;
            }
            let at_ns = spread.due_ns(rows);
            let is_last = rows == spread.rows;
            let event_ms = if is_last { latest } else { self.event_ms(at_ns).min(latest) };
            let watermark = match (batch.watermark, lag_ms) {
                (Some(watermark), _) if is_last => Some(EventTime(watermark)),
                (Some(_), Some(lag_ms)) => Some(EventTime((event_ms - lag_ms).max(end.unwrap_or(i64::MIN)))),
                _ => None,
            };
            let middle_ms = if rows == done + 1 { event_ms } else { before.midpoint(event_ms) };
            pieces.push(Arrival {
                at: ProcessingTime(at_ns),
                event_time: EventTime(middle_ms),
                rows: (rows - done) as u32,
                bytes: spread.share(batch.bytes, rows) - spread.share(batch.bytes, done),
                watermark,
            });
            (done, before) = (rows, event_ms);
        }
    }

    /// Behind how many rows to cut, in order, and the watermark that the last of them takes where it ends a window.
    fn cuts(&self, batch: &Batch, lag_ms: Option<i64>) -> Vec<(u64, Option<i64>)> {
        let by_time = (batch.until_ns - batch.from_ns).div_ceil(self.grain_ns.max(1));
        let count = by_time.clamp(1, batch.rows);
        let mut cuts: Vec<(u64, Option<i64>)> =
            (1..=count).map(|piece| (batch.rows * piece / count, None)).collect();
        if let (Some(ends), Some(lag_ms)) = (self.ends, lag_ms) {
            let before = EventTime(self.event_ms(batch.from_ns) - lag_ms);
            let next = |end: &EventTime| ends.next(EventTime(end.0 - 1));
            // A window ends once the watermark is a millisecond before its end.
            let passed = std::iter::successors(ends.next(before), next).map(|end| end.0 - 1);
            let due = passed.map(|passed| (passed, self.clock.due(EventTime(passed + lag_ms)).0));
            for (passed, due_ns) in due.take_while(|&(_, due_ns)| due_ns <= batch.until_ns) {
                if due_ns > batch.from_ns {
                    let rows = batch.rows_until(due_ns);
                    cuts.extend([(rows - 1, None), (rows, Some(passed))]);
                }
            }
            // Of equal places the one that ends a window.
            cuts.sort_unstable_by_key(|&(rows, end)| (rows, std::cmp::Reverse(end)));
        }
        cuts
    }

    /// The event time that is due then, or has been last.
    fn event_ms(&self, at_ns: u64) -> i64 {
        let passed_ms = (at_ns as f64 - self.clock.processing_origin.0 as f64) / 1e6 * self.clock.speed;
        self.clock.event_origin.0 + passed_ms.floor() as i64
    }
}

impl Batch {
    /// When the last of so many rows was due.
    fn due_ns(&self, rows: u64) -> u64 {
        self.from_ns + self.share(self.until_ns - self.from_ns, rows)
    }

    /// The first row that is due then or later, and all before it.
    fn rows_until(&self, due_ns: u64) -> u64 {
        let length_ns = (self.until_ns - self.from_ns).max(1);
        let rows = u128::from(self.rows) * u128::from(due_ns - self.from_ns);
        (rows.div_ceil(u128::from(length_ns)) as u64).clamp(1, self.rows)
    }

    /// What so many rows are of a quantity.
    fn share(&self, of: u64, rows: u64) -> u64 {
        (u128::from(of) * u128::from(rows) / u128::from(self.rows)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(speed: f64) -> EventClock {
        EventClock { event_origin: EventTime(100), processing_origin: ProcessingTime(0), speed }
    }

    #[test]
    fn the_row_that_ends_a_window_comes_by_itself_when_it_was_due() {
        // A row a millisecond; the watermark is a millisecond behind.
        let batch = |at_ms: u64, rows: u32| ArrivalCosts {
            at_ns: at_ms * 1_000_000,
            rows,
            bytes: 10 * u64::from(rows),
            event_times: Some((101 + at_ms as i64 - i64::from(rows), 100 + at_ms as i64)),
            watermark: Some(99 + at_ms as i64),
        };
        let ends = WindowEnds::new(20, 0);
        let paced = Paced { clock: clock(1.0), grain_ns: 1_000_000_000, ends };
        let apart = paced.pieces(&[batch(10, 10), batch(50, 40)]);
        let seen: Vec<(u64, u32, u64, i64)> =
            apart.iter().map(|a| (a.at.0 / 1_000_000, a.rows, a.bytes, a.watermark.unwrap().0)).collect();
        // The watermark passes 119 and 139 with the tenth and the thirtieth row of the second.
        assert_eq!(
            seen,
            [
                (10, 10, 100, 109),
                (19, 9, 90, 118),
                (20, 1, 10, 119),
                (39, 19, 190, 138),
                (40, 1, 10, 139),
                (50, 10, 100, 149)
            ]
        );
        // Each part lies in the window that it came in.
        let windows: Vec<i64> = apart.iter().map(|a| a.event_time.0 / 20).collect();
        assert_eq!(windows, [5, 5, 6, 6, 7, 7]);
        // Of few rows the first that is late enough ends it.
        let few = paced.pieces(&[batch(15, 1), batch(30, 1)]);
        let seen: Vec<(u64, i64)> =
            few.iter().map(|a| (a.at.0 / 1_000_000, a.watermark.unwrap().0)).collect();
        assert_eq!(seen, [(15, 114), (30, 129)]);
    }

    #[test]
    fn rows_of_a_paced_table_come_when_they_were_due() {
        // Five rows, 1 ms of event time apart and half of that of processing time, found by one look.
        let batch = ArrivalCosts {
            at_ns: 10_000_000,
            rows: 5,
            bytes: 40,
            event_times: Some((116, 120)),
            watermark: Some(119),
        };
        let seen = |grain_ns| -> Vec<(u64, u32, i64)> {
            let cut = Paced { clock: clock(2.0), grain_ns, ends: None }.pieces(&[batch]);
            cut.iter().map(|a| (a.at.0 / 1_000, a.rows, a.watermark.unwrap().0)).collect()
        };
        assert_eq!(seen(1_250_000), [(8_500, 2, 116), (10_000, 3, 119)]);
        assert_eq!(seen(100_000_000), [(10_000, 5, 119)]);
        assert_eq!(seen(1).len(), 5, "no piece is without a row");
    }
}
