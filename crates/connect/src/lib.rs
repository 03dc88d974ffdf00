//! Sources, sinks and formats: everything that touches files, and registries of schemas.
//!
//! What costs CPU and what may block are kept apart. A [`Scan`] decodes and an [`Encoder`] encodes wherever the
//! engine has time for that, in small pieces, and neither ever blocks; bytes that may be long in coming are
//! brought by a thread of the scan's own, and an [`Output`] takes bytes away on a thread that may block. Decisions
//! about order and pace across queries are the engine's. Start with [`TableSpec`], then [`open_scan`] and
//! [`open_sink`]. The options of tables are in `docs/connectors.md`.
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

mod avro;
mod base64_text;
mod blackhole;
mod claim;
mod compression;
mod connector;
mod container;
mod csv;
mod datagen;
mod dead_letter;
mod decimal;
mod encode;
mod file_column;
mod file_sink;
mod files_read;
mod filesystem;
#[cfg(test)]
mod fixture;
mod format;
mod json;
mod lookup;
mod metadata;
mod monitor;
mod nexmark;
mod numbering;
mod open_files;
mod options;
mod output;
mod pace;
mod parquet_encoder;
mod parquet_file;
mod partition;
mod partition_sink;
mod print;
mod protobuf;
mod query_path;
mod raw;
mod reader;
mod record;
mod recovery;
mod replay;
mod root;
mod scan;
mod sink;
mod spread;
mod stream;
mod table;
mod text_file;
mod timestamp;
mod waiting;
mod waker;
mod zone;

pub use claim::{InputClaim, OutputClaim};
pub use connector::{
    Connector, LookupConnector, MetadataKey, SinkConnector, SourceConnector, connector, register,
};
pub use dead_letter::{DeadLetterOptions, DeadLetters, LetterPlace, RefusedRows};
pub use file_column::FileMetadata;
pub use files_read::{FilePlace, FilesRead};
pub use format::{Direction, RecordFormat};
pub use lookup::{LookupFeed, TakeVersion, follow_table, validate_lookup};
pub use metadata::{FieldColumn, PrimaryKey, SplitColumn};
pub use options::{ENGINE_OPTIONS, OptionReader, is_secret};
pub use partition::PartitionColumn;
pub use record::{
    BadRecord, FieldWay, RECORDS_MAX, RecordDecoder, RecordEncoder, RecordSchemas, Records, SchemaFault,
};
pub use recovery::{Delivery, OutputPosition};
pub use root::ROOT_OPTION;
pub use scan::{
    Preparation, RecordPlace, RestoredScan, Scan, ScanEnvironment, ScanEvent, ScanPosition, ScanSpec,
    ScannedBatch, is_bounded, is_read_on, open_scan, opening_ns, validate_source,
};
pub use sink::{
    Encoder, OpenSink, Output, RestOfPrepare, SinkEnvironment, SinkSpec, committed_checkpoint, delivery,
    keeps_record, open_sink, validate_sink,
};
pub use table::{ConnectError, OptionError, TableSpec};
pub use waiting::{Wait, Waiting};
pub use waker::Waker;

/// Rows of a batch at most: what the engine's operators are tuned for.
pub(crate) const MAX_BATCH_ROWS: usize = 8_192;

/// About how long a generator takes to open, on a slow core: nothing is read.
pub(crate) const GENERATOR_OPENING_NS: u64 = 30_000;

/// Rows decoded at a time, at most: some 50 KB of text and a quarter of a millisecond. `examples/decode_speed.rs`
/// shows what that costs.
pub(crate) const PIECE_ROWS: usize = 1_024;
