//! CSV and JSON on their way out: Arrow writes the text, after what it would spell otherwise than Flink was changed.

mod record;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::csv::{QuoteStyle, Writer as CsvWriter, WriterBuilder as CsvWriterBuilder};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder as JsonWriterBuilder;
use arrow::json::writer::{LineDelimited, Writer as JsonWriter};
use parking_lot::Mutex;

use crate::compression::{Compression, Packer};
use crate::csv::CsvOptions;
use crate::json::JsonOptions;
use crate::zone::with_offset_zones;
use crate::{ConnectError, Encoder, base64_text};

pub(crate) use self::record::LineRecords;

/// Flink's `SQL` and `ISO-8601` timestamp formats; the fraction is left out where it is zero.
const SQL_TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";
const ISO_TIMESTAMP: &str = "%Y-%m-%dT%H:%M:%S%.f";

/// Turns rows into lines of text, and packs them. Its buffers and writers are used again and again.
pub(crate) struct LineEncoder {
    /// Names the output in errors.
    path: PathBuf,
    format: &'static str,
    schema: SchemaRef,
    writer: LineWriter,
    /// `None` once the output is complete.
    packer: Option<Packer>,
}

enum LineWriter {
    Csv { writer: Box<CsvWriter<SharedText>>, text: SharedText, header_due: bool },
    Json(Box<JsonWriter<Vec<u8>, LineDelimited>>),
}

/// Text of a writer that does not let us at what it writes to.
#[derive(Clone, Default)]
struct SharedText(Arc<Mutex<Vec<u8>>>);

impl Write for SharedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineEncoder {
    /// # Errors
    /// If the packing library refuses.
    pub(crate) fn csv(
        options: &CsvOptions,
        schema: &Schema,
        compression: Compression,
        path: PathBuf,
    ) -> Result<LineEncoder, ConnectError> {
        let mut builder = CsvWriterBuilder::new()
            .with_header(options.header)
            .with_delimiter(options.delimiter)
            .with_null(options.null_literal.clone().unwrap_or_default())
            .with_timestamp_format(SQL_TIMESTAMP.to_owned())
            .with_timestamp_tz_format(format!("{SQL_TIMESTAMP}Z"));
        builder = match options.quote {
            Some(quote) => builder.with_quote(quote),
            None => builder.with_quote_style(QuoteStyle::Never),
        };
        if let Some(escape) = options.escape {
            builder = builder.with_escape(escape).with_double_quote(false);
        }
        let text = SharedText::default();
        let writer = Box::new(builder.build(text.clone()));
        let writer = LineWriter::Csv { writer, text, header_due: options.header };
        LineEncoder::new(path, "csv", schema, writer, compression)
    }

    /// # Errors
    /// If the packing library refuses.
    pub(crate) fn json(
        options: &JsonOptions,
        schema: &Schema,
        compression: Compression,
        path: PathBuf,
    ) -> Result<LineEncoder, ConnectError> {
        let timestamp = if options.iso_timestamps { ISO_TIMESTAMP } else { SQL_TIMESTAMP };
        let writer = JsonWriterBuilder::new()
            .with_explicit_nulls(!options.ignore_nulls)
            .with_timestamp_format(timestamp.to_owned())
            .with_timestamp_tz_format(format!("{timestamp}Z"))
            .build::<_, LineDelimited>(Vec::new());
        LineEncoder::new(path, "json", schema, LineWriter::Json(Box::new(writer)), compression)
    }

    fn new(
        path: PathBuf,
        format: &'static str,
        schema: &Schema,
        writer: LineWriter,
        compression: Compression,
    ) -> Result<LineEncoder, ConnectError> {
        let schema = with_offset_zones(schema);
        let fields = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Binary => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
            _ => Arc::clone(field),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut encoder = LineEncoder { path, format, schema, writer, packer: None };
        encoder.packer = Some(compression.packer().map_err(|error| encoder.failed(error))?);
        Ok(encoder)
    }

    /// The rows with zones that can be printed, BYTES in Base64, and the declared NOT NULL checked.
    fn readable(&self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = rows.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            match (column.data_type(), field.data_type()) {
                (given, wanted) if given == wanted => Ok(Arc::clone(column)),
                (DataType::Binary, DataType::Utf8) => {
                    let texts = column.as_binary::<i32>().iter().map(|bytes| bytes.map(base64_text::encode));
                    Ok(Arc::new(texts.collect::<StringArray>()) as ArrayRef)
                }
                (_, wanted) => cast(column, wanted),
            }
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &size)
    }

    fn put(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        let written = match &mut self.writer {
            LineWriter::Csv { writer, text, header_due } => {
                let header = match std::mem::replace(header_due, false) {
                    true => writer.write(&RecordBatch::new_empty(self.schema.clone())),
                    false => Ok(()),
                };
                let lines_from = text.0.lock().len();
                let written = header.and_then(|()| writer.write(rows));
                if written.is_err() {
                    // Others may write through this too: theirs begins on a line of its own.
                    text.0.lock().truncate(lines_from);
                }
                written
            }
            LineWriter::Json(writer) => {
                let written = writer.write(rows);
                if written.is_err() {
                    writer.get_mut().clear();
                }
                written
            }
        };
        written.map_err(|error| self.failed(error))?;
        let packer = self.packer.as_mut().expect("nothing is encoded after the end");
        let packed = match &mut self.writer {
            LineWriter::Csv { text, .. } => packer.pack_visibly(&mut text.0.lock(), out),
            LineWriter::Json(writer) => packer.pack_visibly(writer.get_mut(), out),
        };
        packed.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: impl ToString) -> ConnectError {
        ConnectError::Encode { path: self.path.clone(), format: self.format, message: error.to_string() }
    }
}

impl Encoder for LineEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let rows = self.readable(rows).map_err(|error| self.failed(error))?;
        self.put(&rows, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if matches!(self.writer, LineWriter::Csv { header_due: true, .. }) {
            self.put(&RecordBatch::new_empty(self.schema.clone()), out)?;
        }
        let packer = self.packer.take();
        packer.map_or(Ok(()), |packer| packer.finish(out)).map_err(|error| self.failed(error))
    }
}
