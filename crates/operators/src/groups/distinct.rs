//! COUNT of distinct values, whose state may be large: it can be handed out without a copy.

use std::borrow::Cow;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Field, Int8Type, Int16Type, Int32Type, Int64Type, Schema, TimeUnit,
    TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion_common::Result;
use datafusion_common::hash_utils::RandomState;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use hashbrown::HashSet;

use super::accumulate::{Accumulate, LaterColumns, Rows, passes};
use super::fold::is_count;
use crate::chunked::Chunked;
use crate::join_keys::{KeyEncoder, KeyTable};
use crate::state::lists;

/// COUNT(DISTINCT …) of one argument. `None`: the library's is taken.
pub(super) fn own(expr: &AggregateFunctionExpr, input: &Schema) -> Option<DataType> {
    let arguments = expr.expressions();
    let [argument] = arguments.as_slice() else { return None };
    if !is_count(expr) || !expr.is_distinct() || !expr.order_bys().is_empty() {
        return None;
    }
    let given = argument.data_type(input).ok()?;
    let is_known = given.is_primitive() || matches!(given, DataType::Utf8 | DataType::Boolean);
    is_known.then_some(given)
}

/// Of values of that type. `is_noted`: it will be handed out now and then.
pub(super) fn make(values: &DataType, is_noted: bool) -> Result<Box<dyn Accumulate>> {
    macro_rules! of {
        ($type:ty) => {
            Ok(Distinct::boxed(AsTheyAre::<$type>(values.clone(), PhantomData), is_noted))
        };
    }
    match values {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => of!(UInt64Type),
        DataType::Date32 => of!(Date32Type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType),
        _ => {
            let schema = Schema::new(vec![Field::new("value", values.clone(), true)]);
            let encoder = KeyEncoder::new(&schema, &[0])?;
            Ok(Distinct::boxed(Numbered { encoder, values: KeyTable::default() }, is_noted))
        }
    }
}

/// What stands for a value.
trait Tokens: Send {
    type Token: Copy + Default + Eq + Hash + Send + Sync + 'static;

    /// For the values in a range of places. What it is of one that does not count is open.
    fn of<'a>(
        &mut self,
        array: &'a ArrayRef,
        range: Range<usize>,
        counts: impl Fn(usize) -> bool,
    ) -> Result<Cow<'a, [Self::Token]>>;

    /// How they are turned back into values, by whoever wants that later.
    fn values(&self) -> Box<dyn FnOnce(Vec<Self::Token>) -> Result<ArrayRef> + Send>;

    fn bytes(&self) -> usize;
}

/// Values of a few bytes, of that type.
struct AsTheyAre<T>(DataType, PhantomData<T>);

impl<T> Tokens for AsTheyAre<T>
where
    T: ArrowPrimitiveType + Send,
    T::Native: Eq + Hash,
{
    type Token = T::Native;

    fn of<'a>(
        &mut self,
        array: &'a ArrayRef,
        range: Range<usize>,
        _counts: impl Fn(usize) -> bool,
    ) -> Result<Cow<'a, [T::Native]>> {
        Ok(Cow::Borrowed(&array.as_primitive::<T>().values()[range]))
    }

    fn values(&self) -> Box<dyn FnOnce(Vec<T::Native>) -> Result<ArrayRef> + Send> {
        let of = self.0.clone();
        Box::new(|values| Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(of))))
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Any values, numbered.
struct Numbered {
    encoder: KeyEncoder,
    values: KeyTable,
}

impl Tokens for Numbered {
    type Token = u32;

    fn of<'a>(
        &mut self,
        array: &'a ArrayRef,
        range: Range<usize>,
        counts: impl Fn(usize) -> bool,
    ) -> Result<Cow<'a, [u32]>> {
        let encoded = self.encoder.encode_keys(&[array.slice(range.start, range.len())])?;
        let number =
            |(row, place)| if counts(place) { self.values.intern(&encoded, row) } else { u32::default() };
        Ok(Cow::Owned(range.enumerate().map(number).collect()))
    }

    fn values(&self) -> Box<dyn FnOnce(Vec<u32>) -> Result<ArrayRef> + Send> {
        let handed = self.encoder.hand_out(&self.values);
        Box::new(move |numbers| Ok(handed.decode(numbers.into_iter())?.remove(0)))
    }

    fn bytes(&self) -> usize {
        self.values.size_bytes()
    }
}

struct Distinct<T: Tokens> {
    tokens: T,
    seen: HashSet<Pair<T::Token>, RandomState>,
    counts: Vec<i64>,
    /// The pairs in the order in which they came. `None` as long as nobody has asked for them.
    log: Option<Log<T::Token>>,
}

/// What is written to for each value.
struct Seen<'a, Token> {
    pairs: &'a mut HashSet<Pair<Token>, RandomState>,
    counts: &'a mut [i64],
    log: Option<&'a mut Log<Token>>,
}

/// A group, and what came to it.
type Pair<Token> = (u32, Token);

type Log<Token> = Chunked<Pair<Token>, { if cfg!(test) { 4 } else { 4_096 } }>;

impl<T: Tokens + 'static> Distinct<T> {
    fn boxed(tokens: T, is_noted: bool) -> Box<dyn Accumulate> {
        let log = is_noted.then(Log::default);
        Box::new(Distinct { tokens, seen: HashSet::default(), counts: Vec::new(), log })
    }
}

impl<Token: Copy + Eq + Hash> Seen<'_, Token> {
    /// In loops of few instructions: each waits for memory, and the processor looks ahead.
    #[inline(always)]
    fn add(&mut self, group: usize, token: Token) {
        let pair = (group as u32, token);
        if self.pairs.insert(pair) {
            self.counts[group] += 1;
            if let Some(log) = &mut self.log {
                log.push(pair);
            }
        }
    }
}

impl<T: Tokens + 'static> Accumulate for Distinct<T> {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let array = &arguments[0];
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let counts = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) && passes(filter, row);
        let tokens = self.tokens.of(array, rows.range.clone(), counts)?;
        self.counts.resize(rows.total, 0);
        let mut seen = Seen { pairs: &mut self.seen, counts: &mut self.counts, log: self.log.as_mut() };
        let of_groups = rows.groups.iter().zip(&*tokens);
        if nulls.is_none() && filter.is_none() {
            of_groups.for_each(|(&group, &token)| seen.add(group, token));
            return Ok(());
        }
        for (row, (&group, &token)) in rows.range.clone().zip(of_groups) {
            if counts(row) {
                seen.add(group, token);
            }
        }
        Ok(())
    }

    /// Lists have no NULLs: see [`state`](Distinct::state).
    fn merge(&mut self, states: &[ArrayRef], rows: &Rows<'_>) -> Result<()> {
        let state = states[0].as_list::<i32>();
        let offsets = &state.value_offsets()[rows.range.start..=rows.range.end];
        let (first, last) = (offsets[0] as usize, offsets[rows.range.len()] as usize);
        let tokens = self.tokens.of(state.values(), first..last, |_| true)?;
        self.counts.resize(rows.total, 0);
        let mut seen = Seen { pairs: &mut self.seen, counts: &mut self.counts, log: self.log.as_mut() };
        for (&group, ends) in rows.groups.iter().zip(offsets.windows(2)) {
            for &token in &tokens[ends[0] as usize - first..ends[1] as usize - first] {
                seen.add(group, token);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>> {
        self.log = self.log.as_ref().map(|_| Log::default());
        let lengths = std::mem::take(&mut self.counts).into_iter().map(|count| count as usize).collect();
        Ok(vec![lists_of(self.seen.drain(), lengths, self.tokens.values())?])
    }

    fn hand_out(&mut self, groups: usize) -> Option<LaterColumns> {
        let seen = &self.seen;
        let handed = self.log.get_or_insert_with(|| seen.iter().copied().collect()).hand_out();
        let values = self.tokens.values();
        Some(Box::new(move || {
            let mut lengths = vec![0; groups];
            handed.iter().for_each(|(group, _)| lengths[*group as usize] += 1);
            Ok(vec![lists_of(handed.iter().copied(), lengths, values)?])
        }))
    }

    fn evaluate(&mut self) -> Result<ArrayRef> {
        self.seen.clear();
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.counts))))
    }

    fn bytes(&self) -> usize {
        let log = self.log.as_ref().map_or(0, Chunked::bytes);
        size_of::<Self>()
            + self.seen.allocation_size()
            + self.counts.capacity() * size_of::<i64>()
            + self.tokens.bytes()
            + log
    }
}

/// A list of what came to each group, `lengths` by group.
fn lists_of<Token: Copy + Default>(
    pairs: impl Iterator<Item = Pair<Token>>,
    lengths: Vec<usize>,
    values: impl FnOnce(Vec<Token>) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let mut places: Vec<usize> = Vec::with_capacity(lengths.len());
    let mut total = 0;
    for length in &lengths {
        places.push(total);
        total += length;
    }
    let mut sorted = vec![Token::default(); total];
    for (group, token) in pairs {
        let place = &mut places[group as usize];
        sorted[*place] = token;
        *place += 1;
    }
    Ok(lists(lengths.into_iter(), values(sorted)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::{Float64Array, StringArray};
    use arrow::datatypes::Int64Type as Counts;
    use proptest::prelude::*;

    use super::*;

    const GROUPS: usize = 5;

    /// Group, value, whether the filter passes.
    type Row = (usize, Option<i64>, bool);

    fn array(of: &DataType, values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        match of {
            DataType::Int64 => Arc::new(values.collect::<Int64Array>()),
            DataType::Float64 => {
                Arc::new(values.map(|value| Some(value? as f64 / 3.0)).collect::<Float64Array>())
            }
            _ => Arc::new(values.map(|value| Some("é".repeat(value? as usize))).collect::<StringArray>()),
        }
    }

    fn counts(mut of: Box<dyn Accumulate>) -> Vec<i64> {
        of.evaluate().unwrap().as_primitive::<Counts>().values().to_vec()
    }

    /// Of all groups.
    fn restored(of: &DataType, states: &[ArrayRef]) -> Box<dyn Accumulate> {
        let mut accumulator = make(of, true).unwrap();
        let numbers: Vec<usize> = (0..GROUPS).collect();
        let rows = Rows { range: 0..GROUPS, groups: &numbers, total: GROUPS };
        accumulator.restore(states, &rows).unwrap();
        accumulator
    }

    proptest! {
        /// Against sets, from whatever it has handed out or told at any time.
        #[test]
        fn distinct_values_are_counted(
            of in prop::sample::select(vec![DataType::Int64, DataType::Float64, DataType::Utf8]),
            batches in prop::collection::vec(
                (
                    prop::collection::vec((0..GROUPS, prop::option::weighted(0.9, 0..9_i64), any::<bool>()), 1..20),
                    any::<bool>(),
                    0..4,
                ),
                1..8,
            ),
            is_noted: bool,
        ) {
            let mut accumulator = make(&of, is_noted).unwrap();
            let mut sets: Vec<BTreeSet<i64>> = vec![BTreeSet::new(); GROUPS];
            let told = |sets: &[BTreeSet<i64>]| sets.iter().map(|set| set.len() as i64).collect::<Vec<_>>();
            let mut handed = Vec::new();
            for (rows, is_filtered, then) in &batches {
                let rows: &[Row] = rows;
                // The first row is of another batch.
                let numbers: Vec<usize> = rows[1..].iter().map(|row| row.0).collect();
                let filter = is_filtered.then(|| rows.iter().map(|row| Some(row.2)).collect::<BooleanArray>());
                let range = Rows { range: 1..rows.len(), groups: &numbers, total: GROUPS };
                accumulator.update(&[array(&of, rows.iter().map(|row| row.1))], filter.as_ref(), &range).unwrap();
                for (group, value, passes) in &rows[1..] {
                    if !is_filtered || *passes {
                        sets[*group].extend(*value);
                    }
                }
                match then {
                    0 => {}
                    1 => handed.push((accumulator.hand_out(GROUPS).unwrap(), told(&sets))),
                    2 => {
                        let state = accumulator.state().unwrap();
                        accumulator = restored(&of, &state);
                    }
                    _ => {
                        // Two groups of others come to one.
                        let state = accumulator.state().unwrap();
                        let places = [0, 2, 2, 3, 4];
                        let rows = Rows { range: 0..GROUPS, groups: &places, total: GROUPS };
                        accumulator.merge(&state, &rows).unwrap();
                        let moved = std::mem::take(&mut sets[1]);
                        sets[2].extend(moved);
                    }
                }
            }
            for (later, then) in handed {
                prop_assert_eq!(counts(restored(&of, &later().unwrap())), then);
            }
            prop_assert_eq!(counts(accumulator), told(&sets));
        }
    }
}
