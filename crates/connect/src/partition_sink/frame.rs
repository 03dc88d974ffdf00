//! `u32` length of the file's name, the name, `u64` length of the bytes, the bytes; little-endian.

/// A frame whose bytes are being appended.
pub(super) struct Frame {
    start: usize,
    bytes: usize,
}

impl Frame {
    /// Begins one; what is appended until its end are its bytes.
    pub(super) fn begin(file: &str, out: &mut Vec<u8>) -> Frame {
        let start = out.len();
        out.extend_from_slice(&(file.len() as u32).to_le_bytes());
        out.extend_from_slice(file.as_bytes());
        out.extend_from_slice(&[0; 8]);
        Frame { start, bytes: out.len() }
    }

    /// One without bytes is taken back.
    pub(super) fn end(self, out: &mut Vec<u8>) {
        if out.len() == self.bytes {
            out.truncate(self.start);
            return;
        }
        let length = (out.len() - self.bytes) as u64;
        out[self.bytes - 8..self.bytes].copy_from_slice(&length.to_le_bytes());
    }
}

/// The next file and its bytes, and what is behind. `None` at the end.
pub(super) fn next(frames: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (length, rest) = frames.split_first_chunk::<4>()?;
    let (file, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (bytes, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    Some((std::str::from_utf8(file).ok()?, bytes, rest))
}
