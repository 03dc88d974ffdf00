use super::{By, Rank};
use crate::{MessageContext, OperatorSnapshot, Snapshot};

/// Priorities of all units from a snapshot alone, whatever the rank goes by: for whoever has no messages to ask about.
/// `priorities` has one entry per unit, each holding its last.
pub fn rank_all(rank: &mut dyn Rank, snapshot: &Snapshot, priorities: &mut [f64]) {
    let needs = rank.needs();
    if needs.by != By::Cycle && needs.look_every_ns.is_some() {
        rank.review(snapshot);
    }
    rank.cycle(snapshot, priorities);
    if needs.by != By::Cycle {
        // What a review found speaks as a unit joins.
        for (unit, priority) in (0..).zip(priorities) {
            *priority = rank.join(unit, *priority);
        }
    }
}

/// Gives every unit the priority of the most urgent head in it, +∞ where none waits.
pub fn rank_heads<R: Rank + ?Sized>(rank: &mut R, snapshot: &Snapshot, priorities: &mut [f64]) {
    priorities.fill(f64::INFINITY);
    for operator in &snapshot.operators {
        let Some(context) = MessageContext::of_head(operator, snapshot) else { continue };
        let urgency = rank.message(&context);
        let priority = &mut priorities[operator.unit as usize];
        *priority = priority.min(urgency);
    }
}

/// Gives every unit the priority of its query, which `of` tells by the query's place in the snapshot.
pub fn rank_queries(snapshot: &Snapshot, priorities: &mut [f64], of: impl Fn(usize) -> f64) {
    for (place, query) in snapshot.queries.iter().enumerate() {
        let priority = of(place);
        if snapshot.unit.is_query() {
            priorities[query.id.index()] = priority;
            continue;
        }
        for operator in query.operators.iter().filter_map(|&id| snapshot.operator(id)) {
            priorities[operator.unit as usize] = priority;
        }
    }
}

/// Gives every unit the least priority of its operators that have work; of all of them where none has, since work
/// may come before the next cycle.
pub fn rank_operators(
    snapshot: &Snapshot,
    priorities: &mut [f64],
    priority: impl Fn(&OperatorSnapshot) -> f64,
) {
    priorities.fill(f64::INFINITY);
    if !snapshot.unit.is_query() {
        snapshot
            .operators
            .iter()
            .for_each(|operator| priorities[operator.unit as usize] = priority(operator));
        return;
    }
    for query in &snapshot.queries {
        let operators = || query.operators.iter().filter_map(|id| snapshot.operator(*id));
        let any = operators().any(OperatorSnapshot::has_work);
        let considered = operators().filter(|operator| !any || operator.has_work());
        let best = considered.map(&priority).fold(f64::INFINITY, f64::min);
        if let Some(first) = operators().next() {
            priorities[first.unit as usize] = best;
        }
    }
}
