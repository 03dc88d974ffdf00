//! Where the bytes of rows leave the program: files, pipes and the standard streams. Whether one may stall for ever is
//! known when it is opened, because such a one needs a thread that may wait.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::claim::{Claim, FileId};
use crate::open_files::RestingFile;
use crate::stream::may_block;
use crate::{ConnectError, OptionError, Output, OutputPosition, RestOfPrepare};

/// A regular file. It is truncated when the first bytes come, so that a query that fails before leaves what was there.
struct FileOutput {
    path: PathBuf,
    file: RestingFile,
    is_truncated: bool,
    /// What was written up to the last checkpoint may not be on the disk yet.
    unsynced: Option<File>,
    /// Nobody else of this process reads or writes the file until it is complete.
    claim: Option<Claim>,
}

/// A regular file that is made when it is first written: most of very many may never be.
struct UnopenedOutput<F> {
    path: PathBuf,
    refuse: F,
    opened: Option<Box<dyn Output>>,
}

/// What may block for ever. Opened when it is first written, because opening a pipe waits for its reader.
struct StallingOutput {
    path: PathBuf,
    file: Option<File>,
}

/// A standard stream of the process.
pub(crate) enum Standard {
    Output,
    Error,
}

/// Opens a file for writing, at its beginning or behind what is to stay of it; the flag says whether it may stall. `refuse`
/// makes an error of the path of a reason.
///
/// # Errors
/// If the file cannot be created, is shorter than what is to stay of it, or a table of this process reads or writes it.
pub(crate) fn open(
    path: PathBuf,
    resume: Option<&OutputPosition>,
    refuse: impl FnOnce(String) -> OptionError,
) -> Result<(Box<dyn Output>, bool), ConnectError> {
    if kind(&path).is_some_and(may_block) {
        return Ok((Box::new(StallingOutput { path, file: None }), true));
    }
    let failed = |source| ConnectError::Io { action: "create", path: path.clone(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if let Some(length) = length_of(resume)
        && found.len() < length
    {
        let found = found.len();
        return Err(refuse(format!(
            "{} has {found} bytes and had {length} at the checkpoint, so somebody else changed it; put it back, or \
             begin without the checkpoint",
            path.display()
        ))
        .into());
    }
    let claim = Claim::to_write(&found).map_err(|taken| refuse(format!("{}: {taken}", path.display())))?;
    let mut file = RestingFile::new(path.clone(), FileId::of(&found));
    let is_cut = match length_of(resume) {
        Some(length) => {
            file.cut(length).map_err(|source| ConnectError::Io {
                action: "cut back",
                path: path.clone(),
                source,
            })?;
            true
        }
        None => false,
    };
    Ok((Box::new(FileOutput { path, file, is_truncated: is_cut, unsynced: None, claim: Some(claim) }), false))
}

/// How much of a file stays when its query is restored.
pub(crate) fn length_of(resume: Option<&OutputPosition>) -> Option<u64> {
    match resume? {
        OutputPosition::Length { bytes } => Some(*bytes),
        OutputPosition::None | OutputPosition::Named(_) => None,
    }
}

/// A file that is opened when there is something to write. What it held before is gone with its end also where nothing was
/// written; a file that was not there is not made for that.
pub(crate) fn open_when_written(
    path: PathBuf,
    refuse: impl Fn(String) -> OptionError + Send + 'static,
) -> Box<dyn Output> {
    Box::new(UnopenedOutput { path, refuse, opened: None })
}

/// `None` where nothing is there yet.
pub(crate) fn kind(path: &Path) -> Option<FileType> {
    std::fs::metadata(path).ok().map(|found| found.file_type())
}

impl FileOutput {
    fn truncate(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.is_truncated, true) {
            true => Ok(()),
            false => self.file.clear(),
        }
    }
}

impl Output for FileOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        let written = self.truncate().and_then(|()| self.file.append(bytes));
        written.map_err(|source| ConnectError::Io { action: "write", path: self.path.clone(), source })
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        // Written or not, it is to be there.
        let closed = self.truncate().and_then(|()| self.file.append(&[]));
        self.claim = None;
        closed.map_err(|source| ConnectError::Io { action: "write", path: self.path.clone(), source })
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        let found = self.truncate().and_then(|()| self.file.sync_point());
        let (bytes, file) = found.map_err(|source| ConnectError::Io {
            action: "look at",
            path: self.path.clone(),
            source,
        })?;
        self.unsynced = Some(file);
        Ok(OutputPosition::Length { bytes })
    }

    fn rest_of_prepare(&mut self) -> Option<RestOfPrepare> {
        let (file, path) = (self.unsynced.take()?, self.path.clone());
        Some(Box::new(move || {
            file.sync_data().map_err(|source| ConnectError::Io { action: "sync", path, source })
        }))
    }
}

impl<F: Fn(String) -> OptionError> UnopenedOutput<F> {
    fn output(&mut self) -> Result<&mut dyn Output, ConnectError> {
        if self.opened.is_none() {
            let (output, _) = open(self.path.clone(), None, &self.refuse)?;
            self.opened = Some(output);
        }
        Ok(&mut **self.opened.as_mut().expect("opened above"))
    }
}

impl<F: Fn(String) -> OptionError + Send> Output for UnopenedOutput<F> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        self.output()?.write(bytes)
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        if self.opened.is_none() && kind(&self.path).is_none() {
            return Ok(());
        }
        self.output()?.close()
    }

    fn prepare(&mut self, checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        if self.opened.is_none() && kind(&self.path).is_none() {
            return Ok(OutputPosition::Length { bytes: 0 });
        }
        self.output()?.prepare(checkpoint)
    }

    fn rest_of_prepare(&mut self) -> Option<RestOfPrepare> {
        self.opened.as_mut()?.rest_of_prepare()
    }
}

impl StallingOutput {
    fn file(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(match kind(&self.path).is_some_and(|kind| kind.is_socket()) {
                true => File::from(OwnedFd::from(UnixStream::connect(&self.path)?)),
                false => OpenOptions::new().write(true).open(&self.path)?,
            });
        }
        Ok(self.file.as_mut().expect("opened above"))
    }
}

impl Output for StallingOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        let written = self.file().and_then(|file| file.write_all(bytes));
        written.map_err(|source| ConnectError::Io { action: "write", path: self.path.clone(), source })
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        // The reader of a pipe waits for a writer: without results, too, it has to see the end.
        let closed = self.file().map(drop);
        self.file = None;
        closed.map_err(|source| ConnectError::Io { action: "open", path: self.path.clone(), source })
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        Ok(OutputPosition::None)
    }
}

impl Standard {
    /// True unless the stream is redirected into a regular file.
    pub(crate) fn may_stall(&self) -> bool {
        let stream = match self {
            Standard::Output => io::stdout().as_fd().try_clone_to_owned(),
            Standard::Error => io::stderr().as_fd().try_clone_to_owned(),
        };
        let found = stream.and_then(|stream| File::from(stream).metadata());
        found.map_or(true, |found| may_block(found.file_type()))
    }
}

impl Output for Standard {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        // The lock of the stream keeps rows of queries that print at the same time apart.
        let written = match self {
            Standard::Output => {
                let mut stream = io::stdout().lock();
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
            Standard::Error => io::stderr().lock().write_all(bytes),
        };
        written.map_err(|source| ConnectError::Io {
            action: "write",
            path: PathBuf::from("the terminal"),
            source,
        })
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        Ok(())
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        Ok(OutputPosition::None)
    }
}
