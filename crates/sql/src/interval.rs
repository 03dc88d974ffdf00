use datafusion_sql::sqlparser::ast::DateTimeField;

/// Reads an interval of several fields, such as `1 02:03:04.5` for `DAY TO SECOND`, as a number of one unit:
/// `YEAR TO MONTH` in months, all others in seconds. `None` if it is not of that shape.
pub(crate) fn parse(written: &str, shape: &str) -> Option<(String, DateTimeField)> {
    let (sign, unsigned) = match written.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", written.strip_prefix('+').unwrap_or(written)),
    };
    let number = |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
    if shape == "YEAR TO MONTH" {
        let (years, months) = unsigned.split_once('-')?;
        let months = number(years)?.checked_mul(12)?.checked_add(number(months).filter(|m| *m < 12)?)?;
        return Some((format!("{sign}{months}"), DateTimeField::Month));
    }
    let (first, last) = shape.split_once(" TO ")?;
    const FIELDS: [(&str, i64, i64); 4] =
        [("DAY", 86_400, i64::MAX), ("HOUR", 3_600, 24), ("MINUTE", 60, 60), ("SECOND", 1, 60)];
    let position = |name: &str| FIELDS.iter().position(|(field, ..)| *field == name);
    let (from, to) = (position(first)?, position(last)?);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) if last == "SECOND" => (whole, Some(fraction)),
        Some(_) => return None,
        None => (unsigned, None),
    };
    let mut parts: Vec<&str> = Vec::new();
    let rest = match whole.split_once(' ') {
        Some((days, rest)) if from == 0 => {
            parts.push(days);
            rest
        }
        _ => whole,
    };
    parts.extend(rest.split(':'));
    if from >= to || parts.len() != to - from + 1 {
        return None;
    }
    let mut seconds = 0_i64;
    for (index, (part, (_, unit, most))) in parts.iter().zip(&FIELDS[from..]).enumerate() {
        // Only the first field may be larger than what the next unit holds.
        let value = number(part).filter(|value| index == 0 || value < most)?;
        seconds = seconds.checked_add(value.checked_mul(*unit)?)?;
    }
    let fraction = match fraction {
        Some(digits) if (1..=9).contains(&digits.len()) && number(digits).is_some() => format!(".{digits}"),
        Some(_) => return None,
        None => String::new(),
    };
    Some((format!("{sign}{seconds}{fraction}"), DateTimeField::Second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_fields_become_one() {
        let seconds = |written: &str, shape: &str| parse(written, shape).map(|(value, _)| value);
        assert_eq!(seconds("1 02:03:04", "DAY TO SECOND").as_deref(), Some("93784"));
        assert_eq!(seconds("-1 02:03:04.5", "DAY TO SECOND").as_deref(), Some("-93784.5"));
        assert_eq!(seconds("10 5", "DAY TO HOUR").as_deref(), Some("882000"));
        assert_eq!(seconds("90:30", "MINUTE TO SECOND").as_deref(), Some("5430"));
        assert_eq!(parse("2-3", "YEAR TO MONTH"), Some(("27".into(), DateTimeField::Month)));
        for (bad, shape) in [
            ("1 02:03", "DAY TO SECOND"),
            ("1 24:00:00", "DAY TO SECOND"),
            ("2-12", "YEAR TO MONTH"),
            ("x", "HOUR TO MINUTE"),
            ("1:2.5", "HOUR TO MINUTE"),
            ("1:2", "MINUTE TO HOUR"),
            ("", "DAY TO HOUR"),
        ] {
            assert_eq!(parse(bad, shape), None, "{bad} {shape}");
        }
    }
}
