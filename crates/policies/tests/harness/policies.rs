//! Which policies the harness runs, and how much of each one's picks the model can predict.

use std::collections::BTreeMap;

use laxity_graph::OperatorId;
use laxity_policies::{RoundRobin, names, recipe};
use laxity_sched::{
    Composition, Cycled, Dispatch, Fifo, Needs, OperatorSnapshot, Plan, Rank, Recipe, Snapshot, Train,
    Traversal, Unit,
};

use crate::literal;
use crate::weighted_fair::WeightedFair;

/// A policy under test, and how the model ranks for it.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What it is parsed from, or a name for what cannot be.
    pub name: String,
    make: Make,
    pub oracle: Oracle,
}

type Make = fn(&str) -> Composition;

/// What the model predicts of the picks.
#[derive(Clone, Copy, Debug)]
pub enum Oracle {
    /// The unit of least key.
    Key(Key),
    /// The longest queue.
    Queue,
    /// The order of the last cycle, which began so many ns after the one before it.
    Cycle(Literal, u64),
    /// Cyclic by id.
    Cyclic,
    /// The least pass, with a quantum of so many ns.
    Stride(u64),
    /// Nothing but the invariants.
    None,
}

/// Priorities by operator id, written down without a thought for speed.
pub type Literal = fn(&Snapshot) -> BTreeMap<u32, f64>;

/// The key of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key {
    Laxity,
    Deadline,
    Target,
    Cost,
    Ingestion,
    /// All equal: order of arrival at the run queue.
    Equal,
}

/// What stands in texts below as `@9us`: some cycles begin in every run.
pub const CYCLE_NS: u64 = 9_000;

/// Policies by text whose picks are predicted one by one.
const PREDICTED: [(&str, Oracle); 36] = [
    ("llf", Oracle::Key(Key::Laxity)),
    ("llf:topology-only", Oracle::Key(Key::Laxity)),
    ("edf", Oracle::Key(Key::Deadline)),
    // What is left of the default without what it gives up: t_MF + L.
    ("laxity:forecasts=off:overload=off:memory=off", Oracle::Key(Key::Target)),
    ("laxity:overload=off", Oracle::Key(Key::Target)),
    ("sjf", Oracle::Key(Key::Cost)),
    ("fcfs", Oracle::Key(Key::Ingestion)),
    ("fifo", Oracle::Key(Key::Equal)),
    ("rr", Oracle::Cyclic),
    ("qs", Oracle::Queue),
    ("edgewise", Oracle::Queue),
    ("haren", Oracle::Cycle(literal::queue, 50_000_000)),
    ("aurora-baat", Oracle::Cyclic),
    ("rank=llf,train=one", Oracle::Key(Key::Laxity)),
    ("rank=edf,train=messages:2", Oracle::Key(Key::Deadline)),
    ("rank=sjf,train=time:2us", Oracle::Key(Key::Cost)),
    ("rank=fcfs,train=fraction:0.5", Oracle::Key(Key::Ingestion)),
    ("rank=fifo,train=cost:3us", Oracle::Key(Key::Equal)),
    ("rank=fifo,train=one", Oracle::Key(Key::Equal)),
    ("rank=rr,train=rows:200", Oracle::Cyclic),
    ("rank=qs,train=rows:200", Oracle::Queue),
    ("rank=qs,train=all", Oracle::Queue),
    ("rank=qs@9us", Oracle::Cycle(literal::queue, CYCLE_NS)),
    ("rank=fcfs@9us", Oracle::Cycle(literal::ingestion, CYCLE_NS)),
    ("rank=llf@9us", Oracle::Cycle(literal::laxity, CYCLE_NS)),
    ("rank=edf@9us,train=one", Oracle::Cycle(literal::deadline, CYCLE_NS)),
    ("rank=sjf@9us", Oracle::Cycle(literal::cost, CYCLE_NS)),
    ("rank=hr@9us", Oracle::Cycle(literal::best_rate, CYCLE_NS)),
    ("rank=hr:global@9us", Oracle::Cycle(literal::global_rate, CYCLE_NS)),
    ("jet", Oracle::Cyclic),
    ("rank=stride", Oracle::Stride(1_000_000)),
    ("rank=stride:200ns", Oracle::Stride(200)),
    ("rank=stride:1us,train=messages:2", Oracle::Stride(1_000)),
    ("rank=alap", Oracle::Cycle(literal::latest_start, 10_000_000)),
    ("rank=chain@9us", Oracle::Cycle(literal::chain, CYCLE_NS)),
    ("rank=chain@9us,train=messages:3", Oracle::Cycle(literal::chain, CYCLE_NS)),
];

const UNITS: [&str; 3] = ["operator", "query", "spanner:2"];
const RANKS: [&str; 25] = [
    "laxity",
    "llf",
    "llf:sigma=1us",
    "edf:topology-only",
    "sjf",
    "tokens",
    "tokens:1000",
    "fcfs",
    "qs",
    "qs@9us",
    "laxity@9us",
    "hr@9us",
    "hr:global@9us",
    "chain@9us",
    "qos@9us",
    "qos:8x8@9us",
    "klink@9us",
    "sbox@9us",
    "fifo",
    "rr",
    "stride:1us",
    "alap",
    "alap@9us",
    "random",
    "random@9us",
];
const TRAVERSALS: [&str; 5] = ["by-rank", "min-cost", "min-latency", "min-memory", "auto"];
const TRAINS: [&str; 8] =
    ["one", "messages:3", "rows:200", "fraction:0.5", "all", "quantum", "time:3us", "cost:5us"];

impl Policy {
    fn of_text(name: &str, oracle: Oracle) -> Policy {
        Policy {
            name: name.to_owned(),
            make: |name| recipe(name).expect("a listed policy").compose(),
            oracle,
        }
    }

    /// Every policy with a name, every one whose picks can be predicted, and some that no name leads to.
    pub fn all() -> Vec<Policy> {
        let mut all: Vec<Policy> =
            PREDICTED.iter().map(|(name, oracle)| Policy::of_text(name, *oracle)).collect();
        let predicted = |name: &str| PREDICTED.iter().any(|(known, _)| *known == name);
        let named = names().into_iter().filter(|name| !predicted(name));
        all.extend(named.map(|name| Policy::of_text(name, Oracle::None)));
        let own: [(&str, Make); 4] = [
            ("wfq", |_| Composition::of(WeightedFair::default())),
            ("llf over windows", |_| Composition::of(laxity_sched::Llf)),
            ("longest queue per cycle", |_| Composition::of(LongestQueue)),
            ("superbox, consumers first", |_| Composition {
                unit: Unit::Query,
                train: Train::Fraction(0.5),
                traversal: Traversal::Planned(Box::new(ConsumersFirst)),
                ..Composition::of(RoundRobin::default())
            }),
        ];
        all.extend(own.map(|(name, make)| Policy { name: name.to_owned(), make, oracle: Oracle::None }));
        all
    }

    /// How many compositions of the parts there are.
    pub const COMPOSITIONS: usize = UNITS.len() * RANKS.len() * TRAVERSALS.len() * TRAINS.len();

    /// One of them.
    pub fn composed(number: usize) -> Policy {
        let mut rest = number;
        let mut pick = |choices: &[&'static str]| {
            let choice = choices[rest % choices.len()];
            rest /= choices.len();
            choice
        };
        let (unit, rank, traversal, train) = (pick(&UNITS), pick(&RANKS), pick(&TRAVERSALS), pick(&TRAINS));
        let text = format!("unit={unit},rank={rank},traversal={traversal},train={train}");
        Policy::of_text(&text, Oracle::None)
    }

    pub fn composition(&self) -> Composition {
        (self.make)(&self.name)
    }

    pub fn is_predicted(&self) -> bool {
        !matches!(self.oracle, Oracle::None)
    }
}

/// The smallest rank per cycle, as somebody would write it first: the unit with most rows queued goes first.
#[derive(Debug)]
struct LongestQueue;

impl Rank for LongestQueue {
    fn needs(&self) -> Needs {
        Needs::by_cycle(CYCLE_NS)
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        priorities.fill(0.0);
        for operator in &snapshot.operators {
            priorities[operator.unit as usize] -= operator.queued_rows as f64;
        }
        Cycled::ALL
    }
}

/// A plan that empties a query from the sink upwards: every operator once.
#[derive(Debug)]
struct ConsumersFirst;

impl Plan for ConsumersFirst {
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) {
        assert!(!dispatch.query.operators.is_empty());
    }

    fn plan(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>) {
        order.extend(operators.iter().rev().map(|operator| operator.id));
    }
}

#[test]
fn every_composition_is_what_it_is_asked_for_by() {
    for number in 0..Policy::COMPOSITIONS {
        let policy = Policy::composed(number);
        let known = recipe(&policy.name).unwrap();
        assert_eq!(known.to_string(), policy.name);
        let again = recipe(known.name()).unwrap();
        assert_eq!(again, known, "by way of {}", known.name());
    }
    assert_eq!(Recipe::of("fifo", || Fifo), recipe("fifo").unwrap());
    assert_eq!(
        Recipe::of("longest-queue", || LongestQueue).to_string(),
        "unit=operator,rank=longest-queue,traversal=by-rank,train=quantum"
    );
}
