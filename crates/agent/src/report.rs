//! What one round saw and did, and how it is shown: as a table, and as Prometheus metrics.

mod prometheus;
mod table;

use std::time::Duration;

use crate::exchange::Neighbour;
use crate::plan::Change;
use crate::{ThreadId, ThreadSetting, Translator};

pub use prometheus::exposition;
pub use table::table;

/// One round.
#[derive(Clone, Debug)]
pub struct Report {
    /// One per task.
    pub rows: Vec<Row>,
    /// Policies that ranked.
    pub policies: Vec<String>,
    /// How ranks became settings.
    pub translator: Translator,
    /// Nothing is written.
    pub is_dry: bool,
    /// Share of all cores that was busy.
    pub busy: Option<f64>,
    /// Threads of the engines that are no operators.
    pub engine_threads: usize,
    /// What was written, or would be.
    pub changes: Vec<Change>,
    /// What the kernel refused, and why.
    pub failed: Vec<String>,
    /// Agents of other machines.
    pub neighbours: Vec<Neighbour>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Rounds so far, this one included.
    pub rounds: u64,
    /// How long it took.
    pub took: Duration,
    /// CPU time that the agent has used since it started.
    pub own_cpu: Duration,
}

/// One task.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its job.
    pub job: String,
    /// Its operator, or the first of those fused in it.
    pub operator: String,
    /// Which parallel instance, from 0.
    pub instance: u32,
    /// The thread that runs it.
    pub thread: ThreadId,
    /// Threads that help it.
    pub helpers: usize,
    /// Rows that wait for the operator, all instances together.
    pub queue_rows: Option<f64>,
    /// Rows per second that it takes in.
    pub rate: Option<f64>,
    /// Cores that it keeps busy.
    pub cores: Option<f64>,
    /// Threads of it that wait for a core.
    pub waiting: Option<f64>,
    /// CPU time per row.
    pub cost_ns: Option<f64>,
    /// How far its watermark is behind the clock.
    pub watermark_lag_ms: Option<f64>,
    /// How old its metrics are.
    pub sample_age_ms: Option<f64>,
    /// Of the policy, lower first; `None`: neutral for want of data.
    pub priority: Option<f64>,
    /// What the plan gives its thread.
    pub setting: ThreadSetting,
    /// What it had before.
    pub before: Option<ThreadSetting>,
    /// Weight of its group.
    pub weight: Option<u32>,
}
