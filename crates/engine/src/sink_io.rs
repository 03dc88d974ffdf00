use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use laxity_connect::{ConnectError, Sink};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_sched::Stamps;
use parking_lot::{Condvar, Mutex};

use crate::chain_of_causes;
use crate::clock::Clock;
use crate::payload::batch_bytes;
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
    immediate: Option<Mutex<Box<dyn Sink>>>,
}

/// Threads that write for all sinks, the most urgent first.
///
/// A sink is in one of three places: idle, in `ready` (it has writes), or in the hands of one thread. Writes
/// of one sink keep their order.
pub(crate) struct SinkPool {
    state: Mutex<PoolState>,
    wake: Condvar,
    clock: Clock,
}

#[derive(Default)]
struct PoolState {
    sinks: Vec<SinkState>,
    ready: BinaryHeap<Reverse<(ProcessingTime, usize)>>,
    stopping: bool,
}

struct SinkState {
    query: Arc<Query>,
    is_result: bool,
    sink: Option<Box<dyn Sink>>,
    writes: VecDeque<Write>,
    busy: bool,
}

enum Write {
    Rows {
        rows: RecordBatch,
        bytes: u64,
        stamps: Stamps,
        window_end: Option<EventTime>,
        ready: ProcessingTime,
    },
    Close,
}

impl SinkHandle {
    /// Takes rows off a worker's hands.
    pub(crate) fn write(
        &self,
        rows: RecordBatch,
        stamps: Stamps,
        window_end: Option<EventTime>,
        now: ProcessingTime,
    ) {
        let count = rows.num_rows() as u32;
        if let Some(sink) = &self.immediate {
            match sink.lock().write(&rows) {
                Ok(()) => written(&self.query, self.is_result, count, &stamps, window_end, now, now),
                Err(error) => {
                    self.query.end(Outcome::Failed(chain_of_causes(&error)));
                }
            }
            return;
        }
        let bytes = batch_bytes(&rows);
        self.query.admit(count, bytes);
        self.pool.push(self.index, Write::Rows { rows, bytes, stamps, window_end, ready: now });
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
        self.query.admit(0, 0);
        self.pool.push(self.index, Write::Close);
    }
}

impl SinkPool {
    pub(crate) fn new(clock: Clock) -> SinkPool {
        SinkPool { state: Mutex::new(PoolState::default()), wake: Condvar::new(), clock }
    }

    /// Adds an output written by `writers` instances.
    pub(crate) fn add(
        self: &Arc<SinkPool>,
        query: Arc<Query>,
        schema: SchemaRef,
        sink: Box<dyn Sink>,
        writers: usize,
        is_result: bool,
    ) -> Arc<SinkHandle> {
        let mut state = self.state.lock();
        let immediate = sink.is_immediate();
        let (inline, queued) = if immediate { (Some(Mutex::new(sink)), None) } else { (None, Some(sink)) };
        state.sinks.push(SinkState {
            query: query.clone(),
            is_result,
            sink: queued,
            writes: VecDeque::new(),
            busy: false,
        });
        Arc::new(SinkHandle {
            query,
            schema,
            is_result,
            index: state.sinks.len() - 1,
            pool: self.clone(),
            open_channels: AtomicI64::new(writers as i64),
            immediate: inline,
        })
    }

    /// Lets the threads return once nothing is left to write.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake.notify_all();
    }

    /// What each of the pool's threads does.
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
            let entry = &mut state.sinks[index];
            let write = entry.writes.pop_front().expect("a ready sink has writes");
            entry.busy = true;
            let query = entry.query.clone();
            let is_result = entry.is_result;
            let mut sink = entry.sink.take();
            drop(state);
            let close = matches!(write, Write::Close);
            self.perform(write, sink.as_deref_mut(), &query, is_result);
            if close {
                sink = None;
            }
            state = self.state.lock();
            let entry = &mut state.sinks[index];
            entry.sink = sink;
            entry.busy = false;
            if let Some(next) = entry.writes.front() {
                let due = deadline(next, &entry.query);
                state.ready.push(Reverse((due, index)));
            }
        }
    }

    fn perform(&self, write: Write, sink: Option<&mut (dyn Sink + 'static)>, query: &Query, is_result: bool) {
        match write {
            Write::Rows { rows, bytes, stamps, window_end, ready } => {
                let count = rows.num_rows() as u32;
                if let Some(sink) = sink
                    && !query.failed()
                {
                    match sink.write(&rows) {
                        Ok(()) => {
                            let now = self.clock.now();
                            written(query, is_result, count, &stamps, window_end, ready, now);
                        }
                        Err(error) => fail(query, &error),
                    }
                }
                query.release(count, bytes);
            }
            Write::Close => {
                if let Some(Err(error)) = sink.map(|sink| sink.close()) {
                    fail(query, &error);
                }
                if is_result && query.open_sinks.fetch_sub(1, Ordering::AcqRel) == 1 {
                    query.end(Outcome::Finished);
                }
                query.release(0, 0);
            }
        }
    }

    fn push(&self, index: usize, write: Write) {
        let mut state = self.state.lock();
        let entry = &mut state.sinks[index];
        let was_idle = entry.writes.is_empty() && !entry.busy;
        let due = deadline(&write, &entry.query);
        entry.writes.push_back(write);
        if was_idle {
            state.ready.push(Reverse((due, index)));
            drop(state);
            self.wake.notify_one();
        }
    }
}

fn deadline(write: &Write, query: &Query) -> ProcessingTime {
    match write {
        Write::Rows { stamps, .. } => stamps.ingested.plus_ns(query.settings.latency_target.ns()),
        Write::Close => ProcessingTime::MAX,
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
