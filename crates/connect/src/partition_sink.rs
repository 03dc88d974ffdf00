//! A `filesystem` sink of many files: one that is PARTITIONED BY columns, with rows of each of their values in a folder of
//! its own, and one whose files are seen when they are complete.
//!
//! Encoding and writing are apart, as in every sink. What goes between them are frames: the file, below the table's
//! folder, and bytes for its end.

mod frame;
mod output;
mod whole;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_arrays;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

use crate::partition::{PartitionColumn, folder_name, text_of};
use crate::{ConnectError, Encoder};
use frame::Frame;
pub(crate) use output::PartitionedOutput;
pub(crate) use whole::{Whole, number_after};

/// Encoders and files that are open at a time. One more closes the one that was not used for longest: a row for it later
/// begins another member of its compressed file, or another Parquet file.
pub(crate) const OPEN_MAX: usize = 128;

/// Makes the encoder of one file; false where the file has its beginning already.
pub(crate) type MakeEncoder =
    Box<dyn FnMut(SchemaRef, bool, PathBuf) -> Result<Box<dyn Encoder>, ConnectError> + Send>;

/// How the files of a partitioned table are made.
pub(crate) struct Parts {
    /// The table's folder.
    pub folder: PathBuf,
    pub default_name: String,
    /// `part-0`.
    pub stem: String,
    /// `.csv.gz`.
    pub extension: String,
    /// A file that was closed can be written on.
    pub can_continue: bool,
    /// Files are seen when they are complete: after so many bytes, at a checkpoint, and at the end.
    pub rolls_at_bytes: Option<u64>,
    /// Number of the next file, of those that are never written on.
    pub next: usize,
    pub make: MakeEncoder,
}

/// Encodes each row for the file of its folder.
pub(crate) struct PartitionedEncoder {
    parts: Parts,
    /// Columns that name the folders, in their order, and what they are called.
    keys: Vec<(usize, String)>,
    /// Columns that are in the files.
    written: Vec<usize>,
    schema: SchemaRef,
    converter: RowConverter,
    partitions: Vec<Partition>,
    /// Of each value of the keys. Several may have one folder: NULL and the empty text.
    by_value: HashMap<Box<[u8]>, usize>,
    by_folder: HashMap<String, usize>,
    open: usize,
    open_max: usize,
    /// Encoded so far, to tell what was used last.
    pieces: u64,
}

struct Partition {
    /// Below the table's folder.
    folder: String,
    /// Of its file, from 0.
    number: usize,
    /// The file has its beginning.
    has_begun: bool,
    /// Of the file so far.
    bytes: u64,
    encoder: Option<Box<dyn Encoder>>,
    used: u64,
}

impl PartitionedEncoder {
    pub(crate) fn new(
        parts: Parts,
        table: &SchemaRef,
        open_max: usize,
    ) -> Result<PartitionedEncoder, ConnectError> {
        let failed = |error: ArrowError| encode_error(&parts.folder, &error);
        let mut keys: Vec<(usize, usize)> = Vec::new();
        let mut written = Vec::new();
        for (column, field) in table.fields().iter().enumerate() {
            match PartitionColumn::place(field) {
                Some(place) => keys.push((place, column)),
                None => written.push(column),
            }
        }
        keys.sort_unstable();
        let fields = keys.iter().map(|(_, column)| SortField::new(table.field(*column).data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(failed)?;
        let schema = Arc::new(table.project(&written).map_err(failed)?);
        let name = |(_, column): (usize, usize)| (column, table.field(column).name().clone());
        Ok(PartitionedEncoder {
            keys: keys.into_iter().map(name).collect(),
            written,
            schema,
            converter,
            partitions: Vec::new(),
            by_value: HashMap::new(),
            by_folder: HashMap::new(),
            open: 0,
            open_max,
            pieces: 0,
            parts,
        })
    }

    /// The partition of a row with this value of the keys.
    fn partition(&mut self, value: &[u8], rows: &RecordBatch, row: usize) -> usize {
        if let Some(known) = self.by_value.get(value) {
            return *known;
        }
        let names = self.keys.iter().map(|(column, name)| {
            let value = text_of(rows.column(*column).as_ref(), row);
            folder_name(name, value.as_deref(), &self.parts.default_name)
        });
        let folder = names.collect::<Vec<_>>().join("/");
        let next = self.partitions.len();
        let partition = *self.by_folder.entry(folder.clone()).or_insert(next);
        if partition == next {
            self.partitions.push(Partition {
                folder,
                number: 0,
                has_begun: false,
                bytes: 0,
                encoder: None,
                used: 0,
            });
        }
        self.by_value.insert(value.into(), partition);
        partition
    }

    fn put(&mut self, partition: usize, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if self.partitions[partition].encoder.is_none() && self.open == self.open_max {
            self.close_one(out)?;
        }
        self.pieces += 1;
        let partition = &mut self.partitions[partition];
        partition.used = self.pieces;
        if partition.encoder.is_none() {
            if self.parts.rolls_at_bytes.is_some() {
                partition.number = self.parts.next;
                self.parts.next += 1;
            }
            let path = self.parts.folder.join(partition.file(&self.parts));
            partition.encoder =
                Some((self.parts.make)(Arc::clone(&self.schema), !partition.has_begun, path)?);
            partition.has_begun = true;
            self.open += 1;
        }
        let before = out.len();
        let frame = Frame::begin(&partition.file(&self.parts), out);
        partition.encoder.as_mut().expect("made above").encode(rows, out)?;
        frame.end(false, out);
        partition.bytes += (out.len() - before) as u64;
        if self.parts.rolls_at_bytes.is_some_and(|most| partition.bytes >= most) {
            self.open -= 1;
            partition.close(&self.parts, out)?;
        }
        Ok(())
    }

    /// Completes what was not used for longest.
    fn close_one(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        let open = self.partitions.iter_mut().filter(|partition| partition.encoder.is_some());
        let Some(oldest) = open.min_by_key(|partition| partition.used) else { return Ok(()) };
        self.open -= 1;
        oldest.close(&self.parts, out)
    }
}

impl Partition {
    fn file(&self, parts: &Parts) -> String {
        let folder = if self.folder.is_empty() { String::new() } else { format!("{}/", self.folder) };
        format!("{folder}{}-{}{}", parts.stem, self.number, parts.extension)
    }

    fn close(&mut self, parts: &Parts, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        let Some(mut encoder) = self.encoder.take() else { return Ok(()) };
        let frame = Frame::begin(&self.file(parts), out);
        encoder.finish(out)?;
        frame.end(parts.rolls_at_bytes.is_some(), out);
        self.bytes = 0;
        if !parts.can_continue || parts.rolls_at_bytes.is_some() {
            self.number += 1;
            self.has_begun = false;
        }
        Ok(())
    }
}

impl Encoder for PartitionedEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let failed = |error: ArrowError| encode_error(&self.parts.folder, &error);
        if self.keys.is_empty() {
            let partition = self.partition(&[], rows, 0);
            return self.put(partition, rows, out);
        }
        let keys: Vec<ArrayRef> =
            self.keys.iter().map(|(column, _)| Arc::clone(rows.column(*column))).collect();
        let values = self.converter.convert_columns(&keys).map_err(failed)?;
        // In the order in which they come.
        let mut groups: Vec<(usize, Vec<u32>)> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for (row, value) in values.iter().enumerate() {
            let partition = self.partition(value.as_ref(), rows, row);
            let place = *places.entry(partition).or_insert(groups.len());
            if place == groups.len() {
                groups.push((partition, Vec::new()));
            }
            groups[place].1.push(row as u32);
        }
        let columns: Vec<ArrayRef> =
            self.written.iter().map(|column| Arc::clone(rows.column(*column))).collect();
        for (partition, picked) in groups {
            let failed = |error: ArrowError| encode_error(&self.parts.folder, &error);
            let own = match picked.len() == rows.num_rows() {
                true => columns.clone(),
                false => take_arrays(&columns, &UInt32Array::from(picked), None).map_err(failed)?,
            };
            let own = RecordBatch::try_new(Arc::clone(&self.schema), own).map_err(failed)?;
            self.put(partition, &own, out)?;
        }
        Ok(())
    }

    fn cut(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if self.parts.rolls_at_bytes.is_some() { self.finish(out) } else { Ok(()) }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        while self.open > 0 {
            self.close_one(out)?;
        }
        Ok(())
    }
}

fn encode_error(folder: &std::path::Path, error: &ArrowError) -> ConnectError {
    ConnectError::Encode { path: folder.to_owned(), format: "a partition", message: error.to_string() }
}

#[cfg(test)]
mod tests;
