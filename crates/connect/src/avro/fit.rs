//! Which of a writer's values become which columns: Avro's rule for readers. A field is found by its name, numbers may
//! become wider, text bytes and bytes text; a field that is not there is NULL, and one that is not asked for is skipped.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, ListArray, MapArray, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema};

/// Where a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The writer's field of this number.
    Field(usize),
    /// The writer has none.
    Null,
}

/// Finds each of the columns among the writer's.
///
/// # Errors
/// Says which column there cannot be, and why.
pub(super) fn find(columns: &Schema, writer: &Schema) -> Result<Vec<Origin>, String> {
    columns
        .fields()
        .iter()
        .map(|column| {
            let path = format!("column '{}'", column.name());
            match writer.fields().find(column.name()) {
                Some((place, field)) => {
                    fits(field.data_type(), column.data_type(), &path)?;
                    Ok(Origin::Field(place))
                }
                None if column.is_nullable() => Ok(Origin::Null),
                None => Err(format!("{path} is NOT NULL, and the writer's schema has no such field")),
            }
        })
        .collect()
}

fn fits(from: &DataType, to: &DataType, path: &str) -> Result<(), String> {
    use DataType::*;
    let is_fit = match (from, to) {
        _ if from == to => true,
        (Int32, Int8 | Int16 | Int64 | Float32 | Float64) | (Int64, Float32 | Float64) => true,
        (Float32, Float64) | (Utf8, Binary) | (Binary, Utf8) | (FixedSizeBinary(_), Binary) => true,
        // An enumeration.
        (Dictionary(_, value), Utf8) => **value == Utf8,
        (Timestamp(..), Timestamp(..)) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        (Decimal128(_, from), Decimal128(_, to)) => from <= to,
        (List(from), List(to)) => {
            return fits(from.data_type(), to.data_type(), &format!("an element of {path}"));
        }
        (Map(from, _), Map(to, _)) => {
            let (from, to) = (pair(from), pair(to));
            return fits(from[1].data_type(), to[1].data_type(), &format!("a value of {path}"));
        }
        (Struct(from), Struct(to)) => return fields_fit(from, to, path),
        _ => false,
    };
    match is_fit {
        true => Ok(()),
        false => Err(format!("{path} is {to}, and the writer's is {from}")),
    }
}

fn fields_fit(from: &Fields, to: &Fields, path: &str) -> Result<(), String> {
    for field in to {
        let path = format!("field '{}' of {path}", field.name());
        match from.find(field.name()) {
            Some((_, other)) => fits(other.data_type(), field.data_type(), &path)?,
            None if field.is_nullable() => {}
            None => return Err(format!("{path} is NOT NULL, and the writer's schema has no such field")),
        }
    }
    Ok(())
}

fn pair(entries: &Field) -> &Fields {
    let DataType::Struct(pair) = entries.data_type() else { unreachable!("a map has entries") };
    pair
}

/// The values in a type that they [fit](find).
///
/// # Errors
/// If one of them is none of that type.
pub(super) fn convert(values: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let said = |error: arrow::error::ArrowError| error.to_string();
    if values.data_type() == to {
        return Ok(Arc::clone(values));
    }
    Ok(match to {
        DataType::Struct(fields) => {
            let from = values.as_struct();
            let columns = fields.iter().map(|field| match from.column_by_name(field.name()) {
                Some(column) => convert(column, field.data_type()),
                None => Ok(new_null_array(field.data_type(), from.len())),
            });
            let columns = columns.collect::<Result<Vec<_>, String>>()?;
            let made =
                StructArray::try_new_with_length(fields.clone(), columns, from.nulls().cloned(), from.len());
            Arc::new(made.map_err(said)?)
        }
        DataType::List(item) => {
            let from = values.as_list::<i32>();
            let items = convert(from.values(), item.data_type())?;
            let made =
                ListArray::try_new(Arc::clone(item), from.offsets().clone(), items, from.nulls().cloned());
            Arc::new(made.map_err(said)?)
        }
        DataType::Map(entries, sorted) => {
            let from = values.as_map();
            let fields = pair(entries);
            let columns = vec![
                convert(from.keys(), fields[0].data_type())?,
                convert(from.values(), fields[1].data_type())?,
            ];
            let made = StructArray::try_new(fields.clone(), columns, None).map_err(said)?;
            let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
            let made = MapArray::try_new(Arc::clone(entries), offsets, made, nulls, *sorted);
            Arc::new(made.map_err(said)?)
        }
        DataType::Binary if matches!(values.data_type(), DataType::FixedSizeBinary(_)) => {
            let from: &FixedSizeBinaryArray = values.as_fixed_size_binary();
            Arc::new(from.iter().collect::<arrow::array::BinaryArray>())
        }
        // What does not fit is a fault, and not NULL.
        _ => cast_with_options(values, to, &CastOptions { safe: false, ..CastOptions::default() })
            .map_err(said)?,
    })
}
