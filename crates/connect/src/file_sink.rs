use std::path::PathBuf;

use arrow::datatypes::{DataType, Field};

use crate::compression::Compression;
use crate::encode::LineEncoder;
use crate::format::Format;
use crate::options::OptionReader;
use crate::parquet_encoder::ParquetEncoder;
use crate::root::keep_within;
use crate::stream::may_block;
use crate::{ConnectError, Encoder, OpenSink, OptionError, SinkEnvironment, TableSpec, filesystem, output};

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
/// for each writer. A pipe or a device is never a folder.
pub(crate) fn open(
    table: &TableSpec,
    env: &SinkEnvironment,
    options: &OptionReader<'_>,
) -> Result<OpenSink, ConnectError> {
    let SinkOptions { path, format, compression } = SinkOptions::read(table, options)?;
    let kind = output::kind(&path);
    let is_folder = match kind {
        Some(kind) if may_block(kind) => false,
        kind => path.extension().is_none() || kind.is_some_and(|kind| kind.is_dir()),
    };
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
    keep_within(options, "path", &path)?;
    let encoder: Box<dyn Encoder> = match format {
        Format::Csv(csv) => Box::new(LineEncoder::csv(&csv, &table.schema, compression, path.clone())?),
        Format::Json(json) => Box::new(LineEncoder::json(&json, &table.schema, compression, path.clone())?),
        Format::Parquet(parquet) => {
            Box::new(ParquetEncoder::new(parquet, table.schema.clone(), path.clone())?)
        }
    };
    let (output, may_stall) = output::open(path, |reason| options.error("path", reason))?;
    Ok(OpenSink { encoder, output: Some(output), may_stall })
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

#[cfg(test)]
mod tests;
