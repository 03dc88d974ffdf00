//! The agent: runs beside engines that know nothing of it, and has their threads scheduled by the ranks of `sched`
//! through what the operating system offers (Lachesis, Middleware 2021).
//!
//! Three parts that know nothing of each other: an *adapter* reads an engine ([`Topology`], [`metric`]), a *policy*
//! ranks its operators ([`Policy`], a [`Schedule`]), a *translator* turns ranks into a [`Plan`]: nice values, shares,
//! quotas for threads. What changes between two plans is journalled and written.
//!
//! Not here: decisions of its own, rows, anything inside the engine's process.

mod adapter;
mod agent;
pub mod attach;
mod clock;
pub mod exchange;
mod flink;
pub mod jvm;
pub mod linux;
pub mod metric;
mod normalise;
mod plan;
mod policy;
mod quantity;
mod reader;
mod readings;
pub mod report;
mod serve;
mod snapshot;
pub mod threads;
mod topology;
mod translate;
mod watermarks;

pub use adapter::{Adapter, AdapterError};
pub use agent::{Agent, AgentError, JobWish, PolicyUse};
pub use attach::{AttachArgs, AttachError, RestoreArgs};
pub use flink::Flink;
pub use metric::MissingMetric;
pub use normalise::{logarithmic_nice, logarithmic_share, min_max, nice_weight, places};
pub use plan::{Change, GroupSetting, Plan, ThreadSetting};
pub use policy::{Congestion, Policy, PolicyError, Schedule};
pub use readings::Readings;
pub use topology::{Operator, Query, Task, Thread, ThreadId, Topology, Wishes};
pub use translate::{
    OPERATOR_GROUP, Ranges, SERVICE_GROUP, Translator, URGENT_GROUP, UnknownTranslator, of_tasks,
};
