//! Columns of METADATA, and the one that says of which partition a row is.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, Int32Array, Int32Builder, Int64Array, ListBuilder, MapBuilder, MapFieldNames,
    StringArray, StringBuilder, TimestampMillisecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};

use super::chunk::{Chunk, Partition};

/// What of a row is not in its record's key or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Topic,
    Partition,
    Headers,
    LeaderEpoch,
    Offset,
    Timestamp,
    TimestampType,
    Key,
    Split,
}

impl Beside {
    /// Of a key of METADATA.
    pub(crate) fn of_key(key: &str) -> Option<Beside> {
        Some(match key {
            "topic" => Beside::Topic,
            "partition" => Beside::Partition,
            "headers" => Beside::Headers,
            "leader-epoch" => Beside::LeaderEpoch,
            "offset" => Beside::Offset,
            "timestamp" => Beside::Timestamp,
            "timestamp-type" => Beside::TimestampType,
            "key" => Beside::Key,
            _ => return None,
        })
    }

    /// A row for each of these messages. `awaited` are the partitions that the watermark waits for from there on.
    pub(crate) fn column(
        self,
        chunk: &Chunk,
        range: Range<usize>,
        partitions: &[Partition],
        awaited: &[i32],
        field: &Field,
    ) -> ArrayRef {
        let of_split = |index: usize| &partitions[chunk.splits[index] as usize];
        let rows = range.clone();
        let own: ArrayRef = match self {
            Beside::Topic => Arc::new(StringArray::from_iter_values(rows.map(|row| &*of_split(row).topic))),
            Beside::Partition => Arc::new(Int32Array::from_iter_values(rows.map(|row| of_split(row).number))),
            Beside::Offset => Arc::new(Int64Array::from_iter_values(chunk.offsets[rows].iter().copied())),
            Beside::Timestamp => {
                let times = chunk.timestamps_ms[rows].iter().copied();
                Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC"))
            }
            Beside::TimestampType => {
                let texts = chunk.timestamp_types[rows].iter().map(|kind| kind.text());
                Arc::new(StringArray::from_iter_values(texts))
            }
            Beside::LeaderEpoch => {
                Arc::new(chunk.leader_epochs[rows].iter().copied().collect::<Int32Array>())
            }
            Beside::Key => {
                let mut keys = BinaryBuilder::new();
                rows.for_each(|row| keys.append_option(chunk.keys.get_opt(row)));
                Arc::new(keys.finish())
            }
            Beside::Headers => headers(chunk, range.clone(), field),
            Beside::Split => {
                let item = Field::new_list_field(DataType::Int32, false);
                let mut splits = ListBuilder::new(Int32Builder::with_capacity(rows.len() + awaited.len()))
                    .with_field(item);
                for row in rows {
                    splits.values().append_value(of_split(row).split);
                    if row == range.start {
                        splits
                            .values()
                            .extend(awaited.iter().map(|&place| Some(partitions[place as usize].split)));
                    }
                    splits.append(true);
                }
                Arc::new(splits.finish())
            }
        };
        match own.data_type() == field.data_type() {
            true => own,
            false => cast(&own, field.data_type()).expect("checked when the table was declared"),
        }
    }
}

/// Of several headers of one name, all are kept.
fn headers(chunk: &Chunk, range: Range<usize>, field: &Field) -> ArrayRef {
    let DataType::Map(entries, _) = field.data_type() else { unreachable!("checked when declared") };
    let DataType::Struct(pair) = entries.data_type() else { unreachable!("a map has entries") };
    let names = MapFieldNames {
        entry: entries.name().clone(),
        key: pair[0].name().clone(),
        value: pair[1].name().clone(),
    };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), BinaryBuilder::new())
        .with_values_field(Arc::clone(&pair[1]));
    for headers in &chunk.headers[range] {
        for (key, value) in headers {
            maps.keys().append_value(key);
            // A header without a value is an empty one where NULL may not be.
            match value {
                None if !pair[1].is_nullable() => maps.values().append_value([]),
                value => maps.values().append_option(value.as_ref()),
            }
        }
        maps.append(true).expect("as many keys as values");
    }
    Arc::new(maps.finish())
}
