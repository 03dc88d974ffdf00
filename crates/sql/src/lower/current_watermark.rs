//! `CURRENT_WATERMARK(t)`, which no expression over a row can answer: an operator behind the source adds it as a
//! column. Elsewhere it is refused.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use laxity_operators::CurrentWatermarkSpec;

use super::relation::{OpenStage, Output, Relation, Role, Slot, column_of};
use super::{Lowered, Lowering, chained, unsupported};
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::functions::CURRENT_WATERMARK;

/// Whether a plan asks for it anywhere.
pub(super) fn is_asked_for(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closures never fail.
    let _ = plan.apply_with_subqueries(|node| {
        let _ = node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= matches!(expr, Expr::ScalarFunction(call) if call.func.name() == CURRENT_WATERMARK);
                Ok(TreeNodeRecursion::Continue)
            })
        });
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// The call that an expression is, with the column it asks about.
fn call_of(expr: &Arc<dyn PhysicalExpr>) -> Option<Option<usize>> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == CURRENT_WATERMARK)?;
    Some(call.args().first().and_then(column_of))
}

/// Refuses it where nothing computes it.
pub(super) fn refuse(expr: &Arc<dyn PhysicalExpr>) -> Lowered<()> {
    let is_call = expr.exists(|expr| Ok(call_of(expr).is_some()));
    match is_call.unwrap_or(false) {
        true => Err(unsupported("CURRENT_WATERMARK is not supported here")
            .hint("compute it in a subquery: SELECT …, CURRENT_WATERMARK(ts) AS w FROM t")),
        false => Ok(()),
    }
}

impl Lowering<'_> {
    /// The expressions, over the relation's logical columns, with a column in place of `CURRENT_WATERMARK(time)`: the last
    /// of the relation that is given back. Without such a call all is as it was.
    pub(super) fn with_watermark(
        &mut self,
        relation: Relation,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Lowered<(Relation, Vec<Arc<dyn PhysicalExpr>>)> {
        let mut asked = None;
        for expr in &exprs {
            // The closure never fails.
            let _ = expr.apply(|node| {
                asked = asked.or(call_of(node));
                Ok(TreeNodeRecursion::Continue)
            });
        }
        let Some(asked) = asked else { return Ok((relation, exprs)) };
        let time = asked.and_then(|column| match relation.outputs[column] {
            Output { role: Role::EventTime, slot: Slot::Column(column) } => Some(column),
            _ => None,
        });
        let Some(time) = time else {
            let message = "CURRENT_WATERMARK takes an event time, as it is in its table";
            return Err(Fault::new(SqlErrorKind::Invalid, NOWHERE, message).hint(
                "declare WATERMARK FOR ts AS ts - INTERVAL '5' SECOND in CREATE TABLE, and give it ts",
            ));
        };
        if !matches!(relation.open.stage, OpenStage::Source(..)) {
            return Err(unsupported(
                "CURRENT_WATERMARK is known beside the rows of a table, and not behind windows, joins, OVER or UNION ALL",
            )
            .hint("compute it in a view of the table, and carry the column on"));
        }
        let mut relation = relation.apply_filter().map_err(|error| self.planner.fault(error))?;
        let spec = CurrentWatermarkSpec {
            name: "CurrentWatermark".into(),
            input_schema: Arc::clone(&relation.schema),
            data_type: relation.schema.field(time).data_type().clone(),
        };
        let column = relation.schema.fields().len();
        relation.schema = spec.output_schema();
        chained(&mut relation.open, "CurrentWatermark", None, spec.factory());
        let logical = relation.outputs.len();
        relation.outputs.push(Output { slot: Slot::Column(column), role: Role::Plain });
        let replaced = exprs.into_iter().map(|expr| {
            let replaced = expr.transform_up(|node| {
                Ok(match call_of(&node) {
                    Some(_) => {
                        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("__watermark", logical));
                        Transformed::yes(column)
                    }
                    None => Transformed::no(node),
                })
            });
            replaced.map(|replaced| replaced.data).map_err(|error| self.planner.fault(error))
        });
        let replaced = replaced.collect::<Lowered<Vec<_>>>()?;
        Ok((relation, replaced))
    }
}
