//! The record of a query that everything else points to: credit, counts, promise, how it stands. Many threads read and
//! change it at once.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};

use laxity_graph::{
    Approximation, EventClock, EventTime, LatencyTarget, OperatorId, ProcessingTime, QosCurve, QueryId,
    QuerySettings,
};
use laxity_sched::{Ladder, LeavesOut, QuerySpec, Stamps};
use parking_lot::Mutex;

use crate::Process;
use crate::asked::AskedTimes;
use crate::hold::Hold;
use crate::offered::{Offered, OfferedRows};
use crate::pace::Pace;
use crate::results::{DueBy, Owed, ResultFigures, ResultSummary, Results};

/// A query while it runs: what the user set, what it holds, what it has done.
///
/// Counters are relaxed: each is a total of its own, and no decision rests on two of them agreeing, but for
/// `in_flight`, whose protocol is written there.
#[derive(Debug)]
pub struct Query {
    /// As the scheduler knows it.
    pub id: QueryId,
    /// What the user said of it at first. What was promised may have changed since: [`promise`](Query::promise).
    pub settings: QuerySettings,
    promise: Mutex<Promise>,
    /// Of the promise, for those who ask at every result.
    target_ns: AtomicU64,
    /// Rows admitted, without those that a shared table has offered.
    pub(crate) rows_in: AtomicU64,
    /// Rows written.
    pub rows_out: AtomicU64,
    /// Rows that came too late for their window.
    pub rows_late: AtomicU64,
    /// Rows that could not be read, without those of a shared table.
    pub(crate) rows_dead: AtomicU64,
    /// Rows dropped at the sources to shed load.
    pub rows_shed: AtomicU64,
    ladder: Mutex<Ladder>,
    /// Rows admitted and thrown away unprocessed, because it was halted before their turn came.
    pub rows_dropped: AtomicU64,
    /// Messages admitted and not yet fully processed, writes to sinks included. A message is counted before
    /// it can be seen by a worker and un-counted not before its own outputs are counted, so zero means drained.
    pub in_flight: AtomicI64,
    /// Bytes of those messages.
    pub in_flight_bytes: AtomicI64,
    /// Rows of those messages.
    pub in_flight_rows: AtomicI64,
    /// Bytes of operator state, summed over instances as each reports its change.
    pub state_bytes: AtomicI64,
    /// A table waits for this query's credit: one of `waiting`.
    held: AtomicBool,
    /// Those that do.
    waiting: Mutex<Vec<OperatorId>>,
    /// The watermark that reached the sinks, event-time ms.
    pub(crate) watermark_ms: AtomicI64,
    /// Where its event times lie on the clock, once a table has said so.
    pub event_clock: OnceLock<EventClock>,
    /// How its one source's watermark follows the clock.
    pub(crate) pace: Pace,
    /// Of its sources that judge rows by when they came, batch by batch.
    pub(crate) asked: AskedTimes,
    /// What it has done by leaving rows out, if it does; as of the last window that answered.
    pub approximation: Mutex<Option<Approximation>>,
    /// The scheduler says so of the rows that come.
    pub(crate) is_to_leave_out: AtomicBool,
    /// Results not complete yet.
    pub open_sinks: AtomicI64,
    /// Keeps it still while it is checkpointed.
    pub(crate) hold: Hold,
    last_checkpoint: Mutex<Option<LastCheckpoint>>,
    process: Arc<Process>,
    /// Part of the bounded inputs read, as the bits of an f64; negative while unknown.
    progress_bits: AtomicU64,
    stopped: AtomicBool,
    failed: AtomicBool,
    passes: AtomicBool,
    outcome: Mutex<Outcome>,
    results: Mutex<Results>,
    /// What makes its results due, once it has operators.
    pub(crate) due_by: OnceLock<DueBy>,
    /// End of the first window that is owed, event-time ms; `i64::MAX` while none is. Written under the lock of
    /// `results`, so that a watermark that has nothing to settle need not take it.
    owed_window_ms: AtomicI64,
    late_windows: Mutex<BTreeMap<i64, u64>>,
    /// The table that it shares with others.
    shared: Mutex<Option<SharedCounts>>,
}

/// What a table that is shared has offered, and how much of that is not this query's.
#[derive(Debug)]
struct SharedCounts {
    offered: Arc<Offered>,
    /// When it joined.
    before: OfferedRows,
    /// When it was held: others read on.
    held_at: Option<OfferedRows>,
    /// Rows that were late by then, where others do its work and go on.
    late_at: Option<u64>,
}

impl SharedCounts {
    fn since(&self, now: OfferedRows) -> OfferedRows {
        OfferedRows {
            rows: now.rows.saturating_sub(self.before.rows),
            dead_rows: now.dead_rows.saturating_sub(self.before.dead_rows),
        }
    }

    fn own(&self) -> OfferedRows {
        self.since(self.offered.rows())
    }
}

/// What a query is promised, and how much it matters. Can be changed while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// Its latency target.
    pub latency_target: LatencyTarget,
    /// How useful a result is by its latency; the target's curve where it is not given.
    pub qos: Option<QosCurve>,
    /// Relative importance, positive.
    pub weight: f64,
}

impl Promise {
    /// As the user said at first.
    pub fn of(settings: &QuerySettings) -> Promise {
        let QuerySettings { latency_target, qos, weight, .. } = settings;
        Promise { latency_target: *latency_target, qos: qos.clone(), weight: *weight }
    }

    fn curve(&self) -> QosCurve {
        self.qos.clone().unwrap_or_else(|| QosCurve::of_target(self.latency_target))
    }
}

/// Messages and writes on their way, and what is in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// How many.
    pub messages: i64,
    /// Rows in them.
    pub rows: i64,
    /// Bytes of those.
    pub bytes: i64,
}

impl InFlight {
    /// A message or a write.
    pub fn one(rows: u32, bytes: u64) -> InFlight {
        InFlight { messages: 1, rows: i64::from(rows), bytes: bytes as i64 }
    }

    /// One more.
    pub(crate) fn add(&mut self, other: InFlight) {
        self.messages += other.messages;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// Rows of a query since it began, over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// See [`Query::rows_in`].
    pub rows_in: u64,
    /// See [`Query::rows_out`].
    pub rows_out: u64,
    /// See [`Query::rows_late`].
    pub rows_late: u64,
    /// See [`Query::rows_dead`].
    pub rows_dead: u64,
    /// See [`Query::rows_shed`].
    pub rows_shed: u64,
    /// See [`Query::rows_dropped`].
    pub rows_dropped: u64,
}

/// A checkpoint of a query, for who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// Its number.
    pub number: u64,
    /// When it was safe.
    pub safe_at: ProcessingTime,
    /// Its bytes on the store.
    pub bytes: u64,
    /// Of those, what was written for it: the rest is as it was in the one before.
    pub written_bytes: u64,
    /// For how long the query took nothing in, in the longest of its checkpoints so far, ns.
    pub longest_pause_ns: u64,
}

/// How a query stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Rows may still come.
    Running,
    /// All inputs ended and all results were written, or the engine was stopped and the query drained.
    Finished,
    /// Somebody asked for its end; what it had written stays.
    Cancelled,
    /// The query was stopped by this error; the others went on.
    Failed(String),
}

impl Query {
    /// A query that starts, with so many sinks for results.
    pub fn new(id: QueryId, settings: QuerySettings, sinks: usize, process: Arc<Process>) -> Query {
        let promise = Promise::of(&settings);
        let target_ns = promise.latency_target.ns();
        Query {
            id,
            results: Mutex::new(Results::new(target_ns, promise.curve())),
            due_by: OnceLock::new(),
            owed_window_ms: AtomicI64::new(i64::MAX),
            promise: Mutex::new(promise),
            target_ns: AtomicU64::new(target_ns),
            settings,
            rows_in: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            rows_late: AtomicU64::new(0),
            rows_dead: AtomicU64::new(0),
            rows_shed: AtomicU64::new(0),
            ladder: Mutex::default(),
            rows_dropped: AtomicU64::new(0),
            in_flight: AtomicI64::new(0),
            in_flight_bytes: AtomicI64::new(0),
            in_flight_rows: AtomicI64::new(0),
            state_bytes: AtomicI64::new(0),
            held: AtomicBool::new(false),
            waiting: Mutex::default(),
            watermark_ms: AtomicI64::new(EventTime::MIN.0),
            event_clock: OnceLock::new(),
            pace: Pace::default(),
            asked: AskedTimes::default(),
            approximation: Mutex::new(None),
            is_to_leave_out: AtomicBool::new(false),
            open_sinks: AtomicI64::new(sinks as i64),
            hold: Hold::default(),
            last_checkpoint: Mutex::new(None),
            process,
            progress_bits: AtomicU64::new((-1.0_f64).to_bits()),
            stopped: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            passes: AtomicBool::new(false),
            outcome: Mutex::new(Outcome::Running),
            late_windows: Mutex::new(BTreeMap::new()),
            shared: Mutex::new(None),
        }
    }

    /// So many of its rows were dropped at a source.
    pub(crate) fn count_shed(&self, rows: u32, now: ProcessingTime) {
        self.rows_shed.fetch_add(u64::from(rows), Relaxed);
        self.ladder.lock().shed.see(now);
    }

    /// What was done about too much work, where its scheduler says this of what schedulers do; `None`: as was last
    /// [kept](Query::keep_ladder).
    pub fn ladder(&self, scheduler: Option<Ladder>) -> Ladder {
        let own = *self.ladder.lock();
        Ladder { shed: own.shed, ..scheduler.unwrap_or(own) }
    }

    /// Its scheduler is about to forget it.
    pub fn keep_ladder(&self, scheduler: Ladder) {
        let mut own = self.ladder.lock();
        *own = Ladder { shed: own.shed, ..scheduler };
    }

    /// Counts a message or a write before anyone else can see it.
    pub fn admit(&self, one: InFlight) {
        let _never_for_more = self.settle(one, InFlight::default());
    }

    /// Un-counts it, after its own outputs were counted. True: [`wake`](Query::wake) those who wait for credit.
    #[must_use]
    pub fn release(&self, one: InFlight) -> bool {
        self.settle(InFlight::default(), one)
    }

    /// Counts what a run has sent and un-counts what it is done with, before anyone else can see what it sent. True:
    /// [`wake`](Query::wake) those who wait for credit.
    ///
    /// At once, because the difference is often nothing, and what is not written is not taken from the core of the
    /// table's reader, which counts here too.
    #[must_use]
    pub fn settle(&self, sent: InFlight, done: InFlight) -> bool {
        let messages = sent.messages - done.messages;
        let rows = sent.rows - done.rows;
        let bytes = sent.bytes - done.bytes;
        if messages > 0 {
            self.in_flight.fetch_add(messages, AcqRel);
        }
        if rows != 0 {
            self.in_flight_rows.fetch_add(rows, Relaxed);
        }
        if bytes != 0 {
            self.process.memory.grow(bytes);
            self.process.memory.grow_in_flight(bytes);
        }
        // SeqCst, as in `has_credit`: either it sees the credit or we see that it waits.
        let left = match bytes {
            0 => self.in_flight_bytes.load(SeqCst),
            _ => self.in_flight_bytes.fetch_add(bytes, SeqCst) + bytes,
        };
        let is_waited_for =
            left < self.process.credit_bytes as i64 / 2 && self.held.load(SeqCst) && !self.hold.is_held();
        // Last, and AcqRel: whoever reads zero sees everything done before.
        if messages < 0 && self.in_flight.fetch_add(messages, AcqRel) + messages == 0 && self.stopped() {
            // It has ended, and this was the last of it: its name may be waited for.
            self.process.wake();
        }
        is_waited_for && self.held.swap(false, SeqCst)
    }

    /// Who waits for credit, to be looked at again.
    pub fn wake(&self) -> Vec<OperatorId> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// That operator judges rows by when they came, batch by batch, each of which may reach over so much event time.
    pub fn judges_arrivals(&self, operator: OperatorId, is_source: bool, step_ms: i64) {
        self.asked.add(operator, is_source, step_ms);
    }

    /// That operator wants to be told of that instant, behind all rows that were due by then; or of none.
    pub fn asks_for_time(&self, operator: OperatorId, at: Option<ProcessingTime>) {
        self.asked.ask(operator, at);
    }

    /// An operator wants to be told what time has come, and waits for tables: those are to be looked at. False if none that
    /// could tell it is known yet.
    pub(crate) fn waits_for_time(&self, operator: OperatorId) -> bool {
        let tables = self.asked.tables(operator);
        tables.iter().for_each(|&table| self.waits_for(table));
        !tables.is_empty()
    }

    /// That table is to be looked at once those who wait for credit are.
    pub(crate) fn waits_for(&self, table: OperatorId) {
        let mut waiting = self.waiting.lock();
        if !waiting.contains(&table) {
            waiting.push(table);
        }
    }

    /// Whether a table may admit more rows. If not, it is among those that wait.
    pub fn has_credit(&self, table: OperatorId) -> bool {
        let enough = || {
            !self.hold.is_held()
                && self.in_flight_bytes.load(SeqCst) < self.process.credit_bytes as i64
                && self.process.memory.admits(self)
        };
        // Asking for the wake-up before looking again: a credit returned in between is seen here or wakes us.
        enough() || {
            self.waits_for(table);
            self.held.store(true, SeqCst);
            enough()
        }
    }

    /// Lets it take nothing in, and not end. Once each table that it reads was [visited](crate::Intake::visit) and it
    /// is [drained](Query::drained), what its instances and outputs hold is all there is of it, until
    /// [`let_go`](Query::let_go).
    pub fn hold(&self) {
        if let Some(shared) = &mut *self.shared.lock() {
            (shared.held_at, shared.late_at) = (None, None);
        }
        self.hold.begin();
    }

    /// It takes rows in again. Who waited for that, to be looked at.
    #[must_use]
    pub fn let_go(&self) -> Vec<OperatorId> {
        self.hold.end();
        self.held.store(false, SeqCst);
        self.wake()
    }

    /// What was saved of it while it was held is safe, or given up: it may come to its end.
    pub fn let_end(&self) {
        self.hold.may_end();
    }

    /// True if one of its sources waits to say that it has ended: until that is said no other checkpoint should begin.
    pub fn wants_to_end(&self) -> bool {
        self.hold.wants_to_end()
    }

    /// True while it takes nothing in.
    pub fn is_held(&self) -> bool {
        self.hold.is_held()
    }

    /// This source of it will get nothing, and was told so: by a process before this one.
    pub fn note_ended(&self, source: OperatorId) {
        self.hold.on_end_of_input(source);
    }

    /// A checkpoint of it is safe.
    pub fn on_checkpoint(&self, last: LastCheckpoint) {
        let mut current = self.last_checkpoint.lock();
        let longest_ns = current.map_or(0, |current| current.longest_pause_ns);
        *current = Some(LastCheckpoint { longest_pause_ns: longest_ns.max(last.longest_pause_ns), ..last });
    }

    /// The last one that is safe, taken by this process or the one that it was restored from.
    pub fn last_checkpoint(&self) -> Option<LastCheckpoint> {
        *self.last_checkpoint.lock()
    }

    /// True if this source of it has got all that it ever will.
    pub fn has_ended(&self, source: OperatorId) -> bool {
        self.hold.has_ended(source)
    }

    /// True if nothing of it is on its way.
    pub fn drained(&self) -> bool {
        self.in_flight.load(Acquire) == 0
    }

    /// Takes the change of one instance's state; the query's total after it.
    pub fn grow_state(&self, bytes: i64) -> i64 {
        self.process.memory.grow(bytes);
        self.state_bytes.fetch_add(bytes, Relaxed) + bytes
    }

    pub(crate) fn set_progress(&self, progress: f64) {
        self.progress_bits.store(progress.to_bits(), Relaxed);
    }

    /// Reads a table with others from now on, or no longer.
    pub(crate) fn share(&self, offered: Option<&Arc<Offered>>) {
        let mut shared = self.shared.lock();
        if let Some(shared) = shared.take() {
            let own = shared.own();
            self.rows_in.fetch_add(own.rows, Relaxed);
            self.rows_dead.fetch_add(own.dead_rows, Relaxed);
            if let Some(progress) = shared.offered.progress() {
                self.set_progress(progress);
            }
        }
        *shared = offered.map(|offered| SharedCounts {
            offered: offered.clone(),
            before: offered.rows(),
            held_at: None,
            late_at: None,
        });
    }

    /// It has had so many of the dead rows that the table which it shares will offer, and lacks so many of those before.
    pub(crate) fn had_dead(&self, ahead: u64, missed: u64) {
        if let Some(shared) = &mut *self.shared.lock() {
            shared.before.dead_rows += ahead;
        }
        self.rows_dead.fetch_add(missed, Relaxed);
    }

    /// It is held, and this is where the table which it shares stands for it.
    pub(crate) fn note_offered(&self) {
        if let Some(shared) = &mut *self.shared.lock() {
            shared.held_at = Some(shared.offered.rows());
        }
    }

    /// It is held, and what is saved of it is what others held for it when the table had offered that, and so many of its
    /// rows had been late.
    pub(crate) fn note_saved(&self, offered: OfferedRows, rows_late: u64) {
        if let Some(shared) = &mut *self.shared.lock() {
            (shared.held_at, shared.late_at) = (Some(offered), Some(rows_late));
        }
    }

    /// Rows that it was offered and did not refuse.
    pub fn rows_in(&self) -> u64 {
        let offered = self.shared.lock().as_ref().map_or(0, |shared| shared.own().rows);
        self.rows_in.load(Relaxed) + offered
    }

    /// Rows that could not be read.
    pub fn rows_dead(&self) -> u64 {
        let offered = self.shared.lock().as_ref().map_or(0, |shared| shared.own().dead_rows);
        self.rows_dead.load(Relaxed) + offered
    }

    /// What it has counted; of a query that is held, up to where its tables stood then.
    pub fn counts(&self) -> Counts {
        let is_held = self.is_held();
        let shared = self.shared.lock();
        let offered = shared.as_ref().map_or_else(OfferedRows::default, |shared| {
            shared.since(shared.held_at.filter(|_| is_held).unwrap_or_else(|| shared.offered.rows()))
        });
        let late_at = shared.as_ref().and_then(|shared| shared.late_at).filter(|_| is_held);
        drop(shared);
        Counts {
            rows_in: self.rows_in.load(Relaxed) + offered.rows,
            rows_out: self.rows_out.load(Relaxed),
            rows_late: late_at.unwrap_or_else(|| self.rows_late.load(Relaxed)),
            rows_dead: self.rows_dead.load(Relaxed) + offered.dead_rows,
            rows_shed: self.rows_shed.load(Relaxed),
            rows_dropped: self.rows_dropped.load(Relaxed),
        }
    }

    /// Counts on from there. Before it takes anything in.
    pub fn count_from(&self, counts: Counts) {
        self.rows_in.store(counts.rows_in, Relaxed);
        self.rows_out.store(counts.rows_out, Relaxed);
        self.rows_late.store(counts.rows_late, Relaxed);
        self.rows_dead.store(counts.rows_dead, Relaxed);
        self.rows_shed.store(counts.rows_shed, Relaxed);
        self.rows_dropped.store(counts.rows_dropped, Relaxed);
    }

    /// How far event time has come, as its results show; of one that has nothing to do, as its table shows. `None` before
    /// the first watermark.
    pub fn watermark(&self) -> Option<EventTime> {
        let own = EventTime(self.watermark_ms.load(Relaxed));
        let shared = self.shared.lock();
        let of_table = shared.as_ref().map(|shared| shared.offered.watermark()).filter(|_| self.drained());
        Some(of_table.unwrap_or(own).max(own)).filter(|&watermark| watermark != EventTime::MIN)
    }

    /// Part of its bounded inputs that was read, 0 to 1.
    pub fn progress(&self) -> Option<f64> {
        if let Some(shared) = &*self.shared.lock() {
            return shared.offered.progress();
        }
        let progress = f64::from_bits(self.progress_bits.load(Relaxed));
        (progress >= 0.0).then_some(progress)
    }

    /// State and queued rows together.
    pub fn bytes(&self) -> u64 {
        (self.in_flight_bytes.load(Relaxed).max(0) + self.state_bytes.load(Relaxed).max(0)) as u64
    }

    /// What it shares with others.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Its latency target, ns.
    #[inline]
    pub fn target_ns(&self) -> u64 {
        self.target_ns.load(Relaxed)
    }

    /// What it is promised now.
    pub fn promise(&self) -> Promise {
        self.promise.lock().clone()
    }

    /// Promises something else from now on: results that come out are measured by that, those that came out were by what
    /// was promised then.
    pub fn alter(&self, promise: Promise) {
        let mut current = self.promise.lock();
        self.target_ns.store(promise.latency_target.ns(), Relaxed);
        self.results.lock().alter(promise.latency_target.ns(), promise.curve());
        *current = promise;
    }

    /// As the scheduler is told of it.
    pub fn spec(&self) -> QuerySpec {
        let Promise { latency_target, qos, weight } = self.promise();
        QuerySpec { id: self.id, target_ns: latency_target.ns(), weight, qos }
    }

    /// True once the query has ended in any way, or was halted: its messages are then dropped, not processed.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// True once an error has ended the query: its results are then not written either.
    pub fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// The latency from which on its results are worth nothing, if rows may be dropped and there is one.
    pub fn sheds_after_ns(&self) -> Option<u64> {
        if !self.settings.shed {
            return None;
        }
        let curve = self.promise.lock().curve();
        let last = curve.points().last()?;
        (last.utility == 0.0).then_some(last.latency_ns)
    }

    /// How far it is with leaving rows out.
    pub(crate) fn leaves_out(&self) -> LeavesOut {
        if !self.settings.leaves_out {
            return LeavesOut::Nothing;
        }
        match *self.approximation.lock() {
            Some(approximation) if approximation.is_engaged => match approximation.has_begun {
                true => LeavesOut::AllItCan,
                false => LeavesOut::Soon,
            },
            _ => LeavesOut::Nothing,
        }
    }

    /// Whether rows that have waited for so long are more work than there is time for: so the scheduler says, or they have waited
    /// for half of the target.
    pub fn is_overloaded(&self, lag_ns: u64) -> bool {
        lag_ns > self.target_ns() / 2 || self.is_to_leave_out.load(Relaxed)
    }

    /// From now on its messages are dropped and counted, though it has not ended: what left its operators before is still
    /// written, and may still fail.
    pub fn halt(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// What it is done with though nobody has processed it.
    pub(crate) fn drop_rows(&self, rows: usize) {
        if !self.failed() {
            self.rows_dropped.fetch_add(rows as u64, Relaxed);
        }
    }

    /// Ends the query. The first outcome stays: a failure is not overwritten by the end that follows it.
    pub fn end(&self, outcome: Outcome) -> bool {
        let mut current = self.outcome.lock();
        if *current != Outcome::Running {
            return false;
        }
        self.failed.store(matches!(outcome, Outcome::Failed(_)), Relaxed);
        *current = outcome;
        self.stopped.store(true, Relaxed);
        drop(current);
        self.process.on_ended(self.id);
        true
    }

    /// What is about to end it may pass: it could go on, a little later, from what was saved of it.
    pub fn note_that_it_passes(&self) {
        self.passes.store(true, Relaxed);
    }

    /// True if it was ended by what [may pass](Query::note_that_it_passes).
    pub fn ended_for_now(&self) -> bool {
        self.failed() && self.passes.load(Relaxed)
    }

    /// How it stands.
    pub fn outcome(&self) -> Outcome {
        self.outcome.lock().clone()
    }

    pub(crate) fn count_late(&self, missed: impl Iterator<Item = (i64, u64)>) {
        // Counts per window are for people: the last thousand windows that lost rows.
        const WINDOWS_KEPT: usize = 1_000;
        let mut all = 0;
        let mut windows = self.late_windows.lock();
        for (end, rows) in missed {
            all += rows;
            *windows.entry(end).or_insert(0) += rows;
        }
        self.rows_late.fetch_add(all, Relaxed);
        while windows.len() > WINDOWS_KEPT {
            windows.pop_first();
        }
    }

    /// Late rows by the end of the window that they missed, the last windows alone.
    pub fn late_windows(&self) -> Vec<(EventTime, u64)> {
        self.late_windows.lock().iter().map(|(&end, &rows)| (EventTime(end), rows)).collect()
    }

    /// One result has left its sink.
    pub fn record_result(
        &self,
        stamps: &Stamps,
        window_end: Option<EventTime>,
        ready: ProcessingTime,
        now: ProcessingTime,
    ) {
        let event_time_ns = match (window_end, self.event_clock.get()) {
            (Some(end), Some(clock)) => Some(now.since_ns(clock.due(end))),
            _ => None,
        };
        self.results.lock().record(stamps, ready, now, event_time_ns);
    }

    /// Says of its results what is due and what is out.
    pub(crate) fn owe(&self, change: impl FnOnce(&mut Owed)) {
        let mut results = self.results.lock();
        change(&mut results.owed);
        let next_ms = results.owed.next_window().map_or(i64::MAX, |end| end.0);
        self.owed_window_ms.store(next_ms, Relaxed);
    }

    /// Whether every row is owed a result, so that its messages are counted as owed while they are on their way.
    pub(crate) fn owes_by_arrival(&self) -> bool {
        self.due_by.get() == Some(&DueBy::Arrival)
    }

    /// The watermark of a source has risen, by rows of that arrival.
    pub(crate) fn source_progress(&self, before: EventTime, after: EventTime, arrival: ProcessingTime) {
        let Some(due_by) = self.due_by.get() else { return };
        if let Some(clock) = self.event_clock.get() {
            self.pace.rose(clock, after, arrival);
        }
        if let Some(end) = due_by.window_passed(before, after) {
            self.owe(|owed| owed.window_due(end, arrival));
        }
    }

    /// A watermark has passed the last operator: what it released has been handed to the sinks.
    pub(crate) fn watermark_out(&self, watermark: EventTime) {
        // A window is owed before the watermark that fires it can get here, so it is seen.
        if watermark.0.saturating_add(1) >= self.owed_window_ms.load(Relaxed) {
            self.owe(|owed| owed.windows_out(watermark));
        }
    }

    /// Counts its results anew from now on.
    pub fn forget_results(&self) {
        self.results.lock().forget();
    }

    /// Counts of its results. Cheap enough to ask of every query each time that a screen is drawn.
    pub fn figures(&self, now: ProcessingTime) -> ResultFigures {
        self.results.lock().figures(now)
    }

    /// What is known of its results, percentiles included: goes through all counts.
    pub fn results(&self, now: ProcessingTime) -> ResultSummary {
        self.results.lock().summary(now)
    }

    /// The end of the window that closes next after the watermark, where its windows are aligned.
    pub fn next_window(&self, watermark: EventTime) -> Option<EventTime> {
        self.due_by.get()?.next_window(watermark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(credit_bytes: u64) -> (Arc<Process>, Query) {
        let process = Arc::new(Process::new(1 << 20, credit_bytes));
        let query = Query::new(QueryId(0), QuerySettings::named("counted"), 1, process.clone());
        (process, query)
    }

    #[test]
    fn a_run_counts_what_it_sent_and_uncounts_what_it_took() {
        let (process, query) = query(1 << 20);
        let counted = || {
            (
                query.in_flight.load(Relaxed),
                query.in_flight_rows.load(Relaxed),
                query.in_flight_bytes.load(Relaxed),
                process.memory.used_bytes(),
            )
        };
        query.admit(InFlight::one(10, 80));
        assert_eq!(counted(), (1, 10, 80, 80));
        // A filter: one message for another, with fewer rows.
        assert!(!query.settle(InFlight::one(7, 56), InFlight::one(10, 80)));
        assert_eq!(counted(), (1, 7, 56, 56));
        // Two messages for one, and its input is not done yet.
        assert!(!query.settle(InFlight { messages: 2, rows: 9, bytes: 72 }, InFlight::default()));
        assert_eq!(counted(), (3, 16, 128, 128));
        // A watermark for what was merged into one.
        assert!(!query.settle(InFlight::one(0, 0), InFlight { messages: 3, rows: 16, bytes: 128 }));
        assert_eq!(counted(), (1, 0, 0, 0));
        assert!(!query.drained());
        assert!(!query.release(InFlight::one(0, 0)));
        assert!(query.drained());
    }

    #[test]
    fn who_clears_up_hears_of_the_last_message_of_a_query_that_has_ended() {
        let (process, query) = query(1 << 20);
        let is_told = || process.take_call();
        query.admit(InFlight::one(1, 8));
        assert!(!query.release(InFlight::one(1, 8)));
        assert!(!is_told(), "it goes on");
        query.admit(InFlight { messages: 2, rows: 2, bytes: 16 });
        query.end(Outcome::Cancelled);
        assert!(is_told());
        assert_eq!(process.take_ended(), [query.id]);
        assert!(!query.release(InFlight::one(1, 8)) && !is_told(), "one is left");
        assert!(!query.release(InFlight::one(1, 8)) && is_told() && !is_told());
    }

    #[test]
    fn who_waits_for_credit_is_told_once_when_half_of_it_is_back() {
        let (_, query) = query(100);
        let table = OperatorId(7);
        assert!(query.has_credit(table));
        query.admit(InFlight::one(1, 60));
        query.admit(InFlight::one(1, 60));
        assert!(!query.has_credit(table) && !query.has_credit(table));
        assert!(!query.release(InFlight::one(1, 60)), "60 of 100 are still out");
        assert!(query.release(InFlight::one(1, 60)));
        assert_eq!(query.wake(), [table]);
        query.admit(InFlight::one(1, 1));
        assert!(!query.release(InFlight::one(1, 1)));
    }
}
