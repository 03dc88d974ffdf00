//! Hand-checked windows, and random ones against nested loops over all rows. Results are compared as sorted
//! lists of rows; order between rows of one window is not promised.

use super::*;
use crate::{Emitted, InstanceContext};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, TimestampMillisecondArray};
use arrow::datatypes::{Field, Int64Type, TimeUnit};
use datafusion_expr::Operator as Op;
use datafusion_physical_expr::expressions::{binary, col};
use proptest::prelude::*;

/// A row of either side: window of 10 ms by its number, key, value, and the watermark before it.
#[derive(Clone, Debug)]
struct Row {
    window: i64,
    key: Option<i64>,
    value: i64,
    before: Option<i64>,
}

fn row(window: i64, key: impl Into<Option<i64>>, value: i64) -> Row {
    Row { window, key: key.into(), value, before: None }
}

fn schema() -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![
        Field::new("window_start", timestamp.clone(), false),
        Field::new("window_end", timestamp, false),
        Field::new("k", DataType::Int64, true),
        Field::new("v", DataType::Int64, false),
    ]))
}

fn batch(rows: &[Row]) -> StreamBatch {
    let time = |pick: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(pick)))
    };
    let columns = vec![
        time(|r| r.window * 10),
        time(|r| r.window * 10 + 10),
        Arc::new(rows.iter().map(|r| r.key).collect::<Int64Array>()),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.value))),
    ];
    let before = rows.iter().any(|r| r.before.is_some());
    StreamBatch {
        rows: RecordBatch::try_new(schema(), columns).unwrap(),
        watermark_before: before.then(|| rows.iter().map(|r| r.before.unwrap_or(i64::MIN)).collect()),
    }
}

/// left.v < right.v
fn condition() -> Arc<dyn PhysicalExpr> {
    let pair = JoinKind::Inner.output_schema(&schema(), &schema());
    let fields: Vec<Field> = pair
        .fields()
        .iter()
        .enumerate()
        .map(|(i, f)| f.as_ref().clone().with_name(format!("c{i}")))
        .collect();
    let pair = Schema::new(fields);
    binary(col("c3", &pair).unwrap(), Op::Lt, col("c7", &pair).unwrap(), &pair).unwrap()
}

fn join(kind: JoinKind, with_condition: bool, batch_rows: usize) -> Box<dyn Operator> {
    let input = || WindowJoinInput { schema: schema(), window_start: 0, window_end: 1, keys: vec![2] };
    let spec = WindowJoinSpec {
        name: "join".into(),
        kind,
        left: input(),
        right: input(),
        condition: with_condition.then(condition),
        row_errors: RowErrors::Fail,
    };
    spec.factory().make(&InstanceContext { instance: 0, parallelism: 1, batch_rows }).unwrap()
}

/// A result row: the key and value of each side, `None` for padding.
type Side = Option<(Option<i64>, i64)>;
type Joined = (i64, Side, Side);

#[derive(Debug, Default)]
struct Run {
    rows: Vec<Joined>,
    late: Vec<(i64, i64)>,
    sizes: Vec<usize>,
    ingested: Vec<u64>,
    watermarks: Vec<i64>,
}

impl Run {
    fn read(&mut self, out: Outbox) {
        for emitted in out.emitted {
            match emitted {
                Emitted::Watermark(w) => self.watermarks.push(w.0),
                Emitted::Batch { batch, ingested, window_end } => {
                    let end = window_end.expect("a window's result").0;
                    assert!(
                        self.watermarks.last().is_none_or(|w| end - 1 > *w),
                        "result behind its watermark"
                    );
                    self.sizes.push(batch.num_rows());
                    self.ingested.push(ingested.expect("held back").0);
                    for i in 0..batch.num_rows() {
                        let joined = (side(&batch.rows, 0, i), side(&batch.rows, 4, i));
                        self.rows.push((end, joined.0, joined.1));
                    }
                }
            }
        }
        for late in out.late {
            let value = late.rows.column(3).as_primitive::<Int64Type>();
            self.late.extend((0..late.rows.num_rows()).map(|i| (late.window_end.value(i), value.value(i))));
        }
    }

    fn finish(mut self) -> Run {
        self.rows.sort();
        self.late.sort();
        self
    }
}

fn side(rows: &RecordBatch, first: usize, i: usize) -> Side {
    if first >= rows.num_columns() || rows.column(first).is_null(i) {
        return None;
    }
    let (key, value) = (rows.column(first + 2).as_primitive::<Int64Type>(), rows.column(first + 3));
    Some((key.is_valid(i).then(|| key.value(i)), value.as_primitive::<Int64Type>().value(i)))
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
        run.read(out);
        while flow == Flow::More {
            let mut out = Outbox::default();
            flow = operator.resume(&mut out).unwrap();
            run.read(out);
        }
    }
    run.finish()
}

fn all(kind: JoinKind, with_condition: bool, left: &[Row], right: &[Row]) -> Vec<Joined> {
    let steps = [Step::Rows(0, left.to_vec()), Step::Rows(1, right.to_vec()), Step::Watermark(i64::MAX)];
    run(join(kind, with_condition, 100).as_mut(), &steps).rows
}

#[test]
fn each_kind_by_hand() {
    let left = [row(0, 1, 10), row(0, 2, 20), row(1, 1, 30), row(0, None, 40)];
    let right = [row(0, 1, 11), row(0, 1, 12), row(0, 3, 13), row(2, 1, 14), row(0, None, 15)];
    let l = |key, value| Some((Some(key), value));
    let pairs = [(10, l(1, 10), l(1, 11)), (10, l(1, 10), l(1, 12))];
    let lonely_left = [(10, Some((None, 40)), None), (10, l(2, 20), None), (20, l(1, 30), None)];
    let lonely_right = [(10, None, Some((None, 15))), (10, None, l(3, 13)), (30, None, l(1, 14))];
    let expect = |parts: &[&[Joined]]| -> Vec<Joined> {
        let mut rows: Vec<Joined> = parts.concat();
        rows.sort();
        rows
    };
    assert_eq!(all(JoinKind::Inner, false, &left, &right), expect(&[&pairs]));
    assert_eq!(all(JoinKind::Left, false, &left, &right), expect(&[&pairs, &lonely_left]));
    assert_eq!(all(JoinKind::Right, false, &left, &right), expect(&[&pairs, &lonely_right]));
    assert_eq!(all(JoinKind::Full, false, &left, &right), expect(&[&pairs, &lonely_left, &lonely_right]));
    assert_eq!(all(JoinKind::Semi, false, &left, &right), [(10, l(1, 10), None)]);
    assert_eq!(all(JoinKind::Anti, false, &left, &right), expect(&[&lonely_left]));
}

#[test]
fn a_condition_decides_who_is_alone() {
    let left = [row(0, 1, 10), row(0, 1, 20)];
    let right = [row(0, 1, 5), row(0, 1, 15)];
    let l = |value| Some((Some(1), value));
    assert_eq!(all(JoinKind::Inner, true, &left, &right), [(10, l(10), l(15))]);
    assert_eq!(
        all(JoinKind::Full, true, &left, &right),
        [(10, None, l(5)), (10, l(10), l(15)), (10, l(20), None)]
    );
    assert_eq!(all(JoinKind::Semi, true, &left, &right), [(10, l(10), None)]);
    assert_eq!(all(JoinKind::Anti, true, &left, &right), [(10, l(20), None)]);
}

#[test]
fn empty_sides() {
    let rows = [row(0, 1, 10)];
    for (kind, left_only, right_only) in [
        (JoinKind::Inner, 0, 0),
        (JoinKind::Left, 1, 0),
        (JoinKind::Right, 0, 1),
        (JoinKind::Full, 1, 1),
        (JoinKind::Semi, 0, 0),
        (JoinKind::Anti, 1, 0),
    ] {
        for with_condition in [false, true] {
            assert_eq!(all(kind, with_condition, &rows, &[]).len(), left_only, "{kind} left");
            assert_eq!(all(kind, with_condition, &[], &rows).len(), right_only, "{kind} right");
            assert_eq!(all(kind, with_condition, &[], &[]).len(), 0, "{kind} none");
        }
    }
}

#[test]
fn windows_fire_at_their_last_instant() {
    let mut operator = join(JoinKind::Inner, false, 100);
    let steps =
        |w| [Step::Rows(0, vec![row(0, 1, 1)]), Step::Rows(1, vec![row(0, 1, 2)]), Step::Watermark(w)];
    let result = run(operator.as_mut(), &steps(8));
    assert_eq!((result.rows.len(), &result.watermarks[..]), (0, &[8][..]));
    assert!(operator.state_bytes() > 0);
    let result = run(operator.as_mut(), &[Step::Watermark(9)]);
    assert_eq!((result.rows.len(), &result.watermarks[..]), (1, &[9][..]));
    assert_eq!(result.ingested, [1]);
    assert_eq!(operator.state_bytes(), 0);
}

#[test]
fn late_rows_are_reported() {
    let late = Row { before: Some(9), ..row(0, 1, 7) };
    let steps = [
        Step::Rows(0, vec![row(0, 1, 1), late.clone(), Row { before: Some(8), ..row(0, 1, 2) }]),
        Step::Rows(1, vec![Row { before: Some(30), ..row(1, 1, 8) }, row(0, 1, 3)]),
        Step::Watermark(i64::MAX),
    ];
    let result = run(join(JoinKind::Inner, false, 100).as_mut(), &steps);
    assert_eq!(result.late, [(10, 7), (20, 8)]);
    assert_eq!(result.rows.len(), 2);
}

#[test]
fn a_hot_key_is_cut_into_batches() {
    let rows: Vec<Row> = (0..1_000).map(|value| row(0, 1, value)).collect();
    let steps = [Step::Rows(0, rows.clone()), Step::Rows(1, rows.clone())];
    for (kind, with_condition, expected) in
        [(JoinKind::Inner, false, 1_000_000), (JoinKind::Full, true, 1_000 * 999 / 2 + 2)]
    {
        let mut operator = join(kind, with_condition, 4_096);
        assert_eq!(run(operator.as_mut(), &steps).rows.len(), 0);
        let mut out = Outbox::default();
        let mut flow = operator.on_watermark(EventTime::MAX, &mut out).unwrap();
        let (mut count, mut calls) = (0, 0);
        loop {
            let emitted: usize = out
                .emitted
                .drain(..)
                .map(|emitted| if let Emitted::Batch { batch, .. } = emitted { batch.num_rows() } else { 0 })
                .sum();
            assert!(emitted <= 4_096, "{emitted} rows in one call");
            (count, calls) = (count + emitted, calls + 1);
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
fn keys_of_unequal_types_are_refused() {
    let input = |keys| WindowJoinInput { schema: schema(), window_start: 0, window_end: 1, keys };
    let spec = WindowJoinSpec {
        name: "join".into(),
        kind: JoinKind::Inner,
        left: input(vec![2]),
        right: input(vec![0]),
        condition: None,
        row_errors: RowErrors::Fail,
    };
    let context = InstanceContext { instance: 0, parallelism: 1, batch_rows: 1 };
    assert!(matches!(spec.factory().make(&context), Err(OperatorError::Internal { .. })));
}

/// The join as SQL defines it, row by row, and the late rows as (window end, value).
fn nested_loops(
    kind: JoinKind,
    with_condition: bool,
    left: &[Row],
    right: &[Row],
) -> (Vec<Joined>, Vec<(i64, i64)>) {
    let is_late = |r: &&Row| r.before.is_some_and(|before| r.window * 10 + 9 <= before);
    let late = left.iter().chain(right).filter(is_late).map(|r| (r.window * 10 + 10, r.value));
    let mut late: Vec<_> = late.collect();
    late.sort();
    let left: Vec<&Row> = left.iter().filter(|r| !is_late(r)).collect();
    let right: Vec<&Row> = right.iter().filter(|r| !is_late(r)).collect();
    let joins = |l: &Row, r: &Row| {
        l.window == r.window && l.key.is_some() && l.key == r.key && (!with_condition || l.value < r.value)
    };
    let end = |r: &Row| r.window * 10 + 10;
    let of = |r: &Row| Some((r.key, r.value));
    let mut rows = Vec::new();
    for l in &left {
        let partners: Vec<_> = right.iter().filter(|r| joins(l, r)).collect();
        match kind {
            JoinKind::Semi => rows.extend((!partners.is_empty()).then(|| (end(l), of(l), None))),
            JoinKind::Anti => rows.extend(partners.is_empty().then(|| (end(l), of(l), None))),
            _ => rows.extend(partners.iter().map(|r| (end(l), of(l), of(r)))),
        }
        if matches!(kind, JoinKind::Left | JoinKind::Full) && partners.is_empty() {
            rows.push((end(l), of(l), None));
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        let lonely = right.iter().filter(|r| !left.iter().any(|l| joins(l, r)));
        rows.extend(lonely.map(|r| (end(r), None, of(r))));
    }
    rows.sort();
    (rows, late)
}

/// Rows of one source: disorder of up to 40 ms, watermark 15 ms behind the greatest time so far.
fn source() -> impl Strategy<Value = Vec<Row>> {
    let drawn = (0i64..40, proptest::option::weighted(0.9, 0i64..4), 0i64..50);
    proptest::collection::vec(drawn, 0..40).prop_map(|drawn| {
        let (mut rows, mut greatest) = (Vec::new(), i64::MIN);
        for (i, (behind, key, value)) in drawn.into_iter().enumerate() {
            let time = i as i64 * 3 - behind;
            let before = (greatest != i64::MIN).then(|| greatest - 15).filter(|before| time <= *before);
            rows.push(Row { window: time.div_euclid(10), key, value, before });
            greatest = greatest.max(time);
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
        // The window's start stands in for the row's time: a watermark that is too low is always valid.
        let greatest = rows.iter().map(|r| r.window * 10 - 15).max().unwrap();
        watermarks[side] = watermarks[side].max(greatest);
        steps.push(Step::Rows(side, rows.to_vec()));
        if size % 2 == 0 {
            steps.push(Step::Watermark(watermarks[0].min(watermarks[1])));
        }
    }
    steps.push(Step::Watermark(i64::MAX));
    steps
}

fn kinds() -> impl Strategy<Value = JoinKind> {
    use JoinKind::*;
    prop::sample::select(vec![Inner, Left, Right, Full, Semi, Anti])
}

proptest! {
    #[test]
    fn equals_nested_loops(
        kind in kinds(),
        with_condition: bool,
        left in source(),
        right in source(),
        choices in proptest::collection::vec((any::<bool>(), 1usize..8), 1..20),
        batch_rows in 1usize..9,
    ) {
        let steps = interleave(&left, &right, &choices);
        let result = run(join(kind, with_condition, batch_rows).as_mut(), &steps);
        let (rows, late) = nested_loops(kind, with_condition, &left, &right);
        prop_assert_eq!(result.rows, rows);
        prop_assert_eq!(result.late, late);
        prop_assert!(result.sizes.iter().all(|&size| size <= batch_rows));
    }
}
