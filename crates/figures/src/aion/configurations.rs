//! Aion under every configuration of the thesis: each workload, law of delays and rate.

use super::trial::{Trial, Windows};
use super::workload::{Delays, Workload};
use super::{METHODS, NOTES, PAPER, TARGETS, chart, place_of, push, table, trial};
use crate::{Axis, Data, ExperimentError, Figure, Marks, Run, Series, Verdict};

pub(super) const FIGURE: Figure = Figure {
    name: "aion-all",
    title: "every workload, law of delays and rate",
    paper: PAPER,
    section: "§4.2",
    says: "85 % below Default's latency and 78 % below AQ-K-Slack's under E*, with an error of at most 5 % in 95 % of windows.",
    notes: NOTES,
    run,
    judge,
};

const RATES: [f64; 2] = [5_000.0, 25_000.0];

fn trials(run: &Run) -> Vec<Trial> {
    let of_workload = |workload| {
        let of_delays = move |delays| RATES.map(|rate| trial(run, workload, delays, rate));
        Delays::ALL.into_iter().flat_map(of_delays)
    };
    Workload::ALL.into_iter().flat_map(of_workload).collect()
}

fn run(run: &Run) -> Result<Data, ExperimentError> {
    let mut table = table();
    let mut latencies: Vec<Series> = METHODS.map(|method| Series::new(method.name(), vec![])).to_vec();
    let names = ["within 5 %", "Wilson low", "sampling rate", "unbounded"];
    let mut kept: Vec<Series> = names.map(|name| Series::new(name, vec![])).to_vec();
    let mut places = Vec::new();
    for (number, trial) in trials(run).into_iter().enumerate() {
        let x = number as f64;
        let Trial { workload, delays, rate, .. } = trial;
        let of_methods = trial.run()?;
        for ((method, windows), series) in METHODS.into_iter().zip(&of_methods).zip(&mut latencies) {
            push(&mut table, place_of(workload, delays, rate), method, windows);
            series.points.push((x, windows.mean_latency_ms()));
        }
        let [.., aion] = &of_methods[..] else { unreachable!("there are methods") };
        for (series, y) in kept.iter_mut().zip(kept_of(aion)) {
            series.points.push((x, y));
        }
        places.push(format!("{} {} {}k", workload.name(), delays.name(), rate / 1e3));
    }
    let x = Axis::names("", places);
    let latency = chart(x.clone(), "mean latency (ms)", Marks::Bars, latencies);
    let kept = chart(x, "share of Aion's windows, of their rows", Marks::Bars, kept);
    Ok(Data { table, charts: vec![latency.named("latency"), kept.named("kept")] })
}

pub(super) fn kept_of(windows: &Windows) -> [f64; 4] {
    let unbounded = windows.unbounded() as f64 / windows.count() as f64;
    [windows.within(), windows.wilson().0, windows.sampling_rate(), unbounded]
}

/// Least and greatest, as percent.
pub(super) fn range(values: impl Iterator<Item = f64> + Clone) -> String {
    let (low, high) =
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
    format!("{:.1} to {:.1} %", low * 100.0, high * 100.0)
}

fn judge(data: &Data) -> Verdict {
    let (latency, kept) = (data.chart("latency"), data.chart("kept"));
    let names = &latency.x.categories;
    let aion = latency.series("Aion");
    let lower = |than: &str, place: usize| {
        let than = latency.series(than).at(place as f64).unwrap_or(f64::NAN);
        1.0 - aion.at(place as f64).unwrap_or(f64::NAN) / than
    };
    let is_exponential = |place: &usize| names[*place].contains(" E");
    let exponential: Vec<usize> = (0..names.len()).filter(is_exponential).collect();
    let at = |name: &str, place: usize| kept.series(name).at(place as f64).unwrap_or(f64::NAN);
    let mut missed = Vec::new();
    for &place in &exponential {
        for (than, target) in TARGETS {
            if lower(than, place) < target {
                missed.push(format!("{} {:.1} % below {than}", names[place], 100.0 * lower(than, place)));
            }
        }
    }
    for (place, name) in names.iter().enumerate() {
        if at("Wilson low", place) < 0.95 {
            let within = 100.0 * at("within 5 %", place);
            missed.push(format!("{name} within 5 % in {within:.1} % of windows"));
        }
    }
    let of = |name: &'static str| (0..names.len()).map(move |place| at(name, place));
    let sees = format!(
        "under E*: {} below Default, {} below AQ-K-Slack; within 5 % in {} of windows, Wilson's low end {}; rows taken {}; \
         windows that own to more {}{}",
        range(exponential.iter().map(|&place| lower("Default", place))),
        range(exponential.iter().map(|&place| lower("AQ-K-Slack", place))),
        range(of("within 5 %")),
        range(of("Wilson low")),
        range(of("sampling rate")),
        range(of("unbounded")),
        missed_text(&missed),
    );
    let direction: Vec<bool> = (0..names.len()).map(|place| lower("Default", place) > 0.0).collect();
    Verdict::sized(sees, &direction, &[missed.is_empty()])
}

pub(super) fn missed_text(missed: &[String]) -> String {
    if missed.is_empty() { "; every target met".into() } else { format!("; MISSED: {}", missed.join(", ")) }
}
