//! What a small message costs: one to sixteen rows through source, calc and window, and windows of few groups that
//! fire. One thread, no scheduler, no channel, no decoding.
//!
//! `cargo run --release -p laxity-operators --example small [NAME or part of it]` prints the least of a few runs, in ns.
//! `… small bytes` prints what an idle query's operators hold. For instruction counts:
//! `valgrind --tool=callgrind --toggle-collect=small::drive_back target/release/examples/small NAME 1`; `drive_front` and
//! `drive_fire` likewise.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as BinaryOperator;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::max_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{binary, col, lit};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_operators::{
    AggregateCall, CalcSpec, Chain, Emitted, Flow, InstanceContext, Operator, OperatorFactory, Outbox,
    SourceColumn, SourceSpec, StreamBatch, WatermarkSpec, WindowAggregateSpec, WindowInput, WindowKind,
};

const RUNS: usize = 7;
const WINDOWS: usize = 100;
const SECOND_MS: i64 = 1_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let filter = arguments.next().unwrap_or_default();
    let runs = arguments.next().map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    if filter == "bytes" {
        return idle_bytes();
    }
    println!(
        "ns a message in front (source, calc), in back (window, calc) and a window's firing; a new window"
    );
    println!("each second; COUNT(*), SUM(v), MAX(v)");
    let cases = cases();
    let is_one = cases.iter().any(|case| case.name() == filter);
    for case in cases {
        if case.name() != filter && (is_one || !case.name().contains(&filter)) {
            continue;
        }
        let times = (0..runs).map(|_| run(&case, WINDOWS).0);
        let least = times.reduce(Times::least).unwrap_or_default();
        let messages = (WINDOWS * case.messages) as u128;
        println!(
            "{:<44} {:>6} {:>6} {:>8}",
            case.name(),
            least.front.as_nanos() / messages,
            least.back.as_nanos() / messages,
            least.fire.as_nanos() / WINDOWS as u128,
        );
    }
}

/// A query and what comes in.
#[derive(Clone, Copy)]
struct Case {
    window: WindowKind,
    keys: Keys,
    groups: usize,
    rows_per_message: usize,
    /// In each second.
    messages: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    None,
    Number,
    Text,
    NumberAndText,
}

impl Case {
    fn name(&self) -> String {
        let window = match self.window {
            WindowKind::Tumble { .. } => "tumble 1 s".to_owned(),
            WindowKind::Hop { size_ms, .. } => format!("hop {} s", size_ms / SECOND_MS),
            WindowKind::Cumulate { max_ms, .. } => format!("cumulate {} s", max_ms / SECOND_MS),
            WindowKind::Session { gap_ms } => format!("session {gap_ms} ms"),
        };
        format!("{window}, {:?}, groups {}, rows {}", self.keys, self.groups, self.rows_per_message)
    }
}

fn cases() -> Vec<Case> {
    let tumble = WindowKind::Tumble { size_ms: SECOND_MS, offset_ms: 0 };
    let hop = |seconds| WindowKind::Hop { size_ms: seconds * SECOND_MS, slide_ms: SECOND_MS, offset_ms: 0 };
    let cumulate = WindowKind::Cumulate { max_ms: 10 * SECOND_MS, step_ms: SECOND_MS, offset_ms: 0 };
    let mut cases = Vec::new();
    for rows_per_message in [1, 4, 16] {
        for (keys, groups) in [
            (Keys::None, 1),
            (Keys::Number, 4),
            (Keys::Number, 16),
            (Keys::Number, 200),
            (Keys::Text, 16),
            (Keys::NumberAndText, 16),
        ] {
            for window in [tumble, hop(5), hop(60), cumulate] {
                let messages = if rows_per_message == 1 { 200 } else { 50 };
                cases.push(Case { window, keys, groups, rows_per_message, messages });
            }
        }
    }
    // A query of one row per window: all costs of a window on one message.
    cases.push(Case { window: tumble, keys: Keys::Number, groups: 1, rows_per_message: 1, messages: 1 });
    cases
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

/// Keys, time and arguments, in the order in which SQL hands them to a window.
fn filtered_schema() -> SchemaRef {
    Arc::new(schema().project(&[0, 1, 3, 2]).unwrap())
}

/// Source and filter: `SELECT k, name, t, v FROM input WHERE v >= 0`.
fn front() -> OperatorFactory {
    let delay = lit(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, 0))));
    let expression = binary(col("t", &schema()).unwrap(), BinaryOperator::Minus, delay, &schema()).unwrap();
    let source = SourceSpec {
        name: "Source".into(),
        columns: (0..4).map(SourceColumn::Physical).collect(),
        output_schema: schema(),
        watermark: Some(WatermarkSpec {
            time_column: 3,
            expression,
            max_ahead_ms: Some(3_600_000),
            split_column: None,
        }),
        processing_origin_ms: 0,
    };
    let is_positive =
        binary(col("v", &schema()).unwrap(), BinaryOperator::GtEq, lit(0i64), &schema()).unwrap();
    let columns = ["k", "name", "t", "v"].map(|name| (col(name, &schema()).unwrap(), name.to_owned()));
    let filter = CalcSpec {
        name: "Calc".into(),
        input_schema: schema(),
        predicate: Some(is_positive),
        projection: columns.to_vec(),
        output_schema: None,
    };
    Chain::factory(vec![source.factory(), filter.factory()])
}

/// Window and projection: `SELECT window_end, …keys, n, s, m`.
fn back(case: &Case) -> OperatorFactory {
    let call = |builder: AggregateExprBuilder, name| AggregateCall {
        expr: Arc::new(builder.schema(filtered_schema()).alias(name).build().unwrap()),
        filter: None,
    };
    let v = || vec![col("v", &filtered_schema()).unwrap()];
    let window = WindowAggregateSpec {
        name: "WindowAggregate".into(),
        input_schema: filtered_schema(),
        windows: WindowInput::Assign { time_column: 2, window: case.window, processing_time: false },
        keys: match case.keys {
            Keys::None => vec![],
            Keys::Number => vec![0],
            Keys::Text => vec![1],
            Keys::NumberAndText => vec![0, 1],
        },
        aggregates: vec![
            call(AggregateExprBuilder::new(count_udaf(), vec![lit(1i64)]), "n"),
            call(AggregateExprBuilder::new(sum_udaf(), v()), "s"),
            call(AggregateExprBuilder::new(max_udaf(), v()), "m"),
        ],
        allowed_lateness_ms: 0,
    };
    let result = window.output_schema().unwrap();
    let keys = result.fields().len() - 6;
    let names = std::iter::once("window_end")
        .chain(result.fields()[..keys + 3].iter().map(|field| field.name().as_str()))
        .map(|name| (col(name, &result).unwrap(), name.to_owned()));
    let project = CalcSpec {
        name: "Calc".into(),
        projection: names.collect(),
        input_schema: Arc::clone(&result),
        predicate: None,
        output_schema: None,
    };
    Chain::factory(vec![window.factory(), project.factory()])
}

/// The messages of one second, in order.
fn messages(case: &Case, second: i64, schema: &SchemaRef) -> Vec<RecordBatch> {
    let message = |message: usize| {
        let first = message * case.rows_per_message;
        let key = |row: usize| ((first + row) % case.groups) as i64;
        let keys = || (0..case.rows_per_message).map(key);
        let time = second * SECOND_MS + SECOND_MS * message as i64 / case.messages as i64;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(keys().map(Some).collect::<Int64Array>()),
            Arc::new(keys().map(|key| Some(format!("name {key}"))).collect::<StringArray>()),
            Arc::new(keys().map(|key| Some(key % 7)).collect::<Int64Array>()),
            Arc::new(TimestampMillisecondArray::from_value(time, case.rows_per_message)),
        ];
        RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
    };
    (0..case.messages).map(message).collect()
}

/// What a run cost.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    front: Duration,
    back: Duration,
    fire: Duration,
}

impl Times {
    fn least(self, other: Times) -> Times {
        Times {
            front: self.front.min(other.front),
            back: self.back.min(other.back),
            fire: self.fire.min(other.fire),
        }
    }
}

/// What came out.
#[derive(Debug, Default, PartialEq)]
struct Results {
    groups: usize,
    counted: i64,
}

const CONTEXT: InstanceContext = InstanceContext { instance: 0, parallelism: 1, batch_rows: 8_192 };

// A bench reads the clock; the operators do not.
#[allow(clippy::disallowed_methods)]
fn run(case: &Case, windows: usize) -> (Times, Results) {
    let mut first = front().make(&CONTEXT).unwrap();
    let mut second = back(case).make(&CONTEXT).unwrap();
    let (mut sent, mut out) = (Outbox::default(), Outbox::default());
    let schema = schema();
    let mut times = Times::default();
    let mut results = Results::default();
    let now = std::time::Instant::now;
    for window in 0..windows as i64 {
        let messages = messages(case, window, &schema);
        let started = now();
        drive_front(first.as_mut(), messages, &mut sent);
        times.front += started.elapsed();
        // The watermark that follows the first message of a second ends the window before.
        let mut rest = std::mem::take(&mut sent.emitted);
        let mut start: Vec<Emitted> = rest.drain(..2.min(rest.len())).collect();
        let closing = start.split_off(1);
        let started = now();
        drive_back(second.as_mut(), start, &mut out);
        times.back += started.elapsed();
        let started = now();
        drive_fire(second.as_mut(), closing, &mut out);
        times.fire += started.elapsed();
        let started = now();
        drive_back(second.as_mut(), rest, &mut out);
        times.back += started.elapsed();
        collect(&mut out, &mut results);
    }
    let end = vec![Emitted::Watermark(EventTime::MAX)];
    drive_fire(second.as_mut(), end, &mut out);
    collect(&mut out, &mut results);
    (times, results)
}

#[inline(never)]
fn drive_front(operator: &mut dyn Operator, messages: Vec<RecordBatch>, out: &mut Outbox) {
    for rows in messages {
        let flow = operator.on_batch(0, StreamBatch::on_time(rows), ProcessingTime::ZERO, out).unwrap();
        assert_eq!(flow, Flow::Done);
    }
}

#[inline(never)]
fn drive_back(operator: &mut dyn Operator, messages: Vec<Emitted>, out: &mut Outbox) {
    for message in messages {
        hand(operator, message, out);
    }
}

#[inline(never)]
fn drive_fire(operator: &mut dyn Operator, messages: Vec<Emitted>, out: &mut Outbox) {
    // Not the code of `drive_back`, which the compiler would share.
    black_box(&messages);
    for message in messages {
        hand(operator, message, out);
    }
}

fn hand(operator: &mut dyn Operator, message: Emitted, out: &mut Outbox) {
    let mut flow = match message {
        Emitted::Batch { batch, .. } => operator.on_batch(0, batch, ProcessingTime::ZERO, out).unwrap(),
        Emitted::Watermark(watermark) => operator.on_watermark(watermark, out).unwrap(),
    };
    while flow == Flow::More {
        flow = operator.resume(out).unwrap();
    }
}

fn collect(out: &mut Outbox, results: &mut Results) {
    assert!(out.late.is_empty() && out.dead.is_empty());
    for emitted in out.emitted.drain(..) {
        if let Emitted::Batch { batch, .. } = emitted {
            results.groups += batch.num_rows();
            let counts = batch.rows.column_by_name("n").unwrap().as_primitive::<Int64Type>();
            results.counted += counts.values().iter().sum::<i64>();
        }
    }
}

/// Resident bytes of this process.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

/// What the operators of an idle query hold: made, fed one window, and left alone.
fn idle_bytes() {
    const QUERIES: usize = 5_000;
    let case = Case {
        window: WindowKind::Tumble { size_ms: SECOND_MS, offset_ms: 0 },
        keys: Keys::Number,
        groups: 4,
        rows_per_message: 1,
        messages: 4,
    };
    let schema = schema();
    let measure = |what: &str, make: &dyn Fn() -> Box<dyn std::any::Any>| {
        let warm = make();
        let before = resident_bytes();
        let kept: Vec<_> = (0..QUERIES).map(|_| make()).collect();
        println!("{:<60} {:>8} bytes", what, (resident_bytes() - before) / QUERIES);
        // What was freed would be taken again, and not be seen.
        std::mem::forget((kept, warm));
    };
    measure("plan: factories of source, calc, window, calc", &|| Box::new((front(), back(&case))));
    let (shared_front, shared_back) = (front(), back(&case));
    measure("an instance of each, before the first row", &|| {
        Box::new((shared_front.make(&CONTEXT).unwrap(), shared_back.make(&CONTEXT).unwrap()))
    });
    let fed = |until_ms: Option<i64>| {
        let mut out = Outbox::default();
        let (mut first, mut second) =
            (shared_front.make(&CONTEXT).unwrap(), shared_back.make(&CONTEXT).unwrap());
        drive_front(first.as_mut(), messages(&case, 0, &schema), &mut out);
        drive_back(second.as_mut(), std::mem::take(&mut out.emitted), &mut out);
        if let Some(until_ms) = until_ms {
            hand(second.as_mut(), Emitted::Watermark(EventTime(until_ms)), &mut out);
        }
        (first, second)
    };
    measure("the same with an open window of four groups", &|| Box::new(fed(None)));
    measure("the same, its only window fired", &|| Box::new(fed(Some(SECOND_MS))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_and_every_row_is_counted_in_each_of_its_windows() {
        for case in cases() {
            let seconds = 3;
            let (_, results) = run(&case, seconds);
            let per_row = match case.window {
                WindowKind::Hop { size_ms, slide_ms, .. } => size_ms / slide_ms,
                // Rows of the first, second and third of ten steps.
                WindowKind::Cumulate { .. } => 9,
                _ => 1,
            };
            let rows = (seconds * case.messages * case.rows_per_message) as i64;
            assert_eq!(results.counted, rows * per_row, "{}", case.name());
        }
    }
}
