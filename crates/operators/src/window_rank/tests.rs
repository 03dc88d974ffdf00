//! Hand-checked windows, and random ones against sorting all rows of a window.

use super::*;
use crate::{Emitted, InstanceContext};
use arrow::array::{Array, AsArray, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{Int64Type, TimeUnit};
use proptest::prelude::*;

/// A row: window of 10 ms by its number, key, order, label, and the watermark before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    window: i64,
    key: Option<i64>,
    order: Option<i64>,
    label: String,
    before: Option<i64>,
}

fn row(window: i64, key: i64, order: i64, label: &str) -> Row {
    Row { window, key: Some(key), order: Some(order), label: label.into(), before: None }
}

fn schema() -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("o", DataType::Int64, true),
        Field::new("label", DataType::Utf8, false),
        Field::new("window_start", timestamp.clone(), false),
        Field::new("window_end", timestamp, false),
    ]))
}

fn batch(rows: &[Row]) -> StreamBatch {
    let time = |shift: i64| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.window * 10 + shift)))
    };
    let columns = vec![
        Arc::new(rows.iter().map(|r| r.key).collect::<Int64Array>()) as ArrayRef,
        Arc::new(rows.iter().map(|r| r.order).collect::<Int64Array>()),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.label))),
        time(0),
        time(10),
    ];
    let before = rows.iter().any(|r| r.before.is_some());
    StreamBatch {
        rows: RecordBatch::try_new(schema(), columns).unwrap(),
        watermark_before: before.then(|| rows.iter().map(|r| r.before.unwrap_or(i64::MIN)).collect()),
    }
}

fn spec(descending: bool, from: u64, to: u64) -> WindowRankSpec {
    WindowRankSpec {
        name: "rank".into(),
        input_schema: schema(),
        window_start: 3,
        window_end: 4,
        keys: vec![0],
        order_by: vec![RankOrder { column: 1, descending, nulls_first: !descending }],
        from,
        to,
        ties: RankTies::Columns,
        rank_column: Some("rownum".into()),
    }
}

fn rank(spec: WindowRankSpec, batch_rows: usize) -> Box<dyn Operator> {
    spec.factory().make(&InstanceContext { instance: 0, parallelism: 1, batch_rows }).unwrap()
}

/// A result: window end, key, rank, order, label.
type Ranked = (i64, Option<i64>, i64, Option<i64>, String);

#[derive(Debug, Default)]
struct Run {
    rows: Vec<Ranked>,
    late: usize,
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
                    self.sizes.push(batch.num_rows());
                    self.ingested.push(ingested.unwrap().0);
                    let int = |c: usize| batch.rows.column(c).as_primitive::<Int64Type>();
                    for i in 0..batch.num_rows() {
                        let optional = |c: usize| int(c).is_valid(i).then(|| int(c).value(i));
                        let label = batch.rows.column(2).as_string::<i32>().value(i).to_owned();
                        self.rows.push((
                            window_end.unwrap().0,
                            optional(0),
                            int(5).value(i),
                            optional(1),
                            label,
                        ));
                    }
                }
            }
        }
        self.late += out.late.iter().map(|late| late.rows.num_rows()).sum::<usize>();
    }
}

/// Runs whole batches, then ends the input.
fn run(operator: &mut dyn Operator, batches: &[&[Row]]) -> Run {
    let mut run = Run::default();
    for (now, rows) in batches.iter().enumerate() {
        let mut out = Outbox::default();
        let flow = operator.on_batch(0, batch(rows), ProcessingTime(now as u64), &mut out).unwrap();
        assert_eq!(flow, Flow::Done);
        run.read(out);
    }
    watermark(operator, i64::MAX, &mut run);
    run.rows.sort();
    run
}

fn watermark(operator: &mut dyn Operator, watermark: i64, run: &mut Run) {
    let mut out = Outbox::default();
    let mut flow = operator.on_watermark(EventTime(watermark), &mut out).unwrap();
    while flow == Flow::More {
        run.read(std::mem::take(&mut out));
        flow = operator.resume(&mut out).unwrap();
    }
    run.read(out);
}

fn ranked(end: i64, key: i64, rank: i64, order: i64, label: &str) -> Ranked {
    (end, Some(key), rank, Some(order), label.into())
}

#[test]
fn top_two_by_hand() {
    let rows =
        [row(0, 1, 5, "a"), row(0, 1, 9, "b"), row(0, 2, 1, "c"), row(1, 1, 3, "d"), row(0, 1, 7, "e")];
    let expected = [
        ranked(10, 1, 1, 9, "b"),
        ranked(10, 1, 2, 7, "e"),
        ranked(10, 2, 1, 1, "c"),
        ranked(20, 1, 1, 3, "d"),
    ];
    assert_eq!(run(rank(spec(true, 1, 2), 100).as_mut(), &[&rows]).rows, expected);
    let result = run(rank(spec(true, 2, 3), 100).as_mut(), &[&rows]);
    assert_eq!(result.rows, [ranked(10, 1, 2, 7, "e"), ranked(10, 1, 3, 5, "a")]);
}

#[test]
fn deduplication_keeps_first_or_last() {
    let (one, two) = ([row(0, 1, 5, "a"), row(0, 1, 9, "b")], [row(0, 1, 2, "c"), row(0, 1, 9, "aa")]);
    let first = run(rank(spec(false, 1, 1), 100).as_mut(), &[&one, &two]);
    assert_eq!(first.rows, [ranked(10, 1, 1, 2, "c")]);
    assert_eq!(first.ingested, [1]);
    // Of equal times, the row that is least as a whole.
    let last = run(rank(spec(true, 1, 1), 100).as_mut(), &[&one, &two]);
    assert_eq!(last.rows, [ranked(10, 1, 1, 9, "aa")]);
}

#[test]
fn nulls_are_one_key_and_lowest() {
    let null_key = |order, label: &str| Row { key: None, ..row(0, 0, order, label) };
    let rows =
        [null_key(1, "a"), null_key(2, "b"), Row { order: None, ..row(0, 1, 0, "c") }, row(0, 1, 4, "d")];
    let result = run(rank(spec(false, 1, 1), 100).as_mut(), &[&rows]);
    assert_eq!(result.rows, [(10, None, 1, Some(1), "a".into()), (10, Some(1), 1, None, "c".into())]);
    let result = run(rank(spec(true, 1, 1), 100).as_mut(), &[&rows]);
    assert_eq!(result.rows, [(10, None, 1, Some(2), "b".into()), ranked(10, 1, 1, 4, "d")]);
}

#[test]
fn no_key_is_one_group_and_the_rank_column_is_optional() {
    let plan = WindowRankSpec { keys: vec![], rank_column: None, ..spec(true, 1, 1) };
    assert_eq!(plan.output_schema(), schema());
    let mut operator = rank(plan, 100);
    let mut out = Outbox::default();
    let rows = [row(0, 1, 5, "a"), row(0, 2, 9, "b")];
    assert_eq!(operator.on_batch(0, batch(&rows), ProcessingTime(3), &mut out).unwrap(), Flow::Done);
    assert_eq!(operator.on_watermark(EventTime::MAX, &mut out).unwrap(), Flow::Done);
    let [Emitted::Batch { batch: result, .. }, Emitted::Watermark(_)] = &out.emitted[..] else {
        panic!("{out:?}")
    };
    assert_eq!(result.rows, batch(&rows[1..]).rows);
}

#[test]
fn fires_at_the_last_instant_and_frees_its_state() {
    let mut operator = rank(spec(true, 1, 3), 100);
    let mut out = Outbox::default();
    let rows = [row(0, 1, 5, "a"), Row { before: Some(9), ..row(0, 1, 9, "late") }];
    assert_eq!(operator.on_batch(0, batch(&rows), ProcessingTime(3), &mut out).unwrap(), Flow::Done);
    assert_eq!(out.late.len(), 1);
    assert!(operator.state_bytes() > 0);
    let mut result = Run::default();
    watermark(operator.as_mut(), 8, &mut result);
    assert_eq!(result.rows, []);
    watermark(operator.as_mut(), 9, &mut result);
    assert_eq!(result.rows, [ranked(10, 1, 1, 5, "a")]);
    assert_eq!((result.watermarks, result.ingested), (vec![8, 9], vec![3]));
    assert_eq!(operator.state_bytes(), 0);
}

#[test]
fn memory_is_bounded_by_the_best_rows() {
    let mut operator = rank(spec(true, 1, 10), 1_000);
    let mut sizes = Vec::new();
    for round in 0..20 {
        let rows: Vec<Row> = (0..1_000).map(|i| row(0, i % 5, round * 1_000 + i, "some label")).collect();
        let mut out = Outbox::default();
        assert_eq!(operator.on_batch(0, batch(&rows), ProcessingTime(0), &mut out).unwrap(), Flow::Done);
        sizes.push(operator.state_bytes());
    }
    assert_eq!(sizes[0], sizes[19]);
    assert!(sizes[19] < 10_000, "{} bytes for 50 rows", sizes[19]);
}

fn sources() -> impl Strategy<Value = Vec<Row>> {
    let key = proptest::option::weighted(0.9, 0i64..3);
    let drawn = (
        0i64..3,
        key,
        proptest::option::weighted(0.9, 0i64..8),
        "[ab]{0,2}",
        proptest::option::weighted(0.2, 0i64..40),
    );
    let row = drawn.prop_map(|(window, key, order, label, before)| Row { window, key, order, label, before });
    proptest::collection::vec(row, 0..60)
}

proptest! {
    #[test]
    fn equals_sorting_all_rows(
        rows in sources(),
        descending: bool,
        (from, to) in (1u64..4).prop_flat_map(|from| (Just(from), from..from + 3)),
        cuts in proptest::collection::vec(1usize..9, 1..9),
        batch_rows in 1usize..7,
    ) {
        let (mut batches, mut rest, mut cuts) = (Vec::new(), &rows[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (batch, others) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            batches.push(batch);
            rest = others;
        }
        let result = run(rank(spec(descending, from, to), batch_rows).as_mut(), &batches);

        let is_late = |r: &&Row| r.before.is_some_and(|before| r.window * 10 + 9 <= before);
        let mut kept: Vec<&Row> = rows.iter().filter(|r| !is_late(r)).collect();
        // None sorts before Some, which is Flink's order of NULLs.
        kept.sort_by(|a, b| {
            let order = if descending { b.order.cmp(&a.order) } else { a.order.cmp(&b.order) };
            (a.window, a.key).cmp(&(b.window, b.key)).then(order).then_with(|| a.label.cmp(&b.label))
        });
        let mut expected = Vec::new();
        for group in kept.chunk_by(|a, b| (a.window, a.key) == (b.window, b.key)) {
            for (i, r) in group.iter().enumerate() {
                if (from..=to).contains(&(i as u64 + 1)) {
                    expected.push((r.window * 10 + 10, r.key, i as i64 + 1, r.order, r.label.clone()));
                }
            }
        }
        expected.sort();
        prop_assert_eq!(result.rows, expected);
        prop_assert_eq!(result.late, rows.iter().filter(is_late).count());
        prop_assert!(result.sizes.iter().all(|&size| size <= batch_rows));
    }
}

/// The labels of each rank, with ties told apart by arrival.
fn labels(ties: RankTies, descending: bool, to: u64, batches: &[&[Row]]) -> Vec<String> {
    let mut operator = rank(WindowRankSpec { ties, ..spec(descending, 1, to) }, 2);
    run(operator.as_mut(), batches).rows.into_iter().map(|(.., label)| label).collect()
}

#[test]
fn ties_are_told_apart_by_arrival_and_not_by_other_columns() {
    let (a, b, c, d) = (row(0, 1, 5, "z"), row(0, 1, 5, "a"), row(0, 1, 5, "m"), row(0, 1, 9, "q"));
    let all = [a.clone(), b.clone(), c.clone(), d.clone()];
    for batches in [vec![&all[..]], all.chunks(1).collect(), vec![&all[..3], &all[3..]]] {
        for descending in [false, true] {
            let best = if descending { vec!["q", "z", "a"] } else { vec!["z", "a", "m"] };
            assert_eq!(labels(RankTies::FirstArrival, descending, 3, &batches), best);
            assert_eq!(labels(RankTies::FirstArrival, descending, 1, &batches), best[..1]);
        }
        assert_eq!(labels(RankTies::LastArrival, false, 1, &batches), ["m"]);
        assert_eq!(labels(RankTies::LastArrival, true, 1, &batches), ["q"]);
        assert_eq!(labels(RankTies::Columns, false, 3, &batches), ["a", "m", "z"]);
    }
    // Rows of other windows and keys between them do not matter.
    let batches = [&[a, row(1, 1, 5, "x")][..], &[row(0, 2, 5, "y"), b, c]];
    assert_eq!(labels(RankTies::LastArrival, false, 1, &batches), ["m", "y", "x"]);
}
