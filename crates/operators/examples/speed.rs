//! What the operators cost by themselves: no scheduler, no channel, no decoding, one thread.
//!
//! `cargo run --release -p laxity-operators --example speed`. Prints the median of a few runs with the spread;
//! on a busy machine the fastest run is the one to compare.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as BinaryOperator;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{binary, col, lit};
use laxity_graph::{EventTime, ProcessingTime};
use laxity_operators::{
    AggregateCall, CalcSpec, Chain, Emitted, Flow, InstanceContext, JoinKind, LookupJoinSpec, LookupRows,
    LookupTable, Operator, OperatorFactory, Outbox, OverAggregateSpec, OverFrame, SourceColumn, SourceSpec,
    StreamBatch, WatermarkSpec, WindowAggregateSpec, WindowInput, WindowKind,
};

const RUNS: usize = 7;

fn main() {
    let tumble = WindowKind::Tumble { size_ms: 1_000, offset_ms: 0 };
    let hop = WindowKind::Hop { size_ms: 60_000, slide_ms: 1_000, offset_ms: 0 };
    println!(
        "million rows/s; (k BIGINT, v BIGINT, t TIMESTAMP(3)), time in order; dense: 100 000 rows per second"
    );
    println!(
        "of event time, sparse: 1 000, so that a window of 1 s and 1 000 keys has a row or two per group"
    );
    for batch_rows in [1, 16, 128, 1_024, 8_192] {
        let dense = Load { batch_rows, keys: 1_000, rows_per_ms: 100, disorder_ms: 0 };
        let sparse = Load { rows_per_ms: 1, ..dense };
        report("filter v > 500, project k, v, t (half kept)", dense, calc());
        report("source with watermark", dense, source());
        report("tumble 1 s, COUNT + SUM, 1 000 keys, dense", dense, window(tumble));
        report("the same, times in disorder by 2 s", Load { disorder_ms: 2_000, ..dense }, window(tumble));
        report("tumble 1 s, 100 000 keys, dense", Load { keys: 100_000, ..dense }, window(tumble));
        report("tumble 1 s, 1 000 keys, sparse", sparse, window(tumble));
        report("the same, times in disorder by 2 s", Load { disorder_ms: 2_000, ..sparse }, window(tumble));
        report("hop 60 s by 1 s, 1 000 keys, dense", dense, window(hop));
        report("hop 60 s by 1 s, 1 000 keys, sparse", sparse, window(hop));
        report("session 10 ms, 1 000 keys, dense", dense, window(WindowKind::Session { gap_ms: 10 }));
        report("session 1 s, 1 000 keys, sparse", sparse, window(WindowKind::Session { gap_ms: 1_000 }));
        report("source, filter, tumble, project, dense", dense, pipeline());
        let range = |ms| OverFrame::Range { preceding_ms: Some(ms) };
        let rows = |rows| OverFrame::Rows { preceding: Some(rows) };
        report("OVER the last 100 ms, COUNT + SUM, dense", dense, over(range(100)));
        let disorder = Load { disorder_ms: 2_000, ..dense };
        report("the same, times in disorder by 2 s", disorder, over(range(100)));
        report("OVER the last 10 rows, dense", dense, over(rows(9)));
        report("OVER all before, dense", dense, over(OverFrame::Range { preceding_ms: None }));
        report("OVER the last 1 s, 1 000 keys, sparse", sparse, over(range(1_000)));
        report("lookup join, 1 000 rows", dense, lookup(1_000));
        report("lookup join, 100 000 rows", Load { keys: 100_000, ..dense }, lookup(100_000));
    }
}

/// What comes in.
#[derive(Clone, Copy)]
struct Load {
    batch_rows: usize,
    keys: i64,
    rows_per_ms: i64,
    disorder_ms: i64,
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
        watermark: Some(WatermarkSpec {
            time_column: 2,
            expression,
            max_ahead_ms: Some(3_600_000),
            split_column: None,
        }),
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

fn over(frame: OverFrame) -> OperatorFactory {
    let WindowAggregateSpec { aggregates, .. } = window_spec(WindowKind::Session { gap_ms: 1 });
    let spec = OverAggregateSpec {
        name: "OverAggregate".into(),
        input_schema: schema(),
        keys: vec![0],
        time: 2,
        processing_time: false,
        frame,
        aggregates,
    };
    spec.factory()
}

fn lookup(rows: i64) -> OperatorFactory {
    let table = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("name of {row}")))),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&table), columns).unwrap();
    let rows = LookupRows::new(&table, &[0], &[batch]).unwrap();
    let shared = Arc::new(LookupTable::new(rows, 1));
    let spec = LookupJoinSpec {
        row_errors: laxity_graph::RowErrors::Fail,
        name: "LookupJoin".into(),
        kind: JoinKind::Inner,
        stream_schema: schema(),
        stream_keys: vec![0],
        table_schema: table,
        table_keys: vec![0],
        condition: None,
    };
    OperatorFactory::new(move |context| spec.operator(Arc::clone(&shared), context.batch_rows))
}

/// Batches with the watermark to tell after each.
fn batches(load: Load) -> Vec<(RecordBatch, i64)> {
    let Load { batch_rows, keys, rows_per_ms, disorder_ms } = load;
    let rows = if batch_rows == 1 { 100_000 } else { 2_000_000 };
    let mut state = 1u64;
    let mut random = |bound: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % bound
    };
    let batch = (0..rows / batch_rows).map(|batch| {
        let from = (batch * batch_rows) as i64;
        let range = from..from + batch_rows as i64;
        let times: Vec<i64> = range.clone().map(|i| i / rows_per_ms + random(disorder_ms + 1)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(range.clone().map(|_| Some(random(keys))).collect::<Int64Array>()),
            Arc::new(range.clone().map(|_| Some(random(1_000))).collect::<Int64Array>()),
            Arc::new(TimestampMillisecondArray::from(times)),
        ];
        (RecordBatch::try_new(schema(), columns).unwrap(), (range.end - 1) / rows_per_ms)
    });
    batch.collect()
}

fn report(what: &str, load: Load, factory: OperatorFactory) {
    let batches = batches(load);
    let rows: usize = batches.iter().map(|(batch, _)| batch.num_rows()).sum();
    let mut seconds: Vec<f64> = (0..RUNS).map(|_| run(&factory, &batches).as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| rows as f64 / seconds / 1e6;
    println!(
        "{:>6}  {what:<46} {:>8.2}  ({:.2} to {:.2}; {:.0} ns a batch at best)",
        load.batch_rows,
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
    let (mut sent, mut told) = (0, i64::MIN);
    let started = std::time::Instant::now();
    for (batch, watermark) in batches {
        let batch = StreamBatch::on_time(batch.clone());
        let mut flow = operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
        finish(operator.as_mut(), flow, &mut out, &mut sent);
        // A watermark every 100 ms of event time, behind the disorder.
        let watermark = watermark / 100 * 100 - 2_000;
        if watermark > told {
            told = watermark;
            flow = operator.on_watermark(EventTime(watermark), &mut out).unwrap();
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
