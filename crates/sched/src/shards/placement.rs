//! From the ids of the process to a shard and the ids that are used in it.

use std::collections::BTreeMap;
use std::ops::Range;

use laxity_graph::{OperatorId, QueryId};

/// Which shard has which query, and what its operators are called there.
///
/// A query is placed whole: back-pressure, path costs and the frontier never cross a shard.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The shard and the operators of each.
    queries: BTreeMap<QueryId, (usize, Vec<OperatorId>)>,
    /// By operator id.
    operators: Vec<Option<Address>>,
    /// Operators on each shard.
    loads: Vec<usize>,
    /// Shards that are filled first.
    few: usize,
    /// Shards that have been used so far, from the first on; no fewer than `few`.
    used: usize,
}

/// Operators on each of the first shards before others are used too. One lock for several workers keeps the order exact, and
/// weighs everything against everything; among so many operators that are ready at once, workers wait for it.
pub const CROWD: usize = 4_000;

/// Where an operator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the shard.
    pub shard: usize,
    /// What the operator is called there.
    pub local: OperatorId,
}

impl Placement {
    /// Nothing placed on any of so many shards, one at least, of which so few are filled before the others.
    pub fn new(few: usize, shards: usize) -> Placement {
        let few = few.max(1);
        let loads = vec![0; shards.max(few)];
        Placement { queries: BTreeMap::new(), operators: Vec::new(), loads, few, used: few }
    }

    /// How many shards are used, from the first on; once used, they stay so.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.loads.len()
    }

    /// The shard for the next query: that with the fewest operators, of the first ones until there is a [`CROWD`] on each.
    pub fn emptiest(&self) -> usize {
        let emptiest = |shards: usize| (0..shards).min_by_key(|&shard| self.loads[shard]);
        let of_few = emptiest(self.few).filter(|&shard| self.loads[shard] < CROWD);
        of_few.or_else(|| emptiest(self.loads.len())).expect("there is one")
    }

    /// The shard for what works for that query alone: where that is, so that what it sends crosses no lock and
    /// can be followed. The emptiest if it works for several, or the query is not there.
    pub fn beside(&self, query: Option<QueryId>) -> usize {
        query.and_then(|query| self.shard_of(query)).unwrap_or_else(|| self.emptiest())
    }

    /// A query was given to a shard, where its operators are called from `first` on.
    pub fn place(&mut self, query: QueryId, operators: &[OperatorId], shard: usize, first: OperatorId) {
        for (local, id) in (first.0..).zip(operators) {
            if self.operators.len() <= id.index() {
                self.operators.resize(id.index() + 1, None);
            }
            self.operators[id.index()] = Some(Address { shard, local: OperatorId(local) });
        }
        self.loads[shard] += operators.len();
        self.used = self.used.max(shard + 1);
        self.queries.insert(query, (shard, operators.to_vec()));
    }

    /// A query ends; the shard where it was, and its operators.
    pub fn remove(&mut self, query: QueryId) -> Option<(usize, Vec<OperatorId>)> {
        let (shard, operators) = self.queries.remove(&query)?;
        self.loads[shard] -= operators.len();
        operators.iter().for_each(|id| self.operators[id.index()] = None);
        Some((shard, operators))
    }

    /// Where a query is, unless it was removed.
    pub fn shard_of(&self, query: QueryId) -> Option<usize> {
        self.queries.get(&query).map(|&(shard, _)| shard)
    }

    /// What the operators of a query are called on its shard.
    pub fn locals(&self, query: QueryId) -> Option<Range<u32>> {
        let (_, operators) = self.queries.get(&query)?;
        let first = self.locate(*operators.first()?)?.local.0;
        Some(first..first + operators.len() as u32)
    }

    /// Where an operator is, unless its query was removed.
    #[inline]
    pub fn locate(&self, id: OperatorId) -> Option<Address> {
        self.operators.get(id.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_go_where_the_fewest_operators_are() {
        let mut placement = Placement::new(2, 2);
        let mut first = [0u32; 2];
        let mut next = 0;
        let mut place = |placement: &mut Placement, query: u32, operators: u32, beside: Option<u32>| {
            let ids: Vec<OperatorId> = (next..next + operators).map(OperatorId).collect();
            next += operators;
            let shard = placement.beside(beside.map(QueryId));
            placement.place(QueryId(query), &ids, shard, OperatorId(first[shard]));
            first[shard] += operators;
            shard
        };
        assert_eq!(place(&mut placement, 0, 5, None), 0);
        assert_eq!(place(&mut placement, 1, 2, None), 1);
        assert_eq!(place(&mut placement, 2, 2, None), 1);
        assert_eq!(placement.locate(OperatorId(7)), Some(Address { shard: 1, local: OperatorId(2) }));
        assert_eq!(placement.shard_of(QueryId(2)), Some(1));
        assert_eq!(placement.remove(QueryId(0)).unwrap().0, 0);
        assert_eq!(placement.shard_of(QueryId(0)), None);
        assert_eq!((placement.locate(OperatorId(0)), placement.remove(QueryId(0))), (None, None));
        assert_eq!(place(&mut placement, 3, 1, None), 0, "its room is free again");
        assert_eq!(placement.locate(OperatorId(9)), Some(Address { shard: 0, local: OperatorId(5) }));
        assert_eq!(place(&mut placement, 4, 1, Some(2)), 1, "beside the one that it is for");
        assert_eq!(place(&mut placement, 5, 1, Some(0)), 0, "that is gone");
    }

    #[test]
    fn further_shards_are_used_once_the_first_are_crowded() {
        let mut placement = Placement::new(2, 4);
        let half = vec![OperatorId(0); CROWD / 2];
        let mut shards = Vec::new();
        for query in 0..7 {
            assert_eq!(placement.used(), [2, 2, 2, 2, 2, 3, 4][query as usize], "before query {query}");
            let shard = placement.emptiest();
            placement.place(QueryId(query), &half, shard, OperatorId(0));
            shards.push(shard);
        }
        assert_eq!(shards, [0, 1, 0, 1, 2, 3, 2]);
        placement.remove(QueryId(1));
        assert_eq!((placement.emptiest(), placement.used()), (1, 4), "there is room on a first one again");
    }
}
