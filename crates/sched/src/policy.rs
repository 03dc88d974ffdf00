//! The seam: mechanism is in [`crate::Scheduler`], a policy is a [`Composition`] of four independent choices.
//!
//! | Part | Question | Type |
//! | --- | --- | --- |
//! | unit | what waits and is granted as one | [`Unit`] |
//! | rank | which unit is most urgent | [`Rank`] |
//! | traversal | which operator of the unit goes next | [`Traversal`] |
//! | train | when a worker looks up again | [`Train`] |
//!
//! How the policies of the papers map on to it:
//!
//! | Policy | unit | rank | traversal | train |
//! | --- | --- | --- | --- | --- |
//! | Cameo | operator | `llf`, `edf`, `sjf`: [`Rank::message`] | – | quantum |
//! | token shares (Cameo §5.4) | operator | `tokens`, at a source by [`Rank::join`]: the time of its next token, `+inf` without one, spent as a message [`starts`](Rank::starts); behind it by [`Rank::message`]: that token's time, found again by query and t_M | – | one message |
//! | Aurora, box at a time | operator | `rr`: [`Rank::join`] | – | fraction of the queue |
//! | Aurora, superbox | query | `rr`, or utility and slack per [`Rank::cycle`] | a [`Plan`]: min-cost, min-latency, min-memory | fraction 1 |
//! | Klink | query | slack per [`Rank::cycle`], 120 ms; the top n keep the n workers | by rank: the oldest message | quantum |
//! | EdgeWise | operator | `qs`: [`Rank::by_queue`] | – | 50 messages |
//! | HR, Chain | operator | [`Rank::cycle`] over costs and selectivities | – | quantum |
//! | Haren | operator | any, made anew per [`Rank::cycle`] by [`Periodic`] | – | 10 rows |

mod applications;
mod auto;
mod bucketed;
mod calendar;
mod chain;
mod demand;
mod edf;
mod fcfs;
mod fifo;
mod haren;
mod hr;
mod klink;
mod laxity;
mod llf;
mod memory;
mod min_cost;
mod min_latency;
mod min_memory;
mod parse;
mod parts;
mod perturbed;
mod presets;
mod qos;
mod qs;
mod random;
mod ranks;
mod rr;
mod sbox;
mod shed;
mod sjf;
mod spanner;
mod superbox;
mod tokens;

use std::fmt;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};

use crate::{CallCost, MessageContext, OperatorSnapshot, QuerySnapshot, Snapshot};

pub use auto::Auto;
pub use chain::Chain;
pub use edf::Edf;
pub use fcfs::Fcfs;
pub use fifo::Fifo;
pub use haren::Periodic;
pub use hr::HighestRate;
pub use klink::Klink;
pub(crate) use klink::Work;
pub use laxity::Laxity;
pub use llf::Llf;
pub use memory::ByMemory;
pub use min_cost::MinCost;
pub use min_latency::MinLatency;
pub use min_memory::MinMemory;
pub use parse::UnknownPolicy;
pub use perturbed::Perturbed;
pub use presets::{POLICY_NAMES, PolicyDescription, PolicyKind, policies};
pub use qos::Qos;
pub use qs::Qs;
pub use random::Random;
pub use rr::RoundRobin;
pub use sbox::Sbox;
pub use shed::{ShedConfig, Shedder};
pub use sjf::Sjf;
pub(crate) use spanner::Spanner;
pub use tokens::Tokens;

/// A policy: what waits, who is first, in which order inside, and for how long.
#[derive(Debug)]
pub struct Composition {
    /// What waits in the run queue and is granted to one worker as one.
    pub unit: Unit,
    /// Which unit is most urgent.
    pub rank: Box<dyn Rank>,
    /// Which operator inside the unit goes next.
    pub traversal: Traversal,
    /// When a worker looks whether another unit is more urgent.
    pub train: Train,
    /// Ignore what queries mean (Cameo §6.3, "topology only"): t_MF = t_M for every message.
    pub topology_only: bool,
}

impl Composition {
    /// Operators one by one under this rank, with the quantum of the configuration: Cameo's shape.
    pub fn of(rank: impl Rank + 'static) -> Composition {
        Composition {
            unit: Unit::Operator,
            rank: Box::new(rank),
            traversal: Traversal::ByRank,
            train: Train::Quantum,
            topology_only: false,
        }
    }
}

/// What waits and is granted as one. One worker holds a unit at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Every operator instance on its own.
    #[default]
    Operator,
    /// All operators of a query together (Aurora's superbox, Klink's query).
    Query,
    /// All operators of a query together, but one dispatch serves only the subtree that spans its so many most
    /// urgent ones (Aurora §4.1's top-k spanner). With a plan, the plan does; by rank, the most urgent go first
    /// anyway.
    Spanner(u32),
}

impl Unit {
    /// Units are queries, not operators.
    pub fn is_query(self) -> bool {
        self != Unit::Operator
    }
}

/// What differences between the priorities of a rank mean, where they become nice values or shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Differences.
    Linear,
    /// Ratios: the priority is minus the logarithm to come.
    Logarithmic,
    /// Nothing but their order.
    Order,
}

/// Order of the operators inside a unit.
#[derive(Debug)]
pub enum Traversal {
    /// The operator whose head is most urgent, chosen anew at every message.
    ByRank,
    /// A list made when a worker takes the unit, and again when it has come to the list's end.
    Planned(Box<dyn Plan>),
}

/// Makes the order in which one dispatch goes through a query's operators.
///
/// An operator may stand in it several times. Each time, it works off the messages that wait for it as its
/// turn begins; where none wait, its turn is skipped.
pub trait Plan: fmt::Debug + Send {
    /// The name it is asked for by.
    fn name(&self) -> &'static str {
        "plan"
    }

    /// Told before each [`plan`](Plan::plan): for whom and when.
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) {
        let _ = dispatch;
    }

    /// Appends the order to `order`, which is empty. `operators` are those of the unit, producers first.
    /// What it leaves out waits until the next plan; a plan without any ready operator is replaced by rank.
    fn plan(&mut self, operators: &[OperatorSnapshot], order: &mut Vec<OperatorId>);
}

/// What a plan may know beside the operators.
#[derive(Clone, Copy, Debug)]
pub struct Dispatch<'a> {
    /// When the worker takes the unit.
    pub now: ProcessingTime,
    /// The query that the unit is.
    pub query: &'a QuerySnapshot,
    /// What a grant costs beside its work.
    pub call: CallCost,
}

/// How much a worker does with a unit before it looks whether another is more urgent. It never has to leave
/// a unit that is still the most urgent, and it leaves one that has nothing more to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Train {
    /// One message.
    Message,
    /// So many messages.
    Messages(u64),
    /// As long as the quantum of the configuration since it took the unit.
    Quantum,
    /// So long since it took the unit.
    TimeNs(u64),
    /// So many rows.
    Rows(u64),
    /// This fraction, above 0 and at most 1, of the messages that waited for the unit when it took it.
    Fraction(f64),
    /// So much CPU time.
    CostNs(u64),
}

/// How urgent something is. Lower runs first.
///
/// Two kinds behind one trait. *Per message*: [`message`](Rank::message) is asked once, when a message is
/// enqueued. *Per cycle*: [`period_ns`](Rank::period_ns) is given, and [`cycle`](Rank::cycle) ranks all units
/// anew every period. Ranks by turn (fifo, rr, random) are the per-message kind that ignores the message and
/// decides when a unit joins the run queue.
///
/// # Contract
/// - Never NaN.
/// - Deterministic: randomness comes from the seed given by [`seed`](Rank::seed).
pub trait Rank: fmt::Debug + Send {
    /// The name it is asked for by.
    fn name(&self) -> &'static str;

    /// Its name with the parameters that make another one like it: `llf:sigma=100ms`.
    fn label(&self) -> String {
        self.name().to_owned()
    }

    /// How long a ready unit may wait under this rank. [`WaitBound::Ageing`] turns the core's guard on.
    fn wait_bound(&self) -> WaitBound;

    /// Priority of a message as it is enqueued.
    fn message(&mut self, context: &MessageContext) -> f64 {
        let _ = context;
        0.0
    }

    /// Whether an urgent message makes those that must run before it in its mailbox as urgent. Right where the
    /// priority is a deadline; wrong where it describes the next message alone (shortest job).
    fn inherits(&self) -> bool {
        false
    }

    /// Priority with which a unit joins the run queue, given that of its head.
    fn join(&mut self, unit: u32, head: f64) -> f64 {
        let _ = unit;
        head
    }

    /// A worker was given this unit at this priority.
    fn granted(&mut self, unit: u32, priority: f64) {
        let _ = (unit, priority);
    }

    /// Its priorities say whose turn it is among the units of one scheduler, and mean nothing beside those of another.
    fn by_turn(&self) -> bool {
        false
    }

    /// An operator is as urgent as much waits for it, at every moment, whatever its messages are: the priority of
    /// its head is minus its rows, each message counting as one more.
    fn by_queue(&self) -> bool {
        false
    }

    /// It wants to be told by [`starts`](Rank::starts).
    fn watches(&self) -> bool {
        false
    }

    /// A message of that query, ingested then, was granted; if by a source, by this one.
    fn starts(&mut self, query: QueryId, source: Option<OperatorId>, ingested: ProcessingTime) {
        let _ = (query, source, ingested);
    }

    /// It wants to be told by [`ran`](Rank::ran).
    fn accounts(&self) -> bool {
        false
    }

    /// An operator of that query ran so long; if a source, it took in so many rows.
    fn ran(&mut self, query: QueryId, source_rows: u32, cpu_ns: u64) {
        let _ = (query, source_rows, cpu_ns);
    }

    /// A query was removed, and its id and those of its operators may be given again: what is kept by them goes. What
    /// is made anew from every snapshot needs no telling.
    fn forget(&mut self, query: QueryId) {
        let _ = query;
    }

    /// What differences between priorities mean.
    fn scale(&self) -> Scale {
        Scale::Order
    }

    /// How units of equal priority are ordered.
    fn ties(&self) -> Ties {
        Ties::Arrival
    }

    /// `Some` for a rank per cycle.
    fn period_ns(&self) -> Option<u64> {
        None
    }

    /// Whether t_MF is when the watermark that closes a window is forecast, for all rows on their way to it. Else it
    /// is Cameo's: a line through the rows that the sources saw, and only in front of the window itself.
    fn awaits_watermarks(&self) -> bool {
        false
    }

    /// For a rank per message that also looks at the whole from time to time: how often. `None` for the others.
    fn review_period_ns(&self) -> Option<u64> {
        None
    }

    /// Looks at the whole. Where it answers true, every waiting unit is asked for again by
    /// [`join`](Rank::join).
    fn review(&mut self, snapshot: &Snapshot) -> bool {
        let _ = snapshot;
        false
    }

    /// Ranks every unit. `priorities` has one entry per unit ([`OperatorSnapshot::unit`]), each holding its
    /// last priority (0 at first).
    ///
    /// A rank per message need not write it: by default every unit gets the priority that
    /// [`message`](Rank::message) gives to the most urgent head in it, which is how the rank is had from a
    /// snapshot alone; a unit without messages gets the last place, +∞.
    fn cycle(&mut self, snapshot: &Snapshot, priorities: &mut [f64]) {
        rank_heads(self, snapshot, priorities);
    }

    /// Units whose priority the last cycle changed; `None`: any may have.
    fn moved(&self) -> Option<&[u32]> {
        None
    }

    /// Operators that the last cycle looked at; `None`: all. What a cycle costs.
    fn cycle_work(&self) -> Option<u64> {
        None
    }

    /// Told once, before anything else.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }
}

fn rank_heads<R: Rank + ?Sized>(rank: &mut R, snapshot: &Snapshot, priorities: &mut [f64]) {
    priorities.fill(f64::INFINITY);
    for operator in &snapshot.operators {
        let Some(context) = MessageContext::of_head(operator, snapshot) else { continue };
        let urgency = rank.message(&context);
        let priority = &mut priorities[operator.unit as usize];
        *priority = priority.min(urgency);
    }
}

/// Order among equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// Who joined the run queue first.
    Arrival,
    /// The lower id.
    Id,
}

/// How long a ready unit waits at most, where at most U units are ready, W workers run, and no grant runs longer
/// than G beyond the quantum Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitBound {
    /// Everyone else has one turn: ⌈U / W⌉ · (Q + G).
    Turns,
    /// Keys are instants: only work whose key is earlier goes before, so new work passes it until its key
    /// (t_MF + L at most) and none after.
    Deadline,
    /// None of its own; the core's guard gives the ageing bound plus four turns for every unit that aged before
    /// it and itself: one turn in four goes to the unit that waited longest, once that is too long.
    Ageing,
}
