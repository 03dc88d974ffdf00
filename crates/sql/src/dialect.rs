//! What sqlparser does not know of Flink's expressions. Where it has no tree for one, a call with a name of its own
//! stands for it until the query is planned.

use datafusion_sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value,
};
use datafusion_sql::sqlparser::dialect::Dialect;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::Token;

use crate::{data_type, functions};

/// Name of the call that stands for `TABLE name` as an argument.
pub(crate) const TABLE: &str = "__table";

/// Name of the call that stands for `<table> PARTITION BY …` as the argument of a windowing table function:
/// the table as a subquery, then the keys.
pub(crate) const PARTITIONED: &str = "__partitioned";

/// Name of the call that stands for `<table> ORDER BY …` there, which is refused later with its place.
pub(crate) const ORDERED: &str = "__ordered";

/// Flink's lexical rules and the expressions that no dialect of sqlparser knows: `TABLE t` as an argument
/// and casts to Flink's types.
#[derive(Debug)]
pub(crate) struct FlinkDialect;

impl Dialect for FlinkDialect {
    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_' || ch == '$'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_named_fn_args_with_rarrow_operator(&self) -> bool {
        true
    }

    fn supports_subquery_as_function_arg(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_match_recognize(&self) -> bool {
        true
    }

    fn require_interval_qualifier(&self) -> bool {
        true
    }

    fn supports_boolean_literals(&self) -> bool {
        true
    }

    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    fn supports_string_literal_concatenation(&self) -> bool {
        false
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let Token::Word(word) = &parser.peek_token_ref().token else {
            return None;
        };
        if word.quote_style.is_some() {
            return None;
        }
        match word.keyword {
            Keyword::TABLE => Some(parse_table_argument(parser)),
            Keyword::CAST => parse_cast(parser, CastKind::Cast),
            Keyword::TRY_CAST => parse_cast(parser, CastKind::TryCast),
            Keyword::MAP => parse_map(parser),
            _ if word.value.eq_ignore_ascii_case("JSON_OBJECT") => parse_json(parser, true),
            _ if word.value.eq_ignore_ascii_case("JSON_ARRAY") => parse_json(parser, false),
            // Without this, `SELECT a + FROM t` adds a column named FROM.
            keyword if CLAUSES.contains(&keyword) => {
                Some(parser.expected("an expression", parser.peek_token()))
            }
            _ => None,
        }
    }
}

/// Words that end an expression unless quoted.
const CLAUSES: &[Keyword] = &[
    Keyword::FROM,
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::ORDER,
    Keyword::UNION,
    Keyword::JOIN,
    Keyword::ON,
    Keyword::AS,
    Keyword::BY,
    Keyword::WHEN,
    Keyword::THEN,
    Keyword::ELSE,
    Keyword::AND,
    Keyword::OR,
    Keyword::INTO,
];

/// `TABLE name [PARTITION BY a, b] [ORDER BY c]`, or a parenthesised query in place of the name.
fn parse_table_argument(parser: &mut Parser) -> Result<Expr, ParserError> {
    let keyword = parser.next_token();
    let mut argument = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        Expr::Subquery(query)
    } else {
        let name = parser.parse_object_name(false)?;
        let parts = name.0.into_iter().filter_map(|part| part.as_ident().cloned());
        call(TABLE, [Expr::CompoundIdentifier(parts.collect())], &keyword.span)
    };
    if parser.parse_keywords(&[Keyword::PARTITION, Keyword::BY]) {
        let keys = if parser.consume_token(&Token::LParen) {
            let keys = parser.parse_comma_separated(Parser::parse_expr)?;
            parser.expect_token(&Token::RParen)?;
            keys
        } else {
            // `PARTITION BY a, DESCRIPTOR(t)`: the list ends where the next argument begins, and only
            // whether it is a plain column tells which it is.
            let mut keys = vec![parser.parse_expr()?];
            while next_is_another_key(parser) {
                parser.expect_token(&Token::Comma)?;
                keys.push(parser.parse_expr()?);
            }
            keys
        };
        argument = call(PARTITIONED, std::iter::once(argument).chain(keys), &keyword.span);
    }
    if parser.parse_keywords(&[Keyword::ORDER, Keyword::BY]) {
        parser.parse_order_by_expr()?;
        argument = call(ORDERED, [argument], &keyword.span);
    }
    Ok(argument)
}

fn next_is_another_key(parser: &Parser) -> bool {
    let [comma, word, after] = parser.peek_tokens::<3>();
    comma == Token::Comma
        && matches!(&word, Token::Word(w) if !w.value.eq_ignore_ascii_case("DESCRIPTOR") && w.keyword != Keyword::INTERVAL)
        && matches!(after, Token::Comma | Token::RParen | Token::Period)
}

/// `MAP[k1, v1, k2, v2, …]`.
fn parse_map(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let [keyword, bracket] = parser.peek_tokens_with_location::<2>();
    if bracket.token != Token::LBracket {
        return None;
    }
    Some((|| {
        parser.next_token();
        parser.next_token();
        let items = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RBracket)?;
        if items.len() % 2 != 0 {
            return parser.expected("a value behind every key of a MAP", keyword);
        }
        Ok(call(crate::functions::MAP, items, &keyword.span))
    })())
}

/// `JSON_OBJECT([KEY] k VALUE v, … [NULL | ABSENT ON NULL])` and `JSON_ARRAY(v, … [NULL | ABSENT ON NULL])`.
fn parse_json(parser: &mut Parser, is_object: bool) -> Option<Result<Expr, ParserError>> {
    let [name, paren] = parser.peek_tokens_with_location::<2>();
    if paren.token != Token::LParen {
        return None;
    }
    Some((|| {
        parser.next_token();
        parser.next_token();
        // As in Flink: an object shows its NULLs, an array does not.
        let mut writes_nulls = is_object;
        let mut items = Vec::new();
        let mut is_json = Vec::new();
        let mut is_first = true;
        loop {
            if parser.parse_keywords(&[Keyword::NULL, Keyword::ON, Keyword::NULL]) {
                writes_nulls = true;
            } else if parser.parse_keywords(&[Keyword::ABSENT, Keyword::ON, Keyword::NULL]) {
                writes_nulls = false;
            }
            if parser.consume_token(&Token::RParen) {
                break;
            }
            if !is_first {
                parser.expect_token(&Token::Comma)?;
            }
            is_first = false;
            if is_object {
                let _ = parser.parse_keyword(Keyword::KEY);
                items.push(parser.parse_expr()?);
                parser.expect_keyword(Keyword::VALUE)?;
            }
            let value = parser.parse_expr()?;
            is_json.push(is_json_call(&value));
            items.push(value);
        }
        let function = if is_object { functions::JSON_OBJECT } else { functions::JSON_ARRAY };
        let shape = functions::json_shape(writes_nulls, is_json.into_iter());
        let shape = Expr::Value(Value::SingleQuotedString(shape).with_empty_span());
        Ok(call(function, std::iter::once(shape).chain(items), &name.span))
    })())
}

/// Whether a value is JSON already, and not a text to be quoted.
fn is_json_call(value: &Expr) -> bool {
    let Expr::Function(function) = value else { return false };
    let name = function.name.to_string().to_lowercase();
    [functions::JSON_OBJECT, functions::JSON_ARRAY, "json"].contains(&name.as_str())
}

fn parse_cast(parser: &mut Parser, kind: CastKind) -> Option<Result<Expr, ParserError>> {
    let [_, paren] = parser.peek_tokens::<2>();
    if paren != Token::LParen {
        return None;
    }
    Some((|| {
        parser.next_token();
        parser.next_token();
        let expr = Box::new(parser.parse_expr()?);
        parser.expect_keyword(Keyword::AS)?;
        let data_type = data_type::parse(parser)?;
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::Cast { kind, expr, data_type: encode(&data_type), array: false, format: None })
    })())
}

/// An Arrow type in a place where only a type of sqlparser fits.
fn encode(parsed: &data_type::FlinkType) -> DataType {
    encode_text(&parsed.sql)
}

/// The same for a type given as text.
pub(crate) fn encode_text(sql: &str) -> DataType {
    DataType::Custom(ObjectName::from(vec![Ident::new("flink")]), vec![sql.to_string()])
}

/// Undoes [`encode`].
pub(crate) fn decode(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Custom(name, parameters) if name.to_string() == "flink" => {
            parameters.first().map(String::as_str)
        }
        _ => None,
    }
}

/// A call with plain arguments.
pub(crate) fn call(
    name: &str,
    args: impl IntoIterator<Item = Expr>,
    span: &datafusion_sql::sqlparser::tokenizer::Span,
) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_span(*span, name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect(),
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
