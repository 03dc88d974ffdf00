//! Cameo's Fig. 6: every dataflow gets the share of the machine that its tokens say, all times a tenth of the paper's.

use std::time::Duration;

use laxity_graph::{LatencyTarget, ProcessingTime, QuerySettings};
use laxity_sched::Config;
use laxity_sim::{Cluster, Cut, Keep, Setup};
use laxity_workload::{QueryModel, Stream, Workload};

use super::PAPER;
use crate::experiment::simulate;
use crate::pipeline::{Step, chain, per_row};
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_6: Figure = Figure {
    name: "cameo-6",
    title: "proportional fair sharing by tokens",
    paper: PAPER,
    section: "§5.4",
    says: "Three dataflows with 20, 40 and 40 % of the tokens, 2 million events/s each, starting 300 s apart and lasting \
           1500 s. The first gets all while alone; at capacity, shares are those of the tokens.",
    notes: "One source each, messages of 10 000 rows, 0.5 us per row, two cores for 4 million rows/s, a tenth of the \
            times.",
    run,
    judge,
};

const SHARES: [f64; 3] = [0.2, 0.4, 0.4];

fn query(index: usize, share: f64, apart_s: u64, lasting_s: u64) -> Result<QueryModel, ExperimentError> {
    let start = ProcessingTime(index as u64 * apart_s * 1_000_000_000);
    let stream = Stream {
        start,
        end: Some(start.plus(Duration::from_secs(lasting_s))),
        ..Stream::constant(2e6, 10_000)
    };
    let arrivals = stream.arrivals(index as u64)?;
    let steps = vec![Step::source(per_row(100.0)), Step::rows("map", per_row(400.0), 1.0), Step::sink()];
    let mut query = chain(&format!("dataflow {}", index + 1), LatencyTarget::DEFAULT, steps, arrivals)?;
    let settings = QuerySettings { weight: 100.0 * share, ..query.dataflow.settings.clone() };
    query.dataflow.settings = settings;
    query.deployed = start;
    Ok(query)
}

fn run(run: &Run) -> Result<Data, ExperimentError> {
    let (apart_s, lasting_s) = run.pick((30, 150), (4, 16));
    let queries = SHARES.iter().enumerate().map(|(index, share)| query(index, *share, apart_s, lasting_s));
    let workload =
        Workload { name: "shares".into(), queries: queries.collect::<Result<Vec<QueryModel>, _>>()? };
    let end_s = 2 * apart_s + lasting_s;
    let setup = Setup {
        cluster: Cluster::one(2),
        config: Config { ageing_bound_ns: 1 << 60, mailbox_bytes_max: u64::MAX, ..Config::default() },
        duration: Duration::from_secs(end_s),
        seed: run.seed,
        cut: Cut::Never,
        keep: Keep { timeline: false, results: true, trace: false, checks: false },
        ..Setup::default()
    };
    let outcome = simulate("tokens", workload, setup)?;
    let mut table = Table::new(["time_s", "dataflow", "rows_per_s"]);
    let mut rows = vec![vec![0.0; end_s as usize + 1]; SHARES.len()];
    for result in outcome.results.iter().flatten() {
        if let Some(sum) = rows[result.query.index()].get_mut((result.written.0 / 1_000_000_000) as usize) {
            *sum += f64::from(result.rows);
        }
    }
    let series = rows.iter().enumerate().map(|(index, rows)| {
        let name = format!("dataflow {} ({} %)", index + 1, 100.0 * SHARES[index]);
        let points: Vec<(f64, f64)> =
            rows[..end_s as usize].iter().enumerate().map(|(second, rows)| (second as f64, *rows)).collect();
        for (second, rows_per_s) in &points {
            table.push([second, &name, rows_per_s]);
        }
        Series::new(name, points)
    });
    let chart = Chart {
        name: String::new(),
        x: Axis::linear("time (s)"),
        y: Axis::linear("throughput (rows/s)"),
        marks: Marks::Curve,
        series: series.collect(),
    };
    Ok(Data { table, charts: vec![chart] })
}

fn judge(data: &Data) -> Verdict {
    let chart = data.chart("");
    // Alone: before the second comes. All three: from when the last has settled to when the first ends.
    let end = chart.series[0].points.len() as f64;
    let first_of_last =
        chart.series[2].points.iter().find(|point| point.1 > 0.0).map_or(0.0, |point| point.0);
    let apart = first_of_last / 2.0;
    let mean = |index: usize, from: f64, to: f64| {
        let points = chart.series[index].points.iter().filter(|point| point.0 >= from && point.0 < to);
        let values: Vec<f64> = points.map(|point| point.1).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let alone = mean(0, 1.0, apart.max(2.0));
    let from = first_of_last + (end - 4.0 * apart).min(apart);
    let together: Vec<f64> = (0..3).map(|index| mean(index, from, end - 2.0 * apart)).collect();
    let sum: f64 = together.iter().sum();
    let shares: Vec<f64> = together.iter().map(|rows| rows / sum).collect();
    let sees = format!(
        "alone the first dataflow gets {:.2} million rows/s of its 2; all three together get {:.1}, {:.1} and {:.1} % of \
         {:.2} million rows/s",
        alone / 1e6,
        100.0 * shares[0],
        100.0 * shares[1],
        100.0 * shares[2],
        sum / 1e6
    );
    let kept = shares.iter().zip(SHARES).all(|(seen, share)| (seen - share).abs() < 0.03);
    Verdict::of(sees, &[alone > 1.9e6, kept])
}
