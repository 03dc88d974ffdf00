use laxity_sched::{Composition, UnknownPolicy};

/// Why an experiment could not be run: in a figure of ours, always our bug.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A policy that is not there.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// The checkers that watch every run saw a rule broken.
    #[error("the simulation broke a rule: {0}")]
    Violation(String),
    /// A workload that cannot be built.
    #[error("no workload: {0}")]
    Workload(String),
}
