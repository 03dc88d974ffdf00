//! The seam: mechanism is in [`crate::Scheduler`], a policy is a [`Composition`] of four independent choices.
//!
//! | Part | Question | Type |
//! | --- | --- | --- |
//! | unit | what waits and is granted as one | [`Unit`] |
//! | rank | which unit is most urgent | [`Rank`] |
//! | traversal | which operator of the unit goes next | [`Traversal`] |
//! | train | when a worker looks up again | [`Train`] |
//!
//! No policy is named here, and nothing that drives the core knows one by its name.

mod decorator;
mod needs;
mod periodic;
mod perturbed;
mod ranking;

use std::fmt;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};

use crate::{CallCost, MessageContext, OperatorSnapshot, QuerySnapshot, Snapshot, Unit};

pub use decorator::Decorator;
pub use needs::{By, Needs, Reads, Scale, Ties, Told, WaitBound};
pub use periodic::Periodic;
pub use perturbed::Perturbed;
pub use ranking::{rank_all, rank_heads, rank_operators, rank_queries};

/// A policy at work: what waits, who is first, in which order inside, and for how long. Belongs to one scheduler;
/// several are made from one [`crate::Recipe`].
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
/// What it goes by, and what it wants to be told, it declares ([`needs`](Rank::needs)); whoever drives it reads the
/// declaration and asks for nothing else.
///
/// - *By message*: [`message`](Rank::message) is asked once, as a message is enqueued.
/// - *By turn*: [`join`](Rank::join) is asked as a unit joins the run queue; what waits there does not matter.
/// - *By queue*: nothing is asked; the longest is first.
/// - *By cycle*: [`cycle`](Rank::cycle) ranks all units anew, every so often.
///
/// # Contract
/// - Never NaN.
/// - Deterministic: randomness comes from the seed given by [`seed`](Rank::seed).
/// - What it needs stays the same.
pub trait Rank: fmt::Debug + Send {
    /// What it goes by and wants to be told.
    fn needs(&self) -> Needs;

    /// Told once, before anything else.
    fn seed(&mut self, seed: u64) {
        let _ = seed;
    }

    /// Priority of a message as it is enqueued.
    fn message(&mut self, context: &MessageContext) -> f64 {
        let _ = context;
        0.0
    }

    /// Priority with which a unit joins the run queue, given that of its head. Not asked of ranks by cycle.
    fn join(&mut self, unit: u32, head: f64) -> f64 {
        let _ = unit;
        head
    }

    /// Something happened that it asked to be told ([`Needs::told`]), or a query is gone.
    fn on(&mut self, event: Event) {
        let _ = event;
    }

    /// Looks at the whole, where it is not by cycle and asked to ([`Needs::look_every_ns`]). Where it answers true, every
    /// waiting unit is asked for again by [`join`](Rank::join).
    fn review(&mut self, snapshot: &Snapshot) -> bool {
        let _ = snapshot;
        false
    }

    /// Queries whose work stands back behind that of others since the last look, because not all promises can be kept.
    fn standing_back(&self) -> &[QueryId] {
        &[]
    }

    /// Ranks every unit. `priorities` has one entry per unit ([`crate::OperatorSnapshot::unit`]), each holding its
    /// last priority (0 at first).
    ///
    /// A rank by message need not write it: by default every unit gets the priority that
    /// [`message`](Rank::message) gives to the most urgent head in it, which is how the rank is had from a
    /// snapshot alone; a unit without messages gets the last place, +∞.
    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        rank_heads(self, snapshot, priorities);
        Cycled::ALL
    }
}

/// Something happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A worker was given this unit at this priority.
    Granted {
        /// The unit.
        unit: u32,
        /// The priority.
        priority: f64,
    },
    /// A message of that query, ingested then, was granted; if by a source, by this one.
    Started {
        /// The query.
        query: QueryId,
        /// The source that it was granted to.
        source: Option<OperatorId>,
        /// t_M.
        ingested: ProcessingTime,
    },
    /// An operator of that query ran so long; if a source, it took in so many rows.
    Ran {
        /// The query.
        query: QueryId,
        /// The unit that the operator is or belongs to.
        unit: u32,
        /// Nothing else of that unit can run now.
        rests: bool,
        /// Rows from a source; 0 where the operator is none.
        source_rows: u32,
        /// CPU time.
        cpu_ns: u64,
    },
    /// A query was removed, and its id and those of its operators may be given again: what is kept by them goes. What
    /// is made anew from every snapshot needs no telling. Every rank is told.
    Removed {
        /// The query.
        query: QueryId,
    },
}

/// What a cycle changed, and how much it looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycled<'a> {
    /// Units whose priority it changed; `None`: any may have.
    pub moved: Option<&'a [u32]>,
    /// Operators that it looked at; `None`: all. What a cycle costs.
    pub looked_at: Option<u64>,
}

impl Cycled<'_> {
    /// All operators were looked at, and any unit may have another priority.
    pub const ALL: Cycled<'static> = Cycled { moved: None, looked_at: None };
}
