//! Options and METADATA of tables that are read. Cannot catch: what a broker or the client would say to them; none runs
//! here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use laxity_connect::{OptionReader, SourceConnector, TableSpec};

use super::KafkaSource;
use crate::metadata::KEYS;

/// A table with a column `v STRING` and these, and with `options` over what every table has.
pub(crate) fn table(columns: &[(&str, DataType)], options: &[(&str, &str)]) -> TableSpec {
    let mut fields = vec![Field::new("v", DataType::Utf8, true)];
    fields.extend(columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)));
    let mut all = BTreeMap::from([
        ("connector", "kafka"),
        ("topic", "t"),
        ("properties.bootstrap.servers", "localhost:9"),
        ("format", "json"),
    ]);
    for (key, value) in options {
        match *value {
            "(none)" => drop(all.remove(key)),
            value => drop(all.insert(key, value)),
        }
    }
    let all = all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    TableSpec { name: "t".into(), schema: Arc::new(Schema::new(fields)), options: all, base: PathBuf::new() }
}

fn refused(columns: &[(&str, DataType)], options: &[(&str, &str)]) -> String {
    let start = ("scan.startup.mode", "earliest-offset");
    let options = [&[start], options].concat();
    let table = table(columns, &options);
    match KafkaSource.validate(&table, &OptionReader::new(&table)) {
        Ok(()) => "nothing".to_owned(),
        Err(error) => format!("{}: {}", error.key, error.message),
    }
}

#[test]
fn every_wrong_option_is_named() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "nothing"),
        (&[("topic", "(none)")], "topic: missing"),
        (&[("topic", "a b")], "topic: 'a b' is no name of a topic"),
        (&[("topic", "a;b")], "nothing"),
        (&[("topic-pattern", "a.*")], "topic-pattern: 'topic' is given too"),
        (&[("topic", "(none)"), ("topic-pattern", "a(")], "topic-pattern: 'a(' is no pattern"),
        (&[("properties.bootstrap.servers", "(none)")], "properties.bootstrap.servers: missing"),
        (&[("format", "(none)")], "format: missing"),
        (&[("format", "parquet")], "format: 'parquet' is not for single records; expected"),
        (&[("value.format", "json")], "value.format: the same as 'format'"),
        (&[("format", "(none)"), ("value.format", "json")], "nothing"),
        (&[("value.json.ignore-parse-errors", "true")], "value.json.ignore-parse-errors: unknown option"),
        (&[("json.ignore-parse-errors", "maybe")], "json.ignore-parse-errors: 'maybe'"),
        (&[("key.format", "json")], "key.fields: missing"),
        (&[("key.fields", "k")], "key.format: missing"),
        (&[("key.fields", "x"), ("key.format", "json")], "key.fields: no column 'x'; the records have v, k"),
        (&[("key.fields", "k;k"), ("key.format", "json")], "key.fields: column 'k' is named twice"),
        (&[("key.fields", "k"), ("key.format", "raw")], "nothing"),
        (
            &[("key.fields", "v;k"), ("key.format", "json"), ("value.fields-include", "EXCEPT_KEY")],
            "value.fields-include: leaves no column",
        ),
        (
            &[("key.fields", "k"), ("key.format", "json"), ("key.fields-prefix", "k_")],
            "key.fields-prefix: needs 'value.fields-include'",
        ),
        (&[("format", "raw")], "format: raw holds one column, and there are 2"),
        (&[("scan.bounded.mode", "never")], "scan.bounded.mode: 'never' is not known"),
        (&[("scan.bounded.mode", "timestamp")], "scan.bounded.timestamp-millis: missing"),
        (&[("scan.bounded.mode", "group-offsets")], "properties.group.id: missing"),
        (&[("scan.watermark.idle-timeout", "soon")], "scan.watermark.idle-timeout: 'soon' is not a duration"),
        (&[("laxity.arrival", "late")], "laxity.arrival: 'late' is not known"),
        (&[("sink.partitioner", "fixed")], "nothing"),
        (
            &[("scan.startup.made", "x")],
            "scan.startup.made: unknown option, did you mean 'scan.startup.mode'?",
        ),
    ];
    for (options, expected) in cases {
        let said = refused(&[("k", DataType::Utf8)], options);
        assert!(said.starts_with(expected), "{options:?}: {said}");
    }
}

#[test]
fn metadata_has_flinks_types() {
    let fits = |key: &str, data_type: DataType| {
        (KEYS.iter().find(|known| known.key == key).expect("a known key").fits)(&data_type)
    };
    assert!(fits("offset", DataType::Int64) && !fits("offset", DataType::Utf8));
    assert!(fits("partition", DataType::Int32));
    assert!(fits("timestamp", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))));
    let pair = vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Binary, true)];
    let entries = Field::new("entries", DataType::Struct(pair.into()), false);
    assert!(fits("headers", DataType::Map(Arc::new(entries), false)));
    assert!(KEYS.iter().filter(|key| key.is_written).map(|key| key.key).eq(["headers", "timestamp"]));
}
