//! Who reads and who writes which regular file, within this process: many readers or one writer. Other processes are
//! not kept away.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::ConnectError;

/// What this process does with the regular files that are open. A file is written by one alone: two writers
/// would overwrite one another, and a reader would read what it has just made, or nothing.
static CLAIMS: Mutex<Option<HashMap<FileId, Use>>> = Mutex::new(None);

/// Which file it is, whatever path or link led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(found: &Metadata) -> FileId {
        FileId { device: found.dev(), inode: found.ino() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Written,
    Read { readers: usize },
}

/// Keeps others away from a file until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim(FileId);

/// Why a file cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Written,
    Read,
}

/// A file that the program reads without being a table: nothing of this process writes to it while this lives.
#[derive(Debug)]
pub struct InputClaim(#[expect(dead_code, reason = "held, not looked at")] Claim);

/// A file that the program writes without being a table: a report.
#[derive(Debug)]
pub struct OutputClaim {
    path: PathBuf,
    file: File,
    _claim: Option<Claim>,
}

impl InputClaim {
    /// Of a file that was read; `None` if it is no regular file, is gone, or is being written already.
    pub fn of(path: &Path) -> Option<InputClaim> {
        InputClaim::of_found(&std::fs::metadata(path).ok()?)
    }

    /// Of what the standard input was redirected from.
    pub fn of_standard_input() -> Option<InputClaim> {
        let input = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
        InputClaim::of_found(&File::from(input).metadata().ok()?)
    }

    fn of_found(found: &Metadata) -> Option<InputClaim> {
        Claim::to_read(found).ok().filter(|_| found.is_file()).map(InputClaim)
    }
}

impl OutputClaim {
    /// Opens the file, or makes it. What it holds stays until [`write`](OutputClaim::write).
    ///
    /// # Errors
    /// If it cannot be opened, or this process reads or writes it already.
    pub fn create(path: &Path) -> io::Result<OutputClaim> {
        let with_path = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot create {}: {error}", path.display()))
        };
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(with_path)?;
        let found = file.metadata().map_err(with_path)?;
        let claim = found.is_file().then(|| Claim::to_write(&found)).transpose();
        let claim = claim.map_err(|taken| io::Error::other(format!("{}: {taken}", path.display())))?;
        Ok(OutputClaim { path: path.to_owned(), file, _claim: claim })
    }

    /// Puts this in the place of what the file holds.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        let emptied = if self._claim.is_some() { self.file.set_len(0) } else { Ok(()) };
        emptied.and_then(|()| self.file.write_all(bytes)).map_err(|source| ConnectError::Io {
            action: "write",
            path: self.path,
            source,
        })
    }
}

impl Claim {
    /// # Errors
    /// If the file is claimed already.
    pub(crate) fn to_write(found: &Metadata) -> Result<Claim, Taken> {
        Claim::take(found, |current| match current {
            None => Ok(Use::Written),
            Some(Use::Written) => Err(Taken::Written),
            Some(Use::Read { .. }) => Err(Taken::Read),
        })
    }

    /// # Errors
    /// If the file is being written.
    pub(crate) fn to_read(found: &Metadata) -> Result<Claim, Taken> {
        Claim::take(found, |current| match current {
            None => Ok(Use::Read { readers: 1 }),
            Some(Use::Read { readers }) => Ok(Use::Read { readers: readers + 1 }),
            Some(Use::Written) => Err(Taken::Written),
        })
    }

    fn take(
        found: &Metadata,
        change: impl FnOnce(Option<Use>) -> Result<Use, Taken>,
    ) -> Result<Claim, Taken> {
        let file = FileId::of(found);
        let mut claims = CLAIMS.lock();
        let claims = claims.get_or_insert_default();
        let now = change(claims.get(&file).copied())?;
        claims.insert(file, now);
        Ok(Claim(file))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = CLAIMS.lock();
        let claims = claims.get_or_insert_default();
        match claims.get_mut(&self.0) {
            Some(Use::Read { readers }) if *readers > 1 => *readers -= 1,
            _ => {
                claims.remove(&self.0);
            }
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Taken::Written => "this run writes to this file already; give each output a file of its own",
            Taken::Read => "this run reads this file; give what is written a file of its own",
        })
    }
}
