//! From the words of a file to its statements: sqlparser reads the queries, and what stands around them is read here.
//! What would take it very long, or very deep, is refused before.

use std::collections::BTreeMap;

use datafusion_sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};
use laxity_text::closest;

use crate::data_type;
use crate::dialect::FlinkDialect;
use crate::error::{Fault, NOWHERE, SqlErrorKind};
use crate::reserved::refuse_reserved;
use crate::slips;
use crate::statement::{
    Column, ColumnKind, CreateTable, CreateView, DropObject, Insert, Statement, StatementKind, Watermark,
    WithOption, WithOptions,
};
use crate::words::words_of;

/// A file as statements, parsed one at a time so that an early mistake is reported before a later one.
pub(crate) struct StatementParser<'w> {
    /// Of the file.
    words: &'w [TokenWithSpan],
    /// Where the statements begin that are not parsed yet.
    next: usize,
    /// Over the words of one statement: a copy of all words would be most of what a long file takes.
    parser: Parser<'static>,
}

type Parsed<T> = Result<T, Box<Fault>>;

/// Tokens of one statement at most. Expressions are trees that later stages walk by recursion; this and
/// sqlparser's own depth limit keep the stack bounded.
const STATEMENT_TOKENS_MAX: usize = 20_000;

/// UNION ALLs in one statement: each is a level of the tree.
const UNIONS_MAX: usize = 200;

fn refuse_many_unions(tokens: &[TokenWithSpan]) -> Parsed<()> {
    let mut unions = 0;
    for token in tokens {
        match &token.token {
            Token::SemiColon => unions = 0,
            Token::Word(word) if word.keyword == Keyword::UNION => unions += 1,
            _ => {}
        }
        if unions > UNIONS_MAX {
            let message = format!("more than {UNIONS_MAX} UNION ALL in one statement are not supported");
            return Err(Fault::unsupported(token.span, message).hint("split the statement with views"));
        }
    }
    Ok(())
}

/// CASE and calls with a syntax of their own, one inside the other. The parser reads what is in one a second time where
/// the first reading fails, so a mistake in the n-th costs 2ⁿ.
const SPECIAL_DEPTH_MAX: usize = 10;

fn refuse_deep_calls(tokens: &[TokenWithSpan]) -> Parsed<()> {
    const SPECIAL: &[&str] = &[
        "ARRAY",
        "CEIL",
        "CONVERT",
        "EXISTS",
        "EXTRACT",
        "FLOOR",
        "MATCH",
        "NOT",
        "OVERLAY",
        "POSITION",
        "STRUCT",
        "SUBSTR",
        "SUBSTRING",
        "TRIM",
    ];
    let is_one_of = |token: &Token, words: &[&str]| {
        matches!(token, Token::Word(word) if word.quote_style.is_none()
            && words.contains(&word.value.to_ascii_uppercase().as_str()))
    };
    let (mut open, mut cases, mut nots) = (Vec::new(), 0_usize, 0);
    let mut before = &Token::EOF;
    for token in tokens {
        let is_not = is_one_of(&token.token, &["NOT", "INTERVAL"]);
        nots = if is_not { nots + 1 } else { 0 };
        match &token.token {
            Token::SemiColon => (open, cases) = (Vec::new(), 0),
            Token::LParen | Token::LBracket => open.push(is_one_of(before, SPECIAL)),
            Token::RParen | Token::RBracket => drop(open.pop()),
            word if is_one_of(word, &["CASE"]) => cases += 1,
            word if is_one_of(word, &["END"]) => cases = cases.saturating_sub(1),
            _ => {}
        }
        let special = open.iter().filter(|special| **special).count();
        if special + cases + nots > SPECIAL_DEPTH_MAX {
            let message = format!(
                "more than {SPECIAL_DEPTH_MAX} of CASE, NOT and calls such as SUBSTRING and TRIM one inside the other are \
                 not supported"
            );
            return Err(Fault::unsupported(token.span, message).hint("compute the inner ones in a view"));
        }
        before = &token.token;
    }
    Ok(())
}

/// INTERVALs without a unit in one statement. The parser takes what follows for part of the value, and reads it again at
/// every level once it finds no unit.
const UNITLESS_MAX: usize = 10;

fn refuse_unitless_intervals(tokens: &[TokenWithSpan]) -> Parsed<()> {
    let mut unitless = 0;
    for (index, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::SemiColon => unitless = 0,
            Token::Word(word) if word.keyword == Keyword::INTERVAL && word.quote_style.is_none() => {
                let mut rest = tokens[index + 1..].iter().peekable();
                rest.next_if(|next| matches!(next.token, Token::Minus | Token::Plus));
                let is_text = |next: &&TokenWithSpan| matches!(next.token, Token::SingleQuotedString(_));
                let Some(text) = rest.next().filter(is_text) else { continue };
                if !matches!(rest.next().map(|next| &next.token), Some(Token::Word(_))) {
                    unitless += 1;
                }
                if unitless > UNITLESS_MAX {
                    let fault = slips::unit_in_quotes(tokens, text.span.start);
                    return Err(fault.unwrap_or_else(|| {
                        Fault::new(SqlErrorKind::Syntax, text.span.start, "an INTERVAL needs a unit")
                    }));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The words of a file, if statements can be parsed from them.
pub(crate) fn words_to_parse(text: &str) -> Parsed<Vec<TokenWithSpan>> {
    let words = words_of(text).map_err(|error| slips::untokenized(text, &error))?;
    slips::refuse_invisible(&words)?;
    let mut statements = words.split(|word| word.token == Token::SemiColon);
    if let Some(long) = statements.find(|statement| statement.len() > STATEMENT_TOKENS_MAX) {
        return Err(Fault::unsupported(
            long[0].span,
            format!("statements of more than {STATEMENT_TOKENS_MAX} words are not supported"),
        ));
    }
    refuse_many_unions(&words)?;
    refuse_deep_calls(&words)?;
    refuse_unitless_intervals(&words)?;
    Ok(words)
}

impl<'w> StatementParser<'w> {
    /// Of [`words_to_parse`].
    pub fn new(words: &'w [TokenWithSpan]) -> StatementParser<'w> {
        StatementParser { words, next: 0, parser: Parser::new(&FlinkDialect) }
    }

    /// The next statement, `None` at the end of the file.
    pub fn next_statement(&mut self) -> Parsed<Option<Statement>> {
        let rest = &self.words[self.next..];
        let Some(first) = rest.iter().position(|word| word.token != Token::SemiColon) else {
            return Ok(None);
        };
        let statement = &rest[first..];
        let statement = &statement[..length(statement)];
        self.next += first + statement.len();
        self.parser = Parser::new(&FlinkDialect).with_tokens_with_locations(statement.to_vec());
        let statement = self.statement()?;
        if !self.parser.consume_token(&Token::SemiColon) && self.parser.peek_token_ref().token != Token::EOF {
            return Err(self.unexpected("';' or the end of the file"));
        }
        Ok(Some(statement))
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let start = self.parser.peek_token().span.start;
        let kind = self.statement_kind()?;
        let end = self.parser.get_current_token().span.end;
        Ok(Statement { kind, span: Span::new(start, end) })
    }

    fn statement_kind(&mut self) -> Parsed<StatementKind> {
        let first = self.parser.peek_token();
        let Token::Word(word) = &first.token else {
            if first.token == Token::LParen {
                return Ok(StatementKind::Query(self.query()?));
            }
            return Err(self.unexpected("a statement"));
        };
        match word.value.to_ascii_uppercase().as_str() {
            "SELECT" | "WITH" | "VALUES" => Ok(StatementKind::Query(self.query()?)),
            "CREATE" => self.create(),
            "DROP" => self.drop_object(),
            "INSERT" => Ok(StatementKind::Insert(self.insert()?)),
            "EXECUTE" => self.execute(),
            "BEGIN" => {
                self.parser.next_token();
                self.word("STATEMENT")?;
                self.word("SET")?;
                self.consume(&Token::SemiColon)?;
                self.statement_set()
            }
            "SET" => self.set(),
            "RESET" => {
                self.parser.next_token();
                let at_end = matches!(self.parser.peek_token_ref().token, Token::SemiColon | Token::EOF);
                Ok(StatementKind::Reset(if at_end { None } else { Some(self.key()?) }))
            }
            "EXPLAIN" => {
                self.parser.next_token();
                if !self.parser.parse_keywords(&[Keyword::PLAN, Keyword::FOR]) {
                    while self.accept_word("ESTIMATED_COST")
                        || self.accept_word("CHANGELOG_MODE")
                        || self.accept_word("JSON_EXECUTION_PLAN")
                        || self.accept_word("PLAN_ADVICE")
                    {
                        let _ = self.parser.consume_token(&Token::Comma);
                    }
                }
                let inner = self.statement()?;
                if !matches!(
                    inner.kind,
                    StatementKind::Query(_) | StatementKind::Insert(_) | StatementKind::StatementSet(_)
                ) {
                    return Err(Fault::unsupported(inner.span, "EXPLAIN takes a query or an INSERT"));
                }
                Ok(StatementKind::Explain(Box::new(inner)))
            }
            other => Err(unsupported_statement(other, first.span)),
        }
    }

    fn create(&mut self) -> Parsed<StatementKind> {
        let create = self.parser.next_token();
        if self.parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]) {
            return Err(Fault::unsupported(create.span, "CREATE OR REPLACE is not supported")
                .hint("write DROP … IF EXISTS before the CREATE"));
        }
        let temporary = self.accept_word("TEMPORARY");
        let object = self.parser.peek_token();
        if self.accept_word("TABLE") {
            return Ok(StatementKind::CreateTable(Box::new(self.create_table()?)));
        }
        if self.accept_word("VIEW") {
            return Ok(StatementKind::CreateView(self.create_view()?));
        }
        let what = object.token.to_string().to_ascii_uppercase();
        if ["FUNCTION", "CATALOG", "DATABASE", "MODEL", "SYSTEM", "MATERIALIZED"].contains(&what.as_str()) {
            return Err(Fault::unsupported(object.span, format!("CREATE {what} is not supported"))
                .hint("CREATE TABLE and CREATE VIEW are"));
        }
        Err(self.unexpected(if temporary { "TABLE or VIEW" } else { "TABLE, VIEW or TEMPORARY" }))
    }

    fn create_table(&mut self) -> Parsed<CreateTable> {
        let if_not_exists = self.if_not_exists();
        let name = self.name()?;
        let mut table = CreateTable {
            name,
            if_not_exists,
            columns: vec![],
            watermark: None,
            primary_key: vec![],
            partitioned_by: vec![],
            options: WithOptions { entries: BTreeMap::new(), at: NOWHERE },
        };
        if !self.parser.consume_token(&Token::LParen) {
            let next = self.parser.peek_token();
            if self.accept_word("AS") || self.accept_word("LIKE") || self.accept_word("WITH") {
                return Err(Fault::unsupported(
                    next.span,
                    "CREATE TABLE without a list of columns is not supported",
                )
                .hint("name the columns: CREATE TABLE t (a INT, …) WITH (…)"));
            }
            return Err(self.unexpected("'(' and the columns"));
        }
        loop {
            self.table_item(&mut table)?;
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.consume(&Token::RParen)?;
        if self.accept_word("COMMENT") {
            self.string("the comment")?;
        }
        let next = self.parser.peek_token();
        if self.accept_word("DISTRIBUTED") {
            return Err(Fault::unsupported(next.span, "DISTRIBUTED BY is not supported"));
        }
        if self.accept_word("PARTITIONED") {
            self.word("BY")?;
            self.consume(&Token::LParen)?;
            if !self.parser.consume_token(&Token::RParen) {
                table.partitioned_by = self.identifiers()?;
                self.consume(&Token::RParen)?;
            }
        }
        let with = self.parser.peek_token();
        table.options.at = table.name.span.start;
        if self.accept_word("WITH") {
            table.options = self.with_options(with.span.start)?;
        }
        let next = self.parser.peek_token();
        if self.accept_word("LIKE") {
            return Err(Fault::unsupported(next.span, "CREATE TABLE … LIKE is not supported")
                .hint("repeat the columns and options"));
        }
        if self.accept_word("AS") {
            return Err(Fault::unsupported(next.span, "CREATE TABLE … AS is not supported")
                .hint("write CREATE TABLE with its columns, then INSERT INTO … SELECT"));
        }
        Ok(table)
    }

    fn table_item(&mut self, table: &mut CreateTable) -> Parsed<()> {
        let start = self.parser.peek_token();
        let next = self.parser.peek_nth_token(1).token;
        if self.is_word(&start.token, "WATERMARK") && self.is_word(&next, "FOR") {
            self.parser.next_token();
            self.word("FOR")?;
            let column = self.name()?;
            self.word("AS")?;
            let at = self.parser.peek_token().span.start;
            let expr = self.parser.parse_expr().map_err(|e| self.fault(e))?;
            if table.watermark.is_some() {
                return Err(Fault::new(
                    SqlErrorKind::Invalid,
                    start.span.start,
                    "a table has one WATERMARK at most",
                ));
            }
            table.watermark = Some(Watermark { column, expr, at });
            return Ok(());
        }
        if self.is_word(&start.token, "CONSTRAINT") && matches!(next, Token::Word(_)) {
            self.parser.next_token();
            self.name()?;
        }
        if self.parser.parse_keywords(&[Keyword::PRIMARY, Keyword::KEY]) {
            self.consume(&Token::LParen)?;
            table.primary_key = self.identifiers()?;
            self.consume(&Token::RParen)?;
            return self.not_enforced(start.span);
        }
        let name = self.parser.parse_identifier().map_err(|e| self.fault(e))?;
        refuse_reserved(&name)?;
        if self.accept_word("AS") {
            let expr = self.parser.parse_expr().map_err(|e| self.fault(e))?;
            table.columns.push(Column { name, kind: ColumnKind::Computed(Box::new(expr)) });
        } else {
            let data_type = data_type::parse(&mut self.parser).map_err(|e| self.type_fault(e))?;
            let metadata = self.parser.peek_token();
            if self.accept_word("METADATA") {
                let key = match self.accept_word("FROM") {
                    true => self.string("the metadata's key in quotes, such as 'file.path'")?,
                    false => name.value.clone(),
                };
                let is_virtual = self.accept_word("VIRTUAL");
                let at = metadata.span.start;
                table
                    .columns
                    .push(Column { name, kind: ColumnKind::Metadata { data_type, key, is_virtual, at } });
                if self.accept_word("COMMENT") {
                    self.string("the comment")?;
                }
                return Ok(());
            }
            if self.parser.parse_keywords(&[Keyword::PRIMARY, Keyword::KEY]) {
                table.primary_key = vec![name.clone()];
                self.not_enforced(metadata.span)?;
            }
            table.columns.push(Column { name, kind: ColumnKind::Physical(data_type) });
        }
        if self.accept_word("COMMENT") {
            self.string("the comment")?;
        }
        Ok(())
    }

    fn not_enforced(&mut self, span: Span) -> Parsed<()> {
        if self.accept_word("NOT") {
            return self.word("ENFORCED");
        }
        Err(Fault::unsupported(span, "a PRIMARY KEY must be NOT ENFORCED: a stream cannot check it")
            .hint("write PRIMARY KEY (…) NOT ENFORCED"))
    }

    fn with_options(&mut self, at: Location) -> Parsed<WithOptions> {
        let mut options = WithOptions { at, entries: BTreeMap::new() };
        self.consume(&Token::LParen)?;
        loop {
            let key_at = self.parser.peek_token().span.start;
            let written = self.parser.peek_token().token;
            let key =
                self.string("an option name in quotes, such as 'connector'").map_err(
                    |fault| match written {
                        Token::Word(word) => {
                            fault.hint(format!("write '{}' = '…', both in single quotes", word.value))
                        }
                        _ => fault,
                    },
                )?;
            self.consume(&Token::Eq)?;
            let TokenWithSpan { token: written, span } = self.parser.peek_token();
            let value_at = span.start;
            let value = self.string("the option's value in quotes").map_err(|fault| match written {
                Token::Word(word) => fault.hint(format!("write '{key}' = '{}'", word.value)),
                Token::Number(number, _) => fault.hint(format!("write '{key}' = '{number}'")),
                _ => fault,
            })?;
            if options.entries.contains_key(&key) {
                return Err(Fault::new(
                    SqlErrorKind::Option,
                    key_at,
                    format!("option '{key}' is given twice"),
                ));
            }
            options.entries.insert(key, WithOption { value, key_at, value_at });
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.consume(&Token::RParen)?;
        Ok(options)
    }

    fn create_view(&mut self) -> Parsed<CreateView> {
        let if_not_exists = self.if_not_exists();
        let name = self.name()?;
        let mut columns = vec![];
        if self.parser.consume_token(&Token::LParen) {
            columns = self.identifiers()?;
            self.consume(&Token::RParen)?;
        }
        if self.accept_word("COMMENT") {
            self.string("the comment")?;
        }
        self.word("AS")?;
        Ok(CreateView { name, if_not_exists, columns, query: self.query()? })
    }

    fn drop_object(&mut self) -> Parsed<StatementKind> {
        self.parser.next_token();
        self.accept_word("TEMPORARY");
        let object = if self.accept_word("TABLE") {
            DropObject::Table
        } else if self.accept_word("VIEW") {
            DropObject::View
        } else {
            return Err(self.unexpected("TABLE or VIEW"));
        };
        let if_exists = self.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        Ok(StatementKind::Drop { object, name: self.name()?, if_exists })
    }

    fn insert(&mut self) -> Parsed<Insert> {
        let start = self.parser.peek_token().span;
        self.word("INSERT")?;
        let next = self.parser.peek_token();
        if self.accept_word("OVERWRITE") {
            return Err(
                Fault::unsupported(next.span, "INSERT OVERWRITE is for batch jobs").hint("write INSERT INTO")
            );
        }
        self.word("INTO")?;
        self.accept_word("TABLE");
        let table = self.name()?;
        let next = self.parser.peek_token();
        if self.accept_word("PARTITION") {
            return Err(Fault::unsupported(next.span, "INSERT INTO … PARTITION is not supported")
                .hint("put the partition's value into the SELECT"));
        }
        let mut columns = vec![];
        let [paren, word] = self.parser.peek_tokens::<2>();
        let is_list = paren == Token::LParen
            && !["SELECT", "WITH", "VALUES"].iter().any(|keyword| self.is_word(&word, keyword))
            && word != Token::LParen;
        if is_list {
            self.parser.next_token();
            columns = self.identifiers()?;
            self.consume(&Token::RParen)?;
        }
        let query_at = self.parser.peek_token_ref().span.start;
        let query = self.query()?;
        let end = self.parser.get_current_token().span.end;
        Ok(Insert { table, columns, query, query_at, span: Span::new(start.start, end) })
    }

    fn execute(&mut self) -> Parsed<StatementKind> {
        self.parser.next_token();
        if self.accept_word("STATEMENT") {
            self.word("SET")?;
            self.word("BEGIN")?;
            return self.statement_set();
        }
        if self.is_word(&self.parser.peek_token().token, "INSERT") {
            return Ok(StatementKind::Insert(self.insert()?));
        }
        Err(self.unexpected("STATEMENT SET or INSERT"))
    }

    fn statement_set(&mut self) -> Parsed<StatementKind> {
        let mut inserts = vec![];
        loop {
            while self.parser.consume_token(&Token::SemiColon) {}
            let next = self.parser.peek_token();
            if self.accept_word("END") {
                if inserts.is_empty() {
                    return Err(Fault::new(
                        SqlErrorKind::Invalid,
                        next.span.start,
                        "a STATEMENT SET needs at least one INSERT",
                    ));
                }
                return Ok(StatementKind::StatementSet(inserts));
            }
            if !self.is_word(&next.token, "INSERT") {
                return Err(self.unexpected("INSERT or END"));
            }
            inserts.push(self.insert()?);
            self.consume(&Token::SemiColon)?;
        }
    }

    fn set(&mut self) -> Parsed<StatementKind> {
        self.parser.next_token();
        let key = self.key()?;
        self.consume(&Token::Eq)?;
        if let Token::SingleQuotedString(value) = self.parser.peek_token().token {
            self.parser.next_token();
            return Ok(StatementKind::Set { key, value });
        }
        let value = self.raw_words(|_| true);
        if value.is_empty() {
            return Err(self.unexpected("a value"));
        }
        Ok(StatementKind::Set { key, value })
    }

    /// A SET key, quoted or not.
    fn key(&mut self) -> Parsed<Ident> {
        let start = self.parser.peek_token();
        if let Token::SingleQuotedString(key) = start.token {
            self.parser.next_token();
            return Ok(Ident::with_span(start.span, key));
        }
        let key = self.raw_words(|token| *token != Token::Eq);
        if key.is_empty() {
            return Err(self.unexpected("a key in quotes, such as 'laxity.latency.target'"));
        }
        Ok(Ident::with_span(start.span, key))
    }

    /// Text up to the end of the statement or a token that is refused; a gap in the file is one space.
    fn raw_words(&mut self, accept: impl Fn(&Token) -> bool) -> String {
        let mut text = String::new();
        let mut end: Option<Location> = None;
        loop {
            let next = self.parser.peek_token();
            if matches!(next.token, Token::SemiColon | Token::EOF) || !accept(&next.token) {
                return text;
            }
            if end.is_some_and(|end| end != next.span.start) {
                text.push(' ');
            }
            text.push_str(&next.token.to_string());
            end = Some(next.span.end);
            self.parser.next_token();
        }
    }

    fn query(&mut self) -> Parsed<Box<datafusion_sql::sqlparser::ast::Query>> {
        let query = self.parser.parse_query().map_err(|e| self.fault(e))?;
        Ok(query)
    }

    fn if_not_exists(&mut self) -> bool {
        self.parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS])
    }

    /// A table's name. There is one catalog and one database, whose names may stand before it.
    fn name(&mut self) -> Parsed<Ident> {
        let name = self.parser.parse_object_name(false).map_err(|e| self.fault(e))?;
        let name = last_part(&name)?;
        refuse_reserved(&name)?;
        Ok(name)
    }

    fn identifiers(&mut self) -> Parsed<Vec<Ident>> {
        let names = self.parser.parse_comma_separated(Parser::parse_identifier).map_err(|e| self.fault(e))?;
        names.iter().try_for_each(refuse_reserved)?;
        Ok(names)
    }

    fn string(&mut self, expected: &str) -> Parsed<String> {
        match self.parser.peek_token().token {
            Token::SingleQuotedString(text) => {
                self.parser.next_token();
                Ok(text)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn is_word(&self, token: &Token, word: &str) -> bool {
        matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(&self.parser.peek_token_ref().token, word);
        if found {
            self.parser.next_token();
        }
        found
    }

    fn word(&mut self, word: &str) -> Parsed<()> {
        if self.accept_word(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }

    fn consume(&mut self, token: &Token) -> Parsed<()> {
        if self.parser.consume_token(token) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{token}'")))
    }

    fn unexpected(&self, expected: &str) -> Box<Fault> {
        let found = self.parser.peek_token();
        Fault::new(
            SqlErrorKind::Syntax,
            self.place(&found),
            format!("expected {expected}, found {}", describe(&found.token)),
        )
    }

    /// A token's place; that of the end of the file is just after its last word.
    fn place(&self, token: &TokenWithSpan) -> Location {
        if token.span.start.line > 0 {
            return token.span.start;
        }
        self.words
            .iter()
            .rev()
            .find(|t| t.token != Token::EOF)
            .map_or(Location { line: 1, column: 1 }, |t| t.span.end)
    }

    fn fault(&self, error: ParserError) -> Box<Fault> {
        let mut fault = from_parser(error, SqlErrorKind::Syntax);
        if fault.at == NOWHERE {
            fault.at = self.place(&self.parser.peek_token());
        }
        if fault.message.contains("NTERVAL requires a unit")
            && let Some(fault) = slips::unit_in_quotes(self.words, fault.at)
        {
            return fault;
        }
        fault
    }

    fn type_fault(&self, error: ParserError) -> Box<Fault> {
        let mut fault = self.fault(error);
        if !fault.message.starts_with("expected") {
            fault.kind = SqlErrorKind::Type;
        }
        fault
    }
}

/// Of the first statement of these words, with its semicolon. A STATEMENT SET ends with its END.
fn length(words: &[TokenWithSpan]) -> usize {
    let is = |at: usize, text: &str| {
        matches!(words.get(at).map(|word| &word.token), Some(Token::Word(word))
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
    };
    let mut is_set = false;
    for (at, word) in words.iter().enumerate() {
        is_set |= is(at, "STATEMENT") && is(at + 1, "SET");
        let ends = word.token == Token::SemiColon && (!is_set || is(at - 1, "END"));
        if ends {
            return at + 1;
        }
    }
    words.len()
}

/// Splits the place off a message of sqlparser, which carries it as text.
pub(crate) fn from_parser(error: ParserError, kind: SqlErrorKind) -> Box<Fault> {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => {
            return Fault::new(
                SqlErrorKind::Unsupported,
                NOWHERE,
                "expressions and queries nested this deep are not supported",
            );
        }
    };
    let (message, at) = match text.rsplit_once(" at Line: ") {
        Some((message, place)) => match place.split_once(", Column: ") {
            Some((line, column)) => {
                let number = |text: &str| text.trim().parse().unwrap_or(0);
                (message.to_string(), Location { line: number(line), column: number(column) })
            }
            None => (text, NOWHERE),
        },
        None => (text, NOWHERE),
    };
    let message = match message.strip_prefix("Expected: ") {
        Some(rest) => format!(
            "expected {}",
            rest.replace("found: EOF", "found the end of the file").replace("found: ", "found ")
        ),
        None => first_lower(&message),
    };
    let kind = if message.starts_with("unknown type") || message.starts_with("type ") {
        SqlErrorKind::Type
    } else {
        kind
    };
    Fault::new(kind, at, message)
}

fn first_lower(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

fn describe(token: &Token) -> String {
    match token {
        Token::EOF => "the end of the file".into(),
        other => format!("'{other}'"),
    }
}

/// The table's own name of `default_catalog.default_database.t`.
pub(crate) fn last_part(name: &ObjectName) -> Parsed<Ident> {
    let idents: Vec<_> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    match idents.as_slice() {
        [table] => Ok((*table).clone()),
        [database, table] if database.value == "default_database" => Ok((*table).clone()),
        [catalog, database, table]
            if catalog.value == "default_catalog" && database.value == "default_database" =>
        {
            Ok((*table).clone())
        }
        [first, ..] => Err(Fault::new(
            SqlErrorKind::UnknownTable,
            first.span.start,
            format!("unknown database '{}'; there is one, default_catalog.default_database", first.value),
        )
        .hint("write the table's name alone")),
        [] => Err(Fault::new(SqlErrorKind::Syntax, NOWHERE, "expected a name")),
    }
}

fn unsupported_statement(word: &str, span: Span) -> Box<Fault> {
    const KNOWN: &[&str] = &[
        "SELECT", "WITH", "VALUES", "CREATE", "DROP", "INSERT", "EXECUTE", "BEGIN", "SET", "RESET", "EXPLAIN",
    ];
    const REASONS: &[(&str, &str)] = &[
        ("UPDATE", "streams are append-only"),
        ("DELETE", "streams are append-only"),
        ("TRUNCATE", "streams are append-only"),
        ("ALTER", "tables live for one run"),
        ("USE", "there is one catalog and one database"),
        ("SHOW", "this is a file to run, not a console"),
        ("DESCRIBE", "this is a file to run, not a console"),
        ("DESC", "this is a file to run, not a console"),
        ("ADD", "nothing is loaded from jars"),
        ("REMOVE", "nothing is loaded from jars"),
        ("LOAD", "there are no modules"),
        ("UNLOAD", "there are no modules"),
        ("ANALYZE", "plans do not depend on statistics"),
        ("CALL", "there are no procedures"),
        ("COMPILE", "plans are made at each start"),
        ("STOP", "stop the process instead"),
    ];
    if let Some((_, reason)) = REASONS.iter().find(|(known, _)| *known == word) {
        return Fault::unsupported(span, format!("{word} is not supported: {reason}"));
    }
    let fault = Fault::new(
        SqlErrorKind::Syntax,
        span.start,
        format!("expected a statement, found '{word}'; statements begin with {}", KNOWN.join(", ")),
    );
    match closest(word, KNOWN.iter().copied()) {
        Some(near) => fault.hint(format!("did you mean {near}?")),
        None => fault,
    }
}
