//! Which queries have work that waits, kept from one review to the next.

use laxity_graph::QueryId;

use crate::{QuerySnapshot, Snapshot};

/// Queries that may have work that waits: those that had some at the last review, and those of which something changed since.
/// Where ten thousand have a row now and then, a rank that reviews looks at the few that have one now: at each look
/// [`refresh`](Waiting::refresh), [`queries`](Waiting::queries), then [`keep`](Waiting::keep).
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// In order of id.
    queries: Vec<QueryId>,
    graph: Option<u64>,
}

impl Waiting {
    /// Takes in what changed.
    pub fn refresh(&mut self, snapshot: &Snapshot) {
        let changed = snapshot.changed.as_ref().filter(|_| self.graph == Some(snapshot.graph));
        self.graph = Some(snapshot.graph);
        match changed {
            Some(changed) => {
                self.queries.extend(changed.iter().filter_map(|&id| Some(snapshot.operator(id)?.query)));
                self.queries.sort_unstable();
                self.queries.dedup();
            }
            None => {
                self.queries.clear();
                self.queries.extend(snapshot.queries.iter().map(|query| query.id));
            }
        }
    }

    /// All of them.
    pub fn queries<'a>(&self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a QuerySnapshot> {
        self.queries.iter().filter_map(|&id| snapshot.query(id))
    }

    /// Only these of them have some.
    pub fn keep(&mut self, queries: impl Iterator<Item = QueryId>) {
        self.queries.clear();
        self.queries.extend(queries);
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::OperatorId;

    use super::*;

    #[test]
    fn those_that_changed_join_those_that_had_work() {
        let mut snapshot = Snapshot::of_query(&[(&[], 1.0, 1.0), (&[], 1.0, 1.0), (&[], 1.0, 1.0)]);
        let query = snapshot.queries[0].clone();
        snapshot.queries = (0..3).map(|id| QuerySnapshot { id: QueryId(id), ..query.clone() }).collect();
        snapshot.operators.iter_mut().for_each(|operator| operator.query = QueryId(operator.id.0));
        let mut waiting = Waiting::default();
        let mut seen = |snapshot: &Snapshot, kept: &[u32]| {
            waiting.refresh(snapshot);
            let seen: Vec<u32> = waiting.queries(snapshot).map(|query| query.id.0).collect();
            waiting.keep(kept.iter().copied().map(QueryId));
            seen
        };
        assert_eq!(seen(&snapshot, &[1]), [0, 1, 2], "any may be other than it was");
        snapshot.changed = Some(vec![OperatorId(2), OperatorId(0), OperatorId(2)]);
        assert_eq!(seen(&snapshot, &[1]), [0, 1, 2]);
        snapshot.changed = Some(vec![]);
        assert_eq!(seen(&snapshot, &[]), [1]);
        assert_eq!(seen(&snapshot, &[]), [0; 0]);
        snapshot.graph += 1;
        assert_eq!(seen(&snapshot, &[]), [0, 1, 2], "ids may be others'");
    }
}
