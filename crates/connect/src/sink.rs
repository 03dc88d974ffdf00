//! Tables that are written, as the engine sees them: encoding, which never blocks, is apart from writing, which may.
//! Checkpoints ask the writing side what of its bytes will survive.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;

use crate::options::OptionReader;
use crate::{
    ConnectError, Delivery, OptionError, OutputPosition, SinkConnector, TableSpec, Waiting, connector,
    query_path,
};

/// Where a query writes.
#[derive(Clone, Debug)]
pub struct SinkSpec {
    /// The table. Rows arrive with its columns, in its order.
    pub table: Arc<TableSpec>,
}

impl SinkSpec {
    /// Where a query writes the table: those who write to the same place are told apart by their part.
    pub fn place(&self, query: &str) -> PathBuf {
        let TableSpec { name, options, base, .. } = &*self.table;
        base.join(options.get("path").map_or_else(|| name.clone(), |path| query_path::path_of(path, query)))
    }
}

/// A table that is open for writing: what makes bytes of rows, and what takes the bytes away.
pub struct OpenSink {
    /// Runs wherever there is time for it.
    pub encoder: Box<dyn Encoder>,
    /// Wants a thread that may block. `None` if bytes go nowhere: there never are any then.
    pub output: Option<Box<dyn Output>>,
    /// The output may block for ever: a pipe, a terminal, a device, a socket. It should hold up nobody else.
    pub may_stall: bool,
    /// All who write the table may do that through this: what was encoded is whole after each call, and a call that fails
    /// leaves no trace in what follows. Else each writer opens the table for itself.
    pub serves_all: bool,
}

/// Turns rows into bytes. Never blocks and does no I/O, so that a worker may call it.
pub trait Encoder: Send {
    /// Appends the bytes of `rows` to `out`. Lines are complete then, also compressed ones, so that who reads the
    /// output up to there sees them; Parquet gives bytes when a row group is full.
    ///
    /// # Errors
    /// When the format cannot hold a value. What was appended is then worth nothing; the query is stopped.
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError>;

    /// Appends what completes the files that were begun, for an output that is about to be
    /// [prepared](Output::prepare) and cannot be cut back; what is encoded after it goes into others.
    ///
    /// # Errors
    /// As for `encode`.
    fn cut(&mut self, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }

    /// Appends what completes the output: footers, compression trailers. Nothing is encoded after it.
    ///
    /// # Errors
    /// As for `encode`.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ConnectError>;
}

/// See [`Output::rest_of_prepare`].
pub type RestOfPrepare = Box<dyn FnOnce() -> Result<(), ConnectError> + Send>;

/// Takes bytes out of the program. May block.
pub trait Output: Send {
    /// There is somebody to [connect](Output::connect) to.
    fn connects(&self) -> bool {
        false
    }

    /// Does what the first write would wait for, on the thread that will write. Whom it has asked may not have answered:
    /// then, after which pause to ask again. A write that comes earlier does it too, as often as it takes.
    ///
    /// # Errors
    /// As for `write`.
    fn connect(&mut self) -> Result<Option<Duration>, ConnectError> {
        Ok(None)
    }

    /// Writes bytes. When it returns they have left the program (written to the file, not necessarily synced to
    /// disk), or are [on their way](Output::arrived). What the output held before is there until the first bytes come.
    ///
    /// # Errors
    /// When the world failed. The bytes may be partly written; the query is then stopped.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError>;

    /// What has become of the next one of the writes that returned without an error, in their order: it has left the
    /// program, or could not. `None` while it is on its way, which only an output that [may stall](OpenSink::may_stall)
    /// leaves a write; does not block.
    fn arrived(&mut self) -> Option<Result<(), ConnectError>> {
        Some(Ok(()))
    }

    /// Completes the output, all that is on its way included. Nothing is written after it. An output that was never written is empty from now on;
    /// dropped without this call, it stays as it was.
    ///
    /// # Errors
    /// As for `write`.
    fn close(&mut self) -> Result<(), ConnectError>;

    /// Everything written so far survives this process, as far as it is to be seen once `checkpoint` is committed, when
    /// [the rest](Output::rest_of_prepare) is done too. What [`SinkEnvironment::resume`] takes to go on behind it. Asked of outputs that were opened for a query with
    /// checkpoints alone; numbers grow.
    ///
    /// # Errors
    /// As for `write`.
    fn prepare(&mut self, checkpoint: u64) -> Result<OutputPosition, ConnectError>;

    /// What the last [`prepare`](Output::prepare) has left to be done before the checkpoint counts: what may take long and
    /// holds up no write, a disk that syncs. Done on another thread.
    fn rest_of_prepare(&mut self) -> Option<RestOfPrepare> {
        None
    }

    /// The checkpoint is complete on its store: lets what was prepared be seen. Others may have been written meanwhile,
    /// none prepared.
    ///
    /// # Errors
    /// As for `write`.
    fn commit(&mut self, _checkpoint: u64) -> Result<(), ConnectError> {
        Ok(())
    }
}

impl OpenSink {
    /// Encodes and writes in one go, for a caller that may block.
    ///
    /// # Errors
    /// Those of the encoder and of the output.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), ConnectError> {
        let mut bytes = Vec::new();
        self.encoder.encode(rows, &mut bytes)?;
        self.put(&bytes)
    }

    /// Completes what [`write`](OpenSink::write) wrote. No write follows.
    ///
    /// # Errors
    /// Those of the encoder and of the output.
    pub fn close(&mut self) -> Result<(), ConnectError> {
        let mut bytes = Vec::new();
        self.encoder.finish(&mut bytes)?;
        self.put(&bytes)?;
        self.output.as_mut().map_or(Ok(()), |output| output.close())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        match &mut self.output {
            Some(output) if !bytes.is_empty() => output.write(bytes),
            _ => Ok(()),
        }
    }
}

/// Who writes a table.
#[derive(Clone, Debug, Default)]
pub struct SinkEnvironment {
    /// The query's name.
    pub query: String,
    /// Number of the writer, from 0: several may write into one folder, each its own part file. Of a query with checkpoints
    /// it counts its own alone.
    pub part: usize,
    /// The query has checkpoints: the output will be asked to [`prepare`](Output::prepare).
    pub is_checkpointed: bool,
    /// How often, where that is known.
    pub checkpoint_interval: Option<Duration>,
    /// Where the output says that it waits for somebody who is away.
    pub waiting: Waiting,
    /// Where to go on, for a query that was restored; what came behind is taken back where that can be. `None` to begin.
    pub resume: Option<OutputPosition>,
}

/// Opens a table for writing. What a file holds already stays until there are new rows. A pipe is opened when it is
/// first written, because that waits for its reader.
///
/// # Errors
/// When an option is wrong, the file cannot be created, or a table of this process reads or writes it already.
pub fn open_sink(spec: &SinkSpec, env: &SinkEnvironment) -> Result<OpenSink, ConnectError> {
    let options = OptionReader::new(&spec.table);
    sink_of(&options)?.open(&spec.table, env, &options)
}

/// The last checkpoint that a query's output committed, where the outside keeps a record of that.
///
/// # Errors
/// When an option is wrong, or the outside cannot be asked.
pub fn committed_checkpoint(spec: &SinkSpec, env: &SinkEnvironment) -> Result<Option<u64>, ConnectError> {
    let options = OptionReader::new(&spec.table);
    sink_of(&options)?.committed(&spec.table, env, &options)
}

/// What a query with checkpoints is promised of a table that it writes.
///
/// # Errors
/// When an option is wrong.
pub fn delivery(table: &TableSpec) -> Result<Delivery, OptionError> {
    let options = OptionReader::new(table);
    Ok(sink_of(&options)?.delivery(table, &options))
}

/// Whether the outside keeps a record of what was committed to the table: see [`SinkConnector::keeps_record`].
pub fn keeps_record(table: &TableSpec) -> bool {
    let options = OptionReader::new(table);
    sink_of(&options).is_ok_and(|sink| sink.keeps_record(table, &options))
}

/// Checks the WITH clause of a table that a query writes, without touching files.
///
/// # Errors
/// Names the first option that is missing, unknown or malformed, with the valid choices; a column that the
/// format cannot hold is an error of the option 'format'.
pub fn validate_sink(table: &TableSpec) -> Result<(), OptionError> {
    let options = OptionReader::new(table);
    sink_of(&options)?.validate(table, &options)
}

fn sink_of(options: &OptionReader<'_>) -> Result<&'static dyn SinkConnector, OptionError> {
    let refused = "the table can be read but not written; sinks are";
    connector::chosen(options, |connector| connector.sink(), refused)
}
