//! Small workloads, written down arrival by arrival.

use std::collections::VecDeque;
use std::time::Duration;

use laxity_graph::{
    Dataflow, EventTime, Input, LatencyTarget, Node, NodeId, Partitioning, ProcessingTime, QuerySettings,
    WindowShape,
};
use laxity_workload::{Arrival, Arrivals, Cost, Feed, QueryModel, Stage, StageKind, Workload};

pub const MS: u64 = 1_000_000;

/// Arrivals from a list.
#[derive(Debug)]
pub struct Listed(pub VecDeque<Arrival>);

impl Arrivals for Listed {
    fn next(&mut self) -> Option<Arrival> {
        self.0.pop_front()
    }
}

/// Rows at `at_ms` of that event time, each of 100 bytes, with a watermark behind them unless it is negative.
pub fn arrival(at_ms: u64, event_ms: i64, rows: u32, watermark_ms: i64) -> Arrival {
    Arrival {
        at: ProcessingTime(at_ms * MS),
        event_time: EventTime(event_ms),
        rows,
        bytes: u64::from(rows) * 100,
        watermark: (watermark_ms >= 0).then_some(EventTime(watermark_ms)),
    }
}

pub fn cost(fixed_ms: f64, per_row_ms: f64, watermark_ms: f64) -> Cost {
    Cost { fixed_ns: fixed_ms * 1e6, per_row_ns: per_row_ms * 1e6, watermark_ns: watermark_ms * 1e6 }
}

pub fn rows(selectivity: f64) -> StageKind {
    StageKind::Rows { selectivity }
}

pub fn window(fire_per_row_ms: f64) -> StageKind {
    StageKind::Window {
        selectivity: 1.0,
        rows_max: f64::INFINITY,
        fire_per_row_ns: fire_per_row_ms * 1e6,
        state_row_bytes: 10,
    }
}

pub fn tumbling(size_ms: i64) -> Option<WindowShape> {
    Some(WindowShape { size_ms, slide_ms: size_ms, end_ms: Some(0) })
}

/// A query under construction.
pub struct Drawn(pub QueryModel);

pub fn query(name: &str, target_ms: u64) -> Drawn {
    let target = LatencyTarget::new(Duration::from_millis(target_ms)).unwrap();
    let settings = QuerySettings { latency_target: target, ..QuerySettings::named(name) };
    let dataflow = Dataflow::new(settings);
    Drawn(QueryModel { dataflow, feeds: vec![], deployed: ProcessingTime::ZERO })
}

impl Drawn {
    pub fn node(
        self,
        name: &str,
        parallelism: usize,
        inputs: &[(usize, Partitioning)],
        kind: StageKind,
        cost: Cost,
        window: Option<WindowShape>,
    ) -> Drawn {
        self.stage(name, parallelism, inputs, Stage::new(kind, cost, 100), window)
    }

    pub fn stage(
        mut self,
        name: &str,
        parallelism: usize,
        inputs: &[(usize, Partitioning)],
        stage: Stage,
        window: Option<WindowShape>,
    ) -> Drawn {
        let inputs = inputs
            .iter()
            .map(|(from, partitioning)| Input { from: NodeId(*from), partitioning: partitioning.clone() });
        let node = Node { name: name.into(), parallelism, inputs: inputs.collect(), window, stage };
        self.0.dataflow.push(node).unwrap();
        self
    }

    /// A source of node 0 … and whatever comes forward, one after the other.
    pub fn chain(self, stages: &[(&str, StageKind, Cost, Option<WindowShape>)]) -> Drawn {
        let mut drawn = self;
        for (name, kind, cost, window) in stages {
            let last = drawn.0.dataflow.nodes().len();
            let inputs: Vec<_> =
                last.checked_sub(1).map(|l| (l, Partitioning::Forward)).into_iter().collect();
            drawn = drawn.node(name, 1, &inputs, kind.clone(), *cost, *window);
        }
        drawn
    }

    pub fn feed(mut self, node: usize, instance: usize, arrivals: &[Arrival]) -> Drawn {
        let arrivals = Box::new(Listed(arrivals.iter().copied().collect()));
        self.0.feeds.push(Feed { node: NodeId(node), instance, arrivals });
        self
    }
}

pub fn workload(queries: Vec<Drawn>) -> Workload {
    Workload { name: "drawn".into(), queries: queries.into_iter().map(|drawn| drawn.0).collect() }
}
