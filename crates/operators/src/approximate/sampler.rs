//! Leaves out rows that an approximate window can do without.

mod beside;
mod deferred;
mod groups;
mod sample_column;
mod saved;
mod values;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::{Float64Type, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion_common::DataFusionError;
use datafusion_physical_expr::PhysicalExpr;
use laxity_graph::{Approximation, EventClock, EventTime, ProcessingTime};

use super::aggregate::Aggregate;
use super::aion::{Aion, Config, Offer, Told};
use super::closed::Closed;
use super::grid::{Grid, Span};
use super::rule::Rule;
use super::sample_size::Promise;
use crate::expression::{internal, row_error};
use crate::failing_rows::mask_of;
use crate::row_times::timestamps;
use crate::{
    DeadReason, DeadRows, Flow, LateRows, Operator, OperatorError, OperatorFactory, OperatorState, Outbox,
    StateError, StreamBatch, WindowKind,
};
pub use beside::Beside;
use beside::Looked;
use deferred::Deferred;
use groups::Groups;
pub use sample_column::SAMPLE_COLUMN;
use sample_column::Shape;
pub(super) use sample_column::{Samples, Sketches, Strata};
use values::Values;

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
    /// What is looked up for rows that are taken.
    pub beside: Option<Beside>,
    /// What the aggregates are of, numbers over the input's columns and those beside; evaluated over rows that are taken, once.
    pub values: Vec<Arc<dyn PhysicalExpr>>,
    /// A group is sent on where this value was there: the others are those that a join would have dropped.
    pub required: Option<usize>,
    /// Whose distinct values are counted, over the input's columns; evaluated over every row in time.
    pub distinct: Vec<Arc<dyn PhysicalExpr>>,
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
    /// Rows that are taken and whose values cannot be computed are put aside, each with its error; else such a row is one.
    pub puts_aside: bool,
    /// Results are held against exact ones once all rows have come: values of every row are evaluated for that.
    pub verifies: bool,
    /// Of the dice.
    pub seed: u64,
    /// The Unix time, in milliseconds, of [`ProcessingTime::ZERO`]: where a table does not say how event time lies on the clock,
    /// it is Unix time.
    pub processing_origin_ms: i64,
}

impl SamplerSpec {
    /// The input's columns, then [`SAMPLE_COLUMN`].
    pub fn output_schema(&self) -> SchemaRef {
        let sample = sample_column::field(&self.shape());
        let fields = self.input_schema.fields().iter().cloned().chain([Arc::new(sample)]);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn value_schema(&self) -> &SchemaRef {
        self.beside.as_ref().map_or(&self.input_schema, |beside| &beside.schema)
    }

    fn shape(&self) -> Shape {
        Shape::of(&self.aggregates, self.values.len())
    }

    /// Every row that is taken is sent on, since what is computed behind needs each. Otherwise one of each group and
    /// sub-stream is, with the moments of all.
    fn sends_rows(&self) -> bool {
        self.aggregates.contains(&Aggregate::Whole)
    }

    /// Makes the instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| {
            let beside = self.beside.as_ref().map(|beside| beside.make(context)).transpose()?;
            Ok(Box::new(Sampler { beside, ..Sampler::new(&self, context.batch_rows)? }))
        })
    }
}

/// See [`SamplerSpec`].
pub struct Sampler {
    spec: SamplerSpec,
    output_schema: SchemaRef,
    grid: Grid,
    aion: Aion,
    clock: EventClock,
    groups: Option<Groups>,
    beside: Option<Looked>,
    values: Values,
    distinct: Values,
    /// What `values` is given before anything is looked up.
    value_columns: (Vec<usize>, SchemaRef),
    deferred: Deferred,
    dead: Vec<DeadRows>,
    /// Of those whose values were told last, by their place in their batch.
    put_aside: Vec<u32>,
    /// By expression: its values as bytes, equal ones alike.
    as_bytes: Vec<RowConverter>,
    shape: Shape,
    /// Rows to be sent on, by sub-stream.
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
    fate: Fate,
}

/// What becomes of the rows of a batch, by their places in it.
#[derive(Default)]
struct Fate {
    /// Rows whose values are told, and why.
    told: Vec<u32>,
    offers: Vec<Offer>,
    late: Vec<u32>,
    sent: Vec<u32>,
    /// Rows whose distinct values are counted, and why.
    counted: Vec<u32>,
    counted_offers: Vec<Offer>,
}

#[derive(Default)]
struct Kept {
    batches: Vec<RecordBatch>,
    bytes: usize,
    groups: Vec<u32>,
    ingested: ProcessingTime,
}

impl Kept {
    fn push(&mut self, rows: RecordBatch) {
        self.bytes += rows.get_array_memory_size();
        self.batches.push(rows);
    }
}

enum Waiting {
    Rows(RecordBatch, ProcessingTime),
    Watermark(i64),
}

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
                Some(Groups::new(Arc::new(keys)).map_err(fail)?)
            }
        };
        let converter = |expression: &Arc<dyn PhysicalExpr>| {
            let data_type = expression.data_type(&spec.input_schema)?;
            Ok::<_, DataFusionError>(RowConverter::new(vec![SortField::new(data_type)])?)
        };
        let values = Values::new(&spec.values, spec.value_schema()).map_err(fail)?;
        let value_columns = match &spec.beside {
            None => values.columns().to_vec(),
            Some(beside) => (0..beside.columns).collect(),
        };
        let value_schema = spec.input_schema.project(&value_columns).map_err(|e| internal(&spec.name, e))?;
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
            beside: None,
            values,
            distinct: Values::new(&spec.distinct, &spec.input_schema).map_err(fail)?,
            value_columns: (value_columns, Arc::new(value_schema)),
            deferred: Deferred::default(),
            dead: Vec::new(),
            put_aside: Vec::new(),
            as_bytes: spec.distinct.iter().map(converter).collect::<Result<_, _>>().map_err(fail)?,
            shape: spec.shape(),
            kept: BTreeMap::new(),
            waiting: VecDeque::new(),
            watermark: EventTime::MIN.0,
            now: i64::MIN,
            calm_until: i64::MIN,
            is_engaged: !spec.only_behind,
            steps: 0,
            batch_rows: batch_rows.max(1),
            numbers: Vec::new(),
            fate: Fate::default(),
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
            None => {}
            Some(groups) => {
                let keys: Vec<ArrayRef> =
                    self.spec.keys.iter().map(|&key| rows.column(key).clone()).collect();
                groups.of(&keys, &mut self.numbers)?;
            }
        }
        self.aion.arrive(now);
        let mut fate = std::mem::take(&mut self.fate);
        let Fate { told, offers, late, sent, counted, counted_offers } = &mut fate;
        [&mut *told, late, sent, counted].into_iter().for_each(Vec::clear);
        [&mut *offers, counted_offers].into_iter().for_each(Vec::clear);
        let (verifies, sends_rows) = (self.spec.verifies, self.spec.sends_rows());
        let counts_distinct = !self.spec.distinct.is_empty();
        let groups = self.groups.is_some().then_some(&*self.numbers);
        let sub_streams = self.aion.offer(now, times, groups, |row, offer| {
            if counts_distinct && (verifies || !matches!(offer, Offer::Late { .. })) {
                counted.push(row as u32);
                counted_offers.push(offer);
            }
            if verifies || offer.is_asked() {
                told.push(row as u32);
                offers.push(offer);
            }
            match offer {
                Offer::Late { .. } => late.push(row as u32),
                Offer::Taken { first } if first || sends_rows => sent.push(row as u32),
                Offer::Counted { first: true } => sent.push(row as u32),
                Offer::Taken { .. } | Offer::Counted { .. } => {}
            }
        });
        if !late.is_empty() {
            late.sort_unstable();
            let ends = late.iter().map(|&row| self.missed_end(times[row as usize]));
            let window_end = Int64Array::from_iter_values(ends);
            let rows = take_record_batch(rows, &UInt32Array::from(late.clone()))?;
            out.late.push(LateRows { rows, window_end });
        }
        if !counted.is_empty() {
            let of = (&mut *counted, &mut *counted_offers);
            let columns = distinct_of(&self.spec, &self.distinct, rows, of, &mut self.dead)?;
            let told = Told { rows: counted, offers: counted_offers, times, groups };
            for (which, (column, converter)) in columns.iter().zip(&self.as_bytes).enumerate() {
                let bytes = converter.convert_columns(std::slice::from_ref(column))?;
                let of = |at: usize| column.is_valid(at).then(|| bytes.row(at).data());
                self.aion.distinct(told, which, of);
            }
        }
        if !told.is_empty() && !self.spec.values.is_empty() {
            self.deferred.push(rows, now, Told { rows: told, offers, times, groups });
        }
        // What is put aside is not sent on too: where rows are, their values are told before.
        let puts_aside = sends_rows && self.spec.puts_aside;
        if self.deferred.is_full() || verifies || puts_aside {
            self.put_aside.clear();
            self.tell_values()?;
            if puts_aside {
                self.put_aside.sort_unstable();
                sent.retain(|row| self.put_aside.binary_search(row).is_err());
            }
        }
        self.keep(rows, times, sent)?;
        if let Some((first, last)) = sub_streams {
            // The last row that any of them stands for.
            for (_, kept) in self.kept.range_mut(first..=last) {
                kept.ingested = kept.ingested.max(ingested);
            }
        }
        self.fate = fate;
        Ok(())
    }

    /// Computes the values that were put off until now.
    fn tell_values(&mut self) -> Result<(), DataFusionError> {
        if self.deferred.is_empty() {
            return Ok(());
        }
        let mut deferred = std::mem::take(&mut self.deferred);
        let columns = self.values_of(&mut deferred);
        if let Ok(columns) = &columns {
            let columns: Vec<_> = columns.iter().map(|column| column.as_primitive::<Float64Type>()).collect();
            deferred.each_arrival(|now, told, first| {
                for (value, column) in columns.iter().enumerate() {
                    let of = |at: usize| column.is_valid(first + at).then(|| column.value(first + at));
                    self.aion.value(now, told, value, of);
                }
            });
            deferred.clear();
        }
        self.deferred = deferred;
        columns.map(|_| ())
    }

    /// Of those rows; of those that are left once the ones are put aside over which an expression fails, if they are to be.
    fn values_of(&mut self, deferred: &mut Deferred) -> Result<Vec<ArrayRef>, DataFusionError> {
        let Sampler { spec, values, beside, value_columns: (columns, schema), .. } = self;
        let mut evaluate = |rows: &RecordBatch| match beside {
            None => values.of(rows),
            Some(beside) => {
                let looked_up = beside.of(rows)?;
                values.of(&looked_up.project(values.columns())?)
            }
        };
        let rows = deferred.rows(columns, schema)?;
        let error = match evaluate(&rows) {
            Err(error) if spec.puts_aside => error,
            other => return other,
        };
        let (keep, reasons) = failing(&spec.name, error, &rows, &mut evaluate)?;
        self.put_aside.clear();
        self.put_aside.extend(deferred.failing(&keep));
        self.dead.extend(deferred.put_aside(&keep, reasons));
        evaluate(&deferred.rows(columns, schema)?)
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

    /// Keeps rows to be sent on when their sub-stream closes.
    fn keep(&mut self, rows: &RecordBatch, times: &[i64], sent: &[u32]) -> Result<(), DataFusionError> {
        let mut by_sub_stream: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for &row in sent {
            by_sub_stream.entry(self.grid.sub_stream(times[row as usize])).or_default().push(row);
        }
        for (number, sent) in by_sub_stream {
            let kept = self.kept.entry(number).or_default();
            let group = |&row: &u32| self.numbers.get(row as usize).copied().unwrap_or(0) as u32;
            kept.groups.extend(sent.iter().map(group));
            kept.push(match sent.len() == rows.num_rows() {
                true => rows.clone(),
                false => take_record_batch(rows, &UInt32Array::from(sent))?,
            });
        }
        Ok(())
    }

    /// Closes what is due.
    fn settle(&mut self, now: i64) -> Result<(), DataFusionError> {
        if self.aion.may_answer(now) {
            self.tell_values()?;
        }
        while let Some(end) = self.aion.due(now) {
            let mut strata: BTreeMap<i64, Vec<Option<Closed>>> = BTreeMap::new();
            for closed in self.aion.close(end, now) {
                let groups = strata.entry(closed.sub_stream).or_default();
                let group = closed.group as usize;
                groups.resize(groups.len().max(group + 1), None);
                groups[group] = Some(closed);
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
        self.forget_groups()
    }

    /// Lets go of groups that do not come any more. While results are verified each is needed later.
    fn forget_groups(&mut self) -> Result<(), DataFusionError> {
        let Some(groups) = self.groups.as_mut().filter(|groups| groups.is_grown()) else { return Ok(()) };
        if self.spec.verifies || !self.deferred.is_empty() {
            return Ok(());
        }
        if let Some(numbers) = groups.keep(&self.aion.alive(groups.len()))? {
            self.aion.renumber(&numbers);
            for group in self.kept.values_mut().flat_map(|kept| &mut kept.groups) {
                *group = numbers[*group as usize].expect("a group with rows is alive");
            }
        }
        Ok(())
    }

    fn with_strata(&self, kept: &Kept, strata: &[Option<Closed>]) -> Result<RecordBatch, DataFusionError> {
        let mut rows = concat_batches(&self.spec.input_schema, &kept.batches)?;
        let of = |group: &u32| strata[*group as usize].as_ref().expect("a group with rows has a stratum");
        let mut closed: Vec<&Closed> = kept.groups.iter().map(of).collect();
        if let Some(required) = self.spec.required {
            let is_there = |closed: &&Closed| closed.values[required].count > 0.0;
            rows = filter_record_batch(&rows, &closed.iter().map(|of| Some(is_there(of))).collect())?;
            closed.retain(is_there);
        }
        let sample = sample_column::column(&closed, &self.shape)?;
        let columns = rows.columns().iter().cloned().chain([sample]).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.output_schema), columns)?)
    }

    /// Says so once all rows that wait are sent; what was to be said before is part of it.
    fn then(&mut self, watermark: i64) {
        self.waiting.retain(|waiting| matches!(waiting, Waiting::Rows(..)));
        self.waiting.push_back(Waiting::Watermark(watermark));
    }

    /// Sends a batch, and the watermark behind the last.
    fn send(&mut self, out: &mut Outbox) -> Flow {
        out.dead.append(&mut self.dead);
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

    fn keeps_time(&self) -> bool {
        true
    }

    /// Picked: what has come of a sub-stream is then known within a tenth of its rows.
    fn arrival_step_ms(&self) -> Option<i64> {
        Some((self.grid.sub_stream_ms / 10).max(1))
    }

    /// No longer so once it was not through a window.
    fn on_overload(&mut self, is_overloaded: bool) {
        if !self.spec.only_behind {
            return;
        }
        if is_overloaded {
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
            has_begun: self.aion.has_begun_engaged(),
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

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.saved()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.restored(state)
    }

    fn state_bytes(&self) -> usize {
        let rows: usize = self.kept.values().map(|kept| kept.bytes).sum();
        let beside = self.beside.as_ref().map_or(0, Looked::bytes);
        rows + self.deferred.bytes()
            + beside
            + self.groups.as_ref().map_or(0, Groups::bytes)
            + self.aion.bytes()
    }
}

/// Which of the rows are to be kept as `evaluate` does not fail over them, as it did over all with this error; and why each of
/// the others is not.
fn failing(
    operator: &str,
    error: DataFusionError,
    rows: &RecordBatch,
    evaluate: &mut dyn FnMut(&RecordBatch) -> Result<Vec<ArrayRef>, DataFusionError>,
) -> Result<(Vec<bool>, Vec<DeadReason>), DataFusionError> {
    if !row_error(operator, &error).is_of_a_row() {
        return Err(error);
    }
    let mut dead = Vec::new();
    let mut are_fine = |rows: &RecordBatch| match evaluate(rows) {
        Ok(_) => Ok(vec![true; rows.num_rows()]),
        Err(error) => Err(row_error(operator, &error)),
    };
    let keep = mask_of(rows, &mut dead, &mut are_fine);
    let keep = keep.map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok((keep, dead.into_iter().map(|dead| dead.reason).collect()))
}

/// What is counted of those rows, which become those of which it can be computed; the others go to `dead`.
fn distinct_of(
    spec: &SamplerSpec,
    distinct: &Values,
    batch: &RecordBatch,
    (rows, offers): (&mut Vec<u32>, &mut Vec<Offer>),
    dead: &mut Vec<DeadRows>,
) -> Result<Vec<ArrayRef>, DataFusionError> {
    let counted = narrowed(batch, distinct.columns(), rows)?;
    let error = match distinct.as_they_are(&counted) {
        Err(error) if spec.puts_aside => error,
        other => return other,
    };
    let evaluate = &mut |rows: &RecordBatch| distinct.as_they_are(rows);
    let (keep, reasons) = failing(&spec.name, error, &counted, evaluate)?;
    let places = rows.iter().zip(&keep).filter(|(_, keep)| !**keep).map(|(&row, _)| row as usize);
    dead.extend(places.zip(reasons).map(|(row, reason)| DeadRows { rows: batch.slice(row, 1), reason }));
    deferred::retain(rows, &keep);
    deferred::retain(offers, &keep);
    distinct.as_they_are(&narrowed(batch, distinct.columns(), rows)?)
}

/// Those rows and columns of a batch.
fn narrowed(batch: &RecordBatch, columns: &[usize], rows: &[u32]) -> Result<RecordBatch, DataFusionError> {
    let batch = batch.project(columns)?;
    if rows.len() == batch.num_rows() && rows.is_sorted() {
        return Ok(batch);
    }
    Ok(take_record_batch(&batch, &UInt32Array::from(rows.to_vec()))?)
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
