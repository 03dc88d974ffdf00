//! Who in a group gets the same rows for windows that differ, so that these are aggregated once.

use laxity_graph::{EventTime, ProcessingTime};

use super::super::as_one::AsOne;
use super::super::shared_slices::{Mate, SharedSlices};
use super::Group;
use super::seats::guarded;
use crate::template::FrontSpec;
use crate::{Clock, Content, Front};

impl<C: Content> Group<C> {
    /// The member that will have this number gets rows with those who get the same, if there may be such: where that is, and
    /// whether the front has to know of it. What others have had so far is given to them first.
    pub(super) fn join_audience(
        &mut self,
        number: u32,
        (place, seat): (usize, u32),
        spec: &FrontSpec<C>,
    ) -> Result<Option<(usize, u32, bool)>, C::Error> {
        let Some(at) = self.slices_for(place)? else { return Ok(None) };
        let mate = Mate { member: number, place, seat };
        let joined = self.with_slices(at, |slices, as_one| slices.join(mate, spec, as_one));
        Ok(joined.map(|(audience, is_first)| (at, audience, is_first)))
    }

    /// The slices that the template at this place has with others, or will have.
    fn slices_for(&mut self, place: usize) -> Result<Option<usize>, C::Error> {
        let Some(template) = self.as_one[place].as_ref().map(|one| one.template().clone()) else {
            return Ok(None);
        };
        let known = self.slices.iter().enumerate().find_map(|(at, slices)| {
            let common = slices.as_ref()?.common_with(&template, place)?;
            Some((at, common))
        });
        if let Some((at, common)) = known {
            let taken = self.with_slices(at, |slices, as_one| slices.take_up(place, common, as_one));
            return Ok(taken.map(|()| at));
        }
        let Some(slices) = SharedSlices::new(&template, place)? else { return Ok(None) };
        let at = self.slices.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slices.push(None);
            self.slices.len() - 1
        });
        self.slices[at] = Some(slices);
        Ok(Some(at))
    }

    /// A member takes no more rows; others get what they have had with it.
    pub(super) fn leave_audience(&mut self, at: usize, audience: u32, number: u32, spec: &FrontSpec<C>) {
        let left = self.with_slices(at, |slices, as_one| slices.leave(audience, number, as_one));
        match left {
            Some(None) => {}
            Some(Some(next)) => {
                self.front.leave(number, spec);
                if let Some(next) = next
                    && let Some(member) = &self.members[next as usize]
                {
                    self.front.join(next, &member.spec);
                }
            }
            // They are no more: the front may know it or not.
            None => self.front.leave(number, spec),
        }
    }

    /// A template has no members any more.
    pub(super) fn leave_slices(&mut self, place: usize) {
        for slices in &mut self.slices {
            if slices.as_mut().is_some_and(|slices| slices.has(place) && slices.drop_place(place)) {
                *slices = None;
            }
        }
    }

    /// Before windows of the template at this place are fired, or what it holds is copied: it gets what its rows of slices
    /// have come to that have ended at this watermark, and so do the others.
    pub(super) fn seal_for(&mut self, place: usize, watermark: EventTime) {
        let of_it = |slices: &Option<SharedSlices<C>>| slices.as_ref().is_some_and(|of| of.has(place));
        if let Some(at) = self.slices.iter().position(of_it) {
            let _done = self.with_slices(at, |slices, as_one| slices.seal(as_one, watermark));
        }
    }

    /// Takes the rows of the batch at hand that several get.
    pub(super) fn slice<K: Clock>(&mut self, batch: &C::Batch, arrival: ProcessingTime, clock: &K) {
        for at in 0..self.slices.len() {
            let _done = self.with_slices(at, |slices, as_one| slices.take(batch, arrival, clock, as_one));
        }
    }

    /// Where nothing is more urgent, slices are added to windows that will need them. Returns whether it came to its end.
    pub(super) fn add_pieces<K: Clock>(
        &mut self,
        clock: &K,
        is_over: impl Fn(ProcessingTime) -> bool,
    ) -> bool {
        for place in 0..self.as_one.len() {
            while let Some(one) = self.as_one[place].as_mut().filter(|one| one.has_slices()) {
                let added = guarded(|| one.add_piece(clock));
                self.or_stop(place, added.map(|_| ()));
                if is_over(clock.now()) {
                    return false;
                }
            }
        }
        true
    }

    /// Does that to slices. Where it cannot be done, those whose rows they are of end. `None` also where there are none.
    fn with_slices<R>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut SharedSlices<C>, &mut [Option<AsOne<C>>]) -> Result<R, C::Error>,
    ) -> Option<R> {
        let slices = self.slices[at].as_mut()?;
        match guarded(|| act(slices, &mut self.as_one)) {
            Ok(done) => Some(done),
            Err(why) => {
                let places: Vec<usize> =
                    self.slices[at].take().iter().flat_map(SharedSlices::places).collect();
                places.into_iter().for_each(|place| self.or_stop(place, Err(why.clone())));
                None
            }
        }
    }
}
