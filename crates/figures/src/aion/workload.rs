//! Inputs for the figures of Aion: rows, their network delays and the gaps between them (thesis, section 4.2.1).

use laxity_operators::approximate::{Aggregate, Arrival, Grid, Span};
use laxity_workload::{Delay, DelaySampler, WorkloadError};

use crate::ExperimentError;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// How many of the events are views.
    Ysb,
    /// The mean distance of trips.
    Nyt,
    /// How well centres fit points.
    KMeans,
}

impl Workload {
    pub(super) const ALL: [Workload; 3] = [Workload::Ysb, Workload::Nyt, Workload::KMeans];

    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::Ysb => "YSB",
            Workload::Nyt => "NYT",
            Workload::KMeans => "k-means",
        }
    }

    pub(super) fn grid(self) -> Grid {
        match self {
            Workload::Ysb | Workload::KMeans => Grid::new(3_000, 0, Span::Fixed(3_000)),
            Workload::Nyt => Grid::new(1_000, 0, Span::Fixed(2_000)),
        }
    }

    pub(super) fn aggregate(self) -> Aggregate {
        match self {
            Workload::Ysb => Aggregate::Sum(0),
            Workload::Nyt | Workload::KMeans => Aggregate::Average(0),
        }
    }

    /// What a row costs, ms, and whether that is paid at the end of its window.
    pub(super) fn row_cost_ms(self) -> (f64, bool) {
        match self {
            Workload::Ysb => (0.002, false),
            Workload::Nyt => (0.01, false),
            Workload::KMeans => (0.02, true),
        }
    }

    /// The value of a row; `dice` throws uniformly from 0 to below 1.
    fn value(self, mut dice: impl FnMut() -> f64) -> f64 {
        // Box and Muller.
        let mut normal = || (-2.0 * (1.0 - dice()).ln()).sqrt() * (std::f64::consts::TAU * dice()).cos();
        match self {
            Workload::Ysb => f64::from(u8::from(dice() < 1.0 / 3.0)),
            // Miles: median 1.8, mean 2.5, as the city's trips about are.
            Workload::Nyt => (0.6 + 0.8 * normal()).exp(),
            Workload::KMeans => normal().powi(2) + normal().powi(2),
        }
    }
}

/// Delays of the network and gaps between events (thesis, section 4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delays {
    Cc,
    Gg,
    Ec,
    Eg,
}

impl Delays {
    pub(super) const ALL: [Delays; 4] = [Delays::Cc, Delays::Gg, Delays::Ec, Delays::Eg];

    pub(super) fn name(self) -> &'static str {
        match self {
            Delays::Cc => "CC",
            Delays::Gg => "GG",
            Delays::Ec => "EC",
            Delays::Eg => "EG",
        }
    }

    fn network(self) -> Delay {
        match self {
            Delays::Cc => Delay::AION_CONSTANT,
            Delays::Gg => Delay::AION_GAMMA,
            Delays::Ec | Delays::Eg => Delay::AION_EXPONENTIAL,
        }
    }

    /// With a mean of 1 ms.
    fn gap(self) -> Delay {
        match self {
            Delays::Cc | Delays::Ec => Delay::Constant { ns: 1_000_000 },
            Delays::Gg | Delays::Eg => Delay::AION_GAMMA_GAP,
        }
    }
}

/// Windows at the beginning of a stream that only teach.
pub(super) const LESSONS: i64 = 10;

/// Rows in order of arrival.
pub(super) struct Stream {
    pub(super) arrivals: Vec<Arrival>,
    /// The first window end that counts, and the last.
    pub(super) counted: (i64, i64),
}

impl Stream {
    /// So many windows that count, and those before and behind them that do not.
    pub(super) fn new(
        workload: Workload,
        delays: Delays,
        rate: f64,
        windows: usize,
        seed: u64,
    ) -> Result<Stream, ExperimentError> {
        let grid = workload.grid();
        let counted = (LESSONS * grid.step_ms, (LESSONS + windows as i64 - 1) * grid.step_ms);
        // The last of them have their stragglers too.
        let until_ms = (counted.1 + 4 * grid.step_ms) as f64;
        let sampler = |delay: Delay, part: u64| sampler(delay, seed.wrapping_mul(4).wrapping_add(part));
        let (mut network, mut gap) = (sampler(delays.network(), 0)?, sampler(delays.gap(), 1)?);
        let mut dice = dice(seed.wrapping_mul(4).wrapping_add(2))?;
        let mut arrivals = Vec::new();
        let mut time_ms = 0.0;
        while time_ms < until_ms {
            let at_ms = (time_ms + network.sample_ns() as f64 / 1e6) as i64;
            arrivals.push(Arrival {
                at_ms,
                time_ms: time_ms as i64,
                group: 0,
                value: workload.value(&mut dice),
            });
            time_ms += gap.sample_ns() as f64 / 1e6 * 1_000.0 / rate;
        }
        arrivals.sort_by_key(|arrival| arrival.at_ms);
        Ok(Stream { arrivals, counted })
    }
}

fn sampler(delay: Delay, seed: u64) -> Result<DelaySampler, ExperimentError> {
    delay.sampler(seed).map_err(|error| ExperimentError::Workload(WorkloadError::from(error)))
}

/// Throws uniformly from 0 to below 1.
pub(super) fn dice(seed: u64) -> Result<impl FnMut() -> f64, ExperimentError> {
    let mut uniform = sampler(Delay::Uniform { low_ns: 0, high_ns: (1 << 53) - 1 }, seed)?;
    Ok(move || uniform.sample_ns() as f64 / (1u64 << 53) as f64)
}
