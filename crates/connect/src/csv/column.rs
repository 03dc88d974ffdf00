//! The second half of reading CSV: the fields of one column become an array, and a value that is wrong is told with its
//! row. Records were found before, by `split.rs`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Builder, NullBufferBuilder, PrimitiveArray,
    StringBuilder,
};
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Schema, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};

use crate::base64_text;
use crate::decimal::parse_decimal;
use crate::timestamp::{parse_time, parse_timestamp};

/// The first column that CSV cannot hold.
pub(crate) fn unsupported_column(schema: &Schema) -> Option<&Field> {
    use DataType::*;
    let plain = |field: &&Arc<Field>| {
        matches!(
            field.data_type(),
            Boolean
                | Int8
                | Int16
                | Int32
                | Int64
                | Float32
                | Float64
                | Decimal128(..)
                | Date32
                | Time32(_)
                | Time64(_)
                | Timestamp(..)
                | Utf8
                | Binary
        )
    };
    schema.fields().iter().find(|field| !plain(field)).map(|field| field.as_ref())
}

/// Parses one field of `rows` records. `bad(row, reason)` hears of each value that is wrong; its slot is null.
pub(crate) fn parse_column<'a>(
    field: &Field,
    null: Option<&[u8]>,
    rows: usize,
    text: impl Fn(usize) -> &'a [u8],
    bad: &mut dyn FnMut(usize, String),
) -> ArrayRef {
    use DataType::*;
    let mut column = Column { field, null, rows, text, bad };
    match field.data_type() {
        Boolean => column.booleans(),
        Utf8 => column.strings(),
        Binary => column.bytes(),
        Int8 => column.integers::<Int8Type>(),
        Int16 => column.integers::<Int16Type>(),
        Int32 => column.integers::<Int32Type>(),
        Int64 => column.integers::<Int64Type>(),
        Float32 => column.parsed::<Float32Type>(),
        Float64 => column.parsed::<Float64Type>(),
        Date32 => column.parsed::<Date32Type>(),
        Time32(TimeUnit::Second) => column.parsed::<Time32SecondType>(),
        Time32(_) => column.primitives::<Time32MillisecondType>(parse_time),
        Time64(TimeUnit::Microsecond) => column.parsed::<Time64MicrosecondType>(),
        Time64(_) => column.parsed::<Time64NanosecondType>(),
        Timestamp(TimeUnit::Second, _) => column.timestamps::<TimestampSecondType>(TimeUnit::Second),
        Timestamp(TimeUnit::Millisecond, _) => {
            column.timestamps::<TimestampMillisecondType>(TimeUnit::Millisecond)
        }
        Timestamp(TimeUnit::Microsecond, _) => {
            column.timestamps::<TimestampMicrosecondType>(TimeUnit::Microsecond)
        }
        Timestamp(TimeUnit::Nanosecond, _) => {
            column.timestamps::<TimestampNanosecondType>(TimeUnit::Nanosecond)
        }
        Decimal128(precision, scale) => column.decimals(*precision, *scale),
        other => unreachable!("validation refuses {other} columns in CSV"),
    }
}

struct Column<'c, F> {
    field: &'c Field,
    null: Option<&'c [u8]>,
    rows: usize,
    text: F,
    bad: &'c mut dyn FnMut(usize, String),
}

impl<'a, F: Fn(usize) -> &'a [u8]> Column<'_, F> {
    fn integers<T: ArrowPrimitiveType<Native: TryFrom<i64>>>(&mut self) -> ArrayRef {
        self.primitives::<T>(|text| T::Native::try_from(parse_integer(text.trim_ascii())?).ok())
    }

    fn timestamps<T: ArrowPrimitiveType<Native = i64>>(&mut self, unit: TimeUnit) -> ArrayRef {
        self.primitives::<T>(|text| parse_timestamp(text, unit))
    }

    fn parsed<T: ArrowPrimitiveType + Parser>(&mut self) -> ArrayRef {
        self.primitives::<T>(|text| T::parse(std::str::from_utf8(text).ok()?.trim()))
    }

    /// A number that does not fit is NULL.
    fn decimals(&mut self, precision: u8, scale: i8) -> ArrayRef {
        let mut values = Decimal128Builder::with_capacity(self.rows);
        for row in 0..self.rows {
            let text = (self.text)(row);
            let value = match text.is_empty() || self.null == Some(text) {
                true => self.null_at(row),
                false => match parse_decimal(text, precision, scale) {
                    Some(Some(value)) => Some(value),
                    Some(None) => self.null_at(row),
                    None => self.wrong_at(row, text),
                },
            };
            values.append_option(value);
        }
        Arc::new(values.finish().with_data_type(self.field.data_type().clone()))
    }

    fn bytes(&mut self) -> ArrayRef {
        let mut values = BinaryBuilder::new();
        for row in 0..self.rows {
            let text = (self.text)(row);
            values.append_option(match self.null == Some(text) {
                true => self.null_at(row),
                false => base64_text::decode(text).or_else(|| self.wrong_at(row, text)),
            });
        }
        Arc::new(values.finish())
    }

    fn primitives<T: ArrowPrimitiveType>(&mut self, parse: impl Fn(&[u8]) -> Option<T::Native>) -> ArrayRef {
        let mut values = Vec::with_capacity(self.rows);
        let mut nulls = NullBufferBuilder::new(self.rows);
        for row in 0..self.rows {
            let text = (self.text)(row);
            let value = match text.is_empty() || self.null == Some(text) {
                true => self.null_at(row),
                false => parse(text).or_else(|| self.wrong_at(row, text)),
            };
            values.push(value.unwrap_or_default());
            nulls.append(value.is_some());
        }
        let array = PrimitiveArray::<T>::new(values.into(), nulls.finish());
        Arc::new(array.with_data_type(self.field.data_type().clone()))
    }

    fn booleans(&mut self) -> ArrayRef {
        let mut values = BooleanBuilder::with_capacity(self.rows);
        for row in 0..self.rows {
            let text = (self.text)(row);
            let trimmed = text.trim_ascii();
            values.append_option(if text.is_empty() || self.null == Some(text) {
                self.null_at(row)
            } else if trimmed.eq_ignore_ascii_case(b"true") {
                Some(true)
            } else if trimmed.eq_ignore_ascii_case(b"false") {
                Some(false)
            } else {
                self.wrong_at(row, text)
            });
        }
        Arc::new(values.finish())
    }

    fn strings(&mut self) -> ArrayRef {
        let bytes = (0..self.rows).map(|row| (self.text)(row).len()).sum();
        let mut values = StringBuilder::with_capacity(self.rows, bytes);
        for row in 0..self.rows {
            let text = (self.text)(row);
            if self.null == Some(text) {
                values.append_option(self.null_at::<&str>(row));
                continue;
            }
            match std::str::from_utf8(text) {
                Ok(text) => values.append_value(text),
                Err(_) => {
                    (self.bad)(row, format!("column '{}': invalid UTF-8", self.field.name()));
                    values.append_null();
                }
            }
        }
        Arc::new(values.finish())
    }

    fn null_at<T>(&mut self, row: usize) -> Option<T> {
        if !self.field.is_nullable() {
            (self.bad)(row, format!("column '{}' is NOT NULL", self.field.name()));
        }
        None
    }

    fn wrong_at<T>(&mut self, row: usize, text: &[u8]) -> Option<T> {
        // Enough of the value to recognise it.
        let shown: String = String::from_utf8_lossy(text).chars().take(60).collect();
        let expected = sql_name(self.field.data_type());
        (self.bad)(row, format!("column '{}': '{shown}' is not {expected}", self.field.name()));
        None
    }
}

/// A whole number that fits 64 bits.
fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // Built downwards, because there is one more negative number.
    let mut value = 0_i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Binary => "BYTES in Base64".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Timestamp(_, None) => "TIMESTAMP".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP_LTZ".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_at_their_ends() {
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_integer(b"9223372036854775808"), None);
        assert_eq!(parse_integer(b"+7"), Some(7));
        assert_eq!(parse_integer(b"-"), None);
        assert_eq!(parse_integer(b"1.5"), None);
    }
}
