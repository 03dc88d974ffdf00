//! What a user promises and allows for one query: its target, its limits, its checkpoints, what becomes of bad rows.

use std::path::PathBuf;
use std::time::Duration;

use crate::QosCurve;

/// The output latency a query is promised: from the ingestion of the last event that influenced a result
/// to the moment the result leaves the sink (Cameo §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatencyTarget(Duration);

impl LatencyTarget {
    /// What a query gets that names no target. Long, so that queries with a target go first.
    pub const DEFAULT: LatencyTarget = LatencyTarget(Duration::from_secs(60));

    /// `None` for zero: a target that nothing can meet is a user error, not a promise.
    pub fn new(target: Duration) -> Option<LatencyTarget> {
        (!target.is_zero()).then_some(LatencyTarget(target))
    }

    /// The target as a duration.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// The target in nanoseconds, saturating.
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// `laxity.row.error`: what becomes of a row over which an expression fails, a division by zero say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowErrors {
    /// The query stops, as it does in Flink.
    #[default]
    Fail,
    /// The row goes to the dead letters with the reason, and is counted.
    DeadLetter,
}

/// What a user says about one query besides its SQL: the SET keys before it.
#[derive(Clone, Debug, PartialEq)]
pub struct QuerySettings {
    /// `pipeline.name`. Unique within a process.
    pub name: String,
    /// `laxity.latency.target`.
    pub latency_target: LatencyTarget,
    /// `laxity.qos`: how useful a result is by its latency. The target's curve where it is not given.
    pub qos: Option<QosCurve>,
    /// `laxity.weight`: relative importance, positive, default 1.
    pub weight: f64,
    /// `table.exec.source.idle-timeout`: an input silent for so long no longer holds the watermark back.
    pub idle_timeout: Option<Duration>,
    /// `laxity.memory.limit`: bytes of state and queued rows at which this query alone is stopped.
    pub memory_limit_bytes: Option<u64>,
    /// `laxity.shed`: under overload rows of it may be dropped at its sources, each counted. Off unless asked.
    pub shed: bool,
    /// `laxity.approximate.when` = 'overload': under overload rows of it are left out, within an error that it states.
    pub leaves_out: bool,
    /// `laxity.row.error`.
    pub row_errors: RowErrors,
    /// `execution.checkpointing.*`: what it holds is saved now and then. Not unless asked.
    pub checkpoints: Option<Checkpoints>,
}

/// When and where the state of a query is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// `execution.checkpointing.interval`: from the beginning of one to that of the next.
    pub interval: Duration,
    /// `execution.checkpointing.dir`: what has one of each query. `None` where the program says which.
    pub place: Option<CheckpointPlace>,
}

/// Where checkpoints are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointPlace {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A URI of something else, such as `s3://bucket/state`.
    Elsewhere(String),
}

impl QuerySettings {
    /// How useful a result is by its latency: as given, or as the target implies.
    pub fn curve(&self) -> QosCurve {
        self.qos.clone().unwrap_or_else(|| QosCurve::of_target(self.latency_target))
    }

    /// Settings of a query that says nothing but its name.
    pub fn named(name: impl Into<String>) -> QuerySettings {
        QuerySettings {
            name: name.into(),
            latency_target: LatencyTarget::DEFAULT,
            qos: None,
            weight: 1.0,
            idle_timeout: None,
            memory_limit_bytes: None,
            shed: false,
            leaves_out: false,
            row_errors: RowErrors::Fail,
            checkpoints: None,
        }
    }
}
