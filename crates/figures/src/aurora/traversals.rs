//! Aurora's Figs. 6 and 7: min-cost, min-latency and min-memory inside a superbox, by latency and by memory.

use std::time::Duration;

use laxity_graph::{Dataflow, EventTime, ProcessingTime};
use laxity_sim::{Cluster, Outcome, Placement, Setup};
use laxity_workload::aurora::Trees;
use laxity_workload::{Arrival, Delay, Recorded, Stage, StageKind, Workload, WorkloadError};

use super::{CALL_NS, PAPER, mean_latency_s, setup, sized};
use crate::experiment::simulate;
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_6: Figure = Figure {
    name: "aurora-6",
    title: "min-cost against min-latency traversal",
    paper: PAPER,
    section: "§5.3",
    says: "One tree at capacity 0.5. Latency grows with the cost of boxes; ML is better for most costs, MC for small \
           ones, where the overhead of box calls dominates: the curves cross.",
    notes: "A box call costs 0.1 ms; the axis of the paper has no such scale. Tuples come in bursts of four, \
            since single tuples at half load seldom meet in a superbox.",
    run: run_6,
    judge: judge_6,
};

pub(super) const FIGURE_7: Figure = Figure {
    name: "aurora-7",
    title: "memory over the run of one superbox",
    paper: PAPER,
    section: "§5.3",
    says: "Memory relative to MM's: ML is worst, MC second. Towards the end MC, which is done first, catches up with MM.",
    notes: "Selectivities of 0.2 to 1 instead of 1, at which no order frees memory before the output; ten tuples wait at \
            every leaf as it begins, after fifty single ones from which costs and selectivities are learnt.",
    run: run_7,
    judge: judge_7,
};

const TRAVERSALS: [(&str, &str); 3] = [("MC", "aurora-mc"), ("ML", "aurora-ml"), ("MM", "aurora-mm")];

fn run_6(run: &Run) -> Result<Data, ExperimentError> {
    let costs_us: &[f64] =
        run.pick(&[5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0], &[5.0, 50.0, 1000.0]);
    let mut table = Table::new(["cost_us", "policy", "seed", "mean_latency_s", "switches", "overhead_s"]);
    let mut series = Vec::new();
    let auto = ("auto", "unit=query,rank=rr,traversal=auto,train=all");
    for (label, policy) in [TRAVERSALS[0], TRAVERSALS[1], auto] {
        let mut line = Vec::new();
        for cost_us in costs_us {
            let cost_ns = cost_us * 1e3;
            let trees = Trees { apps: 1, cost_ns: cost_ns..=cost_ns, burst: 4, ..Trees::default() };
            let mut values = Vec::new();
            for seed in run.seeds(3) {
                let (workload, setup) = sized(seed, &trees, run.pick(100_000.0, 2_000.0))?;
                let outcome = simulate(policy, workload, setup)?;
                let mean_s = mean_latency_s(&outcome);
                let overhead_s = outcome.overhead_ns as f64 / 1e9;
                table.push([cost_us, &label, &seed, &mean_s, &outcome.switches, &overhead_s]);
                values.push(mean_s);
            }
            line.push((*cost_us, values));
        }
        series.push(Series::of_runs(label, line));
    }
    let chart = Chart {
        name: String::new(),
        x: Axis::log("box cost per tuple (us)"),
        y: Axis::log("average output latency (s)"),
        marks: Marks::Lines,
        series,
    };
    Ok(Data { table, charts: vec![chart] })
}

fn judge_6(data: &Data) -> Verdict {
    let chart = data.chart("");
    let (mc, ml) = (chart.series("MC"), chart.series("ML"));
    let pairs: Vec<(f64, f64)> =
        mc.points.iter().zip(&ml.points).map(|(mc, ml)| (mc.0, ml.1 / mc.1)).collect();
    let crossing = pairs.iter().find(|(_, ratio)| *ratio < 1.0).map(|(cost, _)| *cost);
    let (first, last) = (pairs[0].1, pairs[pairs.len() - 1].1);
    let auto = chart.series("auto");
    let lost = auto.points.iter().enumerate().map(|(i, point)| point.1 / mc.points[i].1.min(ml.points[i].1));
    let sees = format!(
        "ML takes {first:.2}x MC's latency at the least cost and {last:.2}x at the greatest; ML is better from {} on \
         (a call costs {} us); auto is at worst {:.2}x the better of the two",
        crossing.map_or("no cost".into(), |cost| format!("{cost} us")),
        CALL_NS / 1_000,
        lost.fold(0.0, f64::max),
    );
    Verdict::of(sees, &[first > 1.0, last < 1.0])
}

/// When the tuples come that the superbox is measured with.
const FILLED_NS: u64 = 60_000_000_000;

/// The tree, with a tuple at each input every now and then to learn costs from, and then ten at once.
fn filled(seed: u64) -> Result<Workload, ExperimentError> {
    let mut workload = Trees { apps: 1, ..Trees::default() }.build(seed)?;
    for query in &mut workload.queries {
        query.dataflow = selective(&query.dataflow)?;
    }
    let tuple = |at_ns: u64| Arrival {
        at: ProcessingTime(at_ns),
        event_time: EventTime(0),
        rows: 1,
        bytes: 100,
        watermark: None,
    };
    for feed in workload.queries.iter_mut().flat_map(|query| &mut query.feeds) {
        let lessons = (0..50).map(|lesson| tuple(lesson * 1_000_000_000));
        let arrivals = lessons.chain([tuple(FILLED_NS); 10]).collect();
        feed.arrivals = Box::new(Recorded::new(arrivals, None));
    }
    Ok(workload)
}

/// The boxes with selectivities of 0.2 to 1 in turn.
fn selective(dataflow: &Dataflow<Stage>) -> Result<Dataflow<Stage>, ExperimentError> {
    let mut selective = Dataflow::new(dataflow.settings.clone());
    for (index, node) in dataflow.nodes().iter().enumerate() {
        let mut node = node.clone();
        if let StageKind::Rows { selectivity } = &mut node.stage.kind {
            *selectivity = [0.2, 0.6, 1.0, 0.4, 0.8][index % 5];
        }
        selective.push(node).map_err(WorkloadError::from)?;
    }
    Ok(selective)
}

/// Inputs on a machine of their own, so that all ten tuples wait at the boxes before the first of them runs.
fn inputs_apart(workload: &Workload) -> Cluster {
    let is_input: Vec<bool> =
        workload.queries[0].dataflow.nodes().iter().map(|node| node.inputs.is_empty()).collect();
    Cluster {
        nodes: 2,
        cores_per_node: 1,
        network: Delay::Constant { ns: 1_000_000 },
        placement: Placement::By(Box::new(move |_, node, _| usize::from(!is_input[node.0]))),
    }
}

/// Bytes that wait so long after the tuples came.
fn memory_at(outcome: &Outcome, at_ns: f64) -> f64 {
    let at_ns = FILLED_NS as f64 + at_ns;
    let sample = outcome.samples.iter().take_while(|sample| sample.at.0 as f64 <= at_ns).last();
    sample.map_or(0.0, |sample| sample.bytes as f64)
}

fn run_7(run: &Run) -> Result<Data, ExperimentError> {
    const STEPS: usize = 20;
    let mut table = Table::new(["policy", "seed", "share_of_mm_run", "bytes", "relative_to_mm"]);
    let mut sums = [[0.0; STEPS]; 3];
    let seeds = run.seeds(3);
    let mut ends = [0.0; 3];
    for seed in seeds.clone() {
        let mut outcomes = Vec::new();
        for (_, policy) in TRAVERSALS {
            let workload = filled(seed)?;
            let setup = Setup {
                cluster: inputs_apart(&workload),
                duration: Duration::from_nanos(FILLED_NS) + Duration::from_secs(30),
                sample: Duration::from_millis(2),
                ..setup(seed)
            };
            outcomes.push(simulate(policy, workload, setup)?);
        }
        let end_ns = |outcome: &Outcome| {
            let busy = outcome.samples.iter().rfind(|sample| sample.bytes > 0);
            busy.map_or(0.0, |sample| sample.at.0.saturating_sub(FILLED_NS) as f64)
        };
        let mm_end_ns = end_ns(&outcomes[2]);
        for (index, (label, _)) in TRAVERSALS.iter().enumerate() {
            ends[index] += end_ns(&outcomes[index]) / 1e9;
            for (step, sum) in sums[index].iter_mut().enumerate() {
                let share = step as f64 / STEPS as f64;
                let at_ns = share * mm_end_ns + 4e6;
                let bytes = memory_at(&outcomes[index], at_ns);
                let relative = bytes / memory_at(&outcomes[2], at_ns).max(1.0);
                table.push([label, &seed, &share, &bytes, &relative]);
                *sum += relative;
            }
        }
    }
    let runs = (seeds.end - seeds.start) as f64;
    let series = TRAVERSALS.iter().zip(sums).map(|((label, _), sums)| {
        let points = sums.iter().enumerate().map(|(step, sum)| (step as f64 / STEPS as f64, sum / runs));
        Series::new(*label, points.collect())
    });
    let over_time = Chart {
        name: String::new(),
        x: Axis::linear("time (share of MM's run)"),
        y: Axis::linear("memory relative to MM"),
        marks: Marks::Lines,
        series: series.collect(),
    };
    let ends = Chart {
        name: "ends".into(),
        x: Axis::names("", TRAVERSALS.map(|(label, _)| label)),
        y: Axis::linear("run of the superbox (s)"),
        marks: Marks::Bars,
        series: vec![Series::new(
            "run",
            ends.iter().enumerate().map(|(index, end)| (index as f64, end / runs)).collect(),
        )],
    };
    Ok(Data { table, charts: vec![over_time, ends] })
}

fn judge_7(data: &Data) -> Verdict {
    let chart = data.chart("");
    let mean = |label: &str| {
        let points = &chart.series(label).points;
        points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64
    };
    let end = |index: usize| data.chart("ends").series[0].points[index].1;
    let (mc, ml) = (mean("MC"), mean("ML"));
    let sees = format!(
        "memory over the run, relative to MM: MC {mc:.2}, ML {ml:.2}; the superbox runs {:.3} s under MC, {:.3} s under \
         ML, {:.3} s under MM",
        end(0),
        end(1),
        end(2)
    );
    Verdict::of(sees, &[ml > mc, mc > 1.0, end(0) < end(2) && end(0) < end(1)])
}
