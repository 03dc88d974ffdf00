use super::PAPER;
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_12: Figure = Figure {
    name: "cameo-12",
    title: "scheduling overhead per message",
    paper: PAPER,
    section: "§6.3",
    says: "No-op messages: Cameo's overhead is below 15 % of processing in the worst case, 4 % from the priority queue and \
           11 % from making priorities. 6.4 % for a local aggregation at batch size 1, less with larger batches.",
    notes: "Arithmetic over nanoseconds measured once on threads (2 cores, release build) and written down here, so that the \
            figure repeats; `laxity bench` measures them anew.",
    run,
    judge,
};

/// A one-row message through an operator and its sink, all in; from `benchmarks/runs/2026-11-20-1808-all`.
const MESSAGE_NS: f64 = 3_560.0;

/// A pick under fifo and under llf with few hundred ready operators, from the same run.
const FIFO_PICK_NS: f64 = 60.0;
const LLF_PICK_NS: f64 = 90.0;

/// Making a priority: costs, path cost and frontier looked up and combined. Not measured apart: the difference
/// between the scheduler's part per message under llf and under fifo, less that of the picks.
const PRIORITY_NS: f64 = 45.0;

/// A row in a local aggregation: tumbling sum at batches of 8 192, 87 million rows/s.
const ROW_NS: f64 = 11.5;

fn run(_: &Run) -> Result<Data, ExperimentError> {
    let mut table =
        Table::new(["scheduler", "batch_rows", "execution_ns", "queue_ns", "priority_ns", "overhead_share"]);
    let work = MESSAGE_NS - FIFO_PICK_NS;
    let kinds = [
        ("FIFO", FIFO_PICK_NS, 0.0),
        ("priority queue alone", LLF_PICK_NS, 0.0),
        ("Cameo", LLF_PICK_NS, PRIORITY_NS),
    ];
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    for (index, (name, queue, priority)) in kinds.into_iter().enumerate() {
        let share = (queue + priority) / (work + queue + priority);
        table.push([&name, &1, &work, &queue, &priority, &share]);
        for (part, value) in parts.iter_mut().zip([work, queue, priority]) {
            part.push((index as f64, value));
        }
    }
    let mut over_batch = Vec::new();
    for rows in [1.0, 10.0, 100.0, 1_000.0, 8_192.0] {
        let work = MESSAGE_NS - FIFO_PICK_NS + rows * ROW_NS;
        let share = (LLF_PICK_NS + PRIORITY_NS) / (work + LLF_PICK_NS + PRIORITY_NS);
        table.push([&"Cameo", &rows, &work, &LLF_PICK_NS, &PRIORITY_NS, &share]);
        over_batch.push((rows, 100.0 * share));
    }
    let names = ["execution", "priority queue or run queue", "making priorities"];
    Ok(Data {
        table,
        charts: vec![
            Chart {
                name: "breakdown".into(),
                x: Axis::names("", kinds.map(|(name, _, _)| name)),
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
        "scheduling is {:.1} % of a one-row no-op message, {:.2} % at 1 000 rows",
        batch.first(),
        batch.at(1_000.0).unwrap_or(f64::NAN)
    );
    Verdict::of(sees, &[batch.first() <= 15.0, batch.first() <= 6.4, batch.last() < batch.first()])
}
