//! WHERE and SELECT without aggregates: what most rows meet first behind their source, so only columns that are read
//! are filtered.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::FilterBuilder;
use arrow::datatypes::{FieldRef, Int64Type, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, internal_err};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::{Expression, Identity, Predicate, Selection, internal, row_error};
use crate::{Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch};

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
    filter: Option<Filter>,
    projection: Vec<Expression>,
    /// Whether the projection changes anything.
    identity: Option<Identity>,
    output_schema: SchemaRef,
}

/// A predicate, and the projection of the rows that it keeps.
struct Filter {
    predicate: Predicate,
    /// Input columns that the projection reads; only these are filtered.
    read: Vec<usize>,
    read_schema: SchemaRef,
    /// Over `read_schema`.
    projection: Vec<Expression>,
}

impl Calc {
    /// Makes one instance.
    ///
    /// # Errors
    /// If an expression does not fit the input.
    pub fn new(spec: &CalcSpec) -> Result<Calc, OperatorError> {
        let fail = |e: DataFusionError| internal(&spec.name, e);
        let over_input = |expr| Expression::over(expr, &spec.input_schema);
        let projection: Result<Vec<_>, _> =
            spec.projection.iter().map(|(expr, _)| over_input(expr)).collect();
        let projection = projection.map_err(fail)?;
        let filter = spec.predicate.as_ref().map(|predicate| Filter::new(predicate, spec)).transpose();
        let output_schema = spec.output_schema()?;
        Ok(Calc {
            name: spec.name.clone(),
            filter: filter.map_err(fail)?,
            identity: Identity::of(projection.iter().map(Some), &output_schema),
            projection,
            output_schema,
        })
    }

    pub(crate) fn calculate(&mut self, batch: StreamBatch) -> Result<Option<StreamBatch>, DataFusionError> {
        if let Some(filter) = &mut self.filter {
            match filter.predicate.select(&batch.rows)? {
                Selection::All => {}
                Selection::Nothing => return Ok(None),
                Selection::Some(mask) => return filter.keep(&batch, &mask, &self.output_schema).map(Some),
            }
        }
        if self.identity.as_mut().is_some_and(|identity| identity.holds(&batch.rows)) {
            return Ok(Some(batch));
        }
        let rows = project(&mut self.projection, &batch.rows, &self.output_schema)?;
        Ok(Some(StreamBatch { rows, ..batch }))
    }
}

impl Filter {
    fn new(predicate: &Arc<dyn PhysicalExpr>, spec: &CalcSpec) -> Result<Filter, DataFusionError> {
        let mut read: Vec<usize> =
            spec.projection.iter().flat_map(|(expr, _)| collect_columns(expr)).map(|c| c.index()).collect();
        read.sort_unstable();
        read.dedup();
        let read_schema = Arc::new(spec.input_schema.project(&read)?);
        let projection =
            spec.projection.iter().map(|(expr, _)| Expression::over(&renumber(expr, &read)?, &read_schema));
        let projection = projection.collect::<Result<_, DataFusionError>>()?;
        Ok(Filter { predicate: Predicate::new(predicate, &spec.input_schema), read, read_schema, projection })
    }

    /// The projection of the rows of a mask.
    fn keep(
        &mut self,
        batch: &StreamBatch,
        mask: &BooleanArray,
        output_schema: &SchemaRef,
    ) -> Result<StreamBatch, DataFusionError> {
        let filter = FilterBuilder::new(mask).optimize().build();
        let columns = self.read.iter().map(|&i| filter.filter(batch.rows.column(i)));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(filter.count()));
        let kept = RecordBatch::try_new_with_options(Arc::clone(&self.read_schema), columns, &count)?;
        let rows = project(&mut self.projection, &kept, output_schema)?;
        let before = batch.watermark_before.clone().map(|w| filter.filter(&Int64Array::new(w, None)));
        let watermark_before = before.transpose()?.map(|w| w.as_primitive::<Int64Type>().values().clone());
        Ok(StreamBatch { rows, watermark_before })
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
            && let Some(batch) = self.calculate(batch).map_err(|e| row_error(&self.name, &e))?
        {
            out.batch(batch);
        }
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn waits_for_time(&self) -> bool {
        false
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
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
