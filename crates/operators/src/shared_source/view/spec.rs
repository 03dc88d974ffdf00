//! What one query makes of a table's rows first, in terms of the table: so that two can be compared that read other columns
//! of it, or that were planned in another number of steps.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, internal_err};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;

use super::program::{is_computed, parts};
use crate::expression::{internal, row_error};
use crate::stage::Explain;
use crate::{Calc, CalcSpec, OperatorError, SourceColumn, SourceSpec, StreamBatch, WatermarkSpec};

/// The filters behind a source and what they select, as a part that other queries over the table may have too.
#[derive(Clone)]
pub struct ViewSpec {
    pub(super) source: SourceSpec,
    calcs: Vec<CalcSpec>,
    explain: Option<Explain>,
    width: usize,
    /// Of each column of the source: where it is in the table.
    columns: Vec<Place>,
    pub(in crate::shared_source) rows: ViewRows,
    /// What is computed on the way there, over the table; behind how many of the filters.
    pub(super) inner: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    /// What it selects, over the table.
    pub(super) selected: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) schema: SchemaRef,
}

/// Which rows a view has, and when: over columns of the table by their [`Place::number`].
#[derive(Clone, Debug)]
pub(in crate::shared_source) struct ViewRows {
    pub computed: Vec<Arc<dyn PhysicalExpr>>,
    pub watermark: Option<WatermarkSpec>,
    /// Each is asked of what those before have kept.
    pub predicates: Vec<Arc<dyn PhysicalExpr>>,
}

/// Where a column of a source comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The column of the table, by its number there.
    Table(usize),
    /// The table computes it: which of those.
    Computed(usize),
}

/// Operands of all expressions, where each is written out: views of views may double them from one to the next.
const NODES_MAX: usize = 2_000;

/// No table has so many columns.
const COMPUTED_FROM: usize = 1 << 30;

impl Place {
    /// One number for either.
    fn number(self) -> usize {
        match self {
            Place::Table(column) => column,
            Place::Computed(column) => COMPUTED_FROM + column,
        }
    }

    pub fn of_number(number: usize) -> Place {
        number.checked_sub(COMPUTED_FROM).map_or(Place::Table(number), Place::Computed)
    }
}

impl ViewSpec {
    /// That of a query whose source is followed by these, of which it is the first or more. `places` says of each column that
    /// the source takes, which of the table it is. `None` where there is nothing to do, or the next one may make something
    /// else of the same rows.
    ///
    /// # Errors
    /// If a calc does not fit what is before it.
    pub fn new(
        source: &SourceSpec,
        calcs: &[CalcSpec],
        places: &[usize],
        explain: Option<Explain>,
    ) -> Result<Option<ViewSpec>, OperatorError> {
        let fail = |error: DataFusionError| internal(&source.name, error);
        let mut computed = Vec::new();
        let mut columns = Vec::new();
        for column in &source.columns {
            columns.push(match column {
                SourceColumn::Physical(index) => Place::Table(places[*index]),
                SourceColumn::Computed(expr) => {
                    computed.push(renumbered(expr, |index| places.get(index).copied()).map_err(fail)?);
                    Place::Computed(computed.len() - 1)
                }
                SourceColumn::ProcessingTime => return Ok(None),
            });
        }
        let number = |index: usize| columns.get(index).map(|place| place.number());
        let watermark = source.watermark.as_ref().map(|watermark| {
            Ok::<_, OperatorError>(WatermarkSpec {
                time_column: columns[watermark.time_column].number(),
                expression: renumbered(&watermark.expression, number).map_err(fail)?,
                max_ahead_ms: watermark.max_ahead_ms,
                split_column: watermark.split_column.map(|column| columns[column].number()),
            })
        });
        let mut rows = ViewRows { computed, watermark: watermark.transpose()?, predicates: Vec::new() };
        let mut inner = Vec::new();
        // What the columns before the next calc are, and of how many operands.
        let of_table = columns.iter().map(|place| Arc::new(Column::new("", place.number())) as _);
        let mut selected: Vec<Arc<dyn PhysicalExpr>> = of_table.collect();
        let mut nodes = vec![1; selected.len()];
        let mut taken = 0_usize;
        for calc in calcs {
            let of_calc = || calc.predicate.iter().chain(calc.projection.iter().map(|(expr, _)| expr));
            let total = of_calc().fold(0, |total: usize, expr| total.saturating_add(count(expr, &nodes)));
            if of_calc().any(is_volatile) || total > NODES_MAX {
                break;
            }
            let step = rows.predicates.len();
            if taken > 0 {
                inner.extend(
                    selected.iter().filter(|expr| is_computed(expr)).map(|expr| (step, expr.clone())),
                );
            }
            if let Some(predicate) = &calc.predicate {
                rows.predicates.push(over(predicate, &selected).map_err(fail)?);
            }
            let next =
                calc.projection.iter().map(|(expr, _)| over(expr, &selected)).collect::<Result<_, _>>();
            nodes = calc.projection.iter().map(|(expr, _)| count(expr, &nodes)).collect();
            selected = next.map_err(fail)?;
            taken += 1;
        }
        let Some(last) = taken.checked_sub(1) else { return Ok(None) };
        let view = ViewSpec {
            rows,
            inner,
            selected,
            schema: calcs[last].output_schema()?,
            source: source.clone(),
            calcs: calcs[..taken].to_vec(),
            explain,
            width: places.len(),
            columns,
        };
        let does_something = view.is_filtered() || view.selected.iter().any(is_computed);
        Ok(does_something.then_some(view))
    }

    /// Columns of what it selects.
    pub fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How many of the calcs behind the source it stands for.
    pub fn calcs(&self) -> usize {
        self.calcs.len()
    }

    /// The same, of a table of which other columns are read: these are the places of those that its source takes.
    ///
    /// # Errors
    /// As for [`new`](ViewSpec::new).
    pub(in crate::shared_source) fn at(&self, places: &[usize]) -> Result<ViewSpec, OperatorError> {
        let same = ViewSpec::new(&self.source, &self.calcs, places, self.explain.clone())?;
        same.ok_or_else(|| internal(&self.source.name, "it can be shared no more"))
    }

    /// Whether both keep the same rows of a table, whatever they make of them.
    pub fn has_rows_of(&self, other: &ViewSpec) -> bool {
        self.rows == other.rows
    }

    /// How many columns its source takes.
    pub(in crate::shared_source) fn width(&self) -> usize {
        self.width
    }

    /// Whether it keeps some rows and no others.
    pub fn is_filtered(&self) -> bool {
        !self.rows.predicates.is_empty()
    }

    /// What it computes for each row that it keeps, and the parts of that.
    pub(in crate::shared_source) fn computes(&self) -> HashSet<&Arc<dyn PhysicalExpr>> {
        let inner = self.inner.iter().map(|(_, expr)| expr);
        let mut left: Vec<_> = inner.chain(&self.selected).filter(|expr| is_computed(expr)).collect();
        let mut computes = HashSet::new();
        while let Some(expr) = left.pop() {
            if computes.insert(expr) {
                left.extend(parts(expr));
            }
        }
        computes
    }

    /// Which columns of the table it reads, with their fields.
    pub(super) fn columns(&self) -> impl Iterator<Item = (Place, &FieldRef)> {
        self.columns.iter().copied().zip(self.source.output_schema.fields())
    }

    /// What the query says of rows that make it fail, whose columns are there; `None` if they do not.
    #[cold]
    pub(super) fn fault(
        &self,
        batch: &StreamBatch,
        column_of: impl Fn(Place) -> Option<usize>,
    ) -> Option<OperatorError> {
        self.calculate(batch, column_of).err().map(|mut error| {
            if let (OperatorError::Expression(fault), Some(explain)) = (&mut error, &self.explain) {
                explain(fault);
            }
            error
        })
    }

    fn calculate(
        &self,
        batch: &StreamBatch,
        column_of: impl Fn(Place) -> Option<usize>,
    ) -> Result<(), OperatorError> {
        let own = self.columns.iter().map(|place| Some(batch.rows.column(column_of(*place)?).clone()));
        let own = own.collect::<Option<Vec<_>>>().unwrap_or_default();
        let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.source.output_schema), own, &count);
        let rows = rows.map_err(|error| internal(&self.source.name, error))?;
        let mut batch = StreamBatch { rows, watermark_before: None };
        for calc in &self.calcs {
            let calculated =
                Calc::new(calc)?.calculate(batch).map_err(|error| row_error(&calc.name, &error))?;
            let Some(kept) = calculated else { break };
            batch = kept;
        }
        Ok(())
    }
}

impl fmt::Debug for ViewSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ViewSpec");
        shown.field("rows", &self.rows).field("selected", &self.selected).finish_non_exhaustive()
    }
}

// By hand: a derived comparison would move out of the expressions.
impl PartialEq for ViewRows {
    fn eq(&self, other: &ViewRows) -> bool {
        let ViewRows { computed, watermark, predicates } = self;
        *watermark == other.watermark && *predicates == other.predicates && *computed == other.computed
    }
}

impl Eq for ViewRows {}

impl Hash for ViewRows {
    /// Of one table the watermark is nearly always the same.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.predicates.hash(state);
        self.computed.hash(state);
    }
}

/// How many operands an expression has over columns that have so many.
fn count(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> usize {
    match expr.downcast_ref::<Column>() {
        Some(column) => columns.get(column.index()).copied().unwrap_or(1),
        None => expr
            .children()
            .into_iter()
            .fold(1, |total: usize, child| total.saturating_add(count(child, columns))),
    }
}

/// An expression over columns that are these.
fn over(
    expr: &Arc<dyn PhysicalExpr>,
    columns: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let over = Arc::clone(expr).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        match columns.get(column.index()) {
            Some(is) => Ok(Transformed::new(Arc::clone(is), true, TreeNodeRecursion::Jump)),
            None => internal_err!("column {column} is not there"),
        }
    });
    over.data()
}

fn is_volatile(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut is_volatile = false;
    // The closure never fails.
    let _ = expr.apply(|node| {
        is_volatile |= node.is_volatile_node();
        Ok(TreeNodeRecursion::Continue)
    });
    is_volatile
}

/// The expression over columns of other numbers. Without names: a view may call a column otherwise.
pub(super) fn renumbered(
    expr: &Arc<dyn PhysicalExpr>,
    number: impl Fn(usize) -> Option<usize>,
) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    let renumbered = Arc::clone(expr).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let Some(index) = number(column.index()) else {
            return internal_err!("column {column} is not there");
        };
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("", index));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    });
    renumbered.data()
}
