//! Columns that are not in a file but told by where it lies: what is known of the file itself, and values in the names
//! of its folders. Each has one value for all rows of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMillisecondArray,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, SchemaRef};

use crate::csv::parse_column;
use crate::options::OptionReader;
use crate::partition::{self, PartitionColumn};
use crate::{ConnectError, MetadataKey, OptionError, PIECE_ROWS, TableSpec};

/// What a `filesystem` table can tell of the file that a row is from: `name STRING NOT NULL METADATA FROM 'file.name'`.
///
/// Such a column is a field of [`TableSpec::schema`] that bears a mark; the fields of the file itself are those without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMetadata {
    /// `file.path`: the absolute path.
    Path,
    /// `file.name`: the last part of it.
    Name,
    /// `file.size`: its bytes when it was opened.
    Size,
    /// `file.modification-time`: when it was last written before it was opened.
    ModificationTime,
}

impl FileMetadata {
    /// All of them.
    pub const ALL: [FileMetadata; 4] =
        [FileMetadata::Path, FileMetadata::Name, FileMetadata::Size, FileMetadata::ModificationTime];

    /// The same for SQL.
    pub(crate) const KEYS: [MetadataKey; 4] = [
        FileMetadata::Path.described(),
        FileMetadata::Name.described(),
        FileMetadata::Size.described(),
        FileMetadata::ModificationTime.described(),
    ];

    const fn described(self) -> MetadataKey {
        let (sql_type, fits): (_, fn(&DataType) -> bool) = match self {
            FileMetadata::Path => ("STRING NOT NULL", |given| FileMetadata::Path.fits(given)),
            FileMetadata::Name => ("STRING NOT NULL", |given| FileMetadata::Name.fits(given)),
            FileMetadata::Size => ("BIGINT NOT NULL", |given| FileMetadata::Size.fits(given)),
            FileMetadata::ModificationTime => {
                ("TIMESTAMP_LTZ(3) NOT NULL", |given| FileMetadata::ModificationTime.fits(given))
            }
        };
        MetadataKey { key: self.key(), sql_type, fits, is_written: false }
    }

    /// What METADATA FROM calls it.
    pub const fn key(self) -> &'static str {
        match self {
            FileMetadata::Path => "file.path",
            FileMetadata::Name => "file.name",
            FileMetadata::Size => "file.size",
            FileMetadata::ModificationTime => "file.modification-time",
        }
    }

    /// Whether a column of this type can hold it.
    pub fn fits(self, data_type: &DataType) -> bool {
        match self {
            FileMetadata::Path | FileMetadata::Name => *data_type == DataType::Utf8,
            FileMetadata::Size => matches!(
                data_type,
                DataType::Int64 | DataType::Float64 | DataType::Decimal128(19..=38, 0) | DataType::Utf8
            ),
            FileMetadata::ModificationTime => matches!(data_type, DataType::Timestamp(..)),
        }
    }

    /// A column of it.
    pub fn field(self, name: &str, data_type: DataType, nullable: bool) -> Field {
        self.described().field(name, data_type, nullable)
    }

    /// What a column is of; `None` for one of the file's own.
    pub fn of(field: &Field) -> Option<FileMetadata> {
        let key = MetadataKey::of(field)?;
        FileMetadata::ALL.into_iter().find(|metadata| metadata.key() == key)
    }

    /// One row, in the column's type where it differs from its own.
    fn value(self, path: &Path, found: &Metadata, field: &Field) -> ArrayRef {
        let text =
            |text: &Path| Arc::new(StringArray::from(vec![text.to_string_lossy().into_owned()])) as ArrayRef;
        let own: ArrayRef = match self {
            FileMetadata::Path => text(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            FileMetadata::Name => text(path.file_name().map_or(path, Path::new)),
            FileMetadata::Size => {
                Arc::new(Int64Array::from(vec![i64::try_from(found.len()).unwrap_or(i64::MAX)]))
            }
            FileMetadata::ModificationTime => {
                let ms = found.mtime() * 1_000 + found.mtime_nsec() / 1_000_000;
                Arc::new(TimestampMillisecondArray::from(vec![ms]).with_timezone("UTC"))
            }
        };
        cast(&own, field.data_type()).expect("checked with `fits` when the table was declared")
    }
}

/// The columns asked for of a table: those that are read from its files, and those that are the same for all rows of one.
pub(crate) struct FileColumns {
    schema: SchemaRef,
    /// For each column asked for, where it comes from.
    parts: Vec<Part>,
    /// The folder's name for NULL.
    default_name: String,
    /// The constant columns of the file that is open, as many rows as a piece may have.
    constants: Vec<ArrayRef>,
}

enum Part {
    /// Of what the decoder gives.
    Read(usize),
    Metadata(FileMetadata),
    /// In the name of a folder.
    Partition,
}

impl FileColumns {
    /// Also the table as its files are, and which of their columns are to be read.
    ///
    /// # Errors
    /// If the option 'partition.default-name' is wrong.
    pub(crate) fn of(
        table: &Arc<TableSpec>,
        columns: &[usize],
    ) -> Result<(FileColumns, Arc<TableSpec>, Vec<usize>), OptionError> {
        let default_name = partition::default_name(&OptionReader::new(table))?;
        let fields = table.schema.fields();
        let is_in_files = |&column: &usize| {
            FileMetadata::of(&fields[column]).is_none() && PartitionColumn::place(&fields[column]).is_none()
        };
        let in_files: Vec<usize> = (0..fields.len()).filter(is_in_files).collect();
        let mut read = Vec::new();
        let parts = columns.iter().map(|column| match FileMetadata::of(&fields[*column]) {
            Some(metadata) => Part::Metadata(metadata),
            None if PartitionColumn::place(&fields[*column]).is_some() => Part::Partition,
            None => {
                read.push(in_files.partition_point(|other| other < column));
                Part::Read(read.len() - 1)
            }
        });
        let parts = parts.collect();
        // Rows are counted by their columns.
        if read.is_empty() && !columns.is_empty() {
            read.push(0);
        }
        let schema = Arc::new(table.schema.project(columns).expect("columns of the table"));
        let table = match in_files.len() == fields.len() {
            true => Arc::clone(table),
            false => {
                let schema = table.schema.project(&in_files).expect("columns of the table");
                Arc::new(TableSpec { schema: Arc::new(schema), ..table.as_ref().clone() })
            }
        };
        Ok((FileColumns { schema, parts, default_name, constants: Vec::new() }, table, read))
    }

    /// What follows is of this file.
    ///
    /// # Errors
    /// If a folder's name is no value of its column.
    pub(crate) fn start_file(&mut self, path: &Path, found: &Metadata) -> Result<(), ConnectError> {
        self.constants.clear();
        for (part, field) in self.parts.iter().zip(self.schema.fields()) {
            let value = match part {
                Part::Read(_) => continue,
                Part::Metadata(metadata) => metadata.value(path, found, field),
                Part::Partition => self.of_folder(path, field)?,
            };
            let rows = Int64Array::from(vec![0; PIECE_ROWS]);
            self.constants.push(take(&value, &rows, None).expect("the first row is there"));
        }
        Ok(())
    }

    /// One row.
    fn of_folder(&self, path: &Path, field: &Field) -> Result<ArrayRef, ConnectError> {
        let refused = |message: String| ConnectError::Format {
            path: path.to_owned(),
            format: "a file of a partition",
            message,
        };
        let named = partition::value_of(path, field.name()).filter(|value| *value != self.default_name);
        let Some(text) = named else {
            return match field.is_nullable() {
                true => Ok(new_null_array(field.data_type(), 1)),
                false => {
                    Err(refused(format!("no folder names column '{}', which is NOT NULL", field.name())))
                }
            };
        };
        let mut reason = None;
        let value = parse_column(field, None, 1, |_| text.as_bytes(), &mut |_, bad| reason = Some(bad));
        reason.map_or(Ok(value), |reason| Err(refused(reason)))
    }

    /// Rows of the columns asked for, of those that were read. No more than a piece.
    pub(crate) fn rows(&self, read: RecordBatch) -> RecordBatch {
        if self.constants.is_empty() {
            return read;
        }
        let count = read.num_rows();
        let mut constants = self.constants.iter();
        let columns = self.parts.iter().map(|part| match part {
            Part::Read(column) => Arc::clone(read.column(*column)),
            Part::Metadata(_) | Part::Partition => constants.next().expect("one for each").slice(0, count),
        });
        let size = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect(), &size)
            .expect("columns of the schema's types")
    }
}
