use std::collections::BTreeMap;

use laxity_sched::StreamReport;

use crate::metric::{Metric, Values};

/// The metrics of the operators of one topology at one instant, whoever they are from.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// When, in ns since boot: the line that ranks think in.
    pub now_ns: u64,
    /// The same instant in ms since 1970, for watermarks.
    pub wall_ms: f64,
    /// Share of all cores that is busy, whoever keeps it so; `None` before it was measured twice.
    pub busy: Option<f64>,
    /// Cores of the machine.
    pub cores: usize,
    /// How long what is decided now will hold, ns.
    pub horizon_ns: u64,
    /// By operator that closes windows: when their watermarks are due, where the agent of another machine told.
    pub streams: BTreeMap<usize, StreamReport>,
    /// By operator: how long ago its engine was read.
    ages_ms: Vec<f64>,
    values: BTreeMap<Metric, Values>,
}

impl Readings {
    /// Of that instant, and nothing read yet.
    pub fn at(now_ns: u64, wall_ms: f64, busy: Option<f64>, cores: usize) -> Readings {
        Readings { now_ns, wall_ms, busy, cores, ..Readings::default() }
    }

    /// One operator's value; `None` where there is no data.
    pub fn get(&self, metric: Metric, operator: usize) -> Option<f64> {
        self.values.get(&metric)?.get(operator).copied().flatten()
    }

    /// How long ago an operator's engine was read.
    pub fn age_ms(&self, operator: usize) -> f64 {
        self.ages_ms.get(operator).copied().unwrap_or(0.0)
    }

    /// Appends the operators of another engine, read so long ago, after those of `before` operators.
    pub fn append_age(&mut self, age_ms: f64, before: usize, operators: usize) {
        self.ages_ms.resize(before, 0.0);
        self.ages_ms.resize(before + operators, age_ms);
    }

    /// Sets all values of a metric, one per operator.
    pub fn set(&mut self, metric: Metric, values: Values) {
        self.values.insert(metric, values);
    }

    /// Appends values of operators of another engine, after those of `before` operators.
    pub fn append(&mut self, metric: Metric, mut values: Values, before: usize, operators: usize) {
        values.resize(operators, None);
        let all = self.values.entry(metric).or_default();
        all.resize(before, None);
        all.extend(values);
    }
}
