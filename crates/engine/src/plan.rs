use std::sync::Arc;

use laxity_connect::{ConnectError, ScanSpec, SinkEnvironment, SinkSpec, open_sink};
use laxity_graph::{Dataflow, NodeId, OperatorId, Partitioning};
use laxity_operators::{HashPartitioner, InstanceContext, LateColumn, OperatorError, OperatorFactory, Stage};
use laxity_sched::OperatorSpec;

use crate::config::EngineConfig;
use crate::instance::Instance;
use crate::query::Query;
use crate::route::{LateRoute, Route, Spread};
use crate::sink_io::{SinkHandle, SinkPool};

/// One query, ready to run.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// The operators and how rows travel between them.
    pub dataflow: Dataflow<Stage<ScanSpec, SinkSpec>>,
    /// Where rows go that are too late for their window.
    pub late: Option<LatePlan>,
}

/// The late table of a query.
#[derive(Clone, Debug)]
pub struct LatePlan {
    /// The table.
    pub sink: SinkSpec,
    /// The windowed operator whose late rows it takes.
    pub node: NodeId,
    /// What each of its columns is filled with.
    pub columns: Vec<LateColumn>,
}

/// A query that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// A table could not be opened.
    #[error("query {query:?} cannot open its tables")]
    Connect {
        /// The query.
        query: String,
        /// Why.
        source: ConnectError,
    },
    /// An operator could not be built.
    #[error("query {query:?} cannot be built")]
    Operator {
        /// The query.
        query: String,
        /// Why.
        source: OperatorError,
    },
    /// Names identify queries in every table and report.
    #[error("there is already a query named {query:?}: give each its own SET 'pipeline.name'")]
    NameTaken {
        /// The name.
        query: String,
    },
    /// A plan that breaks the engine's rules. The planner's bug.
    #[error("query {query:?} has no valid plan: {message} (please report this)")]
    Plan {
        /// The query.
        query: String,
        /// The rule.
        message: String,
    },
}

/// The parts of a query once its nodes are copied to instances.
pub(crate) struct Expanded {
    pub instances: Vec<Arc<Instance>>,
    pub operators: Vec<OperatorSpec>,
    pub scans: Vec<ExpandedScan>,
    pub sinks: Vec<Arc<SinkHandle>>,
}

/// A source's end of a scan.
pub(crate) struct ExpandedScan {
    pub spec: ScanSpec,
    pub source: OperatorId,
    /// The source is told the processing time as its watermark.
    pub follows_processing_time: bool,
}

/// Makes the instances of a query: `first` is the id of the first of them.
pub(crate) fn expand(
    plan: &QueryPlan,
    query: &Arc<Query>,
    first: OperatorId,
    config: &EngineConfig,
    sinks: &Arc<SinkPool>,
    mut next_part: impl FnMut(&str) -> usize,
) -> Result<Expanded, SubmitError> {
    let flow = &plan.dataflow;
    let name = || flow.settings.name.clone();
    let invalid = |message: String| SubmitError::Plan { query: name(), message };
    let mut open = |spec: &SinkSpec, writers: usize, is_result: bool| {
        let environment = SinkEnvironment { part: next_part(&spec.table.name) };
        let sink =
            open_sink(spec, &environment).map_err(|source| SubmitError::Connect { query: name(), source })?;
        Ok(sinks.add(query.clone(), spec.table.schema.clone(), sink, writers, is_result))
    };

    // Ids first: a route names instances that are not made yet.
    let mut next_id = first.0;
    let mut ids: Vec<Vec<OperatorId>> = Vec::new();
    for node in flow.nodes() {
        let count = if matches!(node.stage, Stage::Sink(_)) { 0 } else { node.parallelism as u32 };
        ids.push((next_id..next_id + count).map(OperatorId).collect());
        next_id += count;
    }
    let channels: Vec<Vec<u16>> = (0..flow.nodes().len()).map(|node| flow.channels(NodeId(node))).collect();

    let mut expanded =
        Expanded { instances: Vec::new(), operators: Vec::new(), scans: Vec::new(), sinks: Vec::new() };
    let mut sink_handles: Vec<Option<Arc<SinkHandle>>> = vec![None; flow.nodes().len()];
    for (index, node) in flow.nodes().iter().enumerate() {
        if let Stage::Sink(spec) = &node.stage {
            let writers = node.inputs.iter().map(|input| flow.node(input.from).parallelism).sum();
            let handle = open(spec, writers, true)?;
            sink_handles[index] = Some(handle.clone());
            expanded.sinks.push(handle);
        }
    }
    let late_sink = match &plan.late {
        Some(late) => {
            let handle = open(&late.sink, flow.node(late.node).parallelism, false)?;
            expanded.sinks.push(handle.clone());
            Some((late, handle))
        }
        None => None,
    };

    for (index, node) in flow.nodes().iter().enumerate() {
        let factory: &OperatorFactory = match &node.stage {
            Stage::Sink(_) => continue,
            Stage::Operator(factory) => factory,
            Stage::Source { operator, .. } => {
                if node.parallelism != 1 {
                    return Err(invalid(format!(
                        "source {:?} has {} instances",
                        node.name, node.parallelism
                    )));
                }
                operator
            }
        };
        for instance in 0..node.parallelism {
            let context =
                InstanceContext { instance, parallelism: node.parallelism, batch_rows: config.batch_rows };
            let operator =
                factory.make(&context).map_err(|source| SubmitError::Operator { query: name(), source })?;
            if let Stage::Source { scan, .. } = &node.stage {
                expanded.scans.push(ExpandedScan {
                    spec: scan.clone(),
                    source: ids[index][0],
                    follows_processing_time: operator.follows_processing_time(),
                });
            }
            let mut routes = Vec::new();
            for (consumer, input, partitioning) in flow.consumers(NodeId(index)) {
                if let Some(sink) = &sink_handles[consumer.0] {
                    routes.push(Route::Sink(sink.clone()));
                    continue;
                }
                let first = channels[consumer.0].iter().position(|&of| usize::from(of) == input);
                let own = if matches!(partitioning, Partitioning::Forward) { 0 } else { instance };
                let channel = (first.unwrap_or(0) + own) as u32;
                routes.push(route(partitioning, instance, &ids[consumer.0], channel));
            }
            let late = late_sink
                .as_ref()
                .filter(|(late, _)| late.node.0 == index)
                .map(|(late, sink)| LateRoute { sink: sink.clone(), columns: late.columns.clone() });
            let id = ids[index][instance];
            let label = if node.parallelism == 1 {
                node.name.clone()
            } else {
                format!("{} ({}/{})", node.name, instance + 1, node.parallelism)
            };
            let input_of_channel = channels[index].clone();
            expanded.operators.push(OperatorSpec {
                id,
                query: query.id,
                upstream: upstream(flow, index, instance, &ids),
                window: node.window,
                channels: input_of_channel.len() as u32,
            });
            expanded.instances.push(Arc::new(Instance::new(
                id,
                (index, instance),
                label,
                query.clone(),
                operator,
                input_of_channel,
                routes,
                late,
                matches!(node.stage, Stage::Source { .. }),
                config.record,
            )));
        }
    }
    Ok(expanded)
}

fn route(partitioning: &Partitioning, instance: usize, consumers: &[OperatorId], channel: u32) -> Route {
    let (targets, spread) = match partitioning {
        Partitioning::Forward => (vec![consumers[instance]], Spread::All),
        Partitioning::Gather => (vec![consumers[0]], Spread::All),
        Partitioning::Hash(_) if consumers.len() == 1 => (consumers.to_vec(), Spread::All),
        Partitioning::Hash(columns) => {
            (consumers.to_vec(), Spread::Hash(HashPartitioner::new(columns.clone(), consumers.len())))
        }
        Partitioning::RoundRobin => {
            (consumers.to_vec(), Spread::RoundRobin { next: instance % consumers.len() })
        }
    };
    Route::Operator { targets, channel, spread }
}

fn upstream(
    flow: &Dataflow<Stage<ScanSpec, SinkSpec>>,
    node: usize,
    instance: usize,
    ids: &[Vec<OperatorId>],
) -> Vec<OperatorId> {
    flow.nodes()[node]
        .inputs
        .iter()
        .flat_map(|input| match input.partitioning {
            Partitioning::Forward => &ids[input.from.0][instance..=instance],
            _ => &ids[input.from.0][..],
        })
        .copied()
        .collect()
}
