use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use laxity_graph::{EventClock, EventTime, ProcessingTime, WindowEnds};

/// How the watermark of a table follows the clock: where it is, and how late it is when it is least so.
///
/// The watermark stays behind the rows by what its declaration says, which is any expression. So it is measured: a row that
/// moves it comes so long after the instant at which its event time is due. Too small a lag is one look too many at a table;
/// that is why the least counts.
#[derive(Debug)]
pub(crate) struct Pace {
    watermark_ms: AtomicI64,
    lag_ns: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { watermark_ms: AtomicI64::new(EventTime::MIN.0), lag_ns: AtomicU64::new(u64::MAX) }
    }
}

impl Pace {
    /// Rows of that arrival have moved the watermark.
    pub fn rose(&self, clock: &EventClock, watermark: EventTime, arrival: ProcessingTime) {
        if watermark < EventTime::MAX {
            self.lag_ns.fetch_min(arrival.since_ns(clock.due(watermark)), Relaxed);
            self.watermark_ms.fetch_max(watermark.0, Relaxed);
        }
    }

    /// Whether a row has moved the watermark.
    pub fn is_known(&self) -> bool {
        self.lag_ns.load(Relaxed) < u64::MAX
    }

    /// The earliest arrival of a row that ends the next window; in the past if it should have come. `None` while no row has
    /// moved the watermark.
    pub fn next_end(&self, clock: &EventClock, ends: WindowEnds) -> Option<ProcessingTime> {
        let lag_ns = Some(self.lag_ns.load(Relaxed)).filter(|&lag_ns| lag_ns < u64::MAX)?;
        let watermark = EventTime(self.watermark_ms.load(Relaxed));
        let end = ends.next(watermark)?;
        // A window ends once the watermark is a millisecond before its end.
        Some(clock.due(EventTime(end.0 - 1)).plus_ns(lag_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_end_is_as_late_as_the_watermark() {
        let at = |ms: u64| ProcessingTime(ms * 1_000_000);
        // Two milliseconds of event time in one of ours.
        let clock = EventClock { event_origin: EventTime(10_000), processing_origin: at(500), speed: 2.0 };
        let pace = Pace::default();
        let seconds = WindowEnds::new(1_000, 0).unwrap();
        assert_eq!(pace.next_end(&clock, seconds), None);
        pace.rose(&clock, EventTime(10_100), at(700));
        assert_eq!(pace.next_end(&clock, seconds), Some(at(500 + 499 + 150).plus_ns(500_000)));
        pace.rose(&clock, EventTime(10_998), at(1_024));
        assert_eq!(
            pace.next_end(&clock, seconds),
            Some(at(500 + 499 + 25).plus_ns(500_000)),
            "the least lag"
        );
        pace.rose(&clock, EventTime(10_999), at(1_500));
        assert_eq!(pace.next_end(&clock, seconds), Some(at(500 + 999 + 25).plus_ns(500_000)));
        pace.rose(&clock, EventTime::MAX, at(1_500));
        assert_eq!(pace.next_end(&clock, seconds), Some(at(500 + 999 + 25).plus_ns(500_000)));
    }
}
