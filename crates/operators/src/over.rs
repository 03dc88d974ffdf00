//! Aggregates over the rows before each row: OVER.

mod ends;
mod frames;
mod general;
mod numbered;
mod pending;
mod running;
mod saved;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::DataFusionError;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::{Expression, internal, row_error};
use crate::join_keys::{KeyEncoder, KeyTable};
use crate::window_rows::{check_timestamp, choose, timestamps};
use crate::{
    AggregateCall, DeadReason, DeadRows, Flow, LateRows, Operator, OperatorError, OperatorFactory,
    OperatorState, Outbox, StateError, StreamBatch,
};
use frames::{Frames, Steps};
use general::running;
use pending::{Arrived, Due, Pending};
use running::Running;

/// Aggregates over the rows before each row: `agg(…) OVER (PARTITION BY keys… ORDER BY time … PRECEDING)`. Every row
/// comes out once, with a column per aggregate behind its own.
///
/// In event time a row waits until the watermark reaches it. Rows then come in the order of their times, and rows of
/// one time in the order of their arrival.
#[derive(Clone, Debug)]
pub struct OverAggregateSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// PARTITION BY columns. May be empty. NULLs are one key.
    pub keys: Vec<usize>,
    /// The time attribute that rows are ordered by, a timestamp in milliseconds.
    pub time: usize,
    /// It is a PROCTIME(): no row is late, and only a bounded RANGE waits, until its millisecond is over.
    pub processing_time: bool,
    /// Which rows before a row count.
    pub frame: OverFrame,
    /// What to compute, without FILTER.
    pub aggregates: Vec<AggregateCall>,
}

/// The rows that count for a row, all of the same key and up to the row itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverFrame {
    /// The row and so many before it, or all.
    Rows {
        /// `None`: UNBOUNDED PRECEDING.
        preceding: Option<u64>,
    },
    /// Those of its time, which all have the same result, and those up to so many milliseconds before, or all.
    Range {
        /// `None`: UNBOUNDED PRECEDING.
        preceding_ms: Option<i64>,
    },
}

impl OverAggregateSpec {
    /// The input's columns, then one for each aggregate.
    pub fn output_schema(&self) -> SchemaRef {
        let mut fields: Vec<_> = self.input_schema.fields().iter().cloned().collect();
        fields.extend(self.aggregates.iter().map(|call| {
            let field = call.expr.field();
            Arc::new(Field::new(call.expr.name(), field.data_type().clone(), true))
        }));
        Arc::new(Schema::new(fields))
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(OverAggregate::new(&self, context.batch_rows)?)))
    }
}

/// The operator of an [`OverAggregateSpec`].
struct OverAggregate {
    name: String,
    time: usize,
    processing_time: bool,
    /// Rows are taken as they come, and nothing waits.
    at_once: bool,
    key_schema: SchemaRef,
    encoder: KeyEncoder,
    keys: KeyTable,
    frames: Frames,
    calls: Vec<Call>,
    pending: Pending,
    watermark: EventTime,
    /// The watermark up to which keys have been looked through for forgotten ones.
    swept: i64,
    output: SchemaRef,
    batch_rows: usize,
}

struct Call {
    /// As `explain` names it.
    name: String,
    arguments: Vec<Expression>,
    running: Box<dyn Running>,
}

impl OverAggregate {
    fn new(spec: &OverAggregateSpec, batch_rows: usize) -> Result<OverAggregate, OperatorError> {
        let bug = |e: DataFusionError| internal(&spec.name, e);
        check_timestamp(&spec.name, &spec.input_schema, spec.time)?;
        if spec.aggregates.iter().any(|call| call.filter.is_some()) {
            return Err(internal(&spec.name, "FILTER with OVER"));
        }
        let is_bounded = match spec.frame {
            OverFrame::Rows { preceding } => preceding.is_some(),
            OverFrame::Range { preceding_ms } => preceding_ms.is_some(),
        };
        let calls = spec.aggregates.iter().map(|call| {
            let arguments = call.expr.expressions();
            let arguments = arguments.iter().map(|argument| Expression::over(argument, &spec.input_schema));
            Ok(Call {
                name: call.expr.name().into(),
                arguments: arguments.collect::<Result<_, _>>()?,
                running: running(&call.expr, &spec.input_schema, is_bounded)?,
            })
        });
        let encoder = KeyEncoder::new(&spec.input_schema, &spec.keys);
        let waits = matches!(spec.frame, OverFrame::Range { preceding_ms: Some(_) });
        Ok(OverAggregate {
            name: spec.name.clone(),
            time: spec.time,
            processing_time: spec.processing_time,
            at_once: spec.processing_time && !waits,
            key_schema: Arc::new(spec.input_schema.project(&spec.keys).map_err(|e| internal(&spec.name, e))?),
            encoder: encoder.map_err(|e| internal(&spec.name, e))?,
            keys: KeyTable::default(),
            frames: Frames::new(match (spec.processing_time, spec.frame) {
                // As in Flink: a row that comes in the same millisecond does not change what is out.
                (true, OverFrame::Range { preceding_ms: None }) => OverFrame::Rows { preceding: None },
                (_, frame) => frame,
            }),
            calls: calls.collect::<Result<_, _>>().map_err(bug)?,
            pending: Pending::new(Arc::clone(&spec.input_schema)),
            watermark: EventTime::MIN,
            swept: i64::MIN,
            output: spec.output_schema(),
            batch_rows: batch_rows.max(1),
        })
    }

    /// Puts the rows of a batch aside until their time has come, but for those that are late.
    fn arrive(
        &mut self,
        batch: &StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<(), OperatorError> {
        let keys = self.encoder.encode(&batch.rows).map_err(|e| internal(&self.name, e))?;
        let times = timestamps(&batch.rows, self.time);
        let mut arrived = Arrived::default();
        let mut late = Vec::new();
        for row in 0..batch.num_rows() {
            let before = batch.watermark_before.as_ref().map_or(i64::MIN, |before| before[row]);
            let seen = if self.processing_time { i64::MIN } else { before.max(self.watermark.0) };
            let mut time = times.value(row);
            if self.processing_time {
                time = time.max(self.watermark.0.saturating_add(1));
            }
            let key = self.keys.intern(&keys, row);
            self.frames.resize(self.keys.len());
            if time <= seen && self.frames.is_late(key, time, seen) {
                late.push(row as u32);
                continue;
            }
            // What comes behind the watermark is taken when it rises the next time.
            let due = if time > seen { time } else { seen.saturating_add(1) };
            self.frames.accept(key, time, due, seen);
            arrived.push(row as u32, key, time, due);
        }
        if !late.is_empty() {
            let window_end = late.iter().map(|&row| times.value(row as usize).saturating_add(1)).collect();
            out.late.push(LateRows { rows: choose(&batch.rows, late), window_end });
        }
        self.pending.push(&batch.rows, arrived, ingested).map_err(|e| internal(&self.name, e))
    }

    /// Takes rows whose time has come, about one output batch per call, and forwards the watermark behind them.
    fn fire(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let whole_times = self.frames.has_peers();
        let due = self.pending.take(self.watermark.0, self.batch_rows, whole_times);
        if let Some(due) = due.map_err(|e| internal(&self.name, e))? {
            let rows = self.computed(&due.rows, &due.keys, &due.times, &due.due)?;
            let before = behind_watermark(&due);
            let last = due.times.iter().max().map(|time| EventTime(time.saturating_add(1)));
            self.put_out(StreamBatch { rows, watermark_before: before }, |batch| {
                out.result(batch, due.ingested, last);
            });
            if self.pending.is_due(self.watermark.0) {
                return Ok(Flow::More);
            }
        }
        self.sweep();
        out.watermark(self.watermark);
        Ok(Flow::Done)
    }

    /// Rows in order, with what the aggregates give for each.
    fn computed(
        &mut self,
        rows: &RecordBatch,
        keys: &[u32],
        times: &[i64],
        due: &[i64],
    ) -> Result<RecordBatch, OperatorError> {
        let steps: Steps = self.frames.step(keys, times, due);
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        for Call { arguments, running, .. } in &mut self.calls {
            let compute = || -> Result<ArrayRef, DataFusionError> {
                let arguments: Vec<ArrayRef> =
                    arguments.iter_mut().map(|argument| argument.evaluate(rows)).collect::<Result<_, _>>()?;
                let values = running.run(&arguments, &steps)?;
                Ok(match &steps.result_of {
                    Some(result_of) => arrow::compute::take(&values, result_of, None)?,
                    None => values,
                })
            };
            let mut compute = compute;
            columns.push(compute().map_err(|e| row_error(&self.name, &e))?);
        }
        RecordBatch::try_new(Arc::clone(&self.output), columns).map_err(|e| internal(&self.name, e))
    }

    fn put_out(&self, batch: StreamBatch, mut put: impl FnMut(StreamBatch)) {
        let count = batch.num_rows();
        for from in (0..count).step_by(self.batch_rows) {
            put(batch.slice(from, self.batch_rows.min(count - from)));
        }
    }

    /// Forgets keys whose last row is too old to count for any to come. No more often than that takes, so that it costs
    /// little for each row.
    fn sweep(&mut self) {
        let Some(memory_ms) = self.frames.memory_ms() else { return };
        if self.watermark.0 < self.swept.saturating_add(memory_ms) {
            return;
        }
        self.swept = self.watermark.0;
        let kept = self.frames.kept(self.watermark.0, self.pending.waiting().map(|(key, ..)| key));
        if kept.len() == self.keys.len() {
            return;
        }
        let mut new_ids = vec![u32::MAX; self.keys.len()];
        kept.iter().enumerate().for_each(|(new, &old)| new_ids[old as usize] = new as u32);
        self.keys.keep(&kept);
        self.frames.keep(&kept);
        self.pending.renumber(&new_ids);
        self.calls.iter_mut().for_each(|call| call.running.keep(&kept));
    }
}

/// The watermark before each row where some row is behind the last one sent: `None` otherwise.
fn behind_watermark(due: &Due) -> Option<arrow::buffer::ScalarBuffer<i64>> {
    let is_behind = due.times.iter().zip(&due.due).any(|(time, due)| time < due);
    is_behind.then(|| due.due.iter().map(|due| due.saturating_sub(1)).collect())
}

impl Operator for OverAggregate {
    fn on_batch(
        &mut self,
        _input: usize,
        mut batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let times = timestamps(&batch.rows, self.time);
        if times.null_count() > 0 {
            let (nulls, rest): (Vec<u32>, Vec<u32>) =
                (0..batch.num_rows() as u32).partition(|&row| times.is_null(row as usize));
            out.dead.push(DeadRows { rows: choose(&batch.rows, nulls), reason: DeadReason::NullTime });
            let before = batch.watermark_before.map(|b| rest.iter().map(|&row| b[row as usize]).collect());
            batch = StreamBatch { rows: choose(&batch.rows, rest), watermark_before: before };
        }
        if batch.num_rows() == 0 {
            return Ok(Flow::Done);
        }
        if !self.at_once {
            self.arrive(&batch, ingested, out)?;
            return Ok(Flow::Done);
        }
        let keys = self.encoder.encode(&batch.rows).map_err(|e| internal(&self.name, e))?;
        let keys: Vec<u32> = (0..batch.num_rows()).map(|row| self.keys.intern(&keys, row)).collect();
        self.frames.resize(self.keys.len());
        let times = timestamps(&batch.rows, self.time).values().to_vec();
        let rows = self.computed(&batch.rows, &keys, &times, &times)?;
        self.put_out(StreamBatch { rows, ..batch }, |batch| out.batch(batch));
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.watermark = self.watermark.max(watermark);
        self.fire(out)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if !self.pending.is_due(self.watermark.0) {
            return Ok(Flow::Done);
        }
        self.fire(out)
    }

    fn waits_for_time(&self) -> bool {
        !self.at_once
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.saved()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.restored(state)
    }

    fn state_bytes(&self) -> usize {
        let running: usize = self.calls.iter().map(|call| call.running.bytes()).sum();
        self.keys.size_bytes() + self.frames.bytes() + self.pending.bytes() + running
    }
}

#[cfg(test)]
mod tests;
