//! What is done when no order is good enough: some queries leave rows out and say how exact they still are, then others lose
//! rows, each as it allows.

use std::cmp::Ordering;

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
/// *Before that*, queries that may leave rows out within an error that they state are told to, which loses nothing, in the same
/// order. By then what was begun exact is to be done exact, so demand is looked at further ahead for them. One that was told counts
/// as giving all it asks for until rows have come that it could leave out, or its target or the horizon has passed; then with
/// what it costs. It is exact again once what it would cost so, by its rate and its cost per row before, fits in with all else.
///
/// Does badly where rows are not alike: it cannot tell which matter, and a window over a thinned input answers
/// from fewer rows without saying so.
#[derive(Debug)]
pub struct Shedder {
    config: ShedConfig,
    /// By query id.
    ledgers: Vec<Ledger>,
    /// Queries that allow rows to be dropped or left out.
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
    far_steps: Vec<DemandStep>,
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

/// How far a query is that may leave rows out within an error that it states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeavesOut {
    /// It is exact.
    #[default]
    Nothing,
    /// It was told to, but no rows have come yet that it could leave out.
    Soon,
    /// All that its error allows, which may be none.
    AllItCan,
}

/// What is to be done with rows that have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relief {
    /// So many of them are to be dropped.
    pub drop: u32,
    /// The query is to leave rows out as far as its error allows.
    pub leave_out: bool,
}

/// What is known of a query's input.
#[derive(Clone, Debug, Default)]
struct Ledger {
    allowed: bool,
    may_leave_out: bool,
    leaves_out: LeavesOut,
    /// It is to leave rows out, since then.
    told: Option<ProcessingTime>,
    /// What a row cost when it left none out.
    exact_row_ns: Option<f64>,
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
    /// What a row was counted with in the last plan.
    row_ns: f64,
}

impl Ledger {
    /// What it has to give now, if anything. A promise holds for so long.
    fn gives(&self, promise_ns: u64, now: ProcessingTime) -> Option<Gives> {
        match (self.may_leave_out, self.told, self.leaves_out) {
            (true, None, _) => Some(Gives::Exactness),
            (true, Some(told), LeavesOut::Nothing | LeavesOut::Soon) if now.since_ns(told) <= promise_ns => {
                Some(Gives::Promised)
            }
            _ => self.allowed.then_some(Gives::Rows),
        }
    }
}

/// Weight of a period's arrivals in the rate, and what CPU and rows keep from one period to the next: a memory of
/// about three and ten periods. Picked.
const RATE_SHARE: f64 = 0.3;
const CPU_KEEP: f64 = 0.9;

/// Who leaves rows out is exact again where demand is then at most that share of the capacity, so that the least change of it does
/// not turn it back. Picked.
const EXACT_BELOW: f64 = 0.9;

/// Who leaves rows out is told by what is demanded until so many horizons from now. Picked.
const LEAVE_OUT_AHEAD: u64 = 2;

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
    gives: Gives,
    grace_ns: u64,
    cores: f64,
    /// w_q · U_q.
    utility: f64,
}

/// What costs least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gives {
    /// It was told to leave rows out, and soon will.
    Promised,
    /// It may leave rows out.
    Exactness,
    /// It may lose rows.
    Rows,
}

/// At that time the demand jumps by `work_ns` and grows faster by `cores`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DemandStep {
    at_ns: f64,
    work_ns: f64,
    cores: f64,
}

impl Shedder {
    /// Does nothing until a query allows it.
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
            far_steps: Vec::new(),
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

    /// Whether this query leaves rows out when it is told to.
    pub fn allow_leaving_out(&mut self, query: QueryId, allowed: bool) {
        let ledger = self.ledger(query);
        let before = std::mem::replace(&mut ledger.may_leave_out, allowed);
        if !allowed {
            ledger.told = None;
        }
        self.allowed = self.allowed + usize::from(allowed) - usize::from(before);
    }

    /// The query was removed, and its id may be given again.
    pub fn forget(&mut self, query: QueryId) {
        self.allow(query, false);
        self.allow_leaving_out(query, false);
        *self.ledger(query) = Ledger::default();
    }

    /// Some query allows it: arrivals and runs must be told, of all queries.
    pub fn is_on(&self) -> bool {
        self.allowed > 0
    }

    /// Rows came to a source of the query, which is so far with leaving them out: what is to be done with them. Those that are to
    /// be dropped are counted as dropped.
    pub fn admit(&mut self, query: QueryId, rows: u32, leaves_out: LeavesOut, now: ProcessingTime) -> Relief {
        self.planned.get_or_insert(now);
        let ledger = self.ledger(query);
        let before = std::mem::replace(&mut ledger.leaves_out, leaves_out);
        if before != leaves_out && [before, leaves_out].contains(&LeavesOut::AllItCan) {
            // Rows cost something else from now on.
            (ledger.cpu_ns, ledger.taken) = (0.0, 0.0);
        }
        ledger.arrived += u64::from(rows);
        ledger.owed += f64::from(rows) * ledger.fraction;
        // What sums of binary fractions fall short of a whole row by is none.
        let drop = ((ledger.owed + 1e-9) as u32).min(rows);
        ledger.owed -= f64::from(drop);
        ledger.dropped += u64::from(drop);
        Relief { drop, leave_out: ledger.told.is_some() }
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

    /// Whether the query is to leave rows out.
    pub fn leaves_out(&self, query: QueryId) -> bool {
        self.ledgers.get(query.index()).is_some_and(|ledger| ledger.told.is_some())
    }

    /// It is time to [`plan`](Shedder::plan).
    pub fn is_due(&self, now: ProcessingTime) -> bool {
        self.is_on() && self.planned.is_some_and(|planned| now.since_ns(planned) >= self.config.period_ns)
    }

    /// Decides anew what is dropped of every query, and who is to leave rows out.
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
            if let Some(gives) = ledger.gives(grace_ns.max(self.config.horizon_ns), snapshot.now)
                && cores > 0.0
            {
                let utility = query.weight * query.qos.utility(idle_ns);
                self.offers.push(Offer { query: query.id.0, gives, grace_ns, cores, utility });
            }
        }
        for operator in snapshot.operators.iter().filter(|operator| operator.queued_messages > 0) {
            if let Some(place) = snapshot.query_place(operator.query) {
                self.backlog(operator, place, kept, snapshot);
            }
        }
        let capacity = snapshot.workers as f64 * self.config.headroom;
        self.offers.sort_unstable_by(|a, b| a.gives.cmp(&b.gives).then(by_loss(a, b)));
        let exact = self.offers.partition_point(|offer| offer.gives < Gives::Rows);
        let (exactness, rows) = self.offers.split_at_mut(exact);
        let leaves_out = self.ledgers.iter().any(|ledger| ledger.may_leave_out);
        let far = leaves_out.then(|| {
            // What was begun exact is done exact first, so that it has to be known earlier.
            let far = ShedConfig { horizon_ns: LEAVE_OUT_AHEAD * self.config.horizon_ns, ..self.config };
            self.far_steps.clone_from(&self.steps);
            excess(&self.loads, &mut self.far_steps, relief_ns(exactness), capacity, &far)
        });
        let mut missing = excess(&self.loads, &mut self.steps, relief_ns(rows), capacity, &self.config);
        for offer in given(exactness, far.unwrap_or(0.0)) {
            missing -= offer.cores;
            self.ledgers[offer.query as usize].told.get_or_insert(snapshot.now);
        }
        self.sheds = missing > 0.0;
        for (query, fraction) in least_loss(rows, missing) {
            self.ledgers[query as usize].fraction = fraction;
        }
        if let Some(far) = far {
            self.make_exact(-far - (1.0 - EXACT_BELOW) * capacity, snapshot);
        }
    }

    /// Of those that leave rows out, as many as what they cost more then fits into so many cores that are free.
    fn make_exact(&mut self, mut free: f64, snapshot: &Snapshot) {
        for query in &snapshot.queries {
            let ledger = &mut self.ledgers[query.id.index()];
            if ledger.told.is_none() {
                continue;
            }
            let more =
                ledger.exact_row_ns.map_or(0.0, |row_ns| ledger.rate * (row_ns - ledger.row_ns).max(0.0));
            if free >= more {
                free -= more;
                ledger.told = None;
            }
        }
    }

    /// D_q, from what came and ran since the last plan.
    fn account(&mut self, query: &QuerySnapshot, snapshot: &Snapshot, elapsed_ns: f64) -> f64 {
        let first = self.is_new(query.id);
        let ledger = self.ledger(query.id);
        let rate = std::mem::take(&mut ledger.arrived) as f64 / elapsed_ns;
        ledger.rate += if first { rate } else { RATE_SHARE * (rate - ledger.rate) };
        let measured = (ledger.taken >= 1.0).then(|| ledger.cpu_ns / ledger.taken);
        ledger.row_ns = measured.unwrap_or_else(|| predicted_row_ns(query, snapshot));
        ledger.cpu_ns *= CPU_KEEP;
        ledger.taken *= CPU_KEEP;
        match (ledger.leaves_out, ledger.told) {
            (LeavesOut::Nothing | LeavesOut::Soon, _) => {
                ledger.exact_row_ns = measured.or(ledger.exact_row_ns);
            }
            // What it would cost were it exact is what counts where nobody has told it to leave rows out.
            (LeavesOut::AllItCan, None) => {
                ledger.row_ns = ledger.exact_row_ns.unwrap_or(ledger.row_ns);
            }
            (LeavesOut::AllItCan, Some(_)) => {}
        }
        ledger.rate * ledger.row_ns
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
/// over the time in which what is not admitted from now on would have been demanded. Below zero: cores that are free.
///
/// That time begins `relief_ns` from now, the least grace of those that can be shed. `steps` holds the backlog and is
/// used up. Of the queries whose grace ends within the horizon the whole rate is demanded, since it lasts; what can
/// wait longer is demanded when it must be done.
fn excess(
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
    most
}

/// From when on something that is given is missing no more.
fn relief_ns(offers: &[Offer]) -> u64 {
    offers.iter().map(|offer| offer.grace_ns).min().unwrap_or(0)
}

/// Of those in order, who leaves rows out so that `cores` are saved, what was promised among them.
fn given(offers: &[Offer], cores: f64) -> impl Iterator<Item = &Offer> {
    let mut missing = cores;
    offers.iter().take_while(move |offer| {
        let is_given = offer.gives == Gives::Promised || missing > 0.0;
        missing -= offer.cores;
        is_given
    })
}

/// Shares to give up so that `cores` are saved at least utility, or all there is.
fn least_loss(offers: &mut [Offer], cores: f64) -> impl Iterator<Item = (u32, f64)> {
    offers.sort_unstable_by(by_loss);
    let mut missing = cores;
    offers.iter().map_while(move |offer| {
        let given = missing.min(offer.cores);
        missing -= given;
        (given > 0.0).then(|| (offer.query, given / offer.cores))
    })
}

/// What loses least utility for the CPU that it saves first.
fn by_loss(a: &Offer, b: &Offer) -> Ordering {
    let ratio = |offer: &Offer| offer.utility / offer.cores;
    ratio(a).total_cmp(&ratio(b)).then(a.query.cmp(&b.query))
}

#[cfg(test)]
mod tests;
