//! The index against the filters themselves, random ones over random rows: nobody misses a row that he would keep.
//! Cannot catch: what is wrong in the filter's own evaluation.

use std::collections::BTreeSet;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{binary, col, in_list, is_null, like, lit, not};
use proptest::prelude::*;

use super::*;
use crate::expression::{Selection, select};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
        Field::new("b", DataType::Boolean, true),
    ])
}

/// All but divisions: by zero they do.
fn never_fails(expr: &Arc<dyn PhysicalExpr>) -> bool {
    !expr.to_string().contains('/')
}

fn any_predicate() -> impl Strategy<Value = Arc<dyn PhysicalExpr>> {
    let column = |name: &str| col(name, &schema()).unwrap();
    let comparison = prop::sample::select(vec![
        Operator::Eq,
        Operator::NotEq,
        Operator::Lt,
        Operator::LtEq,
        Operator::Gt,
        Operator::GtEq,
    ]);
    let value = prop_oneof![
        (0..6_i64).prop_map(move |k| (column("k"), lit(k))),
        "[ab]{0,2}".prop_map(move |s| (column("s"), lit(s))),
        prop::sample::select(vec![0.0, -0.0, 1.5, f64::NAN, f64::INFINITY])
            .prop_map(move |f| (column("f"), lit(f))),
        (0..6_i64).prop_map(move |k| {
            let twice = binary(column("k"), Operator::Multiply, lit(2_i64), &schema()).unwrap();
            (twice, lit(k))
        }),
        // Of some rows this is an error.
        (0..6_i64).prop_map(move |k| {
            let part = binary(lit(6_i64), Operator::Divide, column("k"), &schema()).unwrap();
            (part, lit(k))
        }),
    ];
    let compared = (value, comparison, any::<bool>()).prop_map(|((of, value), op, swap)| {
        let (left, right) = if swap { (value, of) } else { (of, value) };
        binary(left, op, right, &schema()).unwrap()
    });
    let listed = (prop::collection::vec(0..6_i64, 1..4), any::<bool>()).prop_map(move |(keys, negated)| {
        let keys = keys.into_iter().map(lit).collect();
        in_list(column("k"), keys, &negated, &schema()).unwrap()
    });
    let prefixed = ("[ab%_]{0,3}", any::<bool>()).prop_map(move |(pattern, negated)| {
        like(negated, false, column("s"), lit(pattern), &schema()).unwrap()
    });
    let others = prop_oneof![
        Just(is_null(column("s")).unwrap()),
        Just(column("b")),
        Just(not(column("b")).unwrap()),
        Just(lit(true)),
    ];
    let leaf = prop_oneof![4 => compared, 1 => listed, 1 => prefixed, 1 => others];
    leaf.prop_recursive(3, 12, 2, |inner| {
        (inner.clone(), inner, any::<bool>()).prop_map(|(left, right, both)| {
            binary(left, if both { Operator::And } else { Operator::Or }, right, &schema()).unwrap()
        })
    })
}

prop_compose! {
    fn any_rows()(rows in prop::collection::vec(
        (
            prop::option::weighted(0.9, 0..6_i64),
            prop::option::weighted(0.9, "[ab]{0,3}"),
            prop::option::weighted(0.9, prop::sample::select(vec![0.0, -0.0, 1.5, f64::NAN, -2.0])),
            prop::option::weighted(0.9, any::<bool>()),
        ),
        0..12,
    )) -> RecordBatch {
        let k: Int64Array = rows.iter().map(|row| row.0).collect();
        let s: StringArray = rows.iter().map(|row| row.1.clone()).collect();
        let f: Float64Array = rows.iter().map(|row| row.2).collect();
        let b: BooleanArray = rows.iter().map(|row| row.3).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(k), Arc::new(s), Arc::new(f), Arc::new(b)];
        RecordBatch::try_new(Arc::new(schema()), columns).unwrap()
    }
}

/// Rows that a predicate keeps, by itself; `None` if a row makes it fail.
fn kept(predicate: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Option<BTreeSet<u32>> {
    let count = rows.num_rows() as u32;
    Some(match select(predicate, rows).ok()? {
        Selection::All => (0..count).collect(),
        Selection::Nothing => BTreeSet::new(),
        Selection::Some(mask) => (0..count).filter(|&row| mask.value(row as usize)).collect(),
    })
}

proptest! {
    #[test]
    fn nobody_misses_a_row_that_its_filter_keeps(
        predicates in prop::collection::vec(any_predicate(), 1..8),
        batches in prop::collection::vec(any_rows(), 1..4),
        leaves in prop::collection::vec(any::<bool>(), 8),
    ) {
        let mut index = RowIndex::default();
        let accesses: Vec<Option<Access>> =
            predicates.iter().map(|predicate| Access::of(predicate, &schema(), &never_fails)).collect();
        for (member, access) in accesses.iter().enumerate() {
            access.iter().for_each(|access| index.join(member as u32, access));
        }
        let mut chosen = Vec::new();
        for (half, rows) in batches.iter().enumerate() {
            if half == batches.len() / 2 {
                for (member, access) in accesses.iter().enumerate().filter(|(member, _)| leaves[*member]) {
                    access.iter().for_each(|access| index.leave(member as u32, access));
                }
            }
            let has_left = |member: usize| half >= batches.len() / 2 && leaves[member];
            index.choose(rows, &mut chosen);
            prop_assert!(chosen.is_sorted() && chosen.windows(2).all(|pair| pair[0] != pair[1]));
            for (member, predicate) in predicates.iter().enumerate() {
                let got: BTreeSet<u32> =
                    chosen.iter().filter(|pair| pair.0 == member as u32).map(|pair| pair.1).collect();
                if accesses[member].is_none() || has_left(member) {
                    prop_assert!(got.is_empty());
                } else if let Some(kept) = kept(predicate, rows) {
                    prop_assert!(kept.is_subset(&got), "{predicate}: {kept:?} of {got:?}");
                    let is_exact = accesses[member].as_ref().is_some_and(Access::is_exact);
                    prop_assert!(!is_exact || kept == got, "{predicate}: {kept:?}, not {got:?}");
                }
            }
        }
    }
}

#[test]
fn what_can_be_looked_up_is_and_by_its_best_part() {
    let column = |name: &str| col(name, &schema()).unwrap();
    let by = |predicate: &Arc<dyn PhysicalExpr>| {
        let access = Access::of(predicate, &schema(), &never_fails)?;
        Some(access.expressions().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    };
    let compare = |left, op, right| binary(left, op, right, &schema()).unwrap();
    let equal = compare(column("s"), Operator::Eq, lit("a"));
    let above = compare(column("k"), Operator::Gt, lit(1_i64));
    let below = compare(column("k"), Operator::Lt, lit(5_i64));
    assert_eq!(by(&compare(above.clone(), Operator::And, equal.clone())).unwrap(), "s@1, k@0");
    assert_eq!(by(&compare(above.clone(), Operator::Or, equal.clone())).unwrap(), "k@0, s@1");
    assert_eq!(by(&compare(above.clone(), Operator::And, below.clone())).unwrap(), "k@0");
    // Nothing that keeps about half of the rows, that is another value each time, or that is no value at all.
    assert_eq!(by(&column("b")), None);
    assert_eq!(by(&is_null(column("s")).unwrap()), None);
    assert_eq!(by(&compare(equal.clone(), Operator::Or, column("b"))), None);
    assert_eq!(by(&compare(column("k"), Operator::NotEq, lit(1_i64))), None);
    assert_eq!(by(&compare(column("k"), Operator::Eq, lit(ScalarValue::Int64(None)))), None);
}

#[test]
fn each_gets_its_rows_and_no_others() {
    let rows = RecordBatch::try_new(
        Arc::new(schema()),
        vec![
            Arc::new(Int64Array::from(vec![Some(1), Some(7), None, Some(1)])),
            Arc::new(StringArray::from(vec!["ab", "b", "abc", "a"])),
            Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5, 3.5])),
            Arc::new(BooleanArray::from(vec![true; 4])),
        ],
    )
    .unwrap();
    let column = |name: &str| col(name, &schema()).unwrap();
    let compare = |left, op, right| binary(left, op, right, &schema()).unwrap();
    let filters = [
        compare(column("k"), Operator::Eq, lit(1_i64)),
        like(false, false, column("s"), lit("ab%"), &schema()).unwrap(),
        compare(
            compare(column("f"), Operator::GtEq, lit(1.0)),
            Operator::And,
            compare(lit(3.0), Operator::Gt, column("f")),
        ),
        compare(column("k"), Operator::Eq, lit(9_i64)),
    ];
    let mut index = RowIndex::default();
    for (member, filter) in filters.iter().enumerate() {
        index.join(member as u32, &Access::of(filter, &schema(), &never_fails).unwrap());
    }
    // Who has no filter gets all of them at once.
    index.join(4, &Access::to_every_row());
    let mut chosen = Vec::new();
    index.choose(&rows, &mut chosen);
    let told_apart = [(0, 0), (0, 3), (1, 0), (1, 2), (2, 1), (2, 2)];
    assert_eq!(chosen, [&told_apart[..], &[(4, SharedSource::EVERY_ROW)]].concat());
    index.choose(&rows.slice(0, 0), &mut chosen);
    assert!(chosen.is_empty());
    index.leave(4, &Access::to_every_row());
    index.choose(&rows, &mut chosen);
    assert_eq!(chosen, told_apart);
}

#[test]
fn the_part_that_lets_the_fewest_through_finds_the_rows() {
    let column = |name: &str| col(name, &schema()).unwrap();
    let compare = |left, op, right| binary(left, op, right, &schema()).unwrap();
    // By its form an equality keeps fewer than a range. Here every row is equal, and one in a hundred is in the range.
    let equal = compare(column("s"), Operator::Eq, lit("a"));
    let above = compare(column("k"), Operator::Gt, lit(98_i64));
    let filter = compare(equal, Operator::And, above);
    let access = Access::of(&filter, &schema(), &never_fails).unwrap();
    assert!(access.is_exact());
    let mut index = RowIndex::default();
    index.join(3, &access);
    let batch = |first: i64, word: &str| {
        let k: Int64Array = (first..first + 100).map(Some).collect();
        let s: StringArray = (0..100).map(|_| Some(word)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(k),
            Arc::new(s),
            Arc::new(Float64Array::from(vec![0.0; 100])),
            Arc::new(BooleanArray::from(vec![true; 100])),
        ];
        RecordBatch::try_new(Arc::new(schema()), columns).unwrap()
    };
    let by = |index: &RowIndex| {
        index.by_key.iter().map(|by_key| by_key.expression.to_string()).collect::<Vec<_>>()
    };
    let mut chosen = Vec::new();
    for _ in 0..3 {
        assert_eq!(by(&index), ["s@1"]);
        index.choose(&batch(0, "a"), &mut chosen);
        assert_eq!(chosen, [(3, 99)]);
    }
    assert_eq!(by(&index), ["k@0"], "one row in a hundred is found, not each");
    // The stream changes: now all are in the range, and none is equal.
    for _ in 0..10 {
        index.choose(&batch(100, "b"), &mut chosen);
        assert_eq!(chosen, []);
    }
    assert_eq!(
        by(&index),
        ["k@0"],
        "all were equal when that was looked at, which is believed for some time"
    );
    for _ in 0..3 * 64 {
        index.choose(&batch(100, "b"), &mut chosen);
    }
    assert_eq!(by(&index), ["s@1"]);
    index.leave(3, &access);
    assert!(index.by_key.is_empty() && index.conjunctions.is_empty());
}

#[test]
fn what_is_computed_finds_the_rows_where_it_lets_fewer_through() {
    let column = |name: &str| col(name, &schema()).unwrap();
    let compare = |left, op, right| binary(left, op, right, &schema()).unwrap();
    let equal = compare(column("s"), Operator::Eq, lit("a"));
    let rest = compare(column("k"), Operator::Modulo, lit(100_i64));
    let filter = compare(equal, Operator::And, compare(rest, Operator::Eq, lit(7_i64)));
    let may_fail = Access::of(&filter, &schema(), &|_| false).unwrap();
    assert!(!may_fail.is_exact());
    let access = Access::of(&filter, &schema(), &never_fails).unwrap();
    assert!(access.is_exact());
    let mut index = RowIndex::default();
    index.join(3, &access);
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..400).map(Some).collect::<Int64Array>()),
        Arc::new((0..400).map(|row| Some(if row < 300 { "a" } else { "b" })).collect::<StringArray>()),
        Arc::new(Float64Array::from(vec![0.0; 400])),
        Arc::new(BooleanArray::from(vec![true; 400])),
    ];
    let rows = RecordBatch::try_new(Arc::new(schema()), columns).unwrap();
    let mut chosen = Vec::new();
    for by in ["s@1", "k@0 % 100", "k@0 % 100"] {
        assert_eq!(index.by_key[0].expression.to_string(), by);
        index.choose(&rows, &mut chosen);
        assert_eq!(chosen, [(3, 7), (3, 107), (3, 207)]);
    }
}
