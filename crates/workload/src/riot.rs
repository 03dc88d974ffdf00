//! ETL and STATS of RIoTBench (Shukla et al., 2017), as EdgeWise and Lachesis run them: smart-city sensors, cleaned
//! and annotated, or summarised.
//!
//! Selectivities are those of the public code.

use laxity_graph::{Dataflow, NodeId, QuerySettings};

use crate::flow::{Flow, by_key, forward, in_turn};
use crate::lachesis::Testbed;
use crate::{Cost, Stage, Workload, WorkloadError};

/// Parse, filter, interpolate, join, annotate, publish.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Etl {
    /// How many queries, and how they are fed.
    pub testbed: Testbed,
}

/// Parse, filter, then three statistics side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// How many queries, and how they are fed.
    pub testbed: Testbed,
}

/// Rows per second of ETL that Lachesis sustains.
pub const ETL_ROWS_PER_S: f64 = 1_625.0;

/// Rows per second of STATS that Lachesis sustains.
pub const STATS_ROWS_PER_S: f64 = 340.0;

impl Etl {
    /// The workload.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        self.testbed.build("ETL", seed, ETL_ROWS_PER_S, 380, etl)
    }
}

impl Stats {
    /// The workload.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        self.testbed.build("STATS", seed, STATS_ROWS_PER_S, 120, stats)
    }
}

/// Relative costs: parsing and printing text weigh most, a look-up or a filter little.
fn etl(settings: QuerySettings) -> Result<(Dataflow<Stage>, NodeId), WorkloadError> {
    let mut flow = Flow::new(settings, 380);
    let source = flow.source("source", 1, Cost::per_row(2.0))?;
    // One message becomes six observations.
    let parse = flow.step("senml parse", &[source], 20.0, 6.0)?;
    flow.row_bytes(100);
    let range = flow.step("range filter", &[parse], 1.0, 1.0)?;
    let bloom = flow.step("bloom filter", &[range], 1.0, 1.0)?;
    let interpolate = flow.step("interpolation", &[bloom], 1.5, 1.0)?;
    let join = flow.rows("join", 1, vec![by_key(interpolate)], Cost::per_row(2.0), 1.0 / 6.0)?;
    flow.row_bytes(200);
    // 1.95 rows leave per row, by two ways: a few sensors have no entry.
    let annotate = flow.step("annotation", &[join], 3.0, 0.975)?;
    flow.sink("table insert", vec![forward(annotate)], Cost::per_row(4.0))?;
    let print = flow.step("csv to senml", &[annotate], 10.0, 1.0)?;
    flow.sinks("publish", 2, vec![in_turn(print)], Cost::per_row(4.0))?;
    Ok((flow.finish(), source))
}

fn stats(settings: QuerySettings) -> Result<(Dataflow<Stage>, NodeId), WorkloadError> {
    let mut flow = Flow::new(settings, 120);
    let source = flow.source("source", 1, Cost::per_row(2.0))?;
    let parse = flow.step("parse and project", &[source], 15.0, 5.0)?;
    flow.row_bytes(60);
    let bloom = flow.rows("bloom filter", 1, vec![by_key(parse)], Cost::per_row(1.0), 1.0)?;
    let kalman = flow.rows("kalman filter", 1, vec![by_key(bloom)], Cost::per_row(3.0), 1.0)?;
    let regression = flow.rows("linear regression", 1, vec![by_key(kalman)], Cost::per_row(12.0), 1.0)?;
    let moment = flow.rows("second moment", 1, vec![by_key(bloom)], Cost::per_row(6.0), 1.0)?;
    let distinct = flow.rows("distinct count", 1, vec![by_key(bloom)], Cost::per_row(5.0), 1.0)?;
    let inputs = vec![in_turn(regression), in_turn(moment), in_turn(distinct)];
    flow.sinks("publish", 3, inputs, Cost::per_row(4.0))?;
    Ok((flow.finish(), source))
}
