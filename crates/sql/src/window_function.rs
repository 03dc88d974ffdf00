//! TUMBLE, HOP, CUMULATE and SESSION in FROM: from the call to a node of the logical plan, past which only some filters
//! may be moved. Lowering decides which operator assigns the windows.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{
    Column, DFSchema, DFSchemaRef, DataFusionError, ExprSchema, Result, ScalarValue, plan_err,
};
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion_sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, Spanned, TableFactor,
};
use datafusion_sql::sqlparser::tokenizer::{Location, Span};
use laxity_operators::WindowKind;
use laxity_text::closest;

use crate::dialect::{ORDERED, PARTITIONED, TABLE};
use crate::error::{Fault, SqlErrorKind};
use crate::explain::duration_text;
use crate::planning::{fault_in_error, time_part_of};

/// Flink's windowing table functions.
pub(crate) const WINDOW_FUNCTIONS: &[&str] = &["tumble", "hop", "cumulate", "session"];

/// For hints.
pub(crate) const EXAMPLE: &str = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL '1' MINUTE)) GROUP BY \
                                  window_start, window_end";

/// `TUMBLE(…)` and its like as a node of the logical plan: the input's columns, then the window's.
#[derive(Debug, Clone)]
pub(crate) struct WindowFunction {
    pub input: LogicalPlan,
    pub kind: WindowKind,
    /// The DESCRIPTOR column.
    pub time: Column,
    /// PARTITION BY columns; only sessions need them.
    pub keys: Vec<Column>,
    /// Where the function stands in the file.
    pub at: Location,
    /// Names of columns that are kept although nothing above needs them.
    pub keep: Vec<String>,
    pub schema: DFSchemaRef,
}

impl WindowFunction {
    fn new(
        input: LogicalPlan,
        kind: WindowKind,
        time: Column,
        keys: Vec<Column>,
        at: Location,
    ) -> Result<WindowFunction> {
        let schema = window_schema(&input, &time)?;
        Ok(WindowFunction { input, kind, time, keys, at, keep: vec![], schema })
    }
}

fn window_schema(input: &LogicalPlan, time: &Column) -> Result<DFSchemaRef> {
    let schema = input.schema();
    let time_type = schema.field_from_column(time)?.data_type().clone();
    let mut fields: Vec<_> =
        schema.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect();
    let bound = DataType::Timestamp(TimeUnit::Millisecond, None);
    for (name, data_type) in
        [("window_start", bound.clone()), ("window_end", bound), ("window_time", time_type)]
    {
        let taken = |name: &str| fields.iter().any(|(_, field)| field.name() == name);
        let mut unique = name.to_string();
        let mut digit = 0;
        while taken(&unique) {
            unique = format!("{name}{digit}");
            digit += 1;
        }
        fields.push((None, Arc::new(Field::new(unique, data_type, false))));
    }
    Ok(Arc::new(DFSchema::new_with_metadata(fields, Default::default())?))
}

impl PartialEq for WindowFunction {
    fn eq(&self, other: &WindowFunction) -> bool {
        self.kind == other.kind
            && self.time == other.time
            && self.keys == other.keys
            && self.at == other.at
            && self.input == other.input
    }
}

impl Eq for WindowFunction {}

impl PartialOrd for WindowFunction {
    fn partial_cmp(&self, other: &WindowFunction) -> Option<Ordering> {
        if self == other { Some(Ordering::Equal) } else { None }
    }
}

impl Hash for WindowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.time.hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for WindowFunction {
    fn name(&self) -> &str {
        "WindowFunction"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// None, so that no rule replaces the time column by an expression.
    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    /// A filter on anything but the window's own columns holds for a row in all its windows or in none. A
    /// session's extent depends on the rows it sees, so only a filter on its keys may go below.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let fields = self.schema.fields();
        if matches!(self.kind, WindowKind::Session { .. }) {
            let key = |name: &str| self.keys.iter().any(|key| key.name == name);
            return fields.iter().map(|f| f.name().clone()).filter(|name| !key(name)).collect();
        }
        fields[fields.len() - 3..].iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WindowFunction: {:?} on {}", self.kind, self.time)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<WindowFunction> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return plan_err!("a window function has one input");
        };
        let node = WindowFunction::new(input, self.kind, self.time.clone(), self.keys.clone(), self.at)?;
        Ok(WindowFunction { keep: self.keep.clone(), ..node })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let schema = self.input.schema();
        let width = schema.fields().len();
        let mut needed: Vec<usize> =
            output_columns.iter().copied().filter(|column| *column < width).collect();
        needed.extend(
            std::iter::once(&self.time).chain(&self.keys).filter_map(|c| schema.maybe_index_of_column(c)),
        );
        let kept = |field: &str| self.keep.iter().any(|name| name == field);
        needed.extend((0..width).filter(|column| kept(schema.field(*column).name())));
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}

/// Refuses a table function that is not a windowing one.
pub(crate) fn check_name(name: &ObjectName) -> Result<(), Box<Fault>> {
    let written = name.to_string().to_lowercase();
    if WINDOW_FUNCTIONS.contains(&written.as_str()) {
        return Ok(());
    }
    let fault = Fault::new(
        SqlErrorKind::UnknownFunction,
        name.span().start,
        format!("unknown table function '{name}'; there are TUMBLE, HOP, CUMULATE and SESSION"),
    );
    Err(match closest(&written, WINDOW_FUNCTIONS.iter().copied()) {
        Some(near) => fault.hint(format!("did you mean {}?", near.to_uppercase())),
        None => fault,
    })
}

/// Plans windowing table functions in FROM.
#[derive(Debug)]
pub(crate) struct WindowFunctionPlanner;

impl RelationPlanner for WindowFunctionPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (name, arguments, alias) = match relation {
            TableFactor::TableFunction {
                expr:
                    SqlExpr::Function(Function {
                        name,
                        args: FunctionArguments::List(FunctionArgumentList { args, .. }),
                        ..
                    }),
                alias,
            } => (name, args, alias),
            TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args, alias),
            TableFactor::Function { name, args, alias, lateral: false, .. } => (name, args, alias),
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        let plan = Call { name: &name, span: name.span(), context }.plan(&arguments)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

struct Call<'a> {
    name: &'a ObjectName,
    span: Span,
    context: &'a mut dyn RelationPlannerContext,
}

/// Names of the parameters in positional order; those after the optional mark may be left out.
fn parameters(function: &str) -> (&'static [&'static str], usize) {
    match function {
        "tumble" => (&["DATA", "TIMECOL", "SIZE", "OFFSET"], 3),
        "hop" => (&["DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"], 4),
        "cumulate" => (&["DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"], 4),
        _ => (&["DATA", "TIMECOL", "GAP"], 3),
    }
}

impl Call<'_> {
    fn fail<T>(&self, at: Location, message: String) -> Result<T> {
        Err(fault_in_error(Fault::new(SqlErrorKind::Invalid, at, message)))
    }

    fn plan(mut self, arguments: &[FunctionArg]) -> Result<LogicalPlan> {
        check_name(self.name).map_err(fault_in_error)?;
        let function = self.name.to_string().to_lowercase();
        let (names, required) = parameters(&function);
        let given = self.assign(&function, names, arguments)?;
        if let Some(missing) = names[..required].iter().zip(&given).find(|(_, arg)| arg.is_none()) {
            let usage = names.join(", ");
            return self.fail(
                self.span.start,
                format!("{} misses its argument {}; it takes {usage}", function.to_uppercase(), missing.0),
            );
        }
        let required_arg = |index: usize| given[index].as_ref().expect("checked above");

        let (input, key_exprs) = self.data(required_arg(0))?;
        let time = self.descriptor(required_arg(1), &input)?;
        let keys = key_exprs
            .into_iter()
            .map(|key| {
                let at = key.span().start;
                match self.context.sql_to_expr(key, input.schema())? {
                    Expr::Column(column) => Ok(column),
                    other => self.fail(at, format!("PARTITION BY takes columns, not {other}")),
                }
            })
            .collect::<Result<Vec<_>>>()?;

        let length = |call: &mut Self, index: usize| -> Result<i64> {
            let arg = given[index].as_ref().expect("checked above");
            let ms = call.interval_ms(arg, input.schema())?;
            if ms <= 0 {
                return call.fail(arg.span().start, format!("{} must be more than zero", names[index]));
            }
            Ok(ms)
        };
        let offset = |call: &mut Self, index: usize| match given.get(index).and_then(Option::as_ref) {
            Some(arg) => call.interval_ms(arg, input.schema()),
            None => Ok(0),
        };
        let kind = match function.as_str() {
            "tumble" => {
                let size_ms = length(&mut self, 2)?;
                let offset_ms = offset(&mut self, 3)?;
                if offset_ms.unsigned_abs() >= size_ms.unsigned_abs() {
                    return self.fail(
                        required_arg(3).span().start,
                        format!("TUMBLE needs an offset of less than its size ({})", duration_text(size_ms)),
                    );
                }
                WindowKind::Tumble { size_ms, offset_ms: offset_ms.rem_euclid(size_ms) }
            }
            "hop" => {
                let (slide_ms, size_ms) = (length(&mut self, 2)?, length(&mut self, 3)?);
                let offset_ms = offset(&mut self, 4)?.rem_euclid(slide_ms);
                if size_ms % slide_ms != 0 {
                    // Flink: "HOP table function based aggregate requires size must be an integral multiple of slide".
                    return self.fail(
                        required_arg(3).span().start,
                        format!(
                            "HOP needs a size ({}) that is a multiple of the slide ({})",
                            duration_text(size_ms),
                            duration_text(slide_ms)
                        ),
                    );
                }
                WindowKind::Hop { size_ms, slide_ms, offset_ms }
            }
            "cumulate" => {
                let (step_ms, max_ms) = (length(&mut self, 2)?, length(&mut self, 3)?);
                let offset_ms = offset(&mut self, 4)?.rem_euclid(max_ms);
                if max_ms % step_ms != 0 {
                    return self.fail(
                        required_arg(3).span().start,
                        format!(
                            "CUMULATE needs a size ({}) that is a multiple of the step ({})",
                            duration_text(max_ms),
                            duration_text(step_ms)
                        ),
                    );
                }
                WindowKind::Cumulate { max_ms, step_ms, offset_ms }
            }
            _ => WindowKind::Session { gap_ms: length(&mut self, 2)? },
        };
        let node = WindowFunction::new(input, kind, time, keys, self.span.start)?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    /// Sorts positional or named arguments into the parameters' order.
    fn assign(
        &self,
        function: &str,
        names: &[&str],
        arguments: &[FunctionArg],
    ) -> Result<Vec<Option<SqlExpr>>> {
        let mut given: Vec<Option<SqlExpr>> = vec![None; names.len()];
        for (position, argument) in arguments.iter().enumerate() {
            let (index, expr, at) = match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (position, expr, expr.span().start),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    let upper = name.value.to_uppercase();
                    match names.iter().position(|known| *known == upper) {
                        Some(index) => (index, expr, name.span.start),
                        None => {
                            return self.fail(
                                name.span.start,
                                format!(
                                    "{} has no argument {}; it takes {}",
                                    function.to_uppercase(),
                                    name.value,
                                    names.join(", ")
                                ),
                            );
                        }
                    }
                }
                other => return self.fail(self.span.start, format!("unexpected argument {other}")),
            };
            let Some(slot) = given.get_mut(index) else {
                return self.fail(
                    at,
                    format!("{} takes {}, and nothing more", function.to_uppercase(), names.join(", ")),
                );
            };
            if slot.replace(expr.clone()).is_some() {
                return self.fail(at, format!("argument {} is given twice", names[index]));
            }
        }
        Ok(given)
    }

    /// The TABLE argument: its plan and its PARTITION BY expressions.
    fn data(&mut self, expr: &SqlExpr) -> Result<(LogicalPlan, Vec<SqlExpr>)> {
        match expr {
            SqlExpr::Subquery(query) => {
                let factor = TableFactor::Derived {
                    lateral: false,
                    subquery: query.clone(),
                    alias: None,
                    sample: None,
                };
                Ok((self.context.plan(factor)?, vec![]))
            }
            SqlExpr::Nested(inner) => self.data(inner),
            SqlExpr::Identifier(name) => self.table(std::slice::from_ref(name)),
            SqlExpr::CompoundIdentifier(name) => self.table(name),
            SqlExpr::Function(marker) => {
                let FunctionArguments::List(list) = &marker.args else {
                    return self.not_a_table(expr);
                };
                let mut inner = list.args.iter().filter_map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                });
                match (marker.name.to_string().as_str(), inner.next()) {
                    (TABLE, Some(name)) => self.data(&name),
                    (PARTITIONED, Some(table)) => Ok((self.data(&table)?.0, inner.collect())),
                    (ORDERED, _) => self.fail(
                        marker.span().start,
                        "ORDER BY in a table argument is not supported: rows come in the order of their arrival"
                            .into(),
                    ),
                    _ => self.not_a_table(expr),
                }
            }
            _ => self.not_a_table(expr),
        }
    }

    fn not_a_table<T>(&self, expr: &SqlExpr) -> Result<T> {
        self.fail(
            expr.span().start,
            "the first argument must be a table: write TABLE t, or TABLE (SELECT …)".into(),
        )
    }

    fn table(&mut self, name: &[Ident]) -> Result<(LogicalPlan, Vec<SqlExpr>)> {
        let name = ObjectName(name.iter().cloned().map(ObjectNamePart::Identifier).collect());
        let factor = TableFactor::Table {
            name,
            alias: None,
            args: None,
            with_hints: vec![],
            version: None,
            with_ordinality: false,
            partitions: vec![],
            json_path: None,
            sample: None,
            index_hints: vec![],
        };
        Ok((self.context.plan(factor)?, vec![]))
    }

    fn descriptor(&mut self, expr: &SqlExpr, input: &LogicalPlan) -> Result<Column> {
        let at = expr.span().start;
        let column = match expr {
            SqlExpr::Function(f) if f.name.to_string().eq_ignore_ascii_case("descriptor") => match &f.args {
                FunctionArguments::List(list) => match list.args.as_slice() {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] => Some(column.clone()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        let Some(column @ (SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_))) = column else {
            return self
                .fail(at, "the second argument must name the time column: write DESCRIPTOR(column)".into());
        };
        let column_at = column.span().start;
        let Expr::Column(column) = self.context.sql_to_expr(column, input.schema())? else {
            return self.fail(column_at, "DESCRIPTOR takes one column".into());
        };
        let data_type = input.schema().field_from_column(&column)?.data_type().clone();
        if !matches!(data_type, DataType::Timestamp(TimeUnit::Millisecond, _)) {
            return self.fail(
                column_at,
                format!(
                    "a window needs a time attribute of type TIMESTAMP(3) or TIMESTAMP_LTZ(3), but '{}' is {}",
                    column.name,
                    crate::data_type::display(&data_type)
                ),
            );
        }
        Ok(column)
    }

    fn interval_ms(&mut self, expr: &SqlExpr, schema: &DFSchema) -> Result<i64> {
        let at = expr.span().start;
        let planned = self.context.sql_to_expr(expr.clone(), schema)?;
        let Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) = planned else {
            return self.fail(at, "expected an interval such as INTERVAL '10' SECOND".into());
        };
        if interval.months != 0 {
            return self.fail(at, "a window's length must be fixed: months and years are not".into());
        }
        match time_part_of(interval) {
            Some(ms) => Ok(ms),
            None => self.fail(at, "window lengths are whole milliseconds".into()),
        }
    }
}

/// Has every window function of a plan keep columns of these names.
pub(crate) fn keep_columns(plan: LogicalPlan, keep: &[String]) -> Result<LogicalPlan> {
    if keep.is_empty() {
        return Ok(plan);
    }
    let transformed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Extension(extension) = &node else { return Ok(Transformed::no(node)) };
        let Ok(function) = as_window_function(extension) else { return Ok(Transformed::no(node)) };
        let function = function.clone();
        let function = WindowFunction { keep: keep.to_vec(), ..function };
        Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(function) })))
    })?;
    Ok(transformed.data)
}

/// The window function inside an extension node of a plan.
pub(crate) fn as_window_function(extension: &Extension) -> Result<&WindowFunction> {
    extension
        .node
        .as_any()
        .downcast_ref::<WindowFunction>()
        .ok_or_else(|| DataFusionError::Internal("unknown extension node".into()))
}
