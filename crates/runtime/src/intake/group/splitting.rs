//! Members that go on as a group of their own, with what is held for them.

use super::super::Reader;
use super::{Group, Kept, Member};
use crate::{Content, Front};

impl<C: Content> Group<C> {
    /// Whether that is so of a member that can leave with what it has: those of a template hold nobody up.
    pub fn any_may_leave(&self, leaves: impl Fn(&Reader<C>) -> bool) -> bool {
        self.members.iter().flatten().any(|member| member.may_leave() && leaves(&member.reader))
    }

    /// Those of whom that is so, as a group of their own that goes on from here.
    ///
    /// # Errors
    /// If there can be no other front.
    pub fn split_off(&mut self, leaves: impl Fn(&Reader<C>) -> bool) -> Result<Group<C>, C::Error> {
        let mut other = Group::new(self.front.fork()?, self.columns.clone());
        (other.watermark, other.arrival, other.ended) = (self.watermark, self.arrival, self.ended.map(|_| 0));
        other.clocked = self.clocked;
        for number in 0..self.members.len() as u32 {
            let is_leaving = |member: &&Member<C>| member.may_leave() && leaves(&member.reader);
            let Some(member) = self.members[number as usize].as_ref().filter(is_leaving) else { continue };
            let rows = (!member.held.is_empty()).then(|| self.gather(number, &member.held)).transpose()?;
            let Some(member) = self.take_out(number) else { continue };
            let Member { reader, spec, rhythm, event_times, told, is_behind, is_parked, handed, .. } = member;
            let number = other.free_number();
            other.join_at(number, None, None, reader, spec, rhythm);
            let Some(member) = &mut other.members[number as usize] else { continue };
            (member.event_times, member.told, member.is_behind) = (event_times, told, is_behind);
            (member.is_parked, member.handed) = (is_parked, handed);
            if is_behind {
                other.behind.push(number);
            }
            if is_parked {
                other.parked.push(number);
            }
            if let Some(batch) = rows {
                let count = C::rows(&batch);
                let kept = other.first_kept.wrapping_add(other.kept.len() as u32);
                member.held = (0..count).map(|row| (kept, row)).collect();
                member.held_rows = count;
                let bytes = C::bytes(&batch);
                other.kept_bytes += bytes;
                other.held_rows += u64::from(count);
                let (batch, members) = (Some(batch), vec![number]);
                other.kept.push_back(Kept { batch, bytes, held: count, members, is_members: true });
                // Where it has waited for its number of rows, it has waited enough.
                member.is_ready = true;
                other.ready.push_back(number);
            }
            other.set_timer(number);
        }
        Ok(other)
    }
}
