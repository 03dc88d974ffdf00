//! What nodes tell each other of a query whose operators are spread over them (Klink §4), as plain values: when
//! watermarks are due, downstream; what work costs, upstream. Each node talks to its direct neighbours only and passes
//! on what it was told. The last value counts; what is old says so by its time.
//!
//! Not here: how they travel, and whose clocks agree. A driver that sends a report between clocks moves its times.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId};

use crate::SwmForecast;

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

/// Upstream: what a query still costs on this node and on those it has heard of.
#[derive(Clone, Debug, PartialEq)]
pub struct CostReport {
    /// The query.
    pub query: QueryId,
    /// Who says so: any number, the same each time.
    pub node: u32,
    /// cost(t) of what is queued, node by node: told apart, so that nothing is counted twice where operators of a
    /// query take turns on two nodes and each is below the other.
    pub queued: Vec<QueuedCost>,
    /// What a row or message costs from each operator on that takes some from another node.
    pub entries: Vec<WayCost>,
}

/// cost(t) of what is queued on one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueuedCost {
    /// The node.
    pub node: u32,
    /// CPU time until it has left the sinks.
    pub queued_ns: f64,
    /// When this was found. Who passes it on keeps it.
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

/// What a query costs on one other node, as last heard.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteCost {
    /// The query.
    pub query: QueryId,
    /// What is queued there, and as of when: whoever uses it can tell how old it is.
    pub queued: QueuedCost,
    /// What a row or message costs there, by operator here that sends it. Empty but for neighbours.
    pub ways: Vec<WayCost>,
}

impl StreamReport {
    /// When the stream will pass `end`, at the speed it was reported to have.
    pub fn forecast(&self, end: EventTime) -> SwmForecast {
        let ahead_ms = end.0 as f64 - self.end.0 as f64;
        SwmForecast { mean_ns: self.forecast.mean_ns + ahead_ms * self.ns_per_ms, ..self.forecast }
    }
}

impl CostReport {
    /// Its entries as a node above sees them: by the operators there that feed them. `feeders` pairs the two.
    fn ways(&self, feeders: &[(OperatorId, OperatorId)]) -> Vec<WayCost> {
        let ways = self.entries.iter().flat_map(|&entry| {
            let fed_by = feeders.iter().filter(move |&&(below, _)| below == entry.operator);
            fed_by.map(move |&(_, feeder)| WayCost { operator: feeder, ..entry })
        });
        ways.collect()
    }

    /// A node takes in what it says; something older than what is known changes nothing, nor does what the node said
    /// itself, as `here`.
    pub(crate) fn merge_into(
        &self,
        known: &mut Vec<RemoteCost>,
        here: Option<u32>,
        feeders: &[(OperatorId, OperatorId)],
    ) {
        for &queued in self.queued.iter().filter(|queued| Some(queued.node) != here) {
            let key = |remote: &RemoteCost| (remote.query, remote.queued.node);
            let place = known.binary_search_by_key(&(self.query, queued.node), key).unwrap_or_else(|place| {
                known.insert(place, RemoteCost { query: self.query, queued, ways: Vec::new() });
                place
            });
            let known = &mut known[place];
            if known.queued.at > queued.at {
                continue;
            }
            known.queued = queued;
            if queued.node == self.node {
                known.ways = self.ways(feeders);
            }
        }
    }
}
