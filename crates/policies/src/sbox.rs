//! A baseline of Klink's evaluation, which the paper describes in one sentence: most of it is our reading.

use laxity_graph::{EventTime, QueryId};
use laxity_sched::{
    Backlog, Cycled, MessageContext, Needs, QuerySnapshot, Rank, Reads, Snapshot, rank_queries,
};

use crate::klink::CYCLE_NS;

/// `sbox`: the query whose next window ends soonest, kept until its watermark has been processed at the sink.
///
/// Klink §6.1.3, baseline "StreamBox": "initially looks up the query with the closest window deadline, then schedules
/// the query for execution until a watermark is processed". That sentence is all there is. Filled in: among
/// queries with work, the one whose sweeping watermark is ingested or expected first; as many kept as there are
/// workers; a cycle of 120 ms as for `klink`, and between cycles the order stands, so that no worker idles beside
/// work; a query without windows comes after those with, the oldest first.
///
/// So filled in it is a strong baseline: where queries cost alike, the nearest window has the least slack too, and
/// simulated YSB sees it within a few percent of `klink`. The paper's distance between the two has to come from
/// what its sentence leaves out; cores idling with a kept query would be one such thing.
///
/// Does badly where the kept query waits for a watermark with little to do while others are behind, and where the
/// nearest window needs little and a later one much. Starves queries of far windows, hence the ageing guard.
#[derive(Debug)]
pub struct Sbox {
    period_ns: u64,
    work: Backlog,
    /// Kept queries, and the window end each is kept for.
    kept: Vec<(QueryId, EventTime)>,
    /// By place of the query.
    priorities: Vec<f64>,
}

/// Kept queries come first by more than any time there is, and 2⁶³ ns still tell microseconds apart.
const KEPT: f64 = 9.3e18;

impl Sbox {
    /// With this cycle.
    pub fn new(period_ns: u64) -> Sbox {
        Sbox { period_ns, work: Backlog::default(), kept: Vec::new(), priorities: Vec::new() }
    }
}

impl Default for Sbox {
    fn default() -> Sbox {
        Sbox::new(CYCLE_NS)
    }
}

impl Rank for Sbox {
    fn needs(&self) -> Needs {
        let reads = Reads { watermarks: true, queues: true, costs: true, ..Reads::NOTHING };
        Needs { inherits: true, reads, ..Needs::by_cycle(self.period_ns) }
    }

    /// Inside the query: what was ingested first.
    fn message(&mut self, context: &MessageContext) -> f64 {
        context.ingested.0 as f64
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        self.work.refresh(snapshot);
        self.kept.retain(|&(id, end)| snapshot.query(id).and_then(next_end).is_some_and(|next| next == end));
        self.priorities.clear();
        for (place, query) in snapshot.queries.iter().enumerate() {
            let oldest = self.work.of(place).oldest;
            let due_ns = due_ns(query).unwrap_or(KEPT + oldest.map_or(KEPT, |oldest| oldest.0 as f64));
            self.priorities.push(due_ns);
        }
        while self.kept.len() < snapshot.workers {
            let candidates = snapshot.queries.iter().enumerate().filter(|(place, query)| {
                self.work.of(*place).has_work && !self.kept.iter().any(|(id, _)| *id == query.id)
            });
            let candidates =
                candidates.filter_map(|(place, query)| Some((place, next_end(query)?, query.id)));
            let nearest = candidates.min_by(|a, b| self.priorities[a.0].total_cmp(&self.priorities[b.0]));
            let Some((_, end, id)) = nearest else { break };
            self.kept.push((id, end));
        }
        for &(id, _) in &self.kept {
            if let Some(place) = snapshot.query_place(id) {
                self.priorities[place] -= KEPT;
            }
        }
        rank_queries(snapshot, priorities, |place| self.priorities[place]);
        Cycled::ALL
    }
}

/// The window end that the query works towards.
fn next_end(query: &QuerySnapshot) -> Option<EventTime> {
    let expected = query.streams.iter().filter(|stream| stream.forecast.is_some()).map(|stream| stream.end);
    query.sweeping.map(|sweeping| sweeping.end).or(expected.min())
}

/// When its sweeping watermark was or will be ingested.
fn due_ns(query: &QuerySnapshot) -> Option<f64> {
    if let Some(sweeping) = query.sweeping {
        return Some(sweeping.ingested.0 as f64);
    }
    query
        .streams
        .iter()
        .filter_map(|stream| stream.forecast)
        .map(|forecast| forecast.mean_ns)
        .reduce(f64::min)
}

#[cfg(test)]
#[path = "sbox/tests.rs"]
mod tests;
