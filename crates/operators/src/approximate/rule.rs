//! Aion and the rules that its thesis compares it with, down to the controller of quality-driven K-slack (Ji et al.,
//! DEBS 2015).

use super::normal::quantile;
use super::sample_size::Promise;

/// When a window answers, and of which rows: Aion, or what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// From a sample, as soon as that suffices.
    Aion,
    /// Aion's sample without its rule for stragglers (thesis, section 4.2.1): rates as if all rows came in time, and the
    /// window waits as under [`Rule::KSlack`].
    AionMinus,
    /// All rows, and the largest delay seen so far after the window's end: the thesis' Default.
    KSlack,
    /// All rows, once an event so much later than the window's end was seen: Flink's bounded out-of-orderness.
    Bounded {
        /// The bound.
        ms: i64,
    },
    /// Quality-driven K-slack (Ji et al., DEBS 2015) as Siddhi has it: all rows, and that part of the largest delay which a PD
    /// controller finds for the share of rows that the error allows to miss.
    AqKSlack,
}

impl Rule {
    /// Whether rows are left out.
    pub fn samples(&self) -> bool {
        matches!(self, Rule::Aion | Rule::AionMinus)
    }
}

/// AQ-K-Slack's controller.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlackControl {
    share: f64,
    last_error: f64,
}

impl SlackControl {
    /// As numbers in a row, for state.
    pub(crate) fn numbers(&self) -> [f64; 2] {
        [self.share, self.last_error]
    }

    /// See [`numbers`](SlackControl::numbers).
    pub(crate) fn from_numbers([share, last_error]: [f64; 2]) -> SlackControl {
        SlackControl { share, last_error }
    }

    /// Proportional and differential gain of Siddhi's implementation.
    const KP: f64 = 0.5;
    const KD: f64 = 0.8;

    /// K's part of the largest delay.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// A window answered from that share of its rows, where `wanted` would have done.
    pub(crate) fn learn(&mut self, coverage: f64, wanted: f64) {
        let error = wanted - coverage;
        self.share = (self.share + Self::KP * error + Self::KD * (error - self.last_error)).abs().min(1.0);
        self.last_error = error;
    }
}

/// The share of a window's rows whose sum is within the error: the smallest real root of two quadratics of Siddhi's
/// implementation, over q = z²(μ² + σ²)/(nμ²); 1 where there is none.
pub(crate) fn coverage(promise: Promise, rows: f64, mean: f64, variance: f64) -> f64 {
    let (z, error) = (quantile(0.5 + promise.confidence / 2.0), promise.error);
    let q = z * z * (mean * mean + variance) / (rows.max(1.0) * mean * mean);
    let a = 1.0 + q;
    let roots =
        [(2.0 * error - 2.0 - q, (1.0 - error).powi(2)), (-(2.0 + 2.0 * error + q), (1.0 + error).powi(2))];
    let mut least: Option<f64> = None;
    for (b, c) in roots {
        let square = b * b - 4.0 * a * c;
        if square >= 0.0 {
            for root in [(-b - square.sqrt()) / (2.0 * a), (-b + square.sqrt()) / (2.0 * a)] {
                least = Some(least.map_or(root, |least| least.min(root)));
            }
        }
    }
    least.filter(|share| share.is_finite()).unwrap_or(1.0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_of_a_large_window_is_what_the_error_leaves() {
        let promise = Promise { error: 0.05, confidence: 0.95 };
        let large = coverage(promise, 1e12, 10.0, 100.0);
        assert!((large - 0.95).abs() < 1e-3, "{large}");
        // q = 3.84·(100 + 100)/(1 000·100) = 0.00768: a 1.00768, b −1.90768, c 0.9025; the root is 0.8849 … 1.0083.
        let small = coverage(promise, 1_000.0, 10.0, 100.0);
        assert!((0.85..0.95).contains(&small), "{small}");
    }

    #[test]
    fn the_controller_waits_longer_while_too_few_came() {
        let mut control = SlackControl::default();
        control.learn(0.7, 0.95);
        // 0 + 0.5·0.25 + 0.8·0.25.
        assert!((control.share() - 0.325).abs() < 1e-12);
        control.learn(0.9, 0.95);
        // 0.325 + 0.5·0.05 + 0.8·(0.05 − 0.25) = 0.19.
        assert!((control.share() - 0.19).abs() < 1e-12);
    }
}
