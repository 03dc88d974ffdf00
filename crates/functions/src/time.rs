//! Functions on dates and times, in UTC. How times are read from text and written is in `java_time.rs`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray,
    StringBuilder, Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use arrow::datatypes::{
    DataType, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta};
use datafusion_common::{Result, exec_err};

use crate::data_type::UTC;
use crate::java_time::{DEFAULT, read_date, read_default, read_fallback};
use crate::text::datetime;
use crate::{FlinkFunction, JavaPattern, Parameter, TIMESTAMP_3, pure, volatile};

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    FlinkFunction {
        name: "date_format",
        parameters: &[Parameter::TextOrTime, Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Utf8,
        invoke: date_format,
        signature: pure,
    },
    FlinkFunction {
        name: "to_timestamp",
        parameters: &[Parameter::Text],
        least: 1,
        most: 2,
        returns: |_| TIMESTAMP_3,
        invoke: to_timestamp,
        signature: pure,
    },
    FlinkFunction {
        name: "to_timestamp_ltz",
        parameters: &[Parameter::TextOrLong, Parameter::Int],
        least: 1,
        most: 2,
        returns: |_| DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
        invoke: to_timestamp_ltz,
        signature: pure,
    },
    FlinkFunction {
        name: "to_date",
        parameters: &[Parameter::Text],
        least: 1,
        most: 2,
        returns: |_| DataType::Date32,
        invoke: to_date,
        signature: pure,
    },
    FlinkFunction {
        name: "from_unixtime",
        parameters: &[Parameter::Long, Parameter::Text],
        least: 1,
        most: 2,
        returns: |_| DataType::Utf8,
        invoke: from_unixtime,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_unix_timestamp",
        parameters: &[Parameter::Text],
        least: 1,
        most: 2,
        returns: |_| DataType::Int64,
        invoke: |args, rows| {
            let times = read(args, rows, false)?;
            Ok(Arc::new(Int64Array::from_iter(times.map(|t| t.map(|t| t.and_utc().timestamp())))))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "flink_now",
        parameters: &[],
        least: 0,
        most: 0,
        returns: |_| DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
        invoke: |_, rows| {
            let now = TimestampMillisecondArray::from_value(wall_clock_ms(), rows);
            Ok(Arc::new(now.with_timezone(UTC)))
        },
        signature: volatile,
    },
    FlinkFunction {
        name: super::PROCTIME,
        parameters: &[],
        least: 0,
        most: 0,
        returns: |_| crate::data_type::processing_time(),
        // A column of a table takes its place: `proctime.rs`.
        invoke: |_, _| datafusion_common::internal_err!("a processing time is no expression"),
        signature: volatile,
    },
    FlinkFunction {
        name: super::CURRENT_WATERMARK,
        parameters: &[Parameter::Time],
        least: 1,
        most: 1,
        returns: |types| types[0].clone(),
        // An operator gives it: `lower/current_watermark.rs`.
        invoke: |_, _| datafusion_common::internal_err!("a watermark is no expression"),
        signature: volatile,
    },
    FlinkFunction {
        name: "flink_time_part",
        parameters: &[Parameter::Text, Parameter::Time],
        least: 2,
        most: 2,
        returns: |_| DataType::Int64,
        invoke: time_part,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_time_floor",
        parameters: &[Parameter::Text, Parameter::Time],
        least: 2,
        most: 2,
        returns: |types| types[1].clone(),
        invoke: |args, rows| round_time(args, rows, false),
        signature: pure,
    },
    FlinkFunction {
        name: "flink_time_ceil",
        parameters: &[Parameter::Text, Parameter::Time],
        least: 2,
        most: 2,
        returns: |types| types[1].clone(),
        invoke: |args, rows| round_time(args, rows, true),
        signature: pure,
    },
    FlinkFunction {
        name: "timestampadd",
        parameters: &[Parameter::Text, Parameter::Long, Parameter::Time],
        least: 3,
        most: 3,
        returns: |types| match &types[2] {
            DataType::Date32 => TIMESTAMP_6,
            other => other.clone(),
        },
        invoke: |args, rows| timestamp_add(args, rows, &TIMESTAMP_6),
        signature: pure,
    },
    FlinkFunction {
        // With a unit of days or more, which leaves a DATE one.
        name: "flink_date_add",
        parameters: &[Parameter::Text, Parameter::Long, Parameter::Time],
        least: 3,
        most: 3,
        returns: |types| types[2].clone(),
        invoke: |args, rows| timestamp_add(args, rows, &DataType::Date32),
        signature: pure,
    },
    FlinkFunction {
        name: "flink_interval_times",
        parameters: &[Parameter::Long, Parameter::Any],
        least: 2,
        most: 2,
        returns: |_| DataType::Interval(IntervalUnit::MonthDayNano),
        invoke: interval_times,
        signature: pure,
    },
    FlinkFunction {
        name: "timestampdiff",
        parameters: &[Parameter::Text, Parameter::Time],
        least: 3,
        most: 3,
        returns: |_| DataType::Int32,
        invoke: timestamp_diff,
        signature: pure,
    },
];

/// What a DATE becomes that hours are added to.
const TIMESTAMP_6: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Units of time that can be asked for by name.
pub const UNITS: &[&str] = &[
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DOY",
    "DOW",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "EPOCH",
    "ISODOW",
    "ISOYEAR",
    "DECADE",
    "CENTURY",
    "MILLENNIUM",
];

#[expect(clippy::disallowed_methods, reason = "CURRENT_TIMESTAMP is the wall clock by definition")]
fn wall_clock_ms() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn millis(times: impl Iterator<Item = Option<NaiveDateTime>>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from_iter(
        times.map(|time| time.map(|time| time.and_utc().timestamp_millis())),
    ))
}

/// Times as a column of this type; one that it cannot hold is NULL.
fn of_type(times: impl Iterator<Item = Option<NaiveDateTime>>, to: &DataType) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Timestamp(TimeUnit::Millisecond, None) => millis(times),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let nanos = times.map(|time| time?.and_utc().timestamp_nanos_opt());
            Arc::new(TimestampNanosecondArray::from_iter(nanos).with_timezone_opt(zone.clone()))
        }
        DataType::Timestamp(_, zone) => {
            let micros = times.map(|time| Some(time?.and_utc().timestamp_micros()));
            let micros = TimestampMicrosecondArray::from_iter(micros).with_timezone_opt(zone.clone());
            arrow::compute::cast(&micros, to)?
        }
        DataType::Date32 => {
            let epoch_days = |time: NaiveDateTime| (time.date() - NaiveDate::default()).num_days() as i32;
            Arc::new(Date32Array::from_iter(times.map(|time| time.map(epoch_days))))
        }
        // A TIME goes round the clock.
        DataType::Time32(TimeUnit::Millisecond) => Arc::new(Time32MillisecondArray::from_iter(
            times.map(|time| Some(time?.and_utc().timestamp_millis().rem_euclid(86_400_000) as i32)),
        )),
        other => return exec_err!("{other} is not a time"),
    })
}

fn pattern(text: &str) -> Result<JavaPattern> {
    match JavaPattern::parse(text) {
        Ok(pattern) => Ok(pattern),
        Err(letter) => {
            exec_err!("pattern '{text}' has the unknown letter '{letter}'; quote plain text: ''T''")
        }
    }
}

/// A pattern compiled once for a run of rows that share it.
#[derive(Default)]
struct Patterns(Option<(String, JavaPattern)>);

impl Patterns {
    fn get(&mut self, text: &str) -> Result<&JavaPattern> {
        if self.0.as_ref().is_none_or(|(known, _)| known != text) {
            self.0 = Some((text.to_string(), pattern(text)?));
        }
        Ok(&self.0.get_or_insert_with(|| unreachable!("filled above")).1)
    }
}

fn date_format(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let format = args[1].as_string::<i32>();
    let mut patterns = Patterns::default();
    let mut out = StringBuilder::with_capacity(rows, rows * 19);
    let mut text = String::new();
    let written = args[0].as_string_opt::<i32>();
    for row in 0..rows {
        let time = match written {
            Some(written) if written.is_valid(row) => read_default(written.value(row)),
            Some(_) => None,
            None => datetime(&args[0], row),
        };
        match time {
            Some(time) if !format.is_null(row) => {
                text.clear();
                patterns.get(format.value(row))?.format(&time, &mut text);
                out.append_value(&text);
            }
            _ => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// Texts as times, by the pattern in the second argument if there is one, and perhaps as [`read_fallback`] does. What
/// cannot be read is NULL.
fn read(
    args: &[ArrayRef],
    rows: usize,
    fallback: bool,
) -> Result<impl Iterator<Item = Option<NaiveDateTime>>> {
    let text = args[0].as_string::<i32>();
    let format = args.get(1).map(|array| array.as_string::<i32>());
    let mut patterns = Patterns::default();
    let mut times = Vec::with_capacity(rows);
    for row in 0..rows {
        times.push(if text.is_null(row) || format.is_some_and(|f| f.is_null(row)) {
            None
        } else {
            match format {
                Some(format) => patterns
                    .get(format.value(row))?
                    .read(text.value(row))
                    .or_else(|| if fallback { read_fallback(text.value(row)) } else { None }),
                None => read_default(text.value(row)),
            }
        });
    }
    Ok(times.into_iter())
}

fn to_timestamp(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    Ok(millis(read(args, rows, true)?))
}

fn to_date(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let epoch_days = |day: NaiveDate| (day - NaiveDate::default()).num_days() as i32;
    if let [text] = args {
        let days = text.as_string::<i32>().iter().map(|text| text.and_then(read_date).map(epoch_days));
        return Ok(Arc::new(Date32Array::from_iter(days)));
    }
    let days = read(args, rows, false)?.map(|time| time.map(|time| epoch_days(time.date())));
    Ok(Arc::new(Date32Array::from_iter(days)))
}

/// The first and the last instant of TO_TIMESTAMP_LTZ: 0001-01-01 00:00:00 and 9999-12-31 23:59:59.999.
const EARLIEST_MS: i64 = -62_135_596_800_000;
const LATEST_MS: i64 = 253_402_300_799_999;

/// Seconds (precision 0) or milliseconds (3) since the epoch.
fn to_timestamp_ltz(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let Some(number) = args[0].as_primitive_opt::<Int64Type>() else {
        let times: Vec<_> = read(&args[..1], rows, false)?.collect();
        let text = args[0].as_string::<i32>();
        if let Some(row) = (0..rows).find(|row| times[*row].is_none() && text.is_valid(*row)) {
            return exec_err!("'{}' is not a TIMESTAMP_LTZ", text.value(row));
        }
        let millis = times.into_iter().map(|time| time.map(|time| time.and_utc().timestamp_millis()));
        return Ok(Arc::new(TimestampMillisecondArray::from_iter(millis).with_timezone(UTC)));
    };
    // What is no year of four digits is NULL.
    let in_calendar = |millis: &i64| (EARLIEST_MS..=LATEST_MS).contains(millis);
    let precision = args.get(1).map(|array| array.as_primitive::<Int32Type>());
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        let null = number.is_null(row) || precision.is_some_and(|p| p.is_null(row));
        out.push(match precision.map_or(3, |p| if null { 3 } else { p.value(row) }) {
            _ if null => None,
            0 => number.value(row).checked_mul(1_000).filter(in_calendar),
            3 => Some(number.value(row)).filter(in_calendar),
            other => return exec_err!("TO_TIMESTAMP_LTZ takes the precision 0 or 3, not {other}"),
        });
    }
    Ok(Arc::new(TimestampMillisecondArray::from(out).with_timezone(UTC)))
}

fn from_unixtime(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let seconds = args[0].as_primitive::<Int64Type>();
    let format = args.get(1).map(|array| array.as_string::<i32>());
    let mut patterns = Patterns::default();
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        let null = seconds.is_null(row) || format.is_some_and(|f| f.is_null(row));
        // Java's milliseconds wrap around.
        let millis = |seconds: i64| DateTime::from_timestamp_millis(seconds.wrapping_mul(1_000));
        let time = if null { None } else { millis(seconds.value(row)) };
        out.push(match time {
            None => None,
            Some(time) => {
                let mut text = String::new();
                patterns.get(format.map_or(DEFAULT, |f| f.value(row)))?.format(&time.naive_utc(), &mut text);
                Some(text)
            }
        });
    }
    Ok(Arc::new(StringArray::from(out)))
}

/// EXTRACT, a BIGINT in Flink.
fn time_part(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    use chrono::Timelike;
    let unit = args[0].as_string::<i32>();
    const OF_A_DAY: [&str; 5] = ["HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"];
    if matches!(args[1].data_type(), DataType::Time32(_))
        && let Some(other) = unit.iter().flatten().find(|unit| !OF_A_DAY.contains(unit))
    {
        return exec_err!("a TIME has no {other}");
    }
    let part = |row: usize| -> Option<i64> {
        if unit.is_null(row) {
            return None;
        }
        let time = datetime(&args[1], row)?;
        Some(match unit.value(row) {
            "YEAR" => i64::from(time.year()),
            "QUARTER" => i64::from(time.month0() / 3 + 1),
            "MONTH" => i64::from(time.month()),
            "ISOYEAR" => i64::from(time.iso_week().year()),
            "DECADE" => i64::from(time.year()).div_euclid(10),
            // The first century and millennium begin with the year 1.
            "CENTURY" => (i64::from(time.year()) + 99).div_euclid(100),
            "MILLENNIUM" => (i64::from(time.year()) + 999).div_euclid(1_000),
            "WEEK" => i64::from(time.iso_week().week()),
            "DAY" => i64::from(time.day()),
            "DOY" => i64::from(time.ordinal()),
            // Flink counts from Sunday = 1.
            "DOW" => i64::from(time.weekday().num_days_from_sunday()) + 1,
            "ISODOW" => i64::from(time.weekday().number_from_monday()),
            "HOUR" => i64::from(time.hour()),
            "MINUTE" => i64::from(time.minute()),
            "SECOND" => i64::from(time.second()),
            "MILLISECOND" => i64::from(time.nanosecond() / 1_000_000),
            "MICROSECOND" => i64::from(time.nanosecond() / 1_000),
            "EPOCH" => time.and_utc().timestamp(),
            _ => return None,
        })
    };
    Ok(Arc::new(Int64Array::from_iter((0..rows).map(part))))
}

/// `FLOOR(t TO unit)` and `CEIL(t TO unit)`.
fn round_time(args: &[ArrayRef], rows: usize, up: bool) -> Result<ArrayRef> {
    let unit = args[0].as_string::<i32>();
    let rounded = (0..rows).map(|row| {
        let time = whole_millis(datetime(&args[1], row)?);
        let name = if unit.is_null(row) { return None } else { unit.value(row) };
        let down = floor_time(time, name)?;
        if up && down < time { add(down, name, 1) } else { Some(down) }
    });
    of_type(rounded, args[1].data_type())
}

fn floor_time(time: NaiveDateTime, unit: &str) -> Option<NaiveDateTime> {
    use chrono::Timelike;
    let midnight = |date: NaiveDate| date.and_hms_opt(0, 0, 0);
    let date = time.date();
    match unit {
        "YEAR" => midnight(date.with_ordinal(1)?),
        "QUARTER" => midnight(NaiveDate::from_ymd_opt(date.year(), date.month0() / 3 * 3 + 1, 1)?),
        "MONTH" => midnight(date.with_day(1)?),
        "WEEK" => midnight(
            date.checked_sub_signed(TimeDelta::days(i64::from(date.weekday().num_days_from_sunday())))?,
        ),
        "DAY" => midnight(date),
        "HOUR" => date.and_hms_opt(time.hour(), 0, 0),
        "MINUTE" => date.and_hms_opt(time.hour(), time.minute(), 0),
        "SECOND" => time.with_nanosecond(0),
        "MILLISECOND" => time.with_nanosecond(time.nanosecond() / 1_000_000 * 1_000_000),
        _ => None,
    }
}

/// `time` moved by a number of units; months keep the day where they can.
fn add(time: NaiveDateTime, unit: &str, count: i64) -> Option<NaiveDateTime> {
    let months = |each: i64| {
        let total = count.checked_mul(each)?;
        let magnitude = Months::new(u32::try_from(total.unsigned_abs()).ok()?);
        if total >= 0 { time.checked_add_months(magnitude) } else { time.checked_sub_months(magnitude) }
    };
    let span = |delta: Option<TimeDelta>| time.checked_add_signed(delta?);
    match unit {
        "YEAR" => months(12),
        "QUARTER" => months(3),
        "MONTH" => months(1),
        "WEEK" => span(TimeDelta::try_weeks(count)),
        "DAY" => span(TimeDelta::try_days(count)),
        "HOUR" => span(TimeDelta::try_hours(count)),
        "MINUTE" => span(TimeDelta::try_minutes(count)),
        "SECOND" => span(TimeDelta::try_seconds(count)),
        "MILLISECOND" => span(TimeDelta::try_milliseconds(count)),
        "MICROSECOND" => span(Some(TimeDelta::microseconds(count))),
        _ => None,
    }
}

/// `of_date` is what a DATE becomes.
fn timestamp_add(args: &[ArrayRef], rows: usize, of_date: &DataType) -> Result<ArrayRef> {
    let (unit, count) = (args[0].as_string::<i32>(), args[1].as_primitive::<Int64Type>());
    let times = (0..rows).map(|row| {
        if unit.is_null(row) || count.is_null(row) {
            return None;
        }
        add(datetime(&args[2], row)?, unit.value(row), count.value(row))
    });
    let given = args[2].data_type();
    of_type(times, if *given == DataType::Date32 { of_date } else { given })
}

/// `n * INTERVAL …`. Beyond what an interval can hold it is an error.
fn interval_times(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (count, interval) =
        (args[0].as_primitive::<Int64Type>(), args[1].as_primitive::<IntervalMonthDayNanoType>());
    let mut out = IntervalMonthDayNanoArray::builder(rows);
    for row in 0..rows {
        if count.is_null(row) || interval.is_null(row) {
            out.append_null();
            continue;
        }
        let (count, one) = (count.value(row), interval.value(row));
        let short = |part: i32| i32::try_from(count.checked_mul(part.into())?).ok();
        let parts = (short(one.months), short(one.days), count.checked_mul(one.nanoseconds));
        let (Some(months), Some(days), Some(nanoseconds)) = parts else {
            return exec_err!("an interval is too long");
        };
        out.append_value(IntervalMonthDayNano { months, days, nanoseconds });
    }
    Ok(Arc::new(out.finish()))
}

/// Whole units from the second argument to the third, towards zero.
fn timestamp_diff(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let unit = args[0].as_string::<i32>();
    let difference = |row: usize| -> Option<i32> {
        let (from, to) = (whole_millis(datetime(&args[1], row)?), whole_millis(datetime(&args[2], row)?));
        let span = to - from;
        let whole = match unit.value(row) {
            "YEAR" => whole_months(from, to) / 12,
            "QUARTER" => whole_months(from, to) / 3,
            "MONTH" => whole_months(from, to),
            "WEEK" => span.num_weeks(),
            "DAY" => span.num_days(),
            "HOUR" => span.num_hours(),
            "MINUTE" => span.num_minutes(),
            "SECOND" => span.num_seconds(),
            "MILLISECOND" => span.num_milliseconds(),
            _ => return None,
        };
        Some(whole as i32)
    };
    Ok(Arc::new(Int32Array::from_iter((0..rows).map(difference))))
}

/// Flink's calendar does not see what is finer.
fn whole_millis(time: NaiveDateTime) -> NaiveDateTime {
    use chrono::Timelike;
    time.with_nanosecond(time.nanosecond() / 1_000_000 * 1_000_000).unwrap_or(time)
}

/// Months by Calcite's rule: so many that the first day, moved by them, is not behind the other; one less if it is
/// that day at an earlier time.
fn whole_months(from: NaiveDateTime, to: NaiveDateTime) -> i64 {
    let months = months_of_days(from.date(), to.date());
    let moved = add(from.date().into(), "MONTH", months).map(|time| time.date());
    months - i64::from(moved == Some(to.date()) && to.time() < from.time())
}

fn months_of_days(from: NaiveDate, to: NaiveDate) -> i64 {
    if to < from {
        return -months_of_days(to, from);
    }
    let estimate = i64::from(to.year() - from.year()) * 12 + i64::from(to.month()) - i64::from(from.month());
    let moved = |months: i64| add(from.into(), "MONTH", months).map(|time| time.date());
    if moved(estimate).is_some_and(|day| day > to) { estimate - 1 } else { estimate }
}
