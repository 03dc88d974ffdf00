//! Optimised logical plans to dataflows of operators.
//!
//! Time attributes and window columns are followed from the tables through every operator by [`Role`]: they
//! decide which operator a GROUP BY, a JOIN or a ROW_NUMBER becomes, and which are refused for being unbounded.

mod aggregate;
mod approximate;
mod below_calc;
mod below_lookup;
mod current_watermark;
mod join;
mod lookup;
mod never_fails;
mod over;
mod rank;
mod relation;
mod scan;
mod sink;
mod sort;
mod unnest;
mod values;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};
use laxity_connect::{ScanSpec, SinkSpec};
use laxity_graph::{Dataflow, Input, Node, NodeId, Partitioning, RowErrors, WindowShape};
use laxity_operators::{
    Chain, Explain, ExpressionFault, FailingRows, OperatorFactory, SharedStage, Stage, Union,
    WindowAggregateSpec,
};

use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::origin::Origin;
use crate::planning::{Planner, execution_props, has_subquery};
use crate::settings::SessionSettings;
use crate::unnest::as_unnest;
use crate::window_function::as_window_function;
pub use lookup::LookupSource;
pub(crate) use relation::plain;
use relation::{Open, OpenStage, Output, Relation, Role, Slot};
pub(crate) use scan::df_schema;

pub(crate) type Lowered<T> = Result<T, Box<Fault>>;

/// Builds one query's dataflow.
pub(crate) struct Lowering<'a> {
    pub planner: &'a Planner<'a>,
    pub settings: &'a SessionSettings,
    pub dataflow: Dataflow<Stage<ScanSpec, SinkSpec>>,
    /// What `explain` says about each node besides its name.
    pub details: Vec<Vec<String>>,
    /// The first operator that can meet late rows, with its input's columns.
    pub first_window: Option<(NodeId, SchemaRef)>,
    pub processing_origin_ms: i64,
    /// Columns that the late table takes: kept up to the windowed operators.
    pub late_columns: Vec<String>,
    /// Where the query stands, for errors of its rows.
    pub origin: Option<Arc<Origin>>,
    /// Tables that streams look rows up in.
    pub lookups: Vec<LookupSource>,
    /// Of a template: what is done behind its source, whose rows then say which query they are of.
    pub work: Option<Vec<OperatorFactory>>,
    /// And the place of that among the keys of its groups.
    pub member_key: usize,
    /// How its rows are aggregated, behind how many operators.
    pub aggregated: Option<(usize, WindowAggregateSpec)>,
    /// Columns of the results that hold one value, with that.
    pub constants: Vec<(usize, ScalarValue)>,
    /// Columns that its source gives.
    pub read_columns: SchemaRef,
    /// That of them which its watermark is found by.
    pub read_time: Option<usize>,
    /// Approximate results are held against exact ones.
    pub verifies: bool,
    /// The query divides aggregates by each other.
    divides: bool,
    /// The INSERT asks for CURRENT_WATERMARK somewhere.
    keeps_watermarks: bool,
}

impl<'a> Lowering<'a> {
    pub fn new(
        planner: &'a Planner<'a>,
        settings: &'a SessionSettings,
        name: String,
        processing_origin_ms: i64,
    ) -> Lowering<'a> {
        Lowering {
            planner,
            settings,
            dataflow: Dataflow::new(settings.of_query(name)),
            details: vec![],
            first_window: None,
            processing_origin_ms,
            late_columns: vec![],
            origin: None,
            lookups: vec![],
            work: None,
            member_key: 0,
            aggregated: None,
            constants: vec![],
            read_columns: Arc::new(Schema::empty()),
            read_time: None,
            verifies: false,
            divides: false,
            keeps_watermarks: false,
        }
    }

    /// The operators that compute a plan. Its last node is still open, so that what follows can be chained.
    fn relation(&mut self, plan: &LogicalPlan) -> Lowered<Relation> {
        let relation = match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan)?,
            LogicalPlan::SubqueryAlias(alias) => return self.relation(&alias.input),
            LogicalPlan::Projection(projection) => {
                let input = self.relation(&projection.input)?;
                self.project(input, projection.input.schema(), &projection.expr)?
            }
            LogicalPlan::Filter(filter) => match filter.input.as_ref() {
                LogicalPlan::Window(window) if !over::is_over(window) => {
                    self.placed_rank(window, Some(&filter.predicate))?
                }
                LogicalPlan::Projection(projection) => match rank_below(projection, &filter.predicate) {
                    Some((window, predicate)) => {
                        let input = self.placed_rank(window, Some(&predicate))?;
                        self.project(input, projection.input.schema(), &projection.expr)?
                    }
                    None => self.filtered(filter)?,
                },
                _ => self.filtered(filter)?,
            },
            LogicalPlan::Window(window) => self.placed_rank(window, None)?,
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate).map_err(|fault| {
                fault.or_at(self.planner.place_of(aggregate.group_expr.iter().chain(&aggregate.aggr_expr)))
            })?,
            LogicalPlan::Join(join) => self.join(join).map_err(|fault| {
                let keys = join.on.iter().flat_map(|(left, right)| [left, right]);
                fault.or_at(self.planner.place_of(keys.chain(&join.filter)))
            })?,
            LogicalPlan::Union(union) => self.union(union)?,
            LogicalPlan::Extension(extension) => match as_unnest(extension) {
                Some(unnest) => self.unnest(unnest)?,
                None => {
                    let function = as_window_function(extension).map_err(|e| self.planner.fault(e))?;
                    let input = self.relation(&function.input)?;
                    self.window_function(input, function)?
                }
            },
            LogicalPlan::EmptyRelation(empty) => {
                self.constant_rows(&[], empty.produce_one_row, plan.schema())?
            }
            LogicalPlan::Values(values) => self.constant_rows(&values.values, false, plan.schema())?,
            // Only of a SELECT on its own over what ends.
            LogicalPlan::Sort(sort) => self.sort(sort)?,
            LogicalPlan::Limit(limit) => self.limit(limit)?,
            LogicalPlan::Subquery(_) | LogicalPlan::Unnest(_) => {
                return Err(
                    unsupported("this kind of subquery is not supported").hint("join two windowed inputs")
                );
            }
            other => {
                return Err(unsupported(&format!("{} is not supported", other.display())));
            }
        };
        relation.conform(plan.schema()).map_err(|e| self.planner.fault(e))
    }

    fn filtered(&mut self, filter: &datafusion_expr::Filter) -> Lowered<Relation> {
        let input = self.relation(&filter.input)?;
        self.filter(input, filter.input.schema(), &filter.predicate)
    }

    fn placed_rank(
        &mut self,
        window: &datafusion_expr::Window,
        predicate: Option<&Expr>,
    ) -> Lowered<Relation> {
        let placed = |fault: Box<Fault>| fault.or_at(self.planner.place_of(&window.window_expr));
        match (over::is_over(window), predicate) {
            (true, None) => self.over(window),
            (_, predicate) => self.rank(window, predicate),
        }
        .map_err(placed)
    }

    /// A logical expression over a relation's physical columns. The window's columns are made real if the
    /// expression needs them.
    fn expression(
        &mut self,
        relation: Relation,
        schema: &DFSchema,
        expr: &Expr,
    ) -> Lowered<(Relation, Arc<dyn PhysicalExpr>)> {
        let physical = self.physical_with_watermark(expr, schema)?;
        let relation = if relation.uses_window(&physical) { self.expand(relation)? } else { relation };
        let logical = relation.outputs.len();
        let (mut relation, physical) = self.with_watermark(relation, vec![physical])?;
        let mapped = relation.map(&physical[0]).map_err(|e| self.planner.fault(e))?;
        relation.outputs.truncate(logical);
        Ok((relation, mapped))
    }

    /// A logical expression over the columns of a logical schema.
    fn physical(&self, expr: &Expr, schema: &DFSchema) -> Lowered<Arc<dyn PhysicalExpr>> {
        let physical = self.physical_with_watermark(expr, schema)?;
        current_watermark::refuse(&physical)?;
        Ok(physical)
    }

    /// The same, where CURRENT_WATERMARK may stand in it.
    fn physical_with_watermark(&self, expr: &Expr, schema: &DFSchema) -> Lowered<Arc<dyn PhysicalExpr>> {
        if has_subquery(expr) {
            return Err(unsupported(
                "a subquery as a value is not supported: its answer changes while the query runs",
            )
            .hint("join with it within a window"));
        }
        create_physical_expr(expr, schema, &execution_props(), &PhysicalPlanningContext::default())
            .map_err(|e| self.planner.fault(e))
    }

    fn project(&mut self, mut input: Relation, schema: &DFSchema, exprs: &[Expr]) -> Lowered<Relation> {
        let physical = exprs.iter().map(|expr| self.physical_with_watermark(expr, schema));
        let physical = physical.collect::<Lowered<Vec<_>>>()?;
        let computes_with_window =
            physical.iter().any(|expr| relation::column_of(expr).is_none() && input.uses_window(expr));
        if computes_with_window {
            input = self.expand(input)?;
        }
        let (input, physical) = self.with_watermark(input, physical)?;
        let names: Vec<String> = exprs.iter().map(name_of).collect();
        input.project(&physical, &names, &self.late_columns).map_err(|e| self.planner.fault(e))
    }

    fn filter(&mut self, input: Relation, schema: &DFSchema, predicate: &Expr) -> Lowered<Relation> {
        let (input, predicate) = self.expression(input, schema, predicate)?;
        Ok(input.filter(predicate))
    }

    fn union(&mut self, union: &datafusion_expr::Union) -> Lowered<Relation> {
        let mut inputs = Vec::new();
        for input in &union.inputs {
            let relation = self.relation(input)?;
            let relation = self.expand(relation)?;
            // Types agree after coercion; columns must lie alike.
            let relation = relation.conform(&union.schema).and_then(Relation::compact);
            inputs.push(relation.map_err(|e| self.planner.fault(e))?);
        }
        let first = &inputs[0];
        let mut roles: Vec<Role> = first.outputs.iter().map(|output| output.role).collect();
        for input in &inputs[1..] {
            for (role, output) in roles.iter_mut().zip(&input.outputs) {
                if *role != output.role {
                    *role = Role::Plain;
                }
            }
        }
        let fields: Vec<_> = first
            .schema
            .fields()
            .iter()
            .enumerate()
            .map(|(column, field)| {
                let nullable = inputs.iter().any(|input| input.schema.field(column).is_nullable());
                field.as_ref().clone().with_nullable(nullable)
            })
            .collect();
        let schema: SchemaRef = Arc::new(arrow::datatypes::Schema::new(fields));
        let unfired = first.unfired.filter(|shape| inputs.iter().all(|input| input.unfired == Some(*shape)));
        let parallelism = inputs.iter().map(|input| input.open.parallelism).max().unwrap_or(1);
        let passes = inputs.iter().all(|input| input.open.passes());
        let mut edges = Vec::new();
        for input in inputs {
            let same = input.open.parallelism == parallelism;
            let from = self.close(input)?;
            edges.push(Input {
                from,
                partitioning: if same { Partitioning::Forward } else { Partitioning::RoundRobin },
            });
        }
        let outputs =
            roles.into_iter().enumerate().map(|(column, role)| Output { slot: Slot::Column(column), role });
        Ok(Relation {
            outputs: outputs.collect(),
            window: None,
            predicate: None,
            unfired,
            open: Open {
                name: "Union".into(),
                details: vec![],
                parallelism,
                inputs: edges,
                window: None,
                stage: if passes { OpenStage::Passing } else { OpenStage::Operator },
                chain: vec![Union::factory(Arc::clone(&schema))],
                calc: None,
                meets_late_rows: None,
            },
            schema,
        })
    }

    /// Starts a node that reads `input`, spread by the hash of these columns, or on one instance without any.
    fn keyed(&mut self, input: Relation, keys: &[usize], may_be_parallel: bool) -> Lowered<(Input, usize)> {
        let producers = input.open.parallelism;
        let parallelism = if may_be_parallel && !keys.is_empty() { self.settings.parallelism } else { 1 };
        let from = self.close(input)?;
        let partitioning = match (producers, parallelism) {
            (1, 1) => Partitioning::Forward,
            (_, 1) => Partitioning::Gather,
            _ => Partitioning::Hash(keys.to_vec()),
        };
        Ok((Input { from, partitioning }, parallelism))
    }

    /// Pushes a relation's open node.
    fn close(&mut self, relation: Relation) -> Lowered<NodeId> {
        let relation = self.expand(relation)?;
        let relation = relation.apply_filter().map_err(|e| self.planner.fault(e))?;
        let mut open = relation.open;
        open.make_calc();
        let Open { name, details, parallelism, inputs, window, stage, chain, meets_late_rows, .. } = open;
        if let Some(work) = &mut self.work {
            let behind_source = usize::from(matches!(stage, OpenStage::Source(..)));
            work.extend_from_slice(&chain[behind_source..]);
        }
        let chain = match self.settings.row_errors {
            RowErrors::Fail => chain,
            RowErrors::DeadLetter => chain.into_iter().map(FailingRows::factory).collect(),
        };
        let explain: Option<Explain> = self
            .origin
            .clone()
            .map(|origin| Arc::new(move |fault: &mut ExpressionFault| origin.explain(fault)) as Explain);
        let explained = |operator: OperatorFactory| match &explain {
            Some(explain) => operator.explained(Arc::clone(explain)),
            None => operator,
        };
        let stage = match stage {
            OpenStage::Source(scan, shareable) => {
                // Who judges rows by when they came reads for itself.
                let shareable = shareable.filter(|_| self.settings.approximate.promise().is_none());
                let stages =
                    shareable.map(|of| of.stages(&scan, &chain, explain.clone())).unwrap_or_default();
                let [shared, view] = stages.map(|stage| {
                    stage.map(|stage| SharedStage { operator: explained(stage.operator), ..stage })
                });
                Stage::Source { scan, operator: explained(Chain::factory(chain)), shared, view }
            }
            OpenStage::Passing | OpenStage::Operator => Stage::Operator(explained(Chain::factory(chain))),
        };
        let id = self.push(name, details, parallelism, inputs, window, stage)?;
        if let (None, Some(input)) = (&self.first_window, meets_late_rows) {
            self.first_window = Some((id, input));
        }
        Ok(id)
    }

    fn push(
        &mut self,
        name: String,
        details: Vec<String>,
        parallelism: usize,
        inputs: Vec<Input>,
        window: Option<WindowShape>,
        stage: Stage<ScanSpec, SinkSpec>,
    ) -> Lowered<NodeId> {
        let node = Node { name, parallelism, inputs, window, stage };
        let id = self.dataflow.push(node).map_err(|error| Fault::internal(NOWHERE, error))?;
        self.details.push(details);
        Ok(id)
    }
}

/// An operator that follows others in one instance.
fn chained(open: &mut Open, name: &str, detail: Option<String>, factory: OperatorFactory) {
    open.make_calc();
    if !open.name.ends_with(name) {
        open.name = format!("{} -> {name}", open.name);
    }
    open.details.extend(detail);
    open.chain.push(factory);
}

/// The ROW_NUMBER under a projection of plain columns, and a filter over that projection as one over it.
fn rank_below<'p>(
    projection: &'p datafusion_expr::Projection,
    predicate: &Expr,
) -> Option<(&'p datafusion_expr::Window, Expr)> {
    let LogicalPlan::Window(window) = projection.input.as_ref() else { return None };
    if over::is_over(window) {
        return None;
    }
    let mut plain = true;
    let mapped = predicate.clone().transform(|node| {
        let Expr::Column(column) = &node else { return Ok(Transformed::no(node)) };
        let source = projection
            .schema
            .maybe_index_of_column(column)
            .map(|index| projection.expr[index].clone().unalias());
        match source {
            Some(source @ Expr::Column(_)) => Ok(Transformed::new(source, true, TreeNodeRecursion::Jump)),
            _ => {
                plain = false;
                Ok(Transformed::no(node))
            }
        }
    });
    Some((window, mapped.ok()?.data)).filter(|_| plain)
}

/// What a column is called from here on.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => column.name.clone(),
        Expr::Alias(alias) => alias.name.clone(),
        other => other.schema_name().to_string(),
    }
}

fn unsupported(message: &str) -> Box<Fault> {
    Fault::new(SqlErrorKind::Unsupported, NOWHERE, message)
}
