//! Which fields of a message are which columns, in Flink's types. Columns are found by name; fields that no column asks
//! for are skipped.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Fields};
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax, Value};

/// A message, as far as columns ask for it.
#[derive(Debug)]
pub(super) struct MessagePlan {
    /// One for each column.
    pub fields: Vec<FieldPlan>,
    /// Numbers that mean something here, ascending.
    known: Vec<Known>,
    /// The columns, by the numbers of their fields.
    by_number: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    number: u32,
    /// The column; `None` if it is only of a `oneof` that a column is of.
    pub field: Option<usize>,
    /// Of which at most one is there.
    pub oneof: Option<usize>,
}

/// A column and its field.
#[derive(Debug)]
pub(super) struct FieldPlan {
    pub number: u32,
    pub name: String,
    pub shape: Shape,
    pub data_type: DataType,
    pub is_nullable: bool,
    pub oneof: Option<usize>,
    /// What stands for one that is not there; `None` is NULL.
    pub absent: Option<Value>,
    /// One that holds the default is not written.
    pub omits_default: bool,
}

/// How a field is written.
#[derive(Debug)]
pub(super) enum Shape {
    One(Element),
    Many { element: Element, is_packed: bool },
    Map { key: Scalar, value: Element },
}

/// A single value.
#[derive(Debug)]
pub(super) enum Element {
    Scalar(Scalar),
    Message(MessagePlan),
}

/// Protobuf's own types.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    Bool,
    Int32,
    Sint32,
    Uint32,
    Fixed32,
    Int64,
    Sint64,
    Uint64,
    Fixed64,
    Float,
    Double,
    String,
    Bytes,
    Enum(EnumPlan),
}

/// Values of an enumeration, by number and by name.
#[derive(Clone, Debug)]
pub(super) struct EnumPlan {
    pub names: HashMap<i32, String>,
    pub numbers: HashMap<String, i32>,
    pub default: i32,
    /// Numbers that it does not know are values too.
    pub is_open: bool,
}

impl MessagePlan {
    /// # Errors
    /// Says which column there is no field for, or one of another type.
    pub(super) fn new(
        message: &MessageDescriptor,
        columns: &Fields,
        reads_defaults: bool,
    ) -> Result<MessagePlan, String> {
        let mut fields = Vec::with_capacity(columns.len());
        for column in columns {
            let Some(field) = message.get_field_by_name(column.name()) else {
                let names: Vec<String> = message.fields().map(|field| field.name().to_owned()).collect();
                return Err(format!(
                    "message '{}' has no field '{}'; it has {}",
                    message.full_name(),
                    column.name(),
                    names.join(", ")
                ));
            };
            let shape = shape(&field, column.data_type(), reads_defaults)?;
            let is_single = matches!(shape, Shape::One(_));
            let has_default = if is_single { !field.supports_presence() } else { !column.is_nullable() };
            let absent = (reads_defaults || has_default).then(|| field.default_value());
            fields.push(FieldPlan {
                number: field.number(),
                name: column.name().clone(),
                shape,
                data_type: column.data_type().clone(),
                is_nullable: column.is_nullable(),
                oneof: oneof_of(&field),
                absent,
                omits_default: is_single && !field.supports_presence(),
            });
        }
        let mut known: Vec<Known> = message
            .fields()
            .filter_map(|field| {
                let oneof = oneof_of(&field);
                let of_column = fields.iter().position(|plan| plan.number == field.number());
                let is_of_oneof = oneof.is_some() && fields.iter().any(|plan| plan.oneof == oneof);
                (of_column.is_some() || is_of_oneof).then(|| Known {
                    number: field.number(),
                    field: of_column,
                    oneof,
                })
            })
            .collect();
        known.sort_by_key(|known| known.number);
        let by_number = known.iter().filter_map(|known| known.field).collect();
        Ok(MessagePlan { fields, known, by_number })
    }

    /// The columns in the order in which they are written.
    pub(super) fn by_number(&self) -> &[usize] {
        &self.by_number
    }

    /// What a number means.
    pub(super) fn find(&self, number: u32) -> Option<Known> {
        let place = self.known.binary_search_by_key(&number, |known| known.number).ok()?;
        Some(self.known[place])
    }
}

/// Its number among the `oneof`s of its message.
fn oneof_of(field: &FieldDescriptor) -> Option<usize> {
    let oneof = field.containing_oneof()?;
    field.parent_message().oneofs().position(|other| other == oneof)
}

fn shape(field: &FieldDescriptor, data_type: &DataType, reads_defaults: bool) -> Result<Shape, String> {
    let other = |wanted: &str| {
        Err(format!(
            "column '{}' is {data_type}, and the message's field is {}, which {wanted} holds",
            field.name(),
            kind_text(field)
        ))
    };
    if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
        let DataType::Map(entries, _) = data_type else { return other("a MAP") };
        let DataType::Struct(pair) = entries.data_type() else { unreachable!("a map has entries") };
        let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let Element::Scalar(key) = element(&key, pair[0].data_type(), reads_defaults)? else {
            unreachable!("keys are no messages")
        };
        return Ok(Shape::Map { key, value: element(&value, pair[1].data_type(), reads_defaults)? });
    }
    if field.cardinality() == Cardinality::Repeated {
        let DataType::List(item) = data_type else { return other("an ARRAY") };
        let element = element(field, item.data_type(), reads_defaults)?;
        return Ok(Shape::Many { element, is_packed: field.is_packed() });
    }
    Ok(Shape::One(element(field, data_type, reads_defaults)?))
}

fn element(field: &FieldDescriptor, data_type: &DataType, reads_defaults: bool) -> Result<Element, String> {
    use DataType::{Binary, Boolean, Float32, Float64, Int8, Int16, Int32, Int64, Struct, Utf8};
    let (scalar, sql, fits) = match field.kind() {
        Kind::Message(message) if field.is_group() => {
            return Err(format!(
                "field '{}' is a group of '{}', which is not supported",
                field.name(),
                message.name()
            ));
        }
        Kind::Message(message) => match data_type {
            Struct(fields) => {
                return Ok(Element::Message(MessagePlan::new(&message, fields, reads_defaults)?));
            }
            other => {
                return Err(format!(
                    "column '{}' is {other}, and the message's field is a message, which a ROW holds",
                    field.name()
                ));
            }
        },
        Kind::Bool => (Scalar::Bool, "BOOLEAN", *data_type == Boolean),
        Kind::Int32 => (Scalar::Int32, "INT", *data_type == Int32),
        Kind::Sint32 => (Scalar::Sint32, "INT", *data_type == Int32),
        Kind::Uint32 => (Scalar::Uint32, "INT", *data_type == Int32),
        Kind::Fixed32 | Kind::Sfixed32 => (Scalar::Fixed32, "INT", *data_type == Int32),
        Kind::Int64 => (Scalar::Int64, "BIGINT", *data_type == Int64),
        Kind::Sint64 => (Scalar::Sint64, "BIGINT", *data_type == Int64),
        Kind::Uint64 => (Scalar::Uint64, "BIGINT", *data_type == Int64),
        Kind::Fixed64 | Kind::Sfixed64 => (Scalar::Fixed64, "BIGINT", *data_type == Int64),
        Kind::Float => (Scalar::Float, "FLOAT", *data_type == Float32),
        Kind::Double => (Scalar::Double, "DOUBLE", *data_type == Float64),
        Kind::String => (Scalar::String, "STRING", *data_type == Utf8),
        Kind::Bytes => (Scalar::Bytes, "BYTES", *data_type == Binary),
        Kind::Enum(values) => (
            Scalar::Enum(EnumPlan::new(&values)),
            "STRING or INT",
            matches!(data_type, Utf8 | Int8 | Int16 | Int32),
        ),
    };
    match fits {
        true => Ok(Element::Scalar(scalar)),
        false => Err(format!(
            "column '{}' is {data_type}, and the message's field is {}, which {sql} holds",
            field.name(),
            kind_text(field)
        )),
    }
}

fn kind_text(field: &FieldDescriptor) -> String {
    let kind = match field.kind() {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(values) => format!("enum {}", values.full_name()),
        other => format!("{other:?}").to_lowercase(),
    };
    match (field.is_map(), field.cardinality()) {
        (true, _) => "a map".to_owned(),
        (false, Cardinality::Repeated) => format!("repeated {kind}"),
        _ => kind,
    }
}

impl EnumPlan {
    fn new(values: &EnumDescriptor) -> EnumPlan {
        let mut names = HashMap::new();
        let mut numbers = HashMap::new();
        for value in values.values() {
            // Of several names of one number the first is its own.
            names.entry(value.number()).or_insert_with(|| value.name().to_owned());
            numbers.insert(value.name().to_owned(), value.number());
        }
        let default = values.default_value().number();
        EnumPlan { names, numbers, default, is_open: values.parent_file().syntax() == Syntax::Proto3 }
    }
}
