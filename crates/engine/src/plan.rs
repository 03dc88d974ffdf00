//! What a query is when it comes to the engine, and why one may not be taken.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use laxity_connect::{ConnectError, ScanSpec, SinkSpec};
use laxity_graph::{Dataflow, NodeId};
use laxity_operators::{LateColumn, OperatorError, Stage};
use laxity_state::Mirror;

/// One query, ready to run.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// The operators and how rows travel between them.
    pub dataflow: Dataflow<Stage<ScanSpec, SinkSpec>>,
    /// Where rows go that are too late for their window.
    pub late: Option<LatePlan>,
    /// Where what it holds is saved, and found again. `None`: nowhere.
    pub state: Option<StatePlan>,
}

impl QueryPlan {
    /// What it writes, in the order in which it is opened, results before late rows; and, of those that it writes to one
    /// place, the number of each.
    pub(crate) fn outputs(&self) -> Vec<(SinkSpec, usize)> {
        let results = self.dataflow.nodes().iter().filter_map(|node| match &node.stage {
            Stage::Sink(spec) => Some(spec.clone()),
            _ => None,
        });
        let mut parts: HashMap<PathBuf, usize> = HashMap::new();
        let all = results.chain(self.late.iter().map(|late| late.sink.clone()));
        let numbered = all.map(|spec| {
            let part = parts.entry(spec.place(&self.dataflow.settings.name)).or_insert(0);
            *part += 1;
            (spec, *part - 1)
        });
        numbered.collect()
    }
}

/// Checkpoints of a query.
#[derive(Clone, Debug)]
pub struct StatePlan {
    /// Of this process alone, for as long as the engine lives; a folder of each query is in it.
    pub folder: PathBuf,
    /// A copy of the folder in a store of objects, in which a checkpoint has to be too.
    pub mirror: Option<Arc<Mirror>>,
    /// From the beginning of one to that of the next.
    pub interval: Duration,
    /// The query's operators as text: it goes on only from a checkpoint whose text is the same.
    pub shape: Vec<String>,
    /// It begins anew, whatever is there.
    pub ignores: bool,
    /// It goes on from the checkpoint of this number, and not from the last.
    pub at: Option<u64>,
}

/// The late table of a query.
#[derive(Clone, Debug)]
pub struct LatePlan {
    /// The table.
    pub sink: SinkSpec,
    /// The windowed operator whose late rows it takes.
    pub node: NodeId,
    /// What each of its columns is filled with.
    pub columns: Vec<LateColumn>,
}

/// A query that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// A table could not be opened.
    #[error("query {query:?} cannot open its tables")]
    Connect {
        /// The query.
        query: String,
        /// Why.
        source: ConnectError,
    },
    /// An operator could not be built.
    #[error("query {query:?} cannot be built")]
    Operator {
        /// The query.
        query: String,
        /// Why.
        source: OperatorError,
    },
    /// The system gives the process no more threads, or no memory for one.
    #[error("cannot start a thread of the engine; fewer --workers need fewer")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
    /// Under the policy `os`: the user can fix it.
    #[error(
        "query {query:?} needs {needed} threads, one for each operator under this policy, and {used} of the {room} that this system \
         leaves room for are used: run fewer queries, choose another policy, or raise the least of vm.max_map_count, \
         kernel.threads-max and the cgroup's pids.max"
    )]
    ThreadRoom {
        /// The query.
        query: String,
        /// Threads that it needs.
        needed: u64,
        /// Threads of operators that there are.
        used: u64,
        /// Threads that there may be.
        room: u64,
    },
    /// Names identify queries in every table and report.
    #[error("there is already a query named {query:?}: give each its own SET 'pipeline.name'")]
    NameTaken {
        /// The name.
        query: String,
    },
    /// It asks for columns of a table that is read without them, and cannot be read once more from where it is.
    #[error(
        "query {query:?} asks for columns of {table:?} that those who read it already do not: read it from its start, or declare it under another name"
    )]
    Columns {
        /// The query.
        query: String,
        /// The table.
        table: String,
    },
    /// It writes on what the query writes whose place it takes, and only one of them has checkpoints.
    #[error(
        "query {query:?} cannot write on {table:?}: what is written with checkpoints is cut back to one of them; cancel the query that \
         writes it first, or write elsewhere"
    )]
    TakenOver {
        /// The query.
        query: String,
        /// The table.
        table: String,
    },
    /// What is saved of it cannot be used, or it cannot be saved. The user can fix it.
    #[error("query {query:?}: {message}")]
    State {
        /// The query.
        query: String,
        /// Why, and what to do.
        message: String,
    },
    /// All its inputs had ended and all its results were written.
    #[error(
        "query {query:?} is complete: nothing is left to be done. To run it anew, remove {folder:?} or give --state-ignore {query:?}"
    )]
    Complete {
        /// The query.
        query: String,
        /// What says so.
        folder: PathBuf,
    },
    /// The folder for its state cannot be used.
    #[error("query {query:?} cannot use its state")]
    Store {
        /// The query.
        query: String,
        /// Why.
        source: laxity_state::StateError,
    },
    /// A plan that breaks the engine's rules. The planner's bug.
    #[error("query {query:?} has no valid plan: {message} (please report this)")]
    Plan {
        /// The query.
        query: String,
        /// The rule.
        message: String,
    },
}
