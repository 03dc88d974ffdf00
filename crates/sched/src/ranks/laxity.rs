//! The rank that rules where none is asked for. What is given up under overload is decided in `demand`.

mod demand;
mod spent;

use laxity_graph::{ProcessingTime, QueryId};

use self::demand::{Demand, give_up, put_before};
use self::spent::Spent;

use crate::{
    Event, Fault, MemoryMode, MessageContext, Needs, Parameters, QuerySnapshot, Rank, RankRecipe, Releases,
    Snapshot, Told, WaitBound, Waiting,
};

/// `laxity`: the default. Earliest deadline first, and the dearest promises stand back when not all can be kept.
///
/// k_M = t_MF + L + P_q
///
/// | Symbol | Meaning | Field | Unit |
/// | --- | --- | --- | --- |
/// | t_MF | when its result can be complete | [`MessageContext::frontier`] | ns |
/// | L | target of its query | [`MessageContext::target_ns`] | ns |
/// | P_q | how far its query stands back: 0 where all can be kept | `put_off_ns` | ns |
///
/// Begins with Cameo's deadline t_MF + L (§4.2); earliest first is optimal on one worker where all can be kept (Liu and
/// Layland 1973). It differs in four ways.
/// - *t_MF is forecast* from sweeping watermarks (Klink §3.1), and rows wait for it *on their way* to a window, not
///   only in front of it ([`Needs::forecasts`]).
/// - *C_o and C_path are not taken off.* On one core end-to-end deadlines of chains are as good, and with them
///   the operators above would always go before those below: results of one query would wait for its next rows.
/// - *Overload* is looked for every 10 ms or so: where the work that waits exceeds the capacity until it is due, the
///   queries that are worth least for the work that waits of them are given up. What waits at a source counts with all
///   that a row costs further down, as measured. What is given up goes as early as it can without what is kept being
///   late, shortest first: after a hiccup all is worked off in time or soon after, and only under lasting overload it
///   goes last. Looks at tables are no query's work, and never given up; nor is a query before its first row.
/// - *Memory* at four fifths of its bound: who frees most goes first, as in Klink §3.4 ([`Releases`]), until half
///   of it is free.
///
/// Each can be switched off, to see what it is worth: `laxity:overload=off`. Of 300 random workloads that nothing was
/// tuned on, 57 % of promises are kept without the third and 80 % with it; without the first p99 over target is 5 % more
/// (`laxity-parts`). Short work first, turns among queries of far targets and the highest rate first among what was given
/// up were worth less than 2 % there, and the first two made the p99 of near targets two to four times as long on threads.
///
/// Does badly where costs are far off what is predicted: the demand is a prediction. Under overload the
/// queries given up wait for long, so that a percentile over all queries is worse than where all are a little late.
/// The test sees the work that waits, not what is to come: under lasting overload a backlog grows in the query of the
/// farthest target until that is near, and then this one may be lost where a dearer one should have been given up first.
///
/// Tried against both, on 119 random workloads of training seeds (of all promises 76.5 % kept, p99 over target .50), and left out:
///
/// | | kept, points | p99 over target |
/// | --- | --- | --- |
/// | what was given up goes as if it were due 1 s (20 s) later than it is: a bound on its age | −16.5 (−1.8) | × 3.7 (+17 %) |
/// | it stands behind all, always | +1.3 | −12 % |
/// | it is put before others only where what these are to get meanwhile leaves room | +.7 | −6 % |
///
/// *Looking ahead*, left out too: as much work as came to a query in the last H comes in the next, due by its end and L; it counts beside
/// what waits, may be given up, and what is kept of it has its room. With H of 2 s, training seeds from .75 of capacity on: kept +.4 points
/// and p99 over target −4.4 % on 148 workloads, +.5 points and −1.7 % on 130 others. Where something was given up at the review before
/// only, so that others pay nothing for it: +.3 points and −3.9 % on 305; on the papers' 27 at 1.3 +.7 points and −15 %, but `ysb` keeps
/// .70 instead of .80 and `aurora-qos` .54 instead of .60, for an eighth more code. Of queries
/// that have work waiting alone, at 1 s, it is −.1 points and −1.3 % (of all +.1 and −3.8 %). Due at the middle of H instead it is −10 % at
/// 1 s, but sees overload where there is none, a second of work in L + .5 s. With weight for the work that comes as worth, no
/// backlog tells any more who was given up before, and that changes from review to review: `ysb-klink` at 1.3 keeps .78 instead of .97.
///
/// *A weight counts for the work that waits*, so that it is honoured among queries of like cost only. Three queries of weight 3
/// beside three of weight 1, as many rows for each, 1.8 of a core, shares in time (`sim/tests/tenants.rs`, means of eight runs):
///
/// | costs, ms | 60 ms | 100 ms | 1 s |
/// | --- | --- | --- | --- |
/// | 6 and 6 | .49, .38 | .56, .38 | .93, .09 |
/// | 4 and 8 | .99, .04 | 1, .06 | 1, .19 |
/// | 8 and 4 | .19, .83 | .18, .88 | .44, .53 |
///
/// In the last row the heavier are given up first: one with two messages is worth less for what waits than a light one with one.
/// And all that waits of a query is taken as due when its first operator's is, so that at a short target nearly all are given up at
/// once; who was given up comes back only when its backlog is done. Tried against that, on training seeds, and left out: the mean
/// deadline by work (kept .771 to .721, p99 over target .46 to .71); weight for the work that comes a second, what was given
/// up worked off in that order too (97 workloads: kept +.3 points, p99 over target −3.4 %, weighted utility where weights
/// differ +1.5 points; but 8 and 4 come to .17, .31 at 60 ms and .25, .34 at 100 ms, fewer of both together).
///
/// Where the load lasts, what is given up can only be done in the place of what is kept: a bound on its age makes all late.
/// At 1.3 of capacity the query that fares worst has a p99 of 8 to 31 s where fcfs gives 4 to 10 s to all, and three
/// quarters and more are in time instead of a tenth to two thirds (`laxity-overload`). Behind all, it waits on for long after
/// a hiccup is over. Room for what these are to get would earn its place; done cheaply, by deadlines instead of targets, it earned nothing.
#[derive(Clone, Debug, Default)]
pub struct Laxity {
    parts: Parts,
    spent: Spent,
    /// Query ids are below.
    queries: usize,
    /// By query id: how much later its work goes, because it was given up. Empty where all can be kept.
    put_off_ns: Vec<f64>,
    /// By unit: what is added to the priority of its head. Empty where nothing is.
    shifts_ns: Vec<f64>,
    /// By unit: its query.
    query_of: Vec<u32>,
    graph: Option<u64>,
    waiting: Waiting,
    demands: Vec<Demand>,
    given_up: Vec<Demand>,
    standing_back: Vec<QueryId>,
    memory: MemoryMode,
    releases: Releases,
    /// By place of the query in the snapshot: time to its deadline less its work.
    slacks_ns: Vec<f64>,
    /// By unit, while memory is short: priorities that free it.
    freeing: Vec<f64>,
}

/// Which parts are at work: all, unless one is switched off to see what it is worth.
#[derive(Clone, Copy, Debug)]
struct Parts {
    forecasts: bool,
    overload: bool,
    memory: bool,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { forecasts: true, overload: true, memory: true }
    }
}

/// How often the demand is compared with the capacity. Picked: a few quanta, and a fraction of the shortest
/// usual target.
const REVIEW_NS: u64 = 10_000_000;

/// But not so often that reviews take more than half a percent of a core, at about 10 ns for an operator.
const REVIEW_NS_PER_OPERATOR: u64 = 2_000;

/// What can be freed in so long counts: Klink's cycle (§6.2).
const FREED_WITHIN_NS: u64 = 120_000_000;

/// Behind every deadline: 30 years of nanoseconds, and still exact to 128 ns; to 2 ms ten thousand times over.
const BEHIND_ALL: f64 = 1e18;

impl Rank for Laxity {
    fn needs(&self) -> Needs {
        Needs {
            inherits: true,
            instants: true,
            forecasts: self.parts.forecasts,
            reviews_work: true,
            holds_sources: self.parts.memory,
            look_every_ns: Some(REVIEW_NS),
            look_ns_per_operator: REVIEW_NS_PER_OPERATOR,
            told: Told { ran: true, ..Told::default() },
            ..Needs::by_message(WaitBound::Ageing)
        }
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        context.deadline().0 as f64
    }

    fn join(&mut self, unit: u32, head: f64) -> f64 {
        if let Some(&priority) = self.freeing.get(unit as usize) {
            return priority;
        }
        head + self.shifts_ns.get(unit as usize).copied().unwrap_or(0.0)
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Ran { query, source_rows, cpu_ns, .. } => self.spent.ran(query, source_rows, cpu_ns),
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
        self.spent.look();
        self.standing_back.clear();
        self.demands.clear();
        let demand = |query: &QuerySnapshot| demand(query, self.spent.row_ns(query), snapshot);
        self.waiting.refresh(snapshot);
        self.demands.extend(self.waiting.queries(snapshot).filter_map(demand));
        self.waiting.keep(self.demands.iter().map(|demand| QueryId(demand.of)));
        if self.frees_memory(snapshot) {
            return true;
        }
        self.freeing.clear();
        self.shifts_ns.clear();
        if self.parts.overload && self.puts_off(snapshot) {
            self.shift();
            self.standing_back.extend(self.given_up.iter().map(|given_up| QueryId(given_up.of)));
        }
        had_other || !self.shifts_ns.is_empty()
    }

    fn standing_back(&self) -> &[QueryId] {
        &self.standing_back
    }
}

impl Laxity {
    /// With its parameters: `laxity:overload=off`.
    pub(super) fn recipe(parameters: &mut Parameters<'_>) -> Result<RankRecipe, Fault> {
        let mut label = "laxity".to_owned();
        let mut is_on = |part| parameters.is_on(part, &mut label);
        let parts =
            Parts { forecasts: is_on("forecasts")?, overload: is_on("overload")?, memory: is_on("memory")? };
        Ok(RankRecipe::new(label, move || Laxity { parts, ..Laxity::default() }))
    }

    fn learn_graph(&mut self, snapshot: &Snapshot) {
        if self.graph == Some(snapshot.graph) {
            return;
        }
        self.graph = Some(snapshot.graph);
        self.queries = snapshot.queries.last().map_or(0, |query| query.id.index() + 1);
        self.spent.grow(self.queries);
        self.query_of.clear();
        for operator in &snapshot.operators {
            let unit = operator.unit as usize;
            if self.query_of.len() <= unit {
                self.query_of.resize(unit + 1, u32::MAX);
            }
            self.query_of[unit] = operator.query.0;
        }
    }

    /// Finds what cannot be kept, and how far it must stand back for what can; whether there is any.
    fn puts_off(&mut self, snapshot: &Snapshot) -> bool {
        self.put_off_ns.clear();
        self.given_up.clear();
        give_up(&mut self.demands, &mut self.given_up, snapshot.workers, snapshot.now);
        if self.given_up.is_empty() {
            return false;
        }
        self.put_off_ns.resize(self.queries, 0.0);
        self.given_up.sort_unstable_by_key(|given_up| (given_up.work_ns, given_up.of));
        let put_off_ns = &mut self.put_off_ns;
        let mut behind = 0.0;
        put_before(&self.demands, &self.given_up, snapshot.workers, snapshot.now, |given_up, before| {
            put_off_ns[given_up.of as usize] = match before {
                Some(kept) => kept.deadline.0 as f64 - given_up.deadline.0 as f64,
                None => {
                    behind += BEHIND_ALL;
                    behind
                }
            };
        });
        true
    }

    /// What is added to the priority of each unit.
    fn shift(&mut self) {
        let put_off_ns = |&query: &u32| self.put_off_ns.get(query as usize).copied().unwrap_or(0.0);
        self.shifts_ns.extend(self.query_of.iter().map(put_off_ns));
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
}

/// All work that waits for a query, and when it is due: the mean deadline at the operator where that is first.
/// `None` where none waits, and before its first row: what that costs is a guess, and ten thousand guesses of 10 us look like an
/// overload. `row_ns`: what a row from its sources costs, 0 before the first.
fn demand(query: &QuerySnapshot, row_ns: f64, snapshot: &Snapshot) -> Option<Demand> {
    if row_ns == 0.0 || is_look(query, snapshot) {
        return None;
    }
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
    // A query whose curve never falls is given up first.
    let worth = (query.weight * (1.0 - worthless)).max(1e-9) / work_ns.max(1.0);
    Some(Demand { of: query.id.0, deadline: deadline?, work_ns: work_ns as u64, worth })
}

/// One operator that no rows wait for: a look at a table. It never stands back, however late it is, as its work is next to none
/// and all who read the table wait for it.
fn is_look(query: &QuerySnapshot, snapshot: &Snapshot) -> bool {
    match *query.operators {
        [only] => snapshot.operator(only).is_some_and(|it| it.upstream.is_empty() && it.queued_rows == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, OperatorId, QueryId, WorkerId};

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

    /// Lets a review pass; when the next one is due.
    fn reviewed(scheduler: &mut Scheduler<()>, now: ProcessingTime) -> ProcessingTime {
        assert!(scheduler.next(WORKER, now.plus_ns(REVIEW_NS)).is_none());
        now.plus_ns(2 * REVIEW_NS)
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

    #[test]
    fn the_earliest_deadline_goes_first_whatever_it_costs() {
        for (targets_ns, wanted) in [([20 * MS, 60_000 * MS], [0, 1]), ([60_000 * MS, 20 * MS], [1, 0])] {
            let mut scheduler = scheduler(&targets_ns.map(|target_ns| (target_ns, 1.0)));
            let now = ProcessingTime(MS);
            teach(&mut scheduler, 0, 1_000, now);
            teach(&mut scheduler, 1, 100, now);
            let now = reviewed(&mut scheduler, now);
            (0..2).for_each(|operator| send(&mut scheduler, operator, 1_000, 8, now));
            assert_eq!(drained(&mut scheduler, now), wanted);
        }
    }

    #[test]
    fn a_late_look_at_a_table_does_not_stand_back() {
        let mut scheduler = scheduler(&[(20 * MS, 1.0), (10_000 * MS, 1.0)]);
        let now = ProcessingTime(20_000 * MS);
        teach(&mut scheduler, 1, 10_000, now);
        let now = reviewed(&mut scheduler, now);
        for waited_ms in [5_000, 0] {
            send(&mut scheduler, 1, 1_000, 8, ProcessingTime(now.0 - waited_ms * MS));
        }
        send(&mut scheduler, 0, 0, 0, ProcessingTime(now.0 - 30 * MS));
        assert_eq!(drained(&mut scheduler, now)[0], 0);
    }

    #[test]
    fn what_is_late_goes_first_where_all_else_can_wait_for_it() {
        let mut scheduler = scheduler(&[(20 * MS, 1.0), (10_000 * MS, 1.0)]);
        let now = ProcessingTime(20_000 * MS);
        (0..2).for_each(|operator| teach(&mut scheduler, operator, 10_000, now));
        let now = reviewed(&mut scheduler, now);
        // 10 ms of work that should have been done 10 ms ago, and as much with ten seconds left for it, or with 15 ms.
        for (waited_ms, wanted) in [(0, [0, 1]), (9_985, [1, 0])] {
            send(&mut scheduler, 0, 1_000, 8, ProcessingTime(now.0 - 30 * MS));
            send(&mut scheduler, 1, 1_000, 8, ProcessingTime(now.0 - waited_ms * MS));
            assert_eq!(drained(&mut scheduler, now), wanted, "{waited_ms} ms");
        }
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
    fn nothing_is_given_up_for_what_first_rows_are_guessed_to_cost() {
        // By the prior 20 ms each.
        let mut scheduler = scheduler(&[(20 * MS, 1.0), (21 * MS, 5.0), (22 * MS, 5.0)]);
        let now = reviewed(&mut scheduler, ProcessingTime(MS));
        (0..3).for_each(|operator| send(&mut scheduler, operator, 1_000_000, 8, now));
        assert_eq!(drained(&mut scheduler, now), [0, 1, 2]);
    }

    #[test]
    fn the_most_work_is_given_up_however_many_results_it_is_for() {
        // 10 ms for one result and 20 ms for twenty, in 25 ms.
        let mut scheduler = scheduler(&[(25 * MS, 1.0), (25 * MS, 1.0)]);
        let now = ProcessingTime(MS);
        teach(&mut scheduler, 0, 10_000, now);
        teach(&mut scheduler, 1, 1_000, now);
        let now = reviewed(&mut scheduler, now);
        send(&mut scheduler, 0, 1_000, 8, now);
        (0..20).for_each(|_| send(&mut scheduler, 1, 1_000, 8, now));
        let order = drained(&mut scheduler, now);
        assert_eq!((order[0], order[20]), (0, 1), "{order:?}");
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
