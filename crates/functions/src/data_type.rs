//! Types of Flink as types of Arrow, and as they are written for messages.

use arrow::datatypes::{DataType, TimeUnit};

/// Time zone of `TIMESTAMP_LTZ`: instants are kept in UTC, whatever zone a session shows them in.
pub const UTC: &str = "UTC";

/// The type of a processing time.
pub fn processing_time() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into()))
}

/// The type that a column has in Flink, where the planner or a function of DataFusion's uses one that Flink does
/// not know, and that sinks cannot write.
pub fn flink_type(planned: &DataType) -> DataType {
    match planned {
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Float16 => DataType::Float32,
        DataType::Time32(TimeUnit::Second) | DataType::Time64(_) => DataType::Time32(TimeUnit::Millisecond),
        other => other.clone(),
    }
}

/// The type as Flink writes it, for messages.
pub fn display(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 | DataType::UInt64 | DataType::UInt32 => "BIGINT".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "STRING".into(),
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "BYTES".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Timestamp(unit, zone) => {
            let precision = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            format!("TIMESTAMP{}({precision})", if zone.is_some() { "_LTZ" } else { "" })
        }
        DataType::Interval(_) => "INTERVAL".into(),
        DataType::Null => "NULL".into(),
        DataType::List(item) => format!("ARRAY<{}>", display(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|f| format!("{} {}", f.name(), display(f.data_type()))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                format!("MAP<{}, {}>", display(fields[0].data_type()), display(fields[1].data_type()))
            }
            other => format!("MAP<{other}>"),
        },
        other => other.to_string(),
    }
}
