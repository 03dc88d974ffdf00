use std::fmt;
use std::sync::Arc;

use crate::{Operator, OperatorError, SharedSourceSpec};

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

    /// Makes one instance.
    ///
    /// # Errors
    /// If the operator cannot be built from its plan.
    pub fn make(&self, context: &InstanceContext) -> Result<Box<dyn Operator>, OperatorError> {
        (self.0)(context)
    }
}

impl fmt::Debug for OperatorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorFactory")
    }
}
