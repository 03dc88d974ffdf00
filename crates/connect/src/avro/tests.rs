//! Records of `avro` there and back, and their bytes worked out by hand. Cannot catch: what
//! Flink itself would write otherwise; none runs here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow::array::{
    Array, AsArray, BooleanArray, Decimal128Array, Float64Array, Int16Array, Int64Array, ListArray,
    StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, TimeUnit};

use super::*;
use crate::{Direction, RecordFormat, TableSpec};

fn format(fields: Vec<Field>) -> Result<RecordFormat, OptionError> {
    let schema = Arc::new(Schema::new(fields));
    let options = BTreeMap::from([("format".to_owned(), "avro".to_owned())]);
    let table = TableSpec { name: "t".into(), schema: Arc::clone(&schema), options, base: PathBuf::new() };
    RecordFormat::read(&OptionReader::new(&table), "format", &schema, Direction::Read)
}

fn rows() -> RecordBatch {
    let zone = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("small", DataType::Int16, true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("at", zone, true),
        Field::new("yes", DataType::Boolean, true),
        Field::new("v", DataType::Float64, true),
        Field::new("l", lists.data_type().clone(), true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, -70_000])),
        Arc::new(StringArray::from(vec![Some("é"), None])),
        Arc::new(Int16Array::from(vec![Some(-3), None])),
        Arc::new(Decimal128Array::from(vec![Some(-1_050), None]).with_precision_and_scale(10, 2).unwrap()),
        Arc::new(TimestampMillisecondArray::from(vec![Some(1_700_000_000_000), None]).with_timezone("UTC")),
        Arc::new(BooleanArray::from(vec![Some(true), None])),
        Arc::new(Float64Array::from(vec![Some(0.5), None])),
        Arc::new(lists),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn fields() -> Vec<Field> {
    rows().schema().fields().iter().map(|field| field.as_ref().clone()).collect()
}

#[test]
fn rows_are_read_as_they_were_written() {
    let format = format(fields()).unwrap();
    let mut records = Records::default();
    format.encoder().encode(&rows(), &mut records).unwrap();
    let mut bad = Vec::new();
    let all: Vec<usize> = (0..rows().num_columns()).collect();
    assert_eq!(format.decoder(&all).decode(&records, 0..2, &mut bad), rows());
    assert_eq!(format.decoder(&[1, 4]).decode(&records, 0..2, &mut bad), rows().project(&[1, 4]).unwrap());
    assert_eq!(format.decoder(&all).decode(&records, 1..2, &mut bad), rows().slice(1, 1));
    assert!(bad.is_empty());
}

/// By hand: a long is zigzag, a text has its length before it, and what may be NULL begins with its branch.
#[test]
fn the_bytes_are_those_of_flink() {
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)];
    let format = format(fields).unwrap();
    let mut records = Records::default();
    format.encoder().encode(&rows().project(&[0, 1]).unwrap(), &mut records).unwrap();
    assert_eq!(records.get(0), [2, 2, 4, 0xc3, 0xa9]);
    assert_eq!(records.get(1), [0xdf, 0xc5, 0x08, 0]);
}

#[test]
fn a_bad_record_costs_itself_alone() {
    let format = format(fields()[..2].to_vec()).unwrap();
    let good: &[u8] = &[14, 2, 2, b'a'];
    // Cut off, empty, too long, of a branch that is none, a text of minus one byte.
    let all: [&[u8]; 10] =
        [good, &good[..3], good, &[], &[14, 2, 2, b'a', 0], good, good, &[14, 9], &[14, 2, 1], good];
    let mut records = Records::default();
    all.iter().for_each(|record| records.push(Some(record)));
    let mut bad = Vec::new();
    let rows = format.decoder(&[0, 1]).decode(&records, 0..10, &mut bad);
    assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[7; 5]);
    assert_eq!(bad.iter().map(|bad| bad.index).collect::<Vec<_>>(), [1, 3, 4, 7, 8]);
    assert!(bad[2].reason.contains("1 bytes too many"), "{:?}", bad[2]);
}

#[test]
fn columns_that_avro_has_not_are_refused() {
    let said = |field: Field| format(vec![field]).unwrap_err().message;
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    assert!(said(Field::new("t", nanoseconds, true)).contains("avro cannot hold column 't'"));
    assert!(said(Field::new("a b", DataType::Utf8, true)).contains("no field named 'a b'"));
}
