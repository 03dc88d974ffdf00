//! The column by which a sampler tells an [`Estimator`](crate::approximate::Estimator) what was taken.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Float64Type};
use arrow::error::ArrowError;

use crate::approximate::aion::Closed;
use crate::approximate::interval::Taken;
use crate::approximate::moments::Moments;
use crate::approximate::stratum::Stratum;

/// The column behind the input's: of the row's group in its sub-stream, how many rows came and were taken, and the moments of
/// their values. All rows of one have the same.
pub const SAMPLE_COLUMN: &str = "__sample";

/// Numbers of a stratum that do not depend on a value.
const OF_STRATUM: usize = 5;

/// Numbers of each value.
const OF_VALUE: usize = 7;

/// It, of so many values.
pub(super) fn field(values: usize) -> Field {
    Field::new(SAMPLE_COLUMN, DataType::Struct(fields(values)), false)
}

fn fields(values: usize) -> Fields {
    let names = ["taken", "seen", "total", "total_variance", "total_common"].map(String::from);
    let of_value = ["shift", "shift_deviation", "count", "mean", "m2", "m3", "m4"];
    let of_values = (0..values).flat_map(|value| of_value.map(|name| format!("{name}{value}")));
    let stratum = Field::new("stratum", DataType::Int64, false);
    let numbers = names.into_iter().chain(of_values).map(|name| Field::new(name, DataType::Float64, false));
    std::iter::once(stratum).chain(numbers).collect()
}

/// A row for each.
pub(super) fn column(closed: &[&Closed], values: usize) -> Result<ArrayRef, ArrowError> {
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
    for value in 0..values {
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
    Ok(Arc::new(StructArray::try_new(fields(values), columns, None)?))
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
        let numbers = columns[1..].iter().map(|column| column.as_primitive::<Float64Type>()).collect();
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

    #[test]
    fn what_is_written_is_read() {
        let moments = |values: &[f64]| values.iter().copied().collect::<Moments>();
        let closed = Closed {
            sub_stream: 7,
            group: 3,
            stratum: Stratum { seen: 8.0, total: 10.0, total_variance: 4.0, ..Stratum::whole(7, 3.0) },
            shifts: vec![(0.5, 0.25), (-1.0, 2.0)],
            values: vec![moments(&[1.0, 2.0, 6.0]), moments(&[4.0])],
        };
        let other = Closed { stratum: Stratum::whole(8, 1.0), ..closed.clone() };
        let column = column(&[&other, &closed], 2).unwrap();
        for value in [None, Some(0), Some(1)] {
            let read = Strata::of(&column, value).row(1);
            let taken = closed.taken(value);
            assert_eq!((read.stratum.id, read.stratum.total), (7, 10.0));
            assert_eq!((read.stratum.shift, read.values), (taken.stratum.shift, taken.values));
            assert_eq!(Strata::of(&column, value).row(0).stratum.id, 8);
        }
    }
}
