//! What is shown of a run at one instant: the engine's snapshot in the units and words of the reader.

/// A run.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    /// Name of the policy.
    pub policy: String,
    /// Worker threads.
    pub workers: usize,
    /// Since the start.
    pub wall_ns: u64,
    /// CPU time of the process.
    pub cpu_ns: u64,
    /// Largest resident size so far.
    pub peak_rss_bytes: u64,
    /// State and queued rows of all queries.
    pub held_bytes: u64,
    /// Part of the bounded inputs read so far, 0 to 1. `None` where an input has no end.
    pub progress: Option<f64>,
    /// Every query, in the order of the files.
    pub queries: Vec<QueryView>,
}

/// One query of a run.
#[derive(Clone, Debug, Default)]
pub struct QueryView {
    /// `pipeline.name`.
    pub name: String,
    /// `laxity.latency.target`.
    pub target_ns: u64,
    /// Results written.
    pub results: u64,
    /// Of those, the ones within the target.
    pub met: u64,
    /// From the arrival of the last row that influenced a result to its leaving the sink.
    pub latency: Latency,
    /// From the instant at which a window's end was due. `None` where the source has no pace of its own.
    pub event_time_latency: Option<Latency>,
    /// Rows read.
    pub rows_in: u64,
    /// Rows written.
    pub rows_out: u64,
    /// Rows too late for a window.
    pub rows_late: u64,
    /// Rows that could not be read.
    pub rows_dead: u64,
    /// Rows waiting between operators.
    pub queue_rows: u64,
    /// How long ago the watermark that reached the sink was due.
    pub lag_ns: Option<u64>,
    /// Where the late results spent their time.
    pub late_because: LateBecause,
    /// How it stands.
    pub status: Status,
}

/// Percentiles of a latency, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Mean.
    pub mean_ns: u64,
}

/// Time of all late results together, by cause, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct LateBecause {
    /// Held back at the source: no credit, a slow reader.
    pub source_ns: u64,
    /// Waiting for a worker.
    pub queue_ns: u64,
    /// Being computed.
    pub execute_ns: u64,
    /// Waiting for another input's watermark.
    pub frontier_ns: u64,
    /// Being written.
    pub sink_ns: u64,
}

/// How a query stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Rows may still come.
    #[default]
    Running,
    /// Everything was written.
    Finished,
    /// Stopped by this error.
    Failed(String),
}

impl QueryView {
    /// True while 99 % of the results are within the target, which is what we promise of it.
    pub fn keeps_target(&self) -> bool {
        self.met as f64 >= self.results as f64 * 0.99
    }
}

impl LateBecause {
    /// Each cause by name with its share of the whole, in the order of a result's life. All 0 if nothing was
    /// late.
    pub fn shares(&self) -> [(&'static str, f64); 5] {
        let parts = [
            ("source", self.source_ns),
            ("queue", self.queue_ns),
            ("execute", self.execute_ns),
            ("frontier", self.frontier_ns),
            ("sink", self.sink_ns),
        ];
        let total: f64 = parts.iter().map(|&(_, ns)| ns as f64).sum();
        parts.map(|(cause, ns)| (cause, if total > 0.0 { ns as f64 / total } else { 0.0 }))
    }

    /// The largest share.
    pub fn main_cause(&self) -> Option<(&'static str, f64)> {
        let shares = self.shares();
        shares.into_iter().filter(|&(_, share)| share > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
