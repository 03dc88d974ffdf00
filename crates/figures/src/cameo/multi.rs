//! Cameo's Fig. 8: urgent jobs beside bulk jobs, as load rises or worker threads get fewer.

use laxity_sim::Outcome;
use laxity_workload::ipq::Tenants;

use super::PAPER;
use super::tenants::{Group, Machines, POLICIES, bulk_rate, factor, load, tenants, trial};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_8A: Figure = Figure {
    name: "cameo-8a",
    title: "latency-sensitive jobs beside bulk jobs, rate of the bulk jobs rising",
    paper: PAPER,
    section: "§6.2",
    says: "Equal up to 30 000 tuples/s per source; beyond, Orleans is up to 1.6x (median) and 1.5x (p99) worse, \
           FIFO up to 2x and 1.8x. Cameo stays stable.",
    notes: "4 LS and 8 BA jobs on 32 x 4 cores, bulk messages of 5 000 rows. Costs are ours: 30 000 tuples/s is 90 % of the cores.",
    run: run_8a,
    judge: |data| judge_sweep(data, [2.0, 1.8], [1.6, 1.5]),
};

pub(super) const FIGURE_8B: Figure = Figure {
    name: "cameo-8b",
    title: "latency-sensitive jobs beside bulk jobs, number of bulk jobs rising",
    paper: PAPER,
    section: "§6.2",
    says: "Equal up to 12 bulk jobs; beyond, Orleans is up to 2.2x (median) and 2.8x (p99) worse, FIFO up to \
           4.6x and 13.6x.",
    notes: "The rate per source is ours: 12 jobs ask for 90 % of 32 x 4 cores.",
    run: run_8b,
    judge: |data| judge_sweep(data, [4.6, 13.6], [2.2, 2.8]),
};

pub(super) const FIGURE_8C: Figure = Figure {
    name: "cameo-8c",
    title: "fewer worker threads",
    paper: PAPER,
    section: "§6.2",
    says: "Cameo keeps the latency of group 1 down to two threads and meets 90 % of its deadlines even on one; \
           Orleans and FIFO lose in both groups.",
    notes: "The load is ours: 45 % of the cores at four threads per server, so 90 % at two and 180 % at one.",
    run: run_8c,
    judge: judge_8c,
};

const COLUMNS: [&str; 12] = [
    "x",
    "load",
    "policy",
    "seed",
    "ls_median_s",
    "ls_p99_s",
    "ls_met",
    "ba_median_s",
    "ba_p99_s",
    "rows_per_s",
    "results",
    "busy_cores",
];

/// One point of a sweep: where on the axis, the tenants, the machines.
type Point = (f64, Tenants, Machines);

fn sweep(run: &Run, points: &[Point], x: Axis) -> Result<Data, ExperimentError> {
    let (duration_s, warm_up_s) = run.pick((30, 10), (4, 1));
    let mut table = Table::new(COLUMNS);
    let names = ["ls-median", "ls-p99", "ls-met", "ba-median", "work"];
    let labels = [
        "LS median latency (s)",
        "LS p99 latency (s)",
        "LS deadlines met",
        "BA median latency (s)",
        "work done (cores busy)",
    ];
    let mut series: [Vec<Series>; 5] = Default::default();
    for (label, policy) in POLICIES {
        let mut lines: [Vec<(f64, Vec<f64>)>; 5] = Default::default();
        for (at, tenants, machines) in points {
            let mut runs: [Vec<f64>; 5] = Default::default();
            for seed in run.seeds(1) {
                let share = load(tenants)? / machines.total();
                let outcome: Outcome =
                    trial(run, policy, tenants, seed, machines.setup(run, seed, duration_s, warm_up_s))?;
                let (ls, ba) = (Group::sensitive(&outcome), Group::bulk(&outcome));
                let rows_per_s = ls.rows_per_s + ba.rows_per_s;
                let results = ls.results + ba.results;
                let busy_cores = outcome.busy_ns as f64 / outcome.ended.0.max(1) as f64;
                table.push([
                    at,
                    &share,
                    &label,
                    &seed,
                    &ls.median_s,
                    &ls.p99_s,
                    &ls.met,
                    &ba.median_s,
                    &ba.p99_s,
                    &rows_per_s,
                    &results,
                    &busy_cores,
                ]);
                let values = [ls.median_s, ls.p99_s, ls.met, ba.median_s, busy_cores];
                for (list, value) in runs.iter_mut().zip(values) {
                    list.push(value);
                }
            }
            for (line, values) in lines.iter_mut().zip(runs) {
                line.push((at.to_owned(), values));
            }
        }
        for (list, line) in series.iter_mut().zip(lines) {
            list.push(Series::of_runs(label, line));
        }
    }
    let charts = names.iter().zip(labels).zip(series).map(|((name, label), series)| Chart {
        name: (*name).into(),
        x: x.clone(),
        y: if label.ends_with("(s)") { Axis::log(label) } else { Axis::linear(label) },
        marks: Marks::Lines,
        series,
    });
    Ok(Data { table, charts: charts.collect() })
}

fn run_8a(run: &Run) -> Result<Data, ExperimentError> {
    let machines = Machines::of(run);
    let base = tenants(run);
    // Rates relative to the printed knee of 30 000, which is 90 % of the cores here.
    let knee = bulk_rate(&base, &machines, 0.9)?;
    let rates: &[f64] = run.pick(&[10.0, 20.0, 30.0, 33.0, 36.0, 40.0], &[10.0, 36.0]);
    let points: Vec<Point> = rates
        .iter()
        .map(|rate| {
            let bulk_rows_per_s = knee * rate / 30.0;
            (*rate, Tenants { bulk_rows_per_s, ..base.clone() }, Machines::of(run))
        })
        .collect();
    sweep(run, &points, Axis::linear("bulk tuples/s per source (thousands; 30 = 90 % of the cores)"))
}

fn run_8b(run: &Run) -> Result<Data, ExperimentError> {
    let machines = Machines::of(run);
    let twelve = Tenants { bulk: run.pick(12, 3), ..tenants(run) };
    let bulk_rows_per_s = bulk_rate(&twelve, &machines, 0.9)?;
    let counts: &[usize] = run.pick(&[4, 8, 12, 14, 16, 20], &[1, 4]);
    let points: Vec<Point> = counts
        .iter()
        .map(|bulk| {
            (*bulk as f64, Tenants { bulk: *bulk, bulk_rows_per_s, ..twelve.clone() }, Machines::of(run))
        })
        .collect();
    sweep(run, &points, Axis::linear("bulk jobs"))
}

fn run_8c(run: &Run) -> Result<Data, ExperimentError> {
    let full = Machines { cores: 4, ..Machines::of(run) };
    let base = tenants(run);
    let bulk_rows_per_s = bulk_rate(&base, &full, 0.45)?;
    let points: Vec<Point> = run
        .pick(&[4, 3, 2, 1][..], &[4, 2, 1])
        .iter()
        .map(|cores| {
            let tenants = Tenants { bulk_rows_per_s, ..base.clone() };
            (*cores as f64, tenants, Machines { cores: *cores, ..Machines::of(run) })
        })
        .collect();
    sweep(run, &points, Axis::linear("worker threads per server"))
}

/// How much worse than Cameo at the point where it is most: over points of the same load.
fn worst(data: &Data, chart: &str, policy: &str) -> f64 {
    let chart = data.chart(chart);
    let cameo = chart.series("Cameo");
    let theirs = &chart.series(policy).points;
    theirs.iter().filter_map(|(x, y)| cameo.at(*x).map(|ours| factor(ours, *y))).fold(0.0, f64::max)
}

fn judge_sweep(data: &Data, fifo_printed: [f64; 2], orleans_printed: [f64; 2]) -> Verdict {
    let fifo = ["ls-median", "ls-p99"].map(|chart| worst(data, chart, "FIFO"));
    let orleans = ["ls-median", "ls-p99"].map(|chart| worst(data, chart, "Orleans"));
    let cameo = data.chart("ls-p99").series("Cameo");
    let stable = cameo.last() / cameo.first();
    let work = |policy: &str| data.chart("work").series(policy).last();
    let sees = format!(
        "worst over the sweep, against Cameo: FIFO {:.1}x (median) and {:.1}x (p99), Orleans-like {:.1}x and {:.1}x. \
         Cameo's p99 grows {stable:.2}x over the sweep; the work that it does at the end is {:.1} % of FIFO's; laxity's \
         worst p99 is {:.2}x Cameo's",
        fifo[0],
        fifo[1],
        orleans[0],
        orleans[1],
        100.0 * work("Cameo") / work("FIFO"),
        worst(data, "ls-p99", "laxity"),
    );
    let direction = [fifo[0] > 1.0 && fifo[1] > 1.0, orleans[0] > 1.0 && orleans[1] > 1.0];
    let factors = [
        (fifo[0], fifo_printed[0]),
        (fifo[1], fifo_printed[1]),
        (orleans[0], orleans_printed[0]),
        (orleans[1], orleans_printed[1]),
    ];
    Verdict::factors(sees, &direction, &factors)
}

fn judge_8c(data: &Data) -> Verdict {
    let at = |chart: &str, policy: &str, threads: f64| {
        data.chart(chart).series(policy).at(threads).unwrap_or(f64::NAN)
    };
    let kept = at("ls-p99", "Cameo", 2.0) / at("ls-p99", "Cameo", 4.0);
    let met = ["Cameo", "FIFO", "Orleans"].map(|policy| at("ls-met", policy, 1.0));
    let sees = format!(
        "Cameo's LS p99 at two threads is {kept:.2}x that at four; on one thread LS meets {:.1} % of its deadlines \
         under Cameo, {:.1} % under FIFO, {:.1} % Orleans-like; LS p99 at two threads: FIFO {:.1}x Cameo's",
        100.0 * met[0],
        100.0 * met[1],
        100.0 * met[2],
        at("ls-p99", "FIFO", 2.0) / at("ls-p99", "Cameo", 2.0),
    );
    Verdict::of(sees, &[kept < 2.0, met[0] >= 0.9, met[0] > met[1] && met[0] > met[2]])
}
