use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use laxity_graph::ProcessingTime;

use crate::worker_times::WorkerTimes;

/// Which part of the workers' time was work lately, for all threads to read.
#[derive(Default)]
pub(crate) struct Load(AtomicU32);

impl Load {
    /// 0 to 1.
    pub fn get(&self) -> f64 {
        f64::from(f32::from_bits(self.0.load(Relaxed)))
    }

    /// Takes the workers' accounts as they are now.
    pub fn observe(&self, workers: &[WorkerTimes], now: ProcessingTime, seen: &mut laxity_runtime::Load) {
        let awake_ns = workers.iter().map(WorkerTimes::awake_ns).sum();
        let load = seen.observe(awake_ns, workers.len(), now);
        self.0.store((load as f32).to_bits(), Relaxed);
    }
}
