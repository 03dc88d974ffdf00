//! How long one call holds a worker while a window of many groups goes out, and while its slices are filled.
//!
//! `cargo run --release -p laxity-operators --example longest_call [GROUPS]`, a million by default. Prints the longest call
//! that took a batch, the longest of those that followed a watermark, and how many these were. Of each call the shortest of
//! some runs counts: what others do on the machine is in the rest.

// A bench reads the clock; the operators do not.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{col, lit};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_operators::{
    AggregateCall, Flow, InstanceContext, Operator, Outbox, StreamBatch, WindowAggregateSpec, WindowInput,
    WindowKind,
};

const BATCH_ROWS: usize = 8_192;
const SLICES: i64 = 4;
const RUNS: usize = 7;

fn main() {
    let groups: i64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number"));
    let tumble = WindowKind::Tumble { size_ms: 1_000, offset_ms: 0 };
    let hop = WindowKind::Hop { size_ms: SLICES * 1_000, slide_ms: 1_000, offset_ms: 0 };
    println!("{groups} groups, COUNT, SUM and AVG of DOUBLE");
    for (what, window, is_text) in [
        ("tumble, BIGINT", tumble, false),
        ("tumble, STRING", tumble, true),
        ("hop of four slices, BIGINT", hop, false),
        ("hop of four slices, STRING", hop, true),
    ] {
        let [batches, watermarks] =
            (0..RUNS).map(|_| run(window, groups, is_text)).reduce(least).expect("some");
        let longest = |calls: &[Duration]| calls.iter().max().copied().unwrap_or_default();
        let (batch, watermark) = (longest(&batches), longest(&watermarks));
        println!(
            "{what:<28} batch {batch:>10.2?}   watermark {watermark:>10.2?} of {} calls",
            watermarks.len()
        );
    }
}

fn schema(is_text: bool) -> SchemaRef {
    let key = if is_text { DataType::Utf8 } else { DataType::Int64 };
    Arc::new(Schema::new(vec![
        Field::new("k", key, true),
        Field::new("v", DataType::Float64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

fn operator(window: WindowKind, is_text: bool) -> Box<dyn Operator> {
    let schema = schema(is_text);
    let call = |builder: AggregateExprBuilder, name| AggregateCall {
        expr: Arc::new(builder.schema(schema.clone()).alias(name).build().unwrap()),
        filter: None,
    };
    let v = || vec![col("v", &schema).unwrap()];
    let spec = WindowAggregateSpec {
        name: "WindowAggregate".into(),
        input_schema: schema.clone(),
        windows: WindowInput::Assign { time_column: 2, window, processing_time: false },
        keys: vec![0],
        aggregates: vec![
            call(AggregateExprBuilder::new(count_udaf(), vec![lit(1i64)]), "n"),
            call(AggregateExprBuilder::new(sum_udaf(), v()), "s"),
            call(AggregateExprBuilder::new(avg_udaf(), v()), "a"),
        ],
        allowed_lateness_ms: 0,
    };
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: BATCH_ROWS };
    spec.factory().make(&context).unwrap()
}

/// Of calls that took a batch, and of those that followed a watermark.
type Calls = [Vec<Duration>; 2];

fn least(a: Calls, b: Calls) -> Calls {
    let of = |kind: usize| a[kind].iter().zip(&b[kind]).map(|(a, b)| *a.min(b)).collect();
    [of(0), of(1)]
}

/// Every group once in every slice.
fn run(window: WindowKind, groups: i64, is_text: bool) -> Calls {
    let mut operator = operator(window, is_text);
    let [mut batches, mut watermarks] = [Vec::new(), Vec::new()];
    for slice in 0..SLICES {
        for first in (0..groups).step_by(BATCH_ROWS) {
            let keys = first..groups.min(first + BATCH_ROWS as i64);
            let rows = keys.clone().count();
            let key: ArrayRef = match is_text {
                true => Arc::new(StringArray::from_iter_values(keys.map(|key| format!("customer {key}")))),
                false => Arc::new(Int64Array::from_iter_values(keys)),
            };
            let values = Float64Array::from(vec![1.5; rows]);
            let times = TimestampMillisecondArray::from(vec![slice * 1_000; rows]);
            let columns = vec![key, Arc::new(values) as ArrayRef, Arc::new(times)];
            let rows = RecordBatch::try_new(schema(is_text), columns).unwrap();
            let mut out = Outbox::default();
            let started = Instant::now();
            let _done = operator.on_batch(0, StreamBatch::on_time(rows), ProcessingTime::ZERO, &mut out);
            batches.push(started.elapsed());
        }
        let mut flow = None;
        while flow != Some(Flow::Done) {
            let mut out = Outbox::default();
            let started = Instant::now();
            let now = match flow {
                None => operator.on_watermark(EventTime(slice * 1_000 + 999), &mut out),
                Some(_) => operator.resume(&mut out),
            };
            watermarks.push(started.elapsed());
            flow = Some(now.unwrap());
        }
    }
    [batches, watermarks]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_comes_out() {
        let tumble = WindowKind::Tumble { size_ms: 1_000, offset_ms: 0 };
        let [batches, watermarks] = run(tumble, 10_000, true);
        // Two batches a slice; results of two batches, and perhaps an end, behind each watermark.
        assert_eq!(batches.len(), 8);
        assert!((8..=12).contains(&watermarks.len()), "{}", watermarks.len());
    }
}
