//! What the sinks write, read back by this crate or compared byte by byte, and how they fail.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, TimeUnit};
use tempfile::tempdir;

use crate::fixture::{TIMESTAMP, drain, file_table, open, table};
use crate::{ConnectError, Sink, SinkEnvironment, SinkSpec, TableSpec, open_sink, validate_sink};

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

fn sink(table: &Arc<TableSpec>) -> Result<Box<dyn Sink>, ConnectError> {
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
    let mut scan = open(&table).unwrap();
    let first = scan.poll(laxity_graph::ProcessingTime::ZERO).unwrap();
    assert!(matches!(first, crate::ScanEvent::Batch(batch) if batch.rows.num_rows() == 2));
    let error = scan.poll(laxity_graph::ProcessingTime::ZERO).unwrap_err();
    assert!(error.to_string().starts_with("cannot read"), "{error}");
}

#[test]
fn nested_rows_go_to_json_and_parquet_but_not_to_csv() {
    let nested = [
        ("r", DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into())),
        ("l", DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))),
    ];
    let text = "{\"r\":{\"a\":1},\"l\":[\"x\",\"y\"]}\n{\"r\":null,\"l\":null}\n";
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("in.json"), text).unwrap();
    let source = file_table(folder.path(), "json", "in.json", &nested, &[]);
    let rows = drain(open(&source).unwrap().as_mut());
    for (format, path) in [("json", "out.json"), ("parquet", "out.parquet")] {
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
        open_sink(&SinkSpec { table }, &SinkEnvironment { part })
    };
    open_part("out", 0).unwrap();
    open_part("out", 1).unwrap();
    assert!(
        folder.path().join("out/part-0-0.csv").exists() && folder.path().join("out/part-1-0.csv").exists()
    );
    open_part("one.csv", 0).unwrap();
    let error = open_part("one.csv", 1).err().unwrap();
    assert!(error.to_string().contains("another query writes to this file"), "{error}");
}

#[test]
fn a_file_is_truncated_when_it_is_opened() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("x.csv"), "old\n").unwrap();
    sink(&file_table(folder.path(), "csv", "x.csv", &columns(), &[])).unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("x.csv")).unwrap(), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    for format in ["csv", "json", "parquet"] {
        for compression in ["none", "gzip", "zstd"] {
            let folder = tempdir().unwrap();
            std::os::unix::fs::symlink(full, folder.path().join("x.out")).unwrap();
            let options: &[_] = if format == "parquet" { &[] } else { &[("compression", compression)] };
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
        "option 'format' of table t: missing; expected 'csv', 'json' or 'parquet'"
    );
    assert_eq!(
        check(&columns(), &with(&[("format", "jsn")])),
        "option 'format' of table t: 'jsn' is not known, did you mean 'json'?; expected 'csv', 'json' or 'parquet'"
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
