//! What a table knows of one query that reads it: the credit that it waits for, its backlog, and what it has had so
//! far. A reader that is behind holds up no other.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::{EventClock, EventTime, OperatorId, ProcessingTime};
use laxity_sched::{Relief, Stamps};

use super::{Feed, HELD_RETRY_NS, IntakeContext, NO_PROGRESS, Position, Relieves, TELL_TIME_EVERY_NS};
use crate::payload::parcel;
use crate::template::{FrontSpec, FrontState};
use crate::{Clock, Content, InFlight, Outlet, Parcel, Payload, Query, Rhythm};

/// One query's end of a table.
pub struct Reader<C: Content> {
    /// The query.
    pub query: Arc<Query>,
    /// The operator instance that takes the rows, by channel 0.
    pub source: OperatorId,
    /// Its columns among those of the table as it is read; `None` if it takes all.
    pub columns: Option<Vec<usize>>,
    backlog: VecDeque<Waiting<C::Batch>>,
    backlog_bytes: u64,
    /// From when on each batch of the backlog counts as owed; none where that cannot be told of this query.
    owed: VecDeque<ProcessingTime>,
    last_batch: ProcessingTime,
    idle: bool,
    /// When the source was last told the time; `None` if it has event time.
    told_time: Option<ProcessingTime>,
    /// When it is to be told of rows and time; `None` if of all.
    rhythm: Option<Rhythm>,
    /// What others may do for it too; only of one that has a rhythm.
    share: Option<FrontSpec<C>>,
    /// Where its results go if others make them for it.
    pub(super) outlet: Option<Arc<Outlet>>,
    /// What it has had before, of a table that is read again from an earlier place.
    skips: Position,
    /// What of it is not in its operators, where it has read with others before.
    pub(super) taken: Option<Taken<C>>,
    /// What its operator that keeps rows holds, for those who do its work with that of others.
    pub(super) held: Option<C::State>,
}

/// What a reader that reads with others has had and its operators do not hold.
pub struct Taken<C: Content> {
    /// What was done to the rows before they came to it.
    pub front: FrontState<C>,
    /// Least and latest event time that rows in its operators may have; `None` if they have none.
    pub event_times: Option<(EventTime, EventTime)>,
}

impl<C: Content> Clone for Taken<C> {
    fn clone(&self) -> Taken<C> {
        Taken { front: self.front.clone(), event_times: self.event_times }
    }
}

impl<C: Content> fmt::Debug for Taken<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Taken");
        shown.field("front", &self.front).field("event_times", &self.event_times).finish()
    }
}

/// Rows that no credit is there for.
#[derive(Debug)]
struct Waiting<B> {
    batch: B,
    arrival: ProcessingTime,
    bytes: u64,
    /// What follows them.
    watermark: Option<EventTime>,
    /// All that were due by then are before it; to be told behind them.
    time: Option<ProcessingTime>,
}

impl<C: Content> fmt::Debug for Reader<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Reader");
        shown.field("query", &self.query.settings.name).field("source", &self.source);
        shown.field("backlog_bytes", &self.backlog_bytes).finish_non_exhaustive()
    }
}

impl<C: Content> Reader<C> {
    /// A reader from the first row that is offered at or after `start` on. With
    /// `follows_processing_time` its source is told the processing time as its watermark.
    pub fn new(
        query: Arc<Query>,
        source: OperatorId,
        columns: Option<Vec<usize>>,
        follows_processing_time: bool,
        start: ProcessingTime,
    ) -> Reader<C> {
        Reader {
            query,
            source,
            columns,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            owed: VecDeque::new(),
            last_batch: start,
            idle: false,
            told_time: follows_processing_time.then_some(ProcessingTime::ZERO),
            rhythm: None,
            share: None,
            outlet: None,
            skips: Position::default(),
            taken: None,
            held: None,
        }
    }

    /// One that has to be told of rows and time then.
    #[must_use]
    pub fn in_rhythm(self, rhythm: Option<Rhythm>) -> Reader<C> {
        Reader { rhythm, ..self }
    }

    /// One whose rows may be filled and chosen together with those of others. Its source takes what comes of that.
    #[must_use]
    pub fn sharing(self, spec: FrontSpec<C>, rhythm: Rhythm) -> Reader<C> {
        Reader { share: Some(spec), ..self.in_rhythm(Some(rhythm)) }
    }

    /// One whose results may be made together with those of others of its template, and go there.
    #[must_use]
    pub fn with_outlet(self, outlet: Option<Arc<Outlet>>) -> Reader<C> {
        Reader { outlet, ..self }
    }

    /// One that leaves out the next rows, and dead rows, of its table: it has had them.
    #[must_use]
    pub fn skipping(self, skips: Position) -> Reader<C> {
        Reader { skips, ..self }
    }

    /// One that goes on from what it had when it read with others.
    #[must_use]
    pub fn going_on(self, taken: Taken<C>) -> Reader<C> {
        Reader { taken: Some(taken), ..self }
    }

    /// One whose operator that keeps rows holds that, should its work be done with that of others: its own operators are not
    /// asked for it.
    #[must_use]
    pub fn holding(self, held: Option<C::State>) -> Reader<C> {
        Reader { held, ..self }
    }

    /// Its table begins there, with what it skips behind that.
    pub(super) fn begin_at(&mut self, place: Position) {
        self.skips = Position {
            rows: self.skips.rows + place.rows,
            dead_rows: self.skips.dead_rows + place.dead_rows,
        };
    }

    /// What it has had, of a reader that has not begun.
    pub(super) fn had(&self) -> Position {
        self.skips
    }

    /// The table has come to the first row that it has not had.
    pub(super) fn catch_up(&mut self) {
        self.skips.rows = 0;
    }

    /// What it was given, by others, of a table that has come this far.
    pub(super) fn position_with_others(&self, table: Position) -> Position {
        Position { rows: table.rows, dead_rows: table.dead_rows.max(self.skips.dead_rows) }
    }

    /// What it has had of a table that has come this far.
    pub(super) fn position(&self, table: Position) -> Position {
        Position {
            rows: table.rows + self.skips.rows - self.backlog_rows(),
            dead_rows: table.dead_rows + self.skips.dead_rows,
        }
    }

    /// Takes note of dead rows of its table.
    pub(super) fn count_dead(&mut self, rows: u64) {
        let skipped = rows.min(self.skips.dead_rows);
        self.skips.dead_rows -= skipped;
        self.query.rows_dead.fetch_add(rows - skipped, Relaxed);
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Rows that it holds back for want of credit.
    pub fn backlog_rows(&self) -> u64 {
        self.backlog.iter().map(|waiting| u64::from(C::rows(&waiting.batch))).sum()
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// What others may do for it too, and when it is to be told of it.
    pub(super) fn share(&self) -> Option<(FrontSpec<C>, Rhythm)> {
        Some((self.share.clone()?, self.rhythm?))
    }

    /// When it waits for a row; `None` if for every one.
    pub(super) fn rhythm(&self) -> Option<Rhythm> {
        let query = &self.query;
        // Who drops rows or leaves some out does it by when they come.
        let counts_arrivals = query.settings.shed || query.asked.is_any();
        self.rhythm.filter(|_| self.told_time.is_none() && !counts_arrivals)
    }

    pub(super) fn told_time(&self) -> Option<ProcessingTime> {
        self.told_time
    }

    /// Takes what is left of a batch once the scheduler has said how many of its rows to drop, and the watermark that
    /// follows it where that is known.
    #[expect(clippy::too_many_arguments, reason = "what a look knows; a struct would only rename it")]
    pub(super) fn offer<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        table: OperatorId,
        batch: C::Batch,
        arrival: ProcessingTime,
        watermark: Option<EventTime>,
        clock: Option<EventClock>,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        if let Some(clock) = clock {
            // Set once: every table of a query shows the same clock from its first batch on.
            let _ = self.query.event_clock.set(clock);
        }
        let Some(batch) = self.without_skipped(batch) else { return };
        let rows = C::rows(&batch);
        self.last_batch = now;
        self.idle = false;
        let Relief { drop: dropped, leave_out } =
            (context.relief)(self.source, rows, self.query.leaves_out());
        if dropped > 0 {
            self.query.count_shed(dropped, now);
        }
        if self.query.settings.leaves_out {
            self.query.is_to_leave_out.store(leave_out, Relaxed);
        }
        // The first go, so that the newest row, which moves the watermark, stays.
        let batch = match dropped {
            0 => batch,
            _ if dropped >= rows => match C::without_rows(&batch) {
                Some(batch) => batch,
                None => {
                    if let Some(watermark) = watermark {
                        self.tell(watermark, arrival, now, context.staged);
                    }
                    return;
                }
            },
            _ => C::slice(&batch, dropped as usize, (rows - dropped) as usize),
        };
        if self.backlog.is_empty() && self.query.has_credit(table) {
            self.admit::<F>(batch, watermark, arrival, now, context.staged);
            return;
        }
        let bytes = C::bytes(&batch);
        self.backlog_bytes += bytes;
        self.backlog.push_back(Waiting { batch, arrival, bytes, watermark, time: None });
        self.owe(arrival);
        self.flush::<F, K, S>(table, now, context);
    }

    /// `None` if it has had all of it.
    fn without_skipped(&mut self, batch: C::Batch) -> Option<C::Batch> {
        if self.skips.rows == 0 {
            return Some(batch);
        }
        let rows = C::rows(&batch);
        let skipped = self.skips.rows.min(u64::from(rows)) as u32;
        self.skips.rows -= u64::from(skipped);
        (skipped < rows).then(|| C::slice(&batch, skipped as usize, (rows - skipped) as usize))
    }

    /// Admits what the credit allows.
    pub(super) fn flush<F: Feed<C>, K: Clock, S>(
        &mut self,
        table: OperatorId,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        if self.backlog.is_empty() || self.query.is_held() {
            // Whoever waits for its credit is told when it is let go.
            let _never = self.is_behind() && self.query.has_credit(table);
            return;
        }
        if let Some((watermark, arrival)) = self.shed_worthless(now) {
            self.tell(watermark, arrival, now, context.staged);
        }
        while !self.backlog.is_empty() && self.query.has_credit(table) {
            let Some(waiting) = self.backlog.pop_front() else { return };
            let Waiting { batch, arrival, bytes, watermark, time } = waiting;
            self.backlog_bytes -= bytes;
            self.settle_one();
            self.admit::<F>(batch, watermark, arrival, now, context.staged);
            self.send_time(time, now, context.staged);
        }
    }

    fn admit<F: Feed<C>>(
        &mut self,
        batch: C::Batch,
        watermark: Option<EventTime>,
        arrival: ProcessingTime,
        now: ProcessingTime,
        staged: &mut Vec<Parcel<C>>,
    ) {
        let batch = match &self.columns {
            Some(columns) if self.share.is_none() => F::project(&batch, columns),
            _ => batch,
        };
        if self.share.is_none() {
            self.query.rows_in.fetch_add(u64::from(C::rows(&batch)), Relaxed);
        }
        if self.query.owes_by_arrival() && C::rows(&batch) > 0 {
            self.query.owe(|owed| owed.due(arrival));
        }
        let progress = C::progress(&batch);
        let payload = Payload {
            batch: Some(batch),
            watermark,
            idle: false,
            is_alone: self.query.asked.is_any(),
            tells_time: false,
            stamps: Stamps::admitted(arrival, now),
            window_end: None,
        };
        self.send(progress, payload, staged);
    }

    /// Admits all that waits and these rows behind it, whatever credit there is: its query is held, and what it has had is to
    /// be in its operators. The end waits until it is let go.
    pub(super) fn admit_all<F: Feed<C>>(
        &mut self,
        batch: Option<C::Batch>,
        watermark: Option<EventTime>,
        arrival: ProcessingTime,
        now: ProcessingTime,
        staged: &mut Vec<Parcel<C>>,
    ) {
        while let Some(Waiting { batch, arrival, bytes, watermark, time }) = self.backlog.pop_front() {
            self.backlog_bytes -= bytes;
            self.settle_one();
            let watermark = watermark.filter(|&watermark| watermark < EventTime::MAX);
            self.admit::<F>(batch, watermark, arrival, now, staged);
            self.send_time(time, now, staged);
        }
        match (batch, watermark) {
            (Some(batch), watermark) => self.admit::<F>(batch, watermark, arrival, now, staged),
            (None, Some(watermark)) => {
                self.signal(Stamps::admitted(arrival, now), Some(watermark), staged);
            }
            (None, None) => {}
        }
    }

    /// Says how far time is, behind what it has been offered so far.
    pub(super) fn tell(
        &mut self,
        watermark: EventTime,
        arrival: ProcessingTime,
        now: ProcessingTime,
        staged: &mut Vec<Parcel<C>>,
    ) {
        match self.backlog.back_mut() {
            Some(last) => last.watermark = Some(watermark),
            None => self.signal(Stamps::admitted(arrival, now), Some(watermark), staged),
        }
    }

    /// Drops what has waited for credit until its results are worth nothing, where the query allows that.
    /// The watermark behind them, with nothing left before it.
    fn shed_worthless(&mut self, now: ProcessingTime) -> Option<(EventTime, ProcessingTime)> {
        let after_ns = self.query.sheds_after_ns()?;
        let mut told = None;
        while let Some(waiting) =
            self.backlog.pop_front_if(|waiting| now.since_ns(waiting.arrival) > after_ns)
        {
            self.backlog_bytes -= waiting.bytes;
            self.settle_one();
            self.query.count_shed(C::rows(&waiting.batch), now);
            if waiting.time.is_some() {
                self.query.asked.untold(self.source);
            }
            told = waiting.watermark.map(|watermark| (watermark, waiting.arrival)).or(told);
        }
        told.filter(|_| self.backlog.is_empty())
    }

    /// Rows of that arrival are held back, behind those that are already.
    fn owe(&mut self, arrival: ProcessingTime) {
        let due_by = self.query.due_by.get();
        let due = due_by.and_then(|due_by| due_by.held_back(arrival, self.query.event_clock.get()));
        if let Some(due) = due {
            self.owed.push_back(due);
            self.query.owe(|owed| owed.due(due));
        }
    }

    /// The first rows of the backlog are held back no longer.
    fn settle_one(&mut self) {
        if let Some(due) = self.owed.pop_front() {
            self.query.owe(|owed| owed.out(due));
        }
    }

    /// Moves windows on processing time on, once everything admitted before has been handed over.
    pub(super) fn tell_time<K, S>(&mut self, now: ProcessingTime, context: &mut IntakeContext<'_, C, K, S>) {
        let Some(told) = self.told_time else { return };
        if now >= told.plus_ns(TELL_TIME_EVERY_NS) && self.backlog.is_empty() && !self.query.is_held() {
            self.told_time = Some(now);
            let unix_ms = context.unix_start_ms + (now.0 / 1_000_000) as i64;
            // Up to the millisecond before: rows of this one may still come.
            self.signal(Stamps::admitted(now, now), Some(EventTime(unix_ms - 1)), context.staged);
        }
    }

    /// Over how much time one batch for it may reach; `None` if that is nothing to it.
    pub(super) fn arrival_step_ns(&self, clock: Option<EventClock>) -> Option<u64> {
        let step_ms = self.query.asked.step_ms(self.source)?;
        Some(((step_ms as f64 * 1e6 / clock?.speed) as u64).max(1))
    }

    /// When its source wants to be told the time by this table, if it does.
    pub(super) fn asked_time(&self, table: OperatorId) -> Option<ProcessingTime> {
        self.query.asked.asked(self.source, table)
    }

    /// All rows that were due by then have been offered: says so, if it was asked for that, behind those that wait.
    pub(super) fn tell_arrived(
        &mut self,
        table: OperatorId,
        until: ProcessingTime,
        now: ProcessingTime,
        staged: &mut Vec<Parcel<C>>,
    ) {
        if self.asked_time(table).is_none_or(|at| at > until) {
            return;
        }
        match self.backlog.back_mut() {
            Some(last) => last.time = Some(until),
            None if self.query.is_held() => {
                // Its table is looked at again once it is let go.
                self.query.waits_for(table);
                return;
            }
            None => self.send_time(Some(until), now, staged),
        }
        self.query.asked.told(self.source, until);
    }

    fn send_time(&self, time: Option<ProcessingTime>, now: ProcessingTime, staged: &mut Vec<Parcel<C>>) {
        if let Some(time) = time {
            let stamps = Stamps::admitted(time, now);
            self.send(NO_PROGRESS, Payload { tells_time: true, stamps, ..Payload::look() }, staged);
        }
    }

    /// Declares the reader idle once it was silent for its timeout; else when that will be.
    pub(super) fn idle_after(
        &mut self,
        now: ProcessingTime,
        staged: &mut Vec<Parcel<C>>,
    ) -> Option<ProcessingTime> {
        let timeout = self.query.settings.idle_timeout?;
        // Rows held back for want of credit are our silence, not the source's.
        if self.idle || !self.backlog.is_empty() {
            return None;
        }
        let due = self.last_batch.plus(timeout);
        if due > now {
            return Some(due);
        }
        if self.query.is_held() {
            return Some(now.plus_ns(HELD_RETRY_NS));
        }
        self.idle = true;
        self.signal(Stamps::admitted(now, now), None, staged);
        None
    }

    /// True if it has got all that its table had, and may be told so.
    pub(super) fn may_end(&self) -> bool {
        !self.is_behind() && self.query.hold.may_come_to_end()
    }

    /// No row is to come any more.
    pub(super) fn end_of_input(&mut self, now: ProcessingTime, staged: &mut Vec<Parcel<C>>) {
        self.signal(Stamps::admitted(now, now), Some(EventTime::MAX), staged);
    }

    /// A message without rows: a watermark, or else idleness.
    fn signal(&self, stamps: Stamps, watermark: Option<EventTime>, staged: &mut Vec<Parcel<C>>) {
        let payload = Payload {
            batch: None,
            watermark,
            idle: watermark.is_none(),
            is_alone: false,
            tells_time: false,
            stamps,
            window_end: None,
        };
        self.send(watermark.unwrap_or(NO_PROGRESS), payload, staged);
    }

    fn send(&self, progress: EventTime, payload: Payload<C::Batch>, staged: &mut Vec<Parcel<C>>) {
        if payload.watermark == Some(EventTime::MAX) {
            self.query.hold.on_end_of_input(self.source);
        }
        let message = parcel::<C>(self.source, 0, progress, payload);
        self.query.admit(InFlight::one(message.rows, message.bytes));
        staged.push(message);
    }
}
