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
    /// By local id; `None` where that is no table.
    tables: Vec<Option<Enlisted>>,
    enlisted: usize,
    /// Given to the next appointment: an id may be another table's later, so numbers are never its own.
    next_number: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Enlisted {
    /// Of the appointment that counts.
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: ProcessingTime,
    table: OperatorId,
    number: u64,
    due: ProcessingTime,
}

impl Agenda {
    /// That local id is a table's from now on.
    pub fn enlist(&mut self, table: OperatorId) {
        if self.tables.len() <= table.index() {
            self.tables.resize(table.index() + 1, None);
        }
        self.enlisted += usize::from(self.tables[table.index()].is_none());
        self.tables[table.index()] = Some(Enlisted::default());
    }

    /// That local id is no table's any more, if it was.
    pub fn dismiss(&mut self, table: OperatorId) {
        if let Some(enlisted) = self.tables.get_mut(table.index()) {
            self.enlisted -= usize::from(enlisted.take().is_some());
        }
    }

    /// Whether that is a table.
    pub fn has(&self, table: OperatorId) -> bool {
        self.tables.get(table.index()).is_some_and(Option::is_some)
    }

    /// This table is to be looked at then; its delay counts from `due` on. What is no table is not.
    pub fn appoint(&mut self, table: OperatorId, at: ProcessingTime, due: ProcessingTime) {
        let Some(Some(enlisted)) = self.tables.get_mut(table.index()) else { return };
        self.next_number += 1;
        enlisted.number = self.next_number;
        let entry = Entry { at, table, number: self.next_number, due };
        if self.entries.len() >= OUTDATED_MAX + 2 * self.enlisted {
            let tables = &self.tables;
            self.entries.retain(|Reverse(entry)| counts(tables, entry));
        }
        self.entries.push(Reverse(entry));
    }

    /// When to ask again; perhaps too early, where that appointment is outdated.
    pub fn next(&self) -> Option<ProcessingTime> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// A table whose time has come, and from when its delay counts.
    pub fn pop_due(&mut self, now: ProcessingTime) -> Option<(OperatorId, ProcessingTime)> {
        while self.next().is_some_and(|at| at <= now) {
            let Reverse(entry) = self.entries.pop()?;
            if counts(&self.tables, &entry) {
                return Some((entry.table, entry.due));
            }
        }
        None
    }
}

/// Outdated appointments that may stay beside as many again as there are tables, until their time comes.
const OUTDATED_MAX: usize = 64;

fn counts(tables: &[Option<Enlisted>], entry: &Entry) -> bool {
    tables[entry.table.index()].is_some_and(|enlisted| enlisted.number == entry.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_appointment_of_a_table_counts() {
        let mut agenda = Agenda::default();
        let at = ProcessingTime;
        [1, 3].into_iter().for_each(|table| agenda.enlist(OperatorId(table)));
        agenda.appoint(OperatorId(3), at(10), at(10));
        agenda.appoint(OperatorId(1), at(20), at(5));
        agenda.appoint(OperatorId(3), at(30), at(30));
        assert_eq!(agenda.next(), Some(at(10)), "it is outdated, and that is found out then");
        assert_eq!(agenda.pop_due(at(19)), None);
        assert_eq!(agenda.pop_due(at(20)), Some((OperatorId(1), at(5))));
        assert_eq!(agenda.pop_due(at(40)), Some((OperatorId(3), at(30))));
        assert_eq!((agenda.pop_due(at(40)), agenda.next()), (None, None));
    }

    #[test]
    fn appointments_of_one_that_is_gone_are_not_its_successors() {
        let mut agenda = Agenda::default();
        let (table, at) = (OperatorId(0), ProcessingTime);
        agenda.enlist(table);
        agenda.appoint(table, at(10), at(10));
        agenda.dismiss(table);
        agenda.appoint(table, at(11), at(11));
        assert!(!agenda.has(table));
        agenda.enlist(table);
        assert_eq!(agenda.pop_due(at(20)), None);
        for soon in 0..10_000 {
            agenda.appoint(table, at(1_000_000 + soon), at(0));
        }
        assert!(agenda.entries.len() < 100, "{} appointments of one table", agenda.entries.len());
        assert_eq!(agenda.pop_due(at(2_000_000)), Some((table, at(0))));
        assert_eq!(agenda.pop_due(at(2_000_000)), None);
    }
}
