//! `CURRENT_WATERMARK` in two operators: the watermark before a row must be kept at the source, and is read where the
//! function stands.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::{internal, row_error};
use crate::watermark::WatermarkGenerator;
use crate::{
    Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch,
    WatermarkSpec,
};

/// Keeps the watermark before every row, also before those that nobody could find late. It follows a source, with the
/// source's watermark, before any row is dropped.
#[derive(Clone, Debug)]
pub struct KeepWatermarks {
    /// As `explain` names it.
    pub name: String,
    /// The source's.
    pub watermark: WatermarkSpec,
}

impl KeepWatermarks {
    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| {
            let generator = WatermarkGenerator::new(&self.watermark);
            Ok(Box::new(Kept { name: self.name.clone(), generator }))
        })
    }
}

/// The operator of [`KeepWatermarks`].
struct Kept {
    name: String,
    generator: WatermarkGenerator,
}

impl Operator for Kept {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let before = self.generator.before_each(&batch.rows).map_err(|e| row_error(&self.name, &e))?;
        out.batch(StreamBatch { rows: batch.rows, watermark_before: Some(before) });
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.generator.save(OperatorState::default())
    }

    fn restore(&mut self, mut state: OperatorState) -> Result<(), StateError> {
        self.generator.restore(&mut state)?;
        state.finish()
    }
}

/// `CURRENT_WATERMARK(time)`: appends the watermark before each row, NULL where there is none yet.
///
/// Behind [`KeepWatermarks`], with nothing between them but operators that hand rows on.
#[derive(Clone, Debug)]
pub struct CurrentWatermarkSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns that come in.
    pub input_schema: SchemaRef,
    /// A timestamp in milliseconds, that of the time attribute.
    pub data_type: DataType,
}

impl CurrentWatermarkSpec {
    /// The input's columns, then the watermark.
    pub fn output_schema(&self) -> SchemaRef {
        let watermark = Arc::new(Field::new("__watermark", self.data_type.clone(), true));
        let columns = self.input_schema.fields().iter().cloned();
        Arc::new(Schema::new(columns.chain([watermark]).collect::<Vec<_>>()))
    }

    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| {
            Ok(Box::new(CurrentWatermark {
                name: self.name.clone(),
                data_type: self.data_type.clone(),
                output: self.output_schema(),
            }))
        })
    }
}

/// The operator of a [`CurrentWatermarkSpec`].
struct CurrentWatermark {
    name: String,
    data_type: DataType,
    output: SchemaRef,
}

impl Operator for CurrentWatermark {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        _ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let Some(before) = &batch.watermark_before else {
            return Err(internal(&self.name, "the watermark before the rows is not known"));
        };
        let known = before.iter().map(|&before| (before != EventTime::MIN.0).then_some(before));
        let watermarks: TimestampMillisecondArray = known.collect();
        let mut columns: Vec<ArrayRef> = batch.rows.columns().to_vec();
        columns.push(Arc::new(watermarks.with_data_type(self.data_type.clone())));
        let rows =
            RecordBatch::try_new(Arc::clone(&self.output), columns).map_err(|e| internal(&self.name, e))?;
        out.batch(StreamBatch { rows, ..batch });
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        Ok(OperatorState::default())
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        state.finish()
    }
}
