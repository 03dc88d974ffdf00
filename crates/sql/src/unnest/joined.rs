//! UNNEST in a plan: the join that DataFusion's planner makes of it becomes one operator over the left side.

use arrow::datatypes::FieldRef;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, Result, TableReference};
use datafusion_expr::{Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection};

use super::{Unnest, as_unnest};

/// A plan in which what is joined with an UNNEST stands below it, and nothing refers to another query's columns.
///
/// The planner has `left JOIN (SELECT … FROM UNNEST(outer column))`; this is the same by one operator for each row of
/// `left`, without a join.
pub(crate) fn with_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let transformed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
        Ok(match unnested(join)? {
            Some(plan) => Transformed::yes(plan),
            None => Transformed::no(node),
        })
    })?;
    Ok(transformed.data)
}

fn unnested(join: &Join) -> Result<Option<LogicalPlan>> {
    let keeps_empty = join.join_type == JoinType::Left;
    let Some(below) = Below::of(&join.right, &join.left, keeps_empty)? else { return Ok(None) };
    let columns = below.columns.into_iter().zip(join.right.schema().iter());
    let elements = columns.map(|(column, (table, field))| {
        Expr::Column(column).alias_qualified(table.cloned(), field.name().clone())
    });
    let mut plan =
        LogicalPlanBuilder::from(below.plan).project(columns_of(join.left.schema()).chain(elements))?;
    let keys = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    // A LEFT JOIN has none but TRUE.
    for condition in keys.chain(join.filter.clone()).filter(|_| !keeps_empty) {
        plan = plan.filter(condition)?;
    }
    plan.build().map(Some)
}

/// The right side of a join, put above its left side.
struct Below {
    plan: LogicalPlan,
    /// What the columns of the right side are in `plan`.
    columns: Vec<Column>,
    /// Projections on the way, for the names of their columns.
    depth: usize,
}

impl Below {
    /// `None` if the side is no UNNEST.
    fn of(side: &LogicalPlan, left: &LogicalPlan, keeps_empty: bool) -> Result<Option<Below>> {
        match side {
            LogicalPlan::SubqueryAlias(alias) => Below::of(&alias.input, left, keeps_empty),
            LogicalPlan::Subquery(subquery) => Below::of(&subquery.subquery, left, keeps_empty),
            LogicalPlan::Extension(extension) => match as_unnest(extension) {
                Some(unnest) if matches!(unnest.input, LogicalPlan::EmptyRelation(_)) => {
                    let collection = with_left(unnest.collection.clone())?;
                    let node = Unnest::new(
                        left.clone(),
                        collection,
                        unnest.with_ordinality,
                        keeps_empty,
                        unnest.at,
                    )?;
                    let table = Unnest::qualifier(unnest.at);
                    let column = |field: &FieldRef| Column::new(Some(table.clone()), field.name());
                    let columns = node.elements().iter().map(column).collect();
                    Ok(Some(Below { plan: node.into_plan(), columns, depth: 0 }))
                }
                _ => Ok(None),
            },
            LogicalPlan::Projection(projection) => {
                let below = Below::of(&projection.input, left, keeps_empty)?;
                below.map(|below| below.project(projection, left)).transpose()
            }
            LogicalPlan::Filter(filter) => {
                let below = Below::of(&filter.input, left, keeps_empty)?;
                below.map(|below| below.filter(filter)).transpose()
            }
            _ => Ok(None),
        }
    }

    fn project(self, projection: &Projection, left: &LogicalPlan) -> Result<Below> {
        let schema = projection.input.schema();
        let exprs = projection.expr.iter().map(|expr| self.mapped(expr.clone().unalias(), schema));
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let plain = |expr: &Expr| if let Expr::Column(column) = expr { Some(column.clone()) } else { None };
        if let Some(columns) = exprs.iter().map(plain).collect() {
            return Ok(Below { columns, ..self });
        }
        let depth = self.depth + 1;
        let table = TableReference::bare(format!("__lateral_{depth}"));
        let names = (0..exprs.len()).map(|at| format!("c{at}"));
        let columns: Vec<_> = names.map(|name| Column::new(Some(table.clone()), name)).collect();
        let computed = exprs.into_iter().zip(&columns);
        let computed = computed.map(|(expr, column)| expr.alias_qualified(Some(table.clone()), &column.name));
        let plan = LogicalPlanBuilder::from(self.plan)
            .project(columns_of(left.schema()).chain(computed))?
            .build()?;
        Ok(Below { plan, columns, depth })
    }

    fn filter(self, filter: &Filter) -> Result<Below> {
        let predicate = self.mapped(filter.predicate.clone(), filter.input.schema())?;
        let plan = LogicalPlanBuilder::from(self.plan).filter(predicate)?.build()?;
        Ok(Below { plan, ..self })
    }

    /// An expression of the right side over the columns of `plan`.
    fn mapped(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        let mapped = expr.transform_up(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let index = schema.index_of_column(column)?;
            Ok(Transformed::yes(Expr::Column(self.columns[index].clone())))
        })?;
        with_left(mapped.data)
    }
}

/// What refers to the left side as another query refers to it as the input.
fn with_left(expr: Expr) -> Result<Expr> {
    let plain = expr.transform_up(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::no(other),
        })
    })?;
    Ok(plain.data)
}

fn columns_of(schema: &DFSchema) -> impl Iterator<Item = Expr> {
    schema.columns().into_iter().map(Expr::Column)
}
