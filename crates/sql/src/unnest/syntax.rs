//! UNNEST and LATERAL before planning: one form for all spellings, and a place for whatever is refused.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, GroupByExpr, Join, JoinConstraint, JoinOperator, ObjectName, Query,
    SetExpr, Spanned, TableAlias, TableFactor, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use datafusion_sql::sqlparser::tokenizer::Span;

use crate::error::{Fault, SqlErrorKind};

/// Brings UNNEST, which the parser takes for a table function, into the form that is planned. LATERAL says nothing
/// before UNNEST and TABLE.
pub(crate) fn rewrite(query: &mut Query) -> Result<(), Box<Fault>> {
    match query.visit(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(fault) => Err(fault),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Box<Fault>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Fault>> {
        let rewritten = match &*factor {
            TableFactor::Table { name, args: Some(args), with_ordinality, alias, .. }
                if is(name, "UNNEST") =>
            {
                unnest(name, &args.args, *with_ordinality, alias)
            }
            TableFactor::Function { lateral: true, name, args, with_ordinality, alias }
                if is(name, "UNNEST") =>
            {
                unnest(name, args, *with_ordinality, alias)
            }
            TableFactor::Function { lateral: true, name, args, alias, .. } if is(name, "TABLE") => {
                let Some(expr) = only(args) else { return ControlFlow::Continue(()) };
                Ok(TableFactor::TableFunction { expr, alias: alias.clone() })
            }
            _ => return ControlFlow::Continue(()),
        };
        match rewritten {
            Ok(rewritten) => {
                *factor = rewritten;
                ControlFlow::Continue(())
            }
            Err(fault) => ControlFlow::Break(fault),
        }
    }
}

fn is(name: &ObjectName, word: &str) -> bool {
    name.to_string().eq_ignore_ascii_case(word)
}

fn only(args: &[FunctionArg]) -> Option<Expr> {
    match args {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => Some(expr.clone()),
        _ => None,
    }
}

fn unnest(
    name: &ObjectName,
    args: &[FunctionArg],
    with_ordinality: bool,
    alias: &Option<TableAlias>,
) -> Result<TableFactor, Box<Fault>> {
    let Some(collection) = only(args) else {
        let message = "UNNEST takes one ARRAY or MAP";
        return Err(Fault::new(SqlErrorKind::Invalid, name.span().start, message));
    };
    Ok(TableFactor::UNNEST {
        alias: alias.clone(),
        array_exprs: vec![collection],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    })
}

/// Refuses joins with UNNEST and LATERAL that are no streams of rows.
pub(crate) fn check_join(join: &Join) -> Result<(), Box<Fault>> {
    let (is_unnest, with_ordinality) = match &join.relation {
        TableFactor::UNNEST { with_ordinality, .. } => (true, *with_ordinality),
        TableFactor::Derived { lateral: true, .. } => (false, false),
        _ => return Ok(()),
    };
    let refuse = |message: &str, hint: &str| Err(Fault::unsupported(join.span(), message).hint(hint));
    match &join.join_operator {
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) if !is_unnest => refuse(
            "LEFT JOIN LATERAL is not supported",
            "write LEFT JOIN UNNEST(…) AS t (x) ON TRUE, and compute with x in the SELECT",
        ),
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) if with_ordinality => refuse(
            "WITH ORDINALITY is for CROSS JOIN, not for LEFT JOIN, as in Flink",
            "write CROSS JOIN UNNEST(…) WITH ORDINALITY AS t (x, place)",
        ),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => match constraint {
            JoinConstraint::On(Expr::Value(ValueWithSpan { value: Value::Boolean(true), .. })) => Ok(()),
            _ => refuse(
                "LEFT JOIN UNNEST takes no condition but ON TRUE",
                "write LEFT JOIN UNNEST(…) AS t (x) ON TRUE",
            ),
        },
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_) => refuse(
            "what stands beside each row can be joined by CROSS JOIN, JOIN and LEFT JOIN alone",
            "write CROSS JOIN UNNEST(…) AS t (x)",
        ),
        _ => Ok(()),
    }
}

/// Refuses a LATERAL query that is more than a projection of the elements of one UNNEST, or a part of them.
pub(crate) fn check_lateral(query: &Query, span: Span) -> Result<(), Box<Fault>> {
    let is_plain = match query.body.as_ref() {
        SetExpr::Select(select) => {
            let groups = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
            let from_unnest = matches!(
                select.from.as_slice(),
                [table] if table.joins.is_empty() && matches!(table.relation, TableFactor::UNNEST { .. })
            );
            from_unnest && !groups && select.having.is_none() && select.distinct.is_none()
        }
        _ => false,
    };
    if is_plain && query.with.is_none() {
        return Ok(());
    }
    Err(Fault::unsupported(span, "LATERAL is supported over the elements of one UNNEST, and nothing else").hint(
        "write LATERAL (SELECT x + 1 AS y FROM UNNEST(a) AS t (x) WHERE x > 0), or join two windowed inputs",
    ))
}
