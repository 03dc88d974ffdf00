//! The writing half of `filesystem`: which file or folder a query writes, and whether that can be cut back to what it
//! was at a checkpoint.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::compression::Compression;
use crate::format::{Direction, Format, file_format};
use crate::options::OptionReader;
use crate::partition::{self, PartitionColumn};
use crate::partition_sink::{
    MakeEncoder, OPEN_MAX, PartitionedEncoder, PartitionedOutput, Parts, Whole, number_after,
};
use crate::query_path::{self, QueryPath};
use crate::root::keep_within;
use crate::stream::may_block;
use crate::{
    ConnectError, Delivery, Encoder, OpenSink, OptionError, Output, SinkEnvironment, TableSpec, output,
};

struct SinkOptions {
    path: QueryPath,
    format: Arc<dyn Format>,
    compression: Option<Compression>,
    /// Of a folder, for NULL.
    default_name: String,
    /// Files of a folder are seen when they are complete, at the latest after so many bytes.
    rolls_at_bytes: Option<u64>,
}

/// Of 'sink.rolling-policy.file-size', Flink's.
const ROLLS_AT_BYTES: u64 = 128 << 20;

impl SinkOptions {
    fn read(options: &OptionReader<'_>) -> Result<SinkOptions, OptionError> {
        let path = QueryPath::read(options)?;
        let format = file_format(options, Direction::Write)?;
        let compression = Compression::read(options)?;
        if format.is_container() && matches!(compression, Some(Compression::Gzip | Compression::Zstd)) {
            let message = "the format is compressed inside; use 'parquet.compression' or 'avro.codec'";
            return Err(options.error("compression", message));
        }
        let default_name = partition::default_name(options)?;
        let rolls_at_bytes = rolling(options)?;
        options.finish()?;
        Ok(SinkOptions { path, format, compression, default_name, rolls_at_bytes })
    }
}

/// The rolling policy, where one is asked for.
fn rolling(options: &OptionReader<'_>) -> Result<Option<u64>, OptionError> {
    let key = "sink.rolling-policy.file-size";
    let size = options.bytes(key)?;
    if size == Some(0) {
        return Err(options.error(key, "must be more than zero"));
    }
    let age = options.duration("sink.rolling-policy.rollover-interval")?;
    // Files are completed at every checkpoint, so none is looked at in between.
    let check = options.duration("sink.rolling-policy.check-interval")?;
    let is_asked_for = size.is_some() || age.is_some() || check.is_some();
    Ok(is_asked_for.then(|| size.unwrap_or(ROLLS_AT_BYTES)))
}

pub(crate) fn validate(_table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
    SinkOptions::read(options).map(drop)
}

/// Files are cut back; pipes and devices are not.
pub(crate) fn delivery(options: &OptionReader<'_>) -> Delivery {
    let path = QueryPath::read(options).ok();
    match path.and_then(|path| output::kind(&path.of(""))).is_some_and(may_block) {
        true => Delivery::AtLeastOnce,
        false => Delivery::ExactlyOnce,
    }
}

/// Why a query with checkpoints cannot write such a table: its files cannot be cut back and written on.
fn cannot_be_cut(
    format: &dyn Format,
    compression: Compression,
    options: &OptionReader<'_>,
) -> Option<OptionError> {
    let ways = "a query with checkpoints writes a file that can be cut back, of lines and not compressed; give a folder, \
                whose files are then complete at each checkpoint, or leave out 'execution.checkpointing.interval'";
    if format.is_container() {
        let name = format.extension();
        return Some(options.error("format", format!("{name} is complete with its end alone; {ways}")));
    }
    (compression != Compression::None)
        .then(|| options.error("compression", format!("a compressed file is written in one go; {ways}")))
}

/// A 'path' that ends in an extension is the file; another one is a folder, as in Flink, and gets a part file
/// for each writer. A pipe or a device is never a folder. A path with the query's name in it is made when it gets rows.
pub(crate) fn open(
    table: &TableSpec,
    env: &SinkEnvironment,
    options: &OptionReader<'_>,
) -> Result<OpenSink, ConnectError> {
    if table.schema.fields().iter().any(|field| PartitionColumn::place(field).is_some()) {
        return open_partitioned(table, env, options, OPEN_MAX);
    }
    let SinkOptions { path, format, compression, rolls_at_bytes, .. } = SinkOptions::read(options)?;
    let is_each_own = path.is_each_own();
    let path = path.of(&env.query);
    let kind = output::kind(&path);
    let is_folder = match kind {
        Some(kind) if may_block(kind) => false,
        kind => path.extension().is_none() || kind.is_some_and(|kind| kind.is_dir()),
    };
    if rolls_at_bytes.is_some() && !is_folder {
        let message = "a file; 'sink.rolling-policy.*' is for a folder, which gets one file after the other";
        return Err(options.error("path", message).into());
    }
    let cannot_be_cut_back = format.is_container() || compression.is_some_and(|one| one != Compression::None);
    if is_folder && (rolls_at_bytes.is_some() || env.is_checkpointed && cannot_be_cut_back) {
        return open_partitioned(table, env, options, OPEN_MAX);
    }
    if !is_folder && env.part > 0 {
        let message = match env.is_checkpointed {
            true => {
                "another query writes to this file, and one with checkpoints wants a file of its own; give a folder"
            }
            false => {
                "another table is written to this file; give a folder, where each gets a file of its own"
            }
        };
        return Err(options.error("path", message).into());
    }
    let compression = compression.unwrap_or_else(|| match is_folder {
        true => Compression::None,
        false => Compression::of_name(&path),
    });
    let path = match is_folder {
        true => path.join(format!("{}-0.{}{}", stem(env), format.extension(), compression.extension())),
        false => path,
    };
    keep_within(options, "path", &path)?;
    if env.is_checkpointed && !kind.is_some_and(may_block) {
        cannot_be_cut(&*format, compression, options).map_or(Ok(()), Err)?;
    }
    let stays_bytes = output::length_of(env.resume.as_ref()).unwrap_or(0);
    let encoder = format.file_encoder(table.schema.clone(), stays_bytes == 0, compression, path.clone())?;
    if is_each_own && !kind.is_some_and(may_block) {
        let encoder = Box::new(OfRows { encoder, has_rows: stays_bytes > 0 });
        let of = table.clone();
        let refuse = move |reason| OptionReader::new(&of).error("path", reason);
        let output = match stays_bytes {
            0 => output::open_when_written(path, refuse),
            _ => output::open(path, env.resume.as_ref(), refuse)?.0,
        };
        return Ok(OpenSink { encoder, output: Some(output), may_stall: false, serves_all: false });
    }
    let (output, may_stall) =
        output::open(path, env.resume.as_ref(), |reason| options.error("path", reason))?;
    // What is full before it is written waits for more rows, whosever they are, and a failed one spoils it. A file is cut
    // back to where one query stood.
    let serves_all = !format.is_container() && !is_each_own && !env.is_checkpointed;
    Ok(OpenSink { encoder, output: Some(output), may_stall, serves_all })
}

/// What the names of a writer's files begin with. One that is restored finds its own, whoever else writes there then.
fn stem(env: &SinkEnvironment) -> String {
    match env.is_checkpointed {
        true => format!("part-{}-{}", query_path::file_name(&env.query), env.part),
        false => format!("part-{}", env.part),
    }
}

/// Without rows there are no bytes, no header either.
struct OfRows {
    encoder: Box<dyn Encoder>,
    has_rows: bool,
}

impl Encoder for OfRows {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        self.has_rows |= rows.num_rows() > 0;
        self.encoder.encode(rows, out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if self.has_rows { self.encoder.finish(out) } else { Ok(()) }
    }
}

/// A folder for each value of the columns that the table is PARTITIONED BY, or one with file after file, with so many files
/// open at a time. Of a query with checkpoints, and where a rolling policy is asked for, they are seen when they are complete.
pub(crate) fn open_partitioned(
    table: &TableSpec,
    env: &SinkEnvironment,
    options: &OptionReader<'_>,
    open_max: usize,
) -> Result<OpenSink, ConnectError> {
    let SinkOptions { path, format, compression, default_name, rolls_at_bytes } = SinkOptions::read(options)?;
    let rolls_at_bytes = rolls_at_bytes.or(env.is_checkpointed.then_some(ROLLS_AT_BYTES));
    let path = path.of(&env.query);
    if output::kind(&path).is_some_and(|kind| !kind.is_dir()) {
        return Err(options.error("path", "a file; a table that is PARTITIONED BY is a folder").into());
    }
    keep_within(options, "path", &path)?;
    let compression = compression.unwrap_or(Compression::None);
    let extension = format!(".{}{}", format.extension(), compression.extension());
    let stem = stem(env);
    let can_continue = !format.is_container();
    let depth = table.schema.fields().iter().filter(|field| PartitionColumn::place(field).is_some()).count();
    let own = (format!("{stem}-"), extension.clone());
    let of = table.clone();
    let may_write = Box::new(move |path: &Path| Ok(keep_within(&OptionReader::new(&of), "path", path)?));
    let next = number_after(env.resume.as_ref());
    let whole = rolls_at_bytes.map(|_| Whole::new(env.is_checkpointed, next));
    let output =
        PartitionedOutput::new(path.clone(), depth, own, may_write, whole, env.resume.clone(), open_max)?;
    let make: MakeEncoder =
        Box::new(move |schema, is_new, path| format.file_encoder(schema, is_new, compression, path));
    let parts =
        Parts { folder: path, default_name, stem, extension, can_continue, rolls_at_bytes, next, make };
    let encoder = PartitionedEncoder::new(parts, &table.schema, open_max)?;
    let (encoder, output) = (Box::new(encoder), Some(Box::new(output) as Box<dyn Output>));
    Ok(OpenSink { encoder, output, may_stall: false, serves_all: false })
}

#[cfg(test)]
mod tests;
