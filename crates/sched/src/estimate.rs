//! What the core learns from runs and sources: cost, selectivity, and where the frontier will be when.

mod call;
mod cost;
mod frontier;
pub mod normal;
mod selectivity;
mod swm;

pub use call::CallCost;
pub use cost::CostModel;
pub use frontier::Frontier;
pub use selectivity::Selectivity;
pub use swm::{SwmEstimator, SwmForecast};
