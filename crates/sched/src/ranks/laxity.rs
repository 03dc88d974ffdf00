mod demand;
mod lost;
mod parts;
mod spent;

use laxity_graph::{ProcessingTime, QueryId};

use self::demand::{Demand, give_up};
use self::lost::Lost;
use self::parts::Parts;
use self::spent::Spent;

use crate::{
    Cycled, Event, Fault, MemoryMode, MessageContext, Needs, Parameters, QuerySnapshot, Rank, RankRecipe,
    Releases, Snapshot, Told, WaitBound, rank_heads,
};

/// `laxity`: the default. Deadlines while they can all be kept, and the dearest promises first when they cannot.
///
/// k_M = t_MF + min(L − B_o, (L + D)/2 − min(B_o, D/2)), with D = min(L, κ·C_q)
///
/// | Symbol | Meaning | Field | Unit |
/// | --- | --- | --- | --- |
/// | t_MF | when its result can be complete | [`MessageContext::frontier`] | ns |
/// | L | target of its query | [`MessageContext::target_ns`] | ns |
/// | C_q | longest C_o + C_path of its query: what one result costs | | ns |
/// | κ | [`Laxity::stretch`] | | – |
/// | B_o | cost of what stands before it in its mailbox | [`MessageContext::backlog_ns`] | ns |
///
/// Begins with Cameo's deadline t_MF + L (§4.2) and differs in nine ways, most of them for what they did in
/// simulation of the papers' workloads at 0.9 of capacity.
/// - *t_MF is forecast* from sweeping watermarks (Klink §3.1), and rows wait for it *on their way* to a window, not
///   only in front of it ([`Needs::forecasts`]). This alone divides the mean latency of YSB by four.
/// - *κ·C_q*: where every target is far, least laxity runs the longest work first and takes turns among equals, the
///   worst there is for mean latency. Among queries of equal target a result is due by its own work: short work goes
///   first, as under shortest job first, and none waits without end.
/// - *Halved*: short work moves a deadline by half of L at most, so that among different targets the order is that
///   of half the targets. Where half of every target can be kept, all are; a result that has waited for κ times its
///   work, or whose work is not what it was predicted, passes nothing that is due soon.
/// - *Eased*: while all that waits can be done within half of the nearest target that has work, L/2 is √(2·L·C_q), yet
///   no less than L/2 less ten halves of that target: far targets hold up short work less, and on one worker what is
///   begun is finished first, by κ/2 times what is done of it. The mean latency of Aurora's chains falls from 1.5 to
///   1.2 times the optimum, their tail does not rise.
/// - *Pressed*: where something has passed its halved deadline, every L counts whole, k_M + L/2, until nothing has. Else
///   a backlog that is half way to a far target would hold up every near one until that is nearly due; among equal
///   targets the order stays.
/// - *B_o*: rows deferred to the end of a window must be through by then, all of them; and a long queue is one
///   that a single operator instance will not empty on other cores. Against D it counts for half of D at most, so
///   that a long queue which is not due does not pass for a short one that is.
/// - *C_o and C_path are not taken off.* On one core end-to-end deadlines of chains are as good, and with them
///   the operators above would always go before those below: results of one query would wait for its next rows.
/// - *Overload* is looked for every 10 ms or so: where the work that waits exceeds the capacity until it is due,
///   the queries whose results are dearest for what they are worth are given up, first until the last point of their
///   curve, and where that cannot be kept either behind all others, the shortest first. What waits at a source
///   counts with all that a row costs further down, as measured. Inside a query behind all others the highest rate
///   goes first.
/// - *Memory* at four fifths of its bound: who frees most goes first, as in Klink §3.4 ([`Releases`]), until half
///   of it is free.
///
/// Does badly where costs are far off what is predicted: C and the demand are predictions. Under overload the
/// queries given up wait for long, so that a percentile over all queries is worse than where all are a little late.
/// The test sees the work that waits, not what is to come: under lasting overload a backlog grows in the query of the
/// farthest target until that is near, and then this one may be lost where a dearer one should have been given up first.
#[derive(Clone, Debug)]
pub struct Laxity {
    parts: Parts,
    /// κ: a result may take so many times its own work, if its target is not earlier.
    pub stretch: f64,
    /// By query id: C_q.
    costs_ns: Vec<f32>,
    weighing: Weighing,
    /// By query id: how much later it is due, because its promises cannot be kept. Empty where all can.
    put_off_ns: Vec<f64>,
    spent: Spent,
    lost_order: Lost,
    /// By unit: what is added to the priority of its head. Empty where nothing is.
    shifts_ns: Vec<f64>,
    /// By unit: the shift while eased.
    eased_ns: Vec<f64>,
    /// Half of the nearest target that had work since the last look at costs, and between the two before.
    nearest_half_ns: [f64; 2],
    /// By query id: L/2.
    halves_ns: Vec<f64>,
    /// By unit: its query.
    query_of: Vec<u32>,
    graph: Option<u64>,
    /// Reviews until the costs are looked at again.
    costs_due: u32,
    demands: Vec<Demand>,
    late: Vec<Demand>,
    lost: Vec<Demand>,
    memory: MemoryMode,
    releases: Releases,
    /// By place of the query in the snapshot: time to its deadline less its work.
    slacks_ns: Vec<f64>,
    /// By unit, while memory is short: priorities that free it.
    freeing: Vec<f64>,
}

/// How much of a target counts in the order: the less is near, the less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weighing {
    /// √(2·L·C_q): all that waits can be done within half of the nearest target.
    Eased,
    /// L/2.
    Halved,
    /// L: something has passed its halved deadline.
    Pressed,
}

/// How often the demand is compared with the capacity. Picked: a few quanta, and a fraction of the shortest
/// usual target.
const REVIEW_NS: u64 = 10_000_000;

/// But not so often that reviews take more than half a percent of a core, at about 10 ns for an operator.
const REVIEW_NS_PER_OPERATOR: u64 = 2_000;

/// Costs change slowly.
const REVIEWS_PER_LOOK_AT_COSTS: u32 = 64;

/// κ. Picked by simulation of the papers' workloads at 0.9 of capacity: from 40 to 60 tails are within one percent of
/// each other; less does worse for the mean latency of chains, ten times as much for the IPQs.
const STRETCH: f64 = 50.0;

/// By how many halves of the nearest target a far one is eased at most. Picked: 10 serves Aurora's chains, whose targets
/// are of one magnitude, as well as no limit; without one, a query of 50 ms beside such of 30 s had a p99 of 37 ms on
/// threads, where sources hold back work that a review does not see, and 12 ms with it.
const EASED_MAX: f64 = 10.0;

/// What can be freed in so long counts: Klink's cycle (§6.2).
const FREED_WITHIN_NS: u64 = 120_000_000;

/// Behind every deadline: 30 years of nanoseconds, and still exact to 128 ns; to 2 ms ten thousand times over.
const BEHIND_ALL: f64 = 1e18;

impl Default for Laxity {
    fn default() -> Laxity {
        Laxity {
            parts: Parts::ALL,
            stretch: STRETCH,
            costs_ns: Vec::new(),
            weighing: Weighing::Halved,
            put_off_ns: Vec::new(),
            spent: Spent::default(),
            lost_order: Lost::default(),
            shifts_ns: Vec::new(),
            eased_ns: Vec::new(),
            nearest_half_ns: [f64::INFINITY; 2],
            halves_ns: Vec::new(),
            query_of: Vec::new(),
            graph: None,
            costs_due: 0,
            demands: Vec::new(),
            late: Vec::new(),
            lost: Vec::new(),
            memory: MemoryMode::default(),
            releases: Releases::default(),
            slacks_ns: Vec::new(),
            freeing: Vec::new(),
        }
    }
}

impl Rank for Laxity {
    fn needs(&self) -> Needs {
        Needs {
            inherits: true,
            instants: true,
            forecasts: self.parts.forecasts,
            holds_sources: self.parts.memory,
            look_every_ns: Some(REVIEW_NS),
            look_ns_per_operator: REVIEW_NS_PER_OPERATOR,
            told: Told { ran: true, ..Told::default() },
            ..Needs::by_message(WaitBound::Ageing)
        }
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        let way_ns = (context.cost_ns + context.path_cost_ns) as f64;
        let target_ns = context.target_ns as f64;
        let soon_ns = self.soon_ns(context.query, target_ns, way_ns);
        let backlog_ns = if self.parts.backlog { context.backlog_ns as f64 } else { 0.0 };
        let due_ns = (target_ns + soon_ns) / 2.0 - backlog_ns.min(soon_ns / 2.0);
        context.frontier.0 as f64 + due_ns.min(target_ns - backlog_ns)
    }

    fn join(&mut self, unit: u32, head: f64) -> f64 {
        if let Some(&priority) = self.freeing.get(unit as usize) {
            return priority;
        }
        head + self.shifts_ns.get(unit as usize).copied().unwrap_or(0.0)
    }

    /// What is ranked from a snapshot alone holds for a while, in which there will be work that it does not show and in
    /// which what one message costs is nothing: targets alone count, nothing is due by its work, eased or pressed.
    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        if self.weighing != Weighing::Halved {
            self.weighing = Weighing::Halved;
            self.shift(snapshot);
        }
        let stretch = std::mem::replace(&mut self.stretch, f64::INFINITY);
        rank_heads(self, snapshot, priorities);
        self.stretch = stretch;
        Cycled::ALL
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Ran { query, source_rows, cpu_ns } => self.spent.ran(query, source_rows, cpu_ns),
            Event::Removed { query } => {
                self.spent.forget(query);
                if let Some(put_off_ns) = self.put_off_ns.get_mut(query.index()) {
                    *put_off_ns = 0.0;
                }
            }
            _ => {}
        }
    }

    fn review(&mut self, snapshot: &Snapshot) -> bool {
        let had_other = !self.shifts_ns.is_empty() || !self.freeing.is_empty();
        self.learn_graph(snapshot);
        let has_new_costs = self.learn_costs(snapshot);
        self.demands.clear();
        let (costs_ns, spent) = (&self.costs_ns, &self.spent);
        let cost_ns = |query: &QuerySnapshot| costs_ns.get(query.id.index()).map_or(0.0, |&ns| ns.into());
        let demand = |query: &QuerySnapshot| demand(query, cost_ns(query), spent.row_ns(query), snapshot);
        self.demands.extend(snapshot.queries.iter().filter_map(demand));
        if self.frees_memory(snapshot) {
            return true;
        }
        let mut weighing = self.weigh(snapshot);
        let (put_off, puts_off) =
            (!self.put_off_ns.is_empty(), self.parts.overload && self.puts_off(snapshot));
        if puts_off && weighing == Weighing::Eased {
            weighing = Weighing::Halved;
        }
        let is_same = std::mem::replace(&mut self.weighing, weighing) == weighing;
        let stays = is_same && !has_new_costs && !put_off && !puts_off && self.freeing.is_empty();
        self.freeing.clear();
        if stays {
            return false;
        }
        self.shift(snapshot);
        had_other || !self.shifts_ns.is_empty()
    }
}

impl Laxity {
    /// With its parameters: `laxity:overload=off`.
    pub(super) fn recipe(parameters: &mut Parameters<'_>) -> Result<RankRecipe, Fault> {
        let (parts, label) = Parts::read(parameters)?;
        Ok(RankRecipe::new(label, move || Laxity { parts, ..Laxity::default() }))
    }

    /// D, for work that costs as much as is known of its query, or `way_ns` if that is more.
    #[inline]
    fn soon_ns(&self, query: QueryId, target_ns: f64, way_ns: f64) -> f64 {
        if !self.parts.short {
            return target_ns;
        }
        target_ns.min(self.stretch * self.cost_ns(query).max(way_ns))
    }

    fn learn_graph(&mut self, snapshot: &Snapshot) {
        if self.graph == Some(snapshot.graph) {
            return;
        }
        self.graph = Some(snapshot.graph);
        self.costs_due = 0;
        let queries = snapshot.queries.last().map_or(0, |query| query.id.index() + 1);
        self.costs_ns.clear();
        self.costs_ns.resize(queries, 0.0);
        self.spent.grow(queries);
        self.halves_ns.clear();
        self.halves_ns.resize(queries, 0.0);
        for query in &snapshot.queries {
            self.halves_ns[query.id.index()] = query.target_ns as f64 / 2.0;
        }
        self.query_of.clear();
        for operator in &snapshot.operators {
            let unit = operator.unit as usize;
            if self.query_of.len() <= unit {
                self.query_of.resize(unit + 1, u32::MAX);
            }
            self.query_of[unit] = operator.query.0;
        }
    }

    /// C_q.
    #[inline]
    fn cost_ns(&self, query: QueryId) -> f64 {
        self.costs_ns.get(query.index()).map_or(0.0, |&cost_ns| f64::from(cost_ns))
    }

    /// How much of the targets counts now.
    fn weigh(&mut self, snapshot: &Snapshot) -> Weighing {
        let halves_ns = self.demands.iter().map(|demand| self.halves_ns[demand.of as usize]);
        self.nearest_half_ns[0] = halves_ns.fold(self.nearest_half_ns[0], f64::min);
        let [nearest_ns, before_ns] = self.nearest_half_ns;
        let work_ns: f64 = self.demands.iter().map(|demand| demand.work_ns as f64).sum();
        if self.parts.press && self.presses(snapshot) {
            Weighing::Pressed
        } else if self.parts.ease && work_ns < nearest_ns.min(before_ns) * snapshot.workers as f64 {
            Weighing::Eased
        } else {
            Weighing::Halved
        }
    }

    /// Whether something waits that its halved deadline has passed; once so, until all have a tenth of their targets
    /// to spare.
    fn presses(&self, snapshot: &Snapshot) -> bool {
        snapshot.operators.iter().any(|operator| {
            let (Some(head), Some(&half_ns)) = (&operator.head, self.halves_ns.get(operator.query.index()))
            else {
                return false;
            };
            let soon_ns = self.soon_ns(operator.query, 2.0 * half_ns, 0.0);
            let spare_ns = if self.weighing == Weighing::Pressed { 0.2 * half_ns } else { 0.0 };
            (head.deadline.0 as f64) < snapshot.now.0 as f64 + half_ns - soon_ns / 2.0 + spare_ns
        })
    }

    /// Finds what cannot be kept; whether there is any.
    fn puts_off(&mut self, snapshot: &Snapshot) -> bool {
        self.put_off_ns.clear();
        self.late.clear();
        give_up(&mut self.demands, &mut self.late, snapshot.workers, snapshot.now);
        if self.late.is_empty() {
            return false;
        }
        self.put_off_ns.resize(self.costs_ns.len(), 0.0);
        // Once more, with what was given up due at the last point of its curve.
        for late in &self.late {
            let Some(query) = snapshot.query(QueryId(late.of)) else { continue };
            let grace_ns = grace_ns(query);
            self.put_off_ns[late.of as usize] = grace_ns;
            self.demands.push(Demand { deadline: late.deadline.plus_ns(grace_ns as u64), ..*late });
        }
        self.lost.clear();
        give_up(&mut self.demands, &mut self.lost, snapshot.workers, snapshot.now);
        self.lost.sort_unstable_by_key(|lost| (lost.work_ns, lost.of));
        for (place, lost) in (1..).zip(&self.lost) {
            self.put_off_ns[lost.of as usize] = f64::from(place) * BEHIND_ALL;
        }
        true
    }

    /// What is added to the priority of each unit.
    fn shift(&mut self, snapshot: &Snapshot) {
        self.shifts_ns.clear();
        if self.weighing == Weighing::Halved && self.put_off_ns.is_empty() {
            return;
        }
        let of_query = |by_query: &[f64], query: u32| by_query.get(query as usize).copied().unwrap_or(0.0);
        let any_lost = self.parts.rates && self.put_off_ns.iter().any(|&ns| ns >= BEHIND_ALL);
        let places_ns = if any_lost { self.lost_order.places_ns(snapshot, self.query_of.len()) } else { &[] };
        for (unit, (&query, &eased_ns)) in self.query_of.iter().zip(&self.eased_ns).enumerate() {
            let weighed_ns = match self.weighing {
                Weighing::Eased => eased_ns,
                Weighing::Halved => 0.0,
                Weighing::Pressed => of_query(&self.halves_ns, query),
            };
            let put_off_ns = of_query(&self.put_off_ns, query);
            let place_ns = if any_lost && put_off_ns >= BEHIND_ALL { places_ns[unit] } else { 0.0 };
            self.shifts_ns.push(weighed_ns + put_off_ns + place_ns);
        }
    }

    /// Whether memory decides for now, and then who frees it.
    fn frees_memory(&mut self, snapshot: &Snapshot) -> bool {
        if snapshot.memory.bound_bytes == 0 || !self.parts.memory {
            return false;
        }
        let slack_ns =
            |demand: &Demand| demand.deadline.0 as f64 - snapshot.now.0 as f64 - demand.work_ns as f64;
        let least_ns = self.demands.iter().map(slack_ns).fold(f64::INFINITY, f64::min);
        if !self.memory.is_on(snapshot, least_ns) {
            return false;
        }
        let mut demands = self.demands.iter().peekable();
        self.slacks_ns.clear();
        self.slacks_ns.extend(
            snapshot
                .queries
                .iter()
                .map(|query| demands.next_if(|demand| demand.of == query.id.0).map_or(BEHIND_ALL, slack_ns)),
        );
        self.freeing.clear();
        self.freeing.resize(self.query_of.len(), BEHIND_ALL);
        self.releases.rank(snapshot, &self.slacks_ns, FREED_WITHIN_NS, &mut self.freeing);
        true
    }

    /// True if costs were looked at.
    fn learn_costs(&mut self, snapshot: &Snapshot) -> bool {
        if let Some(left) = self.costs_due.checked_sub(1) {
            self.costs_due = left;
            return false;
        }
        self.costs_due = REVIEWS_PER_LOOK_AT_COSTS;
        self.nearest_half_ns = [f64::INFINITY, self.nearest_half_ns[0]];
        self.spent.look();
        self.lost_order.forget();
        self.costs_ns.fill(0.0);
        for operator in &snapshot.operators {
            let Some(cost_ns) = self.costs_ns.get_mut(operator.query.index()) else { continue };
            *cost_ns = cost_ns.max((operator.usual_cost_ns + operator.path_cost_ns) as f32);
        }
        self.eased_ns.clear();
        self.eased_ns.resize(self.query_of.len(), 0.0);
        for operator in &snapshot.operators {
            let (cost_ns, half_ns) = (self.cost_ns(operator.query), self.halves_ns[operator.query.index()]);
            let done_ns = cost_ns - (operator.usual_cost_ns + operator.path_cost_ns) as f64;
            let eased_ns = &mut self.eased_ns[operator.unit as usize];
            let most_ns = EASED_MAX * self.nearest_half_ns[1];
            *eased_ns = ((4.0 * half_ns * cost_ns).sqrt() - half_ns).clamp(-most_ns, 0.0);
            // With several workers, what is above must be through for those below to have work.
            if snapshot.workers == 1 && self.parts.finish {
                *eased_ns -= self.stretch / 2.0 * done_ns;
            }
        }
        true
    }
}

/// All work that waits for a query, and when it is due: the mean deadline at the operator where that is first.
/// `None` where none waits. `row_ns`: what a row from its sources costs, 0 if that is not known.
fn demand(query: &QuerySnapshot, cost_ns: f64, row_ns: f64, snapshot: &Snapshot) -> Option<Demand> {
    let mut deadline: Option<ProcessingTime> = None;
    let mut work_ns = 0.0;
    for &id in query.operators.iter() {
        let Some(operator) = snapshot.operator(id) else { continue };
        let Some(head) = operator.head else { continue };
        let behind_ns = operator.mean_ingested.map_or(0, |mean| mean.since_ns(head.ingested));
        let due = head.deadline.plus_ns(behind_ns);
        deadline = Some(deadline.map_or(due, |earliest| earliest.min(due)));
        let here_ns = operator.cost.0 * operator.queued_messages as f64
            + operator.cost.1 * operator.queued_rows as f64
            + operator.path_cost_ns as f64;
        let is_source = operator.upstream.is_empty();
        let all_ns = if is_source { row_ns * operator.queued_rows as f64 } else { 0.0 };
        work_ns += here_ns.max(all_ns);
    }
    let worthless = query.qos.points().last().map_or(0.0, |last| last.utility);
    // Of each result that waits.
    let value = query.weight * (1.0 - worthless) * work_ns / cost_ns.max(1.0);
    // A query whose curve never falls is given up first.
    Some(Demand { of: query.id.0, deadline: deadline?, work_ns: work_ns as u64, value: value.max(1e-9) })
}

/// From the target to the last point of the curve.
fn grace_ns(query: &QuerySnapshot) -> f64 {
    let last_ns = query.qos.points().last().map_or(0, |point| point.latency_ns);
    last_ns.saturating_sub(query.target_ns) as f64
}

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, OperatorId, WorkerId};

    use super::*;
    use crate::{Composition, Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler};

    const MS: u64 = 1_000_000;
    const WORKER: WorkerId = WorkerId(0);

    /// A query of one operator for each (target, weight).
    fn scheduler(queries: &[(u64, f64)]) -> Scheduler<()> {
        let mut scheduler = Scheduler::new(Composition::of(Laxity::default()), Config::default());
        for (id, &(target_ns, weight)) in queries.iter().enumerate() {
            let (id, query) = (OperatorId(id as u32), QueryId(id as u32));
            scheduler.add_query(QuerySpec { id: query, target_ns, weight, qos: None });
            scheduler.add_operator(OperatorSpec { id, query, upstream: vec![], window: None, channels: 1 });
        }
        scheduler
    }

    fn send(scheduler: &mut Scheduler<()>, to: u32, rows: u32, bytes: u64, at: ProcessingTime) {
        let (to, progress) = (OperatorId(to), EventTime::MIN);
        scheduler.on_message(Message { to, channel: 0, progress, ingested: at, rows, bytes, body: () }, at);
    }

    /// Teaches that a row costs so much; the time it took.
    fn teach(scheduler: &mut Scheduler<()>, operator: u32, row_ns: u64, now: ProcessingTime) {
        for rows in [10, 1_000, 10, 1_000, 10, 1_000, 10, 1_000] {
            send(scheduler, operator, rows, 8, now);
            assert_eq!(scheduler.next(WORKER, now).unwrap().operator.0, operator);
            let cpu_ns = u64::from(rows) * row_ns;
            let report = RunReport { rows_in: rows, rows_out: rows / 10, cpu_ns, more: false };
            scheduler.on_finished(WORKER, report, now);
            assert!(scheduler.next(WORKER, now).is_none());
        }
    }

    /// Lets reviews pass until costs were looked at; when the next one is due.
    fn reviewed(scheduler: &mut Scheduler<()>, now: ProcessingTime) -> ProcessingTime {
        (0..=REVIEWS_PER_LOOK_AT_COSTS).fold(now.plus_ns(REVIEW_NS), |now, _| {
            assert!(scheduler.next(WORKER, now).is_none());
            now.plus_ns(REVIEW_NS)
        })
    }

    fn drained(scheduler: &mut Scheduler<()>, now: ProcessingTime) -> Vec<u32> {
        std::iter::from_fn(|| {
            let operator = scheduler.next(WORKER, now)?.operator.0;
            // The quantum is over, so that every message is one decision.
            scheduler.on_finished(WORKER, RunReport { cpu_ns: 1, ..RunReport::default() }, now);
            scheduler.release(WORKER, now);
            Some(operator)
        })
        .collect()
    }

    /// In which order two messages of now are run, where a row costs the first query 10 µs and the other 100 ns.
    fn order(targets_ns: [u64; 2]) -> Vec<u32> {
        let mut scheduler = scheduler(&targets_ns.map(|target_ns| (target_ns, 1.0)));
        let now = ProcessingTime(MS);
        teach(&mut scheduler, 0, 10_000, now);
        teach(&mut scheduler, 1, 100, now);
        let now = reviewed(&mut scheduler, now);
        send(&mut scheduler, 0, 1_000, 8, now);
        send(&mut scheduler, 1, 1_000, 8, now);
        drained(&mut scheduler, now)
    }

    #[test]
    fn short_work_goes_first_while_targets_are_far() {
        // llf would start 0, which takes longer, first.
        assert_eq!(order([60_000 * MS, 60_000 * MS]), [1, 0]);
    }

    #[test]
    fn a_near_target_beats_short_work() {
        assert_eq!(order([20 * MS, 60_000 * MS]), [0, 1]);
    }

    #[test]
    fn a_near_target_that_is_not_near_yet_holds_up_no_short_work() {
        // By halves of the targets 0 would go first: (1 s + 0.25 s)/2 to 2.5 s. Eased it is √(2·1 s·5 ms) + 0.12 s = 0.2 s
        // to √(2·5 s·50 µs) + 1 ms = 24 ms.
        assert_eq!(order([1_000 * MS, 5_000 * MS]), [1, 0]);
    }

    #[test]
    fn beside_a_near_target_a_far_one_is_eased_by_little() {
        let mut scheduler = scheduler(&[(30_000 * MS, 1.0), (50 * MS, 1.0)]);
        let now = ProcessingTime(10_000 * MS);
        (0..2).for_each(|operator| teach(&mut scheduler, operator, 100, now));
        // A review sees work of the near target; the next look at costs counts it.
        let now = reviewed(&mut scheduler, now);
        send(&mut scheduler, 1, 1_000, 8, now);
        let now = now.plus_ns(REVIEW_NS);
        assert_eq!(drained(&mut scheduler, now), [1]);
        let now = reviewed(&mut scheduler, now);
        // Wholly eased, the first would have been due for almost three seconds.
        send(&mut scheduler, 0, 1_000, 8, ProcessingTime(now.0 - 3_000 * MS));
        send(&mut scheduler, 1, 1_000, 8, now);
        assert_eq!(drained(&mut scheduler, now), [1, 0]);
    }

    #[test]
    fn at_ease_what_is_begun_is_finished_first_on_one_worker() {
        for (workers, first) in [(1, 1), (2, 0)] {
            let config = Config { workers, ..Config::default() };
            let mut scheduler = Scheduler::new(Composition::of(Laxity::default()), config);
            let query = QueryId(0);
            scheduler.add_query(QuerySpec { id: query, target_ns: 1_000 * MS, weight: 1.0, qos: None });
            for (id, upstream) in [(OperatorId(0), vec![]), (OperatorId(1), vec![OperatorId(0)])] {
                scheduler.add_operator(OperatorSpec { id, query, upstream, window: None, channels: 1 });
            }
            let now = ProcessingTime(MS);
            (0..2).for_each(|operator| teach(&mut scheduler, operator, 1_000, now));
            // An older message, but half of a ms of work behind: κ/2 of it are 12 ms.
            let now = reviewed(&mut scheduler, now);
            send(&mut scheduler, 0, 100, 8, ProcessingTime(now.0 - MS));
            send(&mut scheduler, 1, 100, 8, now);
            assert_eq!(drained(&mut scheduler, now)[0], first, "{workers} workers");
        }
    }

    #[test]
    fn what_has_waited_for_many_times_its_work_passes_nothing_that_is_due_soon() {
        let mut scheduler = scheduler(&[(500 * MS, 1.0), (20 * MS, 1.0)]);
        let now = ProcessingTime(MS);
        (0..2).for_each(|operator| teach(&mut scheduler, operator, 6_000, now));
        let now = reviewed(&mut scheduler, now);
        // Fifty times the 6 ms that it costs; with as much of the other it is more than half of 20 ms.
        send(&mut scheduler, 0, 1_000, 8, ProcessingTime(now.0 - 300 * MS));
        send(&mut scheduler, 1, 1_000, 8, now);
        assert_eq!(drained(&mut scheduler, now), [1, 0]);
    }

    #[test]
    fn a_backlog_half_way_to_a_far_target_holds_up_no_near_one() {
        let mut scheduler = scheduler(&[(10_000 * MS, 1.0), (50 * MS, 1.0)]);
        let now = ProcessingTime(20_000 * MS);
        (0..2).for_each(|operator| teach(&mut scheduler, operator, 1, now));
        // By halves the first is due for a second by now, and the other in 25 ms.
        let now = reviewed(&mut scheduler, now);
        send(&mut scheduler, 0, 1_000, 8, ProcessingTime(now.0 - 6_000 * MS));
        send(&mut scheduler, 1, 1_000, 8, now);
        assert_eq!(drained(&mut scheduler, now), [1, 0]);
        // But not so one that is due.
        send(&mut scheduler, 0, 1_000, 8, ProcessingTime(now.0 - 9_990 * MS));
        send(&mut scheduler, 1, 1_000, 8, now);
        assert_eq!(drained(&mut scheduler, now), [0, 1]);
    }

    #[test]
    fn the_cheapest_promise_is_given_up_first() {
        // Three queries with 8 ms of work each, due within 20 ms: one is too many, and it is the lightest.
        let mut scheduler = scheduler(&[(20 * MS, 1.0), (20 * MS, 5.0), (20 * MS, 5.0)]);
        let now = ProcessingTime(MS);
        (0..3).for_each(|operator| teach(&mut scheduler, operator, 8_000, now));
        let now = reviewed(&mut scheduler, now);
        (0..3).for_each(|operator| send(&mut scheduler, operator, 1_000, 8, now));
        assert_eq!(drained(&mut scheduler, now), [1, 2, 0]);
    }

    #[test]
    fn the_dearest_results_are_given_up_however_few_wait() {
        // 10 ms for one result and 20 ms for twenty, in 25 ms.
        let mut scheduler = scheduler(&[(25 * MS, 1.0), (25 * MS, 1.0)]);
        let now = ProcessingTime(MS);
        teach(&mut scheduler, 0, 10_000, now);
        teach(&mut scheduler, 1, 1_000, now);
        let now = reviewed(&mut scheduler, now);
        send(&mut scheduler, 0, 1_000, 8, now);
        (0..20).for_each(|_| send(&mut scheduler, 1, 1_000, 8, now));
        let order = drained(&mut scheduler, now);
        assert_eq!((order[0], order[20]), (1, 0), "{order:?}");
    }

    #[test]
    fn what_cannot_be_kept_goes_shortest_query_first_and_among_equals_by_deadline() {
        // Due for a second, 20 ms and 10 ms of work: nothing can be kept.
        let mut scheduler = Scheduler::new(Composition::of(Laxity::default()), Config::default());
        for id in [QueryId(0), QueryId(1)] {
            scheduler.add_query(QuerySpec { id, target_ns: 20 * MS, weight: 1.0, qos: None });
        }
        for (id, query) in [(0, 0), (1, 1), (2, 1)] {
            let (id, query) = (OperatorId(id), QueryId(query));
            scheduler.add_operator(OperatorSpec { id, query, upstream: vec![], window: None, channels: 1 });
        }
        let now = ProcessingTime(MS);
        (0..3).for_each(|operator| teach(&mut scheduler, operator, 5_000, now));
        let now = ProcessingTime(2_000 * MS);
        let ago = |ms: u64| ProcessingTime(now.0 - ms * MS);
        send(&mut scheduler, 0, 4_000, 8, ago(1_100));
        send(&mut scheduler, 1, 1_000, 8, ago(1_000));
        send(&mut scheduler, 2, 1_000, 8, ago(1_050));
        assert_eq!(drained(&mut scheduler, now), [2, 1, 0]);
    }

    #[test]
    fn inside_what_cannot_be_kept_the_highest_rate_goes_first() {
        let mut scheduler = Scheduler::new(Composition::of(Laxity::default()), Config::default());
        let query = QueryId(0);
        scheduler.add_query(QuerySpec { id: query, target_ns: 20 * MS, weight: 1.0, qos: None });
        for id in [OperatorId(0), OperatorId(1)] {
            scheduler.add_operator(OperatorSpec { id, query, upstream: vec![], window: None, channels: 1 });
        }
        let now = ProcessingTime(MS);
        teach(&mut scheduler, 0, 5_000, now);
        teach(&mut scheduler, 1, 4_000, now);
        let now = reviewed(&mut scheduler, ProcessingTime(2_000 * MS));
        send(&mut scheduler, 0, 1_000, 8, ProcessingTime(now.0 - 1_100 * MS));
        send(&mut scheduler, 1, 1_000, 8, ProcessingTime(now.0 - 1_000 * MS));
        assert_eq!(drained(&mut scheduler, now), [1, 0]);
    }

    #[test]
    fn a_backlog_at_a_source_counts_with_all_that_it_costs_further_down() {
        let mut scheduler = Scheduler::new(Composition::of(Laxity::default()), Config::default());
        for (id, weight) in [(QueryId(0), 1.0), (QueryId(1), 5.0)] {
            scheduler.add_query(QuerySpec { id, target_ns: 20 * MS, weight, qos: None });
        }
        for (id, query, upstream) in [(0, 0, vec![]), (1, 0, vec![OperatorId(0)]), (2, 1, vec![])] {
            let (id, query) = (OperatorId(id), QueryId(query));
            scheduler.add_operator(OperatorSpec { id, query, upstream, window: None, channels: 1 });
        }
        let now = ProcessingTime(MS);
        for (operator, row_ns) in [(0, 1_000), (1, 10_000), (2, 10_000)] {
            teach(&mut scheduler, operator, row_ns, now);
        }
        let now = reviewed(&mut scheduler, now);
        // 11 ms of work and 12 ms, due in 19 and 20 ms. At the operators where it waits it is 1 and 12 ms.
        let before = ProcessingTime(now.0 - MS);
        (0..20).for_each(|_| send(&mut scheduler, 0, 50, 8, before));
        send(&mut scheduler, 2, 1_200, 8, now);
        assert_eq!(drained(&mut scheduler, now)[0], 2);
    }

    #[test]
    fn at_the_memory_bound_who_frees_most_goes_first() {
        let mut scheduler = scheduler(&[(20 * MS, 1.0), (60_000 * MS, 1.0)]);
        let now = ProcessingTime(MS);
        (0..2).for_each(|operator| teach(&mut scheduler, operator, 100, now));
        let now = reviewed(&mut scheduler, now);
        send(&mut scheduler, 0, 1_000, 1_000, now);
        send(&mut scheduler, 1, 1_000, 1_000_000, now);
        scheduler.on_memory(900_000, 1_000_000);
        assert_eq!(drained(&mut scheduler, now), [1, 0]);
    }
}
