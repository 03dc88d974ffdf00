//! CSV to Arrow. Rows are split first and columns parsed afterwards, field by field, so that a bad row costs
//! itself alone and its reason names the column. Start with [`CsvDecoder`].

mod column;
mod record;
mod split;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema, SchemaRef};

use self::split::{Split, SplitRecord, Splitter};
use crate::PIECE_ROWS;
use crate::compression::Compression;
use crate::dead_letter::BadRow;
use crate::encode::{LineEncoder, LineRecords};
use crate::format::{BadField, Format};
use crate::options::OptionReader;
use crate::record::{RecordDecoder, RecordEncoder};
use crate::text_file::{Decode, Decoded};
use crate::{ConnectError, Encoder, OptionError};

pub(crate) use self::column::parse_column;
use self::column::unsupported_column;

/// How rows are written in the file.
#[derive(Clone, Debug)]
pub(crate) struct CsvOptions {
    pub delimiter: u8,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    pub null_literal: Option<String>,
    pub comments: bool,
    pub header: bool,
    /// `csv.ignore-parse-errors`, where given: whether a bad row is put aside, or ends the scan.
    pub ignore_parse_errors: Option<bool>,
    pub bad_field: BadField,
}

impl CsvOptions {
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<CsvOptions, OptionError> {
        let delimiter = options.character("csv.field-delimiter")?.unwrap_or(b',');
        let quote = options.character("csv.quote-character")?;
        let quote = match options.boolean("csv.disable-quote-character")?.unwrap_or(false) {
            true if quote.is_some() => {
                return Err(options.error("csv.quote-character", "the quote character is disabled"));
            }
            true => None,
            false => Some(quote.unwrap_or(b'"')),
        };
        let escape = options.character("csv.escape-character")?;
        if quote == Some(delimiter) || escape == Some(delimiter) {
            return Err(options.error("csv.field-delimiter", "also the quote or escape character"));
        }
        let scientific = "csv.write-bigdecimal-in-scientific-notation";
        if options.boolean(scientific)? == Some(true) {
            return Err(
                options.error(scientific, "'true' is not supported: a DECIMAL is written in plain digits")
            );
        }
        Ok(CsvOptions {
            delimiter,
            quote,
            escape,
            null_literal: options.text("csv.null-literal").map(str::to_owned),
            comments: options.boolean("csv.allow-comments")?.unwrap_or(false),
            header: options.boolean("csv.header")?.unwrap_or(false),
            ignore_parse_errors: options.boolean("csv.ignore-parse-errors")?,
            bad_field: BadField::read(options)?,
        })
    }
}

pub(crate) fn read_format(
    schema: &Schema,
    options: &OptionReader<'_>,
) -> Result<Arc<dyn Format>, OptionError> {
    if let Some(field) = unsupported_column(schema) {
        let message = format!(
            "csv cannot hold column '{}' of type {}: its fields are plain text; use 'json' or 'parquet'",
            field.name(),
            field.data_type()
        );
        return Err(options.error("format", message));
    }
    Ok(Arc::new(CsvOptions::read(options)?))
}

impl Format for CsvOptions {
    fn extension(&self) -> &'static str {
        "csv"
    }

    fn ignore_parse_errors(&self) -> Option<bool> {
        self.ignore_parse_errors
    }

    fn line_decoder(&self, schema: &SchemaRef, columns: &[usize]) -> Option<Box<dyn Decode>> {
        Some(Box::new(CsvDecoder::new(self.clone(), Arc::clone(schema), columns.to_vec())))
    }

    fn file_encoder(
        &self,
        schema: SchemaRef,
        is_new: bool,
        compression: Compression,
        path: PathBuf,
    ) -> Result<Box<dyn Encoder>, ConnectError> {
        let options = CsvOptions { header: self.header && is_new, ..self.clone() };
        Ok(Box::new(LineEncoder::csv(&options, &schema, compression, path)?))
    }

    fn record_decoder(&self, schema: &SchemaRef, wanted: &SchemaRef) -> Box<dyn RecordDecoder> {
        let options = CsvOptions { header: false, comments: false, ..self.clone() };
        // No column of CSV is a ROW.
        let columns = wanted.fields().iter().map(|field| schema.index_of(field.name()).expect("one of them"));
        Box::new(CsvDecoder::new(options, Arc::clone(schema), columns.collect()))
    }

    fn record_encoder(&self, schema: &SchemaRef) -> Box<dyn RecordEncoder> {
        let options = CsvOptions { header: false, ..self.clone() };
        let encoder = LineEncoder::csv(&options, schema, Compression::None, PathBuf::new());
        Box::new(LineRecords::new(encoder.expect("nothing is packed"), true))
    }
}

/// Decodes CSV text into the columns asked for.
pub(crate) struct CsvDecoder {
    options: CsvOptions,
    /// Of all columns of the text.
    file_schema: SchemaRef,
    columns: Vec<usize>,
    schema: SchemaRef,
    splitter: Splitter,
    split: Split,
    header_expected: bool,
}

impl CsvDecoder {
    pub(crate) fn new(options: CsvOptions, file_schema: SchemaRef, columns: Vec<usize>) -> CsvDecoder {
        let fields: Vec<_> = columns.iter().map(|&column| file_schema.fields()[column].clone()).collect();
        CsvDecoder {
            splitter: Splitter::new(&options, file_schema.fields().len()),
            header_expected: options.header,
            schema: Arc::new(Schema::new(fields)),
            split: Split::default(),
            options,
            file_schema,
            columns,
        }
    }

    /// Columns are taken by position. A header that has their names in another order would silently swap
    /// them, so it is refused.
    fn check_header(&self, names: &[String]) -> Result<(), String> {
        let declared = self.file_schema.fields();
        for (index, field) in declared.iter().enumerate() {
            if names.get(index) == Some(field.name()) {
                continue;
            }
            if let Some(other) = names.iter().position(|name| name == field.name()) {
                return Err(format!(
                    "its header has '{}' as column {}, but the table declares it as column {}; columns are taken by position",
                    field.name(),
                    other + 1,
                    index + 1
                ));
            }
        }
        if names.len() != declared.len() {
            return Err(format!(
                "its header has {} columns, but the table declares {}",
                names.len(),
                declared.len()
            ));
        }
        Ok(())
    }

    fn take_header(&mut self, text: &[u8], last: bool) -> Result<Option<Decoded>, String> {
        let mut at = 0;
        let mut lines = 0;
        loop {
            let mut split = Split::default();
            match self.splitter.record(&text[at..], last, usize::MAX, &mut split) {
                SplitRecord::Incomplete => return Ok(None),
                SplitRecord::Blank { bytes } => {
                    at += bytes;
                    lines += 1;
                    if at == text.len() {
                        break;
                    }
                }
                SplitRecord::Row { bytes, lines: more } | SplitRecord::Bad { bytes, lines: more, .. } => {
                    let names: Vec<String> = (0..split.fields())
                        .map(|field| {
                            String::from_utf8_lossy(split.field_at(&text[at..], field)).trim().to_owned()
                        })
                        .collect();
                    self.check_header(&names)?;
                    at += bytes;
                    lines += more;
                    self.header_expected = false;
                    break;
                }
            }
        }
        Ok(Some(Decoded { rows: None, bytes: at, lines }))
    }
}

impl Decode for CsvDecoder {
    fn decode(
        &mut self,
        text: &[u8],
        last: bool,
        first_line: u64,
        bad: &mut Vec<BadRow>,
    ) -> Result<Decoded, String> {
        if self.header_expected {
            return Ok(self.take_header(text, last)?.unwrap_or_default());
        }
        self.split.clear();
        let mut decoded = Decoded::default();
        let width = self.file_schema.fields().len();
        // By record without the fields of a row: rows before it.
        let mut broken = Vec::new();
        while self.split.rows() < PIECE_ROWS && decoded.bytes < text.len() {
            let line = first_line + decoded.lines;
            match self.splitter.next(text, decoded.bytes, last, line, &mut self.split) {
                SplitRecord::Incomplete => break,
                SplitRecord::Blank { bytes } => {
                    decoded.bytes += bytes;
                    decoded.lines += 1;
                }
                SplitRecord::Row { bytes, lines } => {
                    decoded.bytes += bytes;
                    decoded.lines += lines;
                }
                SplitRecord::Bad { bytes, lines, reason } => {
                    let raw = &text[decoded.bytes..decoded.bytes + bytes];
                    let record = self.split.rows() + broken.len();
                    bad.push(BadRow::new(line, reason.describe(width), raw).at(record));
                    broken.push(self.split.rows());
                    decoded.bytes += bytes;
                    decoded.lines += lines;
                }
            }
        }
        if self.split.rows() > 0 {
            let structural = bad.len();
            decoded.rows = self.parse(text, bad);
            for unfit in &mut bad[structural..] {
                unfit.record += broken.partition_point(|rows_before| *rows_before <= unfit.record);
            }
            if bad.len() > structural {
                bad.sort_by_key(|row| row.line);
            }
        }
        Ok(decoded)
    }

    fn start_file(&mut self, lines: u64) {
        self.header_expected = self.options.header && lines == 0;
    }

    fn format(&self) -> &'static str {
        "CSV"
    }
}

impl CsvDecoder {
    fn parse(&self, text: &[u8], bad: &mut Vec<BadRow>) -> Option<RecordBatch> {
        let rows = self.split.rows();
        // By row, the first column that is wrong.
        let mut faults: BTreeMap<usize, String> = BTreeMap::new();
        let null = self.options.null_literal.as_deref().map(str::as_bytes);
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter()
            .zip(self.schema.fields())
            .map(|(&column, field)| {
                column::parse_column(
                    field,
                    null,
                    rows,
                    |row| self.split.field(text, row, column),
                    &mut |row, reason| {
                        if self.options.bad_field == BadField::Dead || !field.is_nullable() {
                            faults.entry(row).or_insert(reason);
                        }
                    },
                )
            })
            .collect();
        let size = RecordBatchOptions::new().with_row_count(Some(rows));
        let good: BooleanArray = match faults.is_empty() {
            true => BooleanArray::new_null(0),
            false => (0..rows).map(|row| Some(!faults.contains_key(&row))).collect(),
        };
        for (&row, reason) in &faults {
            let (line, raw) = self.split.record(text, row);
            bad.push(BadRow::new(line, reason.clone(), raw).at(row));
        }
        // A NOT NULL column may hold nulls until the bad rows are gone.
        let nullable: Vec<_> =
            self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(nullable)), arrays, &size)
            .expect("columns are built from the schema, one value per row");
        let batch = match faults.is_empty() {
            true => batch,
            false => filter_record_batch(&batch, &good).expect("the mask has one value per row"),
        };
        let size = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), batch.columns().to_vec(), &size)
            .expect("rows with a null in a NOT NULL column were bad");
        (batch.num_rows() > 0).then_some(batch)
    }
}

#[cfg(test)]
mod tests;
