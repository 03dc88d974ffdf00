//! What nodes tell each other of a query whose operators are spread over them (Klink §4), as plain values: when
//! watermarks are due, downstream; what work costs, upstream. Each node talks to its direct neighbours only and passes
//! on what it was told. The last value counts; what is old says so by its time.
//!
//! Not here: how they travel, and whose clocks agree. A driver that sends a report between clocks moves its times.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId};

use crate::policy::Work;
use crate::{Snapshot, SwmForecast};

/// Downstream: when the sweeping watermark of one source stream is due at its source.
///
/// A node further down sees watermarks late, by what queues before it; from these it knows when they were due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamReport {
    /// The query.
    pub query: QueryId,
    /// Where the stream enters the node that knows it first hand.
    pub source: OperatorId,
    /// The next window end that the stream has to pass.
    pub end: EventTime,
    /// When it will have been passed: mean and deviation of the delay, placed in time.
    pub forecast: SwmForecast,
    /// p, per millisecond between two ends.
    pub ns_per_ms: f64,
    /// When this was found. A node that passes it on keeps it.
    pub at: ProcessingTime,
}

/// Upstream: what a query still costs on this node and below it.
#[derive(Clone, Debug, PartialEq)]
pub struct CostReport {
    /// The query.
    pub query: QueryId,
    /// Who says so: any number, the same each time.
    pub node: u32,
    /// cost(t) of what is queued there and, as far as it was told, further down.
    pub queued_ns: f64,
    /// What a row or message costs from each operator on that takes some from another node.
    pub entries: Vec<WayCost>,
    /// When this was found.
    pub at: ProcessingTime,
}

/// What follows behind an operator, or from it on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WayCost {
    /// The operator.
    pub operator: OperatorId,
    /// CPU time of one more row, to the sinks.
    pub row_ns: f64,
    /// C_path: CPU time of a usual message along the dearest path.
    pub path_ns: u64,
}

/// What a query costs on other nodes, as they last said.
#[derive(Clone, Debug, PartialEq)]
pub struct Elsewhere {
    /// The query.
    pub query: QueryId,
    /// Who said so.
    pub node: u32,
    /// cost(t) there.
    pub queued_ns: f64,
    /// What a row or message costs there, by operator here that sends it.
    pub ways: Vec<WayCost>,
    /// When that was found there. Whoever uses it can tell how old it is.
    pub at: ProcessingTime,
}

impl StreamReport {
    /// When the stream will pass `end`, at the speed it was reported to have.
    pub fn forecast(&self, end: EventTime) -> SwmForecast {
        let ahead_ms = end.0 as f64 - self.end.0 as f64;
        SwmForecast { mean_ns: self.forecast.mean_ns + ahead_ms * self.ns_per_ms, ..self.forecast }
    }
}

impl CostReport {
    /// What `node` can tell of each of its queries.
    pub fn all(snapshot: &Snapshot, node: u32) -> Vec<CostReport> {
        let mut work = Work::default();
        let report = |query: &crate::QuerySnapshot| {
            let queued_ns = work.sum(snapshot, query).cost_ns;
            let operators = query.operators.iter().zip(work.rows_ahead_ns());
            let operators = operators.filter_map(|(&id, row_ns)| Some((snapshot.operator(id)?, *row_ns)));
            let entries = operators.filter(|(operator, _)| operator.upstream.is_empty());
            let entries = entries.map(|(operator, row_ns)| WayCost {
                operator: operator.id,
                row_ns,
                path_ns: operator.usual_cost_ns + operator.path_cost_ns,
            });
            CostReport { query: query.id, node, queued_ns, entries: entries.collect(), at: snapshot.now }
        };
        snapshot.queries.iter().map(report).collect()
    }

    /// As the node above sees it, where `feeders` pairs operators of the reporting node with those here that feed
    /// them.
    pub fn seen_from(&self, feeders: &[(OperatorId, OperatorId)]) -> Elsewhere {
        let ways = self.entries.iter().flat_map(|&entry| {
            let fed_by = feeders.iter().filter(move |&&(below, _)| below == entry.operator);
            fed_by.map(move |&(_, feeder)| WayCost { operator: feeder, ..entry })
        });
        Elsewhere {
            query: self.query,
            node: self.node,
            queued_ns: self.queued_ns,
            ways: ways.collect(),
            at: self.at,
        }
    }
}

impl Elsewhere {
    /// Takes the place of what the same node said before; something older changes nothing. True if it counts.
    pub(crate) fn merge_into(self, known: &mut Vec<Elsewhere>) -> bool {
        let key = |elsewhere: &Elsewhere| (elsewhere.query, elsewhere.node);
        match known.binary_search_by_key(&key(&self), key) {
            Ok(place) if known[place].at > self.at => return false,
            Ok(place) => known[place] = self,
            Err(place) => known.insert(place, self),
        }
        true
    }
}
