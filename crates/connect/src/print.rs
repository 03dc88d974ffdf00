//! `print`: rows on standard output or standard error, with values spelled as Java prints them for Flink.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use chrono::{DateTime, NaiveTime, Timelike};

use crate::options::OptionReader;
use crate::output::Standard;
use crate::{
    ConnectError, Connector, Encoder, OpenSink, OptionError, SinkConnector, SinkEnvironment, TableSpec,
};

/// Makes text of rows as Flink's `print` does: `name> +I[1, a]`.
struct PrintEncoder {
    prefix: String,
    text: String,
    /// A line with the names of the columns comes before the first row.
    header_is_due: bool,
}

struct PrintOptions {
    prefix: String,
    to_stderr: bool,
    header: bool,
}

impl PrintOptions {
    fn read(options: &OptionReader<'_>) -> Result<PrintOptions, OptionError> {
        let prefix = match options.text("print-identifier") {
            Some(name) if !name.is_empty() => format!("{name}> "),
            _ => String::new(),
        };
        let to_stderr = options.boolean("standard-error")?.unwrap_or(false);
        let header = options.boolean("laxity.print.header")?.unwrap_or(false);
        options.finish()?;
        Ok(PrintOptions { prefix, to_stderr, header })
    }
}

/// `'connector' = 'print'`.
pub(crate) struct Print;

impl Connector for Print {
    fn name(&self) -> &'static str {
        "print"
    }

    fn sink(&self) -> Option<&dyn SinkConnector> {
        Some(self)
    }
}

impl SinkConnector for Print {
    fn validate(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        PrintOptions::read(options).map(drop)
    }

    fn open(
        &self,
        _table: &TableSpec,
        _env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<OpenSink, ConnectError> {
        let PrintOptions { prefix, to_stderr, header } = PrintOptions::read(options)?;
        let output = if to_stderr { Standard::Error } else { Standard::Output };
        Ok(OpenSink {
            encoder: Box::new(PrintEncoder { prefix, text: String::new(), header_is_due: header }),
            may_stall: output.may_stall(),
            output: Some(Box::new(output)),
            serves_all: true,
        })
    }
}

impl Encoder for PrintEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        self.text.clear();
        if std::mem::take(&mut self.header_is_due) {
            put_header(&mut self.text, &self.prefix, rows);
        }
        put_rows(&mut self.text, &self.prefix, rows);
        out.extend_from_slice(self.text.as_bytes());
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }
}

/// Under the `+I` of the rows there is nothing, so that it is not taken for one.
fn put_header(text: &mut String, prefix: &str, rows: &RecordBatch) {
    let schema = rows.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    text.push_str(&format!("{prefix}  [{}]\n", names.join(", ")));
}

fn put_rows(text: &mut String, prefix: &str, rows: &RecordBatch) {
    for row in 0..rows.num_rows() {
        text.push_str(prefix);
        text.push_str("+I[");
        for (index, column) in rows.columns().iter().enumerate() {
            text.push_str(if index > 0 { ", " } else { "" });
            put_value(text, column, row);
        }
        text.push_str("]\n");
    }
}

/// Appends a value as Java prints the object that Flink makes of it.
fn put_value(text: &mut String, column: &dyn Array, row: usize) {
    if column.is_null(row) {
        text.push_str("null");
        return;
    }
    // Writing to a string does not fail.
    let _ = match column.data_type() {
        DataType::Utf8 => text.write_str(column.as_string::<i32>().value(row)),
        DataType::Boolean => write!(text, "{}", column.as_boolean().value(row)),
        DataType::Int8 => write!(text, "{}", column.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => write!(text, "{}", column.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => write!(text, "{}", column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => write!(text, "{}", column.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            put_float(text, value.abs().into(), &format!("{value:?}"), &format!("{value:e}"))
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            put_float(text, value.abs(), &format!("{value:?}"), &format!("{value:e}"))
        }
        DataType::Decimal128(..) => {
            text.write_str(&column.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::Date32 => match column.as_primitive::<Date32Type>().value_as_date(row) {
            Some(date) => write!(text, "{date}"),
            None => text.write_str("?"),
        },
        DataType::Time32(_) | DataType::Time64(_) => match time_of_day(column, row) {
            Some(time) => put_time(text, time),
            None => text.write_str("?"),
        },
        DataType::Timestamp(unit, zone) => match utc(column, row, *unit) {
            Some(time) => {
                let time = time.naive_utc();
                let _ = write!(text, "{}T", time.date());
                // Java leaves seconds of zero out of a LocalDateTime, and keeps them in an Instant.
                match zone {
                    Some(_) if time.second() == 0 && time.nanosecond() == 0 => {
                        write!(text, "{}Z", time.time().format("%H:%M:%S"))
                    }
                    Some(_) => put_time(text, time.time()).and_then(|()| text.write_char('Z')),
                    None => put_time(text, time.time()),
                }
            }
            None => text.write_str("?"),
        },
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            put_interval(text, column.as_primitive::<IntervalMonthDayNanoType>().value(row))
        }
        DataType::Binary => {
            let bytes: Vec<String> =
                column.as_binary::<i32>().value(row).iter().map(|byte| (*byte as i8).to_string()).collect();
            write!(text, "[{}]", bytes.join(", "))
        }
        DataType::List(_) => put_list(text, "[", &column.as_list::<i32>().value(row), "]"),
        DataType::Struct(_) => {
            text.push_str("+I[");
            for (index, field) in column.as_struct().columns().iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                put_value(text, field, row);
            }
            text.write_str("]")
        }
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            text.push('{');
            for entry in 0..entries.len() {
                text.push_str(if entry > 0 { ", " } else { "" });
                put_value(text, entries.column(0), entry);
                text.push('=');
                put_value(text, entries.column(1), entry);
            }
            text.write_str("}")
        }
        other => write!(text, "<{other}>"),
    };
}

fn put_list(text: &mut String, open: &str, items: &dyn Array, close: &str) -> std::fmt::Result {
    text.push_str(open);
    for item in 0..items.len() {
        text.push_str(if item > 0 { ", " } else { "" });
        put_value(text, items, item);
    }
    text.write_str(close)
}

/// Java prints the shortest digits like Rust, but turns to the exponent from ten million on and below a
/// thousandth.
fn put_float(text: &mut String, magnitude: f64, plain: &str, exponent: &str) -> std::fmt::Result {
    if magnitude.is_nan() {
        return text.write_str("NaN");
    }
    if magnitude.is_infinite() {
        return text.write_str(if plain.starts_with('-') { "-Infinity" } else { "Infinity" });
    }
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return text.write_str(plain);
    }
    let (digits, power) = exponent.split_once('e').unwrap_or((exponent, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    write!(text, "{digits}{point}E{power}")
}

fn put_time(text: &mut String, time: NaiveTime) -> std::fmt::Result {
    match (time.second(), time.nanosecond()) {
        (0, 0) => write!(text, "{}", time.format("%H:%M")),
        _ => write!(text, "{}", time.format("%H:%M:%S%.f")),
    }
}

/// As Java prints a Period, of one in months, and a Duration, of one in days and less. No interval of SQL is of both.
fn put_interval(text: &mut String, interval: IntervalMonthDayNano) -> std::fmt::Result {
    const NS: i128 = 1_000_000_000;
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let part = |text: &mut String, count: i128, letter: char| match count {
        0 => Ok(()),
        count => write!(text, "{count}{letter}"),
    };
    if months != 0 {
        text.push('P');
        part(text, (months / 12).into(), 'Y')?;
        return part(text, (months % 12).into(), 'M');
    }
    let ns = i128::from(days) * 86_400 * NS + i128::from(nanoseconds);
    if ns == 0 {
        return text.write_str("PT0S");
    }
    text.push_str("PT");
    part(text, ns / NS / 3_600, 'H')?;
    part(text, ns / NS / 60 % 60, 'M')?;
    if ns % (60 * NS) == 0 {
        return Ok(());
    }
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.abs());
    let seconds = format!("{sign}{}.{:09}", ns / NS % 60, ns % NS);
    write!(text, "{}S", seconds.trim_end_matches('0').trim_end_matches('.'))
}

fn time_of_day(column: &dyn Array, row: usize) -> Option<NaiveTime> {
    use arrow::datatypes::{
        Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    };
    match column.data_type() {
        DataType::Time32(TimeUnit::Second) => column.as_primitive::<Time32SecondType>().value_as_time(row),
        DataType::Time32(_) => column.as_primitive::<Time32MillisecondType>().value_as_time(row),
        DataType::Time64(TimeUnit::Microsecond) => {
            column.as_primitive::<Time64MicrosecondType>().value_as_time(row)
        }
        _ => column.as_primitive::<Time64NanosecondType>().value_as_time(row),
    }
}

fn utc(column: &dyn Array, row: usize, unit: TimeUnit) -> Option<DateTime<chrono::Utc>> {
    use arrow::datatypes::{
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    };
    match unit {
        TimeUnit::Second => {
            DateTime::from_timestamp(column.as_primitive::<TimestampSecondType>().value(row), 0)
        }
        TimeUnit::Millisecond => {
            DateTime::from_timestamp_millis(column.as_primitive::<TimestampMillisecondType>().value(row))
        }
        TimeUnit::Microsecond => {
            DateTime::from_timestamp_micros(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        TimeUnit::Nanosecond => {
            Some(DateTime::from_timestamp_nanos(column.as_primitive::<TimestampNanosecondType>().value(row)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Float64Array, StringArray, TimestampMillisecondArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn format_rows(prefix: &str, rows: &RecordBatch) -> String {
        let mut text = String::new();
        put_rows(&mut text, prefix, rows);
        text
    }

    fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap()
    }

    #[test]
    fn rows_look_like_flinks() {
        let at = 1_356_998_400_000;
        let times = TimestampMillisecondArray::from(vec![at, at + 37_025_500]);
        let lists = arrow::array::ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), None]),
            Some(vec![]),
        ]);
        let rows = rows(vec![
            ("s", Arc::new(StringArray::from(vec![Some("a b"), None])) as ArrayRef),
            ("b", Arc::new(BooleanArray::from(vec![true, false]))),
            ("t", Arc::new(times.clone())),
            ("z", Arc::new(times.with_timezone("UTC"))),
            ("l", Arc::new(lists)),
        ]);
        assert_eq!(
            format_rows("out> ", &rows),
            "out> +I[a b, true, 2013-01-01T00:00, 2013-01-01T00:00:00Z, [1, null]]\n\
             out> +I[null, false, 2013-01-01T10:17:05.500, 2013-01-01T10:17:05.500Z, []]\n"
        );
    }

    #[test]
    fn intervals_look_like_javas() {
        let day_ns = 86_400_000_000_000;
        let of = |months, days, ns| IntervalMonthDayNano::new(months, days, ns);
        let cases = [
            (of(14, 0, 0), "P1Y2M"),
            (of(-14, 0, 0), "P-1Y-2M"),
            (of(24, 0, 0), "P2Y"),
            (of(0, 0, 0), "PT0S"),
            (of(0, 1, 7_384_000_000_000), "PT26H3M4S"),
            (of(0, 0, -500_000_000), "PT-0.5S"),
            (of(0, 0, -5_000_000_000), "PT-5S"),
            (of(0, -1, 2 * day_ns), "PT24H"),
            (of(0, 0, 60_100_000_000), "PT1M0.1S"),
        ];
        for (interval, expected) in cases {
            let mut text = String::new();
            put_interval(&mut text, interval).unwrap();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn floats_look_like_javas() {
        let values = [1.0, 0.001, 1e-4, 9_999_999.5, 1e7, 1.25e10, -0.0, f64::NAN, f64::NEG_INFINITY];
        let rows = rows(vec![("d", Arc::new(Float64Array::from(values.to_vec())) as ArrayRef)]);
        let text = format_rows("", &rows);
        let shown: Vec<&str> =
            text.lines().map(|line| line.trim_matches(&['+', 'I', '[', ']'][..])).collect();
        assert_eq!(
            shown,
            ["1.0", "0.001", "1.0E-4", "9999999.5", "1.0E7", "1.25E10", "-0.0", "NaN", "-Infinity"]
        );
    }
}
