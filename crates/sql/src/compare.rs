//! Comparisons of FLOATs and DOUBLEs as Java's operators do them: NaN is not equal to anything, nor less or
//! greater, and -0 is equal to 0. Arrow orders all values instead.

use arrow::datatypes::DataType;
use datafusion_common::DFSchema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};
use laxity_operators::FloatComparison;

/// A comparison as Java makes it. `None` if it is not one of floats.
pub(crate) fn of_floats(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    comparison(expr, schema, false)
}

/// The same by `Double.compare`, as Flink compares decimals with floats: NaN is the largest, and -0 less than 0.
pub(crate) fn in_order_of_floats(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    comparison(expr, schema, true)
}

fn comparison(expr: &Expr, schema: &DFSchema, ordered: bool) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let is_float = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
    if !is_float(left) || !is_float(right) {
        return None;
    }
    let common = match (left.get_type(schema), right.get_type(schema)) {
        (Ok(left), Ok(right)) if left == right => left,
        _ => DataType::Float64,
    };
    let side = |side: &Expr| match side.get_type(schema) {
        Ok(given) if given == common => side.clone(),
        _ => cast(side.clone(), common.clone()),
    };
    Some(FloatComparison::function(*op, ordered)?.call(vec![side(left), side(right)]))
}

/// The same for the equality of columns that turned out not to be the keys of a join. What a decimal is compared with is left alone:
/// Flink compares such in the order that Arrow has.
pub(crate) fn float_columns_compared(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let is_column = |side: &Expr| match side {
        Expr::Column(_) => true,
        Expr::Cast(cast) => {
            matches!(cast.expr.as_ref(), Expr::Column(_))
                && !matches!(cast.expr.get_type(schema), Ok(DataType::Decimal128(..)))
        }
        _ => false,
    };
    if *op == Operator::Eq && is_column(left) && is_column(right) && left != right {
        of_floats(expr, schema)
    } else {
        None
    }
}
