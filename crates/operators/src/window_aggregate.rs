//! GROUP BY over TUMBLE, HOP, CUMULATE and windows that rows bring with them. The state stands in parts, how rows find
//! theirs in `placement`, how windows go out in `firing`.

mod firing;
mod of_slices;
mod parts;
mod placement;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimeUnit};
use datafusion_common::DataFusionError;
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::{internal, row_error};
use crate::groups::{Aggregation, Inputs, Taken};
use crate::operator::FEW_ROWS_MAX;
use crate::row_times::{timestamps, without_null_times};
use crate::session::SessionAggregate;
use crate::slices::Slicing;
use crate::state::named;
use crate::{
    AggregateCall, Flow, LateRows, Operator, OperatorError, OperatorFactory, OperatorState, Outbox,
    StateError, StreamBatch, WindowKind,
};
use firing::Firing;
pub use of_slices::GroupsOfSlice;
pub(crate) use parts::saved::runs_of_groups;
use parts::{PartKey, Parts};
use placement::{Placed, Placer, Rows};

/// A windowed GROUP BY.
#[derive(Clone, Debug)]
pub struct WindowAggregateSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns that come in.
    pub input_schema: SchemaRef,
    /// Which window a row is in.
    pub windows: WindowInput,
    /// Columns to group by, besides the window. None: one group per window, and nothing for an empty window.
    pub keys: Vec<usize>,
    /// The aggregate functions.
    pub aggregates: Vec<AggregateCall>,
    /// How long after its watermark a window still takes rows. Each batch with such rows sends the groups it
    /// changed once more; the last version of a group is the one that counts.
    pub allowed_lateness_ms: i64,
}

/// Where the windows of a row come from.
#[derive(Clone, Debug)]
pub enum WindowInput {
    /// From its time.
    Assign {
        /// A `TIMESTAMP(3)` column, with a time zone or without.
        time_column: usize,
        /// How time is cut.
        window: WindowKind,
        /// The column is a PROCTIME(): no row is ever late, it counts for the window that is open when it comes.
        processing_time: bool,
    },
    /// From two `TIMESTAMP(3)` columns that a windowed operator before this one has added.
    Attached {
        /// The window's start.
        start_column: usize,
        /// The window's end.
        end_column: usize,
    },
}

impl WindowAggregateSpec {
    /// Columns that go out: keys, results of the aggregates, then `window_start`, `window_end` and
    /// `window_time` (the last millisecond of the window: the time attribute of the result).
    ///
    /// # Errors
    /// If a key is not a column of the input.
    pub fn output_schema(&self) -> Result<SchemaRef, OperatorError> {
        let keys = self.input_schema.project(&self.keys).map_err(|e| internal(&self.name, e))?;
        let results = self.aggregates.iter().map(|call| call.expr.field());
        let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
        let time_type = match &self.windows {
            WindowInput::Assign { time_column, .. } => {
                self.input_schema.field(*time_column).data_type().clone()
            }
            WindowInput::Attached { .. } => timestamp.clone(),
        };
        let window = [
            Field::new("window_start", timestamp.clone(), false),
            Field::new("window_end", timestamp, false),
            Field::new("window_time", time_type, false),
        ];
        let fields = keys.fields().iter().cloned().chain(results).chain(window.map(Arc::new));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>())))
    }

    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| match self.windows {
            WindowInput::Assign { window: WindowKind::Session { gap_ms }, .. } => {
                Ok(Box::new(SessionAggregate::new(&self, gap_ms, context.batch_rows)?))
            }
            _ => Ok(Box::new(WindowAggregate::new(&self, context.batch_rows)?)),
        })
    }
}

/// Windowed aggregation over tumbling, hopping, cumulating and attached windows.
///
/// Rows are aggregated once, into the *part* that they belong to: a slice of time, or within it
/// the rows that came too late for the first of its windows and in time for others. A window's result is the
/// merge of the parts it sees. Results of one window go out together, those of an earlier end first.
pub struct WindowAggregate {
    name: String,
    windows: WindowInput,
    aggregation: Aggregation,
    output_schema: SchemaRef,
    placer: Placer,
    parts: Parts,
    watermark: EventTime,
    /// Whether `watermark` is still to be forwarded.
    holds_watermark: bool,
    /// The window being sent.
    firing: Option<Firing>,
    /// Windows to send once more because of allowed late rows, with the keys that changed.
    again: VecDeque<(Window, Vec<ArrayRef>)>,
    batch_rows: usize,
    allowed_lateness_ms: i64,
    /// Reused from batch to batch.
    inputs: Inputs,
    scratch: Vec<usize>,
    clamped: Vec<i64>,
}

/// A window `[start, end)`. Ordered as windows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Window {
    end: i64,
    start: i64,
}

/// How windows are cut.
#[derive(Clone, Copy, Debug)]
enum Windowing {
    Sliced(Slicing),
    Attached,
}

impl WindowAggregate {
    /// Makes one instance that sends at most `batch_rows` rows at a time.
    ///
    /// # Errors
    /// If columns or functions do not fit the input, or the window is a session.
    pub fn new(spec: &WindowAggregateSpec, batch_rows: usize) -> Result<WindowAggregate, OperatorError> {
        let windowing = match &spec.windows {
            WindowInput::Assign { window, .. } => {
                let slicing =
                    Slicing::new(*window).ok_or_else(|| internal(&spec.name, "sessions have no slices"))?;
                Windowing::Sliced(slicing)
            }
            WindowInput::Attached { .. } => Windowing::Attached,
        };
        let aggregation = Aggregation::new(&spec.input_schema, &spec.keys, &spec.aggregates);
        Ok(WindowAggregate {
            name: spec.name.clone(),
            windows: spec.windows.clone(),
            aggregation: aggregation.map_err(|e| internal(&spec.name, e))?,
            output_schema: spec.output_schema()?,
            placer: Placer::new(windowing, spec.allowed_lateness_ms.max(0)),
            parts: Parts::new(windowing, spec.allowed_lateness_ms.max(0)),
            watermark: EventTime::MIN,
            holds_watermark: false,
            firing: None,
            again: VecDeque::new(),
            batch_rows: batch_rows.max(1),
            inputs: Inputs::default(),
            scratch: Vec::new(),
            clamped: Vec::new(),
            allowed_lateness_ms: spec.allowed_lateness_ms.max(0),
        })
    }

    fn add(
        &mut self,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<(), DataFusionError> {
        let columns = match self.windows {
            WindowInput::Assign { time_column, .. } => [time_column, time_column],
            WindowInput::Attached { start_column, end_column } => [start_column, end_column],
        };
        let batch = without_null_times(batch, &columns, out)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let placed = self.place(&batch)?;
        let rows = batch.num_rows();
        // Few rows go to their parts one by one; more are gathered first, which takes arrays of them.
        let is_few = rows <= FEW_ROWS_MAX && self.allowed_lateness_ms == 0;
        let plain = is_few || matches!(placed, Placed::One(_));
        let taken = match self.aggregation.plain(&batch.rows).filter(|_| plain) {
            Some(taken) => taken,
            None => {
                self.aggregation.evaluate(&batch.rows, &mut self.inputs)?;
                Taken::Evaluated(&self.inputs)
            }
        };
        let (parts, scratch) = (&mut self.parts, &mut self.scratch);
        let aggregation = &self.aggregation;
        let mut add = |key: PartKey, taken: Taken<'_>, rows: Range<usize>| {
            parts.update(key, aggregation, taken, rows.clone(), ingested, scratch)?;
            for window in parts.sent_windows(key, self.watermark) {
                self.again.push_back((window, taken.key_arrays(rows.clone())));
            }
            Ok::<(), DataFusionError>(())
        };
        let Placed::One(key) = placed else {
            for (key, rows) in self.placer.slots() {
                match rows {
                    Rows::Run(offset, length) => add(key, taken, offset..offset + length)?,
                    Rows::Scattered(rows) if is_few => {
                        rows.iter().try_for_each(|&row| add(key, taken, row as usize..row as usize + 1))?;
                    }
                    Rows::Scattered(rows) => {
                        let inputs = self.inputs.take(&UInt32Array::from(rows.to_vec()))?;
                        add(key, Taken::Evaluated(&inputs), 0..rows.len())?;
                    }
                }
            }
            return send_late(&self.placer, &batch.rows, out);
        };
        add(key, taken, 0..rows)
    }

    fn place(&mut self, batch: &StreamBatch) -> Result<Placed, DataFusionError> {
        let column = |i: usize| timestamps(batch.rows.column(i));
        let before = batch.watermark_before.as_deref();
        Ok(match self.windows {
            WindowInput::Assign { time_column, processing_time, .. } => {
                let mut times = column(time_column)?;
                if processing_time {
                    let open = self.watermark.0.saturating_add(1);
                    self.clamped.clear();
                    self.clamped.extend(times.iter().map(|&time| time.max(open)));
                    times = &self.clamped;
                }
                self.placer.place(times, times, before, self.watermark.0)
            }
            WindowInput::Attached { start_column, end_column } => {
                self.placer.place(column(end_column)?, column(start_column)?, before, self.watermark.0)
            }
        })
    }

    /// Sends windows until nothing is left or about `batch_rows` groups were handled.
    fn advance(&mut self, out: &mut Outbox) -> Result<Flow, DataFusionError> {
        let mut budget = self.batch_rows;
        loop {
            if let Some(firing) = &mut self.firing {
                let context = firing::Context {
                    aggregation: &self.aggregation,
                    schema: &self.output_schema,
                    watermark: self.watermark,
                    batch_rows: self.batch_rows,
                };
                if !firing.step(&context, &mut self.parts, &mut budget, &mut self.scratch, out)? {
                    return Ok(Flow::More);
                }
                self.firing = None;
                self.parts.prune(self.watermark);
            } else if let Some((window, keys)) = self.again.pop_front() {
                let merges = self.parts.merges(window, false, &self.aggregation)?;
                self.firing = Some(Firing::new(window, merges, Some(keys)));
            } else if let Some(window) = self.parts.next_window(self.watermark) {
                let merges = self.parts.merges(window, true, &self.aggregation)?;
                self.firing = Some(Firing::new(window, merges, None));
            } else {
                break;
            }
            if budget == 0 {
                return Ok(Flow::More);
            }
        }
        if self.holds_watermark {
            self.holds_watermark = false;
            self.parts.close(self.watermark);
            out.watermark(self.watermark);
        }
        Ok(Flow::Done)
    }

    fn fail(&self, error: &DataFusionError) -> OperatorError {
        row_error(&self.name, error)
    }
}

impl Operator for WindowAggregate {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.add(batch, ingested, out).map_err(|e| self.fail(&e))?;
        if self.again.is_empty() {
            return Ok(Flow::Done);
        }
        self.advance(out).map_err(|e| self.fail(&e))
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        if watermark <= self.watermark {
            return Ok(Flow::Done);
        }
        self.watermark = watermark;
        if self.parts.pass(watermark) {
            out.watermark(watermark);
            return Ok(Flow::Done);
        }
        self.holds_watermark = true;
        self.advance(out).map_err(|e| self.fail(&e))
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.advance(out).map_err(|e| self.fail(&e))
    }

    fn on_groups(&mut self, groups: &GroupsOfSlice) -> Result<bool, OperatorError> {
        self.merge(groups).map_err(|e| self.fail(&e))?;
        Ok(true)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        let state = OperatorState::default()
            .with("window-aggregate", vec![named("watermark", Int64Array::from(vec![self.watermark.0]))])?;
        self.parts.save(state, &self.name, &self.aggregation)
    }

    fn restore(&mut self, mut state: OperatorState) -> Result<(), StateError> {
        self.watermark = EventTime(state.take("window-aggregate")?.only::<Int64Type>("watermark")?);
        self.parts.restore(&mut state, &self.name, &self.aggregation)?;
        state.finish()
    }

    fn state_bytes(&self) -> usize {
        self.parts.bytes() + self.firing.as_ref().map_or(0, Firing::bytes)
    }
}

/// Sends rows on that came too late for every window.
fn send_late(placer: &Placer, rows: &RecordBatch, out: &mut Outbox) -> Result<(), DataFusionError> {
    let (late, ends) = placer.late();
    if !late.is_empty() {
        let rows = take_record_batch(rows, &UInt32Array::from(late.to_vec()))?;
        out.late.push(LateRows { rows, window_end: Int64Array::from(ends.to_vec()) });
    }
    Ok(())
}
