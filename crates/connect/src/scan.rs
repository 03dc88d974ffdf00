//! Tables that are read, as the engine sees them: what a connector must offer, and how a scan is opened, or goes on
//! after a restart. Time is an argument, so that a simulator can drive a scan too.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use laxity_graph::{EventClock, EventTime, ProcessingTime};

use crate::options::OptionReader;
use crate::{ConnectError, FilesRead, OptionError, SourceConnector, TableSpec, Waiting, Waker, connector};

/// What a query asks of a table. Scans of one table are shared between queries of one engine.
#[derive(Clone, Debug)]
pub struct ScanSpec {
    /// The table.
    pub table: Arc<TableSpec>,
    /// Physical columns that the query needs, ascending. Its source operator sees just these.
    pub columns: Vec<usize>,
}

/// An open table, read in pieces. Used by one thread at a time, and never blocks on anything but a local file:
/// what may block for longer is read by a thread of its own, and the scan answers that it waits.
///
/// Rows can be decoded before they are due, by [`prepare`](Scan::prepare); what is given out, and when, never
/// depends on that.
pub trait Scan: Send {
    /// The next thing to do. `now` is the driver's clock. Rows that nobody prepared are decoded first.
    ///
    /// # Errors
    /// When the table as a whole cannot be read on. The scan is then over.
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError>;

    /// Does one piece of the work that can be done before rows are due: about a quarter of a millisecond, and
    /// never much over one. What it may do ahead is bounded, in rows and bytes.
    ///
    /// # Errors
    /// As `poll`. The scans of this crate keep a fault until the rows before it were polled.
    fn prepare(&mut self) -> Result<Preparation, ConnectError> {
        Ok(Preparation::Ready)
    }

    /// Rows due up to this instant are decoded: when the next piece will be needed, the deadline of
    /// [`prepare`](Scan::prepare). `None` if nothing is left to be prepared, and always where rows have no
    /// instant of their own.
    fn prepared_until(&self) -> Option<ProcessingTime> {
        None
    }

    /// Asks for the memory behind it that its next [`poll`](Scan::poll) will touch ([`laxity_graph::fetch`]).
    fn fetch(&self) {}

    /// True if the table can be opened once more and gives the same rows from the start; a pipe cannot.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Behind the rows given out so far, for another scan to go on from by [`ScanEnvironment::resume`]. `None` where that
    /// is counted in rows.
    fn position(&self) -> Option<ScanPosition> {
        None
    }

    /// Records of the input up to where it is, those included that were put aside: a place that a scan of other columns can
    /// go on from, by [`ScanEnvironment::behind`]. What comes before the first row to be given out is read, if need be.
    /// `None` where nothing is ever put aside, and rows say it, or a [position](Scan::position) does.
    fn records(&mut self) -> Option<u64> {
        None
    }

    /// How event time lies on the clock, where the source paces its rows. Known from the first batch on.
    fn event_clock(&self) -> Option<EventClock> {
        None
    }

    /// Bytes that the scan holds: text read ahead, decoded rows not given out yet, and those kept for later passes.
    fn held_bytes(&self) -> u64 {
        0
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
    /// The next row has not come from outside yet. The [`Waker`] is called when it may be there.
    Waiting,
    /// The input has ended.
    End,
}

/// Answer of [`Scan::prepare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Nothing to do until rows were taken.
    Ready,
    /// Call again: there is more to do ahead.
    More,
    /// Waits for bytes from outside. The [`Waker`] is called when they may be there.
    Waiting,
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
#[derive(Clone, Debug)]
pub struct ScanEnvironment {
    /// The instant at which the first row of a paced source is due, also for a scan that skips rows: scans of
    /// one table that were opened with the same `start` offer the same row at the same instant.
    pub start: ProcessingTime,
    /// The wall clock at `start`: what `datagen` stamps its rows with.
    pub start_wall: EventTime,
    /// Where it begins instead of with the first record, for a table whose scans tell [`Scan::records`].
    pub behind: Option<RecordPlace>,
    /// Rows behind that not delivered, counted as delivered rows: for a reader that takes over where another one was.
    /// Both must ask for the same columns, because a value is only checked where it is read. Such a scan
    /// counts dead rows but leaves the dead-letter file to the one it follows.
    pub skip_rows: u64,
    /// Where to go on instead of beginning, for a table that has positions.
    pub resume: Option<ScanPosition>,
    /// Where a restored query had come to; `None` of one that begins.
    pub restored: Option<RestoredScan>,
    /// Called when a scan that waited for bytes from outside may go on.
    pub waker: Waker,
    /// Where the scan says that it waits for somebody who is away.
    pub waiting: Waiting,
}

/// A place among the records of a table, for a scan of other columns than those of the one that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// Records before it, which are no matter of this scan: neither rows nor dead rows.
    pub records: u64,
    /// The time of the rows that are due at [`ScanEnvironment::start`], where the table has a pace of its own and another
    /// scan of it has found that out.
    pub due_at_start: Option<EventTime>,
}

/// How far a table had been read by a process before this one, by the one of its readers that had come the least far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoredScan {
    /// The number of the first row, behind [`ScanEnvironment::behind`], that is due now, at [`ScanEnvironment::start`], in a table that has a pace of its own.
    pub rows: u64,
    /// Rows put aside before, whose letters are written.
    pub dead_rows: u64,
}

/// A place in a table that comes in parts: behind the rows given out so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPosition {
    /// The next one's, by topic and partition. A part that is not among them begins at its beginning.
    pub offsets: BTreeMap<(String, i32), i64>,
    /// These parts by their numbers in [`SplitColumn`](crate::SplitColumn), which a scan that goes on from here gives them again.
    pub numbered: Arc<Vec<(String, i32)>>,
    /// Of files that are followed. One that is not among them is new.
    pub files: FilesRead,
    /// Rows put aside before it.
    pub dead_rows: u64,
}

impl ScanPosition {
    /// The offsets by the numbers of their parts.
    pub fn offsets_by_number(&self) -> impl Iterator<Item = (&(String, i32), i64)> {
        self.numbered.iter().filter_map(|part| Some((part, *self.offsets.get(part)?)))
    }
}

impl ScanEnvironment {
    /// Records that are left out whatever is read of them.
    pub(crate) fn records_before(&self) -> u64 {
        self.behind.map_or(0, |place| place.records)
    }

    /// The row that is due at `start`.
    pub(crate) fn first_due_row(&self) -> u64 {
        self.restored.map_or(0, |restored| restored.rows)
    }

    /// Whether bad rows are this scan's to tell of: it follows no other of this process.
    pub(crate) fn leads(&self) -> bool {
        self.skip_rows == self.first_due_row()
    }

    /// A scan from the first row on, paced from `start`.
    pub fn new(start: ProcessingTime, start_wall: EventTime) -> ScanEnvironment {
        ScanEnvironment {
            start,
            start_wall,
            behind: None,
            skip_rows: 0,
            waiting: Waiting::default(),
            resume: None,
            restored: None,
            waker: Waker::default(),
        }
    }
}

/// Opens a table for reading.
///
/// # Errors
/// When an option is wrong or a file is missing or not readable. Faults inside files come from
/// [`Scan::poll`].
pub fn open_scan(spec: &ScanSpec, env: &ScanEnvironment) -> Result<Box<dyn Scan>, ConnectError> {
    let options = OptionReader::new(&spec.table);
    source_of(&options)?.open(spec, env, &options)
}

/// Checks the WITH clause of a table that a query reads, without touching files.
///
/// # Errors
/// Names the first option that is missing, unknown or malformed, with the valid choices.
pub fn validate_source(table: &TableSpec) -> Result<(), OptionError> {
    let options = OptionReader::new(table);
    source_of(&options)?.validate(table, &options)
}

/// Whether a table that can be read ends: all but replays for ever, topics and generators without a bound.
pub fn is_bounded(table: &TableSpec) -> bool {
    source_of(&OptionReader::new(table)).is_ok_and(|source| source.is_bounded(table))
}

/// Whether a query that goes on from a checkpoint can go on in the midst of the table: see [`SourceConnector::is_read_on`].
pub fn is_read_on(table: &TableSpec) -> bool {
    source_of(&OptionReader::new(table)).map_or(true, |source| source.is_read_on(table))
}

/// About how long opening the table takes: see [`SourceConnector::opening_ns`].
pub fn opening_ns(table: &TableSpec) -> u64 {
    source_of(&OptionReader::new(table)).map_or(0, |source| source.opening_ns())
}

fn source_of(options: &OptionReader<'_>) -> Result<&'static dyn SourceConnector, OptionError> {
    let refused = "the table can be written but not read; sources are";
    connector::chosen(options, |connector| connector.source(), refused)
}
