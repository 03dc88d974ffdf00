//! Queries that are alike but for their windows, over the same rows: these are aggregated once, by slices of time, and
//! each window is put together of slices. They stay operators of their own, with targets of their own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use laxity_graph::{CommonSlices, EventTime, ProcessingTime};

use super::as_one::AsOne;
use crate::template::{FrontSpec, RowsOf, SlicerOf};
use crate::{Clock, Content, Slicer, Template};

/// Templates of a group that differ in their windows alone, and what is done once for those of their members that get the
/// same rows: an audience.
///
/// Rows that are late for some window go to each of them as they are, and so do those of an audience of one. Whoever joins
/// an audience gets nothing of what its rows have come to before: that is given to the others first.
pub(super) struct SharedSlices<C: Content> {
    template: C::Template,
    /// Where they are among those of the group.
    places: Vec<usize>,
    /// By which rows are aggregated: those of each are made of whole ones.
    common: CommonSlices,
    slicer: SlicerOf<C>,
    audiences: Vec<Audience<C>>,
    free: Vec<u32>,
    by_rows: HashMap<RowsOf<C>, u32>,
    /// Of the batch at hand: audiences and rows.
    rows: Vec<(u32, u32)>,
    /// Since it was sealed: rows, and what they would have been had each member got them.
    taken: u64,
    asked: u64,
    /// Until then each gets its rows, as few of them have fallen into one group.
    rests_until: EventTime,
}

/// Those who get the same rows. The front knows the first of them alone.
struct Audience<C: Content> {
    mates: Vec<Mate>,
    rows: Option<RowsOf<C>>,
}

/// A member of the group, and its seat in the operator at a place.
#[derive(Clone, Copy)]
pub(super) struct Mate {
    pub member: u32,
    pub place: usize,
    pub seat: u32,
}

/// After rows that hardly fell together it is not tried again for so many slices.
const RESTS_SLICES: i64 = 16;

/// What a group costs that is written down, and given, by what a row costs. Measured with twelve windows: CPU alone by CPU
/// together is 2.1 where .43 groups come of a row, and 1.2 at .63, so that it comes to nothing at about .7, which is 1.2.
const GROUP_COSTS: f64 = 1.3;

impl<C: Content> SharedSlices<C> {
    /// For who has the seat of a template; `None` where its windows have no slices.
    ///
    /// # Errors
    /// If rows of that template cannot be aggregated.
    pub fn new(template: &C::Template, place: usize) -> Result<Option<SharedSlices<C>>, C::Error> {
        let Some(slice_ms) = template.slice_ms() else { return Ok(None) };
        Ok(Some(SharedSlices {
            template: template.clone(),
            places: vec![place],
            common: CommonSlices::of(slice_ms),
            slicer: template.slicer(slice_ms)?,
            audiences: Vec::new(),
            free: Vec::new(),
            by_rows: HashMap::new(),
            rows: Vec::new(),
            taken: 0,
            asked: 0,
            rests_until: EventTime::MIN,
        }))
    }

    /// The slices, were the template that has this place one of these; `None` if it is another, or they would be too short
    /// to be worth it.
    pub fn common_with(&self, template: &C::Template, place: usize) -> Option<CommonSlices> {
        if self.has(place) {
            return Some(self.common);
        }
        let own_ms = template.slice_ms().filter(|_| self.template.has_slices_of(template))?;
        self.common.with(own_ms)
    }

    /// The template that has this place is one of these from now on, and slices are such.
    ///
    /// # Errors
    /// If rows cannot be aggregated so.
    pub fn take_up(
        &mut self,
        place: usize,
        common: CommonSlices,
        as_one: &mut [Option<AsOne<C>>],
    ) -> Result<(), C::Error> {
        if common.slice_ms() != self.common.slice_ms() {
            self.seal(as_one, EventTime::MAX)?;
            self.slicer = self.template.slicer(common.slice_ms())?;
        }
        self.common = common;
        if !self.has(place) {
            self.places.push(place);
        }
        Ok(())
    }

    /// Whether the template at this place is one of these.
    pub fn has(&self, place: usize) -> bool {
        self.places.contains(&place)
    }

    /// Where they are.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.places.iter().copied()
    }

    /// One more, from the next row on: its audience, and whether it is the first of it, of which the front has to know.
    ///
    /// # Errors
    /// If the others cannot be given what there is for them.
    pub fn join(
        &mut self,
        mate: Mate,
        spec: &FrontSpec<C>,
        as_one: &mut [Option<AsOne<C>>],
    ) -> Result<(u32, bool), C::Error> {
        let rows = C::Template::rows(spec);
        if let Some(known) = rows.as_ref().and_then(|rows| self.by_rows.get(rows).copied()) {
            // Of one alone nothing was aggregated here.
            if self.audiences[known as usize].mates.len() > 1 {
                self.seal(as_one, EventTime::MAX)?;
            }
            self.audiences[known as usize].mates.push(mate);
            return Ok((known, false));
        }
        let audience = Audience { mates: vec![mate], rows: rows.clone() };
        let number = match self.free.pop() {
            Some(number) => {
                self.audiences[number as usize] = audience;
                number
            }
            None => {
                self.audiences.push(audience);
                self.audiences.len() as u32 - 1
            }
        };
        if let Some(Entry::Vacant(entry)) = rows.map(|rows| self.by_rows.entry(rows)) {
            entry.insert(number);
        }
        Ok((number, true))
    }

    /// A member takes no more rows. Of whom the front has to know now, if that is another; `None` if it was not the one.
    ///
    /// # Errors
    /// If the others cannot be given what there is for them.
    pub fn leave(
        &mut self,
        number: u32,
        member: u32,
        as_one: &mut [Option<AsOne<C>>],
    ) -> Result<Option<Option<u32>>, C::Error> {
        let sealed = match self.audiences[number as usize].mates.len() {
            0 | 1 => Ok(()),
            _ => self.seal(as_one, EventTime::MAX),
        };
        let audience = &mut self.audiences[number as usize];
        let was_first = audience.mates.first().is_some_and(|mate| mate.member == member);
        audience.mates.retain(|mate| mate.member != member);
        let next = audience.mates.first().map(|mate| mate.member);
        if next.is_none() {
            if let Some(rows) = audience.rows.take() {
                self.by_rows.remove(&rows);
            }
            self.free.push(number);
        }
        sealed.map(|()| was_first.then_some(next))
    }

    /// The template at this place is one of these no more. True if none is left.
    pub fn drop_place(&mut self, place: usize) -> bool {
        self.places.retain(|of| *of != place);
        self.places.is_empty()
    }

    /// Those who get the rows of that audience.
    pub fn mates(&self, number: u32) -> &[Mate] {
        &self.audiences[number as usize].mates
    }

    /// Rows of the batch at hand are of that audience. `watermark`: that before it.
    pub fn add(
        &mut self,
        number: u32,
        rows: &[(u32, u32)],
        event_times: Option<(EventTime, EventTime)>,
        watermark: EventTime,
        as_one: &mut [Option<AsOne<C>>],
    ) {
        let mates = &self.audiences[number as usize].mates;
        let is_sliced = mates.len() > 1 && watermark >= self.rests_until;
        if is_sliced {
            self.rows.extend(rows.iter().map(|&(_, row)| (number, row)));
            self.asked += (rows.len() * mates.len()) as u64;
        }
        for mate in mates {
            if let Some(one) = &mut as_one[mate.place] {
                one.add(mate.seat, if is_sliced { &[] } else { rows }, event_times);
            }
        }
    }

    /// Takes the rows that were added. Those that may be late go to each.
    ///
    /// # Errors
    /// If the batch is not one of the front's.
    pub fn take<K: Clock>(
        &mut self,
        batch: &C::Batch,
        arrival: ProcessingTime,
        clock: &K,
        as_one: &mut [Option<AsOne<C>>],
    ) -> Result<(), C::Error> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let is_recorded = self.places().any(|place| as_one[place].as_ref().is_some_and(AsOne::is_recorded));
        let began = is_recorded.then(|| clock.now());
        let (rows, mut left) = (self.rows.len(), std::mem::take(&mut self.rows));
        let told = self.places().filter_map(|place| Some(as_one[place].as_ref()?.told())).max();
        let of_each = is_recorded.then(|| self.rows_of_each(&left));
        let done = self.slicer.take(batch, &mut left, told.unwrap_or(EventTime::MIN), arrival);
        self.taken += (rows - left.len()) as u64;
        for of_audience in left.chunk_by(|one, next| one.0 == next.0) {
            for mate in self.mates(of_audience[0].0) {
                if let Some(one) = &mut as_one[mate.place] {
                    one.add(mate.seat, of_audience, None);
                }
            }
        }
        left.clear();
        self.rows = left;
        if let (Some(began), Some(of_each)) = (began, of_each) {
            let ns = clock.now().since_ns(began);
            let total: u64 = of_each.values().sum();
            for (place, rows) in of_each {
                if let Some(one) = &as_one[place] {
                    // Who would have had so many rows has that part of the work.
                    one.note_sliced(rows, ns * rows / total.max(1));
                }
            }
        }
        done
    }

    fn rows_of_each(&self, rows: &[(u32, u32)]) -> HashMap<usize, u64> {
        let mut of_each = HashMap::new();
        for of_audience in rows.chunk_by(|one, next| one.0 == next.0) {
            for mate in self.mates(of_audience[0].0) {
                *of_each.entry(mate.place).or_insert(0) += of_audience.len() as u64;
            }
        }
        of_each
    }

    /// What rows of slices have come to that have ended at this watermark is added to the windows of each, when it has time
    /// for that, and before it fires any.
    ///
    /// # Errors
    /// If it cannot be told what they have come to.
    pub fn seal(&mut self, as_one: &mut [Option<AsOne<C>>], watermark: EventTime) -> Result<(), C::Error> {
        if self.slicer.is_empty(watermark) {
            return Ok(());
        }
        let slices = Arc::new(self.slicer.seal(watermark)?);
        for place in &self.places {
            let Some(one) = &mut as_one[*place] else { continue };
            let shared = self.audiences.iter().enumerate().filter(|(_, of)| of.mates.len() > 1);
            let whose = shared.flat_map(|(number, of)| {
                let mates = of.mates.iter().filter(|mate| mate.place == *place);
                mates.map(move |mate| (number as u32, mate.seat))
            });
            let whose: Vec<(u32, u32)> = whose.collect();
            if !whose.is_empty() {
                one.add_slices(&slices, whose);
            }
        }
        self.judge(<SlicerOf<C>>::groups(&slices), watermark);
        Ok(())
    }

    /// Whether it was worth it, when slices have ended and were not cut short.
    fn judge(&mut self, groups: u64, watermark: EventTime) {
        let (taken, asked) = (std::mem::take(&mut self.taken) as f64, std::mem::take(&mut self.asked) as f64);
        let given = groups as f64 * (1.0 + asked / taken.max(1.0));
        if watermark < EventTime::MAX && taken + GROUP_COSTS * given > asked {
            let rest_ms = RESTS_SLICES.saturating_mul(self.common.slice_ms());
            self.rests_until = EventTime(watermark.0.saturating_add(rest_ms));
        }
    }

    /// Bytes of what is not sealed.
    pub fn state_bytes(&self) -> u64 {
        self.slicer.state_bytes()
    }
}
