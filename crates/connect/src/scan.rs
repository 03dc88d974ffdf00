use std::sync::Arc;

use arrow::array::RecordBatch;
use laxity_graph::{EventClock, EventTime, ProcessingTime};

use crate::options::OptionReader;
use crate::{ConnectError, OptionError, TableSpec, datagen, filesystem};

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

/// Where and when a scan starts.
#[derive(Clone, Copy, Debug)]
pub struct ScanEnvironment {
    /// The instant at which the first row of a paced source is due, also for a scan that skips rows: scans of
    /// one table that were opened with the same `start` offer the same row at the same instant.
    pub start: ProcessingTime,
    /// The wall clock at `start`: what `datagen` stamps its rows with.
    pub start_wall: EventTime,
    /// Rows not delivered, counted as delivered rows: for a reader that takes over where another one was.
    /// Both must ask for the same columns, because a value is only checked where it is read. Such a scan
    /// counts dead rows but leaves the dead-letter file to the one it follows.
    pub skip_rows: u64,
}

impl ScanEnvironment {
    /// A scan from the first row on, paced from `start`.
    pub fn new(start: ProcessingTime, start_wall: EventTime) -> ScanEnvironment {
        ScanEnvironment { start, start_wall, skip_rows: 0 }
    }
}

/// Opens a table for reading.
///
/// # Errors
/// When an option is wrong or a file is missing or not readable. Faults inside files come from
/// [`Scan::poll`].
pub fn open_scan(spec: &ScanSpec, env: &ScanEnvironment) -> Result<Box<dyn Scan>, ConnectError> {
    let options = OptionReader::new(&spec.table);
    match SourceConnector::read(&options)? {
        SourceConnector::Filesystem => filesystem::open_scan(spec, env, &options),
        SourceConnector::Datagen => datagen::open_scan(spec, env, &options),
    }
}

/// Checks the WITH clause of a table that a query reads, without touching files.
///
/// # Errors
/// Names the first option that is missing, unknown or malformed, with the valid choices.
pub fn validate_source(table: &TableSpec) -> Result<(), OptionError> {
    let options = OptionReader::new(table);
    match SourceConnector::read(&options)? {
        SourceConnector::Filesystem => filesystem::validate_source(table, &options),
        SourceConnector::Datagen => datagen::validate(table, &options),
    }
}

#[derive(Clone, Copy)]
enum SourceConnector {
    Filesystem,
    Datagen,
}

impl SourceConnector {
    fn read(options: &OptionReader<'_>) -> Result<SourceConnector, OptionError> {
        let choices = [("filesystem", SourceConnector::Filesystem), ("datagen", SourceConnector::Datagen)];
        options.required_choice("connector", &choices).map_err(|error| match options.text("connector") {
            Some("print" | "blackhole") => options.error(
                "connector",
                "the table can be written but not read; sources are 'filesystem' and 'datagen'",
            ),
            _ => error,
        })
    }
}
