//! An agent that is killed leaves a file from which all that it changed can be undone.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::autogroup::Autogroup;
use super::class::Class;
use crate::ThreadId;

/// What was before we changed it, on disk before it is changed.
///
/// One JSON value a line. A thread's property is written once, before its first change; what is journalled and then
/// not changed does no harm. While an agent runs it holds a lock on the file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    threads: HashSet<(ThreadId, Property)>,
    groups: HashSet<PathBuf>,
    processes: HashSet<(u32, u64)>,
    staged: String,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Record {
    /// A process whose threads we touch. Threads it starts from then on have `nice` and the
    /// timer slack from us, if others.
    Process {
        pid: u32,
        started_ticks: u64,
        nice: i32,
        attached_ticks: u64,
        #[serde(default)]
        timer_slack_ns: Option<u64>,
    },
    /// A thread's nice value before us.
    Nice { thread: ThreadId, nice: i32 },
    /// A thread's timer slack before us.
    TimerSlack { thread: ThreadId, ns: u64 },
    /// A thread's class before us.
    Class { thread: ThreadId, class: Class },
    /// Our session before we raised it.
    Session { autogroup: Autogroup },
    /// A thread's cgroup before us.
    Group { thread: ThreadId, folder: PathBuf },
    /// A group that we make, and where to move what is in it when it goes.
    Made { folder: PathBuf, back: PathBuf },
    /// A group below which we let others have shares of their own.
    Opened { folder: PathBuf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Property {
    Nice,
    TimerSlack,
    Class,
    Group,
}

/// The journal cannot be kept, so nothing may be changed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another agent is at work.
    #[error("another agent uses {}; end it first, or give this one its own --state", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The world failed.
    #[error("cannot keep the journal {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else could have written it: what it says is not to be done.
    #[error("{} is not to be trusted: {why}; give a folder of your own with --state", path.display())]
    Untrusted {
        /// The file or its folder.
        path: PathBuf,
        /// Who could.
        why: String,
    },
    /// It is not one of ours.
    #[error("line {line} of {} is no journal entry; move the file away if it is not an agent's", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
}

/// Refuses what another user could have written: who obeys a journal with more rights than its writer lends them out.
fn trust(path: &Path, found: &fs::Metadata) -> Result<(), JournalError> {
    const OTHERS_WRITE: u32 = 0o022;
    let user = rustix::process::geteuid().as_raw();
    let why = if found.uid() != user && found.uid() != 0 {
        format!("it belongs to user {}, and this agent runs as user {user}", found.uid())
    } else if found.mode() & OTHERS_WRITE != 0 {
        format!("other users may write to it (mode {:o})", found.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(JournalError::Untrusted { path: path.to_owned(), why })
}

impl Journal {
    /// Opens the journal and takes its lock. What an agent that did not end well left in it is for
    /// [`restore`](super::restore::restore).
    ///
    /// # Errors
    /// If it cannot be written, another agent has it, or another user could have written to it.
    pub fn open(path: &Path) -> Result<Journal, JournalError> {
        let io_error = |source| JournalError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io_error)?;
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            trust(folder, &fs::metadata(folder).map_err(io_error)?)?;
        }
        // In a folder that others cannot write to nobody puts a link in its place meanwhile; one that stands there was
        // made by its owner, and what it leads to is judged.
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(path)
            .map_err(io_error)?;
        trust(path, &file.metadata().map_err(io_error)?)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(JournalError::InUse { path: path.to_owned() }),
            other => other.map_err(|error| io_error(error.into()))?,
        }
        Ok(Journal {
            path: path.to_owned(),
            file,
            threads: HashSet::new(),
            groups: HashSet::new(),
            processes: HashSet::new(),
            staged: String::new(),
        })
    }

    /// What stands in it.
    pub(crate) fn records(&self) -> Result<Vec<Record>, JournalError> {
        let text = fs::read_to_string(&self.path)
            .map_err(|source| JournalError::Io { path: self.path.clone(), source })?;
        // A last line without its end was never synced, so what it speaks of was never changed.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |(place, line): (usize, &str)| {
            serde_json::from_str(line)
                .map_err(|_| JournalError::Broken { path: self.path.clone(), line: place + 1 })
        };
        whole.lines().enumerate().map(parse).collect()
    }

    pub(crate) fn process(
        &mut self,
        pid: u32,
        started_ticks: u64,
        nice: i32,
        attached_ticks: u64,
        timer_slack_ns: Option<u64>,
    ) {
        if self.processes.insert((pid, started_ticks)) {
            self.stage(&Record::Process { pid, started_ticks, nice, attached_ticks, timer_slack_ns });
        }
    }

    pub(crate) fn nice(&mut self, thread: ThreadId, nice: i32) {
        if self.threads.insert((thread, Property::Nice)) {
            self.stage(&Record::Nice { thread, nice });
        }
    }

    pub(crate) fn timer_slack(&mut self, thread: ThreadId, ns: u64) {
        if self.threads.insert((thread, Property::TimerSlack)) {
            self.stage(&Record::TimerSlack { thread, ns });
        }
    }

    pub(crate) fn class(&mut self, thread: ThreadId, class: Class) {
        if self.threads.insert((thread, Property::Class)) {
            self.stage(&Record::Class { thread, class });
        }
    }

    pub(crate) fn group(&mut self, thread: ThreadId, folder: &Path) {
        if self.threads.insert((thread, Property::Group)) {
            self.stage(&Record::Group { thread, folder: folder.to_owned() });
        }
    }

    /// Also makes sure that it is on disk.
    pub(crate) fn session(&mut self, autogroup: &Autogroup) -> Result<(), JournalError> {
        self.stage(&Record::Session { autogroup: autogroup.clone() });
        self.sync()
    }

    pub(crate) fn made(&mut self, folder: &Path, back: &Path) {
        if self.groups.insert(folder.to_owned()) {
            self.stage(&Record::Made { folder: folder.to_owned(), back: back.to_owned() });
        }
    }

    pub(crate) fn opened(&mut self, folder: &Path) {
        self.stage(&Record::Opened { folder: folder.to_owned() });
    }

    /// Makes sure that all of the above is on disk.
    pub(crate) fn sync(&mut self) -> Result<(), JournalError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(self.staged.as_bytes()).and_then(|()| self.file.sync_data());
        self.staged.clear();
        written.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    /// Everything is as it was.
    pub(crate) fn clear(&mut self) -> Result<(), JournalError> {
        self.threads.clear();
        self.groups.clear();
        self.processes.clear();
        let cleared = self.file.set_len(0).and_then(|()| self.file.sync_data());
        cleared.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    fn stage(&mut self, record: &Record) {
        self.staged += &serde_json::to_string(record).expect("a record is plain data");
        self.staged.push('\n');
    }
}

#[cfg(test)]
mod trust_tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_journal_that_others_can_write_to_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/journal");
        drop(Journal::open(&path).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        for (changed, good, bad) in [(path.as_path(), 0o600, 0o620), (path.parent().unwrap(), 0o750, 0o777)] {
            fs::set_permissions(changed, fs::Permissions::from_mode(bad)).unwrap();
            let refused = Journal::open(&path).unwrap_err().to_string();
            assert!(
                refused.contains("other users may write to it") && refused.contains("--state"),
                "{refused}"
            );
            fs::set_permissions(changed, fs::Permissions::from_mode(good)).unwrap();
            drop(Journal::open(&path).unwrap());
        }
        let link = folder.path().join("state/link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(Journal::open(&link), Err(JournalError::Io { .. })));
    }

    #[test]
    fn a_journal_of_another_user_is_not_opened() {
        // Only root can give a file away.
        if !rustix::process::geteuid().is_root() {
            return println!("passed over: not root");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        drop(Journal::open(&path).unwrap());
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let refused = Journal::open(&path).unwrap_err().to_string();
        assert!(refused.contains("belongs to user 65534"), "{refused}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_is_written_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/journal");
        let thread = ThreadId { pid: 1, tid: 2, started_ticks: 3 };
        let mut journal = Journal::open(&path).unwrap();
        journal.nice(thread, 0);
        journal.nice(thread, 7);
        journal.made(Path::new("/g"), Path::new("/"));
        journal.sync().unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::InUse { .. })));
        drop(journal);
        let records = Journal::open(&path).unwrap().records().unwrap();
        assert_eq!(
            records,
            [Record::Nice { thread, nice: 0 }, Record::Made { folder: "/g".into(), back: "/".into() }]
        );
    }

    #[test]
    fn a_torn_last_line_is_nothing_and_a_foreign_one_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        fs::write(&path, "{\"made\":{\"folder\":\"/g\",\"back\":\"/\"}}\n{\"nice\":{\"thr").unwrap();
        assert_eq!(Journal::open(&path).unwrap().records().unwrap().len(), 1);
        fs::write(&path, "hello\n").unwrap();
        let error = Journal::open(&path).unwrap().records().unwrap_err();
        assert!(matches!(error, JournalError::Broken { line: 1, .. }));
    }
}
