//! CAST of rows, arrays and maps: of what is in them, in rows by place. TRY_CAST is NULL as a whole where a part cannot be cast.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Result, internal_err};

use super::cast_column;
use crate::row_field::null_where;

pub(super) fn cast(values: &ArrayRef, to: &DataType, lenient: bool) -> Result<ArrayRef> {
    match (values.data_type(), to) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let rows = values.as_struct();
            let mut nulls = rows.nulls().cloned();
            let mut columns = Vec::with_capacity(fields.len());
            for (column, field) in rows.columns().iter().zip(fields) {
                // What lies in a row that is NULL is nothing to fail for.
                let column = match rows.nulls() {
                    Some(nulls) => null_where(column, nulls)?,
                    None => Arc::clone(column),
                };
                let (cast, castable) = part(&column, field, lenient)?;
                nulls = NullBuffer::union(nulls.as_ref(), castable.as_ref());
                columns.push(cast);
            }
            let rows = StructArray::try_new_with_length(fields.clone(), columns, nulls, rows.len())?;
            Ok(Arc::new(rows))
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = without_hidden(values)?;
            let lists = lists.as_list::<i32>();
            let (items, castable) = part(lists.values(), item, lenient)?;
            let nulls = all_castable(lists.nulls(), lists.offsets(), castable);
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), lists.offsets().clone(), items, nulls)?))
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let maps = without_hidden(values)?;
            let maps = maps.as_map();
            let given: ArrayRef = Arc::new(maps.entries().clone());
            let (mut cast, castable) = part(&given, entries, lenient)?;
            let mut offsets = maps.offsets().clone();
            let are_all_castable = castable.is_none();
            let nulls = all_castable(maps.nulls(), &offsets, castable);
            if let Some(nulls) = nulls.as_ref().filter(|_| !are_all_castable) {
                // A key must not be NULL, not even in a map that is.
                let ranges = offsets.windows(2).map(|range| range[0] as u32..range[1] as u32);
                let kept: Vec<_> =
                    ranges.zip(nulls).map(|(range, is_valid)| if is_valid { range } else { 0..0 }).collect();
                offsets = OffsetBuffer::from_lengths(kept.iter().map(ExactSizeIterator::len));
                cast = take(&cast, &UInt32Array::from_iter_values(kept.into_iter().flatten()), None)?;
            }
            let (fields, columns, _) = cast.as_struct().clone().into_parts();
            let cast = StructArray::try_new_with_length(fields, columns, None, cast.len())?;
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, cast, nulls, *sorted)?))
        }
        (from, to) => internal_err!("no cast from {from} to {to}"),
    }
}

/// What is in something else, and where it can be cast, if it is of those that may not be.
fn part(values: &ArrayRef, to: &FieldRef, lenient: bool) -> Result<(ArrayRef, Option<NullBuffer>)> {
    let cast = cast_column(values, to.data_type(), lenient)?;
    let may_fail = match (values.data_type(), to.data_type()) {
        (from, to) if from == to => false,
        (_, DataType::Utf8) => false,
        (from, _) => from.is_nested() || from.is_floating() || *from == DataType::Utf8,
    };
    let castable = (lenient && may_fail && cast.null_count() > values.null_count())
        .then(|| NullBuffer::from_iter((0..cast.len()).map(|at| cast.is_valid(at) || values.is_null(at))));
    Ok((cast, castable))
}

/// Arrays or maps with no items but their own, and none if they are NULL.
fn without_hidden(values: &ArrayRef) -> Result<ArrayRef> {
    let (offsets, items) = match values.as_map_opt() {
        Some(maps) => (maps.offsets(), maps.entries().len()),
        None => (values.as_list::<i32>().offsets(), values.as_list::<i32>().values().len()),
    };
    let has_items = |row: usize| offsets[row] < offsets[row + 1];
    let has_others = offsets[0] > 0 || items > offsets[values.len()] as usize;
    if !has_others && (0..values.len()).all(|row| values.is_valid(row) || !has_items(row)) {
        return Ok(Arc::clone(values));
    }
    Ok(take(values, &UInt32Array::from_iter_values(0..values.len() as u32), None)?)
}

/// NULL where it was, and where an item cannot be cast.
fn all_castable(
    nulls: Option<&NullBuffer>,
    offsets: &OffsetBuffer<i32>,
    castable: Option<NullBuffer>,
) -> Option<NullBuffer> {
    let whole = castable.map(|castable| {
        let each =
            offsets.windows(2).map(|range| (range[0]..range[1]).all(|at| castable.is_valid(at as usize)));
        NullBuffer::from_iter(each)
    });
    NullBuffer::union(nulls, whole.as_ref())
}
