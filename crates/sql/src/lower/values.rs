//! Rows that are from no table: VALUES, and SELECT without FROM.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion_common::DFSchema;
use datafusion_expr::Expr;
use laxity_connect::{ScanSpec, TableSpec};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_operators::{
    Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StatePart, StreamBatch,
};

use super::relation::{Open, OpenStage, Output, Relation, Role, Slot};
use super::{Lowered, Lowering};
use crate::error::{Fault, NOWHERE};

impl Lowering<'_> {
    /// `VALUES (…), (…)`, or the one row that a SELECT without FROM reads: a source of one row, which sets off
    /// the constant ones.
    pub(super) fn constant_rows(
        &mut self,
        rows: &[Vec<Expr>],
        one_row: bool,
        schema: &DFSchema,
    ) -> Lowered<Relation> {
        let batch = self.constant_batch(rows, one_row, schema)?;
        let width = schema.fields().len();
        let schema = batch.schema();
        let trigger: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let options = [("connector", "datagen"), ("number-of-rows", "1")];
        let table = TableSpec {
            name: "VALUES".into(),
            schema: trigger,
            options: options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<BTreeMap<_, _>>(),
            base: Default::default(),
        };
        let outputs =
            (0..width).map(|column| Output { slot: Slot::Column(column), role: Role::Plain }).collect();
        let rows_text = format!("{} rows", batch.num_rows());
        let factory = OperatorFactory::new(move |_| Ok(Box::new(Constant { rows: Some(batch.clone()) })));
        Ok(Relation {
            open: Open {
                name: "Source: VALUES".into(),
                details: vec![rows_text],
                parallelism: 1,
                inputs: vec![],
                window: None,
                stage: OpenStage::Source(ScanSpec { table: Arc::new(table), columns: vec![0] }, None),
                chain: vec![factory],
                calc: None,
                meets_late_rows: None,
            },
            schema,
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        })
    }

    fn constant_batch(&self, rows: &[Vec<Expr>], one_row: bool, schema: &DFSchema) -> Lowered<RecordBatch> {
        let internal = |error: &dyn std::fmt::Display| Fault::internal(NOWHERE, error);
        let unit_schema: SchemaRef = Arc::new(Schema::empty());
        let unit = RecordBatch::try_new_with_options(
            unit_schema,
            vec![],
            &RecordBatchOptions::new().with_row_count(Some(1)),
        )
        .map_err(|e| internal(&e))?;
        if rows.is_empty() {
            // Rows without columns are counted by a column nobody reads.
            let count = usize::from(one_row);
            let fields: Vec<Field> = if schema.fields().is_empty() {
                vec![Field::new("__row", DataType::Int64, false)]
            } else {
                schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect()
            };
            let columns = fields
                .iter()
                .map(|field| match field.name().as_str() {
                    "__row" => Arc::new(Int64Array::from(vec![0; count])) as arrow::array::ArrayRef,
                    _ => arrow::array::new_null_array(field.data_type(), count),
                })
                .collect();
            return RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|e| internal(&e));
        }
        let mut columns: Vec<Vec<arrow::array::ArrayRef>> = vec![vec![]; schema.fields().len()];
        for row in rows {
            for (column, expr) in columns.iter_mut().zip(row) {
                let physical = self.physical(expr, &DFSchema::empty())?;
                let value = physical.evaluate(&unit).and_then(|value| value.into_array(1));
                column.push(value.map_err(|e| self.planner.fault(e))?);
            }
        }
        let mut arrays = Vec::new();
        let mut fields = Vec::new();
        for (parts, field) in columns.iter().zip(schema.fields()) {
            let parts: Result<Vec<_>, _> =
                parts.iter().map(|part| arrow::compute::cast(part, field.data_type())).collect();
            let parts = parts.map_err(|e| self.planner.fault(e.into()))?;
            let parts: Vec<&dyn arrow::array::Array> = parts.iter().map(|part| part.as_ref()).collect();
            arrays.push(arrow::compute::concat(&parts).map_err(|e| internal(&e))?);
            fields.push(field.as_ref().clone().with_nullable(true));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|e| internal(&e))
    }
}

/// Emits constant rows once.
struct Constant {
    rows: Option<RecordBatch>,
}

/// Its only part.
const PART: &str = "constant";

impl Operator for Constant {
    fn on_batch(
        &mut self,
        _input: usize,
        _batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        if let Some(rows) = self.rows.take() {
            out.batch(StreamBatch::on_time(rows));
        }
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        let is_sent = BooleanArray::from(vec![self.rows.is_none()]);
        let rows = RecordBatch::try_from_iter([("is-sent", Arc::new(is_sent) as ArrayRef)]);
        let internal =
            |e: ArrowError| StateError::Internal { operator: "VALUES".into(), message: e.to_string() };
        Ok(OperatorState::of(vec![StatePart::new(PART, rows.map_err(internal)?)]))
    }

    fn restore(&mut self, mut state: OperatorState) -> Result<(), StateError> {
        let own = state.parts.iter().position(|part| part.name == PART).map(|at| state.parts.remove(at));
        let is_sent = own.as_ref().and_then(|own| own.rows.column_by_name("is-sent"));
        let Some(is_sent) =
            is_sent.and_then(|column| column.as_boolean_opt()).filter(|column| column.len() == 1)
        else {
            return Err(StateError::Mismatch {
                part: PART.into(),
                expected: "a row with is-sent".into(),
                found: own.map_or("no such table".into(), |own| format!("{} rows", own.rows.num_rows())),
            });
        };
        if is_sent.value(0) {
            self.rows = None;
        }
        state.finish()
    }
}
