//! The nouns every other crate speaks: event time and processing time, ids, latency targets, and the
//! dataflow graph of a query.
//!
//! Not here: rows (Arrow lives in `operators` and `connect`), decisions (`sched`), clocks and threads
//! (`engine`). Read [`Dataflow`] first.

mod approximation;
mod common_slices;
mod dataflow;
mod emitted;
mod fetch;
mod id;
mod id_space;
mod qos;
mod settings;
mod time;
mod window_ends;

pub use approximation::Approximation;
pub use common_slices::{CommonSlices, common_divisor};
pub use dataflow::{Dataflow, DataflowError, Input, Node, NodeId, Partitioning};
pub use emitted::{Emitted, Flow};
pub use fetch::fetch;
pub use id::{OperatorId, QueryId, WorkerId};
pub use id_space::IdSpace;
pub use qos::{InvalidQosCurve, QosCurve, QosPoint};
pub use settings::{CheckpointPlace, Checkpoints, LatencyTarget, QuerySettings, RowErrors};
pub use time::{EventClock, EventTime, ProcessingTime, WindowShape};
pub use window_ends::WindowEnds;
