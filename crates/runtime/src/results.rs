//! The account of one query's results: what came out, how late, why, and what is due and did not.
//!
//! Pure: times are arguments. Taking a result in costs some nanoseconds and, once warm, no allocation; percentiles are
//! computed when they are asked for. A quiet query's account takes at most 2 KB.

mod due;
mod histogram;
mod minute;
mod owed;

use laxity_graph::{ProcessingTime, QosCurve};
use laxity_sched::{Lateness, Stamps};

pub(crate) use due::DueBy;
use histogram::{Bucket, Precise};
use minute::LastMinute;
pub use minute::MinuteFigures;
pub(crate) use owed::Owed;

/// All that is known of the results of one query.
///
/// A *result* is a batch of rows that a sink has written: one per firing of a window, or several where it gives more
/// rows than fit a batch; without a window, one per batch that comes through.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    target_ns: u64,
    curve: QosCurve,
    /// What a result is worth that comes at once, and up to which latency it is worth as much.
    full_utility: f64,
    full_utility_until_ns: u64,
    lateness: Lateness,
    utility_sum: f64,
    latency: Latencies,
    /// Made at the first result that has one: many queries never do.
    event_time: Option<Box<Latencies>>,
    minute: LastMinute,
    /// What is due and has not come out.
    pub owed: Owed,
}

#[derive(Clone, Debug, Default)]
struct Latencies {
    counts: Precise,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

/// Percentiles of one kind of latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct LatencySummary {
    /// Results counted.
    pub count: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.9th percentile, ns.
    pub p999_ns: u64,
    /// Largest, ns.
    pub max_ns: u64,
    /// Mean, ns.
    pub mean_ns: u64,
}

/// What a query's results come to, percentiles included.
#[derive(Clone, Debug)]
pub struct ResultSummary {
    /// The counts.
    pub figures: ResultFigures,
    /// Output latency.
    pub latency: LatencySummary,
    /// From when the event times were due, where a table says when.
    pub event_time_latency: Option<LatencySummary>,
    /// Output latency of about the last minute, to two digits.
    pub last_minute: LatencySummary,
    /// How many were in time, and why the others were not.
    pub lateness: Lateness,
    /// Mean over results, 0 to 1.
    pub utility: Option<f64>,
}

/// What can be told of a query's results without looking at more than a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultFigures {
    /// Results that came out.
    pub results: u64,
    /// Those within the target.
    pub met: u64,
    /// The largest latency, ns.
    pub worst_ns: u64,
    /// The same of about the last minute.
    pub last_minute: MinuteFigures,
    /// Results that are due, not out, and later than the target already.
    pub overdue: u64,
    /// The arrival that has been owed a result for longest, later than the target or not.
    pub oldest_owed: Option<ProcessingTime>,
}

/// Those of [`LatencySummary`].
pub(crate) const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

impl Results {
    /// Of a query with that target and that worth of a late result. Nothing has come out yet.
    pub(crate) fn new(target_ns: u64, curve: QosCurve) -> Results {
        Results {
            target_ns,
            full_utility: curve.utility(0),
            full_utility_until_ns: curve.worth_until_ns(1.0).unwrap_or(u64::MAX),
            curve,
            lateness: Lateness::default(),
            utility_sum: 0.0,
            latency: Latencies::default(),
            event_time: None,
            minute: LastMinute::default(),
            owed: Owed::new(target_ns),
        }
    }

    /// Another target and worth from now on; what was recorded stays as it was judged.
    pub(crate) fn alter(&mut self, target_ns: u64, curve: QosCurve) {
        self.target_ns = target_ns;
        self.full_utility = curve.utility(0);
        self.full_utility_until_ns = curve.worth_until_ns(1.0).unwrap_or(u64::MAX);
        self.curve = curve;
        self.owed.alter(target_ns);
    }

    /// One result that reached its sink at `ready` has left it, `now`. `event_time_ns` is counted from when the end of
    /// its window was due, where the source says when.
    #[inline]
    pub(crate) fn record(
        &mut self,
        stamps: &Stamps,
        ready: ProcessingTime,
        now: ProcessingTime,
        event_time_ns: Option<u64>,
    ) {
        let latency_ns = now.since_ns(stamps.ingested);
        let met = latency_ns <= self.target_ns;
        if met {
            self.lateness.results += 1;
            self.lateness.met += 1;
        } else {
            self.lateness.record(self.target_ns, stamps.parts(ready, now));
        }
        self.utility_sum += match latency_ns <= self.full_utility_until_ns {
            true => self.full_utility,
            false => self.curve.utility(latency_ns),
        };
        let bucket = Bucket::of(latency_ns);
        self.latency.record(latency_ns, bucket);
        self.minute.record(now, latency_ns, bucket, met);
        if let Some(ns) = event_time_ns {
            self.event_time.get_or_insert_default().record(ns, Bucket::of(ns));
        }
    }

    /// Counts anew from now on; what is owed stays so.
    pub(crate) fn forget(&mut self) {
        self.lateness = Lateness::default();
        self.utility_sum = 0.0;
        self.latency = Latencies::default();
        self.event_time = None;
        self.minute = LastMinute::default();
    }

    /// Counts. Cheap enough to ask of every query each time that a screen is drawn.
    pub(crate) fn figures(&self, now: ProcessingTime) -> ResultFigures {
        ResultFigures {
            results: self.lateness.results,
            met: self.lateness.met,
            worst_ns: self.latency.max_ns,
            last_minute: self.minute.figures(now),
            overdue: self.owed.overdue(now, self.target_ns),
            oldest_owed: self.owed.oldest(),
        }
    }

    /// Percentiles. Goes through all counts: for the queries that are shown, and for the report.
    pub(crate) fn summary(&self, now: ProcessingTime) -> ResultSummary {
        let results = self.lateness.results;
        ResultSummary {
            figures: self.figures(now),
            latency: self.latency.summary(),
            event_time_latency: self.event_time.as_deref().map(Latencies::summary),
            last_minute: self.minute.summary(now),
            lateness: self.lateness,
            utility: (results > 0).then(|| self.utility_sum / results as f64),
        }
    }

    /// Bytes, those on the heap included.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let event_time =
            self.event_time.as_ref().map(|latencies| size_of::<Latencies>() + latencies.counts.heap_bytes());
        size_of::<Results>()
            + self.latency.counts.heap_bytes()
            + event_time.unwrap_or(0)
            + self.minute.heap_bytes()
            + self.owed.heap_bytes()
    }
}

impl Latencies {
    #[inline]
    fn record(&mut self, ns: u64, bucket: Bucket) {
        self.counts.record(bucket);
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    fn summary(&self) -> LatencySummary {
        let mut list = Vec::new();
        self.counts.append_to(&mut list);
        LatencySummary::new(Precise::values_at(&mut list, QUANTILES), self.count, self.sum_ns, self.max_ns)
    }
}

impl LatencySummary {
    /// Of the values at [`QUANTILES`], which say no more than the digits kept, and of what is exact.
    fn new(quantiles: [u64; 4], count: u64, sum_ns: u128, max_ns: u64) -> LatencySummary {
        // A bucket's largest value may lie above the largest that was seen.
        let [p50_ns, p90_ns, p99_ns, p999_ns] = quantiles.map(|ns| ns.min(max_ns));
        let mean_ns = (sum_ns / u128::from(count.max(1))) as u64;
        LatencySummary { count, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, mean_ns }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;
    const TARGET_NS: u64 = 50 * MS;

    fn results() -> Results {
        Results::new(TARGET_NS, QosCurve::of_target_ns(TARGET_NS))
    }

    impl Results {
        /// One that came out `now`, so long after its arrival, and waited in mailboxes all the while.
        fn take(&mut self, now: ProcessingTime, latency_ns: u64, event_time_ns: Option<u64>) {
            let arrival = ProcessingTime(now.0 - latency_ns);
            let stamps = Stamps { queue_ns: latency_ns, ..Stamps::admitted(arrival, arrival) };
            self.record(&stamps, now, now, event_time_ns);
        }
    }

    const fn at_ms(ms: u64) -> ProcessingTime {
        ProcessingTime(ms * MS)
    }

    #[test]
    fn a_quiet_querys_account_takes_at_most_2_kb() {
        let mut results = results();
        assert!(results.bytes() <= 1_024, "{} before the first result", results.bytes());
        // A result a second for two minutes, with both kinds of latency, and one that is owed now and then.
        for second in 1..=128 {
            let now = at_ms(1_000 * second);
            let latency_ns = (second * 7_919 % 40) * MS + second;
            results.owed.due(now);
            results.take(now, latency_ns, Some(latency_ns + MS));
            results.owed.out(now);
            assert!(results.bytes() <= 2_048, "{} after {second} s", results.bytes());
        }
        assert_eq!(results.summary(at_ms(128_000)).latency.count, 128);
    }

    #[test]
    fn once_warm_nothing_is_allocated() {
        let mut results = results();
        let minute = |results: &mut Results, from_ms: u64| {
            for ms in from_ms..from_ms + 60_000 {
                results.take(at_ms(ms), (ms * 7_919 % 60_000) * 1_000, Some(ms % 1_000));
            }
            results.bytes()
        };
        let warm = minute(&mut results, 60_000);
        assert_eq!(minute(&mut results, 120_000), warm);
    }

    #[test]
    fn figures_say_what_the_summary_says() {
        let mut results = results();
        for ms in 0..2_000 {
            results.take(at_ms(100 * ms + 1_000), (ms % 100) * MS, None);
        }
        // Latencies of 0 to 99 ms, as many of each; those up to 50 ms keep the target.
        let now = at_ms(201_000);
        let (figures, summary) = (results.figures(now), results.summary(now));
        assert_eq!((figures.results, figures.met, figures.worst_ns), (2_000, 1_020, 99 * MS));
        assert_eq!((summary.lateness.results, summary.lateness.met), (2_000, 1_020));
        assert_eq!((summary.latency.count, summary.latency.max_ns), (2_000, 99 * MS));
        assert_eq!(summary.latency.mean_ns, 49_500_000);
        // The slots from 150 s on: results came until 200.9 s, ten a second; the first ten of these were late.
        assert_eq!((figures.last_minute.results, figures.last_minute.met), (510, 255));
        assert_eq!(summary.last_minute.count, 510);
        assert_eq!(figures.last_minute.worst_ns, summary.last_minute.max_ns);
    }

    #[test]
    fn utility_is_the_mean_over_results() {
        let mut results = results();
        assert_eq!(results.summary(at_ms(0)).utility, None);
        // Worth 1 until 50 ms, nothing from 100 ms on, in between half.
        [10, 75, 200].iter().for_each(|ms| results.take(at_ms(1_000), ms * MS, None));
        assert_eq!(results.summary(at_ms(1_000)).utility, Some(0.5));
    }

    #[test]
    fn what_was_forgotten_counts_no_more() {
        let mut results = results();
        results.owed.due(at_ms(100));
        (0..200).for_each(|ms| results.take(at_ms(1_000 + ms), 60 * MS, Some(60 * MS)));
        results.forget();
        results.take(at_ms(2_000), 10 * MS, None);
        let summary = results.summary(at_ms(2_000));
        assert_eq!((summary.lateness.results, summary.lateness.met, summary.utility), (1, 1, Some(1.0)));
        assert_eq!((summary.latency.count, summary.latency.max_ns), (1, 10 * MS));
        assert_eq!((summary.last_minute.count, summary.event_time_latency), (1, None));
        assert_eq!(summary.figures.oldest_owed, Some(at_ms(100)), "it is still to come");
    }

    #[test]
    fn only_what_missed_its_target_is_explained() {
        let mut results = results();
        let stamps =
            Stamps { queue_ns: 30 * MS, execute_ns: 10 * MS, ..Stamps::admitted(at_ms(0), at_ms(5)) };
        results.record(&stamps, at_ms(45), at_ms(50), None);
        results.record(&stamps, at_ms(45), at_ms(60), None);
        let Lateness { results, met, missed, .. } = results.summary(at_ms(60)).lateness;
        assert_eq!((results, met), (2, 1));
        let parts =
            (missed.source_ns / MS, missed.queue_ns / MS, missed.execute_ns / MS, missed.sink_ns / MS);
        assert_eq!(parts, (5, 30, 10, 15));
    }

    #[test]
    fn what_is_owed_shows_in_the_figures() {
        let mut results = results();
        results.owed.due(at_ms(100));
        let at = |ms| {
            let ResultFigures { overdue, oldest_owed, .. } = results.figures(at_ms(ms));
            (overdue, oldest_owed)
        };
        assert_eq!(at(150), (0, Some(at_ms(100))));
        assert_eq!(at(151), (1, Some(at_ms(100))));
    }

    proptest! {
        /// What a report says: percentiles to three digits, the rest exact, however many results there were.
        #[test]
        fn a_summary_is_that_of_an_hdr_histogram(
            latencies in prop::collection::vec(prop_oneof![1u64..200_000_000, 4_000_000u64..6_000_000], 1..500),
        ) {
            let mut results = results();
            let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            for &ns in &latencies {
                results.take(at_ms(1_000), ns, Some(ns));
                histogram.record(ns).unwrap();
            }
            let summary = results.summary(at_ms(1_000));
            let largest = *latencies.iter().max().unwrap();
            let at = |quantile| histogram.value_at_quantile(quantile).min(largest);
            let expected = LatencySummary {
                count: latencies.len() as u64,
                p50_ns: at(0.5),
                p90_ns: at(0.9),
                p99_ns: at(0.99),
                p999_ns: at(0.999),
                max_ns: largest,
                mean_ns: latencies.iter().sum::<u64>() / latencies.len() as u64,
            };
            prop_assert_eq!(summary.latency, expected);
            prop_assert_eq!(summary.event_time_latency, Some(expected));
        }
    }
}
