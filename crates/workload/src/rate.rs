//! How many rows come when, from constant to bursty rates, and the walk along such a curve.

use std::sync::Arc;

use rand_distr::{Distribution, OpenClosed01};
use rand_pcg::Pcg64;

use crate::{WorkloadError, seed};

/// How many rows per second come into being, over time since the start of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// Always the same.
    Constant {
        /// Rows per second.
        rows_per_s: f64,
    },
    /// Constant from each point to the next; the first point's rate before it, the last one's for ever.
    Steps(Arc<[RatePoint]>),
    /// Straight lines between the points; constant before the first and after the last.
    Ramps(Arc<[RatePoint]>),
    /// A burst at the beginning of every period: BurstyRateSource of the Lachesis evaluation.
    Bursts {
        /// Rows per second between bursts.
        base_rows_per_s: f64,
        /// Rows per second within one.
        burst_rows_per_s: f64,
        /// How long a burst lasts.
        duration_ns: u64,
        /// From the beginning of one to that of the next.
        period_ns: u64,
    },
    /// The volume of every interval is drawn from a Pareto law with a given mean (Cameo §6.2).
    Pareto {
        /// Mean rows per second, the cap included.
        rows_per_s: f64,
        /// Tail index, above 1. At 1.5 the variance is infinite.
        alpha: f64,
        /// How long a volume holds.
        interval_ns: u64,
        /// No volume is above this multiple of the mean; `INFINITY` for a pure Pareto law.
        peak: f64,
    },
}

/// A rate at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePoint {
    /// Since the start of the stream.
    pub at_ns: u64,
    /// Rows per second.
    pub rows_per_s: f64,
}

impl Rate {
    /// Always the same.
    pub fn constant(rows_per_s: f64) -> Rate {
        Rate::Constant { rows_per_s }
    }

    /// Pareto volume per second, tail index 1.5, at most 20 times the mean. Cameo gives neither number: 1.5 is
    /// the tail its Fig. 2(a) suggests; the cap keeps one second of a run from holding most of its rows.
    pub fn pareto(rows_per_s: f64) -> Rate {
        Rate::Pareto { rows_per_s, alpha: 1.5, interval_ns: SECOND_NS, peak: 20.0 }
    }

    /// Whether rows can come at this rate.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let refuse = |name, value, expected| {
            Err(WorkloadError::Parameter { workload: "a rate", name, value, expected })
        };
        let rates = match self {
            Rate::Constant { rows_per_s } | Rate::Pareto { rows_per_s, .. } => vec![*rows_per_s],
            Rate::Bursts { base_rows_per_s, burst_rows_per_s, .. } => {
                vec![*base_rows_per_s, *burst_rows_per_s]
            }
            Rate::Steps(points) | Rate::Ramps(points) => {
                points.iter().map(|point| point.rows_per_s).collect()
            }
        };
        if rates.is_empty() {
            return refuse("points", 0.0, "at least one point");
        }
        if let Some(&rate) = rates.iter().find(|rate| !(rate.is_finite() && **rate >= 0.0)) {
            return refuse("rows_per_s", rate, "0 or more");
        }
        match self {
            Rate::Steps(points) | Rate::Ramps(points) => {
                if let Some(pair) = points.windows(2).find(|pair| pair[0].at_ns >= pair[1].at_ns) {
                    return refuse("at_ns", pair[1].at_ns as f64, "points that follow one another in time");
                }
            }
            Rate::Bursts { period_ns: 0, .. } => return refuse("period_ns", 0.0, "above 0"),
            Rate::Pareto { alpha, .. } if !(alpha.is_finite() && *alpha > 1.0) => {
                return refuse("alpha", *alpha, "above 1, else there is no mean");
            }
            Rate::Pareto { peak, .. } if peak.is_nan() || *peak <= 1.0 => {
                return refuse("peak", *peak, "above 1");
            }
            Rate::Pareto { interval_ns: 0, .. } => return refuse("interval_ns", 0.0, "above 0"),
            _ => {}
        }
        Ok(())
    }

    /// The same shape with every rate multiplied.
    #[must_use]
    pub fn times(&self, factor: f64) -> Rate {
        let scaled = |points: &Arc<[RatePoint]>| {
            points.iter().map(|p| RatePoint { rows_per_s: p.rows_per_s * factor, ..*p }).collect()
        };
        match *self {
            Rate::Constant { rows_per_s } => Rate::Constant { rows_per_s: rows_per_s * factor },
            Rate::Steps(ref points) => Rate::Steps(scaled(points)),
            Rate::Ramps(ref points) => Rate::Ramps(scaled(points)),
            Rate::Bursts { base_rows_per_s, burst_rows_per_s, duration_ns, period_ns } => Rate::Bursts {
                base_rows_per_s: base_rows_per_s * factor,
                burst_rows_per_s: burst_rows_per_s * factor,
                duration_ns,
                period_ns,
            },
            Rate::Pareto { rows_per_s, alpha, interval_ns, peak } => {
                Rate::Pareto { rows_per_s: rows_per_s * factor, alpha, interval_ns, peak }
            }
        }
    }

    /// Rows per second in the long run: for steps and ramps the last rate.
    pub fn mean_rows_per_s(&self) -> f64 {
        match *self {
            Rate::Constant { rows_per_s } | Rate::Pareto { rows_per_s, .. } => rows_per_s,
            Rate::Steps(ref points) | Rate::Ramps(ref points) => points.last().map_or(0.0, |p| p.rows_per_s),
            Rate::Bursts { base_rows_per_s, burst_rows_per_s, duration_ns, period_ns } => {
                let share = (duration_ns as f64 / period_ns.max(1) as f64).min(1.0);
                burst_rows_per_s * share + base_rows_per_s * (1.0 - share)
            }
        }
    }
}

/// `count` shares that sum to 1 and fall evenly on a logarithmic scale, the first `ratio` times the last: the
/// spatial skew of Cameo §6.2, whose Type 2 "varies by 200× across sources".
pub fn skewed_shares(count: usize, ratio: f64) -> Vec<f64> {
    let steps = count.saturating_sub(1).max(1) as f64;
    let weights: Vec<f64> = (0..count).map(|i| ratio.powf(-(i as f64) / steps)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / sum).collect()
}

/// Rows come into being at a [`Rate`]; this walks along their cumulative count.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    segments: Segments,
    segment: Segment,
    /// Nanoseconds since the start of the stream.
    position_ns: f64,
}

impl Growth {
    pub fn new(rate: &Rate, seed: u64) -> Growth {
        let mut segments = Segments::new(rate.clone(), seed);
        let segment = segments.next();
        Growth { segments, segment, position_ns: 0.0 }
    }

    /// Goes on until `rows` more have come into being, and says when that is; `None` if never.
    pub fn after_rows(&mut self, mut rows: f64) -> Option<f64> {
        loop {
            let rate = self.segment.rate_at(self.position_ns);
            let left = self.segment.rows(self.position_ns, self.segment.end_ns);
            if left >= rows {
                self.position_ns += self.segment.time_for(rate, rows);
                return Some(self.position_ns);
            }
            if self.segment.end_ns.is_infinite() {
                return None;
            }
            rows -= left;
            self.position_ns = self.segment.end_ns;
            self.segment = self.segments.next();
        }
    }

    /// Goes on to an instant, and says how many rows have come into being on the way.
    pub fn until(&mut self, at_ns: f64) -> f64 {
        let mut rows = 0.0;
        while self.segment.end_ns < at_ns {
            rows += self.segment.rows(self.position_ns, self.segment.end_ns);
            self.position_ns = self.segment.end_ns;
            self.segment = self.segments.next();
        }
        rows += self.segment.rows(self.position_ns, at_ns);
        self.position_ns = at_ns;
        rows
    }
}

/// A stretch over which the rate is a straight line.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start_ns: f64,
    /// May be infinite; the line is level then.
    end_ns: f64,
    from: f64,
    to: f64,
}

impl Segment {
    fn slope(&self) -> f64 {
        if self.from == self.to { 0.0 } else { (self.to - self.from) / (self.end_ns - self.start_ns) }
    }

    fn rate_at(&self, at_ns: f64) -> f64 {
        self.from + self.slope() * (at_ns - self.start_ns)
    }

    fn rows(&self, from_ns: f64, to_ns: f64) -> f64 {
        // The end may be infinite: neither 0 · ∞ nor the slope's may arise.
        let mean = match (self.from, self.to) {
            (0.0, 0.0) => return 0.0,
            (from, to) if from == to => from,
            _ => self.rate_at((from_ns + to_ns) / 2.0),
        };
        mean * (to_ns - from_ns) / SECOND_NS as f64
    }

    /// How long until `rows` have come at `rate` and this slope: the smaller root of r·t + s·t²/2 = rows, written
    /// so that it stays exact as the slope goes to 0.
    fn time_for(&self, rate: f64, rows: f64) -> f64 {
        if rows <= 0.0 {
            return 0.0;
        }
        let wanted = rows * SECOND_NS as f64;
        2.0 * wanted / (rate + (rate * rate + 2.0 * self.slope() * wanted).max(0.0).sqrt())
    }
}

#[derive(Clone, Debug)]
struct Segments {
    rate: Rate,
    /// How many were given.
    count: usize,
    end_ns: f64,
    generator: Pcg64,
    /// Scale of the Pareto law that gives the mean wanted.
    pareto_scale: f64,
}

impl Segments {
    fn new(rate: Rate, seed: u64) -> Segments {
        let pareto_scale = match rate {
            Rate::Pareto { rows_per_s, alpha, peak, .. } => rows_per_s * pareto_scale(alpha, peak),
            _ => 0.0,
        };
        let generator = seed::generator(seed, RATE_STREAM);
        Segments { rate, count: 0, end_ns: 0.0, generator, pareto_scale }
    }

    fn next(&mut self) -> Segment {
        let start_ns = self.end_ns;
        let index = self.count;
        let (end_ns, from, to) = match self.rate {
            // Nothing for ever is one segment, else whoever waits for a row would look at all of them.
            Rate::Bursts { .. } | Rate::Pareto { .. } if self.rate.mean_rows_per_s() <= 0.0 => {
                (f64::INFINITY, 0.0, 0.0)
            }
            Rate::Constant { rows_per_s } => (f64::INFINITY, rows_per_s, rows_per_s),
            Rate::Steps(ref points) => {
                let rate = points[..index.min(points.len())].last().or(points.first());
                let rate = rate.map_or(0.0, |point| point.rows_per_s);
                (points.get(index).map_or(f64::INFINITY, |point| point.at_ns as f64), rate, rate)
            }
            Rate::Ramps(ref points) => {
                let from = points[..index.min(points.len())].last().or(points.first());
                let from = from.map_or(0.0, |point| point.rows_per_s);
                match points.get(index) {
                    Some(point) => (point.at_ns as f64, from, point.rows_per_s),
                    None => (f64::INFINITY, from, from),
                }
            }
            Rate::Bursts { base_rows_per_s, burst_rows_per_s, duration_ns, period_ns } => {
                let period = (index / 2) as f64 * period_ns as f64;
                if index.is_multiple_of(2) {
                    let end = period + duration_ns.min(period_ns) as f64;
                    (end, burst_rows_per_s, burst_rows_per_s)
                } else {
                    (period + period_ns as f64, base_rows_per_s, base_rows_per_s)
                }
            }
            Rate::Pareto { rows_per_s, alpha, interval_ns, peak } => {
                let uniform: f64 = OpenClosed01.sample(&mut self.generator);
                let drawn = self.pareto_scale * uniform.powf(-1.0 / alpha);
                let rate = drawn.min(rows_per_s * peak);
                (start_ns + interval_ns.max(1) as f64, rate, rate)
            }
        };
        self.count += 1;
        self.end_ns = end_ns.max(start_ns);
        Segment { start_ns, end_ns: self.end_ns, from, to }
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Apart from what else is drawn with the same seed.
const RATE_STREAM: u64 = 0x7261_7465;

/// The scale m with which a Pareto law cut at `peak` has mean 1: E min(X, c) = m·α/(α−1) − m^α·c^(1−α)/(α−1).
fn pareto_scale(alpha: f64, peak: f64) -> f64 {
    if peak.is_infinite() {
        return (alpha - 1.0) / alpha;
    }
    let mean = |m: f64| (m * alpha - m.powf(alpha) * peak.powf(1.0 - alpha)) / (alpha - 1.0);
    // The mean rises with m, from 0 to `peak`.
    let (mut low, mut high) = (0.0, peak);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if mean(middle) < 1.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: f64 = 1e9;

    fn points(list: &[(u64, f64)]) -> Arc<[RatePoint]> {
        list.iter().map(|&(s, rows_per_s)| RatePoint { at_ns: s * SECOND_NS, rows_per_s }).collect()
    }

    #[test]
    fn constant_rate_gives_even_gaps() {
        let mut growth = Growth::new(&Rate::constant(100.0), 0);
        assert_eq!(growth.after_rows(1.0), Some(1e7));
        assert_eq!(growth.after_rows(1.0), Some(2e7));
        assert_eq!(growth.until(1e8), 8.0);
        assert_eq!(Growth::new(&Rate::constant(0.0), 0).after_rows(1.0), None);
    }

    #[test]
    fn steps_change_the_rate_at_their_points() {
        let rate = Rate::Steps(points(&[(0, 10.0), (2, 100.0), (3, 0.0)]));
        let mut growth = Growth::new(&rate, 0);
        assert_eq!(growth.until(2.0 * S), 20.0);
        assert_eq!(growth.until(2.5 * S), 50.0);
        // 50 rows are left of the second step; the 51st never comes.
        assert_eq!(growth.after_rows(50.0), Some(3.0 * S));
        assert_eq!(growth.after_rows(1.0), None);
        assert_eq!(rate.mean_rows_per_s(), 0.0);
    }

    #[test]
    fn ramps_are_straight() {
        // From 0 to 100 rows/s within 10 s: 5 t² rows after t seconds.
        let rate = Rate::Ramps(points(&[(0, 0.0), (10, 100.0)]));
        let mut growth = Growth::new(&rate, 0);
        let at = growth.after_rows(20.0).unwrap();
        assert!((at - 2.0 * S).abs() < 1.0, "{at}");
        assert!((growth.until(10.0 * S) - 480.0).abs() < 1e-6);
        assert!((growth.until(11.0 * S) - 100.0).abs() < 1e-6);
        // And down to nothing.
        let mut growth = Growth::new(&Rate::Ramps(points(&[(0, 100.0), (10, 0.0)])), 0);
        assert!((growth.after_rows(500.0).unwrap() - 10.0 * S).abs() < 1e3);
        assert_eq!(growth.after_rows(1.0), None);
    }

    #[test]
    fn bursts_open_every_period() {
        let rate = Rate::Bursts {
            base_rows_per_s: 10.0,
            burst_rows_per_s: 110.0,
            duration_ns: SECOND_NS,
            period_ns: 4 * SECOND_NS,
        };
        let mut growth = Growth::new(&rate, 0);
        assert_eq!(growth.until(S), 110.0);
        assert_eq!(growth.until(4.0 * S), 30.0);
        assert_eq!(growth.until(8.0 * S), 140.0);
        assert_eq!(rate.mean_rows_per_s(), 35.0);
    }

    #[test]
    fn pareto_volumes_have_the_mean_and_the_tail() {
        let rate = Rate::pareto(1_000.0);
        let mut growth = Growth::new(&rate, 3);
        let intervals = 100_000;
        let volumes: Vec<f64> = (1..=intervals).map(|i| growth.until(f64::from(i) * S)).collect();
        let mean = volumes.iter().sum::<f64>() / f64::from(intervals);
        let variance = volumes.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(intervals);
        assert!((mean - 1_000.0).abs() < 6.0 * (variance / f64::from(intervals)).sqrt(), "{mean}");
        let scale = 1_000.0 * pareto_scale(1.5, 20.0);
        assert!(volumes.iter().all(|&v| v > scale * 0.999_999 && v < 20_000.1));
        // P(X > 4 m) = 4^−1.5 = 1/8.
        let above = volumes.iter().filter(|&&v| v > 4.0 * scale).count() as f64 / f64::from(intervals);
        assert!((above - 0.125).abs() < 6.0 * (0.125 * 0.875 / f64::from(intervals)).sqrt(), "{above}");
    }

    #[test]
    fn pareto_scale_without_cap_is_the_closed_form() {
        assert_eq!(pareto_scale(1.5, f64::INFINITY), 0.5 / 1.5);
        assert!((pareto_scale(1.5, 1e12) - 0.5 / 1.5).abs() < 1e-5);
        // A law cut at twice its mean starts higher: 3 m − 2 m^1.5 / √2 = 1 at m = 1/2.
        assert!((pareto_scale(1.5, 2.0) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn times_scales_every_shape() {
        for rate in [
            Rate::constant(10.0),
            Rate::Steps(points(&[(0, 10.0), (1, 30.0)])),
            Rate::Ramps(points(&[(0, 10.0), (1, 30.0)])),
            Rate::pareto(10.0),
        ] {
            let rows = |rate: &Rate| Growth::new(rate, 7).until(5.0 * S);
            assert!((rows(&rate.times(3.0)) - 3.0 * rows(&rate)).abs() < 1e-9 * rows(&rate), "{rate:?}");
            assert_eq!(rate.times(3.0).mean_rows_per_s(), 3.0 * rate.mean_rows_per_s());
        }
    }

    #[test]
    fn a_rate_of_nothing_ends_the_search_for_a_row() {
        let bursts = |burst_rows_per_s, duration_ns| Rate::Bursts {
            base_rows_per_s: 0.0,
            burst_rows_per_s,
            duration_ns,
            period_ns: 10,
        };
        for rate in [bursts(0.0, 5), bursts(7.0, 0), Rate::pareto(0.0)] {
            assert_eq!(Growth::new(&rate, 0).after_rows(1.0), None);
        }
    }

    #[test]
    fn impossible_rates_are_refused_with_the_reason() {
        let pareto = |alpha, peak| Rate::Pareto { rows_per_s: 1.0, alpha, interval_ns: 1, peak };
        let error = pareto(1.0, 20.0).check().unwrap_err().to_string();
        assert_eq!(error, "alpha = 1 of a rate: expected above 1, else there is no mean");
        for rate in [
            Rate::constant(f64::NAN),
            Rate::constant(-1.0),
            Rate::Steps(points(&[])),
            Rate::Ramps(points(&[(1, 1.0), (1, 2.0)])),
            pareto(1.5, 1.0),
        ] {
            assert!(rate.check().is_err(), "{rate:?}");
        }
    }

    #[test]
    fn skew_keeps_the_sum_and_the_ratio() {
        let shares = skewed_shares(64, 200.0);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((shares[0] / shares[63] - 200.0).abs() < 1e-9);
        assert_eq!(skewed_shares(1, 200.0), [1.0]);
        assert_eq!(skewed_shares(4, 1.0), [0.25; 4]);
    }
}
