//! What drivers, reports and tests may ask of a scheduler at any time, without changing it.

use laxity_graph::{OperatorId, ProcessingTime, QueryId, WorkerId};

use crate::{CallCost, Composition, Config, Ladder, Memory, Needs, Scheduler};

/// Questions. None changes anything; an id that is unknown or removed has nothing queued and costs nothing.
impl<T> Scheduler<T> {
    /// The policy.
    pub fn composition(&self) -> &Composition {
        &self.composition
    }

    /// What the rank of the policy declares.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was last said of memory.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Operators that the cycles of a rank per cycle have looked at so far: what it has cost, for who measures it.
    pub fn cycle_work(&self) -> u64 {
        self.cycle_work
    }

    /// What this worker runs, by the id that it was granted under, removed since or not.
    pub fn runs(&self, worker: WorkerId) -> Option<OperatorId> {
        self.workers.get(worker.index())?.running
    }

    /// What workers run, removed since or not.
    pub fn running(&self) -> impl Iterator<Item = OperatorId> {
        self.workers.iter().filter_map(|worker| worker.running)
    }

    /// Whether the last grant of this worker began a dispatch: the worker had just taken the unit.
    pub fn began_dispatch(&self, worker: WorkerId) -> bool {
        self.workers.get(worker.index()).is_some_and(|worker| worker.messages == 1)
    }

    /// What a grant costs beside its work; the prior under policies without a plan, which need not know.
    pub fn call_cost(&self) -> CallCost {
        self.call
    }

    /// Whether an operator was added and not removed: a message to any other is dropped.
    pub fn has_operator(&self, id: OperatorId) -> bool {
        self.operator(id).is_some()
    }

    /// Messages that wait for an operator.
    pub fn queued_messages(&self, id: OperatorId) -> usize {
        self.operator(id).map_or(0, |o| o.mailbox.len())
    }

    /// Rows in the messages that wait for an operator.
    pub fn queued_rows(&self, id: OperatorId) -> u64 {
        self.operator(id).map_or(0, |o| o.mailbox.rows())
    }

    /// Bytes in the messages that wait for an operator.
    pub fn queued_bytes(&self, id: OperatorId) -> u64 {
        self.operator(id).map_or(0, |o| o.mailbox.bytes())
    }

    /// Rows that wait for all operators of a query.
    pub fn queued_rows_of(&self, id: QueryId) -> u64 {
        self.query(id).map_or(0, |query| query.operators.iter().map(|&o| self.queued_rows(o)).sum())
    }

    /// Operators that could run now: those that wait and those of units that a worker holds.
    pub fn ready_operators(&self) -> usize {
        self.ready.units.iter().map(|unit| unit.ready as usize).sum()
    }

    /// Units in the run queue: for how many more workers there is work.
    pub fn waiting_units(&self) -> usize {
        self.ready.queue.len()
    }

    /// C_o(rows): predicted CPU time of a message; 0 rows is a bare watermark.
    pub fn cost_ns(&self, id: OperatorId, rows: u32) -> u64 {
        self.operator(id).map_or(0, |o| o.cost.predict_ns(rows))
    }

    /// a and b of C_o(n) = a + b·n, in ns.
    pub fn cost_line(&self, id: OperatorId) -> (f64, f64) {
        self.operator(id).map_or((0.0, 0.0), |o| o.cost.line())
    }

    /// C_path: predicted CPU time from behind the operator to the sink.
    pub fn path_cost_ns(&self, id: OperatorId) -> u64 {
        self.operator(id).map_or(0, |o| o.path_cost_ns)
    }

    /// Rows out per row in.
    pub fn selectivity(&self, id: OperatorId) -> f64 {
        self.operator(id).map_or(1.0, |o| o.selectivity.get())
    }

    /// The steps against too much work that were taken for a query, as far as a scheduler takes them.
    pub fn ladder(&self, id: QueryId) -> Ladder {
        self.query(id).and_then(|query| query.ladder.as_deref().copied()).unwrap_or_default()
    }

    /// When the result of the message that the operator takes next is due: t_MF + L.
    pub fn head_deadline(&self, id: OperatorId) -> Option<ProcessingTime> {
        self.operator(id)?.mailbox.head().map(|head| head.deadline)
    }
}
