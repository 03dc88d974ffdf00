//! Cameo's Figs. 9 and 10: load that is uneven in time, and load that is uneven over sources.

use laxity_workload::ipq::Tenants;

use super::PAPER;
use super::tenants::{Group, Machines, POLICIES, bulk_rate, factor, is_sensitive, tenants, trial};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_9: Figure = Figure {
    name: "cameo-9",
    title: "latency over time under Pareto bursts",
    paper: PAPER,
    section: "§6.2",
    says: "Below 50 % load, Cameo lowers LS latency (median, p99) by 3.9x and 29.7x against Orleans, 1.3x and 21.1x \
           against FIFO; its deviation by 23.2x and 12.7x.",
    notes: "4 LS and 8 BA jobs, BA volume per second Pareto(1.5), at most 20 times the mean; 45 % load on average.",
    run: run_9,
    judge: judge_9,
};

pub(super) const FIGURE_10: Figure = Figure {
    name: "cameo-10",
    title: "deadlines met under spatial skew",
    paper: PAPER,
    section: "§6.2",
    says: "Type 1 and 2 (200x skew, half the events): Cameo meets 21.3 % and 45.5 %, Orleans 0.2 % and 1.5 %, FIFO 7.9 % \
           and 9.5 %.",
    notes: "The load is not printed; ours is 1.3 times the cores for Type 1. Sources are skewed, but rows go from them to \
            the next stage in turn, so that skew loads no operator behind it; how the paper's operators were fed \
            is not said. The printed shares cannot follow.",
    run: run_10,
    judge: judge_10,
};

fn run_9(run: &Run) -> Result<Data, ExperimentError> {
    let machines = Machines::of(run);
    let base = Tenants { is_bursty: true, ..tenants(run) };
    let bulk_rows_per_s = bulk_rate(&base, &machines, 0.45)?;
    let tenants = Tenants { bulk_rows_per_s, ..base };
    let (duration_s, warm_up_s) = run.pick((60, 10), (6, 1));
    let mut table = Table::new(["policy", "group", "median_s", "p99_s", "deviation_s", "met", "results"]);
    let (mut medians, mut tails, mut deviations) = (Vec::new(), Vec::new(), Vec::new());
    let (mut over_time, mut bulk_over_time) = (Vec::new(), Vec::new());
    for (label, policy) in POLICIES {
        let mut setup = machines.setup(run, run.seed, duration_s, warm_up_s);
        setup.keep.results = true;
        let outcome = trial(run, policy, &tenants, run.seed, setup)?;
        let groups = [("LS", Group::sensitive(&outcome)), ("BA", Group::bulk(&outcome))];
        for (group, seen) in &groups {
            table.push([
                &label,
                group,
                &seen.median_s,
                &seen.p99_s,
                &seen.deviation_s,
                &seen.met,
                &seen.results,
            ]);
        }
        let of = |pick: fn(&Group) -> f64| {
            Series::new(label, groups.iter().enumerate().map(|(i, (_, g))| (i as f64, pick(g))).collect())
        };
        medians.push(of(|group| group.median_s));
        tails.push(of(|group| group.p99_s));
        deviations.push(of(|group| group.deviation_s));
        let points = |sensitive: bool| {
            let results = outcome.results.iter().flatten();
            let picked =
                results.filter(|result| is_sensitive(&outcome.queries[result.query.index()]) == sensitive);
            picked
                .map(|result| {
                    let latency_ns = result.written.since_ns(result.ingested);
                    (result.written.0 as f64 / 1e9, latency_ns as f64 / 1e9)
                })
                .collect()
        };
        over_time.push(Series::new(label, points(true)));
        bulk_over_time.push(Series::new(label, points(false)));
    }
    let bars = |name: &str, label: &str, series| Chart {
        name: name.into(),
        x: Axis::names("", ["LS", "BA"]),
        y: Axis::log(label),
        marks: Marks::Lines,
        series,
    };
    let cloud = |name: &str, label: &str, series| Chart {
        name: name.into(),
        x: Axis::linear("time (s)"),
        y: Axis::log(label),
        marks: Marks::Points,
        series,
    };
    Ok(Data {
        table,
        charts: vec![
            cloud("ls-timeline", "LS latency (s)", over_time),
            cloud("ba-timeline", "BA latency (s)", bulk_over_time),
            bars("median", "median latency (s)", medians),
            bars("p99", "p99 latency (s)", tails),
            bars("deviation", "standard deviation (s)", deviations),
        ],
    })
}

fn judge_9(data: &Data) -> Verdict {
    let of = |chart: &str, policy: &str| {
        let chart = data.chart(chart);
        factor(chart.series("Cameo").first(), chart.series(policy).first())
    };
    let text = |policy: &str| {
        format!(
            "{policy} {:.1}x (median), {:.1}x (p99), {:.1}x (deviation)",
            of("median", policy),
            of("p99", policy),
            of("deviation", policy)
        )
    };
    let sees = format!("LS against Cameo: {}, {}, {}", text("Orleans"), text("FIFO"), text("laxity"));
    let direction = [of("p99", "Orleans") > 1.0, of("p99", "FIFO") > 1.0, of("deviation", "FIFO") > 1.0];
    let factors = [(of("p99", "Orleans"), 29.7), (of("p99", "FIFO"), 21.1), (of("median", "FIFO"), 1.3)];
    Verdict::factors(sees, &direction, &factors)
}

fn run_10(run: &Run) -> Result<Data, ExperimentError> {
    let machines = Machines::of(run);
    let even = tenants(run);
    let bulk_rows_per_s = bulk_rate(&even, &machines, 1.3)?;
    let type_1 = Tenants { bulk_rows_per_s, latency_sensitive_rows_per_s: 2_000.0, ..even.clone() };
    let type_2 = Tenants { bulk_rows_per_s: bulk_rows_per_s / 2.0, skew: 200.0, ..even };
    let (duration_s, warm_up_s) = run.pick((40, 10), (6, 1));
    let mut table = Table::new(["type", "policy", "group", "met", "median_s", "p99_s", "results"]);
    let (mut met, mut tails) = (Vec::new(), Vec::new());
    for (label, policy) in POLICIES {
        let (mut of_met, mut of_tail) = (Vec::new(), Vec::new());
        for (index, (name, tenants)) in [("Type 1", &type_1), ("Type 2", &type_2)].into_iter().enumerate() {
            let setup = machines.setup(run, run.seed, duration_s, warm_up_s);
            let outcome = trial(run, policy, tenants, run.seed, setup)?;
            for (group, seen) in [("LS", Group::sensitive(&outcome)), ("BA", Group::bulk(&outcome))] {
                table.push([&name, &label, &group, &seen.met, &seen.median_s, &seen.p99_s, &seen.results]);
            }
            let seen = Group::sensitive(&outcome);
            of_met.push((index as f64, seen.met));
            of_tail.push((index as f64, seen.p99_s));
        }
        met.push(Series::new(label, of_met));
        tails.push(Series::new(label, of_tail));
    }
    let chart = |name: &str, label: &str, series| Chart {
        name: name.into(),
        x: Axis::names("", ["Type 1", "Type 2"]),
        y: Axis::linear(label),
        marks: Marks::Bars,
        series,
    };
    Ok(Data {
        table,
        charts: vec![chart("met", "LS deadlines met", met), chart("p99", "LS p99 latency (s)", tails)],
    })
}

fn judge_10(data: &Data) -> Verdict {
    let met = |policy: &str, at: f64| 100.0 * data.chart("met").series(policy).at(at).unwrap_or(f64::NAN);
    let list: Vec<String> = POLICIES
        .iter()
        .map(|(label, _)| format!("{label} {:.1} % and {:.1} %", met(label, 0.0), met(label, 1.0)))
        .collect();
    let sees = format!("LS deadlines met, Type 1 and 2: {}", list.join(", "));
    let better = |at: f64| met("Cameo", at) >= met("FIFO", at).max(met("Orleans", at));
    let clearly = met("Cameo", 0.0) > met("FIFO", 0.0) || met("Cameo", 1.0) > met("FIFO", 1.0);
    Verdict::of(sees, &[better(0.0) && clearly, better(1.0)])
}
