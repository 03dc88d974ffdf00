//! Files, folders, compression and what can be wrong with them, whatever the format.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use laxity_graph::{EventTime, ProcessingTime};
use parquet::arrow::ArrowWriter;
use tempfile::tempdir;

use crate::fixture::{TIMESTAMP, dead_letters, drain, file_table, lines, open, table, take_due};
use crate::{
    ConnectError, FileMetadata, PIECE_ROWS, Preparation, RecordPlace, Scan, ScanEnvironment, ScanEvent,
    ScanSpec, TableSpec, open_scan, validate_source,
};

const COLUMNS: &[(&str, DataType)] = &[("i", DataType::Int32), ("s", DataType::Utf8)];

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn error(folder: &Path, format: &str, path: &str) -> ConnectError {
    let table = file_table(folder, format, path, COLUMNS, &[]);
    match open(&table) {
        Err(error) => error,
        Ok(mut scan) => loop {
            match scan.poll(ProcessingTime::ZERO) {
                Err(error) => return error,
                Ok(ScanEvent::Batch(_)) => {}
                Ok(other) => panic!("{path} was read to {other:?}"),
            }
        },
    }
}

#[test]
fn a_folder_is_read_in_order_of_names() {
    let folder = tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("b.csv", b"i,s\n3,b");
    write("a.csv.gz", &[gzip(b"i,s\n1,a\n"), gzip(b"2,a2\n")].concat());
    write("c/d.csv.zst", &zstd::encode_all(&b"i,s\n4,c\nx,y\n"[..], 0).unwrap());
    write("_SUCCESS", b"zzz");
    write(".hidden", b"zzz");
    let options = [("csv.header", "true"), ("laxity.dead-letter.path", "dead.jsonl")];
    let table = file_table(folder.path(), "csv", "in", COLUMNS, &options);
    let mut scan = open(&table).unwrap();
    assert_eq!(lines(&drain(scan.as_mut())), ["1|a", "2|a2", "3|b", "4|c"]);
    assert_eq!((scan.progress(), scan.dead_rows()), (Some(1.0), 1));
    // Lines count from 1 in each file, and the header is one.
    assert_eq!(dead_letters(&folder.path().join("dead.jsonl")), ["3: column 'i': 'x' is not INT: x,y"]);
}

#[test]
fn an_empty_file_has_no_rows() {
    let folder = tempdir().unwrap();
    for (format, header) in [("csv", "true"), ("csv", "false"), ("json", "")] {
        std::fs::write(folder.path().join("empty"), "").unwrap();
        let options: &[_] = if format == "csv" { &[("csv.header", header)] } else { &[] };
        let table = file_table(folder.path(), format, "empty", COLUMNS, options);
        assert!(matches!(open(&table).unwrap().poll(ProcessingTime::ZERO).unwrap(), ScanEvent::End));
    }
    std::fs::create_dir(folder.path().join("nothing")).unwrap();
    let table = file_table(folder.path(), "csv", "nothing", COLUMNS, &[]);
    assert!(matches!(open(&table).unwrap().poll(ProcessingTime::ZERO).unwrap(), ScanEvent::End));
}

#[test]
fn faults_of_files_name_the_file_and_the_fault() {
    let folder = tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("packed.csv", &gzip(b"1,a\n"));
    write("zipped.csv", &zstd::encode_all(&b"1,a\n"[..], 0).unwrap());
    write("binary.csv", b"1,a\n\0\0\0\0");
    write("wide.csv", b"\xff\xfe1\0,\0a\0\n\0");
    write("table.csv", b"PAR1....");
    write("text.parquet", b"1,a\n");
    write("records.csv", b"Obj\x01....");
    write("text.avro", b"1,a\n");
    write("text.csv.gz", b"1,a\n");
    write("file", b"1,a\n");
    for (format, path, kind, message) in [
        ("csv", "missing.csv", "io", "cannot open"),
        ("csv", "file/x.csv", "io", "cannot open"),
        ("csv", "packed.csv", "format", "compressed with gzip"),
        ("json", "zipped.csv", "format", "compressed with zstd"),
        ("csv", "binary.csv", "format", "zero bytes"),
        ("csv", "wide.csv", "format", "UTF-16"),
        ("csv", "table.csv", "format", "'format' = 'parquet'"),
        ("parquet", "text.parquet", "format", "Parquet"),
        ("csv", "records.csv", "format", "'format' = 'avro'"),
        ("avro", "text.avro", "format", "it has no header of such a file"),
        ("csv", "text.csv.gz", "io", "cannot read"),
    ] {
        let error = error(folder.path(), format, path);
        let found = if matches!(error, ConnectError::Io { .. }) { "io" } else { "format" };
        let text = error.to_string();
        assert_eq!(found, kind, "{text}");
        assert!(text.contains(message) && text.contains(path), "{text}");
    }
}

#[test]
fn rows_before_a_truncation_are_delivered() {
    let folder = tempdir().unwrap();
    let text: String = (0..50_000).map(|i| format!("{i},row number {}\n", i * 7919 % 10_007)).collect();
    let packed = gzip(text.as_bytes());
    std::fs::write(folder.path().join("in.csv.gz"), &packed[..packed.len() / 2]).unwrap();
    let mut scan = open(&file_table(folder.path(), "csv", "in.csv.gz", COLUMNS, &[])).unwrap();
    let mut rows = Vec::new();
    let error = loop {
        match scan.poll(ProcessingTime::ZERO) {
            Ok(ScanEvent::Batch(batch)) => rows.extend(lines(&batch.rows)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(rows.len() > 10_000, "{}", rows.len());
    let expected: Vec<String> = text.lines().take(rows.len()).map(|line| line.replace(',', "|")).collect();
    assert_eq!(rows, expected);
    assert_eq!(scan.dead_rows(), 0);
    assert!(matches!(error, ConnectError::Io { action: "read", .. }), "{error}");
}

#[test]
fn a_budget_of_bad_rows_ends_the_scan() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), "1,a\nx,b\ny,c\n").unwrap();
    for (options, message) in [
        (&[("laxity.dead-letter.max", "1")][..], "more than 1 bad rows"),
        (&[("csv.ignore-parse-errors", "false")], "more than 0 bad rows"),
    ] {
        let error = open(&file_table(folder.path(), "csv", "in.csv", COLUMNS, options))
            .and_then(|mut scan| scan.poll(ProcessingTime::ZERO).map(drop))
            .unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    for options in [&[("laxity.dead-letter.max", "2")][..], &[("csv.ignore-parse-errors", "true")]] {
        let mut scan = open(&file_table(folder.path(), "csv", "in.csv", COLUMNS, options)).unwrap();
        assert_eq!(lines(&drain(scan.as_mut())), ["1|a"]);
    }
}

#[test]
fn parquet_columns_are_cast_and_misfits_are_bad_rows() {
    let folder = tempdir().unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("s", DataType::Utf8, true),
        Field::new("extra", DataType::Int64, true),
        Field::new("i", DataType::Int64, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])),
        Arc::new(Int64Array::from(vec![0, 0, 0])),
        Arc::new(Int64Array::from(vec![Some(1), Some(5_000_000_000), None])),
    ];
    let mut writer = ArrowWriter::try_new(
        std::fs::File::create(folder.path().join("in.parquet")).unwrap(),
        schema.clone(),
        None,
    )
    .unwrap();
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();
    let options = [("laxity.dead-letter.path", "dead.jsonl")];
    let mut scan = open(&file_table(folder.path(), "parquet", "in.parquet", COLUMNS, &options)).unwrap();
    assert_eq!(lines(&drain(scan.as_mut())), ["1|a", "NULL|NULL"]);
    assert_eq!(
        dead_letters(&folder.path().join("dead.jsonl")),
        ["2: column 'i': the value does not fit Int32: "]
    );
    let missing = file_table(folder.path(), "parquet", "in.parquet", &[("k", DataType::Int32)], &[]);
    let error = open(&missing).err().unwrap().to_string();
    assert!(error.contains("it has no column 'k'; it has s, extra, i"), "{error}");
    let pair = DataType::Struct(vec![Field::new("a", TIMESTAMP, true)].into());
    let wrong = file_table(folder.path(), "parquet", "in.parquet", &[("i", pair)], &[]);
    assert!(open(&wrong).err().unwrap().to_string().contains("does not convert"));
}

#[test]
fn options_are_checked_without_files() {
    let file = [("connector", "filesystem"), ("path", "nowhere/x.csv"), ("format", "csv")];
    let check = |more: &[(&str, &str)]| {
        let mut options: Vec<(&str, &str)> = file.to_vec();
        for (key, value) in more {
            options.retain(|(existing, _)| existing != key);
            options.push((key, value));
        }
        options.retain(|(_, value)| *value != "-");
        let columns = [("i", DataType::Int32), ("s", DataType::Utf8), ("t", TIMESTAMP)];
        validate_source(&table(Path::new("/"), &columns, &options)).map_err(|error| error.to_string())
    };
    assert_eq!(check(&[]), Ok(()));
    let replay = [
        ("laxity.replay.time-column", "t"),
        ("laxity.replay.speed", "3600"),
        ("laxity.replay.loop", "forever"),
        ("laxity.replay.copies", "3"),
        ("laxity.replay.spread-keys", "i, s"),
        ("laxity.replay.cache", "64 mb"),
        ("laxity.replay.tick", "2 ms"),
    ];
    assert_eq!(check(&replay), Ok(()));
    assert_eq!(check(&[("laxity.max.event.ahead", "1 h")]), Ok(()));
    let of_flink = [
        ("scan.parallelism", "4"),
        ("sink.parallelism", "1"),
        ("csv.write-bigdecimal-in-scientific-notation", "false"),
    ];
    assert_eq!(check(&of_flink), Ok(()));
    let of_flink = [
        ("format", "json"),
        ("json.fail-on-missing-field", "false"),
        ("json.encode.decimal-as-plain-number", "true"),
        ("json.map-null-key.mode", "FAIL"),
    ];
    assert_eq!(check(&of_flink), Ok(()));
    for (options, message) in [
        (
            vec![("connector", "-")],
            "option 'connector' of table t: missing; expected 'filesystem', 'datagen' or 'nexmark'",
        ),
        (vec![("connector", "kafka")], "'kafka' is not known; expected 'filesystem', 'datagen' or 'nexmark'"),
        (vec![("connector", "print")], "can be written but not read"),
        (vec![("path", "-")], "option 'path' of table t: missing; give a file or a folder"),
        (vec![("path", "s3://x")], "'s3://' is not supported; give a local path"),
        (vec![("format", "orc")], "'orc' is not known; expected 'avro', 'csv', 'json', 'parquet' or 'raw'"),
        (
            vec![("format", "protobuf")],
            "'protobuf' is not for files, in which nothing tells its records apart; expected 'avro', 'csv'",
        ),
        (vec![("format", "raw")], "raw holds one column, and there are 3"),
        (
            vec![("format", "avro"), ("avro.codec", "bzip2")],
            "expected 'null', 'deflate', 'snappy' or 'zstandard'",
        ),
        (vec![("format", "avro"), ("compression", "gzip")], "avro is compressed inside"),
        (vec![("compression", "bz2")], "expected 'auto', 'none', 'gzip' or 'zstd'"),
        (vec![("format", "parquet"), ("compression", "gzip")], "parquet is compressed inside"),
        (vec![("csv.field-delimiter", "ab")], "'ab' is not one ASCII character"),
        (vec![("csv.field-delimiter", "\"")], "also the quote or escape character"),
        (
            vec![("csv.quote-character", "'"), ("csv.disable-quote-character", "true")],
            "the quote character is disabled",
        ),
        (
            vec![("csv.write-bigdecimal-in-scientific-notation", "true")],
            "'true' is not supported: a DECIMAL is written in plain digits",
        ),
        (vec![("scan.parallelism", "0")], "'0' is not a whole number from 1 on"),
        (vec![("format", "json"), ("json.fail-on-missing-field", "true")], "'true' is not supported"),
        (
            vec![("format", "json"), ("json.map-null-key.mode", "DROP")],
            "'DROP' is not known; expected 'FAIL'",
        ),
        (vec![("csv.header", "1")], "'1' is not 'true' or 'false'"),
        (
            vec![("csv.headr", "true")],
            "unknown option, did you mean 'csv.header'?; valid ones: compression, connector, csv.",
        ),
        (vec![("json.timestamp-format.standard", "SQL")], "unknown option"),
        (vec![("format", "json"), ("json.timestamp-format.standard", "sql")], "did you mean 'SQL'?"),
        (vec![("laxity.dead-letter.max", "-1")], "'-1' is not a whole number from 0 on"),
        (vec![("laxity.replay.speed", "10")], "needs 'laxity.replay.time-column'"),
        (vec![("laxity.replay.time-column", "q")], "no column 'q'; the table has i, s, t"),
        (vec![("laxity.replay.time-column", "s")], "a TIMESTAMP, or BIGINT milliseconds, is needed"),
        (
            vec![("laxity.replay.time-column", "t"), ("laxity.replay.speed", "0")],
            "'0' is not a factor above 0",
        ),
        (
            vec![("laxity.replay.time-column", "t"), ("laxity.replay.loop", "0")],
            "a number of passes or 'forever'",
        ),
        (
            vec![("laxity.replay.time-column", "t"), ("laxity.replay.copies", "9999")],
            "a whole number from 1 to 8192",
        ),
        (
            vec![("laxity.replay.time-column", "t"), ("laxity.replay.spread-keys", "t")],
            "keys of STRING, SMALLINT, INT and BIGINT",
        ),
        (vec![("laxity.replay.time-column", "t"), ("laxity.replay.cache", "big")], "'big' is not a size"),
        (
            vec![("laxity.replay.time-column", "t"), ("laxity.replay.tick", "soon")],
            "'soon' is not a duration",
        ),
    ] {
        let error = check(&options).unwrap_err();
        assert!(error.contains(message), "{options:?}: {error}");
    }
}

#[test]
fn a_file_is_decoded_in_pieces_whatever_its_format() {
    let folder = tempdir().unwrap();
    let text: String = (0..20_000).map(|i| format!("{i},row number {}\n", i * 7919 % 10_007)).collect();
    std::fs::write(folder.path().join("in.csv"), &text).unwrap();
    std::fs::write(folder.path().join("in.csv.gz"), gzip(text.as_bytes())).unwrap();
    std::fs::write(folder.path().join("in.csv.zst"), zstd::encode_all(text.as_bytes(), 0).unwrap()).unwrap();
    let rows = drain(open(&file_table(folder.path(), "csv", "in.csv", COLUMNS, &[])).unwrap().as_mut());
    assert_eq!(rows.num_rows(), 20_000);
    for (format, path) in [("json", "in.json"), ("parquet", "in.parquet"), ("avro", "in.avro")] {
        let table = file_table(folder.path(), format, path, COLUMNS, &[]);
        write(&table, &rows);
    }
    for (format, path) in [
        ("csv", "in.csv"),
        ("csv", "in.csv.gz"),
        ("csv", "in.csv.zst"),
        ("json", "in.json"),
        ("parquet", "in.parquet"),
        ("avro", "in.avro"),
    ] {
        let table = file_table(folder.path(), format, path, COLUMNS, &[]);
        let mut scan = open(&table).unwrap();
        let mut batches = Vec::new();
        loop {
            // A step reads a block or decodes a piece; some do, so that a poll finds its rows ready.
            let mut steps = 0;
            while scan.prepare().unwrap() == Preparation::More {
                steps += 1;
                assert!(steps < 4, "{path}");
            }
            match scan.poll(ProcessingTime::ZERO).unwrap() {
                ScanEvent::Batch(batch) => batches.push(batch.rows),
                _ => break,
            }
        }
        assert!(batches.iter().all(|batch| batch.num_rows() <= PIECE_ROWS), "{path}");
        assert_eq!(arrow::compute::concat_batches(&rows.schema(), &batches).unwrap(), rows, "{path}");
    }
}

#[test]
fn a_record_longer_than_a_block_is_read_and_its_memory_given_back() {
    let folder = tempdir().unwrap();
    let long = "x".repeat(1_000_000);
    let endless = "y".repeat(5 << 20);
    let text = format!("1,a\n2,{long}\n3,\"{long}\n\"\n4,{endless}\n{}", "5,b\n".repeat(20_000));
    std::fs::write(folder.path().join("in.csv"), text).unwrap();
    let mut scan = open(&file_table(folder.path(), "csv", "in.csv", COLUMNS, &[])).unwrap();
    let (mut shown, mut held) = (Vec::new(), Vec::new());
    while let ScanEvent::Batch(batch) = scan.poll(ProcessingTime::ZERO).unwrap() {
        shown.extend(lines(&batch.rows).iter().map(|line| (line[..3].to_owned(), line.len())));
        held.push(scan.held_bytes());
    }
    let of = |text: &str, bytes| (text.to_owned(), bytes);
    assert_eq!(shown[..3], [of("1|a", 3), of("2|x", 1_000_002), of("3|x", 1_000_003)]);
    assert!(shown.len() == 20_003 && shown[3..].iter().all(|shown| *shown == of("5|b", 3)));
    assert_eq!(scan.dead_rows(), 1);
    let most = held.iter().max().unwrap();
    assert!((1 << 20..10 << 20).contains(most) && held[held.len() - 2] < 100_000, "{held:?}");
}

/// The four of Flink's documentation (FileSystem connector, "Metadata"), with its types.
#[test]
fn columns_of_metadata_are_those_of_the_file_that_a_row_is_from() {
    let folder = tempdir().unwrap();
    let zone = DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, Some("UTC".into()));
    let modified = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_123);
    for (name, text) in [("a.csv", "1,x\n2,y\n"), ("b.csv", "3,zz\nbad\n4,w\n")] {
        std::fs::create_dir_all(folder.path().join("in")).unwrap();
        let path = folder.path().join("in").join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    }
    let plain = file_table(folder.path(), "csv", "in", COLUMNS, &[]);
    let metadata = [
        FileMetadata::Path.field("p", DataType::Utf8, false),
        FileMetadata::Name.field("n", DataType::Utf8, false),
        FileMetadata::Size.field("z", DataType::Int64, false),
        FileMetadata::ModificationTime.field("m", zone, false),
    ];
    let fields = plain.schema.fields().iter().cloned().chain(metadata.map(Arc::new));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let table = Arc::new(TableSpec { schema, ..plain.as_ref().clone() });
    let rows = |columns: Vec<usize>| {
        let spec = ScanSpec { table: table.clone(), columns };
        let env = ScanEnvironment::new(ProcessingTime::ZERO, laxity_graph::EventTime(0));
        lines(&drain(open_scan(&spec, &env).unwrap().as_mut()))
    };
    let path = |name: &str| folder.path().join("in").join(name).display().to_string();
    assert_eq!(
        rows(vec![0, 2, 3, 4]),
        [
            format!("1|{}|a.csv|8", path("a.csv")),
            format!("2|{}|a.csv|8", path("a.csv")),
            format!("3|{}|b.csv|13", path("b.csv")),
            format!("4|{}|b.csv|13", path("b.csv")),
        ]
    );
    // In any order, and without a column of the file.
    assert_eq!(rows(vec![3, 1])[2..], ["b.csv|zz", "b.csv|w"]);
    assert_eq!(rows(vec![5]), ["2023-11-14T22:13:20.123Z"; 4]);
}

/// Record `i` of three thousand, in two files: one in seven has no number in `a`, one in five none in `b`, and where the
/// format knows such a thing, one in eleven is no row at all.
fn dirty(format: &str, folder: &Path) -> Arc<TableSpec> {
    let columns = [("a", DataType::Int32), ("b", DataType::Int32), ("i", DataType::Int64)];
    std::fs::create_dir(folder.join("in")).unwrap();
    for (name, numbers) in [("1", 0..1_700_i64), ("2", 1_700..3_000)] {
        let number = |i: i64, each: i64| if i % each == each - 1 { "x".to_owned() } else { i.to_string() };
        let path = folder.join("in").join(name);
        match format {
            "parquet" => {
                let too_large = |each: i64| {
                    let value = |i| if i % each == each - 1 { i64::MAX } else { i };
                    Arc::new(Int64Array::from_iter_values(numbers.clone().map(value))) as ArrayRef
                };
                let all = Arc::new(Int64Array::from_iter_values(numbers.clone())) as ArrayRef;
                let of_file = columns.iter().map(|(name, _)| Field::new(*name, DataType::Int64, true));
                let of_file = Arc::new(Schema::new(of_file.collect::<Vec<_>>()));
                let rows = vec![too_large(7), too_large(5), all];
                let rows = RecordBatch::try_new(of_file.clone(), rows).unwrap();
                let file = std::fs::File::create(path).unwrap();
                let mut writer = ArrowWriter::try_new(file, of_file, None).unwrap();
                writer.write(&rows).unwrap();
                writer.close().unwrap();
            }
            "avro" => {
                let missing = |each: i64| {
                    let value = |i: i64| (i % each != each - 1).then_some(i as i32);
                    Arc::new(Int32Array::from_iter(numbers.clone().map(value))) as ArrayRef
                };
                let all = Arc::new(Int64Array::from_iter_values(numbers.clone())) as ArrayRef;
                let file = file_table(&folder.join("in"), format, &format!("{name}.avro"), &columns, &[]);
                let rows = vec![missing(7), missing(5), all];
                write(&file, &RecordBatch::try_new(file.schema.clone(), rows).unwrap());
            }
            "csv" => {
                let line = |i: i64| match i % 11 {
                    4 => format!("1,2,3,{i}\n\n"),
                    _ => format!("{},{},\"{i}\"\n", number(i, 7), number(i, 5)),
                };
                std::fs::write(path, numbers.map(line).collect::<String>()).unwrap();
            }
            _ => {
                let line = |i: i64| match i % 11 {
                    4 => format!("{{\"a\": 1, \"i\": {i}\n  \n"),
                    _ => {
                        let [a, b] = [number(i, 7), number(i, 5)].map(|n| n.replace('x', "\"x\""));
                        format!("{{\"a\": {a}, \"b\": {b}, \"i\": {i}}}\n")
                    }
                };
                std::fs::write(path, numbers.map(line).collect::<String>()).unwrap();
            }
        }
    }
    // What is missing in a file of Avro is NULL, which is bad where it must not be.
    let not_null = [("a!", DataType::Int32), ("b!", DataType::Int32), ("i", DataType::Int64)];
    file_table(folder, format, "in", if format == "avro" { &not_null } else { &columns }, &[])
}

fn write(table: &Arc<TableSpec>, rows: &RecordBatch) {
    let spec = crate::SinkSpec { table: Arc::clone(table) };
    let mut sink = crate::open_sink(&spec, &crate::SinkEnvironment::default()).unwrap();
    sink.write(rows).unwrap();
    sink.close().unwrap();
}

/// All that is left, by its last column.
fn numbers_left(scan: &mut dyn Scan) -> Vec<i64> {
    let (batches, _) = take_due(scan, ProcessingTime::ZERO);
    batches.iter().flat_map(|batch| numbers(&batch.rows)).collect()
}

/// The last column.
fn numbers(rows: &RecordBatch) -> Vec<i64> {
    rows.columns().last().unwrap().as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn a_place_among_records_is_found_again_with_other_columns() {
    for format in ["csv", "json", "parquet", "avro"] {
        let folder = tempdir().unwrap();
        let table = dirty(format, folder.path());
        let scan = |columns: [usize; 2], behind: Option<u64>, skip_rows: u64| {
            let spec = ScanSpec { table: table.clone(), columns: columns.to_vec() };
            let behind = behind.map(|records| RecordPlace { records, due_at_start: None });
            let anew = ScanEnvironment::new(ProcessingTime::ZERO, EventTime(0));
            open_scan(&spec, &ScanEnvironment { behind, skip_rows, ..anew }).unwrap()
        };
        let broken = |i: i64| !matches!(format, "parquet" | "avro") && i % 11 == 4;
        let is_good = |i: i64, each: i64| i % each != each - 1 && !broken(i);
        let good = |each: i64| -> Vec<i64> { (0..3_000).filter(|i| is_good(*i, each)).collect() };
        let (of_a, of_b) = (good(7), good(5));
        assert_eq!(numbers_left(scan([0, 2], None, 0).as_mut()), of_a, "{format}");
        for had in [0, 6, 1_023, 1_024, 1_400, of_a.len() - 1] {
            let mut first = scan([0, 2], None, had as u64);
            let place = first.records().unwrap() as i64;
            assert!(had == 0 || of_a[had - 1] < place, "{format} {had}: {place}");
            assert!(place <= of_a[had], "{format} {had}: {place}");
            // It was only asked.
            let ScanEvent::Batch(batch) = first.poll(ProcessingTime::ZERO).unwrap() else { panic!() };
            assert_eq!(numbers(&batch.rows)[0], of_a[had]);
            let place_behind = first.records().unwrap() as i64;
            assert!(*numbers(&batch.rows).last().unwrap() < place_behind);

            for place in [place, place_behind] {
                let mut second = scan([1, 2], Some(place as u64), 0);
                assert_eq!(second.records(), Some(place as u64));
                let expected: Vec<i64> = of_b.iter().copied().filter(|i| *i >= place).collect();
                assert_eq!(numbers_left(second.as_mut()), expected, "{format} {had} {place}");
                let dead = (place..3_000).filter(|i| !is_good(*i, 5)).count();
                assert_eq!(second.dead_rows(), dead as u64, "{format} {had} {place}");
                if expected.is_empty() {
                    continue;
                }
                // What it has had is counted from there.
                let mut third = scan([1, 2], Some(place as u64), 9);
                let place = third.records().unwrap() as i64;
                assert!(expected[8] < place && place <= expected[9], "{format} {had} {place}");
                assert_eq!(numbers_left(third.as_mut()), expected[9..]);
            }
        }
    }
}
