//! GROUP BY inside a slice, a session or a window: keys get numbers, and every aggregate keeps its state by number.
//! Start with `Aggregation`.

mod accumulate;
mod distinct;
mod few_keys;
mod fold;
mod inputs;
mod key_columns;
mod keys;
mod numbered;
mod restore;
mod scalar_groups;
mod spread;
#[cfg(test)]
mod tests;
mod values;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::DataFusionError;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_expr::expressions::Column;

use crate::expression::Expression;
use accumulate::{Accumulate, Library, Make, Rows};
pub(crate) use inputs::Inputs;
use key_columns::KeyColumns;
use keys::{KeyPlan, Keys};
pub(crate) use numbered::{HandedGroups, NumberedGroups};
pub(crate) use restore::{
    Apart, Filling, States, accumulator, accumulator_of, is_restored_exactly, keeps_what_it_tells,
    sliding_accumulator, states_of,
};
use scalar_groups::ScalarGroups;

/// One aggregate function with its arguments, over the input's columns.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// Function, arguments, DISTINCT.
    pub expr: Arc<AggregateFunctionExpr>,
    /// `FILTER (WHERE …)`.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

impl AggregateCall {
    /// Whether its result is the same to the last bit, however its rows are put together. Sums of floats are not, and the
    /// distinct values of parts are as much work as their rows.
    pub(crate) fn is_exact_in_any_order(&self) -> bool {
        let is = |udaf: &AggregateUDF| *self.expr.fun() == *udaf;
        let result = self.expr.field();
        let is_exact = [count_udaf(), min_udaf(), max_udaf()].iter().any(|udaf| is(udaf))
            || is(&sum_udaf()) && !result.data_type().is_floating();
        is_exact && !self.expr.is_distinct() && self.expr.order_bys().is_empty()
    }
}

/// What is grouped by and what is aggregated: the part of [`Groups`] that all slices share.
pub(crate) struct Aggregation {
    keys: Vec<usize>,
    key_plan: Arc<KeyPlan>,
    calls: Vec<AggregateCall>,
    /// By call, our own accumulator where there is one.
    own: Vec<Option<(Make, DataType)>>,
    /// By call, if it counts distinct values: their type.
    distinct: Vec<Option<DataType>>,
    arguments: Vec<Vec<Expression>>,
    /// By call, if batches need no evaluation at all.
    plain: Option<Vec<PlainCall>>,
}

/// A call whose argument and filter are columns.
pub(crate) struct PlainCall {
    /// `None`: the function counts rows.
    argument: Option<usize>,
    filter: Option<usize>,
}

/// Rows to aggregate.
#[derive(Clone, Copy)]
pub(crate) enum Taken<'a> {
    /// As they come in: see [`Aggregation::plain`].
    Plain(&'a Aggregation, &'a [PlainCall], &'a RecordBatch),
    Evaluated(&'a Inputs),
}

type Result<T> = std::result::Result<T, DataFusionError>;

impl Aggregation {
    pub(crate) fn new(input: &Schema, keys: &[usize], calls: &[AggregateCall]) -> Result<Aggregation> {
        let arguments = calls.iter().map(|call| {
            let arguments = call.expr.expressions();
            arguments.iter().map(|argument| Expression::over(argument, input)).collect()
        });
        let arguments: Result<Vec<Vec<Expression>>> = arguments.collect();
        let arguments = arguments?;
        let own = calls.iter().map(|call| {
            fold::own(&call.expr, input).map(|make| (make, call.expr.field().data_type().clone()))
        });
        let plain = calls.iter().zip(&arguments).map(|(call, arguments)| plain_call(call, arguments, input));
        let key_schema = Arc::new(input.project(keys)?);
        Ok(Aggregation {
            keys: keys.to_vec(),
            key_plan: Arc::new(KeyPlan::new(key_schema)),
            calls: calls.to_vec(),
            own: own.collect(),
            distinct: calls.iter().map(|call| distinct::own(&call.expr, input)).collect(),
            plain: plain.collect(),
            arguments,
        })
    }

    /// The rows of a batch as they are, where keys, arguments and filters are columns. A message of a few rows then
    /// costs no array.
    pub(crate) fn plain<'a>(&'a self, rows: &'a RecordBatch) -> Option<Taken<'a>> {
        self.plain.as_ref().map(|calls| Taken::Plain(self, calls, rows))
    }

    /// Evaluates keys, arguments and filters once for a batch, into `inputs`.
    pub(crate) fn evaluate(&mut self, rows: &RecordBatch, inputs: &mut Inputs) -> Result<()> {
        inputs.evaluate(rows, &self.keys, &self.calls, &mut self.arguments)
    }

    /// To be filled, and saved now and then if others were.
    pub(crate) fn groups(&self) -> Result<Groups> {
        self.new_groups(self.key_plan.is_noted())
    }

    /// To be filled and ended at once.
    pub(crate) fn groups_of_window(&self) -> Result<Groups> {
        self.new_groups(false)
    }

    fn new_groups(&self, are_noted: bool) -> Result<Groups> {
        let accumulators = (0..self.calls.len()).map(|call| self.accumulator(call, are_noted));
        Ok(Groups {
            keys: Keys::new(&self.key_plan)?,
            key_plan: Arc::clone(&self.key_plan),
            accumulators: accumulators.collect::<Result<_>>()?,
            len: 0,
        })
    }

    fn accumulator(&self, call: usize, is_noted: bool) -> Result<Box<dyn Accumulate>> {
        if let Some((make, result)) = &self.own[call] {
            return Ok(make(result));
        }
        if let Some(values) = &self.distinct[call] {
            return distinct::make(values, is_noted);
        }
        let expr = &self.calls[call].expr;
        let library = if expr.groups_accumulator_supported() {
            expr.create_groups_accumulator()?
        } else {
            Box::new(ScalarGroups::new(Arc::clone(expr)))
        };
        Ok(Box::new(Library(library)))
    }
}

fn plain_call(call: &AggregateCall, arguments: &[Expression], input: &Schema) -> Option<PlainCall> {
    fold::own(&call.expr, input)?;
    let argument = match arguments {
        [Expression::Column(column)] => Some(*column),
        // Only COUNT takes a constant here: every other function of ours is left to the general path with one.
        [Expression::Constant(value, _)] if fold::is_count(&call.expr) && !value.is_null() => None,
        _ => return None,
    };
    let filter = match &call.filter {
        None => None,
        Some(filter) => {
            let column = filter.downcast_ref::<Column>()?.index();
            (*input.field(column).data_type() == DataType::Boolean).then_some(Some(column))?
        }
    };
    Some(PlainCall { argument, filter })
}

impl<'a> Taken<'a> {
    fn keys(&self) -> KeyColumns<'a> {
        match self {
            Taken::Plain(aggregation, _, rows) => {
                KeyColumns { arrays: rows.columns(), at: Some(&aggregation.keys) }
            }
            Taken::Evaluated(inputs) => KeyColumns::all(&inputs.keys),
        }
    }

    fn arguments(&self, call: usize) -> &'a [ArrayRef] {
        match self {
            Taken::Plain(_, calls, rows) => match calls[call].argument {
                Some(column) => std::slice::from_ref(rows.column(column)),
                None => &[],
            },
            Taken::Evaluated(inputs) => inputs.arguments(call),
        }
    }

    fn filter(&self, call: usize) -> Option<&'a BooleanArray> {
        match self {
            Taken::Plain(_, calls, rows) => calls[call].filter.map(|column| rows.column(column).as_boolean()),
            Taken::Evaluated(inputs) => inputs.filter(call),
        }
    }

    /// The keys of a run of rows, as arrays of their own.
    pub(crate) fn key_arrays(&self, rows: Range<usize>) -> Vec<ArrayRef> {
        self.keys().arrays_of(rows)
    }
}

/// Groups that are being filled: their keys and the state of every aggregate.
pub(crate) struct Groups {
    keys: Keys,
    key_plan: Arc<KeyPlan>,
    accumulators: Vec<Box<dyn Accumulate>>,
    len: usize,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a run of rows. `scratch` is overwritten.
    pub(crate) fn update(
        &mut self,
        taken: Taken<'_>,
        rows: Range<usize>,
        scratch: &mut Vec<usize>,
    ) -> Result<()> {
        self.len = self.keys.intern(&self.key_plan, taken.keys(), rows.clone(), scratch)?;
        let rows = Rows { range: rows, groups: scratch, total: self.len };
        for (call, accumulator) in self.accumulators.iter_mut().enumerate() {
            accumulator.update(taken.arguments(call), taken.filter(call), &rows)?;
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
        let keys = KeyColumns::all(&partial.keys);
        self.len = self.keys.intern(&self.key_plan, keys, range.clone(), scratch)?;
        let rows = Rows { range, groups: scratch, total: self.len };
        for (accumulator, states) in self.accumulators.iter_mut().zip(&partial.states) {
            accumulator.merge(states, &rows)?;
        }
        Ok(())
    }

    /// Finds the number of each key's group.
    pub(crate) fn intern(&mut self, keys: &[ArrayRef], numbers: &mut Vec<usize>) -> Result<()> {
        let rows = keys.first().map_or(0, Array::len);
        self.len = self.keys.intern(&self.key_plan, KeyColumns::all(keys), 0..rows, numbers)?;
        Ok(())
    }

    /// Ends filling, keeping what a merge needs.
    pub(crate) fn seal(mut self) -> Result<Partial> {
        let keys = self.keys.emit(&self.key_plan)?;
        let states = self.accumulators.iter_mut().map(|a| a.state()).collect::<Result<Vec<_>>>()?;
        let arrays = keys.iter().chain(states.iter().flatten());
        let bytes = arrays.map(|a| a.get_array_memory_size()).sum();
        Ok(Partial { keys, states, len: self.len, bytes })
    }

    /// Ends filling: keys, then results, then room for `more` columns.
    pub(crate) fn evaluate(mut self, more: usize) -> Result<Vec<ArrayRef>> {
        let mut columns = self.keys.emit(&self.key_plan)?;
        columns.reserve_exact(self.accumulators.len() + more);
        for accumulator in &mut self.accumulators {
            columns.push(accumulator.evaluate()?);
        }
        Ok(columns)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes() + self.accumulators.iter().map(|a| a.bytes()).sum::<usize>()
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

impl Partial {
    /// A run of them.
    pub(crate) fn slice(&self, offset: usize, len: usize) -> Partial {
        let cut = |arrays: &Vec<ArrayRef>| arrays.iter().map(|array| array.slice(offset, len)).collect();
        let states = self.states.iter().map(cut).collect();
        Partial { keys: cut(&self.keys), states, len, bytes: self.bytes * len / self.len.max(1) }
    }

    /// A key of each.
    pub(crate) fn key(&self, place: usize) -> Option<&ArrayRef> {
        self.keys.get(place)
    }

    /// These of them, with that for one of their keys.
    pub(crate) fn taken(&self, groups: &UInt32Array, place: usize, key: ArrayRef) -> Result<Partial> {
        let is_all =
            groups.len() == self.len && groups.values().iter().enumerate().all(|(at, of)| at == *of as usize);
        let take = |arrays: &Vec<ArrayRef>| match is_all {
            true => Ok(arrays.clone()),
            false => arrays.iter().map(|array| Ok(take(array, groups, None)?)).collect::<Result<Vec<_>>>(),
        };
        let mut keys = take(&self.keys)?;
        keys[place] = key;
        let states = self.states.iter().map(take).collect::<Result<_>>()?;
        Ok(Partial { keys, states, len: groups.len(), bytes: self.bytes * groups.len() / self.len.max(1) })
    }

    /// What merging a group of it costs, in groups with a plain sum each: one with the distinct values of a thousand rows
    /// is worth hundreds.
    pub(crate) fn merging_weight(&self) -> usize {
        (self.bytes / (self.len.max(1) * PLAIN_GROUP_BYTES)).max(1)
    }
}

/// A key and a state or two.
const PLAIN_GROUP_BYTES: usize = 32;
