//! Klink's slack without its loop: the sum of Eq. 8 as one formula, with what had to be corrected in the print.

use laxity_graph::ProcessingTime;

use laxity_sched::SwmForecast;
use laxity_sched::normal::{deviations, truncated_mean};

/// How long a query can wait for its sweeping watermark, less what it has to do until then: Klink's slack
/// (§3.2), in closed form.
///
/// Eq. 8 sums, in steps of r over the interval [t_min, t_max] in which the SWM falls with probability f, the
/// probability of each step given w ≥ t, times what is left then. In the limit of small steps that is the mean
/// of a normal variable truncated at max(t, t_min) and t_max:
///
/// sl(t) = E[w | max(t, t_min) ≤ w ≤ t_max] − t − cost
///
/// Deviates from the print: masses add up to 1 over the interval (as printed, to f, which pulls every slack towards 0);
/// Eq. 9's condition is x ≥ t; Eq. 10 divides by the deviation, not the variance; and past t_max, where the loop
/// yields 0 as if the query were idle, the query is overdue: t_max − t − cost, negative and falling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack {
    /// t_max is so many deviations above the mean.
    reach: f64,
}

impl Slack {
    /// With the interval at f: `share` of all SWMs. Default 0.95.
    pub fn at(share: f64) -> Slack {
        Slack { reach: deviations(share) }
    }

    /// The mean time until the SWM is ingested, given that it is not yet; negative when overdue.
    #[inline]
    pub fn wait_ns(&self, forecast: SwmForecast, now: ProcessingTime) -> f64 {
        let ahead_ns = forecast.mean_ns - now.0 as f64;
        let reach_ns = self.reach * forecast.deviation_ns;
        if ahead_ns >= reach_ns {
            return ahead_ns;
        }
        if ahead_ns <= -reach_ns {
            return ahead_ns + reach_ns;
        }
        // Strictly inside, so that the deviation is positive.
        let from = -ahead_ns / forecast.deviation_ns;
        ahead_ns + forecast.deviation_ns * truncated_mean(from, self.reach)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use laxity_sched::normal::probability;

    const F: f64 = 0.95;

    /// Eq. 8 with the corrections of Eqs. 9 and 10, over masses that add up to 1.
    fn summed(mean: f64, deviation: f64, t: f64, r: f64, cost: f64) -> f64 {
        let reach = deviations(F) * deviation;
        let (t_min, t_max) = (mean - reach, mean + reach);
        let mass = |a: f64, b: f64| probability((b - mean) / deviation) - probability((a - mean) / deviation);
        let mut x = t.max(t_min);
        let all = mass(x, t_max);
        let mut slack = 0.0;
        while x < t_max {
            slack += mass(x, (x + r).min(t_max)) / all * ((x + r - t) - cost);
            x += r;
        }
        slack
    }

    /// Algorithm 1 as printed, with the deviation where Eq. 10 says variance.
    fn printed(mean: f64, deviation: f64, t: f64, r: f64, cost: f64) -> f64 {
        let (t_min, t_max) = (mean - 2.0 * deviation, mean + 2.0 * deviation);
        let below = |x: f64| probability((x - mean) / deviation);
        let mut x = t.max(t_min);
        let mut slack = 0.0;
        while x <= t_max {
            slack += (below(x + r) - below(x)) / (1.0 - below(t)) * ((x + r - t) - cost);
            x += r;
        }
        slack
    }

    fn slack(mean_ns: f64, deviation_ns: f64, t: f64, cost: f64) -> f64 {
        let forecast = SwmForecast { mean_ns, deviation_ns, epochs: 400 };
        Slack::at(F).wait_ns(forecast, ProcessingTime(t as u64)) - cost
    }

    #[test]
    fn far_ahead_slack_is_what_equation_1_says() {
        assert_eq!(slack(5_000.0, 100.0, 1_000.0, 300.0), 4_000.0 - 300.0);
        assert_eq!(slack(5_000.0, 0.0, 4_999.0, 300.0), 1.0 - 300.0);
        assert_eq!(slack(5_000.0, 0.0, 5_000.0, 300.0), -300.0);
    }

    #[test]
    fn an_overdue_query_falls() {
        // t_max = 1 000 + 1.96 · 100 = 1 196.
        let at = |t: f64| slack(1_000.0, 100.0, t, 50.0);
        assert!((at(1_296.0) - (-100.0 - 50.0)).abs() < 0.01, "{}", at(1_296.0));
        assert!((at(2_296.0) - at(1_296.0) + 1_000.0).abs() < 1e-6);
        // As printed it would be 0: as urgent as a query with all the time it needs.
        assert_eq!(printed(1_000.0, 100.0, 1_300.0, 10.0, 50.0), 0.0);
    }

    #[test]
    fn as_printed_the_masses_do_not_add_up() {
        // Far ahead: 0.954 of the slack plus a step.
        let got = printed(1e6, 1e3, 0.0, 1.0, 0.0);
        assert!((got / 1e6 - 0.954_5).abs() < 1e-3, "{got}");
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_sum_within_a_step(
            deviation in 1.0f64..1e4, offset in -4.0f64..1.9, steps in 0.001f64..3.0, cost in 0.0f64..1e5,
        ) {
            let mean = 1e6;
            let (t, r) = ((mean + offset * deviation).floor(), deviation * steps);
            let (closed, sum) = (slack(mean, deviation, t, cost), summed(mean, deviation, t, r, cost));
            // The sum takes the end of every step for the whole of it.
            prop_assert!((-1e-6 * mean..r + 1e-6 * mean).contains(&(sum - closed)), "{closed} and {sum}, r {r}");
        }

        #[test]
        fn slack_falls_with_time(deviation in 0.0f64..1e4, t in 900_000u64..1_100_000, later in 0u64..100_000) {
            let at = |t: u64| slack(1e6, deviation, t as f64, 0.0);
            prop_assert!(at(t + later) <= at(t) + 1e-6);
        }
    }
}
