//! Which files are new or have grown since the last look. Nothing waits here: the scan decides when it is looked again.

use std::collections::{HashMap, VecDeque};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::compression::Compression;
use crate::filesystem::list_files;
use crate::stream::may_block;
use crate::{ConnectError, OptionError, OptionReader};

/// A path that is looked at again and again: 'source.monitor-interval'. Files that come are read, in the order of their
/// names, and so is what is appended to those of text.
///
/// A line is read when its end is there; the last line of a file, without one, when the file has not grown between two
/// looks.
pub(crate) struct Monitor {
    path: PathBuf,
    /// Files of the format can be read on from where they ended.
    can_grow: bool,
    /// Refuses a file that a link leads to from outside of what may be read.
    may_read: MayRead,
    seen: HashMap<PathBuf, Seen>,
    /// Found at the last look.
    found: VecDeque<Opening>,
}

pub(crate) type MayRead = Box<dyn Fn(&Path) -> Result<(), OptionError> + Send>;

struct Seen {
    inode: u64,
    /// Bytes that were read as whole records.
    read_bytes: u64,
    lines: u64,
    /// How long it was when it was last opened.
    opened_at: Option<u64>,
    /// How long it was when a look found nothing to do.
    rested_at: Option<u64>,
}

/// A file to be read, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub path: PathBuf,
    pub at: u64,
    /// Lines before that.
    pub lines: u64,
    /// More may come: what follows the last line end is left for later.
    pub is_growing: bool,
}

impl Monitor {
    /// Whether the table is one.
    pub(crate) fn is_asked_for(
        options: &OptionReader<'_>,
    ) -> Result<Option<std::time::Duration>, OptionError> {
        let key = "source.monitor-interval";
        match options.duration(key)? {
            Some(interval) if interval.is_zero() => {
                Err(options.error(key, "the files would be looked at without a pause"))
            }
            interval => Ok(interval),
        }
    }

    pub(crate) fn new(path: PathBuf, can_grow: bool, may_read: MayRead) -> Monitor {
        Monitor { path, can_grow, may_read, seen: HashMap::new(), found: VecDeque::new() }
    }

    /// The next file to be read. `None`: there is nothing until it is looked again.
    pub(crate) fn next(&mut self) -> Result<Option<Opening>, ConnectError> {
        if self.found.is_empty() {
            self.look()?;
        }
        Ok(self.found.pop_front())
    }

    /// So much of a file was read.
    pub(crate) fn was_read(&mut self, path: &Path, read_bytes: u64, lines: u64) {
        if let Some(seen) = self.seen.get_mut(path) {
            (seen.read_bytes, seen.lines) = (read_bytes, lines);
        }
    }

    fn look(&mut self) -> Result<(), ConnectError> {
        // A folder or file that is made later is waited for like its content.
        let files = match self.path.exists() {
            true => list_files(&self.path)?,
            false => Vec::new(),
        };
        let mut resting = Vec::new();
        for path in files {
            // One that went meanwhile is not there.
            let Ok(found) = std::fs::metadata(&path) else { continue };
            if may_block(found.file_type()) {
                continue;
            }
            (self.may_read)(&path)?;
            match self.opening(&path, &found) {
                Some(opening) => self.found.push_back(opening),
                None => resting.push((path, found.len())),
            }
        }
        if self.found.is_empty() {
            for (path, length) in resting {
                if let Some(seen) = self.seen.get_mut(&path) {
                    seen.rested_at = Some(length);
                }
            }
        }
        Ok(())
    }

    fn opening(&mut self, path: &Path, found: &Metadata) -> Option<Opening> {
        let can_grow = self.can_grow && Compression::of_name(path) == Compression::None;
        let opening = |at, lines, is_growing| Some(Opening { path: path.to_owned(), at, lines, is_growing });
        let (length, inode) = (found.len(), found.ino());
        let new = Seen { inode, read_bytes: 0, lines: 0, opened_at: Some(length), rested_at: None };
        let Some(seen) = self.seen.get_mut(path) else {
            self.seen.insert(path.to_owned(), new);
            return opening(0, 0, can_grow);
        };
        if seen.inode != inode || (can_grow && length < seen.read_bytes) {
            tracing::warn!(file = %path.display(), "another file is there now: it is read from its beginning");
            *seen = new;
            return opening(0, 0, can_grow);
        }
        if !can_grow || length == seen.read_bytes {
            return None;
        }
        if seen.rested_at == Some(length) {
            // Its last line is not going to get an end.
            return opening(seen.read_bytes, seen.lines, false);
        }
        if seen.opened_at == Some(length) {
            return None;
        }
        (seen.opened_at, seen.rested_at) = (Some(length), None);
        opening(seen.read_bytes, seen.lines, true)
    }
}

#[cfg(test)]
mod tests;
