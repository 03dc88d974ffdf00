//! Files that are seen when they are complete: until then their names begin with a dot, and end with `.inprogress`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::OutputPosition;

/// Which files of a writer are complete, and which of them a checkpoint has yet to let be seen.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    /// The query has checkpoints: what is complete waits for the next one.
    pub is_checkpointed: bool,
    /// Complete since the last checkpoint was prepared. Names below the table's folder.
    complete: Vec<String>,
    /// Prepared, and not committed yet.
    prepared: Vec<String>,
    /// Behind the highest number of a file so far.
    next: usize,
}

const FILES: &str = "files";
const NEXT: &str = "next";

/// The number of the first file that is written after a checkpoint.
pub(crate) fn number_after(position: Option<&OutputPosition>) -> usize {
    let Some(OutputPosition::Named(named)) = position else { return 0 };
    named.get(NEXT).and_then(|next| next.parse().ok()).unwrap_or(0)
}

impl Whole {
    pub(crate) fn new(is_checkpointed: bool, next: usize) -> Whole {
        Whole { is_checkpointed, next, ..Whole::default() }
    }

    /// A file of that number is begun.
    pub(super) fn begin(&mut self, number: usize) {
        self.next = self.next.max(number + 1);
    }

    /// Everything of a file is on the disk.
    pub(super) fn complete(&mut self, folder: &Path, file: &str) -> io::Result<()> {
        match self.is_checkpointed {
            true => self.complete.push(file.to_owned()),
            false => show(folder, file)?,
        }
        Ok(())
    }

    pub(super) fn prepare(&mut self) -> OutputPosition {
        // What an earlier one has prepared, and was given up after that, is there too.
        self.prepared.append(&mut self.complete);
        let named = [(NEXT.to_owned(), self.next.to_string()), (FILES.to_owned(), self.prepared.join("\n"))];
        OutputPosition::Named(BTreeMap::from(named))
    }

    pub(super) fn commit(&mut self, folder: &Path) -> io::Result<()> {
        std::mem::take(&mut self.prepared).iter().try_for_each(|file| show(folder, file))
    }
}

/// Lets files be seen that a checkpoint has prepared, where that was not done before the process ended.
pub(super) fn finish_commit(folder: &Path, position: &OutputPosition) -> io::Result<()> {
    let OutputPosition::Named(named) = position else { return Ok(()) };
    let files = named.get(FILES).map(String::as_str).unwrap_or_default();
    files.split('\n').filter(|file| !file.is_empty()).try_for_each(|file| match folder.join(file).exists() {
        true => Ok(()),
        false => show(folder, file),
    })
}

/// Where a file is until it is complete.
pub(super) fn hidden(folder: &Path, file: &str) -> PathBuf {
    let path = folder.join(file);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.inprogress"))
}

/// The name that a file has once it is complete, of one that may be hidden; and whether it is.
pub(super) fn shown(name: &str) -> (&str, bool) {
    match name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".inprogress")) {
        Some(shown) => (shown, true),
        None => (name, false),
    }
}

fn show(folder: &Path, file: &str) -> io::Result<()> {
    let path = folder.join(file);
    std::fs::rename(hidden(folder, file), &path)?;
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}
