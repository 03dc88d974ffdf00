use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray, StringBuilder};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int32Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::temporal_conversions as temporal;
use chrono::{NaiveDateTime, Timelike};
use datafusion_common::Result;

use super::{FlinkFunction, Parameter, pure, volatile};

/// Name of the cast to STRING where Arrow writes values otherwise than Flink does.
pub(crate) const TO_STRING: &str = "flink_to_string";

pub(super) const FUNCTIONS: &[FlinkFunction] = &[
    FlinkFunction {
        name: TO_STRING,
        parameters: &[Parameter::Any],
        least: 1,
        most: 1,
        returns: |_| DataType::Utf8,
        invoke: to_string,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_substring",
        parameters: &[Parameter::Text, Parameter::Int],
        least: 2,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: substring,
        signature: pure,
    },
    FlinkFunction {
        name: "split_index",
        parameters: &[Parameter::Text, Parameter::Text, Parameter::Int],
        least: 3,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: split_index,
        signature: pure,
    },
    FlinkFunction {
        name: "regexp_extract",
        parameters: &[Parameter::Text, Parameter::Text, Parameter::Int],
        least: 2,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: regexp_extract,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_regexp",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Boolean,
        invoke: regexp,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_regexp_replace",
        parameters: &[Parameter::Text],
        least: 3,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: regexp_replace,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_uuid",
        parameters: &[],
        least: 0,
        most: 0,
        returns: |_| DataType::Utf8,
        invoke: |_, rows| {
            datafusion_functions::string::uuid()
                .invoke_with_args(datafusion_expr::ScalarFunctionArgs {
                    args: vec![],
                    arg_fields: vec![],
                    number_rows: rows,
                    return_field: Arc::new(arrow::datatypes::Field::new("uuid", DataType::Utf8, false)),
                    config_options: Arc::default(),
                })?
                .into_array(rows)
        },
        signature: volatile,
    },
];

fn texts(array: &ArrayRef) -> &StringArray {
    array.as_string::<i32>()
}

/// Characters from `start` (from 1; negative: from the end; 0 is 1), as Flink's `SUBSTRING`.
fn substring(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, start) = (texts(&args[0]), args[1].as_primitive::<Int32Type>());
    let length = args.get(2).map(|array| array.as_primitive::<Int32Type>());
    let mut out = StringBuilder::with_capacity(rows, rows * 8);
    for row in 0..rows {
        if text.is_null(row) || start.is_null(row) || length.is_some_and(|l| l.is_null(row)) {
            out.append_null();
            continue;
        }
        let value = text.value(row);
        let count = if value.is_ascii() { value.len() } else { value.chars().count() } as i64;
        let wanted = length.map_or(i64::from(i32::MAX), |l| i64::from(l.value(row)));
        if wanted < 0 {
            out.append_null();
            continue;
        }
        let begin = match i64::from(start.value(row)) {
            0 => 0,
            positive @ 1.. => positive - 1,
            negative => count + negative,
        };
        if begin < 0 || begin >= count {
            out.append_value("");
            continue;
        }
        let end = begin.saturating_add(wanted).min(count);
        let byte_of = |position: i64| {
            if value.is_ascii() {
                position as usize
            } else {
                value.char_indices().nth(position as usize).map_or(value.len(), |(at, _)| at)
            }
        };
        out.append_value(&value[byte_of(begin)..byte_of(end)]);
    }
    Ok(Arc::new(out.finish()))
}

/// The `index`-th part (from 0) of a text cut at a separator; NULL where there is none.
fn split_index(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, separator, index) = (texts(&args[0]), texts(&args[1]), args[2].as_primitive::<Int32Type>());
    let part = |row: usize| {
        if text.is_null(row) || separator.is_null(row) || index.is_null(row) {
            return None;
        }
        let index = usize::try_from(index.value(row)).ok()?;
        match (text.value(row), separator.value(row)) {
            ("", _) => None,
            (whole, "") => (index == 0).then_some(whole),
            (whole, separator) => whole.split(separator).nth(index),
        }
    };
    Ok(Arc::new(StringArray::from_iter((0..rows).map(part))))
}

/// Compiles a pattern once for a run of rows that share it. A pattern that is not valid matches nothing, as in
/// Flink, where these functions give NULL or false then.
#[derive(Default)]
struct PatternCache {
    text: Option<String>,
    compiled: Option<regex::Regex>,
}

impl PatternCache {
    fn get(&mut self, pattern: &str) -> Option<&regex::Regex> {
        if self.text.as_deref() != Some(pattern) {
            self.text = Some(pattern.to_string());
            self.compiled = regex::Regex::new(pattern).ok();
        }
        self.compiled.as_ref()
    }
}

fn regexp_extract(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, pattern) = (texts(&args[0]), texts(&args[1]));
    let group = args.get(2).map(|array| array.as_primitive::<Int32Type>());
    let mut cache = PatternCache::default();
    let mut out = StringBuilder::with_capacity(rows, rows * 8);
    for row in 0..rows {
        let extracted = (|| {
            if text.is_null(row) || pattern.is_null(row) || group.is_some_and(|g| g.is_null(row)) {
                return None;
            }
            let group = usize::try_from(group.map_or(0, |g| g.value(row))).ok()?;
            let captures = cache.get(pattern.value(row))?.captures(text.value(row))?;
            captures.get(group).map(|found| found.as_str())
        })();
        out.append_option(extracted);
    }
    Ok(Arc::new(out.finish()))
}

fn regexp(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, pattern) = (texts(&args[0]), texts(&args[1]));
    let mut cache = PatternCache::default();
    let found = (0..rows).map(|row| {
        if text.is_null(row) || pattern.is_null(row) {
            return None;
        }
        Some(cache.get(pattern.value(row)).is_some_and(|regex| regex.is_match(text.value(row))))
    });
    Ok(Arc::new(found.collect::<BooleanArray>()))
}

fn regexp_replace(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, pattern, replacement) = (texts(&args[0]), texts(&args[1]), texts(&args[2]));
    let mut cache = PatternCache::default();
    let mut out = StringBuilder::with_capacity(rows, rows * 8);
    for row in 0..rows {
        if text.is_null(row) || pattern.is_null(row) || replacement.is_null(row) {
            out.append_null();
            continue;
        }
        match cache.get(pattern.value(row)) {
            Some(regex) => out.append_value(regex.replace_all(text.value(row), replacement.value(row))),
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// CAST(x AS STRING) as Flink writes it: timestamps with a blank and as many digits as their precision has,
/// booleans in capitals, floats as Java prints them.
fn to_string(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let array = &args[0];
    let each = |write: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new(StringArray::from_iter(
            (0..rows).map(|row| if array.is_null(row) { None } else { write(row) }),
        ))
    };
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            each(&|row| Some(if values.value(row) { "TRUE" } else { "FALSE" }.to_string()))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            each(&|row| Some(java_float(values.value(row).to_string(), f64::from(values.value(row)))))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            each(&|row| Some(java_float(values.value(row).to_string(), values.value(row))))
        }
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            each(&|row| temporal::date32_to_datetime(values.value(row)).map(|d| d.date().to_string()))
        }
        DataType::Timestamp(unit, _) => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            each(&|row| datetime(array, row).map(|time| timestamp_text(&time, digits)))
        }
        _ => arrow::compute::cast(array, &DataType::Utf8)?,
    })
}

fn timestamp_text(time: &NaiveDateTime, digits: usize) -> String {
    let mut text = time.format("%Y-%m-%d %H:%M:%S").to_string();
    if digits > 0 {
        let nanos = format!("{:09}", time.nanosecond());
        text.push('.');
        text.push_str(&nanos[..digits]);
    }
    text
}

/// The time in a row of a timestamp array of any unit. `None` if it is NULL or beyond the calendar.
pub(super) fn datetime(array: &ArrayRef, row: usize) -> Option<NaiveDateTime> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            temporal::timestamp_s_to_datetime(array.as_primitive::<TimestampSecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            temporal::timestamp_ms_to_datetime(array.as_primitive::<TimestampMillisecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            temporal::timestamp_us_to_datetime(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            temporal::timestamp_ns_to_datetime(array.as_primitive::<TimestampNanosecondType>().value(row))
        }
        _ => None,
    }
}

/// Java's `Double.toString` from Rust's shortest digits: `1.0E10` from 10^7 and below 10^-3.
fn java_float(shortest: String, value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return if shortest.contains('.') { shortest } else { format!("{shortest}.0") };
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let unsigned = shortest.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let exponent = whole.len() as i64 - 1 - leading as i64;
    let digits = all.trim_matches('0');
    let (first, rest) = digits.split_at(1.min(digits.len()));
    let rest = if rest.is_empty() { "0" } else { rest };
    format!("{sign}{first}.{rest}E{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_java_does() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-1234.5, "-1234.5"),
            (1e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (0.000_12, "1.2E-4"),
            (-1e100, "-1.0E100"),
            (0.0, "0.0"),
        ] {
            assert_eq!(java_float(value.to_string(), value), text);
        }
    }
}
