//! Mistakes as a user sees them, with the place and the line. What is shown of a script is short, and has no secrets
//! and no control characters.

use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;

use datafusion_sql::sqlparser::tokenizer::{Location, Span};
use regex::Regex;

/// Why a SQL file cannot be run. The user can fix all of these but [`SqlErrorKind::Internal`].
///
/// `Display` gives `file:line:column: message`, the source line with a caret, and a hint where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SqlError {
    /// The file, as it was given.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// What sort of mistake.
    pub kind: SqlErrorKind,
    /// What is wrong and what was expected, with the valid choices.
    pub message: String,
    /// What to do or to write instead.
    pub hint: Option<String>,
    /// The line of the file at which it is wrong.
    pub source_line: String,
}

/// Sorts of mistakes, so that tests and tools need not read the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// Not SQL of Flink's dialect.
    Syntax,
    /// A table or view that does not exist.
    UnknownTable,
    /// A column that does not exist, or a name that fits several.
    UnknownColumn,
    /// A function that does not exist.
    UnknownFunction,
    /// A type that does not exist, or that an operation does not take.
    Type,
    /// A WITH option or SET key, or its value.
    Option,
    /// Valid in Flink, not done here. The message says why.
    Unsupported,
    /// A statement that contradicts itself or an earlier one.
    Invalid,
    /// Our bug.
    Internal,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display().to_string();
        write!(f, "{}:{}:{}: {}", escaped(&file), self.line, self.column, escaped(&masked(&self.message)))?;
        if !self.source_line.is_empty() {
            let column = usize::try_from(self.column).unwrap_or(1);
            let line = masked(&self.source_line);
            let (line, caret) = around(line.trim_end(), column.saturating_sub(1));
            write!(f, "\n  | {line}\n  | {}^", " ".repeat(caret))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {}", escaped(hint))?;
        }
        Ok(())
    }
}

/// A line or a message without secrets: the values of options whose key names one, as in Flink's own list, and what
/// stands before the host of a URL. As many characters as before.
pub(crate) fn masked(text: &str) -> String {
    static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(&format!(
            r"(?i)'[^']*(?:{SECRET})[^']*'\s*=\s*'(?P<value>(?:[^']|'')*)|://(?P<user>[^/@'\s]+)@"
        ))
        .expect("it is one")
    });
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for found in SECRETS.captures_iter(text) {
        let Some(secret) = found.name("value").or(found.name("user")) else { continue };
        shown.push_str(&text[end..secret.start()]);
        shown.extend(secret.as_str().chars().map(|_| '*'));
        end = secret.end();
    }
    shown + &text[end..]
}

/// What a key that names a secret has in it.
const SECRET: &str = "password|passwd|secret|token|credential|api[-_]?key|access[-_]?key|account.key|service-key|\
                      auth-params|basic-auth|jaas|http-headers";

/// Whether a column of this name holds what nobody should see.
pub(crate) fn is_secret(name: &str) -> bool {
    static NAMES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!("(?i){SECRET}")).expect("it is one"));
    NAMES.is_match(name)
}

/// Characters of a line that are shown: more is no longer found again.
const LINE_CHARS_MAX: usize = 160;

/// Characters of a message or a hint that are shown: it may quote what somebody else wrote.
const TEXT_CHARS_MAX: usize = 2_000;

/// The part of a line around the place, and where the place is in it, in characters. One character of the line is one
/// of the part, so that the caret stands under the right one.
fn around(line: &str, place: usize) -> (String, usize) {
    let chars: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let place = place.min(chars.len());
    if chars.len() <= LINE_CHARS_MAX {
        return (chars.into_iter().collect(), place);
    }
    let first = place.saturating_sub(LINE_CHARS_MAX / 2).min(chars.len() - LINE_CHARS_MAX);
    let last = first + LINE_CHARS_MAX;
    let (before, after) = (if first > 0 { "…" } else { "" }, if last < chars.len() { "…" } else { "" });
    let part: String = chars[first..last].iter().collect();
    (format!("{before}{part}{after}"), place - first + before.chars().count())
}

/// Text without control characters, which a terminal would obey, and no longer than is read.
fn escaped(text: &str) -> String {
    escaped_to(text, TEXT_CHARS_MAX)
}

/// The same, of so many characters.
pub(crate) fn escaped_to(text: &str, chars_max: usize) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars().take(chars_max) {
        // Zero-width and direction marks hide what stands there.
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || hides {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    if text.chars().nth(chars_max).is_some() {
        shown.push('…');
    }
    shown
}

/// A mistake whose file is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub at: Location,
    pub kind: SqlErrorKind,
    pub message: String,
    pub hint: Option<String>,
    /// Index of the file, where it is not the one being compiled: a mistake in a table declared earlier.
    pub file: Option<usize>,
}

impl Fault {
    pub fn new(kind: SqlErrorKind, at: Location, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault { at, kind, message: message.into(), hint: None, file: None })
    }

    pub fn unsupported(span: Span, message: impl Into<String>) -> Box<Fault> {
        Fault::new(SqlErrorKind::Unsupported, span.start, message)
    }

    pub fn internal(at: Location, message: impl fmt::Display) -> Box<Fault> {
        Fault::new(SqlErrorKind::Internal, at, format!("internal error: {message} (please report this)"))
    }

    pub fn hint(mut self: Box<Fault>, hint: impl Into<String>) -> Box<Fault> {
        self.hint = Some(hint.into());
        self
    }

    /// Gives the fault a place if it has none.
    pub fn or_at(mut self: Box<Fault>, at: Location) -> Box<Fault> {
        if self.at.line == 0 {
            self.at = at;
        }
        self
    }

    pub fn into_error(self, file: &std::path::Path, text: &str) -> SqlError {
        let line = self.at.line.max(1);
        SqlError {
            file: file.to_path_buf(),
            line,
            column: self.at.column.max(1),
            kind: self.kind,
            message: self.message,
            hint: self.hint,
            source_line: usize::try_from(line - 1)
                .ok()
                .and_then(|index| text.lines().nth(index))
                .unwrap_or("")
                .to_string(),
        }
    }
}

/// The place of something whose place is not known.
pub(crate) const NOWHERE: Location = Location { line: 0, column: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_column() {
        let fault = Fault::new(SqlErrorKind::UnknownColumn, Location { line: 2, column: 8 }, "no column 'x'")
            .hint("did you mean 'y'?");
        let error = fault.into_error("a.sql".as_ref(), "-- first\nSELECT x\n");
        assert_eq!(
            error.to_string(),
            "a.sql:2:8: no column 'x'\n  | SELECT x\n  |        ^\n  hint: did you mean 'y'?"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let line = format!("{}x{}", "a".repeat(1_000), "b".repeat(1_000));
        let text = format!("SELECT\n{line}\n");
        let at = |column| {
            let fault = Fault::new(SqlErrorKind::Syntax, Location { line: 2, column }, "no");
            let shown = fault.into_error("a.sql".as_ref(), &text).to_string();
            let lines: Vec<&str> = shown.lines().collect();
            let caret = lines[2].chars().position(|c| c == '^').unwrap();
            (lines[1].chars().count(), lines[1].chars().nth(caret).unwrap())
        };
        assert_eq!(at(1_001), (4 + 162, 'x'));
        assert_eq!(at(1), (4 + 161, 'a'));
        assert_eq!(at(2_001), (4 + 161, 'b'));
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        let fault = Fault::new(SqlErrorKind::Syntax, NOWHERE, "no column '\u{1b}[2J\u{202e}x'").hint("\u{7}");
        let shown = fault.into_error("a\u{1b}.sql".as_ref(), "SELECT \u{1b}[2J").to_string();
        let expected =
            "a\\u{1b}.sql:1:1: no column '\\u{1b}[2J\\u{202e}x'\n  | SELECT  [2J\n  | ^\n  hint: \\u{7}";
        assert_eq!(shown, expected);
    }

    #[test]
    fn secrets_are_not_shown() {
        for (line, shown) in [
            ("WITH ('a.Password' = 'hunter''2', 'b' = 'c')", "WITH ('a.Password' = '*********', 'b' = 'c')"),
            ("'url' = 'https://me:pass@host/x'", "'url' = 'https://*******@host/x'"),
            ("SET 'fs.s3a.access-key'='AB';", "SET 'fs.s3a.access-key'='**';"),
            ("'path' = 'token.csv', 'user' = 'x'", "'path' = 'token.csv', 'user' = 'x'"),
            ("'secret' = 'not closed", "'secret' = '**********"),
        ] {
            let fault = Fault::new(SqlErrorKind::Syntax, Location { line: 1, column: 3 }, line);
            let error = fault.into_error("a.sql".as_ref(), line).to_string();
            assert_eq!(error, format!("a.sql:1:3: {shown}\n  | {shown}\n  |   ^"));
        }
    }
}
