//! The watermark of a table: found from its rows.

mod splits;

use std::sync::Arc;

use arrow::array::{
    Array, AsArray, BooleanArray, Int64Array, ListArray, RecordBatch, TimestampMillisecondArray, UInt64Array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMillisecondType, UInt64Type};
use datafusion_common::{DataFusionError, ScalarValue, internal_err};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
use laxity_graph::EventTime;

use self::splits::{SplitRows, Splits};
use crate::expression::explained;
use crate::state::{self, named};
use crate::{DeadReason, DeadRows, OperatorState, StreamBatch};

/// `WATERMARK FOR column AS expression`.
#[derive(Clone, Debug)]
pub struct WatermarkSpec {
    /// The event-time column among the table's columns, `TIMESTAMP(3)`. Rows where it is NULL are dead.
    pub time_column: usize,
    /// Over the table's columns, `TIMESTAMP(3)`. Where it is NULL the watermark stays.
    pub expression: Arc<dyn PhysicalExpr>,
    /// A row whose event time is more than this ahead of the highest before it is dead, so that one bad clock
    /// cannot close every window. The first row is believed, having none before it. Choose it larger than any
    /// true silence of the source: after a longer one [`REFUSED_MAX`] rows are lost before time moves on.
    pub max_ahead_ms: Option<i64>,
    /// Among the table's columns, the one that says of which part of the input a row is, `List<Int32>`: each part then
    /// has a watermark of its own, and the table's is the least of those that are waited for. The first item is
    /// the part; where more follow, these are waited for from that row on.
    pub split_column: Option<usize>,
}

// By hand: a derived comparison would move out of the expression.
impl PartialEq for WatermarkSpec {
    fn eq(&self, other: &WatermarkSpec) -> bool {
        let WatermarkSpec { time_column, expression, max_ahead_ms, split_column } = self;
        *time_column == other.time_column
            && expression.as_ref() == other.expression.as_ref()
            && *max_ahead_ms == other.max_ahead_ms
            && *split_column == other.split_column
    }
}

/// So many rows in a row too far ahead are not one bad clock any more: time did move on. Picked so that a few
/// bad devices among many never reach it and a source that was silent does at once.
pub const REFUSED_MAX: usize = 1_000;

/// Finds the watermark of a stream of rows: the maximum of an expression over the rows so far.
#[derive(Clone)]
pub(crate) struct WatermarkGenerator {
    time_column: usize,
    bound: Bound,
    max_ahead_ms: Option<i64>,
    /// The highest event time of a row that was kept.
    time_max: Option<i64>,
    /// Rows refused as too far ahead since the last that was kept.
    refused: usize,
    watermark: i64,
    splits: Option<Splits>,
    /// Least and latest event time of the last batch.
    last: Option<(i64, i64)>,
}

/// The watermark expression of one row.
#[derive(Clone)]
enum Bound {
    /// Event time minus a constant, by far the commonest: needs no evaluation.
    Delay(i64),
    Expression(Arc<dyn PhysicalExpr>),
}

impl WatermarkGenerator {
    pub(crate) fn new(spec: &WatermarkSpec) -> WatermarkGenerator {
        let bound = match constant_delay_ms(&spec.expression, spec.time_column) {
            Some(delay_ms) => Bound::Delay(delay_ms),
            None => Bound::Expression(Arc::clone(&spec.expression)),
        };
        WatermarkGenerator {
            time_column: spec.time_column,
            bound,
            max_ahead_ms: spec.max_ahead_ms,
            time_max: None,
            refused: 0,
            watermark: EventTime::MIN.0,
            splits: spec.split_column.map(Splits::new),
            last: None,
        }
    }

    pub(crate) fn watermark(&self) -> EventTime {
        EventTime(self.watermark)
    }

    pub(crate) fn event_times(&self) -> Option<(EventTime, EventTime)> {
        self.last.map(|(low, high)| (EventTime(low), EventTime(high)))
    }

    /// All but the event times of the last batch, which say nothing of the next.
    pub(crate) fn save(&self, state: OperatorState) -> state::Result<OperatorState> {
        let own = vec![
            named("watermark", Int64Array::from(vec![self.watermark])),
            named("time-max", Int64Array::from(vec![self.time_max])),
            named("refused", UInt64Array::from(vec![self.refused as u64])),
        ];
        let state = state.with("watermark", own)?;
        match &self.splits {
            Some(splits) => splits.save(state),
            None => Ok(state),
        }
    }

    pub(crate) fn restore(&mut self, state: &mut OperatorState) -> state::Result<()> {
        let own = state.take("watermark")?;
        self.watermark = own.only::<Int64Type>("watermark")?;
        self.time_max = own.optional::<Int64Type>("time-max")?.iter().flatten().next();
        self.refused = own.only::<UInt64Type>("refused")? as usize;
        self.splits.as_mut().map_or(Ok(()), |splits| splits.restore(state))
    }

    /// Goes on as if it had seen what another has, too: no watermark of either is taken back.
    pub(crate) fn absorb(&mut self, other: &WatermarkGenerator) {
        self.watermark = self.watermark.max(other.watermark);
        self.time_max = self.time_max.max(other.time_max);
    }

    /// Takes the next rows. Returns those that are not dead, with the watermark before each.
    pub(crate) fn observe(
        &mut self,
        rows: RecordBatch,
        dead: &mut Vec<DeadRows>,
    ) -> Result<StreamBatch, DataFusionError> {
        let lists = self.splits.as_ref().map(|splits| splits.list(&rows).clone());
        let count = rows.num_rows();
        let rows = self.bury(rows, dead)?;
        // What a dead row says of the parts is not lost.
        let lists = lists.filter(|_| rows.num_rows() < count);
        if let (Some(splits), Some(lists)) = (&mut self.splits, &lists) {
            splits.await_any_of(&SplitRows::of(lists));
        }
        let observed = self.observe_living(rows);
        if let (Some(splits), Some(lists)) = (&mut self.splits, &lists) {
            splits.await_last_of(&SplitRows::of(lists));
        }
        observed
    }

    fn observe_living(&mut self, rows: RecordBatch) -> Result<StreamBatch, DataFusionError> {
        let Some(times) = rows.column(self.time_column).as_primitive_opt::<TimestampMillisecondType>() else {
            return internal_err!("event time is {}", rows.column(self.time_column).data_type());
        };
        let (Some(&low), Some(&high)) = (times.values().iter().min(), times.values().iter().max()) else {
            return Ok(StreamBatch::on_time(rows));
        };
        self.last = Some((low, high));
        let lists = self.splits.as_ref().map(|splits| splits.list(&rows));
        let watermark_before = match &self.bound {
            Bound::Delay(delay_ms) if lists.is_none() => {
                let (delay_ms, times) = (*delay_ms, times.values());
                let after = self.watermark.max(behind(high, delay_ms));
                if !may_be_judged(low, after) {
                    self.watermark = after;
                    None
                } else {
                    self.advance(times, None, |i| behind(times[i], delay_ms)).needed()
                }
            }
            Bound::Delay(delay_ms) => {
                let (delay_ms, times) = (*delay_ms, times.values());
                self.advance(times, lists, |i| behind(times[i], delay_ms)).needed()
            }
            Bound::Expression(expression) => {
                let bounds = bounds_of(expression, &rows)?;
                self.advance(times.values(), lists, |i| bound(&bounds, i)).needed()
            }
        };
        Ok(StreamBatch { rows, watermark_before })
    }

    /// The watermark before each of these rows, none of which is dead, also where none needs it.
    pub(crate) fn before_each(&mut self, rows: &RecordBatch) -> Result<ScalarBuffer<i64>, DataFusionError> {
        let Some(times) = rows.column(self.time_column).as_primitive_opt::<TimestampMillisecondType>() else {
            return internal_err!("event time is {}", rows.column(self.time_column).data_type());
        };
        let times = times.values();
        let lists = self.splits.as_ref().map(|splits| splits.list(rows));
        let advanced = match &self.bound {
            Bound::Delay(delay_ms) => {
                let delay_ms = *delay_ms;
                self.advance(times, lists, |i| behind(times[i], delay_ms))
            }
            Bound::Expression(expression) => {
                let bounds = bounds_of(expression, rows)?;
                self.advance(times, lists, |i| bound(&bounds, i))
            }
        };
        Ok(advanced.before)
    }

    /// Takes the next rows.
    fn advance(
        &mut self,
        times: &[i64],
        lists: Option<&ListArray>,
        bound: impl Fn(usize) -> i64,
    ) -> Advanced {
        let mut any_behind = false;
        if let (Some(splits), Some(lists)) = (&mut self.splits, lists) {
            let rows = SplitRows::of(lists);
            let mut before = Vec::with_capacity(times.len());
            for (i, &time) in times.iter().enumerate() {
                if splits.await_these(rows.awaited(i)) {
                    self.watermark = self.watermark.max(splits.least());
                }
                any_behind |= may_be_judged(time, self.watermark);
                before.push(self.watermark);
                if splits.advance(rows.part(i), bound(i), self.watermark) {
                    self.watermark = self.watermark.max(splits.least());
                }
            }
            return Advanced { before: before.into(), any_behind };
        }
        let before: Vec<i64> = times
            .iter()
            .enumerate()
            .map(|(i, &time)| {
                let before = self.watermark;
                any_behind |= may_be_judged(time, before);
                self.watermark = before.max(bound(i));
                before
            })
            .collect();
        Advanced { before: before.into(), any_behind }
    }

    /// Takes dead rows out.
    fn bury(&mut self, rows: RecordBatch, dead: &mut Vec<DeadRows>) -> Result<RecordBatch, DataFusionError> {
        let times = rows.column(self.time_column);
        let rows = match times.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => rows,
            Some(nulls) => {
                let valid = BooleanArray::new(nulls.inner().clone(), None);
                split(&rows, &valid, DeadReason::NullTime, dead)?
            }
        };
        let Some(max_ahead_ms) = self.max_ahead_ms else { return Ok(rows) };
        let times = rows.column(self.time_column).as_primitive::<TimestampMillisecondType>().values();
        let Some(&high) = times.iter().max() else { return Ok(rows) };
        let bound = |time_max: i64| time_max.saturating_add(max_ahead_ms);
        if self.time_max.is_some_and(|time_max| high <= bound(time_max)) {
            self.time_max = self.time_max.max(Some(high));
            self.refused = 0;
            return Ok(rows);
        }
        let keep = times.iter().map(|&time| {
            let keep =
                self.time_max.is_none_or(|time_max| time <= bound(time_max)) || self.refused >= REFUSED_MAX;
            if keep {
                self.time_max = self.time_max.max(Some(time));
                self.refused = 0;
            } else {
                self.refused += 1;
            }
            Some(keep)
        });
        let keep: BooleanArray = keep.collect();
        if keep.false_count() == 0 { Ok(rows) } else { split(&rows, &keep, DeadReason::TooFarAhead, dead) }
    }
}

/// The watermark before each of some rows.
struct Advanced {
    before: ScalarBuffer<i64>,
    /// Some row is behind it, or so near that an operator may ask.
    any_behind: bool,
}

impl Advanced {
    /// Unless no row needs it.
    fn needed(self) -> Option<ScalarBuffer<i64>> {
        self.any_behind.then_some(self.before)
    }
}

fn bounds_of(
    expression: &Arc<dyn PhysicalExpr>,
    rows: &RecordBatch,
) -> Result<TimestampMillisecondArray, DataFusionError> {
    let bounds = expression.evaluate(rows).map_err(|error| explained(error, expression, rows))?;
    let bounds = bounds.into_array(rows.num_rows())?;
    let bounds = cast(&bounds, &DataType::Timestamp(TimeUnit::Millisecond, None))?;
    Ok(bounds.as_primitive().clone())
}

fn bound(bounds: &TimestampMillisecondArray, row: usize) -> i64 {
    if bounds.is_valid(row) { behind(bounds.value(row), 0) } else { i64::MIN }
}

/// `time - delay`, kept below the watermark that means the end.
fn behind(time: i64, delay_ms: i64) -> i64 {
    time.saturating_sub(delay_ms).min(i64::MAX - 1)
}

fn split(
    rows: &RecordBatch,
    keep: &BooleanArray,
    reason: DeadReason,
    dead: &mut Vec<DeadRows>,
) -> Result<RecordBatch, DataFusionError> {
    let refused = BooleanArray::new(!keep.values(), None);
    dead.push(DeadRows { rows: filter_record_batch(rows, &refused)?, reason });
    Ok(filter_record_batch(rows, keep)?)
}

/// Recognises `time` and `time - INTERVAL '…'`, where the interval has a fixed length in milliseconds.
fn constant_delay_ms(expression: &Arc<dyn PhysicalExpr>, time_column: usize) -> Option<i64> {
    let is_time =
        |e: &Arc<dyn PhysicalExpr>| e.downcast_ref::<Column>().is_some_and(|c| c.index() == time_column);
    if is_time(expression) {
        return Some(0);
    }
    let subtraction = expression.downcast_ref::<BinaryExpr>()?;
    if *subtraction.op() != BinaryOperator::Minus || !is_time(subtraction.left()) {
        return None;
    }
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    match subtraction.right().downcast_ref::<Literal>()?.value() {
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
            (interval.nanoseconds % 1_000_000 == 0)
                .then(|| i64::from(interval.days) * DAY_MS + interval.nanoseconds / 1_000_000)
        }
        ScalarValue::IntervalDayTime(Some(interval)) => {
            Some(i64::from(interval.days) * DAY_MS + i64::from(interval.milliseconds))
        }
        ScalarValue::DurationMillisecond(Some(ms)) => Some(*ms),
        _ => None,
    }
}

/// Whether an operator may ask where the watermark stood before a row of this time: a row behind it may be late,
/// and one just ahead of it touches a session that the watermark has just closed.
fn may_be_judged(time_ms: i64, watermark_ms: i64) -> bool {
    time_ms.saturating_sub(1) <= watermark_ms
}
