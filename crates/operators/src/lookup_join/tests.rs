//! Random streams and tables against nested loops, with the table replaced between batches.

use super::*;
use crate::Emitted;
use crate::drive::texts;
use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_expr::Operator as Op;
use datafusion_physical_expr::expressions::{Column, binary};
use proptest::prelude::*;

/// A key and a value, of either side.
type Row = (Option<i64>, i64);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, false),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let keys: Int64Array = rows.iter().map(|row| row.0).collect();
    let values = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
    RecordBatch::try_new(schema(), vec![Arc::new(keys), Arc::new(values)]).unwrap()
}

fn table(rows: &[Row], keys: &[usize]) -> LookupRows {
    let cut = rows.len() / 2;
    LookupRows::new(&schema(), keys, &[batch(&rows[..cut]), batch(&rows[cut..])]).unwrap()
}

fn spec(kind: JoinKind, keys: Vec<usize>, with_condition: bool) -> LookupJoinSpec {
    let pair = kind.output_schema(&schema(), &schema());
    let less = binary(Arc::new(Column::new("v", 1)), Op::Lt, Arc::new(Column::new("v", 3)), &pair).unwrap();
    LookupJoinSpec {
        row_errors: laxity_graph::RowErrors::Fail,
        name: "join".into(),
        kind,
        stream_schema: schema(),
        stream_keys: keys.clone(),
        table_schema: schema(),
        table_keys: keys,
        condition: with_condition.then_some(less),
    }
}

/// Rows as text with the watermark before each, and no batch above the bound.
fn joined(operator: &mut dyn Operator, batch: StreamBatch, batch_rows: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut out = Outbox::default();
    let mut flow = operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
    loop {
        for emitted in std::mem::take(&mut out).emitted {
            let Emitted::Batch { batch, ingested: None, window_end: None } = emitted else { panic!() };
            assert!((1..=batch_rows).contains(&batch.num_rows()));
            let before = batch.watermark_before.clone();
            let with_before = |(at, row)| match &before {
                Some(before) => format!("{row} after {}", before[at]),
                None => row,
            };
            rows.extend(texts(&batch.rows).into_iter().enumerate().map(with_before));
        }
        if flow == Flow::Done {
            return rows;
        }
        flow = operator.resume(&mut out).unwrap();
    }
}

/// Every row beside every row.
fn nested_loops(stream: &[(Row, i64)], table: &[Row], spec: &LookupJoinSpec) -> Vec<String> {
    let text = |key: Option<i64>| key.map_or("-".to_string(), |key| key.to_string());
    let mut joined = Vec::new();
    for ((key, value), before) in stream {
        let before_count = joined.len();
        for (table_key, table_value) in table {
            let equal = spec.stream_keys.is_empty() || key.is_some() && key == table_key;
            if equal && (spec.condition.is_none() || value < table_value) {
                joined.push(format!(
                    "{}|{value}|{}|{table_value} after {before}",
                    text(*key),
                    text(*table_key)
                ));
            }
        }
        if joined.len() == before_count && spec.kind == JoinKind::Left {
            joined.push(format!("{}|{value}|-|- after {before}", text(*key)));
        }
    }
    joined
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((proptest::option::weighted(0.9, 0i64..6), 0i64..10), 0..20)
}

proptest! {
    #[test]
    fn a_batch_meets_the_table_of_its_time(
        versions in proptest::collection::vec((rows(), rows()), 1..5),
        is_left: bool,
        with_condition: bool,
        has_keys: bool,
        batch_rows in 1usize..20,
    ) {
        let kind = if is_left { JoinKind::Left } else { JoinKind::Inner };
        let keys = if has_keys { vec![0] } else { vec![] };
        let spec = spec(kind, keys.clone(), with_condition);
        let shared = Arc::new(LookupTable::new(table(&[], &keys), 1));
        let mut operator = spec.operator(Arc::clone(&shared), batch_rows).unwrap();
        for (stream, version) in versions {
            shared.replace(table(&version, &keys));
            let stamped: Vec<(Row, i64)> = stream.iter().copied().zip(100..).collect();
            let before = stamped.iter().map(|(_, before)| *before).collect();
            let given = StreamBatch { rows: batch(&stream), watermark_before: Some(before) };
            prop_assert_eq!(
                joined(operator.as_mut(), given, batch_rows),
                nested_loops(&stamped, &version, &spec)
            );
        }
    }
}

#[test]
fn a_batch_that_is_cut_stays_with_its_version() {
    let spec = spec(JoinKind::Inner, vec![0], false);
    let shared = Arc::new(LookupTable::new(table(&[(Some(1), 10), (Some(1), 11)], &[0]), 1));
    let mut operator = spec.operator(Arc::clone(&shared), 1).unwrap();
    let mut out = Outbox::default();
    let given = StreamBatch::on_time(batch(&[(Some(1), 0)]));
    assert_eq!(operator.on_batch(0, given, ProcessingTime::ZERO, &mut out).unwrap(), Flow::More);
    assert!(operator.state_bytes() > 0);
    shared.replace(table(&[], &[0]));
    assert_eq!(operator.resume(&mut out).unwrap(), Flow::Done);
    assert_eq!(out.emitted.len(), 2);
    assert_eq!(shared.current().num_rows(), 0);
}

#[test]
fn keys_of_other_types_are_a_bug_of_the_plan() {
    let text = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true)]));
    let spec = LookupJoinSpec { table_schema: text, ..spec(JoinKind::Inner, vec![0], false) };
    let shared = Arc::new(LookupTable::new(table(&[], &[0]), 1));
    assert!(matches!(spec.operator(Arc::clone(&shared), 1), Err(OperatorError::Internal { .. })));
    let right = LookupJoinSpec { kind: JoinKind::Right, ..spec };
    assert!(right.operator(shared, 1).is_err());
}

#[test]
fn keys_that_are_repeated_are_counted() {
    let rows = [(Some(1), 0), (Some(2), 0), (None, 0), (Some(1), 1), (None, 1), (Some(1), 2)];
    assert_eq!(table(&rows, &[0]).repeated(), Some(2));
    // A NULL is no key, and two columns are another one.
    assert_eq!(table(&rows[..3], &[0]).repeated(), None);
    assert_eq!(table(&rows, &[0, 1]).repeated(), None);
}
