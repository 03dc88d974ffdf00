//! The state between two steps of lowering: an operator is not made until it is known which filter, projection or
//! window follows, because it may take that along.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion_physical_expr::utils::collect_columns;
use laxity_connect::ScanSpec;
use laxity_graph::{Input, WindowShape};
use laxity_operators::approximate::SAMPLE_COLUMN;
use laxity_operators::{
    Access, CalcSpec, Chain, Explain, Gets, OperatorFactory, SharedSourceSpec, SharedStage, SourceSpec,
    Template, Union, UnnestSpec, ViewSpec, WindowKind,
};
use regex::Regex;

use super::never_fails::{is_field, never_fails};

/// Rows on their way: a node of the dataflow that is not pushed yet, and what its columns mean.
#[derive(Debug)]
pub(super) struct Relation {
    pub open: Open,
    /// Columns that the open node emits so far.
    pub schema: SchemaRef,
    /// The logical columns, in the logical plan's order.
    pub outputs: Vec<Output>,
    /// A windowing function whose columns do not exist yet: an aggregation assigns windows itself, faster.
    pub window: Option<PendingWindow>,
    /// A filter over `schema` that is not applied yet: the projection that follows takes it along.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// Shape of the windows that rows are in, until an operator has waited for these to end.
    pub unfired: Option<WindowShape>,
}

/// A node to be.
#[derive(Debug)]
pub(super) struct Open {
    pub name: String,
    pub details: Vec<String>,
    pub parallelism: usize,
    pub inputs: Vec<Input>,
    pub window: Option<WindowShape>,
    pub stage: OpenStage,
    pub chain: Vec<OperatorFactory>,
    /// The last operator of the chain if it is one that the next may change: not made yet.
    pub calc: Option<Waiting>,
    /// Columns of the input, where the node drops late rows.
    pub meets_late_rows: Option<SchemaRef>,
}

/// An operator that is not made yet.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A calc behind it may merge with it.
    Calc(CalcSpec),
    /// A calc behind it says which columns it need not repeat for every element.
    Unnest(UnnestSpec),
    /// A sampler behind it may do without it for rows that are left out.
    Lookup(Box<WaitingLookup>),
}

/// A lookup that finds at most one row for each.
#[derive(Debug)]
pub(super) struct WaitingLookup {
    pub join: OperatorFactory,
    /// The same, but that rows without a partner are kept.
    pub padded: OperatorFactory,
    /// As `explain` has it.
    pub detail: String,
    /// Columns of the stream, which are the first of those behind.
    pub stream: SchemaRef,
    /// Columns behind it.
    pub joined: SchemaRef,
    /// A column behind it that is NULL where there was no partner, if such rows are dropped.
    pub required: Option<usize>,
    /// What is computed behind it.
    pub behind: Option<CalcSpec>,
}

#[derive(Debug)]
pub(super) enum OpenStage {
    Source(ScanSpec, Option<Box<Shareable>>),
    /// Sends what there is of rows as soon as these come, and nothing when time goes on.
    Passing,
    Operator,
}

/// A source that may be read together with others.
#[derive(Debug)]
pub(super) struct Shareable {
    /// The first of the chain.
    pub source: SourceSpec,
    /// Rows that the filter behind it may keep; every one as long as there is none.
    pub access: Option<Access>,
    /// What is behind it in the chain, as far as these are filters and projections.
    pub calcs: Vec<CalcSpec>,
}

/// A logical column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub slot: Slot,
    pub role: Role,
}

/// Where a logical column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// In `schema`.
    Column(usize),
    /// A column of the pending window.
    WindowStart,
    WindowEnd,
    WindowTime,
}

/// What a column means for time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    /// A time attribute that a watermark follows.
    EventTime,
    ProcessingTime,
    WindowStart,
    WindowEnd,
    /// The time attribute of a windowed result.
    WindowTime {
        processing: bool,
    },
}

impl Role {
    /// Whether windows can be cut along it: event time (false) or processing time (true).
    pub fn time_attribute(self) -> Option<bool> {
        match self {
            Role::EventTime => Some(false),
            Role::ProcessingTime => Some(true),
            Role::WindowTime { processing } => Some(processing),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct PendingWindow {
    pub kind: WindowKind,
    /// Column of `schema`.
    pub time: usize,
    pub processing: bool,
    /// Columns of `schema` that sessions are partitioned by.
    pub keys: Vec<usize>,
}

/// The column that an expression is, if it is nothing else.
pub(super) fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

impl Relation {
    /// Position of the first logical column of that role.
    pub fn position(&self, role: Role) -> Option<usize> {
        self.outputs.iter().position(|output| output.role == role)
    }

    /// Whether an expression over the logical columns reads one of a pending window.
    pub fn uses_window(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        let mut uses = false;
        // The closure never fails.
        let _ = expr.apply(|node| {
            if let Some(index) = column_of(node) {
                uses |= !matches!(self.outputs[index].slot, Slot::Column(_));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        uses
    }

    /// An expression over the logical columns as one over `schema`.
    pub fn map(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let mapped = Arc::clone(expr).transform(|node| {
            let Some(index) = column_of(&node) else { return Ok(Transformed::no(node)) };
            match self.outputs[index].slot {
                Slot::Column(column) => Ok(Transformed::yes(self.column(column))),
                slot => internal_err!("{slot:?} is read before its window is expanded"),
            }
        })?;
        Ok(mapped.data)
    }

    /// A column of `schema` as an expression.
    pub fn column(&self, column: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(self.schema.field(column).name(), column))
    }

    pub fn filter(mut self, predicate: Arc<dyn PhysicalExpr>) -> Relation {
        self.predicate = Some(match self.predicate.take() {
            Some(earlier) => Arc::new(BinaryExpr::new(earlier, BinaryOperator::And, predicate)),
            None => predicate,
        });
        self
    }

    /// Computes new logical columns from expressions over the old ones. Columns of a pending window pass
    /// through; its time column is kept, and what a late table takes.
    pub fn project(
        self,
        exprs: &[Arc<dyn PhysicalExpr>],
        names: &[String],
        late_columns: &[String],
    ) -> Result<Relation> {
        let mut computed: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
        let mut outputs = Vec::new();
        for (expr, name) in exprs.iter().zip(names) {
            let source = column_of(expr).map(|index| self.outputs[index]);
            match source {
                Some(output) if !matches!(output.slot, Slot::Column(_)) => outputs.push(output),
                _ => {
                    outputs.push(Output {
                        slot: Slot::Column(computed.len()),
                        role: source.map_or(Role::Plain, |output| output.role),
                    });
                    computed.push((self.map(expr)?, name.clone()));
                }
            }
        }
        let mut window = self.window.clone();
        if let Some(pending) = &mut window {
            // A projection may drop columns although the window still needs them.
            let mut keep = |column: usize| {
                let kept = computed.iter().position(|(expr, _)| column_of(expr) == Some(column));
                kept.unwrap_or_else(|| {
                    computed.push((self.column(column), self.schema.field(column).name().clone()));
                    computed.len() - 1
                })
            };
            pending.time = keep(pending.time);
            for key in &mut pending.keys {
                *key = keep(*key);
            }
        }
        if window.is_some() {
            computed.extend(self.late_columns(late_columns, &computed));
        }
        let projected = self.calc(computed)?;
        Ok(Relation { outputs, window, ..projected })
    }

    /// The columns for a late table that are not among those computed.
    pub fn late_columns(
        &self,
        names: &[String],
        computed: &[(Arc<dyn PhysicalExpr>, String)],
    ) -> Vec<(Arc<dyn PhysicalExpr>, String)> {
        let missing = |name: &&String| computed.iter().all(|(_, computed)| computed != *name);
        names
            .iter()
            .filter(missing)
            .filter_map(|name| Some((self.column(self.schema.index_of(name).ok()?), name.clone())))
            .collect()
    }

    /// Emits just these columns, of a template whose each row is, and of a sample what it stands for. The logical columns are
    /// the caller's to set.
    pub fn calc(mut self, mut projection: Vec<(Arc<dyn PhysicalExpr>, String)>) -> Result<Relation> {
        for kept in [Template::MEMBER, SAMPLE_COLUMN] {
            if let Ok(column) = self.schema.index_of(kept)
                && projection.iter().all(|(_, name)| name != kept)
            {
                projection.push((self.column(column), kept.into()));
            }
        }
        let identity = self.predicate.is_none()
            && projection.len() == self.schema.fields().len()
            && projection.iter().enumerate().all(|(index, (expr, _))| column_of(expr) == Some(index));
        if identity {
            return Ok(self);
        }
        let spec = CalcSpec {
            name: "Calc".into(),
            input_schema: Arc::clone(&self.schema),
            predicate: self.predicate.take(),
            projection,
            output_schema: None,
        };
        let mut lookup = None;
        let spec = match self.open.calc.take() {
            Some(Waiting::Calc(earlier)) => match merged(&earlier, &spec)? {
                Some(one) => one,
                None => {
                    self.open.calc = Some(Waiting::Calc(earlier));
                    self.open.make_calc();
                    spec
                }
            },
            Some(Waiting::Lookup(mut waiting)) => {
                let one = waiting.behind.as_ref().map(|earlier| merged(earlier, &spec)).transpose()?;
                match one {
                    Some(None) => {
                        self.open.calc = Some(Waiting::Lookup(waiting));
                        self.open.make_calc();
                        spec
                    }
                    merged => {
                        waiting.behind = None;
                        lookup = Some(waiting);
                        merged.flatten().unwrap_or(spec)
                    }
                }
            }
            Some(Waiting::Unnest(unnest)) => {
                let (unnest, spec) = narrowed(unnest, spec)?;
                self.open.calc = Some(Waiting::Unnest(unnest));
                self.open.make_calc();
                spec
            }
            None => spec,
        };
        self.schema = spec
            .output_schema()
            .map_err(|error| datafusion_common::DataFusionError::Internal(error.to_string()))?;
        self.open.calc = Some(match lookup {
            Some(lookup) => Waiting::Lookup(Box::new(WaitingLookup { behind: Some(spec), ..*lookup })),
            None => Waiting::Calc(spec),
        });
        Ok(self)
    }

    /// Applies a filter that nothing has taken along.
    pub fn apply_filter(self) -> Result<Relation> {
        if self.predicate.is_none() {
            return Ok(self);
        }
        let all = (0..self.schema.fields().len())
            .map(|column| (self.column(column), self.schema.field(column).name().clone()))
            .collect();
        self.calc(all)
    }

    /// Casts columns whose type is not what the logical plan promises.
    pub fn conform(self, promised: &DFSchema) -> Result<Relation> {
        if self.outputs.len() != promised.fields().len() {
            return internal_err!(
                "{} columns where {} were planned",
                self.outputs.len(),
                promised.fields().len()
            );
        }
        let mut wrong: Vec<(usize, DataType)> = Vec::new();
        for (output, field) in self.outputs.iter().zip(promised.fields()) {
            if let Slot::Column(column) = output.slot
                && !self.schema.field(column).data_type().equals_datatype(field.data_type())
            {
                wrong.push((column, field.data_type().clone()));
            }
        }
        if wrong.is_empty() {
            return Ok(self);
        }
        let projection = (0..self.schema.fields().len())
            .map(|column| {
                let expr = self.column(column);
                let expr: Arc<dyn PhysicalExpr> = match wrong.iter().find(|(index, _)| *index == column) {
                    Some((_, data_type)) => Arc::new(CastExpr::new(expr, data_type.clone(), None)),
                    None => expr,
                };
                (expr, self.schema.field(column).name().clone())
            })
            .collect();
        self.calc(projection)
    }

    /// Brings the logical columns into their order, without any other column.
    pub fn compact(self) -> Result<Relation> {
        let mut projection = Vec::new();
        let mut outputs = Vec::new();
        for (position, output) in self.outputs.iter().enumerate() {
            let Slot::Column(column) = output.slot else {
                return internal_err!("a window is compacted before it is expanded");
            };
            projection.push((self.column(column), self.schema.field(column).name().clone()));
            outputs.push(Output { slot: Slot::Column(position), role: output.role });
        }
        let compacted = self.calc(projection)?;
        Ok(Relation { outputs, ..compacted })
    }

    /// Adds computed columns behind all others, and says which columns the expressions (over `schema`) are.
    pub fn with_columns(self, exprs: &[Arc<dyn PhysicalExpr>]) -> Result<(Relation, Vec<usize>)> {
        let width = self.schema.fields().len();
        let mut added: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        let positions = exprs
            .iter()
            .map(|expr| {
                column_of(expr).unwrap_or_else(|| {
                    let known = added.iter().position(|other| other.as_ref() == expr.as_ref());
                    width
                        + known.unwrap_or_else(|| {
                            added.push(Arc::clone(expr));
                            added.len() - 1
                        })
                })
            })
            .collect();
        if added.is_empty() {
            return Ok((self, positions));
        }
        let old = (0..width).map(|column| (self.column(column), self.schema.field(column).name().clone()));
        let new = added.into_iter().enumerate().map(|(index, expr)| (expr, format!("__key{index}")));
        let projection = old.chain(new).collect();
        Ok((self.calc(projection)?, positions))
    }
}

/// An expression over what a calc emits as one over what it takes.
pub(super) fn before(calc: &CalcSpec, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let mapped = Arc::clone(expr).transform(|node| {
        Ok(match column_of(&node) {
            // What replaces a column is over the calc's input: not to be looked at again.
            Some(index) => {
                let replaced = Arc::clone(&calc.projection[index].0);
                Transformed::new(replaced, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(mapped.data)
}

/// Whether this is there already: a column, a constant, or a field of a row that is.
fn costs_nothing(expr: &Arc<dyn PhysicalExpr>) -> bool {
    column_of(expr).is_some()
        || expr.is::<Literal>()
        || is_field(expr) && expr.children().into_iter().all(costs_nothing)
}

/// Two calcs as one, where that computes nothing twice, and nothing on rows that the first one drops but what has a value
/// for these too: filters of one calc are told apart from those of others all at once.
fn merged(first: &CalcSpec, second: &CalcSpec) -> Result<Option<CalcSpec>> {
    let is_trivial =
        |(expr, _): &(Arc<dyn PhysicalExpr>, String)| column_of(expr).is_some() || expr.is::<Literal>();
    let is_free = first.projection.iter().all(|(expr, _)| costs_nothing(expr));
    if !is_free && (second.predicate.is_some() || !second.projection.iter().all(is_trivial)) {
        return Ok(None);
    }
    let projection = second.projection.iter().map(|(expr, name)| Ok((before(first, expr)?, name.clone())));
    let own = second.predicate.as_ref().map(|predicate| before(first, predicate)).transpose()?;
    let predicate = match (&first.predicate, own) {
        (Some(_), Some(own)) if !never_fails(&own, &first.input_schema) => return Ok(None),
        (Some(before), Some(own)) => {
            let both = BinaryExpr::new(Arc::clone(before), BinaryOperator::And, own);
            Some(Arc::new(both) as Arc<dyn PhysicalExpr>)
        }
        (Some(before), None) => Some(Arc::clone(before)),
        (None, own) => own,
    };
    Ok(Some(CalcSpec {
        name: first.name.clone(),
        input_schema: Arc::clone(&first.input_schema),
        predicate,
        projection: projection.collect::<Result<_>>()?,
        output_schema: None,
    }))
}

/// An unnest that hands on just what the calc behind it reads, and that calc.
fn narrowed(unnest: UnnestSpec, calc: CalcSpec) -> Result<(UnnestSpec, CalcSpec)> {
    let exprs = calc.predicate.iter().chain(calc.projection.iter().map(|(expr, _)| expr));
    let read: BTreeSet<usize> = exprs.flat_map(collect_columns).map(|column| column.index()).collect();
    let width = unnest.kept.len();
    let places: Vec<usize> = read.into_iter().filter(|column| *column < width).collect();
    let moved = |expr: &Arc<dyn PhysicalExpr>| -> Result<Arc<dyn PhysicalExpr>> {
        let moved = Arc::clone(expr).transform_down(|node| {
            let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            let index = match column.index().checked_sub(width) {
                Some(element) => places.len() + element,
                None => places.partition_point(|place| *place < column.index()),
            };
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), index));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })?;
        Ok(moved.data)
    };
    let projection = calc.projection.iter().map(|(expr, name)| Ok((moved(expr)?, name.clone())));
    let projection = projection.collect::<Result<_>>()?;
    let predicate = calc.predicate.as_ref().map(moved).transpose()?;
    let unnest = UnnestSpec { kept: places.into_iter().map(|place| unnest.kept[place]).collect(), ..unnest };
    let input_schema = unnest
        .output_schema()
        .map_err(|error| datafusion_common::DataFusionError::Internal(error.to_string()))?;
    Ok((unnest, CalcSpec { input_schema, predicate, projection, ..calc }))
}

fn unnest_detail(spec: &UnnestSpec) -> String {
    let collection = spec.input_schema.field(spec.column).name();
    let what = if collection.starts_with("__") { "an expression" } else { collection };
    let kept = if spec.keeps_empty { ", rows without elements too" } else { "" };
    format!("unnest {what}{kept}")
}

impl Shareable {
    /// The ways in which the source can be shared, with the chain that begins with it: rows are told apart by the filter, or
    /// what is made of all is made once. None where nothing is gained.
    pub fn stages(
        self,
        scan: &ScanSpec,
        chain: &[OperatorFactory],
        explain: Option<Explain>,
    ) -> [Option<SharedStage>; 2] {
        let Shareable { source, access, calcs } = self;
        let links = chain.len() - 1;
        // There is always one behind it, which saves nothing.
        let or_nothing = |rest: Vec<OperatorFactory>| match rest.is_empty() {
            true => Union::factory(Arc::clone(&source.output_schema)),
            false => Chain::factory(rest),
        };
        let stage = |gets, rest| {
            let spec = SharedSourceSpec { source: source.clone(), gets, template: None, constants: None };
            SharedStage { spec: Arc::new(spec), operator: or_nothing(rest), links }
        };
        let rows = access.map(|access| stage(Gets::Rows(access), chain[1..].to_vec()));
        // What cannot be said in terms of the table is done alone.
        let view = ViewSpec::new(&source, &calcs, &scan.columns, explain).ok().flatten().map(|view| {
            let (behind, schema) = (1 + view.calcs(), view.output_schema());
            // In place of each calc, so that what is saved has the same numbers.
            let mut rest = vec![Union::factory(schema); view.calcs()];
            rest.extend_from_slice(&chain[behind..]);
            stage(Gets::View(Arc::new(view)), rest)
        });
        [rows, view]
    }
}

impl Open {
    /// Whether rows leave it as soon as they come.
    pub fn passes(&self) -> bool {
        matches!(self.stage, OpenStage::Source(..) | OpenStage::Passing)
    }

    /// Columns that the operator that waits fills without looking at its rows, with their value now; those that fail are not
    /// among them.
    pub fn constants(&self) -> Vec<(usize, ScalarValue)> {
        let Some(Waiting::Calc(spec)) = &self.calc else { return Vec::new() };
        let one_row = RecordBatchOptions::new().with_row_count(Some(1));
        let nothing = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row);
        let Ok(nothing) = nothing else { return Vec::new() };
        let columns = spec.projection.iter().enumerate();
        let constants = columns.filter(|(_, (expr, _))| collect_columns(expr).is_empty());
        let value = |expr: &Arc<dyn PhysicalExpr>| {
            let value = expr.evaluate(&nothing).ok()?.into_array(1).ok()?;
            ScalarValue::try_from_array(&value, 0).ok()
        };
        constants.filter_map(|(column, (expr, _))| Some((column, value(expr)?))).collect()
    }

    /// Puts the operator that was waiting into the chain.
    pub fn make_calc(&mut self) {
        let spec = match self.calc.take() {
            Some(Waiting::Unnest(spec)) => {
                let detail = unnest_detail(&spec);
                return super::chained(self, "Unnest", Some(detail), spec.factory());
            }
            Some(Waiting::Lookup(waiting)) => {
                super::chained(self, "LookupJoin", Some(waiting.detail), waiting.join);
                waiting.behind
            }
            Some(Waiting::Calc(spec)) => Some(spec),
            None => None,
        };
        if let Some(spec) = spec {
            if let OpenStage::Source(_, Some(shareable)) = &mut self.stage
                && self.chain.len() == 1 + shareable.calcs.len()
            {
                if let (true, Some(predicate)) = (shareable.calcs.is_empty(), &spec.predicate) {
                    let never_fails = |expr: &Arc<dyn PhysicalExpr>| never_fails(expr, &spec.input_schema);
                    shareable.access = Access::of(predicate, &spec.input_schema, &never_fails);
                }
                shareable.calcs.push(spec.clone());
            }
            let detail = calc_detail(spec.predicate.as_ref(), &spec.projection);
            super::chained(self, "Calc", Some(detail), spec.factory());
        }
    }
}

fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn calc_detail(
    predicate: Option<&Arc<dyn PhysicalExpr>>,
    projection: &[(Arc<dyn PhysicalExpr>, String)],
) -> String {
    let columns: Vec<String> = projection
        .iter()
        .map(|(expr, name)| {
            let text = plain(&expr.to_string());
            if text == *name || name.starts_with("__") || !is_word(name) {
                text
            } else {
                format!("{text} AS {name}")
            }
        })
        .collect();
    let mut text = format!("select {}", columns.join(", "));
    if let Some(predicate) = predicate {
        text.push_str(&format!(" where {}", plain(&predicate.to_string())));
    }
    text
}

/// DataFusion's text of an expression, without the `@index` of columns and with literals as SQL writes them.
pub(crate) fn plain(text: &str) -> String {
    static INTERVAL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"IntervalMonthDayNano \{ months: (-?\d+), days: (-?\d+), nanoseconds: (-?\d+) \}")
            .expect("valid")
    });
    static LITERAL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b(?:Int8|Int16|Int32|Int64|UInt64|Float64|Boolean)\(([^()]*)\)").expect("valid")
    });
    static CAST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r" AS (Int8|Int16|Int32|Int64|UInt64|Float32|Float64|Utf8)\)").expect("valid")
    });
    static INDEX: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"@\d+").expect("valid"));
    let text = INTERVAL.replace_all(text, |found: &regex::Captures| {
        let number = |group: usize| found[group].parse::<i64>().unwrap_or(0);
        match number(1) {
            0 => {
                let ms = number(2).saturating_mul(86_400_000).saturating_add(number(3) / 1_000_000);
                crate::explain::duration_text(ms)
            }
            months => format!("{months} months"),
        }
    });
    let text = LITERAL.replace_all(&text, "$1");
    let text = CAST.replace_all(&text, |found: &regex::Captures| {
        let name = match &found[1] {
            "Int8" => "TINYINT",
            "Int16" => "SMALLINT",
            "Int32" => "INT",
            "Float32" => "FLOAT",
            "Float64" => "DOUBLE",
            "Utf8" => "STRING",
            _ => "BIGINT",
        };
        format!(" AS {name})")
    });
    INDEX.replace_all(&text, "").replace("count(1)", "count(*)")
}

/// A schema from fields.
pub(super) fn schema_of(fields: Vec<arrow::datatypes::FieldRef>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
