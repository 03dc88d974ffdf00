//! Intervals against what they promise, by drawing samples from populations that are known. A tolerance is three to
//! four deviations of what is counted, so that a right estimator passes and one that is off by more than the number of
//! trials can show does not; nothing is tuned. What they can't catch: a law of values that is not among these.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const PROMISE: Promise = Promise { error: 0.05, confidence: 0.95 };
const TRIALS: usize = 2_000;

fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn exponential(random: &mut Pcg64) -> f64 {
    -(1.0 - uniform(random)).ln()
}

/// `count` of the values, each set as likely.
fn drawn(random: &mut Pcg64, values: &mut [f64], count: usize) -> Moments {
    for at in 0..count {
        let other = at + (uniform(random) * (values.len() - at) as f64) as usize;
        values.swap(at, other);
    }
    values[..count].iter().copied().collect()
}

/// Two strata of different mean, of which a tenth and a third are taken.
struct Population {
    strata: [Vec<f64>; 2],
    taken: [usize; 2],
}

impl Population {
    fn new(random: &mut Pcg64) -> Population {
        let low = (0..2_000).map(|_| exponential(random)).collect();
        let high = (0..600).map(|_| 5.0 + 4.0 * uniform(random)).collect();
        Population { strata: [low, high], taken: [200, 200] }
    }

    fn all(&self) -> Moments {
        self.strata.iter().flatten().copied().collect()
    }

    fn sample(&mut self, random: &mut Pcg64) -> Vec<Taken> {
        let strata = self.strata.iter_mut().zip(self.taken).zip(1..);
        let taken = strata.map(|((values, count), id)| Taken {
            stratum: Stratum { taken: count as f64, ..Stratum::whole(id, values.len() as f64) },
            values: drawn(random, values, count),
        });
        taken.collect()
    }
}

/// The mean over all trials is the truth, and as many intervals hold it as were promised.
#[track_caller]
fn check(exact: f64, estimates: &[Estimate]) {
    let values: Moments = estimates.iter().map(|estimate| estimate.value).collect();
    let error = values.deviation() / values.count.sqrt();
    assert!(
        (values.mean - exact).abs() < 4.0 * error + 0.002 * exact.abs(),
        "mean {} ± {error} of {exact}",
        values.mean
    );
    let holds = |estimate: &&Estimate| (estimate.value - exact).abs() <= estimate.half_width;
    let share = estimates.iter().filter(holds).count() as f64 / values.count;
    let tolerance = 3.3 * (0.95f64 * 0.05 / values.count).sqrt();
    assert!((0.95 - tolerance..0.95 + 2.0 * tolerance).contains(&share), "{share} of the intervals hold it");
}

fn trials(estimate: impl Fn(&[Taken]) -> Estimate, exact: impl Fn(&Moments) -> f64) {
    let random = &mut Pcg64::seed_from_u64(7);
    let mut population = Population::new(random);
    let exact = exact(&population.all());
    let estimates: Vec<Estimate> = (0..TRIALS).map(|_| estimate(&population.sample(random))).collect();
    check(exact, &estimates);
}

#[test]
fn sums_and_averages_cover() {
    trials(|taken| sum(taken, PROMISE), Moments::sum);
    trials(|taken| average(taken, PROMISE), |all| all.mean);
}

#[test]
fn variances_and_deviations_cover() {
    trials(|taken| variance(taken, false, PROMISE), |all| all.m2 / all.count);
    trials(|taken| deviation(taken, true, PROMISE), |all| all.variance().sqrt());
}

#[test]
fn counts_behind_a_filter_cover() {
    let random = &mut Pcg64::seed_from_u64(3);
    let mut population = Population::new(random);
    let passes = |value: f64| !(0.5..6.0).contains(&value);
    let exact = population.strata.iter().flatten().filter(|&&value| passes(value)).count();
    let estimates = (0..TRIALS).map(|_| {
        let strata = population.strata.iter_mut().zip(population.taken).zip(1..);
        let taken = strata.map(|((values, n), id)| {
            let stratum = Stratum { taken: n as f64, ..Stratum::whole(id, values.len() as f64) };
            drawn(random, values, n);
            let passing = values[..n].iter().copied().filter(|&value| passes(value)).collect();
            Taken { stratum, values: passing }
        });
        count(&taken.collect::<Vec<_>>(), PROMISE)
    });
    let estimates: Vec<Estimate> = estimates.collect();
    check(exact as f64, &estimates);
}

#[test]
fn ratios_cover_and_gain_by_what_goes_together() {
    let random = &mut Pcg64::seed_from_u64(5);
    // A fare is some dollars and so much a mile.
    let mut rows: Vec<(f64, f64)> = Vec::new();
    for _ in 0..3_000 {
        let miles = exponential(random);
        rows.push((2.5 + 3.0 * miles + uniform(random), miles));
    }
    let exact = rows.iter().map(|row| row.0).sum::<f64>() / rows.iter().map(|row| row.1).sum::<f64>();
    let stratum = Stratum { taken: 400.0, ..Stratum::whole(1, 3_000.0) };
    let estimates = (0..TRIALS).map(|_| {
        for at in 0..400 {
            let other = at + (uniform(random) * (rows.len() - at) as f64) as usize;
            rows.swap(at, other);
        }
        let drawn = &rows[..400];
        let values = [drawn.iter().map(|row| row.0).collect(), drawn.iter().map(|row| row.1).collect()];
        let products = drawn.iter().map(|row| row.0 * row.1).sum();
        ratio(&[Pair { stratum, values, products, shifts: [(0.0, 0.0); 2] }], PROMISE)
    });
    let estimates: Vec<Estimate> = estimates.collect();
    check(exact, &estimates);
}

#[test]
fn all_rows_give_the_exact_result_without_an_interval() {
    let values: Moments = [1.0, 2.0, 3.0, 10.0].into_iter().collect();
    let taken = [Taken { stratum: Stratum::whole(1, 4.0), values }];
    let exact = |value| Estimate { value, half_width: 0.0 };
    assert_eq!(count(&taken, PROMISE), exact(4.0));
    assert_eq!(sum(&taken, PROMISE), exact(16.0));
    assert_eq!(average(&taken, PROMISE), exact(4.0));
    assert_eq!(variance(&taken, false, PROMISE), exact(12.5));
    assert_eq!(variance(&taken, true, PROMISE), exact(50.0 / 3.0));
    // 2 + 4 over 2 + 2.
    let moments = |values: [f64; 2]| values.into_iter().collect::<Moments>();
    let pair = Pair {
        stratum: Stratum::whole(1, 2.0),
        values: [moments([2.0, 4.0]), moments([2.0, 2.0])],
        products: 12.0,
        shifts: [(0.0, 0.0); 2],
    };
    assert_eq!(ratio(&[pair], PROMISE), exact(1.5));
    assert_eq!(exact(0.0).relative(), 0.0);
}

#[test]
fn a_sample_in_two_pieces_is_one() {
    // Two instances each have taken rows of the same stratum.
    let stratum = Stratum { taken: 4.0, ..Stratum::whole(1, 9.0) };
    let all: Moments = [1.0, 4.0, 2.0, 5.0].into_iter().collect();
    let mut first: Moments = [1.0, 4.0].into_iter().collect();
    first.merge(&[2.0, 5.0].into_iter().collect());
    let one = sum(&[Taken { stratum, values: all }], PROMISE);
    let two = sum(&[Taken { stratum, values: first }], PROMISE);
    assert!((one.value - two.value).abs() < 1e-9 && (one.half_width - two.half_width).abs() < 1e-9);
}

/// A window of 3 000 rows, of which each comes in time with probability 0.75, as in the last sub-stream under an
/// exponential delay.
fn with_stragglers(random: &mut Pcg64, late_shift: f64) -> (f64, f64, Stratum, Moments) {
    const SHARE: f64 = 0.75;
    let (mut exact, mut in_time) = (0.0, Vec::new());
    for _ in 0..3_000 {
        let is_late = uniform(random) > SHARE;
        let value = 10.0 + uniform(random) + if is_late { late_shift } else { 0.0 };
        exact += value;
        if !is_late {
            in_time.push(value);
        }
    }
    let seen = in_time.len() as f64;
    let values = drawn(random, &mut in_time, 300);
    let stratum = Stratum {
        taken: 300.0,
        seen,
        total: seen / SHARE,
        total_variance: seen * (1.0 - SHARE) / SHARE.powi(2),
        ..Stratum::whole(1, 0.0)
    };
    (exact, seen, stratum, values)
}

/// Share of windows whose SUM lies in the interval that each of two formulas gives.
fn sums_held(late_shift: f64, shift: (f64, f64)) -> [f64; 2] {
    let random = &mut Pcg64::seed_from_u64(11);
    let (mut ours, mut literal) = (0, 0);
    for _ in 0..TRIALS {
        let (exact, _, stratum, values) = with_stragglers(random, late_shift);
        let estimate = sum(&[Taken { stratum: Stratum { shift, ..stratum }, values }], PROMISE);
        ours += usize::from((estimate.value - exact).abs() <= estimate.half_width);
        // Eq. 4.3 with Eq. 4.5: N·μ(s) ± N·z·√(1 − n/N)·σ/√n, N as estimated and taken for known.
        let (n, rows) = (values.count, stratum.total);
        let half_width = rows * PROMISE.z() * (1.0 - n / rows).sqrt() * values.deviation() / n.sqrt();
        literal += usize::from((rows * values.mean - exact).abs() <= half_width);
    }
    [ours, literal].map(|held| held as f64 / TRIALS as f64)
}

#[test]
fn a_sum_whose_stragglers_are_missing_is_held_by_us_and_not_by_the_thesis() {
    let [ours, literal] = sums_held(0.0, (0.0, 0.0));
    let tolerance = 3.3 * (0.95f64 * 0.05 / TRIALS as f64).sqrt();
    assert!(ours >= 0.95 - tolerance, "{ours}");
    // σ(N̂)/N is 1.05 %, σ/(μ√n) 0.16 %: the literal interval is a sixth of what it should be.
    assert!(literal < 0.5, "{literal}");
}

#[test]
fn late_rows_that_differ_are_held_once_their_shift_is_known() {
    // Late rows are larger by half of the mean: 12 % of the sum.
    let [blind, _] = sums_held(5.0, (0.0, 0.0));
    assert!(blind < 0.5, "{blind}");
    let [corrected, _] = sums_held(5.0, (5.0, 0.05));
    assert!(corrected >= 0.95 - 3.3 * (0.95f64 * 0.05 / TRIALS as f64).sqrt(), "{corrected}");
}

/// Values of infinite variance: a sum of Pareto's law of that index.
fn pareto_sums_held(index: f64) -> (usize, usize, usize) {
    let random = &mut Pcg64::seed_from_u64(13);
    let (mut given, mut held, mut held_without_asking) = (0, 0, 0);
    for _ in 0..TRIALS {
        let mut values: Vec<f64> = (0..3_000).map(|_| (1.0 - uniform(random)).powf(-1.0 / index)).collect();
        let exact: f64 = values.iter().sum();
        let stratum = Stratum { taken: 600.0, ..Stratum::whole(1, 3_000.0) };
        let taken = [Taken { stratum, values: drawn(random, &mut values, 600) }];
        let holds = |estimate: Estimate| usize::from((estimate.value - exact).abs() <= estimate.half_width);
        let estimate = sum(&taken, PROMISE);
        given += usize::from(estimate.half_width.is_finite());
        held += holds(estimate);
        held_without_asking += holds(Estimate::of(total(&taken), PROMISE.confidence));
    }
    (given, held, held_without_asking)
}

#[test]
fn no_interval_is_given_where_the_variance_is_infinite() {
    let (given, held, held_without_asking) = pareto_sums_held(1.3);
    assert!(given < TRIALS / 20, "an interval for {given} of {TRIALS}");
    assert!(held > TRIALS * 19 / 20, "{held}");
    assert!(
        held_without_asking < TRIALS * 9 / 10,
        "{held_without_asking}: this law is not heavy enough to show it"
    );
}

#[test]
fn strata_of_one_row_are_one_with_their_neighbours() {
    let taken = |id, rows: &[f64], total| {
        let stratum = Stratum { taken: rows.len() as f64, ..Stratum::whole(id, total) };
        Taken { stratum, values: rows.iter().copied().collect() }
    };
    // Nothing, one, three and one taken: the first three are one, and the last is one with them.
    let parts =
        [taken(1, &[], 3.0), taken(2, &[1.0], 4.0), taken(3, &[2.0, 3.0, 6.0], 9.0), taken(4, &[8.0], 4.0)];
    let whole = [taken(1, &[1.0, 2.0, 3.0, 6.0, 8.0], 20.0)];
    let near = |a: Estimate, b: Estimate| {
        assert!(
            (a.value - b.value).abs() < 1e-9 && (a.half_width - b.half_width).abs() < 1e-9,
            "{a:?} {b:?}"
        );
    };
    near(average(&parts, PROMISE), average(&whole, PROMISE));
    assert_eq!(collapsed(&parts).len(), 1);
    // The mean of 20 rows, five of them known: 4 · 20.
    assert!((total(&collapsed(&parts)).value - 80.0).abs() < 1e-9);
    // Of one row of ten there is no interval; of all rows none is needed.
    assert_eq!(sum(&[taken(1, &[5.0], 10.0)], PROMISE).half_width, f64::INFINITY);
    assert_eq!(sum(&[taken(1, &[5.0], 1.0), taken(2, &[6.0], 1.0)], PROMISE).half_width, 0.0);
    assert_eq!(rows(&[taken(1, &[5.0], 10.0)], PROMISE), Estimate { value: 10.0, half_width: 0.0 });
}

#[test]
fn late_rows_that_differ_shift_a_ratio_too() {
    let random = &mut Pcg64::seed_from_u64(17);
    let (mut held, mut blind) = (0, 0);
    for _ in 0..TRIALS {
        // Of 3 000 rows a quarter is late, and worth 5 more above the line.
        let (mut exact, mut in_time) = ((0.0, 0.0), Vec::new());
        for _ in 0..3_000 {
            let is_late = uniform(random) > 0.75;
            let row = (10.0 + uniform(random) + if is_late { 5.0 } else { 0.0 }, 1.0 + uniform(random));
            exact = (exact.0 + row.0, exact.1 + row.1);
            if !is_late {
                in_time.push(row);
            }
        }
        let seen = in_time.len() as f64;
        for at in 0..300 {
            let other = at + (uniform(random) * (in_time.len() - at) as f64) as usize;
            in_time.swap(at, other);
        }
        let drawn = &in_time[..300];
        let stratum = Stratum {
            taken: 300.0,
            seen,
            total: seen / 0.75,
            total_variance: seen * 0.25 / 0.75f64.powi(2),
            ..Stratum::whole(1, 0.0)
        };
        let values = [drawn.iter().map(|row| row.0).collect(), drawn.iter().map(|row| row.1).collect()];
        let products = drawn.iter().map(|row| row.0 * row.1).sum();
        let holds = |shifts| {
            let estimate = ratio(&[Pair { stratum, values, products, shifts }], PROMISE);
            usize::from((estimate.value - exact.0 / exact.1).abs() <= estimate.half_width)
        };
        held += holds([(5.0, 0.05), (0.0, 0.0)]);
        blind += holds([(0.0, 0.0); 2]);
    }
    let tolerance = 3.3 * (0.95f64 * 0.05 / TRIALS as f64).sqrt();
    assert!(held as f64 >= (0.95 - tolerance) * TRIALS as f64, "{held}");
    assert!(blind < TRIALS / 2, "{blind}");
}
