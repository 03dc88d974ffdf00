use super::PAPER;
use super::bench::{Bench, COLUMNS, POLICIES, Trial, chart, heap_note, record};
use crate::{Axis, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_6E: Figure = Figure {
    name: "klink-6e",
    title: "80 queries of YSB over one to eight nodes",
    paper: PAPER,
    section: "§6.2.4",
    says: "Latency falls with nodes for all algorithms; Klink keeps a 40 % improvement.",
    notes: concat!(
        "Operators are dealt over the nodes, which exchange delay statistics and costs every 120 ms. Past two nodes \
            the load is below the capacity and there is little to order. ",
        heap_note!()
    ),
    run,
    judge,
};

fn run(run: &Run) -> Result<Data, ExperimentError> {
    let mut table = Table::new(COLUMNS);
    let mut series = Vec::new();
    let nodes: &[usize] = run.pick(&[1, 2, 4, 8], &[1, 2]);
    for (name, policy) in
        POLICIES.into_iter().filter(|(name, _)| *name != "SBox" && *name != "Klink (w/o MM)")
    {
        let mut line = Vec::new();
        for nodes in nodes {
            let queries = run.pick(80, 8);
            let trial = Trial { nodes: *nodes, ..Trial::new(Bench::Ysb, policy, queries, run.seed) };
            let seen = trial.seen(run)?;
            record(&mut table, name, &trial, &seen);
            line.push((*nodes as f64, seen.mean_s));
        }
        series.push(Series::new(name, line));
    }
    let x = Axis::linear("nodes");
    Ok(Data { table, charts: vec![chart("", x, "mean output latency (s)", Marks::Lines, series)] })
}

fn judge(data: &Data) -> Verdict {
    let chart = data.chart("");
    let (klink, fcfs) = (chart.series("Klink"), chart.series("FCFS"));
    let lower: Vec<String> = klink
        .points
        .iter()
        .zip(&fcfs.points)
        .map(|(klink, fcfs)| format!("{}: {:.0} %", klink.0, 100.0 * (1.0 - klink.1 / fcfs.1)))
        .collect();
    let sees = format!(
        "Klink {:.2} s on one node, {:.2} s on most; below FCFS by nodes: {}",
        klink.first(),
        klink.last(),
        lower.join(", ")
    );
    // "Keeps" is said of every number of nodes.
    let least = klink.points.iter().zip(&fcfs.points).map(|(k, f)| 1.0 - k.1 / f.1).fold(f64::MAX, f64::min);
    Verdict::sized(sees, &[klink.last() < klink.first(), least > 0.0], &[least >= 0.4])
}
