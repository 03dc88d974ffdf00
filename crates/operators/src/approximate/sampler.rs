use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StructArray, UInt32Array,
};
use arrow::compute::{cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Schema, SchemaRef};
use datafusion_common::DataFusionError;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;
use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use super::aggregate::Aggregate;
use super::aion::{Aion, Config, Offer};
use super::grid::{Grid, Span};
use super::rule::Rule;
use super::sample_size::Promise;
use super::stratum::Stratum;
use crate::expression::{internal, row_error};
use crate::window_aggregate::timestamps;
use crate::{Flow, LateRows, Operator, OperatorError, OperatorFactory, Outbox, StreamBatch, WindowKind};

/// Leaves out rows that an approximate window can do without, and says when it answers: the watermark behind it is not the
/// table's but Aion's.
#[derive(Clone, Debug)]
pub struct SamplerSpec {
    /// As `explain` names it.
    pub name: String,
    /// Columns that come in.
    pub input_schema: SchemaRef,
    /// The event time, a `TIMESTAMP(3)`.
    pub time_column: usize,
    /// How time is cut; no session.
    pub window: WindowKind,
    /// Columns of the group: a bound holds in each.
    pub keys: Vec<usize>,
    /// What the aggregates are of, numbers over the input's columns; evaluated over rows that are taken.
    pub values: Vec<Arc<dyn PhysicalExpr>>,
    /// What is computed of a group.
    pub aggregates: Vec<Aggregate>,
    /// What the user asked for.
    pub asked: Promise,
    /// What the sample aims at: less, where results are put together from several.
    pub promise: Promise,
    /// Aion, or a baseline.
    pub rule: Rule,
    /// Rows are left out only while the query is behind.
    pub only_behind: bool,
    /// Results are held against exact ones once all rows have come: values of every row are evaluated for that.
    pub verifies: bool,
    /// Of the dice.
    pub seed: u64,
    /// The Unix time, in milliseconds, of [`ProcessingTime::ZERO`]: where a table does not say how event time lies on the clock,
    /// it is Unix time.
    pub processing_origin_ms: i64,
}

/// The column behind the input's that says which stratum a row is of: what [`Estimator`](super::Estimator) reads.
pub const SAMPLE_COLUMN: &str = "__sample";

impl SamplerSpec {
    /// The input's columns, then [`SAMPLE_COLUMN`].
    pub fn output_schema(&self) -> SchemaRef {
        let sample = Field::new(SAMPLE_COLUMN, DataType::Struct(sample_fields(self.values.len())), false);
        let fields = self.input_schema.fields().iter().cloned().chain([Arc::new(sample)]);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(Sampler::new(&self, context.batch_rows)?)))
    }
}

/// Fields of a row's stratum, in this order; then two for the shift of each value.
fn sample_fields(values: usize) -> Fields {
    let names = ["taken", "seen", "total", "total_variance", "total_common"].map(String::from);
    let shifts = (0..values).flat_map(|value| [format!("shift{value}"), format!("shift_deviation{value}")]);
    let stratum = Field::new("stratum", DataType::Int64, false);
    let numbers = names.into_iter().chain(shifts).map(|name| Field::new(name, DataType::Float64, false));
    std::iter::once(stratum).chain(numbers).collect()
}

/// The strata of rows, as the sample column has them.
pub(super) struct Strata<'a> {
    ids: &'a Int64Array,
    numbers: Vec<&'a Float64Array>,
    /// Which value the shift is of.
    value: Option<usize>,
}

impl<'a> Strata<'a> {
    pub(super) fn of(column: &'a ArrayRef, value: Option<usize>) -> Strata<'a> {
        let columns = column.as_struct().columns();
        let numbers = columns[1..].iter().map(|column| column.as_primitive::<Float64Type>()).collect();
        Strata { ids: columns[0].as_primitive(), numbers, value }
    }

    pub(super) fn row(&self, row: usize) -> Stratum {
        let number = |at: usize| self.numbers[at].value(row);
        Stratum {
            id: self.ids.value(row),
            taken: number(0),
            seen: number(1),
            total: number(2),
            total_variance: number(3),
            total_common: number(4),
            shift: self.value.map_or((0.0, 0.0), |value| (number(5 + 2 * value), number(6 + 2 * value))),
        }
    }
}

/// See [`SamplerSpec`].
pub struct Sampler {
    spec: SamplerSpec,
    output_schema: SchemaRef,
    grid: Grid,
    aion: Aion,
    clock: EventClock,
    groups: Option<Box<dyn GroupValues>>,
    /// Rows that were taken, by sub-stream.
    kept: BTreeMap<i64, Kept>,
    waiting: VecDeque<Waiting>,
    watermark: i64,
    /// The latest arrival.
    now: i64,
    calm_until: i64,
    is_engaged: bool,
    steps: u64,
    batch_rows: usize,
    numbers: Vec<usize>,
}

#[derive(Default)]
struct Kept {
    batches: Vec<RecordBatch>,
    groups: Vec<u32>,
    ingested: ProcessingTime,
}

enum Waiting {
    Rows(RecordBatch, ProcessingTime),
    Watermark(i64),
}

/// What stands behind the rows of a group in a sub-stream, and for each value how far late rows shift it, with the variance
/// of that.
type OfGroup = (Stratum, Vec<(f64, f64)>);

impl Sampler {
    /// Makes one instance.
    ///
    /// # Errors
    /// If the columns do not fit, or the window is a session.
    pub fn new(spec: &SamplerSpec, batch_rows: usize) -> Result<Sampler, OperatorError> {
        let fail = |error: DataFusionError| internal(&spec.name, error);
        let Some(grid) = grid_of(spec.window) else {
            return Err(internal(&spec.name, "a session has no end that is known before"));
        };
        let groups = match spec.keys.is_empty() {
            true => None,
            false => {
                let keys = spec.input_schema.project(&spec.keys).map_err(|e| internal(&spec.name, e))?;
                Some(new_group_values(Arc::new(keys), &GroupOrdering::None).map_err(fail)?)
            }
        };
        let mut aion = Aion::new(Config {
            grid,
            promise: spec.promise,
            aggregates: spec.aggregates.clone(),
            rule: spec.rule,
            verifies: spec.verifies,
            seed: spec.seed,
        });
        aion.engage(!spec.only_behind);
        Ok(Sampler {
            output_schema: spec.output_schema(),
            grid,
            aion,
            clock: EventClock {
                event_origin: EventTime(spec.processing_origin_ms),
                processing_origin: ProcessingTime::ZERO,
                speed: 1.0,
            },
            groups,
            kept: BTreeMap::new(),
            waiting: VecDeque::new(),
            watermark: EventTime::MIN.0,
            now: i64::MIN,
            calm_until: i64::MIN,
            is_engaged: !spec.only_behind,
            steps: 0,
            batch_rows: batch_rows.max(1),
            numbers: Vec::new(),
            spec: spec.clone(),
        })
    }

    /// An instant on the clock of event time, ms.
    fn event_ms(&self, at: ProcessingTime) -> i64 {
        let since_ms = (at.0 as f64 - self.clock.processing_origin.0 as f64) / 1e6 * self.clock.speed;
        self.clock.event_origin.0.saturating_add(since_ms.floor() as i64)
    }

    fn take(
        &mut self,
        batch: &StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<(), DataFusionError> {
        let rows = &batch.rows;
        let now = self.event_ms(ingested).max(self.now);
        // What was due before these rows came is not theirs to change, however late the call for it comes.
        while let Some(wake) = self.aion.wake_at().filter(|&wake| wake < now) {
            self.settle(wake)?;
        }
        self.now = now;
        let times = timestamps(rows.column(self.spec.time_column))?;
        self.numbers.clear();
        match &mut self.groups {
            None => self.numbers.resize(rows.num_rows(), 0),
            Some(groups) => {
                let keys: Vec<ArrayRef> =
                    self.spec.keys.iter().map(|&key| rows.column(key).clone()).collect();
                groups.intern(&keys, &mut self.numbers)?;
            }
        }
        self.aion.arrive(now);
        let (mut told, mut offers, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (&time, &group)) in times.iter().zip(&self.numbers).enumerate() {
            match self.aion.offer(now, time, group as u32) {
                Offer::Counted if !self.spec.verifies => {}
                offer => {
                    if let Offer::Late { .. } = offer {
                        late.push(row as u32);
                    }
                    if self.spec.verifies || !matches!(offer, Offer::Late { asked: false }) {
                        told.push(row as u32);
                        offers.push(offer);
                    }
                }
            }
        }
        if !late.is_empty() {
            let ends = late.iter().map(|&row| self.missed_end(times[row as usize]));
            let window_end = Int64Array::from_iter_values(ends);
            out.late.push(LateRows { rows: take_record_batch(rows, &UInt32Array::from(late))?, window_end });
        }
        if told.is_empty() {
            return Ok(());
        }
        self.keep(rows, times, told, &offers, ingested)
    }

    /// The last window with that time that has answered.
    fn missed_end(&self, time: i64) -> i64 {
        let mut end = self.grid.end_after(time);
        while end + self.grid.step_ms <= self.watermark + 1
            && self.grid.start_of(end + self.grid.step_ms) <= time
        {
            end += self.grid.step_ms;
        }
        end
    }

    fn keep(
        &mut self,
        rows: &RecordBatch,
        times: &[i64],
        told: Vec<u32>,
        offers: &[Offer],
        ingested: ProcessingTime,
    ) -> Result<(), DataFusionError> {
        let told_rows = take_record_batch(rows, &UInt32Array::from(told.clone()))?;
        for (value, expression) in self.spec.values.iter().enumerate() {
            let column = expression.evaluate(&told_rows)?.into_array(told_rows.num_rows())?;
            let column = cast(&column, &DataType::Float64)?;
            let column = column.as_primitive::<Float64Type>();
            for (at, (&row, &offer)) in told.iter().zip(offers).enumerate() {
                if column.is_valid(at) {
                    let (time, group) = (times[row as usize], self.numbers[row as usize] as u32);
                    self.aion.value(self.now, time, group, value, column.value(at), offer);
                }
            }
        }
        let mut by_sub_stream: BTreeMap<i64, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
        for (at, (&row, &offer)) in told.iter().zip(offers).enumerate() {
            if offer == Offer::Taken {
                let number = self.grid.sub_stream(times[row as usize]);
                let (positions, groups) = by_sub_stream.entry(number).or_default();
                positions.push(at as u32);
                groups.push(self.numbers[row as usize] as u32);
            }
        }
        for (number, (positions, groups)) in by_sub_stream {
            let kept = self.kept.entry(number).or_default();
            kept.batches.push(match positions.len() == told_rows.num_rows() {
                true => told_rows.clone(),
                false => take_record_batch(&told_rows, &UInt32Array::from(positions))?,
            });
            kept.groups.extend(groups);
            kept.ingested = kept.ingested.max(ingested);
        }
        Ok(())
    }

    /// Closes what is due.
    fn settle(&mut self, now: i64) -> Result<(), DataFusionError> {
        while let Some(end) = self.aion.due(now) {
            let mut strata: BTreeMap<i64, Vec<Option<OfGroup>>> = BTreeMap::new();
            for closed in self.aion.close(end, now) {
                let groups = strata.entry(closed.sub_stream).or_default();
                let group = closed.group as usize;
                groups.resize(groups.len().max(group + 1), None);
                groups[group] = Some((closed.stratum, closed.shifts));
            }
            for (number, strata) in strata {
                let Some(kept) = self.kept.remove(&number) else { continue };
                let rows = self.with_strata(&kept, &strata)?;
                for offset in (0..rows.num_rows()).step_by(self.batch_rows) {
                    let length = self.batch_rows.min(rows.num_rows() - offset);
                    self.waiting.push_back(Waiting::Rows(rows.slice(offset, length), kept.ingested));
                }
            }
            self.then(end - 1);
        }
        Ok(())
    }

    fn with_strata(&self, kept: &Kept, strata: &[Option<OfGroup>]) -> Result<RecordBatch, DataFusionError> {
        let rows = concat_batches(&self.spec.input_schema, &kept.batches)?;
        let of = |group: &u32| strata[*group as usize].as_ref().expect("a group with rows has a stratum");
        let numbers = |number: &dyn Fn(&Stratum) -> f64| {
            Arc::new(Float64Array::from_iter_values(kept.groups.iter().map(|g| number(&of(g).0)))) as ArrayRef
        };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(kept.groups.iter().map(|group| of(group).0.id))),
            numbers(&|stratum| stratum.taken),
            numbers(&|stratum| stratum.seen),
            numbers(&|stratum| stratum.total),
            numbers(&|stratum| stratum.total_variance),
            numbers(&|stratum| stratum.total_common),
        ];
        for value in 0..self.spec.values.len() {
            let shifts = || kept.groups.iter().map(|group| of(group).1[value]);
            columns.push(Arc::new(Float64Array::from_iter_values(shifts().map(|shift| shift.0))));
            columns.push(Arc::new(Float64Array::from_iter_values(shifts().map(|shift| shift.1))));
        }
        let sample = StructArray::try_new(sample_fields(self.spec.values.len()), columns, None)?;
        let columns = rows.columns().iter().cloned().chain([Arc::new(sample) as ArrayRef]).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.output_schema), columns)?)
    }

    /// Says so once all rows that wait are sent; what was to be said before is part of it.
    fn then(&mut self, watermark: i64) {
        self.waiting.retain(|waiting| matches!(waiting, Waiting::Rows(..)));
        self.waiting.push_back(Waiting::Watermark(watermark));
    }

    /// Sends a batch, and the watermark behind the last.
    fn send(&mut self, out: &mut Outbox) -> Flow {
        let mut sent_rows = false;
        while let Some(next) = self.waiting.front() {
            match next {
                Waiting::Rows(..) if sent_rows => return Flow::More,
                Waiting::Rows(rows, ingested) => {
                    out.result(StreamBatch::on_time(rows.clone()), *ingested, None);
                    sent_rows = true;
                }
                Waiting::Watermark(watermark) => {
                    if *watermark > self.watermark {
                        self.watermark = *watermark;
                        out.watermark(EventTime(*watermark));
                    }
                }
            }
            self.waiting.pop_front();
        }
        Flow::Done
    }

    fn fail(&self, error: &DataFusionError) -> OperatorError {
        row_error(&self.spec.name, error)
    }
}

impl Operator for Sampler {
    fn on_batch(
        &mut self,
        _input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        self.take(&batch, ingested, out).map_err(|e| self.fail(&e))?;
        self.settle(self.now).map_err(|e| self.fail(&e))?;
        Ok(self.send(out))
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.aion.upstream(watermark.0);
        self.settle(self.now).map_err(|e| self.fail(&e))?;
        if watermark == EventTime::MAX {
            self.then(watermark.0);
        } else if let Some(end) = self.aion.pass(watermark.0) {
            self.then(end - 1);
        }
        Ok(self.send(out))
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        Ok(self.send(out))
    }

    fn on_event_clock(&mut self, clock: EventClock) {
        self.clock = clock;
    }

    /// Behind by half of its target; and no longer so once it has kept up through a window.
    fn on_lag(&mut self, lag_ns: u64, target_ns: u64) {
        if !self.spec.only_behind {
            return;
        }
        if lag_ns > target_ns / 2 {
            self.calm_until = self.now.saturating_add(self.grid.step_ms);
            self.steps += u64::from(!self.is_engaged);
            self.is_engaged = true;
        } else if self.now > self.calm_until {
            self.is_engaged = false;
        }
        self.aion.engage(self.is_engaged);
    }

    fn approximation(&self) -> Option<Approximation> {
        let totals = self.aion.totals();
        Some(Approximation {
            error: self.spec.asked.error,
            confidence: self.spec.asked.confidence,
            only_behind: self.spec.only_behind,
            is_engaged: self.is_engaged,
            steps: self.steps,
            ..totals
        })
    }

    fn on_time(&mut self, now: ProcessingTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let now = self.event_ms(now);
        self.settle(now.max(self.now)).map_err(|e| self.fail(&e))?;
        Ok(self.send(out))
    }

    fn wake_at(&self) -> Option<ProcessingTime> {
        // A little later, so that the millisecond asked for has begun on the clock of event time too.
        self.aion.wake_at().map(|at| self.clock.due(EventTime(at)).plus_ns(1))
    }

    fn state_bytes(&self) -> usize {
        let kept = self.kept.values().flat_map(|kept| &kept.batches);
        let rows: usize = kept.map(RecordBatch::get_array_memory_size).sum();
        rows + self.groups.as_ref().map_or(0, |groups| groups.size()) + self.aion.bytes()
    }
}

/// The ends of windows; none of sessions.
fn grid_of(window: WindowKind) -> Option<Grid> {
    Some(match window {
        WindowKind::Tumble { size_ms, offset_ms } => Grid::new(size_ms, offset_ms, Span::Fixed(size_ms)),
        WindowKind::Hop { size_ms, slide_ms, offset_ms } => {
            Grid::new(slide_ms, offset_ms + size_ms, Span::Fixed(size_ms))
        }
        WindowKind::Cumulate { max_ms, step_ms, offset_ms } => {
            Grid::new(step_ms, offset_ms, Span::Since(max_ms))
        }
        WindowKind::Session { .. } => return None,
    })
}

#[cfg(test)]
mod tests;
