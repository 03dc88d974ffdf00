//! The sampler with the window behind it, by Arrow batches. What these can't catch: statistics, which `aion/tests.rs` has.

use arrow::array::{Float64Array, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion_expr::AggregateUDF;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, IsNotNullExpr, case, cast, lit};

use super::super::stratum::Stratum;
use super::super::{Estimator, Shows};
use super::*;
use crate::drive::{Step, drive};
use crate::state::tests::carried;
use crate::{
    AggregateCall, Chain, InstanceContext, JoinKind, LookupJoinSpec, LookupRows, LookupTable,
    WindowAggregate, WindowAggregateSpec, WindowInput,
};

const WINDOW_MS: i64 = 1_000;
const CONTEXT: InstanceContext = InstanceContext { instance: 0, parallelism: 1, batch_rows: 100 };
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
        beside: None,
        values: vec![Arc::new(Column::new("value", 2))],
        required: None,
        distinct: vec![],
        aggregates: vec![Aggregate::Sum(0), Aggregate::Rows],
        asked: PROMISE,
        promise: PROMISE,
        rule: Rule::Aion,
        only_behind: false,
        puts_aside: false,
        verifies: false,
        seed: 1,
        processing_origin_ms: 0,
    }
}

/// SUM(value), its error and COUNT(*), by key; then percentiles and distinct counts that the spec has.
fn chain(spec: &SamplerSpec) -> Chain {
    let schema = spec.output_schema();
    let sample = Arc::new(Column::new(SAMPLE_COLUMN, 3));
    let call = |aggregate, shows, data_type| {
        let of_sample = true;
        let estimator =
            Estimator { aggregate, is_sample: false, shows, of_sample, promise: PROMISE, data_type };
        let function: Arc<AggregateUDF> = estimator.function();
        let expr = AggregateExprBuilder::new(function, vec![sample.clone()])
            .schema(schema.clone())
            .alias("result")
            .build()
            .unwrap();
        AggregateCall { expr: Arc::new(expr), filter: None }
    };
    let mut more = Vec::new();
    for &aggregate in &spec.aggregates {
        let data_type = match aggregate {
            Aggregate::Percentile { .. } => DataType::Float64,
            Aggregate::Distinct(_) => DataType::UInt64,
            _ => continue,
        };
        more.push(call(aggregate, Shows::Value, data_type));
        more.push(call(aggregate, Shows::Error, DataType::Float64));
    }
    let window = WindowAggregateSpec {
        name: "WindowAggregate".into(),
        input_schema: schema.clone(),
        windows: WindowInput::Assign { time_column: 0, window: spec.window, processing_time: false },
        keys: vec![1],
        aggregates: vec![
            call(Aggregate::Sum(0), Shows::Value, DataType::Float64),
            call(Aggregate::Sum(0), Shows::Error, DataType::Float64),
            call(Aggregate::Rows, Shows::Value, DataType::Int64),
            call(Aggregate::Rows, Shows::Taken, DataType::Int64),
        ]
        .into_iter()
        .chain(more)
        .collect(),
        allowed_lateness_ms: 0,
    };
    Chain::new(vec![
        spec.clone().factory().make(&CONTEXT).unwrap(),
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
    let (mut sampled, mut owned) = (0, 0);
    for row in answer.rows() {
        let cells: Vec<&str> = row.split('|').collect();
        let (key, end): (i64, i64) = (cells[0].parse().unwrap(), cells[6].parse().unwrap());
        let [sum, error]: [f64; 2] = [cells[1], cells[2]].map(|cell| cell.parse().unwrap());
        let [count, taken]: [i64; 2] = [cells[3], cells[4]].map(|cell| cell.parse().unwrap());
        let of_window = rows.iter().filter(|row| row.2 == key && (end - WINDOW_MS..end).contains(&row.1));
        let exact: f64 = of_window.map(|row| row.3).sum();
        assert!((sum / exact - 1.0).abs() < 0.08, "{row}: {exact}");
        assert!(error <= 0.06 && (count - 500).abs() < 25, "{row}");
        owned += usize::from(error > 0.05);
        sampled += usize::from(taken < 250);
    }
    assert!(sampled > 60, "{sampled} of 120 results are of less than half of the rows");
    assert!(owned < 6, "{owned} of 120 own to a larger error");
}

/// The median and the number of distinct values besides.
fn ranked() -> SamplerSpec {
    SamplerSpec {
        distinct: vec![Arc::new(Column::new("value", 2))],
        aggregates: vec![
            Aggregate::Percentile { value: 0, share: 0.5 },
            Aggregate::Distinct(0),
            Aggregate::Sum(0),
        ],
        ..sampler()
    }
}

#[test]
fn percentiles_are_of_a_sample_and_distinct_counts_of_all() {
    let rows = rows(60);
    for hop in [false, true] {
        let window = WindowKind::Hop { size_ms: 2 * WINDOW_MS, slide_ms: WINDOW_MS, offset_ms: 0 };
        let spec = if hop { SamplerSpec { window, ..ranked() } } else { ranked() };
        let answer = drive(&mut chain(&spec), steps(&rows, usize::MAX), 0);
        let mut sampled = 0;
        for row in answer.rows() {
            let cells: Vec<&str> = row.split('|').collect();
            // 10 … 16, each as often; the middle is 13, exactly.
            assert!(["12.0", "13.0", "14.0"].contains(&cells[5]), "{row}");
            assert_eq!((cells[7], cells[3] == "0"), ("7", false), "{row}");
            let bound: f64 = cells[8].parse().unwrap();
            assert!(bound <= 0.05, "{row}");
            sampled += usize::from(cells[3] != cells[4]);
        }
        assert!(sampled > 40, "{sampled} of {} results are of a sample", answer.rows().len());
    }
}

#[test]
fn with_every_row_that_is_taken_sent_on_samples_are_sent_once() {
    let mut spec = ranked();
    spec.aggregates.push(Aggregate::Whole);
    let rows = rows(12);
    let whole = drive(&mut chain(&spec), steps(&rows, usize::MAX), 0);
    for row in whole.rows() {
        let cells: Vec<&str> = row.split('|').collect();
        assert_eq!((cells[3], cells[5], cells[7]), (cells[4], "13.0", "7"), "{row}");
    }
}

#[test]
fn results_are_held_against_exact_ones() {
    let spec = SamplerSpec { verifies: true, ..ranked() };
    let mut sampler = Sampler::new(&spec, 100).unwrap();
    drive(&mut sampler, steps(&rows(40), usize::MAX), 0);
    let totals = sampler.approximation().unwrap();
    assert!(totals.checked >= 70 && totals.within == totals.checked, "{totals:?}");
}

#[test]
fn results_do_not_depend_on_how_rows_are_cut() {
    let rows = rows(30);
    for spec in [sampler(), ranked()] {
        let whole = drive(&mut chain(&spec), steps(&rows, usize::MAX), 0);
        let pieces = drive(&mut chain(&spec), steps(&rows, 1), 0);
        assert_eq!(whole.rows(), pieces.rows());
    }
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
    behind.on_overload(true);
    assert!(behind.approximation().unwrap().is_engaged && !behind.approximation().unwrap().has_begun);
    for step in steps(&rows, usize::MAX) {
        behind.on_overload(true);
        drive(&mut behind, vec![step], 0);
    }
    let approximation = behind.approximation().unwrap();
    assert_eq!((approximation.steps, approximation.is_engaged, approximation.has_begun), (1, true, true));
    assert!(approximation.rows_taken * 2 < approximation.rows_seen, "{approximation:?}");
    behind.now += 2 * WINDOW_MS;
    behind.on_overload(false);
    assert!(!behind.approximation().unwrap().is_engaged && !behind.approximation().unwrap().has_begun);
}

#[test]
fn a_row_whose_value_cannot_be_computed_is_put_aside_or_an_error() {
    let column = |name: &str, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
    // 1 / (value - 13) of whole numbers.
    let whole = cast(column("value", 2), &schema(), DataType::Int64).unwrap();
    let off = Arc::new(BinaryExpr::new(whole, datafusion_expr::Operator::Minus, lit(13_i64)));
    let quotient = Arc::new(BinaryExpr::new(lit(1_i64), datafusion_expr::Operator::Divide, off));
    let rows = rows(8);
    for aside in [false, true] {
        let spec = SamplerSpec { values: vec![quotient.clone()], puts_aside: aside, ..sampler() };
        let mut sampler = Sampler::new(&spec, 100).unwrap();
        let mut out = Outbox::default();
        let result = steps(&rows, usize::MAX).into_iter().try_for_each(|step| {
            let mut flow = match step {
                Step::Batch(batch, arrived) => sampler.on_batch(0, batch, arrived, &mut out)?,
                Step::Watermark(ms) => sampler.on_watermark(EventTime(ms), &mut out)?,
            };
            while flow == Flow::More {
                flow = sampler.resume(&mut out)?;
            }
            Ok::<(), OperatorError>(())
        });
        if !aside {
            let error = result.unwrap_err();
            assert!(error.is_of_a_row() && error.to_string().contains("ivide by zero"), "{error}");
            continue;
        }
        result.unwrap();
        let taken = sampler.approximation().unwrap().rows_taken;
        let values = out.dead.iter().map(|dead| dead.rows.column(2).as_primitive::<Float64Type>().value(0));
        assert!(
            values.clone().all(|value| value == 13.0)
                && out.dead.iter().all(|dead| dead.rows.num_rows() == 1)
        );
        // One of seven, of those that are taken.
        let share = values.count() as f64 / taken as f64;
        assert!((share - 1.0 / 7.0).abs() < 0.03, "{share} of {taken}");
    }
}

#[test]
fn a_row_that_is_put_aside_is_not_sent_on() {
    let column = |name: &str, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
    let whole = cast(column("value", 2), &schema(), DataType::Int64).unwrap();
    let off = Arc::new(BinaryExpr::new(whole, datafusion_expr::Operator::Minus, lit(13_i64)));
    let quotient = Arc::new(BinaryExpr::new(lit(1_i64), datafusion_expr::Operator::Divide, off));
    let mut spec = SamplerSpec { values: vec![quotient], puts_aside: true, ..sampler() };
    spec.aggregates.push(Aggregate::Whole);
    let mut sampler = Sampler::new(&spec, 100).unwrap();
    let mut out = Outbox::default();
    for step in steps(&rows(8), usize::MAX) {
        let mut flow = match step {
            Step::Batch(batch, arrived) => sampler.on_batch(0, batch, arrived, &mut out).unwrap(),
            Step::Watermark(ms) => sampler.on_watermark(EventTime(ms), &mut out).unwrap(),
        };
        while flow == Flow::More {
            flow = sampler.resume(&mut out).unwrap();
        }
    }
    let sent = out.emitted.iter().filter_map(|emitted| match emitted {
        laxity_graph::Emitted::Batch { batch, .. } => Some(&batch.rows),
        laxity_graph::Emitted::Watermark(_) => None,
    });
    let values: Vec<f64> =
        sent.flat_map(|rows| rows.column(2).as_primitive::<Float64Type>().values().to_vec()).collect();
    assert!(!values.is_empty() && !out.dead.is_empty());
    assert!(values.iter().all(|value| *value != 13.0));
    assert_eq!((values.len() + out.dead.len()) as u64, sampler.approximation().unwrap().rows_taken);
}

#[test]
fn parts_of_a_sample_merge_into_one() {
    use datafusion_expr::Accumulator;
    let closed = |id: i64, taken: &[f64], total: f64| Closed {
        sub_stream: id,
        group: 0,
        stratum: Stratum { taken: taken.len() as f64, ..Stratum::whole(id, total) },
        shifts: vec![(0.0, 0.0)],
        values: vec![taken.iter().copied().collect()],
        kept: Default::default(),
    };
    let [a, b] = [closed(0, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 12.0), closed(2, &[7.0, 8.0, 9.0, 10.0], 9.0)];
    let sample = |of: &[&Closed]| sample_column::column(of, &Shape::of(&[], 1)).unwrap();
    for shows in [Shows::Value, Shows::Error, Shows::Taken] {
        let estimator = Estimator {
            aggregate: Aggregate::Sum(0),
            is_sample: false,
            shows,
            of_sample: true,
            promise: PROMISE,
            data_type: DataType::Float64,
        };
        let new = || estimator.accumulating();
        let (mut one, mut left, mut right) = (new(), new(), new());
        one.update_batch(&[sample(&[&a, &b])]).unwrap();
        // Rows of one stratum on both sides say the same of it.
        left.update_batch(&[sample(&[&a, &a])]).unwrap();
        right.update_batch(&[sample(&[&b])]).unwrap();
        right.update_batch(&[sample(&[&a])]).unwrap();
        let state = right.state().unwrap()[0].to_array().unwrap();
        left.merge_batch(&[state]).unwrap();
        let number = |value| match value {
            datafusion_common::ScalarValue::Float64(Some(value)) => value,
            other => panic!("{other}"),
        };
        let (one, merged) = (number(one.evaluate().unwrap()), number(left.evaluate().unwrap()));
        assert!((one - merged).abs() < 1e-9, "{one} and {merged}");
        match shows {
            // 12 · 3.5 + 9 · 8.5.
            Shows::Value => assert!((one - 118.5).abs() < 1e-9, "{one}"),
            Shows::Taken => assert_eq!(one, 10.0),
            _ => {}
        }
    }
}

#[test]
fn parts_that_no_sampler_has_seen_add_up() {
    use datafusion_expr::Accumulator;
    let estimator = Estimator {
        aggregate: Aggregate::Sum(0),
        is_sample: false,
        shows: Shows::Value,
        of_sample: false,
        promise: PROMISE,
        data_type: DataType::Float64,
    };
    let values = |values: &[f64]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
    let (mut left, mut right) = (estimator.accumulating(), estimator.accumulating());
    left.update_batch(&[values(&[1.0, 2.0])]).unwrap();
    right.update_batch(&[values(&[3.0])]).unwrap();
    right.update_batch(&[values(&[4.0])]).unwrap();
    let state = right.state().unwrap()[0].to_array().unwrap();
    left.merge_batch(&[state]).unwrap();
    let empty = estimator.accumulating().state().unwrap()[0].to_array().unwrap();
    left.merge_batch(&[empty]).unwrap();
    assert_eq!(left.evaluate().unwrap(), datafusion_common::ScalarValue::Float64(Some(10.0)));
}

/// Rows that a sampler sends on, and rows that it took.
fn sent(spec: &SamplerSpec) -> (usize, u64) {
    let mut sampler = Sampler::new(spec, 100).unwrap();
    let mut sent = 0;
    for step in steps(&rows(20), usize::MAX) {
        let mut out = Outbox::default();
        let mut flow = match step {
            Step::Batch(batch, ingested) => sampler.on_batch(0, batch, ingested, &mut out).unwrap(),
            Step::Watermark(watermark) => sampler.on_watermark(EventTime(watermark), &mut out).unwrap(),
        };
        while flow == Flow::More {
            flow = sampler.resume(&mut out).unwrap();
        }
        for emitted in &out.emitted {
            if let laxity_graph::Emitted::Batch { batch, .. } = emitted {
                sent += batch.num_rows();
            }
        }
    }
    (sent, sampler.approximation().unwrap().rows_taken)
}

#[test]
fn one_row_of_a_group_and_sub_stream_is_sent_unless_each_is_needed() {
    // Two sub-streams of half a second in each of 20 windows, and two groups.
    let (few, _) = sent(&sampler());
    assert_eq!(few, 20 * 2 * 2);
    let whole = SamplerSpec { aggregates: vec![Aggregate::Sum(0), Aggregate::Whole], ..sampler() };
    let (all, taken) = sent(&whole);
    assert_eq!(all as u64, taken);
    // Of 20 000 rows some came after their window had answered.
    assert!(all > 18_000, "{all}");
}

#[test]
fn keys_that_come_and_go_take_no_room_for_ever() {
    let mut sampler = Sampler::new(&sampler(), 100).unwrap();
    let mut bytes = Vec::new();
    let mut groups = Vec::new();
    let mut results = 0;
    // Some 180 new keys in each of 200 windows, each there for three of them, and one that stays.
    for window in 0..200_i64 {
        let row = |place: i64| {
            let time = window * WINDOW_MS + place;
            let key = if place % 10 == 0 { -1 } else { (window - place % 3) * 200 + place % 200 };
            (time + 20, time, key, 1.0)
        };
        let rows: Vec<_> = (0..WINDOW_MS).map(row).collect();
        let steps = rows.chunks(250).map(batch).collect();
        results += drive(&mut sampler, steps, 0).rows().len();
        bytes.push(sampler.state_bytes());
        groups.push(sampler.groups.as_ref().unwrap().len());
    }
    assert!(results > 190 * 500, "{results}");
    // 36 000 keys were there. One is remembered for 60 sub-streams, 30 windows: that is 5 400. It is looked who is there when
    // there are twice as many as were looked at, of whom more than half were there: at most four times as many.
    let most = groups.iter().copied().max().unwrap();
    assert!((5_000..24_000).contains(&most), "{most} groups");
    let (early, late) = (bytes[50..100].iter().max().unwrap(), bytes[150..].iter().max().unwrap());
    assert!(late * 2 < early * 3, "{late} bytes after {early}");
}

#[test]
fn a_group_keeps_its_rows_when_others_are_forgotten() {
    // Key -1 has rows 1 to 4 000 in every window; what it says must not change when numbers do.
    let rows = |keys: i64| -> Vec<Step> {
        let of_window = |window: i64| {
            (0..2_000).map(move |place| {
                let time = window * WINDOW_MS + place / 2;
                let key = if place % 2 == 0 { -1 } else { window * keys + place % keys };
                (time, time, key, place as f64)
            })
        };
        let rows: Vec<_> = (0..120).flat_map(of_window).collect();
        let mut steps: Vec<Step> = rows.chunks(500).map(batch).collect();
        steps.push(Step::Watermark(i64::MAX));
        steps
    };
    // All rows are taken until a window's, so that both have the same.
    let spec = SamplerSpec { rule: Rule::KSlack, ..sampler() };
    let of_one = |keys: i64| {
        let answer = drive(&mut chain(&spec), rows(keys), 0);
        let mut rows: Vec<String> =
            answer.rows().iter().filter(|row| row.starts_with("-1|")).map(ToString::to_string).collect();
        rows.sort();
        rows
    };
    let (few, many) = (of_one(1), of_one(1_000));
    assert_eq!(few.len(), 120);
    assert_eq!(few, many);
}

fn restarted(spec: &SamplerSpec, after: u64) -> OperatorFactory {
    let spec = spec.clone();
    OperatorFactory::new(move |_| Ok(Box::new(chain(&spec)))).restarted(after, carried)
}

#[test]
fn a_restored_sampler_throws_the_same_dice() {
    let rows = rows(16);
    let hop = WindowKind::Hop { size_ms: 2 * WINDOW_MS, slide_ms: WINDOW_MS, offset_ms: 0 };
    let ways = [
        sampler(),
        SamplerSpec { rule: Rule::AqKSlack, ..sampler() },
        SamplerSpec { window: hop, only_behind: true, ..sampler() },
        SamplerSpec { aggregates: vec![Aggregate::Sum(0), Aggregate::Whole], ..sampler() },
        ranked(),
    ];
    let after = [0x2000_0000_0000_8000, 0x8000_0000, 1, 0x1_0000_0000, 0x2000_0000_0000_8000];
    for (spec, after) in ways.iter().zip(after) {
        let alone = drive(&mut chain(spec), steps(&rows, 9), 0);
        let mut restarted = restarted(spec, after).make(&CONTEXT).unwrap();
        let restarted = drive(restarted.as_mut(), steps(&rows, 9), 0);
        let left_out = |row: &String| {
            let cells: Vec<&str> = row.split('|').collect();
            cells[3] != cells[4]
        };
        assert!(alone.rows().iter().any(left_out) || spec.rule != Rule::Aion || spec.only_behind);
        assert_eq!(restarted.rows(), alone.rows());
        assert_eq!(restarted.watermarks(), alone.watermarks());
        assert_eq!(restarted.late, alone.late);
    }
}

#[test]
fn a_sampler_that_verifies_cannot_be_checkpointed() {
    let refused =
        Sampler::new(&SamplerSpec { verifies: true, ..sampler() }, 100).unwrap().save().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Sample cannot be checkpointed: results are held against exact ones; leave that out, or checkpoints"
    );
}

/// A table of what a key is worth, looked up for rows in the sample.
fn worth(of: &[(i64, f64)]) -> Beside {
    let table_schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, true),
        Field::new("worth", DataType::Float64, true),
    ]));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(of.iter().map(|row| row.0)));
    let worth: ArrayRef = Arc::new(Float64Array::from_iter_values(of.iter().map(|row| row.1)));
    let rows = RecordBatch::try_new(table_schema.clone(), vec![keys, worth]).unwrap();
    let table = LookupRows::new(&table_schema, &[0], &[rows]).unwrap();
    assert_eq!(table.repeated(), None);
    let table = Arc::new(LookupTable::new(table, 1));
    let spec = LookupJoinSpec {
        row_errors: laxity_graph::RowErrors::Fail,
        name: "LookupJoin".into(),
        kind: JoinKind::Left,
        stream_schema: schema(),
        stream_keys: vec![1],
        table_schema,
        table_keys: vec![0],
        condition: None,
    };
    let schema = spec.output_schema();
    // Less than what comes at once.
    let lookup = OperatorFactory::new(move |_| spec.operator(Arc::clone(&table), 1));
    Beside { lookup, columns: 3, schema }
}

#[test]
fn rows_left_out_below_a_lookup_are_those_left_out_behind_it() {
    let rows = rows(60);
    let column = |name: &str, place| Arc::new(Column::new(name, place)) as Arc<dyn PhysicalExpr>;
    let product = |a, b| Arc::new(BinaryExpr::new(a, datafusion_expr::Operator::Multiply, b)) as _;
    let worth_of: Arc<dyn PhysicalExpr> = product(column("value", 2), column("worth", 4));
    let below = SamplerSpec {
        beside: Some(worth(&[(0, 10.0), (1, 15.0)])),
        values: vec![worth_of.clone()],
        ..sampler()
    };
    let times_five = product(cast(column("key", 1), &schema(), DataType::Float64).unwrap(), lit(5.0));
    let sum = Arc::new(BinaryExpr::new(times_five, datafusion_expr::Operator::Plus, lit(10.0)));
    let behind = SamplerSpec { values: vec![product(column("value", 2), sum)], ..sampler() };
    let run = |spec: &SamplerSpec| drive(&mut chain(spec), steps(&rows, usize::MAX), 0).rows();
    let expected = run(&behind);
    assert_eq!(run(&below), expected);
    assert_eq!(run(&SamplerSpec { verifies: true, ..below.clone() }), expected);
    assert_eq!(expected.len(), 120);

    // Of an inner join with a table without key 1: the first column of the table is not NULL where there is a partner.
    let is_there: Arc<dyn PhysicalExpr> = Arc::new(IsNotNullExpr::new(column("key", 3)));
    let if_there = |value| case(None, vec![(is_there.clone(), value)], None).unwrap();
    let inner = SamplerSpec {
        beside: Some(worth(&[(0, 10.0), (7, 1.0)])),
        values: vec![if_there(worth_of), if_there(lit(1_i64))],
        required: Some(1),
        aggregates: vec![Aggregate::Sum(0), Aggregate::Count(1)],
        ..sampler()
    };
    // Other dice, and no group without a partner.
    let results = run(&inner);
    assert_eq!(results.len(), 60);
    for (row, expected) in results.iter().zip(expected.iter().filter(|row| row.starts_with("0|"))) {
        let sum = |row: &str| row.split('|').nth(1).unwrap().parse::<f64>().unwrap();
        assert!(row.starts_with("0|"), "{row}");
        assert!((sum(row) / sum(expected) - 1.0).abs() < 0.12, "{row} {expected}");
    }
}

#[test]
fn rows_of_the_sample_keep_their_order_beside_what_is_looked_up() {
    let mut looked = worth(&[(0, 10.0)]).make(&CONTEXT).unwrap();
    let Step::Batch(batch, _) = batch(&rows(1)[..4]) else { unreachable!() };
    let taken = take_record_batch(&batch.rows, &UInt32Array::from(vec![3, 1])).unwrap();
    let joined = looked.of(&taken).unwrap();
    assert_eq!((joined.num_rows(), joined.num_columns()), (2, 5));
    assert_eq!(joined.project(&[0, 1, 2]).unwrap().columns(), taken.columns());
}
