//! How an operator is run: a message is taken, worked off for a quantum at most, and what comes of it is staged with
//! its stamps. What fails or panics here ends its own query alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::{Emitted, EventTime, Flow, OperatorId, ProcessingTime, fetch};
use laxity_sched::{RunReport, Stamps, Work};
use parking_lot::Mutex;

use crate::asked::ToldTimes;
use crate::merge::merge;
use crate::route::Sent;
use crate::{
    Clock, Content, Frontier, FrontierState, InFlight, Outcome, Outlet, Parcel, Payload, Query, Route, Write,
};

/// One parallel copy of one operator, with its state and its way out.
pub struct Instance<C: Content> {
    /// What the scheduler knows it by.
    pub id: OperatorId,
    /// Of the dataflow.
    pub node: usize,
    /// Which copy of the node.
    pub number: usize,
    /// As `explain` has it.
    pub name: String,
    /// Whose it is.
    pub query: Arc<Query>,
    // The scheduler grants an instance to one worker at a time, so this is never contended; it is a mutex
    // because safe Rust cannot see the grant.
    cell: Mutex<Cell<C>>,
}

struct Cell<C: Content> {
    operator: C::Operator,
    frontier: Frontier,
    input_of_channel: Vec<u16>,
    outbox: C::Outbox,
    routes: Vec<Route<C>>,
    late: Option<(Arc<Outlet>, C::LateShape)>,
    out_watermark: EventTime,
    running: Option<Running<C::Batch>>,
    ns_per_row: f64,
    state_bytes: i64,
    runs_until_state_check: u32,
    /// Takes rows from outside: its watermark is the query's progress.
    is_source: bool,
    /// Its operator wants to be told how late it is, and what time it is.
    keeps_time: bool,
    /// Its operator judges rows by when they came: it is told the time by tables, behind all that were due.
    judges_arrivals: bool,
    told: ToldTimes,
    totals: Totals,
    last_window_end: Option<EventTime>,
    /// When it is to be told the time, as it said last.
    asked: Option<ProcessingTime>,
    knows_clock: bool,
    /// Of a source, if asked for: what arrived.
    recorded: Option<Vec<RecordedArrival>>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// For the scheduler.
    pub report: RunReport,
    /// Of a source whose watermark rose: how far, and when the rows that raised it were due.
    pub progress: Option<(EventTime, ProcessingTime)>,
    /// As `progress`, of an instance that is no source too.
    pub risen: Option<(EventTime, ProcessingTime)>,
    /// When the operator was done; what it sent was handed on after that.
    pub ended: ProcessingTime,
    /// What it sent, and what it is done with, to be [settled](Query::settle) before anyone can see what it sent.
    pub sent: InFlight,
    /// See `sent`.
    pub done: InFlight,
    /// Bytes by which its state grew, as far as that was asked for.
    pub state_grown_bytes: i64,
    /// When its operator wants to be told the time, if that is another instant than it said before: a message that
    /// [carries nothing](Payload::look) and is ingested at that instant does it.
    pub wake: Option<ProcessingTime>,
    /// Tables wait for the credit that this run gave back, or it for them to say what time has come: [`Query::wake`] them.
    pub returned_credit: bool,
}

/// The message in hand, or several merged into one.
struct Running<B> {
    channel: u32,
    messages: u32,
    rows: u32,
    bytes: u64,
    batch: Option<B>,
    next_row: usize,
    watermark: Option<EventTime>,
    idle: bool,
    /// An instant that the operator asked for, or that those behind it are to hear of: once the batch is done.
    time: Option<Time>,
    /// That instant, to be passed on now.
    passing: Option<ProcessingTime>,
    /// The operator left work that `resume` goes on with.
    resuming: bool,
    /// The rows are done and the watermark is at work.
    releasing: bool,
    /// Least and latest event time, where rows were read at a source.
    event_times: Option<(EventTime, EventTime)>,
    stamps: Stamps,
    /// The latest arrival of a merged message; the stamps have the earliest.
    latest: ProcessingTime,
    /// The earliest, if a result is owed for it until the message is done.
    owed: Option<ProcessingTime>,
    window_end: Option<EventTime>,
    paused: ProcessingTime,
}

/// An instant that has come.
#[derive(Clone, Copy, Debug)]
enum Time {
    ForOperator(ProcessingTime),
    ForOthers(ProcessingTime),
}

/// What a run needs of its surroundings.
pub struct RunContext<'a, C: Content, K> {
    /// What tells the time.
    pub clock: &'a K,
    /// How long a run may take.
    pub quantum_ns: u64,
    /// Messages that go with the one granted; empty where it is left alone. Empty after the run.
    pub merged: &'a mut Vec<Parcel<C>>,
    /// Messages for other instances, counted as in flight after the run, in order per channel.
    pub staged: &'a mut Vec<Parcel<C>>,
    /// Rows for sinks, likewise.
    pub writes: &'a mut Vec<Write<C>>,
    /// Time spent in operators, added to by every run.
    pub operator_ns: u64,
}

/// Counts of one operator instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Batches taken in, merged ones once.
    pub batches: u64,
    /// Rows taken in.
    pub rows_in: u64,
    /// Bytes of them.
    pub bytes_in: u64,
    /// Rows sent on, whether to one consumer or to several.
    pub rows_out: u64,
    /// Time it took to take rows in, ns.
    pub batch_ns: u64,
    /// Watermarks taken in, and goes at what they released.
    pub watermarks: u64,
    /// Time they took, ns.
    pub watermark_ns: u64,
    /// The least that one took: a watermark that releases nothing.
    pub watermark_least_ns: u64,
    /// Windows that results were sent of, one after the other.
    pub windows: u64,
}

/// One batch or watermark as a source took it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedArrival {
    /// When it was due to arrive.
    pub at: ProcessingTime,
    /// Its rows; 0 for a signal.
    pub rows: u32,
    /// Its bytes.
    pub bytes: u64,
    /// Least and latest event time in it, where the table has event time.
    pub event_times: Option<(EventTime, EventTime)>,
    /// The source's watermark behind it.
    pub watermark: EventTime,
}

/// An instance between two messages, as a checkpoint keeps it.
#[derive(Debug)]
pub struct InstanceState<S> {
    /// Its watermark, and those of its channels.
    pub frontier: FrontierState,
    /// The watermark that it has passed on, event-time ms.
    pub out_watermark_ms: i64,
    /// What its operator holds.
    pub operator: S,
}

impl<C: Content> Instance<C> {
    #[expect(clippy::too_many_arguments, reason = "one call site; a struct would only rename them")]
    pub(crate) fn new(
        id: OperatorId,
        (node, number): (usize, usize),
        name: String,
        query: Arc<Query>,
        operator: C::Operator,
        input_of_channel: Vec<u16>,
        routes: Vec<Route<C>>,
        late: Option<(Arc<Outlet>, C::LateShape)>,
        is_source: bool,
        record: bool,
    ) -> Instance<C> {
        let keeps_time = C::keeps_time(&operator);
        let arrival_step_ms = C::arrival_step_ms(&operator).filter(|_| keeps_time);
        if let Some(step_ms) = arrival_step_ms {
            query.judges_arrivals(id, is_source, step_ms);
        }
        Instance {
            id,
            node,
            number,
            name,
            query,
            cell: Mutex::new(Cell {
                operator,
                frontier: Frontier::new(input_of_channel.len()),
                input_of_channel,
                outbox: C::Outbox::default(),
                routes,
                late,
                out_watermark: EventTime::MIN,
                running: None,
                ns_per_row: 0.0,
                state_bytes: 0,
                runs_until_state_check: 0,
                is_source,
                keeps_time,
                judges_arrivals: arrival_step_ms.is_some(),
                told: ToldTimes::default(),
                totals: Totals::default(),
                last_window_end: None,
                asked: None,
                knows_clock: false,
                recorded: (is_source && record).then(Vec::new),
            }),
        }
    }

    /// Runs one grant: the message, or what is left of the last, until it is done or the quantum is over.
    ///
    /// Whatever the operator does, an error or a panic, ends its query and no other.
    pub fn run<K: Clock>(&self, work: Work<Payload<C::Batch>>, context: &mut RunContext<'_, C, K>) -> Run {
        let run = self.work(work, context);
        let returned_credit = self.query.settle(run.sent, run.done);
        Run { returned_credit: run.returned_credit || returned_credit, ..run }
    }

    /// As [`run`](Instance::run), for a driver that settles with the query itself, once the time of the run has passed
    /// for everybody else too.
    pub fn work<K: Clock>(&self, work: Work<Payload<C::Batch>>, context: &mut RunContext<'_, C, K>) -> Run {
        let started = context.clock.now();
        let mut cell = self.cell.lock();
        let mut waits_for_time = false;
        match work {
            Work::Message { message, enqueued } => {
                // What is still to be read by then only its table knows.
                waits_for_time = cell.judges_arrivals && message.body.is_look();
                let owed = self.take_in_hand(&message, context.merged);
                let passes_time = self.query.asked.is_behind_others() && !cell.judges_arrivals;
                if let Err(error) = cell.accept(message, context.merged, passes_time, enqueued, started) {
                    self.fail(format!("{}: internal error: {error} (please report this)", self.name));
                }
                if let Some(running) = &mut cell.running {
                    running.owed = owed;
                }
            }
            Work::Resume => cell.unpause(started),
        }
        let (staged_before, writes_before) = (context.staged.len(), context.writes.len());
        let mut report = RunReport::default();
        if self.query.stopped() {
            self.query.drop_rows(cell.rows_left());
            return Run { ended: started, done: cell.finish(), ..Run::default() };
        }
        if !cell.knows_clock
            && let Some(clock) = self.query.event_clock.get()
        {
            cell.knows_clock = true;
            C::on_event_clock(&mut cell.operator, *clock);
        }
        let is_told = cell.judges_arrivals || (cell.keeps_time && cell.is_source);
        if is_told && cell.rows_in_hand() > 0 {
            let lag_ns = cell.running.as_ref().map_or(0, |running| started.since_ns(running.stamps.ingested));
            C::on_overload(&mut cell.operator, self.query.is_overloaded(lag_ns));
        }
        let (watermark_before, state_before) = (cell.out_watermark, cell.state_bytes);
        let ingested = cell.running.as_ref().map(|running| running.latest);
        report.rows_in = cell.rows_in_hand();
        let rows_left = cell.rows_left();
        let outcome =
            catch_unwind(AssertUnwindSafe(|| self.advance(&mut cell, started, context, &mut report)));
        let ended = match outcome {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => {
                self.fail(error.to_string());
                context.clock.now()
            }
            Err(panic) => {
                self.fail(format!(
                    "{}: internal error: {} (please report this)",
                    self.name,
                    panic_text(&*panic)
                ));
                context.clock.now()
            }
        };
        if self.query.stopped() {
            // What this run sent is dropped with the rows that it was made of.
            self.query.drop_rows(rows_left);
            context.staged.truncate(staged_before);
            context.writes.truncate(writes_before);
            report.more = false;
        } else if self.query.owes_by_arrival() {
            let done = cell.running.as_ref().and_then(|running| running.owed).filter(|_| !report.more);
            self.pass_on(&context.staged[staged_before..], done);
        }
        let done = if report.more { InFlight::default() } else { cell.finish() };
        let sent = in_flight(&context.staged[staged_before..], &context.writes[writes_before..]);
        cell.totals.rows_out += u64::from(report.rows_out);
        let rose = cell.out_watermark > watermark_before;
        let risen = ingested.filter(|_| rose).map(|ingested| (cell.out_watermark, ingested));
        let progress = risen.filter(|_| cell.is_source);
        // An operator that was told its lag may have begun to leave rows out, which is news without a window too.
        if is_told && let Some(approximation) = C::approximation(&cell.operator) {
            *self.query.approximation.lock() = Some(approximation);
        }
        if let Some((watermark, ingested)) = progress {
            self.query.source_progress(watermark_before, watermark, ingested);
        }
        let state_grown_bytes = cell.state_bytes - state_before;
        let keeps_time = cell.keeps_time && !report.more && !self.query.stopped();
        let wake = keeps_time.then(|| C::wake_at(&cell.operator)).flatten();
        if cell.judges_arrivals && wake != cell.asked {
            self.query.asks_for_time(self.id, wake);
        }
        let returned_credit = waits_for_time && wake.is_some() && self.query.waits_for_time(self.id);
        let wake = wake.filter(|&at| cell.asked.replace(at) != Some(at));
        Run { report, progress, risen, ended, sent, done, state_grown_bytes, wake, returned_credit }
    }

    /// What it holds. Of a query that is held and drained, which stays so: it has no message in hand then, because one that
    /// is not done counts as in flight.
    ///
    /// # Errors
    /// If its operator cannot be saved: why, and what to do.
    pub fn save(&self) -> Result<InstanceState<C::State>, String> {
        let mut cell = self.cell.lock();
        if cell.running.is_some() {
            return Err(format!("{}: internal error: saved amid a message (please report this)", self.name));
        }
        let operator = C::save(&mut cell.operator).map_err(|error| format!("{}: {error}", self.name))?;
        let (frontier, out_watermark_ms) = (cell.frontier.save(), cell.out_watermark.0);
        Ok(InstanceState { frontier, out_watermark_ms, operator })
    }

    /// Goes on where another held that. Before its first run; what it feeds has been told of an end by the other. Outlets
    /// that thereby get nothing more, to be completed.
    ///
    /// # Errors
    /// If it does not fit; the instance is not to be used then.
    pub fn restore(&self, state: InstanceState<C::State>) -> Result<Vec<Arc<Outlet>>, String> {
        let mut cell = self.cell.lock();
        let named = |error: String| format!("{}: {error}", self.name);
        let (had, has) = (state.frontier.channels.len(), cell.frontier.save().channels.len());
        let frontier = cell.frontier.restored(&state.frontier);
        cell.frontier = frontier.ok_or_else(|| named(format!("had {had} inputs, and has {has}")))?;
        for (channel, &(watermark_ms, _)) in state.frontier.channels.iter().enumerate() {
            if watermark_ms == EventTime::MAX.0 {
                cell.told.tell(channel, has, ProcessingTime::MAX);
            }
        }
        C::restore(&mut cell.operator, state.operator).map_err(named)?;
        cell.out_watermark = EventTime(state.out_watermark_ms);
        let mut complete = Vec::new();
        if cell.out_watermark == EventTime::MAX {
            for route in &cell.routes {
                if let Route::Outlet(outlet) = route
                    && outlet.end_channel()
                {
                    complete.push(outlet.clone());
                }
            }
        }
        let bytes = C::state_bytes(&cell.operator) as i64;
        self.query.grow_state(bytes - cell.state_bytes);
        cell.state_bytes = bytes;
        Ok(complete)
    }

    /// Works with another operator from now on. Before its first run: what the other has seen is lost.
    pub fn replace_operator(&self, operator: C::Operator) {
        let mut cell = self.cell.lock();
        cell.keeps_time = C::keeps_time(&operator);
        cell.operator = operator;
    }

    /// Of messages that are merged the earliest alone stays owed; the others are out with it. None that is dropped
    /// ever is.
    fn take_in_hand(&self, message: &Parcel<C>, merged: &[Parcel<C>]) -> Option<ProcessingTime> {
        if !self.query.owes_by_arrival() {
            return None;
        }
        let arrivals = || owed_arrivals::<C>(std::iter::once(message).chain(merged));
        let earliest = arrivals().min()?;
        if !merged.is_empty() {
            let mut kept = false;
            self.query.owe(|owed| {
                for arrival in arrivals() {
                    if arrival == earliest && !kept {
                        kept = true;
                    } else {
                        owed.out(arrival);
                    }
                }
            });
        }
        Some(earliest)
    }

    /// What a run sent is owed in place of what it is done with.
    fn pass_on(&self, sent: &[Parcel<C>], done: Option<ProcessingTime>) {
        if done.is_none() && sent.is_empty() {
            return;
        }
        self.query.owe(|owed| {
            owed_arrivals::<C>(sent).for_each(|arrival| owed.due(arrival));
            done.into_iter().for_each(|arrival| owed.out(arrival));
        });
    }

    /// Asks for the memory behind it that its next run will touch. Nothing if it runs.
    pub fn fetch(&self) {
        let Some(cell) = self.cell.try_lock() else { return };
        C::fetch(&cell.operator);
        fetch(&*self.query);
        fetch(&cell.routes[..]);
    }

    /// What it has done so far.
    pub fn totals(&self) -> Totals {
        self.cell.lock().totals
    }

    /// Looks at the operator.
    pub fn inspect<R>(&self, look: impl FnOnce(&C::Operator) -> R) -> R {
        look(&self.cell.lock().operator)
    }

    /// Rows in hand that the operator has not been given yet.
    pub fn rows_left(&self) -> usize {
        self.cell.lock().rows_left()
    }

    /// What arrived, if it is a source and was asked to keep that.
    pub fn recorded(&self) -> Option<Vec<RecordedArrival>> {
        self.cell.lock().recorded.clone()
    }

    /// Frees state of a query that has ended. True as for [`Run::returned_credit`].
    pub fn clear(&self) -> bool {
        let mut cell = self.cell.lock();
        let returned_credit = self.drop_message(&mut cell);
        cell.operator = C::ended();
        self.query.grow_state(-cell.state_bytes);
        cell.state_bytes = 0;
        returned_credit
    }

    /// Ends the query with an error.
    pub fn fail(&self, why: String) {
        tracing::error!(query = self.query.settings.name, operator = self.name, why, "query stopped");
        self.query.end(Outcome::Failed(why));
    }

    fn drop_message(&self, cell: &mut Cell<C>) -> bool {
        let done = cell.finish();
        self.query.release(done)
    }

    /// Works until all is done or the quantum is over, which is when it returns.
    fn advance<K: Clock>(
        &self,
        cell: &mut Cell<C>,
        started: ProcessingTime,
        context: &mut RunContext<'_, C, K>,
        report: &mut RunReport,
    ) -> Result<ProcessingTime, C::Error> {
        let mut step_started = started;
        let (staged_from, writes_from) = (context.staged.len(), context.writes.len());
        loop {
            let rows = cell.step(context.quantum_ns.saturating_sub(step_started.since_ns(started)))?;
            let now = context.clock.now();
            let step_ns = now.since_ns(step_started);
            // What was sent before leaves with the rest, when the run is over.
            for message in &mut context.staged[staged_from..] {
                message.body.stamps.execute_ns += step_ns;
            }
            for write in &mut context.writes[writes_from..] {
                write.what.delay(step_ns, 0, now);
            }
            context.operator_ns += step_ns;
            cell.count_step(step_ns);
            cell.learn(rows, step_ns);
            cell.running.as_mut().expect("a message is in hand").stamps.execute_ns += step_ns;
            self.send(cell, now, staged_from, context, report)?;
            let more = cell.has_more();
            let elapsed_ns = now.since_ns(started);
            // A batch was cut to fill the quantum: another piece would pass it.
            let is_full = cell.is_cut() && elapsed_ns >= context.quantum_ns / 2;
            if !more || is_full || elapsed_ns >= context.quantum_ns {
                report.cpu_ns = elapsed_ns;
                report.more = more;
                if more {
                    cell.pause(now);
                }
                self.account_state(cell);
                return Ok(now);
            }
            step_started = now;
        }
    }

    /// Sends what the last step produced.
    fn send<K>(
        &self,
        cell: &mut Cell<C>,
        now: ProcessingTime,
        staged_from: usize,
        context: &mut RunContext<'_, C, K>,
        report: &mut RunReport,
    ) -> Result<(), C::Error> {
        let Cell { outbox, routes, late, out_watermark, running, frontier, totals, last_window_end, .. } =
            cell;
        let running = running.as_mut().expect("a message is in hand");
        let passing = running.passing.take();
        let is_alone = self.query.asked.is_behind_others();
        let mut sent = Sent { staged: &mut *context.staged, writes: &mut *context.writes, is_alone };
        for emitted in C::emitted(outbox).drain(..) {
            match emitted {
                Emitted::Batch { batch, ingested, window_end } => {
                    // Once, though several consumers may take it: selectivity is along a path.
                    report.rows_out += C::rows(&batch);
                    if window_end.is_some() && window_end != *last_window_end {
                        *last_window_end = window_end;
                        totals.windows += 1;
                    }
                    let mut stamps = running.stamps;
                    if let Some(ingested) = ingested.filter(|&ingested| ingested > stamps.ingested) {
                        stamps = stamps.released(ingested);
                    }
                    let window_end = window_end.or(running.window_end);
                    let last = routes.len().saturating_sub(1);
                    for route in &mut routes[..last] {
                        route.batch(batch.clone(), stamps, window_end, *out_watermark, now, &mut sent)?;
                    }
                    if let Some(route) = routes.last_mut() {
                        route.batch(batch, stamps, window_end, *out_watermark, now, &mut sent)?;
                    }
                }
                Emitted::Watermark(watermark) => {
                    *out_watermark = (*out_watermark).max(watermark);
                    for route in routes.iter_mut() {
                        // With the rows that this run has sent, of whatever step: one message less to dispatch.
                        route.watermark(watermark, running.stamps, &mut sent, staged_from);
                    }
                }
            }
        }
        if running.idle && frontier.all_idle() {
            for route in routes.iter_mut() {
                route.idle(running.stamps, *out_watermark, &mut sent);
            }
        }
        if let Some(time) = passing {
            let stamps = Stamps::admitted(time, now);
            routes.iter_mut().for_each(|route| route.time(stamps, *out_watermark, &mut sent));
        }
        for rows in C::late(outbox).drain(..) {
            self.query.count_late(C::late_windows(&rows));
            if let Some((outlet, shape)) = late {
                outlet.send(C::late_rows(&rows, shape)?, running.stamps, None, now, sent.writes);
            }
        }
        for dead in C::dead(outbox).drain(..) {
            let (rows, reason) = C::dead_rows(&dead);
            tracing::warn!(
                query = self.query.settings.name,
                operator = self.name,
                rows,
                reason,
                "rows refused"
            );
            self.query.rows_dead.fetch_add(rows, Relaxed);
        }
        Ok(())
    }

    fn account_state(&self, cell: &mut Cell<C>) {
        if cell.runs_until_state_check > 0 {
            cell.runs_until_state_check -= 1;
            return;
        }
        cell.runs_until_state_check = C::RUNS_BETWEEN_STATE_CHECKS;
        let bytes = C::state_bytes(&cell.operator) as i64;
        let total = self.query.grow_state(bytes - cell.state_bytes);
        cell.state_bytes = bytes;
        if let Some(limit) = self.query.settings.memory_limit_bytes
            && total.max(0) as u64 > limit
        {
            self.fail(format!(
                "holds {} MB of state, over its laxity.memory.limit of {} MB: raise the limit, shorten its windows or group by fewer keys",
                total >> 20,
                limit >> 20
            ));
        }
    }
}

impl<C: Content> Cell<C> {
    fn accept(
        &mut self,
        mut message: Parcel<C>,
        merged: &mut Vec<Parcel<C>>,
        passes_time: bool,
        enqueued: ProcessingTime,
        now: ProcessingTime,
    ) -> Result<(), C::Error> {
        let is_look = message.body.is_look();
        let mut time = (is_look && !self.judges_arrivals).then_some(Time::ForOperator(message.ingested));
        if let Some(told) = self.told(&message, merged, passes_time) {
            let is_wanted = self.keeps_time && self.asked.is_none_or(|at| told >= at);
            time = match passes_time {
                true => Some(Time::ForOthers(told)),
                false => is_wanted.then_some(Time::ForOperator(told)),
            };
        }
        if let Some(Time::ForOperator(_)) = time {
            self.asked = None;
        }
        if is_look {
            message.body.stamps = Stamps::admitted(message.ingested, enqueued);
        }
        let messages = if is_look { 0 } else { 1 + merged.len() as u32 };
        let result = merge::<C>(&mut message, merged);
        let latest = *result.as_ref().unwrap_or(&message.body.stamps.ingested);
        self.totals.batches += u64::from(message.rows > 0);
        self.totals.rows_in += u64::from(message.rows);
        self.totals.bytes_in += message.bytes;
        let Payload { batch, watermark, idle, is_alone: _, tells_time: _, mut stamps, window_end } =
            message.body;
        stamps.queue_ns += now.since_ns(enqueued);
        self.running = Some(Running {
            channel: message.channel,
            messages,
            rows: message.rows,
            bytes: message.bytes,
            batch,
            next_row: 0,
            watermark,
            idle,
            time,
            passing: None,
            resuming: false,
            releasing: false,
            event_times: None,
            stamps,
            latest,
            owed: None,
            window_end,
            paused: now,
        });
        result.map(|_| ())
    }

    /// The instant that has come by all channels, if that is news. No more comes by one that ends.
    fn told(
        &mut self,
        message: &Parcel<C>,
        merged: &[Parcel<C>],
        passes_time: bool,
    ) -> Option<ProcessingTime> {
        let ends = |parcel: &Parcel<C>| parcel.body.watermark == Some(EventTime::MAX);
        let until = match message.body.tells_time {
            true => message.ingested,
            false if !passes_time && !self.judges_arrivals => return None,
            false if ends(message) || merged.iter().any(ends) => ProcessingTime::MAX,
            false => return None,
        };
        let channels = self.input_of_channel.len();
        let told = self.told.tell(message.channel as usize, channels, until);
        told.filter(|&told| told < ProcessingTime::MAX)
    }

    fn unpause(&mut self, now: ProcessingTime) {
        if let Some(running) = &mut self.running {
            running.stamps.queue_ns += now.since_ns(running.paused);
        }
    }

    fn pause(&mut self, now: ProcessingTime) {
        if let Some(running) = &mut self.running {
            running.paused = now;
        }
    }

    fn rows_in_hand(&self) -> u32 {
        self.running.as_ref().map_or(0, |running| if running.next_row == 0 { running.rows } else { 0 })
    }

    /// Rows in hand that the operator has not been given yet.
    fn rows_left(&self) -> usize {
        let running = self.running.as_ref();
        running.map_or(0, |r| r.batch.as_ref().map_or(0, |batch| C::rows(batch) as usize - r.next_row))
    }

    /// Lets go of the message in hand, and says what it was.
    fn finish(&mut self) -> InFlight {
        let Some(running) = &self.running else { return InFlight::default() };
        let done = InFlight {
            messages: i64::from(running.messages),
            rows: i64::from(running.rows),
            bytes: running.bytes as i64,
        };
        if let Some(recorded) = &mut self.recorded {
            recorded.push(RecordedArrival {
                at: running.latest,
                rows: running.rows,
                bytes: running.bytes,
                event_times: running.event_times,
                watermark: self.out_watermark,
            });
        }
        self.running = None;
        done
    }

    fn has_more(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|r| r.resuming || r.time.is_some() || r.batch.is_some() || r.watermark.is_some())
    }

    /// Some of the batch was done, and some is left.
    fn is_cut(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.next_row > 0 && running.batch.is_some())
    }

    /// One piece of work, about as long as what is left of the quantum at most; the rows it took in.
    fn step(&mut self, left_ns: u64) -> Result<usize, C::Error> {
        let Some(running) = &mut self.running else { return Ok(0) };
        if running.resuming {
            running.resuming = C::resume(&mut self.operator, &mut self.outbox)? == Flow::More;
            return Ok(0);
        }
        if let Some(batch) = &running.batch {
            let total = C::rows(batch) as usize;
            let left = total - running.next_row;
            let fit = C::rows_that_fit(&self.operator, running.next_row, left_ns, self.ns_per_row);
            let take = left.min(fit.max(1));
            let piece = if take == total {
                running.batch.take().expect("seen above")
            } else {
                let piece = C::slice(batch, running.next_row, take);
                if take == left {
                    running.batch = None;
                }
                piece
            };
            running.next_row += take;
            self.frontier.on_active(running.channel as usize);
            let input = usize::from(self.input_of_channel[running.channel as usize]);
            let ingested = running.stamps.ingested;
            let flow = C::on_batch(&mut self.operator, input, piece, ingested, &mut self.outbox)?;
            running.resuming = flow == Flow::More;
            if self.recorded.is_some()
                && let Some((low, high)) = C::event_times(&self.operator)
            {
                let (least, latest) = running.event_times.unwrap_or((low, high));
                running.event_times = Some((least.min(low), latest.max(high)));
            }
            return Ok(take);
        }
        match running.time.take() {
            Some(Time::ForOperator(now)) => {
                running.releasing = true;
                running.resuming = C::on_time(&mut self.operator, now, &mut self.outbox)? == Flow::More;
                return Ok(0);
            }
            Some(Time::ForOthers(now)) => {
                running.passing = Some(now);
                return Ok(0);
            }
            None => {}
        }
        let risen = match running.watermark.take() {
            Some(watermark) => self.frontier.on_watermark(running.channel as usize, watermark),
            None if running.idle => self.frontier.on_idle(running.channel as usize),
            None => None,
        };
        running.releasing = true;
        if let Some(watermark) = risen {
            running.resuming =
                C::on_watermark(&mut self.operator, watermark, &mut self.outbox)? == Flow::More;
        } else {
            C::on_held_back(&mut self.operator);
        }
        Ok(0)
    }

    fn count_step(&mut self, ns: u64) {
        if self.running.as_ref().is_some_and(|running| running.releasing) {
            self.totals.watermarks += 1;
            self.totals.watermark_ns += ns;
            let least = self.totals.watermark_least_ns;
            self.totals.watermark_least_ns = if least == 0 { ns } else { least.min(ns) };
        } else {
            self.totals.batch_ns += ns;
        }
    }

    /// Keeps the cost of a row, so that batches dearer than a quantum are cut.
    fn learn(&mut self, rows: usize, ns: u64) {
        // A few rows tell of the call's overhead, not of the row's cost.
        const ROWS_TO_LEARN_FROM: usize = 64;
        const DECAY: f64 = 0.8;
        if rows >= ROWS_TO_LEARN_FROM {
            let sample = ns as f64 / rows as f64;
            self.ns_per_row = if self.ns_per_row == 0.0 {
                sample
            } else {
                DECAY * self.ns_per_row + (1.0 - DECAY) * sample
            };
        }
    }
}

/// Arrivals of the messages that have rows.
fn owed_arrivals<'a, C: Content>(
    messages: impl IntoIterator<Item = &'a Parcel<C>>,
) -> impl Iterator<Item = ProcessingTime> {
    messages.into_iter().filter(|message| message.rows > 0).map(|message| message.body.stamps.ingested)
}

/// What a panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic without a message")
}

fn in_flight<C: Content>(messages: &[Parcel<C>], writes: &[Write<C>]) -> InFlight {
    let mut sum = InFlight::default();
    messages.iter().for_each(|message| sum.add(InFlight::one(message.rows, message.bytes)));
    writes.iter().for_each(|write| sum.add(write.what.in_flight()));
    sum
}
