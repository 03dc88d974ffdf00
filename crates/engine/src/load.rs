use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use laxity_graph::ProcessingTime;

use crate::worker::WorkerTimes;

/// Which part of the workers' time was work lately.
#[derive(Default)]
pub(crate) struct Load(AtomicU32);

/// What was seen of it before.
#[derive(Default)]
pub(crate) struct LoadSeen {
    at: ProcessingTime,
    awake_ns: u64,
}

impl Load {
    /// 0 to 1.
    pub fn get(&self) -> f64 {
        f64::from(f32::from_bits(self.0.load(Relaxed)))
    }

    /// Takes the workers' accounts as they are now.
    pub fn observe(&self, workers: &[WorkerTimes], now: ProcessingTime, seen: &mut LoadSeen) {
        // Half of what is known is of the last 40 ms: a burst is met, a single long run is not.
        const KEPT: f64 = 0.7;
        let awake_ns: u64 = workers.iter().map(WorkerTimes::awake_ns).sum();
        let had_ns = now.since_ns(seen.at) as f64 * workers.len() as f64;
        if had_ns > 0.0 {
            let load = (awake_ns.saturating_sub(seen.awake_ns) as f64 / had_ns).min(1.0);
            let load = KEPT * self.get() + (1.0 - KEPT) * load;
            self.0.store((load as f32).to_bits(), Relaxed);
        }
        *seen = LoadSeen { at: now, awake_ns };
    }
}
