use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use datafusion_common::Result;

use super::AggregateCall;
use crate::expression::{Expression, Selection, select};

/// Evaluated keys, arguments and filters of some rows.
#[derive(Default)]
pub(crate) struct Inputs {
    pub(crate) keys: Vec<ArrayRef>,
    arguments: Vec<Vec<ArrayRef>>,
    filters: Vec<Option<BooleanArray>>,
}

impl Inputs {
    /// Takes those of a batch in, in place of what was there.
    pub(super) fn evaluate(
        &mut self,
        rows: &RecordBatch,
        keys: &[usize],
        calls: &[AggregateCall],
        arguments: &mut [Vec<Expression>],
    ) -> Result<()> {
        self.keys.clear();
        self.keys.extend(keys.iter().map(|&i| ArrayRef::clone(rows.column(i))));
        self.arguments.resize_with(calls.len(), Vec::new);
        for (arrays, arguments) in self.arguments.iter_mut().zip(arguments) {
            arrays.clear();
            for argument in arguments {
                arrays.push(argument.evaluate(rows)?);
            }
        }
        self.filters.clear();
        for call in calls {
            self.filters.push(match &call.filter {
                None => None,
                Some(filter) => match select(filter, rows)? {
                    Selection::All => None,
                    Selection::Some(mask) => Some(mask),
                    Selection::Nothing => Some(BooleanArray::from(vec![false; rows.num_rows()])),
                },
            });
        }
        Ok(())
    }

    pub(super) fn arguments(&self, call: usize) -> &[ArrayRef] {
        &self.arguments[call]
    }

    pub(super) fn filter(&self, call: usize) -> Option<&BooleanArray> {
        self.filters[call].as_ref()
    }

    /// Those of scattered rows.
    pub(crate) fn take(&self, rows: &UInt32Array) -> Result<Inputs> {
        let taken = |arrays: &Vec<ArrayRef>| {
            arrays.iter().map(|a| Ok(take(a, rows, None)?)).collect::<Result<Vec<ArrayRef>>>()
        };
        let filters = self.filters.iter().map(|filter| match filter {
            None => Ok(None),
            Some(filter) => Ok(Some(take(filter, rows, None)?.as_boolean().clone())),
        });
        Ok(Inputs {
            keys: taken(&self.keys)?,
            arguments: self.arguments.iter().map(taken).collect::<Result<_>>()?,
            filters: filters.collect::<Result<_>>()?,
        })
    }
}
