use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::{ConnectError, TableSpec};

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
