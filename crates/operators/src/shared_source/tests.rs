//! A shared source against one of its own for each member, with random batches and forks: the same rows, judged by the
//! same watermarks. Cannot catch: how readers are told of time, which is the runtime's.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::expressions::{binary, col, lit};
use proptest::prelude::*;

use super::*;
use crate::{Calc, CalcSpec, SourceColumn, WatermarkSpec};

const BEHIND_MS: i64 = 3;

fn schema() -> Arc<Schema> {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![Field::new("t", time, true), Field::new("k", DataType::Int64, false)]))
}

fn spec() -> SourceSpec {
    let time: Arc<dyn datafusion_physical_expr::PhysicalExpr> = col("t", &schema()).unwrap();
    let delay = datafusion_common::ScalarValue::new_interval_mdn(0, 0, BEHIND_MS * 1_000_000);
    SourceSpec {
        name: "Source".into(),
        columns: vec![SourceColumn::Physical(0), SourceColumn::Physical(1)],
        output_schema: schema(),
        watermark: Some(WatermarkSpec {
            time_column: 0,
            expression: binary(time, BinaryOperator::Minus, lit(delay), &schema()).unwrap(),
            max_ahead_ms: Some(40),
            split_column: None,
        }),
        processing_origin_ms: 0,
    }
}

fn shared(source: SourceSpec, gets: Gets) -> SharedSourceSpec {
    SharedSourceSpec { source, gets, template: None, constants: None }
}

fn by_key(key: i64) -> Gets {
    Gets::Rows(Access::of(&filter(key), &schema(), &|_| false).unwrap())
}

fn filter(key: i64) -> Arc<dyn datafusion_physical_expr::PhysicalExpr> {
    binary(col("k", &schema()).unwrap(), BinaryOperator::Eq, lit(key), &schema()).unwrap()
}

fn batch(rows: &[(Option<i64>, i64)]) -> StreamBatch {
    let times: TimestampMillisecondArray = rows.iter().map(|row| row.0).collect();
    let keys: Int64Array = rows.iter().map(|row| Some(row.1)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(keys)];
    StreamBatch::on_time(RecordBatch::try_new(schema(), columns).unwrap())
}

/// Key, and the watermark before the row where it may be judged by that.
type Row = (i64, Option<i64>);

fn rows_of(batch: &StreamBatch) -> Vec<Row> {
    let keys = batch.rows.column(1).as_primitive::<Int64Type>().values().iter().copied();
    let times = batch.rows.column(0).as_primitive::<arrow::datatypes::TimestampMillisecondType>();
    let before = batch.watermark_before.as_deref();
    let judged = (0..batch.num_rows()).map(|row| {
        let before = before.map(|before| before[row]);
        before.filter(|&before| times.value(row) - 1 <= before)
    });
    keys.zip(judged).collect()
}

proptest! {
    /// However rows are cut, forked and gathered: what a member gets, its filter kept, is what its own source gives it.
    #[test]
    fn a_shared_source_is_each_members_own(
        batches in prop::collection::vec(
            prop::collection::vec((prop::option::weighted(0.9, 0..60_i64), 0..4_i64), 0..9), 1..6),
        fork_at in 0..6_usize,
        at_once in 1..4_usize,
    ) {
        // The last one has no filter: it keeps every key there is.
        let accesses: Vec<Gets> = (0..3).map(by_key).chain([Gets::Rows(Access::to_every_row())]).collect();
        let mut shared = SharedSource::new(&shared(spec(), by_key(0))).unwrap();
        accesses.iter().enumerate().for_each(|(member, access)| shared.join(member as u32, access));
        let all = binary(col("k", &schema()).unwrap(), BinaryOperator::GtEq, lit(0_i64), &schema()).unwrap();
        let mut own: Vec<(SourceOperator, Calc)> = (0..3)
            .map(filter)
            .chain([all])
            .map(|predicate| {
                let calc = CalcSpec::filter("Calc", schema(), predicate);
                (SourceOperator::new(&spec()).unwrap(), Calc::new(&calc).unwrap())
            })
            .collect();
        let (mut expected, mut got) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
        let (mut dead, mut dead_of_own) = (Vec::new(), 0);
        let mut kept = Vec::new();
        let mut held: Vec<Vec<(usize, usize)>> = vec![Vec::new(); 4];
        for (number, rows) in batches.iter().enumerate() {
            if number == fork_at {
                shared = shared.fork().unwrap();
                accesses.iter().enumerate().for_each(|(member, access)| shared.join(member as u32, access));
            }
            for (member, (source, calc)) in own.iter_mut().enumerate() {
                let (mut filled, mut out) = (Outbox::default(), Outbox::default());
                let _ = source.on_batch(0, batch(rows), ProcessingTime::ZERO, &mut filled).unwrap();
                dead_of_own += filled.dead.iter().map(|dead| dead.rows.num_rows()).sum::<usize>();
                for emitted in filled.emitted {
                    let Emitted::Batch { batch, .. } = emitted else { continue };
                    let _ = calc.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
                }
                for emitted in out.emitted {
                    if let Emitted::Batch { batch, .. } = emitted {
                        expected[member].extend(rows_of(&batch));
                    }
                }
            }
            let filled = shared.fill(batch(rows), ProcessingTime::ZERO, &mut dead).unwrap();
            prop_assert_eq!(filled.watermark, own[0].0.watermark());
            let mut chosen = Vec::new();
            shared.choose(&filled.batch, &mut chosen);
            chosen.iter().for_each(|&(member, row)| held[member as usize].push((kept.len(), row as usize)));
            kept.push(filled.batch);
            if kept.len() < at_once && number + 1 < batches.len() {
                continue;
            }
            for (member, rows) in held.iter_mut().enumerate().filter(|(_, rows)| !rows.is_empty()) {
                let batches: Vec<&StreamBatch> = kept.iter().collect();
                got[member].extend(rows_of(&SharedSource::gather(&batches, rows).unwrap()));
                rows.clear();
            }
            kept.clear();
        }
        prop_assert_eq!(got, expected);
        let dead: usize = dead.iter().map(|dead| dead.rows.num_rows()).sum();
        prop_assert_eq!(4 * dead, dead_of_own);
    }
}

#[test]
fn it_serves_who_asks_for_the_same() {
    let one = SharedSource::new(&shared(spec(), by_key(0))).unwrap();
    assert!(one.serves(&shared(spec(), by_key(1))));
    let other = WatermarkSpec { max_ahead_ms: None, ..spec().watermark.unwrap() };
    assert!(!one.serves(&shared(SourceSpec { watermark: Some(other), ..spec() }, by_key(0))));
    let columns = vec![SourceColumn::Physical(0), SourceColumn::Physical(0)];
    assert!(!one.serves(&shared(SourceSpec { columns, ..spec() }, by_key(0))));
}

#[test]
fn the_clock_moves_on_what_stamps_its_rows_and_nothing_else() {
    let mut rows = SharedSource::new(&shared(spec(), by_key(0))).unwrap();
    assert!(!rows.tell_time(EventTime(7)), "rows say how far time is");
    assert_eq!(rows.fill(batch(&[]), ProcessingTime::ZERO, &mut vec![]).unwrap().watermark, EventTime::MIN);

    let columns = vec![SourceColumn::ProcessingTime, SourceColumn::Physical(1)];
    let stamped = SourceSpec { columns, watermark: None, processing_origin_ms: 100, ..spec() };
    let mut rows = SharedSource::new(&shared(stamped.clone(), by_key(0))).unwrap();
    assert!(rows.tell_time(EventTime(104)) && rows.tell_time(EventTime(103)), "it is not taken back");
    let filled = rows.fill(batch(&[(None, 3)]), ProcessingTime(5_000_000), &mut vec![]).unwrap();
    assert_eq!((filled.watermark, filled.batch.num_rows()), (EventTime(104), 1));
    let times = filled.batch.rows.column(0).as_primitive::<arrow::datatypes::TimestampMillisecondType>();
    assert_eq!(times.value(0), 105);
    // Who goes on from there, with others or not.
    let mut restored = SharedSource::new(&shared(stamped, by_key(0))).unwrap();
    assert_eq!(restored.absorb(rows.save().unwrap()).unwrap(), EventTime(104));
}
