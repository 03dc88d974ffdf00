//! What operators hold, as tables: for checkpoints, and for whoever wants to read one.

use arrow::array::RecordBatch;

/// What an operator instance holds between two messages, as tables that anybody can read. Of one that holds nothing, none.
///
/// Instants of the process ([`ProcessingTime`](laxity_graph::ProcessingTime)) are not in it: they mean nothing to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorState {
    /// The tables. Their order means nothing: a part is found by its name.
    pub parts: Vec<StatePart>,
}

/// One table of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StatePart {
    /// In kebab case, unique within the operator's state, and stable: part of the format.
    pub name: String,
    /// The table.
    pub rows: RecordBatch,
}

/// Why state cannot be saved, or does not fit.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The operator cannot be checkpointed. The user can leave out the checkpoints, or what `reason` names.
    #[error("{operator} cannot be checkpointed: {reason}")]
    Unsupported {
        /// The operator, as `explain` names it.
        operator: String,
        /// Which feature is to blame, and what to do.
        reason: String,
    },
    /// It is of another query or damaged. What holds it may be left out, and the query begins anew.
    #[error("state {part:?} does not fit the query: expected {expected}, found {found}")]
    Mismatch {
        /// The part's name.
        part: String,
        /// What the operator takes.
        expected: String,
        /// What was given.
        found: String,
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
