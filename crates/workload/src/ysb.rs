//! The Yahoo streaming benchmark: advertising events, joined with campaigns, counted by window.
//!
//! [`Ysb::original`] filters views and counts per campaign in windows of 10 s, as yahoo/streaming-benchmarks does.
//! [`Ysb::klink`] is the variant of the Klink evaluation: windows of 3 s, all events counted together, no filter
//! (its authors' public query has it commented out).

use laxity_graph::{Dataflow, NodeId, QuerySettings};

use crate::flow::{Firing, Flow, by_key, forward, tumbling};
use crate::klink::Fleet;
use crate::{Cost, Stage, Workload, WorkloadError};

/// The benchmark as costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Ysb {
    /// How many queries, and how they are fed.
    pub fleet: Fleet,
    /// Rows per second of a query. Default 10 000.
    pub rows_per_s: f64,
    /// Length of the windows.
    pub window_ms: i64,
    /// Only views, a third of all events, are counted, and per campaign (100 of them).
    pub is_original: bool,
}

impl Ysb {
    /// Filter, join, count per campaign in 10 s.
    pub fn original() -> Ysb {
        Ysb { fleet: Fleet::default(), rows_per_s: 10_000.0, window_ms: 10_000, is_original: true }
    }

    /// Everything counted in windows of 3 s: 30 000 rows in each. (The paper says "10K events produced every three
    /// seconds per window" and "10,000 per second per query"; the second is the one its axis counts by.)
    pub fn klink() -> Ysb {
        Ysb { window_ms: 3_000, is_original: false, ..Ysb::original() }
    }

    /// The workload.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(&self, seed: u64) -> Result<Workload, WorkloadError> {
        let name = if self.is_original { "YSB" } else { "YSB, Klink" };
        self.fleet.build(name, seed, self.rows_per_s, 250, |settings| self.draft(settings))
    }

    /// Relative costs: parsing JSON weighs most, then the look-up; the three identical maps of the authors' query do
    /// next to nothing.
    fn draft(&self, settings: QuerySettings) -> Result<(Dataflow<Stage>, Vec<NodeId>), WorkloadError> {
        // Seven UUIDs and numbers as text.
        let mut flow = Flow::new(settings, 250);
        let source = flow.source("source", 1, Cost::per_row(2.0))?;
        let mut last = flow.rows("deserialize", 1, vec![forward(source)], Cost::per_row(12.0), 1.0)?;
        if self.is_original {
            last = flow.rows("views", 1, vec![forward(last)], Cost::per_row(1.0), 1.0 / 3.0)?;
            flow.row_bytes(44);
            last = flow.rows("project", 1, vec![forward(last)], Cost::per_row(1.0), 1.0)?;
            last = flow.rows("campaign", 1, vec![forward(last)], Cost::per_row(6.0), 1.0)?;
            let firing = Firing::groups(tumbling(self.window_ms), 100.0);
            last = flow.window("count", 1, vec![by_key(last)], Cost::per_row(3.0), firing)?;
        } else {
            last = flow.rows("timestamp", 1, vec![forward(last)], Cost::per_row(1.0), 1.0)?;
            last = flow.rows("campaign", 1, vec![forward(last)], Cost::per_row(6.0), 1.0)?;
            for map in ["map 1", "map 2", "map 3"] {
                last = flow.rows(map, 1, vec![forward(last)], Cost::per_row(1.0), 1.0)?;
            }
            let firing = Firing::groups(tumbling(self.window_ms), 1.0);
            last = flow.window("count", 1, vec![forward(last)], Cost::per_row(3.0), firing)?;
        }
        flow.sink("sink", vec![forward(last)], Cost::per_row(1.0))?;
        Ok((flow.finish(), vec![source]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StageKind;

    #[test]
    fn variants_have_the_operators_of_their_sources() {
        let names = |ysb: Ysb| -> Vec<String> {
            let workload = ysb.build(0).unwrap();
            workload.queries[0].dataflow.nodes().iter().map(|node| node.name.clone()).collect()
        };
        assert_eq!(
            names(Ysb::original()),
            ["source", "deserialize", "views", "project", "campaign", "count", "sink"]
        );
        assert_eq!(
            names(Ysb::klink()),
            ["source", "deserialize", "timestamp", "campaign", "map 1", "map 2", "map 3", "count", "sink"]
        );
    }

    #[test]
    fn klink_rows_cost_27_us() {
        let workload = Ysb::klink().build(0).unwrap();
        let nodes = workload.queries[0].dataflow.nodes();
        // 0.27 cores per query at 10 000 rows/s.
        let sum: f64 = nodes.iter().map(|node| node.stage.cost.per_row_ns).sum();
        let sink = nodes.last().unwrap().stage.cost.per_row_ns;
        assert!((sum - sink - 27_000.0).abs() < 1.0, "{sum}");
        let StageKind::Window { rows_max, .. } = nodes[7].stage.kind else { panic!("a window") };
        assert_eq!((rows_max, nodes[7].window.unwrap().size_ms), (1.0, 3_000));
    }
}
