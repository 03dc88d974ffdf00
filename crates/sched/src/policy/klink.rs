//! `klink`: the queries whose next window results need most of the time that is left.

mod slack;
mod work;

use laxity_graph::ProcessingTime;

use super::{Rank, WaitBound};
use crate::{MessageContext, QuerySnapshot, Scale, Snapshot};

use super::memory::{Mode, Releases};
use super::parts::format_duration;
pub(super) use slack::Slack;
use work::QueryWork;
pub(crate) use work::Work;

/// `klink`: least slack first, where slack is the time until the next sweeping watermark (SWM) is expected, less
/// what it costs to have everything queued out of the way by then.
///
/// Klink §3, Algorithm 1: sl(t) = E[w | w ≥ t] − t − cost(t), every cycle anew; the runnable queries of least slack get
/// the workers. Above the memory bound, §3.4: see [`super::ByMemory`].
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | r | the cycle: [`Rank::period_ns`], 120 ms | ns |
/// | w | [`crate::StreamSnapshot::forecast`], or [`crate::QuerySnapshot::sweeping`] once ingested | ns |
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
    work: Work,
    /// By place of the query.
    slacks_ns: Vec<f64>,
    /// `None`: memory does not matter.
    memory: Option<Mode>,
    releases: Releases,
}

/// r of Klink §6.2.
pub(super) const CYCLE_NS: u64 = 120_000_000;

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
            work: Work::default(),
            slacks_ns: Vec::new(),
            memory: Some(Mode::default()),
            releases: Releases::default(),
        }
    }

    /// Never ranks by memory ("w/o MM" in Klink §6).
    #[must_use]
    pub fn without_memory(self) -> Klink {
        Klink { memory: None, ..self }
    }

    /// Slack of every query of the snapshot, in ns; the least first in need.
    pub(super) fn slacks_ns(&mut self, snapshot: &Snapshot) -> &[f64] {
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
    fn name(&self) -> &'static str {
        "klink"
    }

    fn label(&self) -> String {
        let label = labelled(self.name(), self.period_ns);
        if self.memory.is_some() { label } else { format!("{label}:{NO_MEMORY}") }
    }

    fn wait_bound(&self) -> WaitBound {
        WaitBound::Ageing
    }

    fn scale(&self) -> Scale {
        Scale::Linear
    }

    fn period_ns(&self) -> Option<u64> {
        Some(self.period_ns)
    }

    /// Inside the query: what was ingested first.
    fn message(&mut self, context: &MessageContext) -> f64 {
        context.ingested.0 as f64
    }

    fn inherits(&self) -> bool {
        true
    }

    fn cycle(&mut self, snapshot: &Snapshot, priorities: &mut [f64]) {
        self.slacks_ns(snapshot);
        let runnable = |place: usize| self.work.of(place).has_work;
        let slacks = self.slacks_ns.iter().enumerate();
        let least_ns = slacks.filter(|(place, _)| runnable(*place)).map(|(_, &slack)| slack);
        let least_ns = least_ns.fold(f64::INFINITY, f64::min);
        if let Some(mode) = &mut self.memory
            && mode.is_on(snapshot, least_ns)
        {
            self.releases.rank(snapshot, &self.slacks_ns, self.period_ns, priorities);
            return;
        }
        by_query(snapshot, priorities, |place| self.slacks_ns[place]);
    }
}

fn slack_ns(slack: Slack, query: &QuerySnapshot, work: QueryWork, now: ProcessingTime) -> f64 {
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

/// Gives every unit the priority of its query.
pub(super) fn by_query(snapshot: &Snapshot, priorities: &mut [f64], of: impl Fn(usize) -> f64) {
    for (place, query) in snapshot.queries.iter().enumerate() {
        let priority = of(place);
        if snapshot.unit.is_query() {
            priorities[query.id.index()] = priority;
            continue;
        }
        for operator in query.operators.iter().filter_map(|&id| snapshot.operator(id)) {
            priorities[operator.unit as usize] = priority;
        }
    }
}

/// The parameter that switches the memory rank off.
pub(super) const NO_MEMORY: &str = "no-memory";

/// The name of a rank, and its cycle where that is not the usual one.
pub(super) fn labelled(name: &str, period_ns: u64) -> String {
    if period_ns == CYCLE_NS { name.to_owned() } else { format!("{name}:{}", format_duration(period_ns)) }
}

#[cfg(test)]
pub(super) mod tests;
