//! From Flink's syntax to DataFusion's, where only the spelling differs. Functions that compute something else are in
//! `functions.rs`.

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion_sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DataType, DateTimeField, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, Interval,
    NamedWindowDefinition, NamedWindowExpr, ObjectName, Query, Select, SelectItem, Spanned, Subscript,
    TableFactor, TypedString, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut, WindowFrameBound,
    WindowSpec, WindowType,
};
use datafusion_sql::sqlparser::tokenizer::Span;

use crate::approximate;
use crate::data_type::CharLength;
use crate::dialect::call;
use crate::error::{Fault, SqlErrorKind};
use crate::functions;
use crate::named_cast::{CAST, TRY_CAST};

/// Functions of Flink that become other expressions here, in lower case.
pub(crate) const NAMES: &[&str] = &[
    "if",
    "ifnull",
    "nullif",
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
    "sha2",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "to_base64",
    "e",
    "row",
    "is_alpha",
    "is_digit",
    "is_decimal",
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

    /// Names the columns of a SELECT as Flink does: a field of a ROW by its own name, any other expression `EXPR$i`,
    /// the second column of `SELECT v, v` v0.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Fault>> {
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = window {
                restore_bounds(window);
            }
        }
        let tables = tables_of(select);
        let mut seen: Vec<String> = Vec::new();
        for (position, item) in select.projection.iter_mut().enumerate() {
            let (expr, given, wanted) = match &*item {
                SelectItem::UnnamedExpr(expr) => match column_name(expr) {
                    Some(name) if is_plain_column(expr, &tables) => (expr, Some(name), name.to_string()),
                    Some(name) => (expr, None, name.to_string()),
                    None => (expr, None, format!("EXPR${position}")),
                },
                SelectItem::ExprWithAlias { expr, alias } => {
                    (expr, Some(alias.value.as_str()), alias.value.clone())
                }
                _ => continue,
            };
            let mut unique = wanted.clone();
            let mut digit = 0;
            while seen.contains(&unique) {
                unique = format!("{wanted}{digit}");
                digit += 1;
            }
            if given != Some(unique.as_str()) {
                let alias = Ident::with_span(expr.span(), unique.clone());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            seen.push(unique);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<Fault>> {
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. }) = expr {
            restore_bounds(window);
        }
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

/// What a column or a field of one is called without AS.
fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.as_str()),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

/// Whether the planner gives the column its name by itself: `c` and `t.c`, but not the field `c.f`.
fn is_plain_column(expr: &Expr, tables: &[String]) -> bool {
    match expr {
        Expr::Identifier(_) => true,
        Expr::CompoundIdentifier(parts) => matches!(&parts[..], [table, _] if tables.contains(&table.value)),
        _ => false,
    }
}

/// What the tables of a SELECT are called in it.
fn tables_of(select: &Select) -> Vec<String> {
    let factors = select.from.iter().flat_map(|table| {
        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
    });
    let name_of = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(alias.name.value.clone()),
        TableFactor::Table { name, .. } => {
            name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.clone())
        }
        _ => None,
    };
    factors.filter_map(name_of).collect()
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
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let args = [expr, overlay_what, overlay_from].map(|arg| (**arg).clone());
            Some(call("overlay", args.into_iter().chain(overlay_for.as_deref().cloned()), &span))
        }
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => number_of_flink(expr, digits),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => least_integer(expr),
        Expr::Function(function) => rewritten_function(function)?,
        Expr::Cast { kind, expr, data_type, .. } => written_cast(kind, expr, data_type, span),
        Expr::TypedString(typed) => precise_timestamp(typed),
        Expr::Like { negated, any: false, expr, pattern, escape_char } => {
            like(*negated, expr, pattern, escape_char.as_ref(), span)
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            Some(matching("flink_similar", *negated, expr, pattern, escape_char.as_ref(), span))
        }
        Expr::BinaryOp { left, op, right } => match (left.as_ref(), right.as_ref()) {
            (Expr::Interval(_), count) if *op == BinaryOperator::Multiply => {
                Some(call("flink_interval_times", [count.clone(), (**left).clone()], &span))
            }
            (count, Expr::Interval(_)) if *op == BinaryOperator::Multiply => {
                Some(call("flink_interval_times", [count.clone(), (**right).clone()], &span))
            }
            (Expr::Tuple(left), Expr::Tuple(right)) if left.len() == right.len() => {
                rows_compared(left, op, right)
            }
            _ => None,
        },
        Expr::Interval(interval) => interval_of_flink(interval, span)?,
        Expr::Array(array) => Some(call(functions::ARRAY, array.elem.iter().cloned(), &span)),
        Expr::CompoundFieldAccess { root, access_chain } => items(root, access_chain, span),
        _ => None,
    })
}

/// A CAST as a call, which has a name of its own; to CHAR(n) and VARCHAR(n), cut and padded.
fn written_cast(kind: &CastKind, expr: &Expr, data_type: &DataType, span: Span) -> Option<Expr> {
    let name = if *kind == CastKind::TryCast { TRY_CAST } else { CAST };
    let sql = crate::dialect::decode(data_type)?;
    let to = |sql: &str| call(name, [expr.clone(), text(sql)], &span);
    let (function, length) = match crate::data_type::parse_text(sql).ok()?.length {
        None => return Some(to(sql)),
        Some(CharLength::Exactly(length)) => (functions::TO_CHAR, length),
        Some(CharLength::AtMost(length)) => (functions::TO_VARCHAR, length),
    };
    Some(call(function, [to("STRING"), number(&length.to_string())], &span))
}

/// `TIMESTAMP '… .123456'` has as many digits as are written; the planner's has three, and so has `TIMESTAMP '… .12'` here.
fn precise_timestamp(typed: &TypedString) -> Option<Expr> {
    let (DataType::Timestamp(..), Value::SingleQuotedString(written)) =
        (&typed.data_type, &typed.value.value)
    else {
        return None;
    };
    let precision = match written.rsplit_once('.').map_or(0, |(_, fraction)| fraction.trim_end().len()) {
        0 => 0,
        1..=3 => return None,
        4..=6 => 6,
        _ => 9,
    };
    Some(cast(text(written), &format!("TIMESTAMP({precision})")))
}

/// `a[i]`, `m['k']` and fields behind them.
fn items(root: &Expr, chain: &[AccessExpr], span: Span) -> Option<Expr> {
    chain.iter().try_fold(root.clone(), |inner, access| match access {
        AccessExpr::Subscript(Subscript::Index { index }) => {
            Some(call(functions::ITEM, [inner, index.clone()], &span))
        }
        AccessExpr::Dot(Expr::Identifier(field)) => {
            Some(call("get_field", [inner, text(&field.value)], &span))
        }
        _ => None,
    })
}

/// LIKE has no escape character unless it names one; the planner's is the backslash.
fn like(
    negated: bool,
    expr: &Expr,
    pattern: &Expr,
    escape: Option<&ValueWithSpan>,
    span: Span,
) -> Option<Expr> {
    let written = match pattern {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(written), .. }) => Some(written),
        _ => None,
    };
    // The planner's own LIKE is faster, and right where nothing is escaped.
    if escape.is_none() && written.is_none_or(|written| !written.contains('\\')) {
        return None;
    }
    Some(matching("flink_like", negated, expr, pattern, escape, span))
}

fn matching(
    function: &str,
    negated: bool,
    expr: &Expr,
    pattern: &Expr,
    escape: Option<&ValueWithSpan>,
    span: Span,
) -> Expr {
    let escape = escape.map(|escape| Expr::Value(escape.clone()));
    let matches = call(function, [expr.clone(), pattern.clone()].into_iter().chain(escape), &span);
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(matches)) } } else { matches }
}

/// `(a, b) = (c, d)` is `a = c AND b = d`, with its NULLs.
fn rows_compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    let joined = match op {
        BinaryOperator::Eq => BinaryOperator::And,
        BinaryOperator::NotEq => BinaryOperator::Or,
        _ => return None,
    };
    let pairs = left.iter().zip(right);
    let each = pairs.map(|(l, r)| nested(binary(nested(l.clone()), op.clone(), nested(r.clone()))));
    each.reduce(|all, next| binary(all, joined.clone(), next)).map(nested)
}

/// `INTERVAL '1 02:03:04' DAY TO SECOND` and its like as an interval of one field, which is all that the planner
/// reads.
fn interval_of_flink(interval: &Interval, span: Span) -> Result<Option<Expr>, Box<Fault>> {
    let Some(last) = &interval.last_field else { return Ok(None) };
    let bad = |what: &str| Fault::new(SqlErrorKind::Invalid, span.start, what.to_string());
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(written), .. }) =
        interval.value.as_ref()
    else {
        return Err(bad("an interval of several fields is written as a text"));
    };
    let first = interval.leading_field.as_ref().map_or(String::new(), ToString::to_string);
    let shape = format!("{first} TO {last}");
    let (value, unit) = crate::interval::parse(written, &shape)
        .ok_or_else(|| bad(&format!("'{written}' is not an INTERVAL {shape}")))?;
    Ok(Some(Expr::Interval(Interval {
        value: Box::new(text(&value)),
        leading_field: Some(unit),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })))
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

/// What is summed by a COUNT or SUM, as a number that is 0 where there is none; nothing for anything else.
fn summed(expr: &Expr, span: &Span) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => summed(inner, span),
        Expr::Function(function) if let Some((inner, data_type)) = cast_of(function) => {
            let keeps = keeps_digits(&data_type) || counts(&inner) && is_number(&data_type);
            summed(&inner, span).filter(|_| keeps)
        }
        Expr::Function(function) if function.filter.is_none() && function.over.is_none() => {
            let is_distinct = matches!(&function.args, FunctionArguments::List(list)
                if list.duplicate_treatment.is_some() || !list.clauses.is_empty());
            let name = function.name.to_string().to_lowercase();
            let double = |expr: Expr| cast(expr, "DOUBLE");
            match (name.as_str(), plain_arguments(function).as_deref()) {
                _ if is_distinct => None,
                ("sum", Some([summand])) => {
                    Some(call("coalesce", [double(summand.clone()), double(number("0"))], span))
                }
                // COUNT(*).
                ("count", None | Some([])) => Some(double(number("1"))),
                ("count", Some([counted])) => {
                    let there = Expr::IsNotNull(Box::new(nested(counted.clone())));
                    Some(double(cast(nested(there), "INT")))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// What [`written_cast`] made of a CAST: of what, and to which type.
fn cast_of(function: &Function) -> Option<(Expr, String)> {
    let name = function.name.to_string().to_lowercase();
    let is_cast = [CAST, TRY_CAST].contains(&name.trim_matches(['"', '`']));
    match plain_arguments(function).filter(|_| is_cast).as_deref() {
        Some([inner, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(data_type), .. })]) => {
            Some((inner.clone(), data_type.to_uppercase()))
        }
        _ => None,
    }
}

/// A number of that type is what it was but for its last of seven digits, however small: an error of a percent is the same.
fn keeps_digits(data_type: &str) -> bool {
    ["DOUBLE", "DOUBLE PRECISION", "FLOAT", "REAL"].contains(&data_type)
}

/// Of whole numbers these keep all, or are NULL like the result.
fn is_number(data_type: &str) -> bool {
    let whole = ["INT", "INTEGER", "BIGINT", "DECIMAL", "DEC", "NUMERIC"];
    whole.iter().any(|name| data_type == *name || data_type.starts_with(&format!("{name}(")))
}

fn counts(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => counts(inner),
        Expr::Function(function) => function.name.to_string().eq_ignore_ascii_case("count"),
        _ => false,
    }
}

/// `APPROX_ERROR(f(x))` as a function of its own.
fn error_of(argument: &Expr, span: Span) -> Result<Expr, Box<Fault>> {
    if let Expr::Nested(inner) = argument {
        return error_of(inner, span);
    }
    if let Expr::Function(function) = argument
        && let Some((inner, _)) = cast_of(function).filter(|(_, data_type)| keeps_digits(data_type))
    {
        return error_of(&inner, span);
    }
    if let Expr::BinaryOp { left, op: BinaryOperator::Divide, right } = argument
        && let (Some(over), Some(under)) = (summed(left, &span), summed(right, &span))
    {
        return Ok(call(approximate::RATIO, [over, under], &span));
    }
    let named = match argument {
        Expr::Function(function) => Some((function, function.name.to_string().to_lowercase())),
        _ => None,
    };
    let Some((function, name)) = named.filter(|(_, name)| approximate::aggregate(name).is_some()) else {
        return Err(Fault::unsupported(
            span,
            "APPROX_ERROR takes one COUNT, SUM, AVG, variance, standard deviation, PERCENTILE or APPROX_COUNT_DISTINCT, or COUNTs \
             and SUMs by each other",
        )
        .hint(
            "write APPROX_ERROR(SUM(x)) or APPROX_ERROR(SUM(x) / SUM(y)), with a CAST to DOUBLE if any, since others round; of another \
             expression ask for the error of each of its parts",
        ));
    };
    let mut error = function.clone();
    error.name = ObjectName::from(vec![Ident::with_span(span, format!("{}{name}", approximate::ERROR_OF))]);
    if plain_arguments(function).is_none_or(|arguments| arguments.is_empty()) {
        // COUNT(*).
        let Expr::Function(counted) = call("count", [number("1")], &span) else {
            return Ok(argument.clone());
        };
        error.args = counted.args;
    }
    Ok(Expr::Function(error))
}

/// FIRST_VALUE and LAST_VALUE with OVER.
fn end_of_frame(function: &Function, name: &str) -> Option<Expr> {
    let planned = match name {
        "first_value" => functions::FIRST_OVER,
        "last_value" => functions::LAST_OVER,
        _ => return None,
    };
    let name = ObjectName::from(vec![Ident::with_span(function.name.span(), planned)]);
    Some(Expr::Function(Function { name, ..function.clone() }))
}

/// A call as the planner reads it; nothing where that is as it is written.
fn rewritten_function(function: &Function) -> Result<Option<Expr>, Box<Fault>> {
    let name = function.name.to_string().to_lowercase();
    if function.over.is_some() {
        return Ok(end_of_frame(function, &name));
    }
    let Some(mut args) = plain_arguments(function) else { return Ok(None) };
    if !TYPED_BY_ARGUMENTS.contains(&name.as_str()) {
        args.iter_mut().for_each(restore_literal);
    }
    let written = Call { function, name, args, span: function.name.span() };
    match written.name.as_str() {
        "if" | "ifnull" | "nullif" | "greatest" | "least" => written.choice().map(Some),
        "mod" | "concat" | "row" => written.composed().map(Some),
        "locate" | "instr" | "is_alpha" | "is_digit" | "is_decimal" => written.of_text().map(Some),
        "sha224" | "sha256" | "sha384" | "sha512" | "to_base64" => written.encoded().map(Some),
        "sha2" => written.digest().map(Some),
        "json_value" => returned(function).map(|to| written.json_value(to)).transpose(),
        "approx_rows" | "approx_seen" | "approx_error" => written.approximated().map(Some),
        "current_timestamp"
        | "now"
        | "current_row_timestamp"
        | "localtimestamp"
        | "current_date"
        | "current_time"
        | "localtime"
        | "proctime" => written.clock().map(Some),
        "timestampadd" | "timestampdiff" => written.time_apart(),
        "log" if written.args.len() == 1 => Ok(Some(written.renamed("ln"))),
        "rand" if written.args.is_empty() => Ok(Some(written.renamed("random"))),
        "e" if written.args.is_empty() => Ok(Some(written.call("exp", [number("1")]))),
        "unix_timestamp" if written.args.is_empty() => {
            let now = written.call("flink_now", []);
            Ok(Some(written.call("flink_time_part", [text("EPOCH"), now])))
        }
        name => match (of(TIME_PARTS, name), of(RENAMED, name)) {
            (Some(part), _) => written.time_part(part).map(Some),
            (_, Some(to)) => Ok(Some(written.renamed(to))),
            _ => Ok(Some(written.in_lower_case())),
        },
    }
}

/// Functions that have another name there, or are our own.
const RENAMED: &[(&str, &str)] = &[
    ("sign", "flink_sign"),
    ("ceiling", "ceil"),
    ("truncate", "flink_truncate"),
    ("substr", "flink_substring"),
    ("substring", "flink_substring"),
    ("regexp", "flink_regexp"),
    ("regexp_replace", "flink_regexp_replace"),
    ("uuid", "flink_uuid"),
    ("unix_timestamp", "flink_unix_timestamp"),
];

/// Functions that take a field out of a time.
const TIME_PARTS: &[(&str, &str)] = &[
    ("year", "YEAR"),
    ("quarter", "QUARTER"),
    ("month", "MONTH"),
    ("week", "WEEK"),
    ("dayofyear", "DOY"),
    ("dayofmonth", "DAY"),
    ("dayofweek", "DOW"),
    ("hour", "HOUR"),
    ("minute", "MINUTE"),
    ("second", "SECOND"),
];

fn of(table: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
}

/// A call as it is written.
struct Call<'a> {
    function: &'a Function,
    /// In lower case.
    name: String,
    args: Vec<Expr>,
    span: Span,
}

impl Call<'_> {
    fn arity(&self, least: usize, most: usize) -> Result<(), Box<Fault>> {
        let count = self.args.len();
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(Fault::new(
            SqlErrorKind::Invalid,
            self.span.start,
            format!("{} takes {expected} arguments, not {count}", self.name.to_uppercase()),
        ))
    }

    /// Another call in its place.
    fn call(&self, name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
        call(name, args, &self.span)
    }

    fn renamed(&self, to: &str) -> Expr {
        self.call(to, self.args.iter().cloned())
    }

    fn arg(&self, place: usize) -> Expr {
        self.args[place].clone()
    }

    /// One of the arguments.
    fn choice(self) -> Result<Expr, Box<Fault>> {
        match self.name.as_str() {
            "if" => {
                self.arity(3, 3)?;
                Ok(case(self.arg(0), self.arg(1), Some(self.arg(2))))
            }
            "ifnull" => {
                self.arity(2, 2)?;
                Ok(self.renamed("coalesce"))
            }
            "nullif" => {
                self.arity(2, 2)?;
                let equal = binary(nested(self.arg(0)), BinaryOperator::Eq, nested(self.arg(1)));
                Ok(case(equal, null(), Some(self.arg(0))))
            }
            // GREATEST and LEAST. Flink: NULL if any argument is; DataFusion skips NULLs.
            name => {
                self.arity(1, usize::MAX)?;
                let is_null = |arg: &Expr| Expr::IsNull(Box::new(nested(arg.clone())));
                let or = |left, right| binary(left, BinaryOperator::Or, right);
                let any_null = self.args[1..].iter().map(is_null).fold(is_null(&self.args[0]), or);
                Ok(case(any_null, null(), Some(self.renamed(name))))
            }
        }
    }

    /// An expression of all arguments.
    fn composed(self) -> Result<Expr, Box<Fault>> {
        match self.name.as_str() {
            "mod" => {
                self.arity(2, 2)?;
                Ok(nested(binary(self.arg(0), BinaryOperator::Modulo, self.arg(1))))
            }
            "concat" => {
                self.arity(1, usize::MAX)?;
                let joined = |left, right| binary(left, BinaryOperator::StringConcat, right);
                let others = self.args[1..].iter().cloned().map(nested);
                Ok(nested(others.fold(nested(self.arg(0)), joined)))
            }
            // ROW.
            _ => {
                let names = (0..).map(|place| text(&format!("EXPR${place}")));
                let fields = names.zip(self.args.clone()).flat_map(|(name, field)| [name, field]);
                Ok(self.call("named_struct", fields))
            }
        }
    }

    fn of_text(self) -> Result<Expr, Box<Fault>> {
        match self.name.as_str() {
            "locate" if self.args.len() == 3 => Ok(self.renamed("flink_locate")),
            "locate" => {
                self.arity(2, 3)?;
                Ok(self.call("strpos", [self.arg(1), self.arg(0)]))
            }
            "instr" => {
                self.arity(2, 2)?;
                Ok(self.renamed("strpos"))
            }
            // IS_ALPHA and its like.
            name => {
                self.arity(1, 1)?;
                Ok(self.renamed(&format!("flink_{name}")))
            }
        }
    }

    /// Bytes as text.
    fn encoded(self) -> Result<Expr, Box<Fault>> {
        self.arity(1, 1)?;
        Ok(match self.name.as_str() {
            "to_base64" => self.call("encode", [self.arg(0), text("base64pad")]),
            // DataFusion's digests are bytes; Flink's are hexadecimal text.
            digest => self.call("encode", [self.renamed(digest), text("hex")]),
        })
    }

    /// SHA2, of a length that is written down.
    fn digest(mut self) -> Result<Expr, Box<Fault>> {
        self.arity(2, 2)?;
        let length = self.args.pop().map(|length| length.to_string()).unwrap_or_default();
        match length.as_str() {
            "224" | "256" | "384" | "512" => Call { name: format!("sha{length}"), ..self }.encoded(),
            _ => Err(Fault::unsupported(self.span, format!("SHA2 of length {length} is not supported"))
                .hint("write 224, 256, 384 or 512")),
        }
    }

    /// JSON_VALUE with RETURNING.
    fn json_value(self, to: &DataType) -> Result<Expr, Box<Fault>> {
        let value = self.renamed("json_value");
        match to.to_string().to_uppercase().as_str() {
            "STRING" | "VARCHAR" => Ok(value),
            "INT" | "INTEGER" => Ok(cast(value, "INT")),
            known @ ("BOOLEAN" | "DOUBLE") => Ok(cast(value, known)),
            other => Err(Fault::unsupported(self.span, format!("JSON_VALUE does not return {other}"))
                .hint("write RETURNING STRING, BOOLEAN, INT or DOUBLE, and CAST that")),
        }
    }

    fn approximated(self) -> Result<Expr, Box<Fault>> {
        if self.name == "approx_error" {
            self.arity(1, 1)?;
            return error_of(&self.args[0], self.span);
        }
        self.arity(0, 0)?;
        if self.function.filter.is_some() {
            let message = format!("{} counts all rows, and takes no FILTER", self.name.to_uppercase());
            return Err(Fault::unsupported(self.span, &message).hint("write COUNT(*) FILTER (WHERE …)"));
        }
        Ok(self.call(&self.name, [number("1")]))
    }

    /// The time of day.
    fn clock(self) -> Result<Expr, Box<Fault>> {
        let now = self.call("flink_now", []);
        match self.name.as_str() {
            "localtimestamp" => Ok(cast(now, "TIMESTAMP(3)")),
            "current_date" => Ok(cast(now, "DATE")),
            "current_time" | "localtime" => Ok(cast(cast(now, "TIMESTAMP(3)"), "TIME")),
            "proctime" => {
                self.arity(0, 0)?;
                Ok(self.call(functions::PROCTIME, []))
            }
            _ => Ok(now),
        }
    }

    fn time_part(self, part: &str) -> Result<Expr, Box<Fault>> {
        self.arity(1, 1)?;
        Ok(self.call("flink_time_part", [text(part), self.arg(0)]))
    }

    /// TIMESTAMPADD and TIMESTAMPDIFF; nothing where they are rewritten already.
    fn time_apart(self) -> Result<Option<Expr>, Box<Fault>> {
        self.arity(3, 3)?;
        let unit = match &self.args[0] {
            Expr::Identifier(ident) => unit_named(&ident.value),
            Expr::Value(_) => return Ok(None),
            _ => None,
        };
        let unit = unit.ok_or_else(|| unknown_unit(&self.args[0].to_string(), self.span))?;
        let days = ["DAY", "WEEK", "MONTH", "QUARTER", "YEAR"].contains(&unit);
        let to = if self.name == "timestampadd" && days { "flink_date_add" } else { &self.name };
        Ok(Some(self.call(to, [text(unit), self.arg(1), self.arg(2)])))
    }

    fn in_lower_case(self) -> Expr {
        let mut lower = with_arguments(self.function, self.args);
        lower.name = ObjectName::from(vec![Ident::with_span(self.span, self.name.trim_matches('`'))]);
        Expr::Function(lower)
    }
}

/// Functions whose type is that of their arguments, so that it matters which type a literal has.
const TYPED_BY_ARGUMENTS: &[&str] = &[
    "if",
    "ifnull",
    "coalesce",
    "nullif",
    "greatest",
    "least",
    "mod",
    "row",
    "sum",
    "avg",
    "min",
    "max",
    "first_value",
    "last_value",
    "array_agg",
    "collect",
    "percentile",
    "abs",
    "sign",
    functions::ARRAY,
    functions::MAP,
];

/// Literals have Flink's types: INT where it fits, DOUBLE with an exponent, DECIMAL with a point, where the digit
/// before it counts. The planner's own are BIGINT, and DECIMAL of the digits that matter.
fn number_of_flink(literal: &Expr, digits: &str) -> Option<Expr> {
    if digits.contains(['e', 'E']) {
        return Some(cast(text(digits), "DOUBLE"));
    }
    if let Some((whole, fraction)) = digits.split_once('.') {
        let precision = whole.len() + fraction.len();
        let fits = (1..=38).contains(&precision);
        return fits.then(|| cast(literal.clone(), &format!("DECIMAL({precision}, {})", fraction.len())));
    }
    digits.parse::<i32>().ok().map(|_| cast(literal.clone(), "INT"))
}

/// The least INT and BIGINT, whose digits alone are too large for their type.
fn least_integer(magnitude: &Expr) -> Option<Expr> {
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = magnitude else { return None };
    match digits.as_str() {
        "2147483648" => Some(cast(text("-2147483648"), "INT")),
        "9223372036854775808" => Some(cast(text("-9223372036854775808"), "BIGINT")),
        _ => None,
    }
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

/// The same for `3 PRECEDING`, which the planner reads as it is written.
fn restore_bounds(window: &mut WindowSpec) {
    let Some(frame) = &mut window.window_frame else { return };
    for bound in std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound) {
        if let WindowFrameBound::Preceding(Some(bound)) | WindowFrameBound::Following(Some(bound)) = bound {
            restore_literal(bound);
        }
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

/// The type behind RETURNING, if nothing else is there.
fn returned(function: &Function) -> Option<&DataType> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.clauses.as_slice() {
        [FunctionArgumentClause::JsonReturningClause(clause)] => Some(&clause.data_type),
        _ => None,
    }
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

fn null() -> Expr {
    Expr::Value(Value::Null.with_empty_span())
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
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: crate::dialect::encode_text(data_type),
        array: false,
        format: None,
    }
}
