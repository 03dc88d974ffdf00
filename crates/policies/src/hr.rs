//! The rank for the least mean latency of rows, without targets: the paper's, and the variant of Haren and Lachesis.

use laxity_graph::OperatorId;
use laxity_sched::{Cycled, Needs, OperatorSnapshot, Rank, Reads, Scale, Snapshot, rank_operators};

/// `hr`: the operator on the path to a sink that puts out most rows per CPU time goes first.
///
/// Highest Rate: Sharaf et al., "Algorithms and metrics for processing multiple heterogeneous continuous
/// queries", TODS 33(1), 2008; as in Lachesis §5.1 and Klink §6.1.1. Least mean latency of rows on one
/// worker, if estimates hold.
///
/// rate(o) = max over paths o = o_1 … o_m to a sink of S / C̄, with S = Π s_i and C̄ = Σ_i c_i · Π_{j<i} s_j
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | s_i | [`OperatorSnapshot::selectivity`]; 1 for a sink, whose rows leave as results | – |
/// | c_i | [`OperatorSnapshot::row_cost_ns`] | ns per row |
///
/// `hr:global` is Haren's and Lachesis' global rate, which takes all branches below an operator together
/// instead of the best: GS / GAC, GS(o) = s_o · Σ GS(child), GAC(o) = c_o + s_o · Σ GAC(child). (Haren's code
/// multiplies the GS of branches; a sum is what its meaning, rows put out, asks for.) A query is as urgent as
/// the best of its operators that have work.
///
/// Does badly where what is urgent is dear or selective. It starves, hence the ageing guard. Rates move
/// slowly, so they are taken every 50 ms.
#[derive(Clone, Debug, Default)]
pub struct HighestRate {
    /// Take all branches together.
    global: bool,
    /// By operator id: what paths to sinks there are, as far as none is better than another whatever is put
    /// before it.
    tails: Vec<Vec<Tail>>,
    /// By operator id: GS and GAC.
    branches: Vec<(f64, f64)>,
}

/// How often rates are taken: Haren's period in Lachesis' evaluation (§6.4).
const PERIOD_NS: u64 = 50_000_000;

/// A path to a sink, per row that comes out of it: rows that must go in, 1 / S, and time, C̄ / S.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tail {
    rows_in: f64,
    time_ns: f64,
}

/// Paths kept per operator. More are only met in graphs with many branches and no clear best; then the
/// quickest stay.
const TAILS_MAX: usize = 16;

impl HighestRate {
    /// Taking all branches together.
    pub fn global() -> HighestRate {
        HighestRate { global: true, ..HighestRate::default() }
    }

    /// Takes all rates.
    fn learn(&mut self, snapshot: &Snapshot) {
        let ids = snapshot.operators.last().map_or(0, |operator| operator.id.index() + 1);
        self.tails.iter_mut().for_each(Vec::clear);
        self.tails.resize_with(ids, Vec::new);
        self.branches.clear();
        self.branches.resize(ids, (0.0, 0.0));
        for query in &snapshot.queries {
            // Consumers first: what is below an operator is known before it.
            for operator in query.operators.iter().rev().filter_map(|id| snapshot.operator(*id)) {
                if self.global {
                    self.branches[operator.id.index()] = self.all_branches(operator);
                } else {
                    let mut tails = std::mem::take(&mut self.tails[operator.id.index()]);
                    self.paths(operator, &mut tails);
                    self.tails[operator.id.index()] = tails;
                }
            }
        }
    }

    /// Rows put out per ns.
    fn rate(&self, id: OperatorId) -> f64 {
        if self.global {
            let (rows, time_ns) = self.branches[id.index()];
            return rows / time_ns;
        }
        self.tails[id.index()].first().map_or(0.0, |tail| 1.0 / tail.time_ns)
    }

    /// The paths from an operator, given those from below it, the quickest first.
    fn paths(&self, operator: &OperatorSnapshot, tails: &mut Vec<Tail>) {
        let cost_ns = row_cost_ns(operator);
        if operator.downstream.is_empty() {
            tails.push(Tail { rows_in: 1.0, time_ns: cost_ns });
            return;
        }
        for below in operator.downstream.iter().filter_map(|below| self.tails.get(below.index())) {
            tails.extend(below.iter().map(|tail| {
                let rows_in = tail.rows_in / operator.selectivity;
                Tail { rows_in, time_ns: tail.time_ns + cost_ns * rows_in }
            }));
        }
        keep_undominated(tails);
    }

    /// GS and GAC.
    fn all_branches(&self, operator: &OperatorSnapshot) -> (f64, f64) {
        let cost_ns = row_cost_ns(operator);
        if operator.downstream.is_empty() {
            return (1.0, cost_ns);
        }
        let below = operator.downstream.iter().filter_map(|below| self.branches.get(below.index()));
        let (rows, time_ns) = below.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (operator.selectivity * rows, cost_ns + operator.selectivity * time_ns)
    }
}

fn row_cost_ns(operator: &OperatorSnapshot) -> f64 {
    operator.row_cost_ns().max(f64::MIN_POSITIVE)
}

/// What is put before a path costs time in proportion to `rows_in`, so a slower one is only worth keeping if
/// it needs fewer rows.
fn keep_undominated(tails: &mut Vec<Tail>) {
    tails.sort_by(|a, b| a.time_ns.total_cmp(&b.time_ns).then(a.rows_in.total_cmp(&b.rows_in)));
    let mut fewest = f64::INFINITY;
    let mut first = true;
    tails.retain(|tail| {
        let keep = first || tail.rows_in < fewest;
        first = false;
        fewest = fewest.min(tail.rows_in);
        keep
    });
    tails.truncate(TAILS_MAX);
}

impl Rank for HighestRate {
    fn needs(&self) -> Needs {
        let reads = Reads { costs: true, ..Reads::NOTHING };
        Needs { scale: Scale::Logarithmic, reads, ..Needs::by_cycle(PERIOD_NS) }
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        self.learn(snapshot);
        rank_operators(snapshot, priorities, |operator| -self.rate(operator.id).ln());
        Cycled::ALL
    }
}

#[cfg(test)]
mod tests;
