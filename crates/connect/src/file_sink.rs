use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression as ParquetCompression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::compression::{Compression, PackedFile};
use crate::encode::LineEncoder;
use crate::format::{Format, ParquetOptions};
use crate::options::OptionReader;
use crate::{ConnectError, OptionError, Sink, SinkEnvironment, TableSpec, filesystem};

/// Rows of a Parquet file held back until they fill a row group of about this size.
const ROW_GROUP_BYTES: usize = 16 << 20;

/// Writes rows into one file. Lines are in the file when `write` returns; Parquet rows are when their row
/// group is full, and can be read once the footer is written.
struct FileSink {
    path: PathBuf,
    format: &'static str,
    schema: SchemaRef,
    writer: Writer,
}

enum Writer {
    Lines(LineEncoder, PackedFile),
    Parquet(Box<ArrowWriter<File>>),
    Closed,
}

struct SinkOptions {
    path: PathBuf,
    format: Format,
    compression: Option<Compression>,
}

impl SinkOptions {
    fn read(table: &TableSpec, options: &OptionReader<'_>) -> Result<SinkOptions, OptionError> {
        let path = filesystem::path(options)?;
        let format = Format::read(table, options)?;
        let compression = Compression::read(options)?;
        match &format {
            Format::Parquet(_) if matches!(compression, Some(Compression::Gzip | Compression::Zstd)) => {
                let message = "parquet is compressed inside; use 'parquet.compression'";
                return Err(options.error("compression", message));
            }
            Format::Json(_) => {
                if let Some(field) = table.schema.fields().iter().find(|field| has_unprintable_map(field)) {
                    let message = format!("json needs STRING keys in the MAP of column '{}'", field.name());
                    return Err(options.error("format", message));
                }
            }
            _ => {}
        }
        options.finish()?;
        Ok(SinkOptions { path, format, compression })
    }
}

pub(crate) fn validate(table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
    SinkOptions::read(table, options).map(drop)
}

/// A 'path' that ends in an extension is the file; another one is a folder, as in Flink, and gets a part file
/// for each writer.
pub(crate) fn open(
    table: &TableSpec,
    env: &SinkEnvironment,
    options: &OptionReader<'_>,
) -> Result<Box<dyn Sink>, ConnectError> {
    let SinkOptions { path, format, compression } = SinkOptions::read(table, options)?;
    let is_folder = path.extension().is_none() || path.is_dir();
    if !is_folder && env.part > 0 {
        let message = "another query writes to this file; give a folder, where each gets a file of its own";
        return Err(options.error("path", message).into());
    }
    let compression = compression.unwrap_or_else(|| match is_folder {
        true => Compression::None,
        false => Compression::of_name(&path),
    });
    let path = match is_folder {
        true => path.join(format!("part-{}-0.{}{}", env.part, format.extension(), compression.extension())),
        false => path,
    };
    let failed = |source| ConnectError::Io { action: "create", path: path.clone(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    let schema = table.schema.clone();
    let name = format.extension();
    let writer = match format {
        Format::Csv(csv) => lines(LineEncoder::csv(csv, &schema), compression, file, &path, name)?,
        Format::Json(json) => lines(LineEncoder::json(json, &schema), compression, file, &path, name)?,
        Format::Parquet(parquet) => {
            let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties(parquet)));
            Writer::Parquet(Box::new(writer.map_err(|error| parquet_failed(error, &path, "create"))?))
        }
    };
    Ok(Box::new(FileSink { path, format: name, schema, writer }))
}

fn lines(
    encoder: LineEncoder,
    compression: Compression,
    file: File,
    path: &Path,
    format: &'static str,
) -> Result<Writer, ConnectError> {
    let failed = |source| ConnectError::Io { action: "write", path: path.to_owned(), source };
    let mut file = compression.writer(file).map_err(failed)?;
    let header = encoder.header().map_err(|error| encode_failed(error, path, format))?;
    if !header.is_empty() {
        file.write_visibly(&header).map_err(failed)?;
    }
    Ok(Writer::Lines(encoder, file))
}

impl Sink for FileSink {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), ConnectError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let FileSink { path, format, schema, writer } = self;
        // The rows' own schema may differ in what a file does not care for, such as metadata.
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(schema.clone(), rows.columns().to_vec(), &size)
            .map_err(|error| encode_failed(error, path, format))?;
        match writer {
            Writer::Lines(encoder, file) => {
                let text = encoder.encode(&rows).map_err(|error| encode_failed(error, path, format))?;
                file.write_visibly(&text).map_err(|source| ConnectError::Io {
                    action: "write",
                    path: path.clone(),
                    source,
                })
            }
            Writer::Parquet(writer) => {
                writer.write(&rows).map_err(|error| parquet_failed(error, path, "write"))?;
                if writer.in_progress_size() > ROW_GROUP_BYTES {
                    writer.flush().map_err(|error| parquet_failed(error, path, "write"))?;
                }
                Ok(())
            }
            Writer::Closed => unreachable!("no write follows close"),
        }
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        match std::mem::replace(&mut self.writer, Writer::Closed) {
            Writer::Lines(_, file) => file.finish().map_err(|source| ConnectError::Io {
                action: "write",
                path: self.path.clone(),
                source,
            }),
            Writer::Parquet(writer) => {
                writer.close().map(drop).map_err(|error| parquet_failed(error, &self.path, "write"))
            }
            Writer::Closed => Ok(()),
        }
    }
}

fn properties(options: ParquetOptions) -> WriterProperties {
    WriterProperties::builder().set_compression(options.compression.into()).build()
}

fn encode_failed(error: ArrowError, path: &Path, format: &'static str) -> ConnectError {
    ConnectError::Encode { path: path.to_owned(), format, message: error.to_string() }
}

fn parquet_failed(error: ParquetError, path: &Path, action: &'static str) -> ConnectError {
    match error {
        ParquetError::External(source) => {
            ConnectError::Io { action, path: path.to_owned(), source: std::io::Error::other(source) }
        }
        error => {
            ConnectError::Encode { path: path.to_owned(), format: "parquet", message: error.to_string() }
        }
    }
}

fn has_unprintable_map(field: &Field) -> bool {
    match field.data_type() {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => *pair[0].data_type() != DataType::Utf8 || has_unprintable_map(&pair[1]),
            _ => false,
        },
        DataType::List(item) => has_unprintable_map(item),
        DataType::Struct(fields) => fields.iter().any(|field| has_unprintable_map(field)),
        _ => false,
    }
}

impl From<crate::format::ParquetCodec> for ParquetCompression {
    fn from(codec: crate::format::ParquetCodec) -> ParquetCompression {
        use crate::format::ParquetCodec::*;
        match codec {
            None => ParquetCompression::UNCOMPRESSED,
            Snappy => ParquetCompression::SNAPPY,
            Gzip => ParquetCompression::GZIP(Default::default()),
            Zstd => ParquetCompression::ZSTD(Default::default()),
            Lz4 => ParquetCompression::LZ4_RAW,
        }
    }
}

#[cfg(test)]
mod tests;
