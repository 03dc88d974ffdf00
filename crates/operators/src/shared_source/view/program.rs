//! In which order all that a view computes is computed: what is part of several expressions before these, and nothing
//! twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::Operator as BinaryOperator;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::expression::{internal, row_error};
use crate::{Calc, CalcSpec, OperatorError, StreamBatch};

type Expr = Arc<dyn PhysicalExpr>;

/// Calcs one behind the other.
pub(super) struct Program(Vec<Calc>);

const NAME: &str = "shared view";

/// What is to be computed, over the columns that come in.
pub(super) struct Plan {
    pub input: SchemaRef,
    /// One behind the other.
    pub predicates: Vec<Expr>,
    /// What is computed behind so many of them, whoever needs it.
    pub inner: Vec<(usize, Expr)>,
    /// Columns that come out; `None` for one that nobody reads.
    pub selected: Vec<Option<Expr>>,
}

/// A calc to be: it hands on all that comes in, and what it computes behind that.
struct Step {
    predicate: Option<Expr>,
    computed: Vec<Expr>,
}

impl Program {
    /// # Errors
    /// If an expression does not fit the input.
    pub fn new(plan: Plan) -> Result<Program, OperatorError> {
        let Plan { input, predicates, inner, selected } = plan;
        let fail = |error: DataFusionError| internal(NAME, error);
        let width = input.fields().len();
        let mut known: HashMap<Expr, usize> = HashMap::new();
        let mut steps: Vec<Step> = Vec::new();
        let mut predicate = None;
        for step in 0..=predicates.len() {
            if step > 0 {
                let asked = rewritten(&predicates[step - 1], &known).map_err(fail)?;
                // Two filters with nothing between.
                steps.extend(
                    predicate.replace(asked).map(|before| Step { predicate: Some(before), computed: vec![] }),
                );
            }
            let mut waiting: Vec<Expr> =
                inner.iter().filter(|(of, _)| *of == step).map(|(_, expr)| Arc::clone(expr)).collect();
            if step == predicates.len() {
                let common = common(selected.iter().flatten().chain(&waiting));
                waiting.extend(common);
            }
            loop {
                let left: HashSet<&Expr> = waiting.iter().filter(|expr| !known.contains_key(*expr)).collect();
                let mut taken: HashSet<&Expr> = HashSet::new();
                // In their order, so that the same plan is the same program.
                let first = waiting
                    .iter()
                    .filter(|expr| left.contains(expr) && !has_part(expr, &left) && taken.insert(expr));
                let first: Vec<Expr> = first.cloned().collect();
                if first.is_empty() {
                    break;
                }
                let computed = first.iter().map(|expr| rewritten(expr, &known)).collect::<Result<_, _>>();
                steps.push(Step { predicate: predicate.take(), computed: computed.map_err(fail)? });
                for expr in first {
                    let column = width + known.len();
                    known.insert(expr, column);
                }
            }
        }
        let selected =
            selected.iter().map(|expr| expr.as_ref().map(|expr| rewritten(expr, &known)).transpose());
        let selected = selected.collect::<Result<Vec<_>, _>>().map_err(fail)?;
        let last = selected.into_iter().map(|expr| expr.unwrap_or_else(nothing)).collect();
        Program::of(input, steps, predicate, last)
    }

    /// Columns that no later step reads are not handed on: a filter would copy them.
    fn of(
        input: SchemaRef,
        steps: Vec<Step>,
        predicate: Option<Expr>,
        selected: Vec<Expr>,
    ) -> Result<Program, OperatorError> {
        let mut reads = vec![columns_of(predicate.iter().chain(&selected))];
        for step in steps.iter().skip(1).rev() {
            let behind = columns_of(step.predicate.iter().chain(&step.computed));
            let more = reads.last().into_iter().flatten().copied().chain(behind).collect();
            reads.push(more);
        }
        let mut schema = input;
        let mut calcs = Vec::new();
        for (Step { predicate, computed }, read) in steps.into_iter().zip(reads.into_iter().rev()) {
            let handed = (0..schema.fields().len()).map(|column| match read.contains(&column) {
                true => Arc::new(Column::new("", column)),
                false => nothing(),
            });
            let all: Vec<Expr> = handed.chain(computed).collect();
            let spec = calc(&schema, predicate, all);
            schema = spec.output_schema()?;
            calcs.push(Calc::new(&spec)?);
        }
        calcs.push(Calc::new(&calc(&schema, predicate, selected))?);
        Ok(Program(calcs))
    }

    /// What comes of rows; `None` if none is kept.
    ///
    /// # Errors
    /// If a row makes an expression fail.
    pub fn run(&mut self, batch: StreamBatch) -> Result<Option<StreamBatch>, OperatorError> {
        let mut batch = batch;
        for calc in &mut self.0 {
            let calculated = calc.calculate(batch).map_err(|error| row_error(NAME, &error))?;
            let Some(kept) = calculated else { return Ok(None) };
            batch = kept;
        }
        Ok(Some(batch))
    }
}

fn calc(input: &SchemaRef, predicate: Option<Expr>, projection: Vec<Expr>) -> CalcSpec {
    let named = projection.into_iter().enumerate().map(|(column, expr)| (expr, column.to_string()));
    CalcSpec {
        name: NAME.into(),
        input_schema: Arc::clone(input),
        predicate,
        projection: named.collect(),
        output_schema: None,
    }
}

fn nothing() -> Expr {
    Arc::new(Literal::new(ScalarValue::Null))
}

fn columns_of<'a>(exprs: impl Iterator<Item = &'a Expr>) -> Vec<usize> {
    exprs.flat_map(collect_columns).map(|column| column.index()).collect()
}

/// With columns in place of what is known.
fn rewritten(expr: &Expr, known: &HashMap<Expr, usize>) -> Result<Expr, DataFusionError> {
    let rewritten = Arc::clone(expr).transform_down(|expr| {
        Ok(match known.get(&expr) {
            Some(&column) => {
                let column: Expr = Arc::new(Column::new("", column));
                Transformed::new(column, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(expr),
        })
    });
    rewritten.data()
}

fn has_part(expr: &Expr, of: &HashSet<&Expr>) -> bool {
    expr.children().into_iter().any(|child| of.contains(child) || has_part(child, of))
}

/// Parts that several of these have, which each of them computes whatever its other parts are. Not parts of such parts that
/// nobody else has.
fn common<'a>(exprs: impl Iterator<Item = &'a Expr>) -> Vec<Expr> {
    let mut known = HashSet::new();
    let roots: Vec<&Expr> = exprs.filter(|expr| is_computed(expr) && known.insert(*expr)).collect();
    let mut counts: HashMap<&Expr, usize> = HashMap::new();
    let mut left = roots.clone();
    while let Some(expr) = left.pop() {
        *counts.entry(expr).or_insert(0) += 1;
        left.extend(parts(expr));
    }
    let mut common: Vec<&Expr> = roots.iter().copied().filter(|root| counts[root] > 1).collect();
    let mut left = roots;
    while let Some(expr) = left.pop() {
        let parts = parts(expr);
        common.extend(parts.iter().copied().filter(|part| counts[part] > counts[expr]));
        left.extend(parts);
    }
    common.into_iter().cloned().collect()
}

/// What is computed wherever this is.
pub(super) fn parts(expr: &Expr) -> Vec<&Expr> {
    let are_all = match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => !matches!(binary.op(), BinaryOperator::And | BinaryOperator::Or),
        None => match expr.downcast_ref::<ScalarFunctionExpr>() {
            Some(call) => !call.fun().short_circuits(),
            None => {
                expr.is::<CastExpr>()
                    || expr.is::<NotExpr>()
                    || expr.is::<IsNullExpr>()
                    || expr.is::<IsNotNullExpr>()
            }
        },
    };
    let children = if are_all { expr.children() } else { vec![] };
    children.into_iter().filter(|part| is_computed(part)).collect()
}

/// Whether this is more than to hand on what is there.
pub(super) fn is_computed(expr: &Expr) -> bool {
    !expr.is::<Column>() && !expr.is::<Literal>()
}
