//! `UNNEST(array)` in FROM: each row of what stands before it once for every element.

mod joined;
mod syntax;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::{DFSchema, DFSchemaRef, Result, TableReference, plan_err};
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore,
};
use datafusion_sql::sqlparser::ast::{Spanned, TableFactor};
use datafusion_sql::sqlparser::tokenizer::Location;
use laxity_operators::UnnestSpec;

use crate::error::{Fault, SqlErrorKind};
use crate::planning::fault_in_error;
pub(crate) use joined::with_joins;
pub(crate) use syntax::{check_join, check_lateral, rewrite};

/// UNNEST as a node of the logical plan: the input's columns, then the element's.
#[derive(Debug, Clone)]
pub(crate) struct Unnest {
    pub input: LogicalPlan,
    /// The array or map, over the input's columns.
    pub collection: Expr,
    pub with_ordinality: bool,
    /// LEFT JOIN: a row without elements stays, with NULLs.
    pub keeps_empty: bool,
    /// Where it stands in the file.
    at: Location,
    schema: DFSchemaRef,
}

impl Unnest {
    fn new(
        input: LogicalPlan,
        collection: Expr,
        with_ordinality: bool,
        keeps_empty: bool,
        at: Location,
    ) -> Result<Unnest> {
        let given = collection.get_type(input.schema())?;
        let Some(mut elements) = UnnestSpec::element_fields(&given) else {
            let message =
                format!("UNNEST takes an ARRAY or a MAP, not {}", crate::data_type::display(&given));
            return Err(fault_in_error(Fault::new(SqlErrorKind::Type, at, message)));
        };
        elements.extend(with_ordinality.then(|| UnnestSpec::place_field(keeps_empty)));
        let qualifier = Unnest::qualifier(at);
        let columns = input.schema().iter().map(|(table, field)| (table.cloned(), Arc::clone(field)));
        let elements = elements.into_iter().map(|field| (Some(qualifier.clone()), field));
        let schema = DFSchema::new_with_metadata(
            columns.chain(elements).collect(),
            input.schema().metadata().clone(),
        )?;
        Ok(Unnest { input, collection, with_ordinality, keeps_empty, at, schema: Arc::new(schema) })
    }

    /// A table's name that nothing else has, so that an element's column is not taken for one of the input.
    fn qualifier(at: Location) -> TableReference {
        TableReference::bare(format!("__unnest_{}_{}", at.line, at.column))
    }

    /// The columns that it adds.
    fn elements(&self) -> &[FieldRef] {
        &self.schema.fields()[self.input.schema().fields().len()..]
    }

    fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

/// The UNNEST that an extension node is.
pub(crate) fn as_unnest(extension: &Extension) -> Option<&Unnest> {
    extension.node.as_any().downcast_ref::<Unnest>()
}

impl PartialEq for Unnest {
    fn eq(&self, other: &Unnest) -> bool {
        self.collection == other.collection
            && self.with_ordinality == other.with_ordinality
            && self.keeps_empty == other.keeps_empty
            && self.at == other.at
            && self.input == other.input
    }
}

impl Eq for Unnest {}

impl PartialOrd for Unnest {
    fn partial_cmp(&self, other: &Unnest) -> Option<Ordering> {
        if self == other { Some(Ordering::Equal) } else { None }
    }
}

impl Hash for Unnest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.collection.hash(state);
        self.input.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for Unnest {
    fn name(&self) -> &str {
        "Unnest"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.collection.clone()]
    }

    /// A filter on the input's columns holds for a row and all its elements.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.elements().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Unnest: {}", self.collection)
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Unnest> {
        let (Some(collection), Some(input)) = (exprs.pop(), inputs.pop()) else {
            return plan_err!("UNNEST has one input and one expression");
        };
        Unnest::new(input, collection, self.with_ordinality, self.keeps_empty, self.at)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let schema = self.input.schema();
        let width = schema.fields().len();
        let mut needed: Vec<usize> =
            output_columns.iter().copied().filter(|column| *column < width).collect();
        needed.extend(self.collection.column_refs().iter().filter_map(|c| schema.maybe_index_of_column(c)));
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}

/// Plans UNNEST by itself, over no row but one; [`with_joins`] puts what it is joined with below it.
#[derive(Debug)]
pub(crate) struct UnnestPlanner;

impl RelationPlanner for UnnestPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (alias, mut collections, with_ordinality) = match relation {
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                (alias, array_exprs, with_ordinality)
            }
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        let Some(collection) = collections.pop() else { return plan_err!("UNNEST of nothing") };
        let at = collection.span().start;
        let collection = context.sql_to_expr(collection, &DFSchema::empty())?;
        let one_row = LogicalPlanBuilder::empty(true).build()?;
        let plan = Unnest::new(one_row, collection, with_ordinality, false, at)?.into_plan();
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}
