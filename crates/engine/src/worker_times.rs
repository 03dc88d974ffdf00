use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use laxity_runtime::LookCosts;

/// What a worker has spent its time on. Written by that worker alone.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct WorkerTimes {
    operator_ns: AtomicU64,
    awake_ns: AtomicU64,
    /// Between two runs without sleep, as of late.
    between_ns: AtomicU64,
    looks: [AtomicU64; 5],
}

impl WorkerTimes {
    pub fn count(&self, operator_ns: u64) {
        self.operator_ns.store(self.operator_ns() + operator_ns, Relaxed);
    }

    pub fn count_look(&self, rows: u64, ns: u64) {
        let mut costs = self.look_costs();
        costs.observe(rows, ns);
        let LookCosts { looks, rows, ns, rows_rows, rows_ns } = costs;
        let sums = [looks, rows, ns, rows_rows, rows_ns];
        self.looks.iter().zip(sums).for_each(|(sum, to)| sum.store(to, Relaxed));
    }

    pub fn set_between(&self, ns: u64) {
        self.between_ns.store(ns, Relaxed);
    }

    pub fn set_awake(&self, ns: u64) {
        self.awake_ns.store(ns, Relaxed);
    }

    /// Between the end of a run and the start of the next where it did not sleep, ns: a mean of the last few dozen; 0
    /// before the first.
    pub fn between_ns(&self) -> u64 {
        self.between_ns.load(Relaxed)
    }

    /// What looks at tables cost that found rows.
    pub fn look_costs(&self) -> LookCosts {
        let [looks, rows, ns, rows_rows, rows_ns] = self.looks.each_ref().map(|sum| sum.load(Relaxed));
        LookCosts { looks, rows, ns, rows_rows, rows_ns }
    }

    /// Not asleep, up to the end of the last run.
    pub fn awake_ns(&self) -> u64 {
        self.awake_ns.load(Relaxed)
    }

    /// Inside operators.
    pub fn operator_ns(&self) -> u64 {
        self.operator_ns.load(Relaxed)
    }
}
