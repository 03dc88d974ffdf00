use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::Expression;

/// Tells the batches that a projection leaves as they are, so that they pass without being put together anew.
///
/// Batches of one producer share their schema, so that it is compared once and not batch by batch.
pub(crate) struct Identity {
    schema: SchemaRef,
    /// The schema that came last and whether it is `schema`.
    last: Option<(SchemaRef, bool)>,
}

impl Identity {
    /// `None` unless the expressions are just the columns, each in its place.
    pub(crate) fn of<'a>(
        expressions: impl IntoIterator<Item = Option<&'a Expression>>,
        schema: &SchemaRef,
    ) -> Option<Identity> {
        let mut expressions = expressions.into_iter().enumerate();
        let is_identity =
            expressions.all(|(i, e)| matches!(e, Some(Expression::Column(column)) if *column == i));
        is_identity.then(|| Identity { schema: Arc::clone(schema), last: None })
    }

    /// Whether the batch is its own projection.
    pub(crate) fn holds(&mut self, rows: &RecordBatch) -> bool {
        let schema = rows.schema_ref();
        match &self.last {
            Some((last, is_same)) if Arc::ptr_eq(last, schema) => *is_same,
            _ => {
                let is_same = *schema == self.schema;
                self.last = Some((Arc::clone(schema), is_same));
                is_same
            }
        }
    }
}
