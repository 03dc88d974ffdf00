//! What the agent asks of an engine, whichever it is, and what the adapters of all engines share.

use std::collections::BTreeSet;

use crate::linux::cpu_times_ns;
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
    Http(#[from] laxity_http::HttpError),
    /// Its threads.
    #[error(transparent)]
    Jvm(#[from] crate::jvm::JvmError),
    /// Nothing of it runs here.
    #[error("{0}")]
    Absent(String),
}

/// CPU time and run delay per operator, from the kernel, read once a refresh.
#[derive(Debug, Default)]
pub(crate) struct KernelTimes(Option<(Values, Values)>);

impl KernelTimes {
    /// They are to be read again.
    pub fn on_refresh(&mut self) {
        self.0 = None;
    }

    /// `None` for other metrics. Times of a task that several operators are fused in are divided equally: engines do
    /// not tell who used them.
    pub fn values(&mut self, metric: Metric, topology: &Topology) -> Option<Values> {
        if !matches!(metric, Metric::CpuNs | Metric::RunDelayNs) {
            return None;
        }
        let (cpu, delay) = self.0.get_or_insert_with(|| {
            let nothing = vec![None; topology.operators.len()];
            let (mut cpu, mut delay) = (nothing.clone(), nothing);
            for task in &topology.tasks {
                let times = task.threads.iter().filter_map(|thread| cpu_times_ns(thread.id));
                let (used, waited) = times.fold((0.0, 0.0), |(used, waited), (cpu_ns, delay_ns)| {
                    (used + cpu_ns as f64, waited + delay_ns as f64)
                });
                for &operator in &task.operators {
                    *cpu[operator].get_or_insert(0.0) += used / task.operators.len() as f64;
                    *delay[operator].get_or_insert(0.0) += waited / task.operators.len() as f64;
                }
            }
            (cpu, delay)
        });
        Some(if metric == Metric::CpuNs { cpu.clone() } else { delay.clone() })
    }
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
