use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{filter, take};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::DataFusionError;
use datafusion_expr::{EmitTo, GroupsAccumulator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;

use crate::expression::{Expression, Selection, select};
use crate::scalar_groups::ScalarGroups;

/// One aggregate function with its arguments, over the input's columns.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// Function, arguments, DISTINCT.
    pub expr: Arc<AggregateFunctionExpr>,
    /// `FILTER (WHERE …)`.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

/// What is grouped by and what is aggregated: the part of [`Groups`] that all slices share.
pub(crate) struct Aggregation {
    keys: Vec<usize>,
    key_schema: SchemaRef,
    calls: Vec<AggregateCall>,
    arguments: Vec<Vec<Expression>>,
}

type Result<T> = std::result::Result<T, DataFusionError>;

impl Aggregation {
    pub(crate) fn new(input: &Schema, keys: &[usize], calls: &[AggregateCall]) -> Result<Aggregation> {
        let arguments =
            calls.iter().map(|call| call.expr.expressions().iter().map(Expression::new).collect());
        Ok(Aggregation {
            keys: keys.to_vec(),
            key_schema: Arc::new(input.project(keys)?),
            calls: calls.to_vec(),
            arguments: arguments.collect::<Result<_>>()?,
        })
    }

    /// Evaluates keys, arguments and filters once for a batch, into `inputs`.
    pub(crate) fn evaluate(&mut self, rows: &RecordBatch, inputs: &mut Inputs) -> Result<()> {
        inputs.keys.clear();
        inputs.keys.extend(self.keys.iter().map(|&i| Arc::clone(rows.column(i))));
        inputs.arguments.resize_with(self.calls.len(), Vec::new);
        for (arrays, arguments) in inputs.arguments.iter_mut().zip(&mut self.arguments) {
            arrays.clear();
            for argument in arguments {
                arrays.push(argument.evaluate(rows)?);
            }
        }
        inputs.filters.clear();
        for call in &self.calls {
            inputs.filters.push(match &call.filter {
                None => None,
                Some(filter) => match select(filter, rows)? {
                    Selection::All => None,
                    Selection::Some(mask) => Some(mask),
                    Selection::Nothing => Some(BooleanArray::from(vec![false; rows.num_rows()])),
                },
            });
        }
        inputs.rows = rows.num_rows();
        Ok(())
    }

    pub(crate) fn groups(&self) -> Result<Groups> {
        let keys = if self.keys.is_empty() {
            None
        } else {
            Some(new_group_values(Arc::clone(&self.key_schema), &GroupOrdering::None)?)
        };
        let accumulators = self.calls.iter().map(|call| {
            if call.expr.groups_accumulator_supported() {
                return call.expr.create_groups_accumulator();
            }
            Ok(Box::new(ScalarGroups::new(Arc::clone(&call.expr))) as Box<dyn GroupsAccumulator>)
        });
        Ok(Groups { keys, accumulators: accumulators.collect::<Result<_>>()?, len: 0 })
    }
}

/// Evaluated keys, arguments and filters of some rows.
#[derive(Default)]
pub(crate) struct Inputs {
    pub(crate) keys: Vec<ArrayRef>,
    arguments: Vec<Vec<ArrayRef>>,
    filters: Vec<Option<BooleanArray>>,
    rows: usize,
}

impl Inputs {
    /// Those of a run of rows.
    pub(crate) fn slice(&self, offset: usize, length: usize) -> Inputs {
        let slice = |arrays: &Vec<ArrayRef>| arrays.iter().map(|a| a.slice(offset, length)).collect();
        Inputs {
            keys: slice(&self.keys),
            arguments: self.arguments.iter().map(slice).collect(),
            filters: self.filters.iter().map(|f| f.as_ref().map(|f| f.slice(offset, length))).collect(),
            rows: length,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The arguments of one aggregate in a run of rows, without the rows that its filter refuses.
    pub(crate) fn run_of(
        &self,
        call: usize,
        offset: usize,
        length: usize,
        arguments: &mut Vec<ArrayRef>,
    ) -> Result<()> {
        arguments.clear();
        let mask = self.filters[call].as_ref().map(|mask| mask.slice(offset, length));
        for argument in &self.arguments[call] {
            let run = argument.slice(offset, length);
            arguments.push(match &mask {
                None => run,
                Some(mask) => filter(&run, mask)?,
            });
        }
        Ok(())
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
            rows: rows.len(),
        })
    }
}

/// Groups that are being filled: their keys and the state of every aggregate.
pub(crate) struct Groups {
    /// `None`: no keys, one group.
    keys: Option<Box<dyn GroupValues>>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    len: usize,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds rows. `scratch` is overwritten.
    pub(crate) fn update(&mut self, inputs: &Inputs, scratch: &mut Vec<usize>) -> Result<()> {
        self.intern(&inputs.keys, inputs.rows, scratch)?;
        let calls = self.accumulators.iter_mut().zip(&inputs.arguments).zip(&inputs.filters);
        for ((accumulator, arguments), filter) in calls {
            accumulator.update_batch(arguments, scratch, filter.as_ref(), self.len)?;
        }
        Ok(())
    }

    /// Adds what other groups hold, from position `range` of them.
    pub(crate) fn merge(
        &mut self,
        partial: &Partial,
        range: Range<usize>,
        scratch: &mut Vec<usize>,
    ) -> Result<()> {
        let slice = |arrays: &Vec<ArrayRef>| -> Vec<ArrayRef> {
            arrays.iter().map(|a| a.slice(range.start, range.len())).collect()
        };
        self.intern(&slice(&partial.keys), range.len(), scratch)?;
        for (accumulator, states) in self.accumulators.iter_mut().zip(&partial.states) {
            accumulator.merge_batch(&slice(states), scratch, self.len)?;
        }
        Ok(())
    }

    /// Finds the number of each row's group.
    pub(crate) fn intern(&mut self, keys: &[ArrayRef], rows: usize, numbers: &mut Vec<usize>) -> Result<()> {
        match &mut self.keys {
            Some(values) => {
                values.intern(keys, numbers)?;
                self.len = values.len();
            }
            None => {
                numbers.clear();
                numbers.resize(rows, 0);
                self.len = 1;
            }
        }
        Ok(())
    }

    /// Ends filling, keeping what a merge needs.
    pub(crate) fn seal(mut self) -> Result<Partial> {
        let keys = self.emit_keys()?;
        let states =
            self.accumulators.iter_mut().map(|a| a.state(EmitTo::All)).collect::<Result<Vec<_>>>()?;
        let arrays = keys.iter().chain(states.iter().flatten());
        let bytes = arrays.map(|a| a.get_array_memory_size()).sum();
        Ok(Partial { keys, states, len: self.len, bytes })
    }

    /// Ends filling: keys, then results.
    pub(crate) fn evaluate(mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = self.emit_keys()?;
        for accumulator in &mut self.accumulators {
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        Ok(columns)
    }

    fn emit_keys(&mut self) -> Result<Vec<ArrayRef>> {
        self.keys.as_mut().map_or(Ok(Vec::new()), |keys| keys.emit(EmitTo::All))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, |k| k.size()) + self.accumulators.iter().map(|a| a.size()).sum::<usize>()
    }
}

/// Groups that are complete, ready to be merged into others any number of times.
pub(crate) struct Partial {
    keys: Vec<ArrayRef>,
    /// By aggregate.
    states: Vec<Vec<ArrayRef>>,
    pub(crate) len: usize,
    pub(crate) bytes: usize,
}
