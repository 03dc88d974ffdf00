use laxity_graph::ProcessingTime;

use super::demand::{Demand, give_up};
use super::{Rank, WaitBound};
use crate::{MessageContext, QuerySnapshot, Snapshot};

/// `laxity`: the default. Deadlines while they can all be kept, and the dearest promises first when they cannot.
///
/// A message's key is its start deadline (Cameo §4.2, Eq. 3) with two differences:
///
/// k_M = t_MF + min(L, κ·R) − R, with R = C_o(n) + B_o + C_path(o)
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | t_MF | [`MessageContext::frontier`] | ns |
/// | L | [`MessageContext::target_ns`] | ns |
/// | C_o(n) | [`MessageContext::cost_ns`] | ns |
/// | B_o | [`MessageContext::backlog_ns`] | ns |
/// | C_path(o) | [`MessageContext::path_cost_ns`] | ns |
/// | κ | [`Laxity::stretch`] | – |
///
/// - B_o: what stands before a message in its mailbox runs before it. Cameo leaves it out, so that rows deferred to
///   the end of a window are all found at once when it has come.
/// - κ·R: where every target is far, least laxity runs the longest work first and takes turns between equals, the
///   worst there is for mean latency. A result is due κ times its own work after it could be had, if that is
///   before its target: short work goes first (as shortest remaining time does), and none waits without end.
///
/// Every [`REVIEW_NS`] the processor demand is compared with the capacity, query by query. Where it exceeds it,
/// the queries that lose least utility per unit of CPU are given up: first postponed to the last point of their
/// curve, and where that cannot be kept either, behind all others, the shortest first.
///
/// Does badly where costs are far off what is predicted: both R and the demand are predictions.
#[derive(Clone, Debug)]
pub struct Laxity {
    /// κ: a result may take so many times its own work, if its target is not earlier.
    pub stretch: f64,
    /// By query id: how far its promises can be kept, as of the last review.
    standing: Vec<Standing>,
    /// By unit: its query.
    queries: Vec<u32>,
    graph: Option<u64>,
    demands: Vec<Demand>,
    late: Vec<Demand>,
    lost: Vec<Demand>,
}

/// How far a query's promise can be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    Kept,
    /// Its results will be late, but not worthless: due so many ns after the target.
    Late {
        grace_ns: f64,
    },
    /// Nothing is lost any more by waiting: after all others, by work.
    Lost {
        work_ns: f64,
    },
}

/// How often the demand is compared with the capacity. Picked: a few quanta, and a fraction of the shortest
/// usual target.
const REVIEW_NS: u64 = 10_000_000;

/// κ. Picked by simulation over the workloads of the papers.
const STRETCH: f64 = 10.0;

/// Behind every deadline: 30 years of nanoseconds, and still exact to 128 ns.
const BEHIND_ALL: f64 = 1e18;

impl Default for Laxity {
    fn default() -> Laxity {
        Laxity {
            stretch: STRETCH,
            standing: Vec::new(),
            queries: Vec::new(),
            graph: None,
            demands: Vec::new(),
            late: Vec::new(),
            lost: Vec::new(),
        }
    }
}

impl Rank for Laxity {
    fn name(&self) -> &'static str {
        "laxity"
    }

    fn wait_bound(&self) -> WaitBound {
        WaitBound::Ageing
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        let work_ns = (context.cost_ns + context.backlog_ns + context.path_cost_ns) as f64;
        let due_ns = (context.target_ns as f64).min(self.stretch * work_ns);
        context.frontier.0 as f64 + due_ns - work_ns
    }

    fn inherits(&self) -> bool {
        true
    }

    fn join(&mut self, unit: u32, head: f64) -> f64 {
        let query = self.queries.get(unit as usize).copied().unwrap_or(u32::MAX);
        match self.standing.get(query as usize) {
            None | Some(Standing::Kept) => head,
            Some(Standing::Late { grace_ns }) => head + grace_ns,
            Some(Standing::Lost { work_ns }) => BEHIND_ALL + work_ns,
        }
    }

    fn review_period_ns(&self) -> Option<u64> {
        Some(REVIEW_NS)
    }

    fn review(&mut self, snapshot: &Snapshot) -> bool {
        self.learn_graph(snapshot);
        self.demands.clear();
        self.demands.extend(snapshot.queries.iter().filter_map(|query| demand(query, snapshot)));
        let before = self.standing.iter().any(|standing| *standing != Standing::Kept);
        self.standing.fill(Standing::Kept);
        self.late.clear();
        give_up(&mut self.demands, &mut self.late, snapshot.workers, snapshot.now);
        if self.late.is_empty() {
            return before;
        }
        // Once more, with what was given up due at the last point of its curve.
        for late in &self.late {
            let Some(query) = snapshot.query(laxity_graph::QueryId(late.of)) else { continue };
            let grace_ns = grace_ns(query);
            self.standing[late.of as usize] = Standing::Late { grace_ns };
            self.demands.push(Demand { deadline: late.deadline.plus_ns(grace_ns as u64), ..*late });
        }
        self.lost.clear();
        give_up(&mut self.demands, &mut self.lost, snapshot.workers, snapshot.now);
        for lost in &self.lost {
            self.standing[lost.of as usize] = Standing::Lost { work_ns: lost.work_ns as f64 };
        }
        true
    }
}

impl Laxity {
    fn learn_graph(&mut self, snapshot: &Snapshot) {
        if self.graph == Some(snapshot.graph) {
            return;
        }
        self.graph = Some(snapshot.graph);
        let queries = snapshot.queries.last().map_or(0, |query| query.id.index() + 1);
        self.standing.clear();
        self.standing.resize(queries, Standing::Kept);
        self.queries.clear();
        for operator in &snapshot.operators {
            let unit = operator.unit as usize;
            if self.queries.len() <= unit {
                self.queries.resize(unit + 1, u32::MAX);
            }
            self.queries[unit] = operator.query.0;
        }
    }
}

/// All work that waits for a query, and when: its first operator's mean deadline. `None` where none waits.
fn demand(query: &QuerySnapshot, snapshot: &Snapshot) -> Option<Demand> {
    let mut deadline: Option<ProcessingTime> = None;
    let mut work_ns = 0.0;
    for &id in query.operators.iter() {
        let Some(operator) = snapshot.operator(id) else { continue };
        let Some(head) = operator.head else { continue };
        let behind_ns = operator.mean_ingested.map_or(0, |mean| mean.since_ns(head.ingested));
        let due = head.deadline.plus_ns(behind_ns);
        deadline = Some(deadline.map_or(due, |earliest| earliest.min(due)));
        work_ns += operator.cost.0 * operator.queued_messages as f64
            + operator.cost.1 * operator.queued_rows as f64
            + operator.path_cost_ns as f64;
    }
    let value = query.weight * (1.0 - query.qos.points().last().map_or(0.0, |last| last.utility));
    Some(Demand { of: query.id.0, deadline: deadline?, work_ns: work_ns as u64, value: value.max(1e-9) })
}

/// From the target to the last point of the curve.
fn grace_ns(query: &QuerySnapshot) -> f64 {
    let last_ns = query.qos.points().last().map_or(0, |point| point.latency_ns);
    last_ns.saturating_sub(query.target_ns) as f64
}
