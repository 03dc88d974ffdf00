use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// Arrow reads and prints zones by name only with a time-zone database compiled in; `UTC` needs none.
pub(crate) fn with_offset_zones(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| with_offset_zone(field)).collect();
    Arc::new(Schema::new(fields))
}

fn with_offset_zone(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Timestamp(unit, Some(zone)) if matches!(zone.as_ref(), "UTC" | "Z" | "Etc/UTC") => {
            DataType::Timestamp(*unit, Some("+00:00".into()))
        }
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| with_offset_zone(field)).collect())
        }
        DataType::List(item) => DataType::List(Arc::new(with_offset_zone(item))),
        DataType::Map(entries, sorted) => DataType::Map(Arc::new(with_offset_zone(entries)), *sorted),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}
