//! Names of types: read as Flink reads them, brought to types of Arrow, and written again for messages.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

pub(crate) use laxity_functions::data_type::{UTC, display, flink_type, processing_time};

use crate::dialect::FlinkDialect;
use crate::reserved::refuse_reserved;

/// A type as Flink writes it, with what it is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlinkType {
    pub data_type: DataType,
    /// `NOT NULL` makes it false.
    pub nullable: bool,
    /// The type as text that [`parse_text`] reads back.
    pub sql: String,
    /// Of CHAR(n) and VARCHAR(n).
    pub length: Option<CharLength>,
}

/// What a text is brought to on its way into a CHAR or VARCHAR, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CharLength {
    /// CHAR: cut, or padded with blanks.
    Exactly(u32),
    /// VARCHAR: cut.
    AtMost(u32),
}

/// Every type name that is known, for error messages.
const NAMES: &[&str] = &[
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "NUMERIC",
    "CHAR",
    "VARCHAR",
    "STRING",
    "BINARY",
    "VARBINARY",
    "BYTES",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "ROW",
    "ARRAY",
    "MAP",
];

/// Parses a type from text that [`FlinkType::sql`] gave.
pub(crate) fn parse_text(sql: &str) -> Result<FlinkType, ParserError> {
    let tokens = Tokenizer::new(&FlinkDialect, sql).tokenize_with_location()?;
    parse(&mut Parser::new(&FlinkDialect).with_tokens_with_locations(tokens))
}

/// Parses a type at the parser's place. A mistake is reported at the word that makes it one.
pub(crate) fn parse(parser: &mut Parser) -> Result<FlinkType, ParserError> {
    let mut pending_close = 0;
    let parsed = parse_nested(parser, &mut pending_close, 0)?;
    if pending_close != 0 {
        return parser.expected("a type without a second '>'", parser.peek_token());
    }
    Ok(parsed)
}

/// Flink's longest VARCHAR, which is a STRING.
const LENGTH_MAX: u32 = i32::MAX as u32;

/// Deeper types than this are refused, to keep recursion bounded.
const DEPTH_MAX: usize = 32;

fn parse_nested(
    parser: &mut Parser,
    pending_close: &mut usize,
    depth: usize,
) -> Result<FlinkType, ParserError> {
    let start = parser.peek_token();
    let Token::Word(word) = &start.token else {
        return parser.expected("a type", start);
    };
    if depth > DEPTH_MAX {
        return Err(ParserError::RecursionLimitExceeded);
    }
    let name = word.value.to_ascii_uppercase();
    if !NAMES.contains(&name.as_str()) {
        return error(&unknown(&word.value), &start);
    }
    parser.next_token();
    let mut flink = match name.as_str() {
        "ARRAY" => array(parser, pending_close, depth)?,
        "MAP" => map(parser, pending_close, depth)?,
        "ROW" => row(parser, pending_close, depth)?,
        "CHAR" | "VARCHAR" => characters(parser, &name, &start)?,
        "TIME" => time(parser, &start)?,
        "TIMESTAMP" | "TIMESTAMP_LTZ" => timestamp(parser, &name, &start)?,
        "DECIMAL" | "NUMERIC" => decimal(parser, &name, &start)?,
        "BINARY" | "VARBINARY" => of(written(&name, &parameters(parser, 1)?), DataType::Binary),
        _ => of(name.clone(), simple(parser, &name)),
    };
    if *pending_close == 0 {
        if parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
            flink.nullable = false;
            flink.sql.push_str(" NOT NULL");
        } else {
            let _ = parser.parse_keyword(Keyword::NULL);
        }
    }
    Ok(flink)
}

/// What is said of a name that is no type.
fn unknown(written: &str) -> String {
    let name = written.to_ascii_uppercase();
    let unsupported = ["MULTISET", "RAW", "INTERVAL", "SYMBOL", "VARIANT"].contains(&name.as_str());
    match (unsupported, laxity_text::closest(&name, NAMES.iter().copied())) {
        (true, _) => format!("type {name} is not supported; the types are {}", NAMES.join(", ")),
        (_, Some(near)) => format!("unknown type '{written}'; did you mean {near}?"),
        _ => format!("unknown type '{written}'; the types are {}", NAMES.join(", ")),
    }
}

fn of(sql: String, data_type: DataType) -> FlinkType {
    FlinkType { data_type, nullable: true, sql, length: None }
}

/// Types without parameters.
fn simple(parser: &mut Parser, name: &str) -> DataType {
    match name {
        "BOOLEAN" => DataType::Boolean,
        "TINYINT" => DataType::Int8,
        "SMALLINT" => DataType::Int16,
        "INT" | "INTEGER" => DataType::Int32,
        "BIGINT" => DataType::Int64,
        "FLOAT" => DataType::Float32,
        "DOUBLE" => {
            let _ = parser.parse_keyword(Keyword::PRECISION);
            DataType::Float64
        }
        "STRING" => DataType::Utf8,
        "BYTES" => DataType::Binary,
        "DATE" => DataType::Date32,
        other => unreachable!("{other} is among the names and has no type"),
    }
}

fn characters(parser: &mut Parser, name: &str, start: &TokenWithSpan) -> Result<FlinkType, ParserError> {
    let given = parameters(parser, 1)?;
    let length = given.first().map(|length| u32::try_from(*length).ok().filter(|n| *n <= LENGTH_MAX));
    let length = match (name, length) {
        (_, Some(None | Some(0))) => {
            return error(&format!("the length of a {name} is 1 to {LENGTH_MAX}"), start);
        }
        ("CHAR", length) => Some(CharLength::Exactly(length.flatten().unwrap_or(1))),
        // Without a length Flink's VARCHAR is a STRING.
        (_, length) => length.flatten().map(CharLength::AtMost),
    };
    Ok(FlinkType { length, ..of(written(name, &given), DataType::Utf8) })
}

fn time(parser: &mut Parser, start: &TokenWithSpan) -> Result<FlinkType, ParserError> {
    let precision = parameters(parser, 1)?;
    if precision.first().is_some_and(|p| *p > 9) {
        return error("TIME takes a precision from 0 to 9", start);
    }
    let _ = parser.parse_keywords(&[Keyword::WITHOUT, Keyword::TIME, Keyword::ZONE]);
    Ok(of(written("TIME", &precision), DataType::Time32(TimeUnit::Millisecond)))
}

fn decimal(parser: &mut Parser, name: &str, start: &TokenWithSpan) -> Result<FlinkType, ParserError> {
    let given = parameters(parser, 2)?;
    let precision = given.first().copied().unwrap_or(10);
    let scale = given.get(1).copied().unwrap_or(0);
    if precision == 0 || precision > 38 || scale > precision {
        let message = format!(
            "DECIMAL({precision}, {scale}): the precision must be 1 to 38, the scale 0 to the precision"
        );
        return error(&message, start);
    }
    Ok(of(written(name, &given), DataType::Decimal128(precision as u8, scale as i8)))
}

fn timestamp(parser: &mut Parser, name: &str, start: &TokenWithSpan) -> Result<FlinkType, ParserError> {
    let given = parameters(parser, 1)?;
    let unit = match given.first().copied().unwrap_or(6) {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        7..=9 => TimeUnit::Nanosecond,
        _ => return error(&format!("{name} takes a precision from 0 to 9"), start),
    };
    let mut sql = written(name, &given);
    let mut local = name == "TIMESTAMP_LTZ";
    if parser.parse_keywords(&[Keyword::WITH, Keyword::LOCAL, Keyword::TIME, Keyword::ZONE]) {
        local = true;
        sql = sql.replacen("TIMESTAMP", "TIMESTAMP_LTZ", 1);
    } else if parser.parse_keywords(&[Keyword::WITH, Keyword::TIME, Keyword::ZONE]) {
        return error("TIMESTAMP WITH TIME ZONE is not supported; use TIMESTAMP_LTZ", start);
    } else {
        let _ = parser.parse_keywords(&[Keyword::WITHOUT, Keyword::TIME, Keyword::ZONE]);
    }
    Ok(of(sql, DataType::Timestamp(unit, local.then(|| UTC.into()))))
}

fn array(parser: &mut Parser, pending_close: &mut usize, depth: usize) -> Result<FlinkType, ParserError> {
    open(parser)?;
    let element = parse_nested(parser, pending_close, depth + 1)?;
    close(parser, pending_close)?;
    let sql = format!("ARRAY<{}>", element.sql);
    Ok(of(sql, DataType::List(Arc::new(Field::new("item", element.data_type, element.nullable)))))
}

fn map(parser: &mut Parser, pending_close: &mut usize, depth: usize) -> Result<FlinkType, ParserError> {
    open(parser)?;
    let key = parse_nested(parser, pending_close, depth + 1)?;
    parser.expect_token(&Token::Comma)?;
    let value = parse_nested(parser, pending_close, depth + 1)?;
    close(parser, pending_close)?;
    let sql = format!("MAP<{}, {}>", key.sql, value.sql);
    let entries = Fields::from(vec![
        Field::new("keys", key.data_type, false),
        Field::new("values", value.data_type, value.nullable),
    ]);
    let entries = Field::new("entries", DataType::Struct(entries), false);
    Ok(of(sql, DataType::Map(Arc::new(entries), false)))
}

/// `ROW<name type, …>`, or the same in parentheses.
fn row(parser: &mut Parser, pending_close: &mut usize, depth: usize) -> Result<FlinkType, ParserError> {
    let parenthesised = parser.consume_token(&Token::LParen);
    if !parenthesised {
        open(parser)?;
    }
    let mut fields = Vec::new();
    let mut written = Vec::new();
    loop {
        let field = parser.parse_identifier()?;
        refuse_reserved(&field).map_err(|fault| {
            // Errors of the parser carry their place as text.
            let (hint, at) = (fault.hint.unwrap_or_default(), fault.at);
            let text = format!("{}; {hint} at Line: {}, Column: {}", fault.message, at.line, at.column);
            ParserError::ParserError(text)
        })?;
        let inner = parse_nested(parser, pending_close, depth + 1)?;
        if let Token::SingleQuotedString(_) = parser.peek_token_ref().token {
            parser.next_token();
        }
        written.push(format!("`{}` {}", field.value, inner.sql));
        fields.push(Field::new(field.value, inner.data_type, inner.nullable));
        if *pending_close > 0 || !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    if parenthesised {
        parser.expect_token(&Token::RParen)?;
    } else {
        close(parser, pending_close)?;
    }
    Ok(of(format!("ROW<{}>", written.join(", ")), DataType::Struct(fields.into())))
}

fn error<T>(message: &str, at: &TokenWithSpan) -> Result<T, ParserError> {
    Err(ParserError::ParserError(format!("{message}{}", at.span.start)))
}

fn open(parser: &mut Parser) -> Result<(), ParserError> {
    if parser.consume_token(&Token::Lt) {
        return Ok(());
    }
    parser.expected("'<' and the types inside", parser.peek_token())
}

/// Takes one `>`. `>>` closes two levels: the outer one is noted as pending.
fn close(parser: &mut Parser, pending: &mut usize) -> Result<(), ParserError> {
    if *pending > 0 {
        *pending -= 1;
        return Ok(());
    }
    if parser.consume_token(&Token::ShiftRight) {
        *pending += 1;
        return Ok(());
    }
    parser.expect_token(&Token::Gt).map(|_| ())
}

fn parameters(parser: &mut Parser, count_max: usize) -> Result<Vec<u64>, ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(vec![]);
    }
    let mut values = vec![parser.parse_literal_uint()?];
    while values.len() < count_max && parser.consume_token(&Token::Comma) {
        values.push(parser.parse_literal_uint()?);
    }
    parser.expect_token(&Token::RParen)?;
    Ok(values)
}

/// A type's name with its parameters, if it has any.
fn written(name: &str, parameters: &[u64]) -> String {
    if parameters.is_empty() {
        return name.to_string();
    }
    let parameters: Vec<_> = parameters.iter().map(u64::to_string).collect();
    format!("{name}({})", parameters.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expect: &str) {
        match parse_text(sql) {
            Ok(parsed) => {
                assert_eq!(display(&parsed.data_type), expect, "{sql}");
                assert_eq!(parse_text(&parsed.sql).unwrap(), parsed, "{sql} must read back");
            }
            Err(error) => assert_eq!(error.to_string(), format!("sql parser error: {expect}"), "{sql}"),
        }
    }

    #[test]
    fn types_of_flink() {
        check("string", "STRING");
        check("VARCHAR(20) NOT NULL", "STRING");
        check("DECIMAL", "DECIMAL(10, 0)");
        check("NUMERIC(12, 4)", "DECIMAL(12, 4)");
        check("TIMESTAMP(3)", "TIMESTAMP(3)");
        check("TIMESTAMP", "TIMESTAMP(6)");
        check("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)");
        check("TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(0)");
        check("ARRAY<ARRAY<INT>>", "ARRAY<ARRAY<INT>>");
        check("MAP<STRING, ROW<a INT, b ARRAY<DOUBLE>>>", "MAP<STRING, ROW<a INT, b ARRAY<DOUBLE>>>");
        check("ROW(`x y` INT NOT NULL, z BYTES)", "ROW<x y INT, z BYTES>");
    }

    #[test]
    fn bad_types_say_what_is_valid() {
        check("STRNG", "unknown type 'STRNG'; did you mean STRING? at Line: 1, Column: 1");
        check("TIMESTAMP(10)", "TIMESTAMP takes a precision from 0 to 9 at Line: 1, Column: 1");
        check(
            "DECIMAL(40, 2)",
            "DECIMAL(40, 2): the precision must be 1 to 38, the scale 0 to the precision at Line: 1, Column: 1",
        );
        check("ARRAY<INT", "Expected: >, found: EOF");
    }
}
