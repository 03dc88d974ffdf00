//! What the operators cost by themselves: no scheduler, no channel, no decoding, one thread.
//!
//! `cargo run --release -p laxity-operators --example speed`. Prints the median of a few runs with the spread;
//! on a busy machine the fastest run is the one to compare.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as BinaryOperator;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{binary, col, lit};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_operators::{
    AggregateCall, CalcSpec, Chain, Emitted, Flow, InstanceContext, Operator, OperatorFactory, Outbox,
    SourceColumn, SourceSpec, StreamBatch, WatermarkSpec, WindowAggregateSpec, WindowInput, WindowKind,
};

const RUNS: usize = 7;

fn main() {
    let tumble = WindowKind::Tumble { size_ms: 1_000, offset_ms: 0 };
    let hop = WindowKind::Hop { size_ms: 60_000, slide_ms: 1_000, offset_ms: 0 };
    println!(
        "million rows/s; (k BIGINT, v BIGINT, t TIMESTAMP(3)), time in order, 1 000 rows per second of event time"
    );
    for batch_rows in [1, 16, 128, 1_024, 8_192] {
        report("filter v > 500, project k, v, t (half kept)", batch_rows, 1_000, 0, calc());
        report("source with watermark", batch_rows, 1_000, 0, source());
        report("tumble 1 s, COUNT + SUM, 1 000 keys", batch_rows, 1_000, 0, window(tumble));
        report("the same, times up to 2 s in disorder", batch_rows, 1_000, 2_000, window(tumble));
        report("tumble 1 s, 100 000 keys", batch_rows, 100_000, 0, window(tumble));
        report("hop 60 s by 1 s, 1 000 keys", batch_rows, 1_000, 0, window(hop));
        report(
            "session 1 s, 1 000 keys",
            batch_rows,
            1_000,
            0,
            window(WindowKind::Session { gap_ms: 1_000 }),
        );
        report("source, filter, tumble, project", batch_rows, 1_000, 0, pipeline());
    }
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, None)
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
        Field::new("t", timestamp(), true),
    ]))
}

fn calc() -> OperatorFactory {
    let predicate = binary(col("v", &schema()).unwrap(), BinaryOperator::Gt, lit(500i64), &schema()).unwrap();
    CalcSpec::filter("Calc", schema(), predicate).factory()
}

fn source() -> OperatorFactory {
    let delay = lit(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, 4_000_000_000))));
    let expression = binary(col("t", &schema()).unwrap(), BinaryOperator::Minus, delay, &schema()).unwrap();
    let spec = SourceSpec {
        name: "Source".into(),
        columns: (0..3).map(SourceColumn::Physical).collect(),
        output_schema: schema(),
        watermark: Some(WatermarkSpec { time_column: 2, expression, max_ahead_ms: Some(3_600_000) }),
        processing_origin_ms: 0,
    };
    spec.factory()
}

fn window_spec(window: WindowKind) -> WindowAggregateSpec {
    let call = |builder: AggregateExprBuilder, name| AggregateCall {
        expr: Arc::new(builder.schema(schema()).alias(name).build().unwrap()),
        filter: None,
    };
    WindowAggregateSpec {
        name: "WindowAggregate".into(),
        input_schema: schema(),
        windows: WindowInput::Assign { time_column: 2, window, processing_time: false },
        keys: vec![0],
        aggregates: vec![
            call(AggregateExprBuilder::new(count_udaf(), vec![lit(1i64)]), "n"),
            call(AggregateExprBuilder::new(sum_udaf(), vec![col("v", &schema()).unwrap()]), "s"),
        ],
        allowed_lateness_ms: 0,
    }
}

fn window(window: WindowKind) -> OperatorFactory {
    window_spec(window).factory()
}

fn pipeline() -> OperatorFactory {
    let spec = window_spec(WindowKind::Tumble { size_ms: 1_000, offset_ms: 0 });
    let result = spec.output_schema().unwrap();
    let projection = ["window_end", "k", "n", "s"].map(|name| (col(name, &result).unwrap(), name.to_owned()));
    let project = CalcSpec {
        name: "Project".into(),
        input_schema: result,
        predicate: None,
        projection: projection.to_vec(),
        output_schema: None,
    };
    Chain::factory(vec![source(), calc(), spec.factory(), project.factory()])
}

/// Batches with the watermark to tell after each.
fn batches(batch_rows: usize, keys: i64, disorder_ms: i64) -> Vec<(RecordBatch, i64)> {
    let rows = if batch_rows == 1 { 100_000 } else { 2_000_000 };
    let mut state = 1u64;
    let mut random = |bound: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % bound
    };
    let batch = (0..rows / batch_rows).map(|batch| {
        let from = (batch * batch_rows) as i64;
        let range = from..from + batch_rows as i64;
        let times: Vec<i64> = range.clone().map(|i| i + random(disorder_ms + 1)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(range.clone().map(|_| Some(random(keys))).collect::<Int64Array>()),
            Arc::new(range.clone().map(|_| Some(random(1_000))).collect::<Int64Array>()),
            Arc::new(TimestampMillisecondArray::from(times)),
        ];
        (RecordBatch::try_new(schema(), columns).unwrap(), range.end - 1)
    });
    batch.collect()
}

fn report(what: &str, batch_rows: usize, keys: i64, disorder_ms: i64, factory: OperatorFactory) {
    let batches = batches(batch_rows, keys, disorder_ms);
    let rows: usize = batches.iter().map(|(batch, _)| batch.num_rows()).sum();
    let mut seconds: Vec<f64> = (0..RUNS).map(|_| run(&factory, &batches).as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| rows as f64 / seconds / 1e6;
    println!(
        "{batch_rows:>6}  {what:<46} {:>8.2}  ({:.2} to {:.2}; {:.0} ns a batch at best)",
        rate(seconds[RUNS / 2]),
        rate(seconds[RUNS - 1]),
        rate(seconds[0]),
        seconds[0] * 1e9 / batches.len() as f64,
    );
}

// A bench reads the clock; the operators do not.
#[allow(clippy::disallowed_methods)]
fn run(factory: &OperatorFactory, batches: &[(RecordBatch, i64)]) -> Duration {
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 8_192 };
    let mut operator = factory.make(&context).unwrap();
    let mut out = Outbox::default();
    let mut sent = 0;
    let started = std::time::Instant::now();
    for (batch, watermark) in batches {
        let batch = StreamBatch::on_time(batch.clone());
        let mut flow = operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
        finish(operator.as_mut(), flow, &mut out, &mut sent);
        // A watermark a second, as a source with batches of a second would send.
        if watermark % 1_000 > 900 {
            flow = operator.on_watermark(EventTime(watermark / 1_000 * 1_000 - 2_000), &mut out).unwrap();
            finish(operator.as_mut(), flow, &mut out, &mut sent);
        }
    }
    let elapsed = started.elapsed();
    std::hint::black_box(sent);
    elapsed
}

fn finish(operator: &mut dyn Operator, mut flow: Flow, out: &mut Outbox, sent: &mut usize) {
    loop {
        for emitted in out.emitted.drain(..) {
            if let Emitted::Batch { batch, .. } = emitted {
                *sent += batch.num_rows();
            }
        }
        out.late.clear();
        if flow == Flow::Done {
            return;
        }
        flow = operator.resume(out).unwrap();
    }
}
