//! Where an expression that fails while a query runs stands in its file.
//!
//! Planner and optimiser move expressions about and drop their places, so that a place is found again when it is
//! needed: by what the failing part does and what it reads, among the expressions of the statement and of the views
//! and tables that it reads. Nothing is kept for it but the text.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion_sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};
use laxity_operators::ExpressionFault;

use crate::error::{escaped_to, is_secret, masked};
use crate::functions::{DECIMAL_ADD, DECIMAL_DIVIDE, DECIMAL_MULTIPLY, DECIMAL_SUBTRACT, TO_STRING};
use crate::words::{words_of, words_within};

/// Characters of an expression that are shown.
const EXPRESSION_CHARS_MAX: usize = 160;

/// Characters of one value of a row, and of all together.
const VALUE_CHARS_MAX: usize = 60;
const ROW_CHARS_MAX: usize = 300;

/// Places that are named where it may have been any of several.
const PLACES_MAX: usize = 3;

/// A statement, and those that declare what it reads.
#[derive(Debug)]
pub(crate) struct Origin {
    file: PathBuf,
    /// Of the whole file.
    text: Arc<str>,
    span: Span,
    reads: Vec<Arc<Origin>>,
}

impl Origin {
    /// Of a statement of these words.
    pub fn new(
        file: PathBuf,
        text: Arc<str>,
        span: Span,
        words: &[TokenWithSpan],
        declared: impl Fn(&str) -> Option<Arc<Origin>>,
    ) -> Arc<Origin> {
        let names: BTreeSet<&str> = words.iter().filter_map(|word| name_of(&word.token)).collect();
        let reads = names.into_iter().filter_map(declared).collect();
        Arc::new(Origin { file, text, span, reads })
    }

    /// Puts the place in, the expression as it is written, and a row that may be shown.
    pub fn explain(&self, fault: &mut ExpressionFault) {
        fault.message = escaped_to(&masked(&fault.message), EXPRESSION_CHARS_MAX);
        fault.row = shown(std::mem::take(&mut fault.row));
        let found = self.find(fault);
        if found.is_empty() {
            let at = self.span.start;
            fault.place = Some(format!("{}:{}:{}", self.file.display(), at.line, at.column));
            fault.expression = escaped_to(&masked(&fault.expression), EXPRESSION_CHARS_MAX);
            return;
        }
        let mut places: Vec<String> = Vec::new();
        let mut written: Vec<String> = Vec::new();
        for site in &found {
            let place = format!("{}:{}:{}", site.file.display(), site.at.line, site.at.column);
            if places.len() < PLACES_MAX && !places.contains(&place) {
                places.push(place);
            }
            if written.len() < PLACES_MAX && !written.contains(&site.written) {
                written.push(site.written.clone());
            }
        }
        fault.place = Some(places.join(" or "));
        fault.expression = written.join(" or ");
    }

    /// The expressions that are as like the failing one as any: one, unless it is written several times.
    fn find(&self, fault: &ExpressionFault) -> Vec<Site> {
        let call = call_of(&fault.call);
        let mut sites = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = vec![self];
        while let Some(origin) = next.pop() {
            if seen.insert(std::ptr::from_ref(origin)) {
                sites.extend(origin.sites());
                next.extend(origin.reads.iter().map(Arc::as_ref));
            }
        }
        let likeness = |site: &Site| likeness(&site.leaves, &fault.leaves);
        let same_call = sites.iter().any(|site| site.call == call);
        if same_call {
            sites.retain(|site| site.call == call);
        } else {
            // Spelled otherwise than it is planned.
            sites.retain(|site| likeness(site) == 1.0);
        }
        let most = sites.iter().map(likeness).fold(0.0, f64::max);
        sites.retain(|site| likeness(site) >= most);
        sites
    }

    fn sites(&self) -> Vec<Site> {
        let Ok(words) = words_of(&self.text) else { return vec![] };
        let words = words_within(&words, self.span);
        let sites = (0..words.len()).filter_map(|at| call_at(words, at)).filter_map(|(call, range)| {
            let (first, last) = (words.get(range.start)?, words.get(range.end - 1)?);
            Some(Site {
                file: self.file.clone(),
                at: first.span.start,
                written: self.written(first.span.start, last.span.end),
                leaves: leaves(words, &range, &call),
                call,
            })
        });
        sites.collect()
    }

    /// The text between two places, on one line.
    fn written(&self, start: Location, end: Location) -> String {
        let part = &self.text[offset(&self.text, start)..offset(&self.text, end)];
        let words: Vec<&str> = part.split_whitespace().collect();
        escaped_to(&masked(&words.join(" ")), EXPRESSION_CHARS_MAX)
    }
}

/// An expression that may fail.
#[derive(Debug)]
struct Site {
    file: PathBuf,
    at: Location,
    written: String,
    /// As [`call_of`] has it.
    call: String,
    leaves: Vec<String>,
}

/// One name for what is planned and what is written.
fn call_of(planned: &str) -> String {
    match planned {
        DECIMAL_ADD => "+".into(),
        DECIMAL_SUBTRACT => "-".into(),
        DECIMAL_MULTIPLY => "*".into(),
        DECIMAL_DIVIDE => "/".into(),
        TO_STRING => "CAST".into(),
        cast if cast.starts_with("CAST_") => "CAST".into(),
        other => other.strip_prefix("flink_").unwrap_or(other).to_ascii_uppercase(),
    }
}

/// How many leaves two expressions have in common: 1 if all, 0 if none.
fn likeness(a: &[String], b: &[String]) -> f64 {
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let mut left: Vec<&String> = b.iter().collect();
    let mut common = 0;
    for leaf in a {
        if let Some(at) = left.iter().position(|other| *other == leaf) {
            left.swap_remove(at);
            common += 1;
        }
    }
    f64::from(2 * common) / (a.len() + b.len()) as f64
}

/// The call or the operator at a word, with the words of the whole expression.
fn call_at(words: &[TokenWithSpan], at: usize) -> Option<(String, Range<usize>)> {
    match &words[at].token {
        Token::Word(word) if word.quote_style.is_none() => {
            let open = at + 1;
            if !is(words, open, &Token::LParen) || is_keyword(&words[at].token) {
                return None;
            }
            let end = closing(words, open)? + 1;
            match word.value.to_ascii_uppercase().as_str() {
                "MOD" => Some(("%".into(), at..end)),
                name => Some((name.to_owned(), at..end)),
            }
        }
        sign => {
            let binding = binding(sign)?;
            if at == 0 || !ends_operand(&words[at - 1].token) {
                return None;
            }
            let start = operand_before(words, at, binding)?;
            let end = operand_after(words, at + 1, binding)?;
            Some((sign.to_string(), start..end))
        }
    }
}

/// How tightly an operator that computes binds. `None` for all others.
fn binding(token: &Token) -> Option<u8> {
    match token {
        Token::Mul | Token::Div | Token::Mod => Some(2),
        Token::Plus | Token::Minus | Token::StringConcat => Some(1),
        _ => None,
    }
}

/// The first word of the left side of the operator at `at`, which takes in all that binds as tightly.
fn operand_before(words: &[TokenWithSpan], mut at: usize, least: u8) -> Option<usize> {
    loop {
        let mut start = primary_before(words, at)?;
        let signed = |start: usize| {
            start > 0
                && matches!(words[start - 1].token, Token::Minus | Token::Plus)
                && (start == 1 || !ends_operand(&words[start - 2].token))
        };
        while signed(start) {
            start -= 1;
        }
        match start.checked_sub(1) {
            Some(before)
                if binding(&words[before].token).is_some_and(|it| it >= least)
                    && before > 0
                    && ends_operand(&words[before - 1].token) =>
            {
                at = before;
            }
            _ => return Some(start),
        }
    }
}

/// The first word of what ends before `at`: a name, a constant, a call, or what is in parentheses.
fn primary_before(words: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut start = at.checked_sub(1)?;
    match &words[start].token {
        Token::RBracket => start = opening(words, start)?.checked_sub(1)?,
        Token::RParen => {
            start = opening(words, start)?;
            let called = start
                .checked_sub(1)
                .filter(|&name| name_of(&words[name].token).is_some() && !is_keyword(&words[name].token));
            return Some(called.unwrap_or(start));
        }
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("END") => {
            let mut ends = 0;
            return (0..=start).rev().find(|&index| {
                ends += i32::from(is_word(&words[index].token, "END"));
                ends -= i32::from(is_word(&words[index].token, "CASE"));
                ends == 0
            });
        }
        _ => {}
    }
    while start >= 2 && words[start - 1].token == Token::Period {
        start -= 2;
    }
    let is_text = |index: usize| matches!(words[index].token, Token::SingleQuotedString(_));
    let is_unit = start >= 2 && is_text(start - 1) && is_word(&words[start - 2].token, "INTERVAL");
    if is_unit {
        return Some(start - 2);
    }
    let typed = ["TIMESTAMP", "DATE", "TIME"];
    let is_typed =
        start >= 1 && is_text(start) && typed.iter().any(|word| is_word(&words[start - 1].token, word));
    Some(if is_typed { start - 1 } else { start })
}

/// Behind the last word of the right side of an operator, which takes in what binds more tightly.
fn operand_after(words: &[TokenWithSpan], at: usize, binding_of_it: u8) -> Option<usize> {
    let mut end = primary_after(words, at)?;
    while let Some(next) = words.get(end)
        && binding(&next.token).is_some_and(|it| it > binding_of_it)
    {
        end = primary_after(words, end + 1)?;
    }
    Some(end)
}

/// Behind the last word of what begins at `at`.
fn primary_after(words: &[TokenWithSpan], mut at: usize) -> Option<usize> {
    while matches!(words.get(at)?.token, Token::Minus | Token::Plus) {
        at += 1;
    }
    let token = &words[at].token;
    if *token == Token::LParen {
        return Some(closing(words, at)? + 1);
    }
    if is_word(token, "CASE") {
        let mut cases = 0;
        let end = (at..words.len()).find(|&index| {
            cases += i32::from(is_word(&words[index].token, "CASE"));
            cases -= i32::from(is_word(&words[index].token, "END"));
            cases == 0
        });
        return Some(end? + 1);
    }
    if is_word(token, "INTERVAL") {
        return Some((at + 3).min(words.len()));
    }
    if ["TIMESTAMP", "DATE", "TIME"].iter().any(|word| is_word(token, word))
        && matches!(words.get(at + 1)?.token, Token::SingleQuotedString(_))
    {
        return Some(at + 2);
    }
    let mut end = at + 1;
    while is(words, end, &Token::Period) {
        end += 2;
    }
    if is(words, end, &Token::LParen) && name_of(&words[end - 1].token).is_some() {
        end = closing(words, end)? + 1;
    }
    while is(words, end, &Token::LBracket) {
        end = closing(words, end)? + 1;
    }
    Some(end.min(words.len()))
}

/// Columns and constants among some words. Of a CAST without its type.
fn leaves(words: &[TokenWithSpan], range: &Range<usize>, call: &str) -> Vec<String> {
    let mut leaves = Vec::new();
    let mut depth = 0;
    for index in range.clone() {
        match &words[index].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Number(number, _) => leaves.push(number.clone()),
            Token::SingleQuotedString(text) => leaves.push(text.clone()),
            token if depth == 1 && call == "CAST" && is_word(token, "AS") => break,
            token if is_keyword(token) || is(words, index + 1, &Token::Period) => {}
            token if is(words, index + 1, &Token::LParen) && name_of(token).is_some() => {}
            token => leaves.extend(name_of(token).map(str::to_owned)),
        }
    }
    leaves
}

fn name_of(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) => Some(&word.value),
        _ => None,
    }
}

fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// A word before which an expression ends, or at which one begins.
fn is_keyword(token: &Token) -> bool {
    const KEYWORDS: &[&str] = &[
        "SELECT",
        "DISTINCT",
        "ALL",
        "FROM",
        "WHERE",
        "HAVING",
        "GROUP",
        "ORDER",
        "BY",
        "ON",
        "AND",
        "OR",
        "NOT",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "BETWEEN",
        "IN",
        "LIKE",
        "IS",
        "AS",
        "FILTER",
        "OVER",
        "PARTITION",
        "VALUES",
        "EXISTS",
        "UNION",
        "TABLE",
        "WITH",
        "INTERVAL",
        "JOIN",
        "USING",
    ];
    KEYWORDS.iter().any(|keyword| is_word(token, keyword))
}

/// Whether what stands left of an operator may end with this.
fn ends_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket
    ) && !is_keyword(token)
}

fn is(words: &[TokenWithSpan], at: usize, token: &Token) -> bool {
    words.get(at).is_some_and(|word| word.token == *token)
}

/// 1 where a group is opened, -1 where it is closed.
fn step(token: &Token) -> i32 {
    match token {
        Token::LParen | Token::LBracket => 1,
        Token::RParen | Token::RBracket => -1,
        _ => 0,
    }
}

/// Where the group that is opened at `open` is closed.
fn closing(words: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    (open..words.len()).find(|&index| {
        depth += step(&words[index].token);
        depth == 0
    })
}

/// Where the group that is closed at `close` is opened.
fn opening(words: &[TokenWithSpan], close: usize) -> Option<usize> {
    let mut depth = 0;
    (0..=close).rev().find(|&index| {
        depth += step(&words[index].token);
        depth == 0
    })
}

/// Bytes of a text before a place.
fn offset(text: &str, at: Location) -> usize {
    let mut start = 0;
    for _ in 1..at.line {
        start += text[start..].find('\n').map_or(text.len() - start, |end| end + 1);
    }
    let column = usize::try_from(at.column).unwrap_or(1).saturating_sub(1);
    text[start..].char_indices().nth(column).map_or(text.len(), |(index, _)| start + index)
}

/// A row cut to what is read, without what is secret.
fn shown(row: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    let mut chars = 0;
    for (name, value) in row {
        let value =
            if is_secret(&name) { "***".into() } else { escaped_to(&masked(&value), VALUE_CHARS_MAX) };
        let name = escaped_to(&name, VALUE_CHARS_MAX);
        chars += name.chars().count() + value.chars().count();
        if chars > ROW_CHARS_MAX {
            break;
        }
        shown.push((name, value));
    }
    shown
}

#[cfg(test)]
mod tests;
