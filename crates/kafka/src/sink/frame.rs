//! A record between the encoder and the output: numbers little-endian, bytes behind their length.

/// A record that is to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
    pub headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

/// Stands for bytes that are not there, and for a time that is not given.
const NONE: u32 = u32::MAX;

impl<'a> Frame<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self.key, out);
        put_bytes(self.value, out);
        out.extend_from_slice(&self.timestamp_ms.unwrap_or(i64::MIN).to_le_bytes());
        out.extend_from_slice(&(self.headers.len() as u32).to_le_bytes());
        for (name, value) in &self.headers {
            put_bytes(Some(name.as_bytes()), out);
            put_bytes(*value, out);
        }
    }

    /// Takes a frame off the front; `None` where nothing is left.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
        if bytes.is_empty() {
            return None;
        }
        let (key, value) = (take_bytes(bytes), take_bytes(bytes));
        let timestamp_ms = Some(i64::from_le_bytes(take_array(bytes))).filter(|ms| *ms != i64::MIN);
        let count = u32::from_le_bytes(take_array(bytes));
        let headers = (0..count).map(|_| {
            let name = std::str::from_utf8(take_bytes(bytes).unwrap_or_default()).expect("put as text");
            (name, take_bytes(bytes))
        });
        let headers = headers.collect();
        Some(Frame { key, value, timestamp_ms, headers })
    }
}

fn put_bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    // A record of four gigabytes is far beyond what a broker takes, and Arrow holds no longer text.
    out.extend_from_slice(&bytes.map_or(NONE, |bytes| bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(take_array(bytes));
    if length == NONE {
        return None;
    }
    let (taken, rest) = bytes.split_at(length as usize);
    *bytes = rest;
    Some(taken)
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes.split_first_chunk().expect("frames are whole");
    *bytes = rest;
    *taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_as_they_were_put() {
        let frames = [
            Frame { value: Some(b"v"), ..Frame::default() },
            Frame { key: Some(b""), value: None, timestamp_ms: Some(-1), headers: vec![] },
            Frame {
                key: Some(b"k"),
                value: Some(b"value"),
                timestamp_ms: Some(7),
                headers: vec![("a", Some(b"1")), ("a", None)],
            },
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.put(&mut bytes));
        let mut rest = bytes.as_slice();
        let taken: Vec<Frame<'_>> = std::iter::from_fn(|| Frame::take(&mut rest)).collect();
        assert_eq!(taken, frames);
    }
}
