//! Tables that are read: whole, once, or again and again where rows are looked up in them.

use std::io::BufRead;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use laxity_connect::{
    ConnectError, LookupConnector, OptionError, OptionReader, Scan, ScanEnvironment, ScanEvent, ScanSpec,
    ScannedBatch, SourceConnector, TableSpec, Waiting, Waker,
};
use laxity_graph::ProcessingTime;
use parking_lot::{Condvar, Mutex};
use postgres::Client;

use crate::connection::{Fault, Patience};
use crate::options::ServerTable;
use crate::statements::Columns;
use crate::{copy_text, sink};

/// `'connector' = 'jdbc'`, read.
pub(crate) struct PostgresSource;

/// What the thread brings at a time: some hundred rows.
const CHUNK_BYTES: usize = 64 << 10;

/// Chunks that wait to be decoded, at most.
const CHUNKS_MAX: usize = 16;

impl PostgresSource {
    fn read(table: &TableSpec, options: &OptionReader<'_>) -> Result<ServerTable, OptionError> {
        let server = ServerTable::read(options)?;
        sink::ask_for_options(options);
        sink::refuse_types(table, options)?;
        options.finish()?;
        Ok(server)
    }
}

impl SourceConnector for PostgresSource {
    fn validate(&self, table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        PostgresSource::read(table, options).map(drop)
    }

    fn open(
        &self,
        spec: &ScanSpec,
        env: &ScanEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<Box<dyn Scan>, ConnectError> {
        let server = PostgresSource::read(&spec.table, options)?;
        let schema: SchemaRef = Arc::new(
            spec.table
                .schema
                .project(&spec.columns)
                .map_err(|error| server.failed("read", error.to_string()))?,
        );
        let handover =
            Arc::new(Handover { state: Mutex::default(), room: Condvar::new(), waker: env.waker.clone() });
        let brought = Brought(handover.clone());
        let (of_thread, columns, waiting) = (server.clone(), schema.clone(), env.waiting.clone());
        let bring = move || {
            let end = bring(&of_thread, &columns, waiting, &handover);
            handover.end(end);
        };
        let started = std::thread::Builder::new().name("postgres-read".into()).spawn(bring);
        started.map_err(|error| server.failed("read", format!("no thread: {error}")))?;
        Ok(Box::new(PostgresScan { server, schema, brought, skip_rows: env.skip_rows }))
    }

    fn is_bounded(&self, _table: &TableSpec) -> bool {
        true
    }

    /// Rows of a server's table have no order.
    fn is_read_on(&self, _table: &TableSpec) -> bool {
        false
    }
}

impl LookupConnector for PostgresSource {
    fn validate(&self, table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        PostgresSource::read(table, options).map(drop)
    }

    fn read(&self, spec: &ScanSpec, options: &OptionReader<'_>) -> Result<Vec<RecordBatch>, ConnectError> {
        let server = PostgresSource::read(&spec.table, options)?;
        let failed = |why: String| server.failed("read", why);
        let schema: SchemaRef =
            Arc::new(spec.table.schema.project(&spec.columns).map_err(|error| failed(error.to_string()))?);
        let mut batches = Vec::new();
        let read = server.connect_once().and_then(|mut client| {
            chunks(&mut client, &server, &schema, |chunk| {
                batches.push(copy_text::decode(&chunk, &schema).map_err(Fault::Refused)?);
                Ok(true)
            })
        });
        read.map_err(|fault| failed(fault.text()))?;
        Ok(batches)
    }
}

/// Reads a table by COPY and gives its text in whole lines, until `take` answers false.
fn chunks(
    client: &mut Client,
    server: &ServerTable,
    schema: &SchemaRef,
    mut take: impl FnMut(Vec<u8>) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let columns = Columns::find(client, server, schema)?;
    let selected = columns.names.iter().zip(schema.fields());
    let selected: Vec<String> =
        selected.map(|(name, field)| copy_text::selected(name, field.data_type())).collect();
    let sql = format!("COPY (SELECT {} FROM {}) TO STDOUT", selected.join(", "), columns.table);
    let mut reader = client.copy_out(&sql).map_err(|error| Fault::of(&error))?;
    let mut chunk = Vec::with_capacity(2 * CHUNK_BYTES);
    loop {
        // A line at a time, as the server sends them.
        let piece = reader.fill_buf().map_err(|error| {
            // The client's errors come wrapped.
            match error.into_inner().and_then(|inner| inner.downcast::<postgres::Error>().ok()) {
                Some(error) => Fault::of(&error),
                None => Fault::World("the connection was lost".to_owned()),
            }
        })?;
        let (count, is_last) = (piece.len(), piece.is_empty());
        chunk.extend_from_slice(piece);
        reader.consume(count);
        let ends_with_line = chunk.last() == Some(&b'\n');
        if is_last || chunk.len() >= CHUNK_BYTES && ends_with_line {
            let whole = std::mem::replace(&mut chunk, Vec::with_capacity(2 * CHUNK_BYTES));
            let goes_on = whole.is_empty() || take(whole)?;
            if is_last || !goes_on {
                return Ok(());
            }
        }
    }
}

/// What the thread does: a server that is not there is waited for; one that is lost in the midst cannot be gone on with.
fn bring(
    server: &ServerTable,
    schema: &SchemaRef,
    waiting: Waiting,
    handover: &Handover,
) -> Result<(), ConnectError> {
    let mut patience = Patience::new(waiting);
    let mut client = loop {
        match server.connect_once() {
            Ok(client) => break client,
            Err(Fault::World(why)) if !handover.state.lock().dropped => patience.wait(server, &why),
            Err(fault) => return Err(server.failed("read", fault.text())),
        }
    };
    patience.end(server);
    chunks(&mut client, server, schema, |chunk| Ok(handover.put(chunk)))
        .map_err(|fault| server.failed("read", fault.text()))
}

/// Between the thread that waits for the server and whoever decodes.
struct Handover {
    state: Mutex<State>,
    /// Signalled when there is room again, and when nobody will take any more.
    room: Condvar,
    waker: Waker,
}

#[derive(Default)]
struct State {
    chunks: std::collections::VecDeque<Vec<u8>>,
    end: Option<Result<(), ConnectError>>,
    /// The reader was told that nothing is there.
    waited_for: bool,
    dropped: bool,
}

impl Handover {
    /// False if nobody wants it any more.
    fn put(&self, chunk: Vec<u8>) -> bool {
        let mut state = self.state.lock();
        while state.chunks.len() >= CHUNKS_MAX && !state.dropped {
            self.room.wait(&mut state);
        }
        state.chunks.push_back(chunk);
        let goes_on = !state.dropped;
        self.wake(state);
        goes_on
    }

    fn end(&self, end: Result<(), ConnectError>) {
        let mut state = self.state.lock();
        state.end = Some(end);
        self.wake(state);
    }

    fn wake(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let wake = std::mem::take(&mut state.waited_for);
        drop(state);
        if wake {
            self.waker.wake();
        }
    }
}

/// The reader's side: dropped, it lets the thread go.
struct Brought(Arc<Handover>);

impl Drop for Brought {
    fn drop(&mut self) {
        self.0.state.lock().dropped = true;
        self.0.room.notify_one();
    }
}

struct PostgresScan {
    server: ServerTable,
    schema: SchemaRef,
    brought: Brought,
    skip_rows: u64,
}

impl Scan for PostgresScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        loop {
            let chunk = {
                let mut state = self.brought.0.state.lock();
                match (state.chunks.pop_front(), state.end.is_some()) {
                    (Some(chunk), _) => chunk,
                    (None, true) => {
                        return state.end.replace(Ok(())).unwrap_or(Ok(())).map(|()| ScanEvent::End);
                    }
                    (None, false) => {
                        state.waited_for = true;
                        return Ok(ScanEvent::Waiting);
                    }
                }
            };
            self.brought.0.room.notify_one();
            let rows =
                copy_text::decode(&chunk, &self.schema).map_err(|why| self.server.failed("read", why))?;
            let skipped = self.skip_rows.min(rows.num_rows() as u64);
            self.skip_rows -= skipped;
            let rows = rows.slice(skipped as usize, rows.num_rows() - skipped as usize);
            if rows.num_rows() > 0 {
                return Ok(ScanEvent::Batch(ScannedBatch { rows, arrival: now }));
            }
        }
    }

    /// The table may be another one by then.
    fn is_repeatable(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> u64 {
        self.brought.0.state.lock().chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }
}
