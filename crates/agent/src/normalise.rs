//! Priorities to the numbers that an operating system takes (Lachesis §5.3; algorithms of this project, section 6).
//!
//! Priorities are those of `sched`: lower runs first. Each function answers one value per priority, `best` for the
//! most urgent.

/// What one step of nice is worth: the kernel's weight of nice n is 1024 / 1.25ⁿ (the paper's "125ⁿ" is a misprint).
const STEP: f64 = 1.25;

/// CPU weight of a nice value. The kernel's table (`sched_prio_to_weight`) is this, rounded.
pub fn nice_weight(nice: i32) -> f64 {
    1024.0 / STEP.powi(nice)
}

/// Min–max: most urgent to `best`, least to `worst`, linear in between. All equal: all `best`.
pub fn min_max(priorities: &[f64], best: f64, worst: f64) -> Vec<f64> {
    let (least, most) = extremes(priorities);
    let range = most - least;
    let place = |priority: f64| if range > 0.0 { (priority - least) / range } else { 0.0 };
    priorities.iter().map(|&priority| best + place(priority) * (worst - best)).collect()
}

/// For priorities that are minus a logarithm, as nice values: F(x) = n_best + (ln p_max − ln x) / ln 1.25, so that CPU
/// weights are in the ratio of what the logarithm is of; min–max where that leaves [best, worst].
pub fn logarithmic_nice(priorities: &[f64], best: f64, worst: f64) -> Vec<f64> {
    let (least, most) = extremes(priorities);
    if (most - least) / STEP.ln() > worst - best {
        return min_max(priorities, best, worst);
    }
    priorities.iter().map(|priority| best + (priority - least) / STEP.ln()).collect()
}

/// As [`logarithmic_nice`], as shares: in the ratio of what the logarithm is of, min–max of the logarithms where the
/// least would be below `worst`.
pub fn logarithmic_share(priorities: &[f64], best: f64, worst: f64) -> Vec<f64> {
    let (least, _) = extremes(priorities);
    let shares: Vec<f64> = priorities.iter().map(|priority| best / (priority - least).exp()).collect();
    // Rounding of the logarithms must not decide where the range just fits.
    if shares.iter().any(|&share| share < worst * (1.0 - 1e-9)) {
        min_max(priorities, best, worst)
    } else {
        shares
    }
}

/// Places among the different values: 0 for the most urgent, then 1, …
pub fn places(priorities: &[f64]) -> Vec<f64> {
    let mut sorted = priorities.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    priorities.iter().map(|priority| sorted.partition_point(|other| other < priority) as f64).collect()
}

fn extremes(priorities: &[f64]) -> (f64, f64) {
    priorities
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &p| (least.min(p), most.max(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(values: &[f64]) -> Vec<i64> {
        values.iter().map(|value| value.round() as i64).collect()
    }

    #[test]
    fn weights_are_the_kernels() {
        // sched_prio_to_weight, kernel/sched/core.c.
        for (nice, weight) in [(-20, 88_761.0), (-10, 9_548.0), (0, 1_024.0), (10, 110.0), (19, 15.0)] {
            assert!((nice_weight(nice) / weight - 1.0).abs() < 0.04, "{nice}: {}", nice_weight(nice));
        }
    }

    #[test]
    fn min_max_spans_the_range() {
        assert_eq!(min_max(&[-30.0, -10.0, 0.0], -20.0, 19.0), [-20.0, 6.0, 19.0]);
        assert_eq!(min_max(&[4.0, 4.0], -20.0, 19.0), [-20.0, -20.0]);
        assert!(min_max(&[], -20.0, 19.0).is_empty());
    }

    #[test]
    fn a_tenth_of_the_rate_is_ten_steps_of_nice() {
        // ln 10 / ln 1.25 = 10.319; ln 100 / ln 1.25 = 20.638.
        let rates = [1_000.0f64, 100.0, 10.0];
        let priorities = rates.map(|rate| -rate.ln());
        assert_eq!(rounded(&logarithmic_nice(&priorities, -20.0, 19.0)), [-20, -10, 1]);
        let weights = logarithmic_nice(&priorities, -20.0, 19.0);
        assert!((nice_weight(-20) / STEP.powf(-weights[1]) / 1024.0 - 10.0).abs() < 1e-9);
    }

    #[test]
    fn what_leaves_the_range_is_min_max() {
        // 1.25^39 = 6019: a ratio of 10 000 does not fit between −20 and 19.
        let priorities = [1.0f64, 100.0, 10_000.0].map(|rate| -rate.ln());
        assert_eq!(rounded(&logarithmic_nice(&priorities, -20.0, 19.0)), [19, -1, -20]);
    }

    #[test]
    fn shares_keep_ratios_where_they_fit() {
        let priorities = [1.0f64, 10.0, 100.0].map(|rate| -rate.ln());
        assert_eq!(rounded(&logarithmic_share(&priorities, 1_000.0, 10.0)), [10, 100, 1_000]);
        let wide = [1.0f64, 1e6].map(|rate| -rate.ln());
        assert_eq!(rounded(&logarithmic_share(&wide, 1_000.0, 10.0)), [10, 1_000]);
    }

    #[test]
    fn equals_share_a_place() {
        assert_eq!(places(&[5.0, 1.0, 5.0, 9.0]), [1.0, 0.0, 1.0, 2.0]);
    }
}
