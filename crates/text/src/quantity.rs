//! A decimal number and a unit, taken apart and multiplied to the last digit.

/// What keeps a text from being a duration or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not begin with a number, or that has two points.
    #[error("expected a number and a unit")]
    NoNumber,
    /// A number alone, where it could mean anything.
    #[error("expected a unit behind the number")]
    NoUnit,
    /// What stands behind the number is no unit.
    #[error("unknown unit")]
    UnknownUnit,
    /// A fraction, where Flink takes none.
    #[error("expected a whole number of a unit")]
    NotWhole,
    /// Beyond 2⁶⁴ − 1 nanoseconds, which are 584 years, or as many bytes.
    #[error("too large")]
    TooLarge,
}

/// A text as `1.5 min`, in two.
pub(crate) struct Quantity<'a> {
    /// Digits, with at most one point.
    pub number: &'a str,
    /// In lower case, without blanks around; may be empty.
    pub unit: String,
}

/// The names of a unit, and how many of the least it is.
pub(crate) type Unit = (&'static [&'static str], u64);

/// Digits behind the point that are looked at. Any more would not fit the arithmetic, and change nothing.
const FRACTION_DIGITS_MAX: usize = 20;

impl<'a> Quantity<'a> {
    pub fn split(text: &'a str) -> Result<Quantity<'a>, QuantityError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let is_number = number.contains(|c: char| c.is_ascii_digit()) && number.matches('.').count() <= 1;
        if is_number {
            Ok(Quantity { number, unit: unit.trim_start().to_lowercase() })
        } else {
            Err(QuantityError::NoNumber)
        }
    }

    /// How many of the least unit one of this is.
    pub fn unit_size(&self, units: &[Unit]) -> Result<u64, QuantityError> {
        if self.unit.is_empty() {
            return Err(QuantityError::NoUnit);
        }
        let unit = units.iter().find(|(names, _)| names.contains(&self.unit.as_str()));
        unit.map(|(_, size)| *size).ok_or(QuantityError::UnknownUnit)
    }

    /// The number times the size, to the nearest whole number.
    pub fn times(&self, size: u64) -> Result<u64, QuantityError> {
        let (whole, fraction) = self.number.split_once('.').unwrap_or((self.number, ""));
        let whole = digits(whole).ok_or(QuantityError::TooLarge)?;
        let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
        // 10²⁰ times the largest unit, a day of 8.64 · 10¹³ ns, is far below 2¹²⁸.
        let scale = 10_u128.pow(fraction.len() as u32);
        let part = digits(fraction).ok_or(QuantityError::TooLarge)? * u128::from(size);
        let product = whole.checked_mul(size.into()).ok_or(QuantityError::TooLarge)?;
        let sum = product.checked_add((part + scale / 2) / scale).ok_or(QuantityError::TooLarge)?;
        u64::try_from(sum).map_err(|_| QuantityError::TooLarge)
    }

    /// The same of a number without a point.
    pub fn whole_times(&self, size: u64) -> Result<u64, QuantityError> {
        if self.number.contains('.') { Err(QuantityError::NotWhole) } else { self.times(size) }
    }
}

/// No digits are 0. `None` if they are too many.
fn digits(text: &str) -> Option<u128> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}
