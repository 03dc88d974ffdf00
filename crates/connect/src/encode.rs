use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::csv::{QuoteStyle, WriterBuilder as CsvWriterBuilder};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder as JsonWriterBuilder;
use arrow::json::writer::LineDelimited;

use crate::csv::CsvOptions;
use crate::format::JsonOptions;
use crate::zone::with_offset_zones;

/// Flink's `SQL` and `ISO-8601` timestamp formats; the fraction is left out where it is zero.
const SQL_TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";
const ISO_TIMESTAMP: &str = "%Y-%m-%dT%H:%M:%S%.f";

/// Turns rows into lines of text.
pub(crate) enum LineEncoder {
    Csv(CsvOptions, SchemaRef),
    Json(JsonOptions, SchemaRef),
}

impl LineEncoder {
    pub(crate) fn csv(options: CsvOptions, schema: &Schema) -> LineEncoder {
        LineEncoder::Csv(options, with_offset_zones(schema))
    }

    pub(crate) fn json(options: JsonOptions, schema: &Schema) -> LineEncoder {
        LineEncoder::Json(options, with_offset_zones(schema))
    }

    /// What stands before the first row.
    pub(crate) fn header(&self) -> Result<Vec<u8>, ArrowError> {
        match self {
            LineEncoder::Csv(options, schema) if options.header => {
                csv_lines(options, &RecordBatch::new_empty(schema.clone()), true)
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(crate) fn encode(&self, rows: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        match self {
            LineEncoder::Csv(options, schema) => csv_lines(options, &readable(rows, schema)?, false),
            LineEncoder::Json(options, schema) => json_lines(options, &readable(rows, schema)?),
        }
    }
}

fn readable(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = rows.columns().iter().zip(schema.fields()).map(|(column, field)| {
        match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast(column, field.data_type()),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let size = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &size)
}

fn csv_lines(options: &CsvOptions, rows: &RecordBatch, header: bool) -> Result<Vec<u8>, ArrowError> {
    let mut builder = CsvWriterBuilder::new()
        .with_header(header)
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
    let mut text = Vec::new();
    builder.build(&mut text).write(rows)?;
    Ok(text)
}

fn json_lines(options: &JsonOptions, rows: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let timestamp = if options.iso_timestamps { ISO_TIMESTAMP } else { SQL_TIMESTAMP };
    let mut text = Vec::new();
    let mut writer = JsonWriterBuilder::new()
        .with_explicit_nulls(!options.ignore_nulls)
        .with_timestamp_format(timestamp.to_owned())
        .with_timestamp_tz_format(format!("{timestamp}Z"))
        .build::<_, LineDelimited>(&mut text);
    writer.write(rows)?;
    writer.finish()?;
    drop(writer);
    Ok(text)
}
