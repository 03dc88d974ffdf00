//! JSON out of texts and values: JSON_VALUE, JSON_QUERY and JSON_EXISTS with the NULL and FALSE that Flink gives unless told otherwise.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::{Result, exec_err};
use serde_json::Value;

use crate::text::{datetime, java_float, texts};
use crate::{FlinkFunction, Parameter, pure};

/// `JSON_OBJECT(…)`, with its [`json_shape`].
pub const JSON_OBJECT: &str = "flink_json_object";
/// `JSON_ARRAY(…)` likewise.
pub const JSON_ARRAY: &str = "flink_json_array";

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    FlinkFunction {
        name: "json_value",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Utf8,
        invoke: |args, rows| {
            let mut values = Vec::with_capacity(rows);
            for_each(args, rows, |found| values.push(found.and_then(|found| scalar(found?))))?;
            Ok(Arc::new(StringArray::from(values)))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "json_query",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Utf8,
        invoke: |args, rows| {
            let mut values = Vec::with_capacity(rows);
            for_each(args, rows, |found| {
                let inner = found.flatten().filter(|value| value.is_object() || value.is_array());
                values.push(inner.map(Value::to_string));
            })?;
            Ok(Arc::new(StringArray::from(values)))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "json_string",
        parameters: &[Parameter::Any],
        least: 1,
        most: 1,
        returns: |_| DataType::Utf8,
        invoke: |args, rows| {
            let written = (0..rows).map(|row| match args[0].is_null(row) {
                true => Ok(None),
                false => written(&args[0], row).map(Some),
            });
            Ok(Arc::new(written.collect::<Result<StringArray>>()?))
        },
        signature: pure,
    },
    FlinkFunction {
        name: JSON_OBJECT,
        parameters: &[Parameter::Text, Parameter::Any],
        least: 1,
        most: usize::MAX,
        returns: |_| DataType::Utf8,
        invoke: |args, rows| {
            let (nulls, raw) = shape(&args[0]);
            let pairs: Vec<_> = args[1..].chunks_exact(2).zip(raw).collect();
            let object = |row: usize| {
                let mut members = Vec::new();
                for (pair, raw) in &pairs {
                    let key = texts(&pair[0]);
                    if key.is_null(row) {
                        return exec_err!("a key of JSON_OBJECT is NULL");
                    }
                    let value = member(&pair[1], row, *raw, nulls)?;
                    members.extend(value.map(|value| format!("{}:{value}", Value::from(key.value(row)))));
                }
                Ok(Some(format!("{{{}}}", members.join(","))))
            };
            Ok(Arc::new((0..rows).map(object).collect::<Result<StringArray>>()?))
        },
        signature: pure,
    },
    FlinkFunction {
        name: JSON_ARRAY,
        parameters: &[Parameter::Text, Parameter::Any],
        least: 1,
        most: usize::MAX,
        returns: |_| DataType::Utf8,
        invoke: |args, rows| {
            let (nulls, raw) = shape(&args[0]);
            let items: Vec<_> = args[1..].iter().zip(raw).collect();
            let array = |row: usize| {
                let mut written = Vec::new();
                for (item, raw) in &items {
                    written.extend(member(item, row, *raw, nulls)?);
                }
                Ok(Some(format!("[{}]", written.join(","))))
            };
            Ok(Arc::new((0..rows).map(array).collect::<Result<StringArray>>()?))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "json_quote",
        parameters: &[Parameter::Text],
        least: 1,
        most: 1,
        returns: |_| DataType::Utf8,
        invoke: |args, _| {
            let quoted = texts(&args[0]).iter().map(|text| text.map(quoted_ascii));
            Ok(Arc::new(quoted.collect::<StringArray>()))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "json_unquote",
        parameters: &[Parameter::Text],
        least: 1,
        most: 1,
        returns: |_| DataType::Utf8,
        // What is no JSON text is left as it is.
        invoke: |args, _| {
            let plain = texts(&args[0]).iter().map(|text| {
                text.map(|text| match serde_json::from_str(text) {
                    Ok(Value::String(inner)) => inner,
                    _ => text.to_string(),
                })
            });
            Ok(Arc::new(plain.collect::<StringArray>()))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "json_exists",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Boolean,
        invoke: |args, rows| {
            let mut values = Vec::with_capacity(rows);
            for_each(args, rows, |found| values.push(found.map(|found| found.is_some())))?;
            Ok(Arc::new(BooleanArray::from(values)))
        },
        signature: pure,
    },
];

/// A value as JSON, with Java's numbers.
fn written(array: &ArrayRef, row: usize) -> Result<String> {
    if array.is_null(row) {
        return Ok("null".to_string());
    }
    Ok(match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Utf8 => Value::from(texts(array).value(row)).to_string(),
        DataType::Float32 => number(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => number(array.as_primitive::<Float64Type>().value(row)),
        DataType::Timestamp(_, zone) => {
            let Some(time) = datetime(array, row) else { return Ok("null".to_string()) };
            let zone = if zone.is_some() { "Z" } else { "" };
            let text = time.format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
            let text = text.trim_end_matches('0').trim_end_matches('.');
            format!("\"{text}{zone}\"")
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            let items = (0..items.len()).map(|item| written(&items, item)).collect::<Result<Vec<_>>>()?;
            format!("[{}]", items.join(","))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let keys = arrow::compute::cast(entries.column(0), &DataType::Utf8)?;
            let entries = (0..entries.len()).map(|entry| {
                let key = Value::from(texts(&keys).value(entry));
                Ok(format!("{key}:{}", written(entries.column(1), entry)?))
            });
            format!("{{{}}}", entries.collect::<Result<Vec<_>>>()?.join(","))
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let fields = fields.iter().zip(columns).map(|(field, column)| {
                Ok(format!("{}:{}", Value::from(field.name().as_str()), written(column, row)?))
            });
            format!("{{{}}}", fields.collect::<Result<Vec<_>>>()?.join(","))
        }
        given if given.is_integer() || matches!(given, DataType::Decimal128(..)) => {
            let text = arrow::compute::cast(&array.slice(row, 1), &DataType::Utf8)?;
            texts(&text).value(0).to_string()
        }
        other => return exec_err!("JSON has no {}", crate::data_type::display(other)),
    })
}

/// As Java writes a `BigDecimal` of a double; what is no number is a text.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return format!("\"{}\"", java_float(value.to_string(), value));
    }
    let value = value + 0.0;
    let text = java_float(value.to_string(), value);
    match text.split_once('E') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}E+{exponent}"),
        _ => text,
    }
}

/// The text in quotes; what is not ASCII by its codes.
fn quoted_ascii(text: &str) -> String {
    let mut out = String::new();
    let mut units = [0; 2];
    for c in Value::from(text).to_string().chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Gives for each row what is at the path, `Some(None)` if nothing is or the text is no JSON, `None` if an argument
/// is NULL.
fn for_each(args: &[ArrayRef], rows: usize, mut take: impl FnMut(Option<Option<&Value>>)) -> Result<()> {
    let (json, paths) = (texts(&args[0]), texts(&args[1]));
    let mut known: Option<(&str, Vec<Step>)> = None;
    for row in 0..rows {
        if json.is_null(row) || paths.is_null(row) {
            take(None);
            continue;
        }
        let written = paths.value(row);
        if known.as_ref().is_none_or(|(path, _)| *path != written) {
            let Some(steps) = steps(written) else {
                return exec_err!("'{written}' is not a JSON path of names and indexes, such as '$.a[0].b'");
            };
            known = Some((written, steps));
        }
        let steps = known.as_ref().map_or(&[][..], |(_, steps)| steps);
        let value: Option<Value> = serde_json::from_str(json.value(row)).ok();
        take(Some(
            value.as_ref().and_then(|value| steps.iter().try_fold(value, |inner, step| step.of(inner))),
        ));
    }
    Ok(())
}

/// Of a JSON_OBJECT or JSON_ARRAY as its first argument says it: whether NULLs are written, and which values are JSON
/// already. See [`json_shape`].
fn shape(argument: &ArrayRef) -> (bool, Vec<bool>) {
    let text = texts(argument);
    let shape = if text.is_empty() { "" } else { text.value(0) };
    let mut marks = shape.chars();
    (marks.next() == Some('n'), marks.map(|mark| mark == 'j').collect())
}

/// The first argument of [`JSON_OBJECT`] and [`JSON_ARRAY`]: `n` where NULLs are written, `a` where they are left out;
/// then for each value `j` where it is JSON already, `v` where it becomes it.
pub fn json_shape(writes_nulls: bool, is_json: impl Iterator<Item = bool>) -> String {
    let first = if writes_nulls { 'n' } else { 'a' };
    std::iter::once(first).chain(is_json.map(|is_json| if is_json { 'j' } else { 'v' })).collect()
}

/// A value inside an object or array; `None` where it is left out.
fn member(value: &ArrayRef, row: usize, is_json: bool, writes_nulls: bool) -> Result<Option<String>> {
    if value.is_null(row) {
        return Ok(writes_nulls.then(|| "null".to_string()));
    }
    match is_json {
        true => Ok(Some(texts(value).value(row).to_string())),
        false => written(value, row).map(Some),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// From 0, or from the end if it is negative.
    Index(i64),
}

impl Step {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Step::Field(name) => value.as_object()?.get(name),
            Step::Index(index) => {
                let items = value.as_array()?;
                let index = if *index < 0 { *index + items.len() as i64 } else { *index };
                items.get(usize::try_from(index).ok()?)
            }
        }
    }
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let path = path.trim();
    let path =
        path.strip_prefix("lax ").or_else(|| path.strip_prefix("strict ")).unwrap_or(path).trim_start();
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('.') {
            let end = behind.find(['.', '[']).unwrap_or(behind.len());
            let name = &behind[..end];
            if name.is_empty() || name.contains(['*', '?', '@', '(', ']']) {
                return None;
            }
            steps.push(Step::Field(name.to_string()));
            rest = &behind[end..];
        } else {
            let behind = rest.strip_prefix('[')?;
            let quote = behind.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let (step, end) = match quote {
                Some(quote) => {
                    let end = behind[1..].find(quote)? + 1;
                    (Step::Field(behind[1..end].to_string()), end + 1)
                }
                None => {
                    let end = behind.find(']')?;
                    (Step::Index(behind[..end].trim().parse().ok()?), end)
                }
            };
            steps.push(step);
            rest = behind[end..].strip_prefix(']')?;
        }
    }
    Some(steps)
}

/// As Java prints it. Objects, lists and null have no text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) if number.is_f64() => {
            let value = number.as_f64()?;
            Some(java_float(value.to_string(), value))
        }
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_names_and_indexes() {
        let field = |name: &str| Step::Field(name.into());
        assert_eq!(steps("$"), Some(vec![]));
        assert_eq!(steps("lax $.a.b[0]"), Some(vec![field("a"), field("b"), Step::Index(0)]));
        assert_eq!(steps("$['a.b'][\"c]\"][-1]"), Some(vec![field("a.b"), field("c]"), Step::Index(-1)]));
        for bad in ["", "a", "$.", "$..a", "$.*", "$[*]", "$[0", "$['a]", "$a", "$[?(@.x)]"] {
            assert_eq!(steps(bad), None, "{bad}");
        }
    }
}
