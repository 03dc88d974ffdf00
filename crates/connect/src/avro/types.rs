use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};

/// The columns in types that Avro has: whole numbers are INT or BIGINT, times milliseconds or microseconds.
///
/// # Errors
/// Says which column has no such type.
pub(super) fn on_the_wire(schema: &Schema) -> Result<Schema, String> {
    let fields = schema.fields().iter().map(|field| {
        let refused = || format!("avro cannot hold column '{}' of type {}", field.name(), field.data_type());
        if !is_name(field.name()) {
            return Err(format!(
                "avro has no field named '{}': letters, digits and '_' make a name",
                field.name()
            ));
        }
        let data_type = wire_type(field.data_type()).ok_or_else(refused)?;
        // Of marks of ours it knows nothing.
        Ok(Field::new(field.name(), data_type, field.is_nullable()))
    });
    Ok(Schema::new(fields.collect::<Result<Vec<_>, String>>()?))
}

fn wire_type(data_type: &DataType) -> Option<DataType> {
    let of = |field: &FieldRef| -> Option<FieldRef> {
        let inner = wire_type(field.data_type())?;
        is_name(field.name()).then(|| Arc::new(Field::new(field.name(), inner, field.is_nullable())))
    };
    Some(match data_type {
        DataType::Boolean
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Binary
        | DataType::Decimal128(..)
        | DataType::Date32
        | DataType::Time32(TimeUnit::Millisecond) => data_type.clone(),
        DataType::Int8 | DataType::Int16 => DataType::Int32,
        DataType::Timestamp(unit, zone) => {
            let unit = match unit {
                TimeUnit::Second | TimeUnit::Millisecond => TimeUnit::Millisecond,
                TimeUnit::Microsecond => TimeUnit::Microsecond,
                TimeUnit::Nanosecond => return None,
            };
            DataType::Timestamp(unit, zone.as_ref().map(|_| "+00:00".into()))
        }
        DataType::List(item) => DataType::List(of(item)?),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect::<Option<_>>()?),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return None };
            if *pair[0].data_type() != DataType::Utf8 {
                return None;
            }
            let pair = [Arc::clone(&pair[0]), of(&pair[1])?];
            let entries = Field::new(entries.name(), DataType::Struct(pair.into_iter().collect()), false);
            DataType::Map(Arc::new(entries), *sorted)
        }
        _ => return None,
    })
}

/// Avro's rule.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.starts_with(is_letter) && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
}
