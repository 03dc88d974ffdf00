//! Who in a group joins an operator that is done as one, and who leaves it, also when that operator fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use laxity_graph::EventTime;

use super::super::as_one::{AsOne, Before, Part, Standing, StepContext};
use super::super::{Asked, Given, Reader, SHARED_BY_MIN, Taken, Visited, Work};
use super::{Group, Member};
use crate::template::FrontSpec;
use crate::{Clock, Content, Front, Rhythm, Template, panic_text};

/// Those of a group that are done as one with others of their template.
impl<C: Content> Group<C> {
    /// Its place among those of its template, if there are enough of them.
    ///
    /// # Errors
    /// If their operator cannot be built.
    pub(super) fn take_seat(
        &mut self,
        reader: &Reader<C>,
        spec: &<C::Front as Front>::Spec,
        rhythm: Rhythm,
        before: Option<Before<C>>,
        coming: &[Asked<C>],
    ) -> Result<Option<(usize, u32)>, C::Error> {
        let (Some(template), Some(outlet)) = (C::Template::of(spec), &reader.outlet) else { return Ok(None) };
        // What holds no rows back gains nothing.
        if rhythm == Rhythm::Rows {
            return Ok(None);
        }
        let known = self.place_of(template);
        if !self.gives_seat(spec, coming) {
            return Ok(None);
        }
        let place = match known {
            Some(place) => place,
            None => {
                let is_alike = |member: &&Member<C>| {
                    C::Template::of(&member.spec).is_some_and(|other| template.is(other))
                };
                let mut one = AsOne::new(template, rhythm, self.watermark)?;
                let alike = self.members.iter().flatten().filter(is_alike).map(|member| member.recorded);
                one.record = self.record.as_ref().map(|record| record.template(alike));
                let one = Some(one);
                match self.as_one.iter().position(Option::is_none) {
                    Some(place) => {
                        self.as_one[place] = one;
                        place
                    }
                    None => {
                        self.as_one.push(one);
                        self.as_one.len() - 1
                    }
                }
            }
        };
        let watermark = self.known_watermark();
        let is_new = known.is_none();
        let Some(one) = self.as_one[place].as_mut() else { return Ok(None) };
        if before.as_ref().is_some_and(|before| !one.takes_in(&before.held, watermark)) {
            // It works for itself.
            if is_new {
                self.as_one[place] = None;
            }
            return Ok(None);
        }
        Ok(Some((place, one.join(reader.query.clone(), spec, outlet.clone(), before))))
    }

    /// Whether who asks for this is done as one with others, if that can be: there are enough of them, or will be.
    pub fn gives_seat(&self, spec: &FrontSpec<C>, coming: &[Asked<C>]) -> bool {
        let Some(template) = C::Template::of(spec) else { return false };
        let gets_every_row = C::Template::gets_every_row(spec);
        if !gets_every_row && self.place_of(template).is_some() {
            return true;
        }
        // One alone of its template is worth it too, where its rows are aggregated with those of others.
        let is_kin = |other: &FrontSpec<C>| {
            C::Template::of(other).is_some_and(|other| template.is(other) || template.has_slices_of(other))
                && C::Template::gets_every_row(other) == gets_every_row
        };
        let is_seated = |member: &Member<C>| gets_every_row && member.seat.is_some();
        let mut count = 1;
        for member in self.members.iter().flatten().filter(|member| is_kin(&member.spec)) {
            count += 1;
            if count >= SHARED_BY_MIN || is_seated(member) {
                return true;
            }
        }
        let coming = coming.iter().filter(|(other, columns)| is_kin(other) && self.serves(other, columns));
        coming.take(SHARED_BY_MIN).count() >= SHARED_BY_MIN
    }

    fn place_of(&self, template: &C::Template) -> Option<usize> {
        self.as_one.iter().position(|one| one.as_ref().is_some_and(|one| one.is(template)))
    }

    /// Does that to the members of each template. Where it cannot be done, they end.
    pub(super) fn each_as_one(&mut self, mut act: impl FnMut(&mut AsOne<C>) -> Result<(), C::Error>) {
        for place in 0..self.as_one.len() {
            if let Some(one) = &mut self.as_one[place] {
                let done = guarded(|| act(one));
                self.or_stop(place, done);
            }
        }
    }

    /// The members of a template end where it could not be done.
    pub(super) fn or_stop(&mut self, place: usize, done: Result<(), String>) {
        if let Err(why) = done
            && let Some(one) = &mut self.as_one[place]
        {
            one.stop(&why);
            self.take_out_all(place);
        }
    }

    /// The members of a template have been told of the end.
    fn note_ended(&self, place: usize) {
        for member in self.members.iter().flatten() {
            if member.seat.is_some_and(|(of, _)| of == place) {
                member.reader.query.hold.on_end_of_input(member.reader.source);
            }
        }
    }

    /// Copies what those of templates hold who are asked for that, as soon as it can be.
    pub(super) fn copy_asked<K: Clock>(&mut self, clock: &K) {
        let (place, offered) = (self.place, self.offered.rows());
        let watermark = self.watermark;
        for at in 0..self.as_one.len() {
            let Some(one) = self.as_one[at].as_mut() else { continue };
            one.forget_old(clock.now());
            if !one.is_asked() {
                continue;
            }
            self.seal_for(at, EventTime::MAX);
            let Some(one) = self.as_one[at].as_mut() else { continue };
            let front = &mut self.front;
            let standing = || Ok(Standing { place, offered, front: front.save()? });
            let copied = guarded(|| one.copy(watermark, clock, standing));
            self.or_stop(at, copied);
        }
    }

    /// See [`Intake::visit`](super::super::Intake::visit): of one whose work is done with that of others.
    pub(super) fn visit_seat(&mut self, number: u32, is_first: bool) -> Option<Visited<C>> {
        let member = self.members[number as usize].as_ref()?;
        let (at, seat) = member.seat?;
        let one = self.as_one[at].as_mut()?;
        if one.is_ending() {
            return None;
        }
        let Some(Part { place, front, event_times, handed, held, took_ns }) = one.visit(seat, is_first)
        else {
            return Some(Visited::Later);
        };
        Some(Visited::Given(Given {
            position: member.reader.position_with_others(place),
            taken: Some(Taken { front, event_times }),
            handed,
            work: Some(Work { held, member: seat, took_ns }),
        }))
    }

    /// The members of a template are members no more.
    fn take_out_all(&mut self, place: usize) {
        for number in 0..self.members.len() {
            let is_one = |member: &Member<C>| member.seat.is_some_and(|(of, _)| of == place);
            if self.members[number].as_ref().is_some_and(is_one) {
                self.take_out(number as u32);
            }
        }
    }

    /// Those of a template that have windows to fire, the nearest target first, and that target.
    pub(super) fn next_as_one(&self) -> Option<(u64, usize)> {
        let places = self.as_one.iter().enumerate();
        let due = places.filter_map(|(place, one)| {
            let one = one.as_ref().filter(|one| self.is_due(one))?;
            Some((one.target_ns(), place))
        });
        due.min()
    }

    /// Whether these have windows to fire, or are to be told of the end.
    pub(super) fn is_due(&self, one: &AsOne<C>) -> bool {
        !one.is_stopped()
            && (one.has_work(self.watermark_of(one))
                || self.ended.is_some() && !one.has_ended() && one.may_end())
    }

    fn known_watermark(&self) -> EventTime {
        if self.ended.is_some() { EventTime::MAX } else { self.watermark }
    }

    /// The end is known to those of a template once each of them may come to it.
    fn watermark_of(&self, one: &AsOne<C>) -> EventTime {
        if self.ended.is_some() && (one.is_ending() || one.may_end()) {
            EventTime::MAX
        } else {
            self.watermark
        }
    }

    /// Fires windows of those of a template, until all are out (true) or the quantum is over.
    pub(super) fn fire<K: Clock>(&mut self, place: usize, context: &mut StepContext<'_, C, K>) -> bool {
        let Some(watermark) = self.as_one[place].as_ref().map(|one| self.watermark_of(one)) else {
            return true;
        };
        if self.as_one[place].as_ref().is_some_and(|one| one.would_fire(watermark)) {
            self.seal_for(place, watermark);
        }
        let (arrival, has_ended) = (self.arrival, watermark == EventTime::MAX);
        let Some(one) = &mut self.as_one[place] else { return true };
        let stepped = match one.has_work(watermark) {
            true => guarded(|| one.step(watermark, arrival, context)),
            false => Ok(true),
        };
        match stepped {
            Ok(true) => {
                // What began before the end was known is fired up to where the watermark was then.
                if has_ended && !one.has_work(watermark) {
                    one.end_of_input(context.writes);
                    self.note_ended(place);
                    self.take_out_all(place);
                }
                true
            }
            Ok(false) => false,
            Err(why) => {
                self.or_stop(place, Err(why));
                true
            }
        }
    }
}

/// Whatever an operator does, an error or a panic, is of those whose it is and of no others.
pub(super) fn guarded<R, E: std::fmt::Display>(act: impl FnOnce() -> Result<R, E>) -> Result<R, String> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("internal error: {} (please report this)", panic_text(&*panic))),
    }
}
