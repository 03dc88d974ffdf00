//! Filters and projections on rows written by hand: NULL as SQL has it, which row and which part of an expression is
//! blamed, and watermarks that stay with their rows.

use arrow::array::{BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Field};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::expressions::{binary, col, lit};

use super::*;
use crate::Emitted;
use crate::drive::{Sent, Step, drive, texts};

/// Two columns of the same name, to see that columns are told apart by position.
fn schema() -> SchemaRef {
    let time = Field::new("v", DataType::Int64, true).with_metadata([("rowtime".into(), "".into())].into());
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Int64, true),
        time,
        Field::new("b", DataType::Boolean, true),
    ]))
}

fn rows() -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(Int64Array::from(vec![Some(10), None, Some(30)])),
        Arc::new(Int64Array::from(vec![7, 8, 9])),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn column(index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema().field(index).name(), index))
}

fn compare(index: usize, op: BinaryOperator, value: i64) -> Arc<dyn PhysicalExpr> {
    binary(column(index), op, lit(value), &schema()).unwrap()
}

fn calc(
    predicate: Option<Arc<dyn PhysicalExpr>>,
    projection: Vec<(Arc<dyn PhysicalExpr>, String)>,
) -> CalcSpec {
    CalcSpec { name: "Calc".into(), input_schema: schema(), predicate, projection, output_schema: None }
}

fn run(spec: &CalcSpec) -> Vec<String> {
    let mut operator = Calc::new(spec).unwrap();
    drive(&mut operator, vec![Step::Batch(StreamBatch::on_time(rows()), ProcessingTime::ZERO)], 0).rows()
}

#[test]
fn filters_keep_what_is_true_and_not_what_is_unknown() {
    let filter = |predicate| run(&CalcSpec::filter("Filter", schema(), predicate));
    assert_eq!(filter(compare(0, BinaryOperator::GtEq, 2)), ["2|-|8|-", "3|30|9|false"]);
    assert_eq!(filter(compare(1, BinaryOperator::Gt, 0)), ["1|10|7|true", "3|30|9|false"]);
    assert_eq!(filter(compare(0, BinaryOperator::Gt, 0)).len(), 3);
    assert_eq!(filter(compare(0, BinaryOperator::Gt, 5)).len(), 0);
    assert_eq!(filter(column(3)), ["1|10|7|true"]);
    assert_eq!(filter(lit(true)).len(), 3);
    assert_eq!(filter(lit(ScalarValue::Boolean(None))).len(), 0);
}

#[test]
fn projections_compute_over_the_filtered_rows_only() {
    // 6 / (k - 2) fails for k = 2, which the filter takes out.
    let divisor = compare(0, BinaryOperator::Minus, 2);
    let quotient = binary(lit(6i64), BinaryOperator::Divide, divisor, &schema()).unwrap();
    let projection = vec![
        (column(2), "time".into()),
        (quotient.clone(), "q".into()),
        (lit("x"), "c".into()),
        (column(2), "again".into()),
    ];
    let spec = calc(Some(compare(0, BinaryOperator::NotEq, 2)), projection.clone());
    assert_eq!(run(&spec), ["7|-6|x|7", "9|6|x|9"]);

    let mut unfiltered = Calc::new(&calc(None, projection)).unwrap();
    let batch = StreamBatch::on_time(rows());
    let error = unfiltered.on_batch(0, batch, ProcessingTime::ZERO, &mut Outbox::default()).unwrap_err();
    let OperatorError::Expression(fault) = &error else { panic!("{error}") };
    assert_eq!(fault.call, "/");
    assert_eq!(fault.leaves, ["6", "k", "2"]);
    // The second row is the first that fails, and what is divided by stands first.
    let told = "Calc: Divide by zero in 6 / (k - 2); the row has k = 2, v = NULL, v = 8, b = NULL";
    assert_eq!(error.to_string(), told);
}

#[test]
fn a_part_of_a_case_that_is_not_reached_is_not_blamed() {
    let quotient = |by: i64| {
        let divisor = compare(0, BinaryOperator::Minus, by);
        binary(lit(6i64), BinaryOperator::Divide, divisor, &schema()).unwrap()
    };
    // For k = 2 the first branch would fail, and is not taken; the second is taken for k = 3, where it fails.
    let guarded = vec![
        (compare(0, BinaryOperator::Lt, 2), quotient(2)),
        (compare(0, BinaryOperator::Eq, 3), quotient(3)),
    ];
    let case = datafusion_physical_expr::expressions::case(None, guarded, Some(lit(0i64))).unwrap();
    let mut calc = Calc::new(&calc(None, vec![(case, "q".into())])).unwrap();
    let batch = StreamBatch::on_time(rows());
    let error = calc.on_batch(0, batch, ProcessingTime::ZERO, &mut Outbox::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Calc: Divide by zero in 6 / (k - 3); the row has k = 3, v = 30, v = 9, b = false"
    );
}

#[test]
fn columns_passed_through_keep_their_metadata() {
    let spec = calc(None, vec![(column(2), "t".into()), (compare(0, BinaryOperator::Plus, 1), "k1".into())]);
    let schema = spec.output_schema().unwrap();
    assert_eq!(schema.field(0).name(), "t");
    assert!(schema.field(0).metadata().contains_key("rowtime"));
    assert!(!schema.field(1).is_nullable());
}

#[test]
fn the_watermark_before_each_row_stays_with_it() {
    let mut operator =
        Calc::new(&CalcSpec::filter("Filter", schema(), compare(0, BinaryOperator::NotEq, 2))).unwrap();
    let batch = StreamBatch { rows: rows(), watermark_before: Some(vec![70, 80, 90].into()) };
    let mut out = Outbox::default();
    let _ = operator.on_batch(0, batch, ProcessingTime::ZERO, &mut out).unwrap();
    match &out.emitted[..] {
        [Emitted::Batch { batch, ingested: None, window_end: None }] => {
            assert_eq!(texts(&batch.rows), ["1|10|7|true", "3|30|9|false"]);
            assert_eq!(batch.watermark_before.as_deref().unwrap(), &[70, 90]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn watermarks_and_empty_batches_pass() {
    let mut operator = Calc::new(&CalcSpec::filter("Filter", schema(), column(3))).unwrap();
    let empty = StreamBatch::on_time(RecordBatch::new_empty(schema()));
    let steps = vec![Step::Batch(empty, ProcessingTime::ZERO), Step::Watermark(5), Step::Watermark(i64::MAX)];
    assert_eq!(drive(&mut operator, steps, 0).emitted, [Sent::Watermark(5), Sent::Watermark(i64::MAX)]);
    // A column that does not exist is refused when the operator is made.
    let unknown = calc(
        None,
        vec![(col("k", &schema()).unwrap(), "k".into()), (Arc::new(Column::new("z", 9)), "z".into())],
    );
    assert!(Calc::new(&unknown).is_err());
}
