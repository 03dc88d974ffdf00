//! Random rows against a literal reading of the rule: every row's frame looked for among all rows, and computed anew.

use super::*;
use crate::InstanceContext;
use crate::drive::{Step, cut, drive, texts};
use arrow::array::{AsArray, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{col, lit};
use laxity_functions::{FIRST_OVER, LAST_OVER, gathered};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Row {
    key: Option<i64>,
    value: Option<i64>,
    time: i64,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let keys: Int64Array = rows.iter().map(|row| row.key).collect();
    let values: Int64Array = rows.iter().map(|row| row.value).collect();
    let strings: StringArray = rows.iter().map(|row| row.value.map(|v| format!("s{v}"))).collect();
    let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.time));
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values), Arc::new(strings), Arc::new(times)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn call(function: Arc<AggregateUDF>, column: Option<&str>, distinct: bool) -> AggregateCall {
    let argument = column.map_or_else(|| lit(1i64), |name| col(name, &schema()).unwrap());
    let builder = AggregateExprBuilder::new(function, vec![argument]).schema(schema()).alias("a");
    let builder = if distinct { builder.distinct() } else { builder };
    AggregateCall { expr: Arc::new(builder.build().unwrap()), filter: None }
}

fn spec(frame: OverFrame, keys: Vec<usize>, processing_time: bool) -> OverAggregateSpec {
    OverAggregateSpec {
        name: "over".into(),
        input_schema: schema(),
        keys,
        time: 3,
        processing_time,
        frame,
        aggregates: vec![
            call(count_udaf(), None, false),
            call(count_udaf(), Some("v"), false),
            call(sum_udaf(), Some("v"), false),
            call(min_udaf(), Some("v"), false),
            call(max_udaf(), Some("v"), false),
            call(min_udaf(), Some("s"), false),
            call(count_udaf(), Some("v"), true),
            call(gathered(FIRST_OVER).unwrap(), Some("v"), false),
            call(gathered(LAST_OVER).unwrap(), Some("s"), false),
        ],
    }
}

fn operator(spec: OverAggregateSpec, batch_rows: usize) -> Box<dyn Operator> {
    spec.factory().make(&InstanceContext { instance: 0, parallelism: 1, batch_rows }).unwrap()
}

#[test]
fn the_ends_of_a_frame_are_our_own() {
    for name in [FIRST_OVER, LAST_OVER] {
        let call = call(gathered(name).unwrap(), Some("s"), false);
        assert!(running::own(&call.expr, &schema()).unwrap().is_some(), "{name}");
    }
}

#[test]
fn the_clock_is_waited_for_where_a_row_waits_for_its_millisecond_to_end() {
    let rows = OverFrame::Rows { preceding: Some(3) };
    let range = |preceding_ms| OverFrame::Range { preceding_ms };
    let waits = |frame, processing_time| operator(spec(frame, vec![0], processing_time), 10).waits_for_time();
    assert!(waits(range(Some(5)), true) && !waits(range(None), true) && !waits(rows, true));
    assert!(waits(rows, false) && waits(range(None), false), "event time");
}

/// The aggregates of a frame.
fn computed(row: &Row, frame: &[&Row]) -> String {
    let values: Vec<i64> = frame.iter().filter_map(|row| row.value).collect();
    let mut distinct = values.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let text = |value: Option<String>| value.unwrap_or("-".into());
    let number = |value: Option<i64>| text(value.map(|v| v.to_string()));
    let strings = values.iter().map(|v| format!("s{v}")).min();
    [
        number(row.key),
        number(row.value),
        text(row.value.map(|v| format!("s{v}"))),
        row.time.to_string(),
        frame.len().to_string(),
        values.len().to_string(),
        number((!values.is_empty()).then(|| values.iter().sum())),
        number(values.iter().min().copied()),
        number(values.iter().max().copied()),
        text(strings),
        distinct.len().to_string(),
        number(values.first().copied()),
        text(values.last().map(|v| format!("s{v}"))),
    ]
    .join("|")
}

/// A row that was not late: when it is due, and from when on rows of its key count without those before, if these have
/// been forgotten.
struct Accepted<'a> {
    row: &'a Row,
    key: Option<i64>,
    due: i64,
    anew_from: Option<i64>,
}

/// What Flink has of a key, of a bounded RANGE: when it forgets it, and when it would have before rows moved that on.
#[derive(Default)]
struct Timers {
    forgets_at: Option<i64>,
    superseded: Vec<i64>,
    anew_from: i64,
}

/// Results in order, and the late rows.
fn literally(rows: &[Row], before: &[i64], frame: OverFrame, has_keys: bool) -> (Vec<String>, Vec<String>) {
    let mut accepted: Vec<Accepted> = Vec::new();
    let mut late = Vec::new();
    let mut timers: BTreeMap<Option<i64>, Timers> = BTreeMap::new();
    for (row, &seen) in rows.iter().zip(before) {
        let key = row.key.filter(|_| has_keys);
        let timers = timers.entry(key).or_insert_with(|| Timers { anew_from: i64::MIN, ..Timers::default() });
        let is_forgotten = timers.forgets_at.is_some_and(|at| seen >= at);
        if is_forgotten {
            *timers = Timers { anew_from: seen + 1, ..Timers::default() };
        }
        if row.time <= seen {
            let rows = accepted.iter().filter(|a| a.key == key && a.due <= seen && a.due >= timers.anew_from);
            let gone_off = timers.superseded.iter().copied().filter(|at| *at <= seen);
            let taken = rows.map(|a| a.row.time).chain(gone_off).max();
            let is_late = match frame {
                OverFrame::Rows { preceding: None } | OverFrame::Range { preceding_ms: None } => true,
                OverFrame::Rows { .. } | OverFrame::Range { .. } => {
                    taken.is_some_and(|taken| row.time <= taken)
                }
            };
            if is_late {
                late.push(texts(&batch(std::slice::from_ref(row))).remove(0));
                continue;
            }
        }
        if let OverFrame::Range { preceding_ms: Some(ms) } = frame
            && timers.forgets_at.is_none_or(|at| at < row.time + ms + 1)
        {
            timers.superseded.extend(timers.forgets_at);
            timers.forgets_at = Some(row.time + ms + ms / 2 + 1);
        }
        let due = row.time.max(seen.saturating_add(1));
        accepted.push(Accepted { row, key, due, anew_from: is_forgotten.then(|| seen + 1) });
    }
    // A stable sort: rows of one time stay in the order of their arrival.
    accepted.sort_by_key(|a| (a.due, a.row.time));
    let result = accepted.iter().enumerate().map(|(at, a)| {
        let of_key = |other: &&Accepted| other.key == a.key;
        let anew = accepted.iter().filter(|o| o.key == a.key).filter_map(|o| o.anew_from);
        let anew = anew.filter(|from| *from <= a.due).max().unwrap_or(i64::MIN);
        let first = accepted.iter().position(|o| o.key == a.key && o.due >= anew).unwrap_or(0);
        let peers = accepted[at + 1..].iter().take_while(|o| (o.due, o.row.time) == (a.due, a.row.time));
        let rows = accepted[first..=at].iter().filter(of_key);
        let counted: Vec<&Row> = match frame {
            OverFrame::Rows { preceding } => {
                let rows: Vec<&Row> = rows.map(|o| o.row).collect();
                let from = preceding.map_or(0, |n| rows.len().saturating_sub(n as usize + 1));
                rows[from..].to_vec()
            }
            OverFrame::Range { preceding_ms } => rows
                .chain(peers.filter(of_key))
                .map(|o| o.row)
                .filter(|row| preceding_ms.is_none_or(|ms| row.time >= a.row.time - ms))
                .collect(),
        };
        computed(a.row, &counted)
    });
    (result.collect(), late)
}

fn frames() -> impl Strategy<Value = OverFrame> {
    prop_oneof![
        proptest::option::of(0u64..4).prop_map(|preceding| OverFrame::Rows { preceding }),
        proptest::option::of(0i64..12).prop_map(|preceding_ms| OverFrame::Range { preceding_ms }),
    ]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (proptest::option::weighted(0.9, 0i64..3), proptest::option::weighted(0.8, -5i64..5), 0i64..12);
    proptest::collection::vec(row, 0..80).prop_map(|rows| {
        let row = |(at, (key, value, disorder)): (usize, (Option<i64>, Option<i64>, i64))| Row {
            key,
            value,
            time: at as i64 / 2 + disorder,
        };
        rows.into_iter().enumerate().map(row).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_row_has_the_value_of_its_frame(
        rows in rows(),
        frame in frames(),
        has_keys: bool,
        delay in 0i64..12,
        lengths in proptest::collection::vec(1usize..20, 1..4),
        batch_rows in 1usize..12,
    ) {
        let mut newest = i64::MIN;
        let after: Vec<i64> = rows.iter().map(|row| {
            newest = newest.max(row.time);
            newest - delay
        }).collect();
        let before: Vec<i64> = std::iter::once(i64::MIN).chain(after.iter().copied()).collect();
        let keys = if has_keys { vec![0] } else { vec![] };
        let mut operator = operator(spec(frame, keys, false), batch_rows);
        let answer = drive(operator.as_mut(), cut(&batch(&rows), &after, &lengths), batch_rows);
        let (expected, late) = literally(&rows, &before, frame, has_keys);
        prop_assert_eq!(answer.rows(), expected);
        let given: Vec<String> = answer.late.iter().map(|(row, _)| row.clone()).collect();
        prop_assert_eq!(given, late);
    }

    #[test]
    fn processing_time_goes_by_arrival(
        rows in rows(),
        frame in frames(),
        has_keys: bool,
        lengths in proptest::collection::vec(1usize..20, 1..4),
        batch_rows in 1usize..12,
    ) {
        // Stamps never go back.
        let mut rows = rows;
        rows.sort_by_key(|row| row.time);
        let keys = if has_keys { vec![0] } else { vec![] };
        let mut operator = operator(spec(frame, keys, true), batch_rows);
        let never = vec![i64::MIN; rows.len()];
        let answer = drive(operator.as_mut(), cut(&batch(&rows), &never, &lengths), batch_rows);
        let frame = match frame {
            OverFrame::Range { preceding_ms: None } => OverFrame::Rows { preceding: None },
            frame => frame,
        };
        prop_assert_eq!(answer.rows(), literally(&rows, &never, frame, has_keys).0);
        prop_assert_eq!(answer.late, vec![]);
    }
}

fn row(key: i64, value: i64, time: i64) -> Row {
    Row { key: Some(key), value: Some(value), time }
}

#[test]
fn forgotten_keys_leave_no_memory() {
    let frame = OverFrame::Range { preceding_ms: Some(10) };
    let mut operator = operator(spec(frame, vec![0], false), 100);
    let mut sizes = vec![];
    for round in 0..50 {
        let rows: Vec<Row> = (0..200).map(|n| row(round * 1_000 + n, n, round * 100)).collect();
        let steps = vec![
            Step::Batch(StreamBatch::on_time(batch(&rows)), ProcessingTime(0)),
            Step::Watermark(round * 100 + 5),
        ];
        drive(operator.as_mut(), steps, 100);
        sizes.push(operator.state_bytes());
    }
    assert!(sizes[49] < 2 * sizes[5], "{sizes:?}");
    let rows: Vec<Row> = (0..200).map(|n| row(n, n, 10_000)).collect();
    let waiting = vec![Step::Batch(StreamBatch::on_time(batch(&rows)), ProcessingTime(0))];
    drive(operator.as_mut(), waiting, 100);
    assert!(operator.state_bytes() > sizes[49] + 200 * 8, "rows that wait are counted");
}

#[test]
fn small_messages_are_put_together() {
    let mut operator = operator(spec(OverFrame::Rows { preceding: None }, vec![0], false), 100);
    let steps = |range: std::ops::Range<i64>| {
        let one = |n| Step::Batch(StreamBatch::on_time(batch(&[row(n % 3, n, n)])), ProcessingTime(n as u64));
        range.map(one).collect::<Vec<_>>()
    };
    drive(operator.as_mut(), steps(0..5_000), 100);
    assert!(operator.state_bytes() < 2_000_000, "{} bytes", operator.state_bytes());
    let answer = drive(operator.as_mut(), vec![Step::Watermark(i64::MAX)], 100);
    assert_eq!(answer.rows().len(), 5_000);
    assert!(answer.rows()[4_999].starts_with("1|4999|s4999|4999|1667|"), "{}", answer.rows()[4_999]);
}

#[test]
fn a_sum_of_floats_keeps_what_it_lost() {
    // Flink subtracts what leaves the frame: the 1 beside 1e20 is lost for good.
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("x", DataType::Float64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]));
    let sum = AggregateExprBuilder::new(sum_udaf(), vec![col("x", &schema).unwrap()])
        .schema(Arc::clone(&schema))
        .alias("a");
    let spec = OverAggregateSpec {
        name: "over".into(),
        input_schema: Arc::clone(&schema),
        keys: vec![],
        time: 1,
        processing_time: false,
        frame: OverFrame::Rows { preceding: Some(1) },
        aggregates: vec![AggregateCall { expr: Arc::new(sum.build().unwrap()), filter: None }],
    };
    let values = [1e20, 1.0, 2.0].map(|x| ScalarValue::Float64(Some(x)));
    let columns: Vec<ArrayRef> = vec![
        ScalarValue::iter_to_array(values).unwrap(),
        Arc::new(TimestampMillisecondArray::from(vec![1, 2, 3])),
    ];
    let rows = RecordBatch::try_new(schema, columns).unwrap();
    let mut operator =
        spec.factory().make(&InstanceContext { instance: 0, parallelism: 1, batch_rows: 8 }).unwrap();
    let mut out = Outbox::default();
    let _ = operator.on_batch(0, StreamBatch::on_time(rows), ProcessingTime(0), &mut out).unwrap();
    let _ = operator.on_watermark(EventTime::MAX, &mut out).unwrap();
    let crate::Emitted::Batch { batch, .. } = &out.emitted[0] else { panic!() };
    let sums = batch.rows.column(2).as_primitive::<arrow::datatypes::Float64Type>();
    assert_eq!(sums.values(), &[1e20, 1e20, 2.0]);
}

#[test]
fn rows_that_wait_stay_in_the_tables_that_they_were_saved_in() {
    let mut operator = operator(spec(OverFrame::Range { preceding_ms: Some(5) }, vec![0], false), 16);
    let waiting = |operator: &mut dyn Operator| -> Vec<ArrayRef> {
        let parts = operator.save().unwrap().parts.into_iter();
        let waiting = parts.filter(|part| part.name.starts_with("waiting-"));
        waiting.map(|part| Arc::clone(part.rows.column(0))).collect()
    };
    let mut before: Vec<ArrayRef> = Vec::new();
    for number in 0..3 {
        let row = |at| Row { key: Some(at % 3), value: Some(at), time: number * 100 + at };
        let rows = batch(&(0..20).map(row).collect::<Vec<_>>());
        let (rows, mut out) = (StreamBatch::on_time(rows), Outbox::default());
        assert_eq!(operator.on_batch(0, rows, ProcessingTime::ZERO, &mut out).unwrap(), Flow::Done);
        let now = waiting(operator.as_mut());
        assert_eq!(now.len(), before.len() + 1);
        assert!(before.iter().zip(&now).all(|(before, now)| Arc::ptr_eq(before, now)));
        before = now;
    }
    // Some rows of the first are out.
    assert_eq!(operator.on_watermark(EventTime(7), &mut Outbox::default()).unwrap(), Flow::Done);
    let now = waiting(operator.as_mut());
    let is_same: Vec<bool> = before.iter().zip(&now).map(|(before, now)| Arc::ptr_eq(before, now)).collect();
    assert_eq!(is_same, [false, true, true]);
}
