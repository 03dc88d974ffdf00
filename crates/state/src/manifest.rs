//! The manifest of a checkpoint: JSON that a person can read, and that says of itself whether it is whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version that this program writes. It reads this one and older ones.
///
/// 2: a table may be in several batches, and groups of a window's part in a table of their own. 3: that table may have the
/// groups of several parts, and a file may be that of checkpoints before. 4: rows of a source may be counted from a place
/// amid its records. 5: what is in one file with others is compressed. 6: keys and states of many groups that take more rows are in tables
/// of their own.
pub const VERSION: u32 = 7;

/// A checkpoint of a query, but for the tables of its operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Manifest {
    /// Of the format: [`VERSION`].
    pub version: u32,
    /// The query's name.
    pub query: String,
    /// From 1 on; it grows.
    pub checkpoint: u64,
    /// When it was taken, milliseconds since 1970.
    pub taken_unix_ms: i64,
    /// All inputs had ended and all results were written: nothing is left to be done.
    pub is_finished: bool,
    /// The query's operators, as `explain` has them: what it is restored into must read the same.
    pub shape: Vec<String>,
    /// How far it had read.
    pub sources: Vec<SourceEntry>,
    /// Rows in, out, late …, since it began.
    pub counts: BTreeMap<String, u64>,
    /// What its outputs held.
    pub outputs: Vec<OutputEntry>,
    /// What its operators held.
    pub instances: Vec<InstanceEntry>,
    /// All files beside this one.
    pub files: Vec<StoredFile>,
}

/// How far a query has read a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SourceEntry {
    /// Of the dataflow.
    pub node: usize,
    /// The table's name.
    pub table: String,
    /// It has got all that there is.
    pub has_ended: bool,
    /// Rows that it was given, or left out when it began.
    pub rows: u64,
    /// Rows before that place which could not be read, beside those.
    pub dead_rows: u64,
    /// Records of the table before those that rows and dead rows are counted from: it began amid it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub after_records: u64,
    /// Columns that were read, by it and those who read with it: a row is only refused for a value that somebody reads, so
    /// rows count alike only where these are read again.
    pub columns: Vec<String>,
    /// False of a pipe, which gives nothing twice.
    pub is_repeatable: bool,
    /// The wall clock when its first row was due, milliseconds since 1970.
    pub start_wall_ms: i64,
    /// Least and latest event time, ms, of rows in its operators, where it read with others; the least is above the latest
    /// if they held none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_times: Option<(i64, i64)>,
    /// Of a table in parts: where it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offsets: Option<Offsets>,
}

fn is_none(records: &u64) -> bool {
    *records == 0
}

/// A place in a table in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Offsets {
    /// By topic and partition: the offset of the next record. In the order in which operators count the partitions.
    pub next: Vec<(String, i32, i64)>,
    /// Of files that are followed: how far each was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRead>,
    /// Records before it that could not be read.
    pub dead_rows: u64,
}

/// How far a file was read that is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileRead {
    /// From the table's own path on.
    pub path: String,
    /// Bytes, of text that is read on where it ended.
    pub bytes: u64,
    /// Lines of those.
    pub lines: u64,
    /// What follows up to the next line end is of a line that was given up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skips_line: bool,
    /// Records, of a file that does not grow.
    #[serde(default, skip_serializing_if = "is_none")]
    pub records: u64,
    /// There was no more of such a file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
    /// So many bytes at its front,
    pub front_bytes: u32,
    /// and their CRC-32, tell it from another of its name.
    pub front_crc: u32,
}

/// Where an output stood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OutputEntry {
    /// The table's name.
    pub table: String,
    /// Its place among the query's outputs, late tables included.
    pub number: usize,
    /// What the connector said.
    pub position: Value,
}

/// What a parallel instance of an operator held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InstanceEntry {
    /// Of the dataflow.
    pub node: usize,
    /// Which of the parallel ones, from 0.
    pub instance: usize,
    /// As `explain` names it.
    pub name: String,
    /// By input channel: its watermark, event-time ms, and whether it was idle.
    pub channels: Vec<(i64, bool)>,
    /// The least of them that was reached, event-time ms.
    pub watermark_ms: i64,
    /// The watermark that it had passed on, event-time ms.
    pub out_watermark_ms: i64,
    /// Its tables.
    pub parts: Vec<PartEntry>,
}

/// A table of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartEntry {
    /// What the operator calls it.
    pub name: String,
    /// The file that has it.
    pub file: String,
    /// Its rows.
    pub rows: u64,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StoredFile {
    /// In the checkpoint's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 (IEEE) of what it holds.
    pub crc32: u32,
    /// The checkpoint that it was written for, if not for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_in: Option<u64>,
}

/// Why text is no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Of a newer program.
    Newer(u64),
    /// Damaged, cut off, or something else.
    Damaged(String),
}

const CHECKSUM: &str = "checksum";

impl Manifest {
    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Of those that were written for it.
    pub fn written_bytes(&self) -> u64 {
        self.files.iter().filter(|file| file.written_in.is_none()).map(|file| file.bytes).sum()
    }

    /// As text, with its checksum.
    pub(crate) fn to_text(&self) -> String {
        let mut value = serde_json::to_value(self).expect("its keys are text");
        let checksum = crc32fast::hash(value.to_string().as_bytes());
        value.as_object_mut().expect("a struct is an object").insert(CHECKSUM.into(), checksum.into());
        serde_json::to_string_pretty(&value).expect("its keys are text") + "\n"
    }

    pub(crate) fn of_text(text: &str) -> Result<Manifest, Unreadable> {
        let damaged = |error: serde_json::Error| Unreadable::Damaged(format!("no manifest: {error}"));
        let mut value: Value = serde_json::from_str(text).map_err(damaged)?;
        let version = value.get("version").and_then(Value::as_u64);
        let version = version.ok_or_else(|| Unreadable::Damaged("a manifest without a version".into()))?;
        if version > u64::from(VERSION) {
            return Err(Unreadable::Newer(version));
        }
        let checksum = value.as_object_mut().and_then(|object| object.remove(CHECKSUM));
        let found = crc32fast::hash(value.to_string().as_bytes());
        if checksum.and_then(|checksum| checksum.as_u64()) != Some(u64::from(found)) {
            return Err(Unreadable::Damaged("its checksum is another: it was changed or damaged".into()));
        }
        serde_json::from_value(value).map_err(damaged)
    }
}
