//! Queries that are alike but for the name of the table they read are planned once, and the table is put in: planning and
//! optimising takes most of the time in which thousands of queries start.
//!
//! What a plan depends on are the words of its query, the columns of its table with what fills them, and the columns kept for
//! late rows; the watermark is compared too, though nothing asks for it. No option and no setting is asked for before a plan
//! is lowered, which each query is by itself. The plan is made with a name that nothing else has, so that wherever this name
//! stands, as in `sum(t.v)`, the table's own belongs. It is used only if it then comes out as the plan of a query that was
//! planned by itself.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result, TableReference, plan_err};
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_sql::sqlparser::ast::Expr as SqlExpr;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use parking_lot::Mutex;

use crate::catalog::{CatalogAt, Relation, Source, Table};
use crate::error::Fault;
use crate::parse::StatementParser;
use crate::planning::{Planner, has_subquery, tables_of};
use crate::statement::StatementKind;
use crate::window_function::as_window_function;

/// The name of the table in a plan that stands for many.
const STAND_IN: &str = "__laxity_stand_in";

/// Forms and expressions that are kept: a few KB each. A script of more is not one of queries that are alike.
const KEPT_MAX: usize = 256;

type Planned<T> = std::result::Result<T, Box<Fault>>;

/// What the queries and tables of a script have in common.
#[derive(Default)]
pub(crate) struct Alike {
    hasher: RandomState,
    forms: Mutex<Forms>,
    expressions: Mutex<HashMap<(SqlExpr, SchemaRef), Expr>>,
}

#[derive(Default)]
struct Forms {
    /// Hashes of the forms that one query had so far: only a second one makes it worth while.
    once: HashSet<u64>,
    /// `None` where the plan of one is no plan of others.
    known: HashMap<u64, Option<Arc<Form>>>,
}

impl Forms {
    /// Whether the next one is to be planned like this one, with nothing kept of it.
    fn is_first(&mut self, hash: u64) -> bool {
        self.known.len() >= KEPT_MAX || self.once.insert(hash)
    }
}

impl Alike {
    /// The optimised plan of a query. `words` are those of the query, and `keep` the columns that its late table takes;
    /// `alone` plans it by itself.
    pub fn plan(
        &self,
        words: &[TokenWithSpan],
        catalog: CatalogAt,
        keep: &[String],
        alone: impl FnOnce() -> Planned<LogicalPlan>,
    ) -> Planned<LogicalPlan> {
        let Some(query) = Query::of(words, catalog, keep) else { return alone() };
        let hash = query.hash(&self.hasher);
        let known = self.forms.lock().known.get(&hash).cloned();
        match known {
            Some(Some(form)) if form.fits(&query) => return form.plan_of(&query).or_else(|_| alone()),
            Some(_) => return alone(),
            None if self.forms.lock().is_first(hash) => return alone(),
            None => {}
        }
        let plan = alone()?;
        let form = Form::of(&query, catalog).filter(|form| form.plan_of(&query).is_ok_and(|of| of == plan));
        self.forms.lock().known.entry(hash).or_insert(form.map(Arc::new));
        Ok(plan)
    }

    /// An expression of CREATE TABLE over these columns; `alone` plans it.
    pub fn expression(
        &self,
        expr: &SqlExpr,
        columns: &SchemaRef,
        alone: impl FnOnce() -> Planned<Expr>,
    ) -> Planned<Expr> {
        if matches!(expr, SqlExpr::Identifier(_)) {
            return alone();
        }
        // Places are no part of what is compared.
        let key = (expr.clone(), Arc::clone(columns));
        if let Some(known) = self.expressions.lock().get(&key) {
            return Ok(known.clone());
        }
        let planned = alone()?;
        let mut expressions = self.expressions.lock();
        if expressions.len() < KEPT_MAX && !has_subquery(&planned) {
            expressions.insert(key, planned.clone());
        }
        Ok(planned)
    }
}

/// A query that reads one table, which it names once.
struct Query<'a> {
    words: &'a [TokenWithSpan],
    /// Where the table's name stands among the words.
    at: usize,
    name: &'a str,
    relation: &'a Relation,
    table: &'a Arc<Table>,
    keep: &'a [String],
}

impl<'a> Query<'a> {
    fn of(words: &'a [TokenWithSpan], catalog: CatalogAt<'a>, keep: &'a [String]) -> Option<Query<'a>> {
        let mut named = words.iter().enumerate().filter_map(|(at, word)| match &word.token {
            Token::Word(word) if word.keyword == Keyword::NoKeyword => {
                Some((at, word, catalog.get(&word.value)?))
            }
            _ => None,
        });
        let (at, word, relation) = named.next()?;
        let Relation::Table(table) = relation else { return None };
        let name = word.value.as_str();
        // Not one that is written in quotes somewhere.
        let is_plain = name.bytes().all(|c| c == b'_' || c.is_ascii_lowercase() || c.is_ascii_digit());
        let is_alone = named.next().is_none() && word.quote_style.is_none();
        (is_plain && is_alone).then_some(Query { words, at, name, relation, table, keep })
    }

    fn hash(&self, hasher: &RandomState) -> u64 {
        let mut hasher = hasher.build_hasher();
        self.at.hash(&mut hasher);
        let others = self.words.iter().enumerate().filter(|(index, _)| *index != self.at);
        others.for_each(|(_, word)| word.token.hash(&mut hasher));
        self.table.schema.hash(&mut hasher);
        self.keep.hash(&mut hasher);
        hasher.finish()
    }
}

/// Queries that differ in the name of their table alone.
struct Form {
    words: Vec<Token>,
    at: usize,
    /// Of the first one.
    table: Arc<Table>,
    keep: Vec<String>,
    /// With the stand-in for the table.
    plan: LogicalPlan,
}

impl Form {
    fn of(query: &Query, catalog: CatalogAt) -> Option<Form> {
        let mut words = query.words.to_vec();
        if words.iter().any(|word| word.token.to_string().contains(STAND_IN)) {
            return None;
        }
        let Token::Word(name) = &mut words[query.at].token else { return None };
        name.value = STAND_IN.to_owned();
        let StatementKind::Query(parsed) = StatementParser::new(&words).next_statement().ok()??.kind else {
            return None;
        };
        let planner = Planner::new(catalog.with(STAND_IN, query.relation), &words);
        let plan = planner.query(&parsed).and_then(|plan| planner.optimize(plan, query.keep)).ok()?;
        // PROCTIME() may have given the table a column more, and rows looked up are another matter.
        let reads_it = matches!(&tables_of(&plan)[..], [(of, false)] if Arc::ptr_eq(of, query.table));
        reads_it.then(|| Form {
            words: words.into_iter().map(|word| word.token).collect(),
            at: query.at,
            table: Arc::clone(query.table),
            keep: query.keep.to_vec(),
            plan,
        })
    }

    fn fits(&self, query: &Query) -> bool {
        let mut words = self.words.iter().zip(query.words).enumerate();
        let (own, other) = (&self.table, query.table);
        self.at == query.at
            && self.words.len() == query.words.len()
            && words.all(|(index, (own, word))| *own == word.token || index == self.at)
            && self.keep == query.keep
            && own.schema == other.schema
            && own.columns == other.columns
            && own.watermark == other.watermark
    }

    fn plan_of(&self, query: &Query) -> Result<LogicalPlan> {
        let source = Arc::new(Source::Table(Arc::clone(query.table)));
        let mut plan = self.plan.clone();
        PutIn { name: Arc::from(query.name), source }.plan(&mut plan)?;
        Ok(plan)
    }
}

/// Puts a table in for the one that stands for it.
struct PutIn {
    name: Arc<str>,
    source: Arc<Source>,
}

impl PutIn {
    fn plan(&self, plan: &mut LogicalPlan) -> Result<()> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                self.reference(&mut scan.table_name);
                scan.source = Arc::<Source>::clone(&self.source);
                self.exprs(&mut scan.filters)?;
                self.schema(&mut scan.projected_schema)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                self.plan(Arc::make_mut(&mut alias.input))?;
                // A group window goes by the name of its table.
                self.reference(&mut alias.alias);
                self.schema(&mut alias.schema)
            }
            LogicalPlan::Projection(projection) => {
                self.plan(Arc::make_mut(&mut projection.input))?;
                self.exprs(&mut projection.expr)?;
                self.schema(&mut projection.schema)
            }
            LogicalPlan::Filter(filter) => {
                self.plan(Arc::make_mut(&mut filter.input))?;
                self.expr(&mut filter.predicate)
            }
            LogicalPlan::Aggregate(aggregate) => {
                self.plan(Arc::make_mut(&mut aggregate.input))?;
                self.exprs(&mut aggregate.group_expr)?;
                self.exprs(&mut aggregate.aggr_expr)?;
                self.schema(&mut aggregate.schema)
            }
            LogicalPlan::Extension(extension) => {
                let mut function = as_window_function(extension)?.clone();
                self.plan(&mut function.input)?;
                self.column(&mut function.time);
                function.keys.iter_mut().for_each(|key| self.column(key));
                self.schema(&mut function.schema)?;
                extension.node = Arc::new(function);
                Ok(())
            }
            other => plan_err!("a table is not put into {}", other.display()),
        }
    }

    fn exprs(&self, exprs: &mut [Expr]) -> Result<()> {
        exprs.iter_mut().try_for_each(|expr| self.expr(expr))
    }

    fn expr(&self, expr: &mut Expr) -> Result<()> {
        let put_in = std::mem::take(expr).transform_up(|mut part| {
            match &mut part {
                Expr::Column(column) => self.column(column),
                Expr::Alias(alias) => {
                    self.text(&mut alias.name);
                    alias.relation.iter_mut().for_each(|relation| self.reference(relation));
                }
                _ => return Ok(Transformed::no(part)),
            }
            Ok(Transformed::yes(part))
        })?;
        *expr = put_in.data;
        Ok(())
    }

    fn column(&self, column: &mut Column) {
        self.text(&mut column.name);
        column.relation.iter_mut().for_each(|relation| self.reference(relation));
    }

    fn schema(&self, schema: &mut DFSchemaRef) -> Result<()> {
        let mut relations: Vec<_> = schema.iter().map(|(relation, _)| relation.cloned()).collect();
        relations.iter_mut().flatten().for_each(|relation| self.reference(relation));
        let put_in = if schema.fields().iter().any(|field| field.name().contains(STAND_IN)) {
            let fields = schema.fields().iter().map(|field| {
                let mut name = field.name().clone();
                self.text(&mut name);
                Field::clone(field).with_name(name)
            });
            let fields = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
            DFSchema::from_field_specific_qualified_schema(relations, &Arc::new(fields))?
                .with_functional_dependencies(schema.functional_dependencies().clone())?
        } else {
            schema.with_field_specific_qualified_schema(relations)?
        };
        *schema = Arc::new(put_in);
        Ok(())
    }

    fn reference(&self, reference: &mut TableReference) {
        let (TableReference::Bare { table }
        | TableReference::Partial { table, .. }
        | TableReference::Full { table, .. }) = reference;
        if **table == *STAND_IN {
            *table = Arc::clone(&self.name);
        }
    }

    fn text(&self, text: &mut String) {
        if text.contains(STAND_IN) {
            *text = text.replace(STAND_IN, &self.name);
        }
    }
}

#[cfg(test)]
mod tests;
