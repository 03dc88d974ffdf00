//! Checkpoints of queries that are done as one: what the operator holds for all of them is copied once, and each takes
//! its own from there, for as long as nothing more has come out for it.
//!
//! A copy is made between two messages, when no window that has ended is left to be fired. A member takes its part of it
//! if all that came out for it is written; from then on no window is fired until it is let go. So what it takes is what its
//! own operator would hold, had it read the table alone up to where that stood when the copy was made. Rows are taken in
//! meanwhile: they come again after that place.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::{EventTime, ProcessingTime};

use super::super::Position;
use super::AsOne;
use crate::offered::OfferedRows;
use crate::template::FrontState;
use crate::{Clock, Content, Template};

/// A copy is taken from for so long: those who are saved at about the same time share it.
const LASTS_NS: u64 = 100_000_000;

/// What an operator held for all of its members.
pub(super) struct Copied<C: Content> {
    made: ProcessingTime,
    took_ns: u64,
    place: Position,
    offered: OfferedRows,
    front: FrontState<C>,
    held: <C::Template as Template<C>>::Saved,
    /// Of each member then.
    seats: HashMap<u32, Then>,
}

/// What a seat had come to.
#[derive(Clone, Copy)]
struct Then {
    rows_late: u64,
    handed: u64,
    latest: Option<EventTime>,
}

/// What a member takes for its checkpoint.
pub(in crate::intake) struct Part<C: Content> {
    /// How far the table had been read.
    pub place: Position,
    /// What was done to its rows before they came to the operator.
    pub front: FrontState<C>,
    /// Least and latest event time of rows that are held for it.
    pub event_times: Option<(EventTime, EventTime)>,
    /// Times that it had been given rows, or results had come out for it.
    pub handed: u64,
    /// What the operator held for all.
    pub held: <C::Template as Template<C>>::Saved,
    /// How long it took to copy that.
    pub took_ns: u64,
}

/// How the table stands where a copy is made.
pub(in crate::intake) struct Standing<C: Content> {
    pub place: Position,
    pub offered: OfferedRows,
    pub front: FrontState<C>,
}

impl<C: Content> AsOne<C> {
    /// A member that is held wants its part. `None` until it can have it: it is to ask again once the table was looked at.
    /// `is_first`: it has not asked since it was held.
    pub fn visit(&mut self, seat: u32, is_first: bool) -> Option<Part<C>> {
        if is_first {
            // What it has taken while it was held before is another matter.
            self.stopping.retain(|other| *other != seat);
        }
        let least = self.event_times.map_or(EventTime::MIN, |(least, _)| least);
        let of = self.seats.get(&seat)?;
        let copied = self.copied.as_ref().and_then(|copied| Some((copied, *copied.seats.get(&seat)?)));
        let Some((copied, then)) = copied else {
            self.is_asked = true;
            return None;
        };
        if !of.query.drained() {
            return None;
        }
        of.query.note_saved(copied.offered, then.rows_late);
        if !self.stopping.contains(&seat) {
            self.stopping.push(seat);
        }
        Some(Part {
            place: copied.place,
            front: copied.front.clone(),
            event_times: then.latest.map(|latest| (least, latest)),
            handed: then.handed,
            held: copied.held.clone(),
            took_ns: copied.took_ns,
        })
    }

    /// How often rows have come for a member, or results out.
    pub fn handed(&self, seat: u32) -> Option<u64> {
        self.seats.get(&seat).map(|seat| seat.handed)
    }

    /// Whether a copy is wanted.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Makes a copy, if one is wanted and can be had: windows that end at the watermark are out.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn copy<K: Clock>(
        &mut self,
        watermark: EventTime,
        clock: &K,
        standing: impl FnOnce() -> Result<Standing<C>, C::Error>,
    ) -> Result<(), C::Error> {
        let waits = self.has_work(watermark) || self.told == EventTime::MAX || self.is_stopped();
        if !self.is_asked || waits || !C::emitted(&mut self.outbox).is_empty() {
            return Ok(());
        }
        let began = clock.now();
        self.settle()?;
        while self.add_piece(clock)? {}
        let Standing { place, offered, front } = standing()?;
        let then = |seat: &super::Seat<C>| Then {
            rows_late: seat.query.rows_late.load(Relaxed),
            handed: seat.handed,
            latest: seat.latest,
        };
        let seats = self.seats.iter().map(|(&number, seat)| (number, then(seat))).collect();
        let held = C::Template::save(&mut self.operator)?;
        let made = clock.now();
        let took_ns = made.since_ns(began);
        self.copied = Some(Copied { made, took_ns, place, offered, front, held, seats });
        self.is_asked = false;
        Ok(())
    }

    /// How far the table had been read when the copy was made that members may take their part of.
    pub fn copied_rows(&self) -> u64 {
        self.copied.as_ref().map_or(u64::MAX, |copied| copied.place.rows)
    }

    /// Lets go of a copy that is old, if nobody is stopped over it.
    pub fn forget_old(&mut self, now: ProcessingTime) {
        let is_old = self.copied.as_ref().is_some_and(|copied| now.since_ns(copied.made) > LASTS_NS);
        if is_old && !self.is_stopped() {
            self.copied = None;
        }
    }

    /// Whether a member has taken its part and was not let go since: nothing may come out.
    pub fn is_stopped(&self) -> bool {
        self.stopped().next().is_some()
    }

    /// Those whom others wait for.
    pub fn stopped(&self) -> impl Iterator<Item = &super::Seat<C>> {
        let seats = self.stopping.iter().filter_map(|seat| self.seats.get(seat));
        seats.filter(|seat| seat.query.is_held() && !seat.query.stopped())
    }

    /// Something is about to come out: what was copied is of the past.
    pub(super) fn drop_copy(&mut self) {
        self.copied = None;
        self.stopping.clear();
    }

    /// Whether all members may come to their end now. Those that may not are known to want that.
    pub fn may_end(&self) -> bool {
        // Each is asked.
        self.seats.values().filter(|seat| !seat.query.hold.may_come_to_end()).count() == 0
    }

    /// Gives the operator what members held alone before they came.
    ///
    /// # Errors
    /// If it does not fit.
    pub(super) fn settle(&mut self) -> Result<(), C::Error> {
        if self.arrived.is_empty() {
            return Ok(());
        }
        let arrived = std::mem::take(&mut self.arrived);
        let stay = arrived.into_iter().filter(|(seat, _)| self.seats.contains_key(seat)).collect();
        self.template.take_in(&mut self.operator, stay)
    }
}
