//! The column by which a sampler tells an [`Estimator`](crate::approximate::Estimator) what was taken.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Float64Array, Float64Builder, Int64Array, ListArray, ListBuilder,
    StructArray,
};
use arrow::datatypes::{DataType, Field, Fields, Float64Type};
use arrow::error::ArrowError;

use crate::approximate::aggregate::Aggregate;
use crate::approximate::closed::Closed;
use crate::approximate::distinct::{Distinct, Seen};
use crate::approximate::interval::Taken;
use crate::approximate::moments::Moments;
use crate::approximate::order_statistics::Sample;
use crate::approximate::stratum::Stratum;

/// The column behind the input's: of the row's group in its sub-stream, how many rows came and were taken, and the moments of
/// their values. All rows of one have the same; what is larger than some numbers, samples and sketches, is with the first of them.
pub const SAMPLE_COLUMN: &str = "__sample";

/// Numbers of a stratum that do not depend on a value.
const OF_STRATUM: usize = 5;

/// Numbers of each value.
const OF_VALUE: usize = 7;

/// What it holds.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Values with moments.
    values: usize,
    /// Those of which each that was taken is there.
    kept: Vec<usize>,
    /// Expressions whose distinct values are sketched.
    sketches: usize,
}

impl Shape {
    /// What these are computed of.
    pub(super) fn of(aggregates: &[Aggregate], values: usize) -> Shape {
        let mut kept: Vec<usize> = aggregates.iter().filter_map(Aggregate::kept_value).collect();
        kept.sort_unstable();
        kept.dedup();
        let sketches = aggregates.iter().filter_map(Aggregate::sketched).map(|which| which + 1).max();
        Shape { values, kept, sketches: sketches.unwrap_or(0) }
    }
}

/// It, of that shape.
pub(super) fn field(shape: &Shape) -> Field {
    Field::new(SAMPLE_COLUMN, DataType::Struct(fields(shape)), false)
}

fn sample_name(value: usize) -> String {
    format!("sample{value}")
}

fn sketch_name(which: usize) -> String {
    format!("distinct{which}")
}

fn fields(shape: &Shape) -> Fields {
    let names = ["taken", "seen", "total", "total_variance", "total_common"].map(String::from);
    let of_value = ["shift", "shift_deviation", "count", "mean", "m2", "m3", "m4"];
    let of_values = (0..shape.values).flat_map(|value| of_value.map(|name| format!("{name}{value}")));
    let stratum = Field::new("stratum", DataType::Int64, false);
    let numbers = names.into_iter().chain(of_values).map(|name| Field::new(name, DataType::Float64, false));
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
    let samples = shape.kept.iter().map(|&value| Field::new(sample_name(value), list.clone(), true));
    let sketches = (0..shape.sketches).map(|which| Field::new(sketch_name(which), DataType::Binary, true));
    std::iter::once(stratum).chain(numbers).chain(samples).chain(sketches).collect()
}

/// A row for each.
pub(super) fn column(closed: &[&Closed], shape: &Shape) -> Result<ArrayRef, ArrowError> {
    let numbers = |number: &dyn Fn(&Closed) -> f64| {
        Arc::new(Float64Array::from_iter_values(closed.iter().map(|closed| number(closed)))) as ArrayRef
    };
    let ids = closed.iter().map(|closed| closed.stratum.id);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids)),
        numbers(&|closed| closed.stratum.taken),
        numbers(&|closed| closed.stratum.seen),
        numbers(&|closed| closed.stratum.total),
        numbers(&|closed| closed.stratum.total_variance),
        numbers(&|closed| closed.stratum.total_common),
    ];
    for value in 0..shape.values {
        columns.extend([
            numbers(&|closed| closed.shifts[value].0),
            numbers(&|closed| closed.shifts[value].1),
            numbers(&|closed| closed.values[value].count),
            numbers(&|closed| closed.values[value].mean),
            numbers(&|closed| closed.values[value].m2),
            numbers(&|closed| closed.values[value].m3),
            numbers(&|closed| closed.values[value].m4),
        ]);
    }
    let mut met = HashSet::new();
    let is_first: Vec<bool> = closed.iter().map(|of| met.insert((of.stratum.id, of.group))).collect();
    let firsts = || closed.iter().zip(&is_first).map(|(closed, is_first)| is_first.then_some(*closed));
    for &value in &shape.kept {
        let mut samples = ListBuilder::new(Float64Builder::new());
        for closed in firsts() {
            let sample = closed.and_then(|closed| closed.kept.samples.get(value));
            samples.append_option(sample.map(|sample| sample.iter().map(|&value| Some(value))));
        }
        columns.push(Arc::new(samples.finish()));
    }
    for which in 0..shape.sketches {
        let bytes = firsts().map(|closed| Some(closed?.kept.distinct.get(which)?.to_bytes()));
        columns.push(Arc::new(bytes.collect::<BinaryArray>()));
    }
    Ok(Arc::new(StructArray::try_new(fields(shape), columns, None)?))
}

/// What was taken, value by value, as the column has it.
pub(crate) struct Samples<'a> {
    strata: Strata<'a>,
    lists: &'a ListArray,
}

impl<'a> Samples<'a> {
    /// Of one value. `None`: it is not kept.
    pub(crate) fn of(column: &'a ArrayRef, value: usize) -> Option<Samples<'a>> {
        let lists = column.as_struct().column_by_name(&sample_name(value))?.as_list_opt()?;
        Some(Samples { strata: Strata::of(column, Some(value)), lists })
    }

    /// Of the group and sub-stream of that row, if it is the one that has it.
    pub(crate) fn row(&self, row: usize) -> Option<Sample> {
        let is_there = self.lists.is_valid(row);
        is_there.then(|| {
            let values = self.lists.value(row);
            let values = Arc::new(values.as_primitive::<Float64Type>().values().to_vec());
            Sample { stratum: self.strata.row(row).stratum, values }
        })
    }
}

/// Distinct values, as the column has them.
pub(crate) struct Sketches<'a> {
    strata: Strata<'a>,
    bytes: &'a BinaryArray,
}

impl<'a> Sketches<'a> {
    /// Of one expression. `None`: it is not sketched.
    pub(crate) fn of(column: &'a ArrayRef, which: usize) -> Option<Sketches<'a>> {
        let bytes = column.as_struct().column_by_name(&sketch_name(which))?.as_binary_opt()?;
        Some(Sketches { strata: Strata::of(column, None), bytes })
    }

    /// Of the group and sub-stream of that row, if it is the one that has it.
    pub(crate) fn row(&self, row: usize) -> Option<Seen> {
        let distinct = self.bytes.is_valid(row).then(|| Distinct::of_bytes(self.bytes.value(row)))??;
        Some(Seen { stratum: self.strata.row(row).stratum, distinct: Arc::new(distinct) })
    }
}

/// What was taken, as the column has it.
pub(crate) struct Strata<'a> {
    ids: &'a Int64Array,
    numbers: Vec<&'a Float64Array>,
    /// Where the numbers of the value begin.
    value: Option<usize>,
}

impl<'a> Strata<'a> {
    /// Of one value, or of rows.
    pub(crate) fn of(column: &'a ArrayRef, value: Option<usize>) -> Strata<'a> {
        let columns = column.as_struct().columns();
        let numbers = columns[1..].iter().filter_map(|column| column.as_primitive_opt()).collect();
        let value = value.map(|value| OF_STRATUM + value * OF_VALUE);
        Strata { ids: columns[0].as_primitive(), numbers, value }
    }

    /// Of the group and sub-stream of that row.
    pub(crate) fn row(&self, row: usize) -> Taken {
        let number = |at: usize| self.numbers[at].value(row);
        let stratum = Stratum {
            id: self.ids.value(row),
            taken: number(0),
            seen: number(1),
            total: number(2),
            total_variance: number(3),
            total_common: number(4),
            shift: self.value.map_or((0.0, 0.0), |at| (number(at), number(at + 1))),
        };
        let rows = Moments { count: stratum.taken, ..Moments::default() };
        let values = self.value.map_or(rows, |at| Moments {
            count: number(at + 2),
            mean: number(at + 3),
            m2: number(at + 4),
            m3: number(at + 5),
            m4: number(at + 6),
        });
        Taken { stratum, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approximate::sample_size::Promise;
    use crate::approximate::sub_stream::Kept;

    #[test]
    fn what_is_written_is_read() {
        let moments = |values: &[f64]| values.iter().copied().collect::<Moments>();
        let mut distinct = Distinct::new(Promise { error: 0.05, confidence: 0.95 });
        distinct.insert(b"one");
        let closed = Closed {
            sub_stream: 7,
            group: 3,
            stratum: Stratum { seen: 8.0, total: 10.0, total_variance: 4.0, ..Stratum::whole(7, 3.0) },
            shifts: vec![(0.5, 0.25), (-1.0, 2.0)],
            values: vec![moments(&[1.0, 2.0, 6.0]), moments(&[4.0])],
            kept: Kept {
                samples: vec![Arc::default(), Arc::new(vec![4.0])],
                distinct: vec![Arc::new(distinct.clone())],
            },
        };
        let other = Closed { stratum: Stratum::whole(8, 1.0), ..closed.clone() };
        let aggregates = [Aggregate::Percentile { value: 1, share: 0.5 }, Aggregate::Distinct(0)];
        let column = column(&[&other, &closed, &closed], &Shape::of(&aggregates, 2)).unwrap();
        let samples = Samples::of(&column, 1).unwrap();
        assert_eq!(samples.row(1), Some(closed.sample(1)));
        let sketches = Sketches::of(&column, 0).unwrap();
        assert_eq!(*sketches.row(1).unwrap().distinct, distinct);
        // Once is enough.
        assert!(samples.row(2).is_none() && sketches.row(2).is_none());
        assert!(Samples::of(&column, 0).is_none() && Sketches::of(&column, 1).is_none());
        for value in [None, Some(0), Some(1)] {
            let read = Strata::of(&column, value).row(1);
            let taken = closed.taken(value);
            assert_eq!((read.stratum.id, read.stratum.total), (7, 10.0));
            assert_eq!((read.stratum.shift, read.values), (taken.stratum.shift, taken.values));
            assert_eq!(Strata::of(&column, value).row(0).stratum.id, 8);
        }
    }
}
