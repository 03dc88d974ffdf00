use std::time::Duration;

/// `50 ms`, `1.5s`, `2 min`: a number and a unit, as in the SQL settings.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3_600.0,
        _ => {
            return Err(format!(
                "{text:?} is no duration; expected a number and us, ms, s, min or h, as in 50 ms"
            ));
        }
    };
    let seconds =
        number.parse::<f64>().map_err(|_| format!("{text:?} is no duration; expected as in 50 ms"))? * unit_s;
    if !(seconds > 0.0 && seconds < 1e9) {
        return Err(format!("{text:?} is no duration to work with; expected more than 0"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("50 ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration(" 2 min "), Ok(Duration::from_secs(120)));
        for text in ["50", "ms", "0 s", "-1 s", "1 day", "1.2.3 s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
