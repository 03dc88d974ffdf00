//! Our own accumulators for the commonest functions: cheap for small messages, able to end groups one by one for
//! sessions, and equal to DataFusion's in every bit.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array, Int64Array,
    PrimitiveArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Schema, TimeUnit, TimestampMillisecondType, UInt64Type,
};
use datafusion_common::Result;
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::accumulate::{Accumulate, ByGroup, Make, Rows, passes};
use super::spread::Measure;
use super::values::{CHUNK, Values};

/// COUNT, SUM, MIN, MAX, AVG, variances and deviations of the types that SQL sends here, each with the values, order of evaluation and NULLs
/// of DataFusion's accumulator, to which `tests.rs` holds them bit by bit. `None`: that one is taken.
pub(super) fn own(expr: &AggregateFunctionExpr, input: &Schema) -> Option<Make> {
    let arguments = expr.expressions();
    let [argument] = arguments.as_slice() else { return None };
    if expr.is_distinct() || !expr.order_bys().is_empty() {
        return None;
    }
    let given = argument.data_type(input).ok()?;
    let field = expr.field();
    let (function, result) = (expr.fun(), field.data_type());
    if given == DataType::Float64
        && let Some(measure) = Measure::of(expr)
    {
        return Some(measure.make());
    }
    if is_count(expr) {
        return Some(|_| Box::new(Count(Values::default())));
    }
    if *function == *avg_udaf() {
        return (given == DataType::Float64 && *result == DataType::Float64).then_some(|_| {
            Box::new(Mean { sums: Values::default(), counts: Values::default(), has_empty: false })
        });
    }
    if *function == *sum_udaf() {
        return match (&given, result) {
            (DataType::Int64, DataType::Int64) => Some(sum::<Int64Type>),
            (DataType::Float64, DataType::Float64) => Some(sum::<Float64Type>),
            (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if from == to => {
                Some(sum::<Decimal128Type>)
            }
            _ => None,
        };
    }
    if given != *result {
        return None;
    }
    if *function == *min_udaf() {
        least_of(result)
    } else if *function == *max_udaf() {
        greatest_of(result)
    } else {
        None
    }
}

pub(super) fn is_count(expr: &AggregateFunctionExpr) -> bool {
    *expr.fun() == *count_udaf()
}

fn sum<T: ArrowPrimitiveType + Send>(result: &DataType) -> Box<dyn ByGroup>
where
    T::Native: ArrowNativeTypeOp,
{
    Fold::<T, _>::boxed(result, T::default_value(), |sum, value| *sum = sum.add_wrapping(value))
}

// The extremes begin at the type's own ends and a NaN displaces whatever is there, as in DataFusion.
macro_rules! extreme {
    ($name:ident, $start:ident, $keeps:pat) => {
        fn $name(data_type: &DataType) -> Option<Make> {
            macro_rules! of {
                ($type:ty, $native:ident) => {
                    Some(|data_type| {
                        Fold::<$type, _>::boxed(data_type, $native::$start, |kept, value| {
                            if !matches!(value.partial_cmp(kept), $keeps) {
                                *kept = value;
                            }
                        })
                    })
                };
            }
            match data_type {
                DataType::Int8 => of!(Int8Type, i8),
                DataType::Int16 => of!(Int16Type, i16),
                DataType::Int32 => of!(Int32Type, i32),
                DataType::Int64 => of!(Int64Type, i64),
                DataType::Float32 => of!(Float32Type, f32),
                DataType::Float64 => of!(Float64Type, f64),
                DataType::Date32 => of!(Date32Type, i32),
                DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType, i64),
                DataType::Decimal128(_, _) => of!(Decimal128Type, i128),
                _ => None,
            }
        }
    };
}

extreme!(least_of, MAX, Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal));
extreme!(greatest_of, MIN, Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal));

/// Values folded into one of the same type: SUM, MIN, MAX. Its state is its result.
struct Fold<T: ArrowPrimitiveType, F> {
    result: DataType,
    start: T::Native,
    fold: F,
    values: Values<T::Native>,
    seen: Seen,
}

impl<T, F> Fold<T, F>
where
    T: ArrowPrimitiveType + Send,
    F: Fn(&mut T::Native, T::Native) + Send + 'static,
{
    fn boxed(result: &DataType, start: T::Native, fold: F) -> Box<dyn ByGroup> {
        let result = result.clone();
        Box::new(Fold::<T, F> { result, start, fold, values: Values::default(), seen: Seen(None) })
    }
}

impl<T, F> Accumulate for Fold<T, F>
where
    T: ArrowPrimitiveType + Send,
    F: Fn(&mut T::Native, T::Native) + Send,
{
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let array = arguments[0].as_primitive::<T>();
        let added = &array.values()[rows.range.clone()];
        let known = self.values.len();
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let (total, fold) = (rows.total, &self.fold);
        let of_groups = rows.groups.iter().copied().zip(added.iter().copied());
        if nulls.is_none() && filter.is_none() {
            self.values.each(of_groups, total, self.start, fold);
            self.seen.add_all(rows);
            return Ok(());
        }
        let seen = self.seen.begin(known, total);
        let counts = |row| nulls.is_none_or(|nulls| nulls.is_valid(row)) && passes(filter, row);
        let counted = rows.range.clone().zip(of_groups).filter(|(row, _)| counts(*row));
        let items = counted.map(|(_, (group, value))| (group, (group, value)));
        self.values.each(items, total, self.start, |kept, (group, value)| {
            fold(kept, value);
            seen[group] = true;
        });
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        self.update(states, None, rows)
    }

    fn snapshot(&mut self) -> Option<Vec<Vec<ArrayRef>>> {
        // Whoever changes what is seen of a group writes to its value, too.
        let (seen, result) = (&self.seen, &self.result);
        let pieces = self.values.hand_out(|values, first| {
            let nulls = seen.nulls(first..first + values.len());
            Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(result.clone()))
        });
        Some(pieces.into_iter().map(|piece| vec![piece]).collect())
    }

    // A MIN that holds an infinity lies beyond what it begins with.
    fn restore(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        let array = states[0].as_primitive::<T>();
        let value = |row| if array.is_valid(row) { array.value(row) } else { self.start };
        self.values = rows.range.clone().map(value).collect::<Vec<_>>().into();
        let seen = || rows.range.clone().map(|row| array.is_valid(row)).collect();
        self.seen = Seen((array.null_count() > 0).then(seen));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        let array = PrimitiveArray::<T>::new(self.values.take().into(), self.seen.take());
        Ok(Arc::new(array.with_data_type(self.result.clone())))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.values.bytes() + self.seen.bytes()
    }
}

impl<T, F> ByGroup for Fold<T, F>
where
    T: ArrowPrimitiveType + Send,
    F: Fn(&mut T::Native, T::Native) + Send,
{
    fn join(&mut self, into: usize, from: usize) -> Result<()> {
        if self.seen.has(from) {
            let value = self.values.get(from);
            (self.fold)(self.values.slot(into), value);
            self.seen.add(into);
        }
        Ok(())
    }

    fn results(&mut self, groups: &[usize], _are_kept: bool) -> Result<ArrayRef> {
        let values = groups.iter().map(|&group| self.values.get(group)).collect::<Vec<_>>();
        let array = PrimitiveArray::<T>::new(values.into(), self.seen.of(groups));
        Ok(Arc::new(array.with_data_type(self.result.clone())))
    }

    fn states(&mut self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.results(groups, true)?])
    }

    fn clear(&mut self, group: usize) -> Result<()> {
        *self.values.slot(group) = self.start;
        self.seen.forget(group, self.values.len());
        Ok(())
    }
}

/// COUNT: of rows, where it has no argument or a constant one.
struct Count(Values<i64>);

impl Accumulate for Count {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let nulls = arguments.first().and_then(|array| array.logical_nulls());
        if nulls.is_none() && filter.is_none() {
            let groups = rows.groups.iter().map(|&group| (group, ()));
            self.0.each(groups, rows.total, 0, |count, ()| *count += 1);
            return Ok(());
        }
        let counts = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) && passes(filter, row);
        let of_rows = rows.groups.iter().copied().zip(rows.range.clone());
        self.0.each(of_rows, rows.total, 0, |count, row| *count += i64::from(counts(row)));
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        let added = &states[0].as_primitive::<Int64Type>().values()[rows.range.clone()];
        let of_groups = rows.groups.iter().copied().zip(added);
        self.0.each(of_groups, rows.total, 0, |count, more| *count += more);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate()?])
    }

    fn snapshot(&mut self) -> Option<Vec<Vec<ArrayRef>>> {
        let pieces = self.0.hand_out(|counts, _| Arc::new(Int64Array::new(counts, None)));
        Some(pieces.into_iter().map(|piece| vec![piece]).collect())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(self.0.take())))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.0.bytes()
    }
}

impl ByGroup for Count {
    fn join(&mut self, into: usize, from: usize) -> Result<()> {
        let more = self.0.get(from);
        *self.0.slot(into) += more;
        Ok(())
    }

    fn results(&mut self, groups: &[usize], _are_kept: bool) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values(groups.iter().map(|&group| self.0.get(group)))))
    }

    fn states(&mut self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.results(groups, true)?])
    }

    fn clear(&mut self, group: usize) -> Result<()> {
        *self.0.slot(group) = 0;
        Ok(())
    }
}

/// AVG of DOUBLE. A group without values is NULL.
struct Mean {
    sums: Values<f64>,
    counts: Values<u64>,
    /// Some may be without values. Each has a row; only one that does not count leaves it so.
    has_empty: bool,
}

impl Mean {
    /// Adds counts and sums to groups.
    fn add(&mut self, more: impl Iterator<Item = (usize, (u64, f64))> + Clone, total: usize) {
        self.sums.each(more.clone(), total, 0.0, |kept, (_, sum)| *kept += sum);
        self.counts.each(more, total, 0, |kept, (count, _)| *kept += count);
    }

    /// Of its values, if it has any.
    fn count(&self, group: usize) -> Option<u64> {
        Some(self.counts.get(group)).filter(|count| *count > 0)
    }
}

/// Groups that have none.
fn nulls_of(counts: &[u64]) -> Option<NullBuffer> {
    let is_empty = |count: &u64| *count == 0;
    counts.iter().any(is_empty).then(|| counts.iter().map(|count| !is_empty(count)).collect())
}

impl Accumulate for Mean {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let array = arguments[0].as_primitive::<Float64Type>();
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let added = &array.values()[rows.range.clone()];
        let of_groups = rows.groups.iter().copied().zip(added.iter().copied());
        if nulls.is_none() && filter.is_none() {
            self.add(of_groups.map(|(group, value)| (group, (1, value))), rows.total);
            return Ok(());
        }
        self.has_empty = true;
        let counts = |row| nulls.is_none_or(|nulls| nulls.is_valid(row)) && passes(filter, row);
        let counted = rows.range.clone().zip(of_groups).filter(|(row, _)| counts(*row));
        self.add(counted.map(|(_, (group, value))| (group, (1, value))), rows.total);
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        let more_counts = &states[0].as_primitive::<UInt64Type>().values()[rows.range.clone()];
        let more_sums = &states[1].as_primitive::<Float64Type>().values()[rows.range.clone()];
        self.has_empty = true;
        let more = more_counts.iter().copied().zip(more_sums.iter().copied());
        self.add(rows.groups.iter().copied().zip(more).filter(|(_, (count, _))| *count > 0), rows.total);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        let counts = self.counts.take();
        let nulls = nulls_of(&counts);
        let counts = UInt64Array::new(counts.into(), nulls.clone());
        let sums = Float64Array::new(self.sums.take().into(), nulls);
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    fn snapshot(&mut self) -> Option<Vec<Vec<ArrayRef>>> {
        let has_empty = self.has_empty;
        let counts = self.counts.hand_out(|counts, _| {
            let nulls = if has_empty { nulls_of(&counts) } else { None };
            Arc::new(UInt64Array::new(counts, nulls))
        });
        // Both are as many, of as many bytes, and so in the same pieces; and they are written to together.
        let nulls: Vec<_> = counts.iter().map(|counts| counts.nulls().cloned()).collect();
        let of_piece = |first: usize| nulls.get(first / CHUNK).cloned().flatten();
        let sums = self.sums.hand_out(|sums, first| Arc::new(Float64Array::new(sums, of_piece(first))));
        Some(counts.into_iter().zip(sums).map(|(counts, sums)| vec![counts, sums]).collect())
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        let (sums, counts) = (self.sums.take(), self.counts.take());
        let nulls = nulls_of(&counts);
        let means: Vec<f64> = sums.into_iter().zip(counts).map(|(sum, count)| sum / count as f64).collect();
        Ok(Arc::new(Float64Array::new(means.into(), nulls)))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.sums.bytes() + self.counts.bytes()
    }
}

impl ByGroup for Mean {
    fn join(&mut self, into: usize, from: usize) -> Result<()> {
        let (count, sum) = (self.counts.get(from), self.sums.get(from));
        if count > 0 {
            *self.sums.slot(into) += sum;
            *self.counts.slot(into) += count;
        }
        Ok(())
    }

    fn results(&mut self, groups: &[usize], _are_kept: bool) -> Result<ArrayRef> {
        let mean = |&group: &usize| self.count(group).map(|count| self.sums.get(group) / count as f64);
        Ok(Arc::new(groups.iter().map(mean).collect::<Float64Array>()))
    }

    fn states(&mut self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let counts = groups.iter().map(|&group| self.count(group));
        let sums = groups.iter().map(|&group| self.count(group).map(|_| self.sums.get(group)));
        Ok(vec![Arc::new(counts.collect::<UInt64Array>()), Arc::new(sums.collect::<Float64Array>())])
    }

    fn clear(&mut self, group: usize) -> Result<()> {
        (*self.sums.slot(group), *self.counts.slot(group)) = (0.0, 0);
        self.has_empty = true;
        Ok(())
    }
}

/// Which groups have a value. `None`: all of them.
struct Seen(Option<Vec<bool>>);

impl Seen {
    /// All these rows have one.
    fn add_all(&mut self, rows: &Rows<'_>) {
        if let Some(seen) = &mut self.0 {
            seen.resize(rows.total, false);
            rows.groups.iter().for_each(|&group| seen[group] = true);
        }
    }

    /// To be told which have one; `known` groups were there before.
    fn begin(&mut self, known: usize, total: usize) -> &mut [bool] {
        let seen = self.0.get_or_insert_with(|| vec![true; known]);
        seen.resize(total, false);
        seen
    }

    fn has(&self, group: usize) -> bool {
        self.0.as_ref().is_none_or(|seen| seen[group])
    }

    fn add(&mut self, group: usize) {
        self.0.iter_mut().for_each(|seen| seen[group] = true);
    }

    /// That one has none any more, of so many.
    fn forget(&mut self, group: usize, groups: usize) {
        self.begin(groups, groups)[group] = false;
    }

    fn of(&self, groups: &[usize]) -> Option<NullBuffer> {
        let seen = self.0.as_ref()?;
        groups.iter().any(|&group| !seen[group]).then(|| groups.iter().map(|&group| seen[group]).collect())
    }

    /// Of some groups.
    fn nulls(&self, groups: Range<usize>) -> Option<NullBuffer> {
        Some(NullBuffer::from(&self.0.as_ref()?[groups]))
    }

    fn take(&mut self) -> Option<NullBuffer> {
        self.0.take().map(NullBuffer::from)
    }

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::capacity)
    }
}
