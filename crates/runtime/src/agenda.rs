//! Which table is to be looked at next, and when: a driver asks here until when it may sleep, since rows that wait in a
//! table wake nobody.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};
use laxity_sched::{OperatorSpec, QuerySpec};

use crate::Step;

/// When tables want to be looked at: what nobody sends a message for.
///
/// A table has one appointment at most; a new one outdates the one before. What is due becomes a message that waits
/// with all others, so that a look has no better place than its deadline gives it.
#[derive(Debug, Default)]
pub struct Agenda {
    entries: BinaryHeap<Reverse<Entry>>,
    /// By id: the number of the appointment that counts; `None` where that is no table.
    tables: Vec<Option<u64>>,
    enlisted: usize,
    /// Given to the next appointment: an id may be another table's later, so numbers are never its own.
    next_number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: ProcessingTime,
    table: OperatorId,
    number: u64,
    due: ProcessingTime,
    behind: Option<ProcessingTime>,
}

/// A look at a table that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub at: ProcessingTime,
    /// From when its delay counts.
    pub due: ProcessingTime,
    /// Of one that nobody waits for before it is due: its delay counts from here on, so that it stands behind what is waited for
    /// sooner. Who has not come to it by the time when it is due hears of it again.
    pub behind: Option<ProcessingTime>,
}

impl Look {
    /// Then, and its delay counts from then on.
    pub fn due(at: ProcessingTime) -> Look {
        Look { at, due: at, behind: None }
    }

    /// The one that a look asks for; `None` where the table is woken, or has ended.
    pub fn after(step: Step) -> Option<Look> {
        match step {
            Step::At { at, due } => Some(Look { at, due, behind: None }),
            Step::Amid { at, behind, due } => Some(Look { at, due, behind: Some(behind) }),
            Step::Held(at) | Step::Waiting(Some(at)) => Some(Look::due(at)),
            Step::Waiting(None) | Step::Done => None,
        }
    }

    /// What a scheduler must know of a table that is looked at with that target: it is a query of one operator, since
    /// looks are no query's work but everybody's who reads it.
    ///
    /// The target is the nearest of those who read it, not less to leave them time: many tables with rows at one instant would
    /// all be looked at before any row is worked off, and what each look has touched would be cold again by then. With 10 000
    /// tables beside four heavy queries the last result is out after 105 to 154 ms, 307 in one of seven runs; with half of
    /// the target for looks after 98 to 289, 250 and more in four of seven.
    pub fn unit(query: QueryId, table: OperatorId, target_ns: u64) -> (QuerySpec, OperatorSpec) {
        let spec = QuerySpec { id: query, target_ns, weight: 1.0, qos: None };
        (spec, OperatorSpec { id: table, query, upstream: Vec::new(), window: None, channels: 1 })
    }
}

impl Agenda {
    /// That id is a table's from now on.
    pub fn enlist(&mut self, table: OperatorId) {
        if self.tables.len() <= table.index() {
            self.tables.resize(table.index() + 1, None);
        }
        self.enlisted += usize::from(self.tables[table.index()].is_none());
        self.tables[table.index()] = Some(NO_APPOINTMENT);
    }

    /// That id is no table's any more, if it was.
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
    pub fn appoint(&mut self, table: OperatorId, Look { at, due, behind }: Look) {
        let Some(Some(number)) = self.tables.get_mut(table.index()) else { return };
        self.next_number += 1;
        *number = self.next_number;
        let entry = Entry { at, table, number: self.next_number, due, behind };
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
            if !counts(&self.tables, &entry) {
                continue;
            }
            let behind = entry.behind.filter(|_| now < entry.due);
            if behind.is_some() {
                self.entries.push(Reverse(Entry { at: entry.due, behind: None, ..entry }));
            }
            return Some((entry.table, behind.unwrap_or(entry.due)));
        }
        None
    }
}

/// Numbers begin after it.
const NO_APPOINTMENT: u64 = 0;

/// Outdated appointments that may stay beside as many again as there are tables, until their time comes.
const OUTDATED_MAX: usize = 64;

fn counts(tables: &[Option<u64>], entry: &Entry) -> bool {
    tables[entry.table.index()] == Some(entry.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_appointment_of_a_table_counts() {
        let mut agenda = Agenda::default();
        let at = ProcessingTime;
        [1, 3].into_iter().for_each(|table| agenda.enlist(OperatorId(table)));
        let look = |when, due| Look { due: at(due), ..Look::due(at(when)) };
        agenda.appoint(OperatorId(3), look(10, 10));
        agenda.appoint(OperatorId(1), look(20, 5));
        agenda.appoint(OperatorId(3), look(30, 30));
        assert_eq!(agenda.next(), Some(at(10)), "it is outdated, and that is found out then");
        assert_eq!(agenda.pop_due(at(19)), None);
        assert_eq!(agenda.pop_due(at(20)), Some((OperatorId(1), at(5))));
        assert_eq!(agenda.pop_due(at(40)), Some((OperatorId(3), at(30))));
        assert_eq!((agenda.pop_due(at(40)), agenda.next()), (None, None));
    }

    #[test]
    fn who_was_not_looked_at_ahead_is_when_that_is_due() {
        let mut agenda = Agenda::default();
        let (table, at) = (OperatorId(0), ProcessingTime);
        agenda.enlist(table);
        let ahead = Look { at: at(10), due: at(30), behind: Some(at(80)) };
        agenda.appoint(table, ahead);
        assert_eq!(agenda.pop_due(at(12)), Some((table, at(80))));
        assert_eq!((agenda.pop_due(at(29)), agenda.next()), (None, Some(at(30))));
        assert_eq!(agenda.pop_due(at(31)), Some((table, at(30))));
        assert_eq!((agenda.pop_due(at(99)), agenda.next()), (None, None));
        agenda.appoint(table, ahead);
        assert_eq!(agenda.pop_due(at(12)), Some((table, at(80))));
        agenda.appoint(table, Look::due(at(50)));
        assert_eq!(agenda.pop_due(at(40)), None, "it was looked at");
        agenda.appoint(table, ahead);
        assert_eq!(agenda.pop_due(at(60)), Some((table, at(30))), "nobody came to it before");
        assert_eq!((agenda.pop_due(at(99)), agenda.next()), (None, None));
    }

    #[test]
    fn appointments_of_one_that_is_gone_are_not_its_successors() {
        let mut agenda = Agenda::default();
        let (table, at) = (OperatorId(0), ProcessingTime);
        agenda.enlist(table);
        agenda.appoint(table, Look::due(at(10)));
        agenda.dismiss(table);
        agenda.appoint(table, Look::due(at(11)));
        assert!(!agenda.has(table));
        agenda.enlist(table);
        assert_eq!(agenda.pop_due(at(20)), None);
        for soon in 0..10_000 {
            agenda.appoint(table, Look { due: at(0), ..Look::due(at(1_000_000 + soon)) });
        }
        assert!(agenda.entries.len() < 100, "{} appointments of one table", agenda.entries.len());
        assert_eq!(agenda.pop_due(at(2_000_000)), Some((table, at(0))));
        assert_eq!(agenda.pop_due(at(2_000_000)), None);
    }
}
