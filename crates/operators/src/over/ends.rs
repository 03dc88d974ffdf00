//! FIRST_VALUE and LAST_VALUE over frames: of the values that are not NULL.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_empty_array};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion_common::{Result, ScalarValue};

use super::frames::{ByKey, Steps};
use super::running::{HandedColumns, Running, items};
use crate::state::lists;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

pub(super) struct Ends {
    end: End,
    of: DataType,
    by_key: ByKey<OfKey>,
    /// Of the values that are held.
    value_bytes: usize,
}

#[derive(Clone, Default)]
struct OfKey {
    /// Values that are, or will be, at the end of a frame, with the number of their row: one alone, but of the first in a
    /// bounded frame.
    values: VecDeque<(u64, ScalarValue)>,
    /// Rows that came, and those of them that do not count any more.
    came: u64,
    left: u64,
}

impl Ends {
    pub(super) fn boxed(end: End, of: &DataType) -> Box<dyn Running> {
        Box::new(Ends { end, of: of.clone(), by_key: ByKey::default(), value_bytes: 0 })
    }

    fn values(&self) -> impl Iterator<Item = &ScalarValue> {
        self.by_key.iter().flat_map(|of_key| &of_key.values).map(|(_, value)| value)
    }
}

impl Running for Ends {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        self.by_key.grow_with(steps.key_count, OfKey::default);
        let mut results = Vec::with_capacity(steps.keys.len());
        let null = ScalarValue::try_from(&self.of)?;
        for (row, &key) in steps.keys.iter().enumerate() {
            let of_key = self.by_key.get_mut(key as usize);
            if let Some(expired) = &steps.expired {
                of_key.left += u64::from(expired[row]);
                while let Some((_, old)) = of_key.values.pop_front_if(|(number, _)| *number < of_key.left) {
                    self.value_bytes -= old.size();
                }
            }
            let is_kept = match self.end {
                End::First => steps.expired.is_some() || of_key.values.is_empty(),
                End::Last => true,
            };
            if is_kept && arguments[0].is_valid(row) {
                let value = ScalarValue::try_from_array(&arguments[0], row)?;
                if self.end == End::Last {
                    self.value_bytes -= of_key.values.drain(..).map(|(_, old)| old.size()).sum::<usize>();
                }
                self.value_bytes += value.size();
                of_key.values.push_back((of_key.came, value));
            }
            of_key.came += 1;
            results.push(of_key.values.front().map_or_else(|| null.clone(), |(_, value)| value.clone()));
        }
        array_of(results.into_iter(), &self.of)
    }

    fn keep(&mut self, kept: &[u32]) {
        self.by_key.keep(kept);
        self.value_bytes = self.values().map(ScalarValue::size).sum();
    }

    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns> {
        self.by_key.grow_with(keys, OfKey::default);
        let (handed, of) = (self.by_key.hand_out(), self.of.clone());
        Ok(Box::new(move |keys| {
            let some = || handed.range(keys.clone());
            let held = || some().flat_map(|of_key| &of_key.values);
            let values = array_of(held().map(|(_, value)| value.clone()), &of).expect("values of one type");
            let numbers = UInt64Array::from_iter_values(held().map(|(number, _)| *number));
            let lengths = || some().map(|of_key| of_key.values.len());
            vec![
                lists(lengths(), values),
                lists(lengths(), Arc::new(numbers)),
                Arc::new(UInt64Array::from_iter_values(some().map(|of_key| of_key.came))),
                Arc::new(UInt64Array::from_iter_values(some().map(|of_key| of_key.left))),
            ]
        }))
    }

    fn rows_in(&self, _columns: usize) -> Range<usize> {
        0..0
    }

    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let ((values, of_each), (numbers, numbers_of_each)) = (items(&columns[0]), items(&columns[1]));
        let numbers = numbers.as_primitive::<UInt64Type>();
        let came = columns[2].as_primitive::<UInt64Type>().values();
        let left = columns[3].as_primitive::<UInt64Type>().values();
        for (key, (values_of, numbers_of)) in of_each.zip(numbers_of_each).enumerate() {
            let held = values_of.zip(numbers_of).map(|(value, number)| {
                Ok((numbers.value(number), ScalarValue::try_from_array(values, value)?))
            });
            let held = held.collect::<Result<VecDeque<_>>>()?;
            self.value_bytes += held.iter().map(|(_, value)| value.size()).sum::<usize>();
            self.by_key.push(OfKey { values: held, came: came[key], left: left[key] });
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.by_key.bytes() + self.value_bytes
    }
}

fn array_of(values: impl Iterator<Item = ScalarValue>, of: &DataType) -> Result<ArrayRef> {
    let mut values = values.peekable();
    match values.peek() {
        None => Ok(new_empty_array(of)),
        Some(_) => ScalarValue::iter_to_array(values),
    }
}
