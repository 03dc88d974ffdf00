//! Columns as a schema of Avro, named and nested as Flink does it: so a subject of a registry may be written by both. And a
//! schema with no more than columns ask for.

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use serde_json::{Value, json};

use crate::OptionError;
use crate::options::OptionReader;

const NAMESPACE: &str = "org.apache.flink.avro.generated";

/// What a TIMESTAMP is in a schema: the option `timestamp_mapping.legacy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timestamps {
    /// A `timestamp`, which by Avro's book is an instant: Flink's default.
    Instant,
    /// A `local-timestamp`; a TIMESTAMP_LTZ alone is an instant.
    Local,
}

impl Timestamps {
    /// `key` is that of the format: `avro.timestamp_mapping.legacy`.
    pub(super) fn read(options: &OptionReader<'_>, key: &str) -> Result<Timestamps, OptionError> {
        Ok(match options.boolean(key)? {
            Some(false) => Timestamps::Local,
            Some(true) | None => Timestamps::Instant,
        })
    }
}

/// The schema as JSON, of columns that [Avro has](super::types::on_the_wire).
pub(super) fn json_of(columns: &Schema, timestamps: Timestamps) -> String {
    let mut record = record(columns.fields(), "record", timestamps);
    record["namespace"] = NAMESPACE.into();
    record.to_string()
}

fn record(fields: &Fields, name: &str, timestamps: Timestamps) -> Value {
    let fields: Vec<Value> = fields
        .iter()
        .map(|field| {
            let own = schema_of(field, &format!("{name}_{}", field.name()), timestamps);
            match field.is_nullable() {
                true => json!({"name": field.name(), "type": own, "default": null}),
                false => json!({"name": field.name(), "type": own}),
            }
        })
        .collect();
    json!({"type": "record", "name": name, "fields": fields})
}

fn schema_of(field: &Field, name: &str, timestamps: Timestamps) -> Value {
    let own = match field.data_type() {
        DataType::Boolean => json!("boolean"),
        DataType::Int32 => json!("int"),
        DataType::Int64 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Utf8 => json!("string"),
        DataType::Binary => json!("bytes"),
        DataType::Decimal128(precision, scale) => {
            json!({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale})
        }
        DataType::Date32 => json!({"type": "int", "logicalType": "date"}),
        DataType::Time32(_) => json!({"type": "int", "logicalType": "time-millis"}),
        DataType::Timestamp(unit, zone) => {
            let place = if zone.is_none() && timestamps == Timestamps::Local { "local-" } else { "" };
            let unit = if *unit == TimeUnit::Microsecond { "micros" } else { "millis" };
            json!({"type": "long", "logicalType": format!("{place}timestamp-{unit}")})
        }
        DataType::List(item) => json!({"type": "array", "items": schema_of(item, name, timestamps)}),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => json!({"type": "map", "values": schema_of(&pair[1], name, timestamps)}),
            other => unreachable!("entries of a map are {other}"),
        },
        DataType::Struct(fields) => record(fields, name, timestamps),
        other => unreachable!("avro has no {other}, which was said with the options"),
    };
    match field.is_nullable() {
        true => json!(["null", own]),
        false => own,
    }
}

/// The schema of a record, and which branch it is where it stands beside null: Flink writes files of these.
///
/// # Errors
/// If it is that of something else.
pub(super) fn record_of(json: &str) -> Result<(String, Option<i64>), String> {
    let schema: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let is_record = |schema: &Value| schema["type"] == "record";
    match &schema {
        Value::Array(branches) if branches.iter().filter(|branch| **branch != "null").count() == 1 => {
            let record = branches
                .iter()
                .position(is_record)
                .map(|place| (branches[place].to_string(), Some(place as i64)));
            record.ok_or_else(|| "it is not of a record".to_owned())
        }
        record if is_record(record) => Ok((json.to_owned(), None)),
        _ => Err("it is not of a record".to_owned()),
    }
}

/// The schema of a record without those fields of records inside it that the columns do not have; `None` where these have all.
pub(super) fn without_unread(json: &str, columns: &Schema) -> Option<String> {
    let mut schema: Value = serde_json::from_str(json).ok()?;
    let mut is_less = false;
    for field in schema.get_mut("fields")?.as_array_mut()? {
        let column = field["name"].as_str().and_then(|name| columns.field_with_name(name).ok());
        if let Some(column) = column {
            is_less |= keep_read(&mut field["type"], column.data_type());
        }
    }
    is_less.then(|| schema.to_string())
}

/// True if anything was left out.
fn keep_read(schema: &mut Value, read: &DataType) -> bool {
    let DataType::Struct(fields) = read else { return false };
    if let Some(branches) = schema.as_array_mut() {
        return branches.iter_mut().fold(false, |is_less, branch| keep_read(branch, read) | is_less);
    }
    let Some(own) = schema.get_mut("fields").and_then(Value::as_array_mut) else {
        // What is in the brackets of a type that says no more.
        return schema.get_mut("type").is_some_and(|inner| !inner.is_string() && keep_read(inner, read));
    };
    let all = own.len();
    let find = |field: &Value| fields.find(field["name"].as_str()?).map(|(_, field)| field);
    own.retain(|field| find(field).is_some());
    let mut is_less = own.len() < all;
    for field in own {
        if let Some(read) = find(field) {
            is_less |= keep_read(&mut field["type"], read.data_type());
        }
    }
    is_less
}
