//! Folders that say what columns hold: `a=1/b=x/part-0-0.csv`, as Hive and Flink lay tables out.

use std::path::Path;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
};
use arrow::temporal_conversions::{
    date32_to_datetime, timestamp_ms_to_datetime, timestamp_ns_to_datetime, timestamp_s_to_datetime,
    timestamp_us_to_datetime,
};
use chrono::{NaiveDateTime, Timelike};

use crate::OptionError;
use crate::options::OptionReader;

/// Key of the mark in the metadata of a field that folders are named by; the value is its place in PARTITIONED BY.
const MARK: &str = "laxity.partition";

/// Columns of PARTITIONED BY: fields of [`TableSpec::schema`](crate::TableSpec::schema) that bear a mark.
pub struct PartitionColumn;

impl PartitionColumn {
    /// The field as the one at this place of PARTITIONED BY, from 0.
    pub fn mark(field: Field, place: usize) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(MARK.to_owned(), place.to_string());
        field.with_metadata(metadata)
    }

    /// Whether a folder can be named by values of this type.
    pub fn fits(data_type: &DataType) -> bool {
        use DataType::*;
        matches!(
            data_type,
            Utf8 | Boolean | Int8 | Int16 | Int32 | Int64 | Decimal128(..) | Date32 | Timestamp(..)
        )
    }

    /// The place of a field in PARTITIONED BY; `None` for one that is in the files.
    pub(crate) fn place(field: &Field) -> Option<usize> {
        field.metadata().get(MARK)?.parse().ok()
    }
}

/// What stands for NULL and for an empty text: the option 'partition.default-name'.
pub(crate) fn default_name(options: &OptionReader<'_>) -> Result<String, OptionError> {
    let key = "partition.default-name";
    match options.text(key) {
        None => Ok("__DEFAULT_PARTITION__".to_owned()),
        Some("") => Err(options.error(key, "empty; a folder has a name")),
        Some(name) => Ok(name.to_owned()),
    }
}

/// `column=value`, as the name of a folder.
pub(crate) fn folder_name(column: &str, value: Option<&str>, default_name: &str) -> String {
    let value = value.filter(|value| !value.is_empty()).unwrap_or(default_name);
    format!("{}={}", escaped(column), escaped(value))
}

/// The value of a column in the folders of a path; `None` if none of them names it.
pub(crate) fn value_of(path: &Path, column: &str) -> Option<String> {
    path.parent()?.components().rev().find_map(|folder| {
        let folder = folder.as_os_str().to_string_lossy();
        let (name, value) = folder.split_once('=')?;
        (unescaped(name) == column).then(|| unescaped(value))
    })
}

/// Hive's escapes: a percent sign and two hexadecimal digits for what a path or its shell would take otherwise.
pub(crate) fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '\0'..='\x1f'
            | '"'
            | '#'
            | '%'
            | '\''
            | '*'
            | '/'
            | ':'
            | '='
            | '?'
            | '\\'
            | '\x7f'
            | '{'
            | '['
            | ']'
            | '^' => escaped.push_str(&format!("%{:02X}", u32::from(letter))),
            _ => escaped.push(letter),
        }
    }
    escaped
}

fn unescaped(name: &str) -> String {
    let mut rest = name;
    let mut plain = String::with_capacity(name.len());
    while let Some((before, behind)) = rest.split_once('%') {
        plain.push_str(before);
        let code = behind.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &behind[2..];
            }
            None => {
                plain.push('%');
                rest = behind;
            }
        }
    }
    plain + rest
}

/// A value as a folder is named by it, before it is escaped. `None` for NULL.
pub(crate) fn text_of(column: &dyn Array, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row),
        DataType::Date32 => {
            let days = column.as_primitive::<Date32Type>().value(row);
            date32_to_datetime(days).map_or(days.to_string(), |date| date.date().to_string())
        }
        DataType::Timestamp(unit, _) => {
            use arrow::datatypes::{
                TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
                TimestampSecondType,
            };
            let time = match unit {
                TimeUnit::Second => {
                    timestamp_s_to_datetime(column.as_primitive::<TimestampSecondType>().value(row))
                }
                TimeUnit::Millisecond => {
                    timestamp_ms_to_datetime(column.as_primitive::<TimestampMillisecondType>().value(row))
                }
                TimeUnit::Microsecond => {
                    timestamp_us_to_datetime(column.as_primitive::<TimestampMicrosecondType>().value(row))
                }
                TimeUnit::Nanosecond => {
                    timestamp_ns_to_datetime(column.as_primitive::<TimestampNanosecondType>().value(row))
                }
            };
            time.map_or_else(String::new, java_text)
        }
        other => unreachable!("no folder is named by {other}: refused when the table was declared"),
    })
}

/// As `java.time.LocalDateTime` writes it, which Flink takes: seconds and their fraction only where they are not zero.
fn java_text(time: NaiveDateTime) -> String {
    let pattern = match (time.second(), time.nanosecond()) {
        (0, 0) => "%Y-%m-%dT%H:%M",
        (_, 0) => "%Y-%m-%dT%H:%M:%S",
        (_, ns) if ns % 1_000_000 == 0 => "%Y-%m-%dT%H:%M:%S%.3f",
        (_, ns) if ns % 1_000 == 0 => "%Y-%m-%dT%H:%M:%S%.6f",
        _ => "%Y-%m-%dT%H:%M:%S%.9f",
    };
    time.format(pattern).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Date32Array, Decimal128Array, TimestampMillisecondArray};

    use super::*;

    /// The list is that of Flink's `PartitionPathUtils`.
    #[test]
    fn names_are_escaped_as_hive_does() {
        assert_eq!(folder_name("dt", Some("2024-03-01 10:15"), "none"), "dt=2024-03-01 10%3A15");
        assert_eq!(folder_name("a/b", Some("x=1%"), "none"), "a%2Fb=x%3D1%25");
        assert_eq!(
            folder_name("k", Some("\"#'*?\\{[]^\u{1}\u{7f}}"), ""),
            "k=%22%23%27%2A%3F%5C%7B%5B%5D%5E%01%7F}"
        );
        assert_eq!(folder_name("k", Some("Zürich"), ""), "k=Zürich");
        assert_eq!(folder_name("k", None, "none"), "k=none");
        assert_eq!(folder_name("k", Some(""), "__DEFAULT_PARTITION__"), "k=__DEFAULT_PARTITION__");
        for name in ["a/b", "x=1%", "100%", "%zz", "..", "Zürich", "\u{1}"] {
            let path = Path::new("t").join(folder_name("k", Some(name), "none")).join("part-0-0.csv");
            assert_eq!(value_of(&path, "k").as_deref(), Some(name));
            assert_eq!(value_of(&path, "j"), None);
        }
    }

    /// Those that Flink writes by `toString`, but for DATE.
    #[test]
    fn values_are_written_as_java_does() {
        let text = |column: ArrayRef| text_of(column.as_ref(), 0).unwrap();
        assert_eq!(text(Arc::new(BooleanArray::from(vec![true]))), "true");
        assert_eq!(text(Arc::new(Date32Array::from(vec![19_783]))), "2024-03-01");
        let decimal = Decimal128Array::from(vec![-1_050]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(text(Arc::new(decimal)), "-10.50");
        for (ms, expected) in [
            (0, "1970-01-01T00:00"),
            (61_000, "1970-01-01T00:01:01"),
            (60_250, "1970-01-01T00:01:00.250"),
            (-1, "1969-12-31T23:59:59.999"),
        ] {
            assert_eq!(text(Arc::new(TimestampMillisecondArray::from(vec![ms]))), expected);
        }
    }
}
