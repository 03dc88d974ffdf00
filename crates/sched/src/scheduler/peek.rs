use laxity_graph::{ProcessingTime, WorkerId};

use crate::Scheduler;

/// What a worker that could go elsewhere must know before it asks here: see [`crate::Shards`].
impl<T> Scheduler<T> {
    /// Priority of the unit that would be taken next, lower being more urgent; `None` where none waits. `-inf` for
    /// one whose turn has come because it waited past the ageing bound.
    pub fn top(&self, now: ProcessingTime) -> Option<f64> {
        self.ready.top(now)
    }

    /// Priority of what `next` would give this worker: of the unit it holds or, more urgent, of one that waits.
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

    /// The worker's train is not used up: `next` goes on with the unit that the worker holds.
    pub fn goes_on(&self, worker: WorkerId, now: ProcessingTime) -> bool {
        let Some(worker) = self.workers.get(worker.index()) else { return false };
        let has_work = |unit: u32| self.ready.units[unit as usize].ready > 0;
        let expired = || worker.expired(self.composition.train, self.config.quantum_ns, now);
        worker.unit.is_some_and(has_work) && !expired()
    }
}
