use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, internal_err};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use laxity_connect::ScanSpec;
use laxity_graph::{Input, WindowShape};
use laxity_operators::{CalcSpec, OperatorFactory, WindowKind};

use super::chained;

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
    /// Columns of the input, where the node drops late rows.
    pub meets_late_rows: Option<SchemaRef>,
}

#[derive(Debug)]
pub(super) enum OpenStage {
    Source(ScanSpec),
    Operator,
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

    /// Emits just these columns. The logical columns are the caller's to set.
    pub fn calc(mut self, projection: Vec<(Arc<dyn PhysicalExpr>, String)>) -> Result<Relation> {
        let identity = self.predicate.is_none()
            && projection.len() == self.schema.fields().len()
            && projection.iter().enumerate().all(|(index, (expr, _))| column_of(expr) == Some(index));
        if identity {
            return Ok(self);
        }
        let detail = calc_detail(self.predicate.as_ref(), &projection);
        let spec = CalcSpec {
            name: "Calc".into(),
            input_schema: Arc::clone(&self.schema),
            predicate: self.predicate.take(),
            projection,
            output_schema: None,
        };
        let schema = spec
            .output_schema()
            .map_err(|error| datafusion_common::DataFusionError::Internal(error.to_string()))?;
        chained(&mut self.open, "Calc", detail, spec.factory());
        self.schema = schema;
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

fn calc_detail(
    predicate: Option<&Arc<dyn PhysicalExpr>>,
    projection: &[(Arc<dyn PhysicalExpr>, String)],
) -> Option<String> {
    let columns: Vec<String> = projection
        .iter()
        .map(|(expr, name)| {
            let text = plain(&expr.to_string());
            let short = name.rsplit('.').next().unwrap_or(name);
            if text == short || *name == text {
                text
            } else if name.len() < 24 {
                format!("{text} AS {short}")
            } else {
                text
            }
        })
        .collect();
    let mut text = format!("select {}", columns.join(", "));
    if let Some(predicate) = predicate {
        text.push_str(&format!(" where {}", plain(&predicate.to_string())));
    }
    Some(text)
}

/// DataFusion's text of an expression without the `@index` of its columns.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '@' && chars.peek().is_some_and(char::is_ascii_digit) {
            while chars.next_if(char::is_ascii_digit).is_some() {}
        } else {
            out.push(c);
        }
    }
    out
}

/// A schema from fields.
pub(super) fn schema_of(fields: Vec<arrow::datatypes::FieldRef>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
