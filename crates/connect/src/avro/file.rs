//! Avro's files: a header with their writer's schema, then blocks of records, each packed by itself and closed by the file's
//! own mark.
//!
//! The library's own reader of files takes one that is cut off for a whole one, looks at no mark, and never comes back from
//! a block that is longer than its records. So blocks and the ends of records are found here, and it decodes these.

mod encoder;

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::datatypes::{Schema, SchemaRef};
use arrow_avro::reader::read_header_info;

use self::encoder::AvroFileEncoder;
use super::codec::Codec;
use super::datum::Reading;
use super::schema::{self, Timestamps};
use super::shape::Shape;
use super::types::on_the_wire;
use super::varint::read_long;
use crate::compression::Compression;
use crate::container::{Container, checked};
use crate::dead_letter::BadRow;
use crate::format::Format;
use crate::options::OptionReader;
use crate::reader::Step;
use crate::record::{RECORDS_MAX, Records};
use crate::{ConnectError, Encoder, OptionError};

/// Bytes of a mark.
const MARK_BYTES: usize = 16;

/// A header longer than this is none.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// A block longer than this, packed or not, is refused: it bounds memory. Writers begin another after some 64 KiB.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// `'format' = 'avro'` of files.
#[derive(Clone, Copy, Debug)]
struct AvroFiles {
    codec: Codec,
    timestamps: Timestamps,
}

pub(crate) fn read_format(
    schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let codec = Codec::read(options)?;
    let timestamps = Timestamps::read(options, "avro.timestamp_mapping.legacy")?;
    match on_the_wire(schema) {
        Ok(_) => Ok(Arc::new(AvroFiles { codec, timestamps })),
        Err(reason) => Err(options.error("format", reason)),
    }
}

impl Format for AvroFiles {
    fn extension(&self) -> &'static str {
        "avro"
    }

    fn is_container(&self) -> bool {
        true
    }

    fn open_container(
        &self,
        path: Arc<Path>,
        file: File,
        declared: &Schema,
        columns: &[usize],
        bytes_read: Arc<AtomicU64>,
    ) -> Result<Box<dyn Container>, ConnectError> {
        Ok(Box::new(AvroFile::open(path, file, declared, columns, bytes_read)?))
    }

    fn file_encoder(
        &self,
        schema: SchemaRef,
        _is_new: bool,
        _compression: Compression,
        path: PathBuf,
    ) -> Result<Box<dyn Encoder>, ConnectError> {
        Ok(Box::new(AvroFileEncoder::new(*self, &schema, path)?))
    }
}

/// One that is read. Columns are found by their names, as in records of a topic; a row that does not fit them is bad.
struct AvroFile {
    path: Arc<Path>,
    input: BufReader<Box<dyn Read + Send>>,
    codec: Codec,
    mark: [u8; MARK_BYTES],
    shape: Arc<Shape>,
    /// Stands before each record, where it might be null.
    branch: Option<i64>,
    reading: Reading,
    packed: Vec<u8>,
    /// The block at hand, and where its next record begins.
    block: Vec<u8>,
    at: usize,
    /// Records of it that are still to come.
    left: u64,
    records: Records,
    /// Records before.
    row: u64,
    /// What is wrong behind the rows that were given out.
    fault: Option<String>,
}

impl AvroFile {
    fn open(
        path: Arc<Path>,
        mut file: File,
        declared: &Schema,
        columns: &[usize],
        bytes_read: Arc<AtomicU64>,
    ) -> Result<AvroFile, ConnectError> {
        let failed = |source| ConnectError::Io { action: "read", path: path.to_path_buf(), source };
        let not = |message| not_avro(&path, message);
        let found = checked(|| read_header_info(BufReader::new((&file).take(HEADER_BYTES_MAX))))
            .and_then(|header| header.map_err(|error| error.to_string()))
            .map_err(|why| not(format!("it has no header of such a file: {why}")))?;
        let codec =
            found.compression().map_err(|error| error.to_string()).and_then(Codec::of).map_err(not)?;
        let json = found.writer_schema().map_err(|error| not(error.to_string()))?.json_string;
        let (json, branch) = schema::record_of(&json).map_err(|why| not(format!("its schema: {why}")))?;
        let shape = Shape::of(&json).map_err(|why| not(format!("its schema: {why}")))?;
        let wanted = declared.project(columns).expect("columns of the table");
        let reading = checked(|| Reading::new(&json, None, Arc::new(wanted))).and_then(|reading| reading);
        let reading = reading.map_err(|why| not(format!("it does not fit the table: {why}")))?;
        // The library loses a mark that it finds in two parts.
        let mut mark = [0; MARK_BYTES];
        file.seek(SeekFrom::Start(found.header_len() - MARK_BYTES as u64)).map_err(failed)?;
        file.read_exact(&mut mark).map_err(failed)?;
        Ok(AvroFile {
            input: BufReader::new(Compression::None.reader(file, bytes_read).map_err(failed)?),
            path: Arc::clone(&path),
            codec,
            mark,
            shape,
            branch,
            reading,
            packed: Vec::new(),
            block: Vec::new(),
            at: 0,
            left: 0,
            records: Records::default(),
            row: 0,
            fault: None,
        })
    }

    /// Reads the next block; false at the end of the file.
    fn next_block(&mut self) -> std::io::Result<bool> {
        let invalid = |message: String| std::io::Error::new(ErrorKind::InvalidData, message);
        if self.input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let (count, bytes) = (read_long(&mut self.input)?, read_long(&mut self.input)?);
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= BLOCK_BYTES_MAX);
        let (Ok(count), Some(bytes)) = (u64::try_from(count), bytes) else {
            return Err(invalid(format!("a block has no length up to {} MiB", BLOCK_BYTES_MAX >> 20)));
        };
        self.packed.clear();
        let mut mark = [0; MARK_BYTES];
        if (&mut self.input).take(bytes as u64).read_to_end(&mut self.packed)? < bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.input.read_exact(&mut mark)?;
        if mark != self.mark {
            return Err(invalid("a block does not end with the file's mark".to_owned()));
        }
        self.codec.unpack(&mut self.packed, &mut self.block, BLOCK_BYTES_MAX)?;
        if count > self.block.len() as u64 {
            let bytes = self.block.len();
            return Err(invalid(format!("a block of {count} records has {bytes} bytes")));
        }
        (self.at, self.left) = (0, count);
        self.check_end();
        Ok(true)
    }

    /// A block ends with its last record.
    fn check_end(&mut self) {
        if self.left == 0 && self.at < self.block.len() {
            self.fault =
                Some(format!("{} bytes follow the last record of a block", self.block.len() - self.at));
        }
    }

    /// Some records of the block at hand.
    fn take_records(&mut self) {
        self.records.clear();
        let most = self.left.min(RECORDS_MAX as u64);
        for _ in 0..most {
            if let Err(error) = self.take_record() {
                self.fault = Some(told(&error));
                break;
            }
            self.left -= 1;
        }
        self.check_end();
    }

    /// The next of them. One that is null has no bytes, which is bad.
    fn take_record(&mut self) -> std::io::Result<()> {
        let mut rest = &self.block[self.at..];
        let is_there = match self.branch {
            Some(branch) => read_long(&mut rest)? == branch,
            None => true,
        };
        let bytes = if is_there { self.shape.length(rest)? } else { 0 };
        self.records.push(Some(&rest[..bytes]));
        self.at = self.block.len() - rest.len() + bytes;
        Ok(())
    }
}

impl Container for AvroFile {
    fn step(&mut self, bad: &mut Vec<BadRow>) -> Result<Step, ConnectError> {
        let behind = |row: u64| format!("behind record {row}");
        if let Some(fault) = self.fault.take() {
            self.left = 0;
            return Err(not_avro(&self.path, format!("it is damaged {}: {fault}", behind(self.row))));
        }
        if self.left == 0 {
            return match self.next_block() {
                Ok(true) => Ok(Step::More),
                Ok(false) => Ok(Step::End),
                Err(error) => match error.kind() {
                    ErrorKind::UnexpectedEof => {
                        let message = format!("it ends amid a block, {}", behind(self.row));
                        Err(not_avro(&self.path, message))
                    }
                    ErrorKind::InvalidData | ErrorKind::Other | ErrorKind::InvalidInput => {
                        let message = format!("it is damaged {}: {error}", behind(self.row));
                        Err(not_avro(&self.path, message))
                    }
                    _ => {
                        Err(ConnectError::Io { action: "read", path: self.path.to_path_buf(), source: error })
                    }
                },
            };
        }
        self.take_records();
        let places: Vec<usize> = (0..self.records.len()).collect();
        let (mut wrong, mut good) = (Vec::new(), Vec::new());
        let rows = checked(|| self.reading.decode(&self.records, &places, &mut wrong, &mut good))
            .map_err(|fault| not_avro(&self.path, format!("{fault} {}", behind(self.row))))?;
        wrong.sort_by_key(|record| record.index);
        bad.extend(wrong.into_iter().map(|record| {
            let line = self.row + record.index as u64 + 1;
            BadRow::new(line, record.reason, b"").at(record.index)
        }));
        self.row += places.len() as u64;
        Ok(if rows.num_rows() > 0 { Step::Rows(rows) } else { Step::More })
    }

    fn held_bytes(&self) -> u64 {
        (self.packed.capacity() + self.block.capacity()) as u64 + self.records.held_bytes()
    }
}

fn not_avro(path: &Path, message: String) -> ConnectError {
    ConnectError::Format { path: path.to_owned(), format: "Avro", message }
}

fn told(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "a record does not end in its block".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
