//! JSON lines: types, spellings of time, reasons for dead letters, and good rows among bad ones at random.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::TableSpec;
use crate::fixture::{TIMESTAMP, dead_letters, drain, file_table, lines, open};

fn read(text: &[u8], columns: &[(&str, DataType)]) -> (Vec<String>, Vec<String>) {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.json"), text).unwrap();
    let table = file_table(
        folder.path(),
        "json",
        "in.json",
        columns,
        &[("laxity.dead-letter.path", "dead/letters.jsonl")],
    );
    let rows = lines(&drain(open(&table).unwrap().as_mut()));
    (rows, dead_letters(&folder.path().join("dead/letters.jsonl")))
}

const INT_TEXT: &[(&str, DataType)] = &[("i", DataType::Int32), ("s", DataType::Utf8)];

#[test]
fn fields_by_name_and_blank_lines() {
    let text = b"{\"s\":\"a\",\"x\":[1],\"i\":1}\r\n\n{\"i\":null}\n{\"i\":3,\"s\":4.5}";
    assert_eq!(read(text, INT_TEXT), (vec!["1|a".into(), "NULL|NULL".into(), "3|4.5".into()], vec![]));
}

#[test]
fn a_line_is_not_counted_for_another() {
    for text in ["{\"i\":1}{\"i\":2}\n\n{\"i\":3}\n", "{\"i\":1}{\"i\":2}\n{\"i\":\n9}\n{\"i\":3}\n"] {
        let (rows, dead) = read(text.as_bytes(), INT_TEXT);
        assert_eq!(rows, ["3|NULL"], "{text}");
        assert!(dead[0].contains("more than one value in a line"), "{dead:?}");
        assert_eq!(dead.len(), if text.contains('9') { 3 } else { 1 }, "{dead:?}");
    }
}

#[test]
fn both_spellings_of_time_and_nested_values() {
    let columns = [
        ("t", TIMESTAMP),
        ("r", DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into())),
        ("l", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))),
    ];
    let text = b"{\"t\":\"2013-01-01 10:17:00.5\",\"r\":{\"a\":1},\"l\":[\"x\",null]}\n{\"t\":\"2013-01-01T10:17:00Z\"}\n";
    let (rows, dead) = read(text, &columns);
    assert_eq!(rows, ["2013-01-01T10:17:00.500|{a: 1}|[x, NULL]", "2013-01-01T10:17:00|NULL|NULL"]);
    assert_eq!(dead, Vec::<String>::new());
}

#[test]
fn zones_keep_their_declared_names() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.json"), "{\"z\":\"1970-01-01T01:00:01+01:00\"}\n").unwrap();
    let columns = [("z", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())))];
    let table = file_table(folder.path(), "json", "in.json", &columns, &[]);
    let rows = drain(open(&table).unwrap().as_mut());
    assert_eq!(rows.schema(), table.schema);
    let times: &arrow::array::TimestampMillisecondArray = rows.column(0).as_any().downcast_ref().unwrap();
    assert_eq!(times.value(0), 1_000);
}

#[test]
fn what_arrow_does_not_read_and_flink_does() {
    let columns = [
        ("b", DataType::Boolean),
        ("s", DataType::Utf8),
        ("y", DataType::Binary),
        ("d", DataType::Decimal128(5, 2)),
    ];
    let text = b"{\"b\":\"TRUE\",\"s\":{\"k\":[1]},\"y\":\"AQI=\",\"d\":1.005}\n{\"d\":\"99999\"}\n{\"y\":\"AQI\"}\n";
    let (rows, dead) = read(text, &columns);
    assert_eq!(rows, ["true|{\"k\":[1]}|0102|1.01", "NULL|NULL|NULL|NULL"]);
    assert_eq!(dead.len(), 1);
    assert!(dead[0].contains("column 'y': 'AQI' is not BYTES in Base64"), "{}", dead[0]);
}

#[test]
fn a_bad_field_is_null_where_that_is_asked_for() {
    let folder = tempdir().unwrap();
    std::fs::write(
        folder.path().join("in.json"),
        "{\"i\":\"x\",\"n\":1}\n{\"i\":2,\"n\":\"x\"}\n{\"i\":3,\"n\":3}\n",
    )
    .unwrap();
    let mut table = TableSpec::clone(&file_table(
        folder.path(),
        "json",
        "in.json",
        &[("i", DataType::Int32), ("n", DataType::Int32)],
        &[("laxity.bad-field", "null"), ("laxity.dead-letter.path", "dead/letters.jsonl")],
    ));
    let fields = [Field::new("i", DataType::Int32, true), Field::new("n", DataType::Int32, false)];
    table.schema = Arc::new(Schema::new(fields.to_vec()));
    let rows = lines(&drain(open(&Arc::new(table)).unwrap().as_mut()));
    assert_eq!(rows, ["NULL|1", "3|3"]);
    assert_eq!(dead_letters(&folder.path().join("dead/letters.jsonl")).len(), 1);
}

#[test]
fn bad_rows_with_their_reasons() {
    let text = b"{\"i\":1}\n{\"i\":\"x\"}\n{\"i\":\nnot json\n[1]\n{\"i\":2}{\"i\":3}\n{\"i\":4}\n{\"i\":5,\"s\":\"\xff\"}\n{\"i\":6,";
    let (rows, dead) = read(text, INT_TEXT);
    assert_eq!(rows, ["1|NULL", "4|NULL"]);
    let numbers: Vec<&str> = dead.iter().map(|dead| dead.split(':').next().unwrap()).collect();
    assert_eq!(numbers, ["2", "3", "4", "5", "6", "8", "9"]);
    assert_eq!(dead[0], "2: whilst decoding field 'i': failed to parse \"x\" as Int32: {\"i\":\"x\"}");
    assert_eq!(dead[1], "3: the line ends inside a value: {\"i\":");
    assert_eq!(dead[4], "6: more than one value in a line: {\"i\":2}{\"i\":3}");
}

#[test]
fn a_missing_not_null_field_is_a_bad_row() {
    let (rows, dead) = read(b"{\"i\":1}\n{\"s\":\"a\"}\n", &[("i!", DataType::Int32), ("s", DataType::Utf8)]);
    assert_eq!(rows, ["1|NULL"]);
    assert!(dead.len() == 1 && dead[0].starts_with("2: a NOT NULL field is missing or null: "), "{dead:?}");
}

#[test]
fn no_columns_still_count_rows() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.json"), "{\"i\":1}\n{\"i\":2}\n").unwrap();
    let table = file_table(folder.path(), "json", "in.json", INT_TEXT, &[]);
    let env = crate::ScanEnvironment::new(laxity_graph::ProcessingTime::ZERO, laxity_graph::EventTime(0));
    let mut scan = crate::open_scan(&crate::ScanSpec { table, columns: vec![] }, &env).unwrap();
    assert_eq!(drain(scan.as_mut()).num_rows(), 2);
}

#[test]
fn maps_and_what_numbers_become() {
    let pair = vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int32, true)];
    let entries = Field::new("entries", DataType::Struct(pair.into()), false);
    let columns = [("m", DataType::Map(Arc::new(entries), false)), ("i", DataType::Int32), ("t", TIMESTAMP)];
    // A fraction is cut off, text that is a number is one, and a number in a TIMESTAMP is milliseconds.
    let text = b"{\"m\":{\"a\":1,\"b\":null},\"i\":1.5,\"t\":1500}\n{\"i\":\"7\"}\n{\"i\":3000000000}\n";
    let (rows, dead) = read(text, &columns);
    assert_eq!(rows, ["{a: 1, b: NULL}|1|1970-01-01T00:00:01.500", "NULL|7|NULL"]);
    assert_eq!(dead.len(), 1);
}

#[test]
fn types_without_a_decoder_are_refused() {
    let folder = tempdir().unwrap();
    let interval = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
    let table = file_table(folder.path(), "json", "in.json", &[("x", interval)], &[]);
    let error = crate::validate_source(&table).unwrap_err();
    assert!(error.message.starts_with("json cannot hold column 'x'"), "{error}");
}

fn line() -> impl Strategy<Value = (String, bool)> {
    prop_oneof![
        8 => (0..1000_i32).prop_map(|i| (format!("{{\"i\":{i},\"s\":\"t{i}\"}}"), true)),
        1 => Just(("{\"i\":\"x\"}".to_owned(), false)),
        1 => Just(("{\"i\":1".to_owned(), false)),
        1 => Just(("{\"i\":1}}".to_owned(), false)),
        1 => Just(("]".to_owned(), false)),
        1 => Just(("\"".to_owned(), false)),
        1 => Just(("{\"i\":{}}".to_owned(), false)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Exactly the bad lines are dead, with their numbers, and the good ones come in order.
    #[test]
    fn good_rows_survive_bad_neighbours(lines in proptest::collection::vec(line(), 1..200)) {
        prop_assume!(lines.iter().any(|(_, good)| *good));
        let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
        let (rows, dead) = read(text.as_bytes(), INT_TEXT);
        let good = lines.iter().filter(|(_, good)| *good);
        let expected: Vec<String> = good
            .map(|(line, _)| {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                format!("{}|{}", value["i"], value["s"].as_str().unwrap())
            })
            .collect();
        let expected_dead: Vec<usize> =
            lines.iter().enumerate().filter(|(_, (_, good))| !good).map(|(index, _)| index + 1).collect();
        let dead: Vec<usize> = dead.iter().map(|dead| dead.split(':').next().unwrap().parse().unwrap()).collect();
        prop_assert_eq!(rows, expected);
        prop_assert_eq!(dead, expected_dead);
    }
}

#[test]
fn a_deep_line_is_one_bad_row() {
    let deep = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        format!("{{\"i\":1,\"s\":{open}{close}}}")
    };
    let in_text = format!("{{\"i\":3,\"s\":\"\\\"{}\"}}", "[".repeat(30_000));
    let unclosed = format!("{{\"i\":4,\"x\":{}", "[{\"k\":".repeat(30_000));
    let text = format!("{{\"i\":0}}\n{}\n{}\n{in_text}\n{unclosed}\n{{\"i\":5}}", deep(128), deep(60_000));
    let (rows, dead) = read(text.as_bytes(), INT_TEXT);
    assert_eq!(rows.iter().map(|row| &row[..1]).collect::<Vec<_>>(), ["0", "3", "5"]);
    let dead: Vec<&str> = dead.iter().map(|letter| &letter[..35.min(letter.len())]).collect();
    // Nested in a STRING: as deep as it may be, and so read, and of the wrong type.
    assert_eq!(
        dead,
        [
            "2: whilst decoding field 's': expec",
            "3: nested more than 128 deep: {\"i\":",
            "5: nested more than 128 deep: {\"i\":"
        ]
    );
}

#[test]
fn a_reason_is_short_however_long_the_value() {
    let text = format!("{{\"i\":[{}1]}}\n", "\"é\",".repeat(10_000));
    let (rows, dead) = {
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("in.json"), format!("{text}{{\"i\":1}}\n")).unwrap();
        let options = [("laxity.dead-letter.path", "dead.jsonl")];
        let table = file_table(folder.path(), "json", "in.json", INT_TEXT, &options);
        let rows = drain(open(&table).unwrap().as_mut()).num_rows();
        let text = std::fs::read_to_string(folder.path().join("dead.jsonl")).unwrap();
        (rows, serde_json::from_str::<serde_json::Value>(&text).unwrap())
    };
    let reason = dead["reason"].as_str().unwrap();
    assert!(rows == 1 && reason.len() <= 303 && reason.ends_with('…'), "{reason}");
}
