//! Expressions over a few rows against DataFusion's own evaluation: values, NULLs, types and errors.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{Field, SchemaRef};
use datafusion_common::DataFusionError;
use datafusion_physical_expr::expressions::{binary, cast, col, is_not_null, is_null, lit, not};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::expression::{Expression, Predicate, explained};

fn schema() -> SchemaRef {
    let fields = [
        ("a", DataType::Int64),
        ("b", DataType::Int64),
        ("i", DataType::Int32),
        ("h", DataType::Int16),
        ("x", DataType::Float64),
        ("y", DataType::Float64),
        ("s", DataType::Utf8),
        ("d", DataType::Date32),
        ("p", DataType::Boolean),
    ];
    Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

type Row = (Option<i64>, Option<i64>, Option<f64>, Option<f64>, Option<bool>);

fn any_row() -> impl Strategy<Value = Row> {
    let number = || proptest::option::weighted(0.85, select(vec![0, 1, -1, 2, 7, i64::MAX, i64::MIN]));
    let float = || {
        let floats = vec![0.0, -0.0, 1.0, -1.5, f64::NAN, f64::INFINITY, 1e308];
        proptest::option::weighted(0.85, select(floats))
    };
    (number(), number(), float(), float(), proptest::option::weighted(0.85, any::<bool>()))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.0.map(|n| n as i32)).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|r| r.1.map(|n| n as i16)).collect::<Int16Array>()),
        Arc::new(rows.iter().map(|r| r.2).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.3).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.0.map(|n| n.to_string())).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.1.map(|n| n as i32)).collect::<Date32Array>()),
        Arc::new(rows.iter().map(|r| r.4).collect::<BooleanArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

type Expr = Arc<dyn PhysicalExpr>;

fn numbers(leaves: Vec<Expr>, cast_to: Option<DataType>) -> BoxedStrategy<Expr> {
    let operators =
        vec![Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo];
    let leaf = select(leaves).prop_map(move |leaf| match &cast_to {
        Some(to) => cast(leaf, &schema(), to.clone()).unwrap(),
        None => leaf,
    });
    leaf.prop_recursive(2, 6, 2, move |inner| {
        (inner.clone(), select(operators.clone()), inner)
            .prop_map(|(left, operator, right)| binary(left, operator, right, &schema()).unwrap())
    })
    .boxed()
}

fn columns(names: &[&str]) -> Vec<Expr> {
    names.iter().map(|name| col(name, &schema()).unwrap()).collect()
}

fn with(mut leaves: Vec<Expr>, constants: Vec<ScalarValue>) -> Vec<Expr> {
    leaves.extend(constants.into_iter().map(lit));
    leaves
}

/// Numbers of one type each.
fn any_number() -> BoxedStrategy<Expr> {
    let longs = with(columns(&["a", "b"]), [0, 3, -1].map(|n| ScalarValue::Int64(Some(n))).to_vec());
    let ints = with(columns(&["i"]), vec![ScalarValue::Int32(Some(1 << 20)), ScalarValue::Int32(None)]);
    let floats = with(columns(&["x", "y"]), vec![ScalarValue::Float64(Some(-0.0))]);
    prop_oneof![
        numbers(longs, None),
        numbers(ints, None),
        numbers(columns(&["h"]), None),
        numbers(columns(&["h", "i", "a"]), Some(DataType::Int64)),
        numbers(columns(&["i", "a"]), Some(DataType::Float64)),
        numbers(floats, None),
    ]
    .boxed()
}

fn any_boolean() -> BoxedStrategy<Expr> {
    let comparisons = || {
        select(vec![
            Operator::Eq,
            Operator::NotEq,
            Operator::Lt,
            Operator::LtEq,
            Operator::Gt,
            Operator::GtEq,
        ])
    };
    let same_type = prop_oneof![
        (any_number(), any_number()),
        (select(columns(&["s"])), select(with(columns(&["s"]), vec![ScalarValue::from("1")]))),
        (select(columns(&["d"])), select(with(columns(&["d"]), vec![ScalarValue::Date32(Some(2))]))),
    ];
    let compared = (same_type, comparisons()).prop_filter_map("types differ", |((left, right), operator)| {
        let same = left.data_type(&schema()).unwrap() == right.data_type(&schema()).unwrap();
        same.then(|| binary(left, operator, right, &schema()).unwrap())
    });
    let floats =
        with(columns(&["x", "y"]), vec![ScalarValue::Float64(Some(-0.0)), ScalarValue::Float64(None)]);
    let floats_compared =
        (numbers(floats.clone(), None), numbers(floats, None), comparisons(), any::<bool>()).prop_map(
            |(left, right, operator, ordered)| {
                let function = Arc::new(FloatComparison::function(operator, ordered).unwrap());
                let call =
                    ScalarFunctionExpr::try_new(function, vec![left, right], &schema(), Arc::default());
                Arc::new(call.unwrap()) as Expr
            },
        );
    let tested = (any_number(), any::<bool>())
        .prop_map(|(of, is)| if is { is_null(of).unwrap() } else { is_not_null(of).unwrap() });
    let leaf = prop_oneof![3 => compared, 1 => floats_compared, 1 => tested, 1 => select(columns(&["p"]))];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|of| not(of).unwrap()),
            (inner.clone(), any::<bool>(), inner).prop_map(|(left, and, right)| {
                let operator = if and { Operator::And } else { Operator::Or };
                binary(left, operator, right, &schema()).unwrap()
            }),
        ]
    })
    .boxed()
}

/// Values as text; the sign of a NaN is nobody's promise.
fn texts(array: &ArrayRef) -> Vec<String> {
    let value = |row| format!("{:?}", ScalarValue::try_from_array(array, row).unwrap());
    (0..array.len()).map(value).collect()
}

fn reference(expr: &Expr, rows: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
    let value = expr.evaluate(rows).map_err(|error| explained(error, expr, rows))?;
    value.into_array(rows.num_rows())
}

#[test]
fn what_a_kernel_may_refuse_is_left_to_it() {
    let divided = binary(lit(1i64), Operator::Divide, col("a", &schema()).unwrap(), &schema()).unwrap();
    let few_rows = FewRows::new(&divided, &schema()).unwrap();
    let row = |a| batch(&[(Some(a), None, None, None, None)]);
    assert!(few_rows.evaluate(&row(2)).is_some());
    assert!(few_rows.evaluate(&row(0)).is_none());
    let checked: Expr = Arc::new(
        BinaryExpr::new(col("a", &schema()).unwrap(), Operator::Plus, lit(1i64)).with_fail_on_overflow(true),
    );
    assert!(FewRows::new(&checked, &schema()).is_none());
    let narrowed = cast(col("a", &schema()).unwrap(), &schema(), DataType::Int32).unwrap();
    assert!(FewRows::new(&narrowed, &schema()).is_none());
}

proptest! {
    #[test]
    fn numbers_are_datafusions(
        expr in any_number(), rows in proptest::collection::vec(any_row(), 1..=FEW_ROWS_MAX),
    ) {
        let rows = batch(&rows);
        let ours = Expression::over(&expr, &schema()).unwrap().evaluate(&rows);
        match (ours, reference(&expr, &rows)) {
            (Ok(ours), Ok(theirs)) => {
                prop_assert_eq!(ours.data_type(), theirs.data_type());
                prop_assert_eq!(texts(&ours), texts(&theirs));
            }
            (Err(ours), Err(theirs)) => prop_assert_eq!(ours.to_string(), theirs.to_string()),
            (ours, theirs) => prop_assert!(false, "{:?} but {:?}", ours, theirs),
        }
    }

    #[test]
    fn predicates_are_datafusions(
        expr in any_boolean(), rows in proptest::collection::vec(any_row(), 1..=FEW_ROWS_MAX),
    ) {
        let rows = batch(&rows);
        // Nothing here is beyond it, but for a row that fails.
        let few_rows = FewRows::new(&expr, &schema());
        prop_assert!(few_rows.is_some(), "{} is not prepared", expr);
        let fails = few_rows.is_some_and(|few_rows| few_rows.select(&rows).is_none());
        prop_assert!(!fails || expr.to_string().contains(['/', '%']), "{}", expr);
        match (Predicate::new(&expr, &schema()).select(&rows), super::super::select(&expr, &rows)) {
            (Ok(Selection::All), Ok(Selection::All)) | (Ok(Selection::Nothing), Ok(Selection::Nothing)) => {}
            (Ok(Selection::Some(ours)), Ok(Selection::Some(theirs))) => prop_assert_eq!(ours, theirs),
            (Err(ours), Err(theirs)) => prop_assert_eq!(ours.to_string(), theirs.to_string()),
            (ours, theirs) => prop_assert!(false, "{}: {:?} but {:?}", expr, ours, theirs),
        }
    }
}
