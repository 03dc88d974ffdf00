//! Aggregate functions: types and rounding of Flink, put into the plan before DataFusion gives them its own.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{
    AggregateFunction, AggregateFunctionParams, WindowFunction, WindowFunctionParams,
};
use datafusion_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Window,
    WindowFunctionDefinition, binary_expr, cast, lit, when,
};
use datafusion_functions_aggregate::{approx_distinct, average, count, min_max, stddev, sum, variance};

use crate::approximate::ERROR_OF_DISTINCT;
use crate::functions::{self, DECIMAL_DIVIDE, DECIMAL_MULTIPLY, DECIMAL_SUBTRACT};

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
    "first_value",
    "last_value",
    "listagg",
    "array_agg",
    "collect",
    "percentile",
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
        _ => return functions::gathered(name).or_else(|| crate::approximate::by_name(name)),
    })
}

/// Gives aggregates the types and rounding they have in Flink, where DataFusion's differ: SUM of a small integer
/// stays small (and wraps), AVG of an integer is an integer, decimals keep Flink's scale.
///
/// Runs before types are coerced. The output keeps its names, so that what is above still fits. What comes out is
/// left as it is by a second run: a view is planned again within the query that reads it.
pub(crate) fn with_flink_form(aggregate: Aggregate) -> Result<LogicalPlan> {
    let input_schema = Arc::clone(aggregate.input.schema());
    let mut computed = Computed::default();
    let mut finals = Vec::new();
    // A key that is written twice is one column.
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let mut changed = false;
    for (index, original) in aggregate.aggr_expr.iter().enumerate() {
        let (qualifier, field) = aggregate.schema.qualified_field(keys + index);
        let replaced = flink_form(original, &input_schema, &mut |part| computed.column(part))?;
        changed |= !matches!(&replaced, Expr::Column(_));
        finals.push(replaced.alias_qualified(qualifier.cloned(), field.name()));
    }
    if !changed {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let group_columns: Vec<Expr> =
        (0..keys).map(|key| Expr::Column(Column::from(aggregate.schema.qualified_field(key)))).collect();
    let inner = Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr, computed.named())?;
    let outer = Projection::try_new(
        group_columns.into_iter().chain(finals).collect(),
        Arc::new(LogicalPlan::Aggregate(inner)),
    )?;
    Ok(LogicalPlan::Projection(outer))
}

/// The same for aggregates with OVER. Ranks stay as they are.
pub(crate) fn with_flink_form_over(window: Window) -> Result<LogicalPlan> {
    let input_schema = Arc::clone(window.input.schema());
    let width = input_schema.fields().len();
    let mut computed = Computed::default();
    let mut finals = Vec::new();
    let mut changed = false;
    for (index, original) in window.window_expr.iter().enumerate() {
        let (qualifier, field) = window.schema.qualified_field(width + index);
        let Expr::WindowFunction(function) = original.clone().unalias() else {
            return Ok(LogicalPlan::Window(window));
        };
        let WindowFunctionDefinition::AggregateUDF(udaf) = &function.fun else {
            return Ok(LogicalPlan::Window(window));
        };
        let WindowFunctionParams { args, filter, null_treatment, distinct, .. } = function.params.clone();
        let aggregate =
            AggregateFunction::new_udf(Arc::clone(udaf), args, distinct, filter, vec![], null_treatment);
        let over = |part: Expr| match part {
            Expr::AggregateFunction(AggregateFunction { func, params }) => {
                let params = WindowFunctionParams { args: params.args, ..function.params.clone() };
                let fun = WindowFunctionDefinition::AggregateUDF(func);
                Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
            }
            other => other,
        };
        let mut column = |part: Expr| computed.column(over(part));
        let replaced = flink_form(&Expr::AggregateFunction(aggregate), &input_schema, &mut column)?;
        changed |= !matches!(&replaced, Expr::Column(_));
        finals.push(replaced.alias_qualified(qualifier.cloned(), field.name()));
    }
    if !changed {
        return Ok(LogicalPlan::Window(window));
    }
    let columns = (0..width).map(|i| Expr::Column(Column::from(window.schema.qualified_field(i))));
    let inner = Window::try_new(computed.named(), Arc::clone(&window.input))?;
    let outer = Projection::try_new(columns.chain(finals).collect(), Arc::new(LogicalPlan::Window(inner)))?;
    Ok(LogicalPlan::Projection(outer))
}

/// Parts that several aggregates are made of, each computed once.
#[derive(Default)]
struct Computed(Vec<(Expr, String)>);

impl Computed {
    /// The column that a part will be.
    fn column(&mut self, part: Expr) -> Expr {
        let known = self.0.iter().find(|(expr, _)| *expr == part).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| {
            // A CAST has its argument's name, so that different parts may be called the same.
            let mut name = part.schema_name().to_string();
            while self.0.iter().any(|(_, taken)| *taken == name) {
                name.push('\'');
            }
            self.0.push((part, name.clone()));
            name
        });
        Expr::Column(Column::new_unqualified(name))
    }

    fn named(self) -> Vec<Expr> {
        let name = |(part, name): (Expr, String)| {
            let own_name = part.schema_name().to_string();
            if own_name == name { part } else { part.alias(name) }
        };
        self.0.into_iter().map(name).collect()
    }
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
        // As a BIGINT, which a second run leaves alone, and which AVG shares.
        ("sum", DataType::Int8 | DataType::Int16 | DataType::Int32) => {
            cast(part(with(sum::sum_udaf(), cast(argument, DataType::Int64))), given)
        }
        ("sum", DataType::Float32) => cast(part(original.clone()), given),
        ("sum", DataType::Decimal128(_, scale)) => {
            let wide = DataType::Decimal128(38, *scale);
            cast(part(with(sum::sum_udaf(), cast(argument, wide.clone()))), wide)
        }
        ("avg", DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            let total = part(with(sum::sum_udaf(), cast(argument.clone(), DataType::Int64)));
            let rows = part(with(count::count_udaf(), argument));
            cast(binary_expr(total, Operator::Divide, rows), given)
        }
        ("avg", DataType::Float32) => {
            cast(part(with(average::avg_udaf(), cast(argument, DataType::Float64))), DataType::Float32)
        }
        ("avg", DataType::Decimal128(_, scale)) => {
            let wide = DataType::Decimal128(38, *scale);
            let total = part(with(sum::sum_udaf(), cast(argument.clone(), wide.clone())));
            let rows = part(with(count::count_udaf(), argument));
            let quotient = functions::own(DECIMAL_DIVIDE).call(vec![cast(total, wide), cast(rows, BIGINT)]);
            cast(quotient, average_type(*scale))
        }
        (
            "stddev_pop" | "stddev" | "var_pop" | "var",
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64,
        ) => {
            // Flink derives the result's type from the argument's, so these are whole numbers there too.
            cast(part(original.clone()), given)
        }
        ("stddev_pop" | "stddev" | "var_pop" | "var", DataType::Float32) => {
            cast(part(original.clone()), DataType::Float32)
        }
        ("stddev_pop" | "stddev" | "var_pop" | "var", DataType::Decimal128(_, scale)) => {
            let result = average_type(*scale);
            let value = cast(argument.clone(), result.clone());
            let square = functions::own(DECIMAL_MULTIPLY).call(vec![value.clone(), value.clone()]);
            let sum_of = |of: Expr| with(sum::sum_udaf(), of);
            let squares = part(sum_of(square));
            let total = cast(part(sum_of(value)), result.clone());
            let rows = part(with(count::count_udaf(), argument));
            let variance = decimal_variance(squares, total, rows, name.ends_with("_pop"));
            let computed = match name.starts_with("stddev") {
                true => functions::own("sqrt").call(vec![cast(variance, DataType::Float64)]),
                false => variance,
            };
            cast(computed, result)
        }
        ("approx_distinct", DataType::Float32 | DataType::Float64) => {
            // DataFusion has no sketch of floats. Adding zero makes -0 and 0 one.
            let unsigned_zero = binary_expr(argument, Operator::Plus, lit(0.0));
            let text = cast(unsigned_zero, DataType::Utf8);
            cast(part(with(approx_distinct::approx_distinct_udaf(), text)), DataType::Int64)
        }
        (ERROR_OF_DISTINCT, DataType::Float32 | DataType::Float64) => {
            let text = cast(binary_expr(argument, Operator::Plus, lit(0.0)), DataType::Utf8);
            part(with(Arc::clone(&function.func), text))
        }
        ("approx_distinct", _) => cast(part(original.clone()), DataType::Int64),
        _ => part(original.clone()),
    })
}

const BIGINT: DataType = DataType::Decimal128(19, 0);

/// Type of AVG, VARIANCE and STDDEV of a decimal.
fn average_type(scale: i8) -> DataType {
    DataType::Decimal128(38, scale.max(6))
}

/// `(Σx² − (Σx)² / n) / n`, or `/ (n − 1)` for a sample: as Flink computes it, with the digits it keeps on the way.
fn decimal_variance(squares: Expr, total: Expr, rows: Expr, population: bool) -> Expr {
    let divide = |a: Expr, b: Expr| functions::own(DECIMAL_DIVIDE).call(vec![a, cast(b, BIGINT)]);
    let squared_total = functions::own(DECIMAL_MULTIPLY).call(vec![total.clone(), total]);
    let difference =
        functions::own(DECIMAL_SUBTRACT).call(vec![squares, divide(squared_total, rows.clone())]);
    if population {
        return divide(difference, rows);
    }
    let none = lit(ScalarValue::Int64(None));
    let one_less = when(rows.clone().eq(lit(1_i64)), none).otherwise(rows - lit(1_i64));
    divide(difference, one_less.expect("a CASE of two branches is complete"))
}
