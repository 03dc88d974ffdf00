//! Streams of known laws in virtual time, against what is exact. Windows are many enough that a share of 95 % can be told
//! from one that is lower; the tolerance is that of their number. What these can't catch: how rows get here, which the operator's
//! tests and those of SQL do.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::approximate::normal::quantile;
use crate::approximate::{Answer, Arrival, Span, replay};

const PROMISE: Promise = Promise { error: 0.05, confidence: 0.95 };

fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Rows `gap_ms` apart for so many windows of 3 s, whose delay and value are drawn.
fn stream(
    windows: i64,
    gap_ms: f64,
    mut delay: impl FnMut(f64) -> f64,
    mut row: impl FnMut(f64, f64, f64) -> (u32, f64),
    seed: u64,
) -> Vec<Arrival> {
    let random = &mut Pcg64::seed_from_u64(seed);
    let mut arrivals = Vec::new();
    let mut time = 0.0;
    while time < (windows * 3_000) as f64 {
        let delay_ms = delay(uniform(random));
        let (group, value) = row(time, delay_ms, uniform(random));
        let (time_ms, at_ms) = (time as i64, (time + delay_ms) as i64);
        arrivals.push(Arrival { at_ms, time_ms, group, value });
        time += gap_ms;
    }
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    arrivals
}

fn exponential(mean: f64) -> impl FnMut(f64) -> f64 {
    move |dice| -mean * (1.0 - dice).ln()
}

fn config(aggregates: Vec<Aggregate>, rule: Rule) -> Config {
    Config {
        grid: Grid::new(3_000, 0, Span::Fixed(3_000)),
        promise: PROMISE,
        aggregates,
        rule,
        verifies: false,
        seed: 1,
    }
}

/// Those that answered before everything had come.
fn early(answers: &[Answer]) -> Vec<&Answer> {
    answers.iter().filter(|answer| answer.end_ms > 30_000 && answer.at_ms < answer.end_ms + 1_000).collect()
}

#[track_caller]
fn check_kept(answers: &[&Answer], at_least: usize) {
    assert!(answers.len() >= at_least, "{} answers", answers.len());
    let tolerance = 3.3 * (0.95f64 * 0.05 / answers.len() as f64).sqrt();
    let share = |holds: &dyn Fn(&Answer) -> bool| {
        answers.iter().filter(|answer| holds(answer)).count() as f64 / answers.len() as f64
    };
    let kept = share(&|answer| answer.error() <= PROMISE.error || answer.said() > PROMISE.error);
    assert!(kept >= 0.95 - tolerance, "{kept} keep the bound, or say that they don't");
    let covered = share(&|answer| {
        let covers =
            |(estimate, exact): &(Estimate, f64)| (estimate.value - exact).abs() <= estimate.half_width;
        answer.results.iter().all(covers)
    });
    assert!(covered >= 0.93 - tolerance, "{covered} of the intervals hold what is so");
}

use crate::approximate::Estimate;

#[test]
fn windows_answer_at_their_end_and_keep_the_bound() {
    let arrivals = stream(400, 1.0, exponential(240.0), |_, _, dice| (0, 5.0 - 5.0 * (1.0 - dice).ln()), 1);
    let (answers, totals) = replay(&config(vec![Aggregate::Sum(0), Aggregate::Rows], Rule::Aion), &arrivals);
    let early = early(&answers);
    check_kept(&early, 380);
    let waited =
        early.iter().map(|answer| (answer.at_ms - answer.end_ms) as f64).sum::<f64>() / early.len() as f64;
    assert!(waited < 10.0, "{waited} ms");
    let said = early.iter().filter(|answer| answer.said() <= PROMISE.error).count();
    assert!(said * 100 >= early.len() * 97, "{said} of {} say that they keep it", early.len());
    let taken = totals.rows_taken as f64 / totals.rows_seen as f64;
    assert!(taken < 0.4, "{taken} taken");
}

#[test]
fn percentiles_are_of_a_sample_and_keep_the_bound() {
    // Exponential values, that have a percentile but no bound for it by their mean, and Pareto's without a mean.
    let exponential_value = |_: f64, _: f64, dice: f64| (0, 5.0 - 5.0 * (1.0 - dice).ln());
    let pareto = |_: f64, _: f64, dice: f64| (0, (1.0 - dice).powf(-1.0 / 1.1));
    let median = vec![Aggregate::Percentile { value: 0, share: 0.5 }];
    let both = vec![Aggregate::Percentile { value: 0, share: 0.9 }, Aggregate::Average(0)];
    let arrivals = stream(150, 1.0, exponential(240.0), exponential_value, 21);
    // The median lies at 8.5, where the density is 0.1: ±0.4 are 4 % of all, and 600 rows do, with what is not known for sure
    // twice as many; the ninth decile at 16.5, with 0.02: ±0.8 are 1.6 %, and 1 400 rows, or most.
    for (aggregates, at_most) in [(median.clone(), 0.6), (both, 0.9)] {
        let (answers, totals) = replay(&config(aggregates.clone(), Rule::Aion), &arrivals);
        check_kept(&early(&answers), 120);
        let taken = totals.rows_taken as f64 / totals.rows_seen as f64;
        assert!(taken < at_most, "{taken} taken for {aggregates:?}");
        let said = answers.iter().filter(|answer| answer.said() <= PROMISE.error).count();
        assert!(said * 100 >= answers.len() * 95, "{said} of {} say that they keep it", answers.len());
    }
    let (answers, totals) =
        replay(&config(median, Rule::Aion), &stream(80, 0.5, exponential(240.0), pareto, 22));
    check_kept(&early(&answers), 60);
    assert!(totals.rows_taken * 4 < totals.rows_seen * 3, "{totals:?}");
}

#[test]
fn distinct_counts_see_every_row_in_time() {
    // Some 2 700 of 3 000 values in a window: a tenth is missing at its end, and each may be a new one.
    let row = |_: f64, _: f64, dice: f64| (0, (dice * 15_000.0).floor());
    let arrivals = stream(120, 1.0, exponential(240.0), row, 23);
    let aggregates = vec![Aggregate::Distinct(0), Aggregate::Average(0)];
    let (answers, totals) = replay(&config(aggregates, Rule::Aion), &arrivals);
    let false_bounds = answers.iter().filter(|answer| answer.error() > 0.05 && answer.said() <= 0.05).count();
    assert!(false_bounds * 100 <= answers.len() * 5, "{false_bounds} of {}", answers.len());
    // What else is computed is still of a sample.
    assert!(totals.rows_taken * 2 < totals.rows_seen, "{totals:?}");
    let waited: Vec<i64> = answers.iter().skip(20).map(|answer| answer.at_ms - answer.end_ms).collect();
    // exp(−t/240)·240 of 3 000 are missing after t ms: 2 % at some 330 ms; the longest delay is 2 s.
    let mean = waited.iter().sum::<i64>() as f64 / waited.len() as f64;
    assert!((50.0..1_500.0).contains(&mean), "{mean} ms");
    let said = answers.iter().filter(|answer| answer.said() <= PROMISE.error).count();
    assert!(said * 100 >= answers.len() * 95, "{said} of {} say that they keep it", answers.len());
}

#[test]
fn percentiles_of_late_rows_that_differ_keep_the_bound_or_wait() {
    let row = |_: f64, delay: f64, dice: f64| (0, (1.0 + dice) * if delay > 300.0 { 3.0 } else { 1.0 });
    let arrivals = stream(50, 1.0, exponential(240.0), row, 24);
    let aggregates = vec![Aggregate::Percentile { value: 0, share: 0.5 }];
    let (answers, _) = replay(&config(aggregates, Rule::Aion), &arrivals);
    let late: Vec<&Answer> = answers.iter().filter(|answer| answer.end_ms > 30_000).collect();
    check_kept(&late, 35);
}

#[test]
fn without_delay_and_in_small_groups_results_are_exact() {
    let arrivals = stream(40, 1.0, |_| 0.0, |time, _, dice| ((time as i64 % 400) as u32, dice), 2);
    let (answers, _) = replay(&config(vec![Aggregate::Sum(0)], Rule::Aion), &arrivals);
    assert_eq!(answers.len(), 40 * 400);
    assert!(answers.iter().all(|answer| answer.results[0].0.half_width == 0.0));
    assert!(answers.iter().all(|answer| answer.error() < 1e-9));
}

#[test]
fn late_rows_of_another_mean_are_held() {
    // Who is late by 300 ms is worth three times as much.
    let row = |_: f64, delay: f64, dice: f64| (0, (1.0 + dice) * if delay > 300.0 { 3.0 } else { 1.0 });
    let arrivals = stream(400, 1.0, exponential(240.0), row, 3);
    let (answers, _) = replay(&config(vec![Aggregate::Average(0), Aggregate::Sum(0)], Rule::Aion), &arrivals);
    check_kept(&early(&answers), 200);
}

#[test]
fn heavy_tails_are_answered_exactly() {
    let pareto = |_: f64, _: f64, dice: f64| (0, (1.0 - dice).powf(-1.0 / 1.3));
    let arrivals = stream(200, 1.0, exponential(240.0), pareto, 4);
    let (answers, _) = replay(&config(vec![Aggregate::Sum(0)], Rule::Aion), &arrivals);
    let false_bounds = answers.iter().filter(|answer| answer.error() > 0.05 && answer.said() <= 0.05).count();
    assert!(false_bounds * 100 <= answers.len() * 5, "{false_bounds} of {}", answers.len());
}

#[test]
fn a_rate_of_ten_times_and_delays_of_ten_times_are_noticed() {
    let mut arrivals = stream(100, 1.0, exponential(240.0), |_, _, dice| (0, 1.0 + dice), 5);
    let after = |mut arrivals: Vec<Arrival>, windows: i64| {
        arrivals.iter_mut().for_each(|arrival| {
            arrival.at_ms += windows * 3_000;
            arrival.time_ms += windows * 3_000;
        });
        arrivals
    };
    arrivals.extend(after(stream(100, 0.1, exponential(240.0), |_, _, dice| (0, 1.0 + dice), 6), 100));
    arrivals.extend(after(stream(100, 1.0, exponential(2_400.0), |_, _, dice| (0, 1.0 + dice), 7), 200));
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    let (answers, _) = replay(&config(vec![Aggregate::Sum(0)], Rule::Aion), &arrivals);
    let false_bounds = answers.iter().filter(|answer| answer.error() > 0.05 && answer.said() <= 0.05).count();
    assert!(false_bounds * 100 <= answers.len() * 5, "{false_bounds} of {}", answers.len());
}

#[test]
fn nobody_answers_for_a_source_that_is_silent() {
    // Nothing arrives from 60 to 70 s; then all that happened meanwhile.
    let mut arrivals = stream(40, 1.0, exponential(100.0), |_, _, dice| (0, 1.0 + dice), 8);
    for arrival in &mut arrivals {
        if (60_000..70_000).contains(&arrival.at_ms) {
            arrival.at_ms = 70_000;
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    let (answers, _) = replay(&config(vec![Aggregate::Sum(0)], Rule::Aion), &arrivals);
    assert!(answers.iter().all(|answer| !(61_000..70_000).contains(&answer.at_ms)));
    let broken: Vec<_> =
        answers.iter().filter(|answer| answer.error() > 0.05 && answer.said() <= 0.05).collect();
    assert!(broken.len() * 100 <= 5 * answers.len(), "{broken:?}");
}

#[test]
fn baselines_wait_as_their_names_say() {
    let arrivals = stream(100, 1.0, exponential(240.0), |_, _, dice| (0, 1.0 + dice), 9);
    let wait = |rule| {
        let (answers, totals) = replay(&config(vec![Aggregate::Sum(0)], rule), &arrivals);
        let late: Vec<&Answer> = answers.iter().filter(|answer| answer.end_ms > 30_000).collect();
        let waited =
            late.iter().map(|answer| (answer.at_ms - answer.end_ms) as f64).sum::<f64>() / late.len() as f64;
        let error = late.iter().map(|answer| answer.error()).fold(0.0, f64::max);
        (waited, error, totals.rows_taken as f64 / totals.rows_seen as f64)
    };
    let (k_slack, error, taken) = wait(Rule::KSlack);
    // The largest of 100 000 exponential delays: 240·ln 100 000 = 2 763 ms.
    assert!(
        (1_800.0..3_600.0).contains(&k_slack) && error < 0.01 && taken > 0.999,
        "{k_slack} {error} {taken}"
    );
    let (bounded, error, _) = wait(Rule::Bounded { ms: 1_000 });
    assert!((990.0..1_050.0).contains(&bounded) && error < 0.05, "{bounded} {error}");
    let (quality, error, _) = wait(Rule::AqKSlack);
    assert!(quality < k_slack && error < 0.2, "{quality} {error}");
    let (minus, error, taken) = wait(Rule::AionMinus);
    assert!(minus > 1_800.0 && error < 0.1 && taken < 0.4, "{minus} {error} {taken}");
    let (aion, ..) = wait(Rule::Aion);
    assert!(aion < 0.05 * k_slack, "{aion}");
}

#[test]
fn a_window_that_waits_is_looked_at_at_its_instants_and_not_at_every_arrival() {
    // A sixth of the last rows is missing at the end, each of which may be a value of its own.
    let row = |_: f64, _: f64, dice: f64| (0, (dice * 15_000.0).floor());
    let arrivals = stream(40, 1.0, exponential(240.0), row, 25);
    let mut aion = Aion::new(config(vec![Aggregate::Distinct(0)], Rule::Aion));
    let (mut waited, mut kept) = (0, 0);
    for row in &arrivals {
        while let Some(wake) = aion.wake_at().filter(|&wake| wake <= row.at_ms) {
            while let Some(end) = aion.due(wake) {
                aion.close(end, wake);
            }
        }
        let planned = aion.wake_at();
        aion.arrive(row.at_ms);
        let (rows, times) = ([0], [row.time_ms]);
        let mut offers = Vec::new();
        aion.offer(row.at_ms, &times, None, |_, offer| offers.push(offer));
        let told = Told { rows: &rows, offers: &offers, times: &times, groups: None };
        aion.distinct(told, 0, |_| Some(&[7]));
        if let Some(planned) = planned.filter(|planned| planned % 3_000 != 0 && *planned > row.at_ms) {
            waited += 1;
            assert_eq!(aion.due(row.at_ms), None);
            kept += u32::from(aion.wake_at() == Some(planned));
        } else {
            while let Some(end) = aion.due(row.at_ms) {
                aion.close(end, row.at_ms);
            }
        }
    }
    assert!(waited > 1_000 && kept == waited, "{kept} of {waited}");
}

#[test]
fn a_window_of_many_sub_streams_remembers_all_of_them() {
    // Days of rows, of which the nights have a tenth; windows of a day every hour, each of 240 sub-streams.
    let hour = 3_600_000.0;
    let mut random = Pcg64::seed_from_u64(26);
    let mut arrivals = Vec::new();
    for hours in 0..24 * 12 {
        let rows = if hours % 24 < 8 { 40 } else { 400 };
        for _ in 0..rows {
            let time = (f64::from(hours) + uniform(&mut random)) * hour;
            let at = time - 600_000.0 * (1.0 - uniform(&mut random)).ln();
            let value = 1.0 - (1.0 - uniform(&mut random)).ln();
            arrivals.push(Arrival { at_ms: at as i64, time_ms: time as i64, group: 0, value });
        }
    }
    arrivals.sort_by_key(|row| row.at_ms);
    let grid = Grid::new(3_600_000, 0, Span::Fixed(24 * 3_600_000));
    let config = Config { grid, ..config(vec![Aggregate::Average(0)], Rule::Aion) };
    let (answers, _) = replay(&config, &arrivals);
    let answers: Vec<&Answer> = answers.iter().filter(|answer| answer.end_ms > 3 * 24 * 3_600_000).collect();
    let owned = answers.iter().filter(|answer| answer.said() > PROMISE.error).count();
    let off = answers.iter().filter(|answer| answer.error() > PROMISE.error).count();
    let (taken, rows) = answers.iter().fold((0.0, 0.0), |sum, of| (sum.0 + of.taken, sum.1 + of.rows));
    assert!(taken < 0.4 * rows, "{taken} of {rows}");
    assert!(owned * 10 < answers.len() && off * 20 < answers.len(), "{owned}, {off} of {}", answers.len());
}

#[test]
fn windows_that_share_sub_streams_answer_at_their_end_too() {
    // Two rows a millisecond, log-normal: what is known of a sub-stream that was sent on is of that instant.
    let normal = |dice: f64| quantile(dice.clamp(1e-9, 1.0 - 1e-9));
    let arrivals =
        stream(60, 0.5, exponential(240.0), |_, _, dice| (0, (0.6 + 0.8 * normal(dice)).exp()), 27);
    let grid = Grid::new(1_000, 0, Span::Fixed(2_000));
    let config = Config { grid, ..config(vec![Aggregate::Average(0)], Rule::Aion) };
    let (answers, _) = replay(&config, &arrivals);
    let answers: Vec<&Answer> = answers.iter().filter(|answer| answer.end_ms > 20_000).collect();
    let waited: i64 = answers.iter().map(|answer| answer.at_ms - answer.end_ms).sum();
    assert!(waited < 20 * answers.len() as i64, "{waited} ms for {}", answers.len());
    let off = answers.iter().filter(|answer| answer.error() > 0.05 && answer.said() <= 0.05).count();
    assert!(off * 20 < answers.len(), "{off} of {}", answers.len());
}

#[test]
fn the_same_calls_give_the_same_answers() {
    let arrivals = stream(60, 1.0, exponential(240.0), |_, _, dice| (0, 1.0 + dice), 10);
    let config = config(vec![Aggregate::Sum(0)], Rule::Aion);
    assert!(replay(&config, &arrivals) == replay(&config, &arrivals));
    let other = Config { seed: 2, ..config.clone() };
    assert!(replay(&config, &arrivals).0 != replay(&other, &arrivals).0);
}
