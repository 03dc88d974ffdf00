//! What the sinks write, read back by this crate or compared byte by byte, and how they fail.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, TimeUnit};
use tempfile::tempdir;

use crate::fixture::{TIMESTAMP, drain, file_table, open, table};
use crate::{
    ConnectError, OpenSink, OutputPosition, SinkEnvironment, SinkSpec, TableSpec, open_sink, validate_sink,
};

fn ltz() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
}

fn columns() -> Vec<(&'static str, DataType)> {
    vec![("i", DataType::Int32), ("s", DataType::Utf8), ("t", TIMESTAMP), ("z", ltz())]
}

fn rows(table: &TableSpec) -> RecordBatch {
    let times = TimestampMillisecondArray::from(vec![Some(1_500), None]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(1), None])),
        Arc::new(StringArray::from(vec![Some("a,\"b\""), Some("c")])),
        Arc::new(times.clone()),
        Arc::new(times.with_timezone("UTC")),
    ];
    RecordBatch::try_new(table.schema.clone(), columns).unwrap()
}

fn sink(table: &Arc<TableSpec>) -> Result<OpenSink, ConnectError> {
    open_sink(&SinkSpec { table: Arc::clone(table) }, &SinkEnvironment::default())
}

fn written(format: &str, path: &str, options: &[(&str, &str)]) -> String {
    let folder = tempdir().unwrap();
    let table = file_table(folder.path(), format, path, &columns(), options);
    validate_sink(&table).unwrap();
    let mut sink = sink(&table).unwrap();
    sink.write(&rows(&table)).unwrap();
    // Rows are visible before the sink is closed.
    let text = std::fs::read_to_string(folder.path().join(path)).unwrap();
    sink.close().unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join(path)).unwrap(), text);
    text
}

#[test]
fn csv_text() {
    let row = "1,\"a,\"\"b\"\"\",1970-01-01 00:00:01.500,1970-01-01 00:00:01.500Z\n";
    assert_eq!(written("csv", "out/x.csv", &[]), format!("{row},c,,\n"));
    assert_eq!(
        written("csv", "x.csv", &[("csv.header", "true"), ("csv.null-literal", "NA")]),
        format!("i,s,t,z\n{row}NA,c,NA,NA\n")
    );
    assert_eq!(
        written("csv", "x.csv", &[("csv.field-delimiter", ";"), ("csv.disable-quote-character", "true")]),
        "1;a,\"b\";1970-01-01 00:00:01.500;1970-01-01 00:00:01.500Z\n;c;;\n"
    );
}

#[test]
fn json_text() {
    assert_eq!(
        written("json", "x.json", &[]),
        "{\"i\":1,\"s\":\"a,\\\"b\\\"\",\"t\":\"1970-01-01 00:00:01.500\",\"z\":\"1970-01-01 00:00:01.500Z\"}\n\
         {\"i\":null,\"s\":\"c\",\"t\":null,\"z\":null}\n"
    );
    assert_eq!(
        written(
            "json",
            "x.json",
            &[("json.timestamp-format.standard", "ISO-8601"), ("json.encode.ignore-null-fields", "true")]
        ),
        "{\"i\":1,\"s\":\"a,\\\"b\\\"\",\"t\":\"1970-01-01T00:00:01.500\",\"z\":\"1970-01-01T00:00:01.500Z\"}\n\
         {\"s\":\"c\"}\n"
    );
}

#[test]
fn what_is_written_can_be_read() {
    for (format, path, options) in [
        ("csv", "x.csv", vec![("csv.null-literal", "~")]),
        ("csv", "x.csv.gz", vec![("csv.header", "true")]),
        ("json", "x.json.zst", vec![]),
        ("json", "folder", vec![("compression", "gzip")]),
        ("parquet", "x.parquet", vec![]),
        ("parquet", "folder", vec![("parquet.compression", "ZSTD")]),
        ("parquet", "x.parquet", vec![("parquet.compression", "GZIP")]),
        ("parquet", "x.parquet", vec![("parquet.compression", "LZ4_RAW")]),
        ("avro", "x.avro", vec![]),
        ("avro", "folder", vec![("avro.codec", "null")]),
        ("avro", "x.avro", vec![("avro.codec", "deflate")]),
        ("avro", "x.avro", vec![("avro.codec", "zstandard")]),
    ] {
        let folder = tempdir().unwrap();
        let table = file_table(folder.path(), format, path, &columns(), &options);
        let mut sink = sink(&table).unwrap();
        let rows = rows(&table);
        sink.write(&rows).unwrap();
        sink.write(&rows.slice(1, 1)).unwrap();
        sink.close().unwrap();
        let expected =
            arrow::compute::concat_batches(&table.schema, &[rows.clone(), rows.slice(1, 1)]).unwrap();
        assert_eq!(drain(open(&table).unwrap().as_mut()), expected, "{format} {path} {options:?}");
    }
}

#[test]
fn packed_rows_are_visible_at_once() {
    let folder = tempdir().unwrap();
    let table = file_table(folder.path(), "csv", "x.csv.gz", &columns(), &[]);
    let mut sink = sink(&table).unwrap();
    sink.write(&rows(&table)).unwrap();
    // Without its trailer the file reads as truncated, after its rows.
    std::fs::copy(folder.path().join("x.csv.gz"), folder.path().join("seen.csv.gz")).unwrap();
    let mut scan = open(&file_table(folder.path(), "csv", "seen.csv.gz", &columns(), &[])).unwrap();
    let first = scan.poll(laxity_graph::ProcessingTime::ZERO).unwrap();
    assert!(matches!(first, crate::ScanEvent::Batch(batch) if batch.rows.num_rows() == 2));
    let error = scan.poll(laxity_graph::ProcessingTime::ZERO).unwrap_err();
    assert!(error.to_string().starts_with("cannot read"), "{error}");
}

#[test]
fn nested_rows_go_to_json_parquet_and_avro_but_not_to_csv() {
    let nested = [
        ("r", DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into())),
        ("l", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))),
    ];
    let text = "{\"r\":{\"a\":1},\"l\":[\"x\",\"y\"]}\n{\"r\":null,\"l\":null}\n";
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.json"), text).unwrap();
    let source = file_table(folder.path(), "json", "in.json", &nested, &[]);
    let rows = drain(open(&source).unwrap().as_mut());
    for (format, path) in [("json", "out.json"), ("parquet", "out.parquet"), ("avro", "out.avro")] {
        let target = file_table(folder.path(), format, path, &nested, &[]);
        let mut sink = sink(&target).unwrap();
        sink.write(&rows).unwrap();
        sink.close().unwrap();
        assert_eq!(drain(open(&target).unwrap().as_mut()), rows);
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("out.json")).unwrap(), text);
    let error = validate_sink(&file_table(folder.path(), "csv", "x.csv", &nested, &[])).unwrap_err();
    assert_eq!(error.key, "format");
    assert!(error.message.contains("csv cannot hold column 'r'"), "{error}");
}

#[test]
fn writers_share_a_folder_but_not_a_file() {
    let folder = tempdir().unwrap();
    let open_part = |path: &str, part| {
        let table = file_table(folder.path(), "csv", path, &columns(), &[]);
        open_sink(&SinkSpec { table }, &SinkEnvironment { part, ..SinkEnvironment::default() })
    };
    open_part("out", 0).unwrap();
    open_part("out", 1).unwrap();
    assert!(
        folder.path().join("out/part-0-0.csv").exists() && folder.path().join("out/part-1-0.csv").exists()
    );
    open_part("one.csv", 0).unwrap();
    let error = open_part("one.csv", 1).err().unwrap();
    assert!(error.to_string().contains("another table is written to this file"), "{error}");
}

#[test]
fn a_file_of_a_query_is_made_when_it_gets_rows() {
    let folder = tempdir().unwrap();
    let path = "out/${query}.csv";
    let table = file_table(folder.path(), "csv", path, &columns(), &[("csv.header", "true")]);
    validate_sink(&table).unwrap();
    let open_for = |query: &str| {
        let environment = SinkEnvironment { query: query.into(), ..SinkEnvironment::default() };
        open_sink(&SinkSpec { table: Arc::clone(&table) }, &environment).unwrap()
    };
    let of = |query: &str| std::fs::read_to_string(folder.path().join(format!("out/{query}.csv")));
    let (mut busy, mut quiet, mut old) = (open_for("a/b"), open_for("quiet"), open_for("old"));
    assert!(!folder.path().join("out").exists());
    busy.write(&rows(&table)).unwrap();
    assert!(of("a%2Fb").unwrap().starts_with("i,s,t,z\n1,"));
    // Two queries of that name, or a table that names the file, do not write into each other's.
    let mut same = open_for("a/b");
    let error = same.write(&rows(&table)).unwrap_err().to_string();
    assert!(error.contains("this run writes to this file already"), "{error}");
    std::fs::write(folder.path().join("out/old.csv"), "of another run").unwrap();
    busy.close().unwrap();
    quiet.close().unwrap();
    old.close().unwrap();
    assert_eq!(of("old").unwrap(), "", "what an earlier run left is not a result of this one");
    assert!(of("quiet").is_err(), "it had no rows");
}

#[test]
fn a_row_that_cannot_be_written_leaves_no_trace() {
    let strict = |name: &str| Field::new(name, DataType::Int32, false);
    for (format, first) in [("csv", "i\n1\n"), ("json", "{\"i\":1}\n")] {
        let folder = tempdir().unwrap();
        let options: &[(&str, &str)] = if format == "csv" { &[("csv.header", "true")] } else { &[] };
        let table = file_table(folder.path(), format, "x.txt", &[], options);
        let schema = Arc::new(arrow::datatypes::Schema::new(vec![strict("i")]));
        let table = Arc::new(TableSpec { schema: schema.clone(), ..(*table).clone() });
        let mut sink = sink(&table).unwrap();
        let batch = |values: Vec<Option<i32>>| {
            let schema = arrow::datatypes::Schema::new(vec![Field::new("i", DataType::Int32, true)]);
            RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int32Array::from(values))]).unwrap()
        };
        assert!(sink.write(&batch(vec![Some(7), None])).is_err(), "{format}");
        sink.write(&batch(vec![Some(1)])).unwrap();
        sink.close().unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("x.txt")).unwrap(), first);
    }
}

#[test]
fn old_results_stay_until_there_are_new_ones() {
    for (format, path) in
        [("csv", "x.csv"), ("csv", "x.csv.gz"), ("parquet", "x.parquet"), ("avro", "x.avro")]
    {
        let folder = tempdir().unwrap();
        let path = folder.path().join(path);
        let old = vec![b'o'; 1_000];
        std::fs::write(&path, &old).unwrap();
        let table = file_table(folder.path(), format, path.to_str().unwrap(), &columns(), &[]);
        drop(sink(&table).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), old, "opened and not written");
        let mut open = sink(&table).unwrap();
        open.write(&rows(&table)).unwrap();
        open.close().unwrap();
        drop(open);
        assert_eq!(drain(crate::fixture::open(&table).unwrap().as_mut()).num_rows(), 2);
    }
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("x.csv"), "old\n").unwrap();
    sink(&file_table(folder.path(), "csv", "x.csv", &columns(), &[])).unwrap().close().unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("x.csv")).unwrap(), "", "no results are results");
}

#[test]
fn a_header_is_written_without_rows_too() {
    let folder = tempdir().unwrap();
    let table = file_table(folder.path(), "csv", "x.csv", &columns(), &[("csv.header", "true")]);
    sink(&table).unwrap().close().unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("x.csv")).unwrap(), "i,s,t,z\n");
}

#[test]
fn a_file_is_not_read_and_written_by_two() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("x.csv"), "1,a,,\n").unwrap();
    std::os::unix::fs::symlink("x.csv", folder.path().join("soft.csv")).unwrap();
    std::fs::hard_link(folder.path().join("x.csv"), folder.path().join("hard.csv")).unwrap();
    let table = |path: &str, more: &[(&str, &str)]| file_table(folder.path(), "csv", path, &columns(), more);
    let mut scan = open(&table("x.csv", &[])).unwrap();
    for path in ["x.csv", "soft.csv", "hard.csv"] {
        let error = sink(&table(path, &[])).err().unwrap().to_string();
        assert!(error.contains("this run reads this file"), "{error}");
    }
    assert_eq!(drain(scan.as_mut()).num_rows(), 1, "the source is whole");
    drop(scan);
    let written = sink(&table("soft.csv", &[])).unwrap();
    let error = sink(&table("hard.csv", &[])).err().unwrap().to_string();
    assert!(error.contains("this run writes to this file"), "{error}");
    let error = open(&table("x.csv", &[])).err().unwrap().to_string();
    assert!(error.contains("this run writes to this file"), "{error}");
    let letters = [("laxity.dead-letter.path", "x.csv")];
    let error = open(&table("/dev/null", &letters)).err().unwrap().to_string();
    assert!(error.contains("laxity.dead-letter.path") && error.contains("this run writes"), "{error}");
    drop(written);
    let error = open(&table("x.csv", &letters)).err().unwrap().to_string();
    assert!(error.contains("this run"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path().join("x.csv")).unwrap(), "1,a,,\n");
    open(&table("x.csv", &[])).unwrap();
}

#[test]
fn a_removed_file_is_noticed() {
    let folder = tempdir().unwrap();
    let table = file_table(folder.path(), "csv", "x.csv", &columns(), &[]);
    let mut sink = sink(&table).unwrap();
    sink.write(&rows(&table)).unwrap();
    std::fs::remove_file(folder.path().join("x.csv")).unwrap();
    let ConnectError::Io { source, .. } = sink.write(&rows(&table)).unwrap_err() else { panic!() };
    assert!(source.to_string().contains("removed"), "{source}");
}

#[test]
fn a_pipe_may_stall_and_is_opened_when_it_is_written() {
    use std::io::Read;
    let folder = tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let table = file_table(folder.path(), "csv", "pipe", &columns(), &[]);
    // Nobody reads yet.
    let mut open = sink(&table).unwrap();
    assert!(open.may_stall);
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = String::new();
        std::fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    open.write(&rows(&table)).unwrap();
    open.close().unwrap();
    assert!(reader.unwrap().join().unwrap().ends_with("c,,\n"));
    assert!(!sink(&file_table(folder.path(), "csv", "x.csv", &columns(), &[])).unwrap().may_stall);
}

#[test]
fn encoding_again_needs_no_new_memory() {
    for options in [&[][..], &[("compression", "gzip")], &[("compression", "zstd")]] {
        let folder = tempdir().unwrap();
        let table = file_table(folder.path(), "csv", "x.csv", &columns(), options);
        let mut encoder = sink(&table).unwrap().encoder;
        let mut out = Vec::new();
        encoder.encode(&rows(&table), &mut out).unwrap();
        let (first, capacity, place) = (out.len(), out.capacity(), out.as_ptr());
        for _ in 0..3 {
            out.clear();
            encoder.encode(&rows(&table), &mut out).unwrap();
            assert!(!out.is_empty() && out.len() <= first, "{options:?}");
            assert_eq!((out.capacity(), out.as_ptr()), (capacity, place), "{options:?}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    for format in ["csv", "json", "parquet", "avro"] {
        for compression in ["none", "gzip", "zstd"] {
            let folder = tempdir().unwrap();
            std::os::unix::fs::symlink(full, folder.path().join("x.out")).unwrap();
            let is_packed_inside = matches!(format, "parquet" | "avro");
            let options: &[_] = if is_packed_inside { &[] } else { &[("compression", compression)] };
            let table = file_table(folder.path(), format, "x.out", &columns(), options);
            let mut failed = None;
            match sink(&table) {
                Err(error) => failed = Some(error),
                Ok(mut sink) => {
                    if let Err(error) = sink.write(&rows(&table)).and_then(|()| sink.close()) {
                        failed = Some(error);
                    }
                }
            }
            let error = failed.unwrap_or_else(|| panic!("{format} {compression}: written to a full disk"));
            assert!(matches!(error, ConnectError::Io { .. }), "{format} {compression}: {error:?}");
        }
    }
}

#[test]
fn a_path_that_cannot_be_made_is_an_error() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = sink(&file_table(folder.path(), "csv", "file/x.csv", &columns(), &[])).err().unwrap();
    assert!(matches!(error, ConnectError::Io { action: "create", .. }), "{error}");
}

#[test]
fn a_null_in_a_not_null_column_is_an_error() {
    let folder = tempdir().unwrap();
    let nullable = file_table(folder.path(), "csv", "x.csv", &[("i", DataType::Int32)], &[]);
    let strict = file_table(folder.path(), "csv", "x.csv", &[("i!", DataType::Int32)], &[]);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![None]))];
    let rows = RecordBatch::try_new(nullable.schema.clone(), columns).unwrap();
    let error = sink(&strict).unwrap().write(&rows).unwrap_err();
    assert!(matches!(error, ConnectError::Encode { .. }), "{error}");
}

#[test]
fn options_are_checked() {
    let check = |columns: &[(&str, DataType)], options: &[(&str, &str)]| {
        validate_sink(&table(Path::new("/"), columns, options)).unwrap_err().to_string()
    };
    let file = [("connector", "filesystem"), ("path", "x.json")];
    let with = |more: &[(&'static str, &'static str)]| [&file[..], more].concat();
    assert_eq!(
        check(&columns(), &[("connector", "datagen")]),
        "option 'connector' of table t: the table can be read but not written; sinks are 'filesystem', 'print' and 'blackhole'"
    );
    assert_eq!(
        check(&columns(), &file),
        "option 'format' of table t: missing; expected 'avro', 'csv', 'json', 'parquet' or 'raw'"
    );
    assert_eq!(
        check(&columns(), &with(&[("format", "jsn")])),
        "option 'format' of table t: 'jsn' is not known, did you mean 'json'?; expected 'avro', 'csv', 'json', 'parquet' or 'raw'"
    );
    assert!(
        check(&columns(), &with(&[("format", "parquet"), ("compression", "gzip")]))
            .contains("'parquet.compression'")
    );
    assert!(
        check(&columns(), &[("connector", "print"), ("print-identifer", "x")])
            .contains("did you mean 'print-identifier'?")
    );
    assert!(
        check(&columns(), &[("connector", "print"), ("standard-error", "yes")])
            .contains("'yes' is not 'true' or 'false'")
    );
    assert!(check(&columns(), &[("connector", "blackhole"), ("x", "1")]).contains("unknown option"));
    let entries = Field::new(
        "entries",
        DataType::Struct(
            vec![Field::new("key", DataType::Int32, false), Field::new("value", DataType::Int32, true)]
                .into(),
        ),
        false,
    );
    let map = [("m", DataType::Map(Arc::new(entries), false))];
    assert!(
        check(&map, &with(&[("format", "json")])).contains("json needs STRING keys in the MAP of column 'm'")
    );
}

#[test]
fn a_restored_query_goes_on_where_it_stood_at_its_checkpoint() {
    let folder = tempdir().unwrap();
    for (format, path, options) in [
        ("csv", "x.csv", vec![("csv.header", "true")]),
        ("json", "x.json", vec![]),
        ("csv", "${query}.csv", vec![("csv.header", "true")]),
        ("csv", "folder", vec![]),
    ] {
        let table = file_table(folder.path(), format, path, &columns(), &options);
        let open = |resume: Option<OutputPosition>| {
            let environment = SinkEnvironment {
                query: "q".into(),
                is_checkpointed: true,
                resume,
                ..SinkEnvironment::default()
            };
            open_sink(&SinkSpec { table: table.clone() }, &environment)
        };
        let prepare = |sink: &mut OpenSink| sink.output.as_mut().unwrap().prepare(1).unwrap();
        let whole = {
            let mut sink = open(None).unwrap();
            assert!(!sink.serves_all);
            sink.write(&rows(&table)).unwrap();
            sink.write(&rows(&table)).unwrap();
            sink.close().unwrap();
            let name = match path {
                "${query}.csv" => "q.csv",
                "folder" => "folder/part-q-0-0.csv",
                path => path,
            };
            (folder.path().join(name), std::fs::read_to_string(folder.path().join(name)).unwrap())
        };
        // Before the first row the file is emptied, and stays so if that is where it goes on.
        let mut sink = open(None).unwrap();
        let before = prepare(&mut sink);
        assert_eq!(before, OutputPosition::Length { bytes: 0 });
        sink.write(&rows(&table)).unwrap();
        let between = prepare(&mut sink);
        sink.write(&rows(&table)).unwrap();
        drop(sink);
        for position in [between, before] {
            let rows_left = if position == (OutputPosition::Length { bytes: 0 }) { 2 } else { 1 };
            let mut sink = open(Some(position)).unwrap();
            for _ in 0..rows_left {
                sink.write(&rows(&table)).unwrap();
            }
            sink.close().unwrap();
            assert_eq!(std::fs::read_to_string(&whole.0).unwrap(), whole.1, "{path}");
        }
        // Somebody has cut it off meanwhile.
        let length = whole.1.len() as u64 + 1;
        let error = open(Some(OutputPosition::Length { bytes: length })).err().unwrap().to_string();
        assert!(error.contains(&format!("had {length} at the checkpoint")), "{error}");
    }
}

#[test]
fn what_cannot_be_cut_back_is_refused_for_checkpoints() {
    let folder = tempdir().unwrap();
    for (format, path, options, expected) in [
        ("parquet", "x.parquet", vec![], "parquet is complete with its end alone"),
        ("avro", "x.avro", vec![], "avro is complete with its end alone"),
        ("csv", "x.csv.gz", vec![], "a compressed file"),
        ("json", "x.json", vec![("compression", "zstd")], "a compressed file"),
    ] {
        let table = file_table(folder.path(), format, path, &columns(), &options);
        let spec = SinkSpec { table };
        let environment = SinkEnvironment { is_checkpointed: true, ..SinkEnvironment::default() };
        let error = open_sink(&spec, &environment).err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains("leave out"), "{error}");
        assert!(open_sink(&spec, &SinkEnvironment::default()).is_ok());
    }
}
