use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_empty_array};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Accumulator;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::frames::Steps;
use super::running::{Running, keep};

/// Any aggregate of the library, row by row.
pub(super) struct General {
    expr: Arc<AggregateFunctionExpr>,
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
    pub(super) fn new(expr: Arc<AggregateFunctionExpr>, is_bounded: bool) -> Result<General> {
        let sliding = expr.create_sliding_accumulator();
        let way = match is_bounded {
            false => Way::Grow,
            true if sliding.is_ok_and(|sliding| sliding.supports_retract_batch()) => Way::Retract,
            true => Way::Again,
        };
        Ok(General { expr, way, by_key: Vec::new(), bytes: 0 })
    }

    fn accumulator(&self) -> Result<Option<Box<dyn Accumulator>>> {
        Ok(match self.way {
            Way::Grow => Some(self.expr.create_accumulator()?),
            Way::Retract => Some(self.expr.create_sliding_accumulator()?),
            Way::Again => None,
        })
    }
}

impl Running for General {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        while self.by_key.len() < steps.key_count {
            let accumulator = self.accumulator()?;
            self.by_key.push(OfKey { accumulator, rows: VecDeque::new(), bytes: 0 });
        }
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
                    let mut accumulator = self.expr.create_accumulator()?;
                    let column = |column: usize| {
                        ScalarValue::iter_to_array(of_key.rows.iter().map(|row| row[column].clone()))
                    };
                    let columns = (0..arguments.len()).map(column).collect::<Result<Vec<_>>>()?;
                    accumulator.update_batch(&columns)?;
                    accumulator.evaluate()?
                }
            });
        }
        match results.is_empty() {
            true => Ok(new_empty_array(self.expr.field().data_type())),
            false => ScalarValue::iter_to_array(results),
        }
    }

    fn keep(&mut self, kept: &[u32]) {
        keep(&mut self.by_key, kept);
        let size = |of_key: &OfKey| of_key.bytes + of_key.accumulator.as_ref().map_or(0, |a| a.size());
        self.bytes = self.by_key.iter().map(size).sum();
    }

    fn bytes(&self) -> usize {
        self.by_key.capacity() * size_of::<OfKey>() + self.bytes
    }
}

fn bytes_of(row: &[ScalarValue]) -> usize {
    row.iter().map(ScalarValue::size).sum::<usize>() + size_of::<Vec<ScalarValue>>()
}
