//! The graph that SQL compiles to, and that the engine and the simulator both run; how it is cut into parallel
//! instances follows from its edges.

use crate::{QuerySettings, WindowShape};

/// One query as a directed acyclic graph of operators, before parallel copies are made.
///
/// `S` is what a node does: a stage with Arrow operators for the engine, a cost for the simulator. Nodes
/// stand in topological order: every input of a node comes before it. That invariant is established by
/// [`Dataflow::push`] and cannot be broken afterwards.
#[derive(Clone, Debug)]
pub struct Dataflow<S> {
    /// Name, target and limits of the query.
    pub settings: QuerySettings,
    nodes: Vec<Node<S>>,
}

/// Index of a node in its dataflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// One logical operator.
#[derive(Clone, Debug)]
pub struct Node<S> {
    /// What a person reads in `explain` and in the live table.
    pub name: String,
    /// Number of parallel instances, at least 1.
    pub parallelism: usize,
    /// Inputs in the order the operator numbers them. Empty for a source.
    pub inputs: Vec<Input>,
    /// The window this operator closes, if it closes one.
    pub window: Option<WindowShape>,
    /// What the node does.
    pub stage: S,
}

/// One edge into a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The producing node.
    pub from: NodeId,
    /// How its rows are spread over the instances of the consumer.
    pub partitioning: Partitioning,
}

/// How rows travel from the instances of a producer to those of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// Instance i to instance i. Needs equal parallelism.
    Forward,
    /// By hash of these columns of the producer's output.
    Hash(Vec<usize>),
    /// Everything to instance 0. Needs a consumer of parallelism 1.
    Gather,
    /// Whole batches in turn.
    RoundRobin,
}

/// A dataflow that cannot be built. Our bug or a driver's, never a user's: SQL is checked before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataflowError {
    /// Parallelism must be positive.
    #[error("node {name:?} has no instances")]
    NoInstances {
        /// The node.
        name: String,
    },
    /// Inputs must come before the node.
    #[error("node {name:?} reads node {from}, which does not come before it")]
    NotBefore {
        /// The node.
        name: String,
        /// The missing input.
        from: usize,
    },
    /// Forward needs equal parallelism, gather a single consumer.
    #[error("node {name:?} with {consumers} instances cannot take {partitioning:?} from {producers}")]
    Partitioning {
        /// The node.
        name: String,
        /// The edge's partitioning.
        partitioning: Partitioning,
        /// Parallelism of the producer.
        producers: usize,
        /// Parallelism of the consumer.
        consumers: usize,
    },
}

impl<S> Dataflow<S> {
    /// An empty dataflow.
    pub fn new(settings: QuerySettings) -> Dataflow<S> {
        Dataflow { settings, nodes: Vec::new() }
    }

    /// Appends a node.
    ///
    /// # Errors
    /// If the node would break an invariant of the type.
    pub fn push(&mut self, node: Node<S>) -> Result<NodeId, DataflowError> {
        if node.parallelism == 0 {
            return Err(DataflowError::NoInstances { name: node.name });
        }
        for input in &node.inputs {
            let Some(producer) = self.nodes.get(input.from.0) else {
                return Err(DataflowError::NotBefore { name: node.name, from: input.from.0 });
            };
            let fits = match input.partitioning {
                Partitioning::Forward => producer.parallelism == node.parallelism,
                Partitioning::Gather => node.parallelism == 1,
                Partitioning::Hash(_) | Partitioning::RoundRobin => true,
            };
            if !fits {
                return Err(DataflowError::Partitioning {
                    partitioning: input.partitioning.clone(),
                    producers: producer.parallelism,
                    consumers: node.parallelism,
                    name: node.name,
                });
            }
        }
        self.nodes.push(node);
        Ok(NodeId(self.nodes.len() - 1))
    }

    /// All nodes, producers before consumers.
    pub fn nodes(&self) -> &[Node<S>] {
        &self.nodes
    }

    /// The node of that id.
    ///
    /// # Panics
    /// If the id is of another dataflow.
    pub fn node(&self, id: NodeId) -> &Node<S> {
        &self.nodes[id.0]
    }

    /// What the node of that id does.
    ///
    /// # Panics
    /// If the id is of another dataflow.
    pub fn stage_mut(&mut self, id: NodeId) -> &mut S {
        &mut self.nodes[id.0].stage
    }

    /// The nodes that read `id`, each with the number of the input they read it by.
    pub fn consumers(&self, id: NodeId) -> impl Iterator<Item = (NodeId, usize, &Partitioning)> {
        self.nodes.iter().enumerate().flat_map(move |(consumer, node)| {
            node.inputs
                .iter()
                .enumerate()
                .filter(move |(_, input)| input.from == id)
                .map(move |(number, input)| (NodeId(consumer), number, &input.partitioning))
        })
    }

    /// The input channels of each instance of a node, in order, by the number of the input they belong to: one from
    /// every instance of a producer, of a forward edge only the one that it reads. Without inputs there is one, from
    /// outside.
    ///
    /// # Panics
    /// If the id is of another dataflow.
    pub fn channels(&self, id: NodeId) -> Vec<u16> {
        let inputs = self.node(id).inputs.iter().enumerate();
        let channels = inputs.flat_map(|(number, input)| {
            let producers = match input.partitioning {
                Partitioning::Forward => 1,
                _ => self.node(input.from).parallelism,
            };
            std::iter::repeat_n(number as u16, producers)
        });
        let mut channels: Vec<u16> = channels.collect();
        if channels.is_empty() {
            channels.push(0);
        }
        channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, parallelism: usize, inputs: Vec<Input>) -> Node<()> {
        Node { name: name.into(), parallelism, inputs, window: None, stage: () }
    }

    fn edge(from: usize, partitioning: Partitioning) -> Input {
        Input { from: NodeId(from), partitioning }
    }

    #[test]
    fn push_keeps_producers_before_consumers() {
        let mut flow = Dataflow::new(QuerySettings::named("q"));
        let source = flow.push(node("source", 1, vec![])).unwrap();
        let window = flow.push(node("window", 2, vec![edge(0, Partitioning::Hash(vec![0]))])).unwrap();
        let consumers: Vec<_> = flow.consumers(source).map(|(id, input, _)| (id, input)).collect();
        assert_eq!(consumers, [(window, 0)]);
        assert_eq!(
            flow.push(node("orphan", 1, vec![edge(7, Partitioning::Forward)])),
            Err(DataflowError::NotBefore { name: "orphan".into(), from: 7 })
        );
    }

    #[test]
    fn a_channel_leads_from_each_instance_that_can_send() {
        let mut flow = Dataflow::new(QuerySettings::named("q"));
        flow.push(node("one", 1, vec![])).unwrap();
        flow.push(node("three", 3, vec![edge(0, Partitioning::RoundRobin)])).unwrap();
        let inputs = vec![
            edge(1, Partitioning::Forward),
            edge(1, Partitioning::Hash(vec![0])),
            edge(0, Partitioning::Hash(vec![0])),
        ];
        flow.push(node("join", 3, inputs)).unwrap();
        let channels = [0, 1, 2].map(|id| flow.channels(NodeId(id)));
        assert_eq!(channels, [vec![0], vec![0], vec![0, 1, 1, 1, 2]]);
    }

    #[test]
    fn push_refuses_edges_that_lose_rows() {
        let mut flow = Dataflow::new(QuerySettings::named("q"));
        flow.push(node("source", 1, vec![])).unwrap();
        for partitioning in [Partitioning::Forward, Partitioning::Gather] {
            let refused = flow.push(node("two", 2, vec![edge(0, partitioning)]));
            assert!(matches!(refused, Err(DataflowError::Partitioning { producers: 1, consumers: 2, .. })));
        }
        assert!(matches!(flow.push(node("none", 0, vec![])), Err(DataflowError::NoInstances { .. })));
    }
}
