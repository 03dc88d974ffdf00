//! Cameo's forecast of how far a source will be when. It says nothing rather than what its samples do not support.

use std::collections::VecDeque;

use laxity_graph::{EventTime, ProcessingTime};

/// PROGRESSMAP (Cameo §4.3): when a source will have reached a given event time.
///
/// t_MF = α·p_MF + γ, least squares over a running window of (p, t) pairs seen at the source. Two guards that
/// the paper does not have: [`Frontier::predict`] answers only when the fit is credible, and it answers early
/// by two standard errors of the prediction, because a frontier expected too late costs a deadline and one
/// expected too early only costs order.
#[derive(Clone, Debug, Default)]
pub struct Frontier {
    pairs: VecDeque<(i64, i64)>,
    origin: (i64, i64),
    /// Sums over `pairs`, exact because they are integers: an outlier leaves nothing behind when it goes.
    sums: Sums,
    line: Option<Line>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    p: i128,
    t: i128,
    pp: i128,
    pt: i128,
    tt: i128,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    slope: f64,
    mean_p: f64,
    mean_t: f64,
    /// Standard deviation of the residuals, in ns.
    residual_ns: f64,
    /// Sum of squared deviations of p.
    spread: f64,
    count: f64,
}

/// Pairs in the window. Picked: small enough to follow a change of speed within about two seconds.
const PAIRS: usize = 32;

/// Fewer pairs are not believed. Picked.
const PAIRS_MIN: usize = 8;

/// Pairs closer in processing time than this are skipped, so that the window spans at least 1.28 s, a burst of
/// batches read together does not decide the slope, and a busy source does not pay for a fit at every batch.
const SPACING_NS: i64 = 40_000_000;

/// Event times further than this from the first (about 35 000 years) are one bad clock, not progress. The
/// bound also keeps every sum within an `i128`.
const DISTANCE_MS_MAX: i64 = 1 << 50;

/// The line must explain at least this share of the variance of t.
const EXPLAINED_MIN: f64 = 0.9;

impl Frontier {
    /// Takes in that the source had reached `progress` at `ingested`.
    pub fn observe(&mut self, progress: EventTime, ingested: ProcessingTime) {
        if progress == EventTime::MIN || progress == EventTime::MAX {
            return;
        }
        let t = i64::try_from(ingested.0).unwrap_or(i64::MAX);
        if self.pairs.is_empty() {
            self.origin = (progress.0, t);
        }
        let (p, t) = (progress.0.saturating_sub(self.origin.0), t.saturating_sub(self.origin.1));
        if p.abs() > DISTANCE_MS_MAX {
            return;
        }
        if self.pairs.back().is_some_and(|&(_, last)| t < last.saturating_add(SPACING_NS)) {
            return;
        }
        if self.pairs.len() == PAIRS
            && let Some((p, t)) = self.pairs.pop_front()
        {
            self.sums.add(p, t, -1);
        }
        self.pairs.push_back((p, t));
        self.sums.add(p, t, 1);
        self.line = self.fit();
    }

    /// When the source will have reached `progress`; `None` while no fit is credible.
    pub fn predict(&self, progress: EventTime) -> Option<ProcessingTime> {
        let line = self.line?;
        let ahead = progress.0.saturating_sub(self.origin.0) as f64 - line.mean_p;
        let expected = line.mean_t + line.slope * ahead;
        let error = line.residual_ns * (1.0 + 1.0 / line.count + ahead * ahead / line.spread).sqrt();
        let t = self.origin.1 as f64 + expected - 2.0 * error;
        Some(ProcessingTime(t.max(0.0) as u64))
    }

    fn fit(&self) -> Option<Line> {
        let count = self.pairs.len() as i128;
        if self.pairs.len() < PAIRS_MIN {
            return None;
        }
        // Co-moments times the count, still exact: |sums| stay below 2^120 / count.
        let Sums { p, t, pp, pt, tt } = self.sums;
        let n = count as f64;
        let spread = (count * pp - p * p) as f64 / n;
        let mixed = (count * pt - p * t) as f64 / n;
        let total = (count * tt - t * t) as f64 / n;
        if spread <= 0.0 || mixed <= 0.0 || total <= 0.0 {
            return None;
        }
        let slope = mixed / spread;
        // Below this share the difference is rounding of the two terms, not scatter.
        let unexplained = Some(total - slope * mixed).filter(|&u| u > 1e-12 * total).unwrap_or(0.0);
        if unexplained > (1.0 - EXPLAINED_MIN) * total {
            return None;
        }
        Some(Line {
            slope,
            mean_p: p as f64 / n,
            mean_t: t as f64 / n,
            residual_ns: (unexplained / (n - 2.0)).sqrt(),
            spread,
            count: n,
        })
    }
}

impl Sums {
    fn add(&mut self, p: i64, t: i64, sign: i128) {
        let (p, t) = (i128::from(p), i128::from(t));
        self.p += sign * p;
        self.t += sign * t;
        self.pp += sign * p * p;
        self.pt += sign * p * t;
        self.tt += sign * t * t;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH_NS: u64 = 100_000_000;

    /// Event time runs at `speed` and arrives 0.5 s later, give or take `jitter_ns`.
    fn fed(pairs: u64, speed: i64, jitter_ns: u64) -> Frontier {
        let mut frontier = Frontier::default();
        for i in 0..pairs {
            let t = i * TENTH_NS + 5 * TENTH_NS + if i % 2 == 0 { jitter_ns } else { 0 };
            frontier.observe(EventTime(1_700_000_000_000 + i as i64 * 100 * speed), ProcessingTime(t));
        }
        frontier
    }

    fn seconds_at(frontier: &Frontier, event_s: i64) -> Option<f64> {
        let progress = EventTime(1_700_000_000_000 + event_s * 1_000);
        frontier.predict(progress).map(|t| t.0 as f64 / 1e9)
    }

    #[test]
    fn few_pairs_are_not_believed() {
        assert_eq!(seconds_at(&fed(7, 1, 0), 1), None);
        assert!(seconds_at(&fed(8, 1, 0), 1).is_some());
    }

    #[test]
    fn any_speed_is_a_slope() {
        for speed in [1, 10, 3_600] {
            let t = seconds_at(&fed(100, speed, 0), 20 * speed).unwrap();
            assert!((t - 20.5).abs() < 1e-3, "speed {speed}: {t}");
        }
    }

    #[test]
    fn scatter_answers_early_and_more_so_further_off() {
        // Residuals of ±10 ms: standard deviation 10 ms, so 20 ms early and more at a distance.
        let frontier = fed(100, 1, TENTH_NS / 5);
        let early = |s: i64| s as f64 + 0.51 - seconds_at(&frontier, s).unwrap();
        assert!((0.019..0.04).contains(&early(9)), "{}", early(9));
        assert!(early(60) > 3.0 * early(9), "{}", early(60));
    }

    #[test]
    fn time_that_stands_still_or_runs_back_is_not_credible() {
        assert_eq!(seconds_at(&fed(100, 0, 0), 1), None);
        assert_eq!(seconds_at(&fed(100, -1, 0), 1), None);
    }

    #[test]
    fn one_bad_clock_is_forgotten() {
        let mut frontier = fed(100, 1, 0);
        frontier.observe(EventTime(i64::MAX - 1), ProcessingTime(101 * TENTH_NS));
        assert!(seconds_at(&frontier, 20).is_some(), "too far to be progress");
        frontier.observe(EventTime(2_000_000_000_000), ProcessingTime(106 * TENTH_NS));
        assert_eq!(seconds_at(&frontier, 20), None);
        for i in 102..102 + PAIRS as u64 {
            let progress = EventTime(1_700_000_000_000 + i as i64 * 100);
            frontier.observe(progress, ProcessingTime((i + 5) * TENTH_NS));
        }
        let t = seconds_at(&frontier, 20).unwrap();
        assert!((t - 20.5).abs() < 1e-3, "{t}");
    }
}
