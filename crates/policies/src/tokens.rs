//! A rank for shares of the machine instead of deadlines (Cameo §5.4).

use std::collections::VecDeque;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};
use laxity_sched::{Event, MessageContext, Needs, Rank, Reads, Snapshot, Told, WaitBound};

/// `tokens`: proportional fair sharing. Each query's sources have tokens for each second; what has one goes
/// first, in the order of the tokens' times.
///
/// Cameo §5.4. A source's tokens are spread evenly over the interval; a message that starts with one has the
/// token's time as its priority, and so has everything it triggers. What starts without has the lowest.
///
/// | Symbol | Field | Unit |
/// | --- | --- | --- |
/// | interval | one second | ns |
/// | tokens of a source | share of the query / sources of the query | messages per interval |
/// | share of q | [`MessageContext::weight`] over the sum of all, of what the machine can do; or weight · `rate` | messages per interval |
///
/// - `tokens`: weights are shares of CPU time. A source message of q is taken to cost C_o + C_path, so q gets
///   share · workers · interval / (C_o + C_path) tokens. `tokens:12`: 12 messages a second for each unit of
///   weight, which is the paper's form.
/// - More tokens than capacity: the machine gets as far in the order of times as it can, and where the
///   interval ends the rest lapses. Because all are spread evenly over the same interval, each gets the same
///   fraction of its tokens: the paper's "downgraded equally", without a rate to estimate.
/// - The paper gives tokens to messages as they come and takes those without out of order (local priority =
///   interval). Here channels keep their order, so a token is taken when a message starts: the oldest goes
///   with the next token, and one that waits without is not passed over by younger ones of its own source.
/// - Without a token the paper prints MIN_VALUE, which with lower-first would be the highest; it means the
///   lowest.
///
/// Work-conserving: who is alone gets everything, and owes nothing for it later. Does badly on latency: it
/// knows shares, not deadlines. What has no token starves as long as what has takes all, hence the ageing
/// guard.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// Messages per interval for each unit of weight; `None`: by share of CPU time.
    rate: Option<f64>,
    started: ProcessingTime,
    /// By operator id; only sources have tokens.
    sources: Vec<Source>,
    /// By unit: the sources in it.
    of_unit: Vec<Vec<u32>>,
    /// By query id: what was started with which token, by time of ingestion.
    tags: Vec<VecDeque<(ProcessingTime, f64)>>,
}

/// The paper's "e.g., 1 sec".
const INTERVAL_NS: u64 = 1_000_000_000;

/// How often the tokens of an interval are counted anew: what a message costs is known only once some have
/// run, and queries come and go. Picked: short beside the interval.
const REVIEW_NS: u64 = 50_000_000;

/// How many intervals a tag is remembered: what takes longer from source to sink goes with the oldest known.
const REMEMBERED: u64 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// In this interval.
    tokens: f64,
    used: f64,
}

impl Tokens {
    /// So many messages per interval for each unit of weight.
    pub fn of_rate(rate: f64) -> Tokens {
        Tokens { rate: Some(rate), ..Tokens::default() }
    }

    /// When the next token of a source is due; `+inf` where it has none left.
    fn next_tag(&self, id: u32) -> f64 {
        let Some(source) = self.sources.get(id as usize) else { return f64::INFINITY };
        if source.used >= source.tokens {
            return f64::INFINITY;
        }
        self.started.0 as f64 + INTERVAL_NS as f64 * source.used / source.tokens
    }

    /// The token with which what was ingested then was started.
    fn tag(&self, query: QueryId, ingested: ProcessingTime) -> f64 {
        let Some(tags) = self.tags.get(query.index()) else { return f64::INFINITY };
        let after = tags.partition_point(|(then, _)| *then <= ingested);
        tags.get(after.saturating_sub(1)).map_or(f64::INFINITY, |(_, tag)| *tag)
    }

    /// A message of a source is granted: it takes the source's next token.
    fn starts(&mut self, query: QueryId, id: OperatorId, ingested: ProcessingTime) {
        let tag = self.next_tag(id.0);
        if let Some(source) = self.sources.get_mut(id.index()) {
            source.used += 1.0;
        }
        if self.tags.len() <= query.index() {
            self.tags.resize_with(query.index() + 1, VecDeque::new);
        }
        let tags = &mut self.tags[query.index()];
        let oldest = ProcessingTime(self.started.0.saturating_sub(REMEMBERED * INTERVAL_NS));
        while tags.len() > 1 && tags[1].0 < oldest {
            tags.pop_front();
        }
        // Sources of one query may be out of step; what is alike is kept once.
        let place = tags.partition_point(|(then, _)| *then <= ingested);
        if place.checked_sub(1).is_none_or(|before| tags[before].1 != tag) {
            tags.insert(place, (ingested, tag));
        }
    }
}

impl Rank for Tokens {
    fn needs(&self) -> Needs {
        let told = Told { started: true, ..Told::default() };
        let reads = Reads { queues: true, costs: true, ages: true, heads: true, ..Reads::NOTHING };
        // A consumer's mailbox may hold untokened rows before tokened ones; order is kept, so the first must go.
        let look_every_ns = Some(REVIEW_NS);
        Needs { inherits: true, look_every_ns, told, reads, ..Needs::by_message(WaitBound::Ageing) }
    }

    /// Of a source: nothing yet, its token is found when it joins.
    fn message(&mut self, context: &MessageContext) -> f64 {
        if context.is_source { f64::INFINITY } else { self.tag(context.query, context.ingested) }
    }

    fn join(&mut self, unit: u32, head: f64) -> f64 {
        let sources = self.of_unit.get(unit as usize).map_or(&[][..], Vec::as_slice);
        sources.iter().map(|&id| self.next_tag(id)).fold(head, f64::min)
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Started { query, source: Some(source), ingested } => self.starts(query, source, ingested),
            Event::Removed { query } => {
                if let Some(tags) = self.tags.get_mut(query.index()) {
                    tags.clear();
                }
            }
            _ => {}
        }
    }

    fn review(&mut self, snapshot: &Snapshot) -> bool {
        if snapshot.now.since_ns(self.started) >= INTERVAL_NS {
            self.started = snapshot.now;
            self.sources.iter_mut().for_each(|source| source.used = 0.0);
        }
        let ids = snapshot.operators.last().map_or(0, |operator| operator.id.index() + 1);
        self.sources.iter_mut().for_each(|source| source.tokens = 0.0);
        self.sources.resize(ids, Source::default());
        let units = snapshot.operators.iter().map(|operator| operator.unit as usize + 1).max().unwrap_or(0);
        self.of_unit.iter_mut().for_each(Vec::clear);
        self.of_unit.resize_with(units, Vec::new);
        self.tags.resize_with(snapshot.queries.last().map_or(0, |q| q.id.index() + 1), VecDeque::new);
        let weights: f64 = snapshot.queries.iter().map(|query| query.weight).sum();
        let capacity_ns = (snapshot.workers as u64 * INTERVAL_NS) as f64;
        for query in &snapshot.queries {
            let sources = || {
                let operators = query.operators.iter().filter_map(|id| snapshot.operator(*id));
                operators.filter(|operator| operator.upstream.is_empty())
            };
            let count = sources().count() as f64;
            for source in sources() {
                let tokens = match self.rate {
                    Some(rate) => query.weight * rate,
                    None => {
                        let cost_ns = (source.usual_cost_ns + source.path_cost_ns).max(1) as f64;
                        query.weight / weights * capacity_ns / cost_ns / count
                    }
                };
                self.sources[source.id.index()].tokens = tokens;
                self.of_unit[source.unit as usize].push(source.id.0);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
