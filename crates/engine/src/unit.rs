use std::sync::Arc;

use laxity_graph::fetch;
use laxity_runtime::{ArrowRows, Instance};

use crate::tables::Table;

/// What a worker is granted.
#[derive(Clone)]
pub(crate) enum Unit {
    Operator(Arc<Instance<ArrowRows>>),
    Table(Arc<Table>),
}

/// What a worker will be granted, as far as its memory can be asked for.
pub(crate) trait Fetched {
    /// Asks for what it stands in.
    fn fetch(&self) {}

    /// Asks for what it points to, once that is there.
    fn fetch_behind(&self) {}
}

impl Fetched for Unit {
    fn fetch(&self) {
        match self {
            Unit::Operator(instance) => fetch(&**instance),
            Unit::Table(table) => fetch(&**table),
        }
    }

    fn fetch_behind(&self) {
        match self {
            Unit::Operator(instance) => instance.fetch(),
            Unit::Table(table) => table.fetch(),
        }
    }
}

#[cfg(test)]
impl Fetched for () {}
