//! What a person sees live of a query: how late its results were lately, and not since it began.

use laxity_graph::ProcessingTime;

use super::histogram::{Bucket, Coarse};
use super::{LatencySummary, QUANTILES};

/// Latencies of about the last minute: those of the ten seconds that run and of the five times ten before.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastMinute {
    /// Taken over in turn, by the first result of another ten seconds.
    slots: [Slot; SLOTS],
    /// The one that results go to, and when it began.
    current: usize,
    began: ProcessingTime,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Which ten seconds since the driver's start: says of a slot that nobody took over that it is old.
    number: u64,
    results: u64,
    met: u64,
    worst_ns: u64,
    sum_ns: u64,
    latencies: Coarse,
}

/// Results of the last minute, without their quantiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinuteFigures {
    /// Results that came out.
    pub results: u64,
    /// Those within the target.
    pub met: u64,
    /// The largest latency, ns.
    pub worst_ns: u64,
}

const SLOTS: usize = 6;
const SLOT_NS: u64 = 10_000_000_000;

impl LastMinute {
    /// Takes in one result. One that is counted a moment after a later one goes with that.
    #[inline]
    pub(crate) fn record(&mut self, now: ProcessingTime, latency_ns: u64, bucket: Bucket, met: bool) {
        if now.since_ns(self.began) >= SLOT_NS {
            self.turn(number(now));
        }
        let slot = &mut self.slots[self.current];
        slot.results += 1;
        slot.met += u64::from(met);
        slot.worst_ns = slot.worst_ns.max(latency_ns);
        slot.sum_ns = slot.sum_ns.saturating_add(latency_ns);
        slot.latencies.record(bucket);
    }

    #[cold]
    fn turn(&mut self, number: u64) {
        self.current = (number % SLOTS as u64) as usize;
        self.began = ProcessingTime(number * SLOT_NS);
        let slot = &mut self.slots[self.current];
        let mut latencies = std::mem::take(&mut slot.latencies);
        latencies.clear();
        *slot = Slot { number, latencies, ..Slot::default() };
    }

    /// Counts, as of now.
    pub(crate) fn figures(&self, now: ProcessingTime) -> MinuteFigures {
        self.recent(now).fold(MinuteFigures::default(), |sum, slot| MinuteFigures {
            results: sum.results + slot.results,
            met: sum.met + slot.met,
            worst_ns: sum.worst_ns.max(slot.worst_ns),
        })
    }

    /// Percentiles to two digits; count, mean and largest are exact.
    pub(crate) fn summary(&self, now: ProcessingTime) -> LatencySummary {
        let mut list = Vec::new();
        self.recent(now).for_each(|slot| slot.latencies.append_to(&mut list));
        let sum_ns: u128 = self.recent(now).map(|slot| u128::from(slot.sum_ns)).sum();
        let MinuteFigures { results, worst_ns, .. } = self.figures(now);
        LatencySummary::new(Coarse::values_at(&mut list, QUANTILES), results, sum_ns, worst_ns)
    }

    fn recent(&self, now: ProcessingTime) -> impl Iterator<Item = &Slot> {
        let number = number(now);
        self.slots.iter().filter(move |slot| slot.number + SLOTS as u64 > number)
    }

    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.latencies.heap_bytes()).sum()
    }
}

fn number(now: ProcessingTime) -> u64 {
    now.0 / SLOT_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at_s(seconds: u64) -> ProcessingTime {
        ProcessingTime(seconds * 1_000_000_000)
    }

    const MS: u64 = 1_000_000;

    impl LastMinute {
        fn take(&mut self, now: ProcessingTime, latency_ns: u64, met: bool) {
            self.record(now, latency_ns, Bucket::of(latency_ns), met);
        }
    }

    #[test]
    fn results_leave_the_minute_ten_seconds_at_a_time() {
        let mut minute = LastMinute::default();
        minute.take(at_s(5), 900 * MS, false);
        minute.take(at_s(12), 10 * MS, true);
        minute.take(at_s(59), 20 * MS, true);
        let at = |seconds| {
            let MinuteFigures { results, met, worst_ns } = minute.figures(at_s(seconds));
            (results, met, worst_ns / MS)
        };
        assert_eq!(at(59), (3, 2, 900));
        // The slot of 0 to 10 s is over, then that of 10 to 20 s; nobody had to record anything for it.
        assert_eq!(at(60), (2, 2, 20));
        assert_eq!(at(70), (1, 1, 20));
        assert_eq!(at(109), (1, 1, 20));
        assert_eq!(at(110), (0, 0, 0));
        assert_eq!(minute.summary(at_s(110)), LatencySummary::default());
    }

    #[test]
    fn a_slot_is_taken_over_by_what_comes_a_minute_later() {
        let mut minute = LastMinute::default();
        (0..100).for_each(|_| minute.take(at_s(3), 500 * MS, false));
        minute.take(at_s(63), 2 * MS, true);
        let summary = minute.summary(at_s(63));
        assert_eq!((summary.count, summary.max_ns, summary.mean_ns), (1, 2 * MS, 2 * MS));
        assert_eq!(summary.p99_ns, 2 * MS);
    }

    #[test]
    fn percentiles_are_those_of_all_slots_together() {
        let mut minute = LastMinute::default();
        for second in 0..60 {
            // 98 % at 10 ms, the rest, in the last slot alone, at 100 ms.
            (0..49).for_each(|_| minute.take(at_s(second), 10 * MS, true));
            minute.take(at_s(59), 100 * MS, false);
        }
        let summary = minute.summary(at_s(59));
        assert_eq!((summary.count, minute.figures(at_s(59)).met), (3_000, 2_940));
        let near = |ns: u64, ms: f64| (ns as f64 / (ms * MS as f64) - 1.0).abs() < 0.01;
        assert!(near(summary.p50_ns, 10.0) && near(summary.p90_ns, 10.0), "{summary:?}");
        assert!(near(summary.p99_ns, 100.0), "{summary:?}");
    }

    #[test]
    fn a_result_out_of_order_across_a_slot_is_counted_once() {
        let mut minute = LastMinute::default();
        minute.take(at_s(10), MS, true);
        // Another sink thread, which read the clock a moment earlier.
        minute.take(ProcessingTime(at_s(10).0 - 1), MS, true);
        minute.take(at_s(11), MS, true);
        assert_eq!(minute.figures(at_s(11)).results, 3);
    }
}
