//! Aggregates over frames: any of the library's, row by row.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::frames::Steps;
use super::running::{HandedColumns, Running, own};
use crate::groups::{
    accumulator, accumulator_of, is_restored_exactly, keeps_what_it_tells, sliding_accumulator, states_of,
};
use crate::state::lists;

/// The aggregate of a call: our own where there is one, the library's else.
pub(super) fn running(
    expr: &Arc<AggregateFunctionExpr>,
    input: &Schema,
    is_bounded: bool,
) -> Result<Box<dyn Running>> {
    match own(expr, input)? {
        Some(own) => Ok(own),
        None => Ok(Box::new(General::new(Arc::clone(expr), input, is_bounded)?)),
    }
}

/// Any aggregate of the library, row by row.
struct General {
    expr: Arc<AggregateFunctionExpr>,
    /// Their types.
    arguments: Vec<DataType>,
    way: Way,
    by_key: Vec<OfKey>,
    bytes: usize,
}

/// How a bounded frame loses a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It loses none.
    Grow,
    /// The function takes it back.
    Retract,
    /// The frame is computed anew.
    Again,
}

struct OfKey {
    /// `None` where the frame is computed anew.
    accumulator: Option<Box<dyn Accumulator>>,
    /// Of a bounded frame, the arguments of each row.
    rows: VecDeque<Vec<ScalarValue>>,
    bytes: usize,
}

impl General {
    fn new(expr: Arc<AggregateFunctionExpr>, input: &Schema, is_bounded: bool) -> Result<General> {
        let sliding = sliding_accumulator(&expr);
        let way = match is_bounded {
            false => Way::Grow,
            true if sliding.is_ok_and(|sliding| sliding.supports_retract_batch()) => Way::Retract,
            true => Way::Again,
        };
        let arguments = expr.expressions();
        let arguments = arguments.iter().map(|argument| argument.data_type(input));
        let arguments = arguments.collect::<Result<_>>()?;
        Ok(General { expr, arguments, way, by_key: Vec::new(), bytes: 0 })
    }

    fn resize(&mut self, keys: usize) -> Result<()> {
        while self.by_key.len() < keys {
            let accumulator = self.accumulator()?;
            self.by_key.push(OfKey { accumulator, rows: VecDeque::new(), bytes: 0 });
        }
        Ok(())
    }

    /// Whether what accumulators hold is written down. Where rows are taken back, the rows of the frame say the same,
    /// exactly so but for deviations, which keep an error.
    fn saves_accumulators(&self) -> bool {
        match self.way {
            Way::Grow => true,
            Way::Retract => is_restored_exactly(&self.expr),
            Way::Again => false,
        }
    }

    fn accumulator(&self) -> Result<Option<Box<dyn Accumulator>>> {
        Ok(match self.way {
            Way::Grow => Some(accumulator(&self.expr)?),
            Way::Retract => Some(sliding_accumulator(&self.expr)?),
            Way::Again => None,
        })
    }
}

impl General {
    fn count_bytes(&mut self) {
        let size = |of_key: &OfKey| of_key.bytes + of_key.accumulator.as_ref().map_or(0, |a| a.size());
        self.bytes = self.by_key.iter().map(size).sum();
    }
}

impl Running for General {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        self.resize(steps.key_count)?;
        let mut results = Vec::with_capacity(steps.keys.len());
        for (row, &key) in steps.keys.iter().enumerate() {
            let of_key = &mut self.by_key[key as usize];
            let expired = steps.expired.as_ref().map_or(0, |expired| expired[row] as usize);
            for old in of_key.rows.drain(..expired) {
                of_key.bytes -= bytes_of(&old);
                self.bytes -= bytes_of(&old);
                if let Some(accumulator) = &mut of_key.accumulator {
                    let old = old.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
                    accumulator.retract_batch(&old)?;
                }
            }
            if steps.expired.is_some() {
                let values = arguments.iter().map(|argument| ScalarValue::try_from_array(argument, row));
                let values = values.collect::<Result<Vec<_>>>()?;
                of_key.bytes += bytes_of(&values);
                self.bytes += bytes_of(&values);
                of_key.rows.push_back(values);
            }
            results.push(match &mut of_key.accumulator {
                Some(accumulator) => {
                    let before = accumulator.size();
                    let one: Vec<ArrayRef> =
                        arguments.iter().map(|argument| argument.slice(row, 1)).collect();
                    accumulator.update_batch(&one)?;
                    let value = accumulator.evaluate()?;
                    self.bytes = (self.bytes + accumulator.size()).saturating_sub(before);
                    value
                }
                None => {
                    let mut accumulator = accumulator(&self.expr)?;
                    let column = |column: usize| {
                        ScalarValue::iter_to_array(of_key.rows.iter().map(|row| row[column].clone()))
                    };
                    let columns = (0..arguments.len()).map(column).collect::<Result<Vec<_>>>()?;
                    accumulator.update_batch(&columns)?;
                    accumulator.evaluate()?
                }
            });
        }
        array_of(results.into_iter(), self.expr.field().data_type())
    }

    fn keep(&mut self, kept: &[u32]) {
        keep(&mut self.by_key, kept);
        self.count_bytes();
    }

    /// Accumulators cannot be handed out: they are copied now.
    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns> {
        self.resize(keys)?;
        let mut columns: Vec<ArrayRef> = Vec::new();
        if self.saves_accumulators() {
            let accumulators = self.by_key.iter_mut().filter_map(|of_key| of_key.accumulator.as_mut());
            let states = states_of(&self.expr, accumulators)?;
            columns.extend(states.into_iter().map(|(_, array)| array));
            if !keeps_what_it_tells(&self.expr) {
                for (row, of_key) in self.by_key.iter_mut().enumerate() {
                    of_key.accumulator = Some(accumulator_of(&self.expr, &columns, row)?);
                }
            }
        }
        if self.way != Way::Grow {
            for (argument, data_type) in self.arguments.iter().enumerate() {
                let values =
                    self.by_key.iter().flat_map(|of_key| &of_key.rows).map(|row| row[argument].clone());
                let values = array_of(values, data_type)?;
                columns.push(lists(self.by_key.iter().map(|of_key| of_key.rows.len()), values));
            }
        }
        Ok(Box::new(move |keys| {
            let len = columns.first().map_or(0, |column| column.len());
            let (from, to) = (keys.start.min(len), keys.end.min(len));
            columns.iter().map(|column| column.slice(from, to - from)).collect()
        }))
    }

    fn rows_in(&self, columns: usize) -> Range<usize> {
        match self.way {
            Way::Grow => columns..columns,
            _ => columns - self.arguments.len()..columns,
        }
    }

    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let keys = columns.first().map_or(0, |column| column.len());
        let before = self.by_key.len();
        self.resize(before + keys)?;
        let (states, rows) = columns.split_at(self.rows_in(columns.len()).start);
        for key in 0..keys {
            let of_key = &mut self.by_key[before + key];
            if !states.is_empty() {
                of_key.accumulator = Some(accumulator_of(&self.expr, states, key)?);
            }
            let arguments: Vec<ArrayRef> = rows.iter().map(|list| list.as_list::<i32>().value(key)).collect();
            for row in 0..arguments.first().map_or(0, |argument| argument.len()) {
                let values = arguments.iter().map(|argument| ScalarValue::try_from_array(argument, row));
                let values = values.collect::<Result<Vec<_>>>()?;
                of_key.bytes += bytes_of(&values);
                of_key.rows.push_back(values);
                if let (Some(accumulator), true) = (&mut of_key.accumulator, states.is_empty()) {
                    let one: Vec<ArrayRef> =
                        arguments.iter().map(|argument| argument.slice(row, 1)).collect();
                    accumulator.update_batch(&one)?;
                }
            }
        }
        self.count_bytes();
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.by_key.capacity() * size_of::<OfKey>() + self.bytes
    }
}

/// An array of this type, also of no values.
pub(super) fn array_of(values: impl Iterator<Item = ScalarValue>, of: &DataType) -> Result<ArrayRef> {
    let mut values = values.peekable();
    match values.peek() {
        None => Ok(new_empty_array(of)),
        Some(_) => ScalarValue::iter_to_array(values),
    }
}

fn bytes_of(row: &[ScalarValue]) -> usize {
    row.iter().map(ScalarValue::size).sum::<usize>() + size_of::<Vec<ScalarValue>>()
}

/// Leaves these of a list by key, numbered anew. `kept` ascends.
fn keep<T>(by_key: &mut Vec<T>, kept: &[u32]) {
    let mut kept = kept.iter().copied().peekable();
    let mut key = 0;
    by_key.retain(|_| {
        key += 1;
        kept.next_if_eq(&(key - 1)).is_some()
    });
    by_key.shrink_to_fit();
}
