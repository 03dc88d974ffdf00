//! Klink's Fig. 6: more and more queries of YSB under every policy, by latency, slowdown and throughput.

use super::PAPER;
use super::bench::{Bench, COLUMNS, OTHERS, POLICIES, Seen, Trial, chart, counts, heap_note, record, sixty};
use crate::figure::laxity_beside;
use crate::{Axis, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_6A: Figure = Figure {
    name: "klink-6a",
    title: "mean latency of YSB over the number of queries",
    paper: PAPER,
    section: "§6.2.1",
    says: "At 80 queries Klink 7.3 s, about 50 % below Default (15 s), SBox (13.5 s), FCFS (15.5 s) and RR, 45 % below \
           HR (12.8 s).",
    notes: concat!(
        "The printed seconds contain the generator's watermark lag of 5 s, ours 0.1 s. Klink and laxity hold sources while \
         memory is freed; the rest is the order of windows. ",
        heap_note!()
    ),
    run: run_6a,
    judge: judge_6a,
};

pub(super) const FIGURE_6B: Figure = Figure {
    name: "klink-6b",
    title: "distribution of latency, YSB, 60 queries",
    paper: PAPER,
    section: "§6.2.1",
    says: "Klink is better at all percentiles; p99 55 % below Default; memory management takes 20 % off the tail.",
    notes: heap_note!(),
    run: run_6b,
    judge: judge_6b,
};

pub(super) const FIGURE_6C: Figure = Figure {
    name: "klink-6c",
    title: "slowdown, YSB",
    paper: PAPER,
    section: "§6.2.1",
    says: "As latency: Klink significantly lower than all others.",
    notes: heap_note!(),
    run: |run| sweep(run, "mean slowdown", |seen| seen.slowdown),
    judge: |data| judge_less(data, "slowdown"),
};

pub(super) const FIGURE_6D: Figure = Figure {
    name: "klink-6d",
    title: "throughput over the number of queries, YSB",
    paper: PAPER,
    section: "§6.2.1",
    says: "The others reach 2.5 million events/s (all operators), Klink without memory management 2.65, Klink 3.25 \
           million: 25 % more; the others do not scale past 40 queries.",
    notes: concat!(
        "Every policy keeps the cores busy, so that what the others lose is time in a full heap, and that they lose it is \
         calibrated; how much of it Klink loses is not. ",
        heap_note!()
    ),
    run: |run| sweep(run, "throughput (events/s, by all operators)", |seen| seen.throughput),
    judge: judge_6d,
};

fn sweep(run: &Run, label: &str, of: impl Fn(&Seen) -> f64) -> Result<Data, ExperimentError> {
    let mut table = Table::new(COLUMNS);
    let mut series = Vec::new();
    for (name, policy) in POLICIES {
        let mut line = Vec::new();
        for queries in counts(run) {
            let mut values = Vec::new();
            for seed in run.seeds(1) {
                let trial = Trial::new(Bench::Ysb, policy, queries, seed);
                let seen = trial.seen(run)?;
                record(&mut table, name, &trial, &seen);
                values.push(of(&seen));
            }
            line.push((queries as f64, values));
        }
        series.push(Series::of_runs(name, line));
    }
    let x = Axis::linear("deployed queries");
    Ok(Data { table, charts: vec![chart("", x, label, Marks::Lines, series)] })
}

fn run_6a(run: &Run) -> Result<Data, ExperimentError> {
    let mut data = sweep(run, "mean output latency (s)", |seen| seen.mean_s)?;
    let mut bars = Vec::new();
    for (name, policy) in POLICIES {
        let queries = counts(run).last().copied().unwrap_or(1);
        let trial = Trial { has_heap: false, ..Trial::new(Bench::Ysb, policy, queries, run.seed) };
        let seen = trial.seen(run)?;
        record(&mut data.table, name, &trial, &seen);
        bars.push(Series::new(name, vec![(0.0, seen.mean_s)]));
    }
    let x = Axis::names("", ["at most queries, memory without cost"]);
    data.charts.push(chart("without-heap", x, "mean output latency (s)", Marks::Bars, bars));
    let backlogs: &[u64] = run.pick(&[500, 1_000, 2_000, 5_000, 10_000], &[1_000, 5_000]);
    let mut series = Vec::new();
    for (name, policy) in POLICIES {
        let mut line = Vec::new();
        for backlog_ms in backlogs {
            let trial =
                Trial { backlog_ms: *backlog_ms, ..Trial::new(Bench::Ysb, policy, sixty(run), run.seed) };
            let seen = trial.seen(run)?;
            record(&mut data.table, &format!("{name}, backlog {backlog_ms} ms"), &trial, &seen);
            line.push((*backlog_ms as f64 / 1e3, seen.mean_s));
        }
        series.push(Series::new(name, line));
    }
    let x = Axis::log("backlog that memory holds (s of work), 60 queries");
    data.charts.push(chart("backlog", x, "mean output latency (s)", Marks::Lines, series));
    Ok(data)
}

fn judge_6a(data: &Data) -> Verdict {
    let mains = data.chart("");
    let klink = mains.series("Klink").last();
    let lower = |other: &&str| 1.0 - klink / mains.series(other).last();
    let list: Vec<String> =
        OTHERS.iter().map(|other| format!("{:.0} % than {other}", 100.0 * lower(other))).collect();
    let without = data.chart("without-heap");
    let bare = |policy: &str| without.series(policy).last();
    let backlog = data.chart("backlog");
    let over: Vec<String> = backlog
        .series("Klink")
        .points
        .iter()
        .filter_map(|(at, ours)| {
            let fcfs = backlog.series("FCFS").at(*at)?;
            Some(format!("{at} s: {:.0} %", 100.0 * (1.0 - ours / fcfs)))
        })
        .collect();
    let sees = format!(
        "at most queries Klink {klink:.2} s, lower by {}; where memory costs nothing {:.2} s, lower by {:.0} % than Default, \
         {:.0} % than FCFS; against FCFS by the backlog held: {}; {}",
        list.join(", "),
        bare("Klink"),
        100.0 * (1.0 - bare("Klink") / bare("Default")),
        100.0 * (1.0 - bare("Klink") / bare("FCFS")),
        over.join(", "),
        laxity_beside(
            "mean",
            mains.series("laxity").last(),
            &OTHERS.map(|other| (other, mains.series(other).last()))
        ),
    );
    let all = OTHERS.iter().filter(|other| **other != "HR");
    Verdict::sized(
        sees,
        &[all.clone().all(|other| lower(other) > 0.0)],
        &[all.clone().all(|other| lower(other) >= 0.5)],
    )
}

fn run_6b(run: &Run) -> Result<Data, ExperimentError> {
    let mut table = Table::new(COLUMNS);
    let mut series = Vec::new();
    for (name, policy) in POLICIES {
        let trial = Trial::new(Bench::Ysb, policy, sixty(run), run.seed);
        let seen = trial.seen(run)?;
        record(&mut table, name, &trial, &seen);
        series.push(Series::new(name, seen.distribution));
    }
    let x = Axis::linear("output latency (s)");
    Ok(Data { table, charts: vec![chart("", x, "share of results", Marks::Curve, series)] })
}

fn judge_6b(data: &Data) -> Verdict {
    let at = |policy: &str, share: f64| {
        let points = &data.chart("").series(policy).points;
        points.iter().find(|point| point.1 >= share).map_or(f64::NAN, |point| point.0)
    };
    let lower = |other: &str, share: f64| 1.0 - at("Klink", share) / at(other, share);
    let list: Vec<String> =
        OTHERS.iter().map(|other| format!("{:.0} % than {other}", 100.0 * lower(other, 0.99))).collect();
    let sees = format!(
        "Klink's p99 {:.2} s is lower by {}; its median by {:.0} % than Default; memory management changes p99 by {:+.0} %; {}",
        at("Klink", 0.99),
        list.join(", "),
        100.0 * lower("Default", 0.5),
        100.0 * (at("Klink", 0.99) / at("Klink (w/o MM)", 0.99) - 1.0),
        laxity_beside("p99", at("laxity", 0.99), &OTHERS.map(|other| (other, at(other, 0.99)))),
    );
    let direction = [OTHERS.iter().all(|other| lower(other, 0.99) > 0.0)];
    Verdict::sized(sees, &direction, &[lower("Default", 0.99) >= 0.55])
}

fn judge_less(data: &Data, what: &str) -> Verdict {
    let chart = data.chart("");
    let klink = chart.series("Klink").last();
    let list: Vec<String> =
        OTHERS.iter().map(|other| format!("{other} {:.3e}", chart.series(other).last())).collect();
    let sees = format!("{what} at most queries: Klink {klink:.3e}, {}", list.join(", "));
    Verdict::of(sees, &OTHERS.map(|other| klink < chart.series(other).last()))
}

fn judge_6d(data: &Data) -> Verdict {
    let chart = data.chart("");
    let klink = chart.series("Klink").last();
    let best = OTHERS.iter().map(|other| chart.series(other).last()).fold(0.0, f64::max);
    let more = klink / best - 1.0;
    let sees = format!(
        "at most queries Klink {:.2} million events/s, the best of the others {:.2} million: {:+.1} %",
        klink / 1e6,
        best / 1e6,
        100.0 * more
    );
    Verdict::sized(sees, &[more > 0.02], &[more >= 0.25])
}
