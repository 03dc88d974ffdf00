//! Joins of rows whose times lie close to each other.

mod buffer;
mod probe;
mod saved;

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::take_arrays;
use arrow::datatypes::SchemaRef;
use datafusion_physical_expr::PhysicalExpr;
use laxity_graph::{EventTime, ProcessingTime, RowErrors};

use self::buffer::{Arrivals, Buffer};
use self::probe::Probe;
use crate::expression::internal;
use crate::join_keys::KeyEncoder;
use crate::join_output::JoinOutput;
use crate::state::CHUNK_ROWS;
use crate::window_join::check_keys;
use crate::window_rows::{check_timestamp, choose, timestamps};
use crate::{
    DeadReason, DeadRows, Flow, JoinKind, LateRows, Operator, OperatorError, OperatorFactory, OperatorState,
    Outbox, StateError, StreamBatch,
};

/// Joins rows of two inputs that agree on keys and whose event times lie close to each other:
/// `lower <= left.time - right.time <= upper`.
#[derive(Clone, Debug)]
pub struct IntervalJoinSpec {
    /// As `explain` names it.
    pub name: String,
    /// Inner, left, right or full.
    pub kind: JoinKind,
    /// Input 0.
    pub left: IntervalJoinInput,
    /// Input 1.
    pub right: IntervalJoinInput,
    /// Least `left.time - right.time` of a pair, may be negative.
    pub lower_ms: i64,
    /// Greatest `left.time - right.time` of a pair, may be negative.
    pub upper_ms: i64,
    /// What a pair must fulfil besides, over left columns then right columns. A NULL is a no.
    pub condition: Option<Arc<dyn PhysicalExpr>>,
    /// What becomes of a pair over which the condition fails: where the query goes on, the pair is none.
    pub row_errors: RowErrors,
}

/// One side of an [`IntervalJoinSpec`].
#[derive(Clone, Debug)]
pub struct IntervalJoinInput {
    /// Columns of the input.
    pub schema: SchemaRef,
    /// The event-time attribute, a timestamp in milliseconds.
    pub time: usize,
    /// Key columns, paired by position with the other side's and of equal types. May be empty.
    pub keys: Vec<usize>,
}

impl IntervalJoinSpec {
    /// Columns of the result, see [`JoinKind::output_schema`].
    pub fn output_schema(&self) -> SchemaRef {
        self.kind.output_schema(&self.left.schema, &self.right.schema)
    }

    /// How far the output watermark stays behind the input's: `max(-lower, upper)`, as in Flink. A side whose lonely
    /// rows are a result waits for them as long as late partners may come; Flink lets them be late.
    pub fn watermark_delay_ms(&self) -> i64 {
        let keeps_lonely = self.kind.keeps_left() || self.kind.keeps_right();
        let slack_ms = if keeps_lonely { self.bounds().slack_ms() } else { 0 };
        self.lower_ms.saturating_neg().max(self.upper_ms).max(0).saturating_add(slack_ms)
    }

    fn bounds(&self) -> Bounds {
        Bounds { lower_ms: self.lower_ms, upper_ms: self.upper_ms }
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(IntervalJoin::new(&self, context.batch_rows)?)))
    }
}

/// The operator of an [`IntervalJoinSpec`].
///
/// A pair is emitted as soon as both rows are there. Rows stay half the interval's length longer than rows on time
/// need them, as Flink's do at least. Rows behind their own watermark join what is kept so, by a rule that knows
/// only the two rows ([`Bounds::joins`]): so results do not depend on how the inputs interleave, as Flink's do,
/// which cleans up by timers that rows of the same key set off.
#[derive(Debug)]
struct IntervalJoin {
    output: JoinOutput,
    bounds: Bounds,
    watermark_delay_ms: i64,
    inputs: [Input; 2],
    /// The combined watermark.
    watermark: EventTime,
    /// The last one sent on.
    forwarded: EventTime,
    work: Work,
    batch_rows: usize,
}

#[derive(Debug)]
struct Input {
    time: usize,
    encoder: KeyEncoder,
    buffer: Buffer,
}

/// What a call left to do.
#[derive(Debug)]
enum Work {
    Nothing,
    /// A batch has pairs left.
    Probe(Box<Probe>),
    /// The watermark has released rows of this side on.
    Expire(usize),
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Rows looked at without a result cost about an eighth of one gathered and emitted.
const LOOKS_PER_RESULT: usize = 8;

/// Rows stay up to one bucket's width longer than needed, a quarter of the interval; a shorter width means
/// more buckets to look into for each row.
const BUCKETS_PER_INTERVAL: i64 = 4;

/// Below this, buckets would be so small that their fixed cost shows.
const BUCKET_MS_MIN: i64 = 1_000;

/// The interval, as `lower <= left.time - right.time <= upper`.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    lower_ms: i64,
    upper_ms: i64,
}

impl Bounds {
    /// How long after its time a row of that side can match rows of the other that are on time: a left row of
    /// time t matches right rows up to `t - lower`, a right row left rows up to `t + upper`.
    fn retention_ms(&self, side: usize) -> i64 {
        if side == LEFT { self.lower_ms.saturating_neg() } else { self.upper_ms }
    }

    /// How much longer than that a row is kept, for late ones: Flink's `minCleanUpInterval`.
    fn slack_ms(&self) -> i64 {
        self.upper_ms.saturating_sub(self.lower_ms) / 2
    }

    /// How long after its time a row of that side is kept.
    fn kept_ms(&self, side: usize) -> i64 {
        self.retention_ms(side).saturating_add(self.slack_ms())
    }

    /// Times of the rows that a row of `side` can match.
    fn partners(&self, side: usize, time: i64) -> RangeInclusive<i64> {
        time.saturating_sub(self.retention_ms(1 - side))..=time.saturating_add(self.retention_ms(side))
    }

    /// Whether a row of `side` joins one of the other side, each given by its time and, if it is behind it, the
    /// watermark before it: their times are near, and neither had expired by the other's watermark.
    fn joins(&self, side: usize, (time, before): (i64, i64), (other_time, other_before): (i64, i64)) -> bool {
        let apart =
            if side == LEFT { time.saturating_sub(other_time) } else { other_time.saturating_sub(time) };
        self.lower_ms <= apart
            && apart <= self.upper_ms
            && other_time.saturating_add(self.kept_ms(1 - side)) > before
            && time.saturating_add(self.kept_ms(side)) > other_before
    }

    /// Whether a row of `side` that is behind the watermark `before` can match nothing any more: its latest
    /// possible partner has expired.
    fn is_late(&self, side: usize, time: i64, before: i64) -> bool {
        let partner = time.saturating_add(self.retention_ms(side));
        before != i64::MIN && partner.saturating_add(self.kept_ms(1 - side)) <= before
    }
}

impl IntervalJoin {
    fn new(spec: &IntervalJoinSpec, batch_rows: usize) -> Result<IntervalJoin, OperatorError> {
        if !spec.kind.emits_pairs() {
            return Err(internal(&spec.name, format!("no {} interval join", spec.kind)));
        }
        if spec.lower_ms > spec.upper_ms {
            return Err(internal(
                &spec.name,
                format!("empty interval {} to {}", spec.lower_ms, spec.upper_ms),
            ));
        }
        check_keys(&spec.name, (&spec.left.schema, &spec.left.keys), (&spec.right.schema, &spec.right.keys))?;
        let bounds = spec.bounds();
        let width_ms =
            (spec.upper_ms.saturating_sub(spec.lower_ms) / BUCKETS_PER_INTERVAL).max(BUCKET_MS_MIN);
        let batch_rows = batch_rows.max(1);
        // A file each in every checkpoint: some hundred for ten million rows.
        let piece_rows = batch_rows.max(8 * CHUNK_ROWS);
        let input =
            |side: usize, of: &IntervalJoinInput, keeps_lonely: bool| -> Result<Input, OperatorError> {
                check_timestamp(&spec.name, &of.schema, of.time)?;
                let schema = Arc::clone(&of.schema);
                Ok(Input {
                    time: of.time,
                    encoder: KeyEncoder::new(&of.schema, &of.keys).map_err(|e| internal(&spec.name, e))?,
                    buffer: Buffer::new(schema, piece_rows, width_ms, bounds.kept_ms(side), keeps_lonely),
                })
            };
        Ok(IntervalJoin {
            output: JoinOutput::new(
                spec.name.clone(),
                spec.kind,
                Arc::clone(&spec.left.schema),
                Arc::clone(&spec.right.schema),
                spec.condition.clone(),
                spec.row_errors,
            ),
            bounds,
            watermark_delay_ms: spec.watermark_delay_ms(),
            inputs: [
                input(LEFT, &spec.left, spec.kind.keeps_left())?,
                input(RIGHT, &spec.right, spec.kind.keeps_right())?,
            ],
            watermark: EventTime::MIN,
            forwarded: EventTime::MIN,
            work: Work::Nothing,
            batch_rows,
        })
    }

    /// Sorts out the rows of a batch: dead, late, lonely for sure, or able to match.
    fn admit(
        &self,
        side: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Probe, OperatorError> {
        let input = &self.inputs[side];
        let column = timestamps(&batch.rows, input.time);
        let times = column.values().to_vec();
        let keys = input.encoder.encode(&batch.rows).map_err(|e| self.output.bug(&e))?;
        let keeps_lonely = input.buffer.keeps_lonely();
        let mut before = vec![i64::MIN; times.len()];
        let (mut order, mut lonely) = (Vec::with_capacity(times.len()), Vec::new());
        let (mut late, mut dead) = (Vec::new(), Vec::new());
        for (row, &time) in times.iter().enumerate() {
            if column.is_null(row) {
                dead.push(row as u32);
                continue;
            }
            // The combined watermark exceeds the row's own only for an input that had been declared idle.
            let own = batch.watermark_before.as_ref().map_or(i64::MIN, |before| before[row]);
            let watermark = own.max(self.watermark.0);
            if time <= watermark {
                before[row] = watermark;
            }
            let is_late = self.bounds.is_late(side, time, before[row]);
            if is_late || keys.is_null(row) {
                if keeps_lonely {
                    lonely.push(row as u32);
                } else if is_late {
                    late.push(row as u32);
                }
            } else {
                order.push(row as u32);
            }
        }
        if !late.is_empty() {
            // The end of the last moment at which the row could have found a partner.
            let last = self.bounds.retention_ms(side).saturating_add(self.bounds.kept_ms(1 - side));
            let end = |&row: &u32| times[row as usize].saturating_add(last).saturating_add(1);
            let window_end = late.iter().map(end).collect();
            out.late.push(LateRows { rows: choose(&batch.rows, late), window_end });
        }
        if !dead.is_empty() {
            out.dead.push(DeadRows { rows: choose(&batch.rows, dead), reason: DeadReason::NullTime });
        }
        if !order.is_sorted_by_key(|&row| times[row as usize]) {
            order.sort_by_key(|&row| times[row as usize]);
        }
        let buckets = match (order.first(), order.last()) {
            (Some(&first), Some(&last)) => {
                let start = *self.bounds.partners(side, times[first as usize]).start();
                let end = *self.bounds.partners(side, times[last as usize]).end();
                let mut buckets = self.inputs[1 - side].buffer.touched(start..=end);
                buckets.reverse();
                buckets
            }
            _ => Vec::new(),
        };
        let matched = vec![false; times.len()];
        let arrivals = Arrivals { times, before, matched, keys, ingested };
        Ok(Probe { side, rows: batch.rows, arrivals, order, lonely, buckets, at: None })
    }

    fn work(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let mut budget = self.batch_rows * LOOKS_PER_RESULT;
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Nothing => Ok(Flow::Done),
            Work::Probe(probe) => self.probe(probe, &mut budget, out),
            Work::Expire(side) => self.expire(side, &mut budget, out),
        }
    }

    fn probe(
        &mut self,
        mut probe: Box<Probe>,
        budget: &mut usize,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let other = &mut self.inputs[1 - probe.side].buffer;
        while !probe.buckets.is_empty() {
            if *budget == 0 {
                self.work = Work::Probe(probe);
                return Ok(Flow::More);
            }
            let wanted = self.batch_rows.min(budget.div_ceil(LOOKS_PER_RESULT));
            if let Some(pairs) =
                probe.next_pairs(other, &self.bounds, &self.output, wanted, budget, &mut out.dead)?
            {
                emit(pairs.batch, &pairs.before, self.watermark_delay_ms, pairs.ingested, out);
            }
        }
        self.settle(*probe, out)?;
        Ok(Flow::Done)
    }

    /// Buffers the rows that can wait and emits the lonely ones that cannot.
    fn settle(&mut self, mut probe: Probe, out: &mut Outbox) -> Result<(), OperatorError> {
        let buffer = &mut self.inputs[probe.side].buffer;
        let (arrivals, watermark) = (&probe.arrivals, self.watermark.0);
        let keeps_lonely = buffer.keeps_lonely();
        let lonely = &mut probe.lonely;
        probe.order.retain(|&row| {
            let is_expired = buffer.is_expired(arrivals.times[row as usize], watermark);
            if is_expired && keeps_lonely && !arrivals.matched[row as usize] {
                lonely.push(row);
            }
            !is_expired
        });
        buffer.push(&probe.rows, &probe.order, arrivals).map_err(|e| self.output.bug(&e))?;
        for rows in probe.lonely.chunks(self.batch_rows) {
            let before: Vec<i64> = rows.iter().map(|&row| probe.arrivals.before[row as usize]).collect();
            let columns = take_arrays(probe.rows.columns(), &UInt32Array::from(rows.to_vec()), None);
            let columns = columns.map_err(|e| self.output.bug(&e))?;
            let padded = if probe.side == LEFT {
                self.output.pad_left(columns)?
            } else {
                self.output.pad_right(columns)?
            };
            emit(padded, &before, self.watermark_delay_ms, probe.arrivals.ingested, out);
        }
        Ok(())
    }

    /// Emits lonely rows that have expired, from `side` on, then the watermark.
    fn expire(&mut self, side: usize, budget: &mut usize, out: &mut Outbox) -> Result<Flow, OperatorError> {
        for side in side..self.inputs.len() {
            let buffer = &mut self.inputs[side].buffer;
            loop {
                if *budget == 0 {
                    self.work = Work::Expire(side);
                    return Ok(Flow::More);
                }
                let wanted = self.batch_rows.min(budget.div_ceil(LOOKS_PER_RESULT));
                let expired =
                    buffer.pop_lonely(self.watermark.0, wanted, budget).map_err(|e| self.output.bug(&e))?;
                let Some(expired) = expired else { break };
                let count = expired.before.len();
                *budget = budget.saturating_sub(count * (LOOKS_PER_RESULT - 1));
                if count > 0 {
                    let padded = if side == LEFT {
                        self.output.pad_left(expired.columns)?
                    } else {
                        self.output.pad_right(expired.columns)?
                    };
                    emit(padded, &expired.before, self.watermark_delay_ms, expired.ingested, out);
                }
            }
            buffer.drop_expired(self.watermark.0);
        }
        let watermark = match self.watermark {
            EventTime::MAX => EventTime::MAX,
            EventTime(ms) => EventTime(ms.saturating_sub(self.watermark_delay_ms)),
        };
        if watermark > self.forwarded {
            self.forwarded = watermark;
            out.watermark(watermark);
        }
        Ok(Flow::Done)
    }
}

impl Operator for IntervalJoin {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let probe = self.admit(input, batch, ingested, out)?;
        self.work = Work::Probe(Box::new(probe));
        self.work(out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.watermark = self.watermark.max(watermark);
        self.work = Work::Expire(LEFT);
        self.work(out)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.work(out)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.saved()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.restored(state)
    }

    fn state_bytes(&self) -> usize {
        let probe = match &self.work {
            Work::Probe(probe) => probe.rows.get_array_memory_size(),
            _ => 0,
        };
        self.inputs.iter().map(|input| input.buffer.size_bytes()).sum::<usize>() + probe
    }
}

/// Sends rows on. Those behind the watermark `before` are behind the output watermark by as much.
fn emit(
    batch: RecordBatch,
    before: &[i64],
    watermark_delay_ms: i64,
    ingested: ProcessingTime,
    out: &mut Outbox,
) {
    let watermark_before = before
        .iter()
        .any(|&before| before != i64::MIN)
        .then(|| before.iter().map(|before| before.saturating_sub(watermark_delay_ms)).collect());
    out.result(StreamBatch { rows: batch, watermark_before }, ingested, None);
}

#[cfg(test)]
mod tests;
