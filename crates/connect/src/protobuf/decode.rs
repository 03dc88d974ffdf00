//! From messages to columns, field by field as they stand on the wire. Of a field that comes twice the last one counts, and
//! messages are merged, as protobuf has it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder, Int8Builder, Int16Builder,
    Int32Builder, Int64Builder, ListArray, MapArray, NullBufferBuilder, RecordBatch, RecordBatchOptions,
    StringBuilder, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::Value;

use super::plan::{Element, EnumPlan, FieldPlan, MessagePlan, Scalar, Shape};

/// Rows under way.
pub(super) struct ProtobufDecoder {
    plan: MessagePlan,
    columns: Vec<Column>,
}

impl ProtobufDecoder {
    pub(super) fn new(plan: MessagePlan) -> ProtobufDecoder {
        let columns = columns_of(&plan);
        ProtobufDecoder { plan, columns }
    }

    /// Adds a row. After a fault the rows since the last [`finish`](ProtobufDecoder::finish) are worth nothing.
    pub(super) fn append(&mut self, message: &[u8]) -> Result<(), String> {
        append_message(&self.plan, &mut self.columns, message)
    }

    /// Leaves the rows out that were added since the last call of `finish`.
    pub(super) fn forget(&mut self) {
        self.columns = columns_of(&self.plan);
    }

    /// The rows added.
    pub(super) fn finish(&mut self, schema: &SchemaRef, rows: usize) -> Result<RecordBatch, String> {
        let columns = std::mem::replace(&mut self.columns, columns_of(&self.plan));
        let columns = columns.into_iter().zip(schema.fields());
        let columns: Result<Vec<ArrayRef>, String> =
            columns.map(|(column, field)| column.finish(field.data_type())).collect();
        let size = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns?, &size)
            .map_err(|error| error.to_string())
    }
}

/// Values of a field.
enum Column {
    Bool(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Row { columns: Vec<Column>, validity: NullBufferBuilder },
    List { item: Box<Column>, items: i32, offsets: Vec<i32>, validity: NullBufferBuilder },
    Map { pair: Box<[Column; 2]>, entries: i32, offsets: Vec<i32>, validity: NullBufferBuilder },
}

fn columns_of(plan: &MessagePlan) -> Vec<Column> {
    plan.fields.iter().map(|field| Column::new(&field.shape, &field.data_type)).collect()
}

impl Column {
    fn new(shape: &Shape, data_type: &DataType) -> Column {
        let validity = NullBufferBuilder::new(0);
        match (shape, data_type) {
            (Shape::One(element), _) => Column::of_element(element, data_type),
            (Shape::Many { element, .. }, DataType::List(item)) => {
                let item = Box::new(Column::of_element(element, item.data_type()));
                Column::List { item, items: 0, offsets: vec![0], validity }
            }
            (Shape::Map { key, value }, DataType::Map(entries, _)) => {
                let DataType::Struct(pair) = entries.data_type() else { unreachable!("a map has entries") };
                let pair = [
                    Column::of_scalar(key, pair[0].data_type()),
                    Column::of_element(value, pair[1].data_type()),
                ];
                Column::Map { pair: Box::new(pair), entries: 0, offsets: vec![0], validity }
            }
            (_, other) => unreachable!("{other} was refused with the options"),
        }
    }

    fn of_element(element: &Element, data_type: &DataType) -> Column {
        match element {
            Element::Scalar(scalar) => Column::of_scalar(scalar, data_type),
            Element::Message(plan) => {
                Column::Row { columns: columns_of(plan), validity: NullBufferBuilder::new(0) }
            }
        }
    }

    fn of_scalar(scalar: &Scalar, data_type: &DataType) -> Column {
        match (scalar, data_type) {
            (_, DataType::Boolean) => Column::Bool(BooleanBuilder::new()),
            (_, DataType::Int8) => Column::Int8(Int8Builder::new()),
            (_, DataType::Int16) => Column::Int16(Int16Builder::new()),
            (_, DataType::Int32) => Column::Int32(Int32Builder::new()),
            (_, DataType::Int64) => Column::Int64(Int64Builder::new()),
            (_, DataType::Float32) => Column::Float(Float32Builder::new()),
            (_, DataType::Float64) => Column::Double(Float64Builder::new()),
            (_, DataType::Binary) => Column::Bytes(BinaryBuilder::new()),
            _ => Column::Text(StringBuilder::new()),
        }
    }

    fn append_null(&mut self) {
        match self {
            Column::Bool(values) => values.append_null(),
            Column::Int8(values) => values.append_null(),
            Column::Int16(values) => values.append_null(),
            Column::Int32(values) => values.append_null(),
            Column::Int64(values) => values.append_null(),
            Column::Float(values) => values.append_null(),
            Column::Double(values) => values.append_null(),
            Column::Text(values) => values.append_null(),
            Column::Bytes(values) => values.append_null(),
            Column::Row { columns, validity } => {
                columns.iter_mut().for_each(Column::append_null);
                validity.append_null();
            }
            Column::List { items: count, offsets, validity, .. }
            | Column::Map { entries: count, offsets, validity, .. } => {
                offsets.push(*count);
                validity.append_null();
            }
        }
    }

    fn finish(self, data_type: &DataType) -> Result<ArrayRef, String> {
        let said = |error: arrow::error::ArrowError| error.to_string();
        Ok(match (self, data_type) {
            (Column::Bool(mut values), _) => Arc::new(values.finish()),
            (Column::Int8(mut values), _) => Arc::new(values.finish()),
            (Column::Int16(mut values), _) => Arc::new(values.finish()),
            (Column::Int32(mut values), _) => Arc::new(values.finish()),
            (Column::Int64(mut values), _) => Arc::new(values.finish()),
            (Column::Float(mut values), _) => Arc::new(values.finish()),
            (Column::Double(mut values), _) => Arc::new(values.finish()),
            (Column::Text(mut values), _) => Arc::new(values.finish()),
            (Column::Bytes(mut values), _) => Arc::new(values.finish()),
            (Column::Row { columns, mut validity }, DataType::Struct(fields)) => {
                let rows = validity.len();
                let columns = columns.into_iter().zip(fields);
                let columns: Result<Vec<ArrayRef>, String> =
                    columns.map(|(column, field)| column.finish(field.data_type())).collect();
                let made =
                    StructArray::try_new_with_length(fields.clone(), columns?, validity.finish(), rows);
                Arc::new(made.map_err(said)?)
            }
            (Column::List { item, offsets, mut validity, .. }, DataType::List(field)) => {
                let items = item.finish(field.data_type())?;
                let offsets = OffsetBuffer::new(offsets.into());
                let made = ListArray::try_new(Arc::clone(field), offsets, items, validity.finish());
                Arc::new(made.map_err(said)?)
            }
            (Column::Map { pair, offsets, mut validity, .. }, DataType::Map(field, sorted)) => {
                let DataType::Struct(fields) = field.data_type() else { unreachable!("a map has entries") };
                let [keys, values] = *pair;
                let pair = vec![keys.finish(fields[0].data_type())?, values.finish(fields[1].data_type())?];
                let entries = StructArray::try_new(fields.clone(), pair, None).map_err(said)?;
                let offsets = OffsetBuffer::new(offsets.into());
                let made = MapArray::try_new(Arc::clone(field), offsets, entries, validity.finish(), *sorted);
                Arc::new(made.map_err(said)?)
            }
            (_, other) => unreachable!("{other} was refused with the options"),
        })
    }
}

/// A value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Raw<'a> {
    Varint(u64),
    Bits64(u64),
    Bits32(u32),
    Bytes(&'a [u8]),
}

/// What was found of a field.
#[derive(Clone)]
enum Slot<'a> {
    Absent,
    One(Raw<'a>),
    /// A message that came in parts, put together.
    Merged(Vec<u8>),
    /// Of a list, which has its items already.
    Items,
    Entries(Vec<&'a [u8]>),
}

fn append_message(plan: &MessagePlan, columns: &mut [Column], mut message: &[u8]) -> Result<(), String> {
    let mut slots = vec![Slot::Absent; plan.fields.len()];
    while !message.is_empty() {
        let (number, wire) = decode_key(&mut message).map_err(|error| error.to_string())?;
        let known = plan.find(number);
        if let Some(oneof) = known.and_then(|known| known.oneof) {
            let others = plan.fields.iter().zip(&mut slots);
            others.filter(|(field, _)| field.oneof == Some(oneof) && field.number != number).for_each(
                |(_, slot)| {
                    *slot = Slot::Absent;
                },
            );
        }
        let Some(at) = known.and_then(|known| known.field) else {
            skip(wire, number, &mut message, 0)?;
            continue;
        };
        let field = &plan.fields[at];
        let raw = read_raw(wire, &mut message).map_err(|why| field.fault(&why))?;
        match &field.shape {
            Shape::One(Element::Scalar(_)) => slots[at] = Slot::One(raw),
            Shape::One(Element::Message(_)) => {
                let Raw::Bytes(part) = raw else { return Err(field.fault(OTHER_WIRE)) };
                slots[at] = match std::mem::replace(&mut slots[at], Slot::Absent) {
                    Slot::One(Raw::Bytes(first)) => Slot::Merged([first, part].concat()),
                    Slot::Merged(mut parts) => {
                        parts.extend_from_slice(part);
                        Slot::Merged(parts)
                    }
                    _ => Slot::One(raw),
                };
            }
            Shape::Many { element, .. } => {
                let Column::List { item, items, .. } = &mut columns[at] else { unreachable!("a list") };
                *items += append_items(element, item, raw).map_err(|why| field.fault(&why))?;
                slots[at] = Slot::Items;
            }
            Shape::Map { .. } => {
                let Raw::Bytes(entry) = raw else { return Err(field.fault(OTHER_WIRE)) };
                match &mut slots[at] {
                    Slot::Entries(entries) => entries.push(entry),
                    slot => *slot = Slot::Entries(vec![entry]),
                }
            }
        }
    }
    for ((field, column), slot) in plan.fields.iter().zip(columns).zip(slots) {
        append_slot(field, column, slot).map_err(|why| field.fault(&why))?;
    }
    Ok(())
}

const OTHER_WIRE: &str = "is written as another type";

impl FieldPlan {
    fn fault(&self, why: &str) -> String {
        format!("field '{}': {why}", self.name)
    }
}

fn append_slot(field: &FieldPlan, column: &mut Column, slot: Slot<'_>) -> Result<(), String> {
    match (slot, &field.shape) {
        (Slot::One(raw), Shape::One(element)) => {
            if !append_element(element, column, raw)? {
                append_absent(field, column)?;
            }
        }
        (Slot::Merged(message), Shape::One(element)) => {
            append_element(element, column, Raw::Bytes(&message))?;
        }
        (Slot::Items, _) => {
            let Column::List { items, offsets, validity, .. } = column else { unreachable!("a list") };
            offsets.push(*items);
            validity.append_non_null();
        }
        (Slot::Entries(entries), Shape::Map { key, value }) => append_entries(key, value, column, &entries)?,
        _ => append_absent(field, column)?,
    }
    Ok(())
}

fn append_absent(field: &FieldPlan, column: &mut Column) -> Result<(), String> {
    match (&field.absent, &field.shape) {
        (None, _) if !field.is_nullable => {
            return Err("the message has none, and the column is NOT NULL".to_owned());
        }
        (None, _) => column.append_null(),
        (Some(_), Shape::One(Element::Message(plan))) => {
            let Column::Row { columns, validity } = column else { unreachable!("a row") };
            append_message(plan, columns, &[])?;
            validity.append_non_null();
        }
        (Some(default), Shape::One(Element::Scalar(scalar))) => {
            append_scalar(scalar, column, raw_of(scalar, default))?;
        }
        (Some(_), Shape::Many { .. } | Shape::Map { .. }) => match column {
            Column::List { items: count, offsets, validity, .. }
            | Column::Map { entries: count, offsets, validity, .. } => {
                offsets.push(*count);
                validity.append_non_null();
            }
            _ => unreachable!("a list or a map"),
        },
    }
    Ok(())
}

/// A default as it would stand on the wire.
fn raw_of<'a>(scalar: &Scalar, default: &'a Value) -> Raw<'a> {
    let whole = match default {
        Value::Bool(value) => i64::from(*value),
        Value::I32(value) | Value::EnumNumber(value) => i64::from(*value),
        Value::I64(value) => *value,
        Value::U32(value) => i64::from(*value),
        Value::U64(value) => *value as i64,
        Value::F32(value) => return Raw::Bits32(value.to_bits()),
        Value::F64(value) => return Raw::Bits64(value.to_bits()),
        Value::String(text) => return Raw::Bytes(text.as_bytes()),
        Value::Bytes(bytes) => return Raw::Bytes(bytes),
        Value::Message(_) | Value::List(_) | Value::Map(_) => unreachable!("no scalar"),
    };
    match scalar {
        Scalar::Sint32 | Scalar::Sint64 => Raw::Varint(zigzag(whole)),
        Scalar::Fixed32 => Raw::Bits32(whole as u32),
        Scalar::Fixed64 => Raw::Bits64(whole as u64),
        _ => Raw::Varint(whole as u64),
    }
}

/// Small numbers of either sign as small ones without.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Adds an item, or those that are packed as one. How many.
fn append_items(element: &Element, column: &mut Column, raw: Raw<'_>) -> Result<i32, String> {
    let packed = match (element, raw) {
        (Element::Scalar(Scalar::String | Scalar::Bytes) | Element::Message(_), _) => None,
        (Element::Scalar(scalar), Raw::Bytes(packed)) => Some((scalar, packed)),
        _ => None,
    };
    let Some((scalar, mut packed)) = packed else {
        return append_element(element, column, raw).map(i32::from);
    };
    let mut count = 0;
    while !packed.is_empty() {
        let item = read_raw(scalar.wire(), &mut packed)?;
        count += i32::from(append_scalar(scalar, column, item)?);
    }
    Ok(count)
}

/// Of entries with the same key the last one counts.
fn append_entries(
    key: &Scalar,
    value: &Element,
    column: &mut Column,
    entries: &[&[u8]],
) -> Result<(), String> {
    let Column::Map { pair, entries: count, offsets, validity } = column else { unreachable!("a map") };
    let mut found: Vec<(Raw<'_>, Raw<'_>)> = Vec::with_capacity(entries.len());
    let mut by_key: HashMap<Raw<'_>, usize> = HashMap::with_capacity(entries.len());
    for mut entry in entries.iter().copied() {
        let mut own = (key.zero(), value.zero());
        while !entry.is_empty() {
            let (number, wire) = decode_key(&mut entry).map_err(|error| error.to_string())?;
            match number {
                1 => own.0 = read_raw(wire, &mut entry)?,
                2 => own.1 = read_raw(wire, &mut entry)?,
                _ => skip(wire, number, &mut entry, 0)?,
            }
        }
        match by_key.get(&own.0) {
            Some(&at) => found[at] = own,
            None => {
                by_key.insert(own.0, found.len());
                found.push(own);
            }
        }
    }
    let [keys, values] = pair.as_mut();
    for (own_key, own_value) in found {
        // The key goes with its value: an entry whose value its enumeration does not know is none.
        if append_element(value, values, own_value)? {
            append_scalar(key, keys, own_key)?;
            *count += 1;
        }
    }
    offsets.push(*count);
    validity.append_non_null();
    Ok(())
}

/// False if it is as if it were not there.
fn append_element(element: &Element, column: &mut Column, raw: Raw<'_>) -> Result<bool, String> {
    match (element, column, raw) {
        (Element::Scalar(scalar), column, raw) => append_scalar(scalar, column, raw),
        (Element::Message(plan), Column::Row { columns, validity }, Raw::Bytes(message)) => {
            append_message(plan, columns, message)?;
            validity.append_non_null();
            Ok(true)
        }
        _ => Err(OTHER_WIRE.to_owned()),
    }
}

fn append_scalar(scalar: &Scalar, column: &mut Column, raw: Raw<'_>) -> Result<bool, String> {
    match (scalar, column, raw) {
        (Scalar::Bool, Column::Bool(values), Raw::Varint(value)) => values.append_value(value != 0),
        (Scalar::Int32 | Scalar::Uint32, Column::Int32(values), Raw::Varint(value)) => {
            values.append_value(value as i32);
        }
        (Scalar::Sint32, Column::Int32(values), Raw::Varint(value)) => {
            let value = value as u32;
            values.append_value((value >> 1) as i32 ^ -((value & 1) as i32));
        }
        (Scalar::Fixed32, Column::Int32(values), Raw::Bits32(bits)) => values.append_value(bits as i32),
        (Scalar::Int64 | Scalar::Uint64, Column::Int64(values), Raw::Varint(value)) => {
            values.append_value(value as i64);
        }
        (Scalar::Sint64, Column::Int64(values), Raw::Varint(value)) => {
            values.append_value((value >> 1) as i64 ^ -((value & 1) as i64));
        }
        (Scalar::Fixed64, Column::Int64(values), Raw::Bits64(bits)) => values.append_value(bits as i64),
        (Scalar::Float, Column::Float(values), Raw::Bits32(bits)) => {
            values.append_value(f32::from_bits(bits));
        }
        (Scalar::Double, Column::Double(values), Raw::Bits64(bits)) => {
            values.append_value(f64::from_bits(bits));
        }
        (Scalar::String, Column::Text(values), Raw::Bytes(bytes)) => {
            values.append_value(std::str::from_utf8(bytes).map_err(|_| "not UTF-8")?);
        }
        (Scalar::Bytes, Column::Bytes(values), Raw::Bytes(bytes)) => values.append_value(bytes),
        (Scalar::Enum(plan), column, Raw::Varint(value)) => return append_enum(plan, column, value as i32),
        _ => return Err(OTHER_WIRE.to_owned()),
    }
    Ok(true)
}

fn append_enum(plan: &EnumPlan, column: &mut Column, number: i32) -> Result<bool, String> {
    let name = plan.names.get(&number);
    // As Java has it: an enumeration of proto2 is as if it had not come.
    if name.is_none() && !plan.is_open {
        return Ok(false);
    }
    let too_large = || format!("{number} is larger than the column's type");
    match column {
        Column::Text(values) => values.append_value(name.map_or("UNRECOGNIZED", String::as_str)),
        Column::Int8(values) => values.append_value(i8::try_from(number).map_err(|_| too_large())?),
        Column::Int16(values) => values.append_value(i16::try_from(number).map_err(|_| too_large())?),
        Column::Int32(values) => values.append_value(number),
        _ => unreachable!("refused with the options"),
    }
    Ok(true)
}

impl Scalar {
    /// How it stands on the wire when it is not packed.
    pub(super) fn wire(&self) -> WireType {
        match self {
            Scalar::Fixed32 | Scalar::Float => WireType::ThirtyTwoBit,
            Scalar::Fixed64 | Scalar::Double => WireType::SixtyFourBit,
            Scalar::String | Scalar::Bytes => WireType::LengthDelimited,
            _ => WireType::Varint,
        }
    }

    /// What an entry of a map without a key or a value has.
    fn zero(&self) -> Raw<'static> {
        match self {
            Scalar::Enum(plan) => Raw::Varint(plan.default as u64),
            other => match other.wire() {
                WireType::ThirtyTwoBit => Raw::Bits32(0),
                WireType::SixtyFourBit => Raw::Bits64(0),
                WireType::LengthDelimited => Raw::Bytes(&[]),
                _ => Raw::Varint(0),
            },
        }
    }
}

impl Element {
    fn zero(&self) -> Raw<'static> {
        match self {
            Element::Scalar(scalar) => scalar.zero(),
            Element::Message(_) => Raw::Bytes(&[]),
        }
    }
}

fn read_raw<'a>(wire: WireType, message: &mut &'a [u8]) -> Result<Raw<'a>, String> {
    Ok(match wire {
        WireType::Varint => Raw::Varint(decode_varint(message).map_err(|error| error.to_string())?),
        WireType::SixtyFourBit => Raw::Bits64(u64::from_le_bytes(take_array(message)?)),
        WireType::ThirtyTwoBit => Raw::Bits32(u32::from_le_bytes(take_array(message)?)),
        WireType::LengthDelimited => {
            let length = decode_varint(message).map_err(|error| error.to_string())?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let (bytes, rest) = message.split_at_checked(length).ok_or(CUT_OFF)?;
            *message = rest;
            Raw::Bytes(bytes)
        }
        WireType::StartGroup | WireType::EndGroup => return Err(OTHER_WIRE.to_owned()),
    })
}

const CUT_OFF: &str = "the message ends inside a value";

fn take_array<const N: usize>(message: &mut &[u8]) -> Result<[u8; N], String> {
    let (bytes, rest) = message.split_first_chunk().ok_or(CUT_OFF)?;
    *message = rest;
    Ok(*bytes)
}

/// Groups within groups, at most: what is skipped may come from anybody.
const DEPTH_MAX: u32 = 64;

fn skip(wire: WireType, number: u32, message: &mut &[u8], depth: u32) -> Result<(), String> {
    match wire {
        WireType::StartGroup if depth < DEPTH_MAX => loop {
            let (inner, wire) = decode_key(message).map_err(|error| error.to_string())?;
            if wire == WireType::EndGroup {
                return if inner == number { Ok(()) } else { Err("a group ends as another".to_owned()) };
            }
            skip(wire, inner, message, depth + 1)?;
        },
        WireType::StartGroup => Err("groups are nested too deep".to_owned()),
        WireType::EndGroup => Err("a group ends that has not begun".to_owned()),
        wire => read_raw(wire, message).map(drop),
    }
}
