//! MAP_*, and maps out of texts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StringBuilder, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, exec_err};
use regex::Regex;

use crate::collection::map_type;
use crate::text::texts;
use crate::{FlinkFunction, Parameter, pure};

const fn of(
    name: &'static str,
    count: (usize, usize),
    returns: fn(&[DataType]) -> DataType,
    invoke: fn(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> FlinkFunction {
    let (least, most) = count;
    FlinkFunction { name, parameters: &[Parameter::Any], least, most, returns, invoke, signature: pure }
}

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    of(
        "map_keys",
        (1, 1),
        |types| list_of(parts(&types[0]).0),
        |args, _| {
            let map = map_of(&args[0])?;
            Ok(Arc::new(list(map, Arc::clone(map.keys()))?))
        },
    ),
    of(
        "map_values",
        (1, 1),
        |types| list_of(parts(&types[0]).1),
        |args, _| {
            let map = map_of(&args[0])?;
            Ok(Arc::new(list(map, Arc::clone(map.values()))?))
        },
    ),
    of(
        "map_entries",
        (1, 1),
        |types| list_of(entry_type(&types[0])),
        |args, _| {
            let map = map_of(&args[0])?;
            let DataType::Struct(fields) = entry_type(args[0].data_type()) else {
                return exec_err!("an entry is a ROW");
            };
            let entries = StructArray::try_new(fields, vec![map.keys().clone(), map.values().clone()], None)?;
            Ok(Arc::new(list(map, Arc::new(entries))?))
        },
    ),
    of("map_union", (1, usize::MAX), |types| types[0].clone(), union),
    of("map_from_arrays", (2, 2), |types| map_type(&item_of(&types[0]), &item_of(&types[1])), from_arrays),
    FlinkFunction {
        name: "str_to_map",
        parameters: &[Parameter::Text],
        least: 1,
        most: 3,
        returns: |_| map_type(&DataType::Utf8, &DataType::Utf8),
        invoke: str_to_map,
        signature: pure,
    },
];

/// Types of keys and values.
fn parts(map: &DataType) -> (DataType, DataType) {
    match map {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => (fields[0].data_type().clone(), fields[1].data_type().clone()),
            _ => (DataType::Null, DataType::Null),
        },
        _ => (DataType::Null, DataType::Null),
    }
}

fn entry_type(map: &DataType) -> DataType {
    let (key, value) = parts(map);
    DataType::Struct(Fields::from(vec![Field::new("key", key, true), Field::new("value", value, true)]))
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn item_of(list: &DataType) -> DataType {
    match list {
        DataType::List(item) => item.data_type().clone(),
        other => other.clone(),
    }
}

fn map_of(array: &ArrayRef) -> Result<&MapArray> {
    match array.as_map_opt() {
        Some(map) => Ok(map),
        None => exec_err!("{} is no MAP", crate::data_type::display(array.data_type())),
    }
}

/// A list for each map, of as many items.
fn list(map: &MapArray, items: ArrayRef) -> Result<ListArray> {
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    Ok(ListArray::try_new(field, map.offsets().clone(), items, map.nulls().cloned())?)
}

fn build(keys: ArrayRef, values: ArrayRef, lengths: Vec<usize>, valid: Vec<bool>) -> Result<ArrayRef> {
    if keys.null_count() > 0 {
        return exec_err!("the key of a MAP is NULL");
    }
    let DataType::Map(entries, _) = map_type(keys.data_type(), values.data_type()) else {
        return exec_err!("a MAP has the type of one");
    };
    let DataType::Struct(fields) = entries.data_type().clone() else {
        return exec_err!("a MAP is made of entries");
    };
    let pairs = StructArray::try_new(fields, vec![keys, values], None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(entries, offsets, pairs, Some(NullBuffer::from(valid)), false)?))
}

/// The entries of the last map, then those of the maps before it whose keys are new.
fn union(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (key_type, value_type) = parts(args[0].data_type());
    let converter = RowConverter::new(vec![SortField::new(key_type.clone())])?;
    let (mut keys, mut values, mut bytes, mut maps) = (vec![], vec![], vec![], vec![]);
    for arg in args {
        let map = map_of(arg)?;
        let given = cast(map.keys(), &key_type)?;
        bytes.push(converter.convert_columns(std::slice::from_ref(&given))?);
        keys.push(given);
        values.push(cast(map.values(), &value_type)?);
        maps.push(map);
    }
    let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let known = maps.iter().all(|map| map.is_valid(row));
        let begin = places.len();
        if known {
            for (which, map) in maps.iter().enumerate().rev() {
                let offsets = map.value_offsets();
                for entry in offsets[row] as usize..offsets[row + 1] as usize {
                    let seen = |&(other, at): &(usize, usize)| {
                        other != which && bytes[other].row(at) == bytes[which].row(entry)
                    };
                    if !places[begin..].iter().any(seen) {
                        places.push((which, entry));
                    }
                }
            }
        }
        valid.push(known);
        lengths.push(places.len() - begin);
    }
    let keys: Vec<&dyn Array> = keys.iter().map(|array| array.as_ref()).collect();
    let values: Vec<&dyn Array> = values.iter().map(|array| array.as_ref()).collect();
    build(interleave(&keys, &places)?, interleave(&values, &places)?, lengths, valid)
}

/// Keys and values by their places.
fn from_arrays(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (Some(keys), Some(values)) = (args[0].as_list_opt::<i32>(), args[1].as_list_opt::<i32>()) else {
        return exec_err!("MAP_FROM_ARRAYS takes two ARRAYs");
    };
    let (mut key_places, mut value_places) = (Vec::new(), Vec::new());
    let (mut lengths, mut valid) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let known = keys.is_valid(row) && values.is_valid(row);
        valid.push(known);
        if !known {
            lengths.push(0);
            continue;
        }
        let length = keys.value_length(row);
        if length != values.value_length(row) {
            return exec_err!("MAP_FROM_ARRAYS of {length} keys and {} values", values.value_length(row));
        }
        lengths.push(length as usize);
        key_places.extend((0..length).map(|at| (0, (keys.value_offsets()[row] + at) as usize)));
        value_places.extend((0..length).map(|at| (0, (values.value_offsets()[row] + at) as usize)));
    }
    let keys = interleave(&[keys.values().as_ref()], &key_places)?;
    let values = interleave(&[values.values().as_ref()], &value_places)?;
    build(keys, values, lengths, valid)
}

/// `STR_TO_MAP(text [, between pairs [, between key and value]])`: `,` and `=` unless given, both regular expressions. Of
/// equal keys the last counts; a key alone has the value NULL.
fn str_to_map(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let text = texts(&args[0]);
    let separator = |which: usize, row: usize, default: &'static str| match args.get(which).map(texts) {
        None => Some(default.to_string()),
        Some(given) => given.is_valid(row).then(|| given.value(row).to_string()),
    };
    let (mut keys, mut values) = (StringBuilder::new(), StringBuilder::new());
    let (mut lengths, mut valid) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let (pairs, parts) = (separator(1, row, ","), separator(2, row, "="));
        let (Some(pairs), Some(parts), true) = (pairs, parts, text.is_valid(row)) else {
            lengths.push(0);
            valid.push(false);
            continue;
        };
        let regex = |pattern: &str| Regex::new(pattern).or_else(|_| Regex::new(&regex::escape(pattern)));
        let (Ok(pairs), Ok(parts)) = (regex(&pairs), regex(&parts)) else {
            return exec_err!("STR_TO_MAP cannot split at '{pairs}' and '{parts}'");
        };
        let mut entries: Vec<(&str, Option<&str>)> = Vec::new();
        for pair in java_split(&pairs, text.value(row)) {
            let cut = java_split(&parts, pair);
            let key = cut.first().copied().unwrap_or(pair);
            let value = cut.get(1).copied();
            match entries.iter_mut().find(|(known, _)| *known == key) {
                Some(known) => known.1 = value,
                None => entries.push((key, value)),
            }
        }
        for (key, value) in &entries {
            keys.append_value(key);
            values.append_option(*value);
        }
        lengths.push(entries.len());
        valid.push(true);
    }
    build(Arc::new(keys.finish()), Arc::new(values.finish()), lengths, valid)
}

/// As Java's `String.split`: without empty parts at the end. An empty text has none.
fn java_split<'t>(separator: &Regex, text: &'t str) -> Vec<&'t str> {
    let mut parts: Vec<&str> = separator.split(text).collect();
    while parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_at_the_end_are_dropped_if_empty() {
        let comma = Regex::new(",").unwrap();
        assert_eq!(java_split(&comma, "a,,b,,"), ["a", "", "b"]);
        assert_eq!(java_split(&comma, ","), Vec::<&str>::new());
        assert_eq!(java_split(&comma, ""), Vec::<&str>::new());
    }
}
