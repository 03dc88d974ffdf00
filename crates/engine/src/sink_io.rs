//! Results on their way out: encoded where they were made, on a worker, and written by threads that may block.
//!
//! Outputs that cannot stall share two threads. One that may, a pipe or a terminal, has a thread of its own, so that
//! nobody else waits for who reads it; what piles up before it is bounded by the credit of its query. Writes of one
//! output keep their order.

mod encoding;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use laxity_connect::{ConnectError, OpenSink, Output};
use laxity_graph::{EventTime, OperatorId, ProcessingTime};
use laxity_runtime::{ArrowRows, InFlight, Outcome, Outlet, Query, Write, Written};
use laxity_sched::Stamps;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use self::encoding::{Encoding, Spare};
use crate::chain_of_causes;
use crate::clock::Clock;

/// Threads that write for all outputs, the most urgent first.
///
/// An output that cannot stall is in one of three places: idle, in `ready` (it has writes), or in the hands of one
/// thread.
pub(crate) struct SinkPool {
    /// By outlet. Workers go by this; `state` is for bytes that are to be written.
    encodings: RwLock<Vec<Arc<Encoding>>>,
    state: Mutex<PoolState>,
    wake: Condvar,
    /// Signalled when a thread of an output's own ends.
    own_ended: Condvar,
    clock: Clock,
    /// Told of tables that wait for credit which is back.
    on_credit: OnceLock<Box<dyn Fn(Vec<OperatorId>) + Send + Sync>>,
}

#[derive(Default)]
struct PoolState {
    /// By outlet; `None` once it is complete.
    sinks: Vec<Option<SinkState>>,
    /// Numbers of outlets that are complete.
    free: Vec<usize>,
    ready: BinaryHeap<Reverse<(ProcessingTime, usize)>>,
    stopping: bool,
    /// Threads that serve one output alone.
    own_threads: usize,
}

struct SinkState {
    outlet: Arc<Outlet>,
    output: Option<Box<dyn Output>>,
    writes: VecDeque<Bytes>,
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

/// What was encoded.
enum Bytes {
    Rows { bytes: Vec<u8>, rows: u32, stamps: Stamps, window_end: Option<EventTime>, ready: ProcessingTime },
    Last { bytes: Vec<u8> },
}

impl Bytes {
    fn bytes(&self) -> u64 {
        match self {
            Bytes::Rows { bytes, .. } | Bytes::Last { bytes } => bytes.len() as u64,
        }
    }

    fn rows(&self) -> u32 {
        match self {
            Bytes::Rows { rows, .. } => *rows,
            Bytes::Last { .. } => 0,
        }
    }

    fn in_flight(&self) -> InFlight {
        InFlight::one(self.rows(), self.bytes())
    }
}

/// An output that takes longer than this over one write is stalled: who reads it has stopped. When the engine stops,
/// its query is not waited for. Far more than a busy disk or terminal takes.
const STALLED_AFTER: Duration = Duration::from_millis(300);

/// What an output that may stall is given to take its last bytes when the engine stops.
const STOP_GRACE: Duration = Duration::from_millis(500);

impl SinkPool {
    pub(crate) fn new(clock: Clock) -> SinkPool {
        SinkPool {
            encodings: RwLock::default(),
            state: Mutex::new(PoolState::default()),
            wake: Condvar::new(),
            own_ended: Condvar::new(),
            clock,
            on_credit: OnceLock::new(),
        }
    }

    /// Who is told of tables that wait for credit which is back. Once, before the first write.
    pub(crate) fn on_credit(&self, told: impl Fn(Vec<OperatorId>) + Send + Sync + 'static) {
        let _ = self.on_credit.set(Box::new(told));
    }

    /// Adds an output written by so many instances.
    pub(crate) fn add(
        &self,
        query: &Arc<Query>,
        sink: OpenSink,
        writers: usize,
        is_result: bool,
    ) -> Arc<Outlet> {
        let OpenSink { encoder, output, may_stall } = sink;
        let mut encodings = self.encodings.write();
        let mut state = self.state.lock();
        let number = state.free.pop().unwrap_or(state.sinks.len());
        let outlet = Arc::new(Outlet::new(query.clone(), number, writers, is_result, output.is_none()));
        let encoding = Arc::new(Encoding::new(outlet.clone(), encoder));
        let sink = SinkState {
            outlet: outlet.clone(),
            output,
            writes: VecDeque::new(),
            busy: None,
            has_written: false,
            spare: encoding.spare.clone(),
            own: may_stall.then(|| OwnThread { wake: Arc::default(), is_running: false }),
        };
        if number == state.sinks.len() {
            state.sinks.push(Some(sink));
            encodings.push(encoding);
        } else {
            state.sinks[number] = Some(sink);
            encodings[number] = encoding;
        }
        outlet
    }

    /// Takes rows off a worker's hands, counted as in flight: encodes them, and leaves the bytes to a thread.
    pub(crate) fn write(self: &Arc<SinkPool>, write: Write<ArrowRows>) {
        let Write { outlet, what } = write;
        let held = what.in_flight();
        match what {
            Written::End => {
                if outlet.end_channel() {
                    self.close(&outlet);
                }
                self.release(&outlet.query, held);
            }
            Written::Rows { batch, rows, stamps, window_end, ready, .. } => {
                let encoding = self.encodings.read()[outlet.number].clone();
                // Held until what was encoded is queued: the order of the one is that of the other.
                let mut open = encoding.lock();
                let encoded = open.encode(&outlet, &batch.rows).map(|bytes| {
                    let rows = Bytes::Rows { bytes, rows, stamps, window_end, ready };
                    let returned_credit = outlet.query.settle(rows.in_flight(), held);
                    self.push(&outlet, rows);
                    returned_credit
                });
                drop(open);
                match encoded {
                    Some(true) => self.tell(&outlet.query),
                    Some(false) => {}
                    None => {
                        // Nowhere to go, or held back by the format until there are more rows.
                        if !outlet.query.failed() {
                            outlet.count(rows, &stamps, window_end, ready, ready);
                        }
                        outlet.written(&stamps);
                        self.release(&outlet.query, held);
                    }
                }
            }
        }
    }

    /// Completes an output once everything before is written. Asking twice does no harm.
    pub(crate) fn close(self: &Arc<SinkPool>, outlet: &Arc<Outlet>) {
        let encoding = self.encodings.read()[outlet.number].clone();
        let mut open = encoding.lock();
        let Some(bytes) = open.finish(outlet) else { return };
        let last = Bytes::Last { bytes };
        outlet.query.admit(last.in_flight());
        self.push(outlet, last);
    }

    /// Forgets an output that nobody wrote to; what was there before stays.
    pub(crate) fn discard(&self, outlet: &Arc<Outlet>) {
        self.encodings.read()[outlet.number].lock().discard();
        let mut state = self.state.lock();
        if state.sinks[outlet.number].take().is_some() {
            state.free.push(outlet.number);
        }
    }

    /// True while who reads the output has stopped doing so.
    pub(crate) fn is_stalled(&self, outlet: &Outlet) -> bool {
        let now = self.clock.now();
        let state = self.state.lock();
        let busy = state.sinks[outlet.number].as_ref().and_then(|sink| sink.busy);
        busy.is_some_and(|busy| now >= busy.since.plus(STALLED_AFTER))
    }

    fn release(&self, query: &Query, one: InFlight) {
        if query.release(one) {
            self.tell(query);
        }
    }

    fn tell(&self, query: &Query) {
        if let Some(on_credit) = self.on_credit.get() {
            on_credit(query.wake());
        }
    }

    /// Lets the threads return once nothing is left to write. Those whose output is stalled are left behind, and what
    /// they had to write is dropped.
    pub(crate) fn stop(&self) {
        let deadline = self.clock.instant(self.clock.now().plus(STOP_GRACE));
        let mut state = self.state.lock();
        state.stopping = true;
        self.wake.notify_all();
        let own = |sink: &SinkState| sink.own.as_ref().map(|own| own.wake.clone());
        state.sinks.iter().flatten().filter_map(own).for_each(|wake| {
            wake.notify_all();
        });
        while state.own_threads > 0 {
            if self.own_ended.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        for sink in state.sinks.iter_mut().flatten().filter(|sink| sink.own.is_some()) {
            let rows = sink.rows_waiting();
            if rows > 0 {
                tracing::warn!(
                    query = sink.outlet.query.settings.name,
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
            let next = state.sinks[index]
                .as_ref()
                .and_then(|entry| Some(deadline(entry.writes.front()?, &entry.outlet)));
            state.ready.extend(next.map(|due| Reverse((due, index))));
        }
    }

    /// What the thread does that serves one output alone. It ends with the output.
    fn run_own(&self, index: usize) {
        let mut state = self.state.lock();
        while let Some(entry) = &state.sinks[index] {
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
        let Some(entry) = &mut state.sinks[index] else { return true };
        let Some(write) = entry.writes.pop_front() else { return false };
        let is_last = matches!(write, Bytes::Last { .. });
        entry.busy = Some(Busy { since: self.clock.now(), rows: write.rows() });
        let done = write.in_flight();
        let turn = Turn {
            outlet: entry.outlet.clone(),
            has_written: entry.has_written,
            output: entry.output.take(),
            spare: entry.spare.clone(),
        };
        let turn = MutexGuard::unlocked(state, || {
            let turn = turn.perform(write, &self.clock);
            self.release(&turn.outlet.query, done);
            turn
        });
        if is_last {
            state.sinks[index] = None;
            state.free.push(index);
        } else if let Some(entry) = &mut state.sinks[index] {
            entry.output = turn.output;
            entry.has_written = turn.has_written;
            entry.busy = None;
        }
        is_last
    }

    fn push(self: &Arc<SinkPool>, outlet: &Outlet, write: Bytes) {
        let index = outlet.number;
        let mut state = self.state.lock();
        // Whoever has the encoder pushes, and nobody has it after the last bytes.
        let Some(entry) = &mut state.sinks[index] else { return };
        let was_idle = entry.writes.is_empty() && entry.busy.is_none();
        let due = deadline(&write, outlet);
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
        let Some(entry) = &mut state.sinks[index] else { return };
        let query = entry.outlet.query.clone();
        let thread = std::thread::Builder::new().name(format!("sink {}", query.settings.name));
        match thread.spawn(move || pool.run_own(index)) {
            // Not joined: it may be stalled for ever.
            Ok(_) => state.own_threads += 1,
            Err(error) => {
                // The threads that outputs share have to do.
                tracing::warn!(query = query.settings.name, %error, "the output gets no thread of its own");
                entry.own = None;
                let due = entry.writes.front().map(|write| deadline(write, &entry.outlet));
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
    outlet: Arc<Outlet>,
    has_written: bool,
    output: Option<Box<dyn Output>>,
    spare: Spare,
}

impl Turn {
    fn perform(mut self, write: Bytes, clock: &Clock) -> Turn {
        let query = &self.outlet.query;
        match write {
            Bytes::Rows { bytes, rows, stamps, window_end, ready } => {
                if let Some(output) = self.output.as_mut().filter(|_| !query.failed()) {
                    self.has_written = true;
                    match output.write(&bytes) {
                        Ok(()) => self.outlet.count(rows, &stamps, window_end, ready, clock.now()),
                        Err(error) => fail(query, &error),
                    }
                }
                self.outlet.written(&stamps);
                self.spare.give(bytes);
            }
            Bytes::Last { bytes } => {
                // A query that failed before its first result leaves what was there.
                let completes = !query.failed() || self.has_written;
                if let Some(mut output) = self.output.take().filter(|_| completes) {
                    let put = if bytes.is_empty() { Ok(()) } else { output.write(&bytes) };
                    if let Err(error) = put.and_then(|()| output.close()) {
                        fail(query, &error);
                    }
                }
                self.outlet.closed();
            }
        }
        self
    }
}

fn deadline(write: &Bytes, outlet: &Outlet) -> ProcessingTime {
    match write {
        Bytes::Rows { stamps, .. } => stamps.ingested.plus_ns(outlet.query.target_ns()),
        Bytes::Last { .. } => ProcessingTime::MAX,
    }
}

fn fail(query: &Query, error: &ConnectError) {
    let why = chain_of_causes(error);
    tracing::error!(query = query.settings.name, why, "query stopped");
    query.end(Outcome::Failed(why));
}

#[cfg(test)]
mod tests;
