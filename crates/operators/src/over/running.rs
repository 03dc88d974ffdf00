//! Aggregates over frames: our own, by key.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array, Int64Array,
    PrimitiveArray, UInt64Array,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Schema, TimeUnit, TimestampMillisecondType, UInt64Type,
};
use datafusion_common::Result;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::ends::{End, Ends};
use super::frames::{ByKey, Steps};
use super::numbered::{self, Numbered};
use crate::state::lists;

/// What an aggregate held, whose columns are made later.
/// A row for each of these keys, as far as there are so many.
pub(super) type HandedColumns = Box<dyn Fn(Range<usize>) -> Vec<ArrayRef> + Send + Sync>;

/// One aggregate over the frames of all keys.
pub(super) trait Running: Send {
    /// For each row: leaves out what does not count any more, takes the row in, and gives the value then.
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef>;

    /// Leaves these keys only, numbered anew.
    fn keep(&mut self, kept: &[u32]);

    /// What it holds of so many keys now, each in a row: the same number and types of columns each time.
    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns>;

    /// Which of these columns are of lists with an item for each row of a bounded frame.
    fn rows_in(&self, columns: usize) -> Range<usize>;

    /// Takes over some keys more of what another has saved, before any row.
    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()>;

    fn bytes(&self) -> usize;
}

/// What the planner names FIRST_VALUE and LAST_VALUE that have OVER.
pub(super) const FIRST_OVER: &str = "flink_first_value";
pub(super) const LAST_OVER: &str = "flink_last_value";

/// Our own for FIRST_VALUE and LAST_VALUE, and for COUNT, SUM, AVG, MIN and MAX of the types that SQL sends here; `None` for all
/// others.
pub(super) fn own(expr: &AggregateFunctionExpr, input: &Schema) -> Result<Option<Box<dyn Running>>> {
    let arguments = expr.expressions();
    let [argument] = arguments.as_slice() else { return Ok(None) };
    if expr.is_distinct() || !expr.order_bys().is_empty() {
        return Ok(None);
    }
    let given = argument.data_type(input)?;
    let result = expr.field().data_type().clone();
    Ok(match (expr.fun().name(), &given, &result) {
        (FIRST_OVER, ..) => Some(Ends::boxed(End::First, &result)),
        (LAST_OVER, ..) => Some(Ends::boxed(End::Last, &result)),
        ("count", _, DataType::Int64) => Some(Box::new(Count::default())),
        ("avg", DataType::Float64, DataType::Float64) => Some(Box::new(Mean(Sums::default()))),
        ("sum", DataType::Int64, DataType::Int64) => Some(Sum::<Int64Type>::boxed(&result)),
        ("sum", DataType::Float64, DataType::Float64) => Some(Sum::<Float64Type>::boxed(&result)),
        ("sum", DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if from == to => {
            Some(Sum::<Decimal128Type>::boxed(&result))
        }
        ("min", given, result) if given == result => extreme(result, Ordering::Less),
        ("max", given, result) if given == result => extreme(result, Ordering::Greater),
        _ => None,
    })
}

/// The items of all lists, and where those of each are. An array for each list would cost more than what is in it.
pub(super) fn items(lists: &ArrayRef) -> (&ArrayRef, impl Iterator<Item = Range<usize>>) {
    let lists = lists.as_list::<i32>();
    (lists.values(), lists.value_offsets().windows(2).map(|of| of[0] as usize..of[1] as usize))
}

/// COUNT of rows or of values.
#[derive(Default)]
struct Count {
    by_key: ByKey<Counted>,
    entries: usize,
}

#[derive(Clone, Default)]
struct Counted {
    count: i64,
    /// Of a bounded frame, whether each row counts.
    rows: VecDeque<bool>,
}

impl Running for Count {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        self.by_key.grow_with(steps.key_count, Counted::default);
        let nulls = arguments[0].logical_nulls();
        let mut counts = Vec::with_capacity(steps.keys.len());
        for (row, &key) in steps.keys.iter().enumerate() {
            let of_key = self.by_key.get_mut(key as usize);
            let counts_now = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            if let Some(expired) = &steps.expired {
                for was_counted in of_key.rows.drain(..expired[row] as usize) {
                    of_key.count -= i64::from(was_counted);
                }
                of_key.rows.push_back(counts_now);
                self.entries = self.entries + 1 - expired[row] as usize;
            }
            of_key.count += i64::from(counts_now);
            counts.push(of_key.count);
        }
        Ok(Arc::new(Int64Array::from(counts)))
    }

    fn keep(&mut self, kept: &[u32]) {
        self.by_key.keep(kept);
        self.entries = self.by_key.iter().map(|of_key| of_key.rows.len()).sum();
    }

    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns> {
        self.by_key.grow_with(keys, Counted::default);
        let handed = self.by_key.hand_out();
        Ok(Box::new(move |keys| {
            let some = || handed.range(keys.clone());
            let rows = some().flat_map(|of_key| &of_key.rows).map(|&is_counted| Some(is_counted));
            vec![
                Arc::new(Int64Array::from_iter_values(some().map(|of_key| of_key.count))),
                lists(some().map(|of_key| of_key.rows.len()), Arc::new(rows.collect::<BooleanArray>())),
            ]
        }))
    }

    fn rows_in(&self, _columns: usize) -> Range<usize> {
        1..2
    }

    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let counts = columns[0].as_primitive::<Int64Type>().values().iter();
        let (rows, of_each) = items(&columns[1]);
        let rows = rows.as_boolean();
        self.entries += rows.len();
        self.by_key.extend(counts.zip(of_each).map(|(&count, of_key)| {
            let rows = of_key.map(|row| rows.is_valid(row) && rows.value(row));
            Counted { count, rows: rows.collect() }
        }));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.by_key.bytes() + 2 * self.entries
    }
}

/// Sums with what they are made of. As in Flink a value that leaves the frame is subtracted, so that a sum of floats may
/// keep an error, and a NaN or an infinity stays.
#[derive(Default)]
struct Sums<N> {
    by_key: ByKey<Summed<N>>,
    entries: usize,
}

#[derive(Clone, Default)]
struct Summed<N> {
    sum: N,
    count: u64,
    /// Of a bounded frame, the value of each row.
    values: VecDeque<Option<N>>,
}

impl<N: ArrowNativeTypeOp> Sums<N> {
    fn run<T: ArrowPrimitiveType<Native = N>>(
        &mut self,
        argument: &ArrayRef,
        steps: &Steps,
        mut put: impl FnMut(N, u64),
    ) {
        self.by_key.grow_with(steps.key_count, Summed::default);
        let array = argument.as_primitive::<T>();
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, (&key, &value)) in steps.keys.iter().zip(array.values()).enumerate() {
            let of_key = self.by_key.get_mut(key as usize);
            let value = nulls.is_none_or(|nulls| nulls.is_valid(row)).then_some(value);
            if let Some(expired) = &steps.expired {
                for old in of_key.values.drain(..expired[row] as usize).flatten() {
                    of_key.sum = of_key.sum.sub_wrapping(old);
                    of_key.count -= 1;
                }
                of_key.values.push_back(value);
                self.entries = self.entries + 1 - expired[row] as usize;
            }
            if let Some(value) = value {
                of_key.sum = of_key.sum.add_wrapping(value);
                of_key.count += 1;
            }
            put(of_key.sum, of_key.count);
        }
    }

    fn keep(&mut self, kept: &[u32]) {
        self.by_key.keep(kept);
        self.entries = self.by_key.iter().map(|of_key| of_key.values.len()).sum();
    }

    fn hand_out<T: ArrowPrimitiveType<Native = N>>(&mut self, keys: usize, of: &DataType) -> HandedColumns {
        self.by_key.grow_with(keys, Summed::default);
        let (handed, of) = (self.by_key.hand_out(), of.clone());
        Box::new(move |keys| {
            let some = || handed.range(keys.clone());
            let sums = PrimitiveArray::<T>::from_iter_values(some().map(|of_key| of_key.sum));
            let counts = UInt64Array::from_iter_values(some().map(|of_key| of_key.count));
            let values = some().flat_map(|of_key| of_key.values.iter().copied());
            let values = values.collect::<PrimitiveArray<T>>().with_data_type(of.clone());
            let lengths = some().map(|of_key| of_key.values.len());
            let sums = sums.with_data_type(of.clone());
            vec![Arc::new(sums), Arc::new(counts), lists(lengths, Arc::new(values))]
        })
    }

    fn restore<T: ArrowPrimitiveType<Native = N>>(&mut self, columns: &[ArrayRef]) {
        let sums = columns[0].as_primitive::<T>().values().iter();
        let counts = columns[1].as_primitive::<UInt64Type>().values().iter();
        let (values, of_each) = items(&columns[2]);
        let values = values.as_primitive::<T>();
        self.entries += values.len();
        self.by_key.extend(sums.zip(counts).zip(of_each).map(|((&sum, &count), of_key)| {
            let values = of_key.map(|row| values.is_valid(row).then(|| values.value(row)));
            Summed { sum, count, values: values.collect() }
        }));
    }

    fn bytes(&self) -> usize {
        self.by_key.bytes() + 2 * self.entries * size_of::<Option<N>>()
    }
}

/// SUM. NULL where no value counts.
struct Sum<T: ArrowPrimitiveType> {
    result: DataType,
    sums: Sums<T::Native>,
}

impl<T: ArrowPrimitiveType + Send> Sum<T> {
    fn boxed(result: &DataType) -> Box<dyn Running> {
        Box::new(Sum::<T> { result: result.clone(), sums: Sums::default() })
    }
}

impl<T: ArrowPrimitiveType + Send> Running for Sum<T> {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        let mut results = PrimitiveArray::<T>::builder(steps.keys.len()).with_data_type(self.result.clone());
        self.sums
            .run::<T>(&arguments[0], steps, |sum, count| results.append_option((count > 0).then_some(sum)));
        Ok(Arc::new(results.finish()))
    }

    fn keep(&mut self, kept: &[u32]) {
        self.sums.keep(kept);
    }

    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns> {
        Ok(self.sums.hand_out::<T>(keys, &self.result))
    }

    fn rows_in(&self, _columns: usize) -> Range<usize> {
        2..3
    }

    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.sums.restore::<T>(columns);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.sums.bytes()
    }
}

/// AVG of DOUBLE.
struct Mean(Sums<f64>);

impl Running for Mean {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        let mut results = Float64Array::builder(steps.keys.len());
        self.0.run::<Float64Type>(&arguments[0], steps, |sum, count| {
            results.append_option((count > 0).then(|| sum / count as f64));
        });
        Ok(Arc::new(results.finish()))
    }

    fn keep(&mut self, kept: &[u32]) {
        self.0.keep(kept);
    }

    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns> {
        Ok(self.0.hand_out::<Float64Type>(keys, &DataType::Float64))
    }

    fn rows_in(&self, _columns: usize) -> Range<usize> {
        2..3
    }

    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.0.restore::<Float64Type>(columns);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// MIN and MAX. NULL where no value counts; a NaN is the largest.
struct Extreme<T: ArrowPrimitiveType> {
    result: DataType,
    /// How the value wanted compares with others.
    wanted: Ordering,
    /// Of each key values that are each better than those behind them; of an unbounded frame the best alone.
    by_key: ByKey<Numbered<T::Native>>,
    entries: usize,
    of: PhantomData<T>,
}

fn extreme(result: &DataType, wanted: Ordering) -> Option<Box<dyn Running>> {
    macro_rules! of {
        ($type:ty) => {
            Some(Box::new(Extreme::<$type> {
                result: result.clone(),
                wanted,
                by_key: ByKey::default(),
                entries: 0,
                of: PhantomData,
            }))
        };
    }
    match result {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::Float32 => of!(Float32Type),
        DataType::Float64 => of!(Float64Type),
        DataType::Date32 => of!(Date32Type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType),
        DataType::Decimal128(..) => of!(Decimal128Type),
        _ => None,
    }
}

impl<T: ArrowPrimitiveType + Send> Running for Extreme<T> {
    fn run(&mut self, arguments: &[ArrayRef], steps: &Steps) -> Result<ArrayRef> {
        self.by_key.grow_with(steps.key_count, Numbered::default);
        let array = arguments[0].as_primitive::<T>();
        let mut results = PrimitiveArray::<T>::builder(steps.keys.len()).with_data_type(self.result.clone());
        for (row, &key) in steps.keys.iter().enumerate() {
            let of_key = self.by_key.get_mut(key as usize);
            let before = of_key.values.len();
            if let Some(expired) = &steps.expired {
                of_key.expire(expired[row], drop);
            }
            if array.is_valid(row) {
                let value = array.value(row);
                let is_better = |other: &T::Native| value.compare(*other) == self.wanted;
                match steps.expired {
                    Some(_) => {
                        // Of equal values the newer one counts for longer.
                        while of_key
                            .values
                            .back()
                            .is_some_and(|(_, last)| is_better(last) || value.is_eq(*last))
                        {
                            of_key.values.pop_back();
                        }
                        of_key.values.push_back((of_key.came, value));
                    }
                    None if of_key.values.front().is_none_or(|(_, best)| is_better(best)) => {
                        of_key.values.clear();
                        of_key.values.push_back((of_key.came, value));
                    }
                    None => {}
                }
            }
            of_key.came += 1;
            self.entries = self.entries + of_key.values.len() - before;
            results.append_option(of_key.values.front().map(|(_, value)| *value));
        }
        Ok(Arc::new(results.finish()))
    }

    fn keep(&mut self, kept: &[u32]) {
        self.by_key.keep(kept);
        self.entries = self.by_key.iter().map(|of_key| of_key.values.len()).sum();
    }

    fn hand_out(&mut self, keys: usize) -> Result<HandedColumns> {
        let result = self.result.clone();
        Ok(numbered::hand_out(&mut self.by_key, keys, move |values| {
            Arc::new(PrimitiveArray::<T>::from_iter_values(values.copied()).with_data_type(result.clone()))
        }))
    }

    fn rows_in(&self, _columns: usize) -> Range<usize> {
        0..0
    }

    fn restore(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let keys = numbered::restored(columns, |values, at| Ok(values.as_primitive::<T>().value(at)))?;
        self.entries += keys.iter().map(|of_key| of_key.values.len()).sum::<usize>();
        self.by_key.extend(keys);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let entry = size_of::<(u64, T::Native)>();
        self.by_key.bytes() + 2 * self.entries * entry
    }
}
