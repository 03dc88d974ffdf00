//! Values that Arrow's decoder does not read and Flink's does: a line is written anew with values that both read.

use arrow::array::types::Date32Type;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use serde_json::{Map, Number, Value};

use crate::timestamp::parse_timestamp;

/// The line as one that Arrow reads. `bad_is_null`: a field that does not fit its column is NULL; otherwise there is
/// no such line. Fields of no column are left out.
pub(super) fn readable_line(line: &[u8], schema: &Schema, bad_is_null: bool) -> Option<Vec<u8>> {
    let Ok(Value::Object(mut given)) = serde_json::from_slice(line) else { return None };
    let mut fields = Map::new();
    for field in schema.fields() {
        if let Some(value) = given.remove(field.name()) {
            fields.insert(field.name().clone(), readable(value, field, bad_is_null)?);
        }
    }
    serde_json::to_vec(&Value::Object(fields)).ok()
}

fn readable(value: Value, field: &Field, bad_is_null: bool) -> Option<Value> {
    match of_type(value, field.data_type(), bad_is_null) {
        None if bad_is_null && field.is_nullable() => Some(Value::Null),
        found => found,
    }
}

fn of_type(value: Value, data_type: &DataType, bad_is_null: bool) -> Option<Value> {
    if value.is_null() {
        return Some(value);
    }
    Some(match data_type {
        DataType::Boolean => match &value {
            Value::String(text) if text.eq_ignore_ascii_case("true") => Value::Bool(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Value::Bool(false),
            Value::Bool(_) => value,
            _ => return None,
        },
        DataType::Int8 => integer(&value, i8::MIN.into(), i8::MAX.into(), false)?,
        DataType::Int16 => integer(&value, i16::MIN.into(), i16::MAX.into(), false)?,
        DataType::Int32 => integer(&value, i32::MIN.into(), i32::MAX.into(), true)?,
        DataType::Int64 => integer(&value, i64::MIN, i64::MAX, true)?,
        DataType::Float32 | DataType::Float64 => match &value {
            Value::Number(_) => value,
            Value::String(text) => {
                let text = text.trim();
                text.parse::<f64>().ok()?;
                Value::String(text.to_owned())
            }
            _ => return None,
        },
        DataType::Utf8 => match value {
            Value::String(_) => value,
            // Objects and lists are their JSON.
            other => Value::String(other.to_string()),
        },
        // Read from text behind this.
        DataType::Decimal128(..) | DataType::Binary | DataType::Time32(TimeUnit::Millisecond) => {
            match value {
                Value::String(_) | Value::Number(_) => value,
                _ => return None,
            }
        }
        DataType::Date32 => text_that(value, |text| Date32Type::parse(text).is_some())?,
        DataType::Timestamp(unit, _) => {
            text_that(value, |text| parse_timestamp(text.as_bytes(), *unit).is_some())?
        }
        DataType::List(item) => {
            let Value::Array(items) = value else { return None };
            let items = items.into_iter().map(|value| readable(value, item, bad_is_null));
            Value::Array(items.collect::<Option<_>>()?)
        }
        DataType::Struct(fields) => {
            let Value::Object(mut given) = value else { return None };
            let inner = fields.iter().filter_map(|field| Some((field, given.remove(field.name())?)));
            let inner = inner
                .map(|(field, value)| Some((field.name().clone(), readable(value, field, bad_is_null)?)));
            Value::Object(inner.collect::<Option<_>>()?)
        }
        DataType::Map(entries, _) => {
            let (Value::Object(given), DataType::Struct(fields)) = (value, entries.data_type()) else {
                return None;
            };
            let inner =
                given.into_iter().map(|(key, value)| Some((key, readable(value, &fields[1], bad_is_null)?)));
            Value::Object(inner.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// A whole number in this range; with `cut`, the whole part of any.
fn integer(value: &Value, least: i64, most: i64, cut: bool) -> Option<Value> {
    let whole = match value {
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole,
            None => {
                let number = number.as_f64().filter(|number| cut && number.abs() < i64::MAX as f64)?;
                number as i64
            }
        },
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (least..=most).contains(&whole).then(|| Value::Number(Number::from(whole)))
}

fn text_that(value: Value, is_readable: impl Fn(&str) -> bool) -> Option<Value> {
    match &value {
        Value::String(text) if is_readable(text) => Some(value),
        _ => None,
    }
}
