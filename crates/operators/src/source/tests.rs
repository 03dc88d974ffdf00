//! Tables' columns and watermarks from rows written by hand: clocks that are wrong, rows without time, extreme times
//! and topics in parts. Cannot catch: what a connector gives for a part.

use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::{Field, IntervalMonthDayNano, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::expressions::{binary, cast, col, lit};
use proptest::prelude::*;

use super::*;
use crate::DeadReason;
use crate::drive::{Answer, Sent, Step, drive};

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, None)
}

fn physical(times: &[Option<i64>]) -> RecordBatch {
    let schema =
        Schema::new(vec![Field::new("t", timestamp(), true), Field::new("v", DataType::Int64, false)]);
    let times: TimestampMillisecondArray = times.iter().copied().collect();
    let values = Int64Array::from_iter_values(0..times.len() as i64);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(times), Arc::new(values)]).unwrap()
}

/// Columns v, t, twice v; watermark t - delay.
fn spec(delay: ScalarValue, max_ahead_ms: Option<i64>) -> SourceSpec {
    let scanned = physical(&[]).schema();
    let output_schema = Arc::new(Schema::new(vec![
        Field::new("v", DataType::Int64, false),
        Field::new("t", timestamp(), true),
        Field::new("twice", DataType::Int64, false),
    ]));
    let twice = binary(col("v", &scanned).unwrap(), BinaryOperator::Multiply, lit(2i64), &scanned).unwrap();
    let time = col("t", &output_schema).unwrap();
    let expression = binary(time, BinaryOperator::Minus, lit(delay), &output_schema).unwrap();
    SourceSpec {
        name: "Source".into(),
        columns: vec![SourceColumn::Physical(1), SourceColumn::Physical(0), SourceColumn::Computed(twice)],
        output_schema,
        watermark: Some(WatermarkSpec { time_column: 1, expression, max_ahead_ms, split_column: None }),
        processing_origin_ms: 0,
    }
}

fn delay_ms(ms: i64) -> ScalarValue {
    ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, ms * 1_000_000)))
}

fn run(spec: &SourceSpec, batches: &[&[Option<i64>]]) -> Answer {
    let mut operator = SourceOperator::new(spec).unwrap();
    let batches =
        batches.iter().map(|times| Step::Batch(StreamBatch::on_time(physical(times)), ProcessingTime::ZERO));
    drive(&mut operator, batches.chain([Step::Watermark(i64::MAX)]).collect(), 0)
}

/// The watermark before each row of one batch.
fn before(spec: &SourceSpec, times: &[Option<i64>]) -> Option<Vec<i64>> {
    let mut out = Outbox::default();
    let batch = StreamBatch::on_time(physical(times));
    let _ = SourceOperator::new(spec).unwrap().on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
    match out.emitted.into_iter().next() {
        Some(crate::Emitted::Batch { batch, .. }) => batch.watermark_before.map(|w| w.to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn columns_are_filled_and_the_watermark_follows_the_batch() {
    let answer = run(&spec(delay_ms(2), None), &[&[Some(5), Some(9)], &[Some(8)], &[Some(10)]]);
    let rows = |rows: &[&str]| Sent::Batch {
        rows: rows.iter().map(|r| r.to_string()).collect(),
        ingested: None,
        window_end: None,
    };
    assert_eq!(
        answer.emitted,
        [
            rows(&["0|5|0", "1|9|2"]),
            Sent::Watermark(7),
            rows(&["0|8|0"]),
            rows(&["0|10|0"]),
            Sent::Watermark(8),
            Sent::Watermark(i64::MAX),
        ]
    );
}

#[test]
fn the_watermark_before_a_row_rises_inside_the_batch() {
    let times = [Some(5), Some(9), Some(6), Some(30), Some(28)];
    assert_eq!(before(&spec(delay_ms(2), None), &times), Some(vec![i64::MIN, 3, 7, 7, 28]));
    // Nothing is behind: nothing to carry.
    assert_eq!(before(&spec(delay_ms(100), None), &times), None);
    assert_eq!(before(&spec(delay_ms(5), None), &times[..3]), None);
    // 6 is just ahead of 5: it touches a session that ends at 6, which the watermark has closed.
    assert_eq!(before(&spec(delay_ms(4), None), &times[..3]), Some(vec![i64::MIN, 1, 5]));
}

#[test]
fn rows_without_time_are_dead() {
    let answer = run(&spec(delay_ms(0), None), &[&[Some(1), None, Some(3)], &[None]]);
    assert_eq!(answer.rows(), ["0|1|0", "2|3|4"]);
    assert_eq!(answer.dead, [("1|-|2".into(), DeadReason::NullTime), ("0|-|0".into(), DeadReason::NullTime)]);
    assert_eq!(answer.watermarks(), [3, i64::MAX]);
}

#[test]
fn one_bad_clock_does_not_move_the_watermark() {
    let far = 4_102_444_800_000; // The year 2100.
    let answer = run(
        &spec(delay_ms(0), Some(1_000)),
        &[&[Some(1), Some(far), Some(900), Some(1_901)], &[Some(2_900)]],
    );
    // 1 901 is 1 001 ahead of 900, and 2 900 further still: the bound must exceed every true silence.
    assert_eq!(answer.rows(), ["0|1|0", "2|900|4"]);
    assert_eq!(answer.dead.len(), 3);
    assert!(answer.dead.iter().all(|(_, reason)| *reason == DeadReason::TooFarAhead));
    assert_eq!(answer.watermarks(), [900, i64::MAX]);
}

#[test]
fn after_a_long_silence_time_moves_on() {
    let later: Vec<_> = (0..1_002).map(|i| Some(1_000_000 + i)).collect();
    for batches in [vec![later.as_slice()], later.chunks(7).collect()] {
        let batches = [[[Some(1)].as_slice()].as_slice(), &batches].concat();
        let answer = run(&spec(delay_ms(0), Some(1_000)), &batches);
        assert_eq!((answer.rows().len(), answer.dead.len()), (3, 1_000));
        assert!(answer.watermarks().ends_with(&[1_001_001, i64::MAX]));
    }
}

#[test]
fn null_watermarks_and_other_expressions_are_evaluated() {
    // CAST(NULL AS TIMESTAMP(3)) never moves it.
    let mut nothing = spec(delay_ms(0), None);
    let null = lit(ScalarValue::TimestampMillisecond(None, None));
    nothing.watermark.as_mut().unwrap().expression = null;
    assert_eq!(run(&nothing, &[&[Some(5)]]).watermarks(), [i64::MAX]);

    // A month is not a fixed delay: 31 March minus a month is the end of February.
    let month = ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(1, 0, 0)));
    let day_ms = 24 * 60 * 60 * 1_000;
    let march_31 = 89 * day_ms;
    assert_eq!(run(&spec(month, None), &[&[Some(march_31)]]).watermarks(), [58 * day_ms, i64::MAX]);
}

#[test]
fn extreme_times_never_look_like_the_end() {
    let answer = run(&spec(delay_ms(5), None), &[&[Some(i64::MIN), Some(i64::MAX)]]);
    assert_eq!(answer.watermarks(), [i64::MAX - 5, i64::MAX]);
    assert_eq!(run(&spec(delay_ms(0), None), &[&[Some(i64::MAX)]]).watermarks(), [i64::MAX - 1, i64::MAX]);
}

#[test]
fn processing_time_is_that_of_ingestion() {
    let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let spec = SourceSpec {
        name: "Source".into(),
        columns: vec![SourceColumn::Physical(1), SourceColumn::ProcessingTime],
        output_schema: Arc::new(Schema::new(vec![
            Field::new("v", DataType::Int64, false),
            Field::new("p", zoned, false),
        ])),
        watermark: None,
        processing_origin_ms: 1_700_000_000_000,
    };
    let mut operator = SourceOperator::new(&spec).unwrap();
    let batch = StreamBatch::on_time(physical(&[Some(5), Some(9)]));
    // 2.5 ms after the start.
    let answer = drive(&mut operator, vec![Step::Batch(batch, ProcessingTime(2_500_000))], 0);
    assert_eq!(answer.rows(), ["0|1700000000002", "1|1700000000002"]);
}

#[test]
fn a_failing_computed_column_names_its_source() {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
    let rows =
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(StringArray::from(vec!["x1"]))]).unwrap();
    let number = cast(col("s", &schema).unwrap(), &schema, DataType::Int64).unwrap();
    let spec = SourceSpec {
        name: "Source(t)".into(),
        columns: vec![SourceColumn::Computed(number)],
        output_schema: Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)])),
        watermark: None,
        processing_origin_ms: 0,
    };
    let mut operator = SourceOperator::new(&spec).unwrap();
    let result =
        operator.on_batch(0, StreamBatch::on_time(rows), ProcessingTime::ZERO, &mut Outbox::default());
    let message = result.unwrap_err().to_string();
    let told = "Source(t): Cast error: Cannot cast string 'x1' to value of Int64 type in CAST(s AS Int64); the row has s = x1";
    assert_eq!(message, told);
}

proptest! {
    #[test]
    fn watermarks_are_those_of_a_row_at_a_time(
        times in proptest::collection::vec(proptest::option::weighted(0.9, -50i64..50), 1..60),
        delay in 0i64..20, ahead in proptest::option::of(0i64..40),
        lengths in proptest::collection::vec(1usize..20, 1..4), by_expression: bool,
    ) {
        let mut spec = spec(delay_ms(delay), ahead);
        if by_expression {
            // t - 0 - delay is not recognised as a constant delay.
            let (schema, time) = (&spec.output_schema, col("t", &spec.output_schema).unwrap());
            let time = binary(time, BinaryOperator::Minus, lit(delay_ms(0)), schema).unwrap();
            let expression = binary(time, BinaryOperator::Minus, lit(delay_ms(delay)), schema).unwrap();
            spec.watermark.as_mut().unwrap().expression = expression;
        }
        let (mut expected, mut dead, mut highest, mut watermark) = (Vec::new(), 0, None::<i64>, i64::MIN);
        for time in &times {
            let believed = |time: i64| highest.is_none_or(|h| ahead.is_none_or(|ahead| time <= h + ahead));
            match *time {
                Some(time) if believed(time) => {
                    expected.push((time, watermark));
                    highest = highest.max(Some(time));
                    watermark = watermark.max(time - delay);
                }
                _ => dead += 1,
            }
        }
        let mut operator = SourceOperator::new(&spec).unwrap();
        let (mut found, mut found_dead, mut sent) = (Vec::new(), 0, i64::MIN);
        let mut rest = times.as_slice();
        for length in lengths.iter().cycle() {
            let (piece, left) = rest.split_at((*length).min(rest.len()));
            rest = left;
            let mut out = Outbox::default();
            let batch = StreamBatch::on_time(physical(piece));
            let _ = operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
            found_dead += out.dead.iter().map(|d| d.rows.num_rows()).sum::<usize>();
            for emitted in out.emitted {
                match emitted {
                    crate::Emitted::Watermark(w) => sent = w.0,
                    crate::Emitted::Batch { batch, .. } => {
                        let times = crate::row_times::timestamps(batch.rows.column(1)).unwrap();
                        for (i, &time) in times.iter().enumerate() {
                            // Without one, every row is ahead of whatever the watermark was.
                            let before = batch.watermark_before.as_ref().map(|w| w[i]);
                            found.push((time, before));
                        }
                    }
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(found.len(), expected.len());
        for ((time, before), (expected_time, expected_before)) in found.into_iter().zip(expected) {
            prop_assert_eq!(time, expected_time);
            match before {
                Some(before) => prop_assert_eq!(before, expected_before),
                None => prop_assert!(time > expected_before),
            }
        }
        prop_assert_eq!(found_dead, dead);
        prop_assert_eq!(sent, watermark);
    }
}

/// The rows of `physical` with a column of parts; `awaited` goes with the first row of a batch.
fn with_parts(times: &[i64], parts: &[i32], awaited: &[i32]) -> RecordBatch {
    use arrow::array::{Int32Builder, ListBuilder};
    let times: Vec<Option<i64>> = times.iter().copied().map(Some).collect();
    let rows = physical(&times);
    let item = Field::new_list_field(DataType::Int32, false);
    let mut lists = ListBuilder::new(Int32Builder::new()).with_field(item);
    for (row, part) in parts.iter().enumerate() {
        lists.values().append_value(*part);
        if row == 0 {
            lists.values().append_slice(awaited);
        }
        lists.append(true);
    }
    let mut fields: Vec<Field> = rows.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new("$split", DataType::new_list(DataType::Int32, false), false));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(lists.finish()));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn spec_of_parts(delay: ScalarValue) -> SourceSpec {
    let mut spec = spec(delay, None);
    let mut fields: Vec<Field> = spec.output_schema.fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.push(Field::new("$split", DataType::new_list(DataType::Int32, false), false));
    spec.output_schema = Arc::new(Schema::new(fields));
    spec.columns.push(SourceColumn::Physical(2));
    spec.watermark.as_mut().unwrap().split_column = Some(3);
    spec
}

fn run_parts(spec: &SourceSpec, batches: Vec<RecordBatch>) -> Vec<i64> {
    let mut operator = SourceOperator::new(spec).unwrap();
    let batches =
        batches.into_iter().map(|rows| Step::Batch(StreamBatch::on_time(rows), ProcessingTime::ZERO));
    drive(&mut operator, batches.collect(), 0).watermarks()
}

#[test]
fn the_watermark_is_the_least_of_the_parts_that_are_waited_for() {
    let spec = spec_of_parts(delay_ms(1));
    // Part 1 has given nothing: it holds part 0 back until it has, or is idle.
    let first = with_parts(&[100, 200], &[0, 0], &[0, 1]);
    let returns = with_parts(&[50, 300], &[1, 0], &[0, 1]);
    assert_eq!(run_parts(&spec, vec![first.clone(), returns.clone()]), [49]);
    let alone = with_parts(&[210], &[0], &[0]);
    // It returns behind the watermark, which stays, and is waited for again.
    assert_eq!(run_parts(&spec, vec![first.clone(), alone, returns]), [209]);
    let third = with_parts(&[150], &[1], &[0, 1, 2]);
    assert_eq!(run_parts(&spec, vec![first, third]), [0_i64; 0]);
}

proptest! {
    #[test]
    fn parts_have_watermarks_of_their_own(
        rows in proptest::collection::vec((-50i64..50, 0..4_i32), 1..60), delay in 0i64..5,
        idle in proptest::collection::vec(0..16_u8, 60), lengths in proptest::collection::vec(1usize..9, 1..4),
    ) {
        let spec = spec_of_parts(delay_ms(delay));
        let mut operator = SourceOperator::new(&spec).unwrap();
        let mut parts = [i64::MIN; 4];
        let (mut watermark, mut before, mut found) = (i64::MIN, Vec::new(), Vec::new());
        let (mut rest, mut lengths) = (rows.as_slice(), lengths.iter().cycle());
        while !rest.is_empty() {
            let (piece, left) = rest.split_at((*lengths.next().unwrap()).min(rest.len()));
            let active = |part: &i32| {
                idle[rest.len() % 60] & (1 << part) == 0 || piece.iter().any(|(_, of)| of == part)
            };
            let awaited: Vec<i32> = (0..4).filter(active).collect();
            // One row at a time: the least of those waited for, and it never falls.
            let least = |parts: &[i64; 4]| awaited.iter().map(|part| parts[*part as usize]).min().unwrap();
            watermark = watermark.max(least(&parts));
            for (time, part) in piece {
                before.push((*time, watermark));
                let own = &mut parts[*part as usize];
                *own = (*own).max(time - delay);
                watermark = watermark.max(least(&parts));
            }
            let (times, of): (Vec<i64>, Vec<i32>) = piece.iter().copied().unzip();
            let mut out = Outbox::default();
            let batch = StreamBatch::on_time(with_parts(&times, &of, &awaited));
            let _ = operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
            for emitted in out.emitted {
                if let crate::Emitted::Batch { batch, .. } = emitted {
                    let given = batch.watermark_before.map(|w| w.to_vec());
                    found.extend(times.iter().enumerate().map(|(i, time)| (*time, given.as_ref().map(|w| w[i]))));
                }
            }
            prop_assert_eq!(operator.watermark().0, watermark);
            rest = left;
        }
        for ((time, expected), (_, found)) in before.iter().zip(&found) {
            match found {
                Some(found) => prop_assert_eq!(found, expected),
                None => prop_assert!(*expected < time - 1),
            }
        }
        prop_assert_eq!(before.len(), found.len());
    }
}
