//! `klink`: the queries whose next window results need most of the time that is left.

mod slack;

use laxity_graph::ProcessingTime;
use laxity_sched::{
    Backlog, Cycled, MemoryMode, MessageContext, Needs, QueryBacklog, QuerySnapshot, Rank, Reads, Releases,
    Scale, Snapshot, format_duration, rank_queries,
};

use slack::Slack;

/// `klink`: least slack first, where slack is the time until the next sweeping watermark (SWM) is expected, less
/// what it costs to have everything queued out of the way by then.
///
/// Klink §3, Algorithm 1: sl(t) = E[w | w ≥ t] − t − cost(t), every cycle anew; the runnable queries of least slack get
/// the workers. Above the memory bound, §3.4: see [`super::ByMemory`].
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | r | the cycle: [`Needs::look_every_ns`], 120 ms | ns |
/// | w | [`laxity_sched::StreamSnapshot::forecast`], or [`laxity_sched::QuerySnapshot::sweeping`] once ingested | ns |
/// | f | 95 %: the interval outside of which the SWM is overdue | |
/// | cost(t) | queued rows times the cost of the rest of their way, with selectivities | ns |
/// | b | 80 % of the memory bound | |
///
/// The cases that Algorithm 1 leaves out or gets wrong:
/// - Overdue (t past the interval): negative and falling, instead of 0. See `slack.rs`.
/// - The SWM is ingested and not yet out of the sink: w is known, sl = w − t − cost.
/// - The least of the slacks is sought from +∞ on; from 0, no query with time left would ever run.
/// - A join has one slack per stream with that stream's own delays (§3.3), and the least counts; its window is
///   released, and so w known, when the last stream has passed its end.
/// - A query without windows, or of which no watermark is known yet, gives results at every message: its w is the
///   ingestion of its oldest.
/// - Where slacks are equal, the nearer SWM goes first.
///
/// As many queries as there are workers run at a time. Between cycles the order stands: a worker whose query has
/// nothing ready takes the next in that order, and a query that becomes ready takes the worker of one behind
/// it at the next quantum, so no worker idles beside work. Inside a query, the oldest message goes first.
///
/// Does badly where latency matters between windows, for queries without windows beside heavy ones with, and
/// under long overload: the latest goes first although it is lost. Starves a query whose window is far off while
/// others are always nearer, hence the ageing guard.
#[derive(Debug)]
pub struct Klink {
    period_ns: u64,
    slack: Slack,
    work: Backlog,
    /// By place of the query.
    slacks_ns: Vec<f64>,
    /// `None`: memory does not matter.
    memory: Option<MemoryMode>,
    releases: Releases,
}

/// r of Klink §6.2.
pub(crate) const CYCLE_NS: u64 = 120_000_000;

/// f of Klink §6.2.
const SHARE: f64 = 0.95;

/// A microsecond per second: orders slacks by w that are equal as far as any cost is known.
const TIE: f64 = 1e-6;

impl Klink {
    /// With this cycle.
    pub fn new(period_ns: u64) -> Klink {
        Klink {
            period_ns,
            slack: Slack::at(SHARE),
            work: Backlog::default(),
            slacks_ns: Vec::new(),
            memory: Some(MemoryMode::default()),
            releases: Releases::default(),
        }
    }

    /// Never ranks by memory ("w/o MM" in Klink §6).
    #[must_use]
    pub fn without_memory(self) -> Klink {
        Klink { memory: None, ..self }
    }

    /// Slack of every query of the snapshot, in ns; the least first in need.
    pub(crate) fn slacks_ns(&mut self, snapshot: &Snapshot) -> &[f64] {
        self.work.refresh(snapshot);
        self.slacks_ns.clear();
        let queries = snapshot.queries.iter().enumerate();
        let slacks =
            queries.map(|(place, query)| slack_ns(self.slack, query, self.work.of(place), snapshot.now));
        self.slacks_ns.extend(slacks);
        &self.slacks_ns
    }
}

impl Default for Klink {
    fn default() -> Klink {
        Klink::new(CYCLE_NS)
    }
}

impl Rank for Klink {
    fn needs(&self) -> Needs {
        let reads = Reads { watermarks: true, queues: true, costs: true, ..Reads::NOTHING };
        let holds_sources = self.memory.is_some();
        Needs {
            inherits: true,
            holds_sources,
            scale: Scale::Linear,
            reads,
            ..Needs::by_cycle(self.period_ns)
        }
    }

    /// Inside the query: what was ingested first.
    fn message(&mut self, context: &MessageContext) -> f64 {
        context.ingested.0 as f64
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        self.slacks_ns(snapshot);
        let runnable = |place: usize| self.work.of(place).has_work;
        let slacks = self.slacks_ns.iter().enumerate();
        let least_ns = slacks.filter(|(place, _)| runnable(*place)).map(|(_, &slack)| slack);
        let least_ns = least_ns.fold(f64::INFINITY, f64::min);
        if let Some(mode) = &mut self.memory
            && mode.is_on(snapshot, least_ns)
        {
            self.releases.rank(snapshot, &self.slacks_ns, self.period_ns, priorities);
        } else {
            rank_queries(snapshot, priorities, |place| self.slacks_ns[place]);
        }
        Cycled::ALL
    }
}

fn slack_ns(slack: Slack, query: &QuerySnapshot, work: QueryBacklog, now: ProcessingTime) -> f64 {
    let wait_ns = wait_ns(slack, query, work.oldest, now);
    wait_ns - work.cost_ns + TIE * wait_ns
}

/// The time until the SWM is ingested: negative where it has been, or should have been.
fn wait_ns(slack: Slack, query: &QuerySnapshot, oldest: Option<ProcessingTime>, now: ProcessingTime) -> f64 {
    let since = |then: ProcessingTime| then.0 as f64 - now.0 as f64;
    if let Some(sweeping) = query.sweeping {
        return since(sweeping.ingested);
    }
    let forecasts = query.streams.iter().filter_map(|stream| stream.forecast);
    let wait_ns = forecasts.map(|forecast| slack.wait_ns(forecast, now)).reduce(f64::min);
    wait_ns.or(oldest.map(since)).unwrap_or(0.0)
}

/// The parameter that switches the memory rank off.
pub(crate) const NO_MEMORY: &str = "no-memory";

/// The name of a rank, and its cycle where that is not the usual one.
pub(crate) fn labelled(name: &str, period_ns: u64) -> String {
    if period_ns == CYCLE_NS { name.to_owned() } else { format!("{name}:{}", format_duration(period_ns)) }
}

#[cfg(test)]
pub(crate) mod tests;
