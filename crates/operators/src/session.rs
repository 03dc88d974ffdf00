//! GROUP BY over SESSION; windows that rows make, and not the clock, so they are joined as rows between them come.

mod sessions;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, TimestampMillisecondArray, UInt32Array, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion_common::DataFusionError;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::{internal, row_error};
use crate::groups::{Aggregation, Inputs, Taken};
use crate::join_keys::KeyEncoder;
use crate::row_times::{timestamps, without_null_times};
use crate::state::named;
use crate::{
    Flow, LateRows, Operator, OperatorError, OperatorState, Outbox, StateError, StreamBatch,
    WindowAggregateSpec, WindowInput,
};
use sessions::{Arrival, Evaluated, Fate, SessionId, Sessions};

/// Aggregation over session windows: rows of one key that follow each other within a gap.
///
/// Flink's rule: a row makes a window `[time, time + gap)`, which merges with every window of its key that it
/// overlaps or touches and that has not closed; the row is late if the window so made has closed. A window is
/// closed when `end - 1 <= watermark before the row`, so that results do not depend on how rows are cut into
/// batches. (Where rows of sources with different watermarks meet, they do depend on the order of arrival.)
///
/// Sums of floating-point numbers may differ in their last bits with the cutting of batches.
pub(crate) struct SessionAggregate {
    name: String,
    time_column: usize,
    processing_time: bool,
    aggregation: Aggregation,
    key_schema: SchemaRef,
    encoder: KeyEncoder,
    sessions: Sessions,
    output_schema: SchemaRef,
    watermark: EventTime,
    holds_watermark: bool,
    batch_rows: usize,
    inputs: Inputs,
}

impl SessionAggregate {
    /// Makes one instance that sends at most `batch_rows` rows at a time.
    ///
    /// # Errors
    /// If columns or functions do not fit the input.
    pub(crate) fn new(
        spec: &WindowAggregateSpec,
        gap_ms: i64,
        batch_rows: usize,
    ) -> Result<SessionAggregate, OperatorError> {
        let WindowInput::Assign { time_column, processing_time, .. } = spec.windows else {
            return Err(internal(&spec.name, "attached windows are no sessions"));
        };
        let fail = |e: DataFusionError| internal(&spec.name, e);
        let aggregation = Aggregation::new(&spec.input_schema, &spec.keys, &spec.aggregates).map_err(fail)?;
        Ok(SessionAggregate {
            name: spec.name.clone(),
            time_column,
            processing_time,
            key_schema: Arc::new(spec.input_schema.project(&spec.keys).map_err(|e| internal(&spec.name, e))?),
            encoder: KeyEncoder::new(&spec.input_schema, &spec.keys).map_err(|e| internal(&spec.name, e))?,
            sessions: Sessions::new(gap_ms, spec.allowed_lateness_ms.max(0), &aggregation).map_err(fail)?,
            aggregation,
            output_schema: spec.output_schema()?,
            watermark: EventTime::MIN,
            holds_watermark: false,
            batch_rows: batch_rows.max(1),
            inputs: Inputs::default(),
        })
    }

    fn add(
        &mut self,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<(), DataFusionError> {
        let batch = without_null_times(batch, &[self.time_column], out)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = timestamps(batch.rows.column(self.time_column))?;
        let before = batch.watermark_before.as_deref();
        if self.aggregation.plain(&batch.rows).is_none() {
            self.aggregation.evaluate(&batch.rows, &mut self.inputs)?;
        }
        let taken = self.aggregation.plain(&batch.rows).unwrap_or(Taken::Evaluated(&self.inputs));
        let keys = self.encoder.encode(&batch.rows)?;
        let (mut late, mut ends) = (Vec::new(), Vec::new());
        for (row, &time) in times.iter().enumerate() {
            let seen = before.map_or(self.watermark.0, |before| before[row].max(self.watermark.0));
            let time = if self.processing_time { time.max(seen.saturating_add(1)) } else { time };
            let arrival = Arrival { row, time, seen, ingested };
            if let Fate::Late(end) = self.sessions.place(&keys, arrival, taken)? {
                late.push(row as u32);
                ends.push(end);
            }
        }
        self.sessions.add(taken)?;
        if !late.is_empty() {
            let rows = take_record_batch(&batch.rows, &UInt32Array::from(late))?;
            out.late.push(LateRows { rows, window_end: Int64Array::from(ends) });
        }
        Ok(())
    }

    /// Sends one batch of sessions, or the watermark when none is left.
    fn advance(&mut self, out: &mut Outbox) -> Result<Flow, DataFusionError> {
        let mut due: Vec<SessionId> = Vec::new();
        while due.len() < self.batch_rows {
            let Some(id) = self.sessions.next_due(self.watermark) else { break };
            due.push(id);
        }
        let is_full = due.len() == self.batch_rows;
        if !due.is_empty() {
            self.send(&due, out)?;
        }
        if is_full {
            return Ok(Flow::More);
        }
        if self.holds_watermark {
            self.holds_watermark = false;
            self.sessions.forget(self.watermark)?;
            out.watermark(self.watermark);
        }
        Ok(Flow::Done)
    }

    fn send(&mut self, due: &[SessionId], out: &mut Outbox) -> Result<(), DataFusionError> {
        let Evaluated { mut columns, starts, ends, ingested, is_update } =
            self.sessions.evaluate(due, &self.encoder)?;
        let last_end = ends.iter().max().map(|end| EventTime(*end));
        let last = ends.iter().map(|end| end.saturating_sub(1)).collect::<Vec<_>>();
        for times in [starts, ends, last] {
            let data_type = self.output_schema.field(columns.len()).data_type().clone();
            columns.push(Arc::new(TimestampMillisecondArray::from(times).with_data_type(data_type)));
        }
        let mut batch = StreamBatch::on_time(RecordBatch::try_new(Arc::clone(&self.output_schema), columns)?);
        // The watermark that closed them has been sent on: a window made of allowed late rows comes behind it too.
        if is_update || !self.holds_watermark {
            batch.watermark_before = Some(vec![self.watermark.0; batch.num_rows()].into());
        }
        out.result(batch, ingested, last_end);
        Ok(())
    }

    fn fail(&self, error: &DataFusionError) -> OperatorError {
        row_error(&self.name, error)
    }
}

impl Operator for SessionAggregate {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.add(batch, ingested, out).map_err(|e| self.fail(&e))?;
        if !self.sessions.has_due(self.watermark) {
            return Ok(Flow::Done);
        }
        self.advance(out).map_err(|e| self.fail(&e))
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if watermark <= self.watermark {
            return Ok(Flow::Done);
        }
        self.watermark = watermark;
        self.holds_watermark = true;
        self.advance(out).map_err(|e| self.fail(&e))
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.advance(out).map_err(|e| self.fail(&e))
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        let state = OperatorState::default().with(
            "session-aggregate",
            vec![
                named("watermark", Int64Array::from(vec![self.watermark.0])),
                named("sessions", UInt64Array::from(vec![self.sessions.len() as u64])),
                self.sessions.free_numbers(),
            ],
        )?;
        self.sessions.save(state, &self.name, &self.encoder, &self.key_schema)
    }

    fn restore(&mut self, mut state: OperatorState) -> Result<(), StateError> {
        let own = state.take("session-aggregate")?;
        self.watermark = EventTime(own.only::<Int64Type>("watermark")?);
        self.sessions.restore(&mut state, &own, &self.name, &self.encoder, &self.key_schema)?;
        state.finish()
    }

    fn state_bytes(&self) -> usize {
        self.sessions.bytes()
    }
}
