//! Reading one Parquet file, piece by piece. A damaged file is an error of its table, also where the library panics.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{can_cast_types, cast, filter_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::container::{Container, checked};
use crate::dead_letter::BadRow;
use crate::reader::Step;
use crate::{ConnectError, PIECE_ROWS};

/// A Parquet file. Columns are taken by name and cast to the declared types; a row with a value that does not
/// fit is bad.
pub(crate) struct ParquetFile {
    path: Arc<Path>,
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    row: u64,
    rows_total: u64,
    bytes_total: u64,
    bytes_read: Arc<AtomicU64>,
}

impl ParquetFile {
    pub(crate) fn open(
        path: Arc<Path>,
        file: File,
        declared: &Schema,
        columns: &[usize],
        bytes_read: Arc<AtomicU64>,
    ) -> Result<ParquetFile, ConnectError> {
        let not =
            |message: String| ConnectError::Format { path: path.to_path_buf(), format: "Parquet", message };
        let bytes_total = file.metadata().map_or(0, |file| file.len());
        let builder = checked(|| ParquetRecordBatchReaderBuilder::try_new(file))
            .and_then(|builder| builder.map_err(|error| error.to_string()))
            .map_err(not)?;
        let found = builder.schema().clone();
        let fields: Vec<_> = columns.iter().map(|&column| declared.fields()[column].clone()).collect();
        let mut roots = Vec::with_capacity(fields.len());
        for field in &fields {
            let Some((root, stored)) = found.column_with_name(field.name()) else {
                let names: Vec<&str> = found.fields().iter().map(|field| field.name().as_str()).collect();
                return Err(not(format!("it has no column '{}'; it has {}", field.name(), names.join(", "))));
            };
            if !can_cast_types(stored.data_type(), field.data_type()) {
                return Err(not(format!(
                    "its column '{}' is {}, which does not convert to the declared {}",
                    field.name(),
                    stored.data_type(),
                    field.data_type()
                )));
            }
            roots.push(root);
        }
        let rows_total = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let builder = builder.with_projection(mask).with_batch_size(PIECE_ROWS);
        let reader = checked(|| builder.build())
            .and_then(|reader| reader.map_err(|error| error.to_string()))
            .map_err(not)?;
        let schema = Arc::new(Schema::new(fields));
        Ok(ParquetFile { path, reader, schema, row: 0, rows_total, bytes_total, bytes_read })
    }

    /// The rows whose values fit the declared types.
    fn declared(&self, stored: &RecordBatch, bad: &mut Vec<BadRow>) -> RecordBatch {
        let count = stored.num_rows();
        let mut good = vec![true; count];
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for field in self.schema.fields() {
            let from = stored.column_by_name(field.name()).expect("the projection has the declared columns");
            let to = cast(from, field.data_type()).expect("checked when the file was opened");
            let lost = |row: usize| to.is_null(row) && (from.is_valid(row) || !field.is_nullable());
            if to.null_count() > from.null_count() || (!field.is_nullable() && to.null_count() > 0) {
                for row in (0..count).filter(|row| lost(*row)) {
                    if std::mem::replace(&mut good[row], false) {
                        let reason = match from.is_valid(row) {
                            true => format!(
                                "column '{}': the value does not fit {}",
                                field.name(),
                                field.data_type()
                            ),
                            false => format!("column '{}' is NOT NULL", field.name()),
                        };
                        bad.push(BadRow::new(self.row + row as u64 + 1, reason, b"").at(row));
                    }
                }
            }
            columns.push(to);
        }
        bad.sort_by_key(|row| row.line);
        let nullable: Vec<_> =
            self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let size = RecordBatchOptions::new().with_row_count(Some(count));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(nullable)), columns, &size)
            .expect("columns were cast to the schema's types");
        let rows = match good.iter().all(|good| *good) {
            true => rows,
            false => filter_record_batch(&rows, &BooleanArray::from(good)).expect("one flag per row"),
        };
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &size)
            .expect("rows with a null in a NOT NULL column were bad")
    }
}

impl Container for ParquetFile {
    fn step(&mut self, bad: &mut Vec<BadRow>) -> Result<Step, ConnectError> {
        let read = checked(|| self.reader.next().transpose())
            .and_then(|rows| rows.map_err(|error| error.to_string()));
        let stored = match read {
            Ok(None) => return Ok(Step::End),
            Ok(Some(rows)) => rows,
            Err(error) => {
                return Err(ConnectError::Format {
                    path: self.path.to_path_buf(),
                    format: "Parquet",
                    message: format!("{error} after row {}", self.row),
                });
            }
        };
        let rows = self.declared(&stored, bad);
        let before = self.row;
        self.row += stored.num_rows() as u64;
        let share = |row: u64| self.bytes_total * row / self.rows_total.max(1);
        self.bytes_read.fetch_add(share(self.row) - share(before), Ordering::Relaxed);
        Ok(if rows.num_rows() > 0 { Step::Rows(rows) } else { Step::More })
    }
}
