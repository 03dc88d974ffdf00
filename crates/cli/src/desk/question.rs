//! What is asked of a run, and what it says to that: a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One question.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// Save what queries hold: all that have checkpoints, or this one.
    Checkpoint {
        /// Its name.
        query: Option<String>,
    },
    /// Run the queries of these files too.
    Add {
        /// As they were read by who asks.
        files: Vec<SentFile>,
        /// Queries of the same names make way.
        replace: bool,
    },
    /// Promise a query something else. What is `None` stays.
    Alter {
        /// Its name.
        query: String,
        /// Its latency target, ns.
        target_ns: Option<u64>,
        /// Its importance.
        weight: Option<f64>,
        /// As `laxity.qos` has it; empty for what the target says.
        qos: Option<String>,
    },
    /// End a query.
    Cancel {
        /// Its name.
        query: String,
        /// What it has taken in is dropped.
        drop: bool,
    },
}

/// A file of SQL.
#[derive(Debug, Serialize, Deserialize)]
pub struct SentFile {
    /// Where it lies: paths in it are relative to that.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// One of the answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// A query has a new checkpoint.
    Saved {
        /// Its name.
        query: String,
        /// Of the checkpoint.
        number: u64,
        /// Its size.
        bytes: u64,
        /// What of that was not in the one before.
        written_bytes: u64,
        /// The longest that the query was held for one so far.
        longest_pause_ns: u64,
    },
    /// A sentence.
    Told(String),
    /// Something that was asked for was not done, for it has to be asked otherwise.
    Refused(String),
    /// Something that was asked for was not done, for something failed.
    Failed(String),
}
