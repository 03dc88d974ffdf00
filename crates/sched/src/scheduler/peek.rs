use laxity_graph::{OperatorId, ProcessingTime, WorkerId, fetch};

use crate::{Scheduler, Unit};

/// What a worker that could go elsewhere must know before it asks here: see [`crate::Shards`].
impl<T> Scheduler<T> {
    /// Priority of the unit that would be taken next, lower being more urgent; `None` where none waits.
    /// `-inf` for one whose turn has come because it waited past the ageing bound.
    pub fn top(&self, now: ProcessingTime) -> Option<f64> {
        self.ready.top(now)
    }

    /// Priority of what `next` would give this worker: of the unit it holds or, more urgent, of one that
    /// waits.
    pub fn top_for(&self, worker: WorkerId, now: ProcessingTime) -> Option<f64> {
        let held = self.workers.get(worker.index()).and_then(|worker| worker.unit);
        let held = held.filter(|&unit| self.ready.units[unit as usize].ready > 0);
        let held = held.map(|unit| match self.ready.per_cycle {
            true => self.ready.priorities[unit as usize],
            false => self.unit_urgency(unit),
        });
        match (held, self.top(now)) {
            (Some(held), Some(top)) => Some(held.min(top)),
            (held, top) => held.or(top),
        }
    }

    /// Operators that are next if nothing changes, where units are operators.
    #[inline]
    pub fn first_two(&self) -> [Option<OperatorId>; 2] {
        match self.composition.unit {
            Unit::Operator => self.ready.queue.first_two().map(|unit| unit.map(OperatorId)),
            _ => [None; 2],
        }
    }

    /// Asks for the memory that it will touch when it grants this operator.
    #[inline]
    pub fn fetch(&self, id: OperatorId) {
        if let Some(operator) = self.operators.get(id.index()) {
            fetch(operator);
        }
    }

    /// Begins a cycle or a review if one is due, as `next` does: for a worker that takes its work elsewhere.
    pub fn on_time(&mut self, now: ProcessingTime) {
        self.look(now);
    }

    /// When a unit that waits will be served for its age, if none of its turns comes before. `None` where none
    /// waits, or under ranks that bound the wait themselves.
    pub fn next_ageing(&self) -> Option<ProcessingTime> {
        self.ready.next_ageing()
    }

    /// A worker gave so many turns to units elsewhere that it could have given here: they count among those of
    /// which one goes to a unit that waited too long.
    pub fn passed_over(&mut self, turns: u32) {
        self.ready.passed_over(turns);
    }

    /// The worker's train is not used up: `next` goes on with the unit that the worker holds.
    pub fn goes_on(&mut self, worker: WorkerId, now: ProcessingTime) -> bool {
        let unit = self.workers.get(worker.index()).and_then(|worker| worker.unit);
        let has_work = unit.is_some_and(|unit| self.ready.units[unit as usize].ready > 0);
        has_work && !self.train_is_over(worker.index(), now)
    }
}
