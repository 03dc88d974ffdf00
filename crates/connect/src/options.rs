//! The WITH clause as every connector and format reads it, so that all mistakes in it are told in the same way. Values
//! are written as in Flink.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use laxity_text::{closest, parse_flink_bytes, parse_flink_duration};

use crate::root::ROOT_OPTION;
use crate::{OptionError, TableSpec};

/// Options of a table's WITH clause that others read: the engine and SQL. Accepted on every table.
pub const ENGINE_OPTIONS: &[&str] = &["laxity.max.event.ahead"];

/// Reads a WITH clause. It remembers which keys were asked for, so that the list of valid keys in the error
/// about an unknown one cannot be out of date.
#[derive(Clone)]
pub struct OptionReader<'a> {
    table: &'a TableSpec,
    /// Stands before every key.
    prefix: String,
    asked: Rc<RefCell<BTreeSet<String>>>,
}

impl<'a> OptionReader<'a> {
    /// Of a table whose options nobody has asked for.
    pub fn new(table: &'a TableSpec) -> OptionReader<'a> {
        OptionReader { table, prefix: String::new(), asked: Rc::default() }
    }

    /// The same with this before every key: `value.` finds 'value.json.encode.decimal-as-plain-number'.
    #[must_use]
    pub fn scoped(&self, prefix: &str) -> OptionReader<'a> {
        OptionReader { prefix: prefix.to_owned(), ..self.clone() }
    }

    /// The same without anything before the keys.
    #[must_use]
    pub fn of_table(&self) -> OptionReader<'a> {
        self.scoped("")
    }

    /// True where the options are those of a record's key.
    pub(crate) fn is_of_key(&self) -> bool {
        self.prefix == "key."
    }

    /// The table.
    pub fn table(&self) -> &'a TableSpec {
        self.table
    }

    /// An error about an option.
    pub fn error(&self, key: &str, message: impl Into<String>) -> OptionError {
        let key = format!("{}{key}", self.prefix);
        OptionError { table: self.table.name.clone(), key, message: message.into() }
    }

    /// An option as it is given.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        let key = format!("{}{key}", self.prefix);
        let text = self.table.options.get(&key).map(String::as_str);
        self.asked.borrow_mut().insert(key);
        text
    }

    /// All options that begin so, without that.
    pub fn all_of(&self, start: &str) -> Vec<(&'a str, &'a str)> {
        self.asked.borrow_mut().insert(format!("{start}*"));
        let given = self.table.options.iter();
        let given = given.filter_map(|(key, value)| Some((key.strip_prefix(start)?, value.as_str())));
        let given: Vec<(&str, &str)> = given.collect();
        let keys = given.iter().map(|(key, _)| format!("{start}{key}"));
        self.asked.borrow_mut().extend(keys);
        given
    }

    /// An option that must be there; `what` is what it holds.
    ///
    /// # Errors
    /// If it is missing.
    pub fn required(&self, key: &str, what: &str) -> Result<&'a str, OptionError> {
        self.text(key).ok_or_else(|| self.error(key, format!("missing; give {what}")))
    }

    /// An option that `parse` makes something of; it answers `None` to a value that it does not understand.
    ///
    /// # Errors
    /// Says what was `expected`.
    pub fn parsed<T>(
        &self,
        key: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, OptionError> {
        self.text(key)
            .map(|text| {
                parse(text.trim()).ok_or_else(|| self.error(key, format!("'{text}' is not {expected}")))
            })
            .transpose()
    }

    /// One of some names.
    ///
    /// # Errors
    /// Lists them if it is none.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, OptionError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                let hint = did_you_mean(text, names.iter().copied());
                Err(self.error(key, format!("'{text}' is not known{hint}; expected {}", quoted(&names))))
            }
        }
    }

    /// The same where it must be there.
    ///
    /// # Errors
    /// If it is missing or none of them.
    pub fn required_choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, OptionError> {
        self.choice(key, choices)?.ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.error(key, format!("missing; expected {}", quoted(&names)))
        })
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, OptionError> {
        self.parsed(key, "'true' or 'false'", |text| match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A whole number, at least `min`.
    ///
    /// # Errors
    /// If it is none.
    pub fn count(&self, key: &str, min: u64) -> Result<Option<u64>, OptionError> {
        self.parsed(key, &format!("a whole number from {min} on"), |text| {
            text.parse().ok().filter(|n| *n >= min)
        })
    }

    /// A duration as Flink writes it; a number alone is milliseconds.
    ///
    /// # Errors
    /// If it is none.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, OptionError> {
        self.parsed(key, "a duration such as '500 ms', '10 s', '5 min', '1 h' or '2 d'", |text| {
            parse_flink_duration(text).ok()
        })
    }

    /// A size as Flink writes it: powers of 1 024.
    ///
    /// # Errors
    /// If it is none.
    pub fn bytes(&self, key: &str) -> Result<Option<u64>, OptionError> {
        self.parsed(key, "a size such as '64 kb', '256 mb' or '1 gb'", |text| parse_flink_bytes(text).ok())
    }

    /// One ASCII character; `\t` may be written as such.
    pub(crate) fn character(&self, key: &str) -> Result<Option<u8>, OptionError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match text.as_bytes() {
            b"\\t" => Ok(Some(b'\t')),
            [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(Some(*byte)),
            _ => Err(self.error(key, format!("'{text}' is not one ASCII character (or '\\t')"))),
        }
    }

    /// To be called when every key has been asked for.
    ///
    /// # Errors
    /// Refuses the ones that nobody asked for.
    pub fn finish(&self) -> Result<(), OptionError> {
        let asked = self.asked.borrow();
        for key in self.table.options.keys() {
            let chooses = key == "connector" || key == ROOT_OPTION;
            let is_ours = chooses || ENGINE_OPTIONS.contains(&key.as_str());
            if !asked.contains(key) && !is_ours {
                let valid: Vec<&str> = asked.iter().map(String::as_str).collect();
                let hint = did_you_mean(key, valid.iter().copied().chain(ENGINE_OPTIONS.iter().copied()));
                return Err(
                    self.error(key, format!("unknown option{hint}; valid ones: {}", valid.join(", ")))
                );
            }
        }
        Ok(())
    }
}

/// Whether the value of an option may be one that is not to be shown to anyone: passwords, keys, tokens, also where the
/// option's name is misspelt.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token", "credential", "user-info", "sasl", "ssl"]
        .iter()
        .any(|part| key.contains(part))
}

/// Names as a sentence has them.
pub(crate) fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

fn did_you_mean<'a>(given: &str, valid: impl Iterator<Item = &'a str>) -> String {
    closest(given, valid).map(|name| format!(", did you mean '{name}'?")).unwrap_or_default()
}
