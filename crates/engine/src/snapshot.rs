use laxity_graph::EventTime;
use laxity_runtime::{LatencySummary, Outcome, Query, RecordedArrival, Totals};
use laxity_sched::Lateness;

use crate::{Clock, process};

/// How an engine stands, for people and reports. A copy: taking one slows nobody down for long.
#[derive(Clone, Debug)]
pub struct EngineSnapshot {
    /// Time since the engine was made, ns.
    pub wall_ns: u64,
    /// CPU time of the whole process, ns.
    pub cpu_ns: u64,
    /// Of that, time that workers spent inside operators, ns: the rest is reading, writing and scheduling.
    pub operator_ns: u64,
    /// Largest resident size of the process so far.
    pub peak_rss_bytes: u64,
    /// Bytes of state and queued rows of all queries.
    pub memory_bytes: u64,
    /// The queries in order of submission.
    pub queries: Vec<QuerySnapshot>,
}

/// How one query stands.
#[derive(Clone, Debug)]
pub struct QuerySnapshot {
    /// Its name.
    pub name: String,
    /// Its latency target, ns.
    pub target_ns: u64,
    /// Running, finished, or why it was stopped.
    pub outcome: Outcome,
    /// Output latency (Cameo §4.1).
    pub latency: LatencySummary,
    /// Event-time latency (Klink §6.1.2), where the source places events on the clock.
    pub event_time_latency: Option<LatencySummary>,
    /// Output batches that left a sink, those within the target, and why the others were late.
    pub lateness: Lateness,
    /// Mean utility of the results by the query's curve, 0 to 1; `None` without results.
    pub utility: Option<f64>,
    /// Rows admitted from sources.
    pub rows_in: u64,
    /// Rows written by sinks.
    pub rows_out: u64,
    /// Rows that came after their window closed.
    pub rows_late: u64,
    /// Late rows per window end, the last windows only.
    pub late_windows: Vec<(EventTime, u64)>,
    /// Rows that could not be read.
    pub rows_dead: u64,
    /// Rows dropped at the sources to shed load; not among those admitted.
    pub rows_shed: u64,
    /// Rows admitted and not yet processed.
    pub rows_queued: u64,
    /// Bytes of operator state.
    pub state_bytes: u64,
    /// The watermark that reached the sinks.
    pub watermark: Option<EventTime>,
    /// How long ago that watermark was due, ns, where the source places events on the clock.
    pub watermark_lag_ns: Option<u64>,
    /// Part of a bounded input read so far, 0 to 1.
    pub progress: Option<f64>,
}

/// What one operator instance costs, and what it has done.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorMeasurement {
    /// Its query.
    pub query: String,
    /// The node of the dataflow.
    pub node: usize,
    /// Which copy.
    pub instance: usize,
    /// As `explain` names it.
    pub name: String,
    /// a of C(n) = a + b n, ns: the scheduler's estimate, of the last few dozen runs.
    pub fixed_ns: f64,
    /// b, ns.
    pub per_row_ns: f64,
    /// A bare watermark's cost, ns; of one that fires a window or not.
    pub watermark_ns: u64,
    /// Since the start.
    pub totals: Totals,
}

/// What one source instance took in.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedFeed {
    /// Its query.
    pub query: String,
    /// The node of the dataflow.
    pub node: usize,
    /// Which copy.
    pub instance: usize,
    /// Event-time milliseconds that pass in a millisecond, where the source has a pace of its own.
    pub speed: Option<f64>,
    /// In order.
    pub arrivals: Vec<RecordedArrival>,
}

impl QuerySnapshot {
    pub(crate) fn of(query: &Query, clock: &Clock) -> QuerySnapshot {
        use std::sync::atomic::Ordering::Relaxed;

        let results = query.results();
        let watermark = Some(EventTime(query.watermark_ms.load(Relaxed))).filter(|&w| w != EventTime::MIN);
        let lag = |watermark| Some(clock.now().since_ns(query.event_clock.get()?.due(watermark)));
        QuerySnapshot {
            name: query.settings.name.clone(),
            target_ns: query.settings.latency_target.ns(),
            outcome: query.outcome(),
            latency: results.latency,
            event_time_latency: results.event_time_latency,
            lateness: results.lateness,
            utility: results.utility,
            rows_in: query.rows_in.load(Relaxed),
            rows_out: query.rows_out.load(Relaxed),
            rows_late: query.rows_late.load(Relaxed),
            late_windows: query.late_windows(),
            rows_dead: query.rows_dead.load(Relaxed),
            rows_shed: query.rows_shed.load(Relaxed),
            rows_queued: query.in_flight_rows.load(Relaxed).max(0) as u64,
            state_bytes: query.state_bytes.load(Relaxed).max(0) as u64,
            watermark,
            watermark_lag_ns: watermark.and_then(lag),
            progress: query.progress(),
        }
    }
}

impl EngineSnapshot {
    pub(crate) fn new(
        clock: &Clock,
        memory_bytes: u64,
        operator_ns: u64,
        queries: Vec<QuerySnapshot>,
    ) -> EngineSnapshot {
        EngineSnapshot {
            wall_ns: clock.now().0,
            cpu_ns: process::cpu_ns(),
            operator_ns,
            peak_rss_bytes: process::peak_rss_bytes(),
            memory_bytes,
            queries,
        }
    }
}
