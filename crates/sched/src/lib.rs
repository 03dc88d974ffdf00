//! The scheduler core, sans-I/O: who runs next, and for how long.
//!
//! Three verbs, used the same way by threads, simulator and agent: `on_*` says what happened,
//! [`Scheduler::next`] says what to do, [`Scheduler::next_timeout`] says when to ask again. Time and
//! randomness are arguments. Start with [`Scheduler`].

mod message;

pub use message::{Grant, Message, OperatorSpec, QuerySpec, RunReport, Work};
