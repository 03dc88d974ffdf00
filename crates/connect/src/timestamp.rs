//! Times in text as CSV, JSON and options have them, read fast where they are written in the usual way.

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{Time32MillisecondType, TimeUnit};
use chrono::Utc;

/// Reads `YYYY-MM-DD[ T]HH:MM:SS[.fraction][Z]` in `unit`, as UTC; other spellings (an offset, no seconds, a
/// date alone) by Arrow's slower parser. `None`: not a timestamp, or out of range.
///
/// Half of a row of our data is timestamps and Arrow's parser goes through three chrono types, so the common
/// spelling is read directly.
pub(crate) fn parse_timestamp(text: &[u8], unit: TimeUnit) -> Option<i64> {
    parse_common(text, unit).or_else(|| parse_any(text, unit))
}

/// Reads `HH:MM:SS[.fraction]` in milliseconds of the day.
pub(crate) fn parse_time(text: &[u8]) -> Option<i32> {
    let text = text.trim_ascii();
    // Arrow takes a number without colons for one of milliseconds.
    if memchr::memchr_iter(b':', text).count() != 2 {
        return None;
    }
    Time32MillisecondType::parse(std::str::from_utf8(text).ok()?)
}

fn parse_common(text: &[u8], unit: TimeUnit) -> Option<i64> {
    if text.len() < 19 || text[4] != b'-' || text[7] != b'-' || text[13] != b':' || text[16] != b':' {
        return None;
    }
    if !matches!(text[10], b' ' | b'T') {
        return None;
    }
    let two = |at: usize| -> Option<i64> {
        let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
        (tens <= 9 && ones <= 9).then(|| i64::from(tens) * 10 + i64::from(ones))
    };
    let year = two(0)? * 100 + two(2)?;
    let (month, day) = (two(5)?, two(8)?);
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = fraction_ns(&text[19..])?;
    let seconds = days_since_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    match unit {
        TimeUnit::Second => Some(seconds),
        TimeUnit::Millisecond => Some(seconds * 1_000 + nanos / 1_000_000),
        TimeUnit::Microsecond => Some(seconds * 1_000_000 + nanos / 1_000),
        TimeUnit::Nanosecond => seconds.checked_mul(1_000_000_000)?.checked_add(nanos),
    }
}

/// What follows the seconds: nothing, `.` and one to nine digits, and perhaps a `Z`.
fn fraction_ns(rest: &[u8]) -> Option<i64> {
    let rest = rest.strip_suffix(b"Z").unwrap_or(rest);
    if rest.is_empty() {
        return Some(0);
    }
    let digits = rest.strip_prefix(b".")?;
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let mut nanos = 0;
    for place in 0..9 {
        let digit = match digits.get(place) {
            Some(byte) if byte.is_ascii_digit() => i64::from(byte - b'0'),
            Some(_) => return None,
            None => 0,
        };
        nanos = nanos * 10 + digit;
    }
    Some(nanos)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar: the year is taken from March on, so that the
/// leap day comes last and months follow the 153-days-in-five-months pattern.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn parse_any(text: &[u8], unit: TimeUnit) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    // Arrow's parser indexes the text by bytes.
    if !text.is_ascii() {
        return None;
    }
    let utc: Tz = "+00:00".parse().ok()?;
    // Arrow wants seconds.
    let text = if text.len() == 16 { format!("{text}:00") } else { text.to_owned() };
    let time = string_to_datetime(&utc, &text).ok()?.with_timezone(&Utc);
    match unit {
        TimeUnit::Second => Some(time.timestamp()),
        TimeUnit::Millisecond => Some(time.timestamp_millis()),
        TimeUnit::Microsecond => Some(time.timestamp_micros()),
        TimeUnit::Nanosecond => time.timestamp_nanos_opt(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(text: &str) -> Option<i64> {
        parse_timestamp(text.as_bytes(), TimeUnit::Millisecond)
    }

    #[test]
    fn spellings() {
        // 2013-01-01T00:00:00Z is 1 356 998 400 s after the epoch.
        let day = 1_356_998_400_000;
        assert_eq!(ms("2013-01-01 00:00:00"), Some(day));
        assert_eq!(ms("2013-01-01 10:17:00"), Some(day + 37_020_000));
        assert_eq!(ms("2013-01-01T10:17:00.5"), Some(day + 37_020_500));
        assert_eq!(ms("2013-01-01T10:17:00.123456789Z"), Some(day + 37_020_123));
        assert_eq!(ms("2013-01-01T02:00:00+02:00"), Some(day));
        assert_eq!(ms("2013-01-01 00:00"), Some(day));
        assert_eq!(ms("2013-01-01"), Some(day));
        assert_eq!(ms("1969-12-31 23:59:59.999"), Some(-1));
        assert_eq!(ms("2012-02-29 00:00:00"), Some(day - 307 * 86_400_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "NA",
            "2013-13-01 00:00:00",
            "2013-02-29 00:00:00",
            "2013-01-01 24:00:00",
            "2013-01-01 00:00:60x",
            "2013-01-01 00:00:00.",
            "2013-01-01 00:00:00.1a",
            "20130101",
            "2013-01-01 00:00:00 nowhere",
            "2013-01-0\u{e9}",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_arrow(at in -62_135_596_800_000_i64..253_402_300_799_999) {
            let time = chrono::DateTime::from_timestamp_millis(at).unwrap();
            let text = time.format("%Y-%m-%d %H:%M:%S%.f").to_string();
            prop_assert_eq!(parse_common(text.as_bytes(), TimeUnit::Millisecond), Some(at));
            prop_assert_eq!(parse_any(text.as_bytes(), TimeUnit::Millisecond), Some(at));
        }

        #[test]
        fn never_panics(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_timestamp(&text, TimeUnit::Nanosecond);
        }
    }
}
