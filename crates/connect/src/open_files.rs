//! Files that are written, of which a few are open at a time: thousands of queries may each have one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use crate::claim::FileId;

/// A regular file that is written at its end. It is open while it is among those that were used last, and may be closed
/// between two writes.
pub(crate) struct RestingFile {
    path: PathBuf,
    id: FileId,
    handle: Arc<Mutex<Option<File>>>,
    files: &'static OpenFiles,
    /// Its place among those that are open.
    used: Option<u64>,
}

/// Those of this process that are open. Lock order: a file's handle before this.
static OPEN: LazyLock<OpenFiles> = LazyLock::new(|| {
    // The rest is for what is read, pipes and threads.
    const SHARE: u64 = 4;
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(4_096);
    OpenFiles::new((descriptors / SHARE).clamp(8, 1_024) as usize)
});

struct OpenFiles {
    most: usize,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    now: u64,
    /// The one that was used longest ago is first.
    handles: BTreeMap<u64, Arc<Mutex<Option<File>>>>,
}

impl OpenFiles {
    fn new(most: usize) -> OpenFiles {
        OpenFiles { most, used: Mutex::default() }
    }

    /// Makes a handle the last used, and closes one that was used longest ago if there are too many.
    fn touch(&self, handle: &Arc<Mutex<Option<File>>>, place: Option<u64>) -> u64 {
        let mut used = self.used.lock();
        place.and_then(|place| used.handles.remove(&place));
        used.now += 1;
        let now = used.now;
        used.handles.insert(now, handle.clone());
        if used.handles.len() > self.most {
            // One that is being written just now stays open, and counts no more: it is among the last used soon.
            let oldest = used.handles.pop_first();
            drop(used);
            if let Some((_, oldest)) = oldest
                && let Some(mut handle) = oldest.try_lock()
            {
                *handle = None;
            }
        }
        now
    }

    fn forget(&self, place: u64) {
        self.used.lock().handles.remove(&place);
    }
}

impl RestingFile {
    /// A file that is there, of this id. It is opened when it is first used.
    pub(crate) fn new(path: PathBuf, id: FileId) -> RestingFile {
        RestingFile { path, id, handle: Arc::default(), files: &OPEN, used: None }
    }

    /// Cuts the file off at the beginning.
    ///
    /// # Errors
    /// If the system refuses, or the file is not there any more.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.with(|file| file.set_len(0))
    }

    /// Writes at the end.
    ///
    /// # Errors
    /// If the system refuses, or the file is not there any more.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.with(|mut file| file.write_all(bytes))
    }

    /// Keeps so much of it.
    ///
    /// # Errors
    /// If the system refuses, or the file is not there any more.
    pub(crate) fn cut(&mut self, length_bytes: u64) -> io::Result<()> {
        self.with(|file| file.set_len(length_bytes))
    }

    /// How long the file is, and a handle by which somebody else can put that onto the disk.
    ///
    /// # Errors
    /// If the system refuses, or the file is not there any more.
    pub(crate) fn sync_point(&mut self) -> io::Result<(u64, File)> {
        self.with(|file| Ok((file.metadata()?.len(), file.try_clone()?)))
    }

    fn with<T>(&mut self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let mut handle = self.handle.lock();
        let file = match &mut *handle {
            Some(file) => file,
            closed => closed.insert(OpenOptions::new().append(true).open(&self.path).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::NotFound => removed(),
                    _ => error,
                }
            })?),
        };
        let found = file.metadata()?;
        if found.nlink() == 0 || FileId::of(&found) != self.id {
            return Err(removed());
        }
        let done = work(file)?;
        self.used = Some(self.files.touch(&self.handle, self.used));
        Ok(done)
    }
}

fn removed() -> io::Error {
    io::Error::other("the file was removed while it was written")
}

impl Drop for RestingFile {
    fn drop(&mut self) {
        if let Some(place) = self.used {
            self.files.forget(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resting(folder: &std::path::Path, name: &str, files: &'static OpenFiles) -> RestingFile {
        let path = folder.join(name);
        let file = File::create(&path).unwrap();
        let id = FileId::of(&file.metadata().unwrap());
        RestingFile { path, id, handle: Arc::default(), files, used: None }
    }

    #[test]
    fn of_many_files_few_are_open_and_all_are_whole() {
        let folder = tempfile::tempdir().unwrap();
        let files: &'static OpenFiles = Box::leak(Box::new(OpenFiles::new(3)));
        let mut all: Vec<RestingFile> =
            (0..10).map(|number| resting(folder.path(), &number.to_string(), files)).collect();
        assert!(all.iter().all(|file| file.handle.lock().is_none()), "none is open before it is used");
        for round in 0..5 {
            for (number, file) in all.iter_mut().enumerate() {
                file.append(format!("{number}:{round};").as_bytes()).unwrap();
            }
            let open = all.iter().filter(|file| file.handle.lock().is_some()).count();
            assert_eq!(open, 3);
        }
        for (number, file) in all.iter().enumerate() {
            let expected: String = (0..5).map(|round| format!("{number}:{round};")).collect();
            assert_eq!(std::fs::read_to_string(&file.path).unwrap(), expected);
        }
        all[0].clear().unwrap();
        all[0].append(b"anew").unwrap();
        assert_eq!(std::fs::read_to_string(&all[0].path).unwrap(), "anew");
        drop(all);
        assert!(files.used.lock().handles.is_empty());
    }

    #[test]
    fn a_file_that_is_not_the_same_any_more_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let files: &'static OpenFiles = Box::leak(Box::new(OpenFiles::new(1)));
        let mut open = resting(folder.path(), "open", files);
        let mut closed = resting(folder.path(), "closed", files);
        closed.append(b"a").unwrap();
        open.append(b"a").unwrap();
        for file in [&mut open, &mut closed] {
            std::fs::remove_file(&file.path).unwrap();
            assert!(file.append(b"b").unwrap_err().to_string().contains("removed"));
        }
        std::fs::write(&closed.path, "another's").unwrap();
        // The inode may be given again: then nobody can tell.
        if FileId::of(&std::fs::metadata(&closed.path).unwrap()) != closed.id {
            assert!(closed.append(b"b").is_err());
        }
    }
}
