//! FIRST_VALUE and LAST_VALUE over frames: of the values that are not NULL.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};

use super::frames::{ByKey, Steps};
use super::general::array_of;
use super::numbered::{self, Numbered};
use super::running::{HandedColumns, Running};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

pub(super) struct Ends {
    end: End,
    of: DataType,
    /// Of each key one value alone, but for the first ones of a bounded frame.
    by_key: ByKey<Numbered<ScalarValue>>,
    /// Of the values that are held.
    value_bytes: usize,
}

impl Ends {
    pub(super) fn boxed(end: End, of: &DataType) -> Box<dyn Running> {
        Box::new(Ends { end, of: of.clone(), by_key: ByKey::default(), value_bytes: 0 })
    }
}

impl Running for Ends {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        self.by_key.grow_with(steps.key_count, Numbered::default);
        let mut results = Vec::with_capacity(steps.keys.len());
        let null = ScalarValue::try_from(&self.of)?;
        for (row, &key) in steps.keys.iter().enumerate() {
            let of_key = self.by_key.get_mut(key as usize);
            if let Some(expired) = &steps.expired {
                of_key.expire(expired[row], |old| self.value_bytes -= old.size());
            }
            let is_kept = match self.end {
                End::First => steps.expired.is_some() || of_key.values.is_empty(),
                End::Last => true,
            };
            if is_kept && arguments[0].is_valid(row) {
                // Of rows and lists it would keep the whole batch.
                let value = ScalarValue::try_from_array(&arguments[0], row)?.compacted();
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
        self.value_bytes = bytes_of(self.by_key.iter());
    }

    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns> {
        let of = self.of.clone();
        Ok(numbered::hand_out(&mut self.by_key, keys, move |values| {
            array_of(values.cloned(), &of).expect("values of one type")
        }))
    }

    fn rows_in(&self, _columns: usize) -> Range<usize> {
        0..0
    }

    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let keys = numbered::restored(columns, |values, at| {
            Ok(ScalarValue::try_from_array(values, at)?.compacted())
        })?;
        self.value_bytes += bytes_of(&keys);
        self.by_key.extend(keys);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.by_key.bytes() + self.value_bytes
    }
}

fn bytes_of<'a>(keys: impl IntoIterator<Item = &'a Numbered<ScalarValue>>) -> usize {
    keys.into_iter().flat_map(|of_key| &of_key.values).map(|(_, value)| value.size()).sum()
}
