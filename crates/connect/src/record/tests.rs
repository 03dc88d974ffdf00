//! Records of `json` and `csv` as a queue brings them: which are good, with good and bad ones mixed at random. Cannot
//! catch: what a real queue does; records are made in memory here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int64Type, Schema};
use proptest::prelude::*;

use super::*;
use crate::{Direction, OptionReader, RecordFormat, TableSpec};

#[test]
fn records_are_found_again_also_behind_those_of_another() {
    let mut one = Records::default();
    one.push(Some(b"ab"));
    one.push(None);
    let mut other = Records::default();
    other.push(Some(b""));
    other.push(None);
    other.push(Some(b"c"));
    one.append(&other);
    let all: Vec<Option<&[u8]>> = (0..one.len()).map(|index| one.get_opt(index)).collect();
    assert_eq!(all, [Some(b"ab".as_slice()), None, Some(b""), None, Some(b"c")]);
    assert_eq!(one.bytes(), 3);
    one.clear();
    assert!(one.is_empty() && one.bytes() == 0);
}

/// Columns `n BIGINT NOT NULL, s STRING`.
fn format(options: &[(&str, &str)]) -> RecordFormat {
    let schema =
        Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, true)]);
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let schema = Arc::new(schema);
    let options: BTreeMap<String, String> = options.collect();
    let table = TableSpec { name: "t".into(), schema: Arc::clone(&schema), options, base: PathBuf::new() };
    RecordFormat::read(&OptionReader::new(&table), "format", &schema, Direction::Read).unwrap()
}

fn records(all: &[&str]) -> Records {
    let mut records = Records::default();
    all.iter().for_each(|record| records.push(Some(record.as_bytes())));
    records
}

/// What the records of this range come to: `n`, in order, and the places of the others.
fn decoded(format: &RecordFormat, records: &Records, range: Range<usize>) -> (Vec<i64>, Vec<usize>) {
    let mut bad = Vec::new();
    let rows = format.decoder(&[0, 1]).decode(records, range, &mut bad);
    let numbers = rows.column(0).as_primitive::<Int64Type>().values().to_vec();
    (numbers, bad.into_iter().map(|bad| bad.index).collect())
}

#[test]
fn a_json_record_is_one_object_on_any_number_of_lines() {
    let deep = format!(r#"{{"n":1,"x":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let all = records(&[
        r#"{"n":1}"#,
        "{\n \"n\": 2,\n \"s\": \"b\"\n}",
        "",
        r#"{"n":3}{"n":4}"#,
        " \n",
        r#"{"n":5"#,
        r#","s":"x"}"#,
        r#"{"s":"no n"}"#,
        &deep,
        r#"{"n":"6"}"#,
    ]);
    let format = format(&[("format", "json")]);
    assert_eq!(decoded(&format, &all, 0..10), (vec![1, 2, 6], vec![2, 3, 4, 5, 6, 7, 8]));
    // As any part of the records, and one after the other with one decoder.
    assert_eq!(decoded(&format, &all, 1..4), (vec![2], vec![2, 3]));
    let (mut decoder, mut bad) = (format.decoder(&[0]), Vec::new());
    assert_eq!(decoder.decode(&all, 2..4, &mut bad).num_rows(), 0);
    assert_eq!(decoder.decode(&all, 9..10, &mut bad).num_rows(), 1);
}

#[test]
fn a_csv_record_is_one_row() {
    let all =
        records(&["1,a", "2,\"b\nc\"", "", "3,c\n", "4,d\n5,e", "x,f", "7", "8,\"open", "9,\"q\"\"q\""]);
    let format = format(&[("format", "csv")]);
    assert_eq!(decoded(&format, &all, 0..9), (vec![1, 2, 3, 9], vec![2, 4, 5, 6, 7]));
    assert_eq!(decoded(&format, &all, 3..4), (vec![3], vec![]));
    let rows = format.decoder(&[1]).decode(&all, 8..9, &mut Vec::new());
    assert_eq!(rows.column(0).as_string::<i32>().value(0), "q\"q");
}

#[test]
fn options_of_a_format_stand_behind_the_prefix() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let options = [("value.format", "csv"), ("value.csv.field-delimiter", ";;")];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let base = PathBuf::new();
    let table = TableSpec { name: "t".into(), schema: schema.clone(), options: options.into(), base };
    let reader = OptionReader::new(&table).scoped("value.");
    let error = RecordFormat::read(&reader, "format", &schema, Direction::Read).unwrap_err();
    assert_eq!(error.key, "value.csv.field-delimiter");
}

proptest! {
    /// A bad record costs itself alone, wherever it stands, and each row is of its record.
    #[test]
    fn good_records_stay_around_bad_ones(kinds in proptest::collection::vec(0..6_u8, 1..80), json: bool) {
        let text = |n: usize, kind: u8| match (kind, json) {
            (0, true) => format!(r#"{{"n":{n},"s":"}}{{"}}"#),
            (1, true) => format!("{{\"n\":\n{n}}}"),
            (2, true) => format!(r#"{{"n":{n}"#),
            (3, true) => String::new(),
            (4, true) => format!(r#"{{"n":{n}}}{{"n":{n}}}"#),
            (0, false) => format!("{n},\",\""),
            (1, false) => format!("{n},\"a\nb\""),
            (2, false) => format!("{n},\"a"),
            (3, false) => String::new(),
            (4, false) => format!("{n},a\n{n},b"),
            _ => format!("{{{n}"),
        };
        let texts: Vec<String> = kinds.iter().enumerate().map(|(n, kind)| text(n, *kind)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let is_good = |n: &usize| kinds[*n] < 2;
        let (numbers, bad) =
            decoded(&format(&[("format", if json { "json" } else { "csv" })]), &records(&texts), 0..kinds.len());
        let good: Vec<i64> = (0..kinds.len()).filter(is_good).map(|n| n as i64).collect();
        prop_assert_eq!(numbers, good);
        let others: Vec<usize> = (0..kinds.len()).filter(|n| !is_good(n)).collect();
        prop_assert_eq!(bad, others);
    }
}

#[test]
fn rows_of_records_are_written_and_read_again() {
    for kind in ["json", "csv"] {
        let format = format(&[("format", kind)]);
        let texts = match kind {
            "json" => records(&[r#"{"n":1,"s":"a\nb"}"#, r#"{"n":2,"s":"é"}"#]),
            _ => records(&["1,\"a\nb\"", "2,é"]),
        };
        let rows = format.decoder(&[0, 1]).decode(&texts, 0..2, &mut Vec::new());
        let mut written = Records::default();
        format.encoder().encode(&rows, &mut written).unwrap();
        assert_eq!(written.len(), 2);
        assert_eq!((written.get(0), written.get(1)), (texts.get(0), texts.get(1)));
        assert_eq!(rows.column(1).null_count(), 0);
    }
}

/// Rows with rows in them, some NULL, written and read back: each field by itself, without the others.
#[test]
fn a_field_that_is_read_alone_is_that_of_the_whole() {
    let inner: Fields =
        vec![Field::new("y", DataType::Float64, true), Field::new("z", DataType::Utf8, true)].into();
    let outer: Fields = vec![
        Field::new("x", DataType::Int64, true),
        Field::new("inside", DataType::Struct(inner.clone()), true),
        Field::new("s", DataType::Utf8, true),
    ]
    .into();
    let columns =
        vec![Field::new("n", DataType::Int64, false), Field::new("r", DataType::Struct(outer.clone()), true)];
    let schema = Arc::new(Schema::new(columns));
    let texts = || Arc::new(StringArray::from(vec![Some("a"), None, Some("longer"), Some("")])) as ArrayRef;
    let numbers = Float64Array::from(vec![Some(0.5), Some(1.0), None, Some(2.5)]);
    let valid = |valid: [bool; 4]| Some(NullBuffer::from(valid.to_vec()));
    let inside = StructArray::new(inner, vec![Arc::new(numbers), texts()], valid([true, true, false, true]));
    let x = Int64Array::from(vec![Some(1), None, Some(3), Some(4)]);
    let r = StructArray::new(
        outer,
        vec![Arc::new(x), Arc::new(inside), texts()],
        valid([true, false, true, true]),
    );
    let n = Arc::new(Int64Array::from_iter_values(0..4));
    let rows = RecordBatch::try_new(Arc::clone(&schema), vec![n, Arc::new(r)]).unwrap();

    let way = |column: usize, fields: &[usize]| FieldWay { column, fields: fields.to_vec() };
    let all = [way(0, &[]), way(1, &[0]), way(1, &[1, 0]), way(1, &[1, 1]), way(1, &[2])];
    for name in ["json", "avro"] {
        let options = BTreeMap::from([("format".to_owned(), name.to_owned())]);
        let table =
            TableSpec { name: "t".into(), schema: Arc::clone(&schema), options, base: PathBuf::new() };
        let format =
            RecordFormat::read(&OptionReader::new(&table), "format", &schema, Direction::Read).unwrap();
        let mut records = Records::default();
        format.encoder().encode(&rows, &mut records).unwrap();
        let read = |ways: &[FieldWay]| {
            let mut bad = Vec::new();
            let rows = format.field_decoder(ways).decode(&records, 0..4, &mut bad);
            assert_eq!(bad, [], "{name}, {ways:?}");
            rows
        };
        let whole = read(&all);
        let x: Vec<Option<i64>> = whole.column(1).as_primitive::<Int64Type>().iter().collect();
        assert_eq!(x, [Some(1), None, Some(3), Some(4)], "{name}");
        let z: Vec<Option<&str>> = whole.column(3).as_string::<i32>().iter().collect();
        assert_eq!(z, [Some("a"), None, None, Some("")], "{name}");
        for (place, way) in all.iter().enumerate() {
            assert_eq!(read(std::slice::from_ref(way)).column(0), whole.column(place), "{name}, {way:?}");
        }
        assert_eq!(read(&[way(0, &[]), way(1, &[])]).column(1), rows.column(1), "{name}");
    }
}

/// What nobody reads is not looked at, in a ROW as beside it.
#[test]
fn a_bad_field_costs_only_who_reads_it() {
    let row = DataType::Struct(
        vec![Field::new("x", DataType::Int64, true), Field::new("at", DataType::Date32, true)].into(),
    );
    let schema = Arc::new(Schema::new(vec![Field::new("r", row, true)]));
    let options = BTreeMap::from([("format".to_owned(), "json".to_owned())]);
    let table = TableSpec { name: "t".into(), schema: Arc::clone(&schema), options, base: PathBuf::new() };
    let format = RecordFormat::read(&OptionReader::new(&table), "format", &schema, Direction::Read).unwrap();
    let all = records(&[r#"{"r":{"x":1,"at":"never"}}"#, r#"{"r":{"x":"?","at":"2024-03-01"}}"#]);
    for (field, good) in [(0, 0), (1, 1)] {
        let mut bad = Vec::new();
        let ways = [FieldWay { column: 0, fields: vec![field] }];
        let rows = format.field_decoder(&ways).decode(&all, 0..2, &mut bad);
        assert_eq!((rows.num_rows(), rows.column(0).null_count(), bad.len()), (1, 0, 1));
        assert_eq!(bad[0].index, 1 - good);
    }
}
