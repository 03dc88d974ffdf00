//! Real operators in virtual time: the world of the simulator, with rows in its messages.
//!
//! Everything is as for a query of costs: machines, cores, delays, faults, policies, threads of an operating system,
//! checkers. But where a stage says what comes out and a batch is a count, here an operator of `laxity-operators` is
//! called with an Arrow batch, by the rules of the engine: rows spread by hash of their key, the watermark of an instance
//! is the least over its channels, a call that leaves work is resumed before the next message. How long a call takes is a
//! number all the same. What the queries write must not depend on any of it.
//!
//! Left out: rows that are shed and bursts (both change what is computed), channels that fall silent, tables stamped with
//! the processing time, rows of late tables (they are counted).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use arrow::array::RecordBatch;
use laxity_graph::{Dataflow, DataflowError, EventClock, EventTime, Node, NodeId, ProcessingTime, QueryId};
use laxity_operators::{
    Emitted, Flow, HashPartitioner, InstanceContext, Operator, OperatorError, OperatorFactory, Outbox, Stage,
    StreamBatch,
};
use laxity_runtime::Frontier;
use laxity_sched::Composition;
use laxity_workload::{Arrival, Arrivals, Cost, Feed, QueryModel, StageKind, Workload};

use crate::contents::{Answer, Call, Contents, Part, Rows, Sent, Split};
use crate::world::World;
use crate::{Outcome, Setup, Simulation, SimulationError};

/// A query whose operators are called, and the rows it reads.
#[derive(Debug)]
pub struct RowQuery {
    model: Dataflow<laxity_workload::Stage>,
    /// By node; of a sink none.
    factories: Vec<Option<OperatorFactory>>,
    feeds: Vec<RowFeed>,
}

#[derive(Debug)]
struct RowFeed {
    source: NodeId,
    batches: Vec<RowArrival>,
    clock: EventClock,
}

/// Rows that reach a source.
#[derive(Clone, Debug)]
pub struct RowArrival {
    /// When: latency counts from here.
    pub at: ProcessingTime,
    /// The physical rows, as the source's operator takes them.
    pub rows: RecordBatch,
}

/// Queries of real operators, a policy, and everything else.
pub struct RowSimulation {
    /// What runs.
    pub queries: Vec<RowQuery>,
    /// Makes the policy; asked once per node.
    pub policy: Box<dyn Fn() -> Composition>,
    /// Everything else. Nothing is shed and bursts have no effect: rows are what they are. What is still held back when
    /// the duration is over is not read.
    pub setup: Setup,
    /// Rows that an operator puts in one output batch at most. Default 8 192, as in the engine.
    pub batch_rows: usize,
}

/// What came of a simulation of real operators.
#[derive(Debug)]
pub struct RowOutcome {
    /// Times and counts.
    pub outcome: Outcome,
    /// What was written, in order.
    pub results: Vec<RowResult>,
}

/// Rows that a sink wrote.
#[derive(Clone, Debug)]
pub struct RowResult {
    /// Of which query.
    pub query: QueryId,
    /// By which sink.
    pub sink: NodeId,
    /// When.
    pub written: ProcessingTime,
    /// The rows.
    pub rows: RecordBatch,
}

impl RowQuery {
    /// A query, and what its nodes cost: [`Cost::fixed_ns`] per message, and [`Cost::per_row_ns`] per row taken in or,
    /// where a watermark releases results, per row of them; a bare watermark that releases none costs
    /// [`Cost::watermark_ns`].
    ///
    /// # Errors
    /// Never, for a dataflow that keeps its own invariants.
    pub fn new<S, K>(
        dataflow: &Dataflow<Stage<S, K>>,
        cost: impl Fn(NodeId) -> Cost,
    ) -> Result<RowQuery, DataflowError> {
        let mut model = Dataflow::new(dataflow.settings.clone());
        let mut factories = Vec::new();
        for (index, node) in dataflow.nodes().iter().enumerate() {
            let (kind, factory) = match &node.stage {
                Stage::Source { operator, .. } => (StageKind::Source, Some(operator.clone())),
                Stage::Operator(operator) => (StageKind::Rows { selectivity: 1.0 }, Some(operator.clone())),
                Stage::Sink(_) => (StageKind::Sink, None),
            };
            model.push(Node {
                name: node.name.clone(),
                parallelism: node.parallelism,
                inputs: node.inputs.clone(),
                window: node.window,
                stage: laxity_workload::Stage::new(kind, cost(NodeId(index)), ROW_BYTES),
            })?;
            factories.push(factory);
        }
        Ok(RowQuery { model, factories, feeds: Vec::new() })
    }

    /// Gives a source its rows, in order of arrival; behind the last of them its input ends. `clock` says where event
    /// times lie.
    #[must_use]
    pub fn feed(mut self, source: NodeId, batches: Vec<RowArrival>, clock: EventClock) -> RowQuery {
        self.feeds.push(RowFeed { source, batches, clock });
        self
    }
}

impl RowSimulation {
    /// A simulation of these queries under this policy.
    pub fn new(
        queries: Vec<RowQuery>,
        policy: impl Fn() -> Composition + 'static,
        setup: Setup,
    ) -> RowSimulation {
        RowSimulation { queries, policy: Box::new(policy), setup, batch_rows: 8_192 }
    }

    /// Lets the time pass.
    ///
    /// # Errors
    /// As [`Simulation::run`], and if an operator cannot be made or fails.
    pub fn run(self) -> Result<RowOutcome, SimulationError> {
        let results = Rc::new(RefCell::new(Vec::new()));
        let mut contents = Batches { results: Rc::clone(&results), ..Batches::default() };
        let mut queries = Vec::new();
        for query in self.queries {
            queries.push(contents.add(query, self.batch_rows)?);
        }
        let workload = Workload { name: "rows".into(), queries };
        let setup = Setup { shed: false, ..self.setup };
        let simulation = Simulation { workload, policy: self.policy, setup };
        let outcome = World::new(simulation, Some(Box::new(contents)))?.run()?;
        let results = std::mem::take(&mut *results.borrow_mut());
        Ok(RowOutcome { outcome, results })
    }
}

impl std::fmt::Debug for RowSimulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSimulation")
            .field("queries", &self.queries.len())
            .field("policy", &(self.policy)().name())
            .field("setup", &self.setup)
            .finish_non_exhaustive()
    }
}

/// Of a row, for policies and bounds that go by bytes: picked out of thin air, some columns of eight bytes.
const ROW_BYTES: u32 = 64;

/// All rows and operators of a simulation.
#[derive(Default)]
struct Batches {
    /// By operator; of a sink none.
    operators: Vec<Option<Instance>>,
    /// By operator: of which node it is an instance.
    nodes: Vec<NodeId>,
    /// By feed: what is still to arrive.
    arriving: Vec<VecDeque<RecordBatch>>,
    /// By route.
    partitioners: BTreeMap<u32, HashPartitioner>,
    /// Rows in messages, and places that are free.
    rows: Vec<Option<StreamBatch>>,
    unused: Vec<u32>,
    outbox: Outbox,
    /// Outlives the world.
    results: Rc<RefCell<Vec<RowResult>>>,
}

/// A parallel copy of an operator.
struct Instance {
    operator: Box<dyn Operator>,
    frontier: Frontier,
    input_of_channel: Vec<u16>,
}

impl Batches {
    /// Makes the instances of a query, and its model.
    fn add(&mut self, query: RowQuery, batch_rows: usize) -> Result<QueryModel, SimulationError> {
        let RowQuery { model, factories, feeds } = query;
        for (index, (node, factory)) in model.nodes().iter().zip(&factories).enumerate() {
            for instance in 0..node.parallelism {
                let context = InstanceContext { instance, parallelism: node.parallelism, batch_rows };
                let made = factory.as_ref().map(|factory| factory.make(&context)).transpose();
                let operator = made.map_err(|error| SimulationError::Operator {
                    query: model.settings.name.clone(),
                    message: error.to_string(),
                })?;
                let input_of_channel = model.channels(NodeId(index));
                self.operators.push(operator.map(|operator| Instance {
                    operator,
                    frontier: Frontier::new(input_of_channel.len()),
                    input_of_channel,
                }));
                self.nodes.push(NodeId(index));
            }
        }
        let feeds = feeds.into_iter().map(|feed| self.add_feed(feed)).collect();
        Ok(QueryModel { dataflow: model, feeds, deployed: ProcessingTime::ZERO })
    }

    fn add_feed(&mut self, feed: RowFeed) -> Feed {
        let RowFeed { source, batches, clock } = feed;
        let arrival = |batch: &RowArrival| Arrival {
            at: batch.at,
            // What is no window's result counts from here.
            event_time: event_time(&clock, batch.at),
            rows: batch.rows.num_rows() as u32,
            bytes: batch.rows.num_rows() as u64 * u64::from(ROW_BYTES),
            watermark: None,
        };
        let batches: Vec<RowArrival> =
            batches.into_iter().filter(|batch| batch.rows.num_rows() > 0).collect();
        let mut arrivals: VecDeque<Arrival> = batches.iter().map(arrival).collect();
        let end = arrivals.back().map_or(ProcessingTime::ZERO, |last| last.at);
        arrivals.push_back(Arrival {
            at: end,
            event_time: event_time(&clock, end),
            rows: 0,
            bytes: 0,
            watermark: Some(EventTime::MAX),
        });
        self.arriving.push(batches.into_iter().map(|batch| batch.rows).collect());
        Feed { node: source, instance: 0, arrivals: Box::new(Listed { arrivals, clock }) }
    }

    fn keep(&mut self, batch: StreamBatch) -> Rows {
        match self.unused.pop() {
            Some(place) => {
                self.rows[place as usize] = Some(batch);
                Rows(place)
            }
            None => {
                self.rows.push(Some(batch));
                Rows(self.rows.len() as u32 - 1)
            }
        }
    }

    fn take(&mut self, rows: Rows) -> Option<StreamBatch> {
        let batch = self.rows[rows.0 as usize].take();
        if batch.is_some() {
            self.unused.push(rows.0);
        }
        batch
    }

    fn try_call(&mut self, operator: u32, call: Call) -> Result<Flow, OperatorError> {
        let batch = match call {
            Call::Rows { rows, first, count, .. } => {
                let whole = self.rows[rows.0 as usize].as_ref().map(StreamBatch::num_rows);
                let batch = if whole == Some((first + count) as usize) {
                    self.take(rows)
                } else {
                    self.rows[rows.0 as usize].clone()
                };
                batch.map(|batch| batch.slice(first as usize, count as usize))
            }
            Call::Watermark { .. } | Call::Resume => None,
        };
        let Some(instance) = &mut self.operators[operator as usize] else { return Ok(Flow::Done) };
        let Instance { operator, frontier, input_of_channel } = instance;
        match call {
            Call::Rows { channel, ingested, .. } => {
                let Some(batch) = batch else { return Ok(Flow::Done) };
                frontier.on_active(channel as usize);
                let input = usize::from(input_of_channel[channel as usize]);
                operator.on_batch(input, batch, ingested, &mut self.outbox)
            }
            Call::Watermark { channel, watermark } => {
                match frontier.on_watermark(channel as usize, watermark) {
                    Some(risen) => operator.on_watermark(risen, &mut self.outbox),
                    None => Ok(Flow::Done),
                }
            }
            Call::Resume => operator.resume(&mut self.outbox),
        }
    }
}

impl Contents for Batches {
    fn arrive(&mut self, feed: u32) -> Option<Rows> {
        let rows = self.arriving[feed as usize].pop_front()?;
        Some(self.keep(StreamBatch::on_time(rows)))
    }

    fn call(&mut self, operator: u32, call: Call, sent: &mut Vec<Sent>) -> Result<Answer, String> {
        let flow = self.try_call(operator, call).map_err(|error| error.to_string())?;
        let emitted = std::mem::take(&mut self.outbox.emitted);
        sent.extend(emitted.into_iter().map(|emitted| match emitted {
            Emitted::Batch { batch, ingested, window_end } => {
                let count = batch.num_rows() as u32;
                Sent::Rows { rows: self.keep(batch), count, ingested, window_end }
            }
            Emitted::Watermark(watermark) => Sent::Watermark(watermark),
        }));
        self.outbox.dead.clear();
        let late_rows = self.outbox.late.drain(..).map(|late| late.rows.num_rows() as u64).sum();
        Ok(Answer { more: flow == Flow::More, late_rows })
    }

    fn split(&mut self, split: &Split<'_>) -> Result<Vec<Part>, String> {
        let Some(batch) = self.take(split.rows) else { return Ok(Vec::new()) };
        let partitioner = self
            .partitioners
            .entry(split.route)
            .or_insert_with(|| HashPartitioner::new(split.keys.to_vec(), split.targets as usize));
        let parts = partitioner.split(&batch).map_err(|error| error.to_string())?;
        let parts = parts.into_iter().zip(0..).filter_map(|(part, target)| Some((part?, target)));
        let part = |(part, target): (StreamBatch, u32)| {
            let count = part.num_rows() as u32;
            Part { target, rows: self.keep(part), count }
        };
        Ok(parts.collect::<Vec<_>>().into_iter().map(part).collect())
    }

    fn share(&mut self, rows: Rows) -> Rows {
        match self.rows[rows.0 as usize].clone() {
            Some(batch) => self.keep(batch),
            None => rows,
        }
    }

    fn free(&mut self, rows: Rows) {
        self.take(rows);
    }

    fn write(&mut self, query: QueryId, sink: u32, rows: Rows, written: ProcessingTime) {
        let Some(batch) = self.take(rows) else { return };
        let sink = self.nodes[sink as usize];
        self.results.borrow_mut().push(RowResult { query, sink, written, rows: batch.rows });
    }

    fn state_bytes(&self, operator: u32) -> u64 {
        self.operators[operator as usize].as_ref().map_or(0, |o| o.operator.state_bytes() as u64)
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("operators", &self.operators.len()).finish_non_exhaustive()
    }
}

/// The event time that is due at an instant.
fn event_time(clock: &EventClock, at: ProcessingTime) -> EventTime {
    let since_ms = (at.0 as f64 - clock.processing_origin.0 as f64) / 1e6 * clock.speed;
    EventTime(clock.event_origin.0.saturating_add(since_ms as i64))
}

/// Arrivals from a list.
#[derive(Debug)]
struct Listed {
    arrivals: VecDeque<Arrival>,
    clock: EventClock,
}

impl Arrivals for Listed {
    fn next(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }

    fn clock(&self) -> EventClock {
        self.clock
    }
}
