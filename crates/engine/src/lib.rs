//! The embedded engine: mailboxes, worker threads, back-pressure, accounting, the clock.
//!
//! Workers are as many as cores and do whatever the scheduler core names: look at a table, run an operator,
//! encode its results; threads beside them wait for bytes and write them. What runs next is decided in
//! `laxity_sched`, what an operator does in `laxity_operators`, what an engine is besides threads in
//! `laxity_runtime`: this crate drives them. Start with [`Engine`].

mod checkpoints;
mod clock;
mod config;
mod dispatch;
mod engine;
mod fault;
mod keeper;
mod life;
mod load;
mod mailboxes;
mod open_tables;
mod operator_threads;
mod place;
mod plan;
mod process;
mod refused;
mod restarts;
mod shared;
mod sink_io;
mod snapshot;
mod submission;
mod sync;
mod tables;
mod taking;
mod thread_room;
mod unit;
mod worker;
mod worker_times;

pub use checkpoints::complete;
pub use clock::Clock;
pub use config::{CannotSwitch, Ending, EngineConfig, JoinFrom, Policy, WORKERS_PER_SHARD};
pub use engine::Engine;
pub use laxity_runtime::{
    LatencySummary, LookCosts, MinuteFigures, Outcome, Promise, RecordedArrival, SHARED_BY_MIN, SharedMember,
    SharedWork, TemplateWork, Totals,
};
pub use plan::{LatePlan, QueryPlan, StatePlan, SubmitError};
pub use snapshot::{
    CheckpointSnapshot, EngineFigures, EngineSnapshot, OperatorMeasurement, Overload, OverloadStep,
    QueryFigures, QuerySnapshot, QueryState, RecordedFeed, WorkCosts,
};
pub use thread_room::thread_room;

/// An error with what caused it, in one line: for places that have room for just that.
fn chain_of_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
