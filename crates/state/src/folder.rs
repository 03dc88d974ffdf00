//! The folder that one process at a time works with, and what may go wrong with what is in it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::mirror::Mirror;
use crate::pack::{Encoded, Packs};
use crate::query::QueryFolder;

/// A folder with the state of queries, which this process alone works with.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    packs: Arc<Packs>,
    /// Let go by the system however the process ends.
    _lock: File,
}

/// What is in a state folder that somebody may work with just now: to be looked at alone.
#[derive(Clone, Debug)]
pub struct StateLook {
    path: PathBuf,
    packs: Arc<Packs>,
}

/// Why state cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The user can fix it: another process works with the folder.
    #[error(
        "state folder {path:?} is in use by process {process}; end that one first, or give each a folder of its own"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Who.
        process: String,
    },
    /// The user can fix it: the checkpoint is of a newer program.
    #[error(
        "{path:?} has version {found}; this program reads versions up to {} : run the newer program, or begin anew in another folder",
        crate::VERSION
    )]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// The world failed.
    #[error("cannot {action} {path:?}")]
    Io {
        /// "write", "lock" …
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The world failed, or the user can fix it: a store of objects does not do something.
    #[error("{store}: cannot {action} {message}")]
    Store {
        /// "put", "list" …
        action: &'static str,
        /// Where.
        store: String,
        /// Which object, and what it said.
        message: String,
        /// Another time it may do it.
        may_pass: bool,
    },
    /// The user can fix it: somebody else works with the store.
    #[error("another process has taken over {store}; end one of them, or give each a store of its own")]
    TakenOver {
        /// Where.
        store: String,
    },
    /// The user can fix it: the folder has what its store never had.
    #[error(
        "{path:?} is not in {store}, which has others: the folder was used without it; take the folder away to go on from \
         the store, or name an empty store to go on from the folder"
    )]
    Behind {
        /// Where.
        store: String,
        /// The checkpoint, or a file of some.
        path: PathBuf,
    },
    /// A bug of ours: what a query holds cannot be told.
    #[error("checkpoint of {query}: {message}")]
    Unmade {
        /// The query.
        query: String,
        /// Why.
        message: String,
    },
    /// A table cannot be written.
    #[error("cannot write {path:?}: {message}")]
    Table {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

impl StateError {
    /// Waiting may help.
    pub fn may_pass(&self) -> bool {
        use StateError::{Store, TakenOver, Unmade};
        !matches!(self, TakenOver { .. } | Unmade { .. } | Store { may_pass: false, .. })
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
        let path = path.to_owned();
        move |source| StateError::Io { action, path, source }
    }
}

impl StateFolder {
    /// Opens a folder, or makes it, and keeps other processes from it for as long as this lives.
    ///
    /// # Errors
    /// [`StateError::InUse`] if another process has it; else if it cannot be made or written to.
    pub fn open(path: &Path) -> Result<StateFolder, StateError> {
        StateFolder::open_mirrored(path, None)
    }

    /// The same of one of which a store of objects has a copy, if there is a `mirror`: a checkpoint counts when it is in both.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_mirrored(path: &Path, mirror: Option<Arc<Mirror>>) -> Result<StateFolder, StateError> {
        std::fs::create_dir_all(path).map_err(StateError::io("create", path))?;
        let lock_path = path.join("lock");
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path);
        let mut lock = opened.map_err(StateError::io("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                let _unknown = lock.read_to_string(&mut process);
                let process = match process.trim() {
                    "" => "unknown".to_owned(),
                    known => known.to_owned(),
                };
                return Err(StateError::InUse { path: path.to_owned(), process });
            }
            Err(TryLockError::Error(source)) => {
                return Err(StateError::Io { action: "lock", path: lock_path, source });
            }
        }
        let named = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        named.map_err(StateError::io("write", &lock_path))?;
        let packs = Arc::new(Packs::load(path)?.mirrored(mirror));
        packs.clean();
        Ok(StateFolder { path: path.to_owned(), packs, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// That of a query. It is made when the first checkpoint is written.
    pub fn query(&self, name: &str) -> QueryFolder {
        QueryFolder::new(self.path.join(folder_name(name)), self.packs.clone())
    }

    /// Writes small checkpoints, each of another query, in one file; returns when all are on the disk.
    ///
    /// # Errors
    /// If the disk refuses; none of them is there then.
    pub fn write_together(&self, drafts: &[(QueryFolder, Encoded)]) -> Result<(), StateError> {
        let encoded: Vec<&Encoded> = drafts.iter().map(|(_, encoded)| encoded).collect();
        self.packs.write(&encoded)?;
        drafts.iter().for_each(|(folder, encoded)| folder.note(encoded.manifest.checkpoint));
        Ok(())
    }

    /// What is in a folder that somebody may work with just now.
    ///
    /// # Errors
    /// If something in it is of a newer program, or cannot be read.
    pub fn look(path: &Path) -> Result<StateLook, StateError> {
        Ok(StateLook { path: path.to_owned(), packs: Arc::new(Packs::load(path)?) })
    }
}

impl StateLook {
    /// The folder of a query.
    pub fn query(&self, name: &str) -> QueryFolder {
        QueryFolder::new(self.path.join(folder_name(name)), self.packs.clone())
    }

    /// Those of all queries, in order of their names.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn queries(&self) -> Result<Vec<QueryFolder>, StateError> {
        let failed = || StateError::io("list", &self.path);
        let mut folders: BTreeSet<PathBuf> =
            self.packs.folders().into_iter().map(|name| self.path.join(name)).collect();
        for entry in std::fs::read_dir(&self.path).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            if entry.file_type().map_err(failed())?.is_dir() {
                folders.insert(entry.path());
            }
        }
        let folder = |path| QueryFolder::new(path, self.packs.clone());
        Ok(folders.into_iter().map(folder).collect())
    }
}

/// A query's name as that of a folder: letters, digits and a few signs stay, others are written as `%2F`. Long names are
/// cut, and told apart by a checksum.
pub(crate) fn folder_name(query: &str) -> String {
    const BYTES_MAX: usize = 120;
    let mut name = String::new();
    for byte in query.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    // "lock" is taken.
    if name.len() > BYTES_MAX || name == "lock" {
        name.truncate(BYTES_MAX);
        name.push_str(&format!("~{:08x}", crc32fast::hash(query.as_bytes())));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_queries_are_names_of_folders() {
        assert_eq!(folder_name("q1-x_y.z"), "q1-x_y.z");
        assert_eq!(folder_name("../a b/ü"), "%2E.%2Fa%20b%2F%C3%BC");
        assert_ne!(folder_name("lock"), "lock");
        let long = "x".repeat(300);
        assert!(folder_name(&long).len() < 140);
        assert_ne!(folder_name(&long), folder_name(&(long.clone() + "y")));
    }

    #[test]
    fn one_process_works_with_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let first = StateFolder::open(&path).unwrap();
        let error = StateFolder::open(&path).unwrap_err();
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(first);
        assert!(StateFolder::open(&path).is_ok());
    }
}
