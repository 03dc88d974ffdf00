//! Random rows against the definition, written out row by row.

use super::*;
use crate::drive::{Step, cut, drive};
use crate::{Emitted, InstanceContext};
use arrow::array::{Int64Array, ListBuilder, MapBuilder, MapFieldNames, StringBuilder, StructArray};
use arrow::array::{Int64Builder, ListArray};
use arrow::datatypes::Fields;
use proptest::prelude::*;

type Elements = Option<Vec<Option<i64>>>;

fn lists(rows: &[Elements]) -> ArrayRef {
    let mut builder = ListBuilder::new(Int64Builder::new());
    rows.iter().for_each(|row| builder.append_option(row.clone()));
    Arc::new(builder.finish())
}

fn batch(column: ArrayRef) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(0..column.len() as i64);
    RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(numbers) as ArrayRef, false),
        ("c", column, true),
    ])
    .unwrap()
}

fn spec(input: &RecordBatch, keeps_empty: bool) -> UnnestSpec {
    UnnestSpec {
        name: "Unnest".into(),
        input_schema: input.schema(),
        column: 1,
        kept: vec![0],
        with_ordinality: true,
        keeps_empty,
    }
}

fn operator(spec: UnnestSpec, batch_rows: usize) -> Box<dyn Operator> {
    spec.factory().make(&InstanceContext { instance: 0, parallelism: 1, batch_rows }).unwrap()
}

/// The rows that come out.
fn unnested(input: &RecordBatch, keeps_empty: bool) -> Vec<String> {
    let steps = vec![Step::Batch(StreamBatch::on_time(input.clone()), ProcessingTime::ZERO)];
    drive(operator(spec(input, keeps_empty), 3).as_mut(), steps, 3).rows()
}

proptest! {
    #[test]
    fn every_element_comes_out_once_in_order(
        rows in prop::collection::vec(
            prop::option::of(prop::collection::vec(prop::option::of(0_i64..9), 0..5)), 0..30),
        lengths in prop::collection::vec(1_usize..7, 1..4),
        batch_rows in 1_usize..6,
        keeps_empty in any::<bool>(),
    ) {
        let input = batch(lists(&rows));
        let times: Vec<i64> = (0..rows.len() as i64).collect();
        let steps = cut(&input, &times, &lengths);
        let answer = drive(operator(spec(&input, keeps_empty), batch_rows).as_mut(), steps, batch_rows);
        let mut expected = Vec::new();
        for (row, elements) in rows.iter().enumerate() {
            let elements = elements.as_deref().unwrap_or(&[]);
            if elements.is_empty() && keeps_empty {
                expected.push(format!("{row}|-|-"));
            }
            for (at, element) in elements.iter().enumerate() {
                let text = element.map_or("-".to_string(), |element| element.to_string());
                expected.push(format!("{row}|{text}|{}", at + 1));
            }
        }
        prop_assert_eq!(answer.rows(), expected);
        prop_assert_eq!(answer.watermarks().last().copied(), Some(i64::MAX));
    }
}

#[test]
fn the_watermark_before_a_row_goes_with_each_of_its_elements() {
    let rows = batch(lists(&[Some(vec![Some(5), Some(6)]), None, Some(vec![Some(7)])]));
    let mut out = Outbox::default();
    let input = StreamBatch { rows, watermark_before: Some(vec![10, 11, 12].into()) };
    let mut operator = operator(spec(&input.rows, false), 100);
    assert_eq!(operator.on_batch(0, input, ProcessingTime::ZERO, &mut out).unwrap(), Flow::Done);
    let [Emitted::Batch { batch, .. }] = &out.emitted[..] else { panic!("{:?}", out.emitted) };
    assert_eq!(batch.watermark_before.as_ref().unwrap().as_ref(), [10, 10, 12]);
}

#[test]
fn rows_come_out_as_their_fields() {
    // NULL, where the ROW itself is, whatever lies below it.
    let fields =
        Fields::from(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]);
    let a = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let b = Arc::new(Int64Array::from(vec![Some(10), Some(20), None]));
    let rows = StructArray::new(fields.clone(), vec![a, b], Some(vec![true, false, true].into()));
    let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths([2, 0, 1]), Arc::new(rows), None);
    assert_eq!(unnested(&batch(Arc::new(lists)), false), ["0|1|10|1", "0|-|-|2", "2|3|-|1"]);
}

#[test]
fn maps_come_out_as_keys_and_values() {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), Int64Builder::new());
    maps.keys().append_value("x");
    maps.values().append_value(1);
    maps.keys().append_value("y");
    maps.values().append_null();
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    let input = batch(Arc::new(maps.finish()));
    assert_eq!(unnested(&input, false), ["0|x|1|1", "0|y|-|2"]);
    assert_eq!(unnested(&input, true), ["0|x|1|1", "0|y|-|2", "1|-|-|-"]);
    let columns = spec(&input, true).output_schema().unwrap();
    let names: Vec<_> = columns.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["n", "KEY", "VALUE", "ORDINALITY"]);
}

#[test]
fn what_is_no_collection_is_a_bug_of_the_plan() {
    let input = batch(Arc::new(Int64Array::from(vec![1])));
    assert!(matches!(spec(&input, false).output_schema(), Err(OperatorError::Internal { .. })));
}
