//! Where rows are left out of an approximate query: between the filters of its table and whatever it computes of rows.

use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit, when};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::utils::collect_columns;
use laxity_graph::RowErrors;
use laxity_operators::WindowKind;
use laxity_operators::approximate::{Aggregate, Estimator, Promise, SamplerSpec, Shows};

use super::below_lookup::Wanted;
use super::relation::{Relation, plain};
use super::{Lowered, Lowering, chained, unsupported};
use crate::approximate::{aggregate, estimator, of_value};
use crate::error::Fault;
use crate::functions::DECIMAL_MULTIPLY;

/// What becomes of an aggregate: an estimate, or itself where it sees every row that comes in time.
#[derive(Debug)]
pub(super) enum Sampled {
    Estimated(Box<Estimator>),
    Whole,
}

impl Lowering<'_> {
    /// Puts a sampler behind the rows of a windowed aggregation, where the query is approximate. Says what each function is
    /// then; nothing for an exact query.
    pub(super) fn sampled(
        &mut self,
        input: Relation,
        schema: &DFSchema,
        key_exprs: &[Arc<dyn PhysicalExpr>],
        functions: &[(String, AggregateFunction)],
    ) -> Lowered<(Relation, Vec<Sampled>)> {
        let Some(promise) = self.settings.approximate.promise() else { return Ok((input, vec![])) };
        self.approximable(&input)?;
        let mut wanted = Wanted::default();
        for (_, function) in functions {
            let Wanted { values, distinct, aggregates, sampled, .. } = &mut wanted;
            let (known, is_sample, shows) = known(function)?;
            let known = match known {
                Aggregate::Percentile { .. } => self.percentile(function, schema, shows)?,
                other => other,
            };
            let mut value_of_rows = |expr: &Expr| self.place(expr, schema, &input, values);
            let aggregate = match (known, &*function.params.args) {
                (Aggregate::Distinct(_), _) => match value_of(function, known)? {
                    Some(value) => Aggregate::Distinct(self.place(&value, schema, &input, distinct)?),
                    None => Aggregate::Whole,
                },
                (Aggregate::Ratio { .. }, [over, under]) => Aggregate::Ratio {
                    over: value_of_rows(over)?,
                    under: value_of_rows(under)?,
                    product: value_of_rows(&(over.clone() * under.clone()))?,
                },
                _ => of_value(known, value_of(function, known)?.as_ref().map(value_of_rows).transpose()?),
            };
            if !aggregates.contains(&aggregate) {
                aggregates.push(aggregate);
            }
            if aggregate == Aggregate::Whole {
                sampled.push(Sampled::Whole);
                continue;
            }
            let data_type = Expr::AggregateFunction(function.clone()).get_type(schema);
            let data_type = data_type.map_err(|e| self.planner.fault(e))?;
            let of_sample = true;
            let estimator = Estimator { aggregate, is_sample, shows, of_sample, promise, data_type };
            sampled.push(Sampled::Estimated(Box::new(estimator)));
        }
        if wanted.aggregates.is_empty() {
            return Err(unsupported("an approximate query without an aggregate has nothing to estimate")
                .hint("RESET 'laxity.approximate.error' before it"));
        }

        let fault = |error| self.planner.fault(error);
        let input = self.below_calc(input, key_exprs, &mut wanted)?;
        let (input, below) = self.below_lookup(input, key_exprs, &mut wanted)?;
        let pending = self.approximable(&input)?;
        let keys =
            key_exprs.iter().map(|expr| input.map(expr)).collect::<datafusion_common::Result<Vec<_>>>();
        let keys = keys.map_err(fault)?;
        let input = input.apply_filter().and_then(|input| input.with_columns(&keys));
        let (mut input, keys) = input.map_err(fault)?;
        let puts_aside = self.settings.row_errors == RowErrors::DeadLetter;
        if puts_aside {
            let schema = below.as_ref().map_or(&input.schema, |below| &below.beside.schema);
            wanted.count_what_is_left(schema).map_err(fault)?;
        }
        let Wanted { values, distinct, aggregates, sampled, required } = wanted;
        // The error of a quotient is at most about the sum of those of its parts.
        let aim = if self.divides { Promise { error: promise.error / 2.0, ..promise } } else { promise };
        let name = &self.dataflow.settings.name;
        let spec = SamplerSpec {
            name: "Sample".into(),
            input_schema: Arc::clone(&input.schema),
            time_column: pending.0,
            window: pending.1,
            keys,
            beside: below.as_ref().map(|below| below.beside.clone()),
            values,
            required,
            distinct,
            aggregates,
            asked: promise,
            promise: aim,
            verifies: self.verifies,
            rule: self.settings.approximate.rule,
            only_behind: self.settings.approximate.only_behind,
            puts_aside,
            // The same query leaves out the same rows.
            seed: name.bytes().fold(SEED, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(FNV_PRIME)),
            processing_origin_ms: self.processing_origin_ms,
        };
        let detail = detail(&spec, promise);
        chained(&mut input.open, "Sample", Some(detail), spec.clone().factory());
        input
            .open
            .details
            .extend(below.map(|below| format!("for rows in the sample alone: {}", below.detail)));
        input.schema = spec.output_schema();
        Ok((input, sampled))
    }

    /// The number of an expression over the rows, among those known.
    fn place(
        &self,
        expr: &Expr,
        schema: &DFSchema,
        input: &Relation,
        known: &mut Vec<Arc<dyn PhysicalExpr>>,
    ) -> Lowered<usize> {
        let physical = self.physical(expr, schema)?;
        let physical = input.map(&physical).map_err(|e| self.planner.fault(e))?;
        let place = known.iter().position(|other| other.as_ref() == physical.as_ref());
        Ok(place.unwrap_or_else(|| {
            known.push(physical);
            known.len() - 1
        }))
    }

    /// Which percentile: one that is written out has a bound; of several, or with frequencies, all rows are needed.
    fn percentile(
        &self,
        function: &AggregateFunction,
        schema: &DFSchema,
        shows: Shows,
    ) -> Lowered<Aggregate> {
        let refuse = |what: &str| {
            Err(unsupported(what)
                .hint("write PERCENTILE(x, 0.99), or RESET 'laxity.approximate.error' before this query"))
        };
        let one = match &*function.params.args {
            [_, share] => {
                let physical = self.physical(share, schema)?;
                let is_list = matches!(share.get_type(schema), Ok(DataType::List(_)));
                Some(physical).filter(|physical| !is_list && collect_columns(physical).is_empty())
            }
            _ => None,
        };
        let Some(one) = one else {
            return match shows {
                Shows::Value => Ok(Aggregate::Whole),
                _ => refuse(
                    "APPROX_ERROR takes a PERCENTILE of one share that is written out, without frequencies",
                ),
            };
        };
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
        let row = row.map_err(|error| Fault::internal(crate::error::NOWHERE, error))?;
        let value = one.evaluate(&row).and_then(|value| value.into_array(1));
        let value =
            value.and_then(|value| ScalarValue::try_from_array(&value, 0)?.cast_to(&DataType::Float64));
        match value.map_err(|e| self.planner.fault(e))? {
            ScalarValue::Float64(Some(share)) if share > 0.0 && share < 1.0 => {
                Ok(Aggregate::Percentile { value: 0, share })
            }
            _ => refuse(
                "PERCENTILE of a sample has a bound above 0 and below 1: at 0 and 1 it is MIN and MAX, and a row that was left \
                 out may be the one that it is about",
            ),
        }
    }

    /// The time column and the window of rows that may be left out.
    fn approximable(&self, input: &Relation) -> Lowered<(usize, WindowKind)> {
        let refuse = |why: &str, hint: &str| {
            Err(unsupported(&format!("an approximate query {why}"))
                .hint(format!("{hint}, or RESET 'laxity.approximate.error' before it")))
        };
        let Some(pending) = &input.window else {
            return refuse(
                "groups by a window that its rows are in already, so that none of them can be left out",
                "use the window's columns after the GROUP BY, not in its keys and aggregates",
            );
        };
        if pending.processing {
            return refuse("has windows on processing time, which no row is late for", "declare a WATERMARK");
        }
        if matches!(pending.kind, WindowKind::Session { .. }) {
            return refuse(
                "has sessions, whose ends are known from their last rows alone",
                "use TUMBLE, HOP or CUMULATE",
            );
        }
        if self.settings.allowed_lateness_ms > 0 {
            return refuse(
                "does not wait for late rows, and 'laxity.allowed.lateness' does",
                "leave that key out",
            );
        }
        if self.settings.late_table.is_some() {
            return refuse(
                "counts late rows in, and 'laxity.late.table' takes them away",
                "leave that key out",
            );
        }
        if !input.open.passes() {
            return refuse(
                "reads tables by filters, projections, UNION ALL, lookup joins and inner joins within an interval: what \
                 comes of windows, OVER and outer joins comes with the watermark, so that its windows would not be sooner",
                "aggregate the table before that",
            );
        }
        Ok((pending.time, pending.kind))
    }
}

/// FNV-1a.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// What an aggregate function computes; refused is what has no bound.
fn known(function: &AggregateFunction) -> Lowered<(Aggregate, bool, Shows)> {
    let name = function.func.name();
    if function.params.distinct {
        return Err(unsupported(&format!("{}(DISTINCT …) of a sample has no bound", name.to_uppercase()))
            .hint("use APPROX_COUNT_DISTINCT, which sees every row that comes in time"));
    }
    if let Some(Estimator { aggregate, is_sample, shows, .. }) = estimator(name) {
        return Ok((aggregate, is_sample, shows));
    }
    if name == "sum" && function.params.args.first().is_some_and(is_decimal_square) {
        return Err(unsupported(
            "VARIANCE and STDDEV of a DECIMAL are differences of sums, whose error has no bound in a sample",
        )
        .hint("CAST what they are of to DOUBLE, or RESET 'laxity.approximate.error' before this query"));
    }
    if let Some((aggregate, is_sample)) = aggregate(name) {
        return Ok((aggregate, is_sample, Shows::Value));
    }
    let hint = match name {
        "min" | "max" => "use PERCENTILE(x, 0.99) or (x, 0.01), which has a bound",
        _ => "use COUNT, SUM, AVG, variances, standard deviations, PERCENTILE and APPROX_COUNT_DISTINCT",
    };
    Err(unsupported(&format!(
        "{} of a sample has no bound: a row that was left out may be the one that it is about",
        name.to_uppercase()
    ))
    .hint(format!("{hint}, or RESET 'laxity.approximate.error' before this query")))
}

/// The sum of these is a part of what VARIANCE and STDDEV of a DECIMAL become.
fn is_decimal_square(argument: &Expr) -> bool {
    match argument {
        Expr::ScalarFunction(call) if call.func.name() == DECIMAL_MULTIPLY => {
            matches!(&call.args[..], [one, other] if one == other)
        }
        _ => false,
    }
}

/// The number that an aggregate is of; none where it counts rows.
fn value_of(function: &AggregateFunction, known: Aggregate) -> Lowered<Option<Expr>> {
    let Some(argument) = function.params.args.first() else { return Ok(None) };
    let counts = matches!(known, Aggregate::Count(_));
    if matches!(known, Aggregate::Rows | Aggregate::Whole) {
        return Ok(None);
    }
    let is_literal = matches!(argument, Expr::Literal(value, _) if !value.is_null());
    let filter = function.params.filter.as_deref().cloned();
    let (condition, value) = match (counts, is_literal) {
        (true, true) => (filter, lit(1_i64)),
        (true, false) => {
            let there = argument.clone().is_not_null();
            (Some(filter.map_or(there.clone(), |filter| filter.and(there))), lit(1_i64))
        }
        (false, _) => (filter, argument.clone()),
    };
    match condition {
        None if counts => Ok(None),
        None => Ok(Some(value)),
        Some(condition) => when(condition, value)
            .end()
            .map(Some)
            .map_err(|error| Fault::internal(crate::error::NOWHERE, error)),
    }
}

/// Whether a query divides aggregates by each other; averages, which are planned so, left out.
pub(super) fn divides_aggregates(plan: &LogicalPlan) -> bool {
    let mut divides = false;
    // The closures never fail.
    let _ = plan.apply(|node| {
        let above_aggregate = node.inputs().iter().any(|input| has_aggregate(input));
        if above_aggregate && matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Filter(_)) {
            for expr in node.expressions() {
                let _ = expr.apply(|part| {
                    if let Expr::BinaryExpr(binary) = part
                        && binary.op == Operator::Divide
                    {
                        let is_rows = binary.right.to_string().contains("count(");
                        let both = [&binary.left, &binary.right].iter().all(|side| side.any_column_refs());
                        divides |= both && !is_rows;
                    }
                    Ok(TreeNodeRecursion::Continue)
                });
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    divides
}

fn has_aggregate(plan: &LogicalPlan) -> bool {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Aggregate(_)))).unwrap_or(false)
}

fn detail(spec: &SamplerSpec, promise: Promise) -> String {
    let percent = |share: f64| format!("{} %", (share * 1e4).round() / 1e2);
    let groups: Vec<&str> =
        spec.keys.iter().map(|&key| spec.input_schema.field(key).name().as_str()).collect();
    let by = if groups.is_empty() { String::new() } else { format!(" by {}", groups.join(", ")) };
    let values: Vec<String> = spec.values.iter().map(|value| plain(&value.to_string())).collect();
    let of = if values.is_empty() { String::new() } else { format!(", for {}", values.join(", ")) };
    let distinct: Vec<String> = spec.distinct.iter().map(|value| plain(&value.to_string())).collect();
    let distinct = match distinct.is_empty() {
        true => String::new(),
        false => format!(", distinct {} of every row", distinct.join(", ")),
    };
    let when = if spec.only_behind { ", only while behind" } else { "" };
    format!(
        "sample{by} within {} in {} of windows{of}{distinct}{when}",
        percent(promise.error),
        percent(promise.confidence)
    )
}
