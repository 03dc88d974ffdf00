//! The words between a driver and the scheduler: plain values without behaviour.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QosCurve, QueryId, WindowShape};

/// What the scheduler must know of a query.
#[derive(Clone, Debug)]
pub struct QuerySpec {
    /// The query.
    pub id: QueryId,
    /// L(q): the latency target.
    pub target_ns: u64,
    /// Relative importance, positive.
    pub weight: f64,
    /// How useful a result is by its latency; `None`: as the target implies.
    pub qos: Option<QosCurve>,
}

/// What the scheduler must know of an operator instance.
#[derive(Clone, Debug)]
pub struct OperatorSpec {
    /// The instance.
    pub id: OperatorId,
    /// Its query. Added before it.
    pub query: QueryId,
    /// Instances that feed it. Added before it; empty for a source.
    pub upstream: Vec<OperatorId>,
    /// The window it closes, if any, where windows end at multiples of the slide. `None` for sessions and windows
    /// with an offset: their rows are never deferred, because TRANSFORM would miss their ends.
    pub window: Option<WindowShape>,
    /// Number of input channels; `Message::channel` is below it.
    pub channels: u32,
}

/// Work for one operator instance, with its priority context (Cameo §4.3).
#[derive(Clone, Debug)]
pub struct Message<T> {
    /// The operator instance that must process it.
    pub to: OperatorId,
    /// The input channel it came by. Messages of one channel are processed in the order enqueued.
    pub channel: u32,
    /// p_M: no result of the message depends on an event later than this.
    pub progress: EventTime,
    /// t_M: when the last event that influenced it was ingested.
    pub ingested: ProcessingTime,
    /// Rows; 0 for a bare watermark.
    pub rows: u32,
    /// Bytes held while it waits.
    pub bytes: u64,
    /// Whatever the driver wants back: a batch, a cost.
    pub body: T,
}

/// An answer of `Scheduler::next`: this worker runs this operator now.
#[derive(Debug)]
pub struct Grant<T> {
    /// The operator instance. No other worker runs it until the run is reported finished.
    pub operator: OperatorId,
    /// What to run.
    pub work: Work<T>,
}

/// What a grant is for.
#[derive(Debug)]
pub enum Work<T> {
    /// Process this message.
    Message {
        /// The message.
        message: Message<T>,
        /// When it was enqueued, for the account of why a result was late.
        enqueued: ProcessingTime,
    },
    /// Go on with what the last run of this operator left (`RunReport::more`).
    Resume,
}

/// What a worker says after a grant.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunReport {
    /// Rows taken in; 0 for a watermark or a resumption.
    pub rows_in: u32,
    /// Rows sent on.
    pub rows_out: u32,
    /// CPU time used.
    pub cpu_ns: u64,
    /// The operator has work left that needs no further message.
    pub more: bool,
}
