//! Types of operators and their operands as Flink has them, put in as casts before the planner finds its own.
//!
//! Left to itself the planner computes a DOUBLE beside a decimal literal as a DECIMAL, which holds neither 1e15
//! nor NaN, and divides decimals with its own scale.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Between, Case, InList, ScalarFunction};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};

use crate::functions::{
    self, ARRAY, DECIMAL_ADD, DECIMAL_DIVIDE, DECIMAL_MULTIPLY, DECIMAL_SUBTRACT, MAP, decimal_type,
};
use crate::{aggregates, compare, named_cast};

/// Gives a plan Flink's types, from its inputs up. Runs before types are coerced; every column keeps its name.
pub(crate) fn with_flink_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let transformed = plan.transform_up_with_subqueries(|node| {
        let node = with_operands(node.recompute_schema()?)?;
        Ok(Transformed::yes(match node {
            LogicalPlan::Aggregate(aggregate) => aggregates::with_flink_form(aggregate)?,
            LogicalPlan::Window(window) => aggregates::with_flink_form_over(window)?,
            other => other,
        }))
    })?;
    Ok(transformed.data)
}

fn with_operands(node: LogicalPlan) -> Result<LogicalPlan> {
    let mut schema = DFSchema::empty();
    for input in node.inputs() {
        schema.merge(input.schema());
    }
    let preserver = NamePreserver::new(&node);
    let mut changed = false;
    let mapped = node.map_expressions(|expr| {
        let name = preserver.save(&expr);
        let rewritten = typed(expr, &schema)?;
        changed |= rewritten.transformed;
        Ok(rewritten.update_data(|data| name.restore(data)))
    })?;
    if changed { mapped.data.recompute_schema() } else { Ok(mapped.data) }
}

/// An expression over these columns with Flink's types in it.
fn typed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        Ok(match expr {
            Expr::BinaryExpr(binary) => with_binary_types(binary, schema)?,
            Expr::Between(Between { expr, negated, low, high }) => {
                let above = floats_compared(&expr, Operator::GtEq, &low, schema);
                let below = floats_compared(&expr, Operator::LtEq, &high, schema);
                if above.is_some() || below.is_some() {
                    let compare = |op: Operator, bound: &Expr, found: Option<Expr>| match found {
                        Some(found) => Ok(Transformed::yes(found)),
                        None => with_binary_types(
                            BinaryExpr { left: expr.clone(), op, right: Box::new(bound.clone()) },
                            schema,
                        ),
                    };
                    let above = compare(Operator::GtEq, &low, above)?.data;
                    let below = compare(Operator::LtEq, &high, below)?.data;
                    let inside = above.and(below);
                    return Ok(Transformed::yes(if negated { !inside } else { inside }));
                }
                let (exprs, changed) = compared([*expr, *low, *high].into(), schema);
                let [expr, low, high] = exprs.try_into().expect("three went in");
                let between = Between { expr: expr.into(), negated, low: low.into(), high: high.into() };
                Transformed::new_transformed(Expr::Between(between), changed)
            }
            Expr::InList(InList { expr, list, negated }) => {
                let all = std::iter::once(*expr).chain(list).collect();
                let (mut all, changed) = compared(all, schema);
                let list = all.split_off(1);
                let expr = all.remove(0).into();
                Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), changed)
            }
            Expr::Case(case) => with_case_types(case, schema),
            Expr::ScalarFunction(ScalarFunction { func, args })
                if ["coalesce", "greatest", "least", ARRAY].contains(&func.name()) =>
            {
                let (mut args, mut changed) = alike(args, schema, Common::Widest);
                if func.name() == ARRAY {
                    changed |= type_nulls(&mut args, schema);
                }
                let call = ScalarFunction { func, args };
                Transformed::new_transformed(Expr::ScalarFunction(call), changed)
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == MAP => {
                let (keys, changed_keys) =
                    alike(args.iter().step_by(2).cloned().collect(), schema, Common::Widest);
                let (values, changed_values) =
                    alike(args.into_iter().skip(1).step_by(2).collect(), schema, Common::Widest);
                let args = keys.into_iter().zip(values).flat_map(|(key, value)| [key, value]).collect();
                let call = ScalarFunction { func, args };
                Transformed::new_transformed(Expr::ScalarFunction(call), changed_keys || changed_values)
            }
            Expr::ScalarFunction(call) => match named_cast::as_cast(&call) {
                Some(cast) => {
                    functions::check_cast(&cast, schema)?;
                    Transformed::yes(cast)
                }
                None => Transformed::no(Expr::ScalarFunction(call)),
            },
            other => Transformed::no(other),
        })
    })
}

fn with_case_types(case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (whens, thens): (Vec<Expr>, Vec<Expr>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let count = thens.len();
    let (mut results, changed_results) =
        alike(thens.into_iter().chain(else_expr.map(|expr| *expr)).collect(), schema, Common::First);
    let otherwise = results.split_off(count).pop().map(Box::new);
    let (operand, whens, changed_whens) = match expr {
        None => (None, whens, false),
        Some(operand)
            if whens.iter().any(|when| floats_compared(&operand, Operator::Eq, when, schema).is_some()) =>
        {
            let equal = |when: Expr| {
                floats_compared(&operand, Operator::Eq, &when, schema).unwrap_or_else(|| {
                    let (sides, _) = compared(vec![operand.as_ref().clone(), when], schema);
                    let [left, right] = sides.try_into().expect("two went in");
                    left.eq(right)
                })
            };
            (None, whens.into_iter().map(equal).collect(), true)
        }
        Some(operand) => {
            let (mut all, changed) = compared(std::iter::once(*operand).chain(whens).collect(), schema);
            let whens = all.split_off(1);
            (all.pop().map(Box::new), whens, changed)
        }
    };
    let branches = whens.into_iter().zip(results).map(|(when, then)| (Box::new(when), Box::new(then)));
    let case = Case { expr: operand, when_then_expr: branches.collect(), else_expr: otherwise };
    Transformed::new_transformed(Expr::Case(case), changed_results || changed_whens)
}

fn with_binary_types(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    use Operator::{
        Divide, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, Modulo, Multiply,
    };
    use Operator::{NotEq, Plus};
    let BinaryExpr { left, op, right } = binary;
    match op {
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => {
            if let Some(expr) = floats_compared(&left, op, &right, schema) {
                return Ok(Transformed::yes(expr));
            }
            let (sides, changed) = compared([*left, *right].into(), schema);
            let [left, right] = sides.try_into().expect("two went in");
            let expr = Expr::BinaryExpr(BinaryExpr { left: left.into(), op, right: right.into() });
            // A decimal beside a float: by their order, in which every NaN is the largest. An equality may be the key
            // of a join.
            if changed
                && op != Eq
                && let Some(ordered) = compare::in_order_of_floats(&expr, schema)
            {
                return Ok(Transformed::yes(ordered));
            }
            Ok(Transformed::new_transformed(expr, changed))
        }
        Plus | Minus | Multiply | Divide | Modulo => arithmetic(*left, op, *right, schema),
        _ => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
    }
}

fn arithmetic(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let build = |left: Expr, right: Expr| {
        Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
    };
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(Transformed::no(build(left, right)));
    };
    let both = [&left_type, &right_type];
    if !both.iter().any(|given| is_decimal(given)) {
        // Calcite takes the first of FLOAT and DOUBLE, which are equally precise to it.
        if left_type == DataType::Float32 && right_type == DataType::Float64 {
            return Ok(Transformed::yes(build(left, cast(right, left_type))));
        }
        let whole = both.iter().all(|given| exact_numeric(given).is_some());
        if op == Operator::Modulo && whole && left_type != right_type {
            return Ok(Transformed::yes(cast(build(left, right), right_type)));
        }
        return Ok(Transformed::no(build(left, right)));
    }
    if both.iter().any(|given| is_float(given)) {
        return Ok(Transformed::yes(build(as_double(left, &left_type), as_double(right, &right_type))));
    }
    let (Some(l), Some(r)) = (exact_numeric(&left_type), exact_numeric(&right_type)) else {
        return Ok(Transformed::no(build(left, right)));
    };
    let to_decimal = |expr: Expr, given: &DataType, (precision, scale): (u8, i8)| {
        if is_decimal(given) { expr } else { cast(expr, DataType::Decimal128(precision, scale)) }
    };
    let (left, right) = (to_decimal(left, &left_type, l), to_decimal(right, &right_type, r));
    // The planner's own operators are as good, and faster, where no digit can be lost.
    let own = match op {
        Operator::Divide => Some(DECIMAL_DIVIDE),
        Operator::Multiply if !decimal_type::product_fits(l, r) => Some(DECIMAL_MULTIPLY),
        Operator::Plus if !decimal_type::sum_fits(l, r) => Some(DECIMAL_ADD),
        Operator::Minus if !decimal_type::sum_fits(l, r) => Some(DECIMAL_SUBTRACT),
        _ => None,
    };
    Ok(match own {
        Some(name) => Transformed::yes(functions::own(name).call(vec![left, right])),
        None => Transformed::yes(build(left, right)),
    })
}

/// A comparison of a FLOAT or DOUBLE with a number that is no decimal, as Java makes it. `None` for others, and for
/// the equality of columns, which may be the key of a join: those that are not are seen to after optimisation.
fn floats_compared(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let types = [left.get_type(schema).ok()?, right.get_type(schema).ok()?];
    let number = |given: &DataType| is_float(given) || (exact_numeric(given).is_some() && !is_decimal(given));
    let key = op == Operator::Eq && [left, right].iter().all(|side| matches!(side, Expr::Column(_)));
    // What is compared with itself is equal, NaN or not: Calcite does not look.
    if !types.iter().any(is_float) || !types.iter().all(number) || key || left == right {
        return None;
    }
    let common = if types.contains(&DataType::Float64) { DataType::Float64 } else { DataType::Float32 };
    let side = |expr: &Expr, given: &DataType| {
        if *given == common { expr.clone() } else { cast(expr.clone(), common.clone()) }
    };
    let (left, right) = (Box::new(side(left, &types[0])), Box::new(side(right, &types[1])));
    compare::of_floats(&Expr::BinaryExpr(BinaryExpr { left, op, right }), schema)
}

/// Expressions that are compared with each other. Decimals beside a FLOAT or DOUBLE become DOUBLE; what else
/// there is, the planner coerces as Flink does.
fn compared(exprs: Vec<Expr>, schema: &DFSchema) -> (Vec<Expr>, bool) {
    let types: Vec<_> = exprs.iter().map(|expr| expr.get_type(schema).unwrap_or(DataType::Null)).collect();
    if !(types.iter().any(is_float) && types.iter().any(is_decimal)) {
        return (exprs, false);
    }
    let each =
        |(expr, given): (Expr, &DataType)| if is_decimal(given) { as_double(expr, given) } else { expr };
    (exprs.into_iter().zip(&types).map(each).collect(), true)
}

/// Expressions one of which is the result: numbers get their common type.
fn alike(exprs: Vec<Expr>, schema: &DFSchema, rule: Common) -> (Vec<Expr>, bool) {
    let types: Option<Vec<_>> = exprs.iter().map(|expr| expr.get_type(schema).ok()).collect();
    let Some(types) = types else { return (exprs, false) };
    let Some(common) = common_number(&types, rule) else { return (exprs, false) };
    let mut changed = false;
    let each = |(expr, given): (Expr, &DataType)| {
        if *given == common || *given == DataType::Null {
            return expr;
        }
        changed = true;
        if common == DataType::Float64 { as_double(expr, given) } else { cast(expr, common.clone()) }
    };
    (exprs.into_iter().zip(&types).map(each).collect(), changed)
}

/// Gives NULL literals the type of the first that has one. True if there were any.
fn type_nulls(exprs: &mut [Expr], schema: &DFSchema) -> bool {
    let types: Vec<_> = exprs.iter().map(|expr| expr.get_type(schema).unwrap_or(DataType::Null)).collect();
    let Some(known) = types.iter().find(|given| **given != DataType::Null) else { return false };
    let mut changed = false;
    for (expr, _) in exprs.iter_mut().zip(&types).filter(|(_, given)| **given == DataType::Null) {
        *expr = cast(expr.clone(), known.clone());
        changed = true;
    }
    changed
}

/// How FLOAT and DOUBLE have a common type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Common {
    /// The first of them: Calcite's `leastRestrictive`, where a decimal makes a DOUBLE.
    First,
    /// The more precise one: Flink's own, where a decimal makes a DOUBLE behind a FLOAT and nothing before it.
    Widest,
}

/// The type that holds numbers of all these types. `None` if they are the same, or one of them is no number.
fn common_number(types: &[DataType], rule: Common) -> Option<DataType> {
    let mut numbers = types.iter().filter(|given| **given != DataType::Null);
    let first = numbers.next()?;
    if numbers.clone().all(|other| other == first) {
        return None;
    }
    let all = || types.iter().filter(|given| **given != DataType::Null);
    if !all().all(|given| is_float(given) || exact_numeric(given).is_some()) {
        return None;
    }
    let decimal = all().any(is_decimal);
    if all().any(is_float) {
        if rule == Common::First {
            let first = all().find(|given| is_float(given)).cloned();
            return if decimal { Some(DataType::Float64) } else { first };
        }
        let first = all().position(is_float)?;
        let behind = || all().skip(first);
        let double = behind().any(|given| *given == DataType::Float64 || is_decimal(given));
        return Some(if double { DataType::Float64 } else { DataType::Float32 });
    }
    if decimal {
        let parts = || all().filter_map(exact_numeric);
        let scale = parts().map(|(_, scale)| scale).max()?;
        let whole = parts().map(|(precision, scale)| precision as i8 - scale).max()?;
        let precision = whole.min(38 - scale) + scale;
        return Some(DataType::Decimal128(precision as u8, scale));
    }
    let widest = all().max_by_key(|given| exact_numeric(given).map(|(precision, _)| precision))?;
    Some(widest.clone())
}

fn is_float(given: &DataType) -> bool {
    matches!(given, DataType::Float32 | DataType::Float64)
}

fn is_decimal(given: &DataType) -> bool {
    matches!(given, DataType::Decimal128(..))
}

/// Precision and scale of a whole number or decimal, as Flink counts them.
fn exact_numeric(given: &DataType) -> Option<(u8, i8)> {
    Some(match given {
        DataType::Int8 => (3, 0),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::Decimal128(precision, scale) => (*precision, *scale),
        _ => return None,
    })
}

/// A number as DOUBLE. A literal is read from its digits, which rounds once.
fn as_double(expr: Expr, given: &DataType) -> Expr {
    let written = match &expr {
        Expr::Cast(cast) if cast.field.data_type() == given => cast.expr.as_ref(),
        other => other,
    };
    if let (Expr::Literal(ScalarValue::Decimal128(Some(digits), _, scale), _), DataType::Decimal128(_, kept)) =
        (written, given)
        && scale <= kept
        && let Ok(value) = format!("{digits}e-{scale}").parse::<f64>()
    {
        return lit(value);
    }
    if *given == DataType::Float64 { expr } else { cast(expr, DataType::Float64) }
}
