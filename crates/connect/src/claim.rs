use std::collections::HashMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use parking_lot::Mutex;

/// What tables of this process do with the regular files that are open. A file is written by one alone: two writers
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
            Taken::Written => "another table writes to this file; give each a file of its own",
            Taken::Read => "another table reads this file; give the results a file of their own",
        })
    }
}
