//! What the simulated world asks of its rows and operators, so that it is written once for counted and for real ones.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use laxity_graph::{Dataflow, DataflowError, EventTime, Input, Node, NodeId, Partitioning};
use laxity_runtime::{Blueprint, Content, Front, LateWay, Outlet, Query, Role};
use laxity_workload::{Arrival, Stage, StageKind};

use crate::run_clock::RunClock;
use crate::sleep::Sleeper;
use crate::topology::{Place, Topology};
use crate::{Setup, SharedFront, SimulationError};

/// Rows and operators of a simulation: a call moves the virtual clock on.
pub(crate) trait Modelled: Content {
    /// What the operators of a query are made of, besides what their places say.
    type Plan: Default;

    /// One instance.
    ///
    /// # Errors
    /// Why it cannot be made, in words.
    fn operator(plan: &Self::Plan, made: Made<'_>) -> Result<Self::Operator, String>;

    /// How rows of a hashed edge are split.
    fn partitioner(keys: &[usize], targets: usize) -> Self::Partitioner;

    /// What comes to a source; the rows are the next of those that wait, where they are more than a number.
    fn arrived(waiting: &mut VecDeque<Self::Batch>, arrival: &Arrival) -> Self::Batch;

    /// When rows that are no window's result happened.
    fn event_time(batch: &Self::Batch) -> EventTime;

    /// What such a reader of a shared table asks for; `None` where rows are not only counted.
    fn spec(_: FrontReader<'_>) -> Option<<Self::Front as Front>::Spec> {
        None
    }

    /// Rows in windows, and in windows that have closed.
    fn held_and_closed_rows(operator: &Self::Operator) -> (u64, u64);
}

/// A reader of a table for which some is done that others have done too.
#[derive(Clone, Copy)]
pub(crate) struct FrontReader<'a> {
    pub clock: &'a Rc<RunClock>,
    /// Which of the fronts, and which of its members.
    pub number: usize,
    pub front: &'a Rc<SharedFront>,
    pub member: usize,
}

/// An instance to be made.
#[cfg_attr(
    not(feature = "operators"),
    expect(dead_code, reason = "a stage says all; an operator is made by these")
)]
pub(crate) struct Made<'a> {
    pub place: &'a Place,
    pub node: NodeId,
    pub instance: usize,
    pub parallelism: usize,
    pub clock: Rc<RunClock>,
    pub sleeper: Option<Sleeper>,
}

/// What a node of a simulated dataflow does. The stage of a sink costs what writing costs, so it has instances; what
/// they send leaves by an outlet, which has none and is a node behind it.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    Stage(&'a Stage),
    Outlet,
}

/// The dataflow with its outlets, behind all other nodes, which so keep their numbers.
pub(crate) fn with_outlets(flow: &Dataflow<Stage>) -> Result<Dataflow<Part<'_>>, DataflowError> {
    let mut whole = Dataflow::new(flow.settings.clone());
    for node in flow.nodes() {
        whole.push(Node {
            name: node.name.clone(),
            parallelism: node.parallelism,
            inputs: node.inputs.clone(),
            window: node.window,
            stage: Part::Stage(&node.stage),
        })?;
    }
    for (index, node) in flow.nodes().iter().enumerate() {
        if node.stage.kind == StageKind::Sink {
            whole.push(Node {
                name: format!("{} (out)", node.name),
                parallelism: node.parallelism,
                inputs: vec![Input { from: NodeId(index), partitioning: Partitioning::Forward }],
                window: None,
                stage: Part::Outlet,
            })?;
        }
    }
    Ok(whole)
}

/// Makes the instances of one query.
pub(crate) struct Maker<'a, C: Modelled> {
    pub plan: &'a C::Plan,
    pub query: &'a Arc<Query>,
    pub topology: &'a Topology,
    pub setup: &'a Setup,
    pub clock: &'a Rc<RunClock>,
    /// Of the next instance, among all.
    pub next: u32,
}

impl<C: Modelled> Blueprint<Part<'_>> for Maker<'_, C> {
    type Content = C;
    type Error = SimulationError;

    fn role(&self, part: &Part<'_>) -> Role {
        match part {
            Part::Stage(stage) if stage.kind == StageKind::Source => Role::Source,
            Part::Stage(_) => Role::Operator,
            Part::Outlet => Role::Sink,
        }
    }

    fn operator(
        &mut self,
        node: NodeId,
        _: &Part<'_>,
        instance: usize,
        parallelism: usize,
    ) -> Result<C::Operator, SimulationError> {
        let operator = self.next;
        self.next += 1;
        let place = self.topology.operator(operator);
        let sleeper = match &place.sleep {
            None => None,
            Some(sleep) => Sleeper::new(sleep, self.setup.seed, operator)
                .map_err(|source| SimulationError::Sleep { operator: place.name.clone(), source })?,
        };
        let made = Made { place, node, instance, parallelism, clock: Rc::clone(self.clock), sleeper };
        C::operator(self.plan, made)
            .map_err(|message| SimulationError::Operator { query: self.query.settings.name.clone(), message })
    }

    fn outlet(&mut self, _: NodeId, _: &Part<'_>, writers: usize) -> Result<Arc<Outlet>, SimulationError> {
        Ok(Arc::new(Outlet::new(Arc::clone(self.query), 0, writers, true, false)))
    }

    fn late(&mut self, _: NodeId, _: usize) -> Result<Option<LateWay<C>>, SimulationError> {
        Ok(None)
    }

    fn partitioner(&mut self, keys: &[usize], targets: usize) -> C::Partitioner {
        C::partitioner(keys, targets)
    }
}
