use std::fmt;
use std::sync::Arc;

use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use crate::{
    ExpressionFault, Flow, Operator, OperatorError, OperatorState, Outbox, SharedSourceSpec, StateError,
    StreamBatch,
};

/// What a node of a runnable dataflow does. `Source` and `Sink` describe the outside world and belong to
/// whoever opens it.
#[derive(Clone, Debug)]
pub enum Stage<Source, Sink> {
    /// Reads a table. The operator turns physical rows into the table's rows: computed columns, watermark.
    Source {
        /// What to read.
        scan: Source,
        /// Runs on a worker for every scanned batch, as input 0.
        operator: OperatorFactory,
        /// How the table can be read together with others; `None` where that gains nothing.
        shared: Option<SharedStage>,
    },
    /// Transforms rows.
    Operator(OperatorFactory),
    /// Writes a table.
    Sink(Sink),
}

/// A source whose part for every row is done once for all who read the table alike.
#[derive(Clone, Debug)]
pub struct SharedStage {
    /// That part, and which rows come out of it.
    pub spec: Arc<SharedSourceSpec>,
    /// The rest, in place of the stage's operator.
    pub operator: OperatorFactory,
}

/// What a factory is told about the instance it makes.
#[derive(Clone, Copy, Debug)]
pub struct InstanceContext {
    /// Which parallel instance, from 0.
    pub instance: usize,
    /// How many there are.
    pub parallelism: usize,
    /// Rows an operator puts in one output batch at most.
    pub batch_rows: usize,
}

type Make = dyn Fn(&InstanceContext) -> Result<Box<dyn Operator>, OperatorError> + Send + Sync;

/// Makes the instances of one operator.
#[derive(Clone)]
pub struct OperatorFactory(Arc<Make>);

impl OperatorFactory {
    /// Wraps a constructor.
    pub fn new(
        make: impl Fn(&InstanceContext) -> Result<Box<dyn Operator>, OperatorError> + Send + Sync + 'static,
    ) -> OperatorFactory {
        OperatorFactory(Arc::new(make))
    }

    /// The same operators, whose expressions that fail are told by `explain`: it may put in the place, and the
    /// expression as it is written.
    #[must_use]
    pub fn explained(
        self,
        explain: impl Fn(&mut ExpressionFault) + Send + Sync + 'static,
    ) -> OperatorFactory {
        let explain: Explain = Arc::new(explain);
        OperatorFactory::new(move |context| {
            Ok(Box::new(Explained { operator: self.make(context)?, explain: Arc::clone(&explain) }))
        })
    }

    /// Makes one instance.
    ///
    /// # Errors
    /// If the operator cannot be built from its plan.
    pub fn make(&self, context: &InstanceContext) -> Result<Box<dyn Operator>, OperatorError> {
        (self.0)(context)
    }
}

type Explain = Arc<dyn Fn(&mut ExpressionFault) + Send + Sync>;

/// An operator, and who can tell where its expressions stand.
struct Explained {
    operator: Box<dyn Operator>,
    explain: Explain,
}

impl Explained {
    #[cold]
    fn fail(&self, mut error: OperatorError) -> OperatorError {
        if let OperatorError::Expression(fault) = &mut error {
            (self.explain)(fault);
        }
        error
    }
}

impl Operator for Explained {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.operator.on_batch(input, batch, ingested, out).map_err(|error| self.fail(error))
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.on_watermark(watermark, out).map_err(|error| self.fail(error))
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.resume(out).map_err(|error| self.fail(error))
    }

    fn on_event_clock(&mut self, clock: EventClock) {
        self.operator.on_event_clock(clock);
    }

    fn keeps_time(&self) -> bool {
        self.operator.keeps_time()
    }

    fn on_lag(&mut self, lag_ns: u64, target_ns: u64) {
        self.operator.on_lag(lag_ns, target_ns);
    }

    fn on_time(&mut self, now: ProcessingTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.operator.on_time(now, out).map_err(|error| self.fail(error))
    }

    fn approximation(&self) -> Option<Approximation> {
        self.operator.approximation()
    }

    fn wake_at(&self) -> Option<ProcessingTime> {
        self.operator.wake_at()
    }

    fn follows_processing_time(&self) -> bool {
        self.operator.follows_processing_time()
    }

    fn event_times(&self) -> Option<(EventTime, EventTime)> {
        self.operator.event_times()
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.operator.save()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.operator.restore(state)
    }

    fn state_bytes(&self) -> usize {
        self.operator.state_bytes()
    }
}

impl fmt::Debug for OperatorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorFactory")
    }
}
