//! Small queries placed by hand, for figures whose workload is a sentence.

use laxity_graph::{
    Dataflow, Input, LatencyTarget, Node, NodeId, Partitioning, ProcessingTime, QuerySettings, WindowShape,
};
use laxity_workload::{Arrivals, Cost, Feed, QueryModel, Stage, StageKind, WorkloadError};

use crate::ExperimentError;

/// One operator of a chain.
pub(crate) struct Step {
    pub name: &'static str,
    pub cost: Cost,
    pub kind: StageKind,
    pub window: Option<WindowShape>,
}

impl Step {
    pub fn source(cost: Cost) -> Step {
        Step { name: "source", cost, kind: StageKind::Source, window: None }
    }

    pub fn rows(name: &'static str, cost: Cost, selectivity: f64) -> Step {
        Step { name, cost, kind: StageKind::Rows { selectivity }, window: None }
    }

    /// A tumbling window of `size_ms` that aggregates into one row as rows come.
    pub fn count(size_ms: i64, cost: Cost) -> Step {
        let kind =
            StageKind::Window { selectivity: 1.0, rows_max: 1.0, fire_per_row_ns: 0.0, state_row_bytes: 0 };
        let window = Some(WindowShape { size_ms, slide_ms: size_ms, end_ms: Some(0) });
        Step { name: "window", cost, kind, window }
    }

    pub fn sink() -> Step {
        Step { name: "sink", cost: FREE, kind: StageKind::Sink, window: None }
    }
}

/// No time at all.
pub(crate) const FREE: Cost = Cost { fixed_ns: 0.0, per_row_ns: 0.0, watermark_ns: 0.0 };

/// So much time for every row, and none besides.
pub(crate) fn per_row(ns: f64) -> Cost {
    Cost { per_row_ns: ns, ..FREE }
}

/// One query of these steps, one instance each.
pub(crate) fn chain(
    name: &str,
    target: LatencyTarget,
    steps: Vec<Step>,
    arrivals: Box<dyn Arrivals>,
) -> Result<QueryModel, ExperimentError> {
    let settings = QuerySettings { latency_target: target, ..QuerySettings::named(name) };
    let mut dataflow = Dataflow::new(settings);
    let mut last: Option<NodeId> = None;
    for step in steps {
        let inputs = last.map(|from| Input { from, partitioning: Partitioning::Forward });
        let node = Node {
            name: step.name.into(),
            parallelism: 1,
            inputs: inputs.into_iter().collect(),
            window: step.window,
            stage: Stage::new(step.kind, step.cost, 64),
        };
        let id = dataflow.push(node).map_err(WorkloadError::from)?;
        last = Some(id);
    }
    let feeds = vec![Feed { node: NodeId(0), instance: 0, arrivals }];
    Ok(QueryModel { dataflow, feeds, deployed: ProcessingTime::ZERO })
}
