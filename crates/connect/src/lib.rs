//! Sources, sinks and formats: everything that touches files.
//!
//! A [`Scan`] is polled by an I/O thread and never sleeps itself; a [`Sink`] is written by one. Decisions
//! about order and pace across queries are the engine's. Start with [`TableSpec`], then [`open_scan`] and
//! [`open_sink`]; `docs` of the options are in `OPTIONS.md` beside this crate's manifest.

mod blackhole;
mod compression;
mod csv;
mod datagen;
mod dead_letter;
mod encode;
mod file_sink;
mod filesystem;
#[cfg(test)]
mod fixture;
mod format;
mod json;
mod options;
mod pace;
mod parquet_file;
mod print;
mod reader;
mod replay;
mod scan;
mod sink;
mod spread;
mod table;
mod text_file;
mod timestamp;
mod zone;

pub use options::ENGINE_OPTIONS;
pub use scan::{Scan, ScanEnvironment, ScanEvent, ScanSpec, ScannedBatch, open_scan, validate_source};
pub use sink::{Sink, SinkEnvironment, SinkSpec, open_sink, validate_sink};
pub use table::{ConnectError, OptionError, TableSpec};

/// Rows of a decoded batch at most: what the engine's operators are tuned for, and about half a megabyte of
/// text.
pub(crate) const MAX_BATCH_ROWS: usize = 8_192;
