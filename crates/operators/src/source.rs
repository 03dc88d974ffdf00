//! The operator behind every table: what a connector reads has neither computed columns nor a watermark before it has
//! been here.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit};
use datafusion_common::DataFusionError;
use datafusion_physical_expr::PhysicalExpr;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::{Expression, Identity, internal, row_error};
use crate::state::named;
use crate::watermark::{WatermarkGenerator, WatermarkSpec};
use crate::{Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch};

/// How physical rows become a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// As `explain` names it.
    pub name: String,
    /// The table's columns in order.
    pub columns: Vec<SourceColumn>,
    /// One field per column. A processing-time column is `TIMESTAMP(3)`, with a time zone or without.
    pub output_schema: SchemaRef,
    /// The WATERMARK clause.
    pub watermark: Option<WatermarkSpec>,
    /// The Unix time, in milliseconds, of [`ProcessingTime::ZERO`].
    pub processing_origin_ms: i64,
}

/// Where a column comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceColumn {
    /// The physical column of that index among those scanned.
    Physical(usize),
    /// An expression over the columns scanned.
    Computed(Arc<dyn PhysicalExpr>),
    /// `PROCTIME()`: when the row came in.
    ProcessingTime,
}

impl SourceSpec {
    /// Whether rows say when they came.
    pub fn is_stamped(&self) -> bool {
        self.columns.iter().any(|column| matches!(column, SourceColumn::ProcessingTime))
    }

    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| Ok(Box::new(SourceOperator::new(&self)?)))
    }
}

/// Turns physical rows into a table's rows and finds the watermark.
///
/// Flink's rule: the watermark after a row is the maximum of the watermark expression over all rows up to it.
/// The batch carries the watermark before each row wherever a row is behind it, and the watermark follows the
/// batch if it rose.
pub struct SourceOperator {
    name: String,
    columns: Vec<Filled>,
    /// Whether anything is to be filled.
    identity: Option<Identity>,
    output_schema: SchemaRef,
    generator: Option<WatermarkGenerator>,
    processing_origin_ms: i64,
    /// The last watermark sent.
    sent: EventTime,
}

/// How a column is filled.
enum Filled {
    From(Expression),
    /// With the ingestion time, as this type.
    Ingested(DataType),
}

impl SourceOperator {
    /// Makes one instance.
    ///
    /// # Errors
    /// If columns and schema do not fit each other.
    pub fn new(spec: &SourceSpec) -> Result<SourceOperator, OperatorError> {
        let fields = spec.output_schema.fields();
        if fields.len() != spec.columns.len() {
            let message = format!("{} columns for {} fields", spec.columns.len(), fields.len());
            return Err(internal(&spec.name, message));
        }
        let columns = spec.columns.iter().zip(fields).map(|(column, field)| match column {
            SourceColumn::Physical(index) => Ok(Filled::From(Expression::Column(*index))),
            SourceColumn::Computed(expr) => {
                Expression::new(expr).map(Filled::From).map_err(|e| internal(&spec.name, e))
            }
            SourceColumn::ProcessingTime => match field.data_type() {
                DataType::Timestamp(TimeUnit::Millisecond, _) => {
                    Ok(Filled::Ingested(field.data_type().clone()))
                }
                other => Err(internal(&spec.name, format!("processing time as {other}"))),
            },
        });
        let columns: Vec<Filled> = columns.collect::<Result<_, _>>()?;
        let expressions = columns.iter().map(|column| match column {
            Filled::From(expression) => Some(expression),
            Filled::Ingested(_) => None,
        });
        Ok(SourceOperator {
            name: spec.name.clone(),
            identity: Identity::of(expressions, &spec.output_schema),
            columns,
            output_schema: Arc::clone(&spec.output_schema),
            generator: spec.watermark.as_ref().map(WatermarkGenerator::new),
            processing_origin_ms: spec.processing_origin_ms,
            sent: EventTime::MIN,
        })
    }

    /// Another at the same place of the stream.
    pub(crate) fn fork(&self, spec: &SourceSpec) -> Result<SourceOperator, OperatorError> {
        let generator = self.generator.clone();
        Ok(SourceOperator { generator, sent: self.sent, ..SourceOperator::new(spec)? })
    }

    /// Goes on as if it had seen what another of this place has, too: no watermark of either is taken back.
    pub(crate) fn absorb(&mut self, other: &SourceOperator) {
        self.sent = self.sent.max(other.sent);
        if let (Some(own), Some(other)) = (&mut self.generator, &other.generator) {
            own.absorb(other);
        }
    }

    /// The watermark behind the rows so far.
    pub(crate) fn watermark(&self) -> EventTime {
        self.sent
    }

    /// That is the watermark, if it is not further already.
    pub(crate) fn tell_time(&mut self, watermark: EventTime) {
        self.sent = self.sent.max(watermark);
    }

    fn fill(&mut self, rows: RecordBatch, ingested: ProcessingTime) -> Result<RecordBatch, DataFusionError> {
        if self.identity.as_mut().is_some_and(|identity| identity.holds(&rows)) {
            return Ok(rows);
        }
        let since_origin_ms = i64::try_from(ingested.0 / 1_000_000).unwrap_or(i64::MAX);
        let ingested_ms = self.processing_origin_ms.saturating_add(since_origin_ms);
        let columns = self.columns.iter_mut().map(|column| match column {
            Filled::From(expression) => expression.evaluate(&rows),
            Filled::Ingested(data_type) => {
                let times = TimestampMillisecondArray::from_value(ingested_ms, rows.num_rows());
                Ok(Arc::new(times.with_data_type(data_type.clone())) as ArrayRef)
            }
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output_schema), columns, &count)?)
    }

    fn send_watermark(&mut self, watermark: EventTime, out: &mut Outbox) {
        if watermark > self.sent {
            self.sent = watermark;
            out.watermark(watermark);
        }
    }
}

impl Operator for SourceOperator {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let rows = self.fill(batch.rows, ingested).map_err(|e| row_error(&self.name, &e))?;
        let Some(generator) = &mut self.generator else {
            out.batch(StreamBatch::on_time(rows));
            return Ok(Flow::Done);
        };
        let batch = generator.observe(rows, &mut out.dead).map_err(|e| row_error(&self.name, &e))?;
        let watermark = generator.watermark();
        out.batch(batch);
        self.send_watermark(watermark, out);
        Ok(Flow::Done)
    }

    /// The end of the input, or the clock of a table without event time.
    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.send_watermark(watermark, out);
        Ok(Flow::Done)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        let state = OperatorState::default()
            .with("source", vec![named("watermark-sent", Int64Array::from(vec![self.sent.0]))])?;
        match &self.generator {
            Some(generator) => generator.save(state),
            None => Ok(state),
        }
    }

    fn restore(&mut self, mut state: OperatorState) -> Result<(), StateError> {
        self.sent = EventTime(state.take("source")?.only::<Int64Type>("watermark-sent")?);
        if let Some(generator) = &mut self.generator {
            generator.restore(&mut state)?;
        }
        state.finish()
    }

    fn waits_for_time(&self) -> bool {
        false
    }

    fn event_times(&self) -> Option<(EventTime, EventTime)> {
        self.generator.as_ref()?.event_times()
    }

    fn follows_processing_time(&self) -> bool {
        let is_stamped = self.columns.iter().any(|column| matches!(column, Filled::Ingested(_)));
        is_stamped && self.generator.is_none()
    }
}

#[cfg(test)]
mod tests;
