//! What queries have in common that differ in constants alone, those of their filters and those that they select: found by
//! the plan without them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Expr, Extension, LogicalPlan, Operator, Projection};
use datafusion_sql::sqlparser::tokenizer::Location;
use laxity_connect::{ScanSpec, SinkSpec, TableSpec};
use laxity_graph::{Dataflow, NodeId, WindowEnds, WindowShape};
use laxity_operators::{
    Access, Chain, OwnConstants, SharedStage, SlicerSpec, Stage, Template, WindowInput, WindowKind,
};
use parking_lot::Mutex;

use crate::data_type::CharLength;
use crate::functions::casts_number;
use crate::lower::{Lowered, Lowering};
use crate::planning::Planner;
use crate::settings::SessionSettings;
use crate::window_function::{WindowFunction, as_window_function};

/// The templates of a script.
#[derive(Default)]
pub(crate) struct Templates {
    /// By what they do. `None` where no operator can do it.
    by_shape: Mutex<HashMap<Shape, Option<Arc<Template>>>>,
    /// What those have in common that are alike but for their windows: by a shape without these. `None` where each has to
    /// see its rows itself.
    slicers: Mutex<HashMap<Shape, Option<Arc<SlicerSpec>>>>,
    readers: Mutex<Readers>,
    /// Of tables that give fields of ROWs alone: any queries.
    row_readers: Mutex<Readers>,
}

/// Tables that queries read: of which they get every row, if nothing else is said.
#[derive(Default)]
struct Readers {
    /// Whether there are several of them.
    are_several: HashMap<TableKey, bool>,
    /// Where that has come to be so.
    joined: Vec<TableKey>,
}

impl Readers {
    /// One more reader; whether it is the first.
    fn read_first(&mut self, table: TableKey) -> bool {
        match self.are_several.get_mut(&table) {
            None => {
                self.are_several.insert(table, false);
                return true;
            }
            Some(true) => {}
            Some(are_several) => {
                *are_several = true;
                self.joined.push(table);
            }
        }
        false
    }
}

/// A table as it is declared, which is kept for as long as a query reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableKey(usize);

impl TableKey {
    pub fn of(table: &Arc<TableSpec>) -> TableKey {
        TableKey(Arc::as_ptr(table).addr())
    }
}

impl Templates {
    /// The table that this query is the first to get every row of.
    pub fn lone_with(&self, dataflow: &Dataflow<Stage<ScanSpec, SinkSpec>>) -> Option<TableKey> {
        let [source, _, _] = dataflow.nodes() else { return None };
        let Stage::Source { scan, shared: Some(shared), .. } = &source.stage else { return None };
        if !shared.spec.gets_every_row() {
            return None;
        }
        let table = TableKey::of(&scan.table);
        self.readers.lock().read_first(table).then_some(table)
    }

    /// Whether nobody has read any of these tables, of which each has a reader now.
    pub fn reads_rows_first(&self, tables: &BTreeSet<TableKey>) -> bool {
        let mut readers = self.row_readers.lock();
        tables.iter().fold(true, |is_first, &table| readers.read_first(table) & is_first)
    }

    /// As [`take_joined`](Templates::take_joined), of those.
    pub fn take_joined_rows(&self) -> Vec<TableKey> {
        std::mem::take(&mut self.row_readers.lock().joined)
    }

    /// Tables that had one such reader when this was asked last, and have several now.
    pub fn take_joined(&self) -> Vec<TableKey> {
        std::mem::take(&mut self.readers.lock().joined)
    }
}

/// What a query does, whichever rows it gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Without filters over its table, without constants that are selected, and without places in the text.
    plan: LogicalPlan,
    /// Columns of the table that it writes which hold such a constant.
    open: Vec<usize>,
    /// Columns of the table that it writes, with the lengths of CHAR and VARCHAR.
    sink: SchemaRef,
    lengths: Vec<Option<CharLength>>,
    /// Those that it gives.
    columns: Vec<usize>,
    /// Those are saved at one time that are done as one.
    checkpoint_interval: Option<Duration>,
}

impl Shape {
    /// That of a query that is planned so; `None` where it needs an operator of its own: only groups of windows can be
    /// told apart by one key more, and only what cannot fail for one query cannot fail for another.
    ///
    /// `links`: operators behind its source that rows go through before they are aggregated. Of one alone all filters of
    /// the table are part.
    pub fn of(
        plan: &LogicalPlan,
        links: usize,
        sink: &SchemaRef,
        lengths: &[Option<CharLength>],
        columns: &[usize],
        checkpoint_interval: Option<Duration>,
    ) -> Option<Shape> {
        let mut aggregates = 0;
        let mut is_fit = true;
        // The closures never fail.
        let _ = plan.apply(|node| {
            aggregates += usize::from(matches!(node, LogicalPlan::Aggregate(_)));
            is_fit &= can_be_as_one(node);
            let _ = node.apply_expressions(|expr| {
                is_fit &= cannot_fail(expr, node);
                Ok(TreeNodeRecursion::Continue)
            });
            Ok(TreeNodeRecursion::Continue)
        });
        if !is_fit || aggregates != 1 {
            return None;
        }
        let plan = plan.clone().transform_up(|node| without_filter(node, links == 1)).ok()?.data;
        let (plan, open) = without_constants(plan, columns).ok()?;
        let (sink, lengths, columns) = (Arc::clone(sink), lengths.to_vec(), columns.to_vec());
        Some(Shape { plan, open, sink, lengths, columns, checkpoint_interval })
    }

    /// The operator that does it for all.
    fn template(
        &self,
        planner: &Planner,
        settings: &SessionSettings,
        sink: &SinkSpec,
        templates: &Templates,
    ) -> Lowered<Template> {
        let mut lowering = Lowering::new(planner, settings, "template".into(), 0);
        lowering.work = Some(vec![]);
        lowering.insert(&self.plan, &sink.table, &self.lengths, &self.columns)?;
        let work = lowering.work.take().unwrap_or_default();
        let template =
            Template::new(&lowering.read_columns, Chain::factory(work.clone()), lowering.member_key);
        let (Some((behind, aggregate)), Some(time)) = (lowering.aggregated, lowering.read_time) else {
            return Ok(template);
        };
        let WindowInput::Assign { window, .. } = aggregate.windows else { return Ok(template) };
        let Ok(shape) = self.without_windows() else { return Ok(template) };
        let of_rows = || {
            let before = (behind > 0).then(|| Chain::factory(work[..behind].to_vec()));
            SlicerSpec::new(before, aggregate, time, lowering.member_key).map(Arc::new)
        };
        let slicer = templates.slicers.lock().entry(shape).or_insert_with(of_rows).clone();
        Ok(match slicer {
            Some(slicer) => template.with_slices(slicer, window),
            None => template,
        })
    }

    /// The same of those whose windows are others.
    fn without_windows(&self) -> Result<Shape> {
        let plan = self.plan.clone().transform_up(|node| match node {
            LogicalPlan::Extension(extension) => {
                let function = as_window_function(&extension)?;
                // Whichever, if it is the same for all.
                let mut of_any: WindowFunction = function.clone();
                of_any.kind = WindowKind::Tumble { size_ms: 1, offset_ms: 0 };
                Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(of_any) })))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(Shape { plan: plan?.data, ..self.clone() })
    }
}

/// Lets a query be done as one with others that differ in constants alone: whether it can be. `constants`: columns of its results
/// that hold one value, with that.
pub(crate) fn find(
    shape: impl FnOnce(usize) -> Option<Shape>,
    constants: &[(usize, ScalarValue)],
    templates: &Templates,
    planner: &Planner,
    settings: &SessionSettings,
    dataflow: &mut Dataflow<Stage<ScanSpec, SinkSpec>>,
) -> bool {
    find_template(shape, constants, templates, planner, settings, dataflow);
    keep_what_gains(dataflow);
    dataflow.nodes().iter().any(|node| match &node.stage {
        Stage::Source { shared: Some(shared), .. } => shared.spec.template.is_some(),
        _ => false,
    })
}

/// A table is read with others where that is less work. Where rows are stamped, time is told to those together who are known to
/// wait for windows and nothing else. A filter tells rows apart; without one, rows are held until windows end, or aggregated together.
pub(crate) fn keep_what_gains(dataflow: &mut Dataflow<Stage<ScanSpec, SinkSpec>>) {
    let waits_for_windows =
        dataflow.nodes().iter().any(|node| node.window.is_some_and(|window| window.ends().is_some()));
    let gains_nothing = |of: &SharedStage| {
        of.spec.template.is_none()
            && (of.spec.source.is_stamped() || of.spec.gets_every_row() && !waits_for_windows)
    };
    for node in 0..dataflow.nodes().len() {
        if let Stage::Source { shared, .. } = dataflow.stage_mut(NodeId(node)) {
            shared.take_if(|of| gains_nothing(of));
        }
    }
}

fn find_template(
    shape: impl FnOnce(usize) -> Option<Shape>,
    constants: &[(usize, ScalarValue)],
    templates: &Templates,
    planner: &Planner,
    settings: &SessionSettings,
    dataflow: &mut Dataflow<Stage<ScanSpec, SinkSpec>>,
) {
    let is_plain = kept_apart(settings).is_none();
    let [source, window, sink] = dataflow.nodes() else { return };
    let (Stage::Source { shared: Some(shared), .. }, Stage::Sink(sink)) = (&source.stage, &sink.stage) else {
        return;
    };
    let is_timed = source.window.is_none() && window.window.is_some_and(has_no_offset);
    if !is_plain || !is_timed || !shared.spec.access().is_some_and(Access::is_exact) {
        return;
    }
    let Some(shape) = shape(shared.links) else { return };
    let own = |column: &usize| constants.iter().find(|(of, _)| of == column).cloned();
    let Some(own) = shape.open.iter().map(own).collect::<Option<Vec<_>>>() else { return };
    let sink = sink.clone();
    let known = templates.by_shape.lock().get(&shape).cloned();
    let template = known.unwrap_or_else(|| {
        let made = shape.template(planner, settings, &sink, templates).ok().map(Arc::new);
        // Another thread may have made it meanwhile: there is to be one.
        templates.by_shape.lock().entry(shape).or_insert(made).clone()
    });
    if let Some(template) = template
        && let Stage::Source { shared: Some(shared), view, .. } = dataflow.stage_mut(NodeId(0))
        && template.reads(&shared.spec.source.output_schema)
        && (template.slices().is_some() || !shared.spec.gets_every_row())
    {
        if !shared.spec.gets_every_row() {
            // That is more than could be computed for it and others.
            *view = None;
        }
        let spec = Arc::make_mut(&mut shared.spec);
        spec.template = Some(template);
        spec.constants = (!own.is_empty()).then(|| Arc::new(OwnConstants::new(own)));
    }
}

/// Puts NULL for constants that are selected: the plan, and the columns of the table written that they are for.
fn without_constants(plan: LogicalPlan, columns: &[usize]) -> Result<(LogicalPlan, Vec<usize>)> {
    let LogicalPlan::Projection(projection) = plan else { return Ok((plan, vec![])) };
    let mut open = Vec::new();
    let mut selected = projection.expr.clone();
    for (place, expr) in selected.iter_mut().enumerate() {
        let Expr::Literal(value, _) = expr.clone().unalias() else { continue };
        let nothing = Expr::Literal(ScalarValue::try_from(&value.data_type())?, None);
        *expr = nothing.alias(format!("\u{1}constant-{place}"));
        open.extend(columns.get(place));
    }
    let projection = Projection::try_new(selected, Arc::clone(&projection.input))?;
    Ok((LogicalPlan::Projection(projection), open))
}

/// Takes away what queries of a template differ in. `all_at_once`: the source's filter is all of them over its table, not
/// just the one that stands next to it.
fn without_filter(node: LogicalPlan, all_at_once: bool) -> Result<Transformed<LogicalPlan>> {
    fn reads(plan: &LogicalPlan, all_at_once: bool) -> bool {
        match plan {
            LogicalPlan::TableScan(_) => true,
            LogicalPlan::Projection(projection) if all_at_once => reads(&projection.input, true),
            LogicalPlan::SubqueryAlias(alias) if all_at_once => reads(&alias.input, true),
            _ => false,
        }
    }
    Ok(match node {
        LogicalPlan::Filter(filter) if reads(&filter.input, all_at_once) => {
            Transformed::yes(Arc::unwrap_or_clone(filter.input))
        }
        LogicalPlan::Extension(extension) => {
            let function = as_window_function(&extension)?;
            let mut unplaced: WindowFunction = function.clone();
            unplaced.at = Location { line: 0, column: 0 };
            Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(unplaced) }))
        }
        other => Transformed::no(other),
    })
}

/// Slices that windows are put together of begin at multiples of their length.
pub(crate) fn has_no_offset(window: WindowShape) -> bool {
    window.ends().is_some_and(|ends| Some(ends) == WindowEnds::new(window.slide_ms, 0))
}

/// The setting for which a query is not done as one with others, as a reason to follow "as".
pub(crate) fn kept_apart(settings: &SessionSettings) -> Option<&'static str> {
    let reasons = [
        (settings.late_table.is_some(), "its late rows go to a table"),
        (settings.memory_limit_bytes.is_some(), "it has a memory limit of its own"),
        (settings.idle_timeout.is_some(), "it has an idle timeout of its own"),
        (settings.shed, "it may shed rows"),
        (settings.parallelism != 1, "it is spread over several instances"),
    ];
    reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
}

/// Whether such a part of a plan can be done for several queries with the query as a key.
pub(crate) fn can_be_as_one(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::SubqueryAlias(_) => true,
        LogicalPlan::Extension(extension) => as_window_function(extension).is_ok(),
        _ => false,
    }
}

/// Whether an expression has a value for every row. Not all that have are known here.
pub(crate) fn cannot_fail(expr: &Expr, node: &LogicalPlan) -> bool {
    let mut schema = datafusion_common::DFSchema::empty();
    node.inputs().iter().for_each(|input| schema.merge(input.schema()));
    let number = |expr: &Expr| {
        use datafusion_expr::ExprSchemable;
        expr.get_type(&schema).is_ok_and(|of| of.is_integer() || of.is_floating())
    };
    let mut is_safe = true;
    // The closure never fails.
    let _ = expr.apply(|part| {
        is_safe &= match part {
            Expr::Column(_)
            | Expr::Alias(_)
            | Expr::Literal(..)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::Like(_)
            | Expr::Case(_) => true,
            Expr::BinaryExpr(binary) => match binary.op {
                Operator::Plus | Operator::Minus | Operator::Multiply => {
                    number(&binary.left) && number(&binary.right)
                }
                Operator::Divide if is_mean(&binary.left, &binary.right, node) => true,
                // By zero, and the least number by -1.
                Operator::Divide | Operator::Modulo => {
                    let divisor = &*binary.right;
                    number(&binary.left) && matches!(divisor, Expr::Literal(value, _) if is_positive(value))
                }
                Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq => true,
                op => op.is_logic_operator(),
            },
            Expr::Cast(cast) => {
                use datafusion_expr::ExprSchemable;
                let to = cast.field.data_type();
                cast.expr.get_type(&schema).is_ok_and(|from| is_wider(&from, to))
            }
            Expr::ScalarFunction(call) => {
                use datafusion_expr::ExprSchemable;
                let are_texts =
                    || call.args.iter().all(|of| of.get_type(&schema).is_ok_and(|of| of.is_string()));
                casts_number(call, &schema)
                    || call.name() == "get_field"
                    || matches!(call.name(), "lower" | "upper") && are_texts()
            }
            Expr::AggregateFunction(call) => {
                let is_number = |argument: &Expr| {
                    number(argument) || matches!(argument, Expr::Literal(ScalarValue::Int64(_), _))
                };
                match call.func.name() {
                    "count" | "min" | "max" => true,
                    "sum" | "avg" => call.params.args.iter().all(is_number),
                    _ => false,
                }
            }
            _ => false,
        };
        Ok(if is_safe { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    is_safe
}

/// A whole number that something may be divided by, whatever it is.
pub(crate) fn is_positive(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Int8(Some(value)) => *value > 0,
        ScalarValue::Int16(Some(value)) => *value > 0,
        ScalarValue::Int32(Some(value)) => *value > 0,
        ScalarValue::Int64(Some(value)) => *value > 0,
        _ => false,
    }
}

/// Whether these are the sum and the number of the same values, as AVG of whole numbers has them: none is divided by
/// zero, as no values have no sum.
fn is_mean(sum: &Expr, count: &Expr, node: &LogicalPlan) -> bool {
    let (Expr::Column(sum), Expr::Column(count)) = (sum, count) else { return false };
    let mut below = node;
    let aggregate = loop {
        below = match below {
            LogicalPlan::Aggregate(aggregate) => break aggregate,
            LogicalPlan::Projection(projection) if std::ptr::eq(below, node) => &projection.input,
            LogicalPlan::Filter(filter) => &filter.input,
            _ => return false,
        };
    };
    let call = |name: &str| {
        let of_name = |expr: &&Expr| expr.schema_name().to_string() == name;
        match aggregate.aggr_expr.iter().find(of_name)? {
            Expr::AggregateFunction(call) => Some(call),
            Expr::Alias(alias) => match &*alias.expr {
                Expr::AggregateFunction(call) => Some(call),
                _ => None,
            },
            _ => None,
        }
    };
    let (Some(sum), Some(count)) = (call(&sum.name), call(&count.name)) else { return false };
    let (mut of_sum, mut of_count) = (sum.params.clone(), count.params.clone());
    for params in [&mut of_sum, &mut of_count] {
        // The sum is of the same as BIGINT.
        params.args.iter_mut().for_each(|of| {
            if let Expr::Cast(cast) = of {
                *of = (*cast.expr).clone();
            }
        });
    }
    sum.func.name() == "sum" && count.func.name() == "count" && of_sum == of_count
}

pub(crate) fn is_wider(from: &DataType, to: &DataType) -> bool {
    let width = |of: &DataType| of.primitive_width();
    from == to
        || from.is_integer() && to.is_floating()
        || from.is_signed_integer() && to.is_signed_integer() && width(from) <= width(to)
        || from.is_floating() && to.is_floating() && width(from) <= width(to)
}
