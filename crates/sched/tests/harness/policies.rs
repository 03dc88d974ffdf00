use laxity_graph::OperatorId;
use laxity_sched::{
    Composition, OperatorSnapshot, POLICY_NAMES, Plan, Rank, Snapshot, Train, Traversal, Unit, WaitBound,
};

/// A policy under test, and how the model ranks for it.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub name: &'static str,
    make: Make,
    pub oracle: Oracle,
}

type Make = fn(&str) -> Composition;

/// What the model predicts of the picks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Oracle {
    /// The unit of least key.
    Key(Key),
    /// Cyclic by id.
    Cyclic,
    /// Nothing but the invariants.
    None,
}

/// The key of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key {
    Laxity,
    Deadline,
    Cost,
    Ingestion,
    /// All equal: order of arrival at the run queue.
    Equal,
}

impl Policy {
    pub fn all() -> Vec<Policy> {
        let parse: Make = |name| name.parse().expect("a listed name");
        let mut all: Vec<Policy> = POLICY_NAMES
            .iter()
            .map(|&name| {
                let oracle = match name {
                    "laxity" => Oracle::None,
                    "llf" => Oracle::Key(Key::Laxity),
                    "edf" => Oracle::Key(Key::Deadline),
                    "sjf" => Oracle::Key(Key::Cost),
                    "fcfs" => Oracle::Key(Key::Ingestion),
                    "fifo" => Oracle::Key(Key::Equal),
                    "rr" => Oracle::Cyclic,
                    "random" => Oracle::None,
                    _ => panic!("how does {name} rank?"),
                };
                Policy { name, make: parse, oracle }
            })
            .collect();
        all.push(Policy { name: "llf:topology-only", make: parse, oracle: Oracle::Key(Key::Laxity) });
        let own: [(&'static str, Make); 6] = [
            ("llf over windows", |_| Composition::of(laxity_sched::Llf)),
            ("longest queue per cycle", |_| Composition::of(LongestQueue)),
            ("query by laxity, trains of rows", |_| Composition {
                unit: Unit::Query,
                train: Train::Rows(200),
                ..Composition::of(laxity_sched::Llf)
            }),
            ("superbox, producers last", |_| Composition {
                unit: Unit::Query,
                train: Train::Fraction(0.5),
                traversal: Traversal::Planned(Box::new(ConsumersFirst)),
                ..Composition::of(laxity_sched::RoundRobin::default())
            }),
            ("query per cycle, trains of cost", |_| Composition {
                unit: Unit::Query,
                train: Train::CostNs(5_000),
                ..Composition::of(LongestQueue)
            }),
            ("message by message", |_| Composition {
                train: Train::Message,
                ..Composition::of(laxity_sched::Fifo)
            }),
        ];
        all.extend(own.map(|(name, make)| Policy { name, make, oracle: Oracle::None }));
        all
    }

    pub fn composition(&self) -> Composition {
        (self.make)(self.name)
    }

    pub fn inherits(&self) -> bool {
        self.composition().rank.inherits()
    }
}

/// The smallest rank per cycle: the unit with most rows queued goes first (QS).
#[derive(Debug)]
pub struct LongestQueue;

pub const CYCLE_NS: u64 = 10_000;

impl Rank for LongestQueue {
    fn name(&self) -> &'static str {
        "longest-queue"
    }

    fn wait_bound(&self) -> WaitBound {
        WaitBound::Ageing
    }

    fn period_ns(&self) -> Option<u64> {
        Some(CYCLE_NS)
    }

    fn cycle(&mut self, snapshot: &Snapshot, priorities: &mut [f64]) {
        priorities.fill(0.0);
        let by_query = priorities.len() <= snapshot.queries.len().max(crate::world::QUERIES as usize);
        for operator in &snapshot.operators {
            let unit = if by_query { operator.query.index() } else { operator.id.index() };
            priorities[unit] -= operator.queued_rows as f64;
        }
    }
}

/// A plan that empties a query from the sink upwards: every operator once, post-order.
#[derive(Debug)]
struct ConsumersFirst;

impl Plan for ConsumersFirst {
    fn plan(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>) {
        order.extend(operators.iter().rev().map(|operator| operator.id));
    }
}
