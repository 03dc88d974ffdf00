//! Aurora's Figs. 8 and 9: what trains and superboxes save of the overhead of calls.

use laxity_workload::aurora::Trees;
use laxity_workload::{Arrival, Arrivals, Offered, Workload};

use super::{CALL_NS, PAPER, mean_latency_s, sized};
use crate::experiment::simulate;
use crate::{Axis, Chart, Data, ExperimentError, Figure, Marks, Run, Series, Table, Verdict};

pub(super) const FIGURE_8: Figure = Figure {
    name: "aurora-8",
    title: "train size and bursts",
    paper: PAPER,
    section: "§5.4",
    says: "One tree of fan-out 2, RR-BAAT. Without bursts the train size has no effect; at burst size 4 and trains of \
           0.2 the overhead is four times as large; with trains of 1 it comes close to that without bursts.",
    notes: "Overhead is the latency of a tuple less the time in which its boxes process it, as the text explains the curves by \
            clocks that tick while tuples wait.",
    run: run_8,
    judge: judge_8,
};

pub(super) const FIGURE_9: Figure = Figure {
    name: "aurora-9",
    title: "where execution overheads go",
    paper: PAPER,
    section: "§5.5",
    says: "Four trees. TAAT is significantly worse than BAAT, and superboxes (MC) cut the execution time of BAAT by \
           almost 50 %. From TAAT to MC the shares of worker thread and storage fall, that of the scheduler rises.",
    notes: "Half of a call is the worker's, half the storage's. That the scheduler's share rises is due to plans \
            that take longer to make; plans cost nothing in this model, so its share falls with the number of \
            decisions.",
    run: run_9,
    judge: judge_9,
};

/// Every row as a message of its own, so that a train can be part of a burst.
#[derive(Debug)]
struct Singly {
    inner: Box<dyn Arrivals>,
    left: Option<Arrival>,
}

impl Arrivals for Singly {
    fn next(&mut self) -> Option<Arrival> {
        let burst = self.left.take().or_else(|| self.inner.next())?;
        let one = Arrival { rows: 1, bytes: burst.bytes / u64::from(burst.rows.max(1)), ..burst };
        if burst.rows > 1 {
            self.left = Some(Arrival { rows: burst.rows - 1, bytes: burst.bytes - one.bytes, ..burst });
        }
        Some(one)
    }

    fn offered(&self) -> Option<Offered> {
        self.inner.offered()
    }
}

fn singly(mut workload: Workload) -> Workload {
    for feed in workload.queries.iter_mut().flat_map(|query| &mut query.feeds) {
        let empty = Box::new(laxity_workload::Recorded::new(Vec::new(), None));
        let inner: Box<dyn Arrivals> = std::mem::replace(&mut feed.arrivals, empty);
        feed.arrivals = Box::new(Singly { inner, left: None });
    }
    workload
}

fn run_8(run: &Run) -> Result<Data, ExperimentError> {
    let mut table = Table::new(["burst", "train", "seed", "overhead_ms_per_tuple", "switches", "rows_in"]);
    let mut series = Vec::new();
    for burst in [1, 2, 4] {
        let mut line = Vec::new();
        for train in [0.2, 0.4, 0.6, 0.8, 1.0] {
            let policy = format!("unit=operator,rank=rr,train=fraction:{train}");
            let mut values = Vec::new();
            for seed in run.seeds(3) {
                let trees = Trees { apps: 1, fan_out: 2, burst, ..Trees::default() };
                let (workload, setup) = sized(seed, &trees, run.pick(100_000.0, 2_000.0))?;
                let outcome = simulate(&policy, singly(workload), setup)?;
                let rows_in: u64 = outcome.queries.iter().map(|query| query.rows_in).sum();
                let processing_ms = outcome.busy_ns as f64 / 1e6 / rows_in.max(1) as f64;
                let overhead_ms = mean_latency_s(&outcome) * 1e3 - processing_ms;
                table.push([&burst, &train, &seed, &overhead_ms, &outcome.switches, &rows_in]);
                values.push(overhead_ms);
            }
            line.push((train, values));
        }
        series.push(Series::of_runs(format!("burst {burst}"), line));
    }
    let chart = Chart {
        name: String::new(),
        x: Axis::linear("train size (share of the queue)"),
        y: Axis::linear("overhead per tuple (ms)"),
        marks: Marks::Lines,
        series,
    };
    Ok(Data { table, charts: vec![chart] })
}

fn judge_8(data: &Data) -> Verdict {
    let chart = data.chart("");
    let (one, four) = (chart.series("burst 1"), chart.series("burst 4"));
    let flat = one.max() / one.min();
    let small = four.first() / one.first();
    let whole = four.last() / one.last();
    let saved = four.first() / four.last();
    let sees = format!(
        "without bursts overhead varies {flat:.2}x over train sizes; bursts of 4 cost {small:.2}x that at trains of 0.2 \
         and {whole:.2}x at trains of 1; larger trains save {saved:.2}x at bursts of 4"
    );
    Verdict::sized(sees, &[flat < 1.2, small > 1.5, saved > 1.1], &[small >= 3.0])
}

fn run_9(run: &Run) -> Result<Data, ExperimentError> {
    let mut table =
        Table::new(["policy", "seed", "total_s", "processing_s", "worker_s", "storage_s", "scheduler_s"]);
    let policies =
        [("TAAT", "unit=operator,rank=rr,train=one"), ("BAAT", "aurora-baat"), ("MC", "aurora-mc")];
    let mut parts: [Vec<(f64, Vec<f64>)>; 4] = Default::default();
    let tuples = run.pick(100_000.0, 2_000.0);
    for (index, (label, policy)) in policies.iter().enumerate() {
        let mut runs: [Vec<f64>; 4] = Default::default();
        for seed in run.seeds(3) {
            // Bursts of four at a capacity that fills the core: all that is left to do is the measure.
            let trees = Trees { apps: 4, burst: 4, capacity: 0.9, ..Trees::default() };
            let (workload, mut setup) = sized(seed, &trees, tuples)?;
            setup.drain = true;
            // Under TAAT, a box is called for every tuple, also for the next of the same queue.
            if *label == "TAAT" {
                setup.overheads.call_ns = setup.overheads.switch_ns;
                setup.overheads.schedule_ns = setup.overheads.dispatch_ns;
                (setup.overheads.switch_ns, setup.overheads.dispatch_ns) = (0, 0);
            }
            let outcome = simulate(policy, singly(workload), setup)?;
            let called = if *label == "TAAT" { outcome.grants } else { outcome.switches };
            let calls_s = called as f64 * CALL_NS as f64 / 1e9;
            let (mut busy_s, mut overhead_s) =
                (outcome.busy_ns as f64 / 1e9, outcome.overhead_ns as f64 / 1e9);
            if *label == "TAAT" {
                // What a call costs is counted with the operator there.
                busy_s -= calls_s;
                overhead_s += calls_s;
            }
            let scheduler_s = (overhead_s - calls_s).max(0.0);
            let values = [busy_s, calls_s / 2.0, calls_s / 2.0, scheduler_s];
            let total_s = busy_s + overhead_s;
            table.push([label, &seed, &total_s, &values[0], &values[1], &values[2], &values[3]]);
            for (list, value) in runs.iter_mut().zip(values) {
                list.push(value);
            }
        }
        for (part, values) in parts.iter_mut().zip(runs) {
            part.push((index as f64, values));
        }
    }
    let names = ["processing", "worker thread", "storage", "scheduler"];
    let chart = Chart {
        name: String::new(),
        x: Axis::names("", policies.map(|(label, _)| label)),
        y: Axis::linear("time for all tuples (s)"),
        marks: Marks::Bars,
        series: names.into_iter().zip(parts).map(|(name, part)| Series::of_runs(name, part)).collect(),
    };
    Ok(Data { table, charts: vec![chart] })
}

fn judge_9(data: &Data) -> Verdict {
    let chart = data.chart("");
    let overhead = |index: usize| -> f64 { chart.series[1..].iter().map(|part| part.points[index].1).sum() };
    let total = |index: usize| overhead(index) + chart.series[0].points[index].1;
    let scheduler = |index: usize| chart.series[3].points[index].1 / overhead(index);
    let sees = format!(
        "total {:.0} s TAAT, {:.0} s BAAT, {:.0} s MC: MC takes {:.0} % less than BAAT; overheads {:.0}, {:.0}, {:.0} s; \
         the scheduler's share of overhead {:.2}, {:.2}, {:.2}",
        total(0),
        total(1),
        total(2),
        100.0 * (1.0 - total(2) / total(1)),
        overhead(0),
        overhead(1),
        overhead(2),
        scheduler(0),
        scheduler(1),
        scheduler(2),
    );
    Verdict::of(sees, &[overhead(0) > overhead(1), overhead(1) > overhead(2), scheduler(2) > scheduler(0)])
}
