//! From rows to messages, fields in the order of their numbers, as Java writes them. NULL is a field that is not there;
//! where there must be one, in arrays and maps, it is the type's default.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::decode::zigzag;
use super::plan::{Element, EnumPlan, FieldPlan, MessagePlan, Scalar, Shape};
use crate::record::{RecordEncoder, Records};

pub(super) struct ProtobufEncoder {
    plan: MessagePlan,
    /// `protobuf.write-null-string-literal`.
    null_text: String,
    message: Vec<u8>,
}

impl ProtobufEncoder {
    pub(super) fn new(plan: MessagePlan, null_text: String) -> ProtobufEncoder {
        ProtobufEncoder { plan, null_text, message: Vec::new() }
    }
}

impl RecordEncoder for ProtobufEncoder {
    fn encode(&mut self, rows: &RecordBatch, records: &mut Records) -> Result<(), String> {
        for row in 0..rows.num_rows() {
            self.message.clear();
            put_message(&self.plan, rows.columns(), row, &self.null_text, &mut self.message)?;
            records.push(Some(&self.message));
        }
        Ok(())
    }
}

fn put_message(
    plan: &MessagePlan,
    columns: &[ArrayRef],
    row: usize,
    null_text: &str,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    for &at in plan.by_number() {
        let (field, column) = (&plan.fields[at], &columns[at]);
        // Of those of a `oneof`, the last column that is not NULL is written.
        let is_replaced = field.oneof.is_some() && {
            let mut later = plan.fields.iter().zip(columns).skip(at + 1);
            later.any(|(other, column)| other.oneof == field.oneof && column.is_valid(row))
        };
        if column.is_null(row) || is_replaced {
            continue;
        }
        put_field(field, column, row, null_text, out)
            .map_err(|why| format!("column '{}': {why}", field.name))?;
    }
    Ok(())
}

fn put_field(
    field: &FieldPlan,
    column: &ArrayRef,
    row: usize,
    null_text: &str,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match &field.shape {
        Shape::One(element) => {
            let start = out.len();
            encode_key(field.number, element.wire(), out);
            let value = out.len();
            put_element(element, column, row, null_text, out)?;
            // A number of zero, and a text or bytes of length zero, are one byte or some, all of them zero.
            if field.omits_default && out[value..].iter().all(|byte| *byte == 0) {
                out.truncate(start);
            }
        }
        Shape::Many { element, is_packed } => {
            let items = column.as_list::<i32>();
            let (from, to) = (items.value_offsets()[row] as usize, items.value_offsets()[row + 1] as usize);
            let values = items.values();
            if *is_packed && from < to {
                let mut packed = Vec::new();
                for item in from..to {
                    put_element(element, values, item, null_text, &mut packed)?;
                }
                encode_key(field.number, WireType::LengthDelimited, out);
                encode_varint(packed.len() as u64, out);
                out.extend_from_slice(&packed);
                return Ok(());
            }
            for item in from..to {
                encode_key(field.number, element.wire(), out);
                put_element(element, values, item, null_text, out)?;
            }
        }
        Shape::Map { key, value } => {
            let map = column.as_map();
            let (from, to) = (map.value_offsets()[row] as usize, map.value_offsets()[row + 1] as usize);
            let mut entry = Vec::new();
            for at in from..to {
                entry.clear();
                encode_key(1, key.wire(), &mut entry);
                put_scalar(key, map.keys(), at, null_text, &mut entry)?;
                encode_key(2, value.wire(), &mut entry);
                put_element(value, map.values(), at, null_text, &mut entry)?;
                encode_key(field.number, WireType::LengthDelimited, out);
                encode_varint(entry.len() as u64, out);
                out.extend_from_slice(&entry);
            }
        }
    }
    Ok(())
}

fn put_element(
    element: &Element,
    values: &ArrayRef,
    at: usize,
    null_text: &str,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match element {
        Element::Scalar(scalar) => put_scalar(scalar, values, at, null_text, out),
        Element::Message(plan) => {
            let mut message = Vec::new();
            if values.is_valid(at) {
                put_message(plan, values.as_struct().columns(), at, null_text, &mut message)?;
            }
            encode_varint(message.len() as u64, out);
            out.extend_from_slice(&message);
            Ok(())
        }
    }
}

fn put_scalar(
    scalar: &Scalar,
    values: &ArrayRef,
    at: usize,
    null_text: &str,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let is_null = values.is_null(at);
    let whole = |value: i32| if is_null { 0 } else { i64::from(value) };
    match scalar {
        Scalar::Bool => out.push(u8::from(!is_null && values.as_boolean().value(at))),
        Scalar::Int32 | Scalar::Sint32 | Scalar::Uint32 | Scalar::Fixed32 => {
            let value = whole(values.as_primitive::<Int32Type>().value(at));
            match scalar {
                Scalar::Sint32 => encode_varint(zigzag(value), out),
                Scalar::Uint32 => encode_varint(u64::from(value as u32), out),
                Scalar::Fixed32 => out.extend_from_slice(&(value as i32).to_le_bytes()),
                _ => encode_varint(value as u64, out),
            }
        }
        Scalar::Int64 | Scalar::Sint64 | Scalar::Uint64 | Scalar::Fixed64 => {
            let value = if is_null { 0 } else { values.as_primitive::<Int64Type>().value(at) };
            match scalar {
                Scalar::Sint64 => encode_varint(zigzag(value), out),
                Scalar::Fixed64 => out.extend_from_slice(&value.to_le_bytes()),
                _ => encode_varint(value as u64, out),
            }
        }
        Scalar::Float => {
            let value = if is_null { 0.0 } else { values.as_primitive::<Float32Type>().value(at) };
            out.extend_from_slice(&value.to_le_bytes());
        }
        Scalar::Double => {
            let value = if is_null { 0.0 } else { values.as_primitive::<Float64Type>().value(at) };
            out.extend_from_slice(&value.to_le_bytes());
        }
        Scalar::String => {
            put_bytes(if is_null { null_text } else { values.as_string::<i32>().value(at) }.as_bytes(), out);
        }
        Scalar::Bytes => put_bytes(if is_null { &[] } else { values.as_binary::<i32>().value(at) }, out),
        Scalar::Enum(plan) => {
            let number = if is_null { plan.default } else { enum_number(plan, values, at)? };
            encode_varint(i64::from(number) as u64, out);
        }
    }
    Ok(())
}

fn enum_number(plan: &EnumPlan, values: &ArrayRef, at: usize) -> Result<i32, String> {
    let number = match values.data_type() {
        DataType::Int8 => i32::from(values.as_primitive::<Int8Type>().value(at)),
        DataType::Int16 => i32::from(values.as_primitive::<Int16Type>().value(at)),
        DataType::Int32 => values.as_primitive::<Int32Type>().value(at),
        _ => {
            let name = values.as_string::<i32>().value(at);
            let number = plan.numbers.get(name).copied();
            return number.ok_or_else(|| format!("'{name}' is no value of the enumeration"));
        }
    };
    match plan.is_open || plan.names.contains_key(&number) {
        true => Ok(number),
        false => Err(format!("{number} is no value of the enumeration")),
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

impl Element {
    fn wire(&self) -> WireType {
        match self {
            Element::Scalar(scalar) => scalar.wire(),
            Element::Message(_) => WireType::LengthDelimited,
        }
    }
}
