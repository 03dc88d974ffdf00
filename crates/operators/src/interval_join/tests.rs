//! Hand-checked pairs, and random sources against nested loops over all rows, cut and interleaved at random.
//! Results are compared as sorted lists of rows; order between rows is not promised.

use super::*;
use crate::{Emitted, InstanceContext};
use arrow::array::{ArrayRef, AsArray, Int64Array, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion_expr::Operator as Op;
use datafusion_physical_expr::expressions::{binary, col};
use proptest::prelude::*;

/// A row of either side with the watermark before it, whether it is behind it or not.
#[derive(Clone, Debug)]
struct Row {
    key: Option<i64>,
    time: i64,
    value: i64,
    before: i64,
}

fn row(key: impl Into<Option<i64>>, time: i64, value: i64) -> Row {
    Row { key: key.into(), time, value, before: i64::MIN }
}

fn behind(before: i64, row: Row) -> Row {
    Row { before, ..row }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("v", DataType::Int64, false),
    ]))
}

fn batch(rows: &[Row]) -> StreamBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.key).collect::<Int64Array>()),
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.time))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.value))),
    ];
    let is_behind = rows.iter().any(|r| r.time <= r.before);
    StreamBatch {
        rows: RecordBatch::try_new(schema(), columns).unwrap(),
        watermark_before: is_behind.then(|| rows.iter().map(|r| r.before).collect()),
    }
}

/// left.v < right.v
fn condition() -> Arc<dyn PhysicalExpr> {
    let fields = (0..6).map(|i| schema().field(i % 3).clone().with_name(format!("c{i}")));
    let pair = Schema::new(fields.collect::<Vec<_>>());
    binary(col("c2", &pair).unwrap(), Op::Lt, col("c5", &pair).unwrap(), &pair).unwrap()
}

fn spec(kind: JoinKind, (lower_ms, upper_ms): (i64, i64), with_condition: bool) -> IntervalJoinSpec {
    let input = || IntervalJoinInput { schema: schema(), time: 1, keys: vec![0] };
    IntervalJoinSpec {
        name: "join".into(),
        kind,
        left: input(),
        right: input(),
        lower_ms,
        upper_ms,
        condition: with_condition.then(condition),
        row_errors: RowErrors::Fail,
    }
}

fn join(spec: &IntervalJoinSpec, batch_rows: usize) -> Box<dyn Operator> {
    spec.clone().factory().make(&InstanceContext { instance: 0, parallelism: 1, batch_rows }).unwrap()
}

/// The value of each side, `None` for padding.
type Joined = (Option<i64>, Option<i64>);

#[derive(Debug, Default)]
struct Run {
    rows: Vec<Joined>,
    /// For each row of `rows`, the watermark before it, if any.
    before: Vec<(Joined, i64)>,
    late: Vec<i64>,
    sizes: Vec<usize>,
    ingested: Vec<u64>,
    watermarks: Vec<i64>,
}

impl Run {
    fn read(&mut self, out: Outbox) {
        for emitted in out.emitted {
            let (batch, ingested) = match emitted {
                Emitted::Watermark(w) => {
                    self.watermarks.push(w.0);
                    continue;
                }
                Emitted::Batch { batch, ingested, window_end } => {
                    assert_eq!(window_end, None);
                    (batch, ingested.unwrap().0)
                }
            };
            self.sizes.push(batch.num_rows());
            self.ingested.push(ingested);
            let forwarded = self.watermarks.last().copied().unwrap_or(i64::MIN);
            for i in 0..batch.num_rows() {
                let value = |c: usize| {
                    let column = batch.rows.column(c).as_primitive::<Int64Type>();
                    column.is_valid(i).then(|| column.value(i))
                };
                let joined = (value(2), value(5));
                let before = batch.watermark_before.as_ref().map_or(i64::MIN, |b| b[i]);
                for c in [1, 4].into_iter().filter(|&c| batch.rows.column(c).is_valid(i)) {
                    let time = timestamps(&batch.rows, c).value(i);
                    assert!(
                        time > forwarded || before >= forwarded,
                        "{joined:?} at {time} is behind {forwarded}"
                    );
                }
                self.rows.push(joined);
                self.before.push((joined, before));
            }
        }
        for late in out.late {
            assert_eq!(late.rows.num_rows(), late.window_end.len());
            self.late.extend(late.rows.column(2).as_primitive::<Int64Type>().values());
        }
    }
}

/// What happens to the operator: rows of one side, or the combined watermark.
#[derive(Clone, Debug)]
enum Step {
    Rows(usize, Vec<Row>),
    Watermark(i64),
}

fn run(operator: &mut dyn Operator, steps: &[Step]) -> Run {
    let mut run = Run::default();
    for (now, step) in steps.iter().enumerate() {
        let mut out = Outbox::default();
        let mut flow = match step {
            Step::Rows(input, rows) => {
                operator.on_batch(*input, batch(rows), ProcessingTime(now as u64), &mut out).unwrap()
            }
            Step::Watermark(w) => operator.on_watermark(EventTime(*w), &mut out).unwrap(),
        };
        while flow == Flow::More {
            run.read(std::mem::take(&mut out));
            flow = operator.resume(&mut out).unwrap();
        }
        run.read(out);
    }
    run.rows.sort();
    run.before.sort();
    run.late.sort();
    run
}

fn all(kind: JoinKind, bounds: (i64, i64), left: &[Row], right: &[Row]) -> Vec<Joined> {
    let steps = [Step::Rows(0, left.to_vec()), Step::Rows(1, right.to_vec()), Step::Watermark(i64::MAX)];
    let rows = run(join(&spec(kind, bounds, false), 100).as_mut(), &steps).rows;
    let swapped = [steps[1].clone(), steps[0].clone(), steps[2].clone()];
    assert_eq!(run(join(&spec(kind, bounds, false), 100).as_mut(), &swapped).rows, rows);
    rows
}

#[test]
fn bounds_are_inclusive() {
    // Orders (left) paid (right) from 5 ms before to 10 ms after: left.t - right.t in [-10, 5].
    let left = [row(1, 100, 1)];
    let right = [row(1, 94, 10), row(1, 95, 11), row(1, 110, 12), row(1, 111, 13), row(2, 100, 14)];
    assert_eq!(all(JoinKind::Inner, (-10, 5), &left, &right), [(Some(1), Some(11)), (Some(1), Some(12))]);
    assert_eq!(
        all(JoinKind::Right, (-10, 5), &left, &right),
        [(None, Some(10)), (None, Some(13)), (None, Some(14)), (Some(1), Some(11)), (Some(1), Some(12))]
    );
    assert_eq!(all(JoinKind::Left, (50, 60), &left, &right), [(Some(1), None)]);
}

#[test]
fn null_keys_match_nothing() {
    let (left, right) = ([row(None, 1, 1), row(1, 1, 2)], [row(None, 1, 10), row(1, 1, 20)]);
    let pair = (Some(2), Some(20));
    assert_eq!(all(JoinKind::Inner, (0, 0), &left, &right), [pair]);
    assert_eq!(all(JoinKind::Full, (0, 0), &left, &right), [(None, Some(10)), (Some(1), None), pair]);
}

#[test]
fn empty_sides() {
    let rows = [row(1, 1, 1)];
    for (kind, left_only, right_only) in
        [(JoinKind::Inner, 0, 0), (JoinKind::Left, 1, 0), (JoinKind::Right, 0, 1), (JoinKind::Full, 1, 1)]
    {
        assert_eq!(all(kind, (-5, 5), &rows, &[]).len(), left_only);
        assert_eq!(all(kind, (-5, 5), &[], &rows).len(), right_only);
        assert_eq!(all(kind, (-5, 5), &[], &[]).len(), 0);
    }
}

#[test]
fn pairs_leave_at_once_and_lonely_rows_when_they_expire() {
    let mut operator = join(&spec(JoinKind::Left, (-10, 5), false), 100);
    let result = run(
        operator.as_mut(),
        &[
            Step::Rows(0, vec![row(1, 100, 1), row(2, 100, 2)]),
            Step::Rows(1, vec![row(1, 101, 11)]),
            Step::Watermark(116),
        ],
    );
    assert_eq!(result.rows, [(Some(1), Some(11))]);
    assert_eq!(result.ingested, [1]);
    // Delayed by max(-lower, upper) = 10 ms and by half the interval, 7 ms.
    assert_eq!(result.watermarks, [99]);
    // A right row on time at 110 has a time of 111 at least, and 100 - 111 < -10. A late one is waited for so long.
    let result = run(operator.as_mut(), &[Step::Watermark(117)]);
    assert_eq!(
        (result.rows, result.ingested, result.watermarks),
        (vec![(Some(2), None)], vec![0], vec![100])
    );
    let result = run(operator.as_mut(), &[Step::Watermark(i64::MAX)]);
    assert_eq!((result.rows, result.watermarks), (vec![], vec![i64::MAX]));
    assert!(operator.state_bytes() < 1_000, "{}", operator.state_bytes());
}

#[test]
fn memory_is_freed_as_the_watermark_rises() {
    let mut operator = join(&spec(JoinKind::Inner, (-100, 100), false), 1_000);
    let mut sizes = Vec::new();
    for second in 0..30 {
        let rows: Vec<Row> = (0..1_000).map(|i| row(second * 1_000 + i, second * 1_000 + i, i)).collect();
        run(operator.as_mut(), &[Step::Rows(0, rows), Step::Watermark(second * 1_000 + 999)]);
        sizes.push(operator.state_bytes());
    }
    assert_eq!(sizes[5], sizes[29], "{sizes:?}");
}

#[test]
fn late_rows_are_reported_or_padded() {
    // Interval [-10, 5]: a left row at 100 can match right rows up to 110, which are kept until 115 + 7.
    let right = vec![row(1, 110, 10)];
    for (kind, rows) in [
        (JoinKind::Inner, vec![(Some(1), Some(10))]),
        (JoinKind::Left, vec![(Some(1), Some(10)), (Some(2), None)]),
    ] {
        let left = vec![behind(121, row(1, 100, 1)), behind(122, row(1, 100, 2))];
        let steps = [Step::Rows(1, right.clone()), Step::Rows(0, left), Step::Watermark(i64::MAX)];
        let result = run(join(&spec(kind, (-10, 5), false), 100).as_mut(), &steps);
        assert_eq!(result.rows, rows);
        assert_eq!(result.late, if kind == JoinKind::Inner { vec![2] } else { vec![] });
        // What they were behind, less the delay of 10 ms, and of 7 ms more where lonely rows are waited for.
        let delay = if kind == JoinKind::Inner { 10 } else { 17 };
        let expected: Vec<_> = rows.into_iter().zip([121 - delay, 122 - delay]).collect();
        assert_eq!(result.before, expected);
    }
}

/// A pair is lost only when one of its rows is gone: half the interval after rows on time could need it.
#[test]
fn late_rows_meet_what_is_kept() {
    // Interval [-10, 10], so that rows are kept for 20 ms.
    let pairs = |before: i64| {
        let steps = [
            Step::Rows(1, vec![row(1, 100, 10)]),
            Step::Watermark(before),
            Step::Rows(0, vec![behind(before, row(1, 95, 1))]),
            Step::Watermark(i64::MAX),
        ];
        run(join(&spec(JoinKind::Inner, (-10, 10), false), 100).as_mut(), &steps).rows
    };
    for before in [95, 109, 110, 119] {
        assert_eq!(pairs(before), [(Some(1), Some(10))], "{before}");
    }
    assert_eq!(pairs(120), []);
}

#[test]
fn a_hot_key_is_cut_into_batches() {
    let rows: Vec<Row> = (0..1_000).map(|value| row(1, value, value)).collect();
    for (with_condition, expected) in [(false, 1_000_000), (true, 1_000 * 999 / 2)] {
        let mut operator = join(&spec(JoinKind::Inner, (-1_000, 1_000), with_condition), 4_096);
        run(operator.as_mut(), &[Step::Rows(0, rows.clone())]);
        let mut out = Outbox::default();
        let mut flow = operator.on_batch(1, batch(&rows), ProcessingTime(1), &mut out).unwrap();
        let (mut count, mut calls) = (0, 0);
        loop {
            let mut run = Run::default();
            run.read(std::mem::take(&mut out));
            assert!(run.rows.len() <= 4_096, "{} rows in one call", run.rows.len());
            (count, calls) = (count + run.rows.len(), calls + 1);
            if flow == Flow::Done {
                break;
            }
            flow = operator.resume(&mut out).unwrap();
        }
        assert_eq!(count, expected);
        assert!(calls >= 1_000_000 / 4_096, "{calls} calls");
    }
}

#[test]
fn times_at_the_ends_do_not_overflow() {
    let rows = [row(1, i64::MIN + 1, 1), row(1, 0, 2), row(1, i64::MAX - 1, 3)];
    let pairs: Vec<Joined> = (1..=3).map(|v| (Some(v), Some(v))).collect();
    assert_eq!(all(JoinKind::Full, (-10, 10), &rows, &rows), pairs);
}

#[test]
fn impossible_plans_are_refused() {
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 1 };
    for plan in [spec(JoinKind::Semi, (0, 0), false), spec(JoinKind::Inner, (1, 0), false)] {
        assert!(matches!(plan.factory().make(&context), Err(OperatorError::Internal { .. })));
    }
}

/// The rule, row by row, with every row's real watermark: the result and the late rows' values.
fn nested_loops(spec: &IntervalJoinSpec, left: &[Row], right: &[Row]) -> (Vec<Joined>, Vec<i64>) {
    let (lower, upper) = (spec.lower_ms, spec.upper_ms);
    let slack = (upper - lower) / 2;
    let is_late = |r: &Row| r.time <= r.before && r.time + (upper - lower) + slack <= r.before;
    let joins = |l: &Row, r: &Row| {
        let is_near = lower <= l.time - r.time && l.time - r.time <= upper;
        let right_waited = r.time + upper + slack > l.before;
        let left_waited = l.time - lower + slack > r.before;
        let is_match = l.key.is_some() && l.key == r.key && (spec.condition.is_none() || l.value < r.value);
        is_near && right_waited && left_waited && is_match
    };
    let (mut rows, mut late) = (Vec::new(), Vec::new());
    for l in left {
        let partners: Vec<_> = right.iter().filter(|r| joins(l, r)).collect();
        rows.extend(partners.iter().map(|r| (Some(l.value), Some(r.value))));
        if spec.kind.keeps_left() {
            rows.extend(partners.is_empty().then_some((Some(l.value), None)));
        } else if is_late(l) {
            late.push(l.value);
        }
    }
    for r in right {
        if spec.kind.keeps_right() {
            rows.extend((!left.iter().any(|l| joins(l, r))).then_some((None, Some(r.value))));
        } else if is_late(r) {
            late.push(r.value);
        }
    }
    rows.sort();
    late.sort();
    (rows, late)
}

/// A source of up to `disorder` ms of disorder whose watermark stays 20 ms behind the greatest time so far.
/// Values are distinct.
fn source(disorder: i64, first_value: i64) -> impl Strategy<Value = Vec<Row>> {
    let drawn = (0..disorder, proptest::option::weighted(0.95, 0i64..3));
    proptest::collection::vec(drawn, 0..40).prop_map(move |drawn| {
        let (mut rows, mut watermark) = (Vec::new(), i64::MIN + 1_000);
        for (i, (behind, key)) in drawn.into_iter().enumerate() {
            let time = i as i64 * 3 - behind;
            // A shuffled order of values, so that the condition holds for half of the pairs.
            let value = first_value + (i as i64 * 7) % 41 * 2;
            rows.push(Row { key, time, value, before: watermark });
            watermark = watermark.max(time - 20);
        }
        rows
    })
}

/// Cuts both sources into batches and interleaves them with the combined watermark, as `choices` says.
fn interleave(left: &[Row], right: &[Row], choices: &[(bool, usize)]) -> Vec<Step> {
    let sources = [left, right];
    let (mut next, mut watermarks) = ([0, 0], [i64::MIN, i64::MIN]);
    let (mut steps, mut choices) = (Vec::new(), choices.iter().cycle());
    while next[0] < left.len() || next[1] < right.len() {
        let &(go_right, size) = choices.next().unwrap();
        let side = usize::from(if go_right { next[1] < right.len() } else { next[0] >= left.len() });
        let end = (next[side] + size).min(sources[side].len());
        let rows = &sources[side][next[side]..end];
        next[side] = end;
        watermarks[side] = rows.iter().map(|r| r.time - 20).fold(watermarks[side], i64::max);
        steps.push(Step::Rows(side, rows.to_vec()));
        if size % 2 == 0 {
            steps.push(Step::Watermark(watermarks[0].min(watermarks[1])));
        }
    }
    steps.push(Step::Watermark(i64::MAX));
    steps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn equals_nested_loops_however_inputs_interleave(
        kind in prop::sample::select(vec![JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full]),
        lower in -30i64..20,
        size in 0i64..40,
        with_condition: bool,
        left in source(60, 0),
        right in source(30, 1),
        choices in proptest::collection::vec(
            proptest::collection::vec((any::<bool>(), 1usize..9), 1..20), 2,
        ),
        batch_rows in 1usize..9,
    ) {
        let spec = spec(kind, (lower, lower + size), with_condition);
        let (rows, late) = nested_loops(&spec, &left, &right);
        let mut before = Vec::new();
        for choices in &choices {
            let steps = interleave(&left, &right, choices);
            let mut result = run(join(&spec, batch_rows).as_mut(), &steps);
            prop_assert_eq!(&result.rows, &rows);
            prop_assert_eq!(&result.late, &late);
            prop_assert!(result.sizes.iter().all(|&size| size <= batch_rows));
            prop_assert!(result.watermarks.is_sorted());
            // What downstream takes for late must not depend on the interleaving either.
            before.push(std::mem::take(&mut result.before));
        }
        prop_assert_eq!(&before[0], &before[1]);
    }
}

/// By table of the left side, an array of it: who writes them knows them by that.
fn left_tables(operator: &mut dyn Operator) -> Vec<ArrayRef> {
    let parts = operator.save().unwrap().parts.into_iter().filter(|part| part.name.starts_with("left-"));
    parts.map(|part| Arc::clone(part.rows.column(0))).collect()
}

#[test]
fn rows_that_were_saved_stay_in_the_tables_that_they_were_in() {
    for (kind, changed) in [(JoinKind::Inner, vec![]), (JoinKind::Left, vec![2])] {
        let mut operator = join(&spec(kind, (-1_000, 1_000), false), 16);
        let mut before: Vec<ArrayRef> = Vec::new();
        for batch in 0..6 {
            let rows = (0..16).map(|at| row(batch, batch * 100 + at, at)).collect();
            run(operator.as_mut(), &[Step::Rows(LEFT, rows)]);
            let now = left_tables(operator.as_mut());
            assert_eq!(now.len(), before.len() + 1);
            assert!(before.iter().zip(&now).all(|(before, now)| Arc::ptr_eq(before, now)), "{kind}");
            before = now;
        }
        // Those of the third batch have found a partner.
        run(operator.as_mut(), &[Step::Rows(RIGHT, vec![row(2, 210, 7)])]);
        let now = left_tables(operator.as_mut());
        let is_other = |at: &usize| !Arc::ptr_eq(&before[*at], &now[*at]);
        assert_eq!((0..6).filter(is_other).collect::<Vec<_>>(), changed, "{kind}");
    }
}

#[test]
fn pieces_that_lie_together_in_a_table_stay_in_it() {
    let mut operator = join(&spec(JoinKind::Inner, (-1_000, 1_000), false), 16);
    let tables = |operator: &mut dyn Operator| {
        let parts = operator.save().unwrap().parts.into_iter().filter(|part| part.name.starts_with("left-"));
        let pieces = parts.map(|part| part.into_pieces().1);
        let arrays =
            |pieces: Vec<RecordBatch>| pieces.iter().flat_map(|rows| rows.columns().to_vec()).collect();
        pieces.map(arrays).collect::<Vec<Vec<ArrayRef>>>()
    };
    run(operator.as_mut(), &(0..7).map(three_rows).collect::<Vec<_>>());
    let before = tables(operator.as_mut());
    run(operator.as_mut(), &[three_rows(7)]);
    let now = tables(operator.as_mut());
    assert!(before.len() >= 2, "{} tables", before.len());
    let is_same = |a: &Vec<ArrayRef>, b: &Vec<ArrayRef>| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
    };
    let same = before.iter().zip(&now).filter(|(before, now)| is_same(before, now)).count();
    assert!(same + 1 >= before.len(), "{same} of {}", before.len());
}

fn three_rows(batch: i64) -> Step {
    Step::Rows(LEFT, (0..3).map(|at| row(batch, batch * 10 + at, at)).collect())
}
