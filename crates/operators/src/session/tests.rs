//! Session windows against Flink's rule, row by row, and against cases worked out by hand.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{binary, col, lit};
use proptest::prelude::*;

use super::*;
use crate::drive::{Answer, Sent, Step, behind_source, cut, drive, scanned};
use crate::{AggregateCall, WindowKind};

/// A row: key, value, time.
type Row = (Option<i64>, i64, i64);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, false),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| Some(r.1)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| Some(r.2)).collect::<TimestampMillisecondArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// COUNT(*), SUM(v), COUNT(DISTINCT v) FILTER (WHERE v > 1).
fn spec(gap_ms: i64, keys: Vec<usize>, allowed_lateness_ms: i64) -> WindowAggregateSpec {
    let v = || col("v", &schema()).unwrap();
    let call = |builder: AggregateExprBuilder| AggregateCall {
        expr: Arc::new(builder.schema(schema()).alias("a").build().unwrap()),
        filter: None,
    };
    let is_large = binary(v(), BinaryOperator::Gt, lit(1i64), &schema()).unwrap();
    let distinct = call(AggregateExprBuilder::new(count_udaf(), vec![v()]).distinct());
    WindowAggregateSpec {
        name: "SessionAggregate".into(),
        input_schema: schema(),
        windows: WindowInput::Assign {
            time_column: 2,
            window: WindowKind::Session { gap_ms },
            processing_time: false,
        },
        keys,
        aggregates: vec![
            call(AggregateExprBuilder::new(count_udaf(), vec![lit(1i64)])),
            call(AggregateExprBuilder::new(sum_udaf(), vec![v()])),
            AggregateCall { filter: Some(is_large), ..distinct },
        ],
        allowed_lateness_ms,
    }
}

fn run(
    spec: &WindowAggregateSpec,
    gap_ms: i64,
    rows: &[Row],
    delay_ms: i64,
    lengths: &[usize],
    limit: usize,
) -> Answer {
    let mut operator = SessionAggregate::new(spec, gap_ms, limit).unwrap();
    let answer = drive(&mut operator, cut(&batch(rows), &watermarks(rows, delay_ms), lengths), limit);
    assert!(operator.sessions.is_empty(), "state is left after the end");
    answer
}

fn watermarks(rows: &[Row], delay_ms: i64) -> Vec<i64> {
    let after = rows.iter().scan(i64::MIN, |watermark, row| {
        *watermark = (*watermark).max(row.2 - delay_ms);
        Some(*watermark)
    });
    after.collect()
}

/// Flink's rule, one row at a time: close what the watermark closes, then merge.
fn expected(rows: &[Row], watermark_after: &[i64], gap_ms: i64) -> (Vec<String>, usize) {
    type Open = BTreeMap<Option<i64>, Vec<(i64, i64, Vec<i64>)>>;
    let mut open: Open = BTreeMap::new();
    let mut lines = Vec::new();
    let mut late = 0;
    let mut close = |open: &mut Open, watermark: i64| {
        for (key, sessions) in open.iter_mut() {
            sessions.retain(|(start, end, values)| {
                if end - 1 > watermark {
                    return true;
                }
                let distinct: std::collections::BTreeSet<_> = values.iter().filter(|v| **v > 1).collect();
                let key = key.map_or("-".into(), |k| k.to_string());
                let (count, sum) = (values.len(), values.iter().sum::<i64>());
                lines.push(format!("{key}|{count}|{sum}|{}|{start}|{end}|{}", distinct.len(), end - 1));
                false
            });
        }
    };
    for (i, &(key, value, time)) in rows.iter().enumerate() {
        let watermark = if i == 0 { i64::MIN } else { watermark_after[i - 1] };
        close(&mut open, watermark);
        let sessions = open.entry(key).or_default();
        let mut merged = (time, time + gap_ms, vec![value]);
        let (met, others): (Vec<_>, Vec<_>) =
            sessions.drain(..).partition(|(start, end, _)| *start <= time + gap_ms && time <= *end);
        *sessions = others;
        for (start, end, values) in met {
            merged = (merged.0.min(start), merged.1.max(end), [merged.2, values].concat());
        }
        if merged.1 - 1 <= watermark {
            late += 1;
        } else {
            sessions.push(merged);
        }
    }
    close(&mut open, i64::MAX);
    lines.sort();
    (lines, late)
}

/// The same with allowed late rows: what a row changes that has closed goes out at once, again if it was out.
fn expected_again(
    rows: &[Row],
    watermark_after: &[i64],
    gap_ms: i64,
    lateness_ms: i64,
) -> (Vec<String>, usize) {
    struct Window {
        key: Option<i64>,
        start: i64,
        end: i64,
        values: Vec<i64>,
        is_out: bool,
    }
    let mut open: Vec<Window> = Vec::new();
    let (mut lines, mut late) = (Vec::new(), 0);
    let mut fire = |open: &mut Vec<Window>, watermark: i64| {
        for window in open.iter_mut().filter(|window| !window.is_out && window.end - 1 <= watermark) {
            let distinct: std::collections::BTreeSet<_> = window.values.iter().filter(|v| **v > 1).collect();
            let key = window.key.map_or("-".into(), |key| key.to_string());
            let (count, sum) = (window.values.len(), window.values.iter().sum::<i64>());
            let (start, end) = (window.start, window.end);
            lines.push(format!("{key}|{count}|{sum}|{}|{start}|{end}|{}", distinct.len(), end - 1));
            window.is_out = true;
        }
        open.retain(|window| window.end - 1 + lateness_ms > watermark);
    };
    let mut watermark = i64::MIN;
    for (&(key, value, time), &after) in rows.iter().zip(watermark_after) {
        let mut new = Window { key, start: time, end: time + gap_ms, values: vec![value], is_out: false };
        let meets = |w: &Window| w.key == key && w.start <= time + gap_ms && time <= w.end;
        let (met, others): (Vec<_>, Vec<_>) = std::mem::take(&mut open).into_iter().partition(meets);
        open = others;
        for window in met {
            (new.start, new.end) = (new.start.min(window.start), new.end.max(window.end));
            new.values.extend(window.values);
        }
        match new.end - 1 + lateness_ms > watermark {
            true => open.push(new),
            false => late += 1,
        }
        fire(&mut open, watermark);
        watermark = after;
        fire(&mut open, watermark);
    }
    fire(&mut open, i64::MAX / 2);
    lines.sort();
    (lines, late)
}

#[test]
fn a_row_between_two_sessions_merges_them() {
    let rows = [(Some(1), 1, 0), (Some(1), 2, 20), (Some(2), 1, 5), (Some(1), 4, 10)];
    for lengths in [[1].as_slice(), &[4], &[2]] {
        let answer = run(&spec(10, vec![0], 0), 10, &rows, 100, lengths, 100);
        let ingested = Some(ProcessingTime(4));
        let rows = vec!["2|1|1|0|5|15|14".to_owned(), "1|3|7|2|0|30|29".to_owned()];
        let sent = Sent::Batch { rows, ingested, window_end: Some(EventTime(30)) };
        assert_eq!(answer.emitted.last(), Some(&Sent::Watermark(i64::MAX)));
        assert!(answer.emitted.contains(&sent), "{answer:?}");
    }
}

#[test]
fn a_row_late_alone_still_joins_an_open_session() {
    // Watermark 25 at the last two rows: [14, 24) alone is closed, but it touches [20, 35).
    let rows = [(None, 1, 20), (None, 1, 25), (None, 1, 14), (None, 1, 3)];
    for lengths in [[1].as_slice(), &[4]] {
        let answer = run(&spec(10, vec![], 0), 10, &rows, 0, lengths, 100);
        assert_eq!(answer.rows(), ["3|3|0|14|35|34"]);
        assert_eq!(answer.late, [("-|1|3".into(), 13)]);
    }
}

#[test]
fn a_closed_session_is_not_reopened_within_a_batch() {
    // [0, 10) is closed by the row of time 30 before the row of time 9 comes, sent or not; that one is late.
    // The row of time 22 makes [22, 32), which is open.
    let rows = [(None, 1, 0), (Some(1), 1, 30), (None, 1, 9), (None, 1, 22)];
    for lengths in [[1].as_slice(), &[4]] {
        let answer = run(&spec(10, vec![0], 0), 10, &rows, 0, lengths, 100);
        assert_eq!(answer.rows(), ["-|1|1|0|0|10|9", "-|1|1|0|22|32|31", "1|1|1|0|30|40|39"]);
        assert_eq!(answer.late, [("-|1|9".into(), 19)]);
    }
}

#[test]
fn allowed_late_rows_send_their_session_again() {
    let rows = [(Some(1), 1, 0), (Some(2), 1, 12), (Some(1), 2, 4), (Some(2), 1, 30), (Some(1), 4, 1)];
    let answer = run(&spec(10, vec![0], 5), 10, &rows, 0, &[1], 100);
    assert_eq!(
        answer.rows(),
        [
            "1|1|1|0|0|10|9",   // Watermark 12.
            "1|2|3|1|0|14|13",  // The row of time 4 makes it [0, 14), open; watermark 30.
            "2|1|1|0|12|22|21", // The row of time 30 is past the gap.
            "2|1|1|0|30|40|39",
        ]
    );
    assert_eq!(answer.late, [("1|4|1".into(), 11)]);
}

#[test]
fn a_session_made_of_allowed_late_rows_goes_out_once() {
    // Watermark 12 when the row of time 2 comes: [2, 12) has closed, but within the five milliseconds.
    let rows = [(Some(2), 1, 12), (Some(1), 2, 2), (Some(1), 4, 3), (Some(2), 1, 30)];
    let answer = run(&spec(10, vec![0], 5), 10, &rows, 0, &[1], 100);
    // [3, 13) makes it another window, which closes later.
    assert_eq!(answer.rows(), ["1|1|2|1|2|12|11", "1|2|6|2|2|13|12", "2|1|1|0|12|22|21", "2|1|1|0|30|40|39"]);
    assert_eq!(answer.late, []);
}

proptest! {
    #[test]
    fn sessions_are_flinks_however_batches_are_cut(
        rows in proptest::collection::vec((proptest::option::weighted(0.8, 0i64..3), 0i64..5, 0i64..9, -15i64..15), 0..80),
        gap_ms in 1i64..15, delay_ms in 0i64..20, batch_rows in 1usize..5,
        lengths in proptest::collection::vec(1usize..30, 1..5),
    ) {
        let mut now = -20;
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|(key, value, pace, shift)| {
                now += pace;
                (key, value, now + shift)
            })
            .collect();
        let (lines, late) = expected(&rows, &watermarks(&rows, delay_ms), gap_ms);
        let answer = run(&spec(gap_ms, vec![0], 0), gap_ms, &rows, delay_ms, &lengths, batch_rows);
        prop_assert_eq!(answer.sorted_rows(), lines);
        // A source that names the watermark only where it matters makes no difference.
        let operator = SessionAggregate::new(&spec(gap_ms, vec![0], 0), gap_ms, batch_rows).unwrap();
        let mut chain = behind_source(operator, &schema(), 2, delay_ms);
        let sourced = drive(&mut chain, scanned(&batch(&rows), &lengths), 0);
        prop_assert_eq!(sourced.sorted_rows(), answer.sorted_rows());
        prop_assert_eq!(answer.late.len(), late);
    }
}

proptest! {
    #[test]
    fn allowed_late_rows_send_what_flink_sends(
        rows in proptest::collection::vec((0i64..3, 0i64..5, 0i64..9, -25i64..15), 0..80),
        gap_ms in 1i64..15, delay_ms in 0i64..10, lateness_ms in 1i64..20, batch_rows in 1usize..5,
    ) {
        let mut now = -20;
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|(key, value, pace, shift)| {
                now += pace;
                (Some(key), value, now + shift)
            })
            .collect();
        let (lines, late) = expected_again(&rows, &watermarks(&rows, delay_ms), gap_ms, lateness_ms);
        // What goes out twice depends on which rows come together.
        let spec = spec(gap_ms, vec![0], lateness_ms);
        let answer = run(&spec, gap_ms, &rows, delay_ms, &[1], batch_rows);
        prop_assert_eq!(answer.sorted_rows(), lines);
        prop_assert_eq!(answer.late.len(), late);
    }
}

#[test]
fn on_processing_time_no_row_is_late() {
    let mut spec = spec(5, vec![0], 0);
    let window = WindowKind::Session { gap_ms: 5 };
    spec.windows = WindowInput::Assign { time_column: 2, window, processing_time: true };
    let mut operator = SessionAggregate::new(&spec, 5, 10).unwrap();
    let row = |v, t| Step::Batch(StreamBatch::on_time(batch(&[(Some(1), v, t)])), ProcessingTime::ZERO);
    // [1, 6) and [4, 9) are one; the clock closes it at 8. The row of 3 comes when it is 9: a session of its own.
    let steps = vec![row(1, 1), row(2, 4), Step::Watermark(8), row(3, 3), Step::Watermark(i64::MAX)];
    let answer = drive(&mut operator, steps, 10);
    assert_eq!(answer.rows(), ["1|2|3|1|1|9|8", "1|1|3|1|9|14|13"]);
    assert_eq!(answer.late, []);
}
