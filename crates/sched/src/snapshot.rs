use laxity_graph::{OperatorId, ProcessingTime, QueryId};

/// What there is to know at one instant, for ranks that are recomputed every cycle. Outside our own engine a
/// snapshot is all there is.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// When it was taken.
    pub now: ProcessingTime,
    /// Every operator of every query, by id.
    pub operators: Vec<OperatorSnapshot>,
    /// Every query, by id.
    pub queries: Vec<QuerySnapshot>,
}

/// One operator at that instant.
#[derive(Clone, Debug)]
pub struct OperatorSnapshot {
    /// The operator.
    pub id: OperatorId,
    /// Its query.
    pub query: QueryId,
    /// Operators that it feeds.
    pub downstream: Vec<OperatorId>,
    /// Messages that wait for it.
    pub queued_messages: usize,
    /// Rows in them.
    pub queued_rows: u64,
    /// Bytes in them.
    pub queued_bytes: u64,
    /// t_M of the message it would take next.
    pub head_ingested: Option<ProcessingTime>,
    /// When the result of that message is due.
    pub head_deadline: Option<ProcessingTime>,
    /// a and b of C_o(n) = a + b·n, in ns.
    pub cost: (f64, f64),
    /// C_path(o).
    pub path_cost_ns: u64,
    /// Rows out per row in.
    pub selectivity: f64,
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
    /// Its operators, producers before consumers.
    pub operators: Vec<OperatorId>,
}
