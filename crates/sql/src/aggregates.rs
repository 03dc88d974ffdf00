use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, Projection, binary_expr, cast, lit,
};
use datafusion_functions_aggregate::{approx_distinct, average, count, min_max, stddev, sum, variance};

use crate::functions;

/// Aggregates of Flink, lower case.
pub(crate) const NAMES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "stddev_pop",
    "stddev_samp",
    "stddev",
    "var_pop",
    "var_samp",
    "variance",
    "approx_count_distinct",
    "approx_distinct",
];

/// The aggregate of that lower-case name.
pub(crate) fn by_name(name: &str) -> Option<Arc<AggregateUDF>> {
    Some(match name {
        "count" => count::count_udaf(),
        "sum" => sum::sum_udaf(),
        "avg" => average::avg_udaf(),
        "min" => min_max::min_udaf(),
        "max" => min_max::max_udaf(),
        "stddev_pop" => stddev::stddev_pop_udaf(),
        "stddev_samp" | "stddev" => stddev::stddev_udaf(),
        "var_pop" => variance::var_pop_udaf(),
        "var_samp" | "variance" => variance::var_samp_udaf(),
        "approx_count_distinct" | "approx_distinct" => approx_distinct::approx_distinct_udaf(),
        _ => return None,
    })
}

/// Gives aggregates the types and rounding they have in Flink, where DataFusion's differ: SUM of a small integer
/// stays small (and wraps), AVG of an integer is an integer, decimals keep Flink's scale.
///
/// Runs before types are coerced. Each aggregation keeps its output names, so that what is above still fits.
pub(crate) fn with_flink_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let transformed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else {
            return Ok(Transformed::yes(node.recompute_schema()?));
        };
        let input_schema = Arc::clone(aggregate.input.schema());
        let mut computed: Vec<Expr> = Vec::new();
        let mut finals = Vec::new();
        // A key that is written twice is one column.
        let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
        let mut changed = false;
        for (index, original) in aggregate.aggr_expr.iter().enumerate() {
            let (qualifier, field) = aggregate.schema.qualified_field(keys + index);
            let replaced = flink_form(original, &input_schema, &mut |part| {
                let name = part.schema_name().to_string();
                if !computed.contains(&part) {
                    computed.push(part);
                }
                Expr::Column(Column::new_unqualified(name))
            })?;
            changed |= !matches!(&replaced, Expr::Column(_));
            finals.push(replaced.alias_qualified(qualifier.cloned(), field.name()));
        }
        if !changed {
            return Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)));
        }
        let group_columns: Vec<Expr> =
            (0..keys).map(|key| Expr::Column(Column::from(aggregate.schema.qualified_field(key)))).collect();
        let inner = Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr, computed)?;
        let outer = Projection::try_new(
            group_columns.into_iter().chain(finals).collect(),
            Arc::new(LogicalPlan::Aggregate(inner)),
        )?;
        Ok(Transformed::yes(LogicalPlan::Projection(outer)))
    })?;
    Ok(transformed.data)
}

/// The aggregate as an expression over what `part` keeps and names.
fn flink_form(original: &Expr, input: &DFSchema, part: &mut impl FnMut(Expr) -> Expr) -> Result<Expr> {
    let Expr::AggregateFunction(function) = original.clone().unalias() else {
        return Ok(part(original.clone()));
    };
    let name = function.func.name().to_string();
    let Some(argument) = function.params.args.first().cloned() else {
        return Ok(part(original.clone()));
    };
    let given = argument.get_type(input)?;
    let with = |udaf: Arc<AggregateUDF>, argument: Expr| {
        let params = AggregateFunctionParams { args: vec![argument], ..function.params.clone() };
        Expr::AggregateFunction(AggregateFunction { func: udaf, params })
    };
    Ok(match (name.as_str(), &given) {
        ("sum", DataType::Int8 | DataType::Int16 | DataType::Int32) => {
            narrowed(part(original.clone()), &given)
        }
        ("sum", DataType::Float32) => cast(part(original.clone()), DataType::Float32),
        ("sum", DataType::Decimal128(_, scale)) => {
            let wide = DataType::Decimal128(38, *scale);
            cast(part(with(sum::sum_udaf(), cast(argument, wide.clone()))), wide)
        }
        ("avg", DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            let total = part(with(sum::sum_udaf(), argument.clone()));
            let rows = part(with(count::count_udaf(), argument));
            let quotient = binary_expr(total, datafusion_expr::Operator::Divide, rows);
            if given == DataType::Int64 { cast(quotient, given) } else { narrowed(quotient, &given) }
        }
        ("avg", DataType::Float32) => {
            cast(part(with(average::avg_udaf(), cast(argument, DataType::Float64))), DataType::Float32)
        }
        ("avg", DataType::Decimal128(_, scale)) => {
            // Flink: DECIMAL(38, max(6, s)). DataFusion averages with four more digits than it is given.
            let result = DataType::Decimal128(38, (*scale).max(6));
            let argument = cast(argument, DataType::Decimal128(34, (*scale).max(6)));
            cast(part(with(average::avg_udaf(), argument)), result)
        }
        (
            "stddev_pop" | "stddev" | "var_pop" | "var",
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64,
        ) => {
            // Flink derives the result's type from the argument's, so these are whole numbers there too.
            cast(part(original.clone()), given)
        }
        ("approx_distinct", DataType::Float32 | DataType::Float64) => {
            // DataFusion has no sketch of floats. Adding zero makes -0 and 0 one.
            let unsigned_zero = binary_expr(argument, datafusion_expr::Operator::Plus, lit(0.0));
            let text = cast(unsigned_zero, DataType::Utf8);
            cast(part(with(approx_distinct::approx_distinct_udaf(), text)), DataType::Int64)
        }
        ("approx_distinct", _) => cast(part(original.clone()), DataType::Int64),
        _ => part(original.clone()),
    })
}

fn narrowed(expr: Expr, to: &DataType) -> Expr {
    let name = match to {
        DataType::Int8 => "flink_narrow_8",
        DataType::Int16 => "flink_narrow_16",
        _ => "flink_narrow_32",
    };
    functions::own(name).call(vec![expr])
}
