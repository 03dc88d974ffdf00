//! How a worker goes through its unit by a traversal, and how it is measured what each call costs.

use laxity_graph::{OperatorId, ProcessingTime, QueryId};

use crate::{Dispatch, Scheduler, Train, Traversal};

/// Orders inside a unit, made as a worker takes it, and what a call costs, which such orders weigh.
impl<T> Scheduler<T> {
    /// Makes the worker's plan anew.
    pub(super) fn plan(&mut self, place: usize, unit: u32, now: ProcessingTime) {
        self.refresh_view(now);
        let Traversal::Planned(planner) = &mut self.composition.traversal else { return };
        let snapshot = &self.view.snapshot;
        let Some(query) = snapshot.query(QueryId(unit)) else { return };
        let call = self.call;
        let dispatch = Dispatch { now, query, call };
        planner.dispatch(&dispatch);
        let plan = &mut self.workers[place].plan;
        plan.clear();
        // A query's operators are usually neighbours.
        let mut apart = Vec::new();
        let operators = snapshot.operators_of(query).unwrap_or_else(|| {
            apart.extend(query.operators.iter().filter_map(|&id| snapshot.operator(id).cloned()));
            &apart
        });
        planner.plan(operators, plan);
        plan.reverse();
        let operators = &self.operators;
        plan.retain(|id| {
            let operator = operators.get(id.index()).and_then(Option::as_ref);
            operator.is_some_and(|o| o.unit == unit)
        });
        self.workers[place].turn = None;
    }

    /// Gives the next message of the worker's plan; `None` where the plan has come to its end.
    pub(super) fn follow_plan(&mut self, place: usize) -> Option<OperatorId> {
        let id = self.upcoming(place)?;
        let resumes = self.operators[id.index()].as_ref().is_some_and(|o| o.resume);
        if let Some(left) = self.workers[place].turn.as_mut().filter(|_| !resumes) {
            *left -= 1;
        }
        Some(id)
    }

    /// The operator whose turn it is in the worker's plan, skipping those that have nothing.
    fn upcoming(&mut self, place: usize) -> Option<OperatorId> {
        let fraction = match self.composition.train {
            Train::Fraction(fraction) => fraction,
            _ => 1.0,
        };
        let (workers, operators) = (&mut self.workers, &self.operators);
        let worker = &mut workers[place];
        while let Some(&id) = worker.plan.last() {
            let operator = operators[id.index()].as_ref();
            let operator = operator.filter(|o| !o.blocked && !o.running);
            let (resume, waiting) = operator.map_or((false, 0), |o| (o.resume, o.mailbox.len()));
            let left = *worker.turn.get_or_insert_with(|| (waiting as f64 * fraction).ceil() as usize);
            if resume || (left > 0 && waiting > 0) {
                return Some(id);
            }
            worker.turn = None;
            worker.plan.pop();
        }
        None
    }

    /// Whether the worker has used up its train and must look whether another unit is more urgent.
    ///
    /// A fraction, where a plan gives the order, is one of what waits at each turn: the dispatch ends with the
    /// plan, so that a superbox is run to its outputs (Aurora §4.1).
    #[inline]
    pub(super) fn train_is_over(&mut self, place: usize, now: ProcessingTime) -> bool {
        if let (Train::Fraction(_), Traversal::Planned(_)) =
            (self.composition.train, &self.composition.traversal)
            && self.composition.unit.is_query()
        {
            return self.upcoming(place).is_none();
        }
        self.workers[place].expired(self.composition.train, self.config.quantum_ns, now)
    }

    /// What the worker spent beside the work since its last grant, as it gets the next.
    #[inline]
    pub(super) fn observe_call(&mut self, place: usize, id: OperatorId, now: ProcessingTime) {
        // Only plans want to know.
        if !matches!(self.composition.traversal, Traversal::Planned(_)) {
            return;
        }
        let last_call = &mut self.workers[place].last_call;
        let changed = last_call.is_none_or(|last| last.operator != id);
        let last = last_call.replace(Call { operator: id, changed, rested: false, granted: now, cpu_ns: 0 });
        if let Some(last) = last.filter(|last| !last.rested) {
            // A change is paid for as the operator that it is to starts, so after its grant.
            let overhead_ns = now.since_ns(last.granted).saturating_sub(last.cpu_ns);
            self.call.observe(last.changed, overhead_ns);
        }
    }
}

/// The last grant of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    operator: OperatorId,
    changed: bool,
    /// It found nothing to do since.
    pub rested: bool,
    granted: ProcessingTime,
    pub cpu_ns: u64,
}
