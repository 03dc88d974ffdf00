//! The last step that every join shares: who found the pairs, and how, is not known here.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion_physical_expr::PhysicalExpr;
use laxity_graph::RowErrors;

use crate::expression::{Selection, internal, row_error, select};
use crate::failing_rows::mask_of;
use crate::{DeadRows, JoinKind, OperatorError};

/// Puts rows of two sides together: pairs, the condition on them, and padding.
#[derive(Debug)]
pub(crate) struct JoinOutput {
    /// The operator, for errors.
    pub(crate) name: String,
    left: SchemaRef,
    right: SchemaRef,
    /// Left then right, as the condition sees a pair.
    pair: SchemaRef,
    output: SchemaRef,
    condition: Option<Arc<dyn PhysicalExpr>>,
    row_errors: RowErrors,
}

impl JoinOutput {
    pub(crate) fn new(
        name: String,
        kind: JoinKind,
        left: SchemaRef,
        right: SchemaRef,
        condition: Option<Arc<dyn PhysicalExpr>>,
        row_errors: RowErrors,
    ) -> JoinOutput {
        let output = kind.output_schema(&left, &right);
        let pair = if kind.emits_pairs() {
            Arc::clone(&output)
        } else {
            Arc::new(Schema::new(left.fields().iter().chain(right.fields()).cloned().collect::<Vec<_>>()))
        };
        JoinOutput { name, left, right, pair, output, condition, row_errors }
    }

    /// Whether pairs must fulfil more than equal keys.
    pub(crate) fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// Row `i` of the left beside row `i` of the right.
    pub(crate) fn pairs(
        &self,
        mut left: Vec<ArrayRef>,
        right: Vec<ArrayRef>,
    ) -> Result<RecordBatch, OperatorError> {
        left.extend(right);
        RecordBatch::try_new(Arc::clone(&self.pair), left).map_err(|e| self.bug(&e))
    }

    /// Which pairs fulfil the condition. One over which it fails is put into `dead`, unless the query is to stop.
    pub(crate) fn select(
        &self,
        pairs: &RecordBatch,
        dead: &mut Vec<DeadRows>,
    ) -> Result<Selection, OperatorError> {
        let Some(condition) = &self.condition else { return Ok(Selection::All) };
        let fulfil = |pairs: &RecordBatch| select(condition, pairs).map_err(|e| row_error(&self.name, &e));
        match fulfil(pairs) {
            Err(error) if error.is_of_a_row() && self.row_errors == RowErrors::DeadLetter => {
                let mut mask = |pairs: &RecordBatch| {
                    Ok(match fulfil(pairs)? {
                        Selection::All => vec![true; pairs.num_rows()],
                        Selection::Nothing => vec![false; pairs.num_rows()],
                        Selection::Some(mask) => mask.values().iter().collect(),
                    })
                };
                mask_of(pairs, dead, &mut mask).map(|mask| Selection::Some(mask.into()))
            }
            other => other,
        }
    }

    /// Left rows as they are: the result of a semi or anti join.
    pub(crate) fn left_alone(&self, left: Vec<ArrayRef>) -> Result<RecordBatch, OperatorError> {
        RecordBatch::try_new(Arc::clone(&self.output), left).map_err(|e| self.bug(&e))
    }

    /// Left rows with NULLs for the right.
    pub(crate) fn pad_left(&self, mut left: Vec<ArrayRef>) -> Result<RecordBatch, OperatorError> {
        let count = left.first().map_or(0, |column| column.len());
        left.extend(self.right.fields().iter().map(|field| new_null_array(field.data_type(), count)));
        self.left_alone(left)
    }

    /// Right rows with NULLs for the left.
    pub(crate) fn pad_right(&self, right: Vec<ArrayRef>) -> Result<RecordBatch, OperatorError> {
        let count = right.first().map_or(0, |column| column.len());
        let nulls = self.left.fields().iter().map(|field| new_null_array(field.data_type(), count));
        self.left_alone(nulls.chain(right).collect())
    }

    /// An Arrow kernel failed on arrays that we made.
    pub(crate) fn bug(&self, error: &ArrowError) -> OperatorError {
        internal(&self.name, error.to_string())
    }
}
