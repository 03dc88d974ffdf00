//! Klink's statistic of delays as the paper prints it, to be compared with the one that ranks go by.

use std::collections::VecDeque;

use laxity_sched::SwmEstimator;

/// The statistics of Klink §3.1 as printed: mean μ_n and mean square χ_n of the network delays of the events of each
/// epoch, over the last h epochs.
///
/// Kept to be compared with [`SwmEstimator`], which schedules: Eq. 6 is the variance of a *mean* over
/// h epochs. It shrinks as 1/h, and an interval made of it misses most SWMs.
#[derive(Clone, Debug, Default)]
pub(super) struct EpochDelays {
    sum: f64,
    squares: f64,
    events: u64,
    epochs: VecDeque<(f64, f64)>,
}

impl EpochDelays {
    /// An event (the SWM is one) took so long from its origin to us.
    pub fn observe(&mut self, delay_ns: f64) {
        self.sum += delay_ns;
        self.squares += delay_ns * delay_ns;
        self.events += 1;
    }

    /// An SWM was ingested, after it was observed: the epoch ends (Eqs. 3 and 4, first case).
    pub fn end_epoch(&mut self) {
        if self.events == 0 {
            return;
        }
        if self.epochs.len() == SwmEstimator::HISTORY {
            self.epochs.pop_front();
        }
        let events = self.events as f64;
        self.epochs.push_back((self.sum / events, self.squares / events));
        (self.sum, self.squares, self.events) = (0.0, 0.0, 0);
    }

    /// E\[d\]: μ of the epoch to come (Eq. 3, second case, over the h epochs of Algorithm 1).
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.epochs.is_empty()).then(|| self.average(|(mean, _)| mean))
    }

    /// Var\[w\] by Eq. 6, literally, with h epochs where it says n − 1.
    pub fn printed_variance(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let count = self.epochs.len() as f64;
        let square = self.average(|(_, square)| square);
        // Σ over i ≠ j of μ_i·μ_j is the square of the sum less the sum of the squares.
        let sum: f64 = self.epochs.iter().map(|(mean, _)| mean).sum();
        let own: f64 = self.epochs.iter().map(|(mean, _)| mean * mean).sum();
        let products = sum * sum - own;
        Some((square + products / count) / count - mean * mean)
    }

    /// χ − μ²: the variance of one event's delay, which is what Eq. 6 is taken for.
    #[cfg(test)]
    pub fn event_variance(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        Some(self.average(|(_, square)| square) - mean * mean)
    }

    fn average(&self, of: impl Fn((f64, f64)) -> f64) -> f64 {
        self.epochs.iter().map(|&epoch| of(epoch)).sum::<f64>() / self.epochs.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use laxity_workload::Delay;

    use super::*;

    #[test]
    fn equal_epochs_have_the_variance_of_a_mean() {
        // Each epoch has delays 10 and 30: μ = 20, χ = 500, variance of one delay 100, of a mean over n 100 / n.
        let mut delays = EpochDelays::default();
        assert_eq!(delays.mean_ns(), None);
        for n in 1..=25 {
            delays.observe(10.0);
            delays.observe(30.0);
            delays.end_epoch();
            assert_eq!(delays.mean_ns(), Some(20.0));
            assert!((delays.printed_variance().unwrap() - 100.0 / f64::from(n)).abs() < 1e-9);
            assert!((delays.event_variance().unwrap() - 100.0).abs() < 1e-9);
        }
    }

    #[test]
    fn an_epoch_without_events_is_none() {
        let mut delays = EpochDelays::default();
        delays.end_epoch();
        assert_eq!(delays.mean_ns(), None);
        for i in 0..2 * SwmEstimator::HISTORY {
            delays.observe(if i < SwmEstimator::HISTORY { 1e9 } else { 1.0 });
            delays.end_epoch();
        }
        assert_eq!(delays.mean_ns(), Some(1.0), "what is older than h is forgotten");
    }

    #[test]
    fn the_printed_variance_misses_nearly_all() {
        for law in [Delay::KLINK_UNIFORM, Delay::KLINK_ZIPF] {
            let mut law = law.sampler(7).unwrap();
            let mut delay_ns = || law.sample_ns() as f64;
            let (mut delays, mut inside, mut inside_events) = (EpochDelays::default(), 0, 0);
            for _ in 0..1_000 {
                for _ in 0..50 {
                    delays.observe(delay_ns());
                }
                let swm = delay_ns();
                if let Some(mean) = delays.mean_ns() {
                    let covers = |variance: Option<f64>| (swm - mean).abs() <= 2.0 * variance.unwrap().sqrt();
                    inside += u32::from(covers(delays.printed_variance()));
                    inside_events += u32::from(covers(delays.event_variance()));
                }
                delays.observe(swm);
                delays.end_epoch();
            }
            assert!(inside < 200, "{inside} of 999");
            assert!(inside_events > 900, "{inside_events} of 999");
        }
    }
}
