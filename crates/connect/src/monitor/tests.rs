//! Files and folders that are written while a table reads them, also in the middle of a row. Every poll is a look, so
//! that no test waits for a clock.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::DataType;
use laxity_graph::{EventTime, ProcessingTime};
use tempfile::tempdir;

use crate::fixture::{all_columns, dead_letters, file_table, lines, open, take_due};
use crate::{
    Scan, ScanEnvironment, ScanEvent, ScanPosition, TableSpec, is_bounded, open_scan, validate_lookup,
    validate_source,
};

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

fn resumed(table: &Arc<TableSpec>, position: Option<ScanPosition>) -> Box<dyn Scan> {
    let anew = ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0));
    open_scan(&all_columns(table), &ScanEnvironment { resume: position, ..anew }).unwrap()
}

fn packed(path: &Path, text: &str) {
    let file = fs::File::create(path).unwrap();
    let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap();
}

#[test]
fn the_header_of_one_is_not_looked_for_in_another() {
    let folder = tempdir().unwrap();
    let table = file_table(folder.path(), "csv", "in", COLUMNS, &[EVERY, ("csv.header", "true")]);
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    append(&input.join("a.csv"), "n,s\n1,a\n");
    append(&input.join("b.csv"), "n,");
    let mut scan = open(&table).unwrap();
    assert_eq!(rows(scan.as_mut()), ["1|a"]);
    append(&input.join("a.csv"), "2,a\n");
    assert_eq!(rows(scan.as_mut()), ["2|a"]);
    append(&input.join("b.csv"), "s\n3,b\n");
    assert_eq!(rows(scan.as_mut()), ["3|b"]);
}

#[test]
fn what_was_read_is_not_read_again_after_a_restart() {
    let folder = tempdir().unwrap();
    let options = [EVERY, ("csv.header", "true"), ("laxity.dead-letter.path", "dead.jsonl")];
    let table = file_table(folder.path(), "csv", "in", COLUMNS, &options);
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    let mut scan = open(&table).unwrap();
    assert!(rows(scan.as_mut()).is_empty());
    let nothing = scan.position();
    append(&input.join("a.csv"), "n,s\n1,a\nx,b\n2,b\n3");
    packed(&input.join("b.csv.gz"), "n,s\n10,p\n11,p\n");
    append(&input.join("gone.csv"), "n,s\n20,g\n");
    append(&input.join("same.csv"), "n,s\n30,s\n");
    let all = ["1|a", "2|b", "10|p", "11|p", "20|g", "30|s"];
    assert_eq!(rows(scan.as_mut()), all);
    let behind = scan.position();
    drop(scan);
    assert_eq!(rows(resumed(&table, nothing).as_mut()), all);
    fs::remove_file(input.join("gone.csv")).unwrap();
    append(&input.join("a.csv"), ",c\n");
    append(&input.join("c.csv"), "n,s\n12,n\n");
    let mut scan = resumed(&table, behind.clone());
    assert_eq!(rows(scan.as_mut()), ["3|c", "12|n"]);
    assert_eq!(scan.dead_rows(), 1, "that from before is counted, and not looked at again");
    assert!(!scan.position().unwrap().files.places().contains_key("in/gone.csv"));
    // Longer than what was read of the one before, and another one.
    fs::remove_file(input.join("a.csv")).unwrap();
    append(&input.join("a.csv"), "n,s\n7,seven\n8,eight\n9,nine\n10,ten\n");
    packed(&input.join("b.csv.gz"), "n,s\n13,q\n");
    let mut scan = resumed(&table, behind);
    assert_eq!(rows(scan.as_mut()), ["7|seven", "8|eight", "9|nine", "10|ten", "13|q", "12|n"]);
}

#[test]
fn a_file_is_gone_on_with_from_any_batch_and_whatever_is_decoded_ahead() {
    let folder = tempdir().unwrap();
    let table = file_table(folder.path(), "json", "in", COLUMNS, &[EVERY]);
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    let text = |from: u32| -> String {
        (from..from + 5_000)
            .map(|n| if n % 7 == 0 { "{no\n".to_string() } else { format!("{{\"n\":{n}}}\n") })
            .collect()
    };
    append(&input.join("a.json"), &text(0));
    packed(&input.join("b.json.gz"), &text(10_000));
    let all = rows(open(&table).unwrap().as_mut());
    let mut scan = open(&table).unwrap();
    let (mut given, mut batches) = (Vec::new(), 0);
    loop {
        let position = scan.position();
        let dead_rows = position.as_ref().unwrap().dead_rows;
        let mut rest = resumed(&table, position);
        assert_eq!(rest.dead_rows(), dead_rows);
        let more = rows(rest.as_mut());
        assert!(given.iter().chain(&more).eq(&all), "behind {} rows", given.len());
        // Each seventh of both.
        assert_eq!(rest.dead_rows(), 715 + 714, "each is counted once");
        let ScanEvent::Batch(batch) = scan.poll(ProcessingTime(7)).unwrap() else { break };
        given.extend(lines(&batch.rows));
        batches += 1;
        if batches % 2 == 0 {
            for _ in 0..5 {
                scan.prepare().unwrap();
            }
        }
    }
    assert!(batches > 5, "{batches}");
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
