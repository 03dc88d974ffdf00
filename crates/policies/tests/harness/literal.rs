//! Ranks per cycle as their definitions say, slowly: paths are listed, envelopes are minima of maxima.

use std::collections::BTreeMap;

use laxity_graph::OperatorId;
use laxity_sched::{HeadSnapshot, OperatorSnapshot, Snapshot};

type Priorities = BTreeMap<u32, f64>;

fn each(snapshot: &Snapshot, priority: impl Fn(&OperatorSnapshot) -> f64) -> Priorities {
    snapshot.operators.iter().map(|operator| (operator.id.0, priority(operator))).collect()
}

/// Of the message that would be taken next; the last place where there is none.
fn by_head(snapshot: &Snapshot, priority: impl Fn(&OperatorSnapshot, HeadSnapshot) -> f64) -> Priorities {
    each(snapshot, |operator| operator.head.map_or(f64::INFINITY, |head| priority(operator, head)))
}

pub fn queue(snapshot: &Snapshot) -> Priorities {
    each(snapshot, |operator| -((operator.queued_rows + operator.queued_messages as u64) as f64))
}

pub fn ingestion(snapshot: &Snapshot) -> Priorities {
    by_head(snapshot, |_, head| head.ingested.0 as f64)
}

pub fn cost(snapshot: &Snapshot) -> Priorities {
    by_head(snapshot, |operator, head| operator.cost_ns(head.rows.into()).floor())
}

pub fn deadline(snapshot: &Snapshot) -> Priorities {
    by_head(snapshot, |operator, head| head.deadline.0 as f64 - operator.path_cost_ns as f64)
}

pub fn laxity(snapshot: &Snapshot) -> Priorities {
    by_head(snapshot, |operator, head| {
        let cost_ns = operator.cost_ns(head.rows.into()).floor();
        head.deadline.0 as f64 - (cost_ns + operator.path_cost_ns as f64)
    })
}

/// By what is left until the query's work must be begun, two cycles early; behind all by rows while something is.
pub fn latest_start(snapshot: &Snapshot) -> Priorities {
    let mut priorities = Priorities::new();
    for query in &snapshot.queries {
        let of_query = || snapshot.operators.iter().filter(|operator| operator.query == query.id);
        let with_work = || of_query().filter(|operator| operator.head.is_some());
        let first_due = with_work().filter_map(|operator| operator.head).map(|head| head.deadline.0).min();
        let work_ns = |operator: &OperatorSnapshot| {
            let (call_ns, row_ns) = operator.cost;
            let rows_ns = row_ns * operator.queued_rows as f64;
            call_ns * operator.queued_messages as f64 + rows_ns + operator.path_cost_ns as f64
        };
        let rows: u64 = with_work().map(|operator| operator.queued_rows).sum();
        let priority = match first_due {
            None => f64::INFINITY,
            Some(due) => {
                let left_ns =
                    due as f64 - with_work().map(work_ns).sum::<f64>() - 20e6 - snapshot.now.0 as f64;
                if left_ns <= 0.0 { left_ns } else { 1.0 / (1.0 + rows as f64) }
            }
        };
        priorities.extend(of_query().map(|operator| (operator.id.0, priority)));
    }
    priorities
}

/// All paths from an operator to a sink.
fn paths(snapshot: &Snapshot, from: OperatorId) -> Vec<Vec<OperatorId>> {
    let operator = snapshot.operator(from).unwrap();
    if operator.downstream.is_empty() {
        return vec![vec![from]];
    }
    let tails = operator.downstream.iter().flat_map(|below| paths(snapshot, *below));
    tails.map(|tail| [vec![from], tail].concat()).collect()
}

pub fn best_rate(snapshot: &Snapshot) -> Priorities {
    let rate = |path: Vec<OperatorId>| {
        let (mut size, mut cost_ns) = (1.0, 0.0);
        for id in &path {
            let operator = snapshot.operator(*id).unwrap();
            cost_ns += operator.row_cost_ns() * size;
            size *= if operator.downstream.is_empty() { 1.0 } else { operator.selectivity };
        }
        size / cost_ns
    };
    let rates =
        each(snapshot, |operator| paths(snapshot, operator.id).into_iter().map(rate).fold(0.0, f64::max));
    rates.into_iter().map(|(id, rate)| (id, -rate.ln())).collect()
}

pub fn global_rate(snapshot: &Snapshot) -> Priorities {
    fn selectivity(snapshot: &Snapshot, operator: &OperatorSnapshot) -> f64 {
        if operator.downstream.is_empty() {
            return 1.0;
        }
        let below =
            operator.downstream.iter().map(|id| selectivity(snapshot, snapshot.operator(*id).unwrap()));
        operator.selectivity * below.sum::<f64>()
    }
    fn cost_ns(snapshot: &Snapshot, operator: &OperatorSnapshot) -> f64 {
        let below = operator.downstream.iter().map(|id| cost_ns(snapshot, snapshot.operator(*id).unwrap()));
        let below: f64 = below.sum();
        operator.row_cost_ns() + operator.selectivity * below
    }
    each(snapshot, |operator| -(selectivity(snapshot, operator) / cost_ns(snapshot, operator)).ln())
}

/// The slope of a lower convex envelope over the step to point k is the least, over where one may come from,
/// of the steepest way down from there past k.
pub fn chain(snapshot: &Snapshot) -> Priorities {
    let mut slopes: Priorities = each(snapshot, |_| f64::NEG_INFINITY);
    let sources = snapshot.operators.iter().filter(|operator| operator.upstream.is_empty());
    for path in sources.flat_map(|source| paths(snapshot, source.id)) {
        let mut points = vec![(0.0, 1.0)];
        for id in &path {
            let operator = snapshot.operator(*id).unwrap();
            let (time_ns, size) = *points.last().unwrap();
            let left = if operator.downstream.is_empty() { 0.0 } else { operator.selectivity };
            points.push((time_ns + operator.row_cost_ns() * size, size * left));
        }
        for (place, id) in path.iter().enumerate() {
            let down = |from: usize, to: usize| {
                let ((from_ns, from_size), (to_ns, to_size)) = (points[from], points[to]);
                if to_ns > from_ns { (from_size - to_size) / (to_ns - from_ns) } else { 0.0 }
            };
            let steepest = |from: usize| {
                (place + 1..points.len()).map(|to| down(from, to)).fold(f64::NEG_INFINITY, f64::max)
            };
            let slope = (0..=place).map(steepest).fold(f64::INFINITY, f64::min);
            let known = slopes.get_mut(&id.0).unwrap();
            *known = known.max(slope);
        }
    }
    slopes.into_iter().map(|(id, slope)| (id, -slope.max(0.0).ln())).collect()
}
