//! Seeded workloads: what arrives when, and what it costs. The same workload runs in the simulator, as costs,
//! and on the engine, as SQL.
//!
//! Not here: time that passes (`sim`, `engine`) and decisions (`sched`). Read [`Workload`] first.

pub mod aurora;
pub mod catalogue;
mod delay;
mod error;
mod flow;
pub mod ipq;
mod java_random;
mod klink;
mod lachesis;
pub mod linear_road;
mod load;
mod model;
pub mod nyt;
mod rate;
pub mod riot;
pub mod script;
mod seed;
mod stream;
pub mod syn;
pub mod voip;
pub mod ysb;

pub use delay::{Delay, DelayError, DelaySampler};
pub use error::WorkloadError;
pub use java_random::JavaRandom;
pub use klink::Fleet;
pub use lachesis::Testbed;
pub use load::{OfferedLoad, offered_load, rate_for_load};
pub use model::{Arrival, Arrivals, Cost, Feed, Offered, QueryModel, Stage, StageKind, Workload};
pub use rate::{Rate, RatePoint, skewed_shares};
pub use stream::{Batching, Cadence, Recorded, Spacing, Stream, Watermarks};
