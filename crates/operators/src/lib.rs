//! Streaming operators: one Arrow batch in, batches out.
//!
//! Pure: an operator sees batches, watermarks and the instants they were ingested at, as arguments. It
//! knows no clock, thread, file or socket, and never decides when it runs. Start with [`Operator`].

mod operator;
mod stage;

pub use operator::{Emitted, Flow, LateRows, Operator, OperatorError, Outbox, StreamBatch};
pub use stage::{InstanceContext, OperatorFactory, Stage};
