//! Figure 1.1 of the thesis in which Klink appeared first: small enough to follow with a finger.

use std::time::Duration;

use laxity_graph::{EventTime, LatencyTarget, ProcessingTime};
use laxity_sim::{Cluster, Cut, Keep, Setup};
use laxity_workload::{Arrival, QueryModel, Recorded, Workload};

use crate::experiment::{seconds, simulate};
use crate::figure::laxity_beside;
use crate::pipeline::{FREE, Step, chain, per_row};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(crate) const FIGURES: &[Figure] = &[Figure {
    name: "thesis-1.1",
    title: "two windows on one core",
    paper: "Farhat, thesis, Waterloo 2021",
    section: "§1.1",
    says: "W1 spans 7 s with 5 events, W2 6 s with 4, one core, an event takes 1 s. FCFS emits both windows 2 s \
           after their deadlines, mean 2 s; Klink emits W2 in time and W1 2 s late, mean 1 s: 50 % lower.",
    notes: "The times of events are partly in the text; 2, 3, 4, 5, 7 and 1, 2, 3, 6 give what it tells. An event of \
            second n is there from n - 1 on, so that the core never idles. Klink's cycle is one event here, and \
            windows came and went before, so that costs and delays are known.",
    run,
    judge,
}];

const POLICIES: [(&str, &str); 4] =
    [("fcfs", "fcfs"), ("klink", "klink:1s"), ("llf", "llf"), ("laxity", "laxity")];

fn run(_: &Run) -> Result<Data, ExperimentError> {
    let mut table = Table::new(["policy", "window", "deadline_s", "emitted_s", "latency_s"]);
    let mut bars = Vec::new();
    let mut timelines = Vec::new();
    for (label, policy) in POLICIES {
        let setup = Setup {
            cluster: Cluster::one(1),
            duration: Duration::from_secs(START_S as u64 + 20),
            warm_up: Duration::from_secs(START_S as u64),
            cut: Cut::Never,
            keep: Keep { timeline: true, results: false, trace: false, checks: true },
            ..Setup::default()
        };
        let outcome = simulate(policy, workload()?, setup)?;
        let start_ns = START_S as u64 * 1_000_000_000;
        let slices = outcome.timeline.iter().flatten();
        let slices = slices.filter(|slice| slice.end > slice.start && slice.start.0 >= start_ns);
        // The window and when it was done with an event. It answers then: what follows it costs nothing.
        let runs: Vec<(usize, f64)> =
            slices.map(|slice| (slice.query.index(), seconds((slice.end.0 - start_ns) as f64))).collect();
        let mut sum_s = 0.0;
        let mut points = Vec::new();
        for (index, (window, deadline_s, _)) in WINDOWS.iter().enumerate() {
            let of_window = runs.iter().filter(|(of, _)| *of == index);
            let emitted_s = of_window.map(|(_, at_s)| *at_s).fold(0.0, f64::max);
            let latency_s = emitted_s - *deadline_s as f64;
            table.push([&label, window, deadline_s, &emitted_s, &latency_s]);
            points.push((index as f64, latency_s));
            sum_s += latency_s;
        }
        points.push((2.0, sum_s / 2.0));
        bars.push(Series::new(label, points));
        let line = runs.iter().map(|(index, at_s)| (*at_s, 2.0 - *index as f64));
        timelines.push(Series::new(label, line.collect()));
    }
    Ok(Data {
        table,
        charts: vec![
            Chart {
                name: String::new(),
                x: Axis::names("", ["W2", "W1", "mean"]),
                y: Axis::linear("window latency (s)"),
                marks: Marks::Bars,
                series: bars,
            },
            Chart {
                name: "timeline".into(),
                x: Axis::linear("event done at (s)"),
                y: Axis::linear("window"),
                marks: Marks::Lines,
                series: timelines,
            },
        ],
    })
}

fn judge(data: &Data) -> Verdict {
    let mean = |policy: &str| data.chart("").series(policy).last();
    let (fcfs, klink) = (mean("fcfs"), mean("klink"));
    let sees = format!(
        "mean window latency: FCFS {fcfs} s, Klink {klink} s; for comparison llf {} s; {}",
        mean("llf"),
        laxity_beside("mean", mean("laxity"), &[("Klink", klink), ("llf", mean("llf"))])
    );
    Verdict::of(sees, &[fcfs == 2.0, klink == 1.0])
}

/// Name, span in seconds, seconds of the events.
const WINDOWS: [(&str, i64, &[i64]); 2] = [("W2", 6, &[1, 2, 3, 6]), ("W1", 7, &[2, 3, 4, 5, 7])];

/// Before the windows of the figure, others have come and gone for more than an hour, so that costs and delays
/// are known. A multiple of both spans.
const START_S: i64 = 42 * 100;

fn workload() -> Result<Workload, ExperimentError> {
    let queries: Result<Vec<QueryModel>, ExperimentError> = WINDOWS
        .iter()
        .zip(0..)
        .map(|((name, span_s, events), index)| {
            // A millisecond early, so that it is there as the core decides; but the first, which sets the pace.
            let early_ns = |second: i64| if second == START_S + 1 { 0 } else { 1_000_000 };
            let arrival = |second: i64, rows: u32, watermark: Option<i64>| Arrival {
                at: ProcessingTime(second as u64 * 1_000_000_000 - 1_000_000_000 - early_ns(second)),
                event_time: EventTime((second - 1) * 1_000),
                rows,
                bytes: u64::from(rows) * 64,
                watermark: watermark.map(|second| EventTime(second * 1_000 - 1)),
            };
            let mut arrivals = Vec::new();
            for second in 2..=START_S {
                // Every fourth second one row for each window in turn; the last minutes are quiet.
                let is_lesson = second % 4 == 2 * index && second < START_S - 200;
                let ends = (second % span_s == 0).then_some(second);
                if is_lesson || ends.is_some() {
                    arrivals.push(arrival(second, u32::from(is_lesson), ends));
                }
            }
            for event in *events {
                let second = START_S + event;
                arrivals.push(arrival(second, 1, (event == span_s).then_some(second)));
            }
            let window = Step::count(span_s * 1_000, per_row(1e9));
            let steps = vec![Step::source(FREE), window, Step::sink()];
            chain(name, LatencyTarget::DEFAULT, steps, Box::new(Recorded::new(arrivals, None)))
        })
        .collect();
    Ok(Workload { name: "thesis-1.1".into(), queries: queries? })
}
