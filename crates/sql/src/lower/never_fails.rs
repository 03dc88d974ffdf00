//! Which expressions have a value for every row: those may be computed for rows that another filter drops.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use laxity_operators::FloatComparison;

use crate::functions::is_cast_to_number;
use crate::template::{is_positive, is_wider};

/// Whether this has a value for every row. Not all that have are known here.
pub(super) fn never_fails(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    expr.children().into_iter().all(|child| never_fails(child, input)) && adds_no_fault(expr, input)
}

/// The same of an expression whose operands have a value.
fn adds_no_fault(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> bool {
    let of_type = |of: &Arc<dyn PhysicalExpr>| of.data_type(input).ok();
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let are_numbers = || {
            [binary.left(), binary.right()]
                .iter()
                .all(|side| of_type(side).is_some_and(|of| of.is_integer() || of.is_floating()))
        };
        return match binary.op() {
            Operator::Plus | Operator::Minus | Operator::Multiply => are_numbers(),
            // By zero, and the least number by -1.
            Operator::Divide | Operator::Modulo => {
                let divisor = binary.right().downcast_ref::<Literal>();
                are_numbers() && divisor.is_some_and(|divisor| is_positive(divisor.value()))
            }
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq => true,
            op => op.is_logic_operator(),
        };
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return of_type(cast.expr()).is_some_and(|from| is_wider(&from, cast.cast_type()));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let are =
            |is: fn(&DataType) -> bool| call.args().iter().all(|of| of_type(of).is_some_and(|of| is(&of)));
        return is_field(expr)
            || call.fun().inner().downcast_ref::<FloatComparison>().is_some()
            || is_cast_to_number(call.fun()) && are(DataType::is_numeric)
            || matches!(call.fun().name(), "lower" | "upper") && are(DataType::is_string);
    }
    expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<LikeExpr>()
}

/// Whether this takes a field out of a row.
pub(super) fn is_field(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    call.is_some_and(|call| {
        call.fun().name() == "get_field" && call.args()[1..].iter().all(|name| name.is::<Literal>())
    })
}
