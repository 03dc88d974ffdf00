use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{FieldRef, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, internal_err};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::{Expression, Selection, internal, row_error, select};
use crate::{Flow, Operator, OperatorError, OperatorFactory, Outbox, StreamBatch};

/// What a [`Calc`] computes.
#[derive(Clone, Debug)]
pub struct CalcSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns that come in.
    pub input_schema: SchemaRef,
    /// Rows for which this is not true are dropped.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Output columns over the input's: expression and name.
    pub projection: Vec<(Arc<dyn PhysicalExpr>, String)>,
    /// Fields of the output where they differ from what the expressions say, e.g. in metadata. Types must agree.
    pub output_schema: Option<SchemaRef>,
}

impl CalcSpec {
    /// A filter that keeps all columns.
    pub fn filter(
        name: impl Into<String>,
        input_schema: SchemaRef,
        predicate: Arc<dyn PhysicalExpr>,
    ) -> CalcSpec {
        let columns = input_schema.fields().iter().enumerate();
        let projection = columns
            .map(|(i, field)| {
                (Arc::new(Column::new(field.name(), i)) as Arc<dyn PhysicalExpr>, field.name().clone())
            })
            .collect();
        CalcSpec {
            name: name.into(),
            input_schema,
            predicate: Some(predicate),
            projection,
            output_schema: None,
        }
    }

    /// Columns that go out. A column passed through keeps its metadata, so that it stays a time attribute.
    ///
    /// # Errors
    /// If an expression does not fit the input.
    pub fn output_schema(&self) -> Result<SchemaRef, OperatorError> {
        if let Some(schema) = &self.output_schema {
            return Ok(Arc::clone(schema));
        }
        let fields = self.projection.iter().map(|(expr, name)| {
            let field = expr.return_field(&self.input_schema)?;
            Ok(Arc::new(field.as_ref().clone().with_name(name)))
        });
        let fields: Result<Vec<FieldRef>, DataFusionError> = fields.collect();
        Ok(Arc::new(Schema::new(fields.map_err(|e| internal(&self.name, e))?)))
    }

    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| Ok(Box::new(Calc::new(&self)?)))
    }
}

/// Filter and projection.
pub struct Calc {
    name: String,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Over the input.
    projection: Vec<Expression>,
    /// Input columns that the projection reads; only these are filtered.
    read: Vec<usize>,
    read_schema: SchemaRef,
    /// The projection over `read_schema`.
    projection_of_read: Vec<Expression>,
    output_schema: SchemaRef,
}

impl Calc {
    /// Makes one instance.
    ///
    /// # Errors
    /// If an expression does not fit the input.
    pub fn new(spec: &CalcSpec) -> Result<Calc, OperatorError> {
        let fail = |e: DataFusionError| internal(&spec.name, e);
        let mut read: Vec<usize> =
            spec.projection.iter().flat_map(|(expr, _)| collect_columns(expr)).map(|c| c.index()).collect();
        read.sort_unstable();
        read.dedup();
        let read_schema = spec.input_schema.project(&read).map_err(|e| fail(e.into()))?;
        let expressions = |of_read: bool| {
            let expressions = spec.projection.iter().map(|(expr, _)| {
                if of_read { Expression::new(&renumber(expr, &read)?) } else { Expression::new(expr) }
            });
            expressions.collect::<Result<Vec<_>, DataFusionError>>()
        };
        Ok(Calc {
            name: spec.name.clone(),
            predicate: spec.predicate.clone(),
            projection: expressions(false).map_err(fail)?,
            projection_of_read: expressions(true).map_err(fail)?,
            read,
            read_schema: Arc::new(read_schema),
            output_schema: spec.output_schema()?,
        })
    }

    fn filter(&self, rows: &RecordBatch, filter: &FilterPredicate) -> Result<RecordBatch, ArrowError> {
        let columns = self.read.iter().map(|&i| filter.filter(rows.column(i)));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(filter.count()));
        RecordBatch::try_new_with_options(Arc::clone(&self.read_schema), columns, &count)
    }

    fn calculate(&mut self, batch: StreamBatch) -> Result<Option<StreamBatch>, OperatorError> {
        let fail = |e: DataFusionError| row_error(&self.name, &e);
        let selection = match &self.predicate {
            Some(predicate) => select(predicate, &batch.rows).map_err(fail)?,
            None => Selection::All,
        };
        let batch = match selection {
            Selection::Nothing => return Ok(None),
            Selection::All => {
                let rows = project(&mut self.projection, &batch.rows, &self.output_schema).map_err(fail)?;
                StreamBatch { rows, ..batch }
            }
            Selection::Some(mask) => {
                let filter = FilterBuilder::new(&mask).optimize().build();
                let kept = self.filter(&batch.rows, &filter).map_err(|e| internal(&self.name, e))?;
                let rows = project(&mut self.projection_of_read, &kept, &self.output_schema).map_err(fail)?;
                let before = batch.watermark_before.map(|w| filter.filter(&Int64Array::new(w, None)));
                let before = before.transpose().map_err(|e| internal(&self.name, e))?;
                let watermark_before = before.map(|w| w.as_primitive::<Int64Type>().values().clone());
                StreamBatch { rows, watermark_before }
            }
        };
        Ok(Some(batch))
    }
}

impl Operator for Calc {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        if batch.num_rows() > 0
            && let Some(batch) = self.calculate(batch)?
        {
            out.batch(batch);
        }
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }
}

fn project(
    expressions: &mut [Expression],
    rows: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, DataFusionError> {
    let columns = expressions.iter_mut().map(|e| e.evaluate(rows)).collect::<Result<Vec<ArrayRef>, _>>()?;
    let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &count)?)
}

/// The expression over the columns `read` alone. By position: names may be ambiguous.
fn renumber(expr: &Arc<dyn PhysicalExpr>, read: &[usize]) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let renumbered = Arc::clone(expr).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let Ok(index) = read.binary_search(&column.index()) else {
            return internal_err!("column {column} is not among those read, {read:?}");
        };
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), index));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    });
    renumbered.data()
}

#[cfg(test)]
mod tests;
