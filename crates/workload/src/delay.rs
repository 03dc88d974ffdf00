//! Delays of the network, by law or as recorded, drawn from a seed; also their bounds and moments, for who must know
//! them.

mod parse;

use std::sync::Arc;

use rand_distr::{Distribution, Exp, Gamma, Normal, Poisson, Uniform, Zipf};
use rand_pcg::Pcg64;

use crate::seed;

/// What lies between the event and its ingestion: how long the network takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Constant {
        /// The delay.
        ns: u64,
    },
    /// Every value of the range is as likely.
    Uniform {
        /// The least, included.
        low_ns: u64,
        /// The greatest, included.
        high_ns: u64,
    },
    /// `(rank − 1) · step`, where the rank follows Zipf's law: P(rank) ∝ rank^−exponent. Most events are prompt,
    /// a long tail is not.
    Zipf {
        /// 0 is uniform; the papers take 0.99.
        exponent: f64,
        /// Ranks 1 to this.
        ranks: u32,
        /// Distance of two ranks.
        step_ns: u64,
    },
    /// Memoryless.
    Exponential {
        /// The mean, which is the deviation too.
        mean_ns: f64,
    },
    /// Mean shape · scale, variance shape · scale².
    Gamma {
        /// Above 0.
        shape: f64,
        /// Above 0.
        scale_ns: f64,
    },
    /// A normal law with its negative part cut off (drawn again).
    Normal {
        /// Of the law before the cut; not negative.
        mean_ns: f64,
        /// Of the law before the cut.
        deviation_ns: f64,
    },
    /// A Poisson count times a step.
    Poisson {
        /// Mean of the count.
        mean: f64,
        /// Delay per count.
        step_ns: u64,
    },
    /// A recorded trace, from the beginning again at its end.
    Recorded {
        /// The delays in order; not empty.
        ns: Arc<[u64]>,
    },
}

/// A delay that no sampler can be made of.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DelayError {
    /// A range that ends before it begins.
    #[error("a uniform delay from {low_ns} ns to {high_ns} ns: the greatest must not be below the least")]
    EmptyRange {
        /// As given.
        low_ns: u64,
        /// As given.
        high_ns: u64,
    },
    /// A number out of its range.
    #[error("a {law} delay with {name} = {value}: expected {expected}")]
    Parameter {
        /// The law.
        law: &'static str,
        /// The parameter.
        name: &'static str,
        /// As given.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// No delay is written like this.
    #[error("{text:?} is no delay: {problem}; expected one of {}", parse::FORMS.join(", "))]
    Text {
        /// As given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nothing to replay.
    #[error("a recorded delay without any record: give at least one")]
    EmptyTrace,
}

const MS: u64 = 1_000_000;

impl Delay {
    /// No delay.
    pub const NONE: Delay = Delay::Constant { ns: 0 };

    /// Uniform over 0 … 99 ms. Klink §6.2 says "uniform" without a range; this one is of its authors' generator.
    pub const KLINK_UNIFORM: Delay = Delay::Uniform { low_ns: 0, high_ns: 99 * MS };

    /// Zipf over 0 … 99 ms in steps of 1 ms with the exponent 0.99 of Klink §6.2, which gives no range either.
    pub const KLINK_ZIPF: Delay = Delay::Zipf { exponent: 0.99, ranks: 100, step_ns: MS };

    /// The network delay called C in the Aion evaluation (thesis §4.3): 150 ms.
    pub const AION_CONSTANT: Delay = Delay::Constant { ns: 150 * MS };

    /// G: Gamma(60, 4 ms), mean 240 ms, deviation 31 ms.
    pub const AION_GAMMA: Delay = Delay::Gamma { shape: 60.0, scale_ns: 4e6 };

    /// E: exponential with mean 240 ms.
    pub const AION_EXPONENTIAL: Delay = Delay::Exponential { mean_ns: 240e6 };

    /// Gaps between events under G: Gamma(2, 0.5 ms), mean 1 ms.
    pub const AION_GAMMA_GAP: Delay = Delay::Gamma { shape: 2.0, scale_ns: 0.5e6 };

    /// A sampler. The same seed gives the same delays.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn sampler(&self, seed: u64) -> Result<DelaySampler, DelayError> {
        let parameter = |law, name, value, expected| DelayError::Parameter { law, name, value, expected };
        let law = match *self {
            Delay::Constant { ns } => Law::Constant(ns),
            Delay::Uniform { low_ns, high_ns } => Law::Uniform(
                Uniform::new_inclusive(low_ns, high_ns)
                    .map_err(|_| DelayError::EmptyRange { low_ns, high_ns })?,
            ),
            Delay::Zipf { exponent, ranks, step_ns } => {
                if ranks == 0 {
                    return Err(parameter("zipf", "ranks", 0.0, "at least 1"));
                }
                let zipf = Zipf::new(f64::from(ranks), exponent)
                    .map_err(|_| parameter("zipf", "exponent", exponent, "0 or more"))?;
                Law::Zipf(zipf, step_ns)
            }
            Delay::Exponential { mean_ns } => {
                let mean = positive(mean_ns).ok_or(parameter("exponential", "mean", mean_ns, ABOVE_0))?;
                Law::Exponential(
                    Exp::new(1.0 / mean).map_err(|_| parameter("exponential", "mean", mean_ns, ABOVE_0))?,
                )
            }
            Delay::Gamma { shape, scale_ns } => {
                positive(shape).ok_or(parameter("gamma", "shape", shape, ABOVE_0))?;
                Law::Gamma(
                    Gamma::new(shape, scale_ns)
                        .map_err(|_| parameter("gamma", "scale", scale_ns, ABOVE_0))?,
                )
            }
            Delay::Normal { mean_ns, deviation_ns } => {
                // A mean far below 0 would make the cut reject nearly every draw.
                if !(mean_ns.is_finite() && mean_ns >= 0.0) {
                    return Err(parameter("normal", "mean", mean_ns, "0 or more"));
                }
                if !(deviation_ns.is_finite() && deviation_ns >= 0.0) {
                    return Err(parameter("normal", "deviation", deviation_ns, "0 or more"));
                }
                Law::Normal(
                    Normal::new(mean_ns, deviation_ns)
                        .map_err(|_| parameter("normal", "deviation", deviation_ns, "0 or more"))?,
                )
            }
            Delay::Poisson { mean, step_ns } => Law::Poisson(
                Poisson::new(mean).map_err(|_| parameter("poisson", "mean", mean, ABOVE_0))?,
                step_ns,
            ),
            Delay::Recorded { ref ns } => {
                if ns.is_empty() {
                    return Err(DelayError::EmptyTrace);
                }
                Law::Recorded { ns: ns.clone(), next: 0 }
            }
        };
        Ok(DelaySampler { law, generator: seed::generator(seed, DELAY_STREAM) })
    }

    /// No delay is below this: what a re-ordering by ingestion may rely on.
    pub fn min_ns(&self) -> u64 {
        match self {
            Delay::Constant { ns } => *ns,
            Delay::Uniform { low_ns, .. } => *low_ns,
            Delay::Recorded { ns } => ns.iter().copied().min().unwrap_or(0),
            _ => 0,
        }
    }

    /// No delay is above this; `None` where the law has no end. A watermark that lags by so much drops no row.
    pub fn max_ns(&self) -> Option<u64> {
        match self {
            Delay::Constant { ns } => Some(*ns),
            Delay::Uniform { high_ns, .. } => Some(*high_ns),
            Delay::Zipf { ranks, step_ns, .. } => Some(u64::from(ranks.saturating_sub(1)) * step_ns),
            Delay::Recorded { ns } => ns.iter().copied().max(),
            _ => None,
        }
    }

    /// Mean and variance (in ns²) of the law, exact but for the numeric integral of the cut normal law.
    pub fn moments(&self) -> (f64, f64) {
        match self {
            Delay::Constant { ns } => (*ns as f64, 0.0),
            Delay::Uniform { low_ns, high_ns } => {
                let values = (high_ns - low_ns) as f64 + 1.0;
                ((*low_ns as f64 + *high_ns as f64) / 2.0, (values * values - 1.0) / 12.0)
            }
            Delay::Zipf { exponent, ranks, step_ns } => weighted_moments(
                (1..=*ranks)
                    .map(|rank| (f64::from(rank - 1) * *step_ns as f64, f64::from(rank).powf(-exponent))),
            ),
            Delay::Exponential { mean_ns } => (*mean_ns, mean_ns * mean_ns),
            Delay::Gamma { shape, scale_ns } => (shape * scale_ns, shape * scale_ns * scale_ns),
            Delay::Normal { mean_ns, deviation_ns } if *deviation_ns == 0.0 => (*mean_ns, 0.0),
            Delay::Normal { mean_ns, deviation_ns } => {
                // Midpoint rule over all of the density that matters; it starts at the cut, not across it.
                let low = (mean_ns - 10.0 * deviation_ns).max(0.0);
                let step = (mean_ns + 10.0 * deviation_ns - low) / 100_000.0;
                weighted_moments((0..100_000).map(|i| {
                    let x = low + (f64::from(i) + 0.5) * step;
                    let z = (x - mean_ns) / deviation_ns;
                    (x, (-0.5 * z * z).exp())
                }))
            }
            Delay::Poisson { mean, step_ns } => {
                let step = *step_ns as f64;
                (mean * step, mean * step * step)
            }
            Delay::Recorded { ns } => weighted_moments(ns.iter().map(|&ns| (ns as f64, 1.0))),
        }
    }
}

/// Draws delays.
#[derive(Clone, Debug)]
pub struct DelaySampler {
    law: Law,
    generator: Pcg64,
}

impl DelaySampler {
    /// The next delay, in nanoseconds.
    pub fn sample_ns(&mut self) -> u64 {
        let rng = &mut self.generator;
        match &mut self.law {
            Law::Constant(ns) => *ns,
            Law::Uniform(uniform) => uniform.sample(rng),
            Law::Zipf(zipf, step_ns) => (zipf.sample(rng) as u64).saturating_sub(1).saturating_mul(*step_ns),
            Law::Exponential(exp) => whole_ns(exp.sample(rng)),
            Law::Gamma(gamma) => whole_ns(gamma.sample(rng)),
            Law::Normal(normal) => loop {
                let x = normal.sample(rng);
                if x >= 0.0 {
                    break whole_ns(x);
                }
            },
            Law::Poisson(poisson, step_ns) => (poisson.sample(rng) as u64).saturating_mul(*step_ns),
            Law::Recorded { ns, next } => {
                let delay = ns[*next];
                *next = (*next + 1) % ns.len();
                delay
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Law {
    Constant(u64),
    Uniform(Uniform<u64>),
    Zipf(Zipf<f64>, u64),
    Exponential(Exp<f64>),
    Gamma(Gamma<f64>),
    Normal(Normal<f64>),
    Poisson(Poisson<f64>, u64),
    Recorded { ns: Arc<[u64]>, next: usize },
}

const ABOVE_0: &str = "a number above 0";

/// Apart from what else is drawn with the same seed.
const DELAY_STREAM: u64 = 0x64_656c_6179;

fn positive(x: f64) -> Option<f64> {
    (x.is_finite() && x > 0.0).then_some(x)
}

fn whole_ns(x: f64) -> u64 {
    x.round() as u64
}

fn weighted_moments(values: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut weight, mut first, mut second) = (0.0, 0.0, 0.0);
    for (x, w) in values {
        weight += w;
        first += w * x;
        second += w * x * x;
    }
    let mean = first / weight;
    (mean, second / weight - mean * mean)
}

#[cfg(test)]
mod tests;
