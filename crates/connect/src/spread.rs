//! More load from one file than it holds: a replay repeats its rows at later times and with other keys.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StringBuilder, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};

/// Distance between the keys of two copies of a number. Real keys (flight and zone numbers, users of a
/// sample) are smaller, so copies do not meet.
const KEY_STRIDE: i64 = 1_000_000;

/// Makes one row of a file into many: shifted in time at each pass, repeated `copies` times, and with other
/// keys in each copy of each pass, so that state grows as it would with more users.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    /// Times each row is offered.
    pub copies: usize,
    /// Columns of the output to shift in time.
    pub shifted: Vec<usize>,
    /// Columns of the output whose values differ between copies and passes.
    pub keys: Vec<usize>,
}

impl Spread {
    /// The rows that are offered for `rows` in `pass`: the copies of a row stand together, so order is kept.
    pub(crate) fn apply(&self, rows: &RecordBatch, pass: u64, shift_ms: i64) -> RecordBatch {
        if self.copies == 1 && (pass == 0 || (shift_ms == 0 && self.keys.is_empty())) {
            return rows.clone();
        }
        let count = rows.num_rows() * self.copies;
        let repeat = (self.copies > 1).then(|| -> UInt32Array {
            (0..rows.num_rows() as u32).flat_map(|row| std::iter::repeat_n(row, self.copies)).collect()
        });
        let first_copy = pass.wrapping_mul(self.copies as u64);
        let columns = rows.columns().iter().enumerate().map(|(index, column)| {
            let shifted = match self.shifted.contains(&index) && shift_ms != 0 {
                true => shift(column, shift_ms),
                false => Arc::clone(column),
            };
            match (self.keys.contains(&index), &repeat) {
                (true, _) => self.spread_keys(&shifted, first_copy),
                (false, Some(repeat)) => {
                    take(&shifted, repeat, None).expect("the row numbers are of this batch")
                }
                (false, None) => shifted,
            }
        });
        let columns = columns.collect();
        let size = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(rows.schema(), columns, &size).expect("types and lengths are kept")
    }

    /// Copy 0 of pass 0 keeps its keys. Copy `n` of a string gets `~n` at its end; of a number, `n` strides.
    fn spread_keys(&self, column: &ArrayRef, first_copy: u64) -> ArrayRef {
        match column.data_type() {
            DataType::Utf8 => {
                let text = column.as_string::<i32>();
                // Seven bytes hold `~` and six digits.
                let bytes = (text.value_data().len() + 7 * text.len()) * self.copies;
                let mut spread = StringBuilder::with_capacity(text.len() * self.copies, bytes);
                for value in text {
                    for copy in first_copy..first_copy + self.copies as u64 {
                        match value {
                            Some(value) if copy > 0 => {
                                write!(spread, "{value}~{copy}").expect("writing to memory does not fail");
                                spread.append_value("");
                            }
                            value => spread.append_option(value),
                        }
                    }
                }
                Arc::new(spread.finish())
            }
            DataType::Int64 => {
                self.spread_numbers::<Int64Type>(column, first_copy, |copy| copy.wrapping_mul(KEY_STRIDE))
            }
            DataType::Int32 => self
                .spread_numbers::<Int32Type>(column, first_copy, |copy| copy.wrapping_mul(KEY_STRIDE) as i32),
            DataType::Int16 => self.spread_numbers::<Int16Type>(column, first_copy, |copy| copy as i16),
            other => unreachable!("validation refuses {other} as spread key"),
        }
    }

    fn spread_numbers<T: ArrowPrimitiveType>(
        &self,
        column: &ArrayRef,
        first_copy: u64,
        offset: impl Fn(i64) -> T::Native,
    ) -> ArrayRef {
        let numbers = column.as_primitive::<T>();
        // Offsets wrap: a key is a name here, not a quantity.
        let offsets: Vec<T::Native> =
            (0..self.copies as u64).map(|copy| offset((first_copy + copy) as i64)).collect();
        let values: Vec<T::Native> = numbers
            .values()
            .iter()
            .flat_map(|value| offsets.iter().map(|offset| value.add_wrapping(*offset)))
            .collect();
        let nulls = numbers
            .nulls()
            .map(|nulls| nulls.iter().flat_map(|valid| std::iter::repeat_n(valid, self.copies)).collect());
        Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
    }
}

/// True if keys of this type can differ between copies.
pub(crate) fn can_spread(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Utf8 | DataType::Int64 | DataType::Int32 | DataType::Int16)
}

/// Adds to a TIMESTAMP column, or to a BIGINT one of milliseconds.
fn shift(column: &ArrayRef, shift_ms: i64) -> ArrayRef {
    fn add<T: ArrowPrimitiveType<Native = i64>>(column: &ArrayRef, delta: i64) -> ArrayRef {
        let shifted = column.as_primitive::<T>().unary::<_, T>(|value| value.wrapping_add(delta));
        Arc::new(shifted.with_data_type(column.data_type().clone()))
    }
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => add::<TimestampSecondType>(column, shift_ms / 1_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => add::<TimestampMillisecondType>(column, shift_ms),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            add::<TimestampMicrosecondType>(column, shift_ms * 1_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            add::<TimestampNanosecondType>(column, shift_ms * 1_000_000)
        }
        DataType::Int64 => add::<Int64Type>(column, shift_ms),
        other => unreachable!("{other} columns are not shifted"),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray, TimestampMillisecondArray};
    use arrow::datatypes::Schema;

    use super::*;

    fn batch() -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
            Field::new("name", DataType::Utf8, true),
            Field::new("id", DataType::Int64, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from(vec![Some(10), None]).with_timezone("UTC")),
            Arc::new(StringArray::from(vec![Some("a"), None])),
            Arc::new(Int64Array::from(vec![Some(7), None])),
        ];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn first_pass_is_untouched() {
        let spread = Spread { copies: 1, shifted: vec![0], keys: vec![1, 2] };
        assert_eq!(spread.apply(&batch(), 0, 0), batch());
    }

    #[test]
    fn copies_stand_together_with_keys_of_their_own() {
        let spread = Spread { copies: 2, shifted: vec![0], keys: vec![1, 2] };
        // Pass 1 has the copies 2 and 3.
        let rows = spread.apply(&batch(), 1, 100);
        assert_eq!(rows.schema(), batch().schema());
        let times = rows.column(0).as_primitive::<TimestampMillisecondType>();
        assert_eq!(times.iter().collect::<Vec<_>>(), [Some(110), Some(110), None, None]);
        let names = rows.column(1).as_string::<i32>();
        assert_eq!(names.iter().collect::<Vec<_>>(), [Some("a~2"), Some("a~3"), None, None]);
        let ids = rows.column(2).as_primitive::<Int64Type>();
        assert_eq!(ids.iter().collect::<Vec<_>>(), [Some(2_000_007), Some(3_000_007), None, None]);
    }
}
