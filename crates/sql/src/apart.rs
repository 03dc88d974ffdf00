//! Why what a query aggregates is not aggregated once with the same rows of others, for EXPLAIN to tell.

use datafusion_common::DFSchema;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};
use laxity_graph::RowErrors;
use laxity_operators::WindowKind;

use crate::settings::SessionSettings;
use crate::template::{can_be_as_one, cannot_fail, has_no_offset, kept_apart};
use crate::window_function::as_window_function;

/// Whether windows of a query can be aggregated with those of others.
#[derive(Debug)]
pub(crate) enum Windows {
    /// It aggregates nothing.
    None,
    /// They could, with others that are alike.
    Shareable,
    /// They cannot: what keeps them apart, to follow "as".
    Apart(String),
}

impl Windows {
    /// Of a query that is planned so.
    pub fn of(plan: &LogicalPlan, settings: &SessionSettings) -> Windows {
        let mut aggregates = 0;
        // The closure never fails.
        let _ = plan.apply(|node| {
            aggregates += usize::from(matches!(node, LogicalPlan::Aggregate(_)));
            Ok(TreeNodeRecursion::Continue)
        });
        if aggregates == 0 {
            return Windows::None;
        }
        let of_plan = || by_plan(plan).or_else(|| (aggregates > 1).then(|| TWICE.to_owned()));
        match by_settings(settings).map(str::to_owned).or_else(of_plan) {
            Some(why) => Windows::Apart(why),
            None => Windows::Shareable,
        }
    }

    /// The same of one that is not done as one with any other, whoever reads its table.
    #[must_use]
    pub fn without_template(self, plan: &LogicalPlan) -> Windows {
        match self {
            Windows::Shareable => Windows::Apart(may_fail(plan).unwrap_or_else(|| FILTERED.to_owned())),
            other => other,
        }
    }
}

const TWICE: &str = "it aggregates what it has aggregated";
const FILTERED: &str = "its filter has parts that rows cannot be looked up by";

fn by_settings(settings: &SessionSettings) -> Option<&'static str> {
    if !settings.share {
        return Some("'laxity.share' is off");
    }
    let of_slices = [
        (settings.allowed_lateness_ms > 0, "its windows take late rows"),
        (settings.row_errors == RowErrors::DeadLetter, "rows that fail are its own dead letters"),
        (settings.approximate.promise().is_some(), "its results are approximate"),
    ];
    let of_slices = of_slices.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason));
    kept_apart(settings).or(of_slices)
}

fn by_plan(plan: &LogicalPlan) -> Option<String> {
    let mut reason = None;
    // The closure never fails.
    let _ = plan.apply(|node| {
        reason = match node {
            node if !can_be_as_one(node) => Some("it does more than aggregate rows of one table".to_owned()),
            LogicalPlan::Aggregate(aggregate) => {
                aggregate.aggr_expr.iter().find_map(|call| by_call(call, aggregate.input.schema()))
            }
            LogicalPlan::Extension(extension) => {
                as_window_function(extension).ok().and_then(|function| by_window(function.kind))
            }
            _ => None,
        };
        Ok(if reason.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    reason
}

/// What may have no value for a row, which would be an error of all.
fn may_fail(plan: &LogicalPlan) -> Option<String> {
    let mut failing = None;
    // The closures never fail.
    let _ = plan.apply(|node| {
        let _ = node.apply_expressions(|expr| {
            if failing.is_none() && !cannot_fail(expr, node) {
                failing = Some(format!("{} may fail for a row", expr.clone().unalias()));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        Ok(TreeNodeRecursion::Continue)
    });
    failing
}

fn by_window(kind: WindowKind) -> Option<String> {
    match kind {
        WindowKind::Session { .. } => Some("sessions end by their own rows".to_owned()),
        kind if !has_no_offset(kind.shape()) => Some("its windows have an offset".to_owned()),
        _ => None,
    }
}

/// What cannot be put together of slices.
fn by_call(call: &Expr, schema: &DFSchema) -> Option<String> {
    let Expr::AggregateFunction(call) = call.clone().unalias() else { return None };
    let name = call.func.name().to_uppercase();
    if call.params.distinct {
        return Some(format!("{name}(DISTINCT …) needs all values of a window"));
    }
    let is_of_floats =
        || call.params.args.iter().any(|of| of.get_type(schema).is_ok_and(|of| of.is_floating()));
    match call.func.name() {
        "count" | "min" | "max" => None,
        "sum" | "avg" if is_of_floats() => Some(format!("{name} of floats depends on the order of rows")),
        "sum" | "avg" => None,
        _ => Some(format!("{name} is not put together of slices")),
    }
}
