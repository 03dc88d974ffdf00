//! ROW_NUMBER() as Top-N: the conditions around it say which ranks are kept. It is done within windows, where a rank
//! becomes final.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::WindowFunctionParams;
use datafusion_expr::utils::{conjunction, split_conjunction};
use datafusion_expr::{Between, BinaryExpr, Expr, Operator, Window};
use datafusion_physical_expr::PhysicalExpr;
use laxity_operators::{RankOrder, RankTies, WindowRankSpec};

use super::over::numbering;
use super::relation::{Open, OpenStage, Output, Relation, Role, Slot, column_of};
use super::{Lowered, Lowering, unsupported};

/// Ranks to keep, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ranks {
    from: u64,
    to: Option<u64>,
}

/// What stands in PARTITION BY: columns of the window's bounds, and keys over the logical columns.
struct Partition {
    window_start: usize,
    window_end: usize,
    keys: Vec<Arc<dyn PhysicalExpr>>,
}

impl Lowering<'_> {
    /// `ROW_NUMBER() OVER (…)` under a condition on it: Top-N, or deduplication where N is 1.
    pub(super) fn rank(&mut self, window: &Window, predicate: Option<&Expr>) -> Lowered<Relation> {
        let [expr] = window.window_expr.as_slice() else {
            return Err(
                unsupported("several ROW_NUMBER() in one query are not supported").hint("nest the queries")
            );
        };
        let Expr::WindowFunction(function) = expr.clone().unalias() else {
            return Err(unsupported("this OVER clause is not supported"));
        };
        let params = &function.params;
        let schema = window.input.schema();
        let rank_column = schema.fields().len();
        let (qualifier, field) = window.schema.qualified_field(rank_column);
        let rank_name = datafusion_common::Column::from((qualifier, field));

        let (ranks, residual) = Ranks::of(predicate, &rank_name);
        let mut input = self.relation(&window.input)?;
        input = self.expand(input)?;
        let Some(to) = ranks.to else {
            if self.is_by_time(params, schema, &input)? && predicate.is_none() {
                return self.over_input(input, &numbering(window, &function));
            }
            return Err(unsupported(
                "ROW_NUMBER() without a bound is not supported: every row would be kept",
            )
            .hint("put WHERE rownum <= n around the query"));
        };

        let Partition { window_start, window_end, keys } = self.partition(params, schema, &input)?;
        if params.order_by.is_empty() {
            return Err(
                unsupported("ROW_NUMBER() needs an ORDER BY").hint("write OVER (PARTITION BY … ORDER BY …)")
            );
        }
        let orders = params.order_by.iter().map(|order| self.physical(&order.expr, schema));
        let orders = orders.collect::<Lowered<Vec<_>>>()?;
        let ties = ties(&input, &orders, params.order_by[0].asc, to);
        let all: Vec<_> = keys.iter().chain(&orders).cloned().collect();
        let (input, columns) = self.key_columns(input, &all)?;
        let (key_columns, order_columns) = columns.split_at(keys.len());
        let key_columns = key_columns.to_vec();

        let order_by: Vec<RankOrder> = order_columns
            .iter()
            .zip(&params.order_by)
            .map(|(column, order)| RankOrder {
                column: *column,
                descending: !order.asc,
                nulls_first: order.nulls_first,
            })
            .collect();
        let details = rank_details(&input.schema, ranks.from, to, &order_by, &key_columns);
        let spec = WindowRankSpec {
            name: "WindowRank".into(),
            input_schema: Arc::clone(&input.schema),
            window_start,
            window_end,
            keys: key_columns.clone(),
            order_by,
            from: ranks.from,
            to,
            ties,
            rank_column: Some("rownum".into()),
        };
        let output_schema = spec.output_schema();
        let input_schema = Arc::clone(&input.schema);
        let unfired = input.unfired;
        let mut outputs = input.outputs.clone();
        outputs.push(Output { slot: Slot::Column(input_schema.fields().len()), role: Role::Plain });
        let (edge, parallelism) = self.keyed(input, &key_columns, true)?;
        let ranked = Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism,
                inputs: vec![edge],
                window: unfired,
                stage: OpenStage::Operator,
                chain: vec![spec.factory()],
                calc: None,
                meets_late_rows: Some(input_schema),
            },
            schema: output_schema,
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        };
        let ranked = ranked.conform(&window.schema).map_err(|e| self.planner.fault(e))?;
        match conjunction(residual) {
            Some(residual) => self.filter(ranked, &window.schema, &residual),
            None => Ok(ranked),
        }
    }

    /// Whether rows are ordered by time, ascending, and nothing else.
    fn is_by_time(
        &self,
        params: &WindowFunctionParams,
        schema: &DFSchema,
        input: &Relation,
    ) -> Lowered<bool> {
        Ok(match params.order_by.as_slice() {
            [order] if order.asc => column_of(&self.physical(&order.expr, schema)?)
                .is_some_and(|index| input.outputs[index].role.time_attribute().is_some()),
            _ => false,
        })
    }

    /// PARTITION BY, which must name a window.
    fn partition(
        &self,
        params: &WindowFunctionParams,
        schema: &DFSchema,
        input: &Relation,
    ) -> Lowered<Partition> {
        let mut bounds = (None, None);
        let mut keys = Vec::new();
        for key in &params.partition_by {
            let physical = self.physical(key, schema)?;
            match column_of(&physical).map(|index| input.outputs[index]) {
                Some(Output { role: Role::WindowStart, slot: Slot::Column(column) })
                    if bounds.0.is_none() =>
                {
                    bounds.0 = Some(column);
                }
                Some(Output { role: Role::WindowEnd, slot: Slot::Column(column) }) if bounds.1.is_none() => {
                    bounds.1 = Some(column);
                }
                Some(Output { role: Role::WindowTime { .. }, .. }) => {}
                _ => keys.push(physical),
            }
        }
        let (Some(window_start), Some(window_end)) = bounds else {
            return Err(unsupported(
                "ROW_NUMBER() is supported within windows only: otherwise its result would never be final",
            )
            .hint("window the input and write OVER (PARTITION BY window_start, window_end, … ORDER BY …)"));
        };
        Ok(Partition { window_start, window_end, keys })
    }
}

/// Which of several rows in the same place of the order is first.
fn ties(input: &Relation, orders: &[Arc<dyn PhysicalExpr>], is_ascending: bool, to: u64) -> RankTies {
    // Behind a source and what has no state, rows come in the order of the source. Elsewhere, as in Flink, their
    // order depends on how instances and inputs interleave, and must not be seen.
    let is_ordered = matches!(input.open.stage, OpenStage::Source(..));
    let by_time = match orders {
        [order] => column_of(order).is_some_and(|index| input.outputs[index].role == Role::EventTime),
        _ => false,
    };
    match is_ordered {
        // Flink's deduplication that keeps the newest row lets a later one of the same time replace it.
        true if by_time && to == 1 && !is_ascending => RankTies::LastArrival,
        true => RankTies::FirstArrival,
        false => RankTies::Columns,
    }
}

fn rank_details(
    schema: &SchemaRef,
    from: u64,
    to: u64,
    order_by: &[RankOrder],
    keys: &[usize],
) -> Vec<String> {
    let name_of = |column: usize| schema.field(column).name().as_str();
    let order: Vec<String> = order_by
        .iter()
        .map(|order| format!("{}{}", name_of(order.column), if order.descending { " DESC" } else { "" }))
        .collect();
    let order = order.join(", ");
    let mut details = vec![match (from, to) {
        (1, 1) => format!("first row by {order}"),
        (1, to) => format!("first {to} rows by {order}"),
        (from, to) => format!("rows {from} to {to} by {order}"),
    }];
    if !keys.is_empty() {
        let names: Vec<_> = keys.iter().map(|column| name_of(*column)).collect();
        details.push(format!("per {}", names.join(", ")));
    }
    details
}

impl Ranks {
    /// What the conditions around a query say of the rank, and those that are about something else.
    fn of(predicate: Option<&Expr>, rank: &datafusion_common::Column) -> (Ranks, Vec<Expr>) {
        let mut ranks = Ranks { from: 1, to: None };
        let mut residual = Vec::new();
        for conjunct in predicate.into_iter().flat_map(split_conjunction) {
            if !ranks.narrow(conjunct, rank) {
                residual.push(conjunct.clone());
            }
        }
        (ranks, residual)
    }

    /// Takes a condition on the rank into account; `false` if it is about something else.
    fn narrow(&mut self, expr: &Expr, rank: &datafusion_common::Column) -> bool {
        let is_rank = |expr: &Expr| matches!(without_casts(expr), Expr::Column(column) if column == rank);
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (op, value) = if is_rank(left) {
                    (*op, integer(right))
                } else if is_rank(right) {
                    match op.swap() {
                        Some(op) => (op, integer(left)),
                        None => return false,
                    }
                } else {
                    return false;
                };
                let Some(value) = value else { return false };
                match op {
                    Operator::Eq => {
                        self.at_least(value);
                        self.at_most(value);
                    }
                    Operator::LtEq => self.at_most(value),
                    Operator::Lt => self.at_most(value - 1),
                    Operator::GtEq => self.at_least(value),
                    Operator::Gt => self.at_least(value.saturating_add(1)),
                    _ => return false,
                }
                true
            }
            Expr::Between(Between { expr, negated: false, low, high }) if is_rank(expr) => {
                let (Some(low), Some(high)) = (integer(low), integer(high)) else { return false };
                self.at_least(low);
                self.at_most(high);
                true
            }
            _ => false,
        }
    }

    fn at_least(&mut self, value: i64) {
        self.from = self.from.max(u64::try_from(value).unwrap_or(1));
    }

    fn at_most(&mut self, value: i64) {
        let value = u64::try_from(value).unwrap_or(0);
        self.to = Some(self.to.map_or(value, |to| to.min(value)));
    }
}

fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => without_casts(&cast.expr),
        Expr::TryCast(cast) => without_casts(&cast.expr),
        Expr::Alias(alias) => without_casts(&alias.expr),
        other => other,
    }
}

fn integer(expr: &Expr) -> Option<i64> {
    match without_casts(expr) {
        Expr::Literal(value, _) => match value {
            ScalarValue::Int8(v) => v.map(i64::from),
            ScalarValue::Int16(v) => v.map(i64::from),
            ScalarValue::Int32(v) => v.map(i64::from),
            ScalarValue::Int64(v) => *v,
            ScalarValue::UInt8(v) => v.map(i64::from),
            ScalarValue::UInt16(v) => v.map(i64::from),
            ScalarValue::UInt32(v) => v.map(i64::from),
            ScalarValue::UInt64(v) => v.and_then(|v| i64::try_from(v).ok()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion_expr::{col, lit};

    fn check(exprs: &[Expr], from: u64, to: Option<u64>) {
        let mut ranks = Ranks { from: 1, to: None };
        let rank = datafusion_common::Column::new_unqualified("rn");
        for expr in exprs {
            assert!(ranks.narrow(expr, &rank), "{expr}");
        }
        assert_eq!(ranks, Ranks { from, to });
    }

    #[test]
    fn conditions_on_the_rank_bound_it() {
        check(&[col("rn").lt_eq(lit(3_i64))], 1, Some(3));
        check(&[col("rn").lt(lit(3_u64))], 1, Some(2));
        check(&[lit(3_i32).gt_eq(col("rn"))], 1, Some(3));
        check(&[col("rn").eq(lit(1_i64))], 1, Some(1));
        check(&[col("rn").gt(lit(2_i64)), col("rn").lt_eq(lit(9_i64))], 3, Some(9));
        check(&[col("rn").between(lit(2_i64), lit(4_i64))], 2, Some(4));
        let mut ranks = Ranks { from: 1, to: None };
        assert!(!ranks.narrow(&col("x").eq(lit(1_i64)), &datafusion_common::Column::new_unqualified("rn")));
    }
}
