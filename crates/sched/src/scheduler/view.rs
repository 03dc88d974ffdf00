//! Where the state of the scheduler becomes a [`Snapshot`], which is all that ranks by cycle see of it.

use laxity_graph::{OperatorId, ProcessingTime, QosCurve};

use super::operator::{Operator, Query};
use crate::mailbox::Mailbox;
use crate::{HeadSnapshot, OperatorSnapshot, QuerySnapshot, Scheduler, Snapshot};

/// The snapshot that ranks per cycle see, kept from cycle to cycle: what a cycle costs is bounded by what
/// changed, not by what exists.
#[derive(Debug, Default)]
pub(super) struct View {
    pub snapshot: Snapshot,
    /// Operators that changed since the last refresh, each once.
    changed: Vec<OperatorId>,
    marked: Vec<bool>,
    /// Operators that stand in the snapshot's list of changes.
    listed: Vec<bool>,
    /// The graph changed: everything is made anew.
    stale: bool,
}

impl View {
    /// Something about the operator changed.
    #[inline]
    pub fn touch(&mut self, id: OperatorId) {
        if let Some(marked) = self.marked.get_mut(id.index())
            && !std::mem::replace(marked, true)
        {
            self.changed.push(id);
        }
    }

    /// A cycle has seen the snapshot: changes count from here.
    pub fn seen(&mut self) {
        match &mut self.snapshot.changed {
            Some(changed) => changed.drain(..).for_each(|id| self.listed[id.index()] = false),
            changed => *changed = Some(Vec::new()),
        }
    }

    /// Operators, queries or units changed.
    pub fn graph_changed(&mut self) {
        self.stale = true;
    }
}

impl<T> Scheduler<T> {
    /// Everything at one instant.
    pub fn snapshot(&self, now: ProcessingTime) -> Snapshot {
        let operators = 0..self.operators.len() as u32;
        Snapshot {
            now,
            workers: self.workers_share(),
            unit: self.composition.unit,
            memory: self.memory,
            graph: self.view.snapshot.graph,
            changed: None,
            operators: operators.filter_map(|id| self.operator_snapshot(OperatorId(id))).collect(),
            queries: self.queries.iter().flatten().map(Query::snapshot).collect(),
            remote_costs: self.remote_costs.clone(),
        }
    }

    /// So many schedulers share the workers from now on ([`crate::Shards`]).
    pub(crate) fn share_workers(&mut self, shards: usize) {
        self.config.shards = shards;
    }

    fn workers_share(&self) -> usize {
        self.workers.len().div_ceil(self.config.shards.max(1)).max(1)
    }

    /// Brings the kept snapshot up to date.
    pub(super) fn refresh_view(&mut self, now: ProcessingTime) {
        self.forget_swept();
        if self.view.stale || self.view.marked.len() != self.operators.len() {
            let graph = self.view.snapshot.graph + 1;
            self.view.snapshot = self.snapshot(now);
            self.view.snapshot.graph = graph;
            self.view.changed.clear();
            self.view.marked.clear();
            self.view.marked.resize(self.operators.len(), false);
            self.view.listed.clear();
            self.view.listed.resize(self.operators.len(), false);
            self.view.stale = false;
            return;
        }
        let workers = self.workers_share();
        let snapshot = &mut self.view.snapshot;
        snapshot.now = now;
        snapshot.workers = workers;
        snapshot.memory = self.memory;
        while let Some(id) = self.view.changed.pop() {
            self.view.marked[id.index()] = false;
            let Some(operator) = self.operators[id.index()].as_ref() else { continue };
            let snapshot = &mut self.view.snapshot;
            let Some(place) = snapshot.place(id) else { continue };
            operator.describe(&mut snapshot.operators[place]);
            if let Some(changed) = &mut snapshot.changed
                && !std::mem::replace(&mut self.view.listed[id.index()], true)
            {
                changed.push(id);
            }
        }
        self.refresh_streams();
        self.view.snapshot.remote_costs.clone_from(&self.remote_costs);
    }

    pub(super) fn operator_snapshot(&self, id: OperatorId) -> Option<OperatorSnapshot> {
        let operator = self.operator(id)?;
        let mut snapshot = OperatorSnapshot {
            id,
            query: operator.query,
            unit: operator.unit,
            upstream: operator.links.upstream.as_slice().into(),
            downstream: operator.links.downstream.as_slice().into(),
            window: operator.links.window,
            running: false,
            resumes: false,
            blocked: false,
            queued_messages: 0,
            queued_rows: 0,
            queued_bytes: 0,
            head: None,
            mean_ingested: None,
            cost: (0.0, 0.0),
            usual_cost_ns: 0,
            usual_rows: 1.0,
            path_cost_ns: 0,
            selectivity: 1.0,
            row_bytes: 0.0,
        };
        operator.describe(&mut snapshot);
        Some(snapshot)
    }
}

impl Query {
    fn snapshot(&self) -> QuerySnapshot {
        let mut snapshot = QuerySnapshot {
            id: self.spec.id,
            target_ns: self.spec.target_ns,
            weight: self.spec.weight,
            qos: self.spec.qos.clone().unwrap_or_else(|| QosCurve::of_target_ns(self.spec.target_ns)),
            operators: self.operators.as_slice().into(),
            streams: Vec::new(),
            sweeping: None,
        };
        if let Some(windows) = &self.windows {
            windows.describe(&mut snapshot);
        }
        snapshot
    }
}

impl<T> Operator<T> {
    /// Fills in what changes while the graph does not.
    fn describe(&self, snapshot: &mut OperatorSnapshot) {
        snapshot.running = self.running;
        snapshot.resumes = self.resume;
        snapshot.blocked = self.blocked;
        snapshot.queued_messages = self.mailbox.len();
        snapshot.queued_rows = self.mailbox.rows();
        snapshot.queued_bytes = self.mailbox.bytes();
        snapshot.head = self.mailbox.head().map(|head| HeadSnapshot {
            ingested: head.message.ingested,
            enqueued: head.enqueued,
            deadline: head.deadline,
            rows: head.message.rows,
        });
        snapshot.mean_ingested = mean_ingested(&self.mailbox);
        snapshot.cost = self.cost.line();
        snapshot.usual_cost_ns = self.cost.usual_ns();
        snapshot.usual_rows = self.cost.usual_rows();
        snapshot.path_cost_ns = self.path_cost_ns;
        snapshot.selectivity = self.selectivity.get();
        if self.mailbox.rows() > 0 {
            snapshot.row_bytes = self.mailbox.bytes() as f64 / self.mailbox.rows() as f64;
        }
    }
}

/// Mean t_M by rows; a bare watermark counts as one row.
fn mean_ingested<T>(mailbox: &Mailbox<T>) -> Option<ProcessingTime> {
    let step = mailbox.len().div_ceil(MEAN_OVER_MAX).max(1);
    let (mut sum, mut weight) = (0u128, 0u128);
    for queued in mailbox.iter().step_by(step) {
        let rows = u128::from(queued.message.rows.max(1));
        sum += rows * u128::from(queued.message.ingested.0);
        weight += rows;
    }
    sum.checked_div(weight).map(|mean| ProcessingTime(mean as u64))
}

/// Messages that a mean is taken of: a long queue must not make a cycle long.
const MEAN_OVER_MAX: usize = 16;
