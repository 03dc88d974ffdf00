//! Klink's Figs. 8, 9a and 9b: use of memory and CPU where memory is short.

use super::PAPER;
use super::bench::{Bench, COLUMNS, Trial, chart, counts, heap_note, record, sixty};
use crate::experiment::{OS, simulate};
use crate::{Axis, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_8: Figure = Figure {
    name: "klink-8",
    title: "memory and CPU over time, YSB, 60 queries",
    paper: PAPER,
    section: "§6.2.3",
    says: "Default runs close to the memory bound all the time with low CPU use; Klink's memory rises and falls with its \
           policy, its CPU use stays high.",
    notes: heap_note!(),
    run: run_8,
    judge: judge_8,
};

pub(super) const FIGURE_9A: Figure = Figure {
    name: "klink-9a",
    title: "memory use over throughput",
    paper: PAPER,
    section: "§6.2.3",
    says: "Klink uses 60 % to 25 % less memory than Default; Default's 90th percentile hits the bound at half the \
           throughput at which Klink's does.",
    notes: concat!(
        "Klink holds sources from four fifths of the bound until half of what waits is gone. ",
        heap_note!()
    ),
    run: |run| {
        over_throughput(run, "memory (share of the bound)", |seen| [seen.memory_mean, seen.memory_p90])
    },
    judge: judge_9a,
};

pub(super) const FIGURE_9B: Figure = Figure {
    name: "klink-9b",
    title: "CPU use over throughput",
    paper: PAPER,
    section: "§6.2.3",
    says: "Klink's CPU use is higher than Default's throughout and scales with throughput.",
    notes: concat!("CPU use is time in operators; what a full heap takes is not among it. ", heap_note!()),
    run: |run| over_throughput(run, "CPU use", |seen| [seen.utilisation, seen.utilisation]),
    judge: judge_9b,
};

const COMPARED: [(&str, &str); 3] = [("Default", OS), ("Klink", "klink"), ("laxity", "laxity")];

fn run_8(run: &Run) -> Result<Data, ExperimentError> {
    let mut table = Table::new(["policy", "time_s", "memory_share", "cpu"]);
    let (mut memory, mut cpu) = (Vec::new(), Vec::new());
    for (name, policy) in COMPARED {
        let trial = Trial::new(Bench::Ysb, policy, sixty(run), run.seed);
        let workload = trial.workload(run)?;
        let mut setup = trial.setup(run, &workload)?;
        setup.duration = run.pick(std::time::Duration::from_secs(60), setup.duration);
        setup.sample = std::time::Duration::from_millis(200);
        setup.keep.timeline = true;
        let bound = setup.memory_bound_bytes.unwrap_or(u64::MAX) as f64;
        let cores = setup.cluster.cores_per_node as f64;
        let outcome = simulate(policy, workload, setup)?;
        let mut busy = vec![0.0; outcome.samples.len() + 1];
        let place = |ns: u64| (ns / 200_000_000) as usize;
        for slice in outcome.timeline.iter().flatten() {
            // A run is charged to the interval it begins in; runs are far shorter than that.
            if let Some(sum) = busy.get_mut(place(slice.start.0)) {
                *sum += slice.end.since_ns(slice.start) as f64 / 200e6 / cores;
            }
        }
        let (mut of_memory, mut of_cpu) = (Vec::new(), Vec::new());
        for (sample, busy) in outcome.samples.iter().zip(busy) {
            let at_s = sample.at.0 as f64 / 1e9;
            let share = sample.bytes as f64 / bound;
            table.push([&name, &at_s, &share, &busy]);
            of_memory.push((at_s, share));
            of_cpu.push((at_s, busy));
        }
        memory.push(Series::new(name, of_memory));
        cpu.push(Series::new(name, of_cpu));
    }
    let x = || Axis::linear("time (s)");
    Ok(Data {
        table,
        charts: vec![
            chart("memory", x(), "memory (share of the bound)", Marks::Curve, memory),
            chart("cpu", x(), "CPU use", Marks::Curve, cpu),
        ],
    })
}

/// Mean over the second half.
fn settled(series: &Series) -> f64 {
    let half = &series.points[series.points.len() / 2..];
    half.iter().map(|point| point.1).sum::<f64>() / half.len() as f64
}

fn judge_8(data: &Data) -> Verdict {
    let of = |chart: &str, policy: &str| settled(data.chart(chart).series(policy));
    let sees = format!(
        "memory in the second half: Default {:.2} of the bound, Klink {:.2}, laxity {:.2}; CPU {:.2}, {:.2}, {:.2}",
        of("memory", "Default"),
        of("memory", "Klink"),
        of("memory", "laxity"),
        of("cpu", "Default"),
        of("cpu", "Klink"),
        of("cpu", "laxity"),
    );
    let claims = [
        of("memory", "Default") > 0.9,
        of("memory", "Klink") < 0.95 * of("memory", "Default"),
        of("cpu", "Klink") > 0.9,
    ];
    Verdict::of(sees, &claims)
}

fn over_throughput(
    run: &Run,
    label: &str,
    of: impl Fn(&super::bench::Seen) -> [f64; 2],
) -> Result<Data, ExperimentError> {
    let mut table = Table::new(COLUMNS);
    let mut series = Vec::new();
    for (name, policy) in COMPARED {
        let (mut mean, mut tail) = (Vec::new(), Vec::new());
        for queries in counts(run) {
            let trial = Trial::new(Bench::Ysb, policy, queries, run.seed);
            let seen = trial.seen(run)?;
            record(&mut table, name, &trial, &seen);
            let [first, second] = of(&seen);
            mean.push((queries as f64, first));
            tail.push((queries as f64, second));
        }
        series.push(Series::new(format!("{name} mean"), mean));
        series.push(Series::new(format!("{name} p90"), tail));
    }
    let x = Axis::linear("offered load (queries of 10 000 events/s)");
    Ok(Data { table, charts: vec![chart("", x, label, Marks::Lines, series)] })
}

fn judge_9a(data: &Data) -> Verdict {
    let chart = data.chart("");
    let pairs = chart.series("Klink mean").points.iter().zip(&chart.series("Default mean").points);
    let less: Vec<f64> = pairs.map(|(klink, default)| 1.0 - klink.1 / default.1.max(1e-9)).collect();
    let text: Vec<String> = less.iter().map(|less| format!("{:.0} %", 100.0 * less)).collect();
    // Every point is a claim: at one alone it may be chance, and where memory is not short none is freed.
    let least = less.iter().copied().fold(f64::MAX, f64::min);
    let sees = format!("Klink's mean memory below Default's, as queries rise: {}", text.join(", "));
    let claims: Vec<bool> = less.iter().map(|&less| less > 0.05).collect();
    Verdict::sized(sees, &claims, &[least >= 0.25])
}

fn judge_9b(data: &Data) -> Verdict {
    let chart = data.chart("");
    let (klink, default) = (chart.series("Klink mean"), chart.series("Default mean"));
    let sees = format!("CPU use at most queries: Klink {:.3}, Default {:.3}", klink.last(), default.last());
    Verdict::of(sees, &[klink.last() > default.last() + 0.01, klink.last() > klink.first()])
}
