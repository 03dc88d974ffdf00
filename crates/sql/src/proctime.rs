//! `PROCTIME()` in a SELECT: no expression over a row, but a column of the table below, as if it had been declared there.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, Result};
use datafusion_expr::logical_plan::{Filter, Projection, SubqueryAlias, TableScan, TableScanBuilder};
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::catalog::{Source, Table, TableColumn};
use crate::data_type;
use crate::error::{Fault, SqlErrorKind};
use crate::functions::PROCTIME;
use crate::planning::fault_in_error;

/// Of the column that stands for it, where a table declares none itself.
const NAME: &str = "__proctime";

/// Columns of tables in place of all calls, the first of which stands `at`.
///
/// # Errors
/// If one stands where no table's rows are, or outside of a SELECT's list.
pub(crate) fn as_columns(plan: LogicalPlan, at: Location) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Projection(projection) if projection.expr.iter().any(calls) => {
            let (input, column) = with_column(Arc::unwrap_or_clone(projection.input), at)?;
            let exprs = projection.expr.into_iter().map(|expr| replaced(expr, &column));
            let exprs = exprs.collect::<Result<Vec<_>>>()?;
            let projection = Projection::try_new(exprs, Arc::new(input))?;
            Ok(Transformed::yes(LogicalPlan::Projection(projection)))
        }
        other if other.expressions().iter().any(calls) => Err(misplaced(at)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}

/// Whether an expression has a call.
pub(crate) fn calls(expr: &Expr) -> bool {
    // The closure never fails.
    expr.exists(|expr| Ok(is_call(expr))).unwrap_or(false)
}

fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == PROCTIME)
}

/// Names stay: a column without an alias would be called as the table's is.
fn replaced(expr: Expr, column: &Column) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let is_named = matches!(expr, Expr::Alias(_));
    let replaced = expr.transform_up(|expr| {
        Ok(match is_call(&expr) {
            true => Transformed::yes(Expr::Column(column.clone())),
            false => Transformed::no(expr),
        })
    })?;
    Ok(if replaced.transformed && !is_named { replaced.data.alias(name) } else { replaced.data })
}

/// The plan with a processing time among its columns, and that column.
fn with_column(plan: LogicalPlan, at: Location) -> Result<(LogicalPlan, Column)> {
    match plan {
        LogicalPlan::TableScan(scan) => scanned(scan, at),
        LogicalPlan::Filter(filter) => {
            let (input, column) = with_column(Arc::unwrap_or_clone(filter.input), at)?;
            Ok((LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?), column))
        }
        LogicalPlan::Projection(projection) => {
            let (input, column) = with_column(Arc::unwrap_or_clone(projection.input), at)?;
            let mut exprs = projection.expr;
            let there = exprs.iter().find_map(|expr| match expr {
                Expr::Column(own) if *own == column => Some(column.clone()),
                Expr::Alias(alias) if *alias.expr == Expr::Column(column.clone()) => {
                    Some(Column::new(alias.relation.clone(), &alias.name))
                }
                _ => None,
            });
            let column = there.unwrap_or_else(|| {
                exprs.push(Expr::Column(column.clone()));
                column
            });
            Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), column))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let (input, column) = with_column(Arc::unwrap_or_clone(alias.input), at)?;
            let column = Column::new(Some(alias.alias.clone()), column.name);
            Ok((LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias)?), column))
        }
        _ => Err(misplaced(at)),
    }
}

fn scanned(scan: TableScan, at: Location) -> Result<(LogicalPlan, Column)> {
    let Some(Source::Table(table)) = scan.source.downcast_ref::<Source>() else { return Err(misplaced(at)) };
    let own = table.columns.iter().position(|column| matches!(column, TableColumn::ProcessingTime));
    let name = own.map_or(NAME, |own| table.schema.field(own).name().as_str());
    let column = Column::new(Some(scan.table_name.clone()), name);
    if own.is_some() {
        return Ok((LogicalPlan::TableScan(scan), column));
    }
    let mut fields = table.schema.fields().to_vec();
    fields.push(Arc::new(Field::new(NAME, data_type::processing_time(), false)));
    let mut columns = table.columns.clone();
    columns.push(TableColumn::ProcessingTime);
    let table = Table { schema: Arc::new(Schema::new(fields)), columns, ..Table::clone(table) };
    let source = Arc::new(Source::Table(Arc::new(table)));
    let scan = TableScanBuilder::new(scan.table_name, source).build()?;
    Ok((LogicalPlan::TableScan(scan), column))
}

/// Why a call cannot be where it is.
pub(crate) fn misplaced(at: Location) -> datafusion_common::DataFusionError {
    let message = "PROCTIME() is known beside the rows of a table, in the list of a SELECT, and not behind windows, joins, OVER \
                   or UNION ALL";
    fault_in_error(Fault::new(SqlErrorKind::Unsupported, at, message).hint(
        "write it in a view of the table, SELECT *, PROCTIME() AS p FROM t, and use p; or use CURRENT_TIMESTAMP",
    ))
}
