//! Groups that the caller numbers: they end one by one, are joined, and their numbers are given away again.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::accumulate::{ByGroup, Rows};
use super::restore::state_name;
use super::scalar_groups::ScalarGroups;
use super::{AggregateCall, Aggregation, Result, Taken};
use crate::state::NamedColumn;

/// What the aggregates hold of each number.
pub(crate) struct NumberedGroups {
    calls: Vec<AggregateCall>,
    accumulators: Vec<Box<dyn ByGroup>>,
    /// By call, columns of its state.
    types: Vec<Vec<DataType>>,
}

impl NumberedGroups {
    pub(crate) fn new(aggregation: &Aggregation) -> Result<NumberedGroups> {
        let calls = aggregation.calls.iter().zip(&aggregation.own);
        let accumulators = calls.map(|(call, own)| -> Box<dyn ByGroup> {
            match own {
                Some((make, result)) => make(result),
                None => Box::new(ScalarGroups::new(Arc::clone(&call.expr))),
            }
        });
        let mut accumulators: Vec<Box<dyn ByGroup>> = accumulators.collect();
        let types = accumulators.iter_mut().map(|accumulator| {
            Ok(accumulator.states(&[])?.iter().map(|state| state.data_type().clone()).collect())
        });
        let types = types.collect::<Result<_>>()?;
        Ok(NumberedGroups { calls: aggregation.calls.clone(), accumulators, types })
    }

    /// Adds a run of rows, each to the group of its number; numbers are below `total`.
    pub(crate) fn update(
        &mut self,
        taken: Taken<'_>,
        rows: Range<usize>,
        numbers: &[usize],
        total: usize,
    ) -> Result<()> {
        let rows = Rows { range: rows, groups: numbers, total };
        for (call, accumulator) in self.accumulators.iter_mut().enumerate() {
            accumulator.update(taken.arguments(call), taken.filter(call), &rows)?;
        }
        Ok(())
    }

    /// Adds to a group what another holds.
    pub(crate) fn join(&mut self, into: usize, from: usize) -> Result<()> {
        self.accumulators.iter_mut().try_for_each(|accumulator| accumulator.join(into, from))
    }

    /// Makes a number one of which no row has come.
    pub(crate) fn clear(&mut self, number: usize) -> Result<()> {
        self.accumulators.iter_mut().try_for_each(|accumulator| accumulator.clear(number))
    }

    /// A column of results for each aggregate. Groups that are not kept are to be cleared.
    pub(crate) fn results(&mut self, numbers: &[usize], are_kept: bool) -> Result<Vec<ArrayRef>> {
        self.accumulators.iter_mut().map(|accumulator| accumulator.results(numbers, are_kept)).collect()
    }

    /// What these groups hold, named after what it is of.
    pub(crate) fn states(&mut self, numbers: &[usize]) -> Result<Vec<NamedColumn>> {
        let mut columns = Vec::new();
        for (call, accumulator) in self.calls.iter().zip(&mut self.accumulators) {
            let states = accumulator.states(numbers)?.into_iter().enumerate();
            columns.extend(states.map(|(at, state)| (state_name(&call.expr, at), state)));
        }
        Ok(columns)
    }

    /// Types of the columns of [`states`](NumberedGroups::states).
    pub(crate) fn state_types(&self) -> impl Iterator<Item = &DataType> {
        self.types.iter().flatten()
    }

    /// Takes over what another's [`states`](NumberedGroups::states) gave of these groups, before anything else.
    pub(crate) fn put_back(
        &mut self,
        mut states: &[ArrayRef],
        numbers: &[usize],
        total: usize,
    ) -> Result<()> {
        for (accumulator, types) in self.accumulators.iter_mut().zip(&self.types) {
            let (own, rest) = states.split_at(types.len());
            states = rest;
            accumulator.put_back(own, numbers, total)?;
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.accumulators.iter().map(|accumulator| accumulator.bytes()).sum()
    }
}
