//! One open file for all scans that put their bad rows into it, so that lines of different queries do not mix.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::claim::{Claim, FileId};
use crate::{ConnectError, OptionError};

/// A file of dead letters. All scans of the process that name it write to it, one after the other.
pub(super) struct LetterFile {
    path: PathBuf,
    id: FileId,
    state: Mutex<State>,
    /// `None` where it is not a regular file.
    _claim: Option<Claim>,
}

struct State {
    file: File,
    /// The letters of the run before stay until there are new ones.
    is_truncated: bool,
}

static OPEN: Mutex<Vec<Weak<LetterFile>>> = Mutex::new(Vec::new());

impl LetterFile {
    /// # Errors
    /// If the file cannot be created, may block, or is that of a table.
    pub(super) fn open(table: &str, path: &Path) -> Result<Arc<LetterFile>, ConnectError> {
        let refused = |message: String| OptionError {
            table: table.to_owned(),
            key: "laxity.dead-letter.path".to_owned(),
            message,
        };
        let may_block = |found: &std::fs::Metadata| {
            let kind = found.file_type();
            kind.is_fifo() || kind.is_socket()
        };
        if std::fs::metadata(path).is_ok_and(|found| may_block(&found)) {
            let message = format!("{} may hold up the queries; give a file", path.display());
            return Err(refused(message).into());
        }
        let failed = |source| ConnectError::Io { action: "create", path: path.to_owned(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let id = FileId::of(&found);
        let mut open = OPEN.lock();
        open.retain(|letters| letters.strong_count() > 0);
        if let Some(letters) = open.iter().filter_map(Weak::upgrade).find(|letters| letters.id == id) {
            return Ok(letters);
        }
        let claim = found.is_file().then(|| Claim::to_write(&found)).transpose();
        let letters = Arc::new(LetterFile {
            path: path.to_owned(),
            id,
            state: Mutex::new(State { file, is_truncated: !found.is_file() }),
            _claim: claim.map_err(|taken| refused(format!("{}: {taken}", path.display())))?,
        });
        open.push(Arc::downgrade(&letters));
        Ok(letters)
    }

    /// What is in the file stays.
    pub(super) fn keep(&self) {
        self.state.lock().is_truncated = true;
    }

    pub(super) fn append(&self, text: &[u8]) -> Result<(), ConnectError> {
        let State { file, is_truncated } = &mut *self.state.lock();
        let emptied = match std::mem::replace(is_truncated, true) {
            true => Ok(()),
            false => file.set_len(0),
        };
        emptied.and_then(|()| file.write_all(text)).map_err(|source| ConnectError::Io {
            action: "write",
            path: self.path.clone(),
            source,
        })
    }
}
