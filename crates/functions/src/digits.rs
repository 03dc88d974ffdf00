//! Rounding of numbers by the digits that they are written with, as Java does it; binary arithmetic would round some
//! halves the other way.

/// A decimal number of any length: `±0.d1d2d3… · 10^point`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digits {
    negative: bool,
    /// 0 to 9, most significant first, without leading zeros.
    digits: Vec<u8>,
    point: i64,
}

impl Digits {
    /// The shortest digits that make this number, as Java's `BigDecimal.valueOf`. Must be finite.
    pub fn of(value: f64) -> Digits {
        Digits::parse(&format!("{value:e}")).expect("a finite number is written with digits")
    }

    /// As Java's `new BigDecimal(text)`.
    pub fn parse(text: &str) -> Option<Digits> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let magnitude = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if magnitude.is_empty() || !magnitude.bytes().all(|c| c.is_ascii_digit()) {
                    return None;
                }
                // Java's exponents are INTs.
                (mantissa, i64::from(exponent.parse::<i32>().ok()?))
            }
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let written = || whole.bytes().chain(fraction.bytes());
        if whole.len() + fraction.len() == 0 || !written().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let leading = written().take_while(|digit| *digit == b'0').count();
        let digits = written().skip(leading).map(|digit| digit - b'0').collect();
        Some(Digits { negative, digits, point: whole.len() as i64 - leading as i64 + exponent })
    }

    /// Rounded half up to so many places behind the point (before it, if negative).
    pub fn round(&mut self, places: i64) {
        let kept = self.point.saturating_add(places);
        if kept >= self.digits.len() as i64 {
            return;
        }
        if kept < 0 {
            self.digits.clear();
            return;
        }
        let up = self.digits[kept as usize] >= 5;
        self.digits.truncate(kept as usize);
        if up {
            while self.digits.last() == Some(&9) {
                self.digits.pop();
            }
            match self.digits.last_mut() {
                Some(last) => *last += 1,
                None => {
                    self.digits.push(1);
                    self.point += 1;
                }
            }
        }
    }

    /// Without the digits behind so many places after the point (before it, if negative).
    pub fn cut(&mut self, places: i64) {
        self.digits.truncate(self.point.saturating_add(places).max(0) as usize);
    }

    /// The nearest DOUBLE. Zero has no sign.
    pub fn to_float(&self) -> f64 {
        if self.digits.is_empty() {
            return 0.0;
        }
        let mut text = String::from(if self.negative { "-0." } else { "0." });
        text.extend(self.digits.iter().map(|digit| char::from(b'0' + digit)));
        text.push_str(&format!("0e{}", self.point));
        text.parse().unwrap_or(f64::NAN)
    }

    /// The unscaled value of a DECIMAL. `None` if it has more digits than fit.
    pub fn into_decimal(mut self, precision: u8, scale: i8) -> Option<i128> {
        self.round(scale.into());
        let wanted = if self.digits.is_empty() { 0 } else { self.point + i64::from(scale) };
        if wanted > i64::from(precision) {
            return None;
        }
        let digits = self.digits.iter().copied().chain(std::iter::repeat(0)).take(wanted.max(0) as usize);
        let value = digits.fold(0_i128, |value, digit| value * 10 + i128::from(digit));
        Some(if self.negative { -value } else { value })
    }
}

/// `value · 10^places` rounded half up, where plain arithmetic is certain to give what the digits would: far
/// enough from a half for its error not to matter, and small enough to be exact.
pub(crate) fn scaled(value: f64, places: i32) -> Option<f64> {
    if !(-15..=15).contains(&places) {
        return None;
    }
    let power = 10_f64.powi(places.abs());
    let scaled = if places < 0 { value / power } else { value * power };
    let from_half = ((scaled - scaled.trunc()).abs() - 0.5).abs();
    let is_certain = scaled.abs() < 1e15 && from_half > scaled.abs() * 4.0 * f64::EPSILON;
    is_certain.then(|| scaled.round())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(text: &str, places: i64) -> f64 {
        let mut digits = Digits::parse(text).unwrap();
        digits.round(places);
        digits.to_float()
    }

    #[test]
    fn digits_are_rounded_half_up() {
        assert_eq!(rounded("1.005", 2), 1.01);
        assert_eq!(rounded("-1.005", 2), -1.01);
        assert_eq!(rounded("999.95", 1), 1000.0);
        assert_eq!(rounded("0.05", 1), 0.1);
        assert_eq!(rounded("0.04", 1), 0.0);
        assert_eq!(rounded("0.5", 0), 1.0);
        assert_eq!(rounded("0.95", 0), 1.0);
        assert_eq!(rounded("4.9", -1), 0.0);
        assert_eq!(rounded("5", -1), 10.0);
        assert_eq!(rounded("45", -1), 50.0);
        assert_eq!(rounded("1e300", 2), 1e300);
        assert_eq!(rounded("1e-300", 2), 0.0);
    }

    #[test]
    fn decimals_fit_or_are_null() {
        let decimal =
            |text: &str, precision, scale| Digits::parse(text).unwrap().into_decimal(precision, scale);
        assert_eq!(decimal("1e3", 10, 2), Some(100_000));
        assert_eq!(decimal("99.995", 4, 2), None);
        assert_eq!(decimal("99.994", 4, 2), Some(9_999));
        assert_eq!(decimal("-0.005", 4, 2), Some(-1));
        assert_eq!(decimal("000.10", 4, 2), Some(10));
        assert_eq!(decimal("0e99", 4, 2), Some(0));
        assert_eq!(decimal("1e38", 38, 0), None);
        assert_eq!(decimal(&"9".repeat(38), 38, 0), Some(10_i128.pow(38) - 1));
        for bad in ["", "-", ".", "e5", "1e", "1 ", "0x1", "1.2.3", "NaN"] {
            assert_eq!(Digits::parse(bad), None, "{bad:?}");
        }
    }

    /// The short way must never differ from the digits.
    #[test]
    fn scaled_agrees_with_the_digits() {
        let mut state = 7_u64;
        let mut certain = 0;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = (state >> 20) as f64 / f64::from(1_u32 << (state % 20) as u32) / 1000.0;
            let places = (state >> 33) as i32 % 6;
            if let Some(scaled) = scaled(value, places) {
                certain += 1;
                assert_eq!(
                    Some(scaled as i128),
                    Digits::of(value).into_decimal(38, places as i8),
                    "{value} {places}"
                );
            }
        }
        assert!(certain > 10_000);
    }
}
