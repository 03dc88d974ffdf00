//! A rank for little memory (Babcock et al., SIGMOD 2003), which pays for it with latency.

use laxity_graph::OperatorId;
use laxity_sched::{
    Cycled, Needs, OperatorSnapshot, QuerySnapshot, Rank, Reads, Scale, Snapshot, rank_operators,
};

/// `chain`: the operator whose part of its path frees queued rows fastest goes first.
///
/// Babcock et al., "Chain: operator scheduling for memory minimization in data stream systems", SIGMOD 2003.
/// The progress chart of a path o_1 … o_m runs through the points (t_k, σ_k): after operator k, one row that
/// came in has cost t_k = Σ_{i≤k} c_i · σ_{i−1} and is σ_k = Π_{i≤k} s_i rows. From a point, the steepest way
/// down to a later one is a segment of the chart's lower envelope; its slope is the priority of all operators
/// on it.
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | s_i | [`OperatorSnapshot::selectivity`]; 0 for a sink, whose rows leave the system | – |
/// | c_i | [`OperatorSnapshot::row_cost_ns`] | ns per row |
///
/// An operator on several paths goes by the steepest of its segments. Rows count, not their bytes, as in the
/// paper. Slopes are taken every 50 ms; a query is as urgent as the steepest of its operators
/// that have work.
///
/// Keeps memory within one row per path of the least possible on a single path. Does badly on latency under
/// bursts: rows before a flat segment wait for the whole burst to pass the steep ones. It starves, hence the
/// ageing guard.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// By operator id: rows freed per ns.
    slopes: Vec<f64>,
    path: Vec<OperatorId>,
    points: Vec<(f64, f64)>,
}

/// How often slopes are taken. Haren's code has 250 ms; costs move faster here, by the message.
pub(super) const CHAIN_PERIOD_NS: u64 = 50_000_000;

/// Paths looked at per query. Operators on none of them go by their own slope.
const PATHS_MAX: usize = 64;

impl Chain {
    fn learn(&mut self, snapshot: &Snapshot) {
        let ids = snapshot.operators.last().map_or(0, |operator| operator.id.index() + 1);
        self.slopes.clear();
        self.slopes.resize(ids, f64::NEG_INFINITY);
        for query in &snapshot.queries {
            self.learn_query(query, snapshot);
        }
    }

    fn learn_query(&mut self, query: &QuerySnapshot, snapshot: &Snapshot) {
        let operators = || query.operators.iter().filter_map(|id| snapshot.operator(*id));
        let mut paths = 0;
        for source in operators().filter(|operator| operator.upstream.is_empty()) {
            self.path.clear();
            self.walk(source, snapshot, &mut paths);
        }
        for operator in operators() {
            let slope = &mut self.slopes[operator.id.index()];
            if *slope == f64::NEG_INFINITY {
                *slope = (1.0 - size_after(operator)) / operator.row_cost_ns().max(f64::MIN_POSITIVE);
            }
        }
    }

    /// Every path that goes on from `operator`, depth first.
    fn walk(&mut self, operator: &OperatorSnapshot, snapshot: &Snapshot, paths: &mut usize) {
        self.path.push(operator.id);
        if operator.downstream.is_empty() && *paths < PATHS_MAX {
            *paths += 1;
            self.learn_path(snapshot);
        }
        for below in operator.downstream.iter() {
            if *paths == PATHS_MAX {
                break;
            }
            if let Some(below) = snapshot.operator(*below) {
                self.walk(below, snapshot, paths);
            }
        }
        self.path.pop();
    }

    /// The lower envelope of one path's progress chart.
    fn learn_path(&mut self, snapshot: &Snapshot) {
        let (mut time_ns, mut size) = (0.0, 1.0);
        self.points.clear();
        self.points.push((time_ns, size));
        for operator in self.path.iter().filter_map(|id| snapshot.operator(*id)) {
            time_ns += operator.row_cost_ns().max(f64::MIN_POSITIVE) * size;
            size *= size_after(operator);
            self.points.push((time_ns, size));
        }
        let mut from = 0;
        while from + 1 < self.points.len() {
            let (mut to, mut slope) = (from + 1, f64::NEG_INFINITY);
            for later in from + 1..self.points.len() {
                let (time_ns, size) = self.points[later];
                let (from_ns, from_size) = self.points[from];
                // A row that a filter let nothing of through costs nothing further down.
                let down = if time_ns > from_ns { (from_size - size) / (time_ns - from_ns) } else { 0.0 };
                if down > slope {
                    (to, slope) = (later, down);
                }
            }
            for id in &self.path[from..to] {
                let known = &mut self.slopes[id.index()];
                *known = known.max(slope);
            }
            from = to;
        }
    }
}

/// Rows left of one, once the operator has had it.
fn size_after(operator: &OperatorSnapshot) -> f64 {
    if operator.downstream.is_empty() { 0.0 } else { operator.selectivity }
}

impl Rank for Chain {
    fn needs(&self) -> Needs {
        let reads = Reads { costs: true, ..Reads::NOTHING };
        Needs { scale: Scale::Logarithmic, reads, ..Needs::by_cycle(CHAIN_PERIOD_NS) }
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        self.learn(snapshot);
        // Where rows only grow, there is nothing to free: last, and all alike.
        rank_operators(snapshot, priorities, |operator| -self.slopes[operator.id.index()].max(0.0).ln());
        Cycled::ALL
    }
}

#[cfg(test)]
mod tests;
