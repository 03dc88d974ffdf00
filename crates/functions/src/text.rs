//! Functions on texts, and casts to text, with the results of Flink: positions and lengths count characters and not
//! bytes.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringArray, StringBuilder};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow::temporal_conversions as temporal;
use chrono::{NaiveDateTime, Timelike};
use datafusion_common::{Result, exec_err};
use regex::Regex;

use crate::{FlinkFunction, Parameter, pure, volatile};

/// Name of the cast to STRING where Arrow writes values otherwise than Flink does.
pub const TO_STRING: &str = "flink_to_string";

/// Name of the cast to VARCHAR(n): characters behind the n-th are cut off.
pub const TO_VARCHAR: &str = "flink_varchar";

/// Name of the cast to CHAR(n): the same, and what is shorter is padded with blanks.
pub const TO_CHAR: &str = "flink_char";

const fn of_text(
    name: &'static str,
    parameters: &'static [Parameter],
    count: usize,
    invoke: fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> FlinkFunction {
    let returns = |_: &[DataType]| DataType::Utf8;
    FlinkFunction { name, parameters, least: count, most: count, returns, invoke, signature: pure }
}

const fn of_two_texts(
    name: &'static str,
    invoke: fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> FlinkFunction {
    let returns = |_: &[DataType]| DataType::Boolean;
    FlinkFunction {
        name,
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns,
        invoke,
        signature: pure,
    }
}

static DIGITS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d+$").expect("valid"));

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
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
    of_text("left", &[Parameter::Text, Parameter::Int], 2, |args, rows| part_of(args, rows, false)),
    of_text("right", &[Parameter::Text, Parameter::Int], 2, |args, rows| part_of(args, rows, true)),
    of_text("lpad", &[Parameter::Text, Parameter::Int, Parameter::Text], 3, |args, rows| {
        pad(args, rows, true)
    }),
    of_text("rpad", &[Parameter::Text, Parameter::Int, Parameter::Text], 3, |args, rows| {
        pad(args, rows, false)
    }),
    of_text("replace", &[Parameter::Text], 3, replace),
    of_text("chr", &[Parameter::Long], 1, chr),
    of_text("initcap", &[Parameter::Text], 1, initcap),
    of_text("translate", &[Parameter::Text], 3, translate),
    FlinkFunction {
        name: "overlay",
        parameters: &[Parameter::Text, Parameter::Text, Parameter::Long],
        least: 3,
        most: 4,
        returns: |_| DataType::Utf8,
        invoke: overlay,
        signature: pure,
    },
    FlinkFunction {
        name: "elt",
        parameters: &[Parameter::Long, Parameter::Text],
        least: 2,
        most: usize::MAX,
        returns: |_| DataType::Utf8,
        invoke: elt,
        signature: pure,
    },
    FlinkFunction {
        name: "ascii",
        parameters: &[Parameter::Text],
        least: 1,
        most: 1,
        returns: |_| DataType::Int32,
        // The first byte as Java has it, with a sign.
        invoke: |args, _| {
            let first = |text: &str| text.as_bytes().first().map_or(0, |byte| i32::from(*byte as i8));
            Ok(Arc::new(Int32Array::from_iter(texts(&args[0]).iter().map(|text| text.map(first)))))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "flink_locate",
        parameters: &[Parameter::Text, Parameter::Text, Parameter::Int],
        least: 3,
        most: 3,
        returns: |_| DataType::Int32,
        invoke: locate,
        signature: pure,
    },
    of_two_texts("startswith", |args, _| both(args, |text, start| text.starts_with(start))),
    of_two_texts("endswith", |args, _| both(args, |text, end| text.ends_with(end))),
    of_text(TO_VARCHAR, &[Parameter::Text, Parameter::Int], 2, |args, _| with_length(args, false)),
    of_text(TO_CHAR, &[Parameter::Text, Parameter::Int], 2, |args, _| with_length(args, true)),
    FlinkFunction {
        name: "flink_is_alpha",
        parameters: &[Parameter::Any],
        least: 1,
        most: 1,
        returns: |_| DataType::Boolean,
        invoke: |args, rows| {
            holds(args, rows, false, |text| !text.is_empty() && text.chars().all(char::is_alphabetic))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "flink_is_digit",
        parameters: &[Parameter::Any],
        least: 1,
        most: 1,
        returns: |_| DataType::Boolean,
        invoke: |args, rows| {
            let whole = args[0].data_type().is_integer();
            holds(args, rows, whole, |text| DIGITS.is_match(text))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "flink_is_decimal",
        parameters: &[Parameter::Any],
        least: 1,
        most: 1,
        returns: |_| DataType::Boolean,
        invoke: |args, rows| {
            let number = args[0].data_type().is_numeric();
            holds(args, rows, number, |text| super::cast::read_float::<f64>(text).is_some())
        },
        signature: pure,
    },
    FlinkFunction {
        name: "split_index",
        parameters: &[Parameter::Text, Parameter::TextOrLong, Parameter::Int],
        least: 3,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: split_index,
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

pub(crate) fn texts(array: &ArrayRef) -> &StringArray {
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

/// The byte at which a text's character of that number begins, or its end.
fn byte_of(text: &str, character: usize) -> usize {
    if text.is_ascii() {
        return character.min(text.len());
    }
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}

/// The first or last characters; none if the number is negative.
fn part_of(args: &[ArrayRef], rows: usize, last: bool) -> Result<ArrayRef> {
    let (text, length) = (texts(&args[0]), args[1].as_primitive::<Int32Type>());
    let part = |row: usize| {
        if text.is_null(row) || length.is_null(row) {
            return None;
        }
        let (text, wanted) = (text.value(row), usize::try_from(length.value(row)).unwrap_or(0));
        if !last {
            return Some(&text[..byte_of(text, wanted)]);
        }
        let count = if text.is_ascii() { text.len() } else { text.chars().count() };
        Some(&text[byte_of(text, count.saturating_sub(wanted))..])
    };
    Ok(Arc::new(StringArray::from_iter((0..rows).map(part))))
}

/// Padded or cut to a length; NULL if it is negative, or if there is nothing to pad with.
fn pad(args: &[ArrayRef], rows: usize, before: bool) -> Result<ArrayRef> {
    let (text, length, fill) = (texts(&args[0]), args[1].as_primitive::<Int32Type>(), texts(&args[2]));
    let mut out = StringBuilder::with_capacity(rows, rows * 8);
    for row in 0..rows {
        let null = text.is_null(row) || length.is_null(row) || fill.is_null(row);
        let wanted = if null { None } else { usize::try_from(length.value(row)).ok() };
        let Some(wanted) = wanted.filter(|_| !fill.value(row).is_empty()) else {
            out.append_null();
            continue;
        };
        if wanted > PADDED_MAX {
            return exec_err!("a text cannot be padded to {wanted} characters");
        }
        let text = text.value(row);
        let kept = &text[..byte_of(text, wanted)];
        let padding = fill.value(row).chars().cycle().take(wanted - kept.chars().count());
        let padding: String = padding.collect();
        out.append_value(if before { padding + kept } else { format!("{kept}{padding}") });
    }
    Ok(Arc::new(out.finish()))
}

/// A batch of longer texts would not be a batch that anything can hold.
const PADDED_MAX: usize = 1 << 24;

/// An empty text to look for is found before and behind every character, as in Java.
fn replace(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, old, new) = (texts(&args[0]), texts(&args[1]), texts(&args[2]));
    let mut out = StringBuilder::with_capacity(rows, text.value_data().len());
    for row in 0..rows {
        if text.is_null(row) || old.is_null(row) || new.is_null(row) {
            out.append_null();
        } else {
            out.append_value(text.value(row).replace(old.value(row), new.value(row)));
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The character of a code's lowest byte; nothing for a negative one.
fn chr(args: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let codes = args[0].as_primitive::<Int64Type>();
    let text = |code: i64| if code < 0 { String::new() } else { char::from(code as u8).to_string() };
    Ok(Arc::new(StringArray::from_iter(codes.iter().map(|code| code.map(text)))))
}

/// A condition on two texts, NULL if one of them is.
fn both(args: &[ArrayRef], holds: impl Fn(&str, &str) -> bool) -> Result<ArrayRef> {
    let pairs = texts(&args[0]).iter().zip(texts(&args[1]));
    Ok(Arc::new(pairs.map(|(text, other)| Some(holds(text?, other?))).collect::<BooleanArray>()))
}

/// The first letter of each word in capitals, the others small. Only the letters of ASCII have a case, and
/// anything but them and digits parts words.
fn initcap(args: &[ArrayRef], _rows: usize) -> Result<ArrayRef> {
    let capital = |text: &str| {
        let mut begins = true;
        let each = text.chars().map(|c| {
            let cased = if begins { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            begins = !c.is_ascii_alphanumeric();
            cased
        });
        each.collect::<String>()
    };
    Ok(Arc::new(StringArray::from_iter(texts(&args[0]).iter().map(|text| text.map(capital)))))
}

/// Each character of the second text becomes the one at its place in the third, or nothing if there is none. Without
/// a second text nothing changes.
fn translate(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [text, from, to] = [texts(&args[0]), texts(&args[1]), texts(&args[2])];
    let translated = |row: usize| {
        if text.is_null(row) || from.is_null(row) {
            return text.is_valid(row).then(|| text.value(row).to_string());
        }
        let to: Vec<char> = if to.is_null(row) { vec![] } else { to.value(row).chars().collect() };
        let each = text.value(row).chars().filter_map(|c| {
            match from.value(row).chars().position(|known| known == c) {
                Some(place) => to.get(place).copied(),
                None => Some(c),
            }
        });
        Some(each.collect::<String>())
    };
    Ok(Arc::new((0..rows).map(translated).collect::<StringArray>()))
}

/// `OVERLAY(text PLACING new FROM start [FOR length])`. A start outside of the text changes nothing, and what would be
/// left behind an insertion of no length is lost, as in Flink.
fn overlay(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, new) = (texts(&args[0]), texts(&args[1]));
    let start = args[2].as_primitive::<Int64Type>();
    let length = args.get(3).map(|array| array.as_primitive::<Int64Type>());
    let overlaid = |row: usize| {
        let null = [text.is_null(row), new.is_null(row), start.is_null(row)].contains(&true);
        if null || length.is_some_and(|length| length.is_null(row)) {
            return None;
        }
        let (text, new, start) = (text.value(row), new.value(row), start.value(row));
        let count = text.chars().count() as i64;
        if start <= 0 || start > count {
            return Some(text.to_string());
        }
        let length = length.map_or_else(|| new.chars().count() as i64, |length| length.value(row));
        let kept = &text[..byte_of(text, start as usize - 1)];
        let behind = if length > 0 && start.saturating_add(length) <= count {
            &text[byte_of(text, (start + length) as usize - 1)..]
        } else {
            ""
        };
        Some(format!("{kept}{new}{behind}"))
    };
    Ok(Arc::new((0..rows).map(overlaid).collect::<StringArray>()))
}

/// The text of that number, from 1.
fn elt(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let number = args[0].as_primitive::<Int64Type>();
    let chosen = |row: usize| {
        if number.is_null(row) || number.value(row) < 1 {
            return None;
        }
        let text = texts(args.get(usize::try_from(number.value(row)).ok()?)?);
        text.is_valid(row).then(|| text.value(row))
    };
    Ok(Arc::new((0..rows).map(chosen).collect::<StringArray>()))
}

/// Where the first text stands in the second from the third argument on, counted in characters from 1; 0 if nowhere.
fn locate(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (wanted, text) = (texts(&args[0]), texts(&args[1]));
    let from = args[2].as_primitive::<Int32Type>();
    let place = |row: usize| {
        if wanted.is_null(row) || text.is_null(row) || from.is_null(row) {
            return None;
        }
        let (wanted, text) = (wanted.value(row), text.value(row));
        if wanted.is_empty() {
            return Some(1);
        }
        let begin = byte_of(text, usize::try_from(from.value(row) - 1).unwrap_or(0));
        let found = text[begin..].find(wanted).map(|at| text[..begin + at].chars().count() as i32 + 1);
        Some(found.unwrap_or(0))
    };
    Ok(Arc::new((0..rows).map(place).collect::<Int32Array>()))
}

/// CHAR(n) and VARCHAR(n). Texts that have the length already are passed on as they are.
fn with_length(args: &[ArrayRef], padded: bool) -> Result<ArrayRef> {
    let (text, length) = (texts(&args[0]), args[1].as_primitive::<Int32Type>());
    let wanted = |row: usize| usize::try_from(length.value(row)).unwrap_or(0);
    // Characters have at least one byte.
    let fits = |row: usize| match text.value_length(row) as usize {
        bytes if padded => bytes == wanted(row) && text.value(row).is_ascii(),
        bytes => bytes <= wanted(row),
    };
    if (0..text.len()).all(|row| text.is_null(row) || fits(row)) {
        return Ok(Arc::clone(&args[0]));
    }
    let mut out = StringBuilder::with_capacity(text.len(), text.value_data().len());
    for row in 0..text.len() {
        if text.is_null(row) {
            out.append_null();
            continue;
        }
        let value = text.value(row);
        let kept = &value[..byte_of(value, wanted(row))];
        if padded {
            let blanks = wanted(row) - kept.chars().count();
            out.append_value(format!("{kept}{:blanks$}", ""));
        } else {
            out.append_value(kept);
        }
    }
    Ok(Arc::new(out.finish()))
}

/// A condition on a text of any type: of others it is `otherwise`, of NULL false.
fn holds(
    args: &[ArrayRef],
    rows: usize,
    otherwise: bool,
    condition: impl Fn(&str) -> bool,
) -> Result<ArrayRef> {
    let array = &args[0];
    let text = array.as_string_opt::<i32>();
    let holds = (0..rows)
        .map(|row| Some(!array.is_null(row) && text.map_or(otherwise, |text| condition(text.value(row)))));
    Ok(Arc::new(holds.collect::<BooleanArray>()))
}

/// The `index`-th part (from 0) of a text cut at a separator, a text or the code of a character; NULL where there
/// is none.
fn split_index(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, index) = (texts(&args[0]), args[2].as_primitive::<Int32Type>());
    let codes = args[1].as_primitive_opt::<Int64Type>();
    let part = |row: usize| {
        if text.is_null(row) || args[1].is_null(row) || index.is_null(row) {
            return None;
        }
        let index = usize::try_from(index.value(row)).ok()?;
        let text = Some(text.value(row)).filter(|text| !text.is_empty())?;
        match codes.map(|codes| codes.value(row)) {
            Some(code @ 1..=255) => text.split(char::from(code as u8)).nth(index),
            Some(_) => None,
            None => match texts(&args[1]).value(row) {
                "" => text.split(char::is_whitespace).nth(index),
                separator => text.split(separator).nth(index),
            },
        }
    };
    Ok(Arc::new(StringArray::from_iter((0..rows).map(part))))
}

/// CAST(x AS STRING) as Flink writes it: timestamps with a blank and as many digits as their precision has,
/// booleans in capitals, floats as Java prints them.
pub(crate) fn to_string(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
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
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>();
            each(&|row| Some(interval_text(values.value(row))))
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            each(&|row| Some(String::from_utf8_lossy(values.value(row)).into_owned()))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let items = text_or_null(list.values())?;
            let offsets = list.value_offsets();
            each(&|row| Some(format!("[{}]", items[range(offsets, row)].join(", "))))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (keys, values) = (text_or_null(map.keys())?, text_or_null(map.values())?);
            let offsets = map.value_offsets();
            each(&|row| {
                let entries = range(offsets, row).map(|at| format!("{}={}", keys[at], values[at]));
                Some(format!("{{{}}}", entries.collect::<Vec<_>>().join(", ")))
            })
        }
        DataType::Struct(_) => {
            let fields = array.as_struct().columns().iter().map(text_or_null).collect::<Result<Vec<_>>>()?;
            each(&|row| {
                let fields: Vec<&str> = fields.iter().map(|field| field[row].as_str()).collect();
                Some(format!("({})", fields.join(", ")))
            })
        }
        _ => arrow::compute::cast(array, &DataType::Utf8)?,
    })
}

/// Values inside of others, as text.
fn text_or_null(values: &ArrayRef) -> Result<Vec<String>> {
    let written = to_string(std::slice::from_ref(values), values.len())?;
    Ok(texts(&written).iter().map(|text| text.unwrap_or("NULL").to_string()).collect())
}

fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
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

/// Years and months, or days and less: no interval of SQL is of both. One of nothing is of days.
fn interval_text(interval: IntervalMonthDayNano) -> String {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
    if months != 0 {
        let count = months.unsigned_abs();
        return format!("{}{}-{:02}", sign(months < 0), count / 12, count % 12);
    }
    let ms = i64::from(days) * 86_400_000 + nanoseconds / 1_000_000;
    let (count, seconds) = (ms.unsigned_abs(), ms.unsigned_abs() / 1_000);
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    let (days, seconds, ms_left) = (count / 86_400_000, seconds % 60, count % 1_000);
    format!("{}{days} {hours:02}:{minutes:02}:{seconds:02}.{ms_left:03}", sign(ms < 0))
}

/// The time in a row of a timestamp array of any unit, of a DATE at midnight, or of a TIME on the first day. `None` if it is NULL or beyond the calendar.
pub(crate) fn datetime(array: &ArrayRef, row: usize) -> Option<NaiveDateTime> {
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
        DataType::Date32 => temporal::date32_to_datetime(array.as_primitive::<Date32Type>().value(row)),
        DataType::Time32(TimeUnit::Millisecond) => temporal::timestamp_ms_to_datetime(
            array.as_primitive::<Time32MillisecondType>().value(row).into(),
        ),
        _ => None,
    }
}

/// Java's `Double.toString` from Rust's shortest digits: `1.0E10` from 10^7 and below 10^-3.
pub(crate) fn java_float(shortest: String, value: f64) -> String {
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
