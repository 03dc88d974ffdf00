use super::PAPER;
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_12: Figure = Figure {
    name: "cameo-12",
    title: "scheduling overhead per message",
    paper: PAPER,
    section: "§6.3",
    says: "No-op messages: Cameo's overhead is below 15 % of processing in the worst case, 4 % from the priority queue and \
           11 % from making priorities. 6.4 % for a local aggregation at batch size 1, less with larger batches.",
    notes: "Arithmetic over nanoseconds measured once on threads (2 cores) and written down, so that the figure repeats. The \
            scheduler under its lock only: contexts, clocks and locks of the engine are in the message's time. Priority \
            queue and priorities are not told apart.",
    run,
    judge,
};

/// A one-row message through an operator and its sink, all in, under fifo's and llf's common part: the median of
/// `message-cost.csv` in `benchmarks/runs/2026-11-20-1808-all`.
const MESSAGE_NS: f64 = 3_600.0;

/// The scheduler's part of a message (enqueue, pick, finish) with 1 000 ready operators, from `scheduler-cost.csv`
/// of the same run: operators in turn, and with llf's priorities made and kept in order.
const FIFO_NS: f64 = 80.0;
const LLF_NS: f64 = 99.0;

/// A row in a tumbling sum at batches of 8 192: 87 million rows/s, from `throughput.csv` of the same run.
const ROW_NS: f64 = 11.5;

fn run(_: &Run) -> Result<Data, ExperimentError> {
    let mut table =
        Table::new(["scheduler", "batch_rows", "execution_ns", "scheduling_ns", "overhead_share"]);
    let work = MESSAGE_NS - LLF_NS;
    let kinds = [("FIFO", FIFO_NS), ("Cameo", LLF_NS)];
    let mut parts = [Vec::new(), Vec::new()];
    for (index, (name, scheduling)) in kinds.into_iter().enumerate() {
        table.push([&name, &1, &work, &scheduling, &(scheduling / (work + scheduling))]);
        for (part, value) in parts.iter_mut().zip([work, scheduling]) {
            part.push((index as f64, value));
        }
    }
    let mut over_batch = Vec::new();
    for rows in [1.0, 10.0, 100.0, 1_000.0, 8_192.0] {
        let work = work + rows * ROW_NS;
        let share = LLF_NS / (work + LLF_NS);
        table.push([&"Cameo", &rows, &work, &LLF_NS, &share]);
        over_batch.push((rows, 100.0 * share));
    }
    let names = ["execution", "scheduling"];
    Ok(Data {
        table,
        charts: vec![
            Chart {
                name: "breakdown".into(),
                x: Axis::names("", kinds.map(|(name, _)| name)),
                y: Axis::linear("time per message (ns)"),
                marks: Marks::Bars,
                series: names.into_iter().zip(parts).map(|(name, part)| Series::new(name, part)).collect(),
            },
            Chart {
                name: "batch".into(),
                x: Axis::log("rows in a message"),
                y: Axis::linear("scheduling (% of processing)"),
                marks: Marks::Lines,
                series: vec![Series::new("Cameo", over_batch)],
            },
        ],
    })
}

fn judge(data: &Data) -> Verdict {
    let batch = data.chart("batch").series("Cameo");
    let sees = format!(
        "scheduling is {:.1} % of a one-row message and {:.2} % at 1 000 rows; Cameo adds {:.0} ns to FIFO's per message",
        batch.first(),
        batch.at(1_000.0).unwrap_or(f64::NAN),
        LLF_NS - FIFO_NS
    );
    Verdict::of(sees, &[batch.first() <= 15.0, batch.first() <= 6.4, batch.last() < batch.first()])
}
