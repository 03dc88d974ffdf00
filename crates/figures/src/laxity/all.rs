//! Every policy on the workloads of all papers, at a load that can be borne and at one that cannot.

use laxity_sim::{Cut, Outcome};
use laxity_workload::catalogue;

use super::{PAPER, POLICIES, simulated, workload};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const UNDER_LOAD: Figure = Figure {
    name: "laxity-all",
    title: "every policy on every workload, at 0.9 of four cores",
    paper: PAPER,
    section: "algorithms.md §7.2",
    says: "laxity is at most 5 % behind the best single policy of each workload in deadlines met and in p99, and the \
           best over all.",
    notes: "Workloads at a quarter of their size. The tail is p99 of latency over target, averaged over queries, so \
            that a target of two hours does not drown one of a second. Over all: geometric mean of the tail over \
            that of the workload's best.",
    run: |run| compare(run, 0.9),
    judge: |data| judge(data, 0.05),
};

pub(super) const OVER_LOAD: Figure = Figure {
    name: "laxity-overload",
    title: "every policy on every workload, at 1.3 of four cores",
    paper: PAPER,
    section: "algorithms.md §7.2",
    says: "As laxity-all. Overload degrades the cheapest promises first.",
    notes: "As laxity-all. Under lasting overload deadlines met and p99 over all queries pull apart: who keeps most \
            promises lets a few queries wait for long. laxity is made for the former, by the utility of curves where a \
            query has one. Met is the share of results that came: a policy that lets a query wait for ever, as sjf does \
            with linear roads, is flattered.",
    run: |run| compare(run, 1.3),
    judge: |data| judge(data, 0.05),
};

const CORES: usize = 4;

/// What a policy did on a workload.
struct Seen {
    /// Share of results within their target, averaged over queries; a query without results has met none.
    met: f64,
    /// p99 of latency over target, averaged over queries.
    tail: f64,
    /// Mean latency, averaged over queries.
    mean_ms: f64,
    utility: f64,
}

impl Seen {
    fn of(outcome: &Outcome) -> Seen {
        let queries = outcome.queries.len().max(1) as f64;
        let mut seen = Seen { met: 0.0, tail: 0.0, mean_ms: 0.0, utility: 0.0 };
        for query in &outcome.queries {
            let target_ns = query.target_ns as f64;
            // A query that never answered has waited as long as the run took.
            let Some(latency) = query.latency.as_ref().filter(|_| query.lateness.results > 0) else {
                seen.tail += outcome.ended.0 as f64 / target_ns;
                seen.mean_ms += outcome.ended.0 as f64 / 1e6;
                continue;
            };
            seen.met += query.lateness.met_share();
            seen.tail += latency.value_at_quantile(0.99) as f64 / target_ns;
            seen.mean_ms += query.latency_mean_ns / 1e6;
            seen.utility += query.utility_mean;
        }
        Seen {
            met: seen.met / queries,
            tail: seen.tail / queries,
            mean_ms: seen.mean_ms / queries,
            utility: seen.utility / queries,
        }
    }
}

fn compare(run: &Run, load: f64) -> Result<Data, ExperimentError> {
    let mut table = Table::new(["workload", "load", "policy", "met", "tail", "mean_ms", "utility"]);
    let names: Vec<&str> = catalogue::all().iter().map(|named| named.name).collect();
    let names = run.pick(&names[..], &names[..6]);
    let mut series: Vec<[Series; 2]> =
        POLICIES.iter().map(|name| [Series::new(*name, vec![]), Series::new(*name, vec![])]).collect();
    for (place, name) in names.iter().enumerate() {
        for (policy, [met, tail]) in POLICIES.iter().zip(&mut series) {
            let (seconds, cut) = (run.pick(40, 4), Cut::AtQuantum { rows_min: 128 });
            let seen = Seen::of(&simulated(
                policy,
                workload(name, load * CORES as f64, run)?,
                CORES,
                seconds,
                cut,
                false,
            )?);
            table.push([name, &load, policy, &seen.met, &seen.tail, &seen.mean_ms, &seen.utility]);
            met.points.push((place as f64, seen.met));
            tail.points.push((place as f64, seen.tail));
        }
    }
    let [met, tail]: [Vec<Series>; 2] = [0, 1].map(|which| series.iter().map(|s| s[which].clone()).collect());
    let chart = |name: &str, y: Axis, series| Chart {
        name: name.into(),
        x: Axis::names(&format!("workload at {load} of {CORES} cores"), names),
        y,
        marks: Marks::Points,
        series,
    };
    let charts = vec![
        chart("met", Axis::linear("deadlines met (mean over queries)"), met),
        chart("tail", Axis::log("p99 of latency / target (mean over queries)"), tail),
    ];
    Ok(Data { table, charts })
}

fn judge(data: &Data, behind: f64) -> Verdict {
    let (met, tail) = (data.chart("met"), data.chart("tail"));
    let workloads = &met.x.categories;
    let best = |series: &[Series], place: usize, other: fn(f64, f64) -> f64| {
        series[1..].iter().map(|s| s.points[place].1).reduce(other).unwrap_or(f64::NAN)
    };
    let mut behind_in = Vec::new();
    for (place, workload) in workloads.iter().enumerate() {
        let (mine, others) = (met.series[0].points[place].1, best(&met.series, place, f64::max));
        if mine < others * (1.0 - behind) {
            behind_in.push(format!("{workload} met {mine:.3} to {others:.3}"));
        }
        let (mine, others) = (tail.series[0].points[place].1, best(&tail.series, place, f64::min));
        if mine > others * (1.0 + behind) {
            behind_in.push(format!("{workload} p99 {:+.0} %", 100.0 * (mine / others - 1.0)));
        }
    }
    let over_all = |policy: usize| {
        let ratios = (0..workloads.len()).map(|place| {
            let best = best(&tail.series, place, f64::min).min(tail.series[0].points[place].1);
            (tail.series[policy].points[place].1 / best).ln()
        });
        (ratios.sum::<f64>() / workloads.len() as f64).exp()
    };
    let mean_met = |policy: usize| {
        met.series[policy].points.iter().map(|point| point.1).sum::<f64>() / workloads.len() as f64
    };
    let mut order: Vec<usize> = (0..POLICIES.len()).collect();
    order.sort_by(|&a, &b| over_all(a).total_cmp(&over_all(b)));
    let list: Vec<String> = order
        .iter()
        .take(4)
        .chain(order.last())
        .map(|&p| format!("{} {:.2} (met {:.3})", POLICIES[p], over_all(p), mean_met(p)))
        .collect();
    let most_met = (1..POLICIES.len()).all(|policy| mean_met(0) >= mean_met(policy));
    let sees = format!(
        "{} workloads. Tail over the best, geometric mean, and met: {}. More than 5 % behind the best in: {}",
        workloads.len(),
        list.join(", "),
        if behind_in.is_empty() { "none".into() } else { behind_in.join("; ") }
    );
    Verdict::of(sees, &[behind_in.is_empty(), order[0] == 0, most_met])
}
