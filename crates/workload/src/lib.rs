//! Seeded workloads: what arrives when, and what it costs. The same workload runs in the simulator, as costs,
//! and on the engine, as SQL.
//!
//! Not here: time that passes (`sim`, `engine`) and decisions (`sched`). Read [`Workload`] first; [`catalogue`] has
//! every workload by name and [`script`] those that are SQL. Of one's own: a [`Stream`] makes the input.
//!
//! ```
//! use laxity_workload::{catalogue, offered_load};
//!
//! // The benchmark of the Klink evaluation with a tenth of its queries, at nine tenths of four cores.
//! let mut workload = catalogue::named("ysb-klink")?.build_at_load(7, 0.1, 0.9 * 4.0)?;
//! assert_eq!(workload.queries.len(), 4);
//! assert!((offered_load(&workload)?.cores() - 3.6).abs() < 0.01);
//!
//! let first = workload.queries[0].feeds[0].arrivals.next().unwrap();
//! assert!(first.rows > 0 && first.at >= workload.queries[0].deployed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub mod random;
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
pub use model::{Arrival, Arrivals, Cost, Feed, Offered, QueryModel, Sleep, Stage, StageKind, Workload};
pub use rate::{Rate, RatePoint, skewed_shares};
pub use stream::{Batching, Cadence, Recorded, Spacing, Stream, Watermarks};
