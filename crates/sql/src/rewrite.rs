use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CeilFloorKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, Query, Select, SelectItem, Spanned, Value, ValueWithSpan, VisitMut,
    VisitorMut,
};
use datafusion_sql::sqlparser::tokenizer::Span;

use crate::dialect::call;
use crate::error::{Fault, SqlErrorKind};

/// Functions of Flink that become other expressions here, in lower case.
pub(crate) const NAMES: &[&str] = &[
    "if",
    "ifnull",
    "mod",
    "concat",
    "greatest",
    "least",
    "log",
    "sign",
    "ceiling",
    "truncate",
    "rand",
    "year",
    "quarter",
    "month",
    "week",
    "dayofyear",
    "dayofmonth",
    "dayofweek",
    "hour",
    "minute",
    "second",
    "substr",
    "substring",
    "regexp",
    "regexp_replace",
    "locate",
    "instr",
    "current_timestamp",
    "now",
    "localtimestamp",
    "current_date",
    "current_row_timestamp",
    "current_time",
    "localtime",
    "proctime",
    "unix_timestamp",
    "uuid",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "to_base64",
    "from_base64",
    "e",
    "row",
    "is_alpha",
    "is_digit",
];

/// Brings Flink's functions into the words of the planner: same meaning, other spelling.
pub(crate) fn rewrite_query(query: &mut Query) -> Result<(), Box<Fault>> {
    finish(query.visit(&mut Rewriter))
}

/// The same for an expression of CREATE TABLE.
pub(crate) fn rewrite_expr(expr: &mut Expr) -> Result<(), Box<Fault>> {
    finish(expr.visit(&mut Rewriter))
}

fn finish(flow: ControlFlow<Box<Fault>>) -> Result<(), Box<Fault>> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(fault) => Err(fault),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Box<Fault>;

    /// `SELECT v, v` names the second column v0, as Flink does; the planner wants names to differ.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Fault>> {
        let mut seen: Vec<String> = Vec::new();
        for item in &mut select.projection {
            let (expr, name) = match &*item {
                SelectItem::UnnamedExpr(expr) => (expr.clone(), name_of(expr)),
                SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), alias.value.clone()),
                _ => continue,
            };
            let mut unique = name.clone();
            let mut digit = 0;
            while seen.contains(&unique) {
                unique = format!("{name}{digit}");
                digit += 1;
            }
            if unique != name {
                let alias = Ident::with_span(expr.span(), unique.clone());
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            seen.push(unique);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Fault>> {
        match rewritten(expr) {
            Ok(Some(new)) => {
                *expr = new;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(fault) => ControlFlow::Break(fault),
        }
    }
}

/// What a column of a SELECT without AS is called; for anything but a column, its text.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(parts) => parts.last().map_or(String::new(), |name| name.value.clone()),
        other => other.to_string(),
    }
}

fn rewritten(expr: &Expr) -> Result<Option<Expr>, Box<Fault>> {
    let span = expr.span();
    Ok(match expr {
        Expr::Extract { field, expr, .. } => {
            Some(call("flink_time_part", [text(unit(field, span)?), (**expr).clone()], &span))
        }
        Expr::Floor { expr, field } => rounded("flink_time_floor", expr, field, span)?,
        Expr::Ceil { expr, field } => rounded("flink_time_ceil", expr, field, span)?,
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let from = substring_from.as_deref().cloned().unwrap_or_else(|| number("1"));
            let args = [(**expr).clone(), from].into_iter().chain(substring_for.as_deref().cloned());
            Some(call("flink_substring", args, &span))
        }
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => number_of_flink(expr, digits),
        Expr::Function(function) => rewritten_function(function)?,
        _ => None,
    })
}

fn rounded(name: &str, expr: &Expr, field: &CeilFloorKind, span: Span) -> Result<Option<Expr>, Box<Fault>> {
    match field {
        CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => Ok(None),
        CeilFloorKind::DateTimeField(field) => {
            Ok(Some(call(name, [text(unit(field, span)?), expr.clone()], &span)))
        }
        CeilFloorKind::Scale(_) => {
            Err(Fault::unsupported(span, "FLOOR and CEIL take no scale").hint("use ROUND(x, n)"))
        }
    }
}

fn rewritten_function(function: &Function) -> Result<Option<Expr>, Box<Fault>> {
    if function.over.is_some() {
        return Ok(None);
    }
    let span = function.name.span();
    let name = function.name.to_string().to_lowercase();
    let Some(mut args) = plain_arguments(function) else { return Ok(None) };
    if !TYPED_BY_ARGUMENTS.contains(&name.as_str()) {
        args.iter_mut().for_each(restore_literal);
    }
    let count = args.len();
    let arity = |least: usize, most: usize| {
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(Fault::new(
            SqlErrorKind::Invalid,
            span.start,
            format!("{} takes {expected} arguments, not {count}", name.to_uppercase()),
        ))
    };
    let renamed = |to: &str| Ok(Some(call(to, args.iter().cloned(), &span)));
    let part = |unit: &str| {
        arity(1, 1)?;
        Ok(Some(call("flink_time_part", [text(unit), args[0].clone()], &span)))
    };
    match name.as_str() {
        "if" => {
            arity(3, 3)?;
            Ok(Some(case(args[0].clone(), args[1].clone(), Some(args[2].clone()))))
        }
        "ifnull" => {
            arity(2, 2)?;
            renamed("coalesce")
        }
        "mod" => {
            arity(2, 2)?;
            Ok(Some(nested(binary(args[0].clone(), BinaryOperator::Modulo, args[1].clone()))))
        }
        "concat" => {
            arity(1, usize::MAX)?;
            let joined = args
                .into_iter()
                .map(nested)
                .reduce(|left, right| binary(left, BinaryOperator::StringConcat, right));
            Ok(joined.map(nested))
        }
        "greatest" | "least" => {
            arity(1, usize::MAX)?;
            // Flink: NULL if any argument is; DataFusion skips NULLs.
            let any_null = args
                .iter()
                .map(|arg| Expr::IsNull(Box::new(nested(arg.clone()))))
                .reduce(|left, right| binary(left, BinaryOperator::Or, right));
            let value = call(&name, args.iter().cloned(), &span);
            Ok(any_null.map(|any| case(any, Expr::Value(Value::Null.with_empty_span()), Some(value))))
        }
        "log" if count == 1 => renamed("ln"),
        "sign" => renamed("signum"),
        "ceiling" => renamed("ceil"),
        "truncate" => renamed("trunc"),
        "rand" if count == 0 => renamed("random"),
        "year" => part("YEAR"),
        "quarter" => part("QUARTER"),
        "month" => part("MONTH"),
        "week" => part("WEEK"),
        "dayofyear" => part("DOY"),
        "dayofmonth" => part("DAY"),
        "dayofweek" => part("DOW"),
        "hour" => part("HOUR"),
        "minute" => part("MINUTE"),
        "second" => part("SECOND"),
        "substr" | "substring" => renamed("flink_substring"),
        "regexp" => renamed("flink_regexp"),
        "regexp_replace" => renamed("flink_regexp_replace"),
        "is_alpha" => {
            arity(1, 1)?;
            Ok(Some(call("flink_regexp", [args[0].clone(), text(r"^\p{Alphabetic}+$")], &span)))
        }
        "is_digit" => {
            arity(1, 1)?;
            Ok(Some(call("flink_regexp", [args[0].clone(), text(r"^\d+$")], &span)))
        }
        "locate" => {
            arity(2, 2)?;
            Ok(Some(call("strpos", [args[1].clone(), args[0].clone()], &span)))
        }
        "instr" => {
            arity(2, 2)?;
            renamed("strpos")
        }
        "uuid" => renamed("flink_uuid"),
        "row" => renamed("struct"),
        "sha1" => Err(Fault::unsupported(span, "SHA1 is not supported").hint("use SHA256")),
        "sha224" | "sha256" | "sha384" | "sha512" => {
            arity(1, 1)?;
            // DataFusion's digests are bytes; Flink's are hexadecimal text.
            Ok(Some(call("encode", [call(&name, args, &span), text("hex")], &span)))
        }
        "to_base64" => Ok(Some(call("encode", args.into_iter().chain([text("base64")]), &span))),
        "from_base64" => Ok(Some(call("decode", args.into_iter().chain([text("base64")]), &span))),
        "e" if count == 0 => Ok(Some(call("exp", [number("1")], &span))),
        "current_timestamp" | "now" | "current_row_timestamp" => Ok(Some(call("flink_now", [], &span))),
        "localtimestamp" => Ok(Some(cast(call("flink_now", [], &span), "TIMESTAMP(3)"))),
        "current_date" => Ok(Some(cast(call("flink_now", [], &span), "DATE"))),
        "current_time" | "localtime" => {
            Ok(Some(cast(cast(call("flink_now", [], &span), "TIMESTAMP(3)"), "TIME")))
        }
        "unix_timestamp" if count == 0 => {
            Ok(Some(call("flink_time_part", [text("EPOCH"), call("flink_now", [], &span)], &span)))
        }
        "unix_timestamp" => renamed("flink_unix_timestamp"),
        "proctime" => {
            Err(Fault::unsupported(span, "PROCTIME() is a column of a table, not part of an expression")
                .hint("declare `p AS PROCTIME()` in CREATE TABLE and use p, or use CURRENT_TIMESTAMP"))
        }
        "timestampadd" | "timestampdiff" => {
            arity(3, 3)?;
            let unit = match &args[0] {
                Expr::Identifier(ident) => unit_named(&ident.value),
                Expr::Value(_) => return Ok(None),
                _ => None,
            };
            let unit = unit.ok_or_else(|| unknown_unit(&args[0].to_string(), span))?;
            let args = [text(unit), args[1].clone(), args[2].clone()];
            Ok(Some(call(&name, args, &span)))
        }
        _ => {
            let mut lower = with_arguments(function, args);
            lower.name = ObjectName::from(vec![Ident::with_span(span, name.trim_matches('`'))]);
            Ok(Some(Expr::Function(lower)))
        }
    }
}

/// Functions whose type is that of their arguments, so that it matters which type a literal has.
const TYPED_BY_ARGUMENTS: &[&str] = &[
    "if", "ifnull", "coalesce", "nullif", "greatest", "least", "mod", "row", "sum", "avg", "min", "max",
    "abs", "sign",
];

/// Literals have Flink's types: INT where it fits, DOUBLE with an exponent. The planner's own are BIGINT, and
/// DECIMAL for the others, as in Flink.
fn number_of_flink(literal: &Expr, digits: &str) -> Option<Expr> {
    if digits.contains(['e', 'E']) {
        return Some(cast(text(digits), "DOUBLE"));
    }
    digits.parse::<i32>().ok().map(|_| cast(literal.clone(), "INT"))
}

/// Undoes [`number_of_flink`]: some functions look at a literal argument while they are planned.
fn restore_literal(arg: &mut Expr) {
    if let Expr::Cast { expr, data_type, .. } = arg
        && *data_type == crate::dialect::encode_text("INT")
        && matches!(expr.as_ref(), Expr::Value(ValueWithSpan { value: Value::Number(..), .. }))
    {
        *arg = (**expr).clone();
    }
}

/// The call with its plain arguments replaced.
fn with_arguments(function: &Function, args: Vec<Expr>) -> Function {
    let mut function = function.clone();
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    }
    function
}

/// The arguments if they are plain expressions, without DISTINCT or names.
fn plain_arguments(function: &Function) -> Option<Vec<Expr>> {
    match &function.args {
        FunctionArguments::None => Some(vec![]),
        FunctionArguments::Subquery(_) => None,
        FunctionArguments::List(list) => list
            .args
            .iter()
            .map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            })
            .collect(),
    }
}

fn unit(field: &DateTimeField, span: Span) -> Result<&'static str, Box<Fault>> {
    unit_named(&field.to_string()).ok_or_else(|| unknown_unit(&field.to_string(), span))
}

fn unit_named(written: &str) -> Option<&'static str> {
    let written = written.to_uppercase();
    let written = match written.as_str() {
        "DAYOFWEEK" => "DOW",
        "DAYOFYEAR" => "DOY",
        other => other.strip_prefix("SQL_TSI_").unwrap_or(other),
    };
    let singular = written.strip_suffix('S').unwrap_or(written);
    crate::functions::UNITS.iter().copied().find(|unit| *unit == singular)
}

fn unknown_unit(written: &str, span: Span) -> Box<Fault> {
    Fault::new(
        SqlErrorKind::Invalid,
        span.start,
        format!("unknown unit of time '{written}'; the units are {}", crate::functions::UNITS.join(", ")),
    )
}

fn text(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).with_empty_span())
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_string(), false).with_empty_span())
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn case(condition: Expr, result: Expr, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: otherwise.map(Box::new),
    }
}

fn cast(expr: Expr, data_type: &str) -> Expr {
    Expr::Cast {
        kind: datafusion_sql::sqlparser::ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type: crate::dialect::encode_text(data_type),
        array: false,
        format: None,
    }
}
