//! Shorthand in which the modelled queries of this crate are written.

use laxity_graph::{Dataflow, DataflowError, Input, Node, NodeId, Partitioning, QuerySettings, WindowShape};

use crate::{Cost, Sleep, Stage, StageKind};

/// Writes a modelled query down, node by node.
#[derive(Debug)]
pub(crate) struct Flow {
    dataflow: Dataflow<Stage>,
    row_bytes: u32,
}

/// How a window answers: see [`StageKind::Window`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Firing {
    pub shape: WindowShape,
    pub selectivity: f64,
    pub rows_max: f64,
    pub fire_per_row_ns: f64,
    pub state_row_bytes: u32,
}

impl Firing {
    /// A window that aggregates as rows come and answers with a row per group.
    pub fn groups(shape: WindowShape, groups: f64) -> Firing {
        Firing { shape, selectivity: 1.0, rows_max: groups, fire_per_row_ns: 0.0, state_row_bytes: 0 }
    }
}

impl Flow {
    pub fn new(settings: QuerySettings, row_bytes: u32) -> Flow {
        Flow { dataflow: Dataflow::new(settings), row_bytes }
    }

    /// Rows sent on from here have so many bytes.
    pub fn row_bytes(&mut self, row_bytes: u32) {
        self.row_bytes = row_bytes;
    }

    pub fn source(&mut self, name: &str, parallelism: usize, cost: Cost) -> Result<NodeId, DataflowError> {
        self.push(name, parallelism, vec![], None, cost, StageKind::Source)
    }

    pub fn rows(
        &mut self,
        name: &str,
        parallelism: usize,
        inputs: Vec<Input>,
        cost: Cost,
        selectivity: f64,
    ) -> Result<NodeId, DataflowError> {
        self.push(name, parallelism, inputs, None, cost, StageKind::Rows { selectivity })
    }

    pub fn window(
        &mut self,
        name: &str,
        parallelism: usize,
        inputs: Vec<Input>,
        cost: Cost,
        firing: Firing,
    ) -> Result<NodeId, DataflowError> {
        let Firing { shape, selectivity, rows_max, fire_per_row_ns, state_row_bytes } = firing;
        let kind = StageKind::Window { selectivity, rows_max, fire_per_row_ns, state_row_bytes };
        self.push(name, parallelism, inputs, Some(shape), cost, kind)
    }

    pub fn sink(&mut self, name: &str, inputs: Vec<Input>, cost: Cost) -> Result<NodeId, DataflowError> {
        self.sinks(name, 1, inputs, cost)
    }

    pub fn sinks(
        &mut self,
        name: &str,
        parallelism: usize,
        inputs: Vec<Input>,
        cost: Cost,
    ) -> Result<NodeId, DataflowError> {
        self.push(name, parallelism, inputs, None, cost, StageKind::Sink)
    }

    /// A stateless stage of one instance that reads others of one instance, with a cost per row.
    pub fn step(
        &mut self,
        name: &str,
        inputs: &[NodeId],
        per_row_ns: f64,
        selectivity: f64,
    ) -> Result<NodeId, DataflowError> {
        let inputs = inputs.iter().map(|&from| forward(from)).collect();
        self.rows(name, 1, inputs, Cost::per_row(per_row_ns), selectivity)
    }

    /// A stateless stage of one instance that reads another and sleeps now and then.
    pub fn sleeper(
        &mut self,
        name: &str,
        from: NodeId,
        cost: Cost,
        selectivity: f64,
        sleep: Sleep,
    ) -> Result<NodeId, DataflowError> {
        let stage = Stage::new(StageKind::Rows { selectivity }, cost, self.row_bytes);
        let stage = Stage { sleep: Some(sleep), ..stage };
        let inputs = vec![forward(from)];
        self.dataflow.push(Node { name: name.into(), parallelism: 1, inputs, window: None, stage })
    }

    pub fn finish(self) -> Dataflow<Stage> {
        self.dataflow
    }

    fn push(
        &mut self,
        name: &str,
        parallelism: usize,
        inputs: Vec<Input>,
        window: Option<WindowShape>,
        cost: Cost,
        kind: StageKind,
    ) -> Result<NodeId, DataflowError> {
        let stage = Stage::new(kind, cost, self.row_bytes);
        self.dataflow.push(Node { name: name.into(), parallelism, inputs, window, stage })
    }
}

/// Instance i to instance i.
pub(crate) fn forward(from: NodeId) -> Input {
    Input { from, partitioning: Partitioning::Forward }
}

/// By key. Costs do not depend on which column it is.
pub(crate) fn by_key(from: NodeId) -> Input {
    Input { from, partitioning: Partitioning::Hash(vec![0]) }
}

/// Everything to the one instance.
pub(crate) fn gather(from: NodeId) -> Input {
    Input { from, partitioning: Partitioning::Gather }
}

/// Whole batches in turn.
pub(crate) fn in_turn(from: NodeId) -> Input {
    Input { from, partitioning: Partitioning::RoundRobin }
}

/// Windows of `size_ms`, one every `slide_ms`.
pub(crate) fn sliding(size_ms: i64, slide_ms: i64) -> WindowShape {
    WindowShape { size_ms, slide_ms, end_ms: Some(0) }
}

/// Windows of `size_ms` one after another.
pub(crate) fn tumbling(size_ms: i64) -> WindowShape {
    sliding(size_ms, size_ms)
}
