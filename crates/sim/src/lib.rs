//! The engine in virtual time: the same `laxity-runtime` and [`laxity_sched::Scheduler`] that the engine drives, with
//! machines, cores, networks, costs and faults that are numbers. Exact on a noisy machine, and at scales that no machine
//! here has. The same seed gives the same trace, byte for byte.
//!
//! Not here: policies (`sched`), what arrives (`workload`). A batch is a count and a time, and operators are costs; with
//! the feature `operators` they are real and have rows (`RowSimulation`). Read [`Simulation`] first, then [`Setup`] and
//! [`Outcome`].

pub mod bound;

mod account;
mod check;
mod cluster;
mod counted;
mod event;
mod fault;
mod feed;
mod machine;
mod modelled;
#[cfg(feature = "operators")]
mod operators;
mod order;
mod outcome;
mod queue;
mod run_clock;
mod scenario;
mod setup;
mod simulation;
mod sleep;
mod sources;
mod table;
mod threads;
mod topology;
mod watch;
mod window;
mod world;

pub use cluster::{Cluster, Placement};
pub use fault::{Fault, FaultKind};
#[cfg(feature = "operators")]
pub use operators::{RowArrival, RowOutcome, RowQuery, RowResult, RowSimulation};
pub use outcome::{Outcome, QueryOutcome, ResultRecord, Sample, Slice, Violation};
pub use scenario::Scenario;
pub use setup::{Cut, Driver, Heap, Keep, Overheads, Rounding, Setup, Switch};
pub use simulation::{Simulation, SimulationError};
pub use sources::{Decoding, FeedId, FrontMember, ScheduledSources, SharedFront, SharedTemplate, Sources};
pub use threads::{OsThreads, Renice};
