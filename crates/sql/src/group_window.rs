//! Flink's older group windows, `GROUP BY k, TUMBLE(t, size)` with `TUMBLE_START(t, size)` and its like, as
//! windowing table functions, which are all that is planned.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Query, Select,
    SelectItem, SetExpr, Spanned, TableAlias, TableFactor, VisitMut, VisitorMut, visit_expressions_mut,
};
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::Span;

use crate::dialect::{FlinkDialect, PARTITIONED, call};
use crate::error::{Fault, SqlErrorKind};

/// Rewrites every SELECT below that groups by a window.
pub(crate) fn rewrite(query: &mut Query) -> Result<(), Box<Fault>> {
    match query.visit(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(fault) => Err(fault),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Box<Fault>;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Fault>> {
        match rewrite_select(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => ControlFlow::Break(fault),
        }
    }
}

/// A group window: `TUMBLE(time, lengths…)`.
struct GroupWindow {
    /// In lower case.
    name: String,
    time: Ident,
    /// As in the call, without the time.
    lengths: Vec<Expr>,
    span: Span,
}

impl GroupWindow {
    fn read(expr: &Expr) -> Result<Option<GroupWindow>, Box<Fault>> {
        let Expr::Function(function) = expr else { return Ok(None) };
        let name = function.name.to_string().to_lowercase();
        let (least, most) = match name.as_str() {
            // The last, an offset, may be left out.
            "tumble" => (2, 3),
            "hop" => (3, 4),
            "session" => (2, 2),
            _ => return Ok(None),
        };
        let span = function.name.span();
        let mut args = arguments(function).unwrap_or_default();
        let bad = |message: String| Err(Fault::new(SqlErrorKind::Invalid, span.start, message));
        if !(least..=most).contains(&args.len()) {
            let lengths = if name == "hop" { "slide and size" } else { "a length" };
            return bad(format!("{} in GROUP BY takes a time column, then {lengths}", name.to_uppercase()));
        }
        let lengths = args.split_off(1);
        match &args[0] {
            Expr::Identifier(time) => Ok(Some(GroupWindow { name, time: time.clone(), lengths, span })),
            Expr::CompoundIdentifier(parts) if parts.len() == 2 => {
                Ok(Some(GroupWindow { name, time: parts[1].clone(), lengths, span }))
            }
            other => bad(format!("a group window takes a time column, not {other}")),
        }
    }
}

fn rewrite_select(select: &mut Select) -> Result<(), Box<Fault>> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Ok(()) };
    let mut window = None;
    for (position, key) in keys.iter().enumerate() {
        if let Some(found) = GroupWindow::read(key)?
            && window.replace((position, found)).is_some()
        {
            return Err(Fault::unsupported(
                key.span(),
                "several group windows in one query are not supported",
            ));
        }
    }
    let Some((position, window)) = window else { return Ok(()) };
    let others: Vec<Expr> =
        keys.iter().enumerate().filter(|(other, _)| *other != position).map(|(_, key)| key.clone()).collect();
    if window.name == "session"
        && let Some(key) =
            others.iter().find(|key| !matches!(key, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
    {
        let message = "SESSION in GROUP BY is supported beside plain columns only";
        return Err(Fault::unsupported(key.span(), message).hint("compute the key in a subquery"));
    }
    window_the_input(select, &window, &others)?;

    // Before calls are replaced: what is not a column has no name of its own.
    for (position, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr @ Expr::Function(_)) = item {
            let alias = Ident::with_span(expr.span(), format!("EXPR${position}"));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    let mut uses_time = false;
    let mut replace = |expr: &mut Expr| {
        if let Some(column) = bound_of(expr, &window.name) {
            uses_time |= column == "window_time";
            *expr = Expr::Identifier(Ident::with_span(expr.span(), column));
        }
        ControlFlow::<()>::Continue(())
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = visit_expressions_mut(expr, &mut replace);
        }
    }
    if let Some(having) = &mut select.having {
        let _ = visit_expressions_mut(having, &mut replace);
    }
    let bounds = ["window_start", "window_end"].into_iter().chain(uses_time.then_some("window_time"));
    let bounds = bounds.map(|name| Expr::Identifier(Ident::with_span(window.span, name)));
    select.group_by = GroupByExpr::Expressions(others.into_iter().chain(bounds).collect(), vec![]);
    Ok(())
}

/// Puts the window's table function around what the SELECT reads, its WHERE included: rows that it drops must not
/// hold a session open.
fn window_the_input(select: &mut Select, window: &GroupWindow, keys: &[Expr]) -> Result<(), Box<Fault>> {
    let [table] = select.from.as_mut_slice() else {
        return Err(one_table(window));
    };
    if !table.joins.is_empty() {
        return Err(one_table(window));
    }
    let alias = match &table.relation {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    };
    let mut input = everything(window.span)?;
    let SetExpr::Select(inner) = input.body.as_mut() else {
        return Err(Fault::internal(window.span.start, "SELECT * is not a SELECT"));
    };
    inner.from[0].relation = table.relation.clone();
    inner.selection = select.selection.take();
    let span = &window.span;
    let mut data = Expr::Subquery(input);
    if window.name == "session" && !keys.is_empty() {
        let keys = keys.iter().map(|key| match key {
            Expr::CompoundIdentifier(parts) => parts.last().cloned().map_or(key.clone(), Expr::Identifier),
            other => other.clone(),
        });
        data = call(PARTITIONED, std::iter::once(data).chain(keys), span);
    }
    let time = call("DESCRIPTOR", [Expr::Identifier(window.time.clone())], span);
    let args = [data, time].into_iter().chain(window.lengths.iter().cloned());
    table.relation = TableFactor::TableFunction {
        expr: call(&window.name, args, span),
        alias: alias.map(|name| TableAlias { explicit: true, name, columns: vec![], at: None }),
    };
    Ok(())
}

fn one_table(window: &GroupWindow) -> Box<Fault> {
    let message = "a group window is supported over one table or subquery only";
    Fault::unsupported(window.span, message).hint("put the join in a subquery, or window its inputs")
}

/// `SELECT * FROM t`.
fn everything(span: Span) -> Result<Box<Query>, Box<Fault>> {
    Parser::new(&FlinkDialect)
        .try_with_sql("SELECT * FROM t")
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| Fault::internal(span.start, error))
}

/// The window's column that `TUMBLE_START(…)` and its like stand for.
fn bound_of(expr: &Expr, window: &str) -> Option<&'static str> {
    let Expr::Function(function) = expr else { return None };
    let name = function.name.to_string().to_lowercase();
    match name.strip_prefix(window)? {
        "_start" => Some("window_start"),
        "_end" => Some("window_end"),
        "_rowtime" | "_proctime" => Some("window_time"),
        _ => None,
    }
}

fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}
