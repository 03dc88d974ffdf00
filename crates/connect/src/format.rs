//! How rows are written as bytes. A format is one file and one line in [`FORMATS`]; what it can do besides follows from
//! the parts that it has.

use std::fmt::{Debug, Display, Formatter};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::datatypes::{Schema, SchemaRef};

use crate::compression::Compression;
use crate::container::Container;
use crate::options::{OptionReader, quoted};
use crate::record::{FieldDecoder, FieldWay, RecordDecoder, RecordEncoder, RecordSchemas};
use crate::text_file::Decode;
use crate::{ConnectError, Encoder, OptionError, avro, csv, json, parquet_encoder, protobuf, raw};

/// All of them. A format reads its own options, which say that it can hold the columns of the schema.
const FORMATS: &[FormatKind] = &[
    FormatKind { name: "avro", in_files: true, in_records: false, read: avro::file::read_format },
    FormatKind { name: "avro", in_files: false, in_records: true, read: avro::read_format },
    FormatKind {
        name: "avro-confluent",
        in_files: false,
        in_records: true,
        read: avro::confluent::read_format,
    },
    FormatKind { name: "csv", in_files: true, in_records: true, read: csv::read_format },
    FormatKind { name: "json", in_files: true, in_records: true, read: json::read_format },
    FormatKind { name: "parquet", in_files: true, in_records: false, read: parquet_encoder::read_format },
    FormatKind { name: "protobuf", in_files: false, in_records: true, read: protobuf::read_format },
    FormatKind { name: "raw", in_files: true, in_records: false, read: raw::lines::read_format },
    FormatKind { name: "raw", in_files: false, in_records: true, read: raw::read_format },
];

struct FormatKind {
    name: &'static str,
    in_files: bool,
    in_records: bool,
    read: ReadFormat,
}

type ReadFormat = fn(&Schema, &OptionReader<'_>) -> Result<Arc<dyn Format>, OptionError>;

/// A format with its options.
pub(crate) trait Format: Debug + Send + Sync {
    /// Of files, without the dot.
    fn extension(&self) -> &'static str;

    /// `*.ignore-parse-errors` as given.
    fn ignore_parse_errors(&self) -> Option<bool> {
        None
    }

    /// Why columns of these types cannot be read.
    fn unreadable(&self, _schema: &Schema) -> Option<String> {
        None
    }

    /// Why columns of these types cannot be written.
    fn unwritable(&self, _schema: &Schema) -> Option<String> {
        None
    }

    /// Its files are [containers](Container): compressed inside, and complete with their end alone.
    fn is_container(&self) -> bool {
        false
    }

    /// Reads such a file, of which these of the declared columns are wanted. `bytes_read` counts its bytes, for progress.
    ///
    /// # Errors
    /// If it is none of the format, or does not have the columns.
    fn open_container(
        &self,
        _path: Arc<Path>,
        _file: File,
        _declared: &Schema,
        _columns: &[usize],
        _bytes_read: Arc<AtomicU64>,
    ) -> Result<Box<dyn Container>, ConnectError> {
        unreachable!("its files are of lines")
    }

    /// Decodes the lines of files into some columns of this schema. `None` where files are not of lines.
    fn line_decoder(&self, _schema: &SchemaRef, _columns: &[usize]) -> Option<Box<dyn Decode>> {
        None
    }

    /// Encodes rows into a file; `is_new` where that is empty before.
    ///
    /// # Errors
    /// If a library refuses.
    fn file_encoder(
        &self,
        _schema: SchemaRef,
        _is_new: bool,
        _compression: Compression,
        _path: PathBuf,
    ) -> Result<Box<dyn Encoder>, ConnectError> {
        unreachable!("the format is not one of files")
    }

    /// Decodes records of this schema into `wanted`: some of its columns, in its order, and of one that is a ROW perhaps not all
    /// fields.
    fn record_decoder(&self, _schema: &SchemaRef, _wanted: &SchemaRef) -> Box<dyn RecordDecoder> {
        unreachable!("the format is not one of records")
    }

    /// Where the schemas of records of these columns lie, if outside.
    fn schemas(&self, _schema: &SchemaRef) -> Option<Arc<dyn RecordSchemas>> {
        None
    }

    /// Makes a record of each row of this schema.
    fn record_encoder(&self, _schema: &SchemaRef) -> Box<dyn RecordEncoder> {
        unreachable!("the format is not one of records")
    }
}

/// Which columns a table has, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// What a format is asked for.
#[derive(Clone, Copy, Debug)]
enum Of {
    Files,
    Records,
}

impl Display for Of {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Of::Files => "files, in which nothing tells its records apart",
            Of::Records => "single records",
        })
    }
}

/// The option 'format' of a table of files.
pub(crate) fn file_format(
    options: &OptionReader<'_>,
    direction: Direction,
) -> Result<Arc<dyn Format>, OptionError> {
    let schema = &options.table().schema;
    read(schema, options, "format", Of::Files, direction)
}

/// A format for single records, such as the messages of a queue.
#[derive(Clone, Debug)]
pub struct RecordFormat {
    format: Arc<dyn Format>,
    schema: SchemaRef,
}

impl RecordFormat {
    /// Reads the option `key` and those of the format, for records that hold these columns.
    ///
    /// # Errors
    /// Names the option that is missing or wrong.
    pub fn read(
        options: &OptionReader<'_>,
        key: &str,
        schema: &SchemaRef,
        direction: Direction,
    ) -> Result<RecordFormat, OptionError> {
        let format = read(schema, options, key, Of::Records, direction)?;
        Ok(RecordFormat { format, schema: Arc::clone(schema) })
    }

    /// `*.ignore-parse-errors` as given: whether a bad record is put aside, or ends the scan.
    pub fn ignore_parse_errors(&self) -> Option<bool> {
        self.format.ignore_parse_errors()
    }

    /// The columns that a record holds.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Decodes records into these of the columns, ascending.
    pub fn decoder(&self, columns: &[usize]) -> Box<dyn RecordDecoder> {
        let whole = columns.iter().map(|&column| FieldWay { column, fields: Vec::new() });
        self.field_decoder(&whole.collect::<Vec<_>>())
    }

    /// Decodes records into columns and fields of columns, in any order. What else a ROW has is passed over, and nobody sees whether
    /// it is bad.
    pub fn field_decoder(&self, fields: &[FieldWay]) -> Box<dyn RecordDecoder> {
        FieldDecoder::of(&self.schema, fields, |wanted| self.format.record_decoder(&self.schema, wanted))
    }

    /// Where the schemas of records lie, if outside: they are to be asked for before records are decoded or written.
    pub fn schemas(&self) -> Option<Arc<dyn RecordSchemas>> {
        self.format.schemas(&self.schema)
    }

    /// Makes records of rows of these columns.
    pub fn encoder(&self) -> Box<dyn RecordEncoder> {
        self.format.record_encoder(&self.schema)
    }
}

fn read(
    schema: &Schema,
    options: &OptionReader<'_>,
    key: &str,
    of: Of,
    direction: Direction,
) -> Result<Arc<dyn Format>, OptionError> {
    let kinds = FORMATS.iter().filter(|kind| match of {
        Of::Files => kind.in_files,
        Of::Records => kind.in_records,
    });
    let choices: Vec<(&str, ReadFormat)> = kinds.map(|kind| (kind.name, kind.read)).collect();
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let is_known = |name: &str| FORMATS.iter().any(|kind| kind.name == name);
    if let Some(name) = options.text(key).filter(|name| is_known(name) && !names.contains(name)) {
        let message = format!("'{name}' is not for {of}; expected {}", quoted(&names));
        return Err(options.error(key, message));
    }
    let format = options.required_choice(key, &choices)?(schema, options)?;
    let fault = match direction {
        Direction::Read => format.unreadable(schema),
        Direction::Write => format.unwritable(schema),
    };
    fault.map_or(Ok(format), |reason| Err(options.error(key, reason)))
}

/// What becomes of a row with a field that does not fit its column: `laxity.bad-field`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadField {
    /// The row is dead.
    Dead,
    /// The field is NULL, as with Flink's `ignore-parse-errors`.
    Null,
}

impl BadField {
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<BadField, OptionError> {
        let choices = [("dead", BadField::Dead), ("null", BadField::Null)];
        Ok(options.of_table().choice("laxity.bad-field", &choices)?.unwrap_or(BadField::Dead))
    }
}
