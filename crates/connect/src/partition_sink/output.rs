//! The writing end of a sink of many files: takes frames from the encoder and puts their bytes where they belong. A few
//! files are open at a time, however many there are.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::frame::{self, Piece};
use super::whole::{self, Whole};
use crate::claim::Claim;
use crate::{ConnectError, Output, OutputPosition};

/// Refuses a file that must not be written.
type MayWrite = Box<dyn Fn(&Path) -> Result<(), ConnectError> + Send>;

/// The files of a partitioned table, of one writer. What an earlier run left in its place is removed when the first bytes
/// come, so that a query that fails before leaves what was there.
pub(crate) struct PartitionedOutput {
    /// The table's folder.
    folder: PathBuf,
    /// How deep folders are named by columns.
    depth: usize,
    /// Names of files that are this writer's own: `part-0-` and `.csv`.
    own: (String, String),
    /// May a file be there, links followed.
    may_write: MayWrite,
    /// Where files are seen when they are complete.
    whole: Option<Whole>,
    /// Where it goes on, of a query that was restored.
    resume: Option<OutputPosition>,
    has_begun: bool,
    /// By their names below the folder.
    files: HashMap<String, Written>,
    open: usize,
    open_max: usize,
    writes: u64,
}

struct Written {
    file: Option<File>,
    used: u64,
    /// Nobody else of this process reads or writes the file until all is complete.
    _claim: Claim,
}

impl PartitionedOutput {
    pub(crate) fn new(
        folder: PathBuf,
        depth: usize,
        own: (String, String),
        may_write: MayWrite,
        whole: Option<Whole>,
        resume: Option<OutputPosition>,
        open_max: usize,
    ) -> Result<PartitionedOutput, ConnectError> {
        std::fs::create_dir_all(&folder).map_err(|source| ConnectError::Io {
            action: "create",
            path: folder.clone(),
            source,
        })?;
        let mut output = PartitionedOutput {
            folder,
            depth,
            own,
            may_write,
            whole,
            resume,
            has_begun: false,
            files: HashMap::new(),
            open: 0,
            open_max,
            writes: 0,
        };
        if output.resume.is_some() {
            output.begin()?;
        }
        Ok(output)
    }

    fn begin(&mut self) -> Result<(), ConnectError> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let kept = match &self.resume {
            None => Ok(0),
            Some(position) => {
                whole::finish_commit(&self.folder, position).map(|()| whole::number_after(Some(position)))
            }
        };
        let removed = kept.and_then(|kept| self.remove_old(&self.folder, self.depth, kept));
        removed.map(drop).map_err(|source| ConnectError::Io {
            action: "replace the files of",
            path: self.folder.clone(),
            source,
        })
    }

    /// Removes files of this writer so many folders below, and folders that are empty then. True if there were any. Those
    /// that can be seen and have a number below `kept` stay.
    fn remove_old(&self, folder: &Path, depth: usize, kept: usize) -> io::Result<bool> {
        let mut has_removed = false;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kind = entry.file_type()?;
            if depth > 0 && kind.is_dir() && name.contains('=') {
                if self.remove_old(&entry.path(), depth - 1, kept)? {
                    has_removed = true;
                    // Fails where something of others is left.
                    let _ = std::fs::remove_dir(entry.path());
                }
            } else if depth == 0 && kind.is_file() && self.is_old(&name, kept) {
                std::fs::remove_file(entry.path())?;
                has_removed = true;
            }
        }
        Ok(has_removed)
    }

    fn is_old(&self, name: &str, kept: usize) -> bool {
        let (name, is_hidden) = whole::shown(name);
        self.number(name).is_some_and(|number| is_hidden || number >= kept)
    }

    /// Of a file that is this writer's own.
    fn number(&self, name: &str) -> Option<usize> {
        let digits = name.strip_prefix(&self.own.0)?.strip_suffix(&self.own.1)?;
        digits.parse().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), ConnectError> {
        let path = match &self.whole {
            Some(_) => whole::hidden(&self.folder, name),
            None => self.folder.join(name),
        };
        self.writes += 1;
        let is_open = self.files.get(name).is_some_and(|written| written.file.is_some());
        if !is_open {
            (self.may_write)(&path)?;
            if self.open == self.open_max {
                self.close_one();
            }
            self.open(name, &path).map_err(|source| ConnectError::Io {
                action: "create",
                path: path.clone(),
                source,
            })?;
        }
        let written = self.files.get_mut(name).expect("opened above");
        written.used = self.writes;
        let file = written.file.as_mut().expect("opened above");
        file.write_all(bytes).map_err(|source| ConnectError::Io { action: "write", path, source })
    }

    fn open(&mut self, name: &str, path: &Path) -> io::Result<()> {
        match self.files.get_mut(name) {
            // One that was removed meanwhile is missed, and not made anew without what it held.
            Some(written) => written.file = Some(OpenOptions::new().append(true).open(path)?),
            None => {
                let create = || {
                    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                    OpenOptions::new().append(true).create_new(true).open(path)
                };
                // Another writer of the table may have removed the folder, which was empty, in between: each does so once.
                let file = match create() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => create()?,
                    other => other?,
                };
                let claim = Claim::to_write(&file.metadata()?)
                    .map_err(|taken| io::Error::other(taken.to_string()))?;
                let written = Written { file: Some(file), used: self.writes, _claim: claim };
                self.files.insert(name.to_owned(), written);
                let number = self.number(name.rsplit('/').next().unwrap_or(name));
                if let (Some(whole), Some(number)) = (&mut self.whole, number) {
                    whole.begin(number);
                }
            }
        }
        self.open += 1;
        Ok(())
    }

    /// Nothing follows in a file.
    fn complete(&mut self, name: &str) -> io::Result<()> {
        let Some(whole) = &mut self.whole else { return Ok(()) };
        let Some(written) = self.files.remove(name) else { return Ok(()) };
        match written.file {
            Some(file) => {
                self.open -= 1;
                file.sync_all()?;
            }
            None => File::open(whole::hidden(&self.folder, name))?.sync_all()?,
        }
        whole.complete(&self.folder, name)
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> ConnectError + use<> {
        let path = self.folder.clone();
        move |source| ConnectError::Io { action, path, source }
    }

    /// Closes the file that was not written for longest.
    fn close_one(&mut self) {
        let open = self.files.values_mut().filter(|written| written.file.is_some());
        if let Some(oldest) = open.min_by_key(|written| written.used) {
            oldest.file = None;
            self.open -= 1;
        }
    }
}

impl Output for PartitionedOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        self.begin()?;
        let mut rest = bytes;
        while let Some((Piece { file, bytes, is_last }, behind)) = frame::next(rest) {
            self.append(file, bytes)?;
            if is_last {
                let failed = self.failed("complete a file of");
                self.complete(file).map_err(failed)?;
            }
            rest = behind;
        }
        assert!(rest.is_empty(), "{} bytes are no frame", rest.len());
        Ok(())
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        self.begin()?;
        self.files.clear();
        Ok(())
    }

    /// Every file is complete: the encoder was asked to cut before.
    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        self.begin()?;
        Ok(self.whole.as_mut().map(Whole::prepare).unwrap_or_default())
    }

    fn commit(&mut self, _checkpoint: u64) -> Result<(), ConnectError> {
        let failed = self.failed("complete a file of");
        self.whole.as_mut().map_or(Ok(()), |whole| whole.commit(&self.folder)).map_err(failed)
    }
}
