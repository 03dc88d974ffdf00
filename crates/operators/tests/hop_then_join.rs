//! HOP as a table function feeding a window join, against nested loops over rows and windows: what is late is
//! judged per window, by the watermark that the row carries through the expansion. Does not cover aggregation.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{Int64Type, SchemaRef, TimestampMillisecondType};
use laxity_graph::{EventTime, ProcessingTime, RowErrors};
use laxity_operators::{
    Emitted, Flow, InstanceContext, JoinKind, Operator, OperatorFactory, Outbox, StreamBatch,
    WindowExpandSpec, WindowJoinInput, WindowJoinSpec, WindowKind,
};
use proptest::prelude::*;

const SIZE_MS: i64 = 20;
const SLIDE_MS: i64 = 10;
const DELAY_MS: i64 = 5;

/// A row (key, time) with the watermark before it.
type Row = (i64, i64, i64);

/// A result (window end, left time, right time).
type Joined = (i64, i64, i64);

fn batch(rows: &[Row]) -> StreamBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)))),
        ("t", Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.1)))),
    ];
    let is_behind = rows.iter().any(|r| r.1 <= r.2);
    StreamBatch {
        rows: RecordBatch::try_from_iter(columns).unwrap(),
        watermark_before: is_behind.then(|| rows.iter().map(|r| r.2).collect()),
    }
}

fn expansion() -> WindowExpandSpec {
    WindowExpandSpec {
        name: "hop".into(),
        input_schema: batch(&[]).rows.schema(),
        time: 1,
        processing_time: false,
        window: WindowKind::Hop { size_ms: SIZE_MS, slide_ms: SLIDE_MS, offset_ms: 0 },
    }
}

fn join() -> OperatorFactory {
    let schema: SchemaRef = expansion().output_schema();
    let input =
        || WindowJoinInput { schema: Arc::clone(&schema), window_start: 2, window_end: 3, keys: vec![0] };
    let (left, right) = (input(), input());
    WindowJoinSpec {
        name: "join".into(),
        kind: JoinKind::Inner,
        left,
        right,
        condition: None,
        row_errors: RowErrors::Fail,
    }
    .factory()
}

/// Calls an operator until it is through.
fn finish(operator: &mut dyn Operator, mut flow: Flow, out: &mut Outbox) {
    while flow == Flow::More {
        flow = operator.resume(out).unwrap();
    }
}

fn run(sources: [&[Row]; 2], choices: &[(bool, usize)], batch_rows: usize) -> (Vec<Joined>, usize) {
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows };
    let mut hops = [0, 1].map(|_| expansion().factory().make(&context).unwrap());
    let mut join = join().make(&context).unwrap();
    let (mut next, mut watermarks) = ([0, 0], [i64::MIN; 2]);
    let mut out = Outbox::default();
    let mut choices = choices.iter().cycle();
    while next[0] < sources[0].len() || next[1] < sources[1].len() {
        let &(go_right, size) = choices.next().unwrap();
        let side =
            usize::from(if go_right { next[1] < sources[1].len() } else { next[0] >= sources[0].len() });
        let rows = &sources[side][next[side]..(next[side] + size).min(sources[side].len())];
        next[side] += rows.len();
        let mut expanded = Outbox::default();
        let flow = hops[side].on_batch(0, batch(rows), ProcessingTime::ZERO, &mut expanded).unwrap();
        finish(hops[side].as_mut(), flow, &mut expanded);
        for emitted in expanded.emitted {
            let Emitted::Batch { batch, .. } = emitted else { panic!("{emitted:?}") };
            let flow = join.on_batch(side, batch, ProcessingTime::ZERO, &mut out).unwrap();
            finish(join.as_mut(), flow, &mut out);
        }
        watermarks[side] = rows.iter().map(|r| r.1 - DELAY_MS).fold(watermarks[side], i64::max);
        let flow = join.on_watermark(EventTime(watermarks[0].min(watermarks[1])), &mut out).unwrap();
        finish(join.as_mut(), flow, &mut out);
    }
    let flow = join.on_watermark(EventTime::MAX, &mut out).unwrap();
    finish(join.as_mut(), flow, &mut out);

    let mut joined = Vec::new();
    for emitted in &out.emitted {
        let Emitted::Batch { batch, window_end, .. } = emitted else { continue };
        let time = |column: usize| batch.rows.column(column).as_primitive::<TimestampMillisecondType>();
        let key = |column: usize| batch.rows.column(column).as_primitive::<Int64Type>();
        for i in 0..batch.num_rows() {
            assert_eq!(key(0).value(i), key(5).value(i));
            assert_eq!(Some(EventTime(time(3).value(i))), *window_end);
            joined.push((time(3).value(i), time(1).value(i), time(6).value(i)));
        }
    }
    joined.sort();
    (joined, out.late.iter().map(|late| late.rows.num_rows()).sum())
}

fn nested_loops(left: &[Row], right: &[Row]) -> (Vec<Joined>, usize) {
    let ends = |row: &Row| -> Vec<i64> {
        let ends = (-20..40).map(|i| i * SLIDE_MS);
        ends.filter(|end| end - SIZE_MS <= row.1 && row.1 < *end).collect()
    };
    let is_late = |row: &Row, end: i64| end - 1 <= row.2;
    let mut joined = Vec::new();
    for l in left {
        for r in right.iter().filter(|r| r.0 == l.0) {
            let both = ends(l).into_iter().filter(|end| ends(r).contains(end));
            joined.extend(both.filter(|&e| !is_late(l, e) && !is_late(r, e)).map(|end| (end, l.1, r.1)));
        }
    }
    joined.sort();
    let late = |row: &Row| ends(row).into_iter().filter(|&end| is_late(row, end)).count();
    (joined, left.iter().chain(right).map(late).sum())
}

fn source() -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((0i64..3, 0i64..45), 0..40).prop_map(|drawn| {
        let mut watermark = i64::MIN;
        let row = |(i, (key, behind)): (usize, (i64, i64))| {
            let (time, before) = (i as i64 * 4 - behind, watermark);
            watermark = watermark.max(time - DELAY_MS);
            (key, time, before)
        };
        drawn.into_iter().enumerate().map(row).collect()
    })
}

proptest! {
    #[test]
    fn equals_nested_loops(
        left in source(),
        right in source(),
        choices in proptest::collection::vec((any::<bool>(), 1usize..9), 1..20),
        batch_rows in 1usize..9,
    ) {
        prop_assert_eq!(run([&left, &right], &choices, batch_rows), nested_loops(&left, &right));
    }
}
