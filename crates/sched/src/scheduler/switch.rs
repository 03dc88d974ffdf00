//! Another policy under running queries. It costs time in proportion to all that waits.

use laxity_graph::{OperatorId, ProcessingTime};

use super::operator::{Operator, UrgentBy};
use super::ready::Ready;
use crate::{Composition, MessageContext, Rank, Scheduler};

impl<T> Scheduler<T> {
    /// Another policy from now on. Nothing queued or running is lost: every waiting message is ranked anew, and
    /// units join the run queue in the order in which their oldest message came.
    ///
    /// What runs finishes under the worker that has it. A unit's wait under a rank that needs the ageing guard
    /// counts from the switch, so who switches for ever can starve it for ever.
    pub fn set_policy(&mut self, mut composition: Composition, now: ProcessingTime) {
        composition.rank.seed(self.config.seed);
        self.needs = composition.rank.needs();
        self.composition = composition;
        self.urgent_by = UrgentBy::of(&self.needs);
        self.look_due = now;
        self.ready = Ready::new(&self.needs, &self.config);
        let by_query = self.composition.unit.is_query();
        self.ready.grow(if by_query { self.queries.len() } else { self.operators.len() });
        self.view.graph_changed();
        for id in 0..self.operators.len() as u32 {
            self.refresh_deferral(OperatorId(id));
        }
        self.rank_again(by_query, now);
        self.hold_what_runs();
        self.join_all(now);
    }

    fn rank_again(&mut self, by_query: bool, now: ProcessingTime) {
        let rank = &mut *self.composition.rank;
        for (index, operator) in self.operators.iter_mut().enumerate() {
            let Some(operator) = operator else { continue };
            operator.unit = if by_query { operator.query.0 } else { index as u32 };
            rank_operator_again(operator, OperatorId(index as u32), rank, self.urgent_by.inherits(), now);
        }
    }

    /// A worker that runs an operator has its unit, but one unit is one worker's: where several run operators of
    /// a query that is a unit now, the first has it and the others lose theirs as they finish.
    fn hold_what_runs(&mut self) {
        for worker in &mut self.workers {
            worker.unit = None;
            worker.plan.clear();
            let Some(operator) = worker.running.and_then(|id| self.operators[id.index()].as_ref()) else {
                continue;
            };
            let state = &mut self.ready.units[operator.unit as usize];
            if !std::mem::replace(&mut state.held, true) {
                worker.unit = Some(operator.unit);
            }
        }
    }

    fn join_all(&mut self, now: ProcessingTime) {
        let mut waiting = Vec::new();
        for operator in self.operators.iter().flatten() {
            if operator.running || operator.blocked || !operator.has_work() {
                continue;
            }
            let state = &mut self.ready.units[operator.unit as usize];
            state.ready += 1;
            if !state.held {
                let since = operator.mailbox.head().map_or(now, |head| head.enqueued);
                waiting.push((since, operator.unit));
            }
        }
        waiting.sort_unstable();
        for (_, unit) in waiting {
            if !self.ready.queue.contains(unit) {
                self.join(unit, now);
            }
        }
    }
}

/// What waits at an operator, and what it works on, ranked as the rank and the query are now.
pub(super) fn rank_operator_again<T>(
    operator: &mut Operator<T>,
    id: OperatorId,
    rank: &mut dyn Rank,
    inherits: bool,
    now: ProcessingTime,
) {
    let (target_ns, cost) = (operator.target_ns, operator.cost.clone());
    let mut context = MessageContext {
        operator: id,
        query: operator.query,
        is_source: operator.is_source,
        is_from_outside: operator.is_source,
        now,
        ingested: now,
        frontier: now,
        target_ns,
        cost_ns: cost.predict_ns(0),
        path_cost_ns: operator.path_cost_ns,
        rows: 0,
        weight: f64::from(operator.weight),
    };
    if operator.running || operator.resume {
        // What was known of the message that it works on is gone: as if it came now.
        operator.run.urgency = rank.message(&context);
    }
    operator.mailbox.rank_again(inherits, |queued| {
        context.ingested = queued.message.ingested;
        context.frontier = ProcessingTime(queued.deadline.0.saturating_sub(target_ns));
        context.rows = queued.message.rows;
        context.cost_ns = cost.predict_ns(queued.message.rows);
        rank.message(&context)
    });
}
