//! How a query fares, result by result; at the end its account becomes a [`QueryOutcome`].

use std::sync::atomic::Ordering::Relaxed;

use hdrhistogram::Histogram;
use laxity_graph::{ProcessingTime, QosCurve};
use laxity_runtime::Query;
use laxity_sched::{Lateness, Parts};

use crate::QueryOutcome;

/// What is measured of one query while it runs, beside what the runtime counts.
#[derive(Debug)]
pub(crate) struct Account {
    name: String,
    target_ns: u64,
    qos: QosCurve,
    digits: u8,
    lateness: Lateness,
    latency: Option<Histogram<u64>>,
    event_time_latency: Option<Histogram<u64>>,
    latency_sum_ns: u128,
    event_time_latency_sum_ns: u128,
    utility_sum: f64,
    /// Taken in by sources since the warm-up.
    pub rows_taken: u64,
    pub rows_late: u64,
    pub busy_ns: u64,
}

impl Account {
    pub fn new(name: String, target_ns: u64, qos: QosCurve, digits: u8) -> Account {
        Account {
            name,
            target_ns,
            qos,
            digits: digits.clamp(1, 5),
            lateness: Lateness::default(),
            latency: None,
            event_time_latency: None,
            latency_sum_ns: 0,
            event_time_latency_sum_ns: 0,
            utility_sum: 0.0,
            rows_taken: 0,
            rows_late: 0,
            busy_ns: 0,
        }
    }

    /// A result that was due, by its window, at `due`.
    pub fn record(&mut self, parts: Parts, due: ProcessingTime, written: ProcessingTime) {
        let (latency_ns, event_time_ns) = (parts.latency_ns(), written.since_ns(due));
        self.lateness.record(self.target_ns, parts);
        self.utility_sum += self.qos.utility(latency_ns);
        self.latency_sum_ns += u128::from(latency_ns);
        self.event_time_latency_sum_ns += u128::from(event_time_ns);
        let digits = self.digits;
        let fresh = || Histogram::new(digits).expect("one to five digits are allowed");
        let note = |histogram: &mut Histogram<u64>, ns| {
            histogram.record(ns).expect("it grows as needed");
        };
        note(self.latency.get_or_insert_with(fresh), latency_ns);
        note(self.event_time_latency.get_or_insert_with(fresh), event_time_ns);
    }

    pub fn outcome(
        self,
        query: &Query,
        rows_queued: u64,
        owed_ns: Vec<u64>,
        measured_s: f64,
    ) -> QueryOutcome {
        let results = self.lateness.results.max(1) as f64;
        QueryOutcome {
            name: self.name,
            target_ns: self.target_ns,
            latency_mean_ns: self.latency_sum_ns as f64 / results,
            event_time_latency_mean_ns: self.event_time_latency_sum_ns as f64 / results,
            utility_mean: self.utility_sum / results,
            lateness: self.lateness,
            latency: self.latency,
            event_time_latency: self.event_time_latency,
            owed_ns,
            rows_in: query.rows_in(),
            throughput: if measured_s > 0.0 { self.rows_taken as f64 / measured_s } else { 0.0 },
            rows_out: query.rows_out.load(Relaxed),
            rows_late: self.rows_late,
            rows_shed: query.rows_shed.load(Relaxed),
            rows_queued,
            busy_ns: self.busy_ns,
        }
    }
}
