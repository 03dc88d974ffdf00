//! Folders and files as Flink's documentation lays them out (FileSystem, "Partition Files"), with bounds that are small
//! enough to be met.

use std::path::Path;

use arrow::array::{Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use tempfile::tempdir;

use super::*;
use crate::fixture::{drain, file_table, lines, open};
use crate::options::OptionReader;
use crate::partition::PartitionColumn;
use crate::{OpenSink, OutputPosition, SinkEnvironment, SinkSpec, TableSpec, file_sink, open_sink};

/// `v INT, day STRING, hour INT`, by hour and day.
fn partitioned(folder: &Path, format: &str, more: &[(&str, &str)]) -> Arc<TableSpec> {
    let table = file_table(folder, format, "out", &[], more);
    let day = PartitionColumn::mark(Field::new("day", DataType::Utf8, true), 1);
    let hour = PartitionColumn::mark(Field::new("hour", DataType::Int32, true), 0);
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int32, true), day, hour]));
    Arc::new(TableSpec { schema, ..table.as_ref().clone() })
}

fn rows(table: &TableSpec, rows: &[(i32, Option<&str>, Option<i32>)]) -> RecordBatch {
    let values = Int32Array::from_iter_values(rows.iter().map(|row| row.0));
    let days = StringArray::from_iter(rows.iter().map(|row| row.1));
    let hours = Int32Array::from_iter(rows.iter().map(|row| row.2));
    RecordBatch::try_new(table.schema.clone(), vec![Arc::new(values), Arc::new(days), Arc::new(hours)])
        .unwrap()
}

fn sink(table: &Arc<TableSpec>, part: usize) -> OpenSink {
    open_sink(&SinkSpec { table: Arc::clone(table) }, &SinkEnvironment { part, ..SinkEnvironment::default() })
        .unwrap()
}

/// With so many encoders and files open at a time.
fn small_sink(table: &Arc<TableSpec>, open_max: usize) -> OpenSink {
    let options = OptionReader::new(table);
    options.text("connector");
    file_sink::open_partitioned(table, &SinkEnvironment::default(), &options, open_max).unwrap()
}

/// All files below a folder with what they hold.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().display().to_string();
                    found.push((name, std::fs::read_to_string(path).unwrap_or_default()));
                }
            }
        }
    }
    found.sort();
    found
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
}

#[test]
fn rows_go_into_the_folders_of_their_values() {
    let folder = tempdir().unwrap();
    let table = partitioned(folder.path(), "csv", &[("csv.header", "true")]);
    let mut sink = sink(&table, 3);
    let day = Some("2024-03-01");
    sink.write(&rows(&table, &[(1, day, Some(11)), (2, Some("a/b"), Some(11)), (3, day, Some(11))])).unwrap();
    sink.write(&rows(
        &table,
        &[(4, None, Some(12)), (5, Some(""), Some(12)), (6, day, None), (7, day, Some(11))],
    ))
    .unwrap();
    let none = "__DEFAULT_PARTITION__";
    let expected = owned(&[
        ("hour=11/day=2024-03-01/part-3-0.csv", "v\n1\n3\n7\n"),
        ("hour=11/day=a%2Fb/part-3-0.csv", "v\n2\n"),
        (&format!("hour=12/day={none}/part-3-0.csv"), "v\n4\n5\n"),
        (&format!("hour={none}/day=2024-03-01/part-3-0.csv"), "v\n6\n"),
    ]);
    // Visible before the sink is closed.
    assert_eq!(files(&folder.path().join("out")), expected);
    sink.close().unwrap();
    assert_eq!(files(&folder.path().join("out")), expected);
    // An empty text was written as what NULL is written as.
    let mut read = lines(&drain(open(&table).unwrap().as_mut()));
    read.sort();
    assert_eq!(
        read,
        [
            "1|2024-03-01|11",
            "2|a/b|11",
            "3|2024-03-01|11",
            "4|NULL|12",
            "5|NULL|12",
            "6|2024-03-01|NULL",
            "7|2024-03-01|11",
        ]
    );
}

#[test]
fn few_files_are_open_at_a_time_and_every_row_is_written() {
    for (format, more) in [
        ("csv", vec![("csv.header", "true")]),
        ("json", vec![("compression", "gzip")]),
        ("csv", vec![("compression", "zstd")]),
        ("parquet", vec![]),
        ("avro", vec![]),
    ] {
        let folder = tempdir().unwrap();
        let table = partitioned(folder.path(), format, &more);
        let mut sink = small_sink(&table, 2);
        for round in 0..4 {
            let days = ["a", "b", "c", "d", "e"];
            let batch: Vec<_> = days
                .iter()
                .enumerate()
                .map(|(at, day)| (round * 10 + at as i32, Some(*day), Some(1)))
                .collect();
            sink.write(&rows(&table, &batch)).unwrap();
        }
        sink.close().unwrap();
        let mut read = lines(&drain(open(&table).unwrap().as_mut()));
        read.sort();
        let mut expected: Vec<String> = (0..4)
            .flat_map(|round| {
                ["a", "b", "c", "d", "e"].iter().enumerate().map(move |(at, day)| (round, at, day))
            })
            .map(|(round, at, day)| format!("{}|{day}|1", round * 10 + at))
            .collect();
        expected.sort();
        assert_eq!(read, expected, "{format} {more:?}");
        let count = files(&folder.path().join("out")).len();
        // What is complete with its end is not written on: a partition that comes back has another file.
        let is_container = matches!(format, "parquet" | "avro");
        assert!(if is_container { count == 20 } else { count == 5 }, "{format}: {count} files");
    }
}

#[test]
fn what_was_there_stays_until_there_are_rows() {
    let folder = tempdir().unwrap();
    let table = partitioned(folder.path(), "csv", &[]);
    let write = |part: usize, day: &str| {
        let mut sink = sink(&table, part);
        sink.write(&rows(&table, &[(1, Some(day), Some(1))])).unwrap();
        sink.close().unwrap();
    };
    let names = || files(&folder.path().join("out")).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    write(0, "old");
    write(1, "old");
    std::fs::write(folder.path().join("out/hour=1/day=old/notes.txt"), "kept").unwrap();
    std::fs::create_dir_all(folder.path().join("out/elsewhere")).unwrap();
    std::fs::write(folder.path().join("out/elsewhere/part-0-0.csv"), "kept").unwrap();
    drop(sink(&table, 0));
    assert_eq!(names().len(), 4);
    write(0, "new");
    assert_eq!(
        names(),
        [
            "elsewhere/part-0-0.csv",
            "hour=1/day=new/part-0-0.csv",
            "hour=1/day=old/notes.txt",
            "hour=1/day=old/part-1-0.csv",
        ]
    );
    // Without a row it is empty from now on, and folders of nothing are gone.
    sink(&table, 0).close().unwrap();
    assert_eq!(
        names(),
        ["elsewhere/part-0-0.csv", "hour=1/day=old/notes.txt", "hour=1/day=old/part-1-0.csv"]
    );
    assert!(!folder.path().join("out/hour=1/day=new").exists());
}

#[test]
fn folders_that_hold_no_value_are_told() {
    let folder = tempdir().unwrap();
    let table = partitioned(folder.path(), "csv", &[("partition.default-name", "none")]);
    let write = |path: &str| {
        let path = folder.path().join("out").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "1\n").unwrap();
    };
    write("hour=7/day=none/x.csv");
    write("day=x/y.csv");
    let mut read = lines(&drain(open(&table).unwrap().as_mut()));
    read.sort();
    assert_eq!(read, ["1|NULL|7", "1|x|NULL"]);
    write("hour=noon/day=x/x.csv");
    let error = (|| {
        let mut scan = open(&table)?;
        loop {
            if let crate::ScanEvent::End = scan.poll(laxity_graph::ProcessingTime::ZERO)? {
                return Ok::<(), ConnectError>(());
            }
        }
    })();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("hour=noon") && error.contains("'noon' is not INT"), "{error}");
}

/// `v INT`, in a folder.
fn plain(folder: &Path, format: &str, more: &[(&str, &str)]) -> Arc<TableSpec> {
    let table = file_table(folder, format, "out", &[], more);
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int32, true)]));
    Arc::new(TableSpec { schema, ..table.as_ref().clone() })
}

fn numbers(table: &TableSpec, values: std::ops::Range<i32>) -> RecordBatch {
    RecordBatch::try_new(table.schema.clone(), vec![Arc::new(Int32Array::from_iter_values(values))]).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    files(&folder.join("out")).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn files_of_a_rolling_policy_are_seen_when_they_are_complete() {
    let folder = tempdir().unwrap();
    let roll = ("sink.rolling-policy.file-size", "1 kb");
    let table = plain(folder.path(), "csv", &[("csv.header", "true"), roll]);
    let mut sink = sink(&table, 0);
    sink.write(&numbers(&table, 0..100)).unwrap();
    assert_eq!(names(folder.path()), [".part-0-0.csv.inprogress"], "it has 300 bytes");
    sink.write(&numbers(&table, 100..400)).unwrap();
    assert_eq!(names(folder.path()), ["part-0-0.csv"]);
    sink.write(&numbers(&table, 400..401)).unwrap();
    sink.close().unwrap();
    let found = files(&folder.path().join("out"));
    assert_eq!(found[1], ("part-0-1.csv".to_owned(), "v\n400\n".to_owned()));
    assert!(found[0].1.starts_with("v\n0\n1\n") && found[0].1.ends_with("\n399\n"));
    // The next run begins anew, hidden files included.
    std::fs::write(folder.path().join("out/.part-0-7.csv.inprogress"), "x").unwrap();
    std::fs::write(folder.path().join("out/.part-1-7.csv.inprogress"), "another writer's").unwrap();
    let mut sink = self::sink(&table, 0);
    sink.write(&numbers(&table, 0..1)).unwrap();
    sink.close().unwrap();
    assert_eq!(names(folder.path()), [".part-1-7.csv.inprogress", "part-0-0.csv"]);
}

#[test]
fn files_of_a_checkpoint_are_seen_when_it_is_complete_and_those_behind_it_are_made_again() {
    let values = |table: &Arc<TableSpec>| {
        let mut read = lines(&drain(open(table).unwrap().as_mut()));
        read.sort_by_key(|value| value.parse::<i32>().unwrap());
        read
    };
    let expected = |values: std::ops::Range<i32>| values.map(|v| v.to_string()).collect::<Vec<_>>();
    for (format, more) in [("parquet", vec![]), ("avro", vec![]), ("json", vec![("compression", "gzip")])] {
        let folder = tempdir().unwrap();
        let table = plain(folder.path(), format, &more);
        let spec = SinkSpec { table: Arc::clone(&table) };
        let open_at = |resume| {
            let env = SinkEnvironment { is_checkpointed: true, resume, ..SinkEnvironment::default() };
            open_sink(&spec, &env).unwrap()
        };
        let prepare = |sink: &mut OpenSink, checkpoint| {
            let mut bytes = Vec::new();
            sink.encoder.cut(&mut bytes).unwrap();
            let output = sink.output.as_mut().unwrap();
            output.write(&bytes).unwrap();
            output.prepare(checkpoint).unwrap()
        };
        let mut sink = open_at(None);
        sink.write(&numbers(&table, 0..10)).unwrap();
        let first = prepare(&mut sink, 1);
        // Rows go on into another file, and the process ends before the checkpoint is told to be complete.
        sink.write(&numbers(&table, 10..20)).unwrap();
        let both = prepare(&mut sink, 2);
        assert!(
            matches!(&both, OutputPosition::Named(named) if named["files"].lines().count() == 2),
            "{both:?}"
        );
        assert!(names(folder.path()).iter().all(|name| name.starts_with('.')), "{:?}", names(folder.path()));
        drop(sink);
        let mut sink = open_at(Some(first.clone()));
        sink.write(&numbers(&table, 10..30)).unwrap();
        assert_eq!(values(&table), expected(0..10), "{format}: what was prepared is seen");
        prepare(&mut sink, 2);
        sink.output.as_mut().unwrap().commit(2).unwrap();
        assert_eq!(values(&table), expected(0..30), "{format}");
        // A later checkpoint was committed, and is damaged: the one before is gone on from.
        drop(sink);
        let mut sink = open_at(Some(first));
        sink.write(&numbers(&table, 10..15)).unwrap();
        assert_eq!(values(&table), expected(0..10), "{format}");
        prepare(&mut sink, 3);
        sink.output.as_mut().unwrap().commit(3).unwrap();
        sink.close().unwrap();
        assert_eq!(values(&table), expected(0..15), "{format}");
    }
}

#[test]
fn folders_of_values_are_cut_at_checkpoints_too() {
    let folder = tempdir().unwrap();
    let table = partitioned(folder.path(), "csv", &[]);
    let env = SinkEnvironment { is_checkpointed: true, ..SinkEnvironment::default() };
    let mut sink = open_sink(&SinkSpec { table: Arc::clone(&table) }, &env).unwrap();
    for checkpoint in 1..3 {
        sink.write(&rows(&table, &[(1, Some("a"), Some(1)), (2, Some("b"), Some(1))])).unwrap();
        let mut bytes = Vec::new();
        sink.encoder.cut(&mut bytes).unwrap();
        let output = sink.output.as_mut().unwrap();
        output.write(&bytes).unwrap();
        output.prepare(checkpoint).unwrap();
        output.commit(checkpoint).unwrap();
    }
    let expected = owned(&[
        ("hour=1/day=a/part-0-1.csv", "1\n"),
        ("hour=1/day=a/part-0-2.csv", "1\n"),
        ("hour=1/day=b/part-0-0.csv", "2\n"),
        ("hour=1/day=b/part-0-3.csv", "2\n"),
    ]);
    let found = files(&folder.path().join("out"));
    assert_eq!(found.len(), 4, "{found:?}");
    let texts = |files: &[(String, String)]| files.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&found), texts(&expected), "{found:?}");
}
