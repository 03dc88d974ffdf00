//! What a checkpoint costs an operator that holds a million groups or rows: saving, the first batch behind it, restoring, and
//! the first batch behind that. One thread; writing is not part of it.
//!
//! `cargo run --release -p laxity-operators --example state`. The least of a few runs, ns for each group or row held; the
//! first batch is of 1 024 rows and told whole, in ms.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{col, lit};
use laxity_graph::{ProcessingTime, RowErrors};
use laxity_operators::{
    AggregateCall, InstanceContext, IntervalJoinInput, IntervalJoinSpec, JoinKind, Operator, OperatorFactory,
    Outbox, OverAggregateSpec, OverFrame, StreamBatch, WindowAggregateSpec, WindowInput, WindowKind,
};

const HELD: i64 = 1_000_000;
const RUNS: usize = 5;
const BATCH_ROWS: i64 = 8_192;

fn main() {
    println!("ns each held: save, restore; ms: the first batch behind each ({HELD} held)");
    report(
        "tumble, COUNT + SUM, a group each",
        &window(WindowKind::Tumble { size_ms: 1 << 40, offset_ms: 0 }),
    );
    report("session, COUNT + SUM, a session each", &window(WindowKind::Session { gap_ms: 1 << 40 }));
    report("OVER all before, COUNT + SUM, a key each", &over(OverFrame::Rows { preceding: None }));
    report("OVER that waits, a row each", &over(OverFrame::Range { preceding_ms: Some(1_000) }));
    report("interval join, a row each", &join());
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

fn calls() -> Vec<AggregateCall> {
    let call = |builder: AggregateExprBuilder, name| AggregateCall {
        expr: Arc::new(builder.schema(schema()).alias(name).build().unwrap()),
        filter: None,
    };
    vec![
        call(AggregateExprBuilder::new(count_udaf(), vec![lit(1i64)]), "n"),
        call(AggregateExprBuilder::new(sum_udaf(), vec![col("v", &schema()).unwrap()]), "s"),
    ]
}

fn window(window: WindowKind) -> OperatorFactory {
    WindowAggregateSpec {
        name: "WindowAggregate".into(),
        input_schema: schema(),
        windows: WindowInput::Assign { time_column: 2, window, processing_time: false },
        keys: vec![0],
        aggregates: calls(),
        allowed_lateness_ms: 0,
    }
    .factory()
}

fn over(frame: OverFrame) -> OperatorFactory {
    OverAggregateSpec {
        name: "OverAggregate".into(),
        input_schema: schema(),
        keys: vec![0],
        time: 2,
        processing_time: frame == OverFrame::Rows { preceding: None },
        frame,
        aggregates: calls(),
    }
    .factory()
}

fn join() -> OperatorFactory {
    let input = || IntervalJoinInput { schema: schema(), time: 2, keys: vec![0] };
    IntervalJoinSpec {
        name: "IntervalJoin".into(),
        kind: JoinKind::Inner,
        left: input(),
        right: input(),
        lower_ms: -10_000_000,
        upper_ms: 10_000_000,
        condition: None,
        row_errors: RowErrors::Fail,
    }
    .factory()
}

/// A row for each of these keys, a millisecond apart.
fn batch(keys: std::ops::Range<i64>) -> StreamBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys.clone())),
        Arc::new(Int64Array::from_iter_values(keys.clone())),
        Arc::new(TimestampMillisecondArray::from_iter_values(keys)),
    ];
    StreamBatch::on_time(RecordBatch::try_new(schema(), columns).unwrap())
}

// A bench reads the clock; the operators do not.
#[allow(clippy::disallowed_methods)]
fn seconds<R>(of: impl FnOnce() -> R) -> (f64, R) {
    let started = Instant::now();
    let result = of();
    (started.elapsed().as_secs_f64(), result)
}

fn take(operator: &mut dyn Operator, keys: std::ops::Range<i64>) {
    let mut out = Outbox::default();
    let _done = operator.on_batch(0, batch(keys), ProcessingTime::ZERO, &mut out).unwrap();
}

fn report(what: &str, factory: &OperatorFactory) {
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: BATCH_ROWS as usize };
    let mut least = [f64::INFINITY; 4];
    for _ in 0..RUNS {
        let mut operator = factory.make(&context).unwrap();
        // As a query that is checkpointed from its beginning: keys are noted from now on.
        operator.save().unwrap();
        (0..HELD / BATCH_ROWS).for_each(|at| take(operator.as_mut(), at * BATCH_ROWS..(at + 1) * BATCH_ROWS));
        let (save, state) = seconds(|| operator.save().unwrap());
        let (after_save, ()) = seconds(|| take(operator.as_mut(), 0..1_024));
        let mut new = factory.make(&context).unwrap();
        let (restore, ()) = seconds(|| new.restore(state).unwrap());
        let (after_restore, ()) = seconds(|| take(new.as_mut(), 0..1_024));
        for (least, seconds) in least.iter_mut().zip([save, after_save, restore, after_restore]) {
            *least = least.min(seconds);
        }
    }
    let [save, after_save, restore, after_restore] = least;
    println!(
        "{what:<44} save {:>7.1} ({:>7.2} ms)  restore {:>7.1} ({:>7.2} ms)",
        save / HELD as f64 * 1e9,
        after_save * 1e3,
        restore / HELD as f64 * 1e9,
        after_restore * 1e3,
    );
}
