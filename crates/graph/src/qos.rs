//! What a late result is still worth, for policies that weigh lateness; a latency target alone implies a curve.

use std::sync::Arc;
use std::time::Duration;

use crate::LatencyTarget;

/// How useful a result is by its latency: piecewise linear, never rising, in [0, 1] (Aurora §2.2, §6).
///
/// Before the first point the utility is that of the first, after the last that of the last. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct QosCurve {
    points: Arc<[QosPoint]>,
}

/// A critical point of a [`QosCurve`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QosPoint {
    /// Latency.
    pub latency_ns: u64,
    /// Utility there.
    pub utility: f64,
}

/// The points are no utility curve. The user can fix it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidQosCurve {
    /// Nothing to go through.
    #[error("a utility curve needs at least one point")]
    Empty,
    /// Not a utility.
    #[error("point {number} has utility {utility}; expected a number from 0 to 1")]
    Utility {
        /// Which point, from 1.
        number: usize,
        /// What it says.
        utility: f64,
    },
    /// Latencies must rise.
    #[error("point {number} is not later than the one before it; latencies must rise from point to point")]
    Order {
        /// Which point, from 1.
        number: usize,
    },
    /// Utilities must not rise.
    #[error("point {number} has more utility than the one before it; a later result is never worth more")]
    Rises {
        /// Which point, from 1.
        number: usize,
    },
}

impl QosCurve {
    /// The curve through these points.
    ///
    /// # Errors
    /// If there are none, a utility is not in [0, 1], latencies do not rise, or utilities do.
    pub fn new(points: impl IntoIterator<Item = (Duration, f64)>) -> Result<QosCurve, InvalidQosCurve> {
        let mut made: Vec<QosPoint> = Vec::new();
        for (place, (latency, utility)) in points.into_iter().enumerate() {
            let number = place + 1;
            if !(0.0..=1.0).contains(&utility) {
                return Err(InvalidQosCurve::Utility { number, utility });
            }
            let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            if let Some(last) = made.last() {
                if last.latency_ns >= latency_ns {
                    return Err(InvalidQosCurve::Order { number });
                }
                if last.utility < utility {
                    return Err(InvalidQosCurve::Rises { number });
                }
            }
            made.push(QosPoint { latency_ns, utility });
        }
        if made.is_empty() {
            return Err(InvalidQosCurve::Empty);
        }
        Ok(QosCurve { points: made.into() })
    }

    /// What a latency target alone implies: full use until L, none from 2 L on.
    pub fn of_target(target: LatencyTarget) -> QosCurve {
        QosCurve::of_target_ns(target.ns())
    }

    /// As [`of_target`](QosCurve::of_target), for L in nanoseconds.
    pub fn of_target_ns(target_ns: u64) -> QosCurve {
        let target_ns = target_ns.max(1);
        let points = [(0, 1.0), (target_ns, 1.0), (target_ns.saturating_mul(2), 0.0)];
        QosCurve {
            points: points.map(|(latency_ns, utility)| QosPoint { latency_ns, utility }).as_slice().into(),
        }
    }

    /// The critical points, by latency.
    pub fn points(&self) -> &[QosPoint] {
        &self.points
    }

    /// Utility of a result of that latency.
    pub fn utility(&self, latency_ns: u64) -> f64 {
        let after = self.points.partition_point(|point| point.latency_ns <= latency_ns);
        let Some(next) = self.points.get(after) else { return self.last_utility() };
        let Some(before) = after.checked_sub(1).map(|place| self.points[place]) else { return next.utility };
        let share = (latency_ns - before.latency_ns) as f64 / (next.latency_ns - before.latency_ns) as f64;
        before.utility + share * (next.utility - before.utility)
    }

    /// Utility lost per nanosecond from that latency on; 0 where the curve is flat.
    pub fn loss_per_ns(&self, latency_ns: u64) -> f64 {
        let after = self.points.partition_point(|point| point.latency_ns <= latency_ns);
        let (Some(before), Some(next)) = (after.checked_sub(1), self.points.get(after)) else { return 0.0 };
        let before = self.points[before];
        (before.utility - next.utility) / (next.latency_ns - before.latency_ns) as f64
    }

    /// The latency up to which a result is worth at least that share of what it is worth at once (all of it: 1); `None`: always.
    pub fn worth_until_ns(&self, share: f64) -> Option<u64> {
        let enough = share * self.points[0].utility;
        let falls = self.points.iter().position(|point| point.utility < enough)?;
        let (before, after) = (self.points[falls - 1], self.points[falls]);
        let part = (before.utility - enough) / (before.utility - after.utility);
        let length_ns = (after.latency_ns - before.latency_ns) as f64;
        Some(before.latency_ns + (part.clamp(0.0, 1.0) * length_ns).round() as u64)
    }

    /// What a result is still worth however late.
    pub fn last_utility(&self) -> f64 {
        self.points[self.points.len() - 1].utility
    }

    /// Nanoseconds from that latency to the next critical point after it; `None` past the last.
    pub fn slack_ns(&self, latency_ns: u64) -> Option<u64> {
        let after = self.points.partition_point(|point| point.latency_ns <= latency_ns);
        self.points.get(after).map(|next| next.latency_ns - latency_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_target_implies_its_curve() {
        let curve = QosCurve::of_target_ns(50 * MS);
        assert_eq!(curve.utility(0), 1.0);
        assert_eq!(curve.utility(50 * MS), 1.0);
        assert_eq!(curve.utility(75 * MS), 0.5);
        assert_eq!(curve.utility(200 * MS), 0.0);
        assert_eq!(curve.loss_per_ns(40 * MS), 0.0);
        assert_eq!(curve.loss_per_ns(50 * MS), 1.0 / (50 * MS) as f64);
        assert_eq!(curve.loss_per_ns(100 * MS), 0.0);
        assert_eq!(curve.slack_ns(20 * MS), Some(30 * MS));
        assert_eq!(curve.slack_ns(100 * MS), None);
    }

    fn curve(points: &[(u64, f64)]) -> QosCurve {
        QosCurve::new(points.iter().map(|&(ns, utility)| (Duration::from_nanos(ns), utility))).unwrap()
    }

    #[test]
    fn a_curve_of_several_parts() {
        // Flat before the first point, two slopes, flat behind the last.
        let curve = curve(&[(10, 0.9), (20, 0.5), (60, 0.1)]);
        let at = |ns| (curve.utility(ns), curve.loss_per_ns(ns), curve.slack_ns(ns));
        let near = |got: (f64, f64, Option<u64>), want: (f64, f64, Option<u64>)| {
            assert!((got.0 - want.0).abs() < 1e-12 && (got.1 - want.1).abs() < 1e-12, "{got:?} {want:?}");
            assert_eq!(got.2, want.2);
        };
        near(at(0), (0.9, 0.0, Some(10)));
        near(at(10), (0.9, 0.04, Some(10)));
        near(at(15), (0.7, 0.04, Some(5)));
        near(at(20), (0.5, 0.01, Some(40)));
        near(at(40), (0.3, 0.01, Some(20)));
        near(at(60), (0.1, 0.0, None));
        near(at(u64::MAX), (0.1, 0.0, None));
        assert_eq!(curve.last_utility(), 0.1);
    }

    #[test]
    fn where_a_curve_begins_to_fall() {
        assert_eq!(curve(&[(0, 1.0), (5, 1.0), (9, 0.0)]).worth_until_ns(1.0), Some(5));
        assert_eq!(curve(&[(3, 1.0), (5, 0.4)]).worth_until_ns(1.0), Some(3));
        assert_eq!(curve(&[(3, 0.5), (7, 0.5)]).worth_until_ns(1.0), None);
        assert_eq!(curve(&[(3, 0.5)]).worth_until_ns(1.0), None);
    }

    #[test]
    fn until_when_a_share_is_left() {
        let falling = curve(&[(10, 0.8), (20, 0.8), (40, 0.4), (50, 0.0)]);
        assert_eq!(falling.worth_until_ns(1.0), Some(20));
        // 0.6 halfway down the first slope, 0.4 at its end, 0.2 halfway down the second.
        assert_eq!(falling.worth_until_ns(0.75), Some(30));
        assert_eq!(falling.worth_until_ns(0.5), Some(40));
        assert_eq!(falling.worth_until_ns(0.25), Some(45));
        assert_eq!(falling.worth_until_ns(0.0), None);
        assert_eq!(curve(&[(5, 0.3)]).worth_until_ns(1.0), None);
        assert_eq!(curve(&[(0, 1.0), (9, 0.5)]).worth_until_ns(0.5), None);
    }

    #[test]
    fn a_target_that_overflows_stays_a_curve() {
        let curve = QosCurve::of_target_ns(u64::MAX - 1);
        assert_eq!(curve.utility(u64::MAX - 1), 1.0);
        assert_eq!(curve.slack_ns(0), Some(u64::MAX - 1));
        assert_eq!(QosCurve::of_target_ns(0).points().len(), 3);
    }

    #[test]
    fn what_is_no_curve_is_refused_with_its_place() {
        let ms = Duration::from_millis;
        assert_eq!(QosCurve::new([]), Err(InvalidQosCurve::Empty));
        assert_eq!(QosCurve::new([(ms(1), 1.5)]), Err(InvalidQosCurve::Utility { number: 1, utility: 1.5 }));
        assert_eq!(QosCurve::new([(ms(1), 1.0), (ms(1), 0.0)]), Err(InvalidQosCurve::Order { number: 2 }));
        assert_eq!(QosCurve::new([(ms(1), 0.0), (ms(2), 1.0)]), Err(InvalidQosCurve::Rises { number: 2 }));
        assert!(matches!(QosCurve::new([(ms(1), f64::NAN)]), Err(InvalidQosCurve::Utility { .. })));
    }
}
