//! Which rows are dropped when no order is good enough, of queries that allow it.

use laxity_graph::{OperatorId, ProcessingTime, QueryId};

use crate::{OperatorSnapshot, QuerySnapshot, Snapshot};

/// Load shedding: when even the best order cannot keep the utility of all results, rows are dropped at sources, where
/// that loses least.
///
/// Aurora §2.2 names it and §7 says when ("an overload situation is detected") and to what end ("in a way that least
/// degrades the QoS"); how is ours.
///
/// *Whether*: work has to be done before its curve has fallen too far ([`ShedConfig::bearable`]). If what is
/// demanded until some instant t of the horizon exceeds what the processors can do until then, no order keeps all
/// curves; if it never does, the earliest deadline first keeps them (Baruah, Rosier and Howell 1990, here for work
/// that flows). The excess has to be shed from what comes, so that it is gone by t.
///
/// *Where*: dropping a share x of query q's input saves x·D_q of CPU and loses x·w_q·U_q of utility, so the queries
/// with the least w_q·U_q / D_q give first, each all it has before the next gives any. That is the continuous
/// knapsack, for which this is optimal (Dantzig 1957): CPU taken from a query of lower ratio can be exchanged for as
/// much from one of higher ratio only at a loss.
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | D_q | rows that come per time × CPU per row of the query's input, both measured, decayed | cores |
/// | U_q | the curve at the latency that a row has when nothing waits: what it would earn if served in time | |
/// | w_q | [`QuerySnapshot::weight`] | |
/// | t | up to [`ShedConfig::horizon_ns`] | ns |
///
/// Rows that a held-back source has not let in yet are demand too: as many as come in the time by which those
/// that are let in are old. But not where a worker has rested and less waits behind the source than comes in a period: then
/// workers keep up, and what is late is the source's own slowness, which dropping rows does not mend. A query is as useful as the share of its rows that count, whatever their number, as
/// normalised curves are "quantitatively comparable" (§2.1). Rows go by turns (error diffusion), not by chance: the
/// same input loses the same rows. Off for every query unless allowed; every row is counted against its query.
///
/// Does badly where rows are not alike: it cannot tell which matter, and a window over a thinned input answers
/// from fewer rows without saying so; approximation with stated error comes before it.
#[derive(Debug)]
pub struct Shedder {
    config: ShedConfig,
    /// By query id.
    ledgers: Vec<Ledger>,
    allowed: usize,
    /// When arrivals were last taken account of; `None` before the first.
    planned: Option<ProcessingTime>,
    /// The last plan shed something.
    sheds: bool,
    /// A worker found nothing to do since.
    rested: bool,
    /// Scratch.
    loads: Vec<Load>,
    offers: Vec<Offer>,
    steps: Vec<DemandStep>,
}

/// When and how far to shed.
#[derive(Clone, Debug, PartialEq)]
pub struct ShedConfig {
    /// How often what is shed is decided anew. Shorter reacts sooner to bursts, longer is steadier. Default 100 ms.
    pub period_ns: u64,
    /// How far ahead curves must hold. Overload that work with looser curves can absorb for so long is
    /// none. Default 1 s.
    pub horizon_ns: u64,
    /// Share of its best utility that is enough for a result as long as nothing is shed: a row dropped loses all
    /// of it, so a small loss by lateness is better borne. Once something is shed, it is until nothing is lost by
    /// lateness. Default 0.9.
    pub bearable: f64,
    /// Share of the workers' time that there is for work; the rest goes to calls and cycles. Default 0.95.
    pub headroom: f64,
}

impl Default for ShedConfig {
    fn default() -> ShedConfig {
        ShedConfig { period_ns: 100_000_000, horizon_ns: 1_000_000_000, bearable: 0.9, headroom: 0.95 }
    }
}

/// What is known of a query's input.
#[derive(Clone, Debug, Default)]
struct Ledger {
    allowed: bool,
    /// Share of rows that is dropped.
    fraction: f64,
    /// Rows that should have been dropped and were not: below 1 after each batch.
    owed: f64,
    dropped: u64,
    /// Since the last plan.
    arrived: u64,
    /// Decayed: rows per ns that come, dropped ones too.
    rate: f64,
    /// How old the rows last admitted were; `None` if none were since the last plan.
    lag_ns: Option<u64>,
    /// Decayed: CPU of all operators, and rows that sources took in for it.
    cpu_ns: f64,
    taken: f64,
}

/// Weight of a period's arrivals in the rate, and what CPU and rows keep from one period to the next: a memory of
/// about three and ten periods. Picked.
const RATE_SHARE: f64 = 0.3;
const CPU_KEEP: f64 = 0.9;

/// What a query asks of the processors.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    /// D_q.
    cores: f64,
    /// How long what comes now can wait without loss; `MAX` where nothing is ever lost.
    grace_ns: u64,
}

/// What a query can give.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Offer {
    query: u32,
    grace_ns: u64,
    cores: f64,
    /// w_q · U_q.
    utility: f64,
}

/// At that time the demand jumps by `work_ns` and grows faster by `cores`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DemandStep {
    at_ns: f64,
    work_ns: f64,
    cores: f64,
}

impl Shedder {
    /// Sheds nothing until a query allows it.
    pub fn new(config: ShedConfig) -> Shedder {
        Shedder {
            config,
            ledgers: Vec::new(),
            allowed: 0,
            planned: None,
            sheds: false,
            rested: false,
            loads: Vec::new(),
            offers: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Whether rows of this query may be dropped.
    pub fn allow(&mut self, query: QueryId, allowed: bool) {
        let ledger = self.ledger(query);
        let before = std::mem::replace(&mut ledger.allowed, allowed);
        if !allowed {
            ledger.fraction = 0.0;
        }
        self.allowed = self.allowed + usize::from(allowed) - usize::from(before);
    }

    /// The query was removed, and its id may be given again.
    pub fn forget(&mut self, query: QueryId) {
        self.allow(query, false);
        *self.ledger(query) = Ledger::default();
    }

    /// Some query allows it: arrivals and runs must be told, of all queries.
    pub fn is_on(&self) -> bool {
        self.allowed > 0
    }

    /// Rows came to a source of the query: so many of them are to be dropped, and are counted as dropped.
    pub fn admit(&mut self, query: QueryId, rows: u32, now: ProcessingTime) -> u32 {
        self.planned.get_or_insert(now);
        let ledger = self.ledger(query);
        ledger.arrived += u64::from(rows);
        ledger.owed += f64::from(rows) * ledger.fraction;
        // What sums of binary fractions fall short of a whole row by is none.
        let drop = ((ledger.owed + 1e-9) as u32).min(rows);
        ledger.owed -= f64::from(drop);
        ledger.dropped += u64::from(drop);
        drop
    }

    /// Rows of the query are admitted that came then: what came since waits outside, if the source was held back.
    pub fn on_admitted(&mut self, query: QueryId, ingested: ProcessingTime, now: ProcessingTime) {
        self.ledger(query).lag_ns = Some(now.since_ns(ingested));
    }

    /// An operator of the query ran: it used so much CPU and, if it is a source, took so many rows in.
    pub fn on_run(&mut self, query: QueryId, source_rows: u32, cpu_ns: u64) {
        let ledger = self.ledger(query);
        ledger.cpu_ns += cpu_ns as f64;
        ledger.taken += f64::from(source_rows);
    }

    /// A worker has nothing to do.
    pub fn on_rest(&mut self) {
        self.rested = true;
    }

    /// Rows of the query that were dropped so far.
    pub fn dropped(&self, query: QueryId) -> u64 {
        self.ledgers.get(query.index()).map_or(0, |ledger| ledger.dropped)
    }

    /// Share of the query's rows that is being dropped.
    pub fn fraction(&self, query: QueryId) -> f64 {
        self.ledgers.get(query.index()).map_or(0.0, |ledger| ledger.fraction)
    }

    /// It is time to [`plan`](Shedder::plan).
    pub fn is_due(&self, now: ProcessingTime) -> bool {
        self.is_on() && self.planned.is_some_and(|planned| now.since_ns(planned) >= self.config.period_ns)
    }

    /// Decides anew what is dropped of every query.
    pub fn plan(&mut self, snapshot: &Snapshot) {
        let since = self.planned.replace(snapshot.now).unwrap_or(snapshot.now);
        let elapsed_ns = snapshot.now.since_ns(since).max(1) as f64;
        self.loads.clear();
        self.offers.clear();
        self.steps.clear();
        let rested = std::mem::take(&mut self.rested);
        let kept = if self.sheds { 1.0 } else { self.config.bearable };
        for query in &snapshot.queries {
            let cores = self.account(query, snapshot, elapsed_ns);
            let idle_ns = unloaded_latency_ns(query, snapshot);
            let grace_ns = query.qos.worth_until_ns(kept).map_or(u64::MAX, |at| at.saturating_sub(idle_ns));
            self.loads.push(Load { cores, grace_ns });
            let rows_in_a_period = self.ledgers[query.id.index()].rate * self.config.period_ns as f64;
            let waits_for_workers = !rested || queued_rows(query, snapshot) as f64 >= rows_in_a_period;
            let ledger = &mut self.ledgers[query.id.index()];
            ledger.fraction = 0.0;
            if let Some(lag_ns) = ledger.lag_ns.take()
                && grace_ns < u64::MAX
                && waits_for_workers
            {
                let until_ns = grace_ns.saturating_sub(lag_ns) as f64;
                self.steps.push(DemandStep { at_ns: until_ns, work_ns: cores * lag_ns as f64, cores: 0.0 });
            }
            if ledger.allowed && cores > 0.0 {
                let utility = query.weight * query.qos.utility(idle_ns);
                self.offers.push(Offer { query: query.id.0, grace_ns, cores, utility });
            }
        }
        for operator in snapshot.operators.iter().filter(|operator| operator.queued_messages > 0) {
            if let Some(place) = snapshot.query_place(operator.query) {
                self.backlog(operator, place, kept, snapshot);
            }
        }
        let capacity = snapshot.workers as f64 * self.config.headroom;
        let relief_ns = self.offers.iter().map(|offer| offer.grace_ns).min().unwrap_or(0);
        let excess = shortfall(&self.loads, &mut self.steps, relief_ns, capacity, &self.config);
        self.sheds = excess > 0.0;
        for (query, fraction) in least_loss(&mut self.offers, excess) {
            self.ledgers[query as usize].fraction = fraction;
        }
    }

    /// D_q, from what came and ran since the last plan.
    fn account(&mut self, query: &QuerySnapshot, snapshot: &Snapshot, elapsed_ns: f64) -> f64 {
        let first = self.is_new(query.id);
        let ledger = self.ledger(query.id);
        let rate = std::mem::take(&mut ledger.arrived) as f64 / elapsed_ns;
        ledger.rate += if first { rate } else { RATE_SHARE * (rate - ledger.rate) };
        let row_ns = if ledger.taken >= 1.0 {
            ledger.cpu_ns / ledger.taken
        } else {
            predicted_row_ns(query, snapshot)
        };
        ledger.cpu_ns *= CPU_KEEP;
        ledger.taken *= CPU_KEEP;
        ledger.rate * row_ns
    }

    /// Nothing of the query was known at the last plan.
    fn is_new(&self, query: QueryId) -> bool {
        self.ledgers.get(query.index()).is_none_or(|ledger| ledger.rate == 0.0)
    }

    /// What waits for an operator, with its way to the sink, has to be done in time, too.
    fn backlog(&mut self, operator: &OperatorSnapshot, query: usize, kept: f64, snapshot: &Snapshot) {
        let qos = &snapshot.queries[query].qos;
        let Some(good_ns) = qos.worth_until_ns(kept) else { return };
        let messages = operator.queued_messages as f64;
        let fixed_ns = messages * (operator.cost.0 + operator.path_cost_ns as f64);
        let work_ns = fixed_ns + operator.queued_rows as f64 * operator.cost.1;
        let age_ns = operator.mean_ingested.map_or(0, |ingested| snapshot.now.since_ns(ingested));
        let eol_ns = age_ns.saturating_add(operator.own_cost_ns()).saturating_add(operator.path_cost_ns);
        let until_ns = if qos.utility(eol_ns) > qos.last_utility() {
            good_ns.saturating_sub(eol_ns)
        } else {
            // Lost, but what comes now stands behind it.
            self.loads[query].grace_ns
        };
        self.steps.push(DemandStep { at_ns: until_ns as f64, work_ns, cores: 0.0 });
    }

    fn ledger(&mut self, query: QueryId) -> &mut Ledger {
        if self.ledgers.len() <= query.index() {
            self.ledgers.resize_with(query.index() + 1, Ledger::default);
        }
        &mut self.ledgers[query.index()]
    }
}

/// Rows that wait for the operators of a query.
fn queued_rows(query: &QuerySnapshot, snapshot: &Snapshot) -> u64 {
    query.operators.iter().filter_map(|&id| snapshot.operator(id)).map(|operator| operator.queued_rows).sum()
}

/// Latency of a row that waits nowhere.
fn unloaded_latency_ns(query: &QuerySnapshot, snapshot: &Snapshot) -> u64 {
    let sources = sources(query, snapshot);
    sources.map(|source| source.usual_cost_ns + source.path_cost_ns).max().unwrap_or(0)
}

/// CPU per row of a query that has not run yet.
fn predicted_row_ns(query: &QuerySnapshot, snapshot: &Snapshot) -> f64 {
    let waiting = sources(query, snapshot).filter(|source| source.queued_rows > 0);
    let row_ns = waiting.map(|source| {
        let messages_ns = source.queued_messages as f64 * (source.cost.0 + source.path_cost_ns as f64);
        source.cost.1 + messages_ns / source.queued_rows as f64
    });
    row_ns.fold(0.0, f64::max)
}

fn sources<'a>(
    query: &'a QuerySnapshot,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = &'a OperatorSnapshot> {
    let operators = query.operators.iter().filter_map(|&id: &OperatorId| snapshot.operator(id));
    operators.filter(|operator| operator.upstream.is_empty())
}

/// Cores that must be saved for every curve to be kept: the largest excess of demand over capacity until any instant,
/// over the time in which what is not admitted from now on would have been demanded.
///
/// That time begins `relief_ns` from now, the least grace of those that can be shed. `steps` holds the backlog and is
/// used up. Of the queries whose grace ends within the horizon the whole rate is demanded, since it lasts; what can
/// wait longer is demanded when it must be done.
fn shortfall(
    loads: &[Load],
    steps: &mut Vec<DemandStep>,
    relief_ns: u64,
    capacity: f64,
    config: &ShedConfig,
) -> f64 {
    let (soon_ns, horizon_ns) = (config.period_ns as f64, config.horizon_ns as f64);
    let mut lasting = 0.0;
    for load in loads.iter().filter(|load| load.grace_ns < config.horizon_ns) {
        lasting += load.cores;
        steps.push(DemandStep { at_ns: load.grace_ns as f64, work_ns: 0.0, cores: load.cores });
    }
    // Nothing is made up for in less than a period. Between steps the ratio rises or falls throughout, so that it
    // is largest at one; the divisor's bend and the horizon's end are made steps.
    let relief_ns = relief_ns as f64;
    let saved_in = |at_ns: f64| (at_ns - relief_ns).max(soon_ns);
    for at_ns in [relief_ns + soon_ns, horizon_ns] {
        steps.push(DemandStep { at_ns, work_ns: 0.0, cores: 0.0 });
    }
    steps.retain(|step| step.at_ns <= horizon_ns);
    steps.sort_unstable_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
    let mut most = lasting - capacity;
    let (mut work_ns, mut cores, mut since_ns) = (0.0, 0.0, 0.0);
    for step in steps {
        work_ns += cores * (step.at_ns - since_ns) + step.work_ns;
        cores += step.cores;
        since_ns = step.at_ns;
        most = most.max((work_ns - capacity * step.at_ns) / saved_in(step.at_ns));
    }
    most.max(0.0)
}

/// Shares to give up so that `cores` are saved at least utility, or all there is.
fn least_loss(offers: &mut [Offer], cores: f64) -> impl Iterator<Item = (u32, f64)> {
    let ratio = |offer: &Offer| offer.utility / offer.cores;
    offers.sort_unstable_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(a.query.cmp(&b.query)));
    let mut missing = cores;
    offers.iter().map_while(move |offer| {
        let given = missing.min(offer.cores);
        missing -= given;
        (given > 0.0).then(|| (offer.query, given / offer.cores))
    })
}

#[cfg(test)]
mod tests;
