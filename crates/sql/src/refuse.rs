//! The check before planning, while every expression still has its place in the file: what is not supported is named
//! there.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Distinct, Expr, Function, GroupByExpr, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, SetOperator, SetQuantifier, Spanned, TableAlias, TableFactor, TableVersion, Visit,
    Visitor,
};
use datafusion_sql::sqlparser::tokenizer::{Location, Span};
use laxity_text::closest;

use crate::aggregates;
use crate::approximate;
use crate::dialect::{ORDERED, PARTITIONED, TABLE};
use crate::error::{Fault, SqlErrorKind};
use crate::functions;
use crate::reserved::refuse_reserved;
use crate::rewrite;
use crate::slips;
use crate::unnest;
use crate::window_function::{self, WINDOW_FUNCTIONS};
use crate::written_out::{DEPTH_MAX, too_deep};

/// Refuses, at its place, what parses but is not done here, and functions that do not exist.
///
/// What depends on types or on whether an input is windowed is refused later, when operators are chosen.
pub(crate) fn refuse_unsupported(query: &Query) -> Result<(), Box<Fault>> {
    match query.visit(&mut Refuser::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(fault) => Err(fault),
    }
}

/// The same for an expression of CREATE TABLE.
pub(crate) fn refuse_unsupported_in(expr: &Expr) -> Result<(), Box<Fault>> {
    match expr.visit(&mut Refuser::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(fault) => Err(fault),
    }
}

#[derive(Default)]
struct Refuser {
    /// Expressions around the one that is looked at.
    depth: usize,
    /// A unit of time, which stands where a column might, comes next.
    unit_is_next: bool,
}

impl Visitor for Refuser {
    type Break = Box<Fault>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Box<Fault>> {
        flow(check_query(query))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Box<Fault>> {
        flow(check_select(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Box<Fault>> {
        flow(check_table_factor(factor))
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Box<Fault>> {
        let names = name.0.iter().filter_map(ObjectNamePart::as_ident);
        flow(slips::refuse_quoted_table(name).and_then(|()| names.into_iter().try_for_each(refuse_reserved)))
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<Box<Fault>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Box<Fault>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return flow(Err(too_deep(expr.span().start)));
        }
        match expr {
            Expr::Function(function) => {
                let name = function.name.to_string().to_ascii_uppercase();
                self.unit_is_next = matches!(name.as_str(), "TIMESTAMPADD" | "TIMESTAMPDIFF");
                flow(check_function(function))
            }
            Expr::Identifier(name) => {
                flow(if std::mem::take(&mut self.unit_is_next) { Ok(()) } else { refuse_reserved(name) })
            }
            Expr::Interval(interval) => flow(slips::refuse_bare_interval(interval)),
            Expr::CompoundIdentifier(parts) => flow(parts.iter().try_for_each(refuse_reserved)),
            Expr::MatchAgainst { .. } | Expr::Lambda(_) | Expr::Prior(_) => {
                flow(Err(Fault::unsupported(expr.span(), "this expression is not SQL of Flink")))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn flow(result: Result<(), Box<Fault>>) -> ControlFlow<Box<Fault>> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(fault) => ControlFlow::Break(fault),
    }
}

fn refuse(span: Span, message: &str, hint: &str) -> Result<(), Box<Fault>> {
    let fault = Fault::unsupported(span, message);
    Err(if hint.is_empty() { fault } else { fault.hint(hint) })
}

fn check_query(query: &Query) -> Result<(), Box<Fault>> {
    if let Some(with) = &query.with
        && with.recursive
    {
        return refuse(
            with.span(),
            "WITH RECURSIVE is not supported: a stream never reaches a fixed point",
            "",
        );
    }
    if let Some(order_by) = &query.order_by {
        return refuse(
            order_by.span(),
            "ORDER BY over an endless stream is not supported: the last row never comes",
            "a SELECT on its own over what ends may have one; for the first rows of each window write ROW_NUMBER() OVER (PARTITION BY window_start, window_end \
             ORDER BY …) and WHERE rownum <= n around it",
        );
    }
    if let Some(limit) = &query.limit_clause {
        return refuse(
            limit.span(),
            "LIMIT is not supported: which rows come first depends on timing",
            "a SELECT on its own over what ends may have one; bound the source instead, or take a windowed Top-N with \
             ROW_NUMBER()",
        );
    }
    if let Some(fetch) = &query.fetch {
        return refuse(
            fetch.span(),
            "FETCH FIRST is not supported: which rows come first depends on timing",
            "",
        );
    }
    if !query.pipe_operators.is_empty() || !query.locks.is_empty() || query.for_clause.is_some() {
        return refuse(query.body.span(), "this query has a clause that is not SQL of Flink", "");
    }
    for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
        check_alias(Some(&cte.alias))?;
    }
    check_body(&query.body)
}

/// Where a query is ordered or limited, if it is.
pub(crate) fn place_of_order(query: &Query) -> Option<Location> {
    let order = query.order_by.as_ref().map(Spanned::span);
    let limit = || query.limit_clause.as_ref().map(Spanned::span).or(query.fetch.as_ref().map(Spanned::span));
    Some(order.or_else(limit)?.start)
}

fn check_alias(alias: Option<&TableAlias>) -> Result<(), Box<Fault>> {
    let Some(alias) = alias else { return Ok(()) };
    refuse_reserved(&alias.name)?;
    alias.columns.iter().try_for_each(|column| refuse_reserved(&column.name))
}

fn check_body(body: &SetExpr) -> Result<(), Box<Fault>> {
    match body {
        SetExpr::SetOperation { op, set_quantifier, left, right } => {
            if !(*op == SetOperator::Union && *set_quantifier == SetQuantifier::All) {
                let hint = match op {
                    SetOperator::Union => "write UNION ALL, and remove duplicates inside a window",
                    _ => "write a window join, or EXISTS between windowed inputs",
                };
                let message = format!("{op} is not supported: it would have to remember every row for ever");
                return refuse(right.span(), &message, hint);
            }
            check_body(left)?;
            check_body(right)
        }
        SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => Ok(()),
        other => refuse(other.span(), "this is not a query", "write SELECT … FROM …"),
    }
}

fn check_select(select: &Select) -> Result<(), Box<Fault>> {
    match &select.group_by {
        GroupByExpr::All(_) => {
            return refuse(select.span(), "GROUP BY ALL is not supported", "name the columns");
        }
        GroupByExpr::Expressions(keys, modifiers) => {
            if let Some(modifier) = modifiers.first() {
                return refuse(
                    select.group_by.span(),
                    &format!("GROUP BY … {modifier} is not supported"),
                    "write one query per grouping",
                );
            }
            for key in keys {
                if let Expr::Function(function) = key
                    && WINDOW_FUNCTIONS.contains(&function.name.to_string().to_lowercase().as_str())
                {
                    // TUMBLE, HOP and SESSION have been rewritten.
                    return refuse(
                        key.span(),
                        "this window is not one that GROUP BY takes",
                        &format!("window with a table function: {}", window_function::EXAMPLE),
                    );
                }
                if matches!(key, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_)) {
                    return refuse(
                        key.span(),
                        "GROUPING SETS, CUBE and ROLLUP are not supported",
                        "write one query per grouping",
                    );
                }
            }
        }
    }
    if let Some(Distinct::On(columns)) = &select.distinct {
        let span = columns.first().map_or(select.span(), Spanned::span);
        return refuse(
            span,
            "DISTINCT ON is not SQL of Flink",
            "write ROW_NUMBER() OVER (…) and WHERE rownum = 1",
        );
    }
    if let Some(qualify) = &select.qualify {
        return refuse(
            qualify.span(),
            "QUALIFY is not supported",
            "put the condition in a WHERE around the query",
        );
    }
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAliases { expr, .. } => {
                return refuse(expr.span(), "several names for one expression are not supported", "");
            }
            SelectItem::ExprWithAlias { alias, .. } => refuse_reserved(alias)?,
            _ => {}
        }
    }
    let strange = select.top.is_some()
        || select.into.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.value_table_mode.is_some();
    if strange {
        return refuse(select.span(), "this SELECT has a clause that is not SQL of Flink", "");
    }
    for table in &select.from {
        for join in &table.joins {
            unnest::check_join(join)?;
            match &join.join_operator {
                JoinOperator::Join(_)
                | JoinOperator::Inner(_)
                | JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
                | JoinOperator::Right(_)
                | JoinOperator::RightOuter(_)
                | JoinOperator::FullOuter(_)
                | JoinOperator::CrossJoin(_) => {}
                _ => return refuse(join.span(), "this kind of join is not SQL of Flink", ""),
            }
        }
    }
    Ok(())
}

fn check_table_factor(factor: &TableFactor) -> Result<(), Box<Fault>> {
    let span = factor.span();
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => check_alias(alias.as_ref())?,
        _ => {}
    }
    match factor {
        TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(_)), args: None, .. } => Ok(()),
        TableFactor::Table { version: Some(_), .. } => {
            refuse(span, "this version of a table is not SQL of Flink", "write FOR SYSTEM_TIME AS OF s.p")
        }
        TableFactor::Table { sample: Some(_), .. } => refuse(span, "TABLESAMPLE is not supported", ""),
        TableFactor::Table { name, args: Some(_), .. } => window_function::check_name(name),
        TableFactor::Table { .. } | TableFactor::NestedJoin { .. } => Ok(()),
        TableFactor::Derived { lateral: true, subquery, .. } => unnest::check_lateral(subquery, span),
        TableFactor::Derived { .. } => Ok(()),
        TableFactor::TableFunction { expr, .. } => match expr {
            Expr::Function(function) => window_function::check_name(&function.name),
            other => refuse(
                other.span(),
                "TABLE(…) takes a windowing table function",
                "write TABLE(TUMBLE(TABLE t, DESCRIPTOR(c), INTERVAL '1' MINUTE))",
            ),
        },
        TableFactor::UNNEST { .. } => Ok(()),
        TableFactor::MatchRecognize { .. } => refuse(span, "MATCH_RECOGNIZE is not supported", ""),
        _ => refuse(span, "this kind of table is not supported", "read a table, a view, a query or a window"),
    }
}

fn check_function(function: &Function) -> Result<(), Box<Fault>> {
    let span = function.name.span();
    let name = function.name.to_string().trim_matches('`').to_lowercase();
    slips::refuse_arguments(function, &name)?;
    if function.over.is_some() && name != "row_number" && !aggregates::NAMES.contains(&name.as_str()) {
        return refuse(
            span,
            &format!("{} OVER is not supported", name.to_uppercase()),
            "aggregates are, such as SUM(x) OVER (PARTITION BY k ORDER BY t ROWS BETWEEN 3 PRECEDING AND CURRENT ROW), \
             and ROW_NUMBER() OVER (…) with WHERE rownum <= n around it",
        );
    }
    if name == "source_watermark" {
        return refuse(
            span,
            "SOURCE_WATERMARK() needs a connector that finds the watermark by itself; 'filesystem', 'datagen' and \
             'nexmark' find none, here as in Flink",
            "write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
        );
    }
    if name == "row_number" && function.over.is_none() {
        return Err(Fault::new(SqlErrorKind::Invalid, span.start, "ROW_NUMBER() needs an OVER clause"));
    }
    if WINDOW_FUNCTIONS.contains(&name.as_str()) {
        // As a table the function never gets here: its arguments are visited without it.
        return Ok(());
    }
    for (prefix, column) in [
        ("_start", "window_start"),
        ("_end", "window_end"),
        ("_rowtime", "window_time"),
        ("_proctime", "window_time"),
    ] {
        if let Some(window) = name.strip_suffix(prefix)
            && ["tumble", "hop", "session", "cumulate"].contains(&window)
        {
            return refuse(
                span,
                &format!(
                    "{} needs a GROUP BY {}(…) in its query",
                    name.to_uppercase(),
                    window.to_uppercase()
                ),
                &format!("window with a table function and select {column}: {}", window_function::EXAMPLE),
            );
        }
    }
    let known = [
        TABLE,
        PARTITIONED,
        ORDERED,
        functions::MAP,
        functions::JSON_OBJECT,
        functions::JSON_ARRAY,
        "descriptor",
        "row_number",
    ]
    .contains(&name.as_str())
        || functions::is_public(&name)
        || rewrite::NAMES.contains(&name.as_str())
        || approximate::NAMES.contains(&name.as_str())
        || aggregates::NAMES.contains(&name.as_str());
    if known {
        return Ok(());
    }
    let fault = Fault::new(
        SqlErrorKind::UnknownFunction,
        span.start,
        format!("unknown function '{}'", function.name),
    );
    let names: Vec<&str> = functions::public_names()
        .chain(rewrite::NAMES.iter().copied())
        .chain(approximate::NAMES.iter().copied())
        .chain(aggregates::NAMES.iter().copied())
        .collect();
    Err(match closest(&name, names) {
        Some(near) => fault.hint(format!("did you mean {}?", near.to_uppercase())),
        None => fault.hint("docs/sql.md lists the functions; there are no user-defined ones"),
    })
}
