//! What the core learns from runs and sources: cost, selectivity, and where the frontier will be when.

mod cost;
mod frontier;
mod selectivity;

pub use cost::CostModel;
pub use frontier::Frontier;
pub use selectivity::Selectivity;
