//! Results on their way out: encoded where they were made, on a worker, and written by threads that may block.
//!
//! Outputs that cannot stall share two threads. One that may, a pipe or a terminal, has a thread of its own, so that
//! nobody else waits for who reads it; what piles up before it is bounded by the credit of its query. Writes of one
//! output keep their order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use laxity_connect::{ConnectError, Encoder, OpenSink, Output};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_sched::Stamps;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::chain_of_causes;
use crate::clock::Clock;
use crate::query::{Outcome, Query};

/// One open output of one query, as its operators see it.
pub(crate) struct SinkHandle {
    pub query: Arc<Query>,
    pub schema: SchemaRef,
    /// Results for the user count towards latency; a late table does not.
    pub is_result: bool,
    index: usize,
    pool: Arc<SinkPool>,
    /// Instances that still write here.
    open_channels: AtomicI64,
    /// `None` once the output is complete. Held until what was encoded is queued: the order of the one is that of the
    /// other.
    encoder: Mutex<Option<Box<dyn Encoder>>>,
    spare: Spare,
}

/// Threads that write for all outputs, the most urgent first.
///
/// An output that cannot stall is in one of three places: idle, in `ready` (it has writes), or in the hands of one
/// thread.
pub(crate) struct SinkPool {
    state: Mutex<PoolState>,
    wake: Condvar,
    /// Signalled when a thread of an output's own ends.
    own_ended: Condvar,
    clock: Clock,
}

#[derive(Default)]
struct PoolState {
    sinks: Vec<SinkState>,
    ready: BinaryHeap<Reverse<(ProcessingTime, usize)>>,
    stopping: bool,
    /// Threads that serve one output alone.
    own_threads: usize,
}

struct SinkState {
    query: Arc<Query>,
    is_result: bool,
    output: Option<Box<dyn Output>>,
    writes: VecDeque<Write>,
    /// What a thread has in its hands.
    busy: Option<Busy>,
    /// Bytes have left by it.
    has_written: bool,
    spare: Spare,
    /// Of an output that may stall.
    own: Option<OwnThread>,
}

/// How an output's own thread is reached.
struct OwnThread {
    wake: Arc<Condvar>,
    is_running: bool,
}

#[derive(Clone, Copy)]
struct Busy {
    since: ProcessingTime,
    rows: u32,
}

enum Write {
    Rows { bytes: Vec<u8>, rows: u32, stamps: Stamps, window_end: Option<EventTime>, ready: ProcessingTime },
    Close { bytes: Vec<u8> },
}

impl Write {
    fn bytes(&self) -> u64 {
        match self {
            Write::Rows { bytes, .. } | Write::Close { bytes } => bytes.len() as u64,
        }
    }

    fn rows(&self) -> u32 {
        match self {
            Write::Rows { rows, .. } => *rows,
            Write::Close { .. } => 0,
        }
    }
}

/// Buffers to encode into once more.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    /// One is filled while the other is written; and a long one is not kept for the short results that follow.
    const BUFFERS_MAX: usize = 2;
    const BUFFER_BYTES_MAX: usize = 1 << 20;

    fn take(&self) -> Vec<u8> {
        self.0.lock().pop().unwrap_or_default()
    }

    fn give(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.0.lock();
        if buffers.len() < Spare::BUFFERS_MAX && buffer.capacity() <= Spare::BUFFER_BYTES_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }
}

/// An output that takes longer than this over one write is stalled: who reads it has stopped. When the engine stops,
/// its query is not waited for. Far more than a busy disk or terminal takes.
const STALLED_AFTER: Duration = Duration::from_millis(300);

/// What an output that may stall is given to take its last bytes when the engine stops.
const STOP_GRACE: Duration = Duration::from_millis(500);

impl SinkHandle {
    /// Takes rows off a worker's hands: encodes them, and leaves the bytes to a thread.
    pub(crate) fn write(
        &self,
        rows: RecordBatch,
        stamps: Stamps,
        window_end: Option<EventTime>,
        now: ProcessingTime,
    ) {
        let count = rows.num_rows() as u32;
        let mut encoder = self.encoder.lock();
        let Some(open) = encoder.as_mut().filter(|_| !self.query.failed()) else { return };
        let mut bytes = self.spare.take();
        if let Err(error) = open.encode(&rows, &mut bytes) {
            fail(&self.query, &error);
            return;
        }
        if bytes.is_empty() {
            // Nowhere to go, or held back by the format until there are more rows.
            self.spare.give(bytes);
            written(&self.query, self.is_result, count, &stamps, window_end, now, now);
            return;
        }
        self.query.admit(count, bytes.len() as u64);
        self.pool.push(self.index, Write::Rows { bytes, rows: count, stamps, window_end, ready: now });
    }

    pub(crate) fn write_late(&self, rows: RecordBatch, stamps: Stamps, now: ProcessingTime) {
        self.write(rows, stamps, None, now);
    }

    /// One of the instances that write here has passed a watermark.
    pub(crate) fn watermark(&self, watermark: EventTime) {
        if watermark == EventTime::MAX {
            if self.open_channels.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.close();
            }
        } else if self.is_result {
            self.query.watermark_ms.fetch_max(watermark.0, Ordering::Relaxed);
        }
    }

    /// Completes the output once everything before is written. Asking twice does no harm.
    pub(crate) fn close(&self) {
        let mut encoder = self.encoder.lock();
        let Some(mut open) = encoder.take() else { return };
        let mut bytes = Vec::new();
        if let Err(error) = open.finish(&mut bytes) {
            fail(&self.query, &error);
            bytes.clear();
        }
        self.query.admit(0, bytes.len() as u64);
        self.pool.push(self.index, Write::Close { bytes });
    }

    /// True while who reads the output has stopped doing so.
    pub(crate) fn is_stalled(&self) -> bool {
        let now = self.pool.clock.now();
        let busy = self.pool.state.lock().sinks[self.index].busy;
        busy.is_some_and(|busy| now >= busy.since.plus(STALLED_AFTER))
    }
}

impl SinkPool {
    pub(crate) fn new(clock: Clock) -> SinkPool {
        SinkPool {
            state: Mutex::new(PoolState::default()),
            wake: Condvar::new(),
            own_ended: Condvar::new(),
            clock,
        }
    }

    /// Adds an output written by `writers` instances.
    pub(crate) fn add(
        self: &Arc<SinkPool>,
        query: Arc<Query>,
        schema: SchemaRef,
        sink: OpenSink,
        writers: usize,
        is_result: bool,
    ) -> Arc<SinkHandle> {
        let OpenSink { encoder, output, may_stall } = sink;
        let spare = Spare::default();
        let mut state = self.state.lock();
        state.sinks.push(SinkState {
            query: query.clone(),
            is_result,
            output,
            writes: VecDeque::new(),
            busy: None,
            has_written: false,
            spare: spare.clone(),
            own: may_stall.then(|| OwnThread { wake: Arc::default(), is_running: false }),
        });
        Arc::new(SinkHandle {
            query,
            schema,
            is_result,
            index: state.sinks.len() - 1,
            pool: self.clone(),
            open_channels: AtomicI64::new(writers as i64),
            encoder: Mutex::new(Some(encoder)),
            spare,
        })
    }

    /// Lets the threads return once nothing is left to write. Those whose output is stalled are left behind, and what
    /// they had to write is dropped.
    pub(crate) fn stop(&self) {
        let deadline = self.clock.instant(self.clock.now().plus(STOP_GRACE));
        let mut state = self.state.lock();
        state.stopping = true;
        self.wake.notify_all();
        state.sinks.iter().filter_map(|sink| sink.own.as_ref()).for_each(|own| {
            own.wake.notify_all();
        });
        while state.own_threads > 0 {
            if self.own_ended.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        for sink in state.sinks.iter_mut().filter(|sink| sink.own.is_some()) {
            let rows = sink.rows_waiting();
            if rows > 0 {
                tracing::warn!(
                    query = sink.query.settings.name,
                    rows,
                    "rows were dropped: the output took nothing more"
                );
            }
            sink.writes.clear();
        }
    }

    /// What each of the threads does that outputs share.
    pub(crate) fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(Reverse((_, index))) = state.ready.pop() else {
                if state.stopping {
                    return;
                }
                self.wake.wait(&mut state);
                continue;
            };
            self.serve(&mut state, index);
            let entry = &state.sinks[index];
            if let Some(next) = entry.writes.front() {
                let due = deadline(next, &entry.query);
                state.ready.push(Reverse((due, index)));
            }
        }
    }

    /// What the thread does that serves one output alone. It ends with the output.
    fn run_own(&self, index: usize) {
        let mut state = self.state.lock();
        loop {
            let entry = &state.sinks[index];
            if !entry.writes.is_empty() {
                if self.serve(&mut state, index) {
                    break;
                }
            } else if state.stopping {
                break;
            } else {
                let Some(wake) = entry.own.as_ref().map(|own| own.wake.clone()) else { break };
                wake.wait(&mut state);
            }
        }
        state.own_threads -= 1;
        self.own_ended.notify_all();
    }

    /// Performs the next write of an output; true if it was the last one.
    fn serve(&self, state: &mut MutexGuard<'_, PoolState>, index: usize) -> bool {
        let entry = &mut state.sinks[index];
        let write = entry.writes.pop_front().expect("a ready output has writes");
        let closes = matches!(write, Write::Close { .. });
        entry.busy = Some(Busy { since: self.clock.now(), rows: write.rows() });
        let turn = Turn {
            query: entry.query.clone(),
            is_result: entry.is_result,
            has_written: entry.has_written,
            output: entry.output.take(),
            spare: entry.spare.clone(),
        };
        let turn = MutexGuard::unlocked(state, || turn.perform(write, &self.clock));
        let entry = &mut state.sinks[index];
        entry.output = turn.output;
        entry.has_written = turn.has_written;
        entry.busy = None;
        closes
    }

    fn push(self: &Arc<SinkPool>, index: usize, write: Write) {
        let mut state = self.state.lock();
        let entry = &mut state.sinks[index];
        let was_idle = entry.writes.is_empty() && entry.busy.is_none();
        let due = deadline(&write, &entry.query);
        entry.writes.push_back(write);
        if let Some(own) = &mut entry.own {
            own.wake.notify_one();
            if !std::mem::replace(&mut own.is_running, true) {
                self.start_own(&mut state, index);
            }
        } else if was_idle {
            state.ready.push(Reverse((due, index)));
            drop(state);
            self.wake.notify_one();
        }
    }

    fn start_own(self: &Arc<SinkPool>, state: &mut PoolState, index: usize) {
        let pool = self.clone();
        let query = state.sinks[index].query.clone();
        let thread = std::thread::Builder::new().name(format!("sink {}", query.settings.name));
        match thread.spawn(move || pool.run_own(index)) {
            // Not joined: it may be stalled for ever.
            Ok(_) => state.own_threads += 1,
            Err(error) => {
                // The threads that outputs share have to do.
                tracing::warn!(query = query.settings.name, %error, "the output gets no thread of its own");
                let entry = &mut state.sinks[index];
                entry.own = None;
                let due = entry.writes.front().map(|write| deadline(write, &query));
                state.ready.extend(due.map(|due| Reverse((due, index))));
                self.wake.notify_one();
            }
        }
    }
}

impl SinkState {
    fn rows_waiting(&self) -> u64 {
        let queued: u64 = self.writes.iter().map(|write| u64::from(write.rows())).sum();
        queued + self.busy.map_or(0, |busy| u64::from(busy.rows))
    }
}

/// An output in the hands of a thread.
struct Turn {
    query: Arc<Query>,
    is_result: bool,
    has_written: bool,
    output: Option<Box<dyn Output>>,
    spare: Spare,
}

impl Turn {
    fn perform(mut self, write: Write, clock: &Clock) -> Turn {
        let (rows, held) = (write.rows(), write.bytes());
        match write {
            Write::Rows { bytes, rows, stamps, window_end, ready } => {
                if let Some(output) = self.output.as_mut().filter(|_| !self.query.failed()) {
                    self.has_written = true;
                    match output.write(&bytes) {
                        Ok(()) => {
                            let now = clock.now();
                            written(&self.query, self.is_result, rows, &stamps, window_end, ready, now);
                        }
                        Err(error) => fail(&self.query, &error),
                    }
                }
                self.spare.give(bytes);
            }
            Write::Close { bytes } => {
                // A query that failed before its first result leaves what was there.
                let completes = !self.query.failed() || self.has_written;
                if let Some(mut output) = self.output.take().filter(|_| completes) {
                    let put = if bytes.is_empty() { Ok(()) } else { output.write(&bytes) };
                    if let Err(error) = put.and_then(|()| output.close()) {
                        fail(&self.query, &error);
                    }
                }
                if self.is_result && self.query.open_sinks.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.query.end(Outcome::Finished);
                }
            }
        }
        self.query.release(rows, held);
        self
    }
}

fn deadline(write: &Write, query: &Query) -> ProcessingTime {
    match write {
        Write::Rows { stamps, .. } => stamps.ingested.plus_ns(query.settings.latency_target.ns()),
        Write::Close { .. } => ProcessingTime::MAX,
    }
}

fn written(
    query: &Query,
    is_result: bool,
    rows: u32,
    stamps: &Stamps,
    window_end: Option<EventTime>,
    ready: ProcessingTime,
    now: ProcessingTime,
) {
    if is_result {
        query.rows_out.fetch_add(u64::from(rows), Ordering::Relaxed);
        query.record_result(stamps, window_end, ready, now);
    }
}

fn fail(query: &Query, error: &ConnectError) {
    let why = chain_of_causes(error);
    tracing::error!(query = query.settings.name, why, "query stopped");
    query.end(Outcome::Failed(why));
}

#[cfg(test)]
mod tests;
