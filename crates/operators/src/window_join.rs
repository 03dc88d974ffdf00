//! Joins of rows of the same window.

mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;
use laxity_graph::{EventTime, ProcessingTime, RowErrors};

use crate::expression::{Selection, internal};
use crate::join_keys::{KeyEncoder, KeyTable};
use crate::join_output::JoinOutput;
use crate::join_side::{JoinSide, NONE};
use crate::window_rows::{WindowColumns, WindowKey, WindowRows};
use crate::{
    Flow, JoinKind, Operator, OperatorError, OperatorFactory, OperatorState, Outbox, StateError, StreamBatch,
};

/// Joins rows of two inputs that lie in the same window and agree on keys.
///
/// Input 0 is the left, input 1 the right; both carry their window as columns. The window's pairs are emitted
/// when the watermark reaches `window_end - 1`.
#[derive(Clone, Debug)]
pub struct WindowJoinSpec {
    /// As `explain` names it.
    pub name: String,
    /// What happens to rows without a partner.
    pub kind: JoinKind,
    /// Input 0.
    pub left: WindowJoinInput,
    /// Input 1.
    pub right: WindowJoinInput,
    /// What a pair must fulfil besides equal windows and keys, over left columns then right columns (also for
    /// semi and anti joins). A NULL is a no.
    pub condition: Option<Arc<dyn PhysicalExpr>>,
    /// What becomes of a pair over which the condition fails: where the query goes on, the pair is none.
    pub row_errors: RowErrors,
}

/// One side of a [`WindowJoinSpec`].
#[derive(Clone, Debug)]
pub struct WindowJoinInput {
    /// Columns of the input.
    pub schema: SchemaRef,
    /// Column of the window's start, a timestamp in milliseconds.
    pub window_start: usize,
    /// Column of the window's end, a timestamp in milliseconds.
    pub window_end: usize,
    /// Key columns, paired by position with the other side's and of equal types. May be empty.
    pub keys: Vec<usize>,
}

impl WindowJoinSpec {
    /// Columns of the result, see [`JoinKind::output_schema`].
    pub fn output_schema(&self) -> SchemaRef {
        self.kind.output_schema(&self.left.schema, &self.right.schema)
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |context| Ok(Box::new(WindowJoin::new(&self, context.batch_rows)?)))
    }
}

/// The operator of a [`WindowJoinSpec`].
#[derive(Debug)]
struct WindowJoin {
    kind: JoinKind,
    output: JoinOutput,
    inputs: [Input; 2],
    windows: BTreeMap<WindowKey, Window>,
    watermark: EventTime,
    /// The window being emitted. No message is taken before it is through.
    firing: Option<Firing>,
    batch_rows: usize,
    /// Sum of the sizes of `windows`.
    bytes: usize,
}

#[derive(Debug)]
struct Input {
    schema: SchemaRef,
    columns: WindowColumns,
    encoder: KeyEncoder,
    /// Whether rows with a NULL key can be in the result.
    keeps_null_keys: bool,
}

/// Rows of one window. The sides share the key table, so that equal keys have equal numbers.
#[derive(Debug)]
struct Window {
    keys: KeyTable,
    sides: [JoinSide; 2],
    ingested: ProcessingTime,
    bytes: usize,
}

/// How far the emission of a window is.
#[derive(Debug)]
struct Firing {
    window: Window,
    end: EventTime,
    phase: Phase,
    /// Per side, which rows found a partner. Kept only where the condition decides: without one, a row has a
    /// partner if the other side has its key.
    matched: [Vec<bool>; 2],
}

/// Steps of an emission, each with the next row to look at.
#[derive(Debug)]
enum Phase {
    /// Left row, and where in the right side's chain of its key to go on; [`NONE`]: at its first row.
    Pairs {
        left: u32,
        right: u32,
    },
    /// Left rows by themselves: padded, or the result of a semi or anti join.
    Left {
        row: u32,
    },
    /// Right rows, padded.
    Right {
        row: u32,
    },
    Done,
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// Rows looked at without a result cost about an eighth of one gathered and emitted.
const LOOKS_PER_RESULT: usize = 8;

impl WindowJoin {
    fn new(spec: &WindowJoinSpec, batch_rows: usize) -> Result<WindowJoin, OperatorError> {
        let input = |side: &WindowJoinInput, keeps_null_keys: bool| -> Result<Input, OperatorError> {
            Ok(Input {
                schema: Arc::clone(&side.schema),
                columns: WindowColumns::new(&spec.name, &side.schema, side.window_start, side.window_end)?,
                encoder: KeyEncoder::new(&side.schema, &side.keys).map_err(|e| internal(&spec.name, e))?,
                keeps_null_keys,
            })
        };
        check_keys(&spec.name, (&spec.left.schema, &spec.left.keys), (&spec.right.schema, &spec.right.keys))?;
        Ok(WindowJoin {
            kind: spec.kind,
            output: JoinOutput::new(
                spec.name.clone(),
                spec.kind,
                Arc::clone(&spec.left.schema),
                Arc::clone(&spec.right.schema),
                spec.condition.clone(),
                spec.row_errors,
            ),
            inputs: [
                input(&spec.left, spec.kind.keeps_left() || spec.kind == JoinKind::Anti)?,
                input(&spec.right, spec.kind.keeps_right())?,
            ],
            windows: BTreeMap::new(),
            watermark: EventTime::MIN,
            firing: None,
            batch_rows: batch_rows.max(1),
            bytes: 0,
        })
    }

    /// Emits closed windows, about one output batch per call, and the watermark behind them.
    fn fire(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        let mut budget = self.batch_rows * LOOKS_PER_RESULT;
        while budget > 0 {
            let Some(mut firing) = self.firing.take().or_else(|| self.next_closed()) else {
                out.watermark(self.watermark);
                return Ok(Flow::Done);
            };
            firing.step(self.kind, &self.output, self.batch_rows, &mut budget, out)?;
            if matches!(firing.phase, Phase::Done) {
                self.bytes -= firing.window.bytes;
            } else {
                self.firing = Some(firing);
            }
        }
        Ok(Flow::More)
    }

    fn next_closed(&mut self) -> Option<Firing> {
        let (&window, _) = self.windows.first_key_value()?;
        if window.0.saturating_sub(1) > self.watermark.0 {
            return None;
        }
        let rows = self.windows.remove(&window)?;
        Some(Firing::new(rows, EventTime(window.0), self.kind, self.output.has_condition()))
    }
}

impl Operator for WindowJoin {
    fn on_batch(
        &mut self,
        input: usize,
        batch: StreamBatch,
        ingested: ProcessingTime,
        out: &mut Outbox,
    ) -> Result<Flow, OperatorError> {
        let side = &self.inputs[input];
        let groups = side.columns.split(&batch, self.watermark, out);
        if groups.is_empty() {
            return Ok(Flow::Done);
        }
        let keys = side.encoder.encode(&batch.rows).map_err(|e| self.output.bug(&e))?;
        for WindowRows { window, mut rows } in groups {
            if let (Some(nulls), false) = (&keys.nulls, side.keeps_null_keys) {
                let all = rows.unwrap_or_else(|| (0..batch.num_rows() as u32).collect());
                rows = Some(all.into_iter().filter(|&row| nulls.is_valid(row as usize)).collect());
            }
            if rows.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let window = self.windows.entry(window).or_insert_with(|| Window {
                keys: KeyTable::default(),
                sides: [LEFT, RIGHT]
                    .map(|i| JoinSide::new(Arc::clone(&self.inputs[i].schema), self.batch_rows)),
                ingested,
                bytes: 0,
            });
            window.ingested = window.ingested.max(ingested);
            window.sides[input]
                .push(&batch.rows, rows.as_deref(), &keys, &mut window.keys)
                .map_err(|e| self.output.bug(&e))?;
            self.bytes -= window.bytes;
            window.bytes = window.size_bytes();
            self.bytes += window.bytes;
        }
        Ok(Flow::Done)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.watermark = self.watermark.max(watermark);
        self.fire(out)
    }

    fn resume(&mut self, out: &mut Outbox) -> Result<Flow, OperatorError> {
        self.fire(out)
    }

    fn save(&mut self) -> Result<OperatorState, StateError> {
        self.saved()
    }

    fn restore(&mut self, state: OperatorState) -> Result<(), StateError> {
        self.restored(state)
    }

    fn state_bytes(&self) -> usize {
        self.bytes
    }
}

impl Window {
    fn size_bytes(&self) -> usize {
        size_of::<Window>()
            + self.keys.size_bytes()
            + self.sides.iter().map(JoinSide::size_bytes).sum::<usize>()
    }

    /// Whether the other side has the key of that row.
    fn has_partner(&self, side: usize, row: u32) -> bool {
        let key = self.sides[side].key(row);
        key != NONE && self.sides[1 - side].first(key) != NONE
    }
}

impl Firing {
    fn new(window: Window, end: EventTime, kind: JoinKind, has_condition: bool) -> Firing {
        let has_both = window.sides.iter().all(|side| side.len() > 0);
        let matched = if has_condition {
            [LEFT, RIGHT].map(|side| vec![false; window.sides[side].len()])
        } else {
            [Vec::new(), Vec::new()]
        };
        // A semi or anti join without condition needs no pairs: the key alone tells.
        let phase = if has_both && (kind.emits_pairs() || has_condition) {
            Phase::Pairs { left: 0, right: NONE }
        } else {
            Phase::Left { row: 0 }
        };
        Firing { window, end, phase, matched }
    }

    /// Emits at most one batch.
    fn step(
        &mut self,
        kind: JoinKind,
        output: &JoinOutput,
        batch_rows: usize,
        budget: &mut usize,
        out: &mut Outbox,
    ) -> Result<(), OperatorError> {
        let wanted = batch_rows.min(budget.div_ceil(LOOKS_PER_RESULT));
        *budget = budget.saturating_sub(1);
        match self.phase {
            Phase::Pairs { left, right } => {
                let (lefts, rights) = self.next_pairs(left, right, wanted, budget);
                if !lefts.is_empty() {
                    self.emit_pairs(kind, output, &lefts, &rights, out)?;
                }
            }
            Phase::Left { row } => {
                // Semi wants rows with a partner, the others those without.
                let wants = match kind {
                    JoinKind::Semi => Some(true),
                    JoinKind::Left | JoinKind::Full | JoinKind::Anti => Some(false),
                    JoinKind::Inner | JoinKind::Right => None,
                };
                let (rows, next) = self.alone(LEFT, row, wants, wanted, budget);
                self.phase = next.map_or(Phase::Right { row: 0 }, |row| Phase::Left { row });
                if !rows.is_empty() {
                    let columns = self.window.sides[LEFT].rows.gather(&rows).map_err(|e| output.bug(&e))?;
                    let batch = if kind.emits_pairs() {
                        output.pad_left(columns)?
                    } else {
                        output.left_alone(columns)?
                    };
                    self.emit(batch, out);
                }
            }
            Phase::Right { row } => {
                let wants = kind.keeps_right().then_some(false);
                let (rows, next) = self.alone(RIGHT, row, wants, wanted, budget);
                self.phase = next.map_or(Phase::Done, |row| Phase::Right { row });
                if !rows.is_empty() {
                    let columns = self.window.sides[RIGHT].rows.gather(&rows).map_err(|e| output.bug(&e))?;
                    let batch = output.pad_right(columns)?;
                    self.emit(batch, out);
                }
            }
            Phase::Done => {}
        }
        Ok(())
    }

    /// The next pairs of equal keys from there on, and moves the phase behind them.
    fn next_pairs(
        &mut self,
        mut left: u32,
        mut right: u32,
        wanted: usize,
        budget: &mut usize,
    ) -> (Vec<u32>, Vec<u32>) {
        let [left_side, right_side] = &self.window.sides;
        let (mut lefts, mut rights) = (Vec::with_capacity(wanted), Vec::with_capacity(wanted));
        while lefts.len() < wanted && *budget > 0 && (left as usize) < left_side.len() {
            if right == NONE {
                *budget -= 1;
                let key = left_side.key(left);
                right = if key == NONE { NONE } else { right_side.first(key) };
            }
            while right != NONE && lefts.len() < wanted {
                lefts.push(left);
                rights.push(right);
                right = right_side.next(right);
            }
            if right == NONE {
                left += 1;
            }
        }
        *budget = budget.saturating_sub(lefts.len() * LOOKS_PER_RESULT);
        self.phase = if (left as usize) < left_side.len() {
            Phase::Pairs { left, right }
        } else {
            Phase::Left { row: 0 }
        };
        (lefts, rights)
    }

    fn emit_pairs(
        &mut self,
        kind: JoinKind,
        output: &JoinOutput,
        lefts: &[u32],
        rights: &[u32],
        out: &mut Outbox,
    ) -> Result<(), OperatorError> {
        let [left_side, right_side] = &self.window.sides;
        let left_columns = left_side.rows.gather(lefts).map_err(|e| output.bug(&e))?;
        let right_columns = right_side.rows.gather(rights).map_err(|e| output.bug(&e))?;
        let mut pairs = output.pairs(left_columns, right_columns)?;
        let chosen: Box<dyn Iterator<Item = usize>> = match output.select(&pairs, &mut out.dead)? {
            Selection::Nothing => return Ok(()),
            Selection::All => Box::new(0..lefts.len()),
            Selection::Some(mask) => {
                pairs = filter_record_batch(&pairs, &mask).map_err(|e| output.bug(&e))?;
                Box::new((0..lefts.len()).filter(move |&pair| mask.value(pair)))
            }
        };
        if output.has_condition() {
            for pair in chosen {
                self.matched[LEFT][lefts[pair] as usize] = true;
                self.matched[RIGHT][rights[pair] as usize] = true;
            }
        }
        if kind.emits_pairs() {
            self.emit(pairs, out);
        }
        Ok(())
    }

    /// The next rows of a side that have (`wants`) or lack a partner, and where to go on. `None` wants no row.
    fn alone(
        &self,
        side: usize,
        mut row: u32,
        wants: Option<bool>,
        wanted: usize,
        budget: &mut usize,
    ) -> (Vec<u32>, Option<u32>) {
        let (Some(wants), count) = (wants, self.window.sides[side].len() as u32) else {
            return (Vec::new(), None);
        };
        let mut rows = Vec::new();
        while row < count && rows.len() < wanted && *budget > 0 {
            *budget -= 1;
            let has_partner = match self.matched[side].get(row as usize) {
                Some(&matched) => matched,
                None => self.window.has_partner(side, row),
            };
            if has_partner == wants {
                rows.push(row);
            }
            row += 1;
        }
        *budget = budget.saturating_sub(rows.len() * (LOOKS_PER_RESULT - 1));
        (rows, (row < count).then_some(row))
    }

    fn emit(&self, batch: RecordBatch, out: &mut Outbox) {
        out.result(StreamBatch::on_time(batch), self.window.ingested, Some(self.end));
    }
}

/// Refuses a plan whose key columns do not pair up.
pub(crate) fn check_keys(
    operator: &str,
    (left, left_keys): (&Schema, &[usize]),
    (right, right_keys): (&Schema, &[usize]),
) -> Result<(), OperatorError> {
    let types = |schema: &Schema, keys: &[usize]| -> Vec<DataType> {
        keys.iter().map(|&key| schema.field(key).data_type().clone()).collect()
    };
    let (left, right) = (types(left, left_keys), types(right, right_keys));
    if left == right {
        Ok(())
    } else {
        Err(internal(operator, format!("left keys are {left:?}, right keys {right:?}")))
    }
}

#[cfg(test)]
mod tests;
