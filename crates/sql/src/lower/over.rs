//! Aggregates with OVER: one result for each row, from the rows before it in the order of time.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use datafusion_expr::expr::{AggregateFunction, NullTreatment, WindowFunction, WindowFunctionParams};
use datafusion_expr::{
    AggregateUDF, Expr, Window, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
    when,
};
use datafusion_functions_aggregate::count::count_udaf;
use laxity_graph::WindowShape;
use laxity_operators::{OverAggregateSpec, OverFrame};

use super::aggregate::numbered;
use super::relation::{Open, OpenStage, Output, Relation, Role, Slot, column_of, plain};
use super::{Lowered, Lowering, unsupported};
use crate::error::{Fault, NOWHERE};
use crate::explain::duration_text;
use crate::planning::time_part_of;

const EXAMPLE: &str = "write SUM(x) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND \
                       CURRENT ROW), where t is an event time or a PROCTIME()";

/// Whether the functions are aggregates over the rows before each row, and not ranks of which some are kept.
pub(super) fn is_over(window: &Window) -> bool {
    let is_aggregate = |expr: &Expr| match expr.clone().unalias() {
        Expr::WindowFunction(function) => matches!(function.fun, WindowFunctionDefinition::AggregateUDF(_)),
        _ => false,
    };
    window.window_expr.iter().any(is_aggregate)
}

impl Lowering<'_> {
    /// `agg(…) OVER (PARTITION BY … ORDER BY time …)`, several over one window.
    pub(super) fn over(&mut self, window: &Window) -> Lowered<Relation> {
        let input = self.relation(&window.input)?;
        let input = self.expand(input)?;
        self.over_input(input, window)
    }

    /// The same over an input that is there already.
    pub(super) fn over_input(&mut self, input: Relation, window: &Window) -> Lowered<Relation> {
        let (params, functions) = one_window(window)?;
        let frame = frame_of(&params.window_frame)?;
        let schema = window.input.schema();
        let input = Relation { unfired: None, ..input };
        let (time, processing_time) = self.time_of(&params, &input, window)?;

        let mut exprs = Vec::new();
        for key in &params.partition_by {
            exprs.push(self.physical(key, schema)?);
        }
        let keys = exprs.len();
        // Arguments become columns of the operator's input; literals, as in COUNT(*), stay what they are.
        let mut called = Vec::new();
        for (name, mut function) in functions {
            let mut places = Vec::new();
            for (at, argument) in function.params.args.iter().enumerate() {
                if !matches!(argument, Expr::Literal(..)) {
                    places.push((at, exprs.len()));
                    exprs.push(self.physical(argument, schema)?);
                }
            }
            function.params.order_by.clear();
            called.push((name, function, places));
        }
        let (input, columns) = self.key_columns(input, &exprs)?;
        let key_columns = columns[..keys].to_vec();

        let mut functions = Vec::new();
        for (name, mut function, places) in called {
            for (at, expr) in places {
                function.params.args[at] = numbered(columns[expr]);
            }
            functions.push((name, function));
        }

        let name_of = |column: usize| input.schema.field(column).name().clone();
        let mut details = vec![format!("{} by {}", frame_text(frame), name_of(time))];
        if !key_columns.is_empty() {
            let names: Vec<_> = key_columns.iter().map(|column| name_of(*column)).collect();
            details.push(format!("per {}", names.join(", ")));
        }
        let computed: Vec<_> = functions.iter().map(|(name, _)| plain(name)).collect();
        details.push(format!("compute {}", computed.join(", ")));
        let spec = OverAggregateSpec {
            name: "OverAggregate".into(),
            input_schema: Arc::clone(&input.schema),
            keys: key_columns.clone(),
            time,
            processing_time,
            frame,
            aggregates: self.calls(functions, &input.schema)?,
        };
        let mut outputs = input.outputs.clone();
        let width = input.schema.fields().len();
        let results = (0..spec.aggregates.len()).map(|i| Slot::Column(width + i));
        outputs.extend(results.map(|slot| Output { slot, role: Role::Plain }));
        let input_schema = Arc::clone(&input.schema);
        let (edge, parallelism) = self.keyed(input, &key_columns, true)?;
        let over = Relation {
            open: Open {
                name: spec.name.clone(),
                details,
                parallelism,
                inputs: vec![edge],
                // A row waits for the watermark behind it, whenever that comes.
                window: (!processing_time).then_some(WindowShape { size_ms: 1, slide_ms: 1, end_ms: None }),
                stage: OpenStage::Operator,
                meets_late_rows: Some(input_schema),
                chain: vec![spec.clone().factory()],
                calc: None,
            },
            schema: spec.output_schema(),
            outputs,
            window: None,
            predicate: None,
            unfired: None,
        };
        over.conform(&window.schema).map_err(|e| self.planner.fault(e))
    }

    /// The column of the time attribute, and whether it is a processing time.
    fn time_of(
        &self,
        params: &WindowFunctionParams,
        input: &Relation,
        window: &Window,
    ) -> Lowered<(usize, bool)> {
        let [order] = params.order_by.as_slice() else {
            let message = match params.order_by.is_empty() {
                true => "OVER without ORDER BY is not supported: nothing says which rows are before a row",
                false => "OVER with several ORDER BY columns is not supported",
            };
            return Err(unsupported(message).hint(EXAMPLE));
        };
        let physical = self.physical(&order.expr, window.input.schema())?;
        let output = column_of(&physical).map(|index| input.outputs[index]);
        match output.map(|output| (output.role.time_attribute(), output.slot)) {
            Some((Some(processing_time), Slot::Column(time))) if order.asc => Ok((time, processing_time)),
            Some((Some(_), _)) => {
                Err(unsupported("OVER with ORDER BY … DESC is not supported: the newest row never comes")
                    .hint(EXAMPLE))
            }
            _ => Err(unsupported("OVER is supported with ORDER BY a time attribute alone").hint(EXAMPLE)),
        }
    }
}

/// The window, and what is computed over it, by name.
fn one_window(window: &Window) -> Lowered<(WindowFunctionParams, Vec<(String, AggregateFunction)>)> {
    let mut over: Option<WindowFunctionParams> = None;
    let mut functions = Vec::new();
    for expr in &window.window_expr {
        let Expr::WindowFunction(function) = expr.clone().unalias() else {
            return Err(Fault::internal(NOWHERE, format!("{expr} is no window function")));
        };
        let WindowFunction { fun, params } = *function;
        let function = match fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                let args = params.args.iter().map(counted).collect();
                let args = match &params.filter {
                    Some(filter) => filtered(args, filter, &function, params.null_treatment)?,
                    None => args,
                };
                AggregateFunction::new_udf(
                    function,
                    args,
                    params.distinct,
                    None,
                    vec![],
                    params.null_treatment,
                )
            }
            // Its frame is all rows up to the row, whatever is written.
            WindowFunctionDefinition::WindowUDF(_) => {
                return Err(unsupported("ROW_NUMBER() beside an aggregate OVER is not supported")
                    .hint("write COUNT(*) OVER (… ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"));
            }
        };
        if let Some(first) = &over
            && (first.partition_by != params.partition_by
                || first.order_by != params.order_by
                || first.window_frame != params.window_frame)
        {
            return Err(unsupported("aggregates of one query over different windows are not supported")
                .hint("nest the queries, a window in each"));
        }
        functions.push((expr.schema_name().to_string(), function));
        over = Some(params);
    }
    let Some(over) = over else { return Err(Fault::internal(NOWHERE, "OVER without a function")) };
    Ok((over, functions))
}

/// Arguments of an aggregate `FILTER (WHERE …)`: NULL in place of a value that does not count, which all aggregates but one
/// pass over.
fn filtered(
    mut args: Vec<Expr>,
    filter: &Expr,
    function: &AggregateUDF,
    nulls: Option<NullTreatment>,
) -> Lowered<Vec<Expr>> {
    if function.name() == "array_agg" && nulls != Some(NullTreatment::IgnoreNulls) {
        return Err(unsupported("FILTER with ARRAY_AGG OVER is not supported where NULLs are kept")
            .hint("write ARRAY_AGG(x) IGNORE NULLS FILTER (WHERE …) OVER …"));
    }
    let Some(value) = args.first_mut() else {
        return Err(Fault::internal(NOWHERE, format!("{} of nothing", function.name())));
    };
    let kept = when(filter.clone(), value.clone()).end().map_err(|e| Fault::internal(NOWHERE, e))?;
    *value = kept;
    Ok(args)
}

/// An argument; COUNT(*) counts a constant.
#[expect(deprecated, reason = "the planner still makes it")]
fn counted(argument: &Expr) -> Expr {
    match argument {
        Expr::Wildcard { .. } => datafusion_expr::lit(1_i64),
        other => other.clone(),
    }
}

fn frame_of(frame: &WindowFrame) -> Lowered<OverFrame> {
    if frame.end_bound != WindowFrameBound::CurrentRow {
        return Err(unsupported("OVER is supported up to the CURRENT ROW alone").hint(EXAMPLE));
    }
    let preceding = match &frame.start_bound {
        WindowFrameBound::Preceding(bound) if bound.is_null() => None,
        WindowFrameBound::Preceding(bound) => Some(bound.clone()),
        WindowFrameBound::CurrentRow => Some(match frame.units {
            WindowFrameUnits::Rows => ScalarValue::UInt64(Some(0)),
            _ => ScalarValue::new_interval_mdn(0, 0, 0),
        }),
        WindowFrameBound::Following(_) => {
            return Err(unsupported("OVER is supported up to the CURRENT ROW alone").hint(EXAMPLE));
        }
    };
    match (frame.units, preceding) {
        (WindowFrameUnits::Rows, None) => Ok(OverFrame::Rows { preceding: None }),
        (WindowFrameUnits::Range, None) => Ok(OverFrame::Range { preceding_ms: None }),
        (WindowFrameUnits::Rows, Some(ScalarValue::UInt64(Some(rows)))) => {
            Ok(OverFrame::Rows { preceding: Some(rows) })
        }
        (WindowFrameUnits::Range, Some(ScalarValue::IntervalMonthDayNano(Some(interval)))) => {
            match time_part_of(interval).filter(|ms| *ms >= 0) {
                Some(ms) => Ok(OverFrame::Range { preceding_ms: Some(ms) }),
                None => Err(unsupported("RANGE takes an interval of whole milliseconds, not of months")),
            }
        }
        (WindowFrameUnits::Groups, _) => Err(unsupported("GROUPS is not SQL of Flink").hint(EXAMPLE)),
        (_, Some(other)) => Err(unsupported(&format!("OVER does not take {other} PRECEDING")).hint(EXAMPLE)),
    }
}

fn frame_text(frame: OverFrame) -> String {
    match frame {
        OverFrame::Rows { preceding: None } => "all rows before".into(),
        OverFrame::Rows { preceding: Some(rows) } => format!("{rows} rows before"),
        OverFrame::Range { preceding_ms: None } => "all times before".into(),
        OverFrame::Range { preceding_ms: Some(ms) } => format!("{} before", duration_text(ms)),
    }
}

/// `ROW_NUMBER() OVER (… ORDER BY time)` without a bound on it counts the rows of the key so far.
pub(super) fn numbering(window: &Window, function: &WindowFunction) -> Window {
    let unbounded = WindowFrameBound::Preceding(ScalarValue::UInt64(None));
    let frame = WindowFrame::new_bounds(WindowFrameUnits::Rows, unbounded, WindowFrameBound::CurrentRow);
    let args = vec![datafusion_expr::lit(1_i64)];
    let params = WindowFunctionParams { args, window_frame: frame, ..function.params.clone() };
    let counted = WindowFunction { fun: WindowFunctionDefinition::AggregateUDF(count_udaf()), params };
    Window { window_expr: vec![Expr::WindowFunction(Box::new(counted))], ..window.clone() }
}
