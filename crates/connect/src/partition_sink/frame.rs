//! `u32` length of the file's name, the name, a byte that is 1 if the file is complete with this, `u64` length of the bytes,
//! the bytes; little-endian.

/// A frame whose bytes are being appended.
pub(super) struct Frame {
    start: usize,
    bytes: usize,
}

/// Bytes for the end of a file.
pub(super) struct Piece<'a> {
    pub file: &'a str,
    pub bytes: &'a [u8],
    /// Nothing follows.
    pub is_last: bool,
}

impl Frame {
    /// Begins one; what is appended until its end are its bytes.
    pub(super) fn begin(file: &str, out: &mut Vec<u8>) -> Frame {
        let start = out.len();
        out.extend_from_slice(&(file.len() as u32).to_le_bytes());
        out.extend_from_slice(file.as_bytes());
        out.extend_from_slice(&[0; 9]);
        Frame { start, bytes: out.len() }
    }

    /// One without bytes, which is not the last, is taken back.
    pub(super) fn end(self, is_last: bool, out: &mut Vec<u8>) {
        if out.len() == self.bytes && !is_last {
            out.truncate(self.start);
            return;
        }
        let length = (out.len() - self.bytes) as u64;
        out[self.bytes - 9] = u8::from(is_last);
        out[self.bytes - 8..self.bytes].copy_from_slice(&length.to_le_bytes());
    }
}

/// The next piece, and what is behind. `None` at the end.
pub(super) fn next(frames: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    let (length, rest) = frames.split_first_chunk::<4>()?;
    let (file, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (is_last, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (bytes, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    Some((Piece { file: std::str::from_utf8(file).ok()?, bytes, is_last: *is_last == 1 }, rest))
}
