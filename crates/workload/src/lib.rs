//! Seeded workloads: what arrives when, and what it costs. The same workload runs in the simulator, as costs,
//! and on the engine, as SQL.
//!
//! Not here: time that passes (`sim`, `engine`) and decisions (`sched`). Read [`Workload`] first.

mod delay;
mod model;
mod rate;
mod seed;
mod stream;

pub use delay::{Delay, DelayError, DelaySampler};
pub use model::{Arrival, Arrivals, Cost, Feed, Offered, QueryModel, Stage, StageKind, Workload};
pub use rate::{Rate, RatePoint, skewed_shares};
pub use stream::{Batching, Cadence, Recorded, Spacing, Stream, Watermarks};
