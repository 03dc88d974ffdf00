use std::cmp::Reverse;
use std::collections::BinaryHeap;

use laxity_graph::{OperatorId, ProcessingTime};

/// When tables want to be looked at: what nobody sends a message for.
///
/// A table has one appointment at most; a new one outdates the one before. What is due becomes a message that waits
/// with all others, so that a look has no better place than its deadline gives it.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    entries: BinaryHeap<Reverse<Entry>>,
    /// By local id of the table: the number of its appointment that counts.
    numbers: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: ProcessingTime,
    table: OperatorId,
    number: u32,
    due: ProcessingTime,
}

impl Agenda {
    /// This table, called by its local id, is to be looked at then; its delay counts from `due` on.
    pub fn appoint(&mut self, table: OperatorId, at: ProcessingTime, due: ProcessingTime) {
        if self.numbers.len() <= table.index() {
            self.numbers.resize(table.index() + 1, 0);
        }
        let number = &mut self.numbers[table.index()];
        *number = number.wrapping_add(1);
        self.entries.push(Reverse(Entry { at, table, number: *number, due }));
    }

    /// When to ask again; perhaps too early, where that appointment is outdated.
    pub fn next(&self) -> Option<ProcessingTime> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// A table whose time has come, and from when its delay counts.
    pub fn pop_due(&mut self, now: ProcessingTime) -> Option<(OperatorId, ProcessingTime)> {
        while self.next().is_some_and(|at| at <= now) {
            let Reverse(entry) = self.entries.pop()?;
            if self.numbers[entry.table.index()] == entry.number {
                return Some((entry.table, entry.due));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_appointment_of_a_table_counts() {
        let mut agenda = Agenda::default();
        let at = ProcessingTime;
        agenda.appoint(OperatorId(3), at(10), at(10));
        agenda.appoint(OperatorId(1), at(20), at(5));
        agenda.appoint(OperatorId(3), at(30), at(30));
        assert_eq!(agenda.next(), Some(at(10)), "it is outdated, and that is found out then");
        assert_eq!(agenda.pop_due(at(19)), None);
        assert_eq!(agenda.pop_due(at(20)), Some((OperatorId(1), at(5))));
        assert_eq!(agenda.pop_due(at(40)), Some((OperatorId(3), at(30))));
        assert_eq!((agenda.pop_due(at(40)), agenda.next()), (None, None));
    }
}
