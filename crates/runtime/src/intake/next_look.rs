//! When a table is looked at again after a look, and how urgent that is.

use laxity_graph::{EventClock, ProcessingTime};

use super::group::Group;
use super::spacing::Ahead;
use super::{Feed, Intake, IntakeContext, Step, TELL_TIME_EVERY_NS};
use crate::pace::Pace;
use crate::{Clock, Content};

impl<C: Content> Intake<C> {
    /// Says when to look again, after a look that has taken all that was due; the next row comes then.
    pub(super) fn appoint_next<K: Clock, S>(
        &mut self,
        next_row: ProcessingTime,
        clock: Option<EventClock>,
        started: ProcessingTime,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        let window_end = self.window_end(clock, context.load);
        let before = self.rested.replace((self.rows_offered, started));
        let came = before.map(|(rows, at)| (self.rows_offered - rows, started.since_ns(at)));
        let ahead = Ahead { last_row: self.last_arrival, next_row, came, window_end };
        self.ending = Some(ahead).filter(|_| window_end.is_none());
        let at = self.spacing.next_look(context.load, started, ahead);
        self.look_at = self.sooner(at.max(now.plus_ns(1)), now, context);
        self.look_due = self.due_later(self.look_at, clock, window_end).unwrap_or(self.look_at);
    }

    /// If it has turned out meanwhile that the last look has ended a window, nobody needs this one.
    pub(super) fn sleep_on<K: Clock, S>(
        &mut self,
        clock: Option<EventClock>,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        let Some(ahead) = self.ending else { return };
        let window_end = self.window_end(clock, context.load);
        if window_end.is_some() {
            let at = self.spacing.next_look(context.load, now, Ahead { window_end, ..ahead });
            self.look_at = self.sooner(at, now, context);
            self.look_due = self.due_later(self.look_at, clock, window_end).unwrap_or(self.look_at);
            self.ending = None;
        }
    }

    /// When a look at that time is due, if nobody waits for it before.
    pub(super) fn due_later(
        &self,
        at: ProcessingTime,
        clock: Option<EventClock>,
        window_end: Option<ProcessingTime>,
    ) -> Option<ProcessingTime> {
        if let Some(end) = window_end {
            return Some(end).filter(|&end| end > at);
        }
        // The first row that is worked off says when windows end. What is done as one is done in a look.
        let waits_for_it = clock.is_some()
            && self.groups.is_empty()
            && self.wants.as_ref().is_some_and(|wants| wants.window_ends().is_some())
            && self.pace().is_some_and(|pace| !pace.is_known());
        waits_for_it.then(|| at.plus_ns(self.target_ns()))
    }

    /// A look in the midst of a window. The rows that wait for its end already have it as their deadline, and the target on top:
    /// a target further, this one is behind them, so that who has too much to do works rows off before taking more in. Else
    /// all that is due is taken in first, into new memory, which is dearer than the rows.
    pub(super) fn amid(&self, at: ProcessingTime, due: ProcessingTime) -> Step {
        Step::Amid { at, behind: due.plus_ns(self.target_ns()), due }
    }

    /// The time to look again, or earlier where a reader falls silent or has to be told the time.
    pub(super) fn sooner<K: Clock, S>(
        &mut self,
        at: ProcessingTime,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) -> ProcessingTime {
        let told = self.groups.iter().filter_map(Group::told_time);
        let mut at = told.map(|told| told.plus_ns(TELL_TIME_EVERY_NS)).fold(at, ProcessingTime::min);
        for reader in &mut self.readers {
            // Who is behind is told once it has what came before; until then there is nothing to look for.
            if let Some(told) = reader.told_time().filter(|_| !reader.is_behind()) {
                at = at.min(told.plus_ns(TELL_TIME_EVERY_NS));
            }
            if let Some(silent) = reader.idle_after(now, context.staged) {
                at = at.min(silent);
            }
        }
        at
    }

    /// Does a piece of the work ahead, if there is one.
    pub(super) fn prepare<F: Feed<C>>(
        &mut self,
        feed: &mut F,
        now: ProcessingTime,
        load: f64,
    ) -> Result<Step, F::Error> {
        let wait = match self.look_due > self.look_at {
            true => self.amid(self.look_at, self.look_due),
            false => Step::At { at: self.look_at, due: self.look_at },
        };
        let Some(until) = feed.prepared_until() else { return Ok(wait) };
        // What is ready for longer than the table can rest needs no more for now.
        if until > self.look_at.plus_ns(self.spacing.ns(load)) || !feed.prepare()? {
            return Ok(wait);
        }
        // Another piece can wait until the rows of this one are gone.
        let due = feed.prepared_until().unwrap_or(until);
        Ok(if now < self.look_at { Step::At { at: now, due } } else { wait })
    }

    /// When the next window may end of those who read it, if they wait for nothing else. `None` too while a row may have
    /// ended it and its source has not said so.
    pub(super) fn window_end(&self, clock: Option<EventClock>, load: f64) -> Option<ProcessingTime> {
        let (ends, clock) = (self.wants.as_ref()?.window_ends()?, clock?);
        // Where windows end more often than the table is looked at, there is always one about to.
        if (ends.every_ms() as f64 / clock.speed * 1e6) < self.spacing.ns(load) as f64 {
            return None;
        }
        self.pace()?.next_end(&clock, ends).filter(|&end| self.last_arrival < end)
    }

    /// What a watermark is belongs to the table: one of those who read it tells for all.
    pub(super) fn pace(&self) -> Option<&Pace> {
        match self.readers.first() {
            Some(reader) => Some(&reader.query.pace),
            None => Some(&self.groups.first()?.pace),
        }
    }
}
