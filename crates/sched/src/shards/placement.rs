//! From the ids of the process to a shard and the ids that are used in it.

use std::collections::BTreeMap;

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
}

/// Where an operator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the shard.
    pub shard: usize,
    /// What the operator is called there.
    pub local: OperatorId,
}

impl Placement {
    /// Nothing placed on any of so many shards, one at least.
    pub fn new(shards: usize) -> Placement {
        Placement { queries: BTreeMap::new(), operators: Vec::new(), loads: vec![0; shards.max(1)] }
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.loads.len()
    }

    /// The shard for the next query: that with the fewest operators.
    pub fn emptiest(&self) -> usize {
        (0..self.loads.len()).min_by_key(|&shard| self.loads[shard]).expect("there is one")
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
        let mut placement = Placement::new(2);
        let mut first = [0u32; 2];
        let mut next = 0;
        let mut place = |placement: &mut Placement, query: u32, operators: u32| {
            let ids: Vec<OperatorId> = (next..next + operators).map(OperatorId).collect();
            next += operators;
            let shard = placement.emptiest();
            placement.place(QueryId(query), &ids, shard, OperatorId(first[shard]));
            first[shard] += operators;
            shard
        };
        assert_eq!(place(&mut placement, 0, 5), 0);
        assert_eq!(place(&mut placement, 1, 2), 1);
        assert_eq!(place(&mut placement, 2, 2), 1);
        assert_eq!(placement.locate(OperatorId(7)), Some(Address { shard: 1, local: OperatorId(2) }));
        assert_eq!(placement.shard_of(QueryId(2)), Some(1));
        assert_eq!(placement.remove(QueryId(0)).unwrap().0, 0);
        assert_eq!(placement.shard_of(QueryId(0)), None);
        assert_eq!((placement.locate(OperatorId(0)), placement.remove(QueryId(0))), (None, None));
        assert_eq!(place(&mut placement, 3, 1), 0, "its room is free again");
        assert_eq!(placement.locate(OperatorId(9)), Some(Address { shard: 0, local: OperatorId(5) }));
    }
}
