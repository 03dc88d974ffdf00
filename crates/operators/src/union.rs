//! Where several inputs become one; their watermarks were put together before, by whoever runs the instance.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::internal;
use crate::{Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch};

/// UNION ALL: rows of every input under one schema, as they come. Inputs must agree in the types of their
/// columns; names and metadata are the union's.
pub struct Union {
    output_schema: SchemaRef,
}

impl Union {
    /// A union whose rows carry this schema.
    pub fn new(output_schema: SchemaRef) -> Union {
        Union { output_schema }
    }

    /// Makes the instances.
    pub fn factory(output_schema: SchemaRef) -> OperatorFactory {
        OperatorFactory::new(move |_| Ok(Box::new(Union::new(Arc::clone(&output_schema)))))
    }
}

impl Operator for Union {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let rows = if Arc::ptr_eq(batch.rows.schema_ref(), &self.output_schema) {
            batch.rows
        } else {
            RecordBatch::try_new(Arc::clone(&self.output_schema), batch.rows.columns().to_vec())
                .map_err(|e| internal("Union", e))?
        };
        out.batch(StreamBatch { rows, ..batch });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Step, drive};
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};

    fn schema(name: &str, data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new(name, data_type, true)]))
    }

    #[test]
    fn rows_take_the_schema_of_the_union() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let rows = RecordBatch::try_new(schema("b", DataType::Int64), vec![values]).unwrap();
        let mut union = Union::new(schema("a", DataType::Int64));
        let batch = || Step::Batch(StreamBatch::on_time(rows.clone()), ProcessingTime::ZERO);
        assert_eq!(
            drive(&mut union, vec![batch(), Step::Watermark(3), batch()], 0).rows(),
            ["1", "2", "1", "2"]
        );

        let mut wrong = Union::new(schema("a", DataType::Utf8));
        let batch = StreamBatch::on_time(rows.clone());
        assert!(wrong.on_batch(0, batch, ProcessingTime::ZERO, &mut Outbox::default()).is_err());
    }
}
