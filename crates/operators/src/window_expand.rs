//! Windows as columns, for queries that do not aggregate them at once: joins of windows, Top-N, several aggregations
//! over one.

use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_arrays;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use laxity_graph::{EventTime, ProcessingTime};

use crate::expression::internal;
use crate::state::named;
use crate::window_rows::{check_timestamp, choose, timestamp_column, timestamps};
use crate::{
    DeadReason, DeadRows, Flow, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError,
    StreamBatch, WindowKind,
};

/// The windowing table function by itself: each row once per window that holds it, with `window_start`,
/// `window_end` and `window_time` (end - 1 ms, the new event-time attribute) appended.
///
/// As in Flink it drops nothing: whether a row is late is for the windowed operator behind it to say, from the
/// watermark that travels with each row.
#[derive(Clone, Debug)]
pub struct WindowExpandSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// The event-time attribute, a timestamp in milliseconds.
    pub time: usize,
    /// The time attribute is a PROCTIME(): no row is ever late, it counts for the windows that are open when it
    /// comes.
    pub processing_time: bool,
    /// Tumble, hop or cumulate. For sessions there is [`SessionExpandSpec`](crate::SessionExpandSpec).
    pub window: WindowKind,
}

impl WindowExpandSpec {
    /// The input's columns, then `window_start`, `window_end` (timestamps without zone) and `window_time` (of
    /// the type of the time attribute, with its field metadata).
    pub fn output_schema(&self) -> SchemaRef {
        expanded_schema(&self.input_schema, self.time)
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(WindowExpand::new(&self, context.batch_rows)?)))
    }
}

/// The columns of `input`, then those of the window.
pub(crate) fn expanded_schema(input: &Schema, time: usize) -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    let mut fields: Vec<_> = input.fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("window_start", timestamp.clone(), false)));
    fields.push(Arc::new(Field::new("window_end", timestamp, false)));
    fields.push(Arc::new(input.field(time).clone().with_name("window_time").with_nullable(false)));
    Arc::new(Schema::new(fields))
}

/// The operator of a [`WindowExpandSpec`].
#[derive(Debug)]
struct WindowExpand {
    name: String,
    time: usize,
    processing_time: bool,
    window: WindowKind,
    watermark: EventTime,
    output: SchemaRef,
    batch_rows: usize,
    pending: Option<Pending>,
}

/// A batch being expanded.
#[derive(Debug)]
struct Pending {
    batch: StreamBatch,
    row: usize,
    /// How many windows of that row are out.
    window: usize,
}

impl WindowExpand {
    fn new(spec: &WindowExpandSpec, batch_rows: usize) -> Result<WindowExpand, OperatorError> {
        check_timestamp(&spec.name, &spec.input_schema, spec.time)?;
        if matches!(spec.window, WindowKind::Session { .. }) {
            return Err(internal(&spec.name, "a session has no windows row by row"));
        }
        Ok(WindowExpand {
            name: spec.name.clone(),
            time: spec.time,
            processing_time: spec.processing_time,
            window: spec.window,
            watermark: EventTime::MIN,
            output: spec.output_schema(),
            batch_rows: batch_rows.max(1),
            pending: None,
        })
    }

    fn expand(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let Some(Pending { batch, mut row, mut window }) = self.pending.take() else { return Ok(Flow::Done) };
        let times = timestamps(&batch.rows, self.time).values();
        let earliest = if self.processing_time { self.watermark.0.saturating_add(1) } else { i64::MIN };
        let wanted =
            self.batch_rows.min(batch.num_rows().saturating_mul(self.window.assign(times[row]).len()));
        let mut rows = Vec::with_capacity(wanted);
        let (mut starts, mut ends) = (Vec::with_capacity(wanted), Vec::with_capacity(wanted));
        while row < batch.num_rows() && rows.len() < self.batch_rows {
            let mut windows = self.window.assign(times[row].max(earliest)).skip(window);
            let left = windows.len();
            for (start, end) in windows.by_ref().take(self.batch_rows - rows.len()) {
                rows.push(row as u32);
                starts.push(start);
                ends.push(end);
            }
            if windows.len() > 0 {
                window += left - windows.len();
                break;
            }
            (row, window) = (row + 1, 0);
        }
        if !rows.is_empty() {
            out.batch(self.output(&batch, rows, starts, ends)?);
        }
        if row == batch.num_rows() {
            return Ok(Flow::Done);
        }
        self.pending = Some(Pending { batch, row, window });
        Ok(Flow::More)
    }

    fn output(
        &self,
        batch: &StreamBatch,
        rows: Vec<u32>,
        starts: Vec<i64>,
        ends: Vec<i64>,
    ) -> Result<StreamBatch, OperatorError> {
        let count = rows.len();
        // Rows are ascending, so these are all rows of the batch in order: a tumbling window copies nothing.
        let is_whole = count == batch.num_rows() && rows.windows(2).all(|pair| pair[0] < pair[1]);
        let rows = UInt32Array::from(rows);
        let (mut columns, watermark_before) = if is_whole {
            (batch.rows.columns().to_vec(), batch.watermark_before.clone())
        } else {
            let columns =
                take_arrays(batch.rows.columns(), &rows, None).map_err(|e| internal(&self.name, e))?;
            let before = batch.watermark_before.as_ref();
            let before = before.map(|b| rows.values().iter().map(|&row| b[row as usize]).collect());
            (columns, before)
        };
        let type_of = |nth: usize| self.output.field(batch.rows.num_columns() + nth).data_type();
        let times = ends.iter().map(|end| end.saturating_sub(1)).collect();
        columns.push(timestamp_column(starts, type_of(0)));
        columns.push(timestamp_column(ends, type_of(1)));
        columns.push(timestamp_column(times, type_of(2)));
        let rows =
            RecordBatch::try_new(Arc::clone(&self.output), columns).map_err(|e| internal(&self.name, e))?;
        Ok(StreamBatch { rows, watermark_before })
    }
}

impl Operator for WindowExpand {
    fn on_batch(
        &mut self,
        _input: usize,
        mut batch: StreamBatch,
        _ingested: ProcessingTime,
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
        if self.processing_time {
            batch.watermark_before = None;
        }
        self.pending = Some(Pending { batch, row: 0, window: 0 });
        self.expand(out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.watermark = self.watermark.max(watermark);
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.expand(out)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        OperatorState::default()
            .with("window-expand", vec![named("watermark", Int64Array::from(vec![self.watermark.0]))])
    }

    fn restore(&mut self, mut state: OperatorState) -> Result<(), StateError> {
        self.watermark = EventTime(state.take("window-expand")?.only::<Int64Type>("watermark")?);
        state.finish()
    }

    fn state_bytes(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.batch.rows.get_array_memory_size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Emitted;
    use arrow::array::{ArrayRef, TimestampMillisecondArray};

    fn input(times: &[Option<i64>], before: Option<Vec<i64>>) -> StreamBatch {
        let numbers: Int64Array = (0..times.len() as i64).collect();
        let times: TimestampMillisecondArray = times.iter().copied().collect();
        let columns = [
            ("n", Arc::new(numbers) as ArrayRef, false),
            ("ts", Arc::new(times.with_timezone("UTC")) as _, true),
        ];
        StreamBatch {
            rows: RecordBatch::try_from_iter_with_nullable(columns).unwrap(),
            watermark_before: before.map(Into::into),
        }
    }

    type Row = (i64, i64, i64, i64, Option<i64>);

    /// Rows as (n, start, end, window_time, watermark before), and the sizes of the batches they came in.
    fn run(window: WindowKind, batch_rows: usize, batch: &StreamBatch) -> (Vec<Row>, Vec<usize>, Outbox) {
        let spec = WindowExpandSpec {
            name: "w".into(),
            input_schema: batch.rows.schema(),
            time: 1,
            processing_time: false,
            window,
        };
        let mut operator = WindowExpand::new(&spec, batch_rows).unwrap();
        let mut out = Outbox::default();
        let mut flow = operator.on_batch(0, batch.clone(), ProcessingTime::ZERO, &mut out).unwrap();
        while flow == Flow::More {
            flow = operator.resume(&mut out).unwrap();
        }
        let (mut rows, mut sizes) = (Vec::new(), Vec::new());
        for emitted in &out.emitted {
            let Emitted::Batch { batch, .. } = emitted else { panic!("{emitted:?}") };
            assert_eq!(batch.rows.schema(), spec.output_schema());
            let number =
                arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.rows.column(0));
            let time = |column| timestamps(&batch.rows, column).values();
            for i in 0..batch.num_rows() {
                let before = batch.watermark_before.as_ref().map(|b| b[i]);
                rows.push((number.value(i), time(2)[i], time(3)[i], time(4)[i], before));
            }
            sizes.push(batch.num_rows());
        }
        (rows, sizes, out)
    }

    #[test]
    fn tumble_appends_columns() {
        let window = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
        let (rows, _, _) = run(window, 100, &input(&[Some(5), Some(10)], Some(vec![1, 2])));
        assert_eq!(rows, [(0, 0, 10, 9, Some(1)), (1, 10, 20, 19, Some(2))]);
    }

    #[test]
    fn hop_repeats_rows_and_their_watermarks() {
        let window = WindowKind::Hop { size_ms: 10, slide_ms: 5, offset_ms: 0 };
        let (rows, sizes, _) = run(window, 3, &input(&[Some(5), Some(12)], Some(vec![1, 2])));
        assert_eq!(
            rows,
            [
                (0, 0, 10, 9, Some(1)),
                (0, 5, 15, 14, Some(1)),
                (1, 5, 15, 14, Some(2)),
                (1, 10, 20, 19, Some(2))
            ]
        );
        assert_eq!(sizes, [3, 1]);
    }

    #[test]
    fn a_row_of_many_windows_is_cut() {
        let window = WindowKind::Cumulate { max_ms: 1_000, step_ms: 1, offset_ms: 0 };
        let (rows, sizes, _) = run(window, 64, &input(&[Some(10), Some(2_000)], None));
        assert_eq!(rows.len(), 990 + 1_000);
        assert!(sizes.iter().rev().skip(1).all(|&size| size == 64));
        let ends: Vec<i64> = rows.iter().map(|row| row.2).collect();
        assert_eq!(ends, (11..=1_000).chain(2_001..=3_000).collect::<Vec<_>>());
    }

    #[test]
    fn rows_without_time_are_dead_and_rows_in_a_gap_vanish() {
        let window = WindowKind::Hop { size_ms: 2, slide_ms: 5, offset_ms: 0 };
        let (rows, _, out) =
            run(window, 100, &input(&[None, Some(3), Some(6), None], Some(vec![0, 1, 2, 3])));
        assert_eq!(rows, [(2, 5, 7, 6, Some(2))]);
        assert_eq!(out.dead[0].rows.num_rows(), 2);
        let (rows, _, out) = run(window, 100, &input(&[None], None));
        assert_eq!((rows.len(), out.dead.len()), (0, 1));
    }

    #[test]
    fn processing_time_is_never_behind_the_watermark() {
        let batch = input(&[Some(5), Some(12)], Some(vec![20, 20]));
        let window = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
        let schema = batch.rows.schema();
        let spec = WindowExpandSpec {
            name: "w".into(),
            input_schema: schema,
            time: 1,
            processing_time: true,
            window,
        };
        let mut operator = WindowExpand::new(&spec, 10).unwrap();
        let mut out = Outbox::default();
        assert_eq!(operator.on_watermark(EventTime(10), &mut out).unwrap(), Flow::Done);
        assert_eq!(operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap(), Flow::Done);
        let Some(Emitted::Batch { batch, .. }) = out.emitted.last() else { panic!("{out:?}") };
        assert_eq!(timestamps(&batch.rows, 2).values(), &[10, 10]);
        assert!(batch.watermark_before.is_none());
    }
}
