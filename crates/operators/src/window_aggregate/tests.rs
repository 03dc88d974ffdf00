//! Windowed aggregation against Flink's rule, row by row, and against cases worked out by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_expr::{AggregateUDF, Operator as BinaryOperator};
use datafusion_functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::stddev::stddev_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{binary, cast, col, lit};
use proptest::prelude::*;

use super::*;
use crate::drive::{Answer, Sent, Step, behind_source, cut, drive, scanned};

/// A row: key, value, time.
type Row = (Option<i64>, Option<i64>, i64);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| Some(r.2)).collect::<TimestampMillisecondArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn call(udaf: Arc<AggregateUDF>, argument: Arc<dyn PhysicalExpr>, distinct: bool) -> AggregateCall {
    let name = format!("{}({argument})", udaf.name());
    let builder = AggregateExprBuilder::new(udaf, vec![argument]).schema(schema()).alias(name);
    AggregateCall { expr: Arc::new(builder.with_distinct(distinct).build().unwrap()), filter: None }
}

fn v() -> Arc<dyn PhysicalExpr> {
    col("v", &schema()).unwrap()
}

/// COUNT(*), SUM(v), COUNT(DISTINCT v), COUNT(*) FILTER (WHERE v > 2).
fn calls() -> Vec<AggregateCall> {
    let is_large = binary(v(), BinaryOperator::Gt, lit(2i64), &schema()).unwrap();
    vec![
        call(count_udaf(), lit(1i64), false),
        call(sum_udaf(), v(), false),
        call(count_udaf(), v(), true),
        AggregateCall { filter: Some(is_large), ..call(count_udaf(), lit(1i64), false) },
    ]
}

fn spec(window: WindowKind, keys: Vec<usize>) -> WindowAggregateSpec {
    WindowAggregateSpec {
        name: "WindowAggregate".into(),
        input_schema: schema(),
        windows: WindowInput::Assign { time_column: 2, window, processing_time: false },
        keys,
        aggregates: calls(),
        allowed_lateness_ms: 0,
    }
}

fn run(spec: &WindowAggregateSpec, steps: Vec<Step>, batch_rows: usize) -> Answer {
    let mut operator = WindowAggregate::new(spec, batch_rows).unwrap();
    let answer = drive(&mut operator, steps, batch_rows);
    assert!(operator.parts.is_empty(), "state is left after the end");
    answer
}

/// The watermark after each row, for a constant delay.
fn watermarks(rows: &[Row], delay_ms: i64) -> Vec<i64> {
    let after = rows.iter().scan(i64::MIN, |watermark, row| {
        *watermark = (*watermark).max(row.2.saturating_sub(delay_ms));
        Some(*watermark)
    });
    after.collect()
}

fn text(value: Option<i64>) -> String {
    value.map_or("-".into(), |v| v.to_string())
}

/// One line of result from the values of one group.
fn aggregate(values: &[Option<i64>]) -> String {
    let present: Vec<i64> = values.iter().copied().flatten().collect();
    let sum = (!present.is_empty()).then(|| present.iter().sum());
    let distinct: BTreeSet<_> = present.iter().collect();
    let large = present.iter().filter(|v| **v > 2).count();
    format!("{}|{}|{}|{}", values.len(), text(sum), distinct.len(), large)
}

/// Flink's rule, literally: each row into each of its windows unless `end - 1 <= watermark before the row`.
/// Returns sorted results and rows late for all their windows.
fn expected(rows: &[Row], watermark_after: &[i64], window: WindowKind, by_key: bool) -> (Vec<String>, usize) {
    let mut groups: BTreeMap<(i64, i64, Option<i64>), Vec<Option<i64>>> = BTreeMap::new();
    let mut late = 0;
    let before = std::iter::once(i64::MIN).chain(watermark_after.iter().copied());
    for (&(key, value, time), watermark) in rows.iter().zip(before) {
        let windows: Vec<_> = window.assign(time).collect();
        let open: Vec<_> = windows.iter().filter(|(_, end)| end - 1 > watermark).collect();
        late += usize::from(open.is_empty() && !windows.is_empty());
        for &&(start, end) in &open {
            groups.entry((start, end, key.filter(|_| by_key))).or_default().push(value);
        }
    }
    let mut lines: Vec<String> = groups
        .iter()
        .map(|((start, end, key), values)| {
            let key = if by_key { text(*key) + "|" } else { String::new() };
            format!("{key}{}|{start}|{end}|{}", aggregate(values), end - 1)
        })
        .collect();
    lines.sort();
    (lines, late)
}

#[test]
fn tumble_counts_by_hand() {
    let rows = [(Some(1), Some(5), 1), (Some(2), None, 3), (Some(1), Some(1), 9), (Some(1), Some(7), 12)];
    let kind = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
    let answer = run(&spec(kind, vec![0]), cut(&batch(&rows), &watermarks(&rows, 0), &[4]), 100);
    assert_eq!(
        answer.emitted,
        [
            // Ingestion is that of the latest message in the window.
            Sent::Batch {
                rows: vec!["1|2|6|2|1|0|10|9".into(), "2|1|-|0|0|0|10|9".into()],
                ingested: Some(ProcessingTime(4)),
                window_end: Some(EventTime(10)),
            },
            Sent::Watermark(12),
            Sent::Batch {
                rows: vec!["1|1|7|1|1|10|20|19".into()],
                ingested: Some(ProcessingTime(4)),
                window_end: Some(EventTime(20)),
            },
            Sent::Watermark(i64::MAX),
        ]
    );
}

#[test]
fn a_row_late_for_one_hop_counts_in_the_others_however_batches_are_cut() {
    // Watermark 12 when the row of time 7 comes: [0, 10) is closed, [5, 15) is not.
    let rows = [(None, Some(1), 3), (None, Some(2), 12), (None, Some(4), 7), (None, Some(8), 2)];
    let kind = WindowKind::Hop { size_ms: 10, slide_ms: 5, offset_ms: 0 };
    for lengths in [[1].as_slice(), &[2], &[4], &[3, 1]] {
        let answer = run(&spec(kind, vec![]), cut(&batch(&rows), &watermarks(&rows, 0), lengths), 100);
        assert_eq!(
            answer.rows(),
            ["1|1|1|0|-5|5|4", "1|1|1|0|0|10|9", "2|6|2|1|5|15|14", "1|2|1|0|10|20|19"],
            "cut {lengths:?}"
        );
        assert_eq!(answer.late, [("-|8|2".into(), 10)]);
    }
}

#[test]
fn cumulate_grows() {
    let rows = [(None, Some(1), 3), (None, Some(2), 25)];
    let kind = WindowKind::Cumulate { max_ms: 30, step_ms: 10, offset_ms: 0 };
    let answer = run(&spec(kind, vec![]), cut(&batch(&rows), &watermarks(&rows, 0), &[1]), 100);
    assert_eq!(answer.rows(), ["1|1|1|0|0|10|9", "1|1|1|0|0|20|19", "2|3|2|0|0|30|29"]);
}

#[test]
fn empty_batches_and_windows_send_nothing() {
    let kind = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
    let steps = vec![
        Step::Batch(StreamBatch::on_time(batch(&[])), ProcessingTime::ZERO),
        Step::Watermark(100),
        Step::Watermark(100),
        Step::Watermark(i64::MAX),
    ];
    let answer = run(&spec(kind, vec![]), steps, 10);
    assert_eq!(answer.emitted, [Sent::Watermark(100), Sent::Watermark(i64::MAX)]);
}

#[test]
fn far_apart_rows_do_not_walk_the_windows_between() {
    // A billion years of one-millisecond slides lie between.
    let rows = [(None, Some(1), -1 << 60), (None, Some(2), 1 << 60)];
    let kind = WindowKind::Hop { size_ms: 2, slide_ms: 1, offset_ms: 0 };
    let answer = run(&spec(kind, vec![]), cut(&batch(&rows), &watermarks(&rows, 0), &[1]), 10);
    assert_eq!(answer.rows().len(), 4);
}

#[test]
fn event_times_at_the_ends_of_the_line_neither_overflow_nor_stay() {
    let rows = [(None, Some(1), i64::MIN), (None, Some(2), 0), (None, Some(3), i64::MAX)];
    for kind in [
        WindowKind::Tumble { size_ms: 1_000, offset_ms: 0 },
        WindowKind::Hop { size_ms: 1_000, slide_ms: 500, offset_ms: 3 },
        WindowKind::Cumulate { max_ms: 1_000, step_ms: 500, offset_ms: -3 },
    ] {
        let steps = vec![
            Step::Batch(StreamBatch::on_time(batch(&rows)), ProcessingTime::ZERO),
            Step::Watermark(i64::MAX),
        ];
        assert!(run(&spec(kind, vec![]), steps, 10).rows().len() >= 3, "{kind:?}");
    }
}

#[test]
fn null_times_are_dead_and_the_rest_counts() {
    let mut rows = batch(&[(None, Some(1), 1), (None, Some(2), 2)]);
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![None, Some(2)]));
    rows =
        RecordBatch::try_new(schema(), vec![rows.column(0).clone(), rows.column(1).clone(), times]).unwrap();
    let before = Some(vec![i64::MIN, 0].into());
    let steps = vec![
        Step::Batch(StreamBatch { rows, watermark_before: before }, ProcessingTime::ZERO),
        Step::Watermark(i64::MAX),
    ];
    let answer = run(&spec(WindowKind::Tumble { size_ms: 10, offset_ms: 0 }, vec![]), steps, 10);
    assert_eq!(answer.rows(), ["1|2|1|0|0|10|9"]);
    assert_eq!(answer.dead, [("-|1|-".into(), crate::DeadReason::NullTime)]);
}

#[test]
fn attached_windows_group_by_start_and_end() {
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    let mut fields: Vec<_> = schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.extend(["window_start", "window_end"].map(|name| Field::new(name, timestamp.clone(), false)));
    let input_schema = Arc::new(Schema::new(fields));
    let spec = WindowAggregateSpec {
        input_schema: Arc::clone(&input_schema),
        windows: WindowInput::Attached { start_column: 3, end_column: 4 },
        ..spec(WindowKind::Session { gap_ms: 1 }, vec![0])
    };
    // As an expansion of HOP(size 10, slide 5) would send them, and one row whose window is closed.
    let rows = [(Some(1), Some(1), 3), (Some(1), Some(1), 3), (Some(2), Some(4), 7), (Some(1), Some(9), 3)];
    let mut columns = batch(&rows).columns().to_vec();
    columns.push(Arc::new(TimestampMillisecondArray::from(vec![-5, 0, 0, -5])));
    columns.push(Arc::new(TimestampMillisecondArray::from(vec![5, 10, 10, 5])));
    let rows = RecordBatch::try_new(input_schema, columns).unwrap();
    for lengths in [[1].as_slice(), &[4], &[2]] {
        let answer = run(&spec, cut(&rows, &[3, 3, 7, 7], lengths), 1);
        assert_eq!(answer.rows(), ["1|1|1|1|0|-5|5|4", "1|1|1|1|0|0|10|9", "2|1|4|1|1|0|10|9"]);
        assert_eq!(answer.late, [("1|9|3|-5|5".into(), 5)]);
    }
}

#[test]
fn allowed_late_rows_send_their_groups_again() {
    let kind = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
    let spec = WindowAggregateSpec { allowed_lateness_ms: 5, ..spec(kind, vec![0]) };
    let rows = [
        (Some(1), Some(1), 1),
        (Some(2), Some(1), 2),
        (Some(3), Some(1), 11), // Watermark 11 closes [0, 10).
        (Some(2), Some(4), 3),  // Late, allowed: only group 2 changes.
        (Some(3), Some(1), 14), // Watermark 14 = 10 - 1 + 5 ends the allowance.
        (Some(1), Some(1), 4),
    ];
    let answer = run(&spec, cut(&batch(&rows), &watermarks(&rows, 0), &[1]), 100);
    assert_eq!(
        answer.rows(),
        ["1|1|1|1|0|0|10|9", "2|1|1|1|0|0|10|9", "2|2|5|2|1|0|10|9", "3|2|2|1|0|10|20|19",]
    );
    assert_eq!(answer.late, [("1|1|4".into(), 10)]);
}

#[test]
fn processing_time_rows_are_never_late() {
    let kind = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
    let mut spec = spec(kind, vec![]);
    spec.windows = WindowInput::Assign { time_column: 2, window: kind, processing_time: true };
    let row = |t| Step::Batch(StreamBatch::on_time(batch(&[(None, Some(1), t)])), ProcessingTime::ZERO);
    let answer = run(&spec, vec![row(5), Step::Watermark(12), row(9), Step::Watermark(i64::MAX)], 10);
    assert_eq!(answer.rows(), ["1|1|1|0|0|10|9", "1|1|1|0|10|20|19"]);
    assert_eq!(answer.late, []);
    // The second row comes when the clock has passed 12: it is in the windows that hold 13.
    let hop = WindowKind::Hop { size_ms: 20, slide_ms: 10, offset_ms: 0 };
    let cumulate = WindowKind::Cumulate { max_ms: 30, step_ms: 10, offset_ms: 0 };
    let of = [
        (hop, vec!["1|1|1|0|-10|10|9", "2|2|1|0|0|20|19", "1|1|1|0|10|30|29"]),
        (cumulate, vec!["1|1|1|0|0|10|9", "2|2|1|0|0|20|19", "2|2|1|0|0|30|29"]),
    ];
    for (kind, expected) in of {
        spec.windows = WindowInput::Assign { time_column: 2, window: kind, processing_time: true };
        let answer = run(&spec, vec![row(5), Step::Watermark(12), row(9), Step::Watermark(i64::MAX)], 10);
        assert_eq!(answer.rows(), expected, "{kind:?}");
        assert_eq!(answer.late, []);
    }
}

#[test]
fn rows_behind_the_operators_own_watermark_are_late() {
    // An idle input came back: its own watermark is behind, the operator's is not.
    let kind = WindowKind::Tumble { size_ms: 10, offset_ms: 0 };
    for before in [None, Some(vec![0].into())] {
        let batch = StreamBatch { rows: batch(&[(None, Some(1), 5)]), watermark_before: before };
        let steps =
            vec![Step::Watermark(20), Step::Batch(batch, ProcessingTime::ZERO), Step::Watermark(i64::MAX)];
        let answer = run(&spec(kind, vec![]), steps, 10);
        assert_eq!(answer.rows(), [] as [&str; 0]);
        assert_eq!(answer.late, [("-|1|5".into(), 10)]);
    }
}

#[test]
fn strings_nan_and_scalar_accumulators_are_grouped_too() {
    let input_schema = Arc::new(Schema::new(vec![
        Field::new("s", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]));
    let call = |udaf: Arc<AggregateUDF>, column| {
        let builder = AggregateExprBuilder::new(udaf, vec![col(column, &input_schema).unwrap()]);
        let expr = builder.schema(Arc::clone(&input_schema)).alias("a").build().unwrap();
        AggregateCall { expr: Arc::new(expr), filter: None }
    };
    let spec = WindowAggregateSpec {
        input_schema: Arc::clone(&input_schema),
        keys: vec![0, 1],
        aggregates: vec![
            call(approx_distinct_udaf(), "s"),
            call(stddev_udaf(), "f"),
            call(min_udaf(), "s"),
            call(max_udaf(), "f"),
        ],
        ..spec(WindowKind::Hop { size_ms: 20, slide_ms: 10, offset_ms: 0 }, vec![])
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![Some("a"), None, Some("a"), None, Some("a")])),
        Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(f64::NAN), None, Some(0.5)])),
        Arc::new(TimestampMillisecondArray::from(vec![1, 2, 11, 12, 13])),
    ];
    let rows = RecordBatch::try_new(input_schema, columns).unwrap();
    let answer = run(&spec, cut(&rows, &[1, 2, 11, 12, 13], &[2]), 2);
    let mut rows = answer.rows();
    rows.sort();
    assert_eq!(
        rows,
        [
            "-|-|0|-|-|-|-10|10|9",
            "-|-|0|-|-|-|0|20|19",
            "-|-|0|-|-|-|10|30|29",
            "a|0.5|1|-|a|0.5|0|20|19",
            "a|0.5|1|-|a|0.5|10|30|29",
            "a|NaN|1|-|a|NaN|-10|10|9",
            "a|NaN|1|-|a|NaN|10|30|29",
            "a|NaN|1|NaN|a|NaN|0|20|19",
        ]
    );
}

#[test]
fn functions_without_accumulators_over_groups_agree_with_those_that_have_them() {
    // COUNT(DISTINCT string) has none. Here strings are those of the numbers next to them.
    let text = || cast(v(), &schema(), DataType::Utf8).unwrap();
    let is_large = binary(v(), BinaryOperator::Gt, lit(1i64), &schema()).unwrap();
    let filtered = |call: AggregateCall| AggregateCall { filter: Some(Arc::clone(&is_large)), ..call };
    let mut spec = spec(WindowKind::Hop { size_ms: 40, slide_ms: 2, offset_ms: 0 }, vec![0]);
    spec.aggregates = vec![
        call(count_udaf(), v(), true),
        call(count_udaf(), text(), true),
        filtered(call(count_udaf(), v(), true)),
        filtered(call(count_udaf(), text(), true)),
    ];
    assert!(!spec.aggregates[1].expr.groups_accumulator_supported(), "choose another function");
    let rows: Vec<Row> = (0..300).map(|i| (Some(i % 3), (i % 7 > 0).then_some(i * i % 11), i)).collect();
    for lengths in [[1].as_slice(), &[7], &[300]] {
        let answer = run(&spec, cut(&batch(&rows), &watermarks(&rows, 5), lengths), 2);
        assert!(answer.rows().len() > 300);
        for row in answer.rows() {
            let cells: Vec<&str> = row.split('|').collect();
            assert_eq!((cells[1], cells[3]), (cells[2], cells[4]), "{row}");
        }
    }
}

fn any_window() -> impl Strategy<Value = WindowKind> {
    (1i64..12, 1i64..30, -20i64..20, 0..4).prop_map(|(step, factor, offset_ms, kind)| match kind {
        0 => WindowKind::Tumble { size_ms: step * factor, offset_ms },
        1 => WindowKind::Cumulate { max_ms: step * factor, step_ms: step, offset_ms },
        // Any size and slide, so that slices are their common divisor and rows may fall between windows.
        2 => WindowKind::Hop { size_ms: factor, slide_ms: step, offset_ms },
        // Many slices per window, so that merged runs are used.
        _ => WindowKind::Hop { size_ms: step * factor, slide_ms: step, offset_ms },
    })
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let row =
        (proptest::option::weighted(0.8, 0i64..4), proptest::option::weighted(0.8, 0i64..6), -20i64..20);
    // Time moves on with disorder.
    proptest::collection::vec((row, 0i64..6), 0..120).prop_map(|rows| {
        let mut now = -50;
        let rows = rows.into_iter().map(|((key, value, shift), pace)| {
            now += pace;
            (key, value, now + shift)
        });
        rows.collect()
    })
}

proptest! {
    #[test]
    fn results_are_flinks_however_batches_are_cut(
        window in any_window(), rows in any_rows(), delay_ms in 0i64..30, by_key: bool,
        lengths in proptest::collection::vec(1usize..40, 1..5), batch_rows in 1usize..10,
    ) {
        let after = watermarks(&rows, delay_ms);
        let (lines, late) = expected(&rows, &after, window, by_key);
        let spec = spec(window, if by_key { vec![0] } else { vec![] });
        let steps = cut(&batch(&rows), &after, &lengths);
        let answer = run(&spec, steps.clone(), batch_rows);
        prop_assert_eq!(answer.sorted_rows(), lines);
        prop_assert_eq!(answer.late.len(), late);
        // Windows go out by their end, and never behind a watermark.
        let mut last = i64::MIN;
        for sent in &answer.emitted {
            let time = match sent {
                Sent::Batch { window_end, .. } => window_end.unwrap().0 - 1,
                Sent::Watermark(watermark) => *watermark,
            };
            prop_assert!(time >= last || matches!(sent, Sent::Watermark(_)));
            last = time;
        }
        // A source that names the watermark only where it matters makes no difference.
        let operator = WindowAggregate::new(&spec, batch_rows).unwrap();
        let mut chain = behind_source(operator, &schema(), 2, delay_ms);
        prop_assert_eq!(drive(&mut chain, scanned(&batch(&rows), &lengths), 0).rows(), answer.rows());
        // Uncut, rows come in the same order.
        prop_assert_eq!(run(&spec, steps, 10_000).rows(), answer.rows());
    }

    #[test]
    fn the_last_version_of_a_group_holds_every_allowed_row(
        window in any_window(), rows in any_rows(), delay_ms in 0i64..10, allowed_lateness_ms in 1i64..20,
        lengths in proptest::collection::vec(1usize..40, 1..5),
    ) {
        let after = watermarks(&rows, delay_ms);
        // Lateness only moves the watermark by which rows are judged.
        let judged: Vec<i64> = after.iter().map(|w| w.saturating_sub(allowed_lateness_ms)).collect();
        let (lines, late) = expected(&rows, &judged, window, true);
        let spec = WindowAggregateSpec { allowed_lateness_ms, ..spec(window, vec![0]) };
        let answer = run(&spec, cut(&batch(&rows), &after, &lengths), 7);
        let mut last = BTreeMap::new();
        for row in answer.rows() {
            let cells: Vec<&str> = row.split('|').collect();
            last.insert((cells[0].to_owned(), cells[5].to_owned(), cells[6].to_owned()), row);
        }
        let mut found: Vec<String> = last.into_values().collect();
        found.sort();
        prop_assert_eq!(found, lines);
        prop_assert_eq!(answer.late.len(), late);
    }
}
