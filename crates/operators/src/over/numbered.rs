//! Values of a key with the numbers of their rows: a bounded frame loses the oldest.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::UInt64Type;
use datafusion_common::Result;

use super::frames::ByKey;
use super::running::{HandedColumns, items};
use crate::state::lists;

#[derive(Clone)]
pub(super) struct Numbered<V> {
    /// Values that are, or will be, the one of a frame, the oldest first, with the number of their row.
    pub values: VecDeque<(u64, V)>,
    /// Rows that came, and those of them that do not count any more.
    pub came: u64,
    left: u64,
}

impl<V> Default for Numbered<V> {
    fn default() -> Numbered<V> {
        Numbered { values: VecDeque::new(), came: 0, left: 0 }
    }
}

impl<V> Numbered<V> {
    /// So many rows more do not count. Each value of them is told.
    pub(super) fn expire(&mut self, rows: u32, mut lost: impl FnMut(V)) {
        self.left += u64::from(rows);
        while let Some((_, value)) = self.values.pop_front_if(|(number, _)| *number < self.left) {
            lost(value);
        }
    }
}

/// All of so many keys. `array` makes one of values.
pub(super) fn hand_out<V: Clone + Send + Sync + 'static>(
    by_key: &mut ByKey<Numbered<V>>,
    keys: usize,
    array: impl Fn(&mut dyn Iterator<Item = &V>) -> ArrayRef + Send + Sync + 'static,
) -> HandedColumns {
    by_key.grow_with(keys, Numbered::default);
    let handed = by_key.hand_out();
    Box::new(move |keys| {
        let some = || handed.range(keys.clone());
        let held = || some().flat_map(|of_key| &of_key.values);
        let values = array(&mut held().map(|(_, value)| value));
        let numbers = UInt64Array::from_iter_values(held().map(|(number, _)| *number));
        let lengths = || some().map(|of_key| of_key.values.len());
        vec![
            lists(lengths(), values),
            lists(lengths(), Arc::new(numbers)),
            Arc::new(UInt64Array::from_iter_values(some().map(|of_key| of_key.came))),
            Arc::new(UInt64Array::from_iter_values(some().map(|of_key| of_key.left))),
        ]
    })
}

/// The keys of such columns. `value` takes one out of the array of all.
pub(super) fn restored<V>(
    columns: &[ArrayRef],
    value: impl Fn(&ArrayRef, usize) -> Result<V>,
) -> Result<Vec<Numbered<V>>> {
    let ((values, of_each), (numbers, numbers_of_each)) = (items(&columns[0]), items(&columns[1]));
    let numbers = numbers.as_primitive::<UInt64Type>();
    let came = columns[2].as_primitive::<UInt64Type>().values().iter();
    let left = columns[3].as_primitive::<UInt64Type>().values().iter();
    let keys =
        of_each.zip(numbers_of_each).zip(came.zip(left)).map(|((values_of, numbers_of), (&came, &left))| {
            let held =
                values_of.zip(numbers_of).map(|(at, number)| Ok((numbers.value(number), value(values, at)?)));
            Ok(Numbered { values: held.collect::<Result<_>>()?, came, left })
        });
    keys.collect()
}
