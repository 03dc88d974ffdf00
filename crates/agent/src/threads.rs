//! Any engine whose threads have telling names: which processes, which threads, which metrics is said in a few lines of
//! configuration. Storm and this project's own thread-per-operator mode are such lines too. Start with [`ThreadsSpec`].

mod adapter;
mod graphite;
mod presets;
mod series;

use std::net::SocketAddr;
use std::time::Duration;

use regex::Regex;

use crate::metric::Metric;

pub use adapter::ThreadsEngine;
pub use presets::{own_engine, storm};

/// How to read an engine by its threads' names.
#[derive(Clone, Debug)]
pub struct ThreadsSpec {
    /// What people call the engine.
    pub name: String,
    /// Matches the command lines of its processes, arguments joined by blanks. A group `query` names the job.
    pub process: Regex,
    /// Where thread names are from.
    pub names: Names,
    /// Matches the names of operator threads. A group `operator` names the operator, and `a -> b` several fused in one
    /// thread; a group `query` the job; a group `instance` the parallel instance.
    pub thread: Regex,
    /// The job of threads that no group names.
    pub query: String,
    /// Which operator feeds which.
    pub edges: Vec<(String, String)>,
    /// An address that answers in Prometheus' text format, path included.
    pub prometheus: Option<String>,
    /// Where to listen for Graphite's plaintext protocol, which the engine is to push to.
    pub graphite: Option<SocketAddr>,
    /// What the series mean.
    pub metrics: Vec<SeriesSpec>,
    /// The timer slack of its operator threads, where idle ones poll with short sleeps. `None`: as it is, which is 50 µs
    /// unless the engine asks for another.
    pub timer_slack: Option<Duration>,
}

/// Who tells the names of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// The Java virtual machine, by a thread dump.
    Jvm,
    /// Linux, which keeps 15 bytes of a name.
    Linux,
}

/// A metric in the series of an engine.
#[derive(Clone, Debug)]
pub struct SeriesSpec {
    /// Which.
    pub metric: Metric,
    /// Matches the series that make it up, which are added: `name{label="value",…}` with labels in order of name, or a
    /// Graphite path. A group `operator` says whose it is, a group `query` of which job.
    pub series: Regex,
    /// What a value is multiplied by.
    pub scale: f64,
}
