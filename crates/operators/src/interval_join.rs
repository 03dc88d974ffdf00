use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_physical_expr::PhysicalExpr;

use crate::{JoinKind, OperatorError, OperatorFactory};

/// Joins rows of two inputs that agree on keys and whose event times lie close to each other:
/// `lower <= left.time - right.time <= upper`.
#[derive(Clone, Debug)]
pub struct IntervalJoinSpec {
    /// As `explain` names it.
    pub name: String,
    /// Inner, left, right or full.
    pub kind: JoinKind,
    /// Input 0.
    pub left: IntervalJoinInput,
    /// Input 1.
    pub right: IntervalJoinInput,
    /// Least `left.time - right.time` of a pair, may be negative.
    pub lower_ms: i64,
    /// Greatest `left.time - right.time` of a pair, may be negative.
    pub upper_ms: i64,
    /// What a pair must fulfil besides, over left columns then right columns. A NULL is a no.
    pub condition: Option<Arc<dyn PhysicalExpr>>,
}

/// One side of an [`IntervalJoinSpec`].
#[derive(Clone, Debug)]
pub struct IntervalJoinInput {
    /// Columns of the input.
    pub schema: SchemaRef,
    /// The event-time attribute, a timestamp in milliseconds.
    pub time: usize,
    /// Key columns, paired by position with the other side's and of equal types. May be empty.
    pub keys: Vec<usize>,
}

impl IntervalJoinSpec {
    /// Columns of the result, see [`JoinKind::output_schema`].
    pub fn output_schema(&self) -> SchemaRef {
        self.kind.output_schema(&self.left.schema, &self.right.schema)
    }

    /// How far the output watermark stays behind the input's: `max(-lower, upper)`, as in Flink.
    pub fn watermark_delay_ms(&self) -> i64 {
        self.lower_ms.saturating_neg().max(self.upper_ms).max(0)
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| {
            Err(OperatorError::Internal { operator: self.name.clone(), message: "not built yet".into() })
        })
    }
}
