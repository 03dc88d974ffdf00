//! Intervals of quantiles against what they promise, by drawing samples from populations that are known: skewed ones, tied ones,
//! strata that differ. They may hold more often than was promised, and not less; a tolerance is three to four deviations of
//! what is counted. What they can't catch: late rows that differ in another way than in their mean.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const PROMISE: Promise = Promise { error: 0.05, confidence: 0.95 };
const TRIALS: usize = 500;

fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// As the exact function has it.
fn exact(strata: &[Vec<f64>], share: f64) -> f64 {
    let mut all = strata.concat();
    all.sort_by(f64::total_cmp);
    let position = (all.len() - 1) as f64 * share;
    let (lower, upper) = (all[position.floor() as usize], all[position.ceil() as usize]);
    lower + (upper - lower) * position.fract()
}

/// Each row is taken with the probability of its stratum.
fn drawn(random: &mut Pcg64, strata: &[Vec<f64>], rates: &[f64]) -> Vec<Sample> {
    let taken = strata.iter().zip(rates).zip(1..).map(|((values, rate), id)| {
        let taken: Vec<f64> = values.iter().copied().filter(|_| uniform(random) < *rate).collect();
        let stratum = Stratum { taken: taken.len() as f64, ..Stratum::whole(id, values.len() as f64) };
        Sample { stratum, values: Arc::new(taken) }
    });
    taken.collect()
}

/// How many intervals hold it, and the median of their half widths relative to it.
fn coverage(strata: &[Vec<f64>], rates: &[f64], share: f64, seed: u64) -> (f64, f64) {
    let random = &mut Pcg64::seed_from_u64(seed);
    let exact = exact(strata, share);
    let (mut held, mut widths) = (0, Vec::new());
    for _ in 0..TRIALS {
        let estimate = percentile(&drawn(random, strata, rates), share, PROMISE);
        held += usize::from((estimate.value - exact).abs() <= estimate.half_width);
        widths.push(estimate.half_width / exact.abs());
    }
    widths.sort_by(f64::total_cmp);
    (held as f64 / TRIALS as f64, widths[TRIALS / 2])
}

#[track_caller]
fn check(strata: &[Vec<f64>], rates: &[f64], share: f64) -> f64 {
    let (held, width) = coverage(strata, rates, share, 11);
    let tolerance = 3.3 * (0.95f64 * 0.05 / TRIALS as f64).sqrt();
    assert!(held >= 0.95 - tolerance, "{held} of the intervals of {share} at {rates:?} hold it");
    width
}

fn pareto(random: &mut Pcg64, rows: usize) -> Vec<f64> {
    (0..rows).map(|_| (1.0 - uniform(random)).powf(-1.0 / 1.1)).collect()
}

#[test]
fn intervals_of_skewed_values_hold() {
    let random = &mut Pcg64::seed_from_u64(2);
    // Without variance, and nearly without mean.
    let strata = [pareto(random, 900), pareto(random, 1_100), pareto(random, 1_000)];
    for share in [0.05, 0.5, 0.9, 0.99] {
        for rate in [0.1, 0.5, 0.9] {
            let width = check(&strata, &[rate; 3], share);
            // Of some 300 rows the largest is below the 99th percentile in 3.5 % of samples: more than may be.
            assert_eq!(width.is_finite(), (share, rate) != (0.99, 0.1), "{share} at {rate}: {width}");
        }
    }
    let (narrow, wide) = (check(&strata, &[0.9; 3], 0.5), check(&strata, &[0.1; 3], 0.5));
    // √(1 − θ)/√n: √(0.1/0.9) by √(0.9/0.1) is a ninth.
    assert!((narrow * 9.0 / wide - 1.0).abs() < 0.5, "{narrow} and {wide}");
}

#[test]
fn intervals_of_tied_values_hold() {
    let random = &mut Pcg64::seed_from_u64(3);
    // 1 … 6, the larger the rarer; a hundredth of 1 000.
    let of = |random: &mut Pcg64| match uniform(random) {
        rare if rare < 0.01 => 1_000.0,
        often => (6.0 * often * often).ceil().max(1.0),
    };
    let strata: [Vec<f64>; 2] = [0, 1].map(|_| (0..1_500).map(|_| of(random)).collect());
    for share in [0.2, 0.5, 0.75, 0.985, 0.99, 0.995] {
        check(&strata, &[0.2, 0.2], share);
    }
    let same = [vec![7.0; 500]];
    assert_eq!(check(&same, &[0.3], 0.5), 0.0);
}

#[test]
fn intervals_hold_where_strata_differ_and_some_rows_stand_for_more() {
    let random = &mut Pcg64::seed_from_u64(4);
    let low: Vec<f64> = (0..2_000).map(|_| uniform(random)).collect();
    let high: Vec<f64> = (0..600).map(|_| 0.5 + 4.0 * uniform(random)).collect();
    let strata = [low, high];
    for share in [0.1, 0.5, 0.77, 0.95] {
        check(&strata, &[0.1, 0.33], share);
        check(&strata, &[1.0, 0.05], share);
        check(&strata, &[0.05, 1.0], share);
    }
}

#[test]
fn of_values_that_are_missing_an_interval_holds() {
    let random = &mut Pcg64::seed_from_u64(6);
    // Values grow from stratum to stratum, and of the last a part has come: how many there are is a guess.
    let strata: Vec<Vec<f64>> =
        (0..5).map(|at| (0..400).map(|_| f64::from(at) + 3.0 * uniform(random)).collect()).collect();
    let shares = [1.0, 1.0, 1.0, 0.9, 0.5];
    for share in [0.25, 0.5, 0.9] {
        let (exact, mut held) = (exact(&strata, share), 0);
        for _ in 0..TRIALS {
            let mut samples = Vec::new();
            for ((values, in_time), id) in strata.iter().zip(shares).zip(1..) {
                let came: Vec<f64> = values.iter().copied().filter(|_| uniform(random) < in_time).collect();
                let taken: Vec<f64> = came.iter().copied().filter(|_| uniform(random) < 0.3).collect();
                let seen = came.len() as f64;
                let stratum = Stratum {
                    taken: taken.len() as f64,
                    seen,
                    total: seen / in_time,
                    total_variance: seen * (1.0 - in_time) / (in_time * in_time),
                    ..Stratum::whole(id, seen)
                };
                samples.push(Sample { stratum, values: Arc::new(taken) });
            }
            let estimate = percentile(&samples, share, PROMISE);
            held += usize::from((estimate.value - exact).abs() <= estimate.half_width);
        }
        assert!(
            held as f64 / TRIALS as f64 >= 0.95 - 3.3 * (0.95f64 * 0.05 / TRIALS as f64).sqrt(),
            "{held} of {TRIALS} hold {share}"
        );
    }
}

#[test]
fn late_rows_that_differ_widen_the_interval_by_their_share() {
    let values: Vec<f64> = (0..900).map(f64::from).collect();
    let stratum = Stratum { total: 1_000.0, ..Stratum::whole(1, 900.0) };
    let of = |shift| Sample { stratum: Stratum { shift, ..stratum }, values: Arc::new(values.clone()) };
    let like_others = percentile(&[of((1.0, 1.0))], 0.5, PROMISE).half_width;
    let others = percentile(&[of((9.0, 1.0))], 0.5, PROMISE).half_width;
    // A tenth of 900 values on both sides.
    assert!((others - like_others - 90.0).abs() < 2.0, "{like_others} and {others}");
    // The ninth decile of all may be the largest of those that came, or beyond.
    assert_eq!(percentile(&[of((9.0, 1.0))], 0.95, PROMISE).half_width, f64::INFINITY);
}

#[test]
fn all_rows_give_the_exact_result_and_too_few_no_bound() {
    let whole = Sample { stratum: Stratum::whole(1, 4.0), values: Arc::new(vec![10.0, 1.0, 3.0, 2.0]) };
    // Position 3·0.5: between 2 and 3; 3·0.9 = 2.7: 0.3 · 3 and 0.7 · 10.
    let of = |share| percentile(std::slice::from_ref(&whole), share, PROMISE);
    assert_eq!(of(0.5), Estimate { value: 2.5, half_width: 0.0 });
    assert!((of(0.9).value - 7.9).abs() < 1e-12 && of(0.9).half_width == 0.0);
    assert!(percentile(&[], 0.5, PROMISE).value.is_nan());
    // 0.99^100 is 0.37: the largest of a hundred is not surely above it.
    let hundred = Sample {
        stratum: Stratum { taken: 100.0, ..Stratum::whole(1, 1e6) },
        values: Arc::new((0..100).map(f64::from).collect()),
    };
    assert_eq!(percentile(&[hundred], 0.99, PROMISE).half_width, f64::INFINITY);
}

#[test]
fn shares_of_a_table() {
    // n = 100, p = ½: P(X ≤ 39) = 0.0176, P(X ≤ 40) = 0.0284; P(X ≥ 61) = 0.0176. So the 40th and the 61st value.
    let (below, above) = shares_around(0.5, 0.5, 100.0, 0.95);
    let (below, above) = (below.unwrap() * 100.0, above.unwrap() * 100.0);
    assert!((39.0..40.0).contains(&below) && (60.0..61.0).contains(&above), "{below} and {above}");
    // 1.96²·0.25/0.05² is 384.
    let rows = rows_within(0.5, 0.45, 0.55, PROMISE).unwrap();
    assert!((370.0..460.0).contains(&rows), "{rows}");
    assert_eq!(rows_within(0.5, 0.5, 0.55, PROMISE), None);
}

#[test]
fn rows_of_weights_that_differ_lie_in_the_middle_of_theirs() {
    let sample = |id, rows: f64, values: &[f64]| Sample {
        stratum: Stratum { taken: values.len() as f64, ..Stratum::whole(id, rows) },
        values: Arc::new(values.to_vec()),
    };
    // 1 stands for 2 rows, 5 for 6: their middles are at 1 and 5, the median's at 3 of 8.
    let both = [sample(1, 2.0, &[1.0]), sample(2, 6.0, &[5.0])];
    assert!((percentile(&both, 0.5, PROMISE).value - 3.0).abs() < 1e-12);
    // A stratum that nothing was taken of is as the next.
    let with_empty = [sample(1, 2.0, &[]), sample(2, 6.0, &[5.0])];
    assert_eq!(percentile(&with_empty, 0.5, PROMISE).value, 5.0);
}
