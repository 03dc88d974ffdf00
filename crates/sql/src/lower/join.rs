//! Which join is meant: of windows, within an interval of time, or with a table that rows are looked up in. Any other
//! one would have to keep its rows for ever, and is refused.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::{JoinType, NullEquality, ScalarValue};
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{Between, BinaryExpr, Expr, Join, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use laxity_operators::{IntervalJoinInput, IntervalJoinSpec, JoinKind, WindowJoinInput, WindowJoinSpec};

use super::relation::{Open, OpenStage, Output, Relation, Role, Slot, column_of, plain};
use super::{Lowered, Lowering, unsupported};
use crate::error::{Fault, NOWHERE};
use crate::explain::duration_text;
use crate::lookup::lookup_below;
use crate::planning::time_part_of;

/// Expressions over the logical columns of the left and the right side that a join compares.
type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// A column of one side, with a constant added: `left.t + 5 s`.
#[derive(Debug, Clone, Copy)]
struct TimeTerm {
    left: bool,
    /// Logical column of that side.
    column: usize,
    plus_ms: i64,
}

/// Bounds on `left.t - right.t`, inclusive.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    left_time: usize,
    right_time: usize,
    lower_ms: Option<i64>,
    upper_ms: Option<i64>,
}

/// What an interval join waits for: `lower_ms <= left.t - right.t <= upper_ms`.
struct Interval {
    left_time: usize,
    right_time: usize,
    lower_ms: i64,
    upper_ms: i64,
    /// The bounds exclude each other, and both are 0 here.
    is_empty: bool,
}

impl Lowering<'_> {
    pub(super) fn join(&mut self, join: &Join) -> Lowered<Relation> {
        let kind = match join.join_type {
            JoinType::Inner => JoinKind::Inner,
            JoinType::Left => JoinKind::Left,
            JoinType::Right => JoinKind::Right,
            JoinType::Full => JoinKind::Full,
            JoinType::LeftSemi => JoinKind::Semi,
            JoinType::LeftAnti => JoinKind::Anti,
            other => return Err(unsupported(&format!("a join of kind {other} is not supported"))),
        };
        if join.null_equality != NullEquality::NullEqualsNothing {
            return Err(
                unsupported("IS NOT DISTINCT FROM as a join key is not supported").hint("join with =")
            );
        }
        if join.null_aware {
            return Err(unsupported("NOT IN with a query is not supported").hint("write NOT EXISTS"));
        }
        if lookup_below(&join.right).is_some() {
            return self.lookup_join(join);
        }
        let left = self.relation(&join.left)?;
        let right = self.relation(&join.right)?;

        let mut starts = None;
        let mut ends = None;
        let mut keys = Vec::new();
        for (l, r) in &join.on {
            let l = self.physical(l, join.left.schema())?;
            let r = self.physical(r, join.right.schema())?;
            let role = |side: &Relation, expr: &Arc<dyn PhysicalExpr>| {
                column_of(expr).map_or(Role::Plain, |index| side.outputs[index].role)
            };
            match (role(&left, &l), role(&right, &r)) {
                (Role::WindowStart, Role::WindowStart) if starts.is_none() => starts = Some((l, r)),
                (Role::WindowEnd, Role::WindowEnd) if ends.is_none() => ends = Some((l, r)),
                _ => keys.push((l, r)),
            }
        }
        let left = self.expand(left)?;
        let right = self.expand(right)?;
        match (starts, ends) {
            (Some(starts), Some(ends)) => self.window_join(join, kind, left, right, starts, ends, keys),
            (None, None) => self.interval_join(join, kind, left, right, keys),
            _ => Err(unsupported("a window join needs both window_start and window_end to be equal")
                .hint("write ON l.window_start = r.window_start AND l.window_end = r.window_end AND …")),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one join, taken apart by the caller alone")]
    fn window_join(
        &mut self,
        join: &Join,
        kind: JoinKind,
        left: Relation,
        right: Relation,
        starts: Pair,
        ends: Pair,
        keys: Vec<Pair>,
    ) -> Lowered<Relation> {
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
        let (left, left_keys) = self.key_columns(left, &left_keys)?;
        let (right, right_keys) = self.key_columns(right, &right_keys)?;
        let column = |side: &Relation, expr: &Arc<dyn PhysicalExpr>| {
            let mapped = side.map(expr).map_err(|e| self.planner.fault(e))?;
            column_of(&mapped).ok_or_else(|| Fault::internal(NOWHERE, "a window bound is no column"))
        };
        let (left_start, left_end) = (column(&left, &starts.0)?, column(&left, &ends.0)?);
        let (right_start, right_end) = (column(&right, &starts.1)?, column(&right, &ends.1)?);
        let condition = match &join.filter {
            Some(filter) => Some(self.joined_expression(filter, join, &left, &right)?),
            None => None,
        };
        let mut details = vec![format!("{} join within a window", kind_text(kind))];
        details.extend(keys_detail(&left.schema, &left_keys, &right.schema, &right_keys));
        details.extend(condition.as_ref().map(|c| format!("where {}", plain(&c.to_string()))));
        let spec = WindowJoinSpec {
            name: "WindowJoin".into(),
            kind,
            left: WindowJoinInput {
                schema: Arc::clone(&left.schema),
                window_start: left_start,
                window_end: left_end,
                keys: left_keys.clone(),
            },
            right: WindowJoinInput {
                schema: Arc::clone(&right.schema),
                window_start: right_start,
                window_end: right_end,
                keys: right_keys.clone(),
            },
            condition,
            row_errors: self.settings.row_errors,
        };
        let schema = spec.output_schema();
        let outputs = joined_outputs(kind, &left, &right);
        let left_schema = Arc::clone(&left.schema);
        // A side that has waited for its window's end is at that end: waiting once more takes no time.
        let unfired = left.unfired.or(right.unfired);
        let (left_edge, parallelism) = self.keyed(left, &left_keys, true)?;
        let (right_edge, _) = self.keyed(right, &right_keys, true)?;
        Ok(Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism,
                inputs: vec![left_edge, right_edge],
                window: unfired,
                stage: OpenStage::Operator,
                chain: vec![spec.factory()],
                calc: None,
                meets_late_rows: Some(left_schema),
            },
            schema,
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        })
    }

    fn interval_join(
        &mut self,
        join: &Join,
        kind: JoinKind,
        left: Relation,
        right: Relation,
        keys: Vec<Pair>,
    ) -> Lowered<Relation> {
        if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
            return Err(unsupported("EXISTS and IN between streams are supported within windows only")
                .hint("compare window_start and window_end of both sides as well"));
        }
        let (interval, residual) = self.interval(join, &left, &right, &keys)?;
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
        let (left, left_keys) = self.key_columns(left, &left_keys)?;
        let (right, right_keys) = self.key_columns(right, &right_keys)?;
        let slot = |side: &Relation, column: usize| match side.outputs[column].slot {
            Slot::Column(column) => Ok(column),
            _ => Err(Fault::internal(NOWHERE, "a time attribute is no column")),
        };
        let condition = match datafusion_expr::utils::conjunction(residual) {
            Some(filter) => Some(self.joined_expression(&filter, join, &left, &right)?),
            None => None,
        };
        let mut details = vec![interval.detail(kind)];
        details.extend(keys_detail(&left.schema, &left_keys, &right.schema, &right_keys));
        details.extend(condition.as_ref().map(|c| format!("where {}", plain(&c.to_string()))));
        let spec = IntervalJoinSpec {
            name: "IntervalJoin".into(),
            kind,
            left: IntervalJoinInput {
                schema: Arc::clone(&left.schema),
                time: slot(&left, interval.left_time)?,
                keys: left_keys.clone(),
            },
            right: IntervalJoinInput {
                schema: Arc::clone(&right.schema),
                time: slot(&right, interval.right_time)?,
                keys: right_keys.clone(),
            },
            lower_ms: interval.lower_ms,
            upper_ms: interval.upper_ms,
            condition,
            row_errors: self.settings.row_errors,
        };
        let schema = spec.output_schema();
        let mut outputs = joined_outputs(kind, &left, &right);
        for output in &mut outputs {
            // Windows of the inputs do not say when a joined row is complete.
            output.role = match output.role {
                Role::WindowStart | Role::WindowEnd => Role::Plain,
                Role::WindowTime { processing: false } => Role::EventTime,
                other => other,
            };
        }
        let passes = kind == JoinKind::Inner && left.open.passes() && right.open.passes();
        let (left_edge, parallelism) = self.keyed(left, &left_keys, true)?;
        let (right_edge, _) = self.keyed(right, &right_keys, true)?;
        Ok(Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism,
                inputs: vec![left_edge, right_edge],
                window: None,
                stage: if passes { OpenStage::Passing } else { OpenStage::Operator },
                chain: vec![spec.factory()],
                calc: None,
                meets_late_rows: None,
            },
            schema,
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        })
    }

    /// The interval that the conditions say rows must be within, and the conditions that are about something else.
    fn interval(
        &self,
        join: &Join,
        left: &Relation,
        right: &Relation,
        keys: &[Pair],
    ) -> Lowered<(Interval, Vec<Expr>)> {
        let mut bounds: Option<Bounds> = None;
        let mut residual = Vec::new();
        let mut processing = false;
        let conjuncts = join.filter.iter().flat_map(|filter| split_conjunction(filter));
        for conjunct in conjuncts.cloned().flat_map(split_between) {
            let found = self.time_bound(&conjunct, join, left, right, &mut processing);
            let fits = |b: &Bounds, f: &Bounds| b.left_time == f.left_time && b.right_time == f.right_time;
            match (found, &mut bounds) {
                (Some(found), None) => bounds = Some(found),
                (Some(found), Some(known)) if fits(known, &found) => {
                    known.lower_ms = known.lower_ms.into_iter().chain(found.lower_ms).max();
                    known.upper_ms = known.upper_ms.into_iter().chain(found.upper_ms).min();
                }
                _ => residual.push(conjunct),
            }
        }
        // Equal time attributes are the closest interval there is.
        let is_event_time =
            |side: &Relation, column: usize| side.outputs[column].role.time_attribute() == Some(false);
        for (l, r) in keys {
            if let (Some(l), Some(r), None) = (column_of(l), column_of(r), &bounds)
                && is_event_time(left, l)
                && is_event_time(right, r)
            {
                bounds = Some(Bounds { left_time: l, right_time: r, lower_ms: Some(0), upper_ms: Some(0) });
            }
        }
        let Some(Bounds { left_time, right_time, lower_ms: Some(lower_ms), upper_ms: Some(upper_ms) }) =
            bounds
        else {
            return Err(unbounded(left, right, processing, bounds.is_some()));
        };
        // Bounds that exclude each other match nothing; outer rows have nothing to wait for.
        let is_empty = lower_ms > upper_ms;
        let (lower_ms, upper_ms) = if is_empty { (0, 0) } else { (lower_ms, upper_ms) };
        if is_empty {
            residual.push(datafusion_expr::lit(false));
        }
        Ok((Interval { left_time, right_time, lower_ms, upper_ms, is_empty }, residual))
    }

    /// Key expressions over a side's logical columns as columns of it.
    pub(super) fn key_columns(
        &self,
        side: Relation,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Lowered<(Relation, Vec<usize>)> {
        let fault = |error| self.planner.fault(error);
        let mapped = keys.iter().map(|key| side.map(key).map_err(fault)).collect::<Lowered<Vec<_>>>()?;
        let side = side.apply_filter().map_err(fault)?;
        side.with_columns(&mapped).map_err(fault)
    }

    /// An expression over both sides' logical columns as one over both sides' physical columns.
    pub(super) fn joined_expression(
        &self,
        expr: &Expr,
        join: &Join,
        left: &Relation,
        right: &Relation,
    ) -> Lowered<Arc<dyn PhysicalExpr>> {
        let fault = |error| self.planner.fault(error);
        let schema = join.left.schema().join(join.right.schema()).map_err(fault)?;
        let physical = self.physical(expr, &schema)?;
        let left_width = left.schema.fields().len();
        use datafusion_common::tree_node::{Transformed, TreeNode};
        let mapped = physical.transform(|node| {
            let Some(index) = column_of(&node) else { return Ok(Transformed::no(node)) };
            let (slot, shift, schema) = match index.checked_sub(left.outputs.len()) {
                None => (left.outputs[index].slot, 0, &left.schema),
                Some(index) => (right.outputs[index].slot, left_width, &right.schema),
            };
            let Slot::Column(column) = slot else {
                return datafusion_common::internal_err!("a joined window is not expanded");
            };
            let column: Arc<dyn PhysicalExpr> =
                Arc::new(Column::new(schema.field(column).name(), column + shift));
            Ok(Transformed::yes(column))
        });
        mapped.map(|mapped| mapped.data).map_err(fault)
    }

    /// Reads `l.t >= r.t - INTERVAL …` and its like.
    fn time_bound(
        &self,
        expr: &Expr,
        join: &Join,
        left: &Relation,
        right: &Relation,
        processing: &mut bool,
    ) -> Option<Bounds> {
        let Expr::BinaryExpr(BinaryExpr { left: a, op, right: b }) = expr else { return None };
        let mut term = |expr: &Expr| {
            let (column, plus_ms) = column_plus(expr)?;
            let (is_left, position, role) = match join.left.schema().maybe_index_of_column(column) {
                Some(index) => (true, index, left.outputs[index].role),
                None => {
                    let index = join.right.schema().maybe_index_of_column(column)?;
                    (false, index, right.outputs[index].role)
                }
            };
            match role.time_attribute()? {
                false => Some(TimeTerm { left: is_left, column: position, plus_ms }),
                true => {
                    *processing = true;
                    None
                }
            }
        };
        let (a, b) = (term(a)?, term(b)?);
        let (l, r, op) = match (a.left, b.left) {
            (true, false) => (a, b, *op),
            (false, true) => (b, a, op.swap()?),
            _ => return None,
        };
        // l + x op r + y  <=>  l - r op y - x.
        let difference = r.plus_ms.checked_sub(l.plus_ms)?;
        let (lower_ms, upper_ms) = match op {
            Operator::GtEq => (Some(difference), None),
            Operator::Gt => (Some(difference.checked_add(1)?), None),
            Operator::LtEq => (None, Some(difference)),
            Operator::Lt => (None, Some(difference.checked_sub(1)?)),
            Operator::Eq => (Some(difference), Some(difference)),
            _ => return None,
        };
        Some(Bounds { left_time: l.column, right_time: r.column, lower_ms, upper_ms })
    }
}

impl Interval {
    fn detail(&self, kind: JoinKind) -> String {
        let kind = kind_text(kind);
        if self.is_empty {
            return format!("{kind} join, no interval");
        }
        let (lower, upper) = (duration_text(self.lower_ms), duration_text(self.upper_ms));
        format!("{kind} join, {lower} <= left.time - right.time <= {upper}")
    }
}

/// `x BETWEEN a AND b` as two comparisons.
fn split_between(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::Between(Between { expr, negated: false, low, high }) => vec![
            Expr::BinaryExpr(BinaryExpr { left: expr.clone(), op: Operator::GtEq, right: low }),
            Expr::BinaryExpr(BinaryExpr { left: expr, op: Operator::LtEq, right: high }),
        ],
        other => vec![other],
    }
}

/// A column with constant intervals added or taken away.
fn column_plus(expr: &Expr) -> Option<(&datafusion_common::Column, i64)> {
    match expr {
        Expr::Column(column) => Some((column, 0)),
        Expr::Alias(alias) => column_plus(&alias.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let (column, plus_ms) = column_plus(left)?;
            let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) = right.as_ref() else {
                return None;
            };
            let ms = time_part_of(*interval)?;
            let sum =
                if *op == Operator::Plus { plus_ms.checked_add(ms)? } else { plus_ms.checked_sub(ms)? };
            Some((column, sum))
        }
        _ => None,
    }
}

/// The logical columns of a join. A side that can be padded with NULL loses its time attributes.
fn joined_outputs(kind: JoinKind, left: &Relation, right: &Relation) -> Vec<Output> {
    let keep = |outputs: &[Output], shift: usize, padded: bool| {
        let output = move |output: &Output| Output {
            slot: match output.slot {
                Slot::Column(column) => Slot::Column(column + shift),
                other => other,
            },
            role: if padded { Role::Plain } else { output.role },
        };
        outputs.iter().map(output).collect::<Vec<_>>()
    };
    let left_padded = matches!(kind, JoinKind::Right | JoinKind::Full);
    let right_padded = matches!(kind, JoinKind::Left | JoinKind::Full);
    let mut outputs = keep(&left.outputs, 0, left_padded);
    if !matches!(kind, JoinKind::Semi | JoinKind::Anti) {
        outputs.extend(keep(&right.outputs, left.schema.fields().len(), right_padded));
    }
    outputs
}

pub(super) fn kind_text(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "inner",
        JoinKind::Left => "left",
        JoinKind::Right => "right",
        JoinKind::Full => "full",
        JoinKind::Semi => "semi",
        JoinKind::Anti => "anti",
    }
}

pub(super) fn keys_detail(
    left: &SchemaRef,
    left_keys: &[usize],
    right: &SchemaRef,
    right_keys: &[usize],
) -> Option<String> {
    let pairs: Vec<String> = left_keys
        .iter()
        .zip(right_keys)
        .map(|(l, r)| format!("left.{} = right.{}", left.field(*l).name(), right.field(*r).name()))
        .collect();
    (!pairs.is_empty()).then(|| format!("on {}", pairs.join(" and ")))
}

fn unbounded(left: &Relation, right: &Relation, processing: bool, half: bool) -> Box<Fault> {
    if processing {
        return unsupported("interval joins on processing time are not supported")
            .hint("use an event-time column");
    }
    if half {
        return unsupported("this join bounds time on one side only, so rows would have to be kept for ever")
            .hint("write l.t BETWEEN r.t - INTERVAL '…' AND r.t + INTERVAL '…'");
    }
    let has_time = |side: &Relation| side.outputs.iter().any(|o| o.role.time_attribute().is_some());
    let hint = if has_time(left) && has_time(right) {
        "bound the time: AND l.t BETWEEN r.t - INTERVAL '1' MINUTE AND r.t + INTERVAL '1' MINUTE; or window both \
         sides and compare window_start and window_end"
    } else {
        "both sides need an event-time column (WATERMARK FOR …) that is selected as it is; then bound it, or window \
         both sides"
    };
    unsupported(
        "a join without a bound on time is not supported: it would have to remember every row for ever",
    )
    .hint(hint)
}
