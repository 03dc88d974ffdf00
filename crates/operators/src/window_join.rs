use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_physical_expr::PhysicalExpr;

use crate::{JoinKind, OperatorError, OperatorFactory};

/// Joins rows of two inputs that lie in the same window and agree on keys.
///
/// Input 0 is the left, input 1 the right; both carry their window as columns. The window's pairs are emitted
/// when the watermark reaches `window_end - 1`.
#[derive(Clone, Debug)]
pub struct WindowJoinSpec {
    /// As `explain` names it.
    pub name: String,
    /// What happens to rows without a partner.
    pub kind: JoinKind,
    /// Input 0.
    pub left: WindowJoinInput,
    /// Input 1.
    pub right: WindowJoinInput,
    /// What a pair must fulfil besides equal windows and keys, over left columns then right columns (also for
    /// semi and anti joins). A NULL is a no.
    pub condition: Option<Arc<dyn PhysicalExpr>>,
}

/// One side of a [`WindowJoinSpec`].
#[derive(Clone, Debug)]
pub struct WindowJoinInput {
    /// Columns of the input.
    pub schema: SchemaRef,
    /// Column of the window's start, a timestamp in milliseconds.
    pub window_start: usize,
    /// Column of the window's end, a timestamp in milliseconds.
    pub window_end: usize,
    /// Key columns, paired by position with the other side's and of equal types. May be empty.
    pub keys: Vec<usize>,
}

impl WindowJoinSpec {
    /// Columns of the result, see [`JoinKind::output_schema`].
    pub fn output_schema(&self) -> SchemaRef {
        self.kind.output_schema(&self.left.schema, &self.right.schema)
    }

    /// Makes the operator's instances.
    pub fn factory(self) -> OperatorFactory {
        OperatorFactory::new(move |_| {
            Err(OperatorError::Internal { operator: self.name.clone(), message: "not built yet".into() })
        })
    }
}
