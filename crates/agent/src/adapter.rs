use std::collections::BTreeSet;

use crate::linux::{cpu_ns, run_delay_ns};
use crate::metric::{Driver, Metric, Values};
use crate::{Topology, Wishes};

/// Reads one engine, through its public interfaces only.
///
/// Call [`refresh`](Adapter::refresh) once a period, then use the rest. Each is read on a thread of its own, and may take
/// its time.
pub trait Adapter: Driver + Send {
    /// Looks at the engine again. True where the topology is not what it was.
    ///
    /// # Errors
    /// If the engine cannot be read now. The topology stays as it was, so that a restart of its control process
    /// changes nothing for threads that run on.
    fn refresh(&mut self, wishes: &dyn Fn(&str) -> Wishes) -> Result<bool, AdapterError>;

    /// What it runs.
    fn topology(&self) -> &Topology;

    /// Processes of this machine whose threads belong to it.
    fn processes(&self) -> BTreeSet<u32>;

    /// What a user should know, each once.
    fn notes(&mut self) -> Vec<String>;
}

/// An engine cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// Over HTTP.
    #[error(transparent)]
    Http(#[from] crate::http::HttpError),
    /// Its threads.
    #[error(transparent)]
    Jvm(#[from] crate::jvm::JvmError),
    /// Nothing of it runs here.
    #[error("{0}")]
    Absent(String),
}

/// CPU time or run delay per operator, from the kernel; `None` for other metrics. That of a task that several operators
/// are fused in is divided equally: engines do not tell who used it.
pub(crate) fn of_kernel(metric: Metric, topology: &Topology) -> Option<Values> {
    let read = match metric {
        Metric::CpuNs => cpu_ns,
        Metric::RunDelayNs => run_delay_ns,
        _ => return None,
    };
    let mut sums = vec![None; topology.operators.len()];
    for task in &topology.tasks {
        let used: f64 = task.threads.iter().filter_map(|thread| read(thread.id)).map(|ns| ns as f64).sum();
        for &operator in &task.operators {
            *sums[operator].get_or_insert(0.0) += used / task.operators.len() as f64;
        }
    }
    Some(sums)
}

/// Remembers what was said, so that it is said once.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    said: BTreeSet<String>,
    waiting: Vec<String>,
}

impl Notes {
    pub fn say(&mut self, note: String) {
        if self.said.insert(note.clone()) {
            self.waiting.push(note);
        }
    }

    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.waiting)
    }
}
