//! When a worker may take its own result one operator further instead of asking who is next.

use laxity_graph::{OperatorId, ProcessingTime, WorkerId};

use crate::{Scheduler, Train, Unit};

/// A batch on its way through a query, followed by the worker that has it in its caches.
impl<T> Scheduler<T> {
    /// After a run was reported: the worker goes on with an operator that the run has just made ready, as if that were a part
    /// of what it holds. True if it does; `next` then grants it.
    ///
    /// Where many queries have a row each, every step of each then costs less: their state is touched once and not at every
    /// step, and a result comes as soon as its turn has come, not after a step of all others. Nobody waits longer for it than
    /// for a train: it ends with the quantum since the worker took the first unit. Only for what is due: a message that
    /// feeds a window which closes later waits for more rows. Not where a rank says whose turn it is, nor inside queries
    /// that are units.
    pub fn follow(&mut self, worker: WorkerId, operator: OperatorId, now: ProcessingTime) -> bool {
        let place = worker.index();
        let composition = &self.composition;
        let may = composition.unit == Unit::Operator
            && matches!(composition.train, Train::Quantum)
            && !self.needs.is_by_turn();
        if !may || self.workers[place].running.is_some() || self.train_is_over(place, now) {
            return false;
        }
        // It has let go of what it held, unless there is more of that.
        let has_more = self.workers[place].unit.is_some();
        let is_due = self.operator(operator).is_some_and(|operator| {
            let head = operator.mailbox.head();
            head.is_some_and(|head| head.deadline <= now.plus_ns(operator.target_ns))
        });
        let unit = operator.0;
        if has_more || !is_due || !self.ready.take_this(unit, now) {
            return false;
        }
        let state = &mut self.ready.units[unit as usize];
        state.held = true;
        let priority = state.priority;
        self.tell_granted(unit, priority);
        self.workers[place].unit = Some(unit);
        true
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, QueryId, WindowShape};

    use super::*;
    use crate::{CORE, Config, Message, OperatorSpec, QuerySpec, RunReport};

    const WORKER: WorkerId = WorkerId(0);
    const MS: u64 = 1_000_000;

    /// Query 0 with a source and a window of a second; the others are a source each, with a target so near that they are
    /// always more urgent.
    fn scheduler(policy: &str) -> Scheduler<()> {
        let mut scheduler = Scheduler::new(CORE.recipe(policy).unwrap().compose(), Config::default());
        let window = Some(WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) });
        let of = |id: u32, query: u32, upstream: &[u32], window| OperatorSpec {
            id: OperatorId(id),
            query: QueryId(query),
            upstream: upstream.iter().copied().map(OperatorId).collect(),
            window,
            channels: 1,
        };
        for query in 0..3 {
            let target_ns = if query == 0 { 50 * MS } else { MS };
            scheduler.add_query(QuerySpec { id: QueryId(query), target_ns, weight: 1.0, qos: None });
        }
        scheduler.add_operator(of(0, 0, &[], None));
        scheduler.add_operator(of(1, 0, &[0], window));
        scheduler.add_operator(of(2, 1, &[], None));
        scheduler.add_operator(of(3, 2, &[], None));
        scheduler
    }

    fn message(to: u32, progress_ms: i64, at: ProcessingTime) -> Message<()> {
        let progress = EventTime(progress_ms);
        Message { to: OperatorId(to), channel: 0, progress, ingested: at, rows: 1, bytes: 8, body: () }
    }

    /// Runs the source of query 0, which sends its window a message and ends at `ended`; what comes next, and whether the
    /// window was followed.
    fn next_after_source(policy: &str, progress_ms: i64, ended: ProcessingTime) -> (u32, bool) {
        let mut scheduler = scheduler(policy);
        let mut at = ProcessingTime(MS);
        // Event time goes with the clock, which the scheduler learns.
        for ms in (0..=1_600).step_by(20) {
            at = ProcessingTime(MS * (1 + ms));
            for operator in [0, 1] {
                scheduler.on_message(message(operator, ms as i64, at), at);
                scheduler.next(WORKER, at).unwrap();
                scheduler.on_finished(WORKER, RunReport::default(), at);
                assert!(scheduler.next(WORKER, at).is_none());
            }
        }
        scheduler.on_message(message(0, progress_ms, at), at);
        assert_eq!(scheduler.next(WORKER, at).unwrap().operator, OperatorId(0));
        scheduler.on_message(message(2, progress_ms, at), at);
        let ended = at.plus_ns(ended.0);
        scheduler.on_message(message(1, progress_ms, at), ended);
        scheduler.on_finished(WORKER, RunReport { rows_in: 1, cpu_ns: 1_000, ..RunReport::default() }, ended);
        let follows = scheduler.follow(WORKER, OperatorId(1), ended);
        let next = scheduler.next(WORKER, ended).unwrap().operator.0;
        scheduler.on_finished(WORKER, RunReport::default(), ended);
        // Whatever comes first, the other one is not forgotten.
        assert_eq!(scheduler.next(WORKER, ended).unwrap().operator.0, 3 - next);
        scheduler.on_finished(WORKER, RunReport::default(), ended);
        assert!(scheduler.next(WORKER, ended).is_none());
        (next, follows)
    }

    #[test]
    fn what_is_due_is_followed_until_the_quantum_is_over() {
        let soon = ProcessingTime(1_000);
        // The row closes the window that ends at 2 s.
        assert_eq!(next_after_source("llf", 2_000, soon), (1, true));
        assert_eq!(next_after_source("laxity", 2_000, soon), (1, true));
        assert_eq!(next_after_source("llf", 2_000, ProcessingTime(2 * MS)), (2, false), "the train is over");
        // The window that it falls into closes .4 s later.
        assert_eq!(next_after_source("llf", 1_601, soon), (2, false));
        // Under others the order is theirs.
        assert!(!next_after_source("fifo", 2_000, soon).1);
        assert!(!next_after_source("unit=query,rank=fcfs,train=all", 2_000, soon).1);
    }

    #[test]
    fn nobody_is_followed_who_runs_or_has_nothing() {
        let mut scheduler = scheduler("llf");
        let at = ProcessingTime(MS);
        scheduler.on_message(message(2, 0, at), at);
        scheduler.on_message(message(3, 0, at), at);
        assert_eq!(scheduler.next(WORKER, at).unwrap().operator, OperatorId(2));
        assert_eq!(scheduler.next(WorkerId(1), at).unwrap().operator, OperatorId(3));
        scheduler.on_message(message(0, 0, at), at);
        assert!(!scheduler.follow(WORKER, OperatorId(0), at), "it runs itself");
        // What it has more of goes on.
        scheduler.on_message(message(2, 0, at), at);
        scheduler.on_finished(WORKER, RunReport::default(), at);
        assert!(!scheduler.follow(WORKER, OperatorId(0), at));
        assert_eq!(scheduler.next(WORKER, at).unwrap().operator, OperatorId(2));
        scheduler.on_finished(WORKER, RunReport::default(), at);
        assert!(!scheduler.follow(WORKER, OperatorId(3), at), "another worker has it");
        assert!(!scheduler.follow(WORKER, OperatorId(1), at), "nothing waits for it");
        assert!(!scheduler.follow(WORKER, OperatorId(77), at), "there is none");
        assert!(scheduler.follow(WORKER, OperatorId(0), at));
    }
}
