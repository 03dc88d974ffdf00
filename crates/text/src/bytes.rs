use crate::quantity::{Quantity, QuantityError, Unit};

/// Those of Flink's `MemorySize`, and the short binary ones. All are binary, as there.
const UNITS: [Unit; 5] = [
    (&["b", "bytes"], 1),
    (&["k", "kb", "kib", "kibibytes"], 1 << 10),
    (&["m", "mb", "mib", "mebibytes"], 1 << 20),
    (&["g", "gb", "gib", "gibibytes"], 1 << 30),
    (&["t", "tb", "tib", "tebibytes"], 1 << 40),
];

/// The bytes of `512 mb`, `1.5GB`: a number and a unit. A kilobyte is 1 024 bytes.
///
/// # Errors
/// If it is no such text.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let quantity = Quantity::split(text)?;
    quantity.times(quantity.unit_size(&UNITS)?)
}

/// The same as Flink takes it in options and settings: a whole number, and bytes if it has no unit.
///
/// # Errors
/// If it is no such text.
pub fn parse_flink_bytes(text: &str) -> Result<u64, QuantityError> {
    let quantity = Quantity::split(text)?;
    let size = if quantity.unit.is_empty() { 1 } else { quantity.unit_size(&UNITS)? };
    quantity.whole_times(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [
            ("2gb", 2 << 30),
            ("512 MB", 512 << 20),
            ("1.5 kb", 1536),
            ("64 MiB", 64 << 20),
            (" 3 tebibytes ", 3 << 40),
            ("0 b", 0),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_bytes("12"), Err(QuantityError::NoUnit));
        assert_eq!(parse_bytes("1 zb"), Err(QuantityError::UnknownUnit));
        assert_eq!(parse_bytes("-1 b"), Err(QuantityError::NoNumber));
        assert_eq!(parse_bytes("99999999 tb"), Err(QuantityError::TooLarge));
    }

    #[test]
    fn flinks_need_no_unit_and_have_no_fraction() {
        assert_eq!(parse_flink_bytes("12"), Ok(12));
        assert_eq!(parse_flink_bytes("256 mb"), Ok(256 << 20));
        assert_eq!(parse_flink_bytes("4 kibibytes"), Ok(4_096));
        assert_eq!(parse_flink_bytes("1.5 kb"), Err(QuantityError::NotWhole));
        assert_eq!(parse_flink_bytes("kb"), Err(QuantityError::NoNumber));
    }
}
