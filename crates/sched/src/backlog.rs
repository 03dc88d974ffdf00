//! Work that waits, for ranks that go by slack and for what nodes report to each other.

use laxity_graph::{OperatorId, ProcessingTime};

use crate::{CostReport, OperatorSnapshot, QuerySnapshot, QueuedCost, RemoteCost, Snapshot, WayCost};

/// What all that is queued in a query still costs (Klink's cost(t)), kept from cycle to cycle.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// By place of the query in the snapshot.
    queries: Vec<QueryBacklog>,
    /// Of which graph.
    graph: Option<u64>,
    /// By query place: in which refresh it was last summed.
    summed: Vec<u64>,
    refreshes: u64,
    /// By place in the query: cost per row that leaves the operator upwards, for one query at a time.
    ahead_ns: Vec<f64>,
    here_ns: f64,
}

/// One query's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryBacklog {
    /// cost(t): CPU time until everything that is queued has left the sink.
    pub cost_ns: f64,
    /// t_M of the oldest message that waits at a head.
    pub oldest: Option<ProcessingTime>,
    /// An operator has a message or a resumption.
    pub has_work: bool,
}

impl Backlog {
    /// Sums what changed since the last call.
    pub fn refresh(&mut self, snapshot: &Snapshot) {
        self.refreshes += 1;
        let same_graph = self.graph == Some(snapshot.graph) && self.queries.len() == snapshot.queries.len();
        let changed = snapshot.changed.as_deref().filter(|_| same_graph);
        let Some(changed) = changed else {
            self.graph = Some(snapshot.graph);
            self.queries.resize(snapshot.queries.len(), QueryBacklog::default());
            self.summed.resize(snapshot.queries.len(), 0);
            for place in 0..snapshot.queries.len() {
                self.queries[place] = self.sum(snapshot, &snapshot.queries[place]);
            }
            return;
        };
        for &id in changed {
            let place = snapshot.operator(id).and_then(|operator| snapshot.query_place(operator.query));
            let Some(place) = place else { continue };
            if std::mem::replace(&mut self.summed[place], self.refreshes) != self.refreshes {
                self.queries[place] = self.sum(snapshot, &snapshot.queries[place]);
            }
        }
    }

    /// Of the query at that place.
    pub fn of(&self, place: usize) -> QueryBacklog {
        self.queries[place]
    }

    /// cost(t) = Σ over operators of C_o(what is queued) + queued rows · s_o · cost per row below.
    ///
    /// The cost per row below is the mean over the operators fed, here or elsewhere: rows out are counted once per
    /// receiver. What is queued elsewhere costs what was said of it.
    pub fn sum(&mut self, snapshot: &Snapshot, query: &QuerySnapshot) -> QueryBacklog {
        let mut work = QueryBacklog::default();
        let remote = snapshot.remote_costs_of(query.id);
        let dense = snapshot.operators_of(query);
        self.ahead_ns.clear();
        self.ahead_ns.resize(query.operators.len(), 0.0);
        for (place, id) in query.operators.iter().enumerate().rev() {
            let Some(operator) = dense.map(|dense| &dense[place]).or_else(|| snapshot.operator(*id)) else {
                continue;
            };
            let below_ns = operator.selectivity * self.mean_below(query, operator, remote);
            self.ahead_ns[place] = operator.row_cost_ns() + below_ns;
            let (fixed_ns, row_ns) = operator.cost;
            work.cost_ns += operator.queued_messages as f64 * fixed_ns;
            work.cost_ns += operator.queued_rows as f64 * (row_ns + below_ns);
            work.has_work |= operator.has_work();
            if let Some(head) = operator.head {
                work.oldest = Some(work.oldest.map_or(head.ingested, |oldest| oldest.min(head.ingested)));
            }
        }
        self.here_ns = work.cost_ns;
        work.cost_ns += remote.iter().map(|remote| remote.queued.queued_ns).sum::<f64>();
        work
    }

    /// cost(t) of what is queued on this node, of the query that was last summed.
    pub fn here_ns(&self) -> f64 {
        self.here_ns
    }

    /// CPU time of one more row from each operator of the query that was last summed.
    pub fn rows_ahead_ns(&self) -> &[f64] {
        &self.ahead_ns
    }

    fn mean_below(&self, query: &QuerySnapshot, operator: &OperatorSnapshot, remote: &[RemoteCost]) -> f64 {
        let first = query.operators.first().map_or(0, |first| first.index());
        let place = |id: OperatorId| match query.operators.get(id.index().wrapping_sub(first)) {
            Some(&at) if at == id => Some(id.index() - first),
            _ => query.operators.iter().position(|&at| at == id),
        };
        let here = operator.downstream.iter().filter_map(|&id| Some(self.ahead_ns[place(id)?]));
        let there = remote.iter().flat_map(|remote| &remote.ways);
        let there = there.filter(|way| way.operator == operator.id).map(|way| way.row_ns);
        let (count, sum) = here.chain(there).fold((0u32, 0.0), |(count, sum), ns| (count + 1, sum + ns));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }
}

impl CostReport {
    /// What `node` can tell of each of its queries.
    pub fn all(snapshot: &Snapshot, node: u32) -> Vec<CostReport> {
        let mut work = Backlog::default();
        let report = |query: &QuerySnapshot| {
            work.sum(snapshot, query);
            let own = QueuedCost { node, queued_ns: work.here_ns(), at: snapshot.now };
            let heard = snapshot.remote_costs_of(query.id).iter().map(|remote| remote.queued);
            let operators = query.operators.iter().zip(work.rows_ahead_ns());
            let operators = operators.filter_map(|(&id, row_ns)| Some((snapshot.operator(id)?, *row_ns)));
            let entries = operators.filter(|(operator, _)| operator.upstream.is_empty());
            let entries = entries.map(|(operator, row_ns)| WayCost {
                operator: operator.id,
                row_ns,
                path_ns: operator.usual_cost_ns + operator.path_cost_ns,
            });
            CostReport {
                query: query.id,
                node,
                queued: std::iter::once(own).chain(heard).collect(),
                entries: entries.collect(),
            }
        };
        snapshot.queries.iter().map(report).collect()
    }
}
