//! Sources, sinks and formats: everything that touches files.
//!
//! A [`Scan`] is polled by an I/O thread and never sleeps itself; a [`Sink`] is written by one. Decisions
//! about order and pace across queries are the engine's. Start with [`TableSpec`].

mod scan;
mod sink;
mod table;

pub use scan::{Scan, ScanEvent, ScanSpec, ScannedBatch};
pub use sink::{Sink, SinkSpec};
pub use table::{ConnectError, OptionError, TableSpec};
