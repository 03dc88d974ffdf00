//! Threads that read tables and admit rows.
//!
//! One scan serves all queries that read the table. Each reader has its own credit, so one that falls behind
//! leaves a backlog of shared batches. Past a bound on that, the scan waits for it, unless readers with a much
//! shorter target would have to wait too: then those behind share a second scan from there on. So a slow query
//! never slows the source of an urgent one, and overload never adds a scan for every query, which would make it
//! worse.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};

use laxity_connect::{ConnectError, Scan, ScanEnvironment, ScanEvent, ScanSpec, ScannedBatch, open_scan};
use laxity_graph::{EventTime, OperatorId, ProcessingTime};
use laxity_operators::StreamBatch;
use laxity_sched::{Message, Stamps};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::chain_of_causes;
use crate::clock::Clock;
use crate::dispatch::Dispatch;
use crate::instance::message;
use crate::memory::Memory;
use crate::payload::{Payload, batch_bytes};
use crate::query::{Outcome, Query};

/// A table being read, with those who read it.
struct ScanTask {
    spec: ScanSpec,
    scan: Box<dyn Scan>,
    environment: ScanEnvironment,
    readers: Vec<Reader>,
    ended: bool,
    dead_rows_seen: u64,
    /// Bytes of backlog counted against the process. Readers share batches, so it is that of the furthest behind.
    backlog_bytes: u64,
}

/// One query's end of a scan.
pub(crate) struct Reader {
    pub query: Arc<Query>,
    /// The operator instance that takes the rows, by channel 0.
    pub source: OperatorId,
    /// Its columns among those of the scan; `None` if it takes all.
    pub columns: Option<Vec<usize>>,
    backlog: VecDeque<ScannedBatch>,
    backlog_bytes: u64,
    /// Rows given to this reader, its backlog included.
    rows_offered: u64,
    last_batch: ProcessingTime,
    idle: bool,
    /// When the source was last told the time; `None` if it has event time.
    told_time: Option<ProcessingTime>,
}

/// The scans of an engine and the threads' meeting place.
pub(crate) struct ScanPool {
    state: Mutex<PoolState>,
    wake: Condvar,
    /// Tables that the program provides, by name.
    provided: RwLock<HashMap<String, Box<OpenScan>>>,
    clock: Clock,
    credit_bytes: u64,
    backlog_bytes: u64,
    /// Some query allows rows to be dropped: the scheduler has to hear of all that comes.
    sheds: AtomicBool,
}

#[derive(Default)]
struct PoolState {
    slots: Vec<Slot>,
    /// By lane.
    due: [BinaryHeap<Reverse<Due>>; 2],
    /// Tasks that wait for a reader's credit.
    held: Vec<usize>,
    /// Times that credit came back: one that does so while a thread has the task must not be missed.
    credits_returned: u64,
    stopping: bool,
}

/// Scans are served by separate threads according to what a look at them costs, so that one which decodes for
/// milliseconds never stands before one whose row is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Looks that take microseconds: a paced scan from memory, a silent one.
    Prompt,
    /// Looks that decode; and scans not yet known.
    Bulk,
}

struct Slot {
    lane: Lane,
    /// What a look costs, decayed.
    step_ns: u64,
    /// `None` while a thread has it, and once it is done.
    task: Option<ScanTask>,
    /// Only the entry of `due` with this number counts; asking for an earlier look outdates the later one.
    appointment: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: ProcessingTime,
    slot: usize,
    appointment: u64,
}

/// A look dearer than this is bulk: a tenth of the quantum that workers allow themselves.
const BULK_STEP_NS: u64 = 100_000;

impl Slot {
    fn learn(&mut self, step_ns: u64) {
        self.step_ns = (7 * self.step_ns + step_ns) / 8;
        self.lane = if self.step_ns < BULK_STEP_NS { Lane::Prompt } else { Lane::Bulk };
    }
}

impl PoolState {
    fn appoint(&mut self, slot: usize, at: ProcessingTime) {
        let Slot { lane, appointment, .. } = &mut self.slots[slot];
        *appointment += 1;
        self.due[*lane as usize].push(Reverse(Due { at, slot, appointment: *appointment }));
    }
}

enum Step {
    /// Look again then.
    At(ProcessingTime),
    /// Look again when credit comes back.
    Held,
    Done,
}

impl Reader {
    pub(crate) fn new(query: Arc<Query>, source: OperatorId, follows_processing_time: bool) -> Reader {
        Reader {
            query,
            source,
            columns: None,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            rows_offered: 0,
            last_batch: ProcessingTime::ZERO,
            idle: false,
            told_time: follows_processing_time.then_some(ProcessingTime::ZERO),
        }
    }
}

impl ScanTask {
    fn count_backlog(&mut self, memory: &Memory) {
        let bytes = self.readers.iter().map(|reader| reader.backlog_bytes).max().unwrap_or(0);
        memory.grow(bytes as i64 - self.backlog_bytes as i64);
        self.backlog_bytes = bytes;
    }
}

/// How often windows on processing time are moved on. Far below what a person notices, and cheap.
const TELL_TIME_EVERY_NS: u64 = 10_000_000;

/// How often a scan is looked at whose rows come from outside, when they come.
const WAITING_RETRY_NS: u64 = 1_000_000;

/// Opens a table that the program provides itself.
pub(crate) type OpenScan =
    dyn Fn(&ScanSpec, &ScanEnvironment) -> Result<Box<dyn Scan>, ConnectError> + Send + Sync;

impl ScanPool {
    pub(crate) fn new(clock: Clock, credit_bytes: u64, backlog_bytes: u64) -> ScanPool {
        ScanPool {
            state: Mutex::new(PoolState::default()),
            wake: Condvar::new(),
            provided: RwLock::new(HashMap::new()),
            clock,
            credit_bytes,
            backlog_bytes,
            sheds: AtomicBool::new(false),
        }
    }

    /// From now on the scheduler is asked what to drop.
    pub(crate) fn shed(&self) {
        self.sheds.store(true, Relaxed);
    }

    pub(crate) fn credit_bytes(&self) -> u64 {
        self.credit_bytes
    }

    /// Takes scans of the table from `open` instead of its connector.
    pub(crate) fn provide(&self, table: &str, open: Box<OpenScan>) {
        self.provided.write().insert(table.to_string(), open);
    }

    /// Opens a table for its readers.
    ///
    /// # Errors
    /// If the table cannot be opened.
    pub(crate) fn open(
        &self,
        spec: ScanSpec,
        environment: ScanEnvironment,
        mut readers: Vec<Reader>,
    ) -> Result<(), ConnectError> {
        let scan = self.open_scan(&spec, &environment)?;
        for reader in &mut readers {
            reader.rows_offered = environment.skip_rows;
            reader.last_batch = environment.start;
        }
        self.add(ScanTask {
            spec,
            scan,
            environment,
            readers,
            ended: false,
            dead_rows_seen: 0,
            backlog_bytes: 0,
        });
        Ok(())
    }

    fn open_scan(
        &self,
        spec: &ScanSpec,
        environment: &ScanEnvironment,
    ) -> Result<Box<dyn Scan>, ConnectError> {
        match self.provided.read().get(&spec.table.name) {
            Some(open) => open(spec, environment),
            None => open_scan(spec, environment),
        }
    }

    fn add(&self, task: ScanTask) {
        let mut state = self.state.lock();
        state.slots.push(Slot { lane: Lane::Bulk, step_ns: BULK_STEP_NS, task: Some(task), appointment: 0 });
        let slot = state.slots.len() - 1;
        state.appoint(slot, ProcessingTime::ZERO);
        drop(state);
        self.wake.notify_all();
    }

    /// Called when rows of a held query were processed.
    pub(crate) fn credit_returned(&self) {
        let mut state = self.state.lock();
        state.credits_returned += 1;
        for slot in std::mem::take(&mut state.held) {
            state.appoint(slot, ProcessingTime::ZERO);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Admits nothing more and lets the threads return.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        *state = PoolState { stopping: true, ..PoolState::default() };
        drop(state);
        self.wake.notify_all();
    }

    /// What the threads of a lane do.
    pub(crate) fn run(&self, lane: Lane, dispatch: &Dispatch, memory: &Memory) {
        // The memory of the whole process may free up without this query's doing: look again now and then.
        const HELD_RETRY_NS: u64 = 10_000_000;
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return;
            }
            let now = self.clock.now();
            match state.due[lane as usize].peek().copied() {
                None => self.wake.wait(&mut state),
                Some(Reverse(due)) if state.slots[due.slot].appointment != due.appointment => {
                    state.due[lane as usize].pop();
                }
                Some(Reverse(due)) if due.at > now => {
                    self.wake.wait_until(&mut state, self.clock.instant(due.at));
                }
                Some(Reverse(Due { slot, .. })) => {
                    state.due[lane as usize].pop();
                    let Some(mut task) = state.slots[slot].task.take() else { continue };
                    state.held.retain(|&held| held != slot);
                    let credits_before = state.credits_returned;
                    drop(state);
                    let (step, split_off) = self.step(&mut task, now, dispatch, memory);
                    if let Some(new) = split_off {
                        self.add(new);
                    }
                    let step_ns = self.clock.now().since_ns(now);
                    state = self.state.lock();
                    if state.stopping {
                        continue;
                    }
                    state.slots[slot].learn(step_ns);
                    if state.slots[slot].lane != lane {
                        self.wake.notify_all();
                    }
                    match step {
                        Step::Done => drop(task),
                        Step::At(at) => {
                            state.slots[slot].task = Some(task);
                            state.appoint(slot, at);
                        }
                        Step::Held => {
                            state.slots[slot].task = Some(task);
                            // A credit that came back since the step began may be the one it waits for.
                            let missed = state.credits_returned > credits_before;
                            state.appoint(slot, if missed { now } else { now.plus_ns(HELD_RETRY_NS) });
                            state.held.push(slot);
                        }
                    }
                }
            }
        }
    }

    fn step(
        &self,
        task: &mut ScanTask,
        now: ProcessingTime,
        dispatch: &Dispatch,
        memory: &Memory,
    ) -> (Step, Option<ScanTask>) {
        task.readers.retain(|reader| !reader.query.stopped());
        if task.readers.is_empty() {
            task.count_backlog(memory);
            return (Step::Done, None);
        }
        let mut messages = Vec::new();
        let mut behind = 0;
        for reader in &mut task.readers {
            self.flush(reader, now, memory, &mut messages);
            self.tell_time(reader, now, &mut messages);
            // Who may drop rows must be offered them as they come: how many come decides how many are dropped.
            behind += usize::from(!reader.backlog.is_empty() && !reader.query.settings.shed);
        }
        let everyone_behind = behind == task.readers.len();
        let was_ended = task.ended;
        let mut step = if was_ended {
            let flushed = task.readers.iter().filter(|reader| reader.backlog.is_empty());
            messages.extend(flushed.map(|reader| end_of_input(reader, now)));
            Step::Held
        } else if everyone_behind || task.readers.iter().any(|reader| self.is_too_far_behind(reader)) {
            Step::Held
        } else {
            self.look(task, now, dispatch, memory, &mut messages)
        };
        if !messages.is_empty() {
            dispatch.enqueue(&mut messages, now);
            for message in messages {
                // Its query ended while it was read.
                if let Some(reader) = task.readers.iter().find(|reader| reader.source == message.to) {
                    reader.query.release(message.rows, message.bytes);
                }
            }
        }
        if was_ended {
            task.readers.retain(|reader| !reader.backlog.is_empty());
            step = if task.readers.is_empty() { Step::Done } else { Step::Held };
        }
        let split = self.split_off(task);
        task.count_backlog(memory);
        (step, split)
    }

    /// Asks the scan for rows: once, or several times where it gives only a few, so that what a look costs here
    /// is shared among them.
    fn look(
        &self,
        task: &mut ScanTask,
        started: ProcessingTime,
        dispatch: &Dispatch,
        memory: &Memory,
        messages: &mut Vec<Message<Payload>>,
    ) -> Step {
        // Half of what still counts as prompt, and a size from which the look itself no longer matters.
        const LOOKS_NS_MAX: u64 = BULK_STEP_NS / 2;
        const FEW_ROWS: usize = 64;
        let mut now = started;
        loop {
            let event = match task.scan.poll(now) {
                Ok(event) => event,
                Err(error) => {
                    let why = chain_of_causes(&error);
                    for reader in &task.readers {
                        tracing::error!(query = reader.query.settings.name, why, "query stopped");
                        reader.query.end(Outcome::Failed(why.clone()));
                    }
                    return Step::Done;
                }
            };
            let few = matches!(&event, ScanEvent::Batch(batch) if batch.rows.num_rows() < FEW_ROWS);
            let step = self.on_event(task, event, now, dispatch, memory, messages);
            let behind = task.readers.iter().any(|reader| !reader.backlog.is_empty());
            now = self.clock.now();
            if !few || behind || now.since_ns(started) > LOOKS_NS_MAX {
                return step;
            }
        }
    }

    fn on_event(
        &self,
        task: &mut ScanTask,
        event: ScanEvent,
        now: ProcessingTime,
        dispatch: &Dispatch,
        memory: &Memory,
        messages: &mut Vec<Message<Payload>>,
    ) -> Step {
        let dead_rows = task.scan.dead_rows();
        let new_dead_rows = dead_rows.saturating_sub(task.dead_rows_seen);
        task.dead_rows_seen += new_dead_rows;
        for reader in &mut task.readers {
            reader.query.rows_dead.fetch_add(new_dead_rows, Relaxed);
            if let Some(progress) = task.scan.progress() {
                reader.query.set_progress(progress);
            }
        }
        match event {
            ScanEvent::Batch(batch) => {
                let clock = task.scan.event_clock();
                for reader in &mut task.readers {
                    if let Some(clock) = clock {
                        // Set once: every scan of a query shows the same clock from its first batch on.
                        let _ = reader.query.event_clock.set(clock);
                    }
                    reader.rows_offered += batch.rows.num_rows() as u64;
                    reader.last_batch = now;
                    reader.idle = false;
                    let Some(batch) = self.shed_from(reader, batch.clone(), now, dispatch) else { continue };
                    reader.backlog_bytes += batch_bytes(&batch.rows);
                    reader.backlog.push_back(batch);
                    self.flush(reader, now, memory, messages);
                }
                Step::At(now)
            }
            ScanEvent::NotBefore(_) | ScanEvent::Waiting => {
                let mut next = match event {
                    ScanEvent::NotBefore(due) => due.max(now.plus_ns(1)),
                    _ => now.plus_ns(WAITING_RETRY_NS),
                };
                for reader in &mut task.readers {
                    if let Some(told) = reader.told_time {
                        next = next.min(told.plus_ns(TELL_TIME_EVERY_NS));
                    }
                    if let Some(silent) = self.idle_after(reader, now, messages) {
                        next = next.min(silent);
                    }
                }
                Step::At(next)
            }
            ScanEvent::End => {
                task.ended = true;
                Step::At(now)
            }
        }
    }

    /// What is left of a batch once the scheduler has said how many of its rows to drop; `None` if nothing is.
    ///
    /// The first go, so that the newest row, which moves the watermark, stays.
    fn shed_from(
        &self,
        reader: &Reader,
        batch: ScannedBatch,
        now: ProcessingTime,
        dispatch: &Dispatch,
    ) -> Option<ScannedBatch> {
        if !self.sheds.load(Relaxed) {
            return Some(batch);
        }
        let rows = batch.rows.num_rows();
        let dropped = dispatch.rows_to_shed(reader.source, rows as u32, now) as usize;
        reader.query.rows_shed.fetch_add(dropped as u64, Relaxed);
        (dropped < rows)
            .then(|| ScannedBatch { rows: batch.rows.slice(dropped, rows - dropped), arrival: batch.arrival })
    }

    /// Drops what has waited for credit until its results are worth nothing, where the query allows that.
    fn shed_worthless(reader: &mut Reader, now: ProcessingTime) {
        let Some(after_ns) = reader.query.sheds_after_ns() else { return };
        while let Some(batch) = reader.backlog.pop_front_if(|batch| now.since_ns(batch.arrival) > after_ns) {
            reader.backlog_bytes -= batch_bytes(&batch.rows);
            reader.query.rows_shed.fetch_add(batch.rows.num_rows() as u64, Relaxed);
        }
    }

    /// Moves windows on processing time on, once everything admitted before has been handed over.
    fn tell_time(&self, reader: &mut Reader, now: ProcessingTime, messages: &mut Vec<Message<Payload>>) {
        let Some(told) = reader.told_time else { return };
        if now >= told.plus_ns(TELL_TIME_EVERY_NS) && reader.backlog.is_empty() {
            reader.told_time = Some(now);
            let unix_ms = self.clock.unix_start_ms() + (now.0 / 1_000_000) as i64;
            // Up to the millisecond before: rows of this one may still come.
            messages.push(signal(reader, now, Some(EventTime(unix_ms - 1))));
        }
    }

    /// Declares a reader idle once it was silent for its timeout; else when that will be.
    fn idle_after(
        &self,
        reader: &mut Reader,
        now: ProcessingTime,
        messages: &mut Vec<Message<Payload>>,
    ) -> Option<ProcessingTime> {
        let timeout = reader.query.settings.idle_timeout?;
        // Rows held back for want of credit are our silence, not the source's.
        if reader.idle || !reader.backlog.is_empty() {
            return None;
        }
        let due = reader.last_batch.plus(timeout);
        if due > now {
            return Some(due);
        }
        reader.idle = true;
        messages.push(signal(reader, now, None));
        None
    }

    /// Admits what the reader's credit allows.
    fn flush(
        &self,
        reader: &mut Reader,
        now: ProcessingTime,
        memory: &Memory,
        messages: &mut Vec<Message<Payload>>,
    ) {
        ScanPool::shed_worthless(reader, now);
        while !reader.backlog.is_empty() {
            if !self.has_credit(&reader.query, memory) {
                return;
            }
            let batch = reader.backlog.pop_front().expect("checked above");
            reader.backlog_bytes -= batch_bytes(&batch.rows);
            let rows = match &reader.columns {
                Some(columns) => batch.rows.project(columns).expect("columns of this scan"),
                None => batch.rows,
            };
            reader.query.rows_in.fetch_add(rows.num_rows() as u64, Relaxed);
            let stamps = Stamps::admitted(batch.arrival, now);
            let payload = Payload {
                batch: Some(StreamBatch::on_time(rows)),
                watermark: None,
                idle: false,
                stamps,
                window_end: None,
            };
            messages.push(admitted(reader, EventTime::MIN, payload));
        }
    }

    fn has_credit(&self, query: &Query, memory: &Memory) -> bool {
        let enough = || query.in_flight_bytes.load(SeqCst) < self.credit_bytes as i64 && memory.admits(query);
        // Asking for the wake-up before looking again: a credit returned in between is seen here or wakes us.
        enough() || {
            query.held.store(true, SeqCst);
            enough()
        }
    }

    fn is_too_far_behind(&self, reader: &Reader) -> bool {
        reader.backlog_bytes > self.backlog_bytes
    }

    /// Gives the readers that can wait a scan of their own, once one of them holds up those that cannot.
    fn split_off(&self, task: &mut ScanTask) -> Option<ScanTask> {
        let target_ns = |reader: &Reader| reader.query.settings.latency_target.ns();
        // What can be read only once stays one scan.
        if !task.scan.is_repeatable() {
            return None;
        }
        let urgent_ns = task.readers.iter().map(target_ns).min()?.saturating_mul(PEERS_WITHIN);
        let can_wait = |reader: &Reader| target_ns(reader) > urgent_ns;
        if !task.readers.iter().any(|reader| can_wait(reader) && self.is_too_far_behind(reader)) {
            return None;
        }
        let (leaving, staying): (Vec<Reader>, Vec<Reader>) =
            std::mem::take(&mut task.readers).into_iter().partition(can_wait);
        task.readers = staying;
        // All readers of a scan were offered the same rows; what differs is how many of them wait in a backlog.
        let environment = ScanEnvironment { skip_rows: leaving[0].rows_offered, ..task.environment.clone() };
        match self.open_scan(&task.spec, &environment) {
            Ok(scan) => Some(ScanTask {
                spec: task.spec.clone(),
                scan,
                environment,
                readers: leaving,
                ended: task.ended,
                // It meets again the dead rows among those it skips.
                dead_rows_seen: task.dead_rows_seen,
                backlog_bytes: 0,
            }),
            Err(error) => {
                let why = chain_of_causes(&error);
                for reader in leaving {
                    tracing::error!(query = reader.query.settings.name, why, "query stopped");
                    reader.query.end(Outcome::Failed(why.clone()));
                }
                None
            }
        }
    }
}

/// Queries whose targets differ by less than this factor wait for each other at a shared source. Picked: an
/// order of magnitude is what separates an urgent query from the others.
const PEERS_WITHIN: u64 = 10;

fn end_of_input(reader: &Reader, now: ProcessingTime) -> Message<Payload> {
    signal(reader, now, Some(EventTime::MAX))
}

/// A message without rows: a watermark, or else idleness.
fn signal(reader: &Reader, now: ProcessingTime, watermark: Option<EventTime>) -> Message<Payload> {
    let stamps = Stamps::admitted(now, now);
    let payload = Payload { batch: None, watermark, idle: watermark.is_none(), stamps, window_end: None };
    admitted(reader, watermark.unwrap_or(EventTime::MIN), payload)
}

fn admitted(reader: &Reader, progress: EventTime, payload: Payload) -> Message<Payload> {
    let message = message(reader.source, 0, progress, payload);
    reader.query.admit(message.rows, message.bytes);
    message
}
