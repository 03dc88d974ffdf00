//! The rank of who begins a query's work at the last moment, for the largest batches.

use laxity_sched::{Cycled, Needs, OperatorSnapshot, QuerySnapshot, Rank, Reads, Snapshot, rank_queries};

/// `alap`: a query's work is begun as late as it can be to be done in time, so that it is done in few large batches.
///
/// As late as possible: from real-time scheduling, where EDL, "earliest deadline as late as possible", leaves the time before
/// to others (Chetto and Chetto 1989). At each cycle, of each query with work that waits:
///
/// s_q = D_q − W_q − margin − now; priority s_q if s_q ≤ 0, else 1 / (1 + N_q)
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | D_q | the least deadline t_MF + L of the messages in front of its operators | ns |
/// | W_q | Σ over operators with work of a · messages + b · rows + C_path | ns |
/// | N_q | rows that wait | |
/// | margin | two cycles: what may pass until the next look, and once more for what the work waits behind | ns |
///
/// Work-conserving, as all policies here are: a worker without anything that must begin takes what waits in the largest
/// batch. To rest instead would make batches larger still, and lose the core that a burst would have needed.
///
/// Does badly near capacity: what is begun at the last moment is late if anything else is, and many queries' last moments
/// coincide. Starves what is in no hurry and small, hence the ageing guard.
#[derive(Clone, Debug, Default)]
pub struct AsLateAsPossible {
    /// By place of the query in the snapshot.
    priorities: Vec<f64>,
}

/// A cycle: the default's distance of reviews. Picked.
const CYCLE_NS: u64 = 10_000_000;

const MARGIN_NS: f64 = 2.0 * CYCLE_NS as f64;

impl Rank for AsLateAsPossible {
    fn needs(&self) -> Needs {
        let reads = Reads { queues: true, costs: true, ages: true, heads: true, ..Reads::NOTHING };
        Needs { reads, ..Needs::by_cycle(CYCLE_NS) }
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        self.priorities.clear();
        self.priorities.extend(snapshot.queries.iter().map(|query| priority(query, snapshot)));
        rank_queries(snapshot, priorities, |place| self.priorities[place]);
        Cycled::ALL
    }
}

fn priority(query: &QuerySnapshot, snapshot: &Snapshot) -> f64 {
    let (mut due_ns, mut work_ns, mut rows) = (f64::INFINITY, 0.0, 0);
    for operator in query.operators.iter().filter_map(|&id| snapshot.operator(id)) {
        let Some(head) = operator.head else { continue };
        due_ns = due_ns.min(head.deadline.0 as f64);
        work_ns += waiting_ns(operator);
        rows += operator.queued_rows;
    }
    let left_ns = due_ns - work_ns - MARGIN_NS - snapshot.now.0 as f64;
    if left_ns <= 0.0 || due_ns.is_infinite() { left_ns } else { 1.0 / (1.0 + rows as f64) }
}

/// What waits for it, and the rest of its way.
fn waiting_ns(operator: &OperatorSnapshot) -> f64 {
    operator.cost.0 * operator.queued_messages as f64
        + operator.cost.1 * operator.queued_rows as f64
        + operator.path_cost_ns as f64
}

#[cfg(test)]
mod tests {
    use laxity_graph::{OperatorId, ProcessingTime, QueryId};
    use laxity_sched::HeadSnapshot;

    use super::*;

    /// Queries of one operator with (deadline in ms, rows); a row takes 1 ms. It is 100 ms.
    fn order(queries: &[(u64, u64)]) -> Vec<usize> {
        const MS: u64 = 1_000_000;
        let operators: Vec<(&[u32], f64, f64)> = queries.iter().map(|_| (&[][..], MS as f64, 1.0)).collect();
        let mut snapshot = Snapshot::of_query(&operators);
        snapshot.now = ProcessingTime(100 * MS);
        let query = snapshot.queries[0].clone();
        snapshot.queries.clear();
        for (place, &(due_ms, rows)) in queries.iter().enumerate() {
            let id = QueryId(place as u32);
            let operators = [OperatorId(id.0)].into();
            snapshot.queries.push(QuerySnapshot { id, operators, ..query.clone() });
            let operator = &mut snapshot.operators[place];
            operator.query = id;
            let then = snapshot.now;
            let deadline = ProcessingTime(due_ms * MS);
            operator.head =
                Some(HeadSnapshot { ingested: then, enqueued: then, deadline, rows: rows as u32 });
            (operator.queued_messages, operator.queued_rows) = (1, rows);
        }
        let mut priorities = vec![0.0; queries.len()];
        AsLateAsPossible::default().cycle(&snapshot, &mut priorities);
        let mut order: Vec<usize> = (0..queries.len()).collect();
        order.sort_by(|&a, &b| priorities[a].total_cmp(&priorities[b]));
        order
    }

    #[test]
    fn what_must_begin_goes_first_and_the_largest_batch_of_the_rest() {
        // Latest starts, with a margin of 20 ms: 130 − 5 − 20 = 105, 200 − 90 − 20 = 90, 115 − 1 − 20 = 94, 900 − 30 − 20.
        // It is 100: the second and the third must begin; of the others the last has most rows.
        assert_eq!(order(&[(130, 5), (200, 90), (115, 1), (900, 30)]), [1, 2, 3, 0]);
    }
}
