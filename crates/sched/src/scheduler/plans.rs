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
        self.workers[place].expired(self.composition.train, self.quantum_ns(), now)
    }

    /// That of the configuration; where calls are dear, so long that they take no more than a fiftieth of it.
    fn quantum_ns(&self) -> u64 {
        let least_ns = self.config.quantum_ns;
        let most_ns = self.config.quantum_max_ns.max(least_ns);
        ((CALLS_PER_QUANTUM * self.call.change_ns) as u64).clamp(least_ns, most_ns)
    }

    /// What the worker spent beside the work since its last grant, as it gets the next.
    #[inline]
    pub(super) fn observe_call(&mut self, place: usize, id: OperatorId, now: ProcessingTime) {
        // Only plans and quanta that may grow want to know.
        let is_planned = matches!(self.composition.traversal, Traversal::Planned(_));
        let grows =
            self.composition.train == Train::Quantum && self.config.quantum_max_ns > self.config.quantum_ns;
        if !is_planned && !grows {
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

/// A call that changes the operator takes at most 2 % of a quantum.
const CALLS_PER_QUANTUM: f64 = 50.0;

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

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, WorkerId};

    use super::*;
    use crate::{Composition, Config, Llf, Message, OperatorSpec, QuerySpec, RunReport};

    /// Two operators with as much to do and alternating deadlines, .1 ms a message, and so much for every change of the
    /// operator. How often the worker changed among the last 2 000 messages.
    fn changes(change_ns: u64) -> usize {
        const WORKER: WorkerId = WorkerId(0);
        let mut scheduler = Scheduler::new(Composition::of(Llf), Config::default());
        for id in 0..2 {
            let (query, id) = (QueryId(id), OperatorId(id));
            scheduler.add_query(QuerySpec { id: query, target_ns: 1_000_000, weight: 1.0, qos: None });
            scheduler.add_operator(OperatorSpec { id, query, upstream: vec![], window: None, channels: 1 });
        }
        for place in 0..8_000 {
            let (to, ingested, progress) =
                (OperatorId(place % 2), ProcessingTime(place.into()), EventTime::MIN);
            let message = Message { to, channel: 0, progress, ingested, rows: 1, bytes: 8, body: () };
            scheduler.on_message(message, ProcessingTime(8_000));
        }
        let (mut now, mut last, mut changes) = (ProcessingTime(8_000), None, Vec::new());
        while let Some(grant) = scheduler.next(WORKER, now) {
            let changed = last.replace(grant.operator) != Some(grant.operator);
            changes.push(changed);
            now = now.plus_ns(100_000 + if changed { change_ns } else { 0 });
            let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: 100_000, more: false };
            scheduler.on_finished(WORKER, report, now);
        }
        changes[6_000..].iter().filter(|&&changed| changed).count()
    }

    #[test]
    fn trains_grow_with_what_a_call_costs() {
        // Ten messages in a quantum of 1 ms; with .05 ms a change 24 in 2.5 ms, with .2 ms 48 in 5 ms, as with 1 ms, 40.
        let near = |change_us: u64, wanted: usize| {
            let seen = changes(change_us * 1_000);
            assert!(seen.abs_diff(wanted) <= 2 + wanted / 10, "{change_us} us: {seen}, not {wanted}");
        };
        near(1, 200);
        near(50, 2_000 / 25);
        near(200, 2_000 / 48);
        near(1_000, 2_000 / 40);
    }
}
