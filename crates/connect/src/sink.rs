use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::options::OptionReader;
use crate::{ConnectError, OptionError, TableSpec, blackhole, file_sink, print};

/// Where a query writes.
#[derive(Clone, Debug)]
pub struct SinkSpec {
    /// The table. Rows arrive with its columns, in its order.
    pub table: Arc<TableSpec>,
}

/// An open output. Written by one thread.
pub trait Sink: Send {
    /// Writes rows. When it returns, the rows have left the program (written to the file, not necessarily
    /// synced to disk).
    ///
    /// # Errors
    /// When the world failed. Rows of this call may be partly written; the query is then stopped.
    fn write(&mut self, rows: &RecordBatch) -> Result<(), ConnectError>;

    /// Completes the output: footers, compression trailers. No write follows.
    ///
    /// # Errors
    /// As for `write`.
    fn close(&mut self) -> Result<(), ConnectError>;

    /// True if `write` neither blocks nor does I/O, so that a worker may call it directly.
    fn is_immediate(&self) -> bool {
        false
    }
}

/// Which of several writers of one table this is.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinkEnvironment {
    /// Number of the writer, from 0: several queries may write into one folder, each its own part file.
    pub part: usize,
}

/// Opens a table for writing. A file that is already there is truncated.
///
/// # Errors
/// When an option is wrong, or the file cannot be created.
pub fn open_sink(spec: &SinkSpec, env: &SinkEnvironment) -> Result<Box<dyn Sink>, ConnectError> {
    let options = OptionReader::new(&spec.table);
    match SinkConnector::read(&options)? {
        SinkConnector::Filesystem => file_sink::open(&spec.table, env, &options),
        SinkConnector::Print => print::open(&spec.table, &options),
        SinkConnector::Blackhole => blackhole::open(&options),
    }
}

/// Checks the WITH clause of a table that a query writes, without touching files.
///
/// # Errors
/// Names the first option that is missing, unknown or malformed, with the valid choices; a column that the
/// format cannot hold is an error of the option 'format'.
pub fn validate_sink(table: &TableSpec) -> Result<(), OptionError> {
    let options = OptionReader::new(table);
    match SinkConnector::read(&options)? {
        SinkConnector::Filesystem => file_sink::validate(table, &options),
        SinkConnector::Print => print::validate(&options),
        SinkConnector::Blackhole => blackhole::validate(&options),
    }
}

#[derive(Clone, Copy)]
enum SinkConnector {
    Filesystem,
    Print,
    Blackhole,
}

impl SinkConnector {
    fn read(options: &OptionReader<'_>) -> Result<SinkConnector, OptionError> {
        let choices = [
            ("filesystem", SinkConnector::Filesystem),
            ("print", SinkConnector::Print),
            ("blackhole", SinkConnector::Blackhole),
        ];
        options.required_choice("connector", &choices).map_err(|error| match options.text("connector") {
            Some("datagen") => options.error(
                "connector",
                "the table can be read but not written; sinks are 'filesystem', 'print' and 'blackhole'",
            ),
            _ => error,
        })
    }
}
