//! The seam between the runtime and its rows: whatever the runtime needs to know of a batch or an operator is asked
//! here.

use std::fmt::{Debug, Display};

use laxity_graph::{Approximation, Emitted, EventClock, EventTime, Flow, ProcessingTime};

use crate::{Front, Template};

/// What rows and operators are: Arrow batches on threads, or counted rows under a cost model in virtual time.
///
/// One choice for a whole runtime, resolved when it is compiled: nothing on a message's way is dispatched at run time but
/// the operator itself.
pub trait Content: Sized + 'static {
    /// Rows that travel as one.
    type Batch: Clone + Debug;
    /// A parallel copy of one operator, with its state.
    type Operator;
    /// What a call of an operator produces.
    type Outbox: Default;
    /// Splits rows by the hash of their key.
    type Partitioner;
    /// Rows that came too late for their window.
    type Late;
    /// What the columns of a late table are filled with.
    type LateShape: Clone;
    /// Rows that an operator refuses for what they are.
    type Dead;
    /// What readers of a table that ask the same of its rows share.
    type Front: Front<Batch = Self::Batch, Dead = Self::Dead, Error = Self::Error>;
    /// What queries have in common that are done as one.
    type Template: Template<Self>;
    /// What an operator holds between two messages.
    type State;
    /// Why an operator, or rows, cannot go on.
    type Error: Display;

    /// Rows in a batch.
    fn rows(batch: &Self::Batch) -> u32;

    /// Bytes that the rows of a batch hold.
    fn bytes(batch: &Self::Batch) -> u64;

    /// So many rows from an offset on.
    fn slice(batch: &Self::Batch, offset: usize, rows: usize) -> Self::Batch;

    /// As far as is known before anybody has looked at rows that come in: no result of them depends on an event later than
    /// this.
    fn progress(_: &Self::Batch) -> EventTime {
        EventTime::MIN
    }

    /// What is left of a batch that comes in, all rows of which are dropped: if it carries a watermark, that.
    fn without_rows(_: &Self::Batch) -> Option<Self::Batch> {
        None
    }

    /// Batches of one channel as one.
    ///
    /// # Errors
    /// If they are not alike, which those of one channel always are.
    fn concat(batches: &[&Self::Batch]) -> Result<Self::Batch, Self::Error>;

    /// The part of each target, `None` where it gets no row.
    ///
    /// # Errors
    /// If a key cannot be hashed.
    fn split(
        partitioner: &mut Self::Partitioner,
        batch: &Self::Batch,
    ) -> Result<Vec<Option<Self::Batch>>, Self::Error>;

    /// Gives an operator a batch by one of its inputs. `ingested` is t_M of Cameo.
    ///
    /// # Errors
    /// Those of the operator; they end its query.
    fn on_batch(
        operator: &mut Self::Operator,
        input: usize,
        batch: Self::Batch,
        ingested: ProcessingTime,
        outbox: &mut Self::Outbox,
    ) -> Result<Flow, Self::Error>;

    /// Tells an operator its watermark.
    ///
    /// # Errors
    /// As [`on_batch`](Content::on_batch).
    fn on_watermark(
        operator: &mut Self::Operator,
        watermark: EventTime,
        outbox: &mut Self::Outbox,
    ) -> Result<Flow, Self::Error>;

    /// Lets an operator go on with what a call left.
    ///
    /// # Errors
    /// As [`on_batch`](Content::on_batch).
    fn resume(operator: &mut Self::Operator, outbox: &mut Self::Outbox) -> Result<Flow, Self::Error>;

    /// What an operator holds, between two messages; it goes on as if it had not been asked.
    ///
    /// # Errors
    /// If it cannot be saved: why, and what to do.
    fn save(operator: &mut Self::Operator) -> Result<Self::State, String>;

    /// Gives an operator that has done nothing yet what another one of its kind held.
    ///
    /// # Errors
    /// If that does not fit.
    fn restore(operator: &mut Self::Operator, state: Self::State) -> Result<(), String>;

    /// Tells an operator where event times lie on the clock.
    fn on_event_clock(_: &mut Self::Operator, _: EventClock) {}

    /// Whether an operator wants to be told how late it is, and what time it is.
    fn keeps_time(_: &Self::Operator) -> bool {
        false
    }

    /// Over how much event time a batch of a table may reach, ms, for an operator that judges rows by when theirs came.
    fn arrival_step_ms(_: &Self::Operator) -> Option<i64> {
        None
    }

    /// Tells an operator whether the rows that come next are more work than there is time for, as far as one can tell.
    fn on_overload(_: &mut Self::Operator, _is_overloaded: bool) {}

    /// Tells an operator that an instant it asked for has come.
    ///
    /// # Errors
    /// As [`on_batch`](Content::on_batch).
    fn on_time(
        _: &mut Self::Operator,
        _now: ProcessingTime,
        _: &mut Self::Outbox,
    ) -> Result<Flow, Self::Error> {
        Ok(Flow::Done)
    }

    /// Of an operator that leaves rows out: what it has done.
    fn approximation(_: &Self::Operator) -> Option<Approximation> {
        None
    }

    /// When an operator wants to be told.
    fn wake_at(_: &Self::Operator) -> Option<ProcessingTime> {
        None
    }

    /// How many rows of a batch, from `next_row` on, an operator is to take next, where so much is left of the quantum
    /// and a row of late took so long; 0: not known. Less than all of them only where more would take too long; at
    /// least one.
    fn rows_that_fit(_: &Self::Operator, _next_row: usize, left_ns: u64, ns_per_row: f64) -> usize {
        // Never so few that the call's overhead dominates.
        const ROWS_MIN: usize = 128;
        if ns_per_row <= 0.0 {
            return usize::MAX;
        }
        ((left_ns as f64 / ns_per_row) as usize).max(ROWS_MIN)
    }

    /// A channel's watermark rose, and others hold that of the instance back. There is nothing to do; under a cost model
    /// it may take time all the same.
    fn on_held_back(_: &mut Self::Operator) {}

    /// How many runs of an instance lie between two questions for the size of its state. To ask a window walks its slices:
    /// every few runs is near enough for a bound.
    const RUNS_BETWEEN_STATE_CHECKS: u32 = 16;

    /// Asks for the memory that an operator's next call will touch.
    fn fetch(_: &Self::Operator) {}

    /// Bytes of an operator's state.
    fn state_bytes(operator: &Self::Operator) -> u64;

    /// Of a source's operator: least and latest event time in the batch that it took last.
    fn event_times(operator: &Self::Operator) -> Option<(EventTime, EventTime)>;

    /// Whether a source that runs this operator is to be told the processing time as its watermark.
    fn follows_processing_time(operator: &Self::Operator) -> bool;

    /// Whether it may hold rows until a watermark comes. Where no operator of a query does, its sources are not told the time.
    fn waits_for_time(operator: &Self::Operator) -> bool {
        let _ = operator;
        true
    }

    /// An operator that takes everything and answers nothing: stands where that of an ended query was.
    fn ended() -> Self::Operator;

    /// What operators sent, in order, to be taken out.
    fn emitted(outbox: &mut Self::Outbox) -> &mut Vec<Emitted<Self::Batch>>;

    /// What they refused as late, to be taken out.
    fn late(outbox: &mut Self::Outbox) -> &mut Vec<Self::Late>;

    /// What they refused otherwise, to be taken out.
    fn dead(outbox: &mut Self::Outbox) -> &mut Vec<Self::Dead>;

    /// The end of the last window that late rows missed, ms, and how many missed it; in any order and number.
    fn late_windows(late: &Self::Late) -> impl Iterator<Item = (i64, u64)>;

    /// Late rows as a late table takes them.
    ///
    /// # Errors
    /// If a column cannot be cast to that of the table.
    fn late_rows(late: &Self::Late, shape: &Self::LateShape) -> Result<Self::Batch, Self::Error>;

    /// How many rows were refused, and why.
    fn dead_rows(dead: &Self::Dead) -> (u64, String);
}

/// Tells how much time has passed. On threads the machine's clock; in virtual time operators move it on themselves.
pub trait Clock {
    /// Now.
    fn now(&self) -> ProcessingTime;
}
