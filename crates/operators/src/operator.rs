//! The contract between operators and whoever runs them: what a call may do, what it says of lateness and faults, and
//! how it ends its query.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::buffer::ScalarBuffer;
pub use laxity_graph::Flow;
use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use crate::{ExpressionFault, GroupsOfSlice, OperatorState, StateError};

/// A running operator instance. One worker runs it at a time; a driver calls it in this order:
///
/// 1. [`on_batch`](Operator::on_batch) and [`on_watermark`](Operator::on_watermark) for each message;
/// 2. after either returned [`Flow::More`]: [`resume`](Operator::resume) until [`Flow::Done`], before the
///    next message, with other operators' work in between if that is more urgent.
///
/// # Contract
/// - One call does at most about one output batch of work (`InstanceContext::batch_rows`) beyond what its
///   input batch demands; the rest is left for `resume`. This is what lets a worker switch within its quantum.
/// - Results depend on the rows and watermarks seen, never on how rows were cut into batches.
/// - A watermark is forwarded only after everything it released: emit it into the outbox last.
/// - The watermark given is the minimum over all inputs and channels and only ever rises. `EventTime::MAX`
///   means that all inputs have ended.
pub trait Operator: Send {
    /// Takes one batch from input `input`. `ingested` is t_M of Cameo: when the last event in it came in.
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError>;

    /// Learns that no row at or before `watermark` is still to come, on any input.
    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError>;

    /// Does the next piece of work that a call left.
    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let _ = out;
        Ok(Flow::Done)
    }

    /// Takes rows that were aggregated before they came, none of which is late for any of its windows. False: it aggregates
    /// none, and has not taken them.
    fn on_groups(&mut self, groups: &GroupsOfSlice) -> Result<bool, OperatorError> {
        let _ = groups;
        Ok(false)
    }

    /// Where event times lie on the clock, told before the first batch where the table knows it.
    fn on_event_clock(&mut self, clock: EventClock) {
        let _ = clock;
    }

    /// Whether time means anything to it but that of rows: asked once, before its first batch. Of one that says no, which
    /// most do, nobody asks [`wake_at`](Operator::wake_at) or [`approximation`](Operator::approximation), and none is told
    /// its lag.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Over how much event time a batch of a table may reach, ms, where rows are judged by when theirs came; `None` where
    /// that is nothing to it.
    fn arrival_step_ms(&self) -> Option<i64> {
        None
    }

    /// Whether the rows that come next are more work than there is time for, as far as one can tell.
    fn on_overload(&mut self, is_overloaded: bool) {
        let _ = is_overloaded;
    }

    /// An instant that it asked for has come: the one asked for, however late the call is.
    fn on_time(&mut self, now: ProcessingTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let _ = (now, out);
        Ok(Flow::Done)
    }

    /// Of one that leaves rows out: what it has done.
    fn approximation(&self) -> Option<Approximation> {
        None
    }

    /// When [`on_time`](Operator::on_time) is to be called; asked after every call. A later answer takes the place of an
    /// earlier one. A call too many, or one for an instant no longer asked for, does no harm.
    fn wake_at(&self) -> Option<ProcessingTime> {
        None
    }

    /// Whether a source that runs this wants to be told the processing time as its watermark (Unix ms): its rows
    /// are stamped with PROCTIME(), and nothing else moves its windows on.
    fn follows_processing_time(&self) -> bool {
        false
    }

    /// Whether it may hold rows until a watermark comes, other than the last one. Where none in a query does, it is not told the
    /// processing time.
    fn waits_for_time(&self) -> bool {
        true
    }

    /// Of a source with event time: the least and the latest event time in the batch it took last.
    fn event_times(&self) -> Option<(EventTime, EventTime)> {
        None
    }

    /// What it holds, for [`restore`](Operator::restore) in a new instance of the same stage. Called between two messages,
    /// never while it has more to give (after [`Flow::More`]): a driver resumes it to [`Flow::Done`] first. The operator goes
    /// on as if it had not been asked.
    ///
    /// # Errors
    /// If it cannot be checkpointed.
    fn save(&mut self) -> Result<OperatorState, StateError>;

    /// Takes over what another instance of the same stage, the same number among as many parallel instances, held. Before
    /// its first message, after [`on_event_clock`](Operator::on_event_clock); once.
    ///
    /// # Errors
    /// If the state is not one that such an instance has saved. The operator may then have taken over a part of it, and
    /// must not be used.
    ///
    /// Results that hang on restored rows alone say that these were ingested at [`ProcessingTime::ZERO`]: before this process.
    fn restore(&mut self, state: OperatorState) -> Result<(), StateError>;

    /// Asks for the memory behind it that its next call will touch ([`laxity_graph::fetch`]), where that is a row's.
    fn fetch(&self) {}

    /// Bytes of state held, an estimate that a memory bound can trust within a factor of two.
    fn state_bytes(&self) -> usize {
        0
    }
}

/// Rows with what the late-data rule needs to judge them wherever they are cut.
///
/// Flink's rule: a row is too late for a window when `window_end - 1 <= watermark before the row`. The
/// watermark rises inside a batch, so the rule needs the watermark before *each row*; otherwise results would
/// depend on batch size.
#[derive(Clone, Debug)]
pub struct StreamBatch {
    /// The rows.
    pub rows: RecordBatch,
    /// The source's watermark (ms) just before each row. `None`: every row is more than a millisecond ahead of
    /// it, so that none can be late for a window it falls in, nor touch a session that has been closed.
    pub watermark_before: Option<ScalarBuffer<i64>>,
}

impl StreamBatch {
    /// A batch none of whose rows is behind the watermark.
    pub fn on_time(rows: RecordBatch) -> StreamBatch {
        StreamBatch { rows, watermark_before: None }
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    /// Zero-copy slice.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> StreamBatch {
        StreamBatch {
            rows: self.rows.slice(offset, length),
            watermark_before: self.watermark_before.as_ref().map(|w| w.slice(offset, length)),
        }
    }
}

/// What an operator sends on, in order.
pub type Emitted = laxity_graph::Emitted<StreamBatch>;

/// A batch of up to so many rows is taken row by row where that is cheaper: expressions without an array for every
/// step, groups found by comparing. Results are the same.
pub(crate) const FEW_ROWS_MAX: usize = 16;

/// Rows dropped because their window had closed.
#[derive(Debug)]
pub struct LateRows {
    /// The rows as the windowed operator received them. Counted; routed to the late table if there is one.
    pub rows: RecordBatch,
    /// End of the last window that each row missed (ms), same length as `rows`.
    pub window_end: Int64Array,
}

/// What a column of a late table is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateColumn {
    /// A column of the windowed operator's input, cast to the table's type where it differs.
    Input(usize),
    /// The end of the window that the row missed, a `TIMESTAMP(3)`.
    WindowEnd,
}

/// Rows that cannot be processed: bad, and not merely late.
#[derive(Debug)]
pub struct DeadRows {
    /// The rows as the operator received them. Counted; routed to the dead-letter file if there is one.
    pub rows: RecordBatch,
    /// Why they are refused.
    pub reason: DeadReason,
}

/// Why a row is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// The time attribute is NULL.
    NullTime,
    /// The event time is further ahead of all others than the query allows.
    TooFarAhead,
    /// An expression fails over it, and the query does not stop for that.
    Failed(Arc<str>),
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeadReason::NullTime => "event time is NULL",
            DeadReason::TooFarAhead => "event time is too far in the future",
            DeadReason::Failed(error) => error,
        })
    }
}

/// Collects what one call produces.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Output in order.
    pub emitted: Vec<Emitted>,
    /// Rows refused as late.
    pub late: Vec<LateRows>,
    /// Rows refused as bad.
    pub dead: Vec<DeadRows>,
}

impl Outbox {
    /// Sends rows on that the current message alone influenced.
    pub fn batch(&mut self, batch: StreamBatch) {
        if batch.num_rows() > 0 {
            self.emitted.push(Emitted::Batch { batch, ingested: None, window_end: None });
        }
    }

    /// Sends a result on that rows of earlier messages influenced.
    pub fn result(&mut self, batch: StreamBatch, ingested: ProcessingTime, window_end: Option<EventTime>) {
        if batch.num_rows() > 0 {
            self.emitted.push(Emitted::Batch { batch, ingested: Some(ingested), window_end });
        }
    }

    /// Forwards a watermark.
    pub fn watermark(&mut self, watermark: EventTime) {
        self.emitted.push(Emitted::Watermark(watermark));
    }
}

/// Why an operator had to stop its query.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// A row made an expression fail (division by zero, bad cast). The user can fix it.
    #[error(transparent)]
    Expression(Box<ExpressionFault>),
    /// A row made something else fail, as an aggregate that overflows. The user can fix it.
    #[error("{operator}: {message}")]
    Row {
        /// The operator, as `explain` names it.
        operator: String,
        /// What went wrong.
        message: String,
    },
    /// A broken invariant. Ours to fix.
    #[error("{operator}: internal error: {message} (please report this)")]
    Internal {
        /// The operator.
        operator: String,
        /// The values that broke it.
        message: String,
    },
}

impl OperatorError {
    /// Whether another row would not have led to it.
    pub fn is_of_a_row(&self) -> bool {
        matches!(self, OperatorError::Row { .. } | OperatorError::Expression(_))
    }
}

#[cfg(test)]
mod tests {
    use super::StreamBatch;

    #[test]
    fn a_batch_is_a_cache_line() {
        // It is moved a dozen times between two operators.
        assert_eq!(size_of::<Option<StreamBatch>>(), 64);
    }
}
