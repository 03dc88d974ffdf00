use arrow::datatypes::DataType;
use laxity_connect::MetadataKey;

/// What `METADATA FROM` takes: Flink's keys, and `key`, the bytes of a record's key.
pub(crate) const KEYS: &[MetadataKey] = &[
    key("topic", "STRING NOT NULL", is_text, false),
    key("partition", "INT NOT NULL", |given| matches!(given, DataType::Int32 | DataType::Int64), false),
    key("headers", "MAP<STRING, BYTES> NOT NULL", is_headers, true),
    key("leader-epoch", "INT", |given| *given == DataType::Int32, false),
    key("offset", "BIGINT NOT NULL", |given| *given == DataType::Int64, false),
    key("timestamp", "TIMESTAMP_LTZ(3) NOT NULL", |given| matches!(given, DataType::Timestamp(..)), true),
    key("timestamp-type", "STRING NOT NULL", is_text, false),
    key("key", "BYTES", |given| *given == DataType::Binary, false),
];

const fn key(
    key: &'static str,
    sql_type: &'static str,
    fits: fn(&DataType) -> bool,
    is_written: bool,
) -> MetadataKey {
    MetadataKey { key, sql_type, fits, is_written }
}

fn is_text(given: &DataType) -> bool {
    *given == DataType::Utf8
}

fn is_headers(given: &DataType) -> bool {
    let DataType::Map(entries, _) = given else { return false };
    let DataType::Struct(pair) = entries.data_type() else { return false };
    *pair[0].data_type() == DataType::Utf8 && *pair[1].data_type() == DataType::Binary
}
