//! The runtime with real rows, as the engine runs it: what joins its generic parts to `laxity-operators`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef, TimestampMillisecondType};
use arrow::error::ArrowError;
use laxity_graph::{Approximation, Emitted, EventClock, EventTime, Flow, ProcessingTime, fetch};
use laxity_operators::{
    Access, ByMember, DeadRows, FilledRows, HashPartitioner, LateColumn, LateRows, Operator, OperatorError,
    OperatorState, Outbox, OwnConstants, SavedTemplate, SharedSource, SharedSourceSpec, Slices, StateError,
    StreamBatch, WindowsState,
};

use crate::{Content, Filled, Front, Slicer, Template};

/// Rows are Arrow batches, operators those of `laxity-operators`.
#[derive(Debug)]
pub struct ArrowRows;

/// A late table: its columns, and what each is filled with.
#[derive(Clone, Debug)]
pub struct LateShape {
    /// The table's.
    pub schema: SchemaRef,
    /// One for each of its columns.
    pub columns: Vec<LateColumn>,
}

impl Content for ArrowRows {
    type Batch = StreamBatch;
    type Operator = Box<dyn Operator>;
    type Outbox = Outbox;
    type Partitioner = HashPartitioner;
    type Late = LateRows;
    type LateShape = LateShape;
    type Dead = DeadRows;
    type Front = SharedSource;
    type Template = Arc<laxity_operators::Template>;
    type State = OperatorState;
    type Error = OperatorError;

    fn rows(batch: &StreamBatch) -> u32 {
        batch.num_rows() as u32
    }

    fn bytes(batch: &StreamBatch) -> u64 {
        batch_bytes(&batch.rows)
    }

    fn slice(batch: &StreamBatch, offset: usize, rows: usize) -> StreamBatch {
        batch.slice(offset, rows)
    }

    fn concat(batches: &[&StreamBatch]) -> Result<StreamBatch, OperatorError> {
        concat(batches).map_err(|error| internal("merge", &error))
    }

    fn split(
        partitioner: &mut HashPartitioner,
        batch: &StreamBatch,
    ) -> Result<Vec<Option<StreamBatch>>, OperatorError> {
        partitioner.split(batch)
    }

    #[inline]
    fn on_batch(
        operator: &mut Box<dyn Operator>,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        outbox: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        operator.on_batch(input, batch, ingested, outbox)
    }

    #[inline]
    fn on_watermark(
        operator: &mut Box<dyn Operator>,
        watermark: EventTime,
        outbox: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        operator.on_watermark(watermark, outbox)
    }

    #[inline]
    fn resume(operator: &mut Box<dyn Operator>, outbox: &mut Outbox) -> Result<Flow, OperatorError> {
        operator.resume(outbox)
    }

    fn save(operator: &mut Box<dyn Operator>) -> Result<OperatorState, String> {
        operator.save().map_err(|error| error.to_string())
    }

    fn restore(operator: &mut Box<dyn Operator>, state: OperatorState) -> Result<(), String> {
        operator.restore(state).map_err(|error| error.to_string())
    }

    fn on_event_clock(operator: &mut Box<dyn Operator>, clock: EventClock) {
        operator.on_event_clock(clock);
    }

    fn keeps_time(operator: &Box<dyn Operator>) -> bool {
        operator.keeps_time()
    }

    fn arrival_step_ms(operator: &Box<dyn Operator>) -> Option<i64> {
        operator.arrival_step_ms()
    }

    fn on_overload(operator: &mut Box<dyn Operator>, is_overloaded: bool) {
        operator.on_overload(is_overloaded);
    }

    fn on_time(
        operator: &mut Box<dyn Operator>,
        now: ProcessingTime,
        outbox: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        operator.on_time(now, outbox)
    }

    fn approximation(operator: &Box<dyn Operator>) -> Option<Approximation> {
        operator.approximation()
    }

    fn wake_at(operator: &Box<dyn Operator>) -> Option<ProcessingTime> {
        operator.wake_at()
    }

    fn fetch(operator: &Box<dyn Operator>) {
        fetch(&**operator);
        operator.fetch();
    }

    fn state_bytes(operator: &Box<dyn Operator>) -> u64 {
        operator.state_bytes() as u64
    }

    fn event_times(operator: &Box<dyn Operator>) -> Option<(EventTime, EventTime)> {
        operator.event_times()
    }

    fn follows_processing_time(operator: &Box<dyn Operator>) -> bool {
        operator.follows_processing_time()
    }

    fn waits_for_time(operator: &Box<dyn Operator>) -> bool {
        operator.waits_for_time()
    }

    fn ended() -> Box<dyn Operator> {
        Box::new(Ended)
    }

    #[inline]
    fn emitted(outbox: &mut Outbox) -> &mut Vec<Emitted<StreamBatch>> {
        &mut outbox.emitted
    }

    #[inline]
    fn late(outbox: &mut Outbox) -> &mut Vec<LateRows> {
        &mut outbox.late
    }

    #[inline]
    fn dead(outbox: &mut Outbox) -> &mut Vec<DeadRows> {
        &mut outbox.dead
    }

    fn late_windows(late: &LateRows) -> impl Iterator<Item = (i64, u64)> {
        late.window_end.values().iter().map(|&end| (end, 1))
    }

    fn late_rows(late: &LateRows, shape: &LateShape) -> Result<StreamBatch, OperatorError> {
        let columns = shape.columns.iter().zip(shape.schema.fields()).map(|(column, field)| {
            let values: ArrayRef = match *column {
                LateColumn::Input(index) => late.rows.column(index).clone(),
                LateColumn::WindowEnd => {
                    Arc::new(late.window_end.clone().reinterpret_cast::<TimestampMillisecondType>())
                }
            };
            arrow::compute::cast(&values, field.data_type())
        });
        columns
            .collect::<Result<Vec<ArrayRef>, _>>()
            .and_then(|columns| RecordBatch::try_new(shape.schema.clone(), columns))
            .map(StreamBatch::on_time)
            .map_err(|error| internal("late rows", &error))
    }

    fn dead_rows(dead: &DeadRows) -> (u64, String) {
        (dead.rows.num_rows() as u64, dead.reason.to_string())
    }
}

impl Front for SharedSource {
    type Batch = StreamBatch;
    type Spec = Arc<SharedSourceSpec>;
    type Dead = DeadRows;
    type State = OperatorState;
    type Error = OperatorError;

    fn new(spec: &Arc<SharedSourceSpec>) -> Result<SharedSource, OperatorError> {
        const { assert!(crate::EVERY_ROW == SharedSource::EVERY_ROW) };
        SharedSource::new(spec)
    }

    fn fork(&self) -> Result<SharedSource, OperatorError> {
        self.fork()
    }

    fn save(&mut self) -> Result<OperatorState, OperatorError> {
        let internal = |error: StateError| OperatorError::Internal {
            operator: "shared source".into(),
            message: error.to_string(),
        };
        self.save().map_err(internal)
    }

    fn absorb(&mut self, state: OperatorState) -> Result<EventTime, OperatorError> {
        self.absorb(state)
    }

    fn serves(&self, spec: &Arc<SharedSourceSpec>) -> bool {
        self.serves(spec)
    }

    fn join(&mut self, member: u32, spec: &Arc<SharedSourceSpec>) {
        self.join(member, &spec.gets);
    }

    fn leave(&mut self, member: u32, spec: &Arc<SharedSourceSpec>) {
        self.leave(member, &spec.gets);
    }

    fn fill(
        &mut self,
        batch: StreamBatch,
        ingested: ProcessingTime,
        dead: &mut Vec<DeadRows>,
    ) -> Result<Filled<StreamBatch>, OperatorError> {
        let FilledRows { batch, event_times, watermark } = self.fill(batch, ingested, dead)?;
        Ok(Filled { batch, event_times, watermark })
    }

    fn tell_time(&mut self, watermark: EventTime) -> bool {
        self.tell_time(watermark)
    }

    fn take_failed(&mut self) -> Vec<(u32, OperatorError)> {
        self.take_failed()
    }

    fn choose(&mut self, batch: &StreamBatch, chosen: &mut Vec<(u32, u32)>) {
        self.choose(batch, chosen);
    }

    fn of_member(&self, member: u32, batch: &StreamBatch) -> Result<Option<StreamBatch>, OperatorError> {
        self.of_member(member, batch)
    }

    fn gather(batches: &[&StreamBatch], rows: &[(usize, usize)]) -> Result<StreamBatch, OperatorError> {
        SharedSource::gather(batches, rows)
    }
}

impl Template<ArrowRows> for Arc<laxity_operators::Template> {
    fn of(spec: &Arc<SharedSourceSpec>) -> Option<&Arc<laxity_operators::Template>> {
        spec.template.as_ref()
    }

    fn is(&self, other: &Arc<laxity_operators::Template>) -> bool {
        Arc::ptr_eq(self, other)
    }

    fn operator(&self) -> Result<Box<dyn Operator>, OperatorError> {
        self.as_ref().operator()
    }

    fn input(&self, batch: &StreamBatch, rows: &[(u32, u32)]) -> Result<StreamBatch, OperatorError> {
        self.as_ref().input(batch, rows)
    }

    type Parts = ByMember;

    fn by_member(batches: &[StreamBatch]) -> Result<ByMember, OperatorError> {
        laxity_operators::Template::by_member(batches)
    }

    fn members(parts: &ByMember) -> impl Iterator<Item = u32> {
        parts.members()
    }

    fn part(parts: &ByMember, place: usize) -> StreamBatch {
        parts.part(place)
    }

    fn late(late: &LateRows) -> Vec<(u32, i64)> {
        laxity_operators::Template::late(late).collect()
    }

    type Own = Arc<OwnConstants>;

    fn own(spec: &Arc<SharedSourceSpec>) -> Option<Arc<OwnConstants>> {
        spec.constants.clone()
    }

    fn with_own(own: &Arc<OwnConstants>, results: StreamBatch) -> Result<StreamBatch, OperatorError> {
        own.put_into(results)
    }

    type Saved = SavedTemplate;

    fn save(operator: &mut Box<dyn Operator>) -> Result<SavedTemplate, OperatorError> {
        laxity_operators::Template::saved(operator.as_mut()).map_err(template_error)
    }

    fn of_member(saved: &SavedTemplate, member: u32) -> Result<OperatorState, String> {
        saved.of_member(member).map_err(|error| error.to_string())
    }

    fn has_sent(&self, state: &OperatorState, watermark: EventTime) -> bool {
        let windows = WindowsState { prefix: String::new(), state: state.clone() };
        windows.have_ended_at(watermark.0)
    }

    fn take_in(
        &self,
        operator: &mut Box<dyn Operator>,
        held: Vec<(u32, OperatorState)>,
    ) -> Result<(), OperatorError> {
        *operator = self.with_members(operator.as_mut(), held).map_err(template_error)?;
        Ok(())
    }

    type Rows = Access;

    /// Only of what decides that by itself: then the rows of equal ones are the same.
    fn rows(spec: &Arc<SharedSourceSpec>) -> Option<Access> {
        spec.access().filter(|access| access.is_exact()).cloned()
    }

    fn gets_every_row(spec: &Arc<SharedSourceSpec>) -> bool {
        spec.gets_every_row()
    }

    type Slicer = laxity_operators::Slicer;

    fn slice_ms(&self) -> Option<i64> {
        self.slices().map(|(_, slice_ms)| slice_ms)
    }

    fn has_slices_of(&self, other: &Self) -> bool {
        let (own, others) = (self.slices(), other.slices());
        own.zip(others).is_some_and(|((own, _), (others, _))| Arc::ptr_eq(own, others))
    }

    fn slicer(&self, slice_ms: i64) -> Result<laxity_operators::Slicer, OperatorError> {
        self.as_ref().slicer(slice_ms)
    }
}

impl Slicer<ArrowRows> for laxity_operators::Slicer {
    type Slices = Slices;

    fn take(
        &mut self,
        batch: &StreamBatch,
        rows: &mut Vec<(u32, u32)>,
        told: EventTime,
        ingested: ProcessingTime,
    ) -> Result<(), OperatorError> {
        self.take(batch, rows, told, ingested)
    }

    fn is_empty(&self, watermark: EventTime) -> bool {
        self.is_empty(watermark)
    }

    fn seal(&mut self, watermark: EventTime) -> Result<Slices, OperatorError> {
        self.seal(watermark)
    }

    fn state_bytes(&self) -> u64 {
        self.state_bytes() as u64
    }

    fn pieces(slices: &Slices) -> usize {
        slices.pieces()
    }

    fn groups(slices: &Slices) -> u64 {
        slices.groups()
    }

    fn give(
        slices: &Slices,
        piece: usize,
        whose: &[(u32, u32)],
        operator: &mut Box<dyn Operator>,
    ) -> Result<(), OperatorError> {
        slices.give(piece, whose, operator.as_mut())
    }
}

fn template_error(error: StateError) -> OperatorError {
    OperatorError::Internal { operator: "template".into(), message: error.to_string() }
}

fn internal(operator: &str, error: &ArrowError) -> OperatorError {
    OperatorError::Internal { operator: operator.into(), message: error.to_string() }
}

fn concat(batches: &[&StreamBatch]) -> Result<StreamBatch, ArrowError> {
    let schema = batches[0].rows.schema();
    let rows = concat_batches(&schema, batches.iter().map(|batch| &batch.rows))?;
    let watermark_before = if batches.iter().all(|batch| batch.watermark_before.is_none()) {
        None
    } else {
        let mut before = Vec::with_capacity(rows.num_rows());
        for batch in batches {
            match &batch.watermark_before {
                Some(watermarks) => before.extend_from_slice(watermarks),
                // On time, which is what a watermark at the beginning of time says.
                None => before.extend(std::iter::repeat_n(i64::MIN, batch.num_rows())),
            }
        }
        Some(before.into())
    };
    Ok(StreamBatch { rows, watermark_before })
}

/// Bytes of the rows of a batch, without buffers shared with other slices. Exact for fixed widths and strings;
/// nested columns count what their buffers hold.
pub fn batch_bytes(rows: &RecordBatch) -> u64 {
    let count = rows.num_rows();
    rows.columns().iter().map(|column| column_bytes(column.as_ref(), count)).sum::<usize>() as u64
}

fn column_bytes(column: &dyn Array, rows: usize) -> usize {
    match column.data_type() {
        DataType::Utf8 => {
            let offsets = column.as_string::<i32>().value_offsets();
            (offsets[rows] - offsets[0]) as usize + 4 * rows
        }
        DataType::Binary => {
            let offsets = column.as_binary::<i32>().value_offsets();
            (offsets[rows] - offsets[0]) as usize + 4 * rows
        }
        DataType::Boolean => rows.div_ceil(8),
        other => match other.primitive_width() {
            Some(width) => width * rows,
            None => column.get_array_memory_size(),
        },
    }
}

struct Ended;

impl Operator for Ended {
    fn on_batch(
        &mut self,
        _: usize,
        _: StreamBatch,
        _: ProcessingTime,
        _: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, _: EventTime, _: &mut Outbox) -> Result<Flow, OperatorError> {
        Ok(Flow::Done)
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
    use arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn bytes_of_a_slice_are_those_of_its_rows() {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "bcd", "", "efgh"]));
        let batch = RecordBatch::try_from_iter([("i", ints), ("s", text)]).unwrap();
        assert_eq!(batch_bytes(&batch), 4 * 8 + 8 + 4 * 4);
        // Two rows: two ints, the bytes of "bcd" and "", two offsets.
        assert_eq!(batch_bytes(&batch.slice(1, 2)), 2 * 8 + 3 + 2 * 4);
    }
}
