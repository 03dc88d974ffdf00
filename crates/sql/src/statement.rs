//! The syntax of what a script may say, between `parse.rs`, which makes it, and `compile.rs`, which executes it.
//! Queries in it are trees of sqlparser's.

use std::collections::BTreeMap;

use datafusion_sql::sqlparser::ast::{Expr, Ident, Query};
use datafusion_sql::sqlparser::tokenizer::{Location, Span};

use crate::data_type::FlinkType;

/// One statement with its place.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub kind: StatementKind,
    /// From the first to the last token.
    pub span: Span,
}

/// What Laxity executes of Flink's statements.
#[derive(Debug, Clone)]
pub(crate) enum StatementKind {
    CreateTable(Box<CreateTable>),
    CreateView(CreateView),
    Drop {
        object: DropObject,
        name: Ident,
        if_exists: bool,
    },
    Insert(Insert),
    /// `EXECUTE STATEMENT SET BEGIN … END`: as many queries.
    StatementSet(Vec<Insert>),
    /// A query without INSERT: its rows are printed.
    Query(Box<Query>),
    Set {
        key: Ident,
        value: String,
    },
    Reset(Option<Ident>),
    Explain(Box<Statement>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropObject {
    Table,
    View,
}

#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    pub name: Ident,
    pub if_not_exists: bool,
    pub columns: Vec<Column>,
    pub watermark: Option<Watermark>,
    pub primary_key: Vec<Ident>,
    pub partitioned_by: Vec<Ident>,
    pub options: WithOptions,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub name: Ident,
    pub kind: ColumnKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ColumnKind {
    Physical(FlinkType),
    Computed(Box<Expr>),
    Metadata {
        data_type: FlinkType,
        key: String,
        /// Not written by INSERT.
        is_virtual: bool,
        /// Of the word METADATA.
        at: Location,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Watermark {
    pub column: Ident,
    pub expr: Expr,
    /// Where the expression begins.
    pub at: Location,
}

/// A WITH clause, with the places of its keys.
#[derive(Debug, Clone)]
pub(crate) struct WithOptions {
    pub entries: BTreeMap<String, WithOption>,
    /// Of the word WITH, or of the statement where there is none.
    pub at: Location,
}

#[derive(Debug, Clone)]
pub(crate) struct WithOption {
    pub value: String,
    pub key_at: Location,
    pub value_at: Location,
}

#[derive(Debug, Clone)]
pub(crate) struct CreateView {
    pub name: Ident,
    pub if_not_exists: bool,
    pub columns: Vec<Ident>,
    pub query: Box<Query>,
}

#[derive(Debug, Clone)]
pub(crate) struct Insert {
    pub table: Ident,
    /// Named columns; empty: all of them in order.
    pub columns: Vec<Ident>,
    pub query: Box<Query>,
    /// Where that begins.
    pub query_at: Location,
    pub span: Span,
}
