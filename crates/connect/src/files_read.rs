//! How far files were read that are followed: by which a query goes on in them after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

/// So much at the front of a file tells it from others.
pub(crate) const FRONT_BYTES: usize = 1_024;

/// How far a file was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilePlace {
    /// Bytes read as whole records, of text that is read on where it ended.
    pub bytes: u64,
    /// Lines of those.
    pub lines: u64,
    /// What follows up to the next line end is of a line that was given up.
    pub skips_line: bool,
    /// Records read, bad ones included, of a file that does not grow: a compressed one, or Parquet.
    pub records: u64,
    /// There was no more of such a file.
    pub is_whole: bool,
    /// So many bytes at its front were looked at, at most 1 024,
    pub front_bytes: u32,
    /// and this is their CRC-32. A file of that name that begins otherwise is another one.
    pub front_crc: u32,
}

impl FilePlace {
    /// The same of a file that begins so.
    pub(crate) fn with_front(self, front: &[u8]) -> FilePlace {
        FilePlace { front_bytes: front.len() as u32, front_crc: crc32fast::hash(front), ..self }
    }

    /// Whether a file that begins so and has so many bytes is the one that was read.
    pub(crate) fn is_in(&self, front: &[u8], length: u64) -> bool {
        let looked_at = front.get(..self.front_bytes as usize);
        length >= self.bytes && looked_at.is_some_and(|front| crc32fast::hash(front) == self.front_crc)
    }
}

/// How far some were read, by their paths from the table's own on. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FilesRead {
    pub(crate) others: Arc<BTreeMap<String, FilePlace>>,
    /// The one that is being read, wherever it stands in the others.
    pub(crate) current: Option<Box<(String, FilePlace)>>,
}

impl FilesRead {
    /// All of them.
    pub fn places(&self) -> BTreeMap<String, FilePlace> {
        let mut places = BTreeMap::clone(&self.others);
        places.extend(self.current.as_deref().cloned());
        places
    }
}

impl FromIterator<(String, FilePlace)> for FilesRead {
    fn from_iter<I: IntoIterator<Item = (String, FilePlace)>>(places: I) -> FilesRead {
        FilesRead { others: Arc::new(places.into_iter().collect()), current: None }
    }
}

impl PartialEq for FilesRead {
    fn eq(&self, other: &FilesRead) -> bool {
        self.places() == other.places()
    }
}

impl Eq for FilesRead {}
