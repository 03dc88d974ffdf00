//! What a rank by cycle may know: the scheduler fills it in for our engine, an agent for any other.

mod waiting;

use std::sync::Arc;

use laxity_graph::{OperatorId, ProcessingTime, QosCurve, QueryId, WindowShape};

use crate::{RemoteCost, StreamSnapshot, Sweeping, Unit};

pub use waiting::Waiting;

/// What there is to know at one instant, for ranks that are recomputed every cycle. Outside our own engine a
/// snapshot is all there is.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken.
    pub now: ProcessingTime,
    /// Workers that carry out grants.
    pub workers: usize,
    /// What priorities are asked for.
    pub unit: Unit,
    /// Bytes used and allowed.
    pub memory: Memory,
    /// Counts changes of the graph: what was derived from it stays true while this does.
    pub graph: u64,
    /// Operators that may be other than in the snapshot of the last cycle, each once; `None`: any may.
    pub changed: Option<Vec<OperatorId>>,
    /// Every operator of every query, in order of id; ids may be missing.
    pub operators: Vec<OperatorSnapshot>,
    /// Every query, in order of id; ids may be missing.
    pub queries: Vec<QuerySnapshot>,
    /// What queries cost on other nodes, by query.
    pub remote_costs: Vec<RemoteCost>,
}

/// Bytes that queued rows and state occupy, and how many they may. A bound of 0: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In use.
    pub used_bytes: u64,
    /// Allowed.
    pub bound_bytes: u64,
}

/// One operator at that instant.
#[derive(Clone, Debug)]
pub struct OperatorSnapshot {
    /// The operator.
    pub id: OperatorId,
    /// Its query.
    pub query: QueryId,
    /// The unit it belongs to: index into the priorities of a cycle.
    pub unit: u32,
    /// Operators that feed it.
    pub upstream: Arc<[OperatorId]>,
    /// Operators that it feeds.
    pub downstream: Arc<[OperatorId]>,
    /// The window it closes, if any.
    pub window: Option<WindowShape>,
    /// A worker runs it.
    pub running: bool,
    /// The last run left work that needs no message.
    pub resumes: bool,
    /// A mailbox below is full.
    pub blocked: bool,
    /// Messages that wait for it.
    pub queued_messages: usize,
    /// Rows in them.
    pub queued_rows: u64,
    /// Bytes in them.
    pub queued_bytes: u64,
    /// The message it would take next.
    pub head: Option<HeadSnapshot>,
    /// Mean t_M of the rows that wait, from at most 16 messages evenly over the queue.
    pub mean_ingested: Option<ProcessingTime>,
    /// a and b of C_o(n) = a + b·n, in ns.
    pub cost: (f64, f64),
    /// C_o of a usual message.
    pub usual_cost_ns: u64,
    /// Rows of a usual message.
    pub usual_rows: f64,
    /// C_path(o).
    pub path_cost_ns: u64,
    /// Rows out per row in.
    pub selectivity: f64,
    /// Bytes of a row it takes in, as far as any were seen; 0 where none.
    pub row_bytes: f64,
}

/// The message an operator would take next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSnapshot {
    /// t_M.
    pub ingested: ProcessingTime,
    /// When it came to this operator.
    pub enqueued: ProcessingTime,
    /// t_MF + L: when its result is due.
    pub deadline: ProcessingTime,
    /// Rows; 0 for a bare watermark.
    pub rows: u32,
}

/// One query at that instant.
#[derive(Clone, Debug)]
pub struct QuerySnapshot {
    /// The query.
    pub id: QueryId,
    /// L(q).
    pub target_ns: u64,
    /// Its importance.
    pub weight: f64,
    /// How useful a result is by its latency.
    pub qos: QosCurve,
    /// Its operators, producers before consumers.
    pub operators: Arc<[OperatorId]>,
    /// Its source streams that lead to windows.
    pub streams: Vec<StreamSnapshot>,
    /// The oldest sweeping watermark on its way from all of them to the sinks.
    pub sweeping: Option<Sweeping>,
}

impl Snapshot {
    /// The operator of that id.
    pub fn operator(&self, id: OperatorId) -> Option<&OperatorSnapshot> {
        self.place(id).map(|place| &self.operators[place])
    }

    /// Where the operator of that id stands.
    pub fn place(&self, id: OperatorId) -> Option<usize> {
        // Ids are dense until a query is removed; from then on the place lies at or before the id.
        match self.operators.get(id.index()) {
            Some(operator) if operator.id == id => Some(id.index()),
            _ => self.operators.binary_search_by_key(&id, |o| o.id).ok(),
        }
    }

    /// The operators of a query, where their ids follow one another.
    pub fn operators_of(&self, query: &QuerySnapshot) -> Option<&[OperatorSnapshot]> {
        let (first, count) = (*query.operators.first()?, query.operators.len());
        let place = self.place(first)?;
        let operators = self.operators.get(place..place + count)?;
        operators.iter().zip(query.operators.iter()).all(|(o, &id)| o.id == id).then_some(operators)
    }

    /// What other nodes said of that query.
    pub fn remote_costs_of(&self, id: QueryId) -> &[RemoteCost] {
        let first = self.remote_costs.partition_point(|remote| remote.query < id);
        let of_query = self.remote_costs[first..].iter().take_while(|remote| remote.query == id).count();
        &self.remote_costs[first..first + of_query]
    }

    /// The query of that id.
    pub fn query(&self, id: QueryId) -> Option<&QuerySnapshot> {
        self.query_place(id).map(|place| &self.queries[place])
    }

    /// Where the query of that id stands.
    pub fn query_place(&self, id: QueryId) -> Option<usize> {
        match self.queries.get(id.index()) {
            Some(query) if query.id == id => Some(id.index()),
            _ => self.queries.binary_search_by_key(&id, |q| q.id).ok(),
        }
    }
}

impl OperatorSnapshot {
    /// It has something to do: a message or a resumption.
    pub fn has_work(&self) -> bool {
        self.resumes || self.queued_messages > 0
    }

    /// C_o of a mean message among those that wait, of a usual one where none does.
    pub fn own_cost_ns(&self) -> u64 {
        if self.queued_messages == 0 {
            return self.usual_cost_ns;
        }
        self.cost_ns(self.queued_rows as f64 / self.queued_messages as f64) as u64
    }

    /// C_o(rows) in ns, as last fitted.
    pub fn cost_ns(&self, rows: f64) -> f64 {
        self.cost.0 + self.cost.1 * rows
    }

    /// Predicted CPU time per row, in messages as large as usual.
    pub fn row_cost_ns(&self) -> f64 {
        let rows = self.usual_rows.max(1.0);
        self.cost_ns(rows) / rows
    }

    /// It could be granted, but that a worker may have its unit.
    pub fn is_ready(&self) -> bool {
        !self.running && !self.blocked && (self.resumes || self.queued_messages > 0)
    }
}

impl Snapshot {
    /// One query of these operators: (inputs, ns per row, selectivity), producers first. Nothing waits. To try a rank or
    /// a plan on, with what waits put in.
    pub fn of_query(operators: &[(&[u32], f64, f64)]) -> Snapshot {
        let feeds = |id: u32| {
            let below = operators.iter().enumerate().filter(move |(_, (above, ..))| above.contains(&id));
            below.map(|(place, _)| OperatorId(place as u32)).collect()
        };
        let operator = |(id, (upstream, row_cost_ns, selectivity)): (usize, &(&[u32], f64, f64))| {
            let id = id as u32;
            OperatorSnapshot {
                id: OperatorId(id),
                query: QueryId(0),
                unit: id,
                upstream: upstream.iter().copied().map(OperatorId).collect(),
                downstream: feeds(id),
                window: None,
                running: false,
                resumes: false,
                blocked: false,
                queued_messages: 0,
                queued_rows: 0,
                queued_bytes: 0,
                head: None,
                mean_ingested: None,
                cost: (0.0, *row_cost_ns),
                usual_cost_ns: *row_cost_ns as u64,
                usual_rows: 1.0,
                path_cost_ns: 0,
                selectivity: *selectivity,
                row_bytes: 0.0,
            }
        };
        Snapshot {
            workers: 1,
            operators: operators.iter().enumerate().map(operator).collect(),
            queries: vec![QuerySnapshot {
                id: QueryId(0),
                target_ns: 1_000_000,
                weight: 1.0,
                qos: QosCurve::of_target_ns(1_000_000),
                operators: (0..operators.len() as u32).map(OperatorId).collect(),
                streams: Default::default(),
                sweeping: Default::default(),
            }],
            ..Snapshot::default()
        }
    }
}
