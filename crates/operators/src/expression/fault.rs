//! From the error of a whole batch to the row, the part of the expression and the place in the file that are to blame;
//! none of it costs anything before an expression has failed.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::expressions::{BinaryExpr, CaseExpr, CastExpr, Column, Literal};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// An expression that failed on a row (division by zero, a CAST): the user's to fix, who needs to know where it
/// stands and which row it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionFault {
    /// The operator, as `explain` names it.
    pub operator: String,
    /// What went wrong.
    pub message: String,
    /// The smallest part that fails, as it is planned; as it is written once that has been found out.
    pub expression: String,
    /// The sign of an operator, the name of a function, or `CAST`: what the smallest part that fails does.
    pub call: String,
    /// Columns and constants that the part reads, from left to right.
    pub leaves: Vec<String>,
    /// Names and values of the first row that fails, those that the part reads first. Empty if no single row fails.
    pub row: Vec<(String, String)>,
    /// `file:line:column` of the expression, where that is known.
    pub place: Option<String>,
}

impl fmt::Display for ExpressionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.as_deref().unwrap_or(&self.operator);
        write!(f, "{place}: {} in {}", self.message, self.expression)?;
        let mut separator = "; the row has ";
        for (name, value) in &self.row {
            write!(f, "{separator}{name} = {value}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl std::error::Error for ExpressionFault {}

/// What failed, and on which row. An error of ours stays what it is.
#[cold]
pub(crate) fn explained(
    error: DataFusionError,
    expr: &Arc<dyn PhysicalExpr>,
    rows: &RecordBatch,
) -> DataFusionError {
    let message = match error.find_root() {
        DataFusionError::Internal(_) => return error,
        DataFusionError::ArrowError(arrow, _) => arrow.to_string(),
        root => root.strip_backtrace(),
    };
    let row = (0..rows.num_rows()).map(|row| rows.slice(row, 1)).find(|row| expr.evaluate(row).is_err());
    let culprit = row.as_ref().map_or_else(|| Arc::clone(expr), |row| culprit(expr, row));
    let mut read = Vec::new();
    let mut leaves = Vec::new();
    leaves_of(&culprit, &mut read, &mut leaves);
    DataFusionError::External(Box::new(ExpressionFault {
        operator: String::new(),
        message: message.strip_suffix(" error").unwrap_or(&message).to_owned(),
        expression: without_indices(&culprit.to_string()),
        call: call_of(&culprit),
        leaves,
        row: row.map_or_else(Vec::new, |row| values(&row, &read)),
        place: None,
    }))
}

/// The smallest part of an expression that fails on this row. A part of a CASE that is not reached does not count.
fn culprit(expr: &Arc<dyn PhysicalExpr>, row: &RecordBatch) -> Arc<dyn PhysicalExpr> {
    let reached = match expr.downcast_ref::<CaseExpr>() {
        Some(case) if case.expr().is_none() => reached(case, row),
        _ => expr.children().into_iter().cloned().collect(),
    };
    match reached.iter().find(|part| part.evaluate(row).is_err()) {
        Some(part) => culprit(part, row),
        None => Arc::clone(expr),
    }
}

/// The conditions of a CASE up to the first that holds, and its result.
fn reached(case: &CaseExpr, row: &RecordBatch) -> Vec<Arc<dyn PhysicalExpr>> {
    let mut parts = Vec::new();
    for (when, then) in case.when_then_expr() {
        parts.push(Arc::clone(when));
        let holds = match when.evaluate(row) {
            Ok(ColumnarValue::Scalar(value)) => value == ScalarValue::Boolean(Some(true)),
            Ok(ColumnarValue::Array(values)) => {
                values.as_boolean_opt().is_some_and(|values| values.iter().next() == Some(Some(true)))
            }
            Err(_) => return parts,
        };
        if holds {
            parts.push(Arc::clone(then));
            return parts;
        }
    }
    parts.extend(case.else_expr().cloned());
    parts
}

fn call_of(expr: &Arc<dyn PhysicalExpr>) -> String {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        binary.op().to_string()
    } else if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        function.name().to_owned()
    } else if expr.downcast_ref::<CastExpr>().is_some() {
        "CAST".to_owned()
    } else {
        String::new()
    }
}

/// Indices of the columns, and names and constants as text.
fn leaves_of(expr: &Arc<dyn PhysicalExpr>, read: &mut Vec<usize>, leaves: &mut Vec<String>) {
    if let Some(column) = expr.downcast_ref::<Column>() {
        read.push(column.index());
        // A field of a ROW that is read as a column goes by its own name in the text.
        leaves.extend(column.name().rsplit('.').next().map(str::to_owned));
    } else if let Some(literal) = expr.downcast_ref::<Literal>() {
        leaves.push(literal.value().to_string());
    }
    for part in expr.children() {
        leaves_of(part, read, leaves);
    }
}

/// The values of a row of one, with the columns of these indices first.
fn values(row: &RecordBatch, first: &[usize]) -> Vec<(String, String)> {
    let mut order: Vec<usize> = Vec::new();
    for index in first.iter().copied().chain(0..row.num_columns()) {
        if index < row.num_columns() && !order.contains(&index) {
            order.push(index);
        }
    }
    let options = FormatOptions::new().with_null("NULL").with_display_error(true);
    let value = |index: usize| {
        let text = ArrayFormatter::try_new(row.column(index), &options).map(|f| f.value(0).to_string());
        (row.schema_ref().field(index).name().clone(), text.unwrap_or_default())
    };
    // Columns of ours have names that SQL has not given.
    order.into_iter().map(value).filter(|(name, _)| !name.starts_with("__")).collect()
}

/// `a@0 / b@1` as a person writes it.
fn without_indices(planned: &str) -> String {
    let mut parts = planned.split('@');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == part.len() {
            text.push('@');
        }
        text.push_str(rest);
    }
    text
}
