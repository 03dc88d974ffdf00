//! Durations and sizes as a person types and reads them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use laxity_text::QuantityError as Misread;

/// A duration as a person types it: `50ms`, `20 s`, `1.5 min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HumaneDuration(pub Duration);

/// A size as a person types it: `512 mb`, `2gb`. A megabyte is 2²⁰ bytes, as in Flink's memory options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HumaneBytes(pub u64);

/// How many times as much, as a person types it: `2x`, `0.5x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor(pub f64);

/// What is wrong with a typed quantity.
#[derive(Debug, PartialEq, Eq)]
pub struct QuantityError(String);

const DURATION: &str = "a number and a unit, as in '50 ms', '20 s' or '2 min'";
const BYTES: &str = "a number and a unit, as in '512 mb' or '2 gb'";

impl FromStr for HumaneDuration {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<HumaneDuration, QuantityError> {
        let duration = match laxity_text::parse_duration(text) {
            Err(Misread::TooLarge) => return Err(QuantityError(format!("'{text}' is longer than any run"))),
            read => read.map_err(|error| QuantityError::of(text, error, DURATION))?,
        };
        if duration.is_zero() {
            return Err(QuantityError(format!("'{text}' is no time at all")));
        }
        Ok(HumaneDuration(duration))
    }
}

impl FromStr for HumaneBytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<HumaneBytes, QuantityError> {
        match laxity_text::parse_bytes(text) {
            Ok(0) => Err(QuantityError(format!("'{text}' is no memory at all"))),
            Ok(bytes) => Ok(HumaneBytes(bytes)),
            // Nobody has 2⁶⁴ bytes.
            Err(Misread::TooLarge) => Ok(HumaneBytes(u64::MAX)),
            Err(error) => Err(QuantityError::of(text, error, BYTES)),
        }
    }
}

impl FromStr for Factor {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Factor, QuantityError> {
        let number = text.trim().strip_suffix(['x', 'X', '×']).unwrap_or(text).trim();
        match number.parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(Factor(factor)),
            _ => Err(QuantityError(format!("'{text}' should be a factor above zero, as in '2x' or '0.5x'"))),
        }
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QuantityError {}

impl QuantityError {
    fn of(text: &str, error: Misread, expected: &str) -> QuantityError {
        let unit = if error == Misread::NoUnit { "has no unit: it " } else { "" };
        QuantityError(format!("'{text}' {unit}should be {expected}"))
    }
}

/// Two or three digits and a unit: `850 ns`, `3.1 ms`, `12 s`, `2.5 min`.
pub fn short_duration(ns: u64) -> String {
    const STEPS: &[(f64, &str)] =
        &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"), (6e10, "min"), (3.6e12, "h")];
    let ns = ns as f64;
    // 0.9995: what would round up to the next unit's 1 is shown as that.
    let &(size, unit) = STEPS.iter().rev().find(|(size, _)| ns >= size * 0.9995).unwrap_or(&STEPS[0]);
    format!("{} {unit}", two_digits(ns / size))
}

/// A count in at most five characters and a suffix: `9999`, `12.3k`, `4.56M`.
pub fn short_count(count: u64) -> String {
    const STEPS: &[(f64, &str)] = &[(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];
    if count < 10_000 {
        return count.to_string();
    }
    let count = count as f64;
    let &(size, suffix) = STEPS.iter().rev().find(|(size, _)| count >= size * 0.9995).unwrap_or(&STEPS[0]);
    let value = count / size;
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}{suffix}")
}

/// A count to the last digit, in groups of three: `9 980`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A size with its unit: `312 MB`. A megabyte is 2²⁰ bytes.
pub fn short_bytes(bytes: u64) -> String {
    const STEPS: &[(f64, &str)] = &[(1.0, "B"), (1024.0, "KB"), (1_048_576.0, "MB"), (1_073_741_824.0, "GB")];
    let bytes = bytes as f64;
    let &(size, unit) = STEPS.iter().rev().find(|(size, _)| bytes >= size * 0.9995).unwrap_or(&STEPS[0]);
    format!("{} {unit}", two_digits(bytes / size))
}

/// A share in per cent, never rounded up to 100: a single miss must show.
pub fn short_share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    if part >= whole {
        return "100 %".into();
    }
    let percent = part as f64 / whole as f64 * 100.0;
    format!("{:.1} %", (percent * 10.0).floor() / 10.0)
}

/// `1 query`, `2 queries`.
pub fn plural(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

fn two_digits(value: f64) -> String {
    if value >= 9.95 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(text: &str) -> Result<Duration, String> {
        text.parse::<HumaneDuration>().map(|d| d.0).map_err(|e| e.to_string())
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("50ms", 50.0),
            ("50 ms", 50.0),
            (" 20 s ", 20_000.0),
            ("2 min", 120_000.0),
            ("1.5min", 90_000.0),
            ("1h", 3_600_000.0),
            ("250us", 0.25),
            ("250 µs", 0.25),
            ("1 S", 1_000.0),
        ] {
            assert_eq!(duration(text).unwrap().as_secs_f64() * 1e3, ms, "{text}");
        }
    }

    #[test]
    fn durations_that_make_no_sense_say_what_would() {
        let expected = "a number and a unit, as in '50 ms', '20 s' or '2 min'";
        assert_eq!(duration("20").unwrap_err(), format!("'20' has no unit: it should be {expected}"));
        for text in ["", "ms", "ten s", "5 parsecs", "-5 s", "1.2.3 s", "∞ s"] {
            assert_eq!(duration(text).unwrap_err(), format!("'{text}' should be {expected}"));
        }
        assert_eq!(duration("0 ms").unwrap_err(), "'0 ms' is no time at all");
        assert_eq!(
            duration("99999999999999999999 h").unwrap_err(),
            "'99999999999999999999 h' is longer than any run"
        );
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let bytes = |text: &str| text.parse::<HumaneBytes>().map(|b| b.0).map_err(|e| e.to_string());
        assert_eq!(bytes("2gb"), Ok(2 << 30));
        assert_eq!(bytes("512 MB"), Ok(512 << 20));
        assert_eq!(bytes("1.5 kb"), Ok(1536));
        assert_eq!(bytes("64 MiB"), Ok(64 << 20));
        assert_eq!(bytes("0 gb").unwrap_err(), "'0 gb' is no memory at all");
        assert_eq!(
            bytes("12").unwrap_err(),
            "'12' has no unit: it should be a number and a unit, as in '512 mb' or '2 gb'"
        );
    }

    #[test]
    fn factors_are_read_as_people_write_them() {
        let factor = |text: &str| text.parse::<Factor>().map(|factor| factor.0).ok();
        assert_eq!([factor("2x"), factor(" 0.5 x"), factor("3")], [Some(2.0), Some(0.5), Some(3.0)]);
        assert_eq!([factor("0x"), factor("-1x"), factor("x"), factor("many"), factor("infx")], [None; 5]);
    }

    #[test]
    fn durations_are_shown_short() {
        for (ns, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (999_600, "1 ms"),
            (3_140_000, "3.1 ms"),
            (9_960_000, "10 ms"),
            (49_900_000, "50 ms"),
            (50_000_000, "50 ms"),
            (1_000_000_000, "1 s"),
            (59_000_000_000, "59 s"),
            (150_000_000_000, "2.5 min"),
            (7_200_000_000_000, "2 h"),
        ] {
            assert_eq!(short_duration(ns), text, "{ns}");
        }
    }

    #[test]
    fn counts_and_sizes_are_shown_short() {
        assert_eq!(short_count(9_999), "9999");
        assert_eq!(short_count(10_000), "10.0k");
        assert_eq!(short_count(999_600), "1.00M");
        assert_eq!(short_count(4_560_000), "4.56M");
        assert_eq!(short_count(123_456_789), "123M");
        assert_eq!(
            [7, 999, 1_000, 9_980, 1_234_567].map(grouped),
            ["7", "999", "1 000", "9 980", "1 234 567"]
        );
        assert_eq!(short_bytes(500), "500 B");
        assert_eq!(short_bytes(312 << 20), "312 MB");
        assert_eq!(short_bytes(3 << 29), "1.5 GB");
    }

    #[test]
    fn plurals() {
        let shown = [plural(1, "query"), plural(2, "query"), plural(0, "worker")];
        assert_eq!(shown, ["1 query", "2 queries", "0 workers"]);
    }

    #[test]
    fn a_share_reaches_100_only_when_whole() {
        assert_eq!(short_share(0, 0), "-");
        assert_eq!(short_share(99_999, 100_000), "99.9 %");
        assert_eq!(short_share(100, 100), "100 %");
        assert_eq!(short_share(1, 3), "33.3 %");
        assert_eq!(short_share(0, 3), "0.0 %");
    }
}
