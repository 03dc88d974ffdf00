//! ARRAY and MAP: constructors, `a[i]`, `m[k]`, CARDINALITY.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, MapArray, StructArray, UInt32Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion_common::{Result, exec_err};

use crate::{FlinkFunction, Parameter, pure};

/// `ARRAY[…]`.
pub const ARRAY: &str = "flink_array";
/// `MAP[key, value, …]`.
pub const MAP: &str = "flink_map";
/// `a[index]` of an array or map.
pub const ITEM: &str = "flink_item";

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    FlinkFunction {
        name: ARRAY,
        parameters: &[Parameter::Any],
        least: 1,
        most: usize::MAX,
        returns: |types| DataType::List(Arc::new(Field::new("item", types[0].clone(), true))),
        invoke: array,
        signature: pure,
    },
    FlinkFunction {
        name: MAP,
        parameters: &[Parameter::Any],
        least: 2,
        most: usize::MAX,
        returns: |types| map_type(&types[0], &types[1]),
        invoke: map,
        signature: pure,
    },
    FlinkFunction {
        name: ITEM,
        parameters: &[Parameter::Any],
        least: 2,
        most: 2,
        returns: |types| match &types[0] {
            DataType::List(item) => item.data_type().clone(),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => fields[1].data_type().clone(),
                _ => DataType::Null,
            },
            _ => DataType::Null,
        },
        invoke: item,
        signature: pure,
    },
    FlinkFunction {
        name: "cardinality",
        parameters: &[Parameter::Any],
        least: 1,
        most: 1,
        returns: |_| DataType::Int32,
        invoke: cardinality,
        signature: pure,
    },
];

/// The type of such a map.
pub fn map_type(key: &DataType, value: &DataType) -> DataType {
    let entries =
        Fields::from(vec![Field::new("keys", key.clone(), false), Field::new("values", value.clone(), true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

/// The values of each row side by side, row after row.
fn by_row(args: &[&ArrayRef], rows: usize) -> Result<ArrayRef> {
    let values: Vec<&dyn Array> = args.iter().map(|array| array.as_ref()).collect();
    let places: Vec<(usize, usize)> =
        (0..rows).flat_map(|row| (0..values.len()).map(move |arg| (arg, row))).collect();
    Ok(interleave(&values, &places)?)
}

fn array(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let values = by_row(&args.iter().collect::<Vec<_>>(), rows)?;
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(args.len(), rows));
    Ok(Arc::new(ListArray::try_new(field, offsets, values, None)?))
}

fn map(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let keys = by_row(&args.iter().step_by(2).collect::<Vec<_>>(), rows)?;
    let values = by_row(&args.iter().skip(1).step_by(2).collect::<Vec<_>>(), rows)?;
    if keys.null_count() > 0 || keys.len() != values.len() {
        return exec_err!("a MAP takes keys, which are not NULL, and values by turns");
    }
    let DataType::Map(entries, _) = map_type(keys.data_type(), values.data_type()) else {
        return exec_err!("a MAP has the type of one");
    };
    let DataType::Struct(fields) = entries.data_type().clone() else {
        return exec_err!("a MAP is made of entries");
    };
    let pairs = StructArray::try_new(fields, vec![keys, values], None)?;
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(args.len() / 2, rows));
    Ok(Arc::new(MapArray::try_new(entries, offsets, pairs, None, false)?))
}

/// `a[i]`, from 1, and `m[k]`; NULL where there is none.
fn item(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    match args[0].data_type() {
        DataType::List(_) => {
            let list = args[0].as_list::<i32>();
            let index = cast(&args[1], &DataType::Int64)?;
            let index = index.as_primitive::<Int64Type>();
            let places = (0..rows).map(|row| {
                if list.is_null(row) || index.is_null(row) {
                    return None;
                }
                let behind = usize::try_from(index.value(row)).ok()?.checked_sub(1)?;
                let (start, end) = range(list.value_offsets(), row);
                (behind < end - start).then_some((start + behind) as u32)
            });
            Ok(take(list.values(), &UInt32Array::from_iter(places), None)?)
        }
        DataType::Map(..) => {
            let map = args[0].as_map();
            // Each entry beside the key that is asked for in its row.
            let wanted = cast(&args[1], map.keys().data_type())?;
            let mut row_of = vec![None; map.keys().len()];
            for row in 0..rows {
                let (start, end) = range(map.value_offsets(), row);
                row_of[start..end].fill(Some(row as u32));
            }
            let is_wanted: BooleanArray =
                cmp::eq(map.keys(), &take(&wanted, &UInt32Array::from(row_of), None)?)?;
            let places = (0..rows).map(|row| {
                let (start, end) = range(map.value_offsets(), row);
                // The last of equal keys counts.
                let found = |entry: &usize| is_wanted.is_valid(*entry) && is_wanted.value(*entry);
                let place = (start..end).rev().find(found)?;
                map.is_valid(row).then_some(place as u32)
            });
            Ok(take(map.values(), &UInt32Array::from_iter(places), None)?)
        }
        other => exec_err!("{} has no items", crate::data_type::display(other)),
    }
}

fn range(offsets: &[i32], row: usize) -> (usize, usize) {
    (offsets[row] as usize, offsets[row + 1] as usize)
}

fn cardinality(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let offsets = match args[0].data_type() {
        DataType::List(_) => args[0].as_list::<i32>().value_offsets(),
        DataType::Map(..) => args[0].as_map().value_offsets(),
        other => return exec_err!("{} has no CARDINALITY", crate::data_type::display(other)),
    };
    let counts = (0..rows).map(|row| args[0].is_valid(row).then(|| offsets[row + 1] - offsets[row]));
    Ok(Arc::new(Int32Array::from_iter(counts)))
}
