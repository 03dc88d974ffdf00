//! Every option of CSV, every reason for a dead letter, and good rows mixed with bad ones at random. The
//! decoder is driven through files, as queries drive it.

use std::fmt::Write;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int32Type};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::fixture::{TIMESTAMP, dead_letters, drain, file_table, lines, open};
use crate::{ConnectError, ScanSpec};

/// Rows and dead letters of a file.
fn read(text: &[u8], columns: &[(&str, DataType)], options: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), text).unwrap();
    let mut all = vec![("laxity.dead-letter.path", "dead.jsonl")];
    all.extend_from_slice(options);
    let table = file_table(folder.path(), "csv", "in.csv", columns, &all);
    let rows = lines(&drain(open(&table).unwrap().as_mut()));
    (rows, dead_letters(&folder.path().join("dead.jsonl")))
}

fn rows(text: &str, columns: &[(&str, DataType)], options: &[(&str, &str)]) -> Vec<String> {
    let (rows, dead) = read(text.as_bytes(), columns, options);
    assert_eq!(dead, Vec::<String>::new());
    rows
}

const INT_TEXT: &[(&str, DataType)] = &[("i", DataType::Int32), ("s", DataType::Utf8)];

#[test]
fn every_type() {
    use DataType::*;
    let columns = [
        ("b", Boolean),
        ("i8", Int8),
        ("i16", Int16),
        ("i32", Int32),
        ("i64", Int64),
        ("f", Float32),
        ("d", Float64),
        ("m", Decimal128(10, 2)),
        ("day", Date32),
        ("t", TIMESTAMP),
        ("z", Timestamp(arrow::datatypes::TimeUnit::Millisecond, Some("UTC".into()))),
        ("s", Utf8),
    ];
    let folder = tempdir().unwrap();
    std::fs::write(
        folder.path().join("in.csv"),
        "TRUE,-128, 7 ,2147483647,-9223372036854775808,1.5,-2e3,12.30,2013-01-01,2013-01-01 10:17:00.5,2013-01-01T10:17:00Z,naïve\n",
    )
    .unwrap();
    let table = file_table(folder.path(), "csv", "in.csv", &columns, &[]);
    let batch = drain(open(&table).unwrap().as_mut());
    assert_eq!(batch.schema(), table.schema);
    // Zones are printed elsewhere: Arrow needs a database for the name.
    let shown = batch.project(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]).unwrap();
    assert_eq!(
        lines(&shown),
        [
            "true|-128|7|2147483647|-9223372036854775808|1.5|-2000.0|12.30|2013-01-01|2013-01-01T10:17:00.500|naïve"
        ]
    );
}

#[test]
fn nulls() {
    // An empty string is a string; an empty number is null.
    assert_eq!(rows(",\n1,a\n", INT_TEXT, &[]), ["NULL|", "1|a"]);
    assert_eq!(rows("NA,NA\n,x\n", INT_TEXT, &[("csv.null-literal", "NA")]), ["NULL|NULL", "NULL|x"]);
    assert_eq!(rows("1,\n", INT_TEXT, &[("csv.null-literal", "")]), ["1|NULL"]);
}

#[test]
fn separators_and_quotes() {
    assert_eq!(rows("1;a,b\n", INT_TEXT, &[("csv.field-delimiter", ";")]), ["1|a,b"]);
    assert_eq!(rows("1\ta\n", INT_TEXT, &[("csv.field-delimiter", "\\t")]), ["1|a"]);
    assert_eq!(rows("\"1\",\"a,\"\"b\"\"\"\r\n2,x\"y\r\n", INT_TEXT, &[]), ["1|a,\"b\"", "2|x\"y"]);
    assert_eq!(rows("1,'a,b'\n", INT_TEXT, &[("csv.quote-character", "'")]), ["1|a,b"]);
    assert_eq!(rows("1,\"a\n", INT_TEXT, &[("csv.disable-quote-character", "true")]), ["1|\"a"]);
    assert_eq!(
        rows("1,a\\,b\n2,\"c\\\"d\"\n", INT_TEXT, &[("csv.escape-character", "\\")]),
        ["1|a,b", "2|c\"d"]
    );
}

#[test]
fn headers_comments_and_blank_lines() {
    let text = "i,s\n\n# no row\n1,a\r\n\r\n2,b";
    assert_eq!(
        rows(text, INT_TEXT, &[("csv.header", "true"), ("csv.allow-comments", "true")]),
        ["1|a", "2|b"]
    );
    assert_eq!(rows("\u{feff}i,s\n1,a\n", INT_TEXT, &[("csv.header", "true")]), ["1|a"]);
}

#[test]
fn a_header_in_another_order_is_refused() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), "s,i\na,1\n").unwrap();
    let table = file_table(folder.path(), "csv", "in.csv", INT_TEXT, &[("csv.header", "true")]);
    let error = open(&table).unwrap().poll(laxity_graph::ProcessingTime::ZERO).unwrap_err();
    assert!(matches!(error, ConnectError::Format { .. }));
    assert!(
        error.to_string().contains("header has 'i' as column 2, but the table declares it as column 1"),
        "{error}"
    );
}

#[test]
fn bad_rows_with_their_reasons() {
    let text = b"1,a\nx,b\n3\n4,d,e\n5,\xff\n,f\n7,\"g\nh\"\n8,\"i\"j\n9,k\n";
    let columns = [("i!", DataType::Int32), ("s", DataType::Utf8)];
    let (rows, dead) = read(text, &columns, &[]);
    assert_eq!(rows, ["1|a", "7|g\nh", "9|k"]);
    assert_eq!(
        dead,
        [
            "2: column 'i': 'x' is not INT: x,b",
            "3: expected 2 fields, found 1: 3",
            "4: expected 2 fields, found 3: 4,d,e",
            "5: column 's': invalid UTF-8: 5,\u{fffd}",
            "6: column 'i' is NOT NULL: ,f",
            "9: text between a closing quote and the delimiter: 8,\"i\"j",
        ]
    );
}

#[test]
fn an_unclosed_quote_costs_its_own_line() {
    let (rows, dead) = read(b"1,a\n2,\"b\n3,c\n4,d\n", INT_TEXT, &[]);
    assert_eq!(rows, ["1|a", "3|c", "4|d"]);
    assert_eq!(dead, ["2: quote not closed: 2,\"b"]);
}

#[test]
fn an_endless_quote_or_line_costs_bounded_memory() {
    let filler = "9,z\n".repeat(3 << 20);
    let (rows, dead) = read(format!("1,a\n2,\"b\n{filler}").as_bytes(), INT_TEXT, &[]);
    assert_eq!(rows.len(), 1 + (3 << 20));
    assert_eq!(dead, ["2: quote not closed within 4 MiB: 2,\"b"]);
    let (rows, dead) = read(format!("1,a\n2,{}\n3,c\n", "b".repeat(9 << 20)).as_bytes(), INT_TEXT, &[]);
    assert_eq!(rows, ["1|a", "3|c"]);
    assert!(dead.len() == 1 && dead[0].starts_with("2: line longer than 4 MiB: 2,bbb"));
}

#[test]
fn columns_not_asked_for_are_not_read() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), "x,a\n2,b\n").unwrap();
    let table = file_table(folder.path(), "csv", "in.csv", INT_TEXT, &[]);
    for (columns, expected) in [(vec![1], ["a", "b"]), (vec![], ["", ""])] {
        let env = crate::ScanEnvironment::new(laxity_graph::ProcessingTime::ZERO, laxity_graph::EventTime(0));
        let mut scan = crate::open_scan(&ScanSpec { table: table.clone(), columns }, &env).unwrap();
        assert_eq!(lines(&drain(scan.as_mut())), expected);
        assert_eq!(scan.dead_rows(), 0);
    }
}

/// One line of a file and whether it is a good row.
fn line() -> impl Strategy<Value = (Vec<u8>, bool)> {
    prop_oneof![
        8 => (0..1000_i32).prop_map(|i| (format!("{i},t{i}").into_bytes(), true)),
        2 => (0..1000_i32).prop_map(|i| (format!("{i},\"q,{i}\"").into_bytes(), true)),
        1 => Just((b"x,1".to_vec(), false)),
        1 => Just((b"7".to_vec(), false)),
        1 => Just((b"7,8,9".to_vec(), false)),
        1 => Just((b"7,\xc3\x28".to_vec(), false)),
        1 => Just((b"7,\"a\"b".to_vec(), false)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Exactly the bad lines are dead, with their numbers, and the good ones come in order.
    #[test]
    fn good_rows_survive_bad_neighbours(lines in proptest::collection::vec(line(), 1..200), end in any::<bool>()) {
        prop_assume!(lines.iter().any(|(_, good)| *good));
        let mut text = lines.iter().map(|(line, _)| line.as_slice()).collect::<Vec<_>>().join(&b'\n');
        if end {
            text.push(b'\n');
        }
        let (rows, dead) = read(&text, INT_TEXT, &[]);
        let mut expected_dead = Vec::new();
        let mut expected_rows = Vec::new();
        for (index, (line, good)) in lines.iter().enumerate() {
            if *good {
                expected_rows.push(String::from_utf8(line.clone()).unwrap().replacen(',', "|", 1).replace('"', ""));
            } else {
                expected_dead.push(index + 1);
            }
        }
        let dead: Vec<usize> = dead.iter().map(|dead| dead.split(':').next().unwrap().parse().unwrap()).collect();
        prop_assert_eq!(rows, expected_rows);
        prop_assert_eq!(dead, expected_dead);
    }

    /// Whatever the bytes, each row is counted once: as a row or as a dead letter, and nothing panics.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(prop_oneof![Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), Just(b'1'), any::<u8>()], 0..300)) {
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("in.csv"), &bytes).unwrap();
        let table = file_table(folder.path(), "csv", "in.csv", INT_TEXT, &[("csv.escape-character", "\\")]);
        let mut scan = open(&table).unwrap();
        while let Ok(crate::ScanEvent::Batch(_)) = scan.poll(laxity_graph::ProcessingTime::ZERO) {}
    }
}

#[test]
fn blocks_and_batches_join_without_a_seam() {
    let mut text = String::new();
    for i in 0..100_000 {
        let pad = "p".repeat(i % 50);
        match i % 100 {
            0 => writeln!(text, "{i},\"{pad}\n{pad}\"").unwrap(),
            _ => writeln!(text, "{i},{pad}").unwrap(),
        }
    }
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), text).unwrap();
    let table = file_table(folder.path(), "csv", "in.csv", INT_TEXT, &[]);
    let rows = drain(open(&table).unwrap().as_mut());
    assert_eq!(rows.num_rows(), 100_000);
    assert!(rows.column(0).as_primitive::<Int32Type>().values().iter().copied().eq(0..100_000));
    let lengths = rows.column(1).as_string::<i32>().iter().map(|text| text.unwrap().len());
    assert!(lengths.eq((0..100_000).map(|i| match i % 100 {
        0 => 2 * (i % 50) + 1,
        _ => i % 50,
    })));
}
