use laxity_graph::{NodeId, QueryId};
use laxity_workload::Delay;

/// Machines and the network between them.
#[derive(Debug)]
pub struct Cluster {
    /// How many machines, each with a scheduler of its own. 0 counts as 1.
    pub nodes: usize,
    /// Cores of each. 0 counts as 1.
    pub cores_per_node: usize,
    /// How long a message travels between two machines. Messages of one channel do not overtake one another.
    pub network: Delay,
    /// Who runs where.
    pub placement: Placement,
}

/// Which machine runs an operator instance.
pub enum Placement {
    /// All of a query on one machine; queries are dealt in turn.
    Queries,
    /// Operator instances are dealt in turn: neighbours in a query are on different machines.
    Operators,
    /// As told: query, node of its dataflow, instance. Taken modulo the number of machines.
    By(Box<dyn Fn(QueryId, NodeId, usize) -> usize>),
}

impl Cluster {
    /// One machine.
    pub fn one(cores: usize) -> Cluster {
        Cluster { nodes: 1, cores_per_node: cores, network: Delay::NONE, placement: Placement::Queries }
    }

    /// Several machines with whole queries on each.
    pub fn of(nodes: usize, cores_per_node: usize) -> Cluster {
        Cluster { nodes, cores_per_node, network: Delay::NONE, placement: Placement::Queries }
    }

    pub(crate) fn machines(&self) -> usize {
        self.nodes.max(1)
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores_per_node.max(1)
    }
}

impl Placement {
    /// The machine of an instance; `operator` counts all instances of all queries.
    pub(crate) fn machine(
        &self,
        machines: usize,
        query: QueryId,
        node: NodeId,
        instance: usize,
        operator: usize,
    ) -> usize {
        match self {
            Placement::Queries => query.index() % machines,
            Placement::Operators => operator % machines,
            Placement::By(place) => place(query, node, instance) % machines,
        }
    }
}

impl std::fmt::Debug for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Placement::Queries => "Queries",
            Placement::Operators => "Operators",
            Placement::By(_) => "By",
        })
    }
}
