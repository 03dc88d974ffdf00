//! What a name in FROM stands for. Queries are planned later than they are read, and each sees the catalog as it was at
//! its place of the script.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_expr::{Expr, LogicalPlan, TableSource, TableType};
use datafusion_sql::sqlparser::tokenizer::Location;
use laxity_connect::TableSpec;

use crate::data_type::CharLength;
use crate::lookup::AsOf;
use crate::origin::Origin;
use crate::statement::WithOptions;
use crate::written_out::WrittenOut;

/// The tables and views of a script, in the order in which they are declared.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    relations: BTreeMap<String, Declared>,
    declared: usize,
}

/// The tables and views that exist at one place of a script, unless one was dropped since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CatalogAt<'a> {
    relations: &'a BTreeMap<String, Declared>,
    declared: usize,
    /// One more.
    besides: Option<(&'a str, &'a Relation)>,
}

#[derive(Debug)]
struct Declared {
    relation: Relation,
    origin: Arc<Origin>,
    /// How many were declared before it.
    after: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Relation {
    Table(Arc<Table>),
    /// Its plan, and how large that is.
    View(Arc<LogicalPlan>, WrittenOut),
}

/// A table as CREATE TABLE declares it.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// What is physically there, then METADATA columns, then what no SQL names: fields of ROWs, and where a row stood.
    pub spec: Arc<TableSpec>,
    /// The same for who writes it: without METADATA columns.
    pub sink: Arc<TableSpec>,
    /// Where a METADATA column is declared that a sink would have to write.
    pub written_metadata: Option<Location>,
    /// All columns: physical, computed, processing time.
    pub schema: SchemaRef,
    pub columns: Vec<TableColumn>,
    /// Lengths of the physical columns that are CHAR or VARCHAR.
    pub lengths: Vec<Option<CharLength>>,
    /// The event-time column and the WATERMARK expression over all columns.
    pub watermark: Option<(usize, Expr)>,
    /// Places of the options.
    pub options: WithOptions,
    /// Index of the file that declares it.
    pub file: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TableColumn {
    /// Index among the physical columns.
    Physical(usize),
    /// Over the physical columns.
    Computed(Expr),
    /// `PROCTIME()`.
    ProcessingTime,
}

impl Table {
    /// Whether the column marks the progress of time, so that windows can be cut along it.
    pub fn is_time_attribute(&self, column: usize) -> bool {
        matches!(self.columns[column], TableColumn::ProcessingTime)
            || self.watermark.as_ref().is_some_and(|(time, _)| *time == column)
    }
}

impl Catalog {
    /// How many tables and views were declared so far, for [`at`](Catalog::at).
    pub fn declared(&self) -> usize {
        self.declared
    }

    /// As it was when so many were declared.
    pub fn at(&self, declared: usize) -> CatalogAt<'_> {
        CatalogAt { relations: &self.relations, declared, besides: None }
    }

    pub fn now(&self) -> CatalogAt<'_> {
        self.at(self.declared)
    }

    pub fn insert(&mut self, name: String, relation: Relation, origin: Arc<Origin>) {
        self.relations.insert(name, Declared { relation, origin, after: self.declared });
        self.declared += 1;
    }

    /// Takes one away, also from what was before.
    pub fn remove(&mut self, name: &str) {
        self.relations.remove(name);
    }
}

impl<'a> CatalogAt<'a> {
    fn declared(self, name: &str) -> Option<&'a Declared> {
        self.relations.get(name).filter(|one| one.after < self.declared)
    }

    pub fn get(self, name: &str) -> Option<&'a Relation> {
        match self.besides {
            Some((besides, relation)) if besides == name => Some(relation),
            _ => self.declared(name).map(|one| &one.relation),
        }
    }

    /// The same with one more.
    pub fn with(self, name: &'a str, relation: &'a Relation) -> CatalogAt<'a> {
        CatalogAt { besides: Some((name, relation)), ..self }
    }

    /// The statement that declares it.
    pub fn origin(self, name: &str) -> Option<&'a Arc<Origin>> {
        self.declared(name).map(|one| &one.origin)
    }

    pub fn names(self) -> impl Iterator<Item = &'a str> {
        let known = self.relations.iter().filter(move |(_, one)| one.after < self.declared);
        known.map(|(name, _)| name.as_str())
    }
}

/// A table for the planner. A view is planned in its place.
#[derive(Debug)]
pub(crate) enum Source {
    Table(Arc<Table>),
    /// A table that a stream looks rows up in.
    Lookup(Arc<Table>, AsOf),
    View(Arc<LogicalPlan>, SchemaRef),
    /// Columns alone, for planning the expressions of CREATE TABLE.
    Columns(SchemaRef),
}

impl TableSource for Source {
    fn schema(&self) -> SchemaRef {
        match self {
            Source::Table(table) | Source::Lookup(table, _) => Arc::clone(&table.schema),
            Source::View(_, schema) | Source::Columns(schema) => Arc::clone(schema),
        }
    }

    fn table_type(&self) -> TableType {
        match self {
            Source::View(..) => TableType::View,
            _ => TableType::Base,
        }
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        match self {
            Source::View(plan, _) => Some(Cow::Borrowed(plan)),
            _ => None,
        }
    }
}
