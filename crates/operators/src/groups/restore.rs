//! Groups that are written down, and put back as they were: not in the last bit another.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::Accumulator;
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::accumulate::{LaterColumns, Pieces, Rows};
use super::key_columns::KeyColumns;
use super::spread::{Measure, OneSpread};
use super::{Aggregation, Groups, Partial};
use crate::state::NamedColumn;

/// Groups between two batches: being filled, or as they were saved until the next row comes.
pub(crate) enum Filling {
    Groups(Groups),
    AtRest(Arc<Partial>),
}

impl Filling {
    /// To be filled further.
    pub(crate) fn groups(&mut self, aggregation: &Aggregation) -> Result<&mut Groups> {
        if let Filling::AtRest(partial) = self {
            *self = Filling::Groups(aggregation.restored(partial)?);
        }
        match self {
            Filling::Groups(groups) => Ok(groups),
            Filling::AtRest(_) => Err(DataFusionError::Internal("groups were just restored".into())),
        }
    }

    pub(crate) fn into_groups(mut self, aggregation: &Aggregation) -> Result<Groups> {
        self.groups(aggregation)?;
        match self {
            Filling::Groups(groups) => Ok(groups),
            Filling::AtRest(partial) => aggregation.restored(&partial),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Filling::Groups(groups) => groups.len,
            Filling::AtRest(partial) => partial.len,
        }
    }

    /// What is there, which is filled further, in pieces one behind the other.
    pub(crate) fn snapshot(&mut self, aggregation: &Aggregation) -> Result<Vec<Arc<Partial>>> {
        match self {
            Filling::Groups(groups) => groups.snapshot(aggregation),
            Filling::AtRest(partial) => Ok(vec![Arc::clone(partial)]),
        }
    }

    /// The same of many groups, keys and states apart.
    pub(crate) fn apart(&mut self, aggregation: &Aggregation) -> Result<Apart> {
        match self {
            Filling::Groups(groups) => groups.apart(aggregation),
            Filling::AtRest(partial) => Ok(Apart {
                keys: aggregation.key_tables(vec![partial.keys.clone()])?,
                states: States::Made(tables(
                    &aggregation.state_names(&partial.states),
                    vec![partial.states.concat()],
                )?),
            }),
        }
    }

    /// Whether what groups hold is handed out, so that its tables are made later.
    pub(crate) fn is_handed_out(&self, aggregation: &Aggregation) -> bool {
        matches!(self, Filling::Groups(_)) && aggregation.distinct.iter().any(Option::is_some)
    }

    /// Ends filling.
    pub(crate) fn seal(self) -> Result<Arc<Partial>> {
        match self {
            Filling::Groups(groups) => Ok(Arc::new(groups.seal()?)),
            Filling::AtRest(partial) => Ok(partial),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Filling::Groups(groups) => groups.bytes(),
            Filling::AtRest(partial) => partial.bytes,
        }
    }
}

/// What many groups hold, in tables one behind the other. A key stays as it is once it is there, and so do states that no row
/// has come to since: their tables are made of the same arrays then.
pub(crate) struct Apart {
    /// None if there is nothing to group by.
    pub(crate) keys: Vec<RecordBatch>,
    pub(crate) states: States,
}

pub(crate) enum States {
    /// None if nothing is aggregated.
    Made(Vec<RecordBatch>),
    Later(Box<dyn FnOnce() -> Result<Vec<RecordBatch>> + Send>),
}

impl Aggregation {
    /// Groups will be saved now and then: their keys are noted as they come.
    pub(crate) fn note_keys(&self) {
        self.key_plan.note();
    }

    /// Types of the columns of a [`Partial`].
    pub(crate) fn partial_types(&self) -> Result<Vec<DataType>> {
        let empty = self.groups()?.seal()?;
        Ok(empty.arrays().map(|array| array.data_type().clone()).collect())
    }

    /// Keys, then states, named after what they are of.
    pub(crate) fn partial_columns(&self, partial: &Partial) -> Vec<NamedColumn> {
        let names = self.key_names().chain(self.state_names(&partial.states));
        names.zip(partial.arrays().cloned()).collect()
    }

    fn key_names(&self) -> impl Iterator<Item = String> {
        self.key_plan.schema.fields().iter().map(|field| field.name().clone())
    }

    /// Of such states, by call.
    fn state_names(&self, states: &[Vec<ArrayRef>]) -> Vec<String> {
        let states = self.calls.iter().zip(states);
        states.flat_map(|(call, states)| (0..states.len()).map(|at| state_name(&call.expr, at))).collect()
    }

    fn key_tables(&self, keys: Vec<Vec<ArrayRef>>) -> Result<Vec<RecordBatch>> {
        tables(&self.key_names().collect::<Vec<_>>(), keys)
    }

    /// The columns of all, one behind the other, and each as a slice of them.
    pub(crate) fn together(&self, partials: &[&Partial]) -> Result<(Vec<NamedColumn>, Vec<Partial>)> {
        let mut columns = match partials {
            [] => Vec::new(),
            [first, ..] => self.partial_columns(first),
        };
        for (place, (_, column)) in columns.iter_mut().enumerate() {
            let of_each: Vec<&dyn Array> =
                partials.iter().filter_map(|partial| Some(partial.arrays().nth(place)?.as_ref())).collect();
            *column = concat(&of_each)?;
        }
        let mut offset = 0;
        let slices = partials.iter().map(|partial| {
            let mut cut = columns.iter().map(|(_, column)| column.slice(offset, partial.len));
            let keys = cut.by_ref().take(partial.keys.len()).collect();
            let states = partial.states.iter().map(|states| cut.by_ref().take(states.len()).collect());
            let states = states.collect();
            offset += partial.len;
            Partial { keys, states, len: partial.len, bytes: partial.bytes }
        });
        let slices = slices.collect();
        Ok((columns, slices))
    }

    /// All as one. `None` of none.
    pub(crate) fn joined(&self, partials: &[Partial]) -> Result<Option<Partial>> {
        if partials.is_empty() {
            return Ok(None);
        }
        let (columns, _) = self.together(&partials.iter().collect::<Vec<_>>())?;
        let columns: Vec<ArrayRef> = columns.into_iter().map(|(_, column)| column).collect();
        Ok(Some(self.partial_of(&columns, partials.iter().map(|partial| partial.len).sum())?))
    }

    /// What [`partial_columns`](Aggregation::partial_columns) gave, of so many groups.
    pub(crate) fn partial_of(&self, columns: &[ArrayRef], len: usize) -> Result<Partial> {
        let empty = self.groups()?.seal()?;
        let mut columns = columns.iter().cloned();
        let keys = columns.by_ref().take(empty.keys.len()).collect();
        let states = empty.states.iter().map(|states| columns.by_ref().take(states.len()).collect());
        let mut partial = Partial { keys, states: states.collect(), len, bytes: 0 };
        // They may be slices of larger ones.
        let bytes = |array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or(0);
        partial.bytes = partial.arrays().map(bytes).sum();
        Ok(partial)
    }

    /// Groups that are filled as those were that were sealed.
    pub(crate) fn restored(&self, partial: &Partial) -> Result<Groups> {
        self.note_keys();
        let mut groups = self.groups()?;
        let mut numbers = Vec::new();
        let keys = KeyColumns::all(&partial.keys);
        groups.len = groups.keys.intern(&groups.key_plan, keys, 0..partial.len, &mut numbers)?;
        if groups.len != partial.len || !numbers.iter().enumerate().all(|(at, &number)| at == number) {
            let message = format!("{} keys of {} groups", groups.len, partial.len);
            return Err(DataFusionError::Internal(message));
        }
        let rows = Rows { range: 0..partial.len, groups: &numbers, total: partial.len };
        for (accumulator, states) in groups.accumulators.iter_mut().zip(&partial.states) {
            accumulator.restore(states, &rows)?;
        }
        Ok(groups)
    }
}

impl Groups {
    /// What [`seal`](Groups::seal) would give, in pieces, going on as if it had not been asked. Of many groups nothing is
    /// copied before they are filled further: the query is stopped meanwhile.
    pub(super) fn snapshot(&mut self, aggregation: &Aggregation) -> Result<Vec<Arc<Partial>>> {
        let mut all = vec![self.keys.pieces(&self.key_plan)?];
        all.extend(self.states(aggregation)?);
        // They stay where they are: nobody asks what they take.
        let partial = |(len, mut columns): (usize, Vec<Vec<ArrayRef>>)| {
            let states = columns.split_off(1);
            Arc::new(Partial { keys: columns.pop().unwrap_or_default(), states, len, bytes: 0 })
        };
        Ok(cut(all, self.len).into_iter().map(partial).collect())
    }

    fn apart(&mut self, aggregation: &Aggregation) -> Result<Apart> {
        let keys = aggregation.key_tables(self.keys.pieces(&self.key_plan)?)?;
        let names = aggregation.state_names(&aggregation.groups()?.seal()?.states);
        let len = self.len;
        let handed: Vec<Option<LaterColumns>> =
            self.accumulators.iter_mut().map(|accumulator| accumulator.hand_out(len)).collect();
        if handed.iter().all(Option::is_none) {
            let states = self.states(aggregation)?;
            return Ok(Apart { keys, states: States::Made(cut_tables(&names, states, len)?) });
        }
        let mut states = Vec::with_capacity(handed.len());
        for (call, handed) in handed.into_iter().enumerate() {
            states.push(match handed {
                Some(later) => Pieces::Later(later),
                None => Pieces::Made(self.states_of(call, aggregation)?),
            });
        }
        let make = move || {
            let made = states.into_iter().map(Pieces::made).collect::<Result<_>>()?;
            cut_tables(&names, made, len)
        };
        Ok(Apart { keys, states: States::Later(Box::new(make)) })
    }

    /// By call, the columns of its states in pieces.
    fn states(&mut self, aggregation: &Aggregation) -> Result<Vec<Vec<Vec<ArrayRef>>>> {
        (0..self.accumulators.len()).map(|call| self.states_of(call, aggregation)).collect()
    }

    fn states_of(&mut self, call: usize, aggregation: &Aggregation) -> Result<Vec<Vec<ArrayRef>>> {
        let accumulator = &mut self.accumulators[call];
        if let Some(state) = accumulator.snapshot() {
            return Ok(state);
        }
        let state = accumulator.state()?;
        *accumulator = aggregation.accumulator(call, true)?;
        let numbers: Vec<usize> = (0..self.len).collect();
        let rows = Rows { range: 0..self.len, groups: &numbers, total: self.len };
        accumulator.restore(&state, &rows)?;
        Ok(vec![state])
    }
}

fn cut_tables(names: &[String], states: Vec<Vec<Vec<ArrayRef>>>, len: usize) -> Result<Vec<RecordBatch>> {
    tables(names, cut(states, len).into_iter().map(|(_, columns)| columns.concat()).collect())
}

/// Tables of these columns, with one schema for all: there may be thousands, and a query is held meanwhile.
fn tables(names: &[String], pieces: Vec<Vec<ArrayRef>>) -> Result<Vec<RecordBatch>> {
    let Some(first) = pieces.first().filter(|_| !names.is_empty()) else { return Ok(Vec::new()) };
    let fields =
        names.iter().zip(first).map(|(name, column)| Field::new(name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let tables = pieces.into_iter().map(|columns| RecordBatch::try_new(schema.clone(), columns));
    Ok(tables.collect::<std::result::Result<_, _>>()?)
}

/// Columns of several, each in pieces of its own, in pieces that are the same for all; each with its rows, of which there are `len`.
fn cut(all: Vec<Vec<Vec<ArrayRef>>>, len: usize) -> Vec<(usize, Vec<Vec<ArrayRef>>)> {
    let mut cutters: Vec<Cutter> = all.into_iter().map(Cutter::new).collect();
    let (mut pieces, mut left) = (Vec::new(), len);
    while left > 0 {
        let len = cutters.iter().filter_map(Cutter::ahead).min().unwrap_or(left).min(left);
        pieces.push((len, cutters.iter_mut().map(|cutter| cutter.cut(len)).collect()));
        left -= len;
    }
    pieces
}

/// Columns in pieces, to be cut where others end.
struct Cutter {
    /// The first one's first rows may be gone already.
    pieces: VecDeque<Vec<ArrayRef>>,
}

impl Cutter {
    fn new(pieces: Vec<Vec<ArrayRef>>) -> Cutter {
        let has_rows = |piece: &Vec<ArrayRef>| piece.first().is_some_and(|column| !column.is_empty());
        Cutter { pieces: pieces.into_iter().filter(has_rows).collect() }
    }

    /// Rows of the next piece; `None` where there are no columns.
    fn ahead(&self) -> Option<usize> {
        self.pieces.front()?.first().map(|column| column.len())
    }

    /// The next rows of it.
    fn cut(&mut self, len: usize) -> Vec<ArrayRef> {
        let Some(piece) = self.pieces.pop_front() else { return Vec::new() };
        let all = piece[0].len();
        if len == all {
            return piece;
        }
        self.pieces.push_front(piece.iter().map(|column| column.slice(len, all - len)).collect());
        piece.iter().map(|column| column.slice(0, len)).collect()
    }
}

impl Partial {
    fn arrays(&self) -> impl Iterator<Item = &ArrayRef> {
        self.keys.iter().chain(self.states.iter().flatten())
    }
}

/// The accumulator of a single group.
pub(crate) fn accumulator(expr: &AggregateFunctionExpr) -> Result<Box<dyn Accumulator>> {
    match Measure::of(expr) {
        Some(measure) => Ok(Box::new(OneSpread::new(measure))),
        None => expr.create_accumulator(),
    }
}

/// The same of a frame that loses rows.
pub(crate) fn sliding_accumulator(expr: &AggregateFunctionExpr) -> Result<Box<dyn Accumulator>> {
    match Measure::of(expr) {
        Some(measure) => Ok(Box::new(OneSpread::new(measure))),
        None => expr.create_sliding_accumulator(),
    }
}

/// Whether what it holds says more than the rows of its frame do, and is put back exactly.
pub(crate) fn is_restored_exactly(expr: &AggregateFunctionExpr) -> bool {
    Measure::of(expr).is_some()
}

/// Whether an accumulator still holds what it has told of its state: most may be used up by that.
pub(crate) fn keeps_what_it_tells(expr: &AggregateFunctionExpr) -> bool {
    let plain = [count_udaf(), sum_udaf(), avg_udaf(), min_udaf(), max_udaf()];
    Measure::of(expr).is_some() || !expr.is_distinct() && plain.iter().any(|plain| *expr.fun() == **plain)
}

/// What single accumulators hold, each in a row. Unless they [keep it](keeps_what_it_tells), they are to be made anew: see
/// [`accumulator_of`].
pub(crate) fn states_of<'a>(
    expr: &AggregateFunctionExpr,
    accumulators: impl Iterator<Item = &'a mut Box<dyn Accumulator>>,
) -> Result<Vec<NamedColumn>> {
    let mut columns: Vec<Vec<ScalarValue>> = Vec::new();
    let mut rows = 0;
    for accumulator in accumulators {
        let state = accumulator.state()?;
        columns.resize_with(state.len(), Vec::new);
        columns.iter_mut().zip(state).for_each(|(column, value)| column.push(value));
        rows += 1;
    }
    let arrays: Vec<ArrayRef> = match rows {
        0 => state_types(expr)?.iter().map(arrow::array::new_empty_array).collect(),
        _ => columns.into_iter().map(ScalarValue::iter_to_array).collect::<Result<_>>()?,
    };
    Ok(arrays.into_iter().enumerate().map(|(at, array)| (state_name(expr, at), array)).collect())
}

/// Types of what [`states_of`] gives.
pub(crate) fn state_types(expr: &AggregateFunctionExpr) -> Result<Vec<DataType>> {
    Ok(accumulator(expr)?.state()?.iter().map(ScalarValue::data_type).collect())
}

/// One that holds what is in that row.
pub(crate) fn accumulator_of(
    expr: &AggregateFunctionExpr,
    states: &[ArrayRef],
    row: usize,
) -> Result<Box<dyn Accumulator>> {
    let mut accumulator = accumulator(expr)?;
    let row: Vec<ArrayRef> = states.iter().map(|state| state.slice(row, 1)).collect();
    accumulator.merge_batch(&row)?;
    Ok(accumulator)
}

pub(super) fn state_name(expr: &AggregateFunctionExpr, at: usize) -> String {
    if at == 0 { expr.name().into() } else { format!("{}[{at}]", expr.name()) }
}
