use std::time::Duration;

/// Longer than any target, and short enough for all arithmetic: 30 years.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// `50 ms`, `1.5s`, `2 min`: a number and a unit, more than nothing.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let duration = laxity_text::parse_duration(text).map_err(|_| {
        format!("{text:?} is no duration; expected a number and us, ms, s, min, h or d, as in 50 ms")
    })?;
    if duration.is_zero() || duration >= LONGEST {
        return Err(format!("{text:?} is no duration to work with; expected more than 0"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("50 ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration(" 2 min "), Ok(Duration::from_secs(120)));
        for (text, what) in [
            ("50", "is no duration; expected a number and"),
            ("ms", "is no duration; expected a number and"),
            ("-1 s", "is no duration; expected a number and"),
            ("0 s", "is no duration to work with"),
            ("100 years", "is no duration; expected a number and"),
            ("100000 d", "is no duration to work with"),
        ] {
            let said = duration(text).unwrap_err();
            assert!(said.starts_with(&format!("{text:?} {what}")), "{said}");
        }
    }
}
