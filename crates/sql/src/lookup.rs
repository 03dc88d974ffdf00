//! `JOIN dim FOR SYSTEM_TIME AS OF o.proctime`: the table as it is when a row of the stream is processed.

use std::sync::Arc;

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Column, JoinType, Result, TableReference};
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_sql::sqlparser::ast::{Expr as SqlExpr, Spanned, TableFactor, TableVersion};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::catalog::{Source, TableColumn};
use crate::error::{Fault, SqlErrorKind};
use crate::planning::fault_in_error;
use crate::unnest::as_unnest;
use crate::window_function::as_window_function;

const EXAMPLE: &str = "write FROM s JOIN dim FOR SYSTEM_TIME AS OF s.p AS d ON s.k = d.k, where p AS PROCTIME() is a \
                       column of s";

/// The time of which a table is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsOf {
    /// The processing time of the stream that it is joined with.
    pub time: Column,
    pub at: Location,
}

/// Plans tables with FOR SYSTEM_TIME AS OF.
#[derive(Debug)]
pub(crate) struct LookupPlanner;

impl RelationPlanner for LookupPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (name, alias, time) = match relation {
            TableFactor::Table {
                name,
                alias,
                args: None,
                version: Some(TableVersion::ForSystemTimeAsOf(time)),
                ..
            } => (name, alias, time),
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        let at = time.span().start;
        let column = match &time {
            SqlExpr::Identifier(column) => Column::new_unqualified(&column.value),
            SqlExpr::CompoundIdentifier(parts) if parts.len() == 2 => {
                // Not from a text, which would be brought to lower case.
                Column::new(Some(TableReference::bare(parts[0].value.as_str())), &parts[1].value)
            }
            _ => {
                let fault =
                    Fault::unsupported(time.span(), "FOR SYSTEM_TIME AS OF takes a column of the stream");
                return Err(fault_in_error(fault.hint(EXAMPLE)));
            }
        };
        let at_table = name.span();
        let reference = context.object_name_to_table_reference(name)?;
        let source = context.context_provider().get_table_source(reference.clone())?;
        let Some(Source::Table(table)) = source.downcast_ref::<Source>() else {
            let fault = Fault::unsupported(at_table, "rows can be looked up in a table alone, not in a view");
            return Err(fault_in_error(fault));
        };
        let source = Arc::new(Source::Lookup(Arc::clone(table), AsOf { time: column, at }));
        let scan = LogicalPlanBuilder::scan(reference, source, None)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(scan, alias))))
    }
}

/// Refuses tables with FOR SYSTEM_TIME AS OF that no stream looks rows up in.
pub(crate) fn check(plan: &LogicalPlan) -> std::result::Result<(), Box<Fault>> {
    let mut fault = None;
    let mut joined = 0;
    let mut scanned = Vec::new();
    // The closure never fails.
    let _ = plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Join(join) => {
                if let Some(as_of) = lookup_below(&join.right) {
                    joined += 1;
                    fault = fault.take().or(refusal(as_of, join.join_type, &join.left));
                }
            }
            LogicalPlan::TableScan(_) => scanned.extend(lookup_below(node).map(|as_of| as_of.at)),
            _ => {}
        }
        Ok(if fault.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    match (fault, scanned.last()) {
        (Some(fault), _) => Err(fault),
        (None, Some(at)) if scanned.len() > joined => Err(Fault::new(
            SqlErrorKind::Unsupported,
            *at,
            "FOR SYSTEM_TIME AS OF stands at the right side of a JOIN alone",
        )
        .hint(EXAMPLE)),
        _ => Ok(()),
    }
}

fn refusal(as_of: &AsOf, kind: JoinType, stream: &LogicalPlan) -> Option<Box<Fault>> {
    let fault = |message: String| Fault::new(SqlErrorKind::Unsupported, as_of.at, message);
    if !matches!(kind, JoinType::Inner | JoinType::Left) {
        return Some(
            fault(format!(
                "{} JOIN with FOR SYSTEM_TIME AS OF is not supported",
                kind.to_string().to_uppercase()
            ))
            .hint("only JOIN and LEFT JOIN ask the table for each row of the stream"),
        );
    }
    match stream.schema().maybe_index_of_column(&as_of.time) {
        None => {
            let message = format!("unknown column '{}' of the stream that is joined", as_of.time.flat_name());
            Some(Fault::new(SqlErrorKind::UnknownColumn, as_of.at, message).hint(EXAMPLE))
        }
        Some(index) if is_processing_time(stream, index) => None,
        Some(_) => Some(
            fault(format!(
                "'{}' is not a processing time: a table's past is not kept",
                as_of.time.flat_name()
            ))
            .hint(EXAMPLE),
        ),
    }
}

/// The lookup that a side of a join is, with nothing but filters and projections around it.
pub(crate) fn lookup_below(plan: &LogicalPlan) -> Option<&AsOf> {
    match plan {
        LogicalPlan::TableScan(scan) => match scan.source.downcast_ref::<Source>() {
            Some(Source::Lookup(_, as_of)) => Some(as_of),
            _ => None,
        },
        LogicalPlan::SubqueryAlias(alias) => lookup_below(&alias.input),
        LogicalPlan::Projection(projection) => lookup_below(&projection.input),
        LogicalPlan::Filter(filter) => lookup_below(&filter.input),
        _ => None,
    }
}

/// Whether a column of a plan is a `PROCTIME()` of a table, handed on as it is.
fn is_processing_time(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => match scan.source.downcast_ref::<Source>() {
            Some(Source::Table(table) | Source::Lookup(table, _)) => {
                let column = scan.projection.as_ref().map_or(Some(&column), |columns| columns.get(column));
                column.is_some_and(|column| matches!(table.columns[*column], TableColumn::ProcessingTime))
            }
            _ => false,
        },
        LogicalPlan::SubqueryAlias(alias) => is_processing_time(&alias.input, column),
        LogicalPlan::Filter(filter) => is_processing_time(&filter.input, column),
        LogicalPlan::Projection(projection) => match projection.expr[column].clone().unalias_nested().data {
            Expr::Column(source) => below(&projection.input, &source),
            _ => false,
        },
        LogicalPlan::Join(join) => match column.checked_sub(join.left.schema().fields().len()) {
            None => is_processing_time(&join.left, column),
            Some(column) => lookup_below(&join.right).is_none() && is_processing_time(&join.right, column),
        },
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| is_processing_time(input, column)),
        LogicalPlan::Window(window) => {
            column < window.input.schema().fields().len() && is_processing_time(&window.input, column)
        }
        LogicalPlan::Extension(extension) => {
            if let Some(unnest) = as_unnest(extension) {
                let width = unnest.input.schema().fields().len();
                return column < width && is_processing_time(&unnest.input, column);
            }
            let Ok(function) = as_window_function(extension) else { return false };
            let width = function.input.schema().fields().len();
            match column.checked_sub(width) {
                None => is_processing_time(&function.input, column),
                Some(2) => below(&function.input, &function.time),
                Some(_) => false,
            }
        }
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.get(column) {
            Some(Expr::Column(source)) => below(&aggregate.input, source),
            _ => false,
        },
        _ => false,
    }
}

fn below(plan: &LogicalPlan, column: &Column) -> bool {
    plan.schema().maybe_index_of_column(column).is_some_and(|index| is_processing_time(plan, index))
}
