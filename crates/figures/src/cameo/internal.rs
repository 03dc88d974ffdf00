//! Cameo's Figs. 11 and 13 to 15: what its own choices are worth, and what wrong costs do to it.

use laxity_workload::ipq::{Ipq, Tenants};

use super::PAPER;
use super::single::{alone, trial as run_alone};
use super::tenants::{Group, Machines, bulk_rate, factor, tenants, trial, workload};
use crate::experiment::{ORLEANS, simulate};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_11: Figure = Figure {
    name: "cameo-11",
    title: "LLF, EDF and SJF",
    paper: PAPER,
    section: "§6.3",
    says: "SJF is consistently worse than LLF and EDF (but for IPQ4); EDF and LLF perform comparably.",
    notes: "Single queries at 90 % of four cores; tenants at 90 % of the cluster.",
    run: run_11,
    judge: judge_11,
};

pub(super) const FIGURE_13: Figure = Figure {
    name: "cameo-13",
    title: "batch size of bulk jobs at the same rate",
    paper: PAPER,
    section: "§6.3",
    says: "LS latency is unaffected up to 20 000 tuples per message and degrades at 40 000, as large messages of low \
           priority block.",
    notes: "At 80 % of the cores; 1 000 rows cost about 8 ms over all stages here, so that blocking shows earlier.",
    run: run_13,
    judge: judge_13,
};

pub(super) const FIGURE_14: Figure = Figure {
    name: "cameo-14",
    title: "with and without the meaning of queries",
    paper: PAPER,
    section: "§6.3",
    says: "Without query semantics Cameo is slightly worse (19 % higher BA median), and still lowers LS and BA medians by \
           up to 38 % and 22 % against the baselines.",
    notes: "Tenants at 90 % of the cluster.",
    run: run_14,
    judge: judge_14,
};

pub(super) const FIGURE_15: Figure = Figure {
    name: "cameo-15",
    title: "perturbed profiles of cost",
    paper: PAPER,
    section: "§6.3",
    says: "With errors of deviation up to 1 s (the window) the median is stable and p90 rises modestly, by 55.5 %; robust up \
           to 100 ms.",
    notes: "Tenants at 90 % of the cluster.",
    run: run_15,
    judge: judge_15,
};

/// What a point of a comparison is called, its policy and its tenants.
type Point = (String, String, Tenants);

/// Runs tenants under policies; one row and one group of bars or one point each.
fn compare(run: &Run, points: &[Point]) -> Result<(Table, Vec<(Group, Group)>), ExperimentError> {
    let machines = Machines::of(run);
    let (duration_s, warm_up_s) = run.pick((40, 10), (4, 1));
    let mut table = Table::new([
        "what",
        "policy",
        "ls_median_s",
        "ls_p90_s",
        "ls_p99_s",
        "ls_met",
        "ba_median_s",
        "ba_p99_s",
        "results",
    ]);
    let mut seen = Vec::new();
    for (name, policy, tenants) in points {
        let setup = machines.setup(run, run.seed, duration_s, warm_up_s);
        let outcome = trial(run, policy, tenants, run.seed, setup)?;
        let (ls, ba) = (Group::sensitive(&outcome), Group::bulk(&outcome));
        let results = ls.results + ba.results;
        table.push([
            name,
            policy,
            &ls.median_s,
            &ls.p90_s,
            &ls.p99_s,
            &ls.met,
            &ba.median_s,
            &ba.p99_s,
            &results,
        ]);
        seen.push((ls, ba));
    }
    Ok((table, seen))
}

fn loaded(run: &Run, share: f64) -> Result<Tenants, ExperimentError> {
    let base = tenants(run);
    let bulk_rows_per_s = bulk_rate(&base, &Machines::of(run), share)?;
    Ok(Tenants { bulk_rows_per_s, ..base })
}

fn bars(name: &str, names: &[&str], label: &str, series: Vec<Series>) -> Chart {
    Chart { name: name.into(), x: Axis::names("", names), y: Axis::linear(label), marks: Marks::Bars, series }
}

fn run_11(run: &Run) -> Result<Data, ExperimentError> {
    let (duration_s, warm_up_s) = run.pick((60, 10), (4, 1));
    let mut table = Table::new(["query", "policy", "median_s", "p99_s", "results"]);
    let (mut medians, mut tails) = (Vec::new(), Vec::new());
    for (label, policy) in [("LLF", "llf"), ("EDF", "edf"), ("SJF", "sjf")] {
        let (mut median, mut tail) = (Vec::new(), Vec::new());
        for (index, ipq) in Ipq::ALL.into_iter().enumerate() {
            let (job, _) = alone(run, ipq, 0.9, run.seed)?;
            let setup = Machines::single().setup(run, run.seed, duration_s, warm_up_s);
            let all = Group::of(&run_alone(policy, &job, run.seed, setup)?, |_| true);
            table.push([&ipq.name(), &label, &all.median_s, &all.p99_s, &all.results]);
            median.push((index as f64, all.median_s));
            tail.push((index as f64, all.p99_s));
        }
        let (_, seen) = compare(run, &[(label.into(), policy.into(), loaded(run, 0.9)?)])?;
        let ls = seen[0].0;
        table.push([&"tenants (LS)", &label, &ls.median_s, &ls.p99_s, &ls.results]);
        median.push((4.0, ls.median_s));
        tail.push((4.0, ls.p99_s));
        medians.push(Series::new(label, median));
        tails.push(Series::new(label, tail));
    }
    let names = ["IPQ1", "IPQ2", "IPQ3", "IPQ4", "tenants (LS)"];
    let charts = vec![
        bars("median", &names, "median latency (s)", medians),
        bars("p99", &names, "p99 latency (s)", tails),
    ];
    Ok(Data { table, charts })
}

fn judge_11(data: &Data) -> Verdict {
    let ratio = |policy: &str, at: f64| {
        let chart = data.chart("median");
        let of = |policy: &str| chart.series(policy).at(at).unwrap_or(f64::NAN);
        of(policy) / of("LLF")
    };
    let text = |policy: &str| {
        (0..5).map(|at| format!("{:.2}", ratio(policy, f64::from(at)))).collect::<Vec<_>>().join(", ")
    };
    let sees = format!(
        "medians relative to LLF's for IPQ1 to 4 and LS tenants: EDF {}; SJF {}",
        text("EDF"),
        text("SJF")
    );
    let near = (0..5).all(|at| (0.8..1.25).contains(&ratio("EDF", f64::from(at))));
    let worse = [0, 1, 2, 4].into_iter().filter(|at| ratio("SJF", f64::from(*at)) > 1.0).count();
    Verdict::of(sees, &[near, worse >= 3])
}

fn run_13(run: &Run) -> Result<Data, ExperimentError> {
    let machines = Machines::of(run);
    let (duration_s, warm_up_s) = run.pick((40, 10), (4, 1));
    let tenants = loaded(run, 0.8)?;
    let sizes: &[u32] = run.pick(&[1_000, 5_000, 10_000, 20_000, 40_000], &[1_000, 10_000]);
    let mut table = Table::new(["batch_rows", "policy", "ls_median_s", "ls_p99_s", "ls_met", "ba_median_s"]);
    let (mut medians, mut tails) = (Vec::new(), Vec::new());
    for (label, policy) in [("Cameo", "llf"), ("laxity", "laxity")] {
        let (mut median, mut tail) = (Vec::new(), Vec::new());
        for size in sizes {
            let workload = workload(&tenants, *size, run.seed)?;
            let setup = machines.setup(run, run.seed, duration_s, warm_up_s);
            let outcome = simulate(policy, workload, setup)?;
            let (ls, ba) = (Group::sensitive(&outcome), Group::bulk(&outcome));
            table.push([size, &label, &ls.median_s, &ls.p99_s, &ls.met, &ba.median_s]);
            median.push((f64::from(*size), ls.median_s));
            tail.push((f64::from(*size), ls.p99_s));
        }
        medians.push(Series::new(format!("{label}, median"), median));
        tails.push(Series::new(format!("{label}, p99"), tail));
    }
    medians.extend(tails);
    let chart = Chart {
        name: String::new(),
        x: Axis::log("rows in a message of bulk jobs"),
        y: Axis::linear("LS latency (s)"),
        marks: Marks::Lines,
        series: medians,
    };
    Ok(Data { table, charts: vec![chart] })
}

fn judge_13(data: &Data) -> Verdict {
    let tail = data.chart("").series("Cameo, p99");
    let text: Vec<String> =
        tail.points.iter().map(|(size, p99)| format!("{size}: {:.2}x", p99 / tail.first())).collect();
    let sees = format!("LS p99 under Cameo by batch size, relative to the smallest: {}", text.join(", "));
    let grows = tail.last() / tail.first();
    let early = tail.points.get(1).map_or(f64::NAN, |point| point.1 / tail.first());
    Verdict::of(sees, &[grows > 1.3, early < grows])
}

fn run_14(run: &Run) -> Result<Data, ExperimentError> {
    let tenants = loaded(run, 0.9)?;
    let policies =
        [("Cameo", "llf"), ("topology only", "llf:topology-only"), ("FIFO", "fifo"), ("Orleans", ORLEANS)];
    let points: Vec<Point> = policies
        .iter()
        .map(|(label, policy)| (label.to_string(), policy.to_string(), tenants.clone()))
        .collect();
    let (table, seen) = compare(run, &points)?;
    let of = |pick: fn(&(Group, Group)) -> f64| {
        seen.iter().enumerate().map(|(index, groups)| (index as f64, pick(groups))).collect()
    };
    let names = policies.map(|(label, _)| label);
    let charts = vec![
        bars(
            "ls",
            &names,
            "LS latency (s)",
            vec![
                Series::new("median", of(|groups| groups.0.median_s)),
                Series::new("p99", of(|groups| groups.0.p99_s)),
            ],
        ),
        bars(
            "ba",
            &names,
            "BA latency (s)",
            vec![
                Series::new("median", of(|groups| groups.1.median_s)),
                Series::new("p99", of(|groups| groups.1.p99_s)),
            ],
        ),
    ];
    Ok(Data { table, charts })
}

fn judge_14(data: &Data) -> Verdict {
    let at = |chart: &str, index: f64| data.chart(chart).series("median").at(index).unwrap_or(f64::NAN);
    // Short runs end before any window of the bulk jobs does.
    let ratio =
        |chart: &str, than: f64| if at(chart, than) > 0.0 { at(chart, 1.0) / at(chart, than) } else { 1.0 };
    let lower = |chart: &str, than: f64| 100.0 * (1.0 - ratio(chart, than));
    let sees = format!(
        "without semantics the LS median changes by {:+.0} % and the BA median by {:+.0} %; it is lower than FIFO's by {:.0} % \
         (LS) and {:.0} % (BA), than Orleans' by {:.0} % and {:.0} %",
        -lower("ls", 0.0),
        -lower("ba", 0.0),
        lower("ls", 2.0),
        lower("ba", 2.0),
        lower("ls", 3.0),
        lower("ba", 3.0)
    );
    let still = lower("ls", 2.0) > 0.0 && lower("ls", 3.0) > 0.0;
    let not_better = at("ls", 1.0) >= 0.98 * at("ls", 0.0) || at("ba", 1.0) >= 0.98 * at("ba", 0.0);
    Verdict::of(sees, &[still, not_better])
}

fn run_15(run: &Run) -> Result<Data, ExperimentError> {
    let tenants = loaded(run, 0.9)?;
    let sigmas: &[u32] = run.pick(&[0, 1, 10, 100, 300, 1_000], &[0, 100, 1_000]);
    let points: Vec<Point> = sigmas
        .iter()
        .map(|sigma_ms| {
            let policy = if *sigma_ms == 0 { "llf".into() } else { format!("llf:sigma={sigma_ms}ms") };
            (format!("{sigma_ms} ms"), policy, tenants.clone())
        })
        .collect();
    let (table, seen) = compare(run, &points)?;
    let of = |name: &str, pick: fn(&Group) -> f64| {
        let points = sigmas.iter().zip(&seen).map(|(sigma_ms, (ls, _))| (f64::from(*sigma_ms), pick(ls)));
        Series::new(name, points.collect())
    };
    let chart = Chart {
        name: String::new(),
        x: Axis::linear("deviation of the error in costs (ms)"),
        y: Axis::linear("LS latency (s)"),
        marks: Marks::Lines,
        series: vec![
            of("median", |group| group.median_s),
            of("p90", |group| group.p90_s),
            of("p99", |group| group.p99_s),
        ],
    };
    Ok(Data { table, charts: vec![chart] })
}

fn judge_15(data: &Data) -> Verdict {
    let chart = data.chart("");
    let growth = |name: &str, at: f64| {
        let series = chart.series(name);
        factor(series.first(), series.at(at).unwrap_or(f64::NAN))
    };
    let sees = format!(
        "at 100 ms LS median {:.2}x, p90 {:.2}x; at 1 s median {:.2}x, p90 {:.2}x, p99 {:.2}x",
        growth("median", 100.0),
        growth("p90", 100.0),
        growth("median", 1_000.0),
        growth("p90", 1_000.0),
        growth("p99", 1_000.0)
    );
    Verdict::of(
        sees,
        &[growth("median", 1_000.0) < 1.3, growth("p90", 100.0) < 1.3, growth("p90", 1_000.0) < 2.0],
    )
}
