//! Columns as a schema of Avro, named and nested as Flink does it: so a subject of a registry may be written by both.

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use serde_json::{Value, json};

const NAMESPACE: &str = "org.apache.flink.avro.generated";

/// The schema as JSON, of columns that [Avro has](super::types::on_the_wire).
pub(super) fn json_of(columns: &Schema) -> String {
    let mut record = record(columns.fields(), "record");
    record["namespace"] = NAMESPACE.into();
    record.to_string()
}

fn record(fields: &Fields, name: &str) -> Value {
    let fields: Vec<Value> = fields
        .iter()
        .map(|field| {
            let own = schema_of(field, &format!("{name}_{}", field.name()));
            match field.is_nullable() {
                true => json!({"name": field.name(), "type": own, "default": null}),
                false => json!({"name": field.name(), "type": own}),
            }
        })
        .collect();
    json!({"type": "record", "name": name, "fields": fields})
}

fn schema_of(field: &Field, name: &str) -> Value {
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
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            json!({"type": "long", "logicalType": "timestamp-micros"})
        }
        DataType::Timestamp(..) => json!({"type": "long", "logicalType": "timestamp-millis"}),
        DataType::List(item) => json!({"type": "array", "items": schema_of(item, name)}),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => json!({"type": "map", "values": schema_of(&pair[1], name)}),
            other => unreachable!("entries of a map are {other}"),
        },
        DataType::Struct(fields) => record(fields, name),
        other => unreachable!("avro has no {other}, which was said with the options"),
    };
    match field.is_nullable() {
        true => json!(["null", own]),
        false => own,
    }
}
