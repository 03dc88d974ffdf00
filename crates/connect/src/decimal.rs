/// Reads a DECIMAL(`precision`, `scale`), rounded half up, as its unscaled value. `Some(None)`: a number that does not
/// fit, which is NULL in Flink. `None`: not a number.
pub(crate) fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Option<Option<i128>> {
    let text = text.trim_ascii();
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (mantissa, exponent) = match memchr::memchr2(b'e', b'E', unsigned) {
        None => (unsigned, 0),
        Some(at) => {
            let exponent = std::str::from_utf8(&unsigned[at + 1..]).ok()?.parse::<i32>().ok()?;
            (&unsigned[..at], i64::from(exponent))
        }
    };
    let point = memchr::memchr(b'.', mantissa).unwrap_or(mantissa.len());
    let digits = mantissa.iter().filter(|byte| **byte != b'.');
    let count = mantissa.len() - usize::from(point < mantissa.len());
    let points = mantissa.iter().filter(|byte| **byte == b'.').count();
    if count == 0 || points > 1 || !digits.clone().all(u8::is_ascii_digit) {
        return None;
    }
    // Digits up to the last one that the type keeps; the next one rounds.
    let kept = point as i64 + exponent + i64::from(scale);
    let mut value: i128 = 0;
    for digit in digits.clone().take(usize::try_from(kept).unwrap_or(0)) {
        let next = value.checked_mul(10).and_then(|value| value.checked_add(i128::from(digit - b'0')));
        let Some(next) = next else { return Some(None) };
        value = next;
    }
    for _ in count as i64..kept {
        let Some(next) = value.checked_mul(10) else { return Some(None) };
        value = next;
        if value == 0 {
            break;
        }
    }
    let next = usize::try_from(kept).ok().and_then(|kept| digits.clone().nth(kept));
    value += i128::from(next.is_some_and(|digit| *digit >= b'5'));
    let fits = value < 10_i128.checked_pow(precision.into()).unwrap_or(i128::MAX);
    Some(fits.then_some(if negative { -value } else { value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_half_up_or_null() {
        for (text, expected) in [
            ("1.005", Some(Some(101))),
            ("-0.005", Some(Some(-1))),
            ("-0.0049", Some(Some(0))),
            (" 12 ", Some(Some(1_200))),
            ("+1e2", Some(Some(10_000))),
            ("12345e-5", Some(Some(12))),
            ("999.994", Some(Some(99_999))),
            ("999.995", Some(None)),
            ("1e3", Some(None)),
            ("1e400", Some(None)),
            ("0e400", Some(Some(0))),
            (".5", Some(Some(50))),
            ("5.", Some(Some(500))),
            ("", None),
            (".", None),
            ("1.2.3", None),
            ("1e", None),
            ("x", None),
            ("--1", None),
        ] {
            assert_eq!(parse_decimal(text.as_bytes(), 5, 2), expected, "{text:?}");
        }
        let most = "99999999999999999999999999999999999999";
        assert_eq!(parse_decimal(most.as_bytes(), 38, 0), Some(Some(10_i128.pow(38) - 1)));
        assert_eq!(parse_decimal(format!("{most}9").as_bytes(), 38, 0), Some(None));
    }
}
