//! One order and one equality for the values of an index, the same for a constant in a filter and for a column of a
//! batch.

use std::hash::{Hash, Hasher};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, LargeStringArray, StringArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion_common::ScalarValue;

/// A value in a form in which equal ones are equal and less is less, within one data type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Whole numbers, times, decimals without their point, floats by their order, booleans.
    Number(i128),
    /// Text and bytes.
    Text(Box<[u8]>),
}

/// The values of a column, as keys.
pub(super) enum Keys {
    Numbers(Vec<Option<i128>>),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
}

/// A key that is looked up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyRef<'a> {
    Number(i128),
    Text(&'a [u8]),
}

impl Key {
    /// Of a constant; `None` for NULL, and where the type has no such form.
    pub fn of(value: &ScalarValue) -> Option<Key> {
        match Keys::of(&value.to_array().ok()?)?.get(0)? {
            KeyRef::Number(number) => Some(Key::Number(number)),
            KeyRef::Text(text) => Some(Key::Text(text.into())),
        }
    }

    pub(super) fn as_ref(&self) -> KeyRef<'_> {
        match self {
            Key::Number(number) => KeyRef::Number(*number),
            Key::Text(text) => KeyRef::Text(text),
        }
    }
}

impl Keys {
    /// `None` where the type has no such form.
    pub fn of(values: &ArrayRef) -> Option<Keys> {
        Some(match values.data_type() {
            DataType::Utf8 => Keys::Text(values.as_string().clone()),
            DataType::LargeUtf8 => Keys::LargeText(values.as_string().clone()),
            DataType::Utf8View => Keys::TextView(values.as_string_view().clone()),
            DataType::Binary => Keys::Bytes(values.as_binary().clone()),
            DataType::Decimal128(..) => {
                Keys::Numbers(values.as_primitive::<Decimal128Type>().iter().collect())
            }
            DataType::Float32 | DataType::Float64 => {
                let values = cast(values, &DataType::Float64).ok()?;
                let values = values.as_primitive::<Float64Type>().iter();
                Keys::Numbers(values.map(|value| value.map(|value| i128::from(ordered(value)))).collect())
            }
            DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::Date32
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..) => {
                let narrow = match values.data_type() {
                    DataType::Date32 | DataType::Time32(_) => &cast(values, &DataType::Int32).ok()?,
                    _ => values,
                };
                let values = cast(narrow, &DataType::Int64).ok()?;
                let values = values.as_primitive::<Int64Type>();
                Keys::Numbers(values.iter().map(|value| value.map(i128::from)).collect())
            }
            _ => return None,
        })
    }

    /// `None` for NULL.
    pub fn get(&self, row: usize) -> Option<KeyRef<'_>> {
        fn text<'a>(array: &impl Array, row: usize, value: impl FnOnce() -> &'a [u8]) -> Option<KeyRef<'a>> {
            array.is_valid(row).then(|| KeyRef::Text(value()))
        }
        match self {
            Keys::Numbers(numbers) => numbers[row].map(KeyRef::Number),
            Keys::Text(array) => text(array, row, || array.value(row).as_bytes()),
            Keys::LargeText(array) => text(array, row, || array.value(row).as_bytes()),
            Keys::TextView(array) => text(array, row, || array.value(row).as_bytes()),
            Keys::Bytes(array) => text(array, row, || array.value(row)),
        }
    }
}

impl<'a> KeyRef<'a> {
    pub fn text(self) -> Option<&'a [u8]> {
        match self {
            KeyRef::Text(text) => Some(text),
            KeyRef::Number(_) => None,
        }
    }
}

/// A number that is in the order of floats, with one zero and one NaN above all.
fn ordered(value: f64) -> i64 {
    let bits = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 }.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            KeyRef::Number(number) => state.write_i128(*number),
            KeyRef::Text(text) => state.write(text),
        }
    }
}

impl hashbrown::Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self == key.as_ref()
    }
}
