//! Slips that a parser or planner reports in words of its own, or far from where they are: what was meant, at its place.

use arrow::datatypes::DataType;
use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Interval, ObjectName,
    ObjectNamePart, Spanned, UnaryOperator, Value,
};
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::data_type::display;
use crate::dialect::FlinkDialect;
use crate::error::{Fault, NOWHERE, SqlErrorKind};

type Checked = Result<(), Box<Fault>>;

/// Refuses characters that nobody sees: a byte order mark, blanks without width, blanks that are none.
pub(crate) fn refuse_invisible(tokens: &[TokenWithSpan]) -> Checked {
    for token in tokens {
        let Token::Char(c) = token.token else { continue };
        let at = token.span.start;
        let code = format!("U+{:04X}", u32::from(c));
        let (message, hint) = match c {
            '\u{feff}' if (at.line, at.column) == (1, 1) => (
                format!("the file begins with a byte order mark ({code}), which is no SQL"),
                "save it as UTF-8 without BOM",
            ),
            '\u{a0}'
            | '\u{ad}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}' => {
                (format!("an invisible character ({code}) stands here"), "delete it, or write a blank")
            }
            _ => continue,
        };
        return Err(Fault::new(SqlErrorKind::Syntax, at, message).hint(hint));
    }
    Ok(())
}

/// What the tokenizer could not read, at the place where that begins.
pub(crate) fn untokenized(text: &str, error: &TokenizerError) -> Box<Fault> {
    if error.message.contains("multi-line comment")
        && let Some(at) = open_comment(text)
    {
        let message = "this comment has no end";
        return Fault::new(SqlErrorKind::Syntax, at, message).hint("write */ behind it");
    }
    let mut chars = error.message.chars();
    let first = chars.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
    Fault::new(SqlErrorKind::Syntax, error.location, first + chars.as_str())
}

/// The comment that is open at the end of the text.
fn open_comment(text: &str) -> Option<Location> {
    // What stands before it can be read for itself, and before any other `/*` that is not within quotes too.
    let begins = text.match_indices("/*").map(|(at, _)| at);
    let mut begins = begins.filter(|&at| !text[at..].contains("*/"));
    let at = begins.find(|&at| Tokenizer::new(&FlinkDialect, &text[..at]).tokenize().is_ok())?;
    let before = &text[..at];
    let line = before.matches('\n').count() as u64 + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u64 + 1;
    Some(Location { line, column })
}

/// Refuses a file's name, or a name in double quotes, where a table is expected.
pub(crate) fn refuse_quoted_table(name: &ObjectName) -> Checked {
    let quoted = |part: &ObjectNamePart| {
        let name: &Ident = part.as_ident()?;
        name.quote_style.filter(|&quote| quote != '`').map(|quote| (quote, name.clone()))
    };
    let Some((quote, name)) = name.0.iter().find_map(quoted) else { return Ok(()) };
    let at = name.span.start;
    if quote == '"' {
        let fault = Fault::new(
            SqlErrorKind::Syntax,
            at,
            format!("'{}' in double quotes is no name in Flink", name.value),
        );
        return Err(fault.hint(format!("write it in backticks: `{}`", name.value)));
    }
    let fault =
        Fault::new(SqlErrorKind::Syntax, at, format!("expected a table, found the text '{}'", name.value));
    Err(fault.hint(format!(
        "declare the file: CREATE TABLE t (…) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv'), then \
         write FROM t",
        name.value
    )))
}

/// Where the quoted text of a message stands, for what the parser keeps no place of.
pub(crate) fn place_of_quoted(message: &str, tokens: &[TokenWithSpan]) -> Option<Location> {
    let quoted = message.split('\'').nth(1)?;
    let is_it = |token: &&TokenWithSpan| matches!(&token.token, Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) if text == quoted);
    tokens.iter().find(is_it).map(|token| token.span.start)
}

/// Refuses an interval whose number is not in quotes.
pub(crate) fn refuse_bare_interval(interval: &Interval) -> Checked {
    let mut value = &*interval.value;
    let mut sign = "";
    while let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = value {
        (value, sign) = (&**expr, "-");
    }
    let Expr::Value(literal) = value else { return Ok(()) };
    let Value::Number(number, _) = &literal.value else { return Ok(()) };
    let unit = interval.leading_field.as_ref().map_or("SECOND".into(), ToString::to_string);
    let message = format!("an INTERVAL has its number in quotes, not {sign}{number}");
    Err(Fault::new(SqlErrorKind::Syntax, literal.span.start, message)
        .hint(format!("write INTERVAL '{sign}{number}' {unit}")))
}

/// The same slip as the parser tells it, where the unit is inside of the quotes: `INTERVAL '1 minute'`.
pub(crate) fn unit_in_quotes(tokens: &[TokenWithSpan], at: Location) -> Option<Box<Fault>> {
    let place = tokens
        .iter()
        .rposition(|token| token.span.start <= at && matches!(token.token, Token::SingleQuotedString(_)));
    let token = &tokens[place?];
    let Token::SingleQuotedString(text) = &token.token else { return None };
    let fault =
        Fault::new(SqlErrorKind::Syntax, token.span.start, "an INTERVAL has its unit behind the quotes");
    let written = text.trim().split_once(char::is_whitespace);
    let (number, unit) = written.unwrap_or((text.trim(), "second"));
    let unit = unit.trim().trim_end_matches('s').to_uppercase();
    Some(fault.hint(format!("write INTERVAL '{number}' {unit}")))
}

/// Refuses what Flink and we cannot compute: COUNT(DISTINCT a, b); and a regular expression that is none.
pub(crate) fn refuse_arguments(function: &Function, name: &str) -> Checked {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    if name == "count" && list.duplicate_treatment.is_some() && list.args.len() > 1 {
        let second = list.args[1].span().start;
        let columns: Vec<String> = list.args.iter().map(|arg| format!("CAST({arg} AS STRING)")).collect();
        return Err(Fault::unsupported(list.args[1].span(), "COUNT(DISTINCT …) takes one column")
            .hint(format!("make one of them: COUNT(DISTINCT CONCAT_WS('|', {}))", columns.join(", ")))
            .or_at(second));
    }
    if name.starts_with("regexp")
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(pattern)))) = list.args.get(1)
        && let Value::SingleQuotedString(text) = &pattern.value
        && let Err(error) = regex::Regex::new(text)
    {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or("").trim_start_matches("error: ").to_string();
        return Err(Fault::new(
            SqlErrorKind::Invalid,
            pattern.span.start,
            format!("'{text}' is no regular expression that can be matched here: {why}"),
        )
        .hint("\\ before a character takes it as it is; there is no looking ahead or behind and no reference back"));
    }
    Ok(())
}

/// What DataFusion has no type for, by how its message begins: told in our words from the rest of the message, or `None` if
/// that is not as expected. A test holds each beside SQL that leads to it.
const PHRASES: &[(&str, Tell)] = &[
    ("Projections require unique expression names but the expression \"", same_names),
    ("Cannot create filter with non-boolean predicate '", condition),
    ("Cannot coerce arithmetic expression ", arithmetic),
    ("Failed to coerce types ", comparison),
];

type Tell = fn(&str, &[TokenWithSpan]) -> Option<Box<Fault>>;

/// A message that begins with one of the phrases.
pub(crate) fn by_phrase(message: &str, tokens: &[TokenWithSpan]) -> Option<Box<Fault>> {
    let message = message.strip_prefix("Error during planning: ").unwrap_or(message);
    PHRASES.iter().find_map(|(begins, tell)| tell(message.strip_prefix(begins)?, tokens))
}

fn same_names(rest: &str, tokens: &[TokenWithSpan]) -> Option<Box<Fault>> {
    let name = rest.split('"').next()?.rsplit('.').next()?;
    let is_it = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value == name);
    let at = tokens.iter().find(is_it).map_or(NOWHERE, |token| token.span.start);
    let message = format!("two columns are named '{name}'");
    Some(Fault::new(SqlErrorKind::Invalid, at, message).hint("name one of them otherwise with AS"))
}

/// Types that an expression cannot bring together, which the planner takes for a mistake of its own.
fn comparison(rest: &str, tokens: &[TokenWithSpan]) -> Option<Box<Fault>> {
    let (types, what) = rest.split_once(" in ")?;
    let (left, right) = types.split_once(" and ")?;
    let named =
        |given: &str| given.parse::<DataType>().map_or_else(|_| given.to_string(), |given| display(&given));
    let what = what.split_whitespace().next()?;
    let is_it = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(what));
    let at = tokens.iter().find(is_it).map_or(NOWHERE, |token| token.span.start);
    let message = format!("{} and {} cannot be compared by {what}", named(left), named(right));
    Some(Fault::new(SqlErrorKind::Type, at, message).hint("CAST one to the type of the other"))
}

fn condition(rest: &str, tokens: &[TokenWithSpan]) -> Option<Box<Fault>> {
    let (predicate, given) = rest.split_once("' returning ")?;
    let given: DataType = given.trim().parse().ok()?;
    let name = predicate.rsplit('.').next().unwrap_or(predicate);
    let condition = tokens.iter().rposition(|token| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && ["WHERE", "HAVING", "ON"].contains(&word.value.to_uppercase().as_str()))
    });
    let behind = &tokens[condition.map_or(0, |place| place + 1)..];
    let is_it = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.value == name);
    let at = behind.iter().find(is_it).or(behind.first())?.span.start;
    let message = format!("a condition must be BOOLEAN, and '{name}' is {}", display(&given));
    let zero = if given.is_numeric() { "0" } else { "…" };
    Some(Fault::new(SqlErrorKind::Type, at, message).hint(format!("compare it: {name} <> {zero}")))
}

fn arithmetic(rest: &str, _: &[TokenWithSpan]) -> Option<Box<Fault>> {
    let rest = rest.split(" to valid types").next()?;
    let operators = [" + ", " - ", " * ", " / ", " % "];
    let (left, operator, right) = operators.iter().find_map(|operator| {
        let (left, right) = rest.split_once(operator)?;
        Some((left.parse::<DataType>().ok()?, operator.trim(), right.parse::<DataType>().ok()?))
    })?;
    let fault = Fault::new(
        SqlErrorKind::Type,
        NOWHERE,
        format!("{} {operator} {} has no meaning", display(&left), display(&right)),
    );
    let is_text = |data_type: &DataType| *data_type == DataType::Utf8;
    Some(match (is_text(&left), is_text(&right)) {
        (true, _) | (_, true) if operator == "+" => {
            fault.hint("write || to join texts, or CAST(… AS DOUBLE) to add numbers")
        }
        (true, _) | (_, true) => fault.hint("write CAST(… AS DOUBLE) around the text"),
        _ => fault.hint("CAST one of them to a type that has this operator"),
    })
}

#[cfg(test)]
mod tests {
    use super::PHRASES;
    use crate::compile::{SqlFile, compile};

    const TABLE: &str = "CREATE TABLE t (k STRING, v INT, b BOOLEAN, arr ARRAY<INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
                         WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');\n";

    /// Place, message and hint, without the line.
    fn told(text: &str) -> String {
        let error = compile(&[SqlFile { path: "q.sql".into(), text: text.into() }]).expect_err(text);
        format!("{}:{} {} → {}", error.line, error.column, error.message, error.hint.unwrap_or_default())
    }

    /// Words that DataFusion changes are noticed here.
    #[test]
    fn every_phrase_of_the_planner_is_still_said() {
        let cases = [
            (
                "Projections require unique",
                "SELECT *, k FROM t;",
                "2:11 two columns are named 'k' → name one of them otherwise with AS",
            ),
            (
                "Cannot create filter with",
                "SELECT k FROM t WHERE v;",
                "2:23 a condition must be BOOLEAN, and 'v' is INT → compare it: v <> 0",
            ),
            (
                "Cannot coerce arithmetic",
                "SELECT k * 2 FROM t;",
                "2:8 STRING * INT has no meaning → write CAST(… AS DOUBLE) around the text",
            ),
            (
                "Failed to coerce types",
                "SELECT k FROM t WHERE b BETWEEN ts AND ts;",
                "2:25 BOOLEAN and TIMESTAMP(3) cannot be compared by BETWEEN → CAST one to the type of the other",
            ),
        ];
        for (phrase, _) in PHRASES {
            let (_, sql, expected) =
                cases.iter().find(|case| phrase.starts_with(case.0)).expect("a case of each phrase");
            assert_eq!(told(&format!("{TABLE}{sql}")), *expected, "{phrase}");
        }
    }

    #[test]
    fn slips_are_told_with_place_and_what_to_write() {
        const WINDOW: &str = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;";
        for (sql, expected) in [
            (
                "SELECT foo(v) FROM t;",
                "2:8 unknown function 'foo' → docs/sql.md lists the functions; there are no user-defined ones",
            ),
            (
                "SELECT ts + INTERVAL '1 minutes' FROM t;",
                "2:22 an INTERVAL has its unit behind the quotes → write INTERVAL '1' MINUTE",
            ),
            (
                "SELECT ts - INTERVAL -1 SECOND FROM t;",
                "2:23 an INTERVAL has its number in quotes, not -1 → write INTERVAL '-1' SECOND",
            ),
            (
                "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL 1 SECOND)) GROUP BY window_start, window_end;",
                "2:69 an INTERVAL has its number in quotes, not 1 → write INTERVAL '1' SECOND",
            ),
            (
                "SELECT k FROM t WHERE v;",
                "2:23 a condition must be BOOLEAN, and 'v' is INT → compare it: v <> 0",
            ),
            (
                "SELECT v + k FROM t;",
                "2:8 INT + STRING has no meaning → write || to join texts, or CAST(… AS DOUBLE) to add numbers",
            ),
            (
                "SELECT v * b FROM t;",
                "2:8 INT * BOOLEAN has no meaning → CAST one of them to a type that has this operator",
            ),
            (
                "CREATE TABLE u (a INT) WITH (connector = 'datagen');",
                "2:30 expected an option name in quotes, such as 'connector', found 'connector' → write 'connector' = '…', \
                 both in single quotes",
            ),
            (
                "CREATE TABLE u (a INT) WITH ('connector' = datagen);",
                "2:44 expected the option's value in quotes, found 'datagen' → write 'connector' = 'datagen'",
            ),
            (
                "SET 'laxity.latency.target' = '0.5 ms';",
                "2:5 'laxity.latency.target' takes a whole number of a unit, not '0.5 ms' → write '500 us'",
            ),
            (
                "SELECT v\u{200b} FROM t;",
                "2:9 an invisible character (U+200B) stands here → delete it, or write a blank",
            ),
            ("SELECT '/*', v /* never closed FROM t;", "2:16 this comment has no end → write */ behind it"),
            (
                "SELECT v FROM 'good.csv';",
                "2:15 expected a table, found the text 'good.csv' → declare the file: CREATE TABLE t (…) WITH ('connector' = \
                 'filesystem', 'path' = 'good.csv', 'format' = 'csv'), then write FROM t",
            ),
            (
                "SELECT v FROM \"t\";",
                "2:15 't' in double quotes is no name in Flink → write it in backticks: `t`",
            ),
            (
                "SELECT v FROM t WHERE REGEXP(k, '(a');",
                "2:33 '(a' is no regular expression that can be matched here: unclosed group → \\ before a character takes \
                 it as it is; there is no looking ahead or behind and no reference back",
            ),
        ] {
            assert_eq!(told(&format!("{TABLE}{sql}")), expected, "{sql}");
        }
        let count = told(&format!("{TABLE}SELECT COUNT(DISTINCT v, k) {WINDOW}"));
        let expected = "2:26 COUNT(DISTINCT …) takes one column → make one of them: COUNT(DISTINCT CONCAT_WS('|', \
                        CAST(v AS STRING), CAST(k AS STRING)))";
        assert_eq!(count, expected);
        let mark = told(&format!("\u{feff}{TABLE}"));
        assert_eq!(
            mark,
            "1:1 the file begins with a byte order mark (U+FEFF), which is no SQL → save it as UTF-8 without BOM"
        );
    }

    #[test]
    fn what_is_meant_as_it_stands_is_taken() {
        for sql in [
            "SELECT '\u{feff}\u{200b}', '/* no comment' FROM t;",
            "SELECT REGEXP_REPLACE(k, '[a-z]+', k) FROM t WHERE b AND arr[1] > 0;",
            "SELECT ts + INTERVAL '1' SECOND FROM t;",
        ] {
            let compiled = compile(&[SqlFile { path: "q.sql".into(), text: format!("{TABLE}{sql}") }]);
            assert!(compiled.is_ok(), "{}", compiled.unwrap_err());
        }
    }
}
