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
    /// By id of the table: the number of its appointment that counts.
    numbers: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: ProcessingTime,
    table: OperatorId,
    number: u32,
    due: ProcessingTime,
}

/// A look at a table that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub at: ProcessingTime,
    /// From when its delay counts.
    pub due: ProcessingTime,
}

impl Look {
    /// The one that a look asks for; `None` where the table is woken, or has ended.
    pub fn after(step: Step) -> Option<Look> {
        match step {
            Step::At { at, due } => Some(Look { at, due }),
            Step::Held(at) | Step::Waiting(Some(at)) => Some(Look { at, due: at }),
            Step::Waiting(None) | Step::Done => None,
        }
    }

    /// The target of looks at a table, ns: half of the nearest of those who read it, so that the other half is left for
    /// what they do with the rows.
    pub fn target_ns(nearest_ns: u64) -> u64 {
        nearest_ns / 2
    }

    /// What a scheduler must know of a table that is looked at with that target: it is a query of one operator, since
    /// looks are no query's work but everybody's who reads it.
    pub fn unit(query: QueryId, table: OperatorId, target_ns: u64) -> (QuerySpec, OperatorSpec) {
        let spec = QuerySpec { id: query, target_ns, weight: 1.0, qos: None };
        (spec, OperatorSpec { id: table, query, upstream: Vec::new(), window: None, channels: 1 })
    }
}

impl Agenda {
    /// This table, called by the id that its scheduler knows, is to be looked at then.
    pub fn appoint(&mut self, table: OperatorId, Look { at, due }: Look) {
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
        let look = |when, due| Look { at: at(when), due: at(due) };
        agenda.appoint(OperatorId(3), look(10, 10));
        agenda.appoint(OperatorId(1), look(20, 5));
        agenda.appoint(OperatorId(3), look(30, 30));
        assert_eq!(agenda.next(), Some(at(10)), "it is outdated, and that is found out then");
        assert_eq!(agenda.pop_due(at(19)), None);
        assert_eq!(agenda.pop_due(at(20)), Some((OperatorId(1), at(5))));
        assert_eq!(agenda.pop_due(at(40)), Some((OperatorId(3), at(30))));
        assert_eq!((agenda.pop_due(at(40)), agenda.next()), (None, None));
    }
}
