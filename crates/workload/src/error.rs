use laxity_graph::DataflowError;

use crate::DelayError;

/// A workload that cannot be made of the parameters given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A delay is impossible.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// A graph is impossible: a parallelism of 0, for one.
    #[error(transparent)]
    Dataflow(#[from] DataflowError),
    /// A parameter is out of its range.
    #[error("{name} = {value} of {workload}: expected {expected}")]
    Parameter {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        name: &'static str,
        /// As given.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// Load cannot be computed.
    #[error("a feed of query {query:?} does not tell its rate: repeat the recorded arrivals, or give a rate")]
    NoRate {
        /// The query.
        query: String,
    },
    /// No rate gives that load.
    #[error(
        "no rate offers a load of {cores} cores: expected a number above 0 and queries that cost something"
    )]
    Load {
        /// As wanted.
        cores: f64,
    },
}
