//! `parquet` as a format, and its writing half; reading is in `parquet_file.rs`. Unlike lines of text, a file cannot be
//! read before it is complete.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression as ParquetCompression;
use parquet::file::properties::WriterProperties;

use crate::compression::Compression;
use crate::container::Container;
use crate::format::Format;
use crate::options::OptionReader;
use crate::parquet_file::ParquetFile;
use crate::{ConnectError, Encoder, OptionError};

/// How Parquet is written. Reading takes what the file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParquetOptions {
    compression: ParquetCodec,
}

#[derive(Clone, Copy, Debug)]
enum ParquetCodec {
    None,
    Snappy,
    Gzip,
    Zstd,
    Lz4,
}

pub(crate) fn read_format(
    _schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    let codecs = [
        ("UNCOMPRESSED", ParquetCodec::None),
        ("SNAPPY", ParquetCodec::Snappy),
        ("GZIP", ParquetCodec::Gzip),
        ("ZSTD", ParquetCodec::Zstd),
        ("LZ4_RAW", ParquetCodec::Lz4),
    ];
    // Flink's default.
    let compression = options.choice("parquet.compression", &codecs)?.unwrap_or(ParquetCodec::Snappy);
    Ok(Arc::new(ParquetOptions { compression }))
}

impl Format for ParquetOptions {
    fn extension(&self) -> &'static str {
        "parquet"
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
        Ok(Box::new(ParquetFile::open(path, file, declared, columns, bytes_read)?))
    }

    fn file_encoder(
        &self,
        schema: SchemaRef,
        _is_new: bool,
        _compression: Compression,
        path: PathBuf,
    ) -> Result<Box<dyn Encoder>, ConnectError> {
        Ok(Box::new(ParquetEncoder::new(*self, schema, path)?))
    }
}

/// Rows of a Parquet file held back until they fill a row group of about this size.
const ROW_GROUP_BYTES: usize = 16 << 20;

/// Makes a Parquet file of rows. Its bytes come when a row group is full, and can be read once the footer is there.
pub(crate) struct ParquetEncoder {
    /// Names the output in errors.
    path: PathBuf,
    schema: SchemaRef,
    /// Writes to memory that is emptied after each call; offsets in the footer are counted apart from it.
    writer: ArrowWriter<Vec<u8>>,
}

impl ParquetEncoder {
    /// # Errors
    /// If Parquet cannot hold a column.
    pub(crate) fn new(
        options: ParquetOptions,
        schema: SchemaRef,
        path: PathBuf,
    ) -> Result<ParquetEncoder, ConnectError> {
        let properties = WriterProperties::builder().set_compression(options.compression.into()).build();
        let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))
            .map_err(|error| failed(&path, error))?;
        Ok(ParquetEncoder { path, schema, writer })
    }
}

impl Encoder for ParquetEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        // The rows' own schema may differ in what a file does not care for, such as metadata.
        let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &size)
            .map_err(|error| failed(&self.path, error))?;
        self.writer.write(&rows).map_err(|error| failed(&self.path, error))?;
        if self.writer.in_progress_size() > ROW_GROUP_BYTES {
            self.writer.flush().map_err(|error| failed(&self.path, error))?;
            out.append(self.writer.inner_mut());
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        self.writer.finish().map_err(|error| failed(&self.path, error))?;
        out.append(self.writer.inner_mut());
        Ok(())
    }
}

fn failed(path: &Path, error: impl ToString) -> ConnectError {
    ConnectError::Encode { path: path.to_owned(), format: "parquet", message: error.to_string() }
}

impl From<ParquetCodec> for ParquetCompression {
    fn from(codec: ParquetCodec) -> ParquetCompression {
        match codec {
            ParquetCodec::None => ParquetCompression::UNCOMPRESSED,
            ParquetCodec::Snappy => ParquetCompression::SNAPPY,
            ParquetCodec::Gzip => ParquetCompression::GZIP(Default::default()),
            ParquetCodec::Zstd => ParquetCompression::ZSTD(Default::default()),
            ParquetCodec::Lz4 => ParquetCompression::LZ4_RAW,
        }
    }
}
