//! The figures of Aion: chapter 4 of the thesis in which Klink appeared first, in virtual time, and what it does not show.

mod adversity;
mod configurations;
mod real;
mod trial;
mod workload;

use trial::{Method, Trial, Windows};
use workload::{Delays, Workload};

use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(crate) const FIGURES: &[Figure] = &[
    latency(
        "aion-4.2",
        "window latency under YSB",
        "Aion's latency is 80 % below Default's under GG and 85 % under E*, 70 % \
             and 78 % below AQ-K-Slack's; 30 % of the rows are sampled.",
        |run| run_latency(run, Workload::Ysb),
    ),
    distribution("aion-4.3", "distribution of window latency under YSB, EG", |run| {
        run_distribution(run, Workload::Ysb)
    }),
    errors("aion-4.4", "errors under YSB, EG", "Mean error 3 %, none above the bound of 5 %.", |run| {
        run_errors(run, Workload::Ysb)
    }),
    latency(
        "aion-4.5",
        "window latency under NYT",
        "Aion's latency is 75 % below Default's under CC and 80 % under E*, 60 % \
             and 72 % below AQ-K-Slack's.",
        |run| run_latency(run, Workload::Nyt),
    ),
    distribution("aion-4.6", "distribution of window latency under NYT, EG", |run| {
        run_distribution(run, Workload::Nyt)
    }),
    errors(
        "aion-4.7",
        "errors under NYT, EG",
        "Three of a hundred windows are above the bound of 5 %.",
        |run| run_errors(run, Workload::Nyt),
    ),
    latency(
        "aion-4.8a",
        "window latency under k-means",
        "Up to 75 % below Default's and 65 % below AQ-K-Slack's; 45 % of the \
             rows are sampled.",
        |run| run_latency(run, Workload::KMeans),
    ),
    errors("aion-4.8b", "errors under k-means, EG", "Within the bound as often as promised.", |run| {
        run_errors(run, Workload::KMeans)
    }),
    distribution("aion-4.9", "distribution of window latency under k-means, EG", |run| {
        run_distribution(run, Workload::KMeans)
    }),
    configurations::FIGURE,
    real::FIGURE,
    adversity::FIGURE,
];

const PAPER: &str = "Farhat, thesis, Waterloo 2021";

const NOTES: &str = "YSB is the sum of an indicator (an event is a view, one in three) over a window of 3 s without groups, since a \
                     count has no values to sample; NYT the mean of log-normal distances, windows of 2 s every second; k-means \
                     the mean squared distance to the nearest centre, windows of 3 s. A row costs 2, 10 and 20 us, picked; an exact \
                     query computes as rows come (k-means at the end), ours what it took at the end. UU and EU of the figures are \
                     CC and EC of the text. AQ-K-Slack is Siddhi's: all rows in time. Delays as in section 4.2.1; latency \
                     counts from a window's end.";

const fn latency(
    name: &'static str,
    title: &'static str,
    says: &'static str,
    run: fn(&Run) -> Result<Data, ExperimentError>,
) -> Figure {
    Figure { name, title, paper: PAPER, section: "§4.2.2", says, notes: NOTES, run, judge: judge_latency }
}

const fn distribution(
    name: &'static str,
    title: &'static str,
    run: fn(&Run) -> Result<Data, ExperimentError>,
) -> Figure {
    let says = "At 5 000 and 25 000 events/s Aion's 95th to 99th percentiles are 80 % and more below Default's and 72 % and \
                more below AQ-K-Slack's.";
    Figure {
        name,
        title,
        paper: PAPER,
        section: "§4.2.2",
        says,
        notes: NOTES,
        run,
        judge: judge_distribution,
    }
}

const fn errors(
    name: &'static str,
    title: &'static str,
    says: &'static str,
    run: fn(&Run) -> Result<Data, ExperimentError>,
) -> Figure {
    Figure { name, title, paper: PAPER, section: "§4.2.2", says, notes: NOTES, run, judge: judge_errors }
}

const METHODS: [Method; 4] = [Method::Default, Method::AqKSlack, Method::AionMinus, Method::Aion];

/// Windows of each configuration at paper scale, for an interval of about one percent about 95 %.
const WINDOWS: usize = 2_000;

fn trial(run: &Run, workload: Workload, delays: Delays, rate: f64) -> Trial {
    Trial {
        workload,
        delays,
        rate: run.pick(rate, rate / 10.0),
        windows: run.pick(WINDOWS, 20),
        seed: run.seed,
    }
}

/// Mean latency by delays and method.
fn run_latency(run: &Run, workload: Workload) -> Result<Data, ExperimentError> {
    let mut table = table();
    let mut bars: Vec<Series> = METHODS.iter().map(|method| Series::new(method.name(), Vec::new())).collect();
    for (place, delays) in Delays::ALL.into_iter().enumerate() {
        let of_methods = trial(run, workload, delays, 5_000.0).run()?;
        for ((method, windows), series) in METHODS.iter().zip(&of_methods).zip(&mut bars) {
            push(&mut table, place_of(workload, delays, 5_000.0), *method, windows);
            series.points.push((place as f64, windows.mean_latency_ms()));
        }
    }
    let x = Axis::names("delays", Delays::ALL.map(|delays| delays.name()));
    Ok(Data { table, charts: vec![chart(x, "mean latency (ms)", Marks::Bars, bars)] })
}

fn judge_latency(data: &Data) -> Verdict {
    let chart = data.chart("");
    let lower = |than: &str, place: f64| {
        let of = |name: &str| chart.series(name).at(place).unwrap_or(f64::NAN);
        1.0 - of("Aion") / of(than)
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let sees = Delays::ALL.iter().enumerate().map(|(place, delays)| {
        let (default, quality) = (lower("Default", place as f64), lower("AQ-K-Slack", place as f64));
        format!(
            "{}: {} below Default, {} below AQ-K-Slack",
            delays.name(),
            percent(default),
            percent(quality)
        )
    });
    let sees = sees.collect::<Vec<_>>().join("; ");
    let of_e = |than: &str| lower(than, 2.0).min(lower(than, 3.0));
    let direction = (0..4).all(|place| lower("Default", f64::from(place)) > 0.0);
    Verdict::sized(sees, &[direction], &TARGETS.map(|(than, target)| of_e(than) >= target))
}

/// Percentiles of latency at two rates.
fn run_distribution(run: &Run, workload: Workload) -> Result<Data, ExperimentError> {
    let mut table = table();
    let mut lines = Vec::new();
    for rate in [5_000.0, 25_000.0] {
        let of_methods = trial(run, workload, Delays::Eg, rate).run()?;
        for (method, windows) in METHODS.into_iter().zip(&of_methods) {
            push(&mut table, place_of(workload, Delays::Eg, rate), method, windows);
            let percentiles =
                (40..100).map(|share| (f64::from(share), windows.latency_ms(f64::from(share) / 100.0)));
            lines.push(Series::new(format!("{} {}k", method.name(), rate / 1_000.0), percentiles.collect()));
        }
    }
    Ok(Data { table, charts: vec![chart(Axis::linear("percentile"), "latency (ms)", Marks::Lines, lines)] })
}

fn judge_distribution(data: &Data) -> Verdict {
    let chart = data.chart("");
    let lower = |than: &str, rate: u32| {
        let of = |name: &str| chart.series(&format!("{name} {rate}k")).at(95.0).unwrap_or(f64::NAN);
        1.0 - of("Aion") / of(than)
    };
    let mut sees = Vec::new();
    let (mut direction, mut size) = (Vec::new(), Vec::new());
    for rate in [5, 25] {
        let (default, quality) = (lower("Default", rate), lower("AQ-K-Slack", rate));
        let (percent, of_quality) = (default * 100.0, quality * 100.0);
        sees.push(format!("{rate}k events/s, 95th percentile: {percent:.0} % below Default, {of_quality:.0} % below AQ-K-Slack"));
        direction.extend([default > 0.0, quality > 0.0]);
        size.extend([default >= 0.8, quality >= 0.72]);
    }
    Verdict::sized(sees.join("; "), &direction, &size)
}

/// Errors, how often they are within the bound, and how sure that is.
fn run_errors(run: &Run, workload: Workload) -> Result<Data, ExperimentError> {
    let mut table = table();
    let mut bars = Vec::new();
    let of_methods = trial(run, workload, Delays::Eg, 25_000.0).run()?;
    // Default makes no error.
    for (method, windows) in METHODS.into_iter().zip(&of_methods).skip(1) {
        push(&mut table, place_of(workload, Delays::Eg, 25_000.0), method, windows);
        let (low, high) = windows.wilson();
        let points =
            [windows.mean_error(), windows.error(0.95), windows.error(1.0), windows.within(), low, high];
        bars.push(Series::new(method.name(), (0..).map(f64::from).zip(points).collect()));
    }
    let x = Axis::names("", ["mean error", "95th", "largest", "within 5 %", "Wilson low", "Wilson high"]);
    Ok(Data { table, charts: vec![chart(x, "share", Marks::Bars, bars)] })
}

fn judge_errors(data: &Data) -> Verdict {
    let aion = data.chart("").series("Aion");
    let at = |place: f64| aion.at(place).unwrap_or(f64::NAN);
    let sees = format!(
        "mean error {:.2} %, within 5 % in {:.1} % of windows, 95 % Wilson interval {:.1} to {:.1} %",
        at(0.0) * 100.0,
        at(3.0) * 100.0,
        at(4.0) * 100.0,
        at(5.0) * 100.0
    );
    Verdict::of(sees, &[at(4.0) >= 0.95])
}

/// What the results have to be below of, and by which part at least, under E*.
const TARGETS: [(&str, f64); 2] = [("Default", 0.85), ("AQ-K-Slack", 0.78)];

/// What a row of the table is about.
struct Place<'a> {
    input: &'a str,
    delays: &'a str,
    /// Rows per second; 0 where they come as they came.
    rate: f64,
}

fn place_of(workload: Workload, delays: Delays, rate: f64) -> Place<'static> {
    Place { input: workload.name(), delays: delays.name(), rate }
}

fn table() -> Table {
    Table::new([
        "input",
        "delays",
        "rows_per_s",
        "method",
        "windows",
        "latency_mean_ms",
        "latency_p99_ms",
        "wait_mean_ms",
        "sampling_rate",
        "error_mean",
        "within_5_percent",
        "wilson_low",
        "wilson_high",
        "unbounded",
        "false_bounds",
    ])
}

fn push(table: &mut Table, place: Place, method: Method, windows: &Windows) {
    let (low, high) = windows.wilson();
    table.push([
        &place.input,
        &place.delays,
        &place.rate,
        &method.name(),
        &windows.count(),
        &windows.mean_latency_ms(),
        &windows.latency_ms(0.99),
        &windows.mean_wait_ms(),
        &windows.sampling_rate(),
        &windows.mean_error(),
        &windows.within(),
        &low,
        &high,
        &windows.unbounded(),
        &windows.lies(),
    ]);
}

fn chart(x: Axis, y: &str, marks: Marks, series: Vec<Series>) -> Chart {
    Chart { name: String::new(), x, y: Axis::linear(y), marks, series }
}
