//! Results on their way out: encoded where they were made, on a worker, and written by threads that may block.
//!
//! Outputs that cannot stall share two threads. One that may, a pipe or a terminal, has a thread of its own, so that
//! nobody else waits for who reads it; what piles up before it is bounded by the credit of its query. Writes of one
//! output keep their order. Of one that may stall, several may be under way at once: a result is out when the output says
//! that it has arrived.

mod encoding;
mod finish;
mod own_thread;
mod places;
mod turn;
mod under_way;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use laxity_connect::{OpenSink, Output, OutputPosition, RestOfPrepare, TableSpec, Wait, Waiting};
use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId};
use laxity_runtime::{ArrowRows, InFlight, Outlet, Query, Write, Written};
use laxity_sched::Stamps;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use self::encoding::{Encoding, Ended, Open, Spare};
pub(crate) use self::finish::Finish;
use self::own_thread::OwnThread;
pub(crate) use self::places::{Part, Places};
use self::turn::Turn;
use self::under_way::{UNDER_WAY_BYTES_MAX, UnderWay};
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
    /// By number of an output; `None` once it is complete.
    sinks: Vec<Option<SinkState>>,
    /// Numbers of outputs that are complete.
    free: Vec<usize>,
    /// By name of a table that all who write it may write through one output: the number of the last such.
    of_tables: HashMap<String, usize>,
    /// By query: where its outputs say that they wait for somebody who is away.
    waits: HashMap<QueryId, Vec<Waiting>>,
    /// May name one twice, or one that has nothing to write any more.
    ready: BinaryHeap<Reverse<(ProcessingTime, usize)>>,
    stopping: bool,
    /// Threads that serve one output alone.
    own_threads: usize,
}

/// What came of a turn.
struct Served {
    is_last: bool,
    /// Something that was written, now or before.
    has_arrived: bool,
}

struct SinkState {
    /// As a person knows it: the query, or the table of several.
    name: String,
    output: Option<Box<dyn Output>>,
    writes: VecDeque<Queued>,
    under_way: UnderWay,
    /// The nearest deadline among those that wait, or did since the last time that none waited.
    due: ProcessingTime,
    /// What a thread has in its hands.
    busy: Option<Busy>,
    /// Bytes have left by it.
    has_written: bool,
    /// One that wrote here ended without an error.
    has_kept: bool,
    /// Several may write here.
    serves_all: bool,
    /// What was encoded for one is part of what others write, whatever becomes of him.
    is_one_stream: bool,
    /// Where it writes, until it is complete.
    part: Option<Part>,
    /// Where it says that it waits for somebody who is away.
    waiting: Waiting,
    spare: Spare,
    /// Of results of a query with checkpoints.
    finish: Option<(Arc<Finish>, usize)>,
    /// Of an output that may stall.
    own: Option<OwnThread>,
}

#[derive(Clone, Copy)]
struct Busy {
    since: ProcessingTime,
    rows: u32,
}

/// What is to be done for an outlet, in order with all that is done at its output.
struct Queued {
    outlet: Arc<Outlet>,
    what: Bytes,
}

/// What was encoded.
enum Bytes {
    Rows {
        bytes: Vec<u8>,
        rows: u32,
        stamps: Stamps,
        window_end: Option<EventTime>,
        ready: ProcessingTime,
    },
    /// The outlet has no more; others write on.
    End,
    /// Nobody has more.
    Last {
        bytes: Vec<u8>,
    },
    /// What was written so far is to be safe, with the bytes that complete the files begun.
    Prepare {
        bytes: Vec<u8>,
        checkpoint: u64,
        /// The output's, of its query.
        number: usize,
        reply: Sender<Prepared>,
    },
    /// What was prepared is to be seen.
    Commit {
        checkpoint: u64,
    },
}

impl Bytes {
    fn bytes(&self) -> u64 {
        match self {
            Bytes::Rows { bytes, .. } | Bytes::Last { bytes } => bytes.len() as u64,
            Bytes::End | Bytes::Prepare { .. } | Bytes::Commit { .. } => 0,
        }
    }

    fn rows(&self) -> u32 {
        match self {
            Bytes::Rows { rows, .. } => *rows,
            Bytes::End | Bytes::Last { .. } | Bytes::Prepare { .. } | Bytes::Commit { .. } => 0,
        }
    }

    /// Several may go in one write.
    fn is_of_rows(&self) -> bool {
        matches!(self, Bytes::Rows { .. } | Bytes::End)
    }

    fn in_flight(&self) -> InFlight {
        match self {
            // The query goes on meanwhile, and may be held again.
            Bytes::Prepare { .. } | Bytes::Commit { .. } => InFlight::default(),
            _ => InFlight::one(self.rows(), self.bytes()),
        }
    }
}

/// An output that is open, and who writes it.
pub(crate) struct Added<'a> {
    pub sink: OpenSink,
    pub waiting: Waiting,
    pub table: &'a Arc<TableSpec>,
    /// Instances of the query.
    pub writers: usize,
    pub is_result: bool,
    /// Of a query with checkpoints, how it ends and the output's number.
    pub finish: Option<(Arc<Finish>, usize)>,
    pub part: Option<Part>,
}

/// What an output says that was asked to prepare a checkpoint; nothing where it failed, and its query with it.
pub(crate) struct Prepared {
    /// The output's, of its query.
    pub number: usize,
    pub position: OutputPosition,
    pub rest: Option<RestOfPrepare>,
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

    /// Adds an output of a query, and of others who [join](SinkPool::join) it.
    pub(crate) fn add(&self, query: &Arc<Query>, added: Added<'_>) -> Arc<Outlet> {
        let Added { sink, waiting, table, writers, is_result, finish, part } = added;
        let OpenSink { encoder, output, may_stall, serves_all } = sink;
        let mut encodings = self.encodings.write();
        let mut state = self.state.lock();
        let number = state.free.pop().unwrap_or(state.sinks.len());
        let outlet = Arc::new(Outlet::new(query.clone(), number, writers, is_result, output.is_none()));
        let serves_all = serves_all && output.is_some() && finish.is_none();
        let encoding = Arc::new(Encoding::new(encoder, table.clone(), serves_all));
        encoding.lock().enter(&outlet);
        if serves_all {
            state.of_tables.insert(table.name.clone(), number);
        }
        state.waits.entry(query.id).or_default().push(waiting.clone());
        let connects = output.as_ref().is_some_and(|output| output.connects());
        let sink = SinkState {
            name: if serves_all { table.name.clone() } else { query.settings.name.clone() },
            output,
            writes: VecDeque::new(),
            under_way: UnderWay::default(),
            due: ProcessingTime::MAX,
            busy: None,
            has_written: false,
            has_kept: false,
            serves_all,
            is_one_stream: serves_all,
            part,
            waiting,
            spare: encoding.spare.clone(),
            finish: finish.filter(|_| is_result),
            own: may_stall.then(|| OwnThread::new(connects)),
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

    /// Lets so many instances of a query write with others who write the table; `None` if nobody does, or each has an
    /// output of his own.
    pub(crate) fn join(
        &self,
        query: &Arc<Query>,
        table: &TableSpec,
        writers: usize,
        is_result: bool,
    ) -> Option<Arc<Outlet>> {
        let number = *self.state.lock().of_tables.get(&table.name)?;
        let encoding = self.encodings.read()[number].clone();
        let outlet = Arc::new(Outlet::new(query.clone(), number, writers, is_result, false));
        let joins = encoding.lock().join(table, &outlet);
        joins.then(|| self.state.lock().note_joined(&outlet))?;
        Some(outlet)
    }

    /// Lets so many instances of a query write on where another one writes that it takes the place of, behind what that one has
    /// written, also where others could not. `None` if that writes another table, or no more.
    pub(crate) fn take_over(
        &self,
        query: &Arc<Query>,
        from: &Arc<Outlet>,
        table: &TableSpec,
        writers: usize,
        is_result: bool,
    ) -> Option<Arc<Outlet>> {
        if from.is_immediate {
            return None;
        }
        let encoding = self.encodings.read()[from.number].clone();
        let outlet = Arc::new(Outlet::new(query.clone(), from.number, writers, is_result, false));
        let joins = encoding.lock().follow(table, from, &outlet);
        joins.then(|| {
            let mut state = self.state.lock();
            state.note_joined(&outlet);
            state.sinks[from.number].iter_mut().for_each(|sink| sink.is_one_stream = true);
        })?;
        Some(outlet)
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
                    self.push(Queued { outlet: outlet.clone(), what: rows });
                    returned_credit
                });
                let is_taken = encoded.is_some() || open.is_written_by(&outlet);
                drop(open);
                match encoded {
                    Some(true) => self.tell(&outlet.query),
                    Some(false) => {}
                    None => {
                        match is_taken {
                            _ if outlet.query.failed() => {}
                            // Nowhere to go, or held back by the format until there are more rows.
                            true => outlet.count(rows, &stamps, window_end, ready, ready),
                            // It was cancelled while this was worked out.
                            false if outlet.is_result => {
                                outlet.query.rows_dropped.fetch_add(u64::from(rows), Relaxed);
                            }
                            false => {}
                        }
                        outlet.written(&stamps);
                        self.release(&outlet.query, held);
                    }
                }
            }
        }
    }

    /// Ends an outlet once everything before is written, and with the last one of an output the output. Asking twice does
    /// no harm.
    pub(crate) fn close(self: &Arc<SinkPool>, outlet: &Arc<Outlet>) {
        let encoding = self.encodings.read()[outlet.number].clone();
        let mut open = encoding.lock();
        let what = match open.end(outlet) {
            None => return,
            Some(Ended::Left) => Bytes::End,
            Some(Ended::Last(bytes)) => Bytes::Last { bytes },
        };
        outlet.query.admit(what.in_flight());
        self.push(Queued { outlet: outlet.clone(), what });
    }

    /// Asks an output, behind all that was written to it so far, to make that safe. Where it is complete, nobody answers.
    pub(crate) fn prepare(
        self: &Arc<SinkPool>,
        outlet: &Arc<Outlet>,
        checkpoint: u64,
        number: usize,
        reply: Sender<Prepared>,
    ) {
        self.push_if_open(outlet, |open| Bytes::Prepare {
            bytes: open.cut(outlet),
            checkpoint,
            number,
            reply,
        });
    }

    /// Tells an output that the checkpoint is safe.
    pub(crate) fn commit(self: &Arc<SinkPool>, outlet: &Arc<Outlet>, checkpoint: u64) {
        self.push_if_open(outlet, |_| Bytes::Commit { checkpoint });
    }

    fn push_if_open(self: &Arc<SinkPool>, outlet: &Arc<Outlet>, what: impl FnOnce(&mut Open) -> Bytes) {
        if outlet.is_immediate {
            return;
        }
        let encoding = self.encodings.read()[outlet.number].clone();
        // Held until it is queued: nothing ends the output in between.
        let mut open = encoding.lock();
        if open.is_written_by(outlet) {
            self.push(Queued { outlet: outlet.clone(), what: what(&mut open) });
        }
    }

    /// Forgets an outlet that nobody wrote to, and with the last one of an output the output: what was there before stays.
    pub(crate) fn discard(&self, outlet: &Arc<Outlet>) {
        let encoding = self.encodings.read()[outlet.number].clone();
        if !encoding.lock().discard(outlet) {
            return;
        }
        self.state.lock().complete(outlet.number);
    }

    /// True while who reads the output has stopped doing so.
    pub(crate) fn is_stalled(&self, outlet: &Outlet) -> bool {
        let now = self.clock.now();
        let state = self.state.lock();
        let Some(sink) = &state.sinks[outlet.number] else { return false };
        let since = sink.busy.map(|busy| busy.since).or_else(|| sink.under_way.since());
        since.is_some_and(|since| now >= since.plus(STALLED_AFTER))
    }

    /// Whom the outputs of a query wait for, if for somebody.
    pub(crate) fn waits_of(&self, query: QueryId) -> Vec<Wait> {
        let state = self.state.lock();
        state.waits.get(&query).into_iter().flatten().filter_map(Waiting::get).collect()
    }

    /// Nobody asks for the query any more.
    pub(crate) fn forget(&self, query: QueryId) {
        self.state.lock().waits.remove(&query);
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
                tracing::warn!(output = sink.name, rows, "rows were dropped: the output took nothing more");
            }
            sink.writes.clear();
            sink.under_way.clear();
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
            // Another thread may have it in its hands: it goes on with what has come meanwhile.
            let is_free = state.sinks[index].as_ref().is_some_and(|entry| entry.busy.is_none());
            if !is_free {
                continue;
            }
            self.serve(&mut state, index);
            let next = state.sinks[index].as_ref().filter(|entry| !entry.writes.is_empty());
            let next = next.map(|entry| Reverse((entry.due, index)));
            state.ready.extend(next);
        }
    }

    /// Performs the next writes of an output, and sees what has arrived of those before.
    fn serve(&self, state: &mut MutexGuard<'_, PoolState>, index: usize) -> Served {
        let Some(entry) = &mut state.sinks[index] else { return Served { is_last: true, has_arrived: true } };
        let writes = entry.take_writes();
        if writes.is_empty() && entry.under_way.is_empty() {
            return Served { is_last: false, has_arrived: false };
        }
        let is_last = matches!(writes.last(), Some(Queued { what: Bytes::Last { .. }, .. }));
        let rows = writes.iter().map(|write| write.what.rows()).sum();
        let since = entry.under_way.since().unwrap_or_else(|| self.clock.now());
        entry.busy = Some(Busy { since, rows });
        let waits = entry.own.is_none();
        let part = entry.part.take_if(|_| is_last);
        let mut turn = Turn {
            has_written: entry.has_written,
            has_kept: entry.has_kept,
            is_one_stream: entry.is_one_stream,
            output: entry.output.take(),
            spare: entry.spare.clone(),
            finish: entry.finish.clone(),
            under_way: std::mem::take(&mut entry.under_way),
            done: Vec::new(),
        };
        let (turn, has_arrived) = MutexGuard::unlocked(state, || {
            turn.perform(writes, &self.clock);
            if waits {
                turn.wait_for_all(&self.clock);
            }
            let has_arrived = !turn.done.is_empty();
            // Before its query is gone, whose place may be asked for then.
            if let Some(part) = part {
                part.complete();
            }
            turn.done.drain(..).for_each(|(outlet, done)| self.release(&outlet.query, done));
            (turn, has_arrived)
        });
        if is_last {
            state.complete(index);
        } else if let Some(entry) = &mut state.sinks[index] {
            entry.output = turn.output;
            entry.has_written = turn.has_written;
            entry.has_kept = turn.has_kept;
            entry.under_way = turn.under_way;
            entry.busy = None;
        }
        Served { is_last, has_arrived }
    }

    fn push(self: &Arc<SinkPool>, write: Queued) {
        let index = write.outlet.number;
        let mut state = self.state.lock();
        // Whoever has the encoder pushes, and nobody has it after the last bytes.
        let Some(entry) = &mut state.sinks[index] else { return };
        let due = write.deadline();
        // Who is more urgent than those before him makes all of them urgent: they are one stream.
        let is_nearer = due < entry.due;
        entry.due = entry.due.min(due);
        let was_empty = entry.writes.is_empty();
        let is_idle = entry.busy.is_none();
        entry.writes.push_back(write);
        if entry.own.is_some() {
            self.wake_own(&mut state, index);
        } else if is_idle && (was_empty || is_nearer) {
            state.ready.push(Reverse((due, index)));
            drop(state);
            self.wake.notify_one();
        }
    }
}

impl PoolState {
    /// One more writes to an output.
    fn note_joined(&mut self, outlet: &Outlet) {
        if let Some(sink) = &self.sinks[outlet.number] {
            self.waits.entry(outlet.query.id).or_default().push(sink.waiting.clone());
        }
    }

    /// An output takes nothing more.
    fn complete(&mut self, number: usize) {
        if let Some(sink) = self.sinks[number].take() {
            self.free.push(number);
            if self.of_tables.get(&sink.name) == Some(&number) {
                self.of_tables.remove(&sink.name);
            }
        }
    }
}

impl SinkState {
    fn rows_waiting(&self) -> u64 {
        let queued: u64 = self.writes.iter().map(|write| u64::from(write.what.rows())).sum();
        queued + self.busy.map_or(0, |busy| u64::from(busy.rows)) + self.under_way.rows
    }

    /// Something can be written now.
    fn may_write(&self) -> bool {
        // What is not of rows waits by itself until all before it has arrived.
        let goes = |first: &Queued| !first.what.is_of_rows() || self.under_way.bytes < UNDER_WAY_BYTES_MAX;
        self.writes.front().is_some_and(goes)
    }

    /// The first that wait, as many as are worth writing at once.
    fn take_writes(&mut self) -> Vec<Queued> {
        // Thousands of queries may write a line each: one call of the system for them costs as much as one for each.
        const BYTES_AT_ONCE: u64 = 64 << 10;
        const AT_ONCE: usize = 256;
        if !self.may_write() {
            return Vec::new();
        }
        let (mut bytes, mut count) = (0, 0);
        for Queued { what, .. } in self.writes.iter().take(AT_ONCE) {
            bytes += what.bytes();
            if bytes > BYTES_AT_ONCE || !what.is_of_rows() {
                break;
            }
            count += 1;
        }
        let most = if self.serves_all { count } else { 1 };
        let count = most.max(1).min(self.writes.len());
        let writes = self.writes.drain(..count).collect();
        if self.writes.is_empty() {
            self.due = ProcessingTime::MAX;
        }
        writes
    }
}

impl Queued {
    fn deadline(&self) -> ProcessingTime {
        match &self.what {
            Bytes::Rows { stamps, .. } => stamps.ingested.plus_ns(self.outlet.query.target_ns()),
            // A disk that syncs can wait until the rows of others are out.
            _ => ProcessingTime::MAX,
        }
    }
}

#[cfg(test)]
mod tests;
