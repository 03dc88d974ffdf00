//! Real operators in virtual time: the world of the simulator, with rows in its messages.
//!
//! Everything is as for a query of costs: machines, cores, delays, faults, policies, threads of an operating system,
//! checkers. But where a stage says what comes out and a batch is a count, here an operator of `laxity-operators` is
//! called with an Arrow batch, by the rules of the engine: rows spread by hash of their key, the watermark of an instance
//! is the least over its channels, a call that leaves work is resumed before the next message. How long a call takes is a
//! number all the same. What the queries write must not depend on any of it.
//!
//! Left out: bursts, which change what is computed, channels that fall silent, tables stamped with the processing time, rows of
//! late tables (they are counted).

use std::collections::VecDeque;
use std::rc::Rc;

use arrow::array::RecordBatch;
use laxity_graph::{
    Approximation, Dataflow, DataflowError, Emitted, EventClock, EventTime, Node, NodeId, ProcessingTime,
    QueryId,
};
use laxity_operators::{
    DeadRows, Flow, HashPartitioner, InstanceContext, LateRows, Operator, OperatorError, OperatorFactory,
    OperatorState, Outbox, Stage, StreamBatch,
};
use laxity_runtime::{ArrowRows, Content, LateShape, NoTemplate, Unshared};
use laxity_sched::Recipe;
use laxity_workload::{Arrival, Arrivals, Cost, Feed, QueryModel, StageKind, Workload};

use crate::modelled::{Made, Modelled};
use crate::run_clock::{RunClock, Said};
use crate::world::{Plans, World};
use crate::{FaultKind, Outcome, Setup, Simulation, SimulationError};

/// A query whose operators are called, and the rows it reads.
#[derive(Debug)]
pub struct RowQuery {
    model: Dataflow<laxity_workload::Stage>,
    /// By node; of a sink none.
    factories: Vec<Option<OperatorFactory>>,
    feeds: Vec<RowFeed>,
    taken_row_ns: f64,
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
    /// The policy, made once per node.
    pub policy: Recipe,
    /// Everything else. Bursts have no effect, and rows are dropped only of queries that allow it themselves. What is still held
    /// back when the duration is over is not read.
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
        Ok(RowQuery { model, factories, feeds: Vec::new(), taken_row_ns: 0.0 })
    }

    /// What each row costs besides that an operator which may leave rows out takes.
    #[must_use]
    pub fn with_taken_row_ns(self, taken_row_ns: f64) -> RowQuery {
        RowQuery { taken_row_ns, ..self }
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
    pub fn new(queries: Vec<RowQuery>, policy: Recipe, setup: Setup) -> RowSimulation {
        RowSimulation { queries, policy, setup, batch_rows: 8_192 }
    }

    /// Lets the time pass.
    ///
    /// # Errors
    /// As [`Simulation::run`], and if an operator cannot be made or fails.
    pub fn run(self) -> Result<RowOutcome, SimulationError> {
        let (mut plans, mut rows) = (Vec::new(), Vec::new());
        let mut queries = Vec::new();
        for RowQuery { model, factories, feeds, taken_row_ns } in self.queries {
            let feeds = feeds.into_iter().map(|feed| {
                let (feed, batches) = feed.open();
                rows.push(batches);
                feed
            });
            let feeds = feeds.collect();
            queries.push(QueryModel { dataflow: model, feeds, deployed: ProcessingTime::ZERO });
            plans.push(Factories { factories, batch_rows: self.batch_rows, taken_row_ns });
        }
        let sinks: Vec<Vec<NodeId>> = queries.iter().map(instances).collect();
        let workload = Workload { name: "rows".into(), queries };
        // Bursts would change what is computed, and so would shedding where nobody asked for it.
        let mut setup = Setup { shed: false, ..self.setup };
        setup.faults.retain(|fault| !matches!(fault.kind, FaultKind::Burst { .. }));
        let simulation = Simulation { workload, policy: self.policy, setup };
        let plans = Plans::<CalledRows> { plans, rows, feeds_end: true, keeps_rows: true };
        let (outcome, written) = World::new(simulation, plans)?.run()?;
        let nodes = sinks.concat();
        let results = written.into_iter().map(|written| RowResult {
            query: written.query,
            sink: nodes[written.sink as usize],
            written: written.at,
            rows: written.batch.batch.rows,
        });
        Ok(RowOutcome { outcome, results: results.collect() })
    }
}

/// The nodes of a query, each as often as it has instances.
fn instances(query: &QueryModel) -> Vec<NodeId> {
    let nodes = query.dataflow.nodes().iter().enumerate();
    nodes.flat_map(|(index, node)| std::iter::repeat_n(NodeId(index), node.parallelism)).collect()
}

impl RowFeed {
    /// What the world reads: when something comes, and what.
    fn open(self) -> (Feed, VecDeque<CalledBatch>) {
        let RowFeed { source, batches, clock } = self;
        let (mut arrivals, mut rows) = (VecDeque::new(), VecDeque::new());
        for RowArrival { at, rows: batch } in batches {
            if batch.num_rows() == 0 {
                continue;
            }
            // What is no window's result counts from here.
            let event_time = event_time(&clock, at);
            arrivals.push_back(Arrival {
                at,
                event_time,
                rows: batch.num_rows() as u32,
                bytes: batch.num_rows() as u64 * u64::from(ROW_BYTES),
                watermark: None,
            });
            rows.push_back(CalledBatch { batch: StreamBatch::on_time(batch), event_time, ends: true });
        }
        (Feed { node: source, instance: 0, arrivals: Box::new(Listed { arrivals, clock }) }, rows)
    }
}

impl std::fmt::Debug for RowSimulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSimulation")
            .field("queries", &self.queries.len())
            .field("policy", &self.policy.name())
            .field("setup", &self.setup)
            .finish_non_exhaustive()
    }
}

/// Of a row, for policies and bounds that go by bytes: picked out of thin air, some columns of eight bytes.
const ROW_BYTES: u32 = 64;

/// Rows and operators are those of the engine; what a call costs is a number.
#[derive(Debug)]
struct CalledRows;

/// Rows, and the time at which those that are no window's result count as having happened.
#[derive(Clone, Debug)]
struct CalledBatch {
    batch: StreamBatch,
    event_time: EventTime,
    /// The last of them is the last of its message.
    ends: bool,
}

/// An operator, or a sink, under its cost.
struct Called {
    clock: Rc<RunClock>,
    cost: Cost,
    /// `None`: a sink, which keeps the pieces of a batch until it is done.
    operator: Option<Box<dyn Operator>>,
    gathered: Vec<StreamBatch>,
    /// Of the rows that it was called with last.
    event_time: EventTime,
    taken_row_ns: f64,
    /// So far.
    rows_taken: u64,
}

/// What operators send, and where they put it first.
#[derive(Default)]
struct CalledOutbox {
    raw: Outbox,
    emitted: Vec<Emitted<CalledBatch>>,
}

/// What the operators of a query are made of, by node; of a sink nothing.
#[derive(Default)]
struct Factories {
    factories: Vec<Option<OperatorFactory>>,
    batch_rows: usize,
    taken_row_ns: f64,
}

impl Called {
    /// Takes down what a call has sent; how many rows.
    fn tell(&self, outbox: &mut CalledOutbox) -> u32 {
        let mut rows_out = 0;
        for emitted in outbox.raw.emitted.drain(..) {
            outbox.emitted.push(match emitted {
                Emitted::Batch { batch, ingested, window_end } => {
                    let rows = batch.num_rows() as u32;
                    rows_out += rows;
                    self.clock.say(Said::Rows(rows));
                    let batch = CalledBatch { batch, event_time: self.event_time, ends: true };
                    Emitted::Batch { batch, ingested, window_end }
                }
                Emitted::Watermark(watermark) => {
                    self.clock.say(Said::Watermark(watermark));
                    Emitted::Watermark(watermark)
                }
            });
        }
        let late: usize = outbox.raw.late.iter().map(|late| late.rows.num_rows()).sum();
        self.clock.late_rows.set(self.clock.late_rows.get() + late as u64);
        rows_out
    }

    /// Pays for the rows that the last call took of those that it was given.
    fn pay_for_taken(&mut self) {
        let approximation = self.operator.as_ref().filter(|_| self.taken_row_ns > 0.0);
        if let Some(approximation) = approximation.and_then(ArrowRows::approximation) {
            let taken = approximation.rows_taken - self.rows_taken;
            self.rows_taken = approximation.rows_taken;
            self.clock.spend(self.taken_row_ns * taken as f64);
        }
    }

    /// Pays for a call that took no rows in.
    fn pay(&self, rows_out: u32, flow: Flow) {
        if rows_out == 0 && flow == Flow::Done {
            self.clock.call(self.cost.watermark_ns);
        } else {
            self.clock.call(self.cost.fixed_ns);
            self.clock.spend(self.cost.per_row_ns * f64::from(rows_out));
        }
    }
}

impl Content for CalledRows {
    type Batch = CalledBatch;
    type Operator = Called;
    type Outbox = CalledOutbox;
    type Partitioner = HashPartitioner;
    type Late = LateRows;
    type LateShape = LateShape;
    type Dead = DeadRows;
    type Front = Unshared<CalledBatch, DeadRows, OperatorError>;
    type Template = NoTemplate;
    type State = OperatorState;
    type Error = OperatorError;

    fn rows(batch: &CalledBatch) -> u32 {
        ArrowRows::rows(&batch.batch)
    }

    fn bytes(batch: &CalledBatch) -> u64 {
        // As the model says, so that bounds do not depend on how wide rows are in memory.
        u64::from(Self::rows(batch)) * u64::from(ROW_BYTES)
    }

    fn slice(batch: &CalledBatch, offset: usize, rows: usize) -> CalledBatch {
        let ends = batch.ends && offset + rows == batch.batch.num_rows();
        CalledBatch { batch: ArrowRows::slice(&batch.batch, offset, rows), ends, ..*batch }
    }

    fn save(called: &mut Called) -> Result<OperatorState, String> {
        let saved = called.operator.as_mut().map(|operator| operator.save());
        saved.transpose().map(Option::unwrap_or_default).map_err(|error| error.to_string())
    }

    fn restore(called: &mut Called, state: OperatorState) -> Result<(), String> {
        let restored = called.operator.as_mut().map_or(Ok(()), |operator| operator.restore(state));
        restored.map_err(|error| error.to_string())
    }

    fn concat(batches: &[&CalledBatch]) -> Result<CalledBatch, OperatorError> {
        let parts: Vec<&StreamBatch> = batches.iter().map(|batch| &batch.batch).collect();
        Ok(CalledBatch { batch: ArrowRows::concat(&parts)?, ..*batches[0] })
    }

    fn split(
        partitioner: &mut HashPartitioner,
        batch: &CalledBatch,
    ) -> Result<Vec<Option<CalledBatch>>, OperatorError> {
        let parts = ArrowRows::split(partitioner, &batch.batch)?.into_iter();
        Ok(parts.map(|part| Some(CalledBatch { batch: part?, ..*batch })).collect())
    }

    fn on_batch(
        called: &mut Called,
        input: usize,
        batch: CalledBatch,
        ingested: ProcessingTime,
        outbox: &mut CalledOutbox,
    ) -> Result<Flow, OperatorError> {
        let CalledBatch { batch, event_time, ends } = batch;
        called.clock.call(called.cost.fixed_ns);
        called.clock.spend(called.cost.per_row_ns * batch.num_rows() as f64);
        called.event_time = event_time;
        let flow = match &mut called.operator {
            Some(operator) => ArrowRows::on_batch(operator, input, batch, ingested, &mut outbox.raw)?,
            None => {
                called.gathered.push(batch);
                if ends {
                    let pieces = std::mem::take(&mut called.gathered);
                    outbox.raw.batch(ArrowRows::concat(&pieces.iter().collect::<Vec<_>>())?);
                }
                Flow::Done
            }
        };
        called.pay_for_taken();
        called.tell(outbox);
        Ok(flow)
    }

    fn on_watermark(
        called: &mut Called,
        watermark: EventTime,
        outbox: &mut CalledOutbox,
    ) -> Result<Flow, OperatorError> {
        let flow = match &mut called.operator {
            Some(operator) => ArrowRows::on_watermark(operator, watermark, &mut outbox.raw)?,
            None => {
                outbox.raw.watermark(watermark);
                Flow::Done
            }
        };
        let rows_out = called.tell(outbox);
        called.pay(rows_out, flow);
        Ok(flow)
    }

    fn resume(called: &mut Called, outbox: &mut CalledOutbox) -> Result<Flow, OperatorError> {
        let Some(operator) = &mut called.operator else { return Ok(Flow::Done) };
        let flow = ArrowRows::resume(operator, &mut outbox.raw)?;
        let rows_out = called.tell(outbox);
        called.clock.spend(called.cost.per_row_ns * f64::from(rows_out));
        Ok(flow)
    }

    fn on_event_clock(called: &mut Called, clock: EventClock) {
        if let Some(operator) = &mut called.operator {
            operator.on_event_clock(clock);
        }
    }

    fn keeps_time(called: &Called) -> bool {
        called.operator.as_ref().is_some_and(ArrowRows::keeps_time)
    }

    fn arrival_step_ms(called: &Called) -> Option<i64> {
        called.operator.as_ref().and_then(ArrowRows::arrival_step_ms)
    }

    fn on_overload(called: &mut Called, is_overloaded: bool) {
        if let Some(operator) = &mut called.operator {
            operator.on_overload(is_overloaded);
        }
    }

    fn on_time(
        called: &mut Called,
        now: ProcessingTime,
        outbox: &mut CalledOutbox,
    ) -> Result<Flow, OperatorError> {
        let Some(operator) = &mut called.operator else { return Ok(Flow::Done) };
        called.clock.call(called.cost.fixed_ns);
        let flow = ArrowRows::on_time(operator, now, &mut outbox.raw)?;
        let rows_out = called.tell(outbox);
        called.clock.spend(called.cost.per_row_ns * f64::from(rows_out));
        Ok(flow)
    }

    fn approximation(called: &Called) -> Option<Approximation> {
        called.operator.as_ref().and_then(ArrowRows::approximation)
    }

    fn wake_at(called: &Called) -> Option<ProcessingTime> {
        called.operator.as_ref().and_then(ArrowRows::wake_at)
    }

    fn rows_that_fit(called: &Called, _: usize, _: u64, _: f64) -> usize {
        // What the call itself costs comes on top.
        called.clock.rows_that_fit(0.0, called.cost.per_row_ns)
    }

    fn on_held_back(called: &mut Called) {
        called.clock.call(called.cost.watermark_ns);
    }

    const RUNS_BETWEEN_STATE_CHECKS: u32 = 0;

    fn state_bytes(called: &Called) -> u64 {
        called.operator.as_ref().map_or(0, ArrowRows::state_bytes)
    }

    fn event_times(called: &Called) -> Option<(EventTime, EventTime)> {
        called.operator.as_ref().and_then(ArrowRows::event_times)
    }

    fn follows_processing_time(called: &Called) -> bool {
        called.operator.as_ref().is_some_and(ArrowRows::follows_processing_time)
    }

    fn waits_for_time(called: &Called) -> bool {
        called.operator.as_ref().is_none_or(ArrowRows::waits_for_time)
    }

    fn ended() -> Called {
        unreachable!("the first error ends the simulation")
    }

    fn emitted(outbox: &mut CalledOutbox) -> &mut Vec<Emitted<CalledBatch>> {
        &mut outbox.emitted
    }

    fn late(outbox: &mut CalledOutbox) -> &mut Vec<LateRows> {
        &mut outbox.raw.late
    }

    fn dead(outbox: &mut CalledOutbox) -> &mut Vec<DeadRows> {
        &mut outbox.raw.dead
    }

    fn late_windows(late: &LateRows) -> impl Iterator<Item = (i64, u64)> {
        ArrowRows::late_windows(late)
    }

    fn late_rows(late: &LateRows, shape: &LateShape) -> Result<CalledBatch, OperatorError> {
        let batch = ArrowRows::late_rows(late, shape)?;
        Ok(CalledBatch { batch, event_time: EventTime::MIN, ends: true })
    }

    fn dead_rows(dead: &DeadRows) -> (u64, String) {
        ArrowRows::dead_rows(dead)
    }
}

impl Modelled for CalledRows {
    type Plan = Factories;

    fn operator(plan: &Factories, made: Made<'_>) -> Result<Called, String> {
        let Made { place, node, instance, parallelism, clock, .. } = made;
        let context = InstanceContext { instance, parallelism, batch_rows: plan.batch_rows };
        let factory = plan.factories.get(node.0).and_then(Option::as_ref);
        let operator = factory.map(|factory| factory.make(&context)).transpose();
        Ok(Called {
            clock,
            cost: place.cost,
            operator: operator.map_err(|error| error.to_string())?,
            gathered: Vec::new(),
            event_time: EventTime::MIN,
            taken_row_ns: plan.taken_row_ns,
            rows_taken: 0,
        })
    }

    fn partitioner(keys: &[usize], targets: usize) -> HashPartitioner {
        HashPartitioner::new(keys.to_vec(), targets)
    }

    fn arrived(waiting: &mut VecDeque<CalledBatch>, _: &Arrival) -> CalledBatch {
        waiting.pop_front().expect("as many batches as arrivals")
    }

    fn event_time(batch: &CalledBatch) -> EventTime {
        batch.event_time
    }

    fn held_and_closed_rows(_: &Called) -> (u64, u64) {
        (0, 0)
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
