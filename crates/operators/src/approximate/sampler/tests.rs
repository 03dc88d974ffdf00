//! The sampler with the window behind it, by Arrow batches. What these can't catch: statistics, which `aion/tests.rs` has.

use arrow::array::{Float64Array, TimestampMillisecondArray};
use arrow::datatypes::TimeUnit;
use datafusion_expr::AggregateUDF;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{Column, lit};

use super::super::{Estimator, Shows};
use super::*;
use crate::drive::{Step, drive};
use crate::{AggregateCall, Chain, WindowAggregate, WindowAggregateSpec, WindowInput};

const WINDOW_MS: i64 = 1_000;
const PROMISE: Promise = Promise { error: 0.05, confidence: 0.95 };

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("key", DataType::Int64, true),
        Field::new("value", DataType::Float64, true),
    ]))
}

fn sampler() -> SamplerSpec {
    SamplerSpec {
        name: "Sample".into(),
        input_schema: schema(),
        time_column: 0,
        window: WindowKind::Tumble { size_ms: WINDOW_MS, offset_ms: 0 },
        keys: vec![1],
        values: vec![Arc::new(Column::new("value", 2))],
        aggregates: vec![Aggregate::Sum(0), Aggregate::Rows],
        asked: PROMISE,
        promise: PROMISE,
        rule: Rule::Aion,
        only_behind: false,
        verifies: false,
        seed: 1,
        processing_origin_ms: 0,
    }
}

/// SUM(value), its error and COUNT(*), by key.
fn chain(spec: &SamplerSpec) -> Chain {
    let schema = spec.output_schema();
    let sample = Arc::new(Column::new(SAMPLE_COLUMN, 3));
    let call = |aggregate, shows, data_type, argument: Arc<dyn PhysicalExpr>| {
        let estimator = Estimator { aggregate, is_sample: false, shows, promise: PROMISE, data_type };
        let function: Arc<AggregateUDF> = estimator.function();
        let expr = AggregateExprBuilder::new(function, vec![argument, sample.clone()])
            .schema(schema.clone())
            .alias("result")
            .build()
            .unwrap();
        AggregateCall { expr: Arc::new(expr), filter: None }
    };
    let value = || Arc::new(Column::new("value", 2)) as Arc<dyn PhysicalExpr>;
    let window = WindowAggregateSpec {
        name: "WindowAggregate".into(),
        input_schema: schema.clone(),
        windows: WindowInput::Assign { time_column: 0, window: spec.window, processing_time: false },
        keys: vec![1],
        aggregates: vec![
            call(Aggregate::Sum(0), Shows::Value, DataType::Float64, value()),
            call(Aggregate::Sum(0), Shows::Error, DataType::Float64, value()),
            call(Aggregate::Rows, Shows::Value, DataType::Int64, lit(1i64)),
            call(Aggregate::Rows, Shows::Taken, DataType::Int64, lit(1i64)),
        ],
        allowed_lateness_ms: 0,
    };
    Chain::new(vec![
        Box::new(Sampler::new(spec, 100).unwrap()),
        Box::new(WindowAggregate::new(&window, 100).unwrap()),
    ])
}

/// Rows of `windows` windows, one a millisecond, of which each tenth arrives 150 ms late and the others after 50 ms; by arrival.
fn rows(windows: i64) -> Vec<(i64, i64, i64, f64)> {
    let row = |time: i64| {
        let delay = if time % 10 == 3 { 150 } else { 50 };
        (time + delay, time, time % 2, 10.0 + (time % 7) as f64)
    };
    let mut rows: Vec<_> = (0..windows * WINDOW_MS).map(row).collect();
    rows.sort_unstable_by_key(|row| (row.0, row.1));
    rows
}

fn batch(rows: &[(i64, i64, i64, f64)]) -> Step {
    let batch = RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.1))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.3))),
        ],
    );
    let arrived = ProcessingTime(rows[0].0 as u64 * 1_000_000);
    Step::Batch(StreamBatch::on_time(batch.unwrap()), arrived)
}

/// One batch per millisecond of arrival, each in pieces of so many rows.
fn steps(rows: &[(i64, i64, i64, f64)], pieces_of: usize) -> Vec<Step> {
    let at_once = rows.chunk_by(|a, b| a.0 == b.0);
    let mut steps: Vec<Step> = at_once.flat_map(|rows| rows.chunks(pieces_of)).map(batch).collect();
    steps.push(Step::Watermark(i64::MAX));
    steps
}

#[test]
fn results_are_within_the_bound_and_of_fewer_rows() {
    let rows = rows(60);
    let answer = drive(&mut chain(&sampler()), steps(&rows, usize::MAX), 0);
    assert_eq!(answer.rows().len(), 120);
    let mut sampled = 0;
    for row in answer.rows() {
        let cells: Vec<&str> = row.split('|').collect();
        let (key, end): (i64, i64) = (cells[0].parse().unwrap(), cells[6].parse().unwrap());
        let [sum, error]: [f64; 2] = [cells[1], cells[2]].map(|cell| cell.parse().unwrap());
        let [count, taken]: [i64; 2] = [cells[3], cells[4]].map(|cell| cell.parse().unwrap());
        let of_window = rows.iter().filter(|row| row.2 == key && (end - WINDOW_MS..end).contains(&row.1));
        let exact: f64 = of_window.map(|row| row.3).sum();
        assert!((sum / exact - 1.0).abs() < 0.08, "{row}: {exact}");
        assert!(error <= 0.05 && (count - 500).abs() < 25, "{row}");
        sampled += usize::from(taken < 250);
    }
    assert!(sampled > 60, "{sampled} of 120 results are of less than half of the rows");
}

#[test]
fn results_do_not_depend_on_how_rows_are_cut() {
    let rows = rows(30);
    let whole = drive(&mut chain(&sampler()), steps(&rows, usize::MAX), 0);
    let pieces = drive(&mut chain(&sampler()), steps(&rows, 1), 0);
    assert_eq!(whole.rows(), pieces.rows());
}

#[test]
fn a_window_answers_by_the_clock_and_late_rows_are_counted() {
    let rows = rows(31);
    let mut sampler = Sampler::new(&sampler(), 100).unwrap();
    // Up to the last arrival before the 30th second ends.
    let (before, after): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.0 < 29_990);
    drive(&mut sampler, steps(&before, usize::MAX).drain(..).rev().skip(1).rev().collect(), 0);
    let wake = sampler.wake_at().unwrap();
    assert_eq!(wake, ProcessingTime(30_000 * 1_000_000 + 1));
    let mut out = Outbox::default();
    let mut flow = sampler.on_time(wake, &mut out).unwrap();
    while flow == Flow::More {
        flow = sampler.resume(&mut out).unwrap();
    }
    let last = out.emitted.last();
    assert!(matches!(last, Some(laxity_graph::Emitted::Watermark(EventTime(29_999)))), "{last:?}");
    let known = sampler.approximation().unwrap().rows_late;
    let late = drive(&mut sampler, steps(&after, usize::MAX).drain(..).rev().skip(1).rev().collect(), 0).late;
    // The window after it answers by an arrival, and has late rows too.
    let of = |window_end: i64| late.iter().filter(|(_, end)| *end == window_end).count();
    assert!(of(30_000) > 50 && of(30_000) + of(31_000) == late.len(), "{} of {}", of(30_000), late.len());
    assert_eq!(sampler.approximation().unwrap().rows_late - known, late.len() as u64);
}

#[test]
fn only_behind_leaves_nothing_out_until_it_is() {
    let spec = SamplerSpec { only_behind: true, ..sampler() };
    let rows = rows(40);
    let exact = drive(&mut chain(&spec), steps(&rows, usize::MAX), 0);
    assert!(exact.rows().iter().all(|row| row.split('|').nth(4) == Some("500")), "{:?}", exact.rows());
    let mut behind = Sampler::new(&spec, 100).unwrap();
    for step in steps(&rows, usize::MAX) {
        behind.on_lag(60, 100);
        drive(&mut behind, vec![step], 0);
    }
    let approximation = behind.approximation().unwrap();
    assert_eq!((approximation.steps, approximation.is_engaged), (1, true));
    assert!(approximation.rows_taken * 2 < approximation.rows_seen, "{approximation:?}");
    behind.now += 2 * WINDOW_MS;
    behind.on_lag(0, 100);
    assert!(!behind.approximation().unwrap().is_engaged);
}

#[test]
fn parts_of_a_sample_merge_into_one() {
    use datafusion_expr::Accumulator;
    // Of the same strata, one row here and the next there.
    let strata =
        [Stratum { taken: 6.0, ..Stratum::whole(1, 12.0) }, Stratum { taken: 4.0, ..Stratum::whole(2, 9.0) }];
    let sample = |of: &[usize]| {
        let number = |number: &dyn Fn(&Stratum) -> f64| {
            Arc::new(Float64Array::from_iter_values(of.iter().map(|&at| number(&strata[at])))) as ArrayRef
        };
        let columns = vec![
            Arc::new(Int64Array::from_iter_values(of.iter().map(|&at| strata[at].id))) as ArrayRef,
            number(&|s| s.taken),
            number(&|s| s.seen),
            number(&|s| s.total),
            number(&|s| s.total_variance),
            number(&|s| s.total_common),
            number(&|s| s.shift.0),
            number(&|s| s.shift.1),
        ];
        Arc::new(StructArray::try_new(sample_fields(1), columns, None).unwrap()) as ArrayRef
    };
    let values = |values: &[f64]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
    for shows in [Shows::Value, Shows::Error] {
        let estimator = Estimator {
            aggregate: Aggregate::Sum(0),
            is_sample: false,
            shows,
            promise: PROMISE,
            data_type: DataType::Float64,
        };
        let new = || estimator.accumulating();
        let (mut one, mut left, mut right) = (new(), new(), new());
        one.update_batch(&[
            values(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
            sample(&[0, 0, 0, 0, 0, 0, 1, 1]),
        ])
        .unwrap();
        one.update_batch(&[values(&[9.0, 10.0]), sample(&[1, 1])]).unwrap();
        left.update_batch(&[values(&[1.0, 3.0, 5.0, 7.0, 9.0]), sample(&[0, 0, 0, 1, 1])]).unwrap();
        right.update_batch(&[values(&[2.0, 4.0, 6.0, 8.0, 10.0]), sample(&[0, 0, 0, 1, 1])]).unwrap();
        let state = right.state().unwrap()[0].to_array().unwrap();
        left.merge_batch(&[state]).unwrap();
        let number = |value| match value {
            datafusion_common::ScalarValue::Float64(Some(value)) => value,
            other => panic!("{other}"),
        };
        let (one, merged) = (number(one.evaluate().unwrap()), number(left.evaluate().unwrap()));
        assert!((one - merged).abs() < 1e-9, "{one} and {merged}");
        if shows == Shows::Value {
            // 12 · 3.5 + 9 · 8.5.
            assert!((one - 118.5).abs() < 1e-9, "{one}");
        }
    }
}
