//! What figures, tests and users read of a simulation once it has ended.

use hdrhistogram::Histogram;
use laxity_graph::{EventTime, ProcessingTime, QueryId};
use laxity_sched::Lateness;

/// What came of a simulation.
#[derive(Debug)]
pub struct Outcome {
    /// The policy it began with.
    pub policy: String,
    /// The queries, in the order of the workload.
    pub queries: Vec<QueryOutcome>,
    /// Names of the operator instances, by the number that the timeline gives them; behind them those of tables, where
    /// looks are scheduled, which are not on it.
    pub operators: Vec<String>,
    /// When the last event happened.
    pub ended: ProcessingTime,
    /// Time that cores spent in operators, over all cores.
    pub busy_ns: u64,
    /// Time that cores spent on looks at tables, where these are scheduled.
    pub look_ns: u64,
    /// Time that cores spent on anything else but waiting: calls, switches, decisions.
    pub overhead_ns: u64,
    /// Time that cores had nothing to do, or no worker to do it.
    pub idle_ns: u64,
    /// The part of it in which workers slept with their operators. Threads leave their cores to others.
    pub asleep_ns: u64,
    /// How often a core ran another operator than before.
    pub switches: u64,
    /// Runs of operators.
    pub grants: u64,
    /// Messages that reached operators.
    pub messages: u64,
    /// What waited and what it occupied, over time.
    pub samples: Vec<Sample>,
    /// The most bytes of queued rows and state at once, over all nodes.
    pub memory_peak_bytes: u64,
    /// Who ran where when, if asked for.
    pub timeline: Option<Vec<Slice>>,
    /// Every result, if asked for.
    pub results: Option<Vec<ResultRecord>>,
    /// What the checkers found wrong. Empty is good.
    pub violations: Vec<Violation>,
    /// Equal for equal runs.
    pub digest: u64,
    /// Every event as a line, if asked for.
    pub trace: Option<String>,
}

/// What became of one query.
#[derive(Debug)]
pub struct QueryOutcome {
    /// Its name.
    pub name: String,
    /// Its latency target.
    pub target_ns: u64,
    /// Results written, those within the target, and why the others were late. A result is a batch at a sink: for
    /// a window, one per instance of the window operator.
    pub lateness: Lateness,
    /// Output latency (Cameo §4.1): from t_M to the sink. In ns; no result, no histogram.
    pub latency: Option<Histogram<u64>>,
    /// Event-time latency (Klink §6.1.2): from the end of the window that a result is of (or the event time of the
    /// rows where there is none) to the sink. Event time 0 is due at the start. In ns.
    pub event_time_latency: Option<Histogram<u64>>,
    /// For how long each window is due, ns, that has not come out at the end although all sources were given a watermark
    /// behind it; by the clock of `event_time_latency`. Empty where windows are not aligned, or nothing ever came out.
    pub owed_ns: Vec<u64>,
    /// Mean latency in ns, exact; 0 without results.
    pub latency_mean_ns: f64,
    /// Mean event-time latency in ns, exact; 0 without results.
    pub event_time_latency_mean_ns: f64,
    /// Mean utility of its results by its curve; 0 without results.
    pub utility_mean: f64,
    /// Rows admitted by its sources.
    pub rows_in: u64,
    /// Rows that its sources took in, per second of measured time.
    pub throughput: f64,
    /// Rows written by its sinks.
    pub rows_out: u64,
    /// Rows that came after all their windows had closed.
    pub rows_late: u64,
    /// Rows dropped to shed load.
    pub rows_shed: u64,
    /// Rows admitted, or held back at the source, that wait at the end.
    pub rows_queued: u64,
    /// CPU time in its operators.
    pub busy_ns: u64,
}

/// How things stood at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: ProcessingTime,
    /// Rows that wait in mailboxes.
    pub queued_rows: u64,
    /// Messages that wait in mailboxes.
    pub queued_messages: u64,
    /// Bytes of rows, queued or in hand, and of state.
    pub bytes: u64,
    /// Sources that hold arrivals back.
    pub held_sources: u64,
}

/// One run on the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// When it began.
    pub start: ProcessingTime,
    /// When it was over.
    pub end: ProcessingTime,
    /// On which machine.
    pub node: u32,
    /// On which of its cores.
    pub core: u32,
    /// Of which query.
    pub query: QueryId,
    /// Which operator instance, numbered over all queries.
    pub operator: u32,
    /// The progress of the message.
    pub progress: EventTime,
}

/// One result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultRecord {
    /// Of which query.
    pub query: QueryId,
    /// t_M: when the last event that influenced it was ingested, or due to be.
    pub ingested: ProcessingTime,
    /// When it was written.
    pub written: ProcessingTime,
    /// End of its window, or the event time of its rows where there is none.
    pub event_time: EventTime,
    /// Its rows.
    pub rows: u32,
    /// Time in operators on its way, from the source (or, for a window, on the way of the watermark that released it).
    pub execute_ns: u64,
}

/// Something that must not happen, seen by a checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: ProcessingTime,
    /// What must hold.
    pub rule: &'static str,
    /// What was seen.
    pub seen: String,
    /// Of the simulation.
    pub seed: u64,
}

impl Outcome {
    /// Results within their target, over all queries; 1 where there are none.
    pub fn met_share(&self) -> f64 {
        let mut all = Lateness::default();
        self.queries.iter().for_each(|query| all.merge(&query.lateness));
        all.met_share()
    }

    /// Latencies of all results of the queries that `of` picks.
    pub fn latency(&self, of: impl Fn(&QueryOutcome) -> bool) -> Histogram<u64> {
        merged(self.queries.iter().filter(|query| of(query)).filter_map(|query| query.latency.as_ref()))
    }

    /// Event-time latencies of all results of the queries that `of` picks.
    pub fn event_time_latency(&self, of: impl Fn(&QueryOutcome) -> bool) -> Histogram<u64> {
        let picked = self.queries.iter().filter(|query| of(query));
        merged(picked.filter_map(|query| query.event_time_latency.as_ref()))
    }

    /// Share of the cores' time that was spent in operators.
    pub fn utilisation(&self) -> f64 {
        self.share(self.busy_ns)
    }

    /// Which share of the cores' time so much of it is; 0 where none passed.
    pub fn share(&self, ns: u64) -> f64 {
        let all_ns = self.busy_ns + self.look_ns + self.overhead_ns + self.idle_ns;
        if all_ns == 0 { 0.0 } else { ns as f64 / all_ns as f64 }
    }
}

fn merged<'a>(histograms: impl Iterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut sum = Histogram::new(3).expect("three digits are allowed");
    for histogram in histograms {
        sum.add(histogram).expect("it grows as needed");
    }
    sum
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {} ns, seed {}: {}, but {}", self.at.0, self.seed, self.rule, self.seen)
    }
}
