//! What outputs tell of themselves for checkpoints of the queries that write them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where an output stood at a checkpoint: what [`Output::prepare`](crate::Output::prepare) gives, and
/// [`SinkEnvironment::resume`](crate::SinkEnvironment::resume) takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputPosition {
    /// Nothing to go back to: what was written behind a checkpoint is written once more.
    #[default]
    None,
    /// A file, to be cut back to this length.
    Length {
        /// From its beginning.
        bytes: u64,
    },
    /// What a connector of another crate wants to find again, by name.
    Named(BTreeMap<String, String>),
}

/// How often a row of a query with checkpoints is seen in an output after the process was killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// What came behind the last checkpoint may be there twice.
    AtLeastOnce,
    /// Each row once.
    ExactlyOnce,
}
