//! What SQL hands to a connector, a table as it is declared, and the errors that come back. An error says whether the
//! user can fix it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::LetterPlace;

/// A table as CREATE TABLE declares it, without computed columns and watermark: what is physically there.
#[derive(Clone, Debug)]
pub struct TableSpec {
    /// Name, case kept.
    pub name: String,
    /// Physical columns in declared order. What stands behind them bears a mark: [`MetadataKey`](crate::MetadataKey),
    /// [`FieldColumn`](crate::FieldColumn), [`SplitColumn`](crate::SplitColumn).
    pub schema: SchemaRef,
    /// The WITH clause. Keys are case-sensitive, as in Flink.
    pub options: BTreeMap<String, String>,
    /// The folder against which relative paths are read: the SQL file's.
    pub base: PathBuf,
}

impl TableSpec {
    /// Whether it is the same table, declared twice or once.
    pub fn is(&self, other: &TableSpec) -> bool {
        let TableSpec { name, schema, options, base } = self;
        std::ptr::eq(self, other)
            || *name == other.name
                && *options == other.options
                && is_one_folder(base, &other.base)
                && (Arc::ptr_eq(schema, &other.schema) || *schema == other.schema)
    }
}

/// However they are written: a file may be named from elsewhere.
fn is_one_folder(one: &Path, other: &Path) -> bool {
    let from_root = |folder: &Path| std::path::absolute(Path::new(".").join(folder)).ok();
    one == other || from_root(one).zip(from_root(other)).is_some_and(|(one, other)| one == other)
}

/// A WITH option that cannot be used. The user can fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("option '{key}' of table {table}: {message}")]
pub struct OptionError {
    /// The table.
    pub table: String,
    /// The option, or the missing one.
    pub key: String,
    /// What was expected, with the valid choices.
    pub message: String,
}

/// Why reading or writing failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The user can fix it.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The world failed: a file, a disk, a permission.
    #[error("cannot {action} {path:?}")]
    Io {
        /// "read", "write", "open", "list" …
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is not what its format says, as a whole. Single bad rows are dead letters, not errors.
    #[error("{path:?} cannot be read as {format}: {message}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The format expected.
        format: &'static str,
        /// What is wrong, with a line where there is one.
        message: String,
    },
    /// A service that a table is in failed, or refused.
    #[error("{service}: cannot {action}: {message}")]
    Service {
        /// Which: "Kafka at 127.0.0.1:9092".
        service: String,
        /// "read topic 'orders'".
        action: String,
        /// What it said, without secrets.
        message: String,
    },
    /// A service has lost what no checkpoint had committed, or cannot be reached any more in the midst of it. Who goes on
    /// from the last checkpoint loses nothing.
    #[error("{service}: cannot {action}: {message}")]
    Lost {
        /// Which: "Kafka at 127.0.0.1:9092".
        service: String,
        /// "write topic 'orders'".
        action: String,
        /// What it said, without secrets.
        message: String,
    },
    /// Rows cannot be written in the format: a null in a NOT NULL column, say.
    #[error("rows cannot be written to {path:?} as {format}: {message}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: &'static str,
        /// What is wrong.
        message: String,
    },
    /// More rows were bad than `laxity.dead-letter.max` allows.
    #[error("table {table} has more than {max} bad rows; the last one: {place}: {reason}")]
    TooManyDeadRows {
        /// The table.
        table: String,
        /// The budget.
        max: u64,
        /// Where the row is from that exceeded it.
        place: LetterPlace,
        /// What is wrong with it.
        reason: String,
    },
}

impl ConnectError {
    /// True if going on from a checkpoint, a little later, may help.
    pub fn may_pass(&self) -> bool {
        use std::io::ErrorKind::{
            QuotaExceeded, ResourceBusy, StaleNetworkFileHandle, StorageFull, TimedOut,
        };
        match self {
            ConnectError::Lost { .. } => true,
            ConnectError::Io { source, .. } => matches!(
                source.kind(),
                StorageFull | QuotaExceeded | TimedOut | StaleNetworkFileHandle | ResourceBusy
            ),
            _ => false,
        }
    }
}
