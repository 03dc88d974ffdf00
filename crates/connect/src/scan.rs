use std::sync::Arc;

use arrow::array::RecordBatch;
use laxity_graph::{EventClock, ProcessingTime};

use crate::{ConnectError, TableSpec};

/// What a query asks of a table. Scans of one table are shared between queries of one engine.
#[derive(Clone, Debug)]
pub struct ScanSpec {
    /// The table.
    pub table: Arc<TableSpec>,
    /// Physical columns that the query needs, ascending. Its source operator sees just these.
    pub columns: Vec<usize>,
}

/// An open table, read in pieces. Polled by one I/O thread; must not sleep or block on anything but a
/// local file.
pub trait Scan: Send {
    /// The next thing to do. `now` is the driver's clock.
    ///
    /// # Errors
    /// When the table as a whole cannot be read on. The scan is then over.
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError>;

    /// How event time lies on the clock, where the source paces its rows. Known from the first batch on.
    fn event_clock(&self) -> Option<EventClock> {
        None
    }

    /// Rows put aside as dead letters so far.
    fn dead_rows(&self) -> u64 {
        0
    }

    /// Part of a bounded input read so far, 0 to 1. `None` if the input has no end.
    fn progress(&self) -> Option<f64> {
        None
    }
}

/// Answer of [`Scan::poll`].
#[derive(Debug)]
pub enum ScanEvent {
    /// Rows.
    Batch(ScannedBatch),
    /// Nothing is due before this instant.
    NotBefore(ProcessingTime),
    /// The input has ended.
    End,
}

/// Rows with the instant at which they were due.
#[derive(Clone, Debug)]
pub struct ScannedBatch {
    /// The columns asked for, in that order.
    pub rows: RecordBatch,
    /// The *intended* arrival of the last row: latency is counted from here, so that a slow reader cannot
    /// hide its own delay. Equal to the poll's `now` where the source has no pace of its own.
    pub arrival: ProcessingTime,
}
