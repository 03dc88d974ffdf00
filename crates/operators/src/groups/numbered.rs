//! Groups that the caller numbers: they end one by one, are joined, and their numbers are given away again.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion_common::DataFusionError;

use super::accumulate::{ByGroup, Pieces, Rows};
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

    /// What all of them hold, which are `total`. Of many nothing is copied where that is plain.
    pub(crate) fn hand_out(&mut self, total: usize) -> Result<HandedGroups> {
        let mut handed = Vec::new();
        for ((call, types), accumulator) in self.calls.iter().zip(&self.types).zip(&mut self.accumulators) {
            let names = (0..types.len()).map(|at| state_name(&call.expr, at)).collect();
            let pieces = if let Some(later) = accumulator.hand_out(total) {
                Pieces::Later(later)
            } else if let Some(pieces) = accumulator.snapshot() {
                Pieces::Made(pieces)
            } else {
                Pieces::Made(vec![accumulator.states(&(0..total).collect::<Vec<_>>())?])
            };
            let make: Box<dyn FnOnce() -> MadePieces + Send> =
                Box::new(|| pieces.made().map_err(|error| error.to_string()));
            handed.push(OfCall { names, pieces: LazyLock::new(make) });
        }
        Ok(HandedGroups(handed))
    }

    /// Types of the columns of [`states`](HandedGroups::states).
    pub(crate) fn state_types(&self) -> impl Iterator<Item = &DataType> {
        self.types.iter().flatten()
    }

    /// Takes over what another's [`states`](HandedGroups::states) gave of these groups, before anything else.
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

/// What groups held at some time.
pub(crate) struct HandedGroups(Vec<OfCall>);

struct OfCall {
    names: Vec<String>,
    /// Columns in pieces, one behind the other. Made when they are first asked for, where that was not done while the query was held.
    pieces: LazyLock<MadePieces, Box<dyn FnOnce() -> MadePieces + Send>>,
}

type MadePieces = std::result::Result<Vec<Vec<ArrayRef>>, String>;

impl HandedGroups {
    /// What groups of these numbers held, but for those that are not there, named after what it is of.
    ///
    /// `kept`: places in the range, ascending.
    pub(crate) fn states(&self, numbers: Range<usize>, kept: &UInt32Array) -> Result<Vec<NamedColumn>> {
        let mut columns = Vec::new();
        for OfCall { names, pieces } in &self.0 {
            let pieces = pieces.as_ref().map_err(|why| DataFusionError::Internal(why.clone()))?;
            for (at, name) in names.iter().enumerate() {
                let all = of_range(pieces, at, &numbers)?;
                // They ascend: so many are all.
                let are_all = kept.len() == all.len();
                columns.push((name.clone(), if are_all { all } else { take(&all, kept, None)? }));
            }
        }
        Ok(columns)
    }
}

/// Those of a column in pieces that have these numbers.
fn of_range(pieces: &[Vec<ArrayRef>], column: usize, numbers: &Range<usize>) -> Result<ArrayRef> {
    let mut found: Vec<ArrayRef> = Vec::new();
    let mut first = 0;
    for piece in pieces.iter().map(|piece| &piece[column]) {
        let (from, to) = (numbers.start.max(first), numbers.end.min(first + piece.len()));
        if from < to {
            found.push(piece.slice(from - first, to - from));
        }
        first += piece.len();
    }
    match &found[..] {
        [only] => Ok(only.clone()),
        several => Ok(concat(&several.iter().map(|piece| piece.as_ref()).collect::<Vec<_>>())?),
    }
}
