use std::sync::Arc;

use laxity_runtime::{ArrowRows, Instance};

use crate::tables::Table;

/// What a worker is granted.
#[derive(Clone)]
pub(crate) enum Unit {
    Operator(Arc<Instance<ArrowRows>>),
    Table(Arc<Table>),
}
