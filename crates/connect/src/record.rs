//! Records that come one by one, such as the messages of a queue, and not as the lines of a file.

use std::ops::Range;

use arrow::array::RecordBatch;

/// Records decoded at a time, at most: some quarter of a millisecond of JSON.
pub const RECORDS_MAX: usize = 512;

/// The bytes of some records, behind one another.
#[derive(Clone, Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
    /// Records that are there and have no bytes, not even none: ascending.
    nulls: Vec<usize>,
}

/// A record that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Its place among the records.
    pub index: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Makes rows of records.
pub trait RecordDecoder: Send {
    /// Decodes these records, at most [`RECORDS_MAX`]: a row for each that is not bad, in their order. `bad` gets the
    /// others, ascending. A record without bytes is bad unless the format says what it is.
    fn decode(&mut self, records: &Records, range: Range<usize>, bad: &mut Vec<BadRecord>) -> RecordBatch;

    /// True if the format makes a row of a record without bytes.
    fn takes_null(&self) -> bool {
        false
    }
}

/// Makes records of rows.
pub trait RecordEncoder: Send {
    /// Appends a record for each row.
    ///
    /// # Errors
    /// When the format cannot hold a value; the message says why. What was appended is then worth nothing.
    fn encode(&mut self, rows: &RecordBatch, records: &mut Records) -> Result<(), String>;
}

impl Records {
    /// Adds a record.
    pub fn push(&mut self, record: Option<&[u8]>) {
        match record {
            Some(bytes) => self.bytes.extend_from_slice(bytes),
            None => self.nulls.push(self.ends.len()),
        }
        self.ends.push(self.bytes.len());
    }

    /// Adds those of another.
    pub fn append(&mut self, other: &Records) {
        let (bytes, records) = (self.bytes.len(), self.ends.len());
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| bytes + end));
        self.nulls.extend(other.nulls.iter().map(|index| records + index));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes that it takes.
    pub fn held_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()) as u64
    }

    /// Bytes of the records.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.nulls.clear();
    }

    /// A record; empty where it has no bytes.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index]]
    }

    /// The record, or `None` where it has no bytes.
    pub fn get_opt(&self, index: usize) -> Option<&[u8]> {
        (!self.is_null(index)).then(|| self.get(index))
    }

    /// True if the record has no bytes, not even none.
    pub fn is_null(&self, index: usize) -> bool {
        self.nulls.binary_search(&index).is_ok()
    }

    /// All bytes: records are slices of it.
    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    pub(crate) fn end(&self, index: usize) -> usize {
        self.ends[index]
    }

    /// Where each record ends.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends
    }
}

#[cfg(test)]
mod tests;
