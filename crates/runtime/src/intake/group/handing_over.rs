//! Which member is to get what is held for it next, and how it gets that.

use std::borrow::Cow;
use std::cmp::Reverse;

use laxity_graph::{EventTime, OperatorId, ProcessingTime};

use super::super::{Feed, IntakeContext, Relieves};
use super::{Group, HELD_ROWS_MAX, KEPT_BYTES_MAX, KEPT_MAX, Member, Visit};
use crate::{Clock, Content, Front, Parcel, Query, Rhythm};

impl<C: Content> Group<C> {
    pub(super) fn next_due(&mut self) -> Option<u32> {
        loop {
            if let Some(number) = self.first.pop_front() {
                return Some(number);
            }
            if let Some(told) = &mut self.ended {
                // All of them, in order; what was ready is among them.
                let number = *told;
                *told += 1;
                match self.members.get(number) {
                    Some(Some(member)) if member.seat.is_none() => return Some(number as u32),
                    Some(_) => continue,
                    None => {
                        *told = self.members.len();
                        self.ready.clear();
                        self.timers.clear();
                        return None;
                    }
                }
            }
            if let Some(number) = self.ready.pop_front() {
                return Some(number);
            }
            if let Some(&Reverse((at, _, number))) = self.timers.peek()
                && at <= self.watermark
            {
                self.timers.pop();
                let timer = self.members[number as usize].as_ref().and_then(|member| member.timer);
                if timer == Some(at) {
                    return Some(number);
                }
                continue;
            }
            if !self.keeps_too_much() {
                return None;
            }
            // Who holds the oldest batch gets what it has; it is let go of with the last of them.
            let oldest = self.kept.front_mut()?;
            if let Some(number) = oldest.members.pop() {
                let first_kept = self.first_kept;
                let holds = |member: &Member<C>| member.held.first().is_some_and(|held| held.0 == first_kept);
                if self.members[number as usize].as_ref().is_some_and(holds) {
                    return Some(number);
                }
                continue;
            }
            self.drop_kept();
            return None;
        }
    }

    pub(super) fn keeps_too_much(&self) -> bool {
        self.kept_bytes > KEPT_BYTES_MAX || self.kept.len() > KEPT_MAX
    }

    /// Gives a member what is held for it, and the time.
    pub(super) fn hand_over<F: Feed<C>, K: Clock, S: Relieves>(
        &mut self,
        number: u32,
        table: OperatorId,
        now: ProcessingTime,
        clock: Option<laxity_graph::EventClock>,
        context: &mut IntakeContext<'_, C, K, S>,
    ) -> Result<(), C::Error> {
        let has_ended = self.ended.is_some();
        let watermark = if has_ended { EventTime::MAX } else { self.watermark };
        // One of a template may have the number of who was to get something.
        let is_own = |member: &mut Member<C>| member.seat.is_none();
        let Some(mut member) = self.members[number as usize].take_if(is_own) else { return Ok(()) };
        member.is_ready = false;
        let query = member.reader.query.clone();
        if query.stopped() {
            self.let_go(&mut member);
        } else if query.is_held() && matches!(member.visit, Visit::Asked) {
            self.hand_over_all::<F>(number, &mut member, now, context.staged)?;
            self.park(number, &mut member, table);
        } else if query.is_held() || has_ended && !query.hold.may_come_to_end() {
            self.park(number, &mut member, table);
        } else {
            let told = (watermark > member.told && (has_ended || member.rhythm != Rhythm::Rows))
                .then_some(watermark);
            member.told = member.told.max(watermark);
            member.handed += u64::from(told.is_some() || !member.held.is_empty());
            if member.held.is_empty() {
                if let Some(watermark) = told {
                    member.reader.tell(watermark, self.arrival, now, context.staged);
                }
            } else {
                let batch = self.gather(number, &member.held)?;
                member.reader.offer::<F, K, S>(table, batch, self.arrival, told, clock, now, context);
            }
            self.let_go(&mut member);
            if member.reader.is_behind() && !std::mem::replace(&mut member.is_behind, true) {
                self.behind.push(number);
            }
        }
        self.members[number as usize] = Some(member);
        if has_ended {
            self.dismiss(number);
        } else {
            self.set_timer(number);
        }
        Ok(())
    }

    /// Gives a query that is about to leave what is held for it, whatever credit it has. One whose work is done with that of
    /// others holds its rows there, in windows that do not end for it.
    pub fn give_all<F: Feed<C>>(
        &mut self,
        query: &Query,
        now: ProcessingTime,
        staged: &mut Vec<Parcel<C>>,
    ) -> Result<(), C::Error> {
        for number in self.by_query.get(&query.id).cloned().unwrap_or_default() {
            let is_it =
                |member: &mut Member<C>| member.seat.is_none() && std::ptr::eq(&*member.reader.query, query);
            let Some(mut member) = self.members[number as usize].take_if(is_it) else { continue };
            let given = self.hand_over_all::<F>(number, &mut member, now, staged);
            self.members[number as usize] = Some(member);
            given?;
        }
        Ok(())
    }

    /// Rows held of several batches as one, as this member sees them.
    pub(super) fn gather(&self, number: u32, held: &[(u32, u32)]) -> Result<C::Batch, C::Error> {
        let mut batches = Vec::new();
        let mut rows = Vec::with_capacity(held.len());
        for of_batch in held.chunk_by(|one, next| one.0 == next.0) {
            let kept = &self.kept[of_batch[0].0.wrapping_sub(self.first_kept) as usize];
            let batch = kept.batch.as_ref().expect("rows of it are held");
            let own = if kept.is_members { None } else { self.front.of_member(number, batch)? };
            batches.push(own.map_or(Cow::Borrowed(batch), Cow::Owned));
            rows.extend(of_batch.iter().map(|&(_, row)| (batches.len() - 1, row as usize)));
        }
        let batches: Vec<&C::Batch> = batches.iter().map(|batch| &**batch).collect();
        C::Front::gather(&batches, &rows)
    }

    /// Lets go of the batches that a member held rows of.
    pub(super) fn let_go(&mut self, member: &mut Member<C>) {
        for &(number, _) in &member.held {
            let place = number.wrapping_sub(self.first_kept) as usize;
            let kept = &mut self.kept[place];
            kept.held -= 1;
            if kept.held == 0 {
                kept.batch = None;
                self.kept_bytes -= std::mem::take(&mut kept.bytes);
            }
        }
        self.held_rows -= member.held.len() as u64;
        member.held.clear();
        member.held_rows = 0;
        self.drop_kept();
    }

    pub(super) fn drop_kept(&mut self) {
        while self.kept.pop_front_if(|kept| kept.held == 0).is_some() {
            self.first_kept = self.first_kept.wrapping_add(1);
        }
    }

    /// Admits what waits for credit that is there again.
    pub fn flush<F: Feed<C>, K: Clock, S>(
        &mut self,
        table: OperatorId,
        now: ProcessingTime,
        context: &mut IntakeContext<'_, C, K, S>,
    ) {
        let behind = std::mem::take(&mut self.behind);
        for number in behind {
            let Some(member) = &mut self.members[number as usize] else { continue };
            member.reader.flush::<F, K, S>(table, now, context);
            member.is_behind = member.reader.is_behind();
            if member.is_behind {
                self.behind.push(number);
            } else if self.ended.is_some() {
                self.dismiss(number);
            }
        }
        for number in std::mem::take(&mut self.parked) {
            let has_ended = self.ended.is_some();
            let parked = self.members[number as usize].as_mut().filter(|member| member.is_parked);
            let Some(member) = parked else { continue };
            let query = &member.reader.query;
            let is_let_go = query.has_credit(table) || !query.is_held();
            if query.stopped() || is_let_go && (!has_ended || query.hold.may_come_to_end()) {
                member.is_parked = false;
                // Who has nothing to get stays quiet.
                let is_due = member.timer.is_some_and(|at| at <= self.watermark)
                    || !member.held.is_empty()
                        && (member.rhythm == Rhythm::Rows
                            || member.held_rows >= HELD_ROWS_MAX
                            || self.kept_bytes > KEPT_BYTES_MAX
                            || self.kept.len() > KEPT_MAX);
                if has_ended || is_due {
                    self.first.push_back(number);
                }
            } else {
                self.parked.push(number);
            }
        }
    }

    /// One that was told of the end is a member no more once it has everything.
    pub(super) fn dismiss(&mut self, number: u32) {
        let is_done = |member: &Member<C>| {
            member.told == EventTime::MAX && !member.reader.is_behind() && !member.is_parked
        };
        if self.members[number as usize].as_ref().is_some_and(is_done) {
            self.take_out(number);
        }
    }
}
