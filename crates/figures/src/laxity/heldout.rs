//! Policies on random workloads: judging seeds for the verdict on the default, training seeds for what its parts are
//! worth.

use std::time::Duration;

use laxity_sim::{Cluster, Cut, Fault, FaultKind, Keep, Outcome, Overheads, Setup};
use laxity_workload::random::{self, JUDGING};

use super::PAPER;
use crate::experiment::simulate;
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const HELD_OUT: Figure = Figure {
    name: "laxity-heldout",
    title: "every policy on workloads that nothing was tuned on",
    paper: PAPER,
    section: "workload/src/random.rs",
    says: "laxity is the best of all in deadlines met and in weighted utility at every load from 0.5 to 1.5, and at most \
           5 % behind the best in p99 over target; at most 2 % behind the best of each tenth of the scenarios below capacity \
           in met and utility, and 5 % in p99 over target.",
    notes: "Random workloads of judging seeds, run once, at the end. A result that is due and did not come counts as late: \
            due is what the policy with the most results of a query had. Tail: p99 of those due over target. MISSED: met at \
            .75 to 1, where chain has 3 % more, all of it from one scenario of one query; met and utility in two of the tenths \
            below capacity (chain 45 and 7 %, that scenario; sjf 6 and 7 %); and the tail at .75 to 1.25 (24 to 27 % \
            behind the best, 5 allowed) and in eight of the tenths (11 to 49 %): chain and sjf put short work first, which laxity \
            gave up since it makes p99 of near targets two to four times as long on threads. Judged twice, the second time with \
            larger quanta where calls are dear and without a rule on what a \
            result costs; run a third time after two days of other changes, which gave the same file to the last byte. Not \
            judged: the default as commit 4a5254e changed it afterwards (nothing is given up for what first rows are guessed \
            to cost), and stride, jet and alap, which came later still.",
    run: |run| compare(run, run.pick(JUDGING, 0), &POLICIES),
    judge: judge_held_out,
};

pub(super) const PARTS: Figure = Figure {
    name: "laxity-parts",
    title: "what each part of laxity is worth",
    paper: PAPER,
    section: "workload/src/random.rs",
    says: "Without any of its parts laxity is worse by 2 % or more in deadlines met, weighted utility or tail.",
    notes: "Random workloads of training seeds: a part goes or stays by what is seen here, so that judging stays fair. \
            Measured as in laxity-heldout; each line is laxity without one of its parts.",
    run: |run| compare(run, 0, &ABLATED),
    judge: judge_parts,
};

/// Those of the other figures, and three that are judged here alone.
const POLICIES: [&str; 17] = [
    "laxity", "llf", "edf", "sjf", "tokens", "klink", "sbox", "aurora", "hr", "chain", "qs", "fcfs", "fifo",
    "rr", "stride", "jet", "alap",
];

/// The whole first, then without each part.
const ABLATED: [&str; 4] = ["laxity", "laxity:forecasts=off", "laxity:overload=off", "llf"];

/// What became of a query.
#[derive(Clone, Debug)]
struct Fate {
    results: u64,
    met: u64,
    utility: f64,
    mean_ns: f64,
    latency: Option<hdrhistogram::Histogram<u64>>,
    target_ns: f64,
}

/// What a policy did in a scenario, over what was due.
#[derive(Clone, Copy, Debug)]
struct Seen {
    met: f64,
    utility: f64,
    tail: f64,
    mean_ms: f64,
}

fn fates(outcome: &Outcome) -> Vec<Fate> {
    let of = |query: &laxity_sim::QueryOutcome| Fate {
        results: query.lateness.results,
        met: query.lateness.met,
        utility: query.utility_mean,
        mean_ns: query.latency_mean_ns,
        latency: query.latency.clone(),
        target_ns: query.target_ns as f64,
    };
    outcome.queries.iter().map(of).collect()
}

/// Means over the queries that anybody had results of. One that did not come has waited as long as was measured.
fn seen(fates: &[Fate], due: &[u64], of_weight: &[f64], measured_ns: f64) -> Seen {
    let (mut sum, mut queries, mut weights) =
        (Seen { met: 0.0, utility: 0.0, tail: 0.0, mean_ms: 0.0 }, 0.0, 0.0);
    for ((fate, &due), &weight) in fates.iter().zip(due).zip(of_weight).filter(|((_, due), _)| **due > 0) {
        let (due, results) = (due as f64, fate.results as f64);
        queries += 1.0;
        weights += weight;
        sum.met += fate.met as f64 / due;
        sum.utility += weight * fate.utility * results / due;
        let quantile = 0.99 * due / results.max(1e-9);
        let tail_ns = match &fate.latency {
            Some(latency) if quantile <= 1.0 => latency.value_at_quantile(quantile) as f64,
            _ => measured_ns,
        };
        // Whatever is a hundredth of its target is prompt.
        sum.tail += (tail_ns / fate.target_ns).max(0.01).ln();
        sum.mean_ms += (fate.mean_ns * results + measured_ns * (due - results)) / due / 1e6;
    }
    let queries = f64::max(queries, 1.0);
    Seen {
        met: sum.met / queries,
        utility: sum.utility / f64::max(weights, 1e-9),
        tail: (sum.tail / queries).exp(),
        mean_ms: sum.mean_ms / queries,
    }
}

fn simulated(policy: &str, seed: u64, run: &Run) -> Result<(Vec<Fate>, f64), ExperimentError> {
    let drawn = random::drawn(seed)?;
    let (warm_up, measured) = run.pick((5, 15), (1, 2));
    let (warm_up, measured) = (Duration::from_secs(warm_up), Duration::from_secs(measured));
    let faults = drawn.straggler.map(|factor| Fault {
        kind: FaultKind::Straggler { node: 0, core: 0, factor },
        from: Duration::ZERO,
        to: Duration::from_secs(60),
    });
    let setup = Setup {
        cluster: Cluster::one(drawn.cores),
        duration: warm_up + measured,
        warm_up,
        overheads: Overheads {
            call_ns: drawn.call_ns,
            switch_ns: 500,
            schedule_ns: 300,
            cycle_ns_per_operator: 50,
            ..Overheads::default()
        },
        cut: Cut::AtQuantum { rows_min: 128 },
        faults: faults.into_iter().collect(),
        latency_digits: 2,
        keep: Keep { timeline: false, results: false, trace: false, checks: false },
        ..Setup::default()
    };
    let outcome = simulate(policy, drawn.workload, setup)?;
    Ok((fates(&outcome), measured.as_nanos() as f64))
}

/// Three hundred scenarios from that seed on at the paper's scale, one at the small.
fn compare(run: &Run, first: u64, policies: &[&'static str]) -> Result<Data, ExperimentError> {
    let mut table =
        Table::new(["seed", "cores", "load", "queries", "policy", "met", "utility", "tail", "mean_ms"]);
    let first = first + (run.seed - 1) * 10_000;
    let mut series: Vec<[Series; 4]> =
        policies.iter().map(|name| [(); 4].map(|()| Series::new(*name, vec![]))).collect();
    for seed in first..first + run.pick(300, 1) {
        let drawn = random::drawn(seed)?;
        let all: Vec<(Vec<Fate>, f64)> =
            policies.iter().map(|policy| simulated(policy, seed, run)).collect::<Result<_, _>>()?;
        let weights: Vec<f64> =
            drawn.workload.queries.iter().map(|query| query.dataflow.settings.weight).collect();
        let due: Vec<u64> = (0..drawn.workload.queries.len())
            .map(|query| all.iter().map(|(fates, _)| fates[query].results).max().unwrap_or(0))
            .collect();
        for ((policy, (fates, measured_ns)), of) in policies.iter().zip(&all).zip(&mut series) {
            let seen = seen(fates, &due, &weights, *measured_ns);
            let queries = due.len();
            table.push([
                &seed,
                &drawn.cores,
                &drawn.load,
                &queries,
                policy,
                &seen.met,
                &seen.utility,
                &seen.tail,
                &seen.mean_ms,
            ]);
            for (of, value) in of.iter_mut().zip([seen.met, seen.utility, seen.tail, seen.mean_ms]) {
                of.points.push((drawn.load, value));
            }
        }
    }
    let chart = |which: usize, name: &str, y: Axis| Chart {
        name: name.into(),
        x: Axis::linear("load"),
        y,
        marks: Marks::Points,
        series: series.iter().map(|of| of[which].clone()).collect(),
    };
    let charts = vec![
        chart(0, "met", Axis::linear("share of what is due that met its target")),
        chart(1, "utility", Axis::linear("utility of what is due, weighted")),
        chart(2, "tail", Axis::log("p99 of latency / target")),
        chart(3, "mean", Axis::log("mean latency (ms)")),
    ];
    Ok(Data { table, charts })
}

/// Bands of load that are judged each on its own.
const BANDS: [(f64, f64); 4] = [(0.5, 0.75), (0.75, 1.0), (1.0, 1.25), (1.25, 1.51)];

/// Geometric mean over the scenarios of a band.
fn over(series: &Series, band: (f64, f64)) -> f64 {
    mean(series.points.iter().filter(|point| point.0 >= band.0 && point.0 < band.1).map(|point| point.1))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0.0), |(sum, count), value| (sum + value.max(1e-3).ln(), count + 1.0));
    (sum / f64::max(count, 1.0)).exp()
}

/// The first of these beside the best of the others by `value`: how far it is behind (1: as good), and the best's name and value.
struct Behind<'a> {
    mine: f64,
    factor: f64,
    best: &'a str,
    theirs: f64,
}

impl<'a> Behind<'a> {
    fn of(series: &'a [Series], higher: bool, value: impl Fn(&Series) -> f64) -> Behind<'a> {
        let better = |a: f64, b: f64| if higher { a > b } else { a < b };
        let best = series[1..].iter().reduce(|a, b| if better(value(b), value(a)) { b } else { a });
        let best = best.expect("there are others");
        let (mine, theirs) = (value(&series[0]), value(best));
        let factor = if higher { theirs / mine } else { mine / theirs };
        Behind { mine, factor, best: &best.name, theirs }
    }

    fn is_within(&self, factor: f64) -> bool {
        self.factor <= factor + 1e-9
    }
}

/// The tenths of the scenarios below capacity by load, each as their places among all.
fn deciles(series: &Series) -> Vec<Vec<usize>> {
    let load = |place: usize| series.points[place].0;
    let mut below: Vec<usize> = (0..series.points.len()).filter(|&place| load(place) < 1.0).collect();
    below.sort_by(|&a, &b| load(a).total_cmp(&load(b)));
    (0..10).map(|tenth| below[tenth * below.len() / 10..(tenth + 1) * below.len() / 10].to_vec()).collect()
}

/// What is claimed of each tenth below capacity: of how many it holds, and where it does not.
fn judge_deciles(data: &Data, claims: &mut Vec<bool>) -> String {
    let mut missed = Vec::new();
    for (name, higher, may) in [("met", true, 1.02), ("utility", true, 1.02), ("tail", false, 1.05)] {
        let series = &data.chart(name).series;
        for (tenth, places) in deciles(&series[0]).iter().enumerate() {
            let of = |series: &Series| mean(places.iter().map(|&place| series.points[place].1));
            let behind = Behind::of(series, higher, of);
            claims.push(behind.is_within(may));
            if !behind.is_within(may) {
                let percent = 100.0 * (behind.factor - 1.0);
                missed.push(format!("{name} in the {}. {percent:.0} % behind {}", tenth + 1, behind.best));
            }
        }
    }
    let missed = if missed.is_empty() { "none".to_owned() } else { missed.join(", ") };
    format!("tenths of the scenarios below capacity, by load, where it is more than allowed behind: {missed}")
}

fn judge_held_out(data: &Data) -> Verdict {
    let mut claims = Vec::new();
    let mut sees = Vec::new();
    for band in BANDS {
        let mut of_band = Vec::new();
        for (name, higher, may) in [("met", true, 1.0), ("utility", true, 1.0), ("tail", false, 1.05)] {
            let behind = Behind::of(&data.chart(name).series, higher, |series| over(series, band));
            claims.push(behind.is_within(may));
            of_band.push(format!("{name} {:.3} ({} {:.3})", behind.mine, behind.best, behind.theirs));
        }
        let behind = Behind::of(&data.chart("mean").series, false, |series| over(series, band));
        of_band.push(format!("mean {:.0} ms ({} {:.0} ms)", behind.mine, behind.best, behind.theirs));
        sees.push(format!("load {} to {}: {}", band.0, f64::min(band.1, 1.5), of_band.join(", ")));
    }
    let deciles = judge_deciles(data, &mut claims);
    Verdict::of(format!("laxity (best other). {}; {deciles}", sees.join("; ")), &claims)
}

fn judge_parts(data: &Data) -> Verdict {
    let all = (0.0, 9.0);
    let [met, utility, tail] = ["met", "utility", "tail"].map(|name| &data.chart(name).series);
    let mut claims = Vec::new();
    let mut sees = Vec::new();
    for part in 1..met.len() {
        let less = |series: &[Series]| 1.0 - over(&series[part], all) / over(&series[0], all);
        let more = over(&tail[part], all) / over(&tail[0], all) - 1.0;
        let (met_less, utility_less) = (less(met), less(utility));
        claims.push(met_less.max(utility_less).max(more) >= 0.02);
        sees.push(format!(
            "{}: met {:+.1} %, utility {:+.1} %, tail {:+.1} %",
            met[part].name,
            -100.0 * met_less,
            -100.0 * utility_less,
            100.0 * more
        ));
    }
    Verdict::of(sees.join("; "), &claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenth_in_which_another_is_better_is_named() {
        // Twenty scenarios below capacity, the highest load first, and one above. In the two of the least load laxity met .9.
        let loads: Vec<f64> = (0..20).rev().map(|i| 0.5 + 0.02 * f64::from(i)).chain([1.2]).collect();
        let series = |name: &str, of: &dyn Fn(f64) -> f64| {
            Series::new(name, loads.iter().map(|&load| (load, of(load))).collect::<Vec<_>>())
        };
        let chart = |name: &str, of: &dyn Fn(f64) -> f64| Chart {
            name: name.into(),
            x: Axis::linear("load"),
            y: Axis::linear(name),
            marks: Marks::Points,
            series: vec![series("laxity", of), series("llf", &|_| 1.0)],
        };
        let met = |load: f64| if (0.53..=1.0).contains(&load) { 1.0 } else { 0.9 };
        let charts = vec![chart("met", &met), chart("utility", &|_| 0.99), chart("tail", &|_| 1.04)];
        let mut claims = Vec::new();
        let sees = judge_deciles(&Data { table: Table::new(["seed"]), charts }, &mut claims);
        assert_eq!(claims.iter().filter(|held| **held).count(), 29);
        assert!(sees.ends_with("behind: met in the 1. 11 % behind llf"), "{sees}");
    }
}
