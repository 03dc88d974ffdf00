use arrow::datatypes::Schema;

use crate::csv::{CsvOptions, unsupported_column};
use crate::options::OptionReader;
use crate::{OptionError, TableSpec};

/// The option 'format' with its own options.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    Csv(CsvOptions),
    Json(JsonOptions),
    Parquet(ParquetOptions),
}

/// How JSON rows are written. Reading takes both timestamp formats whatever is set.
#[derive(Clone, Debug)]
pub(crate) struct JsonOptions {
    pub iso_timestamps: bool,
    /// Leave null fields out when writing.
    pub ignore_nulls: bool,
    pub ignore_parse_errors: Option<bool>,
    pub bad_field: BadField,
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
        Ok(options.choice("laxity.bad-field", &choices)?.unwrap_or(BadField::Dead))
    }
}

/// How Parquet is written. Reading takes what the file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParquetOptions {
    pub compression: ParquetCodec,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ParquetCodec {
    None,
    Snappy,
    Gzip,
    Zstd,
    Lz4,
}

#[derive(Clone, Copy)]
enum FormatName {
    Csv,
    Json,
    Parquet,
}

impl Format {
    /// Reads the options and checks that the format can hold the table's columns.
    pub(crate) fn read(table: &TableSpec, options: &OptionReader<'_>) -> Result<Format, OptionError> {
        let choices =
            [("csv", FormatName::Csv), ("json", FormatName::Json), ("parquet", FormatName::Parquet)];
        match options.required_choice("format", &choices)? {
            FormatName::Csv => {
                no_nested_columns(&table.schema, options)?;
                Ok(Format::Csv(CsvOptions::read(options)?))
            }
            FormatName::Json => Ok(Format::Json(JsonOptions::read(options)?)),
            FormatName::Parquet => Ok(Format::Parquet(ParquetOptions::read(options)?)),
        }
    }

    /// `*.ignore-parse-errors` as given.
    pub(crate) fn ignore_parse_errors(&self) -> Option<bool> {
        match self {
            Format::Csv(csv) => csv.ignore_parse_errors,
            Format::Json(json) => json.ignore_parse_errors,
            Format::Parquet(_) => None,
        }
    }

    pub(crate) fn extension(&self) -> &'static str {
        match self {
            Format::Csv(_) => "csv",
            Format::Json(_) => "json",
            Format::Parquet(_) => "parquet",
        }
    }
}

impl JsonOptions {
    fn read(options: &OptionReader<'_>) -> Result<JsonOptions, OptionError> {
        let formats = [("SQL", false), ("ISO-8601", true)];
        Ok(JsonOptions {
            iso_timestamps: options.choice("json.timestamp-format.standard", &formats)?.unwrap_or(false),
            ignore_nulls: options.boolean("json.encode.ignore-null-fields")?.unwrap_or(false),
            ignore_parse_errors: options.boolean("json.ignore-parse-errors")?,
            bad_field: BadField::read(options)?,
        })
    }
}

impl ParquetOptions {
    fn read(options: &OptionReader<'_>) -> Result<ParquetOptions, OptionError> {
        let codecs = [
            ("UNCOMPRESSED", ParquetCodec::None),
            ("SNAPPY", ParquetCodec::Snappy),
            ("GZIP", ParquetCodec::Gzip),
            ("ZSTD", ParquetCodec::Zstd),
            ("LZ4_RAW", ParquetCodec::Lz4),
        ];
        // Flink's default.
        let compression = options.choice("parquet.compression", &codecs)?.unwrap_or(ParquetCodec::Snappy);
        Ok(ParquetOptions { compression })
    }
}

fn no_nested_columns(schema: &Schema, options: &OptionReader<'_>) -> Result<(), OptionError> {
    match unsupported_column(schema) {
        None => Ok(()),
        Some(field) => Err(options.error(
            "format",
            format!(
                "csv cannot hold column '{}' of type {}: its fields are plain text; use 'json' or 'parquet'",
                field.name(),
                field.data_type()
            ),
        )),
    }
}
