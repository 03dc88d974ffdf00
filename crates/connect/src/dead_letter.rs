//! Rows that cannot be read: counted, and written down where the table asks for it. They stop no query until there are
//! more of them than the table allows.

mod file;
mod refused;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::file::LetterFile;
pub use self::refused::RefusedRows;
use crate::options::OptionReader;
use crate::root::keep_within;
use crate::{ConnectError, OptionError};

/// Bad rows that are also logged; the others are only counted, so that a bad file does not flood the terminal.
const LOGGED_ROWS_MAX: u64 = 5;

/// Bytes of a bad row that are kept.
const RAW_BYTES_MAX: usize = 4_096;

/// Bytes of a reason that are kept: it may quote a value of any length.
const REASON_BYTES_MAX: usize = 300;

/// A row that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadRow {
    /// Physical line at which it starts, from 1; in files without lines, the row.
    pub line: u64,
    /// Its place among the records that were decoded with it, bad ones included, from 0.
    pub record: usize,
    pub reason: String,
    pub raw: Vec<u8>,
}

impl BadRow {
    pub(crate) fn new(line: u64, reason: impl Into<String>, raw: &[u8]) -> BadRow {
        let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        let raw = raw[..raw.len().min(RAW_BYTES_MAX)].to_vec();
        BadRow { line, record: 0, reason: plain(&reason.into()), raw }
    }

    pub(crate) fn at(self, record: usize) -> BadRow {
        BadRow { record, ..self }
    }
}

/// A reason as a terminal may show it: it quotes what somebody else wrote, at any length and with any character.
fn plain(reason: &str) -> String {
    let kept = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    let mut text = String::with_capacity(kept.len());
    for c in kept.chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    if kept.len() < reason.len() {
        text.push('…');
    }
    text
}

/// The options `laxity.dead-letter.*`.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterOptions {
    path: Option<PathBuf>,
    max: Option<u64>,
}

impl DeadLetterOptions {
    /// Reads them.
    ///
    /// # Errors
    /// Names the one that is wrong.
    pub fn read(options: &OptionReader<'_>) -> Result<DeadLetterOptions, OptionError> {
        let path = options.text("laxity.dead-letter.path").map(|path| options.table().base.join(path));
        if let Some(path) = &path {
            keep_within(options, "laxity.dead-letter.path", path)?;
        }
        let max = options.count("laxity.dead-letter.max", 0)?;
        Ok(DeadLetterOptions { path, max })
    }

    /// The first bad row ends the scan, unless a budget was given.
    pub fn tolerate_none(&mut self) {
        self.max.get_or_insert(0);
    }
}

/// Where a bad row is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterPlace {
    /// A line of a file, from 1; in Parquet a row.
    Line {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
    },
    /// A record of a partitioned log.
    Record {
        /// The topic.
        topic: Arc<str>,
        /// Its partition.
        partition: i32,
        /// Its place there.
        offset: i64,
    },
}

impl fmt::Display for LetterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LetterPlace::Line { file, line } => write!(f, "{file:?} line {line}"),
            LetterPlace::Record { topic, partition, offset } => {
                write!(f, "topic '{topic}', partition {partition}, offset {offset}")
            }
        }
    }
}

/// Where the bad rows of one scan go: counted, the first ones logged, and written as JSON lines where
/// `laxity.dead-letter.path` is set.
pub struct DeadLetters {
    table: String,
    max: Option<u64>,
    out: Option<Arc<LetterFile>>,
    count: u64,
    /// So many of the first were put aside by another process.
    known: u64,
}

impl DeadLetters {
    /// `leads` is false for a scan that follows another one over the same rows.
    ///
    /// # Errors
    /// If their file cannot be opened.
    pub fn open(table: &str, options: &DeadLetterOptions, leads: bool) -> Result<DeadLetters, ConnectError> {
        let out = match options.path.as_ref().filter(|_| leads) {
            Some(path) => Some(LetterFile::open(table, path)?),
            None => None,
        };
        Ok(DeadLetters { table: table.to_owned(), max: options.max, out, count: 0, known: 0 })
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Of a table of which another process has put so many rows aside, which come again: the letters in the file stay, and
    /// others follow them.
    pub(crate) fn going_on(self, known: u64) -> DeadLetters {
        self.out.iter().for_each(|out| out.keep());
        DeadLetters { known, ..self }
    }

    /// A count that goes on from that of another scan.
    #[must_use]
    pub fn after(self, count: u64) -> DeadLetters {
        DeadLetters { count, ..self }
    }

    pub(crate) fn put(&mut self, file: &Path, rows: &[BadRow]) -> Result<(), ConnectError> {
        let place = |row: &BadRow| LetterPlace::Line { file: file.to_owned(), line: row.line };
        self.put_all(rows.iter().map(|row| (place(row), row)))
    }

    /// Puts records aside, each with where it is from, what is wrong with it and its bytes.
    ///
    /// # Errors
    /// If the file cannot be written, or there are more of them than may be.
    pub fn put_records<'a>(
        &mut self,
        records: impl IntoIterator<Item = (LetterPlace, &'a str, &'a [u8])>,
    ) -> Result<(), ConnectError> {
        let rows: Vec<(LetterPlace, BadRow)> =
            records.into_iter().map(|(place, reason, raw)| (place, BadRow::new(0, reason, raw))).collect();
        self.put_all(rows.iter().map(|(place, row)| (place.clone(), row)))
    }

    fn put_all<'a>(
        &mut self,
        rows: impl Iterator<Item = (LetterPlace, &'a BadRow)>,
    ) -> Result<(), ConnectError> {
        let mut text = Vec::new();
        let mut last = None;
        for (place, row) in rows {
            self.count += 1;
            if self.count <= self.known {
                continue;
            }
            if self.count <= LOGGED_ROWS_MAX {
                tracing::warn!(table = %self.table, "bad row at {place}: {}", row.reason);
            }
            let (reason, raw) = (&row.reason, String::from_utf8_lossy(&row.raw));
            let letter = match &place {
                LetterPlace::Line { file, line } => serde_json::json!({
                    "table": self.table,
                    "file": file.to_string_lossy(),
                    "line": line,
                    "reason": reason,
                    "raw": raw,
                }),
                LetterPlace::Record { topic, partition, offset } => serde_json::json!({
                    "table": self.table,
                    "topic": topic.as_ref(),
                    "partition": partition,
                    "offset": offset,
                    "reason": reason,
                    "raw": raw,
                }),
            };
            text.extend_from_slice(letter.to_string().as_bytes());
            text.push(b'\n');
            last = Some((place, row));
        }
        if let Some(out) = self.out.as_ref().filter(|_| !text.is_empty()) {
            out.append(&text)?;
        }
        match (self.max, last) {
            (Some(max), Some((place, row))) if self.count > max => Err(ConnectError::TooManyDeadRows {
                table: self.table.clone(),
                max,
                place,
                reason: row.reason.clone(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_short_and_has_no_control_characters() {
        let quoting = BadRow::new(1, "no number: '\u{1b}[31m\r\n\u{9b}x'", b"");
        assert_eq!(quoting.reason, "no number: '\\u{1b}[31m\\r\\n\\u{9b}x'");
        let long = BadRow::new(1, "é".repeat(10_000), b"").reason;
        assert_eq!(long.len(), REASON_BYTES_MAX + '…'.len_utf8());
    }
}
