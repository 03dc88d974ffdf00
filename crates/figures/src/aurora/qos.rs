//! Aurora's Figs. 11, 13 and 14: QoS-aware scheduling, and what buckets lose and save. Costs of ordering are a model,
//! not measured.

use laxity_sim::{Overheads, Setup};
use laxity_workload::aurora::Trees;

use super::{CALL_NS, DECISION_NS, PAPER, mean_utility, sized};
use crate::experiment::simulate;
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_11: Figure = Figure {
    name: "aurora-11",
    title: "QoS-aware scheduling against round robin",
    paper: PAPER,
    section: "§6.1",
    says: "20 chains with tight or loose curves. The p-tuple's average QoS is clearly above that of RR-BAAT, by a \
           stable difference up to capacity 0.7; after it both fall drastically.",
    notes: "Boxes are units, as in the paper. Curves fall over a second, and our latencies are milliseconds until overheads fill \
            the core: there is little to lose before. Urgent boxes have short queues, so that the p-tuple makes more calls \
            than round robin and fills the core earlier.",
    run: run_11,
    judge: judge_11,
};

pub(super) const FIGURE_13: Figure = Figure {
    name: "aurora-13",
    title: "what bucketing does to QoS",
    paper: PAPER,
    section: "§6.3",
    says: "200 chains. Exact p-tuple 0.796; one bucket 0.427 (round robin); QoS rises with the partitions to 0.85 at \
           20 and falls below the exact one at about 260.",
    notes: "Curves are not given: full utility to 0.001-4 s, none 0.1-2 s later, drawn. Nor are costs of ordering; \
            ours, per box and decision: n log2 n comparisons of 2 us for the exact order of n boxes, 2 us per box \
            and 0.2 us per bucket for the other. The printed values can't follow; the shape can.",
    run: run_13,
    judge: judge_13,
};

pub(super) const FIGURE_14: Figure = Figure {
    name: "aurora-14",
    title: "what bucketing costs",
    paper: PAPER,
    section: "§6.3",
    says: "Scheduler overhead begins to grow at about 30 partitions, and very many buckets become a bookkeeping problem.",
    notes: "The overhead is the model of aurora-13 times the decisions made, not measured.",
    run: run_13,
    judge: judge_14,
};

fn run_11(run: &Run) -> Result<Data, ExperimentError> {
    let capacities: &[f64] = run.pick(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], &[0.3, 0.6]);
    let policies = [
        ("p-tuple", "unit=operator,rank=qos,train=all"),
        ("RR-BAAT", "aurora-baat"),
        ("p-tuple of superboxes", "aurora"),
        ("laxity", "laxity"),
    ];
    let mut table = Table::new(["capacity", "policy", "seed", "qos", "results"]);
    let mut series = Vec::new();
    for (label, policy) in policies {
        let mut line = Vec::new();
        for capacity in capacities {
            let mut values = Vec::new();
            for seed in run.seeds(2) {
                let trees = Trees { capacity: *capacity, ..Trees::qos() };
                let (workload, setup) = sized(seed, &trees, run.pick(100_000.0, 2_000.0))?;
                let outcome = simulate(policy, workload, setup)?;
                let qos = mean_utility(&outcome);
                let results: u64 = outcome.queries.iter().map(|query| query.lateness.results).sum();
                table.push([capacity, &label, &seed, &qos, &results]);
                values.push(qos);
            }
            line.push((*capacity, values));
        }
        series.push(Series::of_runs(label, line));
    }
    let chart = Chart {
        name: String::new(),
        x: Axis::linear("capacity"),
        y: Axis::linear("average QoS"),
        marks: Marks::Lines,
        series,
    };
    Ok(Data { table, charts: vec![chart] })
}

fn judge_11(data: &Data) -> Verdict {
    let chart = data.chart("");
    let (p, rr) = (chart.series("p-tuple"), chart.series("RR-BAAT"));
    let gap = |at: usize| p.points[at].1 - rr.points[at].1;
    let gaps: Vec<String> =
        (0..p.points.len()).map(|at| format!("{}: {:+.3}", p.points[at].0, gap(at))).collect();
    let mean = (0..p.points.len()).map(gap).sum::<f64>() / p.points.len() as f64;
    let sees = format!(
        "p-tuple less RR-BAAT by capacity: {}; at the last point {:.3} against {:.3}, p-tuple of superboxes {:.3}",
        gaps.join(", "),
        p.last(),
        rr.last(),
        chart.series("p-tuple of superboxes").last()
    );
    Verdict::of(sees, &[mean > 0.02, p.last() < p.first() && rr.last() < rr.first()])
}

/// Boxes of the experiment.
const BOXES: f64 = 1_000.0;

/// What a decision costs per operator, given how units are ordered: see the notes of the figure.
fn ordering_ns(partitions: Option<u32>, operators: f64) -> f64 {
    match partitions {
        None => 2_000.0 * BOXES * BOXES.log2() / operators,
        Some(partitions) => (2_000.0 * BOXES + 200.0 * f64::from(partitions).powi(2)) / operators,
    }
}

/// Partitions, QoS, overhead in seconds.
fn bucketed(run: &Run, partitions: Option<u32>, seed: u64) -> Result<(f64, f64), ExperimentError> {
    let rank = partitions.map_or("qos".into(), |count| format!("qos:{count}x{count}"));
    let policy = format!("unit=operator,rank={rank},train=all");
    let apps = run.pick(200, 20);
    let trees = Trees { apps, capacity: 0.7, ..Trees::straight_lines() };
    let (workload, setup) = sized(seed, &trees, run.pick(50_000.0, 1_000.0))?;
    let operators = apps as f64 * 7.0;
    let overheads = Overheads {
        switch_ns: CALL_NS,
        dispatch_ns: DECISION_NS / 10,
        cycle_ns_per_operator: ordering_ns(partitions, operators) as u64,
        spares_free: true,
        ..Overheads::default()
    };
    let outcome = simulate(&policy, workload, Setup { overheads, ..setup })?;
    Ok((mean_utility(&outcome), outcome.overhead_ns as f64 / 1e9))
}

fn run_13(run: &Run) -> Result<Data, ExperimentError> {
    let partitions: &[u32] = run.pick(&[1, 2, 5, 10, 20, 30, 50, 100, 150, 200, 260, 300], &[1, 20, 300]);
    let mut table = Table::new(["partitions", "seed", "qos", "overhead_s"]);
    let (mut qos, mut overhead) = (Vec::new(), Vec::new());
    for count in partitions {
        let (mut of_qos, mut of_overhead) = (Vec::new(), Vec::new());
        for seed in run.seeds(2) {
            let (utility, overhead_s) = bucketed(run, Some(*count), seed)?;
            table.push([count, &seed, &utility, &overhead_s]);
            of_qos.push(utility);
            of_overhead.push(overhead_s);
        }
        qos.push((f64::from(*count), of_qos));
        overhead.push((f64::from(*count), of_overhead));
    }
    let (mut exact, mut exact_overhead) = (Vec::new(), Vec::new());
    for seed in run.seeds(2) {
        let (utility, overhead_s) = bucketed(run, None, seed)?;
        table.push([&"exact", &seed, &utility, &overhead_s]);
        exact.push(utility);
        exact_overhead.push(overhead_s);
    }
    let ends = [f64::from(partitions[0]), f64::from(partitions[partitions.len() - 1])];
    let level = |values: Vec<f64>| ends.map(|x| (x, values.clone()));
    let chart = |name: &str, label: &str, series| Chart {
        name: name.into(),
        x: Axis::linear("partitions a side"),
        y: Axis::linear(label),
        marks: Marks::Lines,
        series,
    };
    Ok(Data {
        table,
        charts: vec![
            chart(
                "qos",
                "average QoS",
                vec![Series::of_runs("bucketed", qos), Series::of_runs("slope-slack, exact", level(exact))],
            ),
            chart(
                "overhead",
                "scheduler overhead (s)",
                vec![
                    Series::of_runs("bucketed", overhead),
                    Series::of_runs("slope-slack, exact", level(exact_overhead)),
                ],
            ),
        ],
    })
}

fn judge_13(data: &Data) -> Verdict {
    let chart = data.chart("qos");
    let (bucketed, exact) = (chart.series("bucketed"), chart.series("slope-slack, exact"));
    let best = bucketed.points.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied().unwrap_or((0.0, 0.0));
    let sees = format!(
        "one bucket {:.3}, best {:.3} at {} partitions, {:.3} at {}; exact {:.3}",
        bucketed.first(),
        best.1,
        best.0,
        bucketed.last(),
        bucketed.points.last().map_or(0.0, |point| point.0),
        exact.first()
    );
    let claims = [
        best.1 > bucketed.first(),
        best.1 > exact.first(),
        bucketed.last() < best.1,
        bucketed.last() < exact.first(),
    ];
    Verdict::of(sees, &claims)
}

fn judge_14(data: &Data) -> Verdict {
    let bucketed = data.chart("overhead").series("bucketed");
    let low = bucketed.points.iter().take_while(|point| point.0 <= 30.0).last().map_or(0.0, |point| point.1);
    let sees = format!(
        "overhead {:.1} s with one bucket, {low:.1} s at up to 30 partitions, {:.1} s at the most",
        bucketed.first(),
        bucketed.last()
    );
    Verdict::of(sees, &[low < 2.0 * bucketed.first(), bucketed.last() > 1.5 * low])
}
