//! What a sampler draws against what the law says, within six standard errors under a fixed seed. Catches a wrong
//! law or parameter, not a subtle correlation between draws.

use super::*;

const DRAWS: usize = 200_000;

fn laws() -> Vec<Delay> {
    vec![
        Delay::Constant { ns: 7 },
        Delay::KLINK_UNIFORM,
        Delay::KLINK_ZIPF,
        Delay::Zipf { exponent: 1.0, ranks: 10, step_ns: 1_000_000 },
        Delay::Zipf { exponent: 2.5, ranks: 1_000, step_ns: 1_000_000 },
        Delay::AION_EXPONENTIAL,
        Delay::AION_GAMMA,
        Delay::AION_GAMMA_GAP,
        Delay::Gamma { shape: 0.5, scale_ns: 1e6 },
        Delay::Normal { mean_ns: 100e6, deviation_ns: 50e6 },
        Delay::Normal { mean_ns: 0.0, deviation_ns: 50e6 },
        Delay::Normal { mean_ns: 5.0, deviation_ns: 0.0 },
        Delay::Poisson { mean: 100.0, step_ns: 1_000_000 },
        Delay::Poisson { mean: 3.0, step_ns: 1_000_000 },
        Delay::Recorded { ns: [1, 2, 6].into() },
    ]
}

fn draws(delay: &Delay, seed: u64) -> Vec<u64> {
    let mut sampler = delay.sampler(seed).unwrap();
    (0..DRAWS).map(|_| sampler.sample_ns()).collect()
}

#[test]
fn moments_are_those_of_the_law() {
    for delay in laws() {
        let sample = draws(&delay, 1);
        let (mean, variance) = delay.moments();
        let n = DRAWS as f64;
        let seen_mean = sample.iter().map(|&x| x as f64).sum::<f64>() / n;
        let central = |power| sample.iter().map(|&x| (x as f64 - mean).powi(power)).sum::<f64>() / n;
        let (seen_variance, fourth) = (central(2), central(4));
        // Rounding to whole nanoseconds moves a mean by at most half of one.
        let error = (variance / n).sqrt();
        assert!(
            (seen_mean - mean).abs() <= 6.0 * error + 0.5,
            "{delay:?}: mean {seen_mean}, expected {mean}"
        );
        let error = ((fourth - variance * variance).max(0.0) / n).sqrt();
        assert!(
            (seen_variance - variance).abs() <= 6.0 * error + 1.0,
            "{delay:?}: variance {seen_variance}, expected {variance}"
        );
        assert!(sample.iter().all(|&x| x >= delay.min_ns() && x <= delay.max_ns().unwrap_or(u64::MAX)));
    }
}

/// Share of draws at or below `x` against the exact probability.
fn check_cdf(delay: &Delay, x_ns: u64, expected: f64) {
    let below = draws(delay, 2).iter().filter(|&&x| x <= x_ns).count() as f64 / DRAWS as f64;
    let error = (expected * (1.0 - expected) / DRAWS as f64).sqrt();
    assert!((below - expected).abs() <= 6.0 * error, "{delay:?} at {x_ns}: {below}, expected {expected}");
}

#[test]
fn quantiles_are_those_of_the_law() {
    check_cdf(&Delay::KLINK_UNIFORM, 24_750_000, 0.25);
    // −ln(1 − p) · mean: median and 99 %.
    check_cdf(&Delay::AION_EXPONENTIAL, 166_355_323, 0.5);
    check_cdf(&Delay::AION_EXPONENTIAL, 1_105_240_845, 0.99);
    // Gamma(2, θ): 1 − e^−x (1 + x) at x = 2.
    check_cdf(&Delay::AION_GAMMA_GAP, 1_000_000, 1.0 - (-2.0_f64).exp() * 3.0);
    // Half-normal: Φ(1) · 2 − 1.
    check_cdf(&Delay::Normal { mean_ns: 0.0, deviation_ns: 50e6 }, 50_000_000, 0.682_689_492);
    // e^−3 (1 + 3 + 9/2).
    check_cdf(&Delay::Poisson { mean: 3.0, step_ns: 1_000_000 }, 2_500_000, (-3.0_f64).exp() * 8.5);
    // 1 / H(10), H(10) = 7381 / 2520.
    check_cdf(&Delay::Zipf { exponent: 1.0, ranks: 10, step_ns: 1_000_000 }, 0, 2520.0 / 7381.0);
    let harmonic: f64 = (1..=100).map(|k| f64::from(k).powf(-0.99)).sum();
    check_cdf(&Delay::KLINK_ZIPF, 0, 1.0 / harmonic);
    check_cdf(
        &Delay::KLINK_ZIPF,
        9_000_000,
        (1..=10).map(|k| f64::from(k).powf(-0.99)).sum::<f64>() / harmonic,
    );
}

#[test]
fn trace_is_replayed_in_order() {
    let mut sampler = Delay::Recorded { ns: [3, 1, 2].into() }.sampler(9).unwrap();
    let drawn: Vec<u64> = (0..7).map(|_| sampler.sample_ns()).collect();
    assert_eq!(drawn, [3, 1, 2, 3, 1, 2, 3]);
}

#[test]
fn seeds_repeat_and_differ() {
    for delay in laws() {
        let few = |seed| {
            let mut sampler = delay.sampler(seed).unwrap();
            [(); 100].map(|()| sampler.sample_ns())
        };
        assert_eq!(few(5), few(5));
        let is_random = delay.moments().1 > 0.0 && !matches!(delay, Delay::Recorded { .. });
        assert_eq!(few(5) != few(6), is_random, "{delay:?}");
    }
}

#[test]
fn impossible_delays_are_refused_with_the_reason() {
    let refused = |delay: Delay| delay.sampler(0).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        refused(Delay::Uniform { low_ns: 2, high_ns: 1 }),
        "a uniform delay from 2 ns to 1 ns: the greatest must not be below the least"
    );
    assert_eq!(
        refused(Delay::Gamma { shape: 0.0, scale_ns: 1.0 }),
        "a gamma delay with shape = 0: expected a number above 0"
    );
    for delay in [
        Delay::Zipf { exponent: 1.0, ranks: 0, step_ns: 1 },
        Delay::Zipf { exponent: -1.0, ranks: 5, step_ns: 1 },
        Delay::Exponential { mean_ns: 0.0 },
        Delay::Gamma { shape: 1.0, scale_ns: f64::NAN },
        Delay::Normal { mean_ns: -1.0, deviation_ns: 1.0 },
        Delay::Normal { mean_ns: 1.0, deviation_ns: f64::INFINITY },
        Delay::Poisson { mean: 0.0, step_ns: 1 },
        Delay::Recorded { ns: [].into() },
    ] {
        assert!(delay.sampler(0).is_err(), "{delay:?}");
    }
}
