//! Where DataFusion's expressions are evaluated, for all operators: what is cheap is not computed, and errors of a
//! user's rows are told from our own.

mod fault;
mod few_rows;
mod identity;
mod known_field;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::Schema;
use datafusion_common::cast::as_boolean_array;
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, Literal};

use crate::OperatorError;
use crate::operator::FEW_ROWS_MAX;
pub use fault::ExpressionFault;
pub(crate) use fault::explained;
use few_rows::FewRows;
pub(crate) use identity::Identity;
pub(crate) use known_field::with_known_fields;

/// An expression, ready to be evaluated batch by batch. Columns and constants, the commonest kinds, cost no
/// evaluation.
#[derive(Debug)]
pub(crate) enum Expression {
    Column(usize),
    /// A constant with an array of it, as long as the longest batch so far.
    Constant(ScalarValue, ArrayRef),
    Computed(Computed),
}

/// See [`Expression`].
#[derive(Debug)]
pub(crate) struct Computed {
    /// As it was given: what is said of a row over which it fails.
    expr: Arc<dyn PhysicalExpr>,
    /// As it is evaluated.
    known: Arc<dyn PhysicalExpr>,
    /// As it is evaluated over a few rows, where it can be.
    few_rows: Option<FewRows>,
}

impl Expression {
    pub(crate) fn new(expr: &Arc<dyn PhysicalExpr>) -> Result<Expression, DataFusionError> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return Ok(Expression::Column(column.index()));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let value = literal.value().clone();
            let array = value.to_array_of_size(1)?;
            return Ok(Expression::Constant(value, array));
        }
        let (expr, known) = (Arc::clone(expr), Arc::clone(expr));
        Ok(Expression::Computed(Computed { expr, known, few_rows: None }))
    }

    /// One that is cheap over a few rows too.
    pub(crate) fn over(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Expression, DataFusionError> {
        Ok(match Expression::new(expr)? {
            Expression::Computed(Computed { expr, .. }) => {
                let (known, few_rows) = (with_known_fields(&expr, input)?, FewRows::new(&expr, input));
                Expression::Computed(Computed { expr, known, few_rows })
            }
            other => other,
        })
    }

    pub(crate) fn evaluate(&mut self, rows: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        match self {
            Expression::Column(index) => Ok(Arc::clone(rows.column(*index))),
            Expression::Constant(value, array) => {
                if array.len() < rows.num_rows() {
                    *array = value.to_array_of_size(rows.num_rows().next_power_of_two())?;
                }
                Ok(array.slice(0, rows.num_rows()))
            }
            Expression::Computed(Computed { expr, known, few_rows }) => {
                let few_rows = few_rows.as_ref().filter(|_| rows.num_rows() <= FEW_ROWS_MAX);
                match few_rows.and_then(|few_rows| few_rows.evaluate(rows)) {
                    Some(array) => Ok(array),
                    None => {
                        let value = known.evaluate(rows).map_err(|error| explained(error, expr, rows))?;
                        value.into_array(rows.num_rows())
                    }
                }
            }
        }
    }
}

/// Which rows a predicate keeps.
#[derive(Debug)]
pub(crate) enum Selection {
    All,
    Nothing,
    /// A mask without nulls.
    Some(BooleanArray),
}

/// A filter, ready to be evaluated batch by batch.
pub(crate) struct Predicate {
    expr: Arc<dyn PhysicalExpr>,
    known: Arc<dyn PhysicalExpr>,
    few_rows: Option<FewRows>,
}

impl Predicate {
    pub(crate) fn new(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Predicate {
        // What is no expression over these columns says so when it is evaluated.
        let known = with_known_fields(expr, input).unwrap_or_else(|_| Arc::clone(expr));
        Predicate { expr: Arc::clone(expr), known, few_rows: FewRows::new(expr, input) }
    }

    pub(crate) fn select(&self, rows: &RecordBatch) -> Result<Selection, DataFusionError> {
        let few_rows = self.few_rows.as_ref().filter(|_| rows.num_rows() <= FEW_ROWS_MAX);
        match few_rows.and_then(|few_rows| few_rows.select(rows)) {
            Some(selection) => Ok(selection),
            None => selected(&self.known, &self.expr, rows),
        }
    }
}

/// Evaluates a predicate. NULL keeps nothing, as in SQL.
pub(crate) fn select(
    predicate: &Arc<dyn PhysicalExpr>,
    rows: &RecordBatch,
) -> Result<Selection, DataFusionError> {
    selected(predicate, predicate, rows)
}

/// Likewise; `said` is what is said of a row over which it fails.
fn selected(
    predicate: &Arc<dyn PhysicalExpr>,
    said: &Arc<dyn PhysicalExpr>,
    rows: &RecordBatch,
) -> Result<Selection, DataFusionError> {
    let array = match predicate.evaluate(rows).map_err(|error| explained(error, said, rows))? {
        ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => return Ok(Selection::All),
        ColumnarValue::Scalar(ScalarValue::Boolean(_)) => return Ok(Selection::Nothing),
        value => value.into_array(rows.num_rows())?,
    };
    let mask = as_boolean_array(&array)?;
    let mask = match mask.nulls() {
        None => mask.clone(),
        Some(nulls) => BooleanArray::new(mask.values() & nulls.inner(), None),
    };
    Ok(match mask.values().count_set_bits() {
        0 => Selection::Nothing,
        count if count == mask.len() => Selection::All,
        _ => Selection::Some(mask),
    })
}

/// A failed expression: the user's to fix.
pub(crate) fn row_error(operator: &str, error: &DataFusionError) -> OperatorError {
    let message = match error.find_root() {
        DataFusionError::Internal(_) => return internal(operator, error.strip_backtrace()),
        DataFusionError::ArrowError(arrow, _) => arrow.to_string(),
        DataFusionError::External(inner) if inner.is::<ExpressionFault>() => {
            let fault = inner.downcast_ref::<ExpressionFault>().expect("it is one").clone();
            let fault = ExpressionFault { operator: operator.to_owned(), ..fault };
            return OperatorError::Expression(Box::new(fault));
        }
        root => root.strip_backtrace(),
    };
    OperatorError::Row { operator: operator.to_owned(), message }
}

/// A broken invariant: ours to fix.
pub(crate) fn internal(operator: &str, message: impl ToString) -> OperatorError {
    OperatorError::Internal { operator: operator.to_owned(), message: message.to_string() }
}
