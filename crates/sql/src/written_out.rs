//! How large a query is once views and WITH are written out where they are read, found before it is planned.
//!
//! Planner and optimiser put a view's plan wherever its name stands, and a column's expression wherever the column is
//! read below a filter: a few lines of text may stand for more than a machine can hold. The first half measures
//! relations on the syntax tree, the second expressions on the plan; both take time in proportion to the text.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion_common::DFSchema;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};
use datafusion_sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, Spanned,
    TableFactor, Visit, Visitor,
};
use datafusion_sql::sqlparser::tokenizer::{Location, Span};

use crate::catalog::{CatalogAt, Relation};
use crate::dialect::TABLE;
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::parse::last_part;

/// Expressions of a statement, views and WITH written out: as many as a statement may have words.
const TERMS_MAX: u64 = 20_000;

/// Queries and reads of tables of a statement, views and WITH written out. Two hundred UNION ALLs come to less than half.
const RELATIONS_MAX: u64 = 500;

/// Views and queries of WITH one inside the other.
const NESTED_MAX: u32 = 100;

/// Operators one inside the other: `a + b + …` of n operators is a tree n deep, which planner, optimiser and workers
/// walk by recursion.
pub(crate) const DEPTH_MAX: usize = 500;

/// The same with the casts that the planner puts between them, and through views.
const PLANNED_DEPTH_MAX: u64 = 1_000;

/// What a relation comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WrittenOut {
    pub terms: u64,
    pub relations: u64,
    pub nested: u32,
}

impl WrittenOut {
    /// Of a query.
    ///
    /// # Errors
    /// At the name with which it becomes too large.
    pub fn of(query: &Query, catalog: CatalogAt) -> Result<WrittenOut, Box<Fault>> {
        let mut measure = Measure { catalog, scopes: Vec::new(), whole: WrittenOut::default() };
        match query.visit(&mut measure) {
            ControlFlow::Continue(()) => Ok(measure.whole),
            ControlFlow::Break(fault) => Err(fault),
        }
    }

    fn add(&mut self, part: WrittenOut, span: Span) -> Result<(), Box<Fault>> {
        self.terms += part.terms;
        self.relations += part.relations;
        self.nested = self.nested.max(part.nested);
        let refuse = |message: String| {
            let hint = "write results of a part to a table and read them in a query of their own";
            Err(Fault::unsupported(span, message).hint(hint))
        };
        let bounds =
            [(self.terms, TERMS_MAX, "expressions"), (self.relations, RELATIONS_MAX, "queries and tables")];
        for (has, most, what) in bounds {
            if has > most {
                let written_out = "with its views and WITH written out this query has more than";
                return refuse(format!("{written_out} {most} {what}"));
            }
        }
        // What reads it is one more.
        if self.nested >= NESTED_MAX {
            return refuse(format!(
                "more than {NESTED_MAX} views and WITH one inside the other are not supported"
            ));
        }
        Ok(())
    }
}

struct Measure<'a> {
    catalog: CatalogAt<'a>,
    /// Queries around the place that is being looked at, the innermost last.
    scopes: Vec<Scope>,
    whole: WrittenOut,
}

/// A query on the way through it.
struct Scope {
    /// Names of its WITH whose queries have not been seen yet, the next one last.
    due: Vec<Ident>,
    known: BTreeMap<String, WrittenOut>,
    own: WrittenOut,
}

impl Measure<'_> {
    fn relation(&mut self, name: &ObjectName) -> Result<(), Box<Fault>> {
        // A name that is none is refused by the planner.
        let Ok(name) = last_part(name) else { return Ok(()) };
        let part = self.look_up(&name.value);
        match self.scopes.last_mut() {
            Some(scope) => scope.own.add(part, name.span),
            None => Ok(()),
        }
    }

    fn look_up(&self, name: &str) -> WrittenOut {
        let known = self.scopes.iter().rev().find_map(|scope| scope.known.get(name));
        match (known, self.catalog.get(name)) {
            (Some(known), _) => *known,
            (None, Some(Relation::View(_, written_out))) => *written_out,
            (None, _) => WrittenOut { relations: 1, ..WrittenOut::default() },
        }
    }

    fn expr(&mut self, expr: &SqlExpr) -> Result<(), Box<Fault>> {
        // `TABLE v` as an argument.
        if let SqlExpr::Function(function) = expr
            && function.name.to_string() == TABLE
        {
            return self.arguments(&function.args);
        }
        match self.scopes.last_mut() {
            // The place is looked for only where it is wanted: it takes as long as the expression is.
            Some(scope) if scope.own.terms >= TERMS_MAX => {
                scope.own.add(WrittenOut { terms: 1, ..WrittenOut::default() }, expr.span())
            }
            Some(scope) => {
                scope.own.terms += 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Names that stand where a table is expected.
    fn arguments(&mut self, arguments: &FunctionArguments) -> Result<(), Box<Fault>> {
        let FunctionArguments::List(list) = arguments else { return Ok(()) };
        list.args.iter().try_for_each(|argument| self.argument(argument))
    }

    fn argument(&mut self, argument: &FunctionArg) -> Result<(), Box<Fault>> {
        let (FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
        | FunctionArg::Named { arg: FunctionArgExpr::Expr(expr), .. }
        | FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(expr), .. }) = argument
        else {
            return Ok(());
        };
        match expr {
            SqlExpr::Identifier(name) => self.relation(&ObjectName::from(vec![name.clone()])),
            SqlExpr::CompoundIdentifier(parts) => self.relation(&ObjectName::from(parts.clone())),
            _ => Ok(()),
        }
    }

    fn leave(&mut self) -> Result<(), Box<Fault>> {
        let Some(scope) = self.scopes.pop() else { return Ok(()) };
        let Some(around) = self.scopes.last_mut() else {
            self.whole = WrittenOut { nested: scope.own.nested + 1, ..scope.own };
            return Ok(());
        };
        // A WITH is looked at before what follows it, its queries in order.
        match around.due.pop() {
            Some(name) => {
                let mut inside = WrittenOut::default();
                inside.add(WrittenOut { nested: scope.own.nested + 1, ..scope.own }, name.span)?;
                around.known.insert(name.value, inside);
                Ok(())
            }
            None => around.own.add(scope.own, Span::empty()),
        }
    }
}

impl Visitor for Measure<'_> {
    type Break = Box<Fault>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Box<Fault>> {
        let names = query.with.iter().flat_map(|with| with.cte_tables.iter().rev());
        let due = names.map(|cte| cte.alias.name.clone()).collect();
        let own = WrittenOut { relations: 1, ..WrittenOut::default() };
        self.scopes.push(Scope { due, known: BTreeMap::new(), own });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Box<Fault>> {
        flow(self.leave())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Box<Fault>> {
        flow(self.relation(name))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Box<Fault>> {
        flow(match factor {
            TableFactor::TableFunction { expr: SqlExpr::Function(function), .. } => {
                self.arguments(&function.args)
            }
            TableFactor::Table { args: Some(list), .. } => {
                list.args.iter().try_for_each(|argument| self.argument(argument))
            }
            _ => Ok(()),
        })
    }

    fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<Box<Fault>> {
        flow(self.expr(expr))
    }
}

fn flow(result: Result<(), Box<Fault>>) -> ControlFlow<Box<Fault>> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(fault) => ControlFlow::Break(fault),
    }
}

/// An expression with its columns written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    terms: u64,
    depth: u64,
}

const LEAF: Extent = Extent { terms: 1, depth: 1 };

/// Refuses a plan with an expression that is too large once the columns in it are written out: where a filter is pushed
/// below projections, or projections are made one. Its message has no place.
pub(crate) fn refuse_large_expressions(plan: &LogicalPlan) -> Result<(), Box<Fault>> {
    columns(plan).map(|_| ())
}

/// The extents of a plan's columns.
fn columns(plan: &LogicalPlan) -> Result<Vec<Extent>, Box<Fault>> {
    let mut given = Vec::new();
    let mut schema = DFSchema::empty();
    for input in plan.inputs() {
        let columns = columns(input)?;
        match plan {
            LogicalPlan::Union(_) if !given.is_empty() => {
                for (all, one) in given.iter_mut().zip(columns) {
                    *all = larger(*all, one);
                }
            }
            _ => given.extend(columns),
        }
        schema.merge(input.schema());
    }
    let width = plan.schema().fields().len();
    let exprs = plan.expressions();
    let extents = exprs.iter().map(|expr| extent(expr, &schema, &given));
    let extents = extents.collect::<Result<Vec<_>, _>>()?;
    let mut columns = match plan {
        LogicalPlan::Projection(_) => extents,
        // What is computed over rows is not put anywhere else.
        LogicalPlan::Aggregate(aggregate) => extents[..aggregate.group_expr.len()].to_vec(),
        _ => given,
    };
    columns.resize(width, LEAF);
    Ok(columns)
}

fn larger(a: Extent, b: Extent) -> Extent {
    Extent { terms: a.terms.max(b.terms), depth: a.depth.max(b.depth) }
}

fn extent(expr: &Expr, schema: &DFSchema, given: &[Extent]) -> Result<Extent, Box<Fault>> {
    let mut sum = LEAF;
    let mut failed = None;
    // The closure fails by `failed` alone.
    let _ = expr.apply_children(|child| match extent(child, schema, given) {
        Ok(part) => {
            sum.terms = sum.terms.saturating_add(part.terms);
            sum.depth = sum.depth.max(part.depth + 1);
            Ok(TreeNodeRecursion::Continue)
        }
        Err(fault) => {
            failed = Some(fault);
            Ok(TreeNodeRecursion::Stop)
        }
    });
    if let Some(fault) = failed {
        return Err(fault);
    }
    if let Expr::Column(column) = expr {
        let index = schema.maybe_index_of_column(column);
        sum = index.and_then(|index| given.get(index)).copied().unwrap_or(LEAF);
    }
    if sum.depth > PLANNED_DEPTH_MAX {
        return Err(too_deep(NOWHERE));
    }
    if sum.terms > TERMS_MAX {
        let message = format!(
            "with the columns of views written out an expression here has more than {TERMS_MAX} terms"
        );
        return Err(Fault::new(SqlErrorKind::Unsupported, NOWHERE, message)
            .hint("compute it in a query of its own, whose results a table keeps"));
    }
    Ok(sum)
}

/// The fault of an expression whose operators stand more than [`DEPTH_MAX`] one inside the other.
pub(crate) fn too_deep(at: Location) -> Box<Fault> {
    let message =
        format!("expressions of more than {DEPTH_MAX} operators one inside the other are not supported");
    Fault::new(SqlErrorKind::Unsupported, at, message)
        .hint("use IN (…) for alternatives, or split the statement with views")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use crate::compile::{SqlFile, compile};
    use crate::error::SqlErrorKind;

    const TABLE: &str = "CREATE TABLE t (a INT, b BOOLEAN, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
                         WITH ('connector' = 'datagen');\n";

    /// Views `v1` to `vn`, each of the text with `{}` for the one before it. The first reads the table.
    fn views(count: usize, text: &str) -> String {
        let mut sql = TABLE.to_string();
        for number in 1..=count {
            let before = if number == 1 { "t".into() } else { format!("v{}", number - 1) };
            let _ = writeln!(sql, "CREATE VIEW v{number} AS {};", text.replace("{}", &before));
        }
        sql
    }

    fn outcome(sql: String) -> Result<usize, String> {
        let compiled = compile(&[SqlFile { path: "q.sql".into(), text: sql }]);
        compiled.map(|script| script.queries.len()).map_err(|error| {
            assert_eq!(error.kind, SqlErrorKind::Unsupported, "{error}");
            error.to_string()
        })
    }

    #[test]
    fn views_that_double_are_refused_at_the_one_that_is_too_many() {
        let doubling = |count| views(count, "SELECT * FROM {} UNION ALL SELECT * FROM {}");
        assert_eq!(outcome(doubling(6) + "SELECT a FROM v6;"), Ok(1));
        let refused = outcome(doubling(24)).unwrap_err();
        // v7 is 128 reads of the table in 127 queries, and v8 reads it twice.
        assert!(refused.starts_with("q.sql:9:60: ") && refused.contains("written out"), "{refused}");
        // The same in one statement, inside a window, and in a subquery.
        let mut with = "SELECT * FROM t".to_string();
        for number in 1..24 {
            let before = number - 1;
            let names = format!("c{before} AS ({with}), c{number} AS (");
            with = format!(
                "WITH {names} SELECT * FROM c{before} UNION ALL SELECT * FROM c{before}) SELECT * FROM c{number}"
            );
        }
        assert!(outcome(format!("{TABLE}{with};")).is_err());
        let window = "SELECT a, b, window_time AS ts FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))";
        let windows = views(24, &format!("{window} UNION ALL {window}"));
        assert!(outcome(windows).unwrap_err().contains("written out"));
        let exists = "SELECT * FROM {} WHERE a IN (SELECT a FROM {})";
        assert!(outcome(views(24, exists)).unwrap_err().contains("written out"));
    }

    #[test]
    fn views_and_with_one_inside_the_other_are_bounded() {
        let chained = |count| views(count, "SELECT * FROM {}");
        assert_eq!(outcome(chained(90) + "SELECT a FROM v90;"), Ok(1));
        let refused = outcome(chained(2_000)).unwrap_err();
        assert!(refused.starts_with("q.sql:102:35: more than 100 views"), "{refused}");
        let mut with = "WITH c0 AS (SELECT * FROM t)".to_string();
        for number in 1..1_500 {
            let _ = write!(with, ", c{number} AS (SELECT * FROM c{})", number - 1);
        }
        let refused = outcome(format!("{TABLE}{with} SELECT * FROM c1499;")).unwrap_err();
        assert!(refused.contains("more than 100 views and WITH"), "{refused}");
    }

    #[test]
    fn expressions_are_measured_through_views() {
        // A filter is pushed down through every view: 2^24 terms.
        let doubling = views(24, "SELECT a + a AS a, b, ts FROM {}") + "SELECT a FROM v24 WHERE a > 1;";
        assert!(outcome(doubling).unwrap_err().contains("columns of views written out"));
        let sums = format!("SELECT a{} AS a, b, ts FROM {{}}", " + 1".repeat(400));
        assert_eq!(outcome(views(1, &sums) + "SELECT a FROM v1 WHERE a > 1;"), Ok(1));
        assert!(
            outcome(views(9, &sums) + "SELECT a FROM v9 WHERE a > 1;").unwrap_err().contains("500 operators")
        );
    }

    #[test]
    fn chains_are_refused_whatever_they_are_made_of() {
        for chain in [
            format!("b{}", " = b".repeat(3_000)),
            format!("a{} > 1", " + COALESCE(a, 1)".repeat(1_200)),
            format!("b{}", " IS NOT DISTINCT FROM b".repeat(800)),
            format!("'x'{} = ''", " || 'x'".repeat(3_000)),
            format!("a IN (1, 2) {}", "AND a IN (1, 2) ".repeat(700)),
        ] {
            let refused = outcome(format!("{TABLE}SELECT a FROM t WHERE {chain};")).unwrap_err();
            assert!(refused.starts_with("q.sql:2:"), "{refused}");
            assert!(refused.contains("500 operators") || refused.contains("nested this deep"), "{refused}");
        }
        let view = format!("{TABLE}CREATE VIEW v AS SELECT a FROM t WHERE b{};", " = b".repeat(3_000));
        assert!(outcome(view).is_err());
    }
}
