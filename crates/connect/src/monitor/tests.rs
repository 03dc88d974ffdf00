//! Files and folders that are written while a table reads them, also in the middle of a row. Every poll is a look, so
//! that no test waits for a clock.

use std::fs;
use std::io::Write;
use std::path::Path;

use arrow::datatypes::DataType;
use laxity_graph::ProcessingTime;
use tempfile::tempdir;

use crate::fixture::{dead_letters, file_table, lines, open, take_due};
use crate::{Scan, ScanEvent, is_bounded, validate_lookup, validate_source};

const COLUMNS: &[(&str, DataType)] = &[("n", DataType::Int32), ("s", DataType::Utf8)];
const EVERY: (&str, &str) = ("source.monitor-interval", "100 ms");

/// Rows that are there now. What follows is always a pause of the interval.
fn rows(scan: &mut dyn Scan) -> Vec<String> {
    let (batches, next) = take_due(scan, ProcessingTime(7));
    assert!(matches!(next, ScanEvent::NotBefore(ProcessingTime(100_000_007))), "{next:?}");
    batches.iter().flat_map(|batch| lines(&batch.rows)).collect()
}

fn append(path: &Path, text: &str) {
    fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_file_is_read_as_it_grows() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("in.csv");
    let options = [EVERY, ("csv.header", "true"), ("laxity.dead-letter.path", "dead.jsonl")];
    let table = file_table(folder.path(), "csv", "in.csv", COLUMNS, &options);
    assert!(!is_bounded(&table));
    let mut scan = open(&table).unwrap();
    assert!(!scan.is_repeatable());
    // It is not there yet, then without a whole header, then without a whole row.
    assert!(rows(scan.as_mut()).is_empty());
    append(&path, "n,");
    assert!(rows(scan.as_mut()).is_empty());
    append(&path, "s\n1,a\n2");
    assert_eq!(rows(scan.as_mut()), ["1|a"]);
    append(&path, ",b\nx,c\n3,\"c\n");
    assert_eq!(rows(scan.as_mut()), ["2|b"]);
    append(&path, "d\"\n");
    assert_eq!(rows(scan.as_mut()), ["3|c\nd"]);
    assert!(rows(scan.as_mut()).is_empty());
    // A last line without an end is one when nothing follows for an interval.
    append(&path, "4,d");
    assert!(rows(scan.as_mut()).is_empty());
    assert_eq!(rows(scan.as_mut()), ["4|d"]);
    assert!(rows(scan.as_mut()).is_empty());
    let dead = dead_letters(&folder.path().join("dead.jsonl"));
    assert!(dead.len() == 1 && dead[0].starts_with("4: "), "{dead:?}");
    // Another one in its place.
    fs::remove_file(&path).unwrap();
    append(&path, "n,s\n5,e\n");
    assert_eq!(rows(scan.as_mut()), ["5|e"]);
}

#[test]
fn a_folder_is_looked_at_for_new_files() {
    let folder = tempdir().unwrap();
    let table = file_table(folder.path(), "json", "in", COLUMNS, &[EVERY]);
    let mut scan = open(&table).unwrap();
    assert!(rows(scan.as_mut()).is_empty());
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    append(&input.join("b.json"), "{\"n\":1}\n");
    append(&input.join(".hidden"), "{\"n\":9}\n");
    assert_eq!(rows(scan.as_mut()), ["1|NULL"]);
    append(&input.join("a.json"), "{\"n\":2}\n");
    append(&input.join("b.json"), "{\"n\":3}\n");
    assert_eq!(rows(scan.as_mut()), ["2|NULL", "3|NULL"]);
    assert!(rows(scan.as_mut()).is_empty());
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let folder = tempdir().unwrap();
    let refused = |options: &[(&str, &str)]| {
        let table = file_table(folder.path(), "csv", "in.csv", COLUMNS, options);
        validate_source(&table).unwrap_err().message
    };
    assert!(refused(&[("source.monitor-interval", "0 s")]).contains("without a pause"));
    assert!(refused(&[EVERY, ("laxity.replay.time-column", "n")]).contains("n' is Int32"));
    let table = file_table(folder.path(), "csv", "in.csv", COLUMNS, &[EVERY]);
    assert!(validate_lookup(&table).unwrap_err().message.contains("lookup.full-cache"));
    let times = [("n", DataType::Int64)];
    let table =
        file_table(folder.path(), "csv", "in.csv", &times, &[EVERY, ("laxity.replay.time-column", "n")]);
    assert!(validate_source(&table).unwrap_err().message.contains("leave one of them out"));
}
