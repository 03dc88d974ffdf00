//! The scheduler core, sans-I/O: who runs next, and for how long.
//!
//! Three verbs, used the same way by threads and simulator: `on_*` says what happened,
//! [`Scheduler::next`] says what to do, [`Scheduler::next_timeout`] says when to ask again. Time and
//! randomness are arguments. Start with [`Scheduler`]; a new policy at [`Rank`].
//!
//! Not here: rows, threads, clocks, back-pressure. A message's body is the driver's and never looked at.

mod backlog;
mod config;
mod context;
mod estimate;
mod exchange;
mod ladder;
mod lateness;
mod mailbox;
mod memory;
mod message;
mod policy;
mod ranks;
mod recipe;
mod run_queue;
mod scheduler;
mod shards;
mod shed;
mod snapshot;
mod stream;
mod unit;

pub use backlog::{Backlog, QueryBacklog};
pub use config::Config;
pub use context::MessageContext;
pub use estimate::{CallCost, CostModel, Frontier, Selectivity, SwmEstimator, SwmForecast, normal};
pub use exchange::{CostReport, QueuedCost, RemoteCost, StreamReport, WayCost};
pub use ladder::{Ladder, Spells};
pub use lateness::{Cause, Lateness, Parts, Stamps};
pub use memory::{MemoryMode, Releases};
pub use message::{Grant, Message, OperatorSpec, QuerySpec, RunReport, Work};
pub use policy::{
    By, Composition, Cycled, Decorator, Dispatch, Event, Needs, Periodic, Perturbed, Plan, Rank, Reads,
    Scale, Ties, Told, Train, Traversal, WaitBound, rank_all, rank_heads, rank_operators, rank_queries,
};
pub use ranks::{CORE, Edf, Fcfs, Fifo, Laxity, Llf, SIGMA};
pub use recipe::{
    Catalogue, Fault, Narrowing, Parameters, PlanEntry, PolicyDescription, Preset, RankEntry, RankRecipe,
    Recipe, UnknownPolicy, format_duration,
};
pub use scheduler::Scheduler;
pub use shards::{Address, CROWD, Outlook, Placement, Shard, Shards, Top};
pub use shed::{LeavesOut, Relief, ShedConfig, Shedder};
pub use snapshot::{HeadSnapshot, Memory, OperatorSnapshot, QuerySnapshot, Snapshot, Waiting};
pub use stream::{StreamSnapshot, Sweeping};
pub use unit::Unit;
