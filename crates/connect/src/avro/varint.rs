//! Avro's whole numbers: zigzag, seven bits a byte, the lowest first.

use std::io::{self, ErrorKind, Read};

/// # Errors
/// If the input ends, or fails, or has no end of the number within ten bytes.
pub(super) fn read_long(input: &mut impl Read) -> io::Result<i64> {
    let (mut value, mut byte) = (0_u64, [0]);
    for shift in (0..70).step_by(7) {
        input.read_exact(&mut byte)?;
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(io::Error::new(ErrorKind::InvalidData, "a number has more than ten bytes"))
}

pub(super) fn write_long(number: i64, out: &mut Vec<u8>) {
    let mut value = ((number << 1) ^ (number >> 63)) as u64;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let mut written = Vec::new();
        let numbers = [0, -1, 1, 63, -64, 64, 8_191, -8_193, i64::MAX, i64::MIN];
        numbers.iter().for_each(|number| write_long(*number, &mut written));
        // The examples of Avro's specification.
        assert_eq!(written[..7], [0, 1, 2, 0x7e, 0x7f, 0x80, 0x01]);
        let mut rest = &written[..];
        for number in numbers {
            assert_eq!(read_long(&mut rest).unwrap(), number);
        }
        assert_eq!(read_long(&mut rest).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read_long(&mut &[0xff; 11][..]).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
