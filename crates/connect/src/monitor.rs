//! Which files are new or have grown since the last look. Nothing waits here: the scan decides when it is looked again.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compression::Compression;
use crate::files_read::FRONT_BYTES;
use crate::filesystem::list_files;
use crate::stream::may_block;
use crate::{ConnectError, FilePlace, FilesRead, OptionError, OptionReader};

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
    /// How far each was read, by [`name`]: those too that a process before this one read and that are not seen yet.
    read: Arc<BTreeMap<String, FilePlace>>,
    /// Found at the last look.
    found: VecDeque<Opening>,
}

pub(crate) type MayRead = Box<dyn Fn(&Path) -> Result<(), OptionError> + Send>;

struct Seen {
    inode: u64,
    place: FilePlace,
    /// How long it was when it was last opened.
    opened_at: Option<u64>,
    /// How long it was when a look found nothing to do.
    rested_at: Option<u64>,
}

/// A file to be read, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub path: PathBuf,
    pub place: FilePlace,
    /// It is text that is read on where it ended.
    pub can_grow: bool,
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

    /// `read`: how far a process before this one read the files.
    pub(crate) fn new(path: PathBuf, can_grow: bool, may_read: MayRead, read: &FilesRead) -> Monitor {
        let read = Arc::new(read.places());
        Monitor { path, can_grow, may_read, seen: HashMap::new(), read, found: VecDeque::new() }
    }

    /// The next file to be read. `None`: there is nothing until it is looked again.
    pub(crate) fn next(&mut self) -> Result<Option<Opening>, ConnectError> {
        if self.found.is_empty() {
            self.look()?;
        }
        Ok(self.found.pop_front())
    }

    /// So much of a file was read, and it is closed.
    pub(crate) fn was_read(&mut self, path: &Path, place: FilePlace) {
        if let Some(seen) = self.seen.get_mut(path) {
            seen.place = place;
            Arc::make_mut(&mut self.read).insert(name(&self.path, path), place);
        }
    }

    /// How far all were read, if one is now read up to this place.
    pub(crate) fn files_read(&self, current: Option<(&Path, FilePlace)>) -> FilesRead {
        let current = current.map(|(path, place)| Box::new((name(&self.path, path), place)));
        FilesRead { others: Arc::clone(&self.read), current }
    }

    fn look(&mut self) -> Result<(), ConnectError> {
        // A folder or file that is made later is waited for like its content.
        let files = match self.path.exists() {
            true => list_files(&self.path)?,
            false => Vec::new(),
        };
        if !files.is_empty() {
            self.forget_all_but(&files);
        }
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

    /// Files that have gone: a folder that is emptied from time to time does not make this longer and longer.
    fn forget_all_but(&mut self, files: &[PathBuf]) {
        let there: HashSet<&Path> = files.iter().map(PathBuf::as_path).collect();
        self.seen.retain(|path, _| there.contains(path.as_path()));
        let names: HashSet<String> = files.iter().map(|path| name(&self.path, path)).collect();
        if self.read.keys().any(|name| !names.contains(name)) {
            Arc::make_mut(&mut self.read).retain(|name, _| names.contains(name));
        }
    }

    fn opening(&mut self, path: &Path, found: &Metadata) -> Option<Opening> {
        let can_grow = self.can_grow && Compression::of_name(path) == Compression::None;
        let opening =
            |place, is_growing| Some(Opening { path: path.to_owned(), place, can_grow, is_growing });
        let (length, inode) = (found.len(), found.ino());
        let new = Seen { inode, place: FilePlace::default(), opened_at: Some(length), rested_at: None };
        let another = "another file is there now: it is read from its beginning";
        if !self.seen.contains_key(path) {
            let before = self.read.get(&name(&self.path, path));
            // One that went meanwhile is not there.
            let is_it = |place: &FilePlace| front(path).is_ok_and(|front| place.is_in(&front, length));
            match before.map(|place| (*place, is_it(place))) {
                Some((place, true)) => {
                    let seen = Seen { place, opened_at: None, ..new };
                    self.seen.insert(path.to_owned(), seen);
                    if !can_grow {
                        return if place.is_whole { None } else { opening(place, false) };
                    }
                }
                other => {
                    if other.is_some() {
                        tracing::warn!(file = %path.display(), "{another}");
                    }
                    self.seen.insert(path.to_owned(), new);
                    return opening(FilePlace::default(), can_grow);
                }
            }
        }
        let seen = self.seen.get_mut(path)?;
        if seen.inode != inode || (can_grow && length < seen.place.bytes) {
            tracing::warn!(file = %path.display(), "{another}");
            *seen = Seen { inode, place: FilePlace::default(), opened_at: Some(length), rested_at: None };
            return opening(FilePlace::default(), can_grow);
        }
        if !can_grow || length == seen.place.bytes {
            return None;
        }
        if seen.rested_at == Some(length) {
            // Its last line is not going to get an end.
            return opening(seen.place, false);
        }
        if seen.opened_at == Some(length) {
            return None;
        }
        (seen.opened_at, seen.rested_at) = (Some(length), None);
        opening(seen.place, true)
    }
}

/// What a file is called in a position: its path from the table's own on, so that both may be moved.
fn name(table: &Path, path: &Path) -> String {
    let root = table.parent().unwrap_or(table);
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// What it begins with.
pub(crate) fn front(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut front = Vec::new();
    File::open(path)?.take(FRONT_BYTES as u64).read_to_end(&mut front)?;
    Ok(front)
}

#[cfg(test)]
mod tests;
