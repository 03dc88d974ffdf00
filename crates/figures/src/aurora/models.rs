//! Aurora's Figs. 3 and 5: what a thread per box costs, and what scheduling whole applications saves.

use laxity_workload::aurora::Trees;

use super::{PAPER, mean_latency_s, sized};
use crate::experiment::{OS, simulate};
use crate::figure::laxity_beside;
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_3: Figure = Figure {
    name: "aurora-3",
    title: "a thread per box against Aurora's scheduler",
    paper: PAPER,
    section: "§3.1",
    says: "Chains of five filters. With more operators, tuple latency grows almost linearly under Aurora and \
           exponentially with a thread per box.",
    notes: "A switch of threads costs as much as a box call. \"Exponential\" needs a kernel of 2003, whose switch \
            grew dearer with the number of threads; that is not modelled. The rate of each chain is fixed: the \
            last point asks for 90 % of the core before overheads.",
    run: run_3,
    judge: judge_3,
};

pub(super) const FIGURE_5: Figure = Figure {
    name: "aurora-5",
    title: "box at a time against application at a time",
    paper: PAPER,
    section: "§5.2",
    says: "Five trees. RR-BAAT saturates early since its overhead takes capacity; MC-AAAT hangs on at input rates \
           above 90 % of the capacity.",
    notes: "",
    run: run_5,
    judge: judge_5,
};

/// Mean latency of each policy at each point, over seeds.
fn sweep(
    run: &Run,
    points: &[(f64, Trees)],
    policies: &[(&str, &str)],
    tuples: f64,
    x: Axis,
) -> Result<Data, ExperimentError> {
    let mut table = Table::new([
        "x",
        "policy",
        "seed",
        "mean_latency_s",
        "busy_s",
        "overhead_s",
        "ended_s",
        "queued_rows",
    ]);
    let mut series = Vec::new();
    for (label, policy) in policies {
        let mut line = Vec::new();
        for (at, trees) in points {
            let mut values = Vec::new();
            for seed in run.seeds(2) {
                let (workload, setup) = sized(seed, trees, tuples)?;
                let outcome = simulate(policy, workload, setup)?;
                let mean_s = mean_latency_s(&outcome);
                let queued: u64 = outcome.queries.iter().map(|query| query.rows_queued).sum();
                let (busy_s, overhead_s) = (outcome.busy_ns as f64 / 1e9, outcome.overhead_ns as f64 / 1e9);
                let ended_s = outcome.ended.0 as f64 / 1e9;
                table.push([at, label, &seed, &mean_s, &busy_s, &overhead_s, &ended_s, &queued]);
                values.push(mean_s);
            }
            line.push((*at, values));
        }
        series.push(Series::of_runs(*label, line));
    }
    let chart = Chart {
        name: String::new(),
        x,
        y: Axis::log("average tuple latency (s)"),
        marks: Marks::Lines,
        series,
    };
    Ok(Data { table, charts: vec![chart] })
}

fn run_3(run: &Run) -> Result<Data, ExperimentError> {
    let counts: &[usize] = run.pick(&[10, 20, 40, 60, 80, 90, 100], &[4, 16]);
    let most = counts[counts.len() - 1] as f64;
    let points: Vec<(f64, Trees)> = counts
        .iter()
        .map(|apps| {
            let capacity = 0.9 * *apps as f64 / most;
            (5.0 * *apps as f64, Trees { apps: *apps, fan_out: 1, capacity, ..Trees::default() })
        })
        .collect();
    let policies = [("thread per box", OS), ("Aurora", "aurora-mc"), ("laxity", "laxity")];
    sweep(run, &points, &policies, run.pick(30_000.0, 600.0), Axis::linear("operators"))
}

fn judge_3(data: &Data) -> Verdict {
    let chart = data.chart("");
    let (threads, aurora) = (chart.series("thread per box"), chart.series("Aurora"));
    let growth = |series: &Series| series.last() / series.first();
    let sees = format!(
        "at {} operators {:.3} s with a thread per box and {:.3} s under Aurora; from the first point on latency grew \
         {:.1}x and {:.1}x; {}",
        threads.points.last().map_or(0.0, |point| point.0),
        threads.last(),
        aurora.last(),
        growth(threads),
        growth(aurora),
        laxity_beside(
            "the last point",
            chart.series("laxity").last(),
            &[("a thread per box", threads.last()), ("Aurora", aurora.last())]
        )
    );
    Verdict::of(sees, &[threads.last() > aurora.last(), growth(threads) > growth(aurora)])
}

fn run_5(run: &Run) -> Result<Data, ExperimentError> {
    let capacities: &[f64] = run.pick(&[0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0], &[0.3, 0.95]);
    let points: Vec<(f64, Trees)> = capacities
        .iter()
        .map(|capacity| (*capacity, Trees { capacity: *capacity, ..Trees::default() }))
        .collect();
    let policies = [("RR-BAAT", "aurora-baat"), ("MC-AAAT", "aurora-mc"), ("laxity", "laxity")];
    sweep(run, &points, &policies, run.pick(100_000.0, 1_500.0), Axis::linear("input rate / capacity"))
}

/// Where a curve bends up: the last point at which latency is within three times that of the first.
fn knee(series: &Series) -> f64 {
    let calm = series.points.iter().take_while(|point| point.1 <= 3.0 * series.first());
    calm.last().map_or(0.0, |point| point.0)
}

fn judge_5(data: &Data) -> Verdict {
    let chart = data.chart("");
    let near_full = |series: &Series| series.points[series.points.len().saturating_sub(2)].1;
    let (baat, mc) = (chart.series("RR-BAAT"), chart.series("MC-AAAT"));
    let sees = format!(
        "latency has tripled after capacity {} under RR-BAAT and after {} under MC-AAAT; at the last but one point \
         {:.3} s and {:.3} s; {}",
        knee(baat),
        knee(mc),
        near_full(baat),
        near_full(mc),
        laxity_beside(
            "that point",
            near_full(chart.series("laxity")),
            &[("RR-BAAT", near_full(baat)), ("MC-AAAT", near_full(mc))]
        )
    );
    Verdict::of(sees, &[knee(baat) < knee(mc) || baat.last() > 1.5 * mc.last(), mc.last() < baat.last()])
}
