//! Records that come one by one, such as the messages of a queue, and not as the lines of a file.

mod fields;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;

pub(crate) use self::fields::FieldDecoder;
pub use self::fields::FieldWay;

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

/// Schemas that lie outside, with a registry, under numbers that stand before each record. Whoever brings records has
/// those learnt that they need before they are decoded; whoever takes records away puts the header before them.
pub trait RecordSchemas: Send + Sync + Debug {
    /// Who is asked, as it may be shown: "the schema registry at http://localhost:8081".
    fn service(&self) -> String;

    /// The number of the schema that a record needs; `None` if it has none, and is bad.
    fn number(&self, record: &[u8]) -> Option<u32>;

    /// Makes sure that records of this number can be decoded, or are told to be bad. May block for seconds.
    ///
    /// # Errors
    /// If nobody can be asked, or the schema does not fit the columns.
    fn learn(&self, number: u32) -> Result<(), SchemaFault>;

    /// What is to stand before each record that an encoder of the format makes. May block for seconds.
    ///
    /// # Errors
    /// If nobody can be asked, or the schema is not taken.
    fn header(&self) -> Result<Vec<u8>, SchemaFault>;
}

/// Why a schema cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaFault {
    /// It is to be asked again later: nobody answers, or not now.
    Again(String),
    /// Asking again does not help.
    End(String),
}

/// Makes records of rows.
pub trait RecordEncoder: Send {
    /// Appends a record for each row.
    ///
    /// # Errors
    /// When the format cannot hold a value; the message says why. What was appended is then worth nothing.
    fn encode(&mut self, rows: &RecordBatch, records: &mut Records) -> Result<(), String>;
}

/// Rows of the records at these places, by something that decodes all of a part or tells which one of it is bad, as its
/// place in the part: a bad record costs itself alone. `good` gets the places of the others.
pub(crate) fn around_faults(
    schema: &SchemaRef,
    places: &[usize],
    bad: &mut Vec<BadRecord>,
    good: &mut Vec<usize>,
    mut decode: impl FnMut(&[usize]) -> Result<RecordBatch, (usize, String)>,
) -> RecordBatch {
    // Parts that are still to be decoded, the first one last. What was decoded before a fault is decoded once more.
    let mut parts: Vec<Range<usize>> = std::iter::once(0..places.len()).collect();
    let mut decoded = Vec::new();
    while let Some(part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        match decode(&places[part.clone()]) {
            Ok(rows) => {
                good.extend_from_slice(&places[part]);
                decoded.push(rows);
            }
            Err((at, reason)) => {
                let at = part.start + at;
                // A fault that shows when all are decoded says nothing of which: they are looked at one by one.
                if at == part.start && part.len() > 1 {
                    parts.push(at + 1..part.end);
                    parts.push(at..at + 1);
                    continue;
                }
                bad.push(BadRecord { index: places[at], reason });
                parts.push(at + 1..part.end);
                parts.push(part.start..at);
            }
        }
    }
    match decoded.len() {
        0 => RecordBatch::new_empty(Arc::clone(schema)),
        1 => decoded.remove(0),
        _ => concat_batches(schema, &decoded).expect("parts are of one schema"),
    }
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
