//! Aion where its assumptions do not hold: its answers may miss the bound there, but they must say so.

use laxity_operators::approximate::{Aggregate, Answer, Arrival, Config, Grid, Rule, Span, replay};

use super::trial::{PROMISE, on_all_cores, wilson};
use super::workload::{Delays, Stream, Workload};
use super::{NOTES, PAPER, chart};
use crate::{Axis, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE: Figure = Figure {
    name: "aion-adversity",
    title: "what the thesis leaves out: the bound holds, or the answer says that it does not",
    paper: PAPER,
    section: "§4.1",
    says: "Nothing: it assumes that late rows are like the others, that values have a variance and that rates hold.",
    notes: NOTES,
    run,
    judge,
};

const CASES: [&str; 6] = [
    "late rows worth three times",
    "Pareto 1.3",
    "ten times the rate",
    "ten times the delay",
    "silent source",
    "one group of 1 000",
];

fn run(run: &Run) -> Result<Data, ExperimentError> {
    let mut table = Table::new([
        "case",
        "answers",
        "within_5_percent",
        "says_it_is_not",
        "false_bounds",
        "wilson_low",
        "wilson_high",
        "wait_mean_ms",
        "sampling_rate",
    ]);
    let (mut kept, mut owned) = (Vec::new(), Vec::new());
    for (place, case) in CASES.into_iter().enumerate() {
        let answers = answers(place, run.pick(2_000, 20), run.pick(1.0, 0.1), run.seed)?;
        let count = answers.len() as f64;
        let share =
            |of: &dyn Fn(&Answer) -> bool| answers.iter().filter(|answer| of(answer)).count() as f64 / count;
        let within = share(&|answer| answer.error() <= PROMISE.error);
        let says = share(&|answer| answer.said() > PROMISE.error);
        let lies = share(&|answer| answer.error() > PROMISE.error && answer.said() <= PROMISE.error);
        let (low, high) = wilson(1.0 - lies, count);
        let sum = |of: fn(&Answer) -> f64| answers.iter().map(of).sum::<f64>();
        let wait_ms = sum(|answer| (answer.at_ms - answer.end_ms).max(0) as f64) / count;
        let rate = sum(|answer| answer.taken) / sum(|answer| answer.rows);
        table.push([&case, &answers.len(), &within, &says, &lies, &low, &high, &wait_ms, &rate]);
        kept.push((place as f64, 1.0 - lies));
        owned.push((place as f64, says));
    }
    let series = vec![Series::new("bound kept or disowned", kept), Series::new("disowned", owned)];
    Ok(Data { table, charts: vec![chart(Axis::names("", CASES), "share of answers", Marks::Bars, series)] })
}

fn judge(data: &Data) -> Verdict {
    let kept = data.chart("").series("bound kept or disowned");
    let sees =
        CASES.iter().zip(&kept.points).map(|(case, (_, share))| format!("{case} {:.1} %", share * 100.0));
    let claims: Vec<bool> = kept.points.iter().map(|(_, share)| *share >= 0.95).collect();
    Verdict::of(format!("kept or disowned: {}", sees.collect::<Vec<_>>().join(", ")), &claims)
}

/// The answers of a case, but those to the first windows.
fn answers(case: usize, windows: usize, scale: f64, seed: u64) -> Result<Vec<Answer>, ExperimentError> {
    const WINDOWS_PER_STREAM: usize = 100;
    // Of a thousand groups each window has a thousand answers.
    let windows = if case == 5 { windows.div_ceil(100) } else { windows };
    let parts = on_all_cores(windows.div_ceil(WINDOWS_PER_STREAM), |number| {
        let rate = scale * if case == 5 { 20_000.0 } else { 5_000.0 };
        let seed = seed * 1_000 + number as u64;
        let mut stream =
            Stream::new(Workload::KMeans, Delays::Ec, rate, windows.min(WINDOWS_PER_STREAM), seed)?;
        let middle = (stream.counted.0 + stream.counted.1) / 2;
        disturb(case, &mut stream.arrivals, middle);
        let aggregates = vec![Aggregate::Sum(0)];
        let grid = Grid::new(3_000, 0, Span::Fixed(3_000));
        let config = Config { grid, promise: PROMISE, aggregates, rule: Rule::Aion, verifies: false, seed };
        let (answers, _) = replay(&config, &stream.arrivals);
        let (from, to) = stream.counted;
        Ok(answers.into_iter().filter(|answer| (from..=to).contains(&answer.end_ms)).collect::<Vec<_>>())
    });
    let parts: Vec<Vec<Answer>> = parts.into_iter().collect::<Result<_, ExperimentError>>()?;
    Ok(parts.into_iter().flatten().collect())
}

/// Does to a stream what the case says, from the middle on where it is a change.
fn disturb(case: usize, arrivals: &mut Vec<Arrival>, middle: i64) {
    match case {
        0 => arrivals.iter_mut().for_each(|row| {
            row.value = 1.0 + row.value * if row.at_ms - row.time_ms > 300 { 3.0 } else { 1.0 };
        }),
        // An exponential value of mean 2 as one of Pareto's law.
        1 => arrivals.iter_mut().for_each(|row| row.value = (row.value / 2.0 / 1.3).exp()),
        2 => {
            let mut number = 0;
            arrivals.retain(|row| {
                number += 1;
                row.time_ms >= middle || number % 10 == 0
            });
        }
        3 => arrivals.iter_mut().filter(|row| row.time_ms >= middle).for_each(|row| {
            row.at_ms = row.time_ms + 10 * (row.at_ms - row.time_ms);
        }),
        // Nothing for 10 s of every minute; then all that happened meanwhile.
        4 => arrivals.iter_mut().for_each(|row| {
            let second = row.at_ms.rem_euclid(60_000) / 1_000;
            if (30..40).contains(&second) {
                row.at_ms = row.at_ms.div_euclid(60_000) * 60_000 + 40_000;
            }
        }),
        // Half of the rows are of one group, the others of a thousand small ones.
        _ => {
            let mut number = 0;
            arrivals.iter_mut().for_each(|row| {
                number += 1;
                row.group = if number % 2 == 0 { 0 } else { 1 + number / 2 % 1_000 };
            });
        }
    }
    arrivals.sort_by_key(|row| row.at_ms);
}
