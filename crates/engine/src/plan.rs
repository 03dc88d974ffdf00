//! What a query is when it comes to the engine, and how its instances and outputs are made of that.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use laxity_connect::{
    ConnectError, RefusedRows, ScanSpec, SinkEnvironment, SinkSpec, TableSpec, Waiting, open_sink,
};
use laxity_graph::{Dataflow, NodeId, RowErrors};
use laxity_operators::{HashPartitioner, InstanceContext, LateColumn, Operator, OperatorError, Stage};
use laxity_runtime::{ArrowRows, Blueprint, LateShape, LateWay, Outlet, Query, Role};

use crate::checkpoints::{Finish, Restored};
use crate::refused::LetterWriter;
use crate::sink_io::{Added, SinkPool};

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

/// Makes a query's parts out of its plan: operators by their factories, outlets by their connectors.
pub(crate) struct Builder<'a> {
    pub query: &'a Arc<Query>,
    pub late: Option<&'a LatePlan>,
    pub batch_rows: usize,
    /// Where letters go for rows that operators behind the sources refuse.
    pub letters: Option<&'a Arc<TableSpec>>,
    pub sinks: &'a Arc<SinkPool>,
    /// Numbers those who write to one place.
    pub next_part: &'a mut dyn FnMut(&SinkSpec) -> usize,
    /// What was opened, also if the rest could not be made.
    pub opened: &'a mut Vec<Arc<Outlet>>,
    /// Of a query with checkpoints: how it ends.
    pub finish: Option<&'a Arc<Finish>>,
    /// What it goes on from.
    pub restored: Option<&'a Restored>,
}

/// The first table of a query that names a file for dead letters, where the query has letters written by all of its
/// operators: a row behind a join or an aggregation is no longer one table's.
pub(crate) fn letters_of(dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> Option<&Arc<TableSpec>> {
    if dataflow.settings.row_errors == RowErrors::Fail {
        return None;
    }
    dataflow.nodes().iter().find_map(|node| match &node.stage {
        Stage::Source { scan, .. } if RefusedRows::wanted(&scan.table) => Some(&scan.table),
        _ => None,
    })
}

impl Builder<'_> {
    fn name(&self) -> String {
        self.query.settings.name.clone()
    }

    fn open(&mut self, spec: &SinkSpec, writers: usize, is_result: bool) -> Result<Arc<Outlet>, SubmitError> {
        let number = self.opened.len();
        // What others write too cannot be taken back for one.
        let joined = match self.finish {
            None => self.sinks.join(self.query, &spec.table, writers, is_result),
            Some(_) => None,
        };
        let outlet = match joined {
            Some(outlet) => outlet,
            None => {
                let waiting = Waiting::default();
                let environment = SinkEnvironment {
                    waiting: waiting.clone(),
                    query: self.name(),
                    part: (self.next_part)(spec),
                    is_checkpointed: self.finish.is_some(),
                    resume: self.restored.and_then(|restored| restored.output(number)),
                };
                let sink = open_sink(spec, &environment)
                    .map_err(|source| SubmitError::Connect { query: self.name(), source })?;
                let finish = self.finish.map(|finish| (finish.clone(), number));
                self.sinks
                    .add(self.query, Added { sink, waiting, table: &spec.table, writers, is_result, finish })
            }
        };
        self.opened.push(outlet.clone());
        Ok(outlet)
    }
}

impl Blueprint<Stage<ScanSpec, SinkSpec>> for Builder<'_> {
    type Content = ArrowRows;
    type Error = SubmitError;

    fn role(&self, stage: &Stage<ScanSpec, SinkSpec>) -> Role {
        match stage {
            Stage::Source { .. } => Role::Source,
            Stage::Operator(_) => Role::Operator,
            Stage::Sink(_) => Role::Sink,
        }
    }

    fn operator(
        &mut self,
        node: NodeId,
        stage: &Stage<ScanSpec, SinkSpec>,
        instance: usize,
        parallelism: usize,
    ) -> Result<Box<dyn Operator>, SubmitError> {
        let invalid = |message: String| SubmitError::Plan { query: self.name(), message };
        let factory = match stage {
            Stage::Operator(factory) => factory,
            Stage::Source { operator, .. } if parallelism == 1 => operator,
            Stage::Source { .. } => {
                return Err(invalid(format!("source {} has {parallelism} instances", node.0)));
            }
            Stage::Sink(_) => return Err(invalid(format!("sink {} is asked for an operator", node.0))),
        };
        let context = InstanceContext { instance, parallelism, batch_rows: self.batch_rows };
        let operator =
            factory.make(&context).map_err(|source| SubmitError::Operator { query: self.name(), source })?;
        let table = match stage {
            Stage::Source { scan, .. } => Some(&scan.table),
            _ => self.letters,
        };
        let Some(table) = table else { return Ok(operator) };
        let letters =
            RefusedRows::open(table).map_err(|source| SubmitError::Connect { query: self.name(), source })?;
        Ok(match letters {
            Some(letters) => Box::new(LetterWriter { operator, letters, query: self.name() }),
            None => operator,
        })
    }

    fn outlet(
        &mut self,
        node: NodeId,
        stage: &Stage<ScanSpec, SinkSpec>,
        writers: usize,
    ) -> Result<Arc<Outlet>, SubmitError> {
        match stage {
            Stage::Sink(spec) => self.open(spec, writers, true),
            _ => {
                Err(SubmitError::Plan { query: self.name(), message: format!("node {} is no sink", node.0) })
            }
        }
    }

    fn late(&mut self, node: NodeId, writers: usize) -> Result<Option<LateWay<ArrowRows>>, SubmitError> {
        let Some(late) = self.late.filter(|late| late.node == node) else { return Ok(None) };
        let outlet = self.open(&late.sink, writers, false)?;
        let shape = LateShape { schema: late.sink.table.schema.clone(), columns: late.columns.clone() };
        Ok(Some((outlet, shape)))
    }

    fn partitioner(&mut self, keys: &[usize], targets: usize) -> HashPartitioner {
        HashPartitioner::new(keys.to_vec(), targets)
    }
}
