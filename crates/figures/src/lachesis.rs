//! Palyvos-Giannas et al., "Lachesis: A Middleware for Customizing OS Scheduling of Stream Processing Queries",
//! Middleware 2021, section 6.4: SYN, with the shapes of Haren (any rank, evaluated anew every so often, in batches
//! of ten) and Lachesis itself: threads under a fair scheduler, whose nice values a rank sets every second.
//!
//! The paper's 100 operators get shares of the CPU instead of nice values. A multiplication takes 13 ns,
//! which is ours: then four cores are full at 1 320 tuples/s, near where the paper's curves bend.

use std::time::Duration;

use laxity_sched::Config;
use laxity_sim::{Cluster, Keep, Setup};
use laxity_workload::syn::Syn;
use laxity_workload::{Workload, WorkloadError};

use crate::experiment::{OS, quantile_s, simulate};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        name: "lachesis-14",
        title: "SYN under many policies",
        paper: PAPER,
        section: "§6.4",
        says: "Lachesis lies between Haren and the OS in most metrics: up to 12 % more throughput than the OS (QS, FCFS), \
               latency up to 25x lower at 1000 t/s; HR up to 42 % lower average latency than the OS. Haren, deciding \
               20 times as often, is better.",
        notes: "The goals of QS and FCFS are shown as queued tuples and greatest latency.",
        run: run_14,
        judge: judge_14,
    },
    Figure {
        name: "lachesis-15",
        title: "how often Haren decides",
        paper: PAPER,
        section: "§6.4",
        says: "With Lachesis' period of 1 s instead of 50 ms, Haren becomes comparable to Lachesis or worse.",
        notes: "",
        run: run_15,
        judge: judge_15,
    },
    Figure {
        name: "lachesis-16",
        title: "operators that block",
        paper: PAPER,
        section: "§6.4",
        says: "A tenth of the operators sleeps now and then. Lachesis, on threads of the OS, has up to 43 % higher throughput, \
               4.5x lower latency and 331x lower end-to-end latency than Haren, whose workers sleep along.",
        notes: "A tuple in a thousand makes such an operator sleep for 0 to 199 ms: a thread leaves its core to others for \
                that long, a worker of Haren sleeps along. The same tuples sleep under all policies.",
        run: run_16,
        judge: judge_16,
    },
];

const PAPER: &str = "Palyvos-Giannas et al., Lachesis, Middleware 2021";

const MULTIPLICATION_NS: f64 = 13.0;

fn syn(rows_per_s: f64, is_blocking: bool) -> Syn {
    Syn {
        rows_per_s,
        is_blocking,
        multiplication_ns: MULTIPLICATION_NS,
        tick_ns: 5_000_000,
        ..Syn::default()
    }
}

fn setup(run: &Run) -> Setup {
    Setup {
        cluster: Cluster::one(4),
        config: Config { mailbox_bytes_max: u64::MAX, ..Config::default() },
        duration: run.pick(Duration::from_secs(100), Duration::from_secs(8)),
        // The evaluation leaves out the first 30 % and the last 20 % of each run.
        warm_up: run.pick(Duration::from_secs(30), Duration::from_secs(2)),
        seed: run.seed,
        credit_bytes: u64::MAX,
        keep: Keep { timeline: false, results: false, trace: false, checks: false },
        ..Setup::default()
    }
}

/// What is looked at, each a chart.
const MEASURES: [(&str, &str); 4] = [
    ("throughput", "throughput (tuples/s and query)"),
    ("latency", "mean end-to-end latency (s)"),
    ("p99", "p99 end-to-end latency (s)"),
    ("queued", "queued tuples"),
];

/// Runs each policy at each point: (x, workload).
fn sweep(
    run: &Run,
    policies: &[(&str, &str)],
    points: impl Fn(&str) -> Result<Vec<(f64, Workload)>, WorkloadError>,
    x: Axis,
) -> Result<Data, ExperimentError> {
    let mut table =
        Table::new(["x", "policy", "throughput", "mean_s", "p99_s", "max_s", "queued", "utilisation"]);
    let mut charts: Vec<Chart> = MEASURES
        .iter()
        .map(|(name, label)| Chart {
            name: (*name).into(),
            x: x.clone(),
            y: if *name == "throughput" { Axis::linear(label) } else { Axis::log(label) },
            marks: Marks::Lines,
            series: Vec::new(),
        })
        .collect();
    for (label, policy) in policies {
        let mut lines: [Vec<(f64, f64)>; 4] = Default::default();
        for (at, workload) in points(policy)? {
            let queries = workload.queries.len() as f64;
            let outcome = simulate(policy, workload, setup(run))?;
            let latency = outcome.latency(|_| true);
            let late = outcome.samples.len() * 3 / 10;
            let samples = &outcome.samples[late..];
            let queued = samples.iter().map(|sample| sample.queued_rows as f64).sum::<f64>()
                / samples.len().max(1) as f64;
            let arrived: f64 = outcome.queries.iter().map(|query| query.rows_in as f64).sum();
            let waiting: f64 = outcome.queries.iter().map(|query| query.rows_queued as f64).sum();
            let ended_s = outcome.ended.0 as f64 / 1e9;
            let throughput = (arrived - waiting).max(0.0) / queries / ended_s;
            let mean_s = if latency.is_empty() { 0.0 } else { latency.mean() / 1e9 };
            let (p99_s, max_s) = (quantile_s(&latency, 0.99), quantile_s(&latency, 1.0));
            table.push([&at, label, &throughput, &mean_s, &p99_s, &max_s, &queued, &outcome.utilisation()]);
            for (line, value) in lines.iter_mut().zip([throughput, mean_s, p99_s, queued]) {
                line.push((at, value));
            }
        }
        for (chart, line) in charts.iter_mut().zip(lines) {
            chart.series.push(Series::new(*label, line));
        }
    }
    Ok(Data { table, charts })
}

fn rates(run: &Run) -> Vec<f64> {
    run.pick(vec![1000.0, 1125.0, 1250.0, 1375.0, 1500.0, 1750.0, 2000.0], vec![1000.0, 1500.0])
}

fn run_14(run: &Run) -> Result<Data, ExperimentError> {
    let policies = [
        ("OS", OS),
        ("Lachesis-QS", "os:qs"),
        ("Lachesis-FCFS", "os:fcfs"),
        ("Lachesis-HR", "os:hr"),
        ("Haren-QS", "haren:qs@50ms"),
        ("Haren-FCFS", "haren:fcfs@50ms"),
        ("Haren-HR", "haren:hr@50ms"),
        ("EdgeWise", "edgewise"),
    ];
    let rates = rates(run);
    let points = |_: &str| {
        rates.iter().map(|rate| Ok((*rate, syn(*rate, false).build(run.seed)?))).collect::<Result<_, _>>()
    };
    sweep(run, &policies, points, Axis::linear("tuples/s"))
}

/// The largest ratio of the first to the second over the sweep.
fn best(data: &Data, chart: &str, larger: &str, smaller: &str) -> f64 {
    let chart = data.chart(chart);
    let (larger, smaller) = (&chart.series(larger).points, &chart.series(smaller).points);
    let ratios = larger.iter().zip(smaller).map(|(a, b)| a.1 / b.1.max(1e-9));
    ratios.fold(0.0, f64::max)
}

fn judge_14(data: &Data) -> Verdict {
    let sees = format!(
        "mean latency, the OS over Lachesis at best: QS {:.1}x, FCFS {:.1}x, HR {:.1}x; over Haren: QS {:.1}x, FCFS {:.1}x, \
         HR {:.1}x; throughput over the OS at best: Lachesis-QS {:.2}x, Haren-QS {:.2}x",
        best(data, "latency", "OS", "Lachesis-QS"),
        best(data, "latency", "OS", "Lachesis-FCFS"),
        best(data, "latency", "OS", "Lachesis-HR"),
        best(data, "latency", "OS", "Haren-QS"),
        best(data, "latency", "OS", "Haren-FCFS"),
        best(data, "latency", "OS", "Haren-HR"),
        best(data, "throughput", "Lachesis-QS", "OS"),
        best(data, "throughput", "Haren-QS", "OS"),
    );
    let claims = [
        best(data, "latency", "OS", "Haren-HR") > 1.0,
        best(data, "latency", "Lachesis-QS", "Haren-QS") > 1.0,
        best(data, "latency", "OS", "Haren-FCFS") > 1.0 || best(data, "latency", "OS", "Haren-QS") > 1.0,
    ];
    Verdict::of(sees, &claims)
}

fn run_15(run: &Run) -> Result<Data, ExperimentError> {
    let policies = [
        ("QS, 50 ms", "haren:qs@50ms"),
        ("QS, 250 ms", "haren:qs@250ms"),
        ("QS, 1000 ms", "haren:qs@1s"),
        ("FCFS, 50 ms", "haren:fcfs@50ms"),
        ("FCFS, 1000 ms", "haren:fcfs@1s"),
    ];
    let rates = rates(run);
    let points = |_: &str| {
        rates.iter().map(|rate| Ok((*rate, syn(*rate, false).build(run.seed)?))).collect::<Result<_, _>>()
    };
    sweep(run, &policies, points, Axis::linear("tuples/s"))
}

fn judge_15(data: &Data) -> Verdict {
    let (qs, fcfs) = (
        best(data, "latency", "QS, 1000 ms", "QS, 50 ms"),
        best(data, "latency", "FCFS, 1000 ms", "FCFS, 50 ms"),
    );
    let sees = format!("mean latency with periods of 1 s over 50 ms, at most: QS {qs:.1}x, FCFS {fcfs:.1}x");
    Verdict::of(sees, &[qs > 1.0, fcfs > 1.0])
}

fn run_16(run: &Run) -> Result<Data, ExperimentError> {
    let policies = [("OS", OS), ("Lachesis-FCFS", "os:fcfs"), ("Haren-FCFS", "haren:fcfs@50ms")];
    let rates = rates(run);
    let points = |_: &str| {
        rates.iter().map(|rate| Ok((*rate, syn(*rate, true).build(run.seed)?))).collect::<Result<_, _>>()
    };
    sweep(run, &policies, points, Axis::linear("tuples/s"))
}

fn judge_16(data: &Data) -> Verdict {
    let throughput = best(data, "throughput", "Lachesis-FCFS", "Haren-FCFS");
    let latency = best(data, "latency", "Haren-FCFS", "Lachesis-FCFS");
    let sees = format!(
        "threads over Haren at best: throughput {:+.0} %, mean end-to-end latency {latency:.1}x lower",
        100.0 * (throughput - 1.0)
    );
    Verdict::sized(sees, &[throughput > 1.0, latency > 1.0], &[throughput >= 1.43])
}
