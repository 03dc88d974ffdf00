//! How a checkpoint hears of a member whose query is held: what it has had goes to its operators, and the rest waits.

use laxity_graph::{EventTime, OperatorId, ProcessingTime};

use super::super::as_one::AsOne;
use super::super::reader::Taken;
use super::super::{Feed, Given, Visited};
use super::{Group, Member, Visit};
use crate::{Content, Front, Parcel, Query, Rhythm};

impl<C: Content> Group<C> {
    /// All that a member has had goes to its operators, whose query is held: what is saved of it then is what came of the
    /// table up to here.
    pub(super) fn hand_over_all<F: Feed<C>>(
        &mut self,
        number: u32,
        member: &mut Member<C>,
        now: ProcessingTime,
        staged: &mut Vec<Parcel<C>>,
    ) -> Result<(), C::Error> {
        let batch = (!member.held.is_empty()).then(|| self.gather(number, &member.held)).transpose()?;
        let is_news = self.watermark > member.told || member.told == EventTime::MAX;
        let told = (is_news && member.rhythm != Rhythm::Rows && self.watermark > EventTime::MIN)
            .then_some(self.watermark);
        // Of the end it is told when it is let go.
        member.told =
            if member.told == EventTime::MAX { self.watermark } else { member.told.max(self.watermark) };
        member.reader.admit_all::<F>(batch, told, self.arrival, now, staged);
        self.let_go(member);
        member.reader.query.note_offered();
        let taken = Taken { front: self.front.save()?, event_times: member.event_times };
        member.visit = Visit::Done(member.reader.position_with_others(self.place), taken);
        Ok(())
    }

    /// A member is held: whatever comes for it waits until it is let go.
    pub(super) fn park(&mut self, number: u32, member: &mut Member<C>, table: OperatorId) {
        if !std::mem::replace(&mut member.is_parked, true) {
            self.parked.push(number);
        }
        // So the table is looked at then.
        let _not_now = member.reader.query.has_credit(table);
    }

    /// See [`Intake::visit`](super::super::Intake::visit).
    pub fn visit(&mut self, query: &Query, source: OperatorId, is_first: bool) -> Option<Visited<C>> {
        if let Some(number) = self.seat_of(query) {
            return self.visit_seat(number, is_first);
        }
        let number = *self.by_source.get(&source)?;
        let member = self.members[number as usize].as_mut();
        let member = member.filter(|member| std::ptr::eq(&*member.reader.query, query))?;
        match &member.visit {
            Visit::Done(position, taken) if !is_first => {
                let (position, taken, handed) = (*position, Some(taken.clone()), member.handed);
                Some(Visited::Given(Given { position, taken, handed, work: None }))
            }
            Visit::Asked if !is_first => Some(Visited::Later),
            _ => {
                member.visit = Visit::Asked;
                self.first.push_back(number);
                Some(Visited::Later)
            }
        }
    }

    /// How often this source of a query was given rows or told of time; `None` if it is not a member.
    pub fn handed(&self, query: &Query, source: OperatorId) -> Option<u64> {
        if let Some(number) = self.seat_of(query) {
            let (place, seat) = self.members[number as usize].as_ref()?.seat?;
            return self.as_one[place].as_ref()?.handed(seat);
        }
        let member = self.members[*self.by_source.get(&source)? as usize].as_ref()?;
        (std::ptr::eq(&*member.reader.query, query) && member.held.is_empty() && !member.is_behind)
            .then_some(member.handed)
    }

    /// The least that any member had when it was visited, in rows.
    pub fn least_rows(&self) -> u64 {
        let rows = self.members.iter().flatten().map(|member| match &member.visit {
            Visit::Done(position, _) if member.reader.query.is_held() => position.rows,
            _ => u64::MAX,
        });
        let of_templates = self.as_one.iter().flatten().map(AsOne::copied_rows);
        rows.chain(of_templates).min().unwrap_or(u64::MAX)
    }
}
