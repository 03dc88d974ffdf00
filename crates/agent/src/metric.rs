//! Metrics: what engines tell, what is computed from it, and where a missing one is noticed (Lachesis §5.2).
//! Start with [`MetricGraph`].

mod age;
mod graph;
mod rate;

use std::fmt;

pub(crate) use graph::path_costs;
pub use graph::{Driver, MetricGraph, MissingMetric};

/// Something to know of every logical operator. Values over all parallel instances of it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Rows taken in since the operator started; of a source, rows made.
    RowsIn,
    /// Rows given on since then.
    RowsOut,
    /// CPU time of its threads since they started, ns.
    CpuNs,
    /// How long its threads waited for a core since they started, ns.
    RunDelayNs,
    /// The instant at which the counters were read, in ms of any clock that runs on while the operator does. Engines
    /// that cache metrics tell the same one twice.
    SampledMs,
    /// Rows that wait for it.
    QueueRows,
    /// How long the first of them has waited for it, ms.
    HeadAgeMs,
    /// How long ago that row came into the system, ms.
    IngestAgeMs,
    /// The last watermark it took in, ms since 1970.
    WatermarkMs,
    /// Rows taken in per second.
    RateIn,
    /// Rows given on per second.
    RateOut,
    /// Cores its threads kept busy.
    Cores,
    /// Of its threads, how many waited for a core at a time.
    Waiting,
    /// CPU time per row taken in, ns.
    Cost,
    /// Rows out per row in.
    Selectivity,
    /// C_path(o): CPU time that a row of it causes behind it, on the dearest path, ns.
    PathCost,
    /// How long ago the counters were read, ms. Computed only where [`SampledMs`](Metric::SampledMs) is of our own clock.
    SampleAgeMs,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 17] = {
        use Metric::*;
        [
            RowsIn,
            RowsOut,
            CpuNs,
            RunDelayNs,
            SampledMs,
            QueueRows,
            HeadAgeMs,
            IngestAgeMs,
            WatermarkMs,
            RateIn,
            RateOut,
            Cores,
            Waiting,
            Cost,
            Selectivity,
            PathCost,
            SampleAgeMs,
        ]
    };

    /// What it is computed from where an engine does not provide it. Empty: it must be provided.
    pub fn dependencies(self) -> &'static [Metric] {
        use Metric::*;
        match self {
            RowsIn | RowsOut | CpuNs | RunDelayNs | SampledMs | WatermarkMs => &[],
            QueueRows => &[RowsIn, RowsOut],
            HeadAgeMs => &[RowsIn, RowsOut],
            IngestAgeMs => &[HeadAgeMs],
            RateIn => &[RowsIn, SampledMs],
            RateOut => &[RowsOut, SampledMs],
            Cores => &[CpuNs],
            Waiting => &[RunDelayNs],
            Cost => &[Cores, RateIn],
            Selectivity => &[RateIn, RateOut],
            PathCost => &[Cost, Selectivity],
            SampleAgeMs => &[SampledMs],
        }
    }

    /// What it is called in messages and on `/metrics`.
    pub fn name(self) -> &'static str {
        use Metric::*;
        match self {
            RowsIn => "rows-in",
            RowsOut => "rows-out",
            CpuNs => "cpu-time",
            RunDelayNs => "run-delay",
            SampledMs => "sampled-at",
            QueueRows => "queue",
            HeadAgeMs => "head-age",
            IngestAgeMs => "ingest-age",
            WatermarkMs => "watermark",
            RateIn => "rate-in",
            RateOut => "rate-out",
            Cores => "cores",
            Waiting => "waiting",
            Cost => "cost",
            Selectivity => "selectivity",
            PathCost => "path-cost",
            SampleAgeMs => "sample-age",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value per operator; `None` where there is no data.
pub type Values = Vec<Option<f64>>;
