//! Durations: read in any unit that Flink knows, shown in the largest that leaves no fraction.

use std::time::Duration;

use crate::quantity::{Quantity, QuantityError, Unit};

/// Flink's names (`TimeUtils`) and what people write besides: `secs`, `us`, and a Greek μ for the sign µ. The first is
/// the one that is shown; sizes are nanoseconds.
const UNITS: [Unit; 7] = [
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["min", "m", "minute", "minutes"], 60_000_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["ms", "milli", "millis", "millisecond", "milliseconds"], NS_PER_MS),
    (&["us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"], 1_000),
    (&["ns", "nano", "nanos", "nanosecond", "nanoseconds"], 1),
];

const NS_PER_MS: u64 = 1_000_000;

/// `50 ms`, `1.5min`, `2 hours`: a number and a unit, to the nearest nanosecond. May be zero.
///
/// # Errors
/// If it is no such text.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let quantity = Quantity::split(text)?;
    quantity.times(quantity.unit_size(&UNITS)?).map(Duration::from_nanos)
}

/// Nanoseconds in the same grammar, for those who reckon with parts of one. Not negative, and may be beyond any
/// [`Duration`].
///
/// # Errors
/// If it is no such text.
pub fn parse_ns(text: &str) -> Result<f64, QuantityError> {
    let quantity = Quantity::split(text)?;
    let size_ns = quantity.unit_size(&UNITS)?;
    let number: f64 = quantity.number.parse().map_err(|_| QuantityError::NoNumber)?;
    Ok(number * size_ns as f64)
}

/// A duration as Flink takes it in options and settings: a whole number and a unit, milliseconds if there is none;
/// also ISO 8601's `PT1.5S`.
///
/// # Errors
/// If it is no such text; [`QuantityError::NotWhole`] for what [`parse_duration`] would read.
pub fn parse_flink_duration(text: &str) -> Result<Duration, QuantityError> {
    let text = text.trim();
    if let Some(time) = text.strip_prefix("PT").or_else(|| text.strip_prefix("pt")) {
        return parse_iso_time(time).ok_or(QuantityError::NoNumber);
    }
    let quantity = Quantity::split(text)?;
    let size_ns = if quantity.unit.is_empty() { NS_PER_MS } else { quantity.unit_size(&UNITS)? };
    quantity.whole_times(size_ns).map(Duration::from_nanos)
}

/// What stands behind `PT`: hours, minutes and seconds.
fn parse_iso_time(text: &str) -> Option<Duration> {
    let mut total_s = 0.0;
    let mut number = String::new();
    for c in text.chars() {
        let unit_s = match c.to_ascii_uppercase() {
            'H' => 3_600.0,
            'M' => 60.0,
            'S' => 1.0,
            _ => {
                number.push(c);
                continue;
            }
        };
        total_s += number.parse::<f64>().ok()? * unit_s;
        number.clear();
    }
    (number.is_empty() && !text.is_empty()).then(|| Duration::try_from_secs_f64(total_s).ok()).flatten()
}

/// In the largest unit that leaves a whole number: `90 s`, `2 min`. All of the texts above read it back.
pub fn duration_text(duration: Duration) -> String {
    let (number, unit) = whole(duration);
    format!("{number} {unit}")
}

/// The same in one word, `90s`, for names.
pub fn duration_word(duration: Duration) -> String {
    let (number, unit) = whole(duration);
    format!("{number}{unit}")
}

fn whole(duration: Duration) -> (u128, &'static str) {
    let ns = duration.as_nanos();
    if ns == 0 {
        return (0, "ms");
    }
    let unit = UNITS.iter().find(|(_, size_ns)| ns.is_multiple_of(u128::from(*size_ns)));
    let (names, size_ns) = unit.expect("every number is a multiple of 1 ns");
    (ns / u128::from(*size_ns), names[0])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NS: u64 = 1;
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    const S: u64 = 1_000_000_000;

    #[test]
    fn every_name_of_a_unit_is_read() {
        for (names, ns) in [
            ("d day days", 86_400 * S),
            ("h hour hours", 3_600 * S),
            ("min m minute minutes", 60 * S),
            ("s sec secs second seconds", S),
            ("ms milli millis millisecond milliseconds", MS),
            ("us µs micro micros microsecond microseconds", US),
            ("ns nano nanos nanosecond nanoseconds", NS),
        ] {
            for name in names.split(' ') {
                let expected = Ok(Duration::from_nanos(3 * ns));
                for text in [format!("3{name}"), format!(" 3  {name} "), format!("3 {}", name.to_uppercase())]
                {
                    assert_eq!(parse_duration(&text), expected, "{text}");
                    assert_eq!(parse_flink_duration(&text), expected, "{text}");
                    assert_eq!(parse_ns(&text), Ok((3 * ns) as f64), "{text}");
                }
            }
        }
    }

    #[test]
    fn decimals_are_read_to_the_nanosecond() {
        for (text, ns) in [
            ("1.5min", 90 * S),
            (".5 s", 500 * MS),
            ("5. s", 5 * S),
            ("0.1 us", 100),
            // .6 of a nanosecond is nearer to 1, .4 to none.
            ("0.6 ns", 1),
            ("0.4 ns", 0),
            // A day in more digits than a float has: 86 400.000000001 s.
            ("1.0000000000000115740740740740740740 d", 86_400 * S + 1),
            // The largest there is, 2⁶⁴ − 1.
            ("18446744073.709551615 s", u64::MAX),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        assert_eq!(parse_ns("0.25 ns"), Ok(0.25));
        assert_eq!(parse_ns("1 ns"), Ok(1.0));
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_reason() {
        for (text, error) in [
            ("", QuantityError::NoNumber),
            ("ms", QuantityError::NoNumber),
            (".", QuantityError::NoNumber),
            (". s", QuantityError::NoNumber),
            ("-5 s", QuantityError::NoNumber),
            ("∞ s", QuantityError::NoNumber),
            ("1.2.3 s", QuantityError::NoNumber),
            ("5", QuantityError::NoUnit),
            ("5 parsecs", QuantityError::UnknownUnit),
            ("5 s s", QuantityError::UnknownUnit),
            ("1e3 s", QuantityError::UnknownUnit),
            ("18446744073.709551616 s", QuantityError::TooLarge),
            ("999999999999999999999999999999999999999999 ns", QuantityError::TooLarge),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
    }

    #[test]
    fn flinks_are_whole_and_milliseconds_without_a_unit() {
        let check = |text: &str, expected: Result<u64, QuantityError>| {
            assert_eq!(parse_flink_duration(text), expected.map(Duration::from_millis), "{text}");
        };
        check("50", Ok(50));
        check("2min", Ok(120_000));
        check("1 H", Ok(3_600_000));
        check("PT1.5S", Ok(1_500));
        check("pt1h2m", Ok(3_720_000));
        check("1.5 s", Err(QuantityError::NotWhole));
        check("1.5 parsecs", Err(QuantityError::UnknownUnit));
        check("-1 s", Err(QuantityError::NoNumber));
        check("PT", Err(QuantityError::NoNumber));
        check("PT1", Err(QuantityError::NoNumber));
        check("99999999999999 d", Err(QuantityError::TooLarge));
    }

    #[test]
    fn durations_are_shown_in_the_largest_unit_without_a_fraction() {
        for (ns, text) in [
            (0, "0 ms"),
            (1, "1 ns"),
            (1_500, "1500 ns"),
            (500 * US, "500 us"),
            (1_500 * MS, "1500 ms"),
            (90 * S, "90 s"),
            (7_200 * S, "2 h"),
            (172_800 * S, "2 d"),
        ] {
            assert_eq!(duration_text(Duration::from_nanos(ns)), text);
            assert_eq!(duration_word(Duration::from_nanos(ns)), text.replace(' ', ""));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(number: u64, zeros in 0_u32..19) {
            let ns = number / 10_u64.pow(zeros) * 10_u64.pow(zeros);
            let duration = Duration::from_nanos(ns);
            for shown in [duration_text(duration), duration_word(duration)] {
                prop_assert_eq!(parse_duration(&shown), Ok(duration));
                prop_assert_eq!(parse_flink_duration(&shown), Ok(duration));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9.]{0,45} ?[a-zµ]{0,3}|\\PC{0,12}") {
            let _ = (parse_flink_duration(&text), parse_ns(&text));
            if let Ok(duration) = parse_duration(&text) {
                prop_assert_eq!(parse_duration(&duration_text(duration)), Ok(duration));
            }
        }
    }
}
