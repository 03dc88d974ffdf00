//! The scheduler core, sans-I/O: who runs next, and for how long.
//!
//! Three verbs, used the same way by threads, simulator and agent: `on_*` says what happened,
//! [`Scheduler::next`] says what to do, [`Scheduler::next_timeout`] says when to ask again. Time and
//! randomness are arguments. Start with [`Scheduler`]; a new policy starts at [`Rank`].
//!
//! Not here: rows, threads, clocks, back-pressure. A message's body is the driver's and never looked at.

mod config;
mod context;
mod estimate;
mod exchange;
mod lateness;
mod mailbox;
mod message;
mod policy;
mod run_queue;
mod scheduler;
mod shards;
mod snapshot;
mod stream;

pub use config::Config;
pub use context::MessageContext;
pub use estimate::{CallCost, CostModel, EpochDelays, Frontier, Selectivity, SwmEstimator, SwmForecast};
pub use exchange::{CostReport, Elsewhere, QueuedCost, StreamReport, WayCost};
pub use lateness::{Cause, Lateness, Parts, Stamps};
pub use message::{Grant, Message, OperatorSpec, QuerySpec, RunReport, Work};
pub use policy::{
    Auto, ByMemory, Chain, Composition, Dispatch, Edf, Fcfs, Fifo, HighestRate, Klink, Laxity, Llf, MinCost,
    MinLatency, MinMemory, POLICY_NAMES, Periodic, Perturbed, Plan, PolicyDescription, PolicyKind, Qos, Qs,
    Random, Rank, RoundRobin, Sbox, Scale, ShedConfig, Shedder, Sjf, Ties, Tokens, Train, Traversal, Unit,
    UnknownPolicy, WaitBound, policies,
};
pub use scheduler::Scheduler;
pub use shards::{Address, Outlook, Placement, Shard, Shards, Top};
pub use snapshot::{HeadSnapshot, Memory, OperatorSnapshot, QuerySnapshot, Snapshot};
pub use stream::{StreamSnapshot, Sweeping};
