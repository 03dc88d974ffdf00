//! Files of Avro there and back, read from other writers' schemas, and what becomes of damaged ones. Cannot catch: what
//! another program writes otherwise; files of Flink and Python were read by hand.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, TimeUnit};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::super::varint::write_long;
use super::*;
use crate::fixture::{dead_letters, drain, file_table, lines, open};
use crate::{ScanEvent, TableSpec};

const COLUMNS: &[(&str, DataType)] = &[("i", DataType::Int64), ("s", DataType::Utf8)];

/// Rows 0 to `count`, a name for all but each fifth.
fn rows(count: i64) -> RecordBatch {
    let names = (0..count).map(|i| (i % 5 != 4).then(|| format!("row number {}", i * 7_919 % 10_007)));
    let fields = COLUMNS.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let names = Arc::new(names.collect::<StringArray>());
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(0..count)), names]).unwrap()
}

fn encoded(rows: &RecordBatch, codec: Codec) -> Vec<u8> {
    let format = AvroFiles { codec, timestamps: Timestamps::Instant };
    let mut encoder = AvroFileEncoder::new(format, &rows.schema(), "x.avro".into()).unwrap();
    let mut bytes = Vec::new();
    encoder.encode(rows, &mut bytes).unwrap();
    encoder.finish(&mut bytes).unwrap();
    bytes
}

fn table(folder: &TempDir, bytes: &[u8], columns: &[(&str, DataType)]) -> Arc<TableSpec> {
    std::fs::write(folder.path().join("in.avro"), bytes).unwrap();
    file_table(folder.path(), "avro", "in.avro", columns, &[("laxity.dead-letter.path", "dead.jsonl")])
}

/// The rows before a fault, and what is told of it.
fn read(table: &Arc<TableSpec>) -> (Vec<String>, Option<String>) {
    let mut read = Vec::new();
    let mut scan = match open(table) {
        Ok(scan) => scan,
        Err(error) => return (read, Some(error.to_string())),
    };
    loop {
        match scan.poll(laxity_graph::ProcessingTime::ZERO) {
            Ok(ScanEvent::Batch(batch)) => read.extend(lines(&batch.rows)),
            Ok(_) => return (read, None),
            Err(error) => return (read, Some(error.to_string())),
        }
    }
}

/// A file by hand: a schema, and one block.
fn by_hand(schema: &str, count: i64, data: &[u8]) -> Vec<u8> {
    let mut file = b"Obj\x01".to_vec();
    write_long(1, &mut file);
    for text in ["avro.schema", schema] {
        write_long(text.len() as i64, &mut file);
        file.extend_from_slice(text.as_bytes());
    }
    file.push(0);
    file.extend([7; MARK_BYTES]);
    write_long(count, &mut file);
    write_long(data.len() as i64, &mut file);
    file.extend_from_slice(data);
    file.extend([7; MARK_BYTES]);
    file
}

#[test]
fn blocks_are_about_as_long_as_those_of_others() {
    let rows = rows(20_000);
    let file = encoded(&rows, Codec::Null);
    let mark = &file[file.len() - MARK_BYTES..];
    let ends: Vec<usize> = memchr::memmem::find_iter(&file, mark).collect();
    // The header's, and those of the blocks.
    assert!(ends.len() > 4, "{}", ends.len());
    let longest = ends.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap();
    assert!((64_000..64_200).contains(&longest), "{longest}");
    let folder = tempdir().unwrap();
    assert_eq!(drain(open(&table(&folder, &file, COLUMNS)).unwrap().as_mut()), rows);
}

#[test]
fn a_file_of_no_row_has_a_header() {
    let folder = tempdir().unwrap();
    let file = encoded(&rows(0), Codec::Snappy);
    assert!(file.starts_with(b"Obj\x01"));
    assert_eq!(read(&table(&folder, &file, COLUMNS)), (vec![], None));
}

#[test]
fn columns_are_found_by_name_and_misfits_are_bad_rows() {
    let schema = r#"{"type": "record", "name": "r", "fields": [
        {"name": "extra", "type": {"type": "array", "items": "string"}},
        {"name": "small", "type": "int"},
        {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["x", "y"]}}]}"#;
    let mut data = vec![2, 2, b'e', 0, 14, 2];
    // 300 is no TINYINT.
    data.extend([0, 0xd8, 0x04, 0]);
    data.extend([0, 1, 2]);
    let folder = tempdir().unwrap();
    let columns = [("kind", DataType::Utf8), ("small", DataType::Int8), ("gone", DataType::Float64)];
    let file = by_hand(schema, 3, &data);
    assert_eq!(read(&table(&folder, &file, &columns)), (vec!["y|7|NULL".into(), "y|-1|NULL".into()], None));
    let letters = dead_letters(&folder.path().join("dead.jsonl"));
    assert_eq!(letters.len(), 1);
    assert!(letters[0].starts_with("2: column 'small': "), "{letters:?}");

    let told = |columns: &[(&str, DataType)]| read(&table(&folder, &file, columns)).1.unwrap();
    let fault = told(&[("small", DataType::Utf8)]);
    assert!(
        fault.contains("it does not fit the table: column 'small' is Utf8, and the writer's is Int32"),
        "{fault}"
    );
    let fault = told(&[("none!", DataType::Utf8)]);
    assert!(
        fault.contains("column 'none' is NOT NULL, and the writer's schema has no such field"),
        "{fault}"
    );
}

#[test]
fn a_record_may_stand_beside_null() {
    let schema = r#"["null", {"type": "record", "name": "r", "fields": [{"name": "i", "type": "long"}]}]"#;
    let folder = tempdir().unwrap();
    // The second is null, which is no row.
    let file = by_hand(schema, 3, &[2, 6, 0, 2, 8]);
    assert_eq!(read(&table(&folder, &file, &[("i", DataType::Int64)])), (vec!["3".into(), "4".into()], None));
    let letters = dead_letters(&folder.path().join("dead.jsonl"));
    assert_eq!(letters, ["2: the record ends inside a value, after 0 bytes: "]);
}

#[test]
fn what_is_wrong_with_a_file_is_told_behind_its_good_rows() {
    let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "i", "type": "long"}]}"#;
    let folder = tempdir().unwrap();
    let columns = [("i", DataType::Int64)];
    let told = |file: &[u8]| {
        let (rows, fault) = read(&table(&folder, file, &columns));
        (rows.join(" "), fault.unwrap().rsplit_once(": ").unwrap().1.to_owned())
    };
    let of = |rows: &str, fault: &str| (rows.to_owned(), fault.to_owned());
    let good = by_hand(schema, 2, &[2, 4]);
    assert_eq!(read(&table(&folder, &good, &columns)), (vec!["1".into(), "2".into()], None));
    let more = |count: i64, bytes: i64, data: &[u8]| {
        let mut file = good.clone();
        write_long(count, &mut file);
        write_long(bytes, &mut file);
        [&file, data, &[7; MARK_BYTES]].concat()
    };
    assert_eq!(told(&more(2, 3, &[6, 8, 0x80])), of("1 2 3 4", "1 bytes follow the last record of a block"));
    assert_eq!(told(&more(2, 2, &[6, 0x80])), of("1 2 3", "a record does not end in its block"));
    assert_eq!(told(&more(0, 1, &[6])), of("1 2", "1 bytes follow the last record of a block"));
    assert_eq!(told(&more(9, 1, &[6])), of("1 2", "a block of 9 records has 1 bytes"));
    assert_eq!(told(&more(-1, 1, &[6])), of("1 2", "a block has no length up to 64 MiB"));
    assert_eq!(told(&more(1, i64::MAX, &[6])), of("1 2", "a block has no length up to 64 MiB"));
    let mut file = more(1, 1, &[6]);
    *file.last_mut().unwrap() = 8;
    assert_eq!(told(&file), of("1 2", "a block does not end with the file's mark"));
    for cut in [1, MARK_BYTES, MARK_BYTES + 1, MARK_BYTES + 2] {
        let file = more(1, 1, &[6]);
        assert_eq!(told(&file[..file.len() - cut]), of("1 2", "it ends amid a block, behind record 2"));
    }
    let fault = read(&table(&folder, &good[..30], &columns)).1.unwrap();
    assert!(fault.contains("it has no header of such a file"), "{fault}");
    let fault = read(&table(&folder, &by_hand(r#""long""#, 1, &[0]), &columns)).1.unwrap();
    assert!(fault.ends_with("its schema: it is not of a record"), "{fault}");
    let own = r#"{"type": "record", "name": "r", "fields": [{"name": "i", "type": ["null", "r"]}]}"#;
    let fault = read(&table(&folder, &by_hand(own, 1, &[0]), &columns)).1.unwrap();
    assert!(fault.contains("its schema: 'r' is no type that is known there"), "{fault}");
}

#[test]
fn nothing_but_the_number_of_rows_is_read_where_no_column_is_wanted() {
    let folder = tempdir().unwrap();
    let spec = crate::ScanSpec {
        table: table(&folder, &encoded(&rows(3_000), Codec::Snappy), COLUMNS),
        columns: vec![],
    };
    let anew = crate::ScanEnvironment::new(laxity_graph::ProcessingTime::ZERO, laxity_graph::EventTime(0));
    let rows = drain(crate::open_scan(&spec, &anew).unwrap().as_mut());
    assert_eq!((rows.num_columns(), rows.num_rows()), (0, 3_000));
}

#[test]
fn types_that_avro_does_not_have_are_refused_with_the_options() {
    let options = BTreeMap::from([("connector", "filesystem"), ("path", "x"), ("format", "avro")]);
    let options: Vec<(&str, &str)> = options.into_iter().collect();
    let columns = [("t", DataType::Timestamp(TimeUnit::Nanosecond, None))];
    let table = crate::fixture::table(Path::new("/"), &columns, &options);
    let error = crate::validate_source(&table).unwrap_err().to_string();
    assert!(error.contains("avro cannot hold column 't'"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever byte is another: the rows before are good, and reading comes to an end.
    #[test]
    fn a_damaged_file_gives_the_rows_before_or_a_fault(
        codec in prop::sample::select(vec![Codec::Null, Codec::Deflate, Codec::Snappy, Codec::Zstandard]),
        at in 0.0..1.0_f64,
        byte in any::<u8>(),
        cut in prop::bool::ANY,
    ) {
        let all = rows(6_000);
        let mut file = encoded(&all, codec);
        let at = (at * file.len() as f64) as usize;
        if cut {
            file.truncate(at);
        } else {
            file[at] = byte;
        }
        let folder = tempdir().unwrap();
        let (read, fault) = read(&table(&folder, &file, COLUMNS));
        let whole = lines(&all);
        if cut {
            // A file that ends with a block is whole.
            prop_assert!(whole.starts_with(&read));
            prop_assert!(fault.is_some() || read.len() < whole.len());
        } else if fault.is_none() {
            let dead = std::fs::read_to_string(folder.path().join("dead.jsonl")).unwrap();
            prop_assert_eq!(read.len() + dead.lines().count(), whole.len());
        }
    }
}

#[test]
fn a_timestamp_is_an_instant_unless_it_is_to_be_local() {
    let times = arrow::array::TimestampMillisecondArray::from(vec![Some(-1), None]);
    let columns = [
        ("t", crate::fixture::TIMESTAMP),
        ("z", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))),
    ];
    let columns_of = |legacy| {
        let folder = tempdir().unwrap();
        let options = [("avro.codec", "null"), ("avro.timestamp_mapping.legacy", legacy)];
        let table = file_table(folder.path(), "avro", "x.avro", &columns, &options);
        let rows: Vec<ArrayRef> = vec![Arc::new(times.clone()), Arc::new(times.clone().with_timezone("UTC"))];
        let rows = RecordBatch::try_new(table.schema.clone(), rows).unwrap();
        let spec = crate::SinkSpec { table: Arc::clone(&table) };
        let mut sink = crate::open_sink(&spec, &crate::SinkEnvironment::default()).unwrap();
        sink.write(&rows).unwrap();
        sink.close().unwrap();
        assert_eq!(drain(open(&table).unwrap().as_mut()), rows);
        let text = std::fs::read(folder.path().join("x.avro")).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.matches("\"timestamp-millis").count() * 10 + text.matches("\"local-timestamp-millis").count()
    };
    assert_eq!([columns_of("true"), columns_of("false")], [20, 11]);
}

#[test]
fn whole_numbers_become_wider() {
    let schema = Arc::new(Schema::new(vec![Field::new("i", DataType::Int32, true)]));
    let rows = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![Some(-3), None]))]).unwrap();
    let folder = tempdir().unwrap();
    let table = table(&folder, &encoded(&rows, Codec::Snappy), &[("i", DataType::Int64)]);
    let read = drain(open(&table).unwrap().as_mut());
    assert_eq!(read.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(-3), None]);
}
