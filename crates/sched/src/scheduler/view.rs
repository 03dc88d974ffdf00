//! Where the state of the scheduler becomes a [`Snapshot`], which is all that ranks by cycle see of it.

use laxity_graph::{OperatorId, ProcessingTime, QosCurve};

use super::operator::{Operator, Query};
use crate::mailbox::Mailbox;
use crate::{HeadSnapshot, Memory, OperatorSnapshot, QuerySnapshot, Scheduler, Snapshot};

/// The snapshot that ranks per cycle see, kept from cycle to cycle: what a cycle costs is bounded by what
/// changed, not by what exists.
#[derive(Debug, Default)]
pub(super) struct View {
    pub snapshot: Snapshot,
    /// Operators that changed since they were brought up to date, each once.
    changed: Vec<OperatorId>,
    marked: Vec<bool>,
    /// By operator: whether work waits for it or is under way, but for a look; and whether the snapshot says so.
    works: Vec<bool>,
    shown: Vec<bool>,
    /// By operator: a source that feeds nobody. What waits for it without rows is a look at a table.
    lone: Vec<bool>,
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

    /// A message of so many rows waits for the operator.
    #[inline]
    pub fn note_message(&mut self, id: OperatorId, rows: u32) {
        if rows > 0 || self.lone.get(id.index()) == Some(&false) {
            self.note_work(id, true);
        }
    }

    /// Work waits for the operator or is under way, or no longer.
    #[inline]
    pub fn note_work(&mut self, id: OperatorId, works: bool) {
        if let Some(noted) = self.works.get_mut(id.index()) {
            *noted = works;
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
        self.refresh_operators(now, false);
        self.refresh_streams();
    }

    /// As for a rank that [reviews work](crate::Needs::reviews_work), if it is one.
    pub(super) fn refresh_for_review(&mut self, now: ProcessingTime) {
        let Memory { used_bytes, bound_bytes } = self.memory;
        let is_short = bound_bytes > 0 && used_bytes > bound_bytes / 2;
        self.refresh_operators(now, self.needs.reviews_work && !is_short);
    }

    /// Brings the kept snapshot up to date but for the streams of queries that there were in the one before. With
    /// `works_only`, what has been at rest all the while stays for another time: of many operators that had a message
    /// each since, few have one now.
    fn refresh_operators(&mut self, now: ProcessingTime, works_only: bool) {
        if self.view.stale || self.view.marked.len() != self.operators.len() {
            let graph = self.view.snapshot.graph + 1;
            self.view.snapshot = self.snapshot(now);
            self.view.snapshot.graph = graph;
            self.view.changed.clear();
            self.view.marked.clear();
            self.view.marked.resize(self.operators.len(), false);
            self.view.listed.clear();
            self.view.listed.resize(self.operators.len(), false);
            let works = self.operators.iter().map(|operator| operator.as_ref().is_some_and(Operator::works));
            self.view.works = works.collect();
            self.view.shown.clone_from(&self.view.works);
            let lone = self.operators.iter().map(|operator| operator.as_ref().is_some_and(Operator::is_lone));
            self.view.lone = lone.collect();
            self.view.stale = false;
            return;
        }
        let workers = self.workers_share();
        let snapshot = &mut self.view.snapshot;
        snapshot.now = now;
        snapshot.workers = workers;
        snapshot.memory = self.memory;
        let View { snapshot, changed, marked, works, shown, listed, .. } = &mut self.view;
        changed.retain(|&id| {
            let index = id.index();
            if works_only && !works[index] && !shown[index] {
                return true;
            }
            marked[index] = false;
            shown[index] = works[index];
            let described = self.operators[index].as_ref().zip(snapshot.place(id));
            let Some((operator, place)) = described else { return false };
            operator.describe(&mut snapshot.operators[place]);
            if let Some(changed) = &mut snapshot.changed
                && !std::mem::replace(&mut listed[index], true)
            {
                changed.push(id);
            }
            false
        });
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
    /// Whether it has work or does some, but for a look.
    fn works(&self) -> bool {
        let is_look = self.is_lone() && self.mailbox.rows() == 0;
        self.running || self.resume || !(self.mailbox.is_empty() || is_look)
    }

    fn is_lone(&self) -> bool {
        self.links.upstream.is_empty() && self.links.downstream.is_empty()
    }

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

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, QueryId, WorkerId};

    use super::*;
    use crate::{Composition, Config, Laxity, Message, OperatorSpec, QuerySpec, RunReport};

    #[test]
    fn a_review_of_work_leaves_what_rests_as_it_was() {
        let mut scheduler = Scheduler::new(Composition::of(Laxity::default()), Config::default());
        for id in 0..3 {
            let query = QueryId(id);
            scheduler.add_query(QuerySpec { id: query, target_ns: 1, weight: 1.0, qos: None });
            let id = OperatorId(id);
            scheduler.add_operator(OperatorSpec { id, query, upstream: vec![], window: None, channels: 1 });
        }
        let now = ProcessingTime(1);
        assert!(scheduler.next(WorkerId(0), now).is_none(), "the next review is 10 ms later");
        let send = |scheduler: &mut Scheduler<()>, to: u32, rows: u32| {
            let (to, progress) = (OperatorId(to), EventTime::MIN);
            let message = Message { to, channel: 0, progress, ingested: now, rows, bytes: 8, body: () };
            scheduler.on_message(message, now);
        };
        let prior = scheduler.view.snapshot.operators[0].cost;
        // 0 has worked and rests, 1 has rows, 2 is a table that is to be looked at.
        send(&mut scheduler, 0, 10);
        assert_eq!(scheduler.next(WorkerId(0), now).unwrap().operator, OperatorId(0));
        let report = RunReport { rows_in: 10, cpu_ns: 5_000_000, ..RunReport::default() };
        scheduler.on_finished(WorkerId(0), report, now);
        scheduler.release(WorkerId(0), now);
        send(&mut scheduler, 1, 7);
        send(&mut scheduler, 2, 0);
        let shown = |scheduler: &Scheduler<()>| {
            let operators = &scheduler.view.snapshot.operators;
            (operators[0].cost == prior, operators[1].queued_rows, operators[2].queued_messages)
        };
        scheduler.refresh_for_review(now);
        assert_eq!(shown(&scheduler), (true, 7, 0));
        // It is seen once more as it comes to rest.
        assert_eq!(scheduler.next(WorkerId(0), now).unwrap().operator, OperatorId(1));
        scheduler.on_finished(WorkerId(0), report, now);
        scheduler.refresh_for_review(now);
        assert_eq!(shown(&scheduler), (true, 0, 0));
        scheduler.on_memory(6, 10);
        scheduler.refresh_for_review(now);
        assert_eq!(shown(&scheduler), (false, 0, 1), "all counts where memory is short");
    }
}
