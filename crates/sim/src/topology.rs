//! Who is where: instances, machines and the routes between them, under numbers of the whole simulation.

use std::ops::Range;

use laxity_graph::{NodeId, OperatorId, Partitioning, QueryId, WindowShape};
use laxity_workload::{Cost, QueryModel, Sleep, StageKind};

use crate::Cluster;

/// All queries, copied out to instances and placed on machines. Never changes while time passes.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// Those of queries, then those of tables where looks are scheduled.
    pub operators: Vec<Place>,
    pub queries: Vec<Range<u32>>,
    /// The place of the first table.
    pub first_table: u32,
    /// By machine: how many ids its scheduler has given.
    locals: Vec<u32>,
    routes: Vec<Route>,
    /// Input channels of all operators: how many tables by channel need.
    pub channels: usize,
    /// Some query has operators on several machines.
    pub spans: bool,
    /// Messages carry rows, so that operators say what comes out, and not stages.
    pub carries_rows: bool,
}

/// An operator instance: what it does and where it stands.
#[derive(Debug)]
pub(crate) struct Place {
    pub query: QueryId,
    pub target_ns: u64,
    /// As a person reads it: node and instance.
    pub name: String,
    pub machine: u32,
    /// Its id at the scheduler of its machine: dense there, but where queries span machines.
    pub local: OperatorId,
    pub kind: StageKind,
    pub cost: Cost,
    pub sleep: Option<Sleep>,
    pub row_bytes: u32,
    pub window: Option<WindowShape>,
    /// Instances that feed it, of all machines.
    pub upstream: Vec<u32>,
    /// Its input channels in tables by channel.
    pub channels: Range<u32>,
    routes: Range<u32>,
}

/// The way from one instance to the instances of a consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The first instance that this way leads to; the others follow.
    pub first: u32,
    pub targets: u32,
    /// The channel by which each of them hears this instance.
    pub channel: u32,
    /// Among all routes.
    pub number: u32,
}

impl Topology {
    pub fn new(queries: &[QueryModel], cluster: &Cluster) -> Topology {
        let mut topology = Topology { locals: vec![0; cluster.machines()], ..Topology::default() };
        for (index, query) in queries.iter().enumerate() {
            topology.add(QueryId(index as u32), query, cluster);
        }
        topology.spans = topology.queries.iter().any(|operators| {
            let mut machines = operators.clone().map(|operator| topology.operator(operator).machine);
            let first = machines.next();
            machines.any(|machine| Some(machine) != first)
        });
        if topology.spans {
            // Machines name operators to each other.
            for (operator, place) in topology.operators.iter_mut().enumerate() {
                place.local = OperatorId(operator as u32);
            }
        }
        topology.first_table = topology.operators.len() as u32;
        topology
    }

    /// A place for a table: it is a query of its own, behind all others.
    pub fn add_table(&mut self, machine: u32, target_ns: u64, name: String, cost: Cost) -> u32 {
        let place = self.operators.len() as u32;
        let local = &mut self.locals[machine as usize];
        let tables = place - self.first_table;
        let channel = self.channels as u32;
        self.channels += 1;
        self.operators.push(Place {
            query: QueryId(self.queries.len() as u32 + tables),
            target_ns,
            name,
            machine,
            local: OperatorId(if self.spans { place } else { *local }),
            kind: StageKind::Source,
            cost,
            sleep: None,
            row_bytes: 0,
            window: None,
            upstream: Vec::new(),
            channels: channel..channel + 1,
            routes: 0..0,
        });
        *local += 1;
        place
    }

    /// Looks at the table at that place have another target from now on.
    pub fn set_target(&mut self, place: u32, target_ns: u64) {
        self.operators[place as usize].target_ns = target_ns;
    }

    /// Which of the tables' places that is; `None` of an operator.
    pub fn table_number(&self, place: u32) -> Option<usize> {
        place.checked_sub(self.first_table).map(|number| number as usize)
    }

    /// Has no input on its own machine: rows enter the machine here.
    pub fn is_entry(&self, operator: u32) -> bool {
        let place = self.operator(operator);
        place.upstream.iter().all(|&above| self.operator(above).machine != place.machine)
    }

    pub fn operator(&self, operator: u32) -> &Place {
        &self.operators[operator as usize]
    }

    pub fn routes(&self, operator: u32) -> &[Route] {
        let range = &self.operators[operator as usize].routes;
        &self.routes[range.start as usize..range.end as usize]
    }

    pub fn route_count(&self) -> usize {
        self.routes.len()
    }

    /// The instance of a node; `None` if there is no such.
    pub fn instance(&self, query: usize, model: &QueryModel, node: NodeId, instance: usize) -> Option<u32> {
        let nodes = model.dataflow.nodes();
        if instance >= nodes.get(node.0)?.parallelism {
            return None;
        }
        let before: usize = nodes[..node.0].iter().map(|node| node.parallelism).sum();
        Some(self.queries[query].start + (before + instance) as u32)
    }

    fn add(&mut self, id: QueryId, query: &QueryModel, cluster: &Cluster) {
        let start = self.operators.len() as u32;
        let nodes = query.dataflow.nodes();
        let mut first = Vec::with_capacity(nodes.len());
        let mut next = start;
        for node in nodes {
            first.push(next);
            next += node.parallelism as u32;
        }
        for (index, node) in nodes.iter().enumerate() {
            let channels = query.dataflow.channels(NodeId(index)).len() as u32;
            for instance in 0..node.parallelism {
                let upstream = node.inputs.iter().flat_map(|input| {
                    let producers = first[input.from.0];
                    match input.partitioning {
                        Partitioning::Forward => producers + instance as u32..producers + instance as u32 + 1,
                        _ => producers..producers + query.dataflow.node(input.from).parallelism as u32,
                    }
                });
                let operator = self.operators.len();
                let machine =
                    cluster.placement.machine(cluster.machines(), id, NodeId(index), instance, operator);
                let local = OperatorId(self.locals[machine]);
                self.locals[machine] += 1;
                let routes = self.routes.len() as u32;
                self.add_routes(query, NodeId(index), instance as u32, &first);
                let channel = self.channels as u32;
                self.channels += channels as usize;
                self.operators.push(Place {
                    query: id,
                    target_ns: query.dataflow.settings.latency_target.ns(),
                    name: match node.parallelism {
                        1 => node.name.clone(),
                        copies => format!("{} ({}/{copies})", node.name, instance + 1),
                    },
                    machine: machine as u32,
                    local,
                    kind: node.stage.kind.clone(),
                    cost: node.stage.cost,
                    sleep: node.stage.sleep.clone(),
                    row_bytes: node.stage.row_bytes,
                    window: node.window,
                    upstream: upstream.collect(),
                    channels: channel..channel + channels,
                    routes: routes..self.routes.len() as u32,
                });
            }
        }
        self.queries.push(start..next);
    }

    fn add_routes(&mut self, query: &QueryModel, producer: NodeId, instance: u32, first: &[u32]) {
        for (consumer, input, partitioning) in query.dataflow.consumers(producer) {
            let node = query.dataflow.node(consumer);
            let channels = query.dataflow.channels(consumer);
            let before = channels.iter().take_while(|&&of| usize::from(of) < input).count() as u32;
            let targets = first[consumer.0];
            let (first, targets, channel) = match partitioning {
                Partitioning::Forward => (targets + instance, 1, before),
                Partitioning::Gather => (targets, 1, before + instance),
                Partitioning::Hash(_) | Partitioning::RoundRobin => {
                    (targets, node.parallelism as u32, before + instance)
                }
            };
            let number = self.routes.len() as u32;
            self.routes.push(Route { first, targets, channel, number });
        }
    }
}
