//! From a dataflow to instances that are connected: numbers, channels, routes and outlets. Drivers differ in what a
//! part is made of alone.

use std::sync::Arc;

use laxity_graph::{Dataflow, NodeId, OperatorId, Partitioning};
use laxity_sched::OperatorSpec;

use crate::results::DueBy;
use crate::{Content, Instance, Outlet, Query, Route, Spread};

/// What a node of a dataflow does, as far as its instances need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes rows from outside; one instance.
    Source,
    /// Takes rows from other nodes.
    Operator,
    /// Lets rows out; no instance.
    Sink,
}

/// Makes the parts of a query out of the nodes of its dataflow.
pub trait Blueprint<S> {
    /// What rows and operators are.
    type Content: Content;
    /// Why a part cannot be made.
    type Error;

    /// What a node is.
    fn role(&self, stage: &S) -> Role;

    /// One copy of a source's or an operator's node.
    ///
    /// # Errors
    /// If it cannot be made.
    fn operator(
        &mut self,
        node: NodeId,
        stage: &S,
        instance: usize,
        parallelism: usize,
    ) -> Result<<Self::Content as Content>::Operator, Self::Error>;

    /// The outlet of a sink's node, which so many instances write to.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn outlet(&mut self, node: NodeId, stage: &S, writers: usize) -> Result<Arc<Outlet>, Self::Error>;

    /// Where late rows of this node go, which so many instances write; `None`: nowhere.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn late(&mut self, node: NodeId, writers: usize) -> Result<Option<LateWay<Self::Content>>, Self::Error>;

    /// How rows of a hashed edge are split.
    fn partitioner(&mut self, keys: &[usize], targets: usize) -> <Self::Content as Content>::Partitioner;
}

/// The way of late rows: out of the runtime, with this in the columns of their table.
pub type LateWay<C> = (Arc<Outlet>, <C as Content>::LateShape);

/// The parts of a query once its nodes are copied to instances.
pub struct Expanded<C: Content> {
    /// All of them, producers first.
    pub instances: Vec<Arc<Instance<C>>>,
    /// What the scheduler must know of them, in the same order.
    pub operators: Vec<OperatorSpec>,
    /// Where rows come in.
    pub sources: Vec<Source>,
    /// Where rows go out, for results and late rows.
    pub outlets: Vec<Arc<Outlet>>,
}

/// A place where a query takes rows in.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The node that says what it reads.
    pub node: NodeId,
    /// Its instance, which takes the rows by channel 0.
    pub operator: OperatorId,
    /// It is told the processing time as its watermark, which some operator of the query waits for.
    pub follows_processing_time: bool,
}

/// Makes the instances of a query: `first` is the id of the first of them, the others follow. With `record`, sources
/// keep what arrives.
///
/// # Errors
/// The first of the blueprint's.
pub fn expand<S, B: Blueprint<S>>(
    flow: &Dataflow<S>,
    query: &Arc<Query>,
    first: OperatorId,
    record: bool,
    blueprint: &mut B,
) -> Result<Expanded<B::Content>, B::Error> {
    query.due_by.get_or_init(|| DueBy::of(flow));
    // Ids first: a route names instances that are not made yet.
    let mut next_id = first.0;
    let mut ids: Vec<Vec<OperatorId>> = Vec::new();
    for node in flow.nodes() {
        let count = if blueprint.role(&node.stage) == Role::Sink { 0 } else { node.parallelism as u32 };
        ids.push((next_id..next_id + count).map(OperatorId).collect());
        next_id += count;
    }
    let channels: Vec<Vec<u16>> = (0..flow.nodes().len()).map(|node| flow.channels(NodeId(node))).collect();

    let mut expanded =
        Expanded { instances: Vec::new(), operators: Vec::new(), sources: Vec::new(), outlets: Vec::new() };
    let mut outlet_of: Vec<Option<Arc<Outlet>>> = vec![None; flow.nodes().len()];
    for (index, node) in flow.nodes().iter().enumerate() {
        if blueprint.role(&node.stage) == Role::Sink {
            let writers = node.inputs.iter().map(|input| flow.node(input.from).parallelism).sum();
            let outlet = blueprint.outlet(NodeId(index), &node.stage, writers)?;
            outlet_of[index] = Some(outlet.clone());
            expanded.outlets.push(outlet);
        }
    }

    let mut waits_for_time = false;
    for (index, node) in flow.nodes().iter().enumerate() {
        let role = blueprint.role(&node.stage);
        if role == Role::Sink {
            continue;
        }
        let late = blueprint.late(NodeId(index), node.parallelism)?;
        expanded.outlets.extend(late.iter().map(|(outlet, _)| outlet.clone()));
        for instance in 0..node.parallelism {
            let operator = blueprint.operator(NodeId(index), &node.stage, instance, node.parallelism)?;
            waits_for_time |= B::Content::waits_for_time(&operator);
            if role == Role::Source {
                let follows_processing_time = B::Content::follows_processing_time(&operator);
                let (node, operator) = (NodeId(index), ids[index][instance]);
                expanded.sources.push(Source { node, operator, follows_processing_time });
            }
            let mut routes = Vec::new();
            for (consumer, input, partitioning) in flow.consumers(NodeId(index)) {
                if let Some(outlet) = &outlet_of[consumer.0] {
                    routes.push(Route::Outlet(outlet.clone()));
                    continue;
                }
                let first = channels[consumer.0].iter().position(|&of| usize::from(of) == input);
                let own = if matches!(partitioning, Partitioning::Forward) { 0 } else { instance };
                let channel = (first.unwrap_or(0) + own) as u32;
                routes.push(route(partitioning, instance, &ids[consumer.0], channel, blueprint));
            }
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
                late.clone(),
                role == Role::Source,
                record,
            )));
        }
    }
    expanded.sources.iter_mut().for_each(|source| source.follows_processing_time &= waits_for_time);
    Ok(expanded)
}

fn route<S, B: Blueprint<S>>(
    partitioning: &Partitioning,
    instance: usize,
    consumers: &[OperatorId],
    channel: u32,
    blueprint: &mut B,
) -> Route<B::Content> {
    let (targets, spread) = match partitioning {
        Partitioning::Forward => (vec![consumers[instance]], Spread::All),
        Partitioning::Gather => (vec![consumers[0]], Spread::All),
        Partitioning::Hash(_) if consumers.len() == 1 => (consumers.to_vec(), Spread::All),
        Partitioning::Hash(columns) => {
            (consumers.to_vec(), Spread::Hash(blueprint.partitioner(columns, consumers.len())))
        }
        Partitioning::RoundRobin => {
            (consumers.to_vec(), Spread::RoundRobin { next: instance % consumers.len() })
        }
    };
    Route::Operator { targets, channel, spread }
}

fn upstream<S>(flow: &Dataflow<S>, node: usize, instance: usize, ids: &[Vec<OperatorId>]) -> Vec<OperatorId> {
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
