//! The query that a new one takes the place of: what it leaves to it.

use std::path::PathBuf;
use std::sync::Arc;

use laxity_connect::ScanSpec;
use laxity_graph::QueryId;
use laxity_operators::{InstanceContext, Stage as Plan};
use laxity_runtime::{Outlet, Query, Stage};

use crate::checkpoints::difference;
use crate::plan::{QueryPlan, SubmitError};
use crate::shared::Shared;
use crate::sink_io::Places;
use crate::tables::Table;

/// A query that runs and is about to end.
pub(crate) struct Predecessor {
    pub query: Arc<Query>,
    pub tables: Vec<Arc<Table>>,
    pub outlets: Vec<Arc<Outlet>>,
    /// Of one with checkpoints.
    pub kept: Option<Arc<QueryPlan>>,
}

impl Predecessor {
    /// `None` if it has ended, or is about to.
    pub fn of(shared: &Shared, id: QueryId) -> Option<Predecessor> {
        let registry = shared.registry.read();
        let entry = registry.get(id).filter(|entry| entry.stage() == Stage::Running)?;
        (!entry.query.stopped()).then(|| Predecessor {
            query: entry.query.clone(),
            tables: entry.tables().to_vec(),
            outlets: entry.outlets.clone(),
            kept: shared.restarts.plan_of(id),
        })
    }

    pub fn reads(&self, table: &Arc<Table>) -> bool {
        self.tables.iter().any(|own| Arc::ptr_eq(own, table))
    }

    /// The one that this can be read of with it, with all of these columns if there is such a one.
    pub fn table(&self, spec: &ScanSpec) -> Option<Arc<Table>> {
        let alike = || self.tables.iter().filter(|table| table.spec.table.is(&spec.table));
        alike().find(|table| table.has_columns(&spec.columns)).or_else(|| alike().next()).cloned()
    }

    /// Whether the new one is the same with its checkpoints, which then say where it goes on.
    pub fn is_gone_on_with(&self, plan: &QueryPlan) -> bool {
        self.kept.is_some() && plan.state.is_some() && self.query.settings.name == plan.dataflow.settings.name
    }

    /// Whether the new one can go on from a checkpoint of this one, as far as that is known: all of it but its outputs is made,
    /// and let go again.
    ///
    /// # Errors
    /// As for [`submit`](super::Submission::submit).
    pub fn can_be_gone_on_with(&self, plan: &QueryPlan, batch_rows: usize) -> Result<(), SubmitError> {
        let query = || plan.dataflow.settings.name.clone();
        if let (Some(was), Some(is)) = (self.kept.as_ref().and_then(|kept| kept.state.as_ref()), &plan.state)
            && !is.ignores
            && let Some(difference) = difference(&was.shape, &is.shape)
        {
            let message = format!("what is saved of it is of another query: {difference}; begin it anew");
            return Err(SubmitError::State { query: query(), message });
        }
        for node in plan.dataflow.nodes() {
            let factory = match &node.stage {
                Plan::Operator(factory) => factory,
                Plan::Source { operator, .. } => operator,
                Plan::Sink(_) => continue,
            };
            let context = InstanceContext { instance: 0, parallelism: node.parallelism, batch_rows };
            factory.make(&context).map_err(|source| SubmitError::Operator { query: query(), source })?;
        }
        Ok(())
    }

    /// Whether the new one can have what this one writes: what is written with checkpoints is cut back to one, and what others
    /// write on cannot be.
    ///
    /// # Errors
    /// If it cannot.
    pub fn gives_up(&self, plan: &QueryPlan, places: &Places) -> Result<(), SubmitError> {
        if self.kept.is_none() && plan.state.is_none() {
            return Ok(());
        }
        let name = &plan.dataflow.settings.name;
        let is_taken = |place: &PathBuf| places.is_written(place) && !place.is_dir();
        let taken = plan.outputs().into_iter().find(|(spec, _)| is_taken(&spec.place(name)));
        taken.map_or(Ok(()), |(spec, _)| {
            Err(SubmitError::TakenOver { query: name.clone(), table: spec.table.name.clone() })
        })
    }
}
