//! What is put beside rows that were taken, and no others.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion_common::{DataFusionError, Result, exec_err};
use laxity_graph::ProcessingTime;

use crate::{Emitted, Flow, InstanceContext, Operator, OperatorError, OperatorFactory, Outbox, StreamBatch};

/// A lookup below which rows are left out: it gives each row once, whether it has a partner or not.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Makes it. What it gives depends on nothing but the row and the table.
    pub lookup: OperatorFactory,
    /// It takes so many columns of the input, the first ones.
    pub columns: usize,
    /// These, and behind them those that were looked up.
    pub schema: SchemaRef,
}

impl Beside {
    pub(super) fn make(&self, context: &InstanceContext) -> Result<Looked, OperatorError> {
        Ok(Looked { lookup: self.lookup.make(context)?, schema: SchemaRef::clone(&self.schema) })
    }
}

/// One instance.
pub(super) struct Looked {
    lookup: Box<dyn Operator>,
    schema: SchemaRef,
}

impl Looked {
    /// Rows of the columns that it takes, with what is beside them, in their order.
    pub(super) fn of(&mut self, rows: &RecordBatch) -> Result<RecordBatch> {
        let external = |error: OperatorError| DataFusionError::External(Box::new(error));
        let mut out = Outbox::default();
        let batch = StreamBatch::on_time(rows.clone());
        let mut flow = self.lookup.on_batch(0, batch, ProcessingTime::ZERO, &mut out).map_err(external)?;
        while flow == Flow::More {
            flow = self.lookup.resume(&mut out).map_err(external)?;
        }
        let batches: Vec<RecordBatch> = out
            .emitted
            .into_iter()
            .filter_map(|emitted| match emitted {
                Emitted::Batch { batch, .. } => Some(batch.rows),
                Emitted::Watermark(_) => None,
            })
            .collect();
        let joined = concat_batches(&self.schema, &batches)?;
        if joined.num_rows() != rows.num_rows() {
            return exec_err!("{} rows were looked up and {} found", rows.num_rows(), joined.num_rows());
        }
        Ok(joined)
    }

    pub(super) fn bytes(&self) -> usize {
        self.lookup.state_bytes()
    }
}
