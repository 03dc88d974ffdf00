//! Sources, sinks and formats: everything that touches files.
//!
//! A [`Scan`] is polled by an I/O thread and never sleeps itself; a [`Sink`] is written by one. Decisions
//! about order and pace across queries are the engine's. Start with [`TableSpec`], then [`open_scan`] and
//! [`open_sink`]. The options of tables are in `OPTIONS.md`, beside this crate's manifest.
//!
//! ```
//! use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
//! use arrow::datatypes::{DataType, Field, Schema};
//! use laxity_connect::{ScanEnvironment, ScanEvent, ScanSpec, TableSpec, open_scan};
//! use laxity_graph::{EventTime, ProcessingTime};
//!
//! let options = [("connector", "datagen"), ("rows-per-second", "1000"), ("number-of-rows", "5")];
//! let table = Arc::new(TableSpec {
//!     name: "numbers".to_owned(),
//!     schema: Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)])),
//!     options: BTreeMap::from(options.map(|(key, value)| (key.to_owned(), value.to_owned()))),
//!     base: PathBuf::new(),
//! });
//! let spec = ScanSpec { table, columns: vec![0] };
//! let mut scan = open_scan(&spec, &ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0)))?;
//!
//! // Rows 0, 1 and 2 are due in the first 2 ms; the next one after 3 ms.
//! let ms = 1_000_000;
//! let ScanEvent::Batch(batch) = scan.poll(ProcessingTime(2 * ms))? else { panic!() };
//! assert_eq!((batch.rows.num_rows(), batch.arrival), (3, ProcessingTime(2 * ms)));
//! assert!(matches!(scan.poll(ProcessingTime(2 * ms))?, ScanEvent::NotBefore(at) if at == ProcessingTime(3 * ms)));
//! # Ok::<(), laxity_connect::ConnectError>(())
//! ```

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
