//! What several tests make snapshots with.

use laxity_graph::{OperatorId, QosCurve, QueryId};
use laxity_sched::{OperatorSnapshot, QuerySnapshot, Snapshot};

/// One query of these operators: (inputs, ns per row, selectivity), producers first. Nothing waits.
pub(crate) fn snapshot_of(operators: &[(&[u32], f64, f64)]) -> Snapshot {
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
