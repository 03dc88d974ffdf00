use laxity_sim::bound::{Job, late_jobs, mean_latency_ns};
use laxity_sim::{Outcome, ResultRecord};

use super::{CORES, PAPER, POLICIES, simulated, workload};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const BOUND: Figure = Figure {
    name: "laxity-bound",
    title: "mean latency over the clairvoyant bound",
    paper: PAPER,
    section: "algorithms.md §7.2",
    says: "laxity's mean latency is at most 1.2 times the clairvoyant bound where that can be computed.",
    notes: "Computed where every result is the work of one batch: chains without windows. The bound is that of \
            shortest remaining time on one machine as fast as all cores, and of no job on more than one core: no \
            schedule reaches it, since it knows all costs, preempts at will and shares a job between cores. \
            Batches that leave no result cost every policy time, but not the bound.",
    run,
    judge,
};

const WORKLOADS: [&str; 3] = ["syn", "aurora-qos", "aurora-lines"];
const LOADS: [f64; 4] = [0.5, 0.7, 0.8, 0.9];

/// The work behind each result.
fn jobs(outcome: &Outcome) -> Vec<Job> {
    let results = outcome.results.iter().flatten();
    let job = |result: &ResultRecord| {
        let target_ns = outcome.queries[result.query.index()].target_ns;
        Job::chain(result.ingested.0, result.execute_ns, result.ingested.0.saturating_add(target_ns))
    };
    results.map(job).collect()
}

fn mean_ns(outcome: &Outcome) -> f64 {
    let latencies: Vec<u64> =
        outcome.results.iter().flatten().map(|result| result.written.since_ns(result.ingested)).collect();
    latencies.iter().sum::<u64>() as f64 / latencies.len().max(1) as f64
}

fn run(run: &Run) -> Result<Data, ExperimentError> {
    let mut table = Table::new([
        "workload",
        "load",
        "policy",
        "results",
        "mean_ms",
        "bound_mean_ms",
        "late",
        "bound_late",
    ]);
    let mut charts = Vec::new();
    for name in WORKLOADS {
        let mut series: Vec<Series> = POLICIES.iter().map(|policy| Series::new(*policy, vec![])).collect();
        for &load in run.pick(&LOADS[..], &LOADS[3..]) {
            for (policy, series) in POLICIES.iter().zip(&mut series) {
                let outcome = simulated(policy, workload(name, load, run)?, run.pick(20, 2), true)?;
                let jobs = jobs(&outcome);
                let (mean, bound) = (mean_ns(&outcome), mean_latency_ns(&jobs, CORES));
                let late: u64 = outcome.queries.iter().map(|q| q.lateness.results - q.lateness.met).sum();
                table.push([
                    &name,
                    &load,
                    policy,
                    &jobs.len(),
                    &(mean / 1e6),
                    &(bound / 1e6),
                    &late,
                    &late_jobs(&jobs, CORES),
                ]);
                series.points.push((load, mean / bound));
            }
        }
        charts.push(Chart {
            name: name.into(),
            x: Axis::linear(&format!("load of {CORES} cores")),
            y: Axis::log("mean latency / clairvoyant bound"),
            marks: Marks::Lines,
            series,
        });
    }
    Ok(Data { table, charts })
}

fn judge(data: &Data) -> Verdict {
    let mut sees = Vec::new();
    let (mut holds, mut best) = (true, true);
    for chart in &data.charts {
        let mine = chart.series("laxity");
        holds &= mine.max() <= 1.2;
        let others = chart.series[1..].iter().min_by(|a, b| a.last().total_cmp(&b.last()));
        let Some(other) = others else { continue };
        best &= mine.last() <= 1.05 * other.last();
        sees.push(format!(
            "{}: laxity {:.2} to {:.2} times the bound, at the highest load the best of the others is {} at {:.2}",
            chart.name,
            mine.first(),
            mine.last(),
            other.name,
            other.last()
        ));
    }
    Verdict::sized(sees.join("; "), &[best], &[holds])
}
