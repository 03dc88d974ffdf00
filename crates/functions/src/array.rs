//! ARRAY_*: lists made of items of other lists, which are picked by their places and copied once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StringArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, Field, Int32Type};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_common::{Result, exec_err};

use crate::text::texts;
use crate::{FlinkFunction, Parameter, pure};

type Invoke = fn(&[ArrayRef], usize) -> Result<ArrayRef>;

const fn of(
    name: &'static str,
    least: usize,
    most: usize,
    returns: fn(&[DataType]) -> DataType,
    invoke: Invoke,
) -> FlinkFunction {
    FlinkFunction { name, parameters: &[Parameter::Any], least, most, returns, invoke, signature: pure }
}

const fn same(name: &'static str, least: usize, most: usize, invoke: Invoke) -> FlinkFunction {
    of(name, least, most, |types| types[0].clone(), invoke)
}

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    of(
        "array_contains",
        2,
        2,
        |_| DataType::Boolean,
        |args, rows| {
            let lists = Lists::new(args, rows)?;
            let each = (0..rows).map(|row| Some(lists.find(row)?.is_some()));
            Ok(Arc::new(each.collect::<BooleanArray>()))
        },
    ),
    of(
        "array_position",
        2,
        2,
        |_| DataType::Int32,
        |args, rows| {
            let lists = Lists::new(args, rows)?;
            let each = (0..rows).map(|row| {
                let found = lists.find(row).filter(|_| args[1].is_valid(row))?;
                Some(found.map_or(0, |place| place as i32 + 1))
            });
            Ok(Arc::new(each.collect::<Int32Array>()))
        },
    ),
    same("array_remove", 2, 2, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| {
            Some(lists.places(0, row)?.filter(|place| !lists.equal(*place, (1, row))).collect())
        })
    }),
    same("array_append", 2, 2, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| Some(lists.places(0, row)?.chain([(1, row)]).collect()))
    }),
    same("array_prepend", 2, 2, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| Some([(1, row)].into_iter().chain(lists.places(0, row)?).collect()))
    }),
    same("array_concat", 1, usize::MAX, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| {
            let all: Option<Vec<_>> = (0..args.len()).map(|list| lists.places(list, row)).collect();
            Some(all?.into_iter().flatten().collect())
        })
    }),
    same("array_distinct", 1, 1, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| Some(lists.distinct(lists.places(0, row)?)))
    }),
    same("array_union", 2, 2, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| Some(lists.distinct(lists.places(0, row)?.chain(lists.places(1, row)?))))
    }),
    same("array_intersect", 2, 2, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| {
            let other: Vec<Place> = lists.places(1, row)?.collect();
            let in_both = lists.places(0, row)?.filter(|place| other.iter().any(|o| lists.equal(*place, *o)));
            Some(lists.distinct(in_both))
        })
    }),
    same("array_except", 2, 2, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| {
            let other: Vec<Place> = lists.places(1, row)?.collect();
            let only = lists.places(0, row)?.filter(|place| !other.iter().any(|o| lists.equal(*place, *o)));
            Some(lists.distinct(only))
        })
    }),
    same("array_reverse", 1, 1, |args, rows| {
        let lists = Lists::new(args, rows)?;
        lists.pick(rows, |row| Some(lists.places(0, row)?.rev().collect()))
    }),
    same("array_slice", 2, 3, array_slice),
    same("array_sort", 1, 3, array_sort),
    of("array_max", 1, 1, item_type, |args, rows| extreme(args, rows, true)),
    of("array_min", 1, 1, item_type, |args, rows| extreme(args, rows, false)),
    of("element", 1, 1, item_type, element),
    FlinkFunction {
        name: "array_join",
        parameters: &[Parameter::Any, Parameter::Text],
        least: 2,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: array_join,
        signature: pure,
    },
    FlinkFunction {
        name: "split",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
        invoke: split,
        signature: pure,
    },
];

fn item_type(types: &[DataType]) -> DataType {
    match &types[0] {
        DataType::List(item) => item.data_type().clone(),
        other => other.clone(),
    }
}

/// An item: which argument it is of, and where in its items.
type Place = (usize, usize);

/// The arguments of a call: lists, or items, all of the first one's item type.
struct Lists {
    /// Items of each argument; of one that is no list, one for each row.
    items: Vec<ArrayRef>,
    /// `None` for an argument that is no list.
    lists: Vec<Option<(OffsetBuffer<i32>, Option<NullBuffer>)>>,
    /// The items, to be compared as bytes.
    keys: Vec<Rows>,
    field: Arc<Field>,
}

/// How many arrays are around what is no array.
fn depth(of: &DataType) -> usize {
    match of {
        DataType::List(item) => 1 + depth(item.data_type()),
        _ => 0,
    }
}

impl Lists {
    fn new(args: &[ArrayRef], rows: usize) -> Result<Lists> {
        let DataType::List(field) = args[0].data_type() else {
            return exec_err!("{} is no ARRAY", crate::data_type::display(args[0].data_type()));
        };
        let field = Arc::new(field.as_ref().clone().with_nullable(true));
        let converter = RowConverter::new(vec![SortField::new(field.data_type().clone())])?;
        let (mut items, mut lists, mut keys) = (vec![], vec![], vec![]);
        for arg in args {
            // An item may be a list itself.
            let is_list = depth(arg.data_type()) == depth(args[0].data_type());
            let list = if is_list { arg.as_list_opt::<i32>() } else { None };
            let given = list.map_or(arg, |list| list.values());
            let given = cast(given, field.data_type())?;
            keys.push(converter.convert_columns(std::slice::from_ref(&given))?);
            items.push(given);
            lists.push(list.map(|list| (list.offsets().clone(), list.nulls().cloned())));
            debug_assert!(arg.len() == rows);
        }
        Ok(Lists { items, lists, keys, field })
    }

    /// The items of a list in a row. `None` if the list is NULL.
    fn places(&self, list: usize, row: usize) -> Option<impl DoubleEndedIterator<Item = Place> + use<>> {
        let (offsets, nulls) = self.lists[list].as_ref()?;
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        valid.then(|| range.map(move |at| (list, at)))
    }

    fn equal(&self, left: Place, right: Place) -> bool {
        self.keys[left.0].row(left.1) == self.keys[right.0].row(right.1)
    }

    fn is_null(&self, place: Place) -> bool {
        self.items[place.0].is_null(place.1)
    }

    /// Where in the first list the second argument is, from 0. `None` if the list is NULL.
    fn find(&self, row: usize) -> Option<Option<usize>> {
        Some(self.places(0, row)?.position(|place| self.equal(place, (1, row))))
    }

    /// The first of equal items each.
    fn distinct(&self, places: impl Iterator<Item = Place>) -> Vec<Place> {
        let mut seen: Vec<Place> = Vec::new();
        for place in places {
            if !seen.iter().any(|known| self.equal(*known, place)) {
                seen.push(place);
            }
        }
        seen
    }

    /// A list for each row, of the items at these places.
    fn pick(&self, rows: usize, of: impl Fn(usize) -> Option<Vec<Place>>) -> Result<ArrayRef> {
        let mut places = Vec::new();
        let (mut lengths, mut valid) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for row in 0..rows {
            let picked = of(row);
            valid.push(picked.is_some());
            let picked = picked.unwrap_or_default();
            lengths.push(picked.len());
            places.extend(picked);
        }
        let sources: Vec<&dyn Array> = self.items.iter().map(|items| items.as_ref()).collect();
        let items = interleave(&sources, &places)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let field = Arc::clone(&self.field);
        Ok(Arc::new(ListArray::try_new(field, offsets, items, Some(NullBuffer::from(valid)))?))
    }
}

/// `ARRAY_SLICE(list, start [, end])`, both from 1 and counted in; 0 is 1, and what is negative counts from the end.
fn array_slice(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let bounds =
        args[1..].iter().map(|bound| cast(bound, &DataType::Int32)).collect::<Result<Vec<_>, _>>()?;
    let bound = |which: usize, row: usize| {
        let values = bounds[which].as_primitive::<Int32Type>();
        values.is_valid(row).then(|| i64::from(values.value(row)))
    };
    let lists = Lists::new(&args[..1], rows)?;
    lists.pick(rows, |row| {
        let places: Vec<Place> = lists.places(0, row)?.collect();
        let count = places.len() as i64;
        let position = |bound: i64| match bound {
            0 => 1,
            negative @ ..0 => count + negative + 1,
            positive => positive,
        };
        let first = position(bound(0, row)?).max(1);
        let last = if bounds.len() > 1 { position(bound(1, row)?).min(count) } else { count };
        if first > last {
            return Some(vec![]);
        }
        Some(places[first as usize - 1..last as usize].to_vec())
    })
}

/// `ARRAY_SORT(list [, ascending [, nulls first]])`.
fn array_sort(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let lists = Lists::new(&args[..1], rows)?;
    let flag = |which: usize, row: usize| {
        let values = args.get(which)?.as_boolean_opt()?;
        values.is_valid(row).then(|| values.value(row))
    };
    lists.pick(rows, |row| {
        let ascending = flag(1, row).unwrap_or(true);
        let nulls_first = flag(2, row).unwrap_or(ascending);
        let (nulls, mut sorted): (Vec<Place>, Vec<Place>) =
            lists.places(0, row)?.partition(|place| lists.is_null(*place));
        sorted.sort_by(|left, right| lists.keys[0].row(left.1).cmp(&lists.keys[0].row(right.1)));
        if !ascending {
            sorted.reverse();
        }
        Some(if nulls_first { [nulls, sorted].concat() } else { [sorted, nulls].concat() })
    })
}

/// The largest or smallest item that is not NULL.
fn extreme(args: &[ArrayRef], rows: usize, largest: bool) -> Result<ArrayRef> {
    let lists = Lists::new(args, rows)?;
    let key = |place: &Place| lists.keys[0].row(place.1);
    let places = (0..rows).map(|row| {
        let known = lists.places(0, row)?.filter(|place| !lists.is_null(*place));
        let best = if largest { known.max_by_key(key) } else { known.min_by_key(key) };
        best.map(|place| place.1 as u32)
    });
    Ok(take(&lists.items[0], &UInt32Array::from_iter(places), None)?)
}

/// The only item.
fn element(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let lists = Lists::new(args, rows)?;
    let mut places = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut items = lists.places(0, row).into_iter().flatten();
        places.push(items.next().map(|place| place.1 as u32));
        if items.next().is_some() {
            return exec_err!("ELEMENT of an ARRAY with more than one item");
        }
    }
    Ok(take(&lists.items[0], &UInt32Array::from(places), None)?)
}

/// The items as one text. NULLs are left out, unless there is a text for them.
fn array_join(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let lists = Lists::new(&args[..1], rows)?;
    let items = cast(&lists.items[0], &DataType::Utf8)?;
    let (items, separator, absent) = (texts(&items), texts(&args[1]), args.get(2).map(texts));
    let joined = |row: usize| {
        let separator = separator.is_valid(row).then(|| separator.value(row))?;
        let absent = match absent {
            Some(absent) if absent.is_null(row) => return None,
            Some(absent) => Some(absent.value(row)),
            None => None,
        };
        let parts = lists.places(0, row)?.filter_map(|place| match items.is_valid(place.1) {
            true => Some(items.value(place.1)),
            false => absent,
        });
        Some(parts.collect::<Vec<_>>().join(separator))
    };
    Ok(Arc::new((0..rows).map(joined).collect::<StringArray>()))
}

/// A text cut at another one, or into its characters if that is empty.
fn split(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, separator) = (texts(&args[0]), texts(&args[1]));
    let mut out = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    for row in 0..rows {
        if text.is_null(row) || separator.is_null(row) {
            out.append(false);
            continue;
        }
        match (text.value(row), separator.value(row)) {
            ("", _) => {}
            (text, "") => text.chars().for_each(|c| out.values().append_value(c.encode_utf8(&mut [0; 4]))),
            (text, separator) => text.split(separator).for_each(|part| out.values().append_value(part)),
        }
        out.append(true);
    }
    Ok(Arc::new(out.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Int32Type;

    #[test]
    fn lists_that_are_null_stay_so() {
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(3), None, Some(1), Some(3)]),
            None,
            Some(vec![]),
        ]));
        let sorted = array_sort(std::slice::from_ref(&list), 3).unwrap();
        let expected = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![None, Some(1), Some(3), Some(3)]),
            None,
            Some(vec![]),
        ]);
        assert_eq!(sorted.as_list::<i32>(), &expected);
        let largest = extreme(std::slice::from_ref(&list), 3, true).unwrap();
        assert_eq!(largest.as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(3), None, None]));
    }
}
