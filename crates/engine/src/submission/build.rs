//! How the instances and outputs of a query are made of its plan.

use std::sync::Arc;
use std::time::Duration;

use laxity_connect::{RefusedRows, ScanSpec, SinkEnvironment, SinkSpec, TableSpec, Waiting, open_sink};
use laxity_graph::{Dataflow, NodeId, RowErrors};
use laxity_operators::{HashPartitioner, InstanceContext, Operator, Stage};
use laxity_runtime::{ArrowRows, Blueprint, LateShape, LateWay, Outlet, Query, Role};

use crate::checkpoints::Restored;
use crate::plan::{LatePlan, SubmitError};
use crate::refused::LetterWriter;
use crate::sink_io::{Added, Finish, Part, SinkPool};
use crate::submission::Predecessor;

/// Makes a query's parts out of its plan: operators by their factories, outlets by their connectors.
pub(super) struct Builder<'a> {
    pub query: &'a Arc<Query>,
    pub late: Option<&'a LatePlan>,
    pub batch_rows: usize,
    /// Where letters go for rows that operators behind the sources refuse.
    pub letters: Option<&'a Arc<TableSpec>>,
    pub sinks: &'a Arc<SinkPool>,
    /// Numbers those who write to one place.
    pub next_part: &'a mut dyn FnMut(&SinkSpec) -> Part,
    /// Whose outputs it writes on.
    pub before: Option<&'a Predecessor>,
    /// What was opened, also if the rest could not be made.
    pub opened: &'a mut Vec<Arc<Outlet>>,
    /// Of a query with checkpoints: how it ends.
    pub finish: Option<&'a Arc<Finish>>,
    /// How often checkpoints are taken of it.
    pub interval: Option<Duration>,
    /// What it goes on from.
    pub restored: Option<&'a Restored>,
}

/// The first table of a query that names a file for dead letters, where the query has letters written by all of its
/// operators: a row behind a join or an aggregation is no longer one table's.
pub(super) fn letters_of(dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> Option<&Arc<TableSpec>> {
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
            None => self
                .take_over(spec, writers, is_result)
                .or_else(|| self.sinks.join(self.query, &spec.table, writers, is_result)),
            Some(_) => None,
        };
        let outlet = match joined {
            Some(outlet) => outlet,
            None => {
                let waiting = Waiting::default();
                let part = (self.next_part)(spec);
                let environment = SinkEnvironment {
                    waiting: waiting.clone(),
                    query: self.name(),
                    part: part.number(),
                    is_checkpointed: self.finish.is_some(),
                    checkpoint_interval: self.interval,
                    resume: self.restored.and_then(|restored| restored.output(number)),
                };
                let sink = open_sink(spec, &environment)
                    .map_err(|source| SubmitError::Connect { query: self.name(), source })?;
                let finish = self.finish.map(|finish| (finish.clone(), number));
                let (table, part) = (&spec.table, Some(part));
                self.sinks.add(self.query, Added { sink, waiting, table, writers, is_result, finish, part })
            }
        };
        self.opened.push(outlet.clone());
        Ok(outlet)
    }

    /// Where the one before it writes the same table to the same place, and it does not yet.
    fn take_over(&self, spec: &SinkSpec, writers: usize, is_result: bool) -> Option<Arc<Outlet>> {
        let before = self.before?;
        let is_there = spec.place(&before.query.settings.name) == spec.place(&self.query.settings.name);
        let is_free = |from: &&Arc<Outlet>| self.opened.iter().all(|own| own.number != from.number);
        let mut outlets = before.outlets.iter().filter(|_| is_there).filter(is_free);
        outlets.find_map(|from| self.sinks.take_over(self.query, from, &spec.table, writers, is_result))
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
            Some(letters) => Box::new(LetterWriter { operator, letters, query: self.query.clone() }),
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
