//! The taxi query of the Klink evaluation: "a sequence of many stateless operators and a sliding aggregation window
//! of size two seconds and a slide of one second", 7 000 events per second and query.
//!
//! The paper names no operator. Ours follow the DEBS 2015 grid as the same group's later public query does: parse a
//! trip, find its cells of 250 m, drop those outside the grid, and average distances per pickup cell. Nothing else is
//! filtered, so that close to 7 000 events reach the window, as the paper has it.

use laxity_graph::{Dataflow, NodeId, QuerySettings};

use crate::flow::{Firing, Flow, by_key, forward, sliding};
use crate::klink::Fleet;
use crate::{Cost, Stage, Workload, WorkloadError};

/// The benchmark as costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nyt {
    /// How many queries, and how they are fed.
    pub fleet: Fleet,
}

/// Rows per second of a query.
pub const ROWS_PER_S: f64 = 7_000.0;

impl Nyt {
    /// The workload.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        self.fleet.build("NYT", seed, ROWS_PER_S, 200, draft)
    }
}

fn draft(settings: QuerySettings) -> Result<(Dataflow<Stage>, Vec<NodeId>), WorkloadError> {
    // 17 columns as text.
    let mut flow = Flow::new(settings, 200);
    let source = flow.source("source", 1, Cost::per_row(2.0))?;
    let mut last = flow.rows("parse", 1, vec![forward(source)], Cost::per_row(12.0), 1.0)?;
    flow.row_bytes(64);
    for (name, cost, selectivity) in [
        ("timestamp", 1.0, 1.0),
        ("project", 1.0, 1.0),
        ("pickup cell", 4.0, 1.0),
        ("dropoff cell", 4.0, 1.0),
        // One trip in fifty has coordinates off the grid, most of them zero.
        ("on the grid", 1.0, 0.98),
        ("paid", 1.0, 1.0),
        ("distance", 1.0, 1.0),
    ] {
        last = flow.rows(name, 1, vec![forward(last)], Cost::per_row(cost), selectivity)?;
    }
    // Pickups fall into a few hundred cells at a time.
    let firing = Firing::groups(sliding(2_000, 1_000), 300.0);
    last = flow.window("mean distance", 1, vec![by_key(last)], Cost::per_row(5.0), firing)?;
    flow.sink("sink", vec![forward(last)], Cost::per_row(1.0))?;
    Ok((flow.finish(), vec![source]))
}
