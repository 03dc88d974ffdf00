use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use laxity_graph::ProcessingTime;
use parking_lot::Mutex;

use crate::worker_times::WorkerTimes;

/// Which part of the workers' time was work lately, for all threads to read. Workers keep it themselves: a thread that woke
/// for it would cost more than it tells where little is done.
#[derive(Default)]
pub(crate) struct Load {
    share_bits: AtomicU32,
    due_ns: AtomicU64,
    seen: Mutex<laxity_runtime::Load>,
}

impl Load {
    /// 0 to 1.
    pub fn get(&self) -> f64 {
        f64::from(f32::from_bits(self.share_bits.load(Relaxed)))
    }

    /// Takes the workers' accounts as they are now, if that is due.
    pub fn observe(&self, workers: &[WorkerTimes], now: ProcessingTime) {
        if now.0 < self.due_ns.load(Relaxed) {
            return;
        }
        // Who finds it locked finds it done.
        let Some(mut seen) = self.seen.try_lock() else { return };
        let awake_ns = workers.iter().map(WorkerTimes::awake_ns).sum();
        let load = seen.observe(awake_ns, workers.len(), now);
        self.share_bits.store((load as f32).to_bits(), Relaxed);
        self.due_ns.store(now.plus_ns(laxity_runtime::Load::PERIOD_NS).0, Relaxed);
    }
}
