//! GROUP BY becomes an aggregation over windows. One that has no window is refused, with an example of what to write.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::{Column, DFSchema};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{Aggregate, Expr};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::LoweredAggregateBuilder;
use laxity_operators::approximate::SAMPLE_COLUMN;
use laxity_operators::{AggregateCall, Template, WindowAggregateSpec, WindowInput, WindowKind};

use super::approximate::Sampled;
use super::relation::{Open, OpenStage, Output, PendingWindow, Relation, Role, Slot, column_of, plain};
use super::scan::df_schema;
use super::{Lowered, Lowering, unsupported};
use crate::error::{Fault, NOWHERE};
use crate::explain::window_text;
use crate::planning::execution_props;
use crate::window_function::EXAMPLE;

/// Columns of the aggregation's input, in the making.
#[derive(Default)]
struct Columns {
    exprs: Vec<(Arc<dyn PhysicalExpr>, String)>,
}

impl Columns {
    fn add(&mut self, expr: Arc<dyn PhysicalExpr>) -> usize {
        if let Some(known) = self.exprs.iter().position(|(other, _)| other.as_ref() == expr.as_ref()) {
            return known;
        }
        let name = match column_of(&expr) {
            Some(_) => plain(&expr.to_string()),
            None => format!("__arg{}", self.exprs.len()),
        };
        self.exprs.push((expr, name));
        self.exprs.len() - 1
    }
}

/// What a GROUP BY expression is.
enum Key {
    Window(Role),
    /// Index among the keys.
    Column(usize),
}

impl Lowering<'_> {
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate) -> Lowered<Relation> {
        let schema = aggregate.input.schema();
        let mut input = self.relation(&aggregate.input)?;

        // The first start and end found are the window; further ones, of another join side, are plain keys.
        let mut start = None;
        let mut end = None;
        let mut keys = Vec::new();
        let mut key_exprs = Vec::new();
        for (index, expr) in aggregate.group_expr.iter().enumerate() {
            // A key that is written twice is one column.
            if aggregate.group_expr[..index].contains(expr) {
                continue;
            }
            let mut physical = self.physical(expr, schema)?;
            let output = column_of(&physical).map(|index| input.outputs[index]);
            let key = match output.map(|output| (output.role, output.slot)) {
                Some((role @ Role::WindowStart, slot)) if start.is_none_or(|s| s == slot) => {
                    start = Some(slot);
                    Key::Window(role)
                }
                Some((role @ Role::WindowEnd, slot)) if end.is_none_or(|s| s == slot) => {
                    end = Some(slot);
                    Key::Window(role)
                }
                Some((role @ Role::WindowTime { .. }, _)) => Key::Window(role),
                _ => {
                    if input.uses_window(&physical) {
                        input = self.expand(input)?;
                        physical = self.physical(expr, schema)?;
                    }
                    key_exprs.push(physical);
                    Key::Column(key_exprs.len() - 1)
                }
            };
            keys.push(key);
        }
        let (Some(_), Some(_)) = (start, end) else {
            return Err(unbounded(&input, aggregate));
        };

        // Sessions are cut per PARTITION BY key. Only if these are the groups can one operator do both.
        if let Some(pending) = &input.window
            && matches!(pending.kind, WindowKind::Session { .. })
        {
            let mut groups = Vec::new();
            for expr in &key_exprs {
                groups.push(column_of(&input.map(expr).map_err(|e| self.planner.fault(e))?));
            }
            let partitions = pending.keys.iter().all(|key| groups.contains(&Some(*key)));
            let nothing_else = groups.iter().all(|group| group.is_some_and(|g| pending.keys.contains(&g)));
            if !(partitions && nothing_else) {
                input = self.expand(input)?;
            }
        }

        // Arguments may read the window's columns, e.g. MAX(window_end).
        let mut arguments = Vec::new();
        for expr in &aggregate.aggr_expr {
            let Expr::AggregateFunction(function) = expr.clone().unalias() else {
                return Err(Fault::internal(NOWHERE, format!("{expr} is not an aggregate")));
            };
            if !function.params.order_by.is_empty() {
                return Err(unsupported("ORDER BY inside an aggregate is not supported"));
            }
            for argument in function.params.args.iter().chain(function.params.filter.as_deref()) {
                let physical = self.physical(argument, schema)?;
                if input.uses_window(&physical) {
                    input = self.expand(input)?;
                }
            }
            arguments.push((expr.schema_name().to_string(), function));
        }
        self.windowed_aggregate(input, schema, keys, key_exprs, arguments)
    }

    fn windowed_aggregate(
        &mut self,
        input: Relation,
        schema: &DFSchema,
        keys: Vec<Key>,
        key_exprs: Vec<Arc<dyn PhysicalExpr>>,
        functions: Vec<(String, AggregateFunction)>,
    ) -> Lowered<Relation> {
        let (input, sampled) = self.sampled(input, schema, &key_exprs, &functions)?;
        let fault = |error| self.planner.fault(error);
        let mut columns = Columns::default();
        let mut key_columns = Vec::new();
        for expr in &key_exprs {
            key_columns.push(columns.add(input.map(expr).map_err(fault)?));
        }
        if let Ok(member) = input.schema.index_of(Template::MEMBER) {
            self.member_key = key_columns.len();
            key_columns.push(columns.add(input.column(member)));
        }
        let windows = window_input(&input, &mut columns)?;
        let functions = self.of_columns(functions, sampled, &input, schema, &mut columns)?;
        let window = input.window.clone();
        let unfired = input.unfired;
        let late = input.late_columns(&self.late_columns, &columns.exprs);
        columns.exprs.extend(late);
        let mut prepared = Relation { window: None, ..input }.calc(columns.exprs).map_err(fault)?;
        prepared.outputs.clear();

        let key_names = key_columns.iter().map(|column| prepared.schema.field(*column).name().as_str());
        let mut details = aggregate_details(window.as_ref(), key_names, &functions);
        details.extend(self.lateness_detail());
        let spec = WindowAggregateSpec {
            name: "WindowAggregate".into(),
            input_schema: Arc::clone(&prepared.schema),
            windows,
            keys: key_columns.clone(),
            aggregates: self.calls(functions, &prepared.schema)?,
            allowed_lateness_ms: self.settings.allowed_lateness_ms,
        };
        let schema = spec.output_schema().map_err(|error| Fault::internal(NOWHERE, error))?;
        let input_schema = Arc::clone(&prepared.schema);
        let (edge, parallelism) = self.keyed(prepared, &key_columns, true)?;
        self.aggregated = self.work.as_ref().map(|work| (work.len(), spec.clone()));
        let outputs = aggregate_outputs(&keys, key_columns.len(), spec.aggregates.len());
        Ok(Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism,
                inputs: vec![edge],
                window: window.map(|pending| pending.kind.shape()).or(unfired),
                stage: OpenStage::Operator,
                chain: vec![spec.factory()],
                calc: None,
                meets_late_rows: Some(input_schema),
            },
            schema,
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        })
    }

    /// The functions with columns of the operator's input, named by their places `c0`, `c1` …, as arguments and filters.
    /// Literals, as in COUNT(*), stay what they are.
    fn of_columns(
        &self,
        functions: Vec<(String, AggregateFunction)>,
        sampled: Vec<Sampled>,
        input: &Relation,
        schema: &DFSchema,
        columns: &mut Columns,
    ) -> Lowered<Vec<(String, AggregateFunction)>> {
        let sample =
            input.schema.index_of(SAMPLE_COLUMN).ok().map(|column| columns.add(input.column(column)));
        let mut sampled = sampled.into_iter();
        let mut rewritten = Vec::new();
        for (name, mut function) in functions {
            let params = &mut function.params;
            if let (Some(Sampled::Estimated(estimator)), Some(sample)) = (sampled.next(), sample) {
                // The sampler has evaluated argument and filter already.
                params.args = vec![numbered(sample)];
                params.filter = None;
                function.func = estimator.function();
            } else {
                for expr in params.args.iter_mut().chain(params.filter.as_deref_mut()) {
                    if !matches!(expr, Expr::Literal(..)) {
                        let physical = self.physical(expr, schema)?;
                        let mapped = input.map(&physical).map_err(|error| self.planner.fault(error))?;
                        *expr = numbered(columns.add(mapped));
                    }
                }
            }
            rewritten.push((name, function));
        }
        Ok(rewritten)
    }

    /// The functions as the operator calls them, over [`numbered`] columns of its input.
    pub(super) fn calls(
        &self,
        functions: Vec<(String, AggregateFunction)>,
        schema: &SchemaRef,
    ) -> Lowered<Vec<AggregateCall>> {
        // Names c0, c1, … are unique where the columns' own need not be.
        let fields = schema.fields().iter().enumerate();
        let fields = fields.map(|(i, field)| Arc::new(field.as_ref().clone().with_name(format!("c{i}"))));
        let schema = super::relation::schema_of(fields.collect());
        let logical = df_schema(&schema)?;
        let call = |(name, function): (String, AggregateFunction)| {
            let lowered = LoweredAggregateBuilder::new(
                &Expr::AggregateFunction(function),
                &logical,
                &schema,
                &execution_props(),
                &PhysicalPlanningContext::default(),
            )
            .with_name(name)
            .build()
            .map_err(|error| self.planner.fault(error))?;
            Ok(AggregateCall { expr: lowered.aggregate, filter: lowered.filter })
        };
        functions.into_iter().map(call).collect()
    }
}

/// A column of an operator's input by its place, for [`Lowering::calls`].
pub(super) fn numbered(column: usize) -> Expr {
    Expr::Column(Column::new_unqualified(format!("c{column}")))
}

/// How the operator learns of a row's windows: it assigns them, or they stand in columns already.
fn window_input(input: &Relation, columns: &mut Columns) -> Lowered<WindowInput> {
    let mut column_of_role = |role: Role| match input.position(role).map(|p| input.outputs[p].slot) {
        Some(Slot::Column(column)) => Ok(columns.add(input.column(column))),
        _ => Err(Fault::internal(NOWHERE, format!("{role:?} has no column"))),
    };
    Ok(match &input.window {
        Some(pending) => WindowInput::Assign {
            time_column: columns.add(input.column(pending.time)),
            window: pending.kind,
            processing_time: pending.processing,
        },
        None => WindowInput::Attached {
            start_column: column_of_role(Role::WindowStart)?,
            end_column: column_of_role(Role::WindowEnd)?,
        },
    })
}

fn aggregate_details<'a>(
    window: Option<&PendingWindow>,
    key_names: impl Iterator<Item = &'a str>,
    functions: &[(String, AggregateFunction)],
) -> Vec<String> {
    let window = match window {
        Some(pending) => format!("window {}", window_text(pending.kind)),
        None => "window of the input".to_string(),
    };
    let keys: Vec<&str> = key_names.collect();
    let computed: Vec<String> = functions.iter().map(|(name, _)| plain(name)).collect();
    let mut details = vec![window];
    if !keys.is_empty() {
        details.push(format!("group by {}", keys.join(", ")));
    }
    if !computed.is_empty() {
        details.push(format!("compute {}", computed.join(", ")));
    }
    details
}

/// The logical columns, of an operator that emits its keys, the aggregates, and the window's start, end and time.
fn aggregate_outputs(keys: &[Key], key_columns: usize, aggregates: usize) -> Vec<Output> {
    let window_at = key_columns + aggregates;
    let of_key = |key: &Key| match key {
        Key::Column(index) => Output { slot: Slot::Column(*index), role: Role::Plain },
        Key::Window(role) => {
            let offset = match role {
                Role::WindowStart => 0,
                Role::WindowEnd => 1,
                _ => 2,
            };
            Output { slot: Slot::Column(window_at + offset), role: *role }
        }
    };
    let of_aggregate = |column| Output { slot: Slot::Column(column), role: Role::Plain };
    keys.iter().map(of_key).chain((key_columns..window_at).map(of_aggregate)).collect()
}

/// Whether a key has the usual name of a window's column but is another.
fn groups_by_names_taken(input: &Relation, aggregate: &Aggregate) -> bool {
    let mut keys = aggregate.group_expr.iter().filter_map(|key| key.try_as_col());
    keys.any(|key| {
        let index = aggregate.input.schema().maybe_index_of_column(key);
        let role = index.map(|index| input.outputs[index].role);
        match key.name.as_str() {
            "window_start" => role != Some(Role::WindowStart),
            "window_end" => role != Some(Role::WindowEnd),
            _ => false,
        }
    })
}

/// Why a GROUP BY without a window is refused, and what to write.
fn unbounded(input: &Relation, aggregate: &Aggregate) -> Box<Fault> {
    let distinct = aggregate.aggr_expr.is_empty();
    let windowed = input.position(Role::WindowStart).is_some() || input.position(Role::WindowEnd).is_some();
    let what = if distinct { "DISTINCT" } else { "GROUP BY" };
    if input.window.is_some() && groups_by_names_taken(input, aggregate) {
        return unsupported(&format!("{what} by columns of the table's own, not by the window's"))
            .hint("the names were taken, so the window's are window_start0 and window_end0: take these, or rename the table's");
    }
    if windowed {
        let message = format!("{what} over a window needs both window_start and window_end");
        let hint = if distinct { "select both columns" } else { "add both to the GROUP BY" };
        return unsupported(&message).hint(hint);
    }
    let what = match (aggregate.group_expr.is_empty(), distinct) {
        (true, _) => "an aggregate",
        (_, true) => "GROUP BY or DISTINCT",
        _ => what,
    };
    unsupported(&format!("{what} without a window is not supported: its result would never be final"))
        .hint(format!("aggregate within windows: {EXAMPLE}"))
}
