//! Texts against patterns: LIKE, SIMILAR TO and regular expressions.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListBuilder, StringArray, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion_common::{Result, exec_err};
use regex::Regex;

use crate::text::texts;
use crate::{FlinkFunction, Parameter, pure};

pub(crate) const FUNCTIONS: &[FlinkFunction] = &[
    FlinkFunction {
        name: "regexp_extract",
        parameters: &[Parameter::Text, Parameter::Text, Parameter::Int],
        least: 2,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: regexp_extract,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_regexp",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Boolean,
        invoke: regexp,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_regexp_replace",
        parameters: &[Parameter::Text],
        least: 3,
        most: 3,
        returns: |_| DataType::Utf8,
        invoke: regexp_replace,
        signature: pure,
    },
    FlinkFunction {
        name: "regexp_count",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Int32,
        invoke: |args, rows| {
            let counted = found(args, rows, |regex, text| Some(matches(regex, text).count() as i32));
            Ok(Arc::new(counted.into_iter().collect::<Int32Array>()))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "regexp_instr",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Int32,
        invoke: |args, rows| {
            let place = |text: &str, at: usize| text[..at].chars().count() as i32 + 1;
            let places = found(args, rows, |regex, text| {
                Some(regex.find(text).map_or(0, |found| place(text, found.start())))
            });
            Ok(Arc::new(places.into_iter().collect::<Int32Array>()))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "regexp_substr",
        parameters: &[Parameter::Text],
        least: 2,
        most: 2,
        returns: |_| DataType::Utf8,
        invoke: |args, rows| {
            let parts =
                found(args, rows, |regex, text| regex.find(text).map(|found| found.as_str().to_string()));
            Ok(Arc::new(parts.into_iter().collect::<StringArray>()))
        },
        signature: pure,
    },
    FlinkFunction {
        name: "regexp_extract_all",
        parameters: &[Parameter::Text, Parameter::Text, Parameter::Int],
        least: 2,
        most: 3,
        returns: |_| DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
        invoke: regexp_extract_all,
        signature: pure,
    },
    FlinkFunction {
        name: "flink_similar",
        parameters: &[Parameter::Text],
        least: 2,
        most: 3,
        returns: |_| DataType::Boolean,
        invoke: |args, rows| matches_pattern(args, rows, similar_regex),
        signature: pure,
    },
    FlinkFunction {
        name: "flink_like",
        parameters: &[Parameter::Text],
        least: 2,
        most: 3,
        returns: |_| DataType::Boolean,
        invoke: |args, rows| matches_pattern(args, rows, like_regex),
        signature: pure,
    },
];

/// Whether texts match patterns of LIKE or SIMILAR TO as a whole.
fn matches_pattern(
    args: &[ArrayRef],
    rows: usize,
    regex_of: fn(&str, Option<char>) -> Option<String>,
) -> Result<ArrayRef> {
    let (text, pattern) = (texts(&args[0]), texts(&args[1]));
    let escape = args.get(2).map(texts);
    let mut compiled: Option<((String, Option<String>), Regex)> = None;
    let mut out = Vec::with_capacity(rows);
    for row in 0..rows {
        if text.is_null(row) || pattern.is_null(row) || escape.is_some_and(|e| e.is_null(row)) {
            out.push(None);
            continue;
        }
        let written = (pattern.value(row).to_string(), escape.map(|e| e.value(row).to_string()));
        if compiled.as_ref().is_none_or(|(known, _)| *known != written) {
            let mut escapes = written.1.as_deref().unwrap_or("").chars();
            let regex = match (escapes.next(), escapes.next()) {
                (_, Some(_)) => None,
                (escape, None) => regex_of(&written.0, escape),
            };
            let regex = regex.and_then(|regex| Regex::new(&regex).ok());
            let Some(regex) = regex else { return exec_err!("'{}' is not a valid pattern", written.0) };
            compiled = Some((written, regex));
        }
        out.push(compiled.as_ref().map(|(_, regex)| regex.is_match(text.value(row))));
    }
    Ok(Arc::new(BooleanArray::from(out)))
}

/// `None` if the escape character stands before anything but itself, `%` and `_`.
fn like_regex(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut regex = String::from("(?s)^");
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            _ if Some(c) == escape => match chars.next()? {
                next if next == c || next == '%' || next == '_' => {
                    regex.push_str(&regex::escape(next.encode_utf8(&mut [0; 4])));
                }
                _ => return None,
            },
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            other => regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    regex.push('$');
    Some(regex)
}

/// `%` and `_` are those of LIKE; `|`, `*`, `+`, `?`, `{n}`, `(…)` and `[…]` those of regular expressions.
fn similar_regex(pattern: &str, escape: Option<char>) -> Option<String> {
    const CLASSES: [(&str, &str); 8] = [
        ("[:ALPHA:]", r"\p{Alphabetic}"),
        ("[:UPPER:]", r"\p{Uppercase}"),
        ("[:LOWER:]", r"\p{Lowercase}"),
        ("[:DIGIT:]", r"\d"),
        ("[:ALNUM:]", r"\p{Alphabetic}\d"),
        ("[:SPACE:]", " "),
        ("[:WHITESPACE:]", r"\s"),
        ("[:", ""),
    ];
    let mut regex = String::from("(?s)^(?:");
    let mut rest = pattern;
    let mut enumerated = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let literal = |c: char| regex::escape(c.encode_utf8(&mut [0; 4]));
        match c {
            _ if Some(c) == escape => {
                let next = rest.chars().next()?;
                rest = &rest[next.len_utf8()..];
                regex.push_str(&literal(next));
            }
            '[' if enumerated => {
                let (name, class) = CLASSES.iter().find(|(name, _)| rest.starts_with(&name[1..]))?;
                if class.is_empty() {
                    return None;
                }
                rest = &rest[name.len() - 1..];
                regex.push_str(class);
            }
            '[' | ']' => {
                enumerated = c == '[';
                regex.push(c);
            }
            '^' | '-' if enumerated => regex.push(c),
            _ if enumerated => regex.push_str(&literal(c)),
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' | '.' | '^' => regex.push(c),
            other => regex.push_str(&literal(other)),
        }
    }
    regex.push_str(")$");
    Some(regex)
}

/// Compiles a pattern once for a run of rows that share it. A pattern that is not valid matches nothing, as in
/// Flink, where these functions give NULL or false then.
#[derive(Default)]
struct PatternCache {
    text: Option<String>,
    compiled: Option<Regex>,
}

impl PatternCache {
    fn get(&mut self, pattern: &str) -> Option<&Regex> {
        if self.text.as_deref() != Some(pattern) {
            self.text = Some(pattern.to_string());
            self.compiled = compiled(pattern);
        }
        self.compiled.as_ref()
    }
}

/// A pattern, compiled once for all batches of a query that has it as a literal. A compiled pattern is a pointer.
fn compiled(pattern: &str) -> Option<Regex> {
    // Patterns that come from data must not fill the memory: they drive each other out.
    const KEPT: usize = 16;
    thread_local! {
        static LATEST: RefCell<VecDeque<(String, Option<Regex>)>> = const { RefCell::new(VecDeque::new()) };
    }
    LATEST.with_borrow_mut(|latest| {
        let known = latest.iter().position(|(text, _)| text == pattern);
        let entry = match known.and_then(|place| latest.remove(place)) {
            Some(entry) => entry,
            None => (pattern.to_string(), Regex::new(pattern).ok()),
        };
        let regex = entry.1.clone();
        latest.push_front(entry);
        latest.truncate(KEPT);
        regex
    })
}

/// Where a pattern is found, as Java goes on: an empty match may stand directly behind another one.
fn matches<'t>(regex: &'t Regex, text: &'t str) -> impl Iterator<Item = Range<usize>> {
    let mut from = Some(0);
    std::iter::from_fn(move || {
        let place = regex.find_at(text, from?)?.range();
        from = if place.is_empty() {
            text[place.end..].chars().next().map(|c| place.end + c.len_utf8())
        } else {
            Some(place.end)
        };
        Some(place)
    })
}

/// What `find` makes of a text and its pattern; NULL if one of them is or the pattern is not valid.
fn found<T>(args: &[ArrayRef], rows: usize, find: impl Fn(&Regex, &str) -> Option<T>) -> Vec<Option<T>> {
    let (text, pattern) = (texts(&args[0]), texts(&args[1]));
    let mut cache = PatternCache::default();
    let each = (0..rows).map(|row| {
        if text.is_null(row) || pattern.is_null(row) {
            return None;
        }
        find(cache.get(pattern.value(row))?, text.value(row))
    });
    each.collect()
}

/// The group of that number, 1 unless it is given, of every match.
fn regexp_extract_all(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, pattern) = (texts(&args[0]), texts(&args[1]));
    let group = args.get(2).map(|array| array.as_primitive::<Int32Type>());
    let mut cache = PatternCache::default();
    let mut out = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        let null = text.is_null(row) || pattern.is_null(row) || group.is_some_and(|g| g.is_null(row));
        let regex = if null { None } else { cache.get(pattern.value(row)) };
        let group = usize::try_from(group.map_or(1, |g| g.value(row))).ok();
        match (regex, group) {
            (Some(regex), Some(group)) if group < regex.captures_len() => {
                let text = text.value(row);
                for place in matches(regex, text) {
                    let captures = regex.captures_at(text, place.start);
                    let part = captures.and_then(|captures| captures.get(group));
                    out.values().append_option(part.map(|found| found.as_str()));
                }
                out.append(true);
            }
            _ => out.append(false),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn regexp_extract(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, pattern) = (texts(&args[0]), texts(&args[1]));
    let group = args.get(2).map(|array| array.as_primitive::<Int32Type>());
    let mut cache = PatternCache::default();
    let mut out = StringBuilder::with_capacity(rows, rows * 8);
    for row in 0..rows {
        let extracted = (|| {
            if text.is_null(row) || pattern.is_null(row) || group.is_some_and(|g| g.is_null(row)) {
                return None;
            }
            let group = usize::try_from(group.map_or(0, |g| g.value(row))).ok()?;
            let captures = cache.get(pattern.value(row))?.captures(text.value(row))?;
            captures.get(group).map(|found| found.as_str())
        })();
        out.append_option(extracted);
    }
    Ok(Arc::new(out.finish()))
}

fn regexp(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, pattern) = (texts(&args[0]), texts(&args[1]));
    let mut cache = PatternCache::default();
    let found = (0..rows).map(|row| {
        if text.is_null(row) || pattern.is_null(row) {
            return None;
        }
        // An empty pattern is found nowhere, in Flink.
        let matches = |regex: &Regex| !regex.as_str().is_empty() && regex.is_match(text.value(row));
        Some(cache.get(pattern.value(row)).is_some_and(matches))
    });
    Ok(Arc::new(found.collect::<BooleanArray>()))
}

fn regexp_replace(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (text, pattern, replacement) = (texts(&args[0]), texts(&args[1]), texts(&args[2]));
    let mut cache = PatternCache::default();
    let mut out = StringBuilder::with_capacity(rows, rows * 8);
    for row in 0..rows {
        if text.is_null(row) || pattern.is_null(row) || replacement.is_null(row) {
            out.append_null();
            continue;
        }
        match cache.get(pattern.value(row)) {
            // Flink quotes the replacement: `$1` in it is plain text.
            Some(regex) => {
                let text = text.value(row);
                let mut kept = 0;
                let mut replaced = String::with_capacity(text.len());
                for place in matches(regex, text) {
                    replaced.push_str(&text[kept..place.start]);
                    replaced.push_str(replacement.value(row));
                    kept = place.end;
                }
                replaced.push_str(&text[kept..]);
                out.append_value(replaced);
            }
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}
