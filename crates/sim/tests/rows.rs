//! Real operators in virtual time, small enough for a pencil: when they are called, with what, and what it takes.
//! Cannot catch: wrong results of SQL. The scripts in `cli` are compiled, run like this, and compared.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use laxity_graph::{
    Dataflow, EventClock, EventTime, Input, Node, NodeId, Partitioning, ProcessingTime, QuerySettings,
};
use laxity_operators::{
    Flow, InstanceContext, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, Stage,
    StateError, StreamBatch,
};
use laxity_sim::{Cut, Keep, RowArrival, RowOutcome, RowQuery, RowSimulation, Setup, SimulationError};
use laxity_workload::Cost;

const MS: u64 = 1_000_000;

const CLOCK: EventClock =
    EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime::ZERO, speed: 1.0 };

/// What the operator in the middle does with numbers.
#[derive(Clone, Copy)]
enum Does {
    Passes,
    /// Adds a hundred times the number of its instance.
    SaysWhere,
    /// At the end of its input, number by number.
    Answers,
    /// Keeps numbers until 15 ms after the first, by the clock.
    Waits,
    Fails,
}

struct Numbers {
    does: Does,
    instance: i64,
    held: Vec<i64>,
    wake: Option<ProcessingTime>,
}

impl Operator for Numbers {
    fn on_batch(
        &mut self,
        _: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let numbers = values(&batch.rows);
        match self.does {
            Does::Passes => out.batch(batch),
            Does::SaysWhere => {
                let marked = numbers.into_iter().map(|n| n + 100 * self.instance);
                out.batch(StreamBatch::on_time(rows(marked)));
            }
            Does::Answers => self.held.extend(numbers),
            Does::Waits => {
                self.held.extend(numbers);
                self.wake = self.wake.or(Some(ingested.plus_ns(15 * MS)));
            }
            Does::Fails => {
                let message = "division by zero".into();
                return Err(OperatorError::Row { operator: "work".into(), message });
            }
        }
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if !self.held.is_empty() && self.wake.is_none() {
            return Ok(Flow::More);
        }
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Err(StateError::Unsupported { operator: "numbers".into(), reason: "it is of a test".into() })
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }

    fn on_time(&mut self, now: ProcessingTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if self.wake.take_if(|wake| *wake <= now).is_some() {
            out.result(StreamBatch::on_time(rows(self.held.drain(..))), now, None);
        }
        Ok(Flow::Done)
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn wake_at(&self) -> Option<ProcessingTime> {
        self.wake
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let answer = rows([self.held.remove(0)]);
        out.result(StreamBatch::on_time(answer), ProcessingTime(3 * MS), Some(EventTime(20)));
        Ok(if self.held.is_empty() { Flow::Done } else { Flow::More })
    }
}

fn rows(numbers: impl IntoIterator<Item = i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

fn values(rows: &RecordBatch) -> Vec<i64> {
    rows.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn factory(does: Does) -> OperatorFactory {
    OperatorFactory::new(move |context: &InstanceContext| {
        Ok(Box::new(Numbers { does, instance: context.instance as i64, held: Vec::new(), wake: None }))
    })
}

/// A source and a sink that cost nothing, and between them so many instances that cost 1 ms and 0.1 ms per row; numbers
/// from 0 to 39 and from 0 again, so many of them at each of these times in ms.
fn run(does: Does, parallelism: usize, arrivals: &[(u64, i64)]) -> Result<RowOutcome, SimulationError> {
    let mut flow = Dataflow::new(QuerySettings::named("numbers"));
    let node = |name: &str, parallelism, inputs, stage| Node {
        name: name.into(),
        parallelism,
        inputs,
        window: None,
        stage,
    };
    let from = |node, partitioning| vec![Input { from: NodeId(node), partitioning }];
    let source = Stage::Source { scan: (), operator: factory(Does::Passes), shared: None, view: None };
    flow.push(node("source", 1, vec![], source)).unwrap();
    let by_key = from(0, Partitioning::Hash(vec![0]));
    flow.push(node("work", parallelism, by_key, Stage::Operator(factory(does)))).unwrap();
    flow.push(node("sink", 1, from(1, Partitioning::Gather), Stage::Sink(()))).unwrap();
    let mut next = 0;
    let arrivals = arrivals.iter().map(|&(at_ms, count)| {
        next += count;
        RowArrival { at: ProcessingTime(at_ms * MS), rows: rows((next - count..next).map(|n| n % 40)) }
    });
    let cost = |NodeId(node)| {
        if node == 1 { Cost { fixed_ns: 1e6, per_row_ns: 1e5, watermark_ns: 0.0 } } else { Cost::NONE }
    };
    let query = RowQuery::new(&flow, cost).unwrap().feed(NodeId(0), arrivals.collect(), CLOCK);
    let setup = Setup {
        duration: Duration::from_millis(100),
        cut: Cut::AtQuantum { rows_min: 1 },
        keep: Keep { timeline: false, results: true, trace: false, checks: true },
        ..Setup::default()
    };
    let outcome = RowSimulation::new(vec![query], laxity_policies::recipe("fifo").unwrap(), setup).run()?;
    assert_eq!(outcome.outcome.violations, []);
    Ok(outcome)
}

/// When what was written, in ms.
fn written(outcome: &RowOutcome) -> Vec<(f64, Vec<i64>)> {
    outcome.results.iter().map(|result| (result.written.0 as f64 / 1e6, values(&result.rows))).collect()
}

#[test]
fn rows_arrive_at_the_sink_when_their_calls_are_over() {
    let outcome = run(Does::Passes, 1, &[(5, 2), (20, 3)]).unwrap();
    // 1 + 2 · 0.1, then 1 + 3 · 0.1.
    assert_eq!(written(&outcome), [(6.2, vec![0, 1]), (21.3, vec![2, 3, 4])]);
    assert_eq!(outcome.results[0].sink, NodeId(2));
    let query = &outcome.outcome.queries[0];
    assert_eq!((query.rows_in, query.rows_out, query.latency_mean_ns), (5, 5, 1.25e6));
}

#[test]
fn a_batch_that_takes_longer_than_the_quantum_is_cut() {
    let outcome = run(Does::Passes, 1, &[(0, 12)]).unwrap();
    // Rows for a quantum of 1 ms and the call; then the others.
    let sizes: Vec<(f64, usize)> = written(&outcome).into_iter().map(|(at, n)| (at, n.len())).collect();
    assert_eq!(sizes, [(2.0, 10), (2.2, 2)]);
}

#[test]
fn an_operator_that_left_work_is_resumed() {
    let outcome = run(Does::Answers, 1, &[(0, 2), (10, 1)]).unwrap();
    // The last row until 11.1, the watermark's call until 12.1, and 0.1 for each answer.
    let (_, numbers): (Vec<f64>, Vec<Vec<i64>>) = written(&outcome).into_iter().unzip();
    assert_eq!(numbers.concat(), [0, 1, 2]);
    let last = outcome.outcome.results.as_ref().unwrap().last().unwrap();
    assert_eq!((last.event_time, last.written), (EventTime(20), ProcessingTime(12_400_000)));
    assert_eq!(last.ingested, ProcessingTime(10 * MS), "that of the releasing message, which is later");
}

#[test]
fn an_operator_is_called_at_the_time_that_it_asked_for() {
    // Asked for 20 and 65 ms; each call costs 1 ms and 0.1 ms for each number it sends. The last row ends the query
    // before its instant comes.
    let outcome = run(Does::Waits, 1, &[(5, 2), (8, 1), (50, 1), (90, 1)]).unwrap();
    assert_eq!(written(&outcome), [(21.3, vec![0, 1, 2]), (66.1, vec![3])]);
    let results = outcome.outcome.results.as_ref().unwrap();
    assert_eq!(results[0].ingested, ProcessingTime(20 * MS), "its latency counts from there");
}

#[test]
fn equal_keys_meet_in_one_instance() {
    let outcome = run(Does::SaysWhere, 3, &[(0, 40), (50, 40)]).unwrap();
    let numbers: Vec<i64> = written(&outcome).into_iter().flat_map(|(_, numbers)| numbers).collect();
    assert_eq!(numbers.len(), 80);
    let mut homes: Vec<(i64, i64)> = numbers.iter().map(|n| (n % 100, n / 100)).collect();
    homes.sort_unstable();
    homes.dedup();
    assert_eq!(homes.len(), 40, "each number twice, and both times at one instance: {homes:?}");
    assert!((0..3).all(|instance| homes.iter().any(|&(_, home)| home == instance)));
}

#[test]
fn an_operator_that_fails_ends_the_simulation() {
    let error = run(Does::Fails, 1, &[(0, 1)]).unwrap_err();
    assert_eq!(error.to_string(), "query \"numbers\": work: division by zero");
}
