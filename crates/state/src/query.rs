//! The checkpoints of one query: written, found again, and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use parking_lot::Mutex;

use crate::direct::DirectFile;
use crate::folder::StateError;
use crate::manifest::{Manifest, PartEntry, StoredFile, Unreadable};
use crate::pack::{Encoded, Packs, Place, read_tables};
use crate::tables::Failed;
use crate::written::Written;
use crate::{VERSION, tables};

/// Checkpoints that are kept: the last, the one before where that is damaged, and one more because an output may say that
/// it has come to the one before the last.
pub const KEPT: usize = 3;

pub(crate) const MANIFEST: &str = "manifest.json";

/// The folder of a query.
#[derive(Clone, Debug)]
pub struct QueryFolder {
    path: PathBuf,
    /// Nobody else writes here, so what is there is looked for once: a look reads every manifest.
    known: Arc<Mutex<Known>>,
    /// Where small ones are, together with those of other queries.
    packs: Arc<Packs>,
}

/// What is known to be in a query's folder.
#[derive(Debug, Default)]
struct Known {
    /// Numbers of checkpoints; `None` before the first look. Each was whole when it was written or looked at.
    whole: Option<BTreeSet<u64>>,
    /// Nothing that was begun and not finished is there.
    is_clean: bool,
    /// What was written last into a folder of its own. That is among those that are kept, or was removed with all before.
    written: Option<Written>,
}

/// What a checkpoint takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredBytes {
    /// Of all of it.
    pub held: u64,
    /// Of what was written for it: the rest it shares with those before.
    pub written: u64,
}

/// A checkpoint that is to be written.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// All but the version, and the parts of the instances with their files.
    pub manifest: Manifest,
    /// By place among the manifest's instances: the tables of each.
    pub tables: Vec<Vec<NamedTable>>,
    /// More of them, which are made as they are written.
    pub later: Vec<LaterTables>,
}

/// A table by name, in one piece or several.
pub type NamedTable = (String, Vec<RecordBatch>);

/// Tables of an instance that are made one after the other, as they are written. There is memory for one of them then, not for all.
#[derive(Clone)]
pub struct LaterTables {
    /// Its place among the manifest's instances.
    pub instance: usize,
    /// Makes them, or says why one of them cannot be made. It is asked anew each time that they are to be written.
    pub make: Arc<MakeTables>,
}

/// See [`LaterTables`].
pub type MakeTables = dyn Fn() -> Box<dyn Iterator<Item = Result<NamedTable, String>>> + Send + Sync;

impl std::fmt::Debug for LaterTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaterTables").field("instance", &self.instance).finish_non_exhaustive()
    }
}

/// A checkpoint that is there.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// What it is.
    pub manifest: Manifest,
    /// By where it is, which somebody may have copied.
    number: u64,
    /// A folder, or a file that others are in, too.
    path: PathBuf,
    place: Option<Place>,
}

/// What cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What is in a query's folder.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// Those whose manifest is whole, the last first.
    pub whole: Vec<Checkpoint>,
    /// The others, the last first.
    pub damaged: Vec<Damaged>,
    /// The highest number that was given, 0 if none was.
    pub last: u64,
}

impl QueryFolder {
    pub(crate) fn new(path: PathBuf, packs: Arc<Packs>) -> QueryFolder {
        QueryFolder { path, known: Arc::default(), packs }
    }

    /// The folder's.
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// One was written with those of others.
    pub(crate) fn note(&self, number: u64) {
        if let Some(whole) = &mut self.known.lock().whole {
            whole.insert(number);
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is there.
    ///
    /// # Errors
    /// If the folder cannot be read, or something in it is of a newer program.
    pub fn checkpoints(&self) -> Result<Checkpoints, StateError> {
        let mut found = Checkpoints { damaged: self.packs.damaged(), ..Checkpoints::default() };
        for (number, place) in self.packs.of(self.name()) {
            found.last = found.last.max(number);
            let path = self.packs.path_of(place);
            match self.packs.manifest(place) {
                Ok(manifest) => {
                    found.whole.push(Checkpoint { manifest, number, path, place: Some(place) });
                }
                Err(Unreadable::Newer(version)) => return Err(StateError::Newer { path, found: version }),
                Err(Unreadable::Damaged(reason)) => found.damaged.push(Damaged { path, reason }),
            }
        }
        for number in self.numbers()? {
            found.last = found.last.max(number);
            let path = self.path.join(folder_of(number));
            let manifest = path.join(MANIFEST);
            let text =
                std::fs::read_to_string(&manifest).map_err(|error| Unreadable::Damaged(error.to_string()));
            match text.and_then(|text| Manifest::of_text(&text)) {
                Ok(manifest) => found.whole.push(Checkpoint { manifest, number, path, place: None }),
                Err(Unreadable::Newer(version)) => {
                    return Err(StateError::Newer { path: manifest, found: version });
                }
                Err(Unreadable::Damaged(reason)) => found.damaged.push(Damaged { path: manifest, reason }),
            }
        }
        found.whole.sort_by_key(|one| std::cmp::Reverse(one.number));
        Ok(found)
    }

    /// Writes a checkpoint; returns when it is on the disk, with its bytes. A table of the same arrays as one of the last
    /// checkpoint is not written again: both have its file, and each can be removed without the other.
    ///
    /// # Errors
    /// If the disk refuses, or a checkpoint of that number is there. Nothing is left then but a folder whose name begins
    /// with a dot, which the next one removes.
    pub fn write(&self, draft: Draft) -> Result<StoredBytes, StateError> {
        let number = draft.manifest.checkpoint;
        let mut known = self.known.lock();
        std::fs::create_dir_all(&self.path).map_err(StateError::io("create", &self.path))?;
        if !std::mem::replace(&mut known.is_clean, false) {
            self.clean();
        }
        let unfinished = self.path.join(format!(".{}.tmp", folder_of(number)));
        std::fs::create_dir(&unfinished).map_err(StateError::io("create", &unfinished))?;
        let mut written = Written::new(number);
        let mut copies = BTreeMap::new();
        let manifest = draft.put_down(|name, pieces, is_new| {
            let path = unfinished.join(name);
            let write = || write_table(name, pieces, &path, self.packs.mirror().is_some());
            if is_new {
                return write();
            }
            let last = known.written.as_ref();
            let stored = match last.and_then(|last| Some((last.number(), self.share(last, pieces, &path)?))) {
                Some((other, stored)) => {
                    copies.insert(name.to_owned(), (other, stored.name.clone()));
                    StoredFile { name: name.to_owned(), ..stored }
                }
                None => write()?,
            };
            written.note(pieces, stored.clone());
            Ok(stored)
        })?;
        let text = manifest.to_text();
        let path = unfinished.join(MANIFEST);
        tables::write_synced(&path, text.as_bytes()).map_err(StateError::io("write", &path))?;
        sync(&unfinished)?;
        if let Some(mirror) = self.packs.mirror() {
            mirror.put_checkpoint(self.name(), number, &unfinished, &manifest, &copies)?;
        }
        let path = self.path.join(folder_of(number));
        std::fs::rename(&unfinished, &path).map_err(StateError::io("write", &path))?;
        sync(&self.path)?;
        known.is_clean = true;
        known.written = Some(written);
        if let Some(whole) = &mut known.whole {
            whole.insert(number);
        }
        let text_bytes = text.len() as u64;
        Ok(StoredBytes {
            held: manifest.bytes() + text_bytes,
            written: manifest.written_bytes() + text_bytes,
        })
    }

    /// Gives the file that the last checkpoint has of the same table a second name. `None` if it has none, it is not as long
    /// as it was written, or the file system has no such names: then it is to be written.
    fn share(&self, last: &Written, pieces: &[RecordBatch], path: &Path) -> Option<StoredFile> {
        let file = last.file_of(pieces)?;
        let of_last = self.path.join(folder_of(last.number())).join(&file.name);
        let length = std::fs::symlink_metadata(&of_last).ok().filter(std::fs::Metadata::is_file)?.len();
        if length != file.bytes || std::fs::hard_link(&of_last, path).is_err() {
            return None;
        }
        let written_in = file.written_in.or(Some(last.number()));
        Some(StoredFile { written_in, ..file.clone() })
    }

    /// Removes all but the last checkpoints. What is damaged is left, and so is a folder that something else was put into.
    ///
    /// # Errors
    /// If the folder cannot be read. What cannot be removed is left for the next time.
    pub fn keep_last(&self, kept: usize) -> Result<(), StateError> {
        let mut known = self.known.lock();
        let whole = match &mut known.whole {
            Some(whole) => whole,
            none => {
                let found = self.checkpoints()?.whole;
                none.insert(found.iter().map(|one| one.number).collect())
            }
        };
        let mut surplus = whole.len().saturating_sub(kept);
        whole.retain(|&number| {
            let is_surplus = surplus > 0;
            surplus = surplus.saturating_sub(1);
            !is_surplus || self.remove(number).is_err()
        });
        Ok(())
    }

    /// Removes a checkpoint, if it is still what was written.
    fn remove(&self, number: u64) -> io::Result<()> {
        if self.packs.forget(self.name(), number) {
            return Ok(());
        }
        let manifest = self.remove_folder(number)?;
        if let Some((mirror, manifest)) = self.packs.mirror().zip(manifest) {
            mirror.remove_checkpoint(self.name(), number, &manifest);
        }
        Ok(())
    }

    /// Removes one that has a folder of its own: its manifest, if it was there.
    pub(crate) fn remove_folder(&self, number: u64) -> io::Result<Option<Manifest>> {
        let path = self.path.join(folder_of(number));
        let text = match std::fs::read_to_string(path.join(MANIFEST)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(manifest) = Manifest::of_text(&text) else { return Ok(None) };
        // The manifest first: what is left of it is no checkpoint any more.
        std::fs::remove_file(path.join(MANIFEST))?;
        for StoredFile { name, .. } in &manifest.files {
            let _is_left = std::fs::remove_file(path.join(name));
        }
        let _is_left = std::fs::remove_dir(&path);
        Ok(Some(manifest))
    }

    /// Removes what was begun and not finished.
    fn clean(&self) {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(".tmp"));
            if number.and_then(number_of).is_none() {
                continue;
            }
            for file in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let name = file.file_name();
                let is_ours = name.to_str().is_some_and(|name| name == MANIFEST || name.ends_with(".arrow"));
                let _next_time = is_ours.then(|| std::fs::remove_file(file.path()));
            }
            let _next_time = std::fs::remove_dir(entry.path());
        }
    }

    /// Of what look like checkpoints, the highest first.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>, StateError> {
        let failed = || StateError::io("list", &self.path);
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed())?.file_name();
            numbers.extend(name.to_str().and_then(number_of));
        }
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }
}

impl Draft {
    /// As it goes to the disk, to be written [with others](crate::StateFolder::write_together).
    ///
    /// # Errors
    /// If a table cannot be written.
    pub fn encode(self) -> Result<Encoded, StateError> {
        let mut tables = Vec::new();
        let manifest = self.put_down(|name, pieces, _is_new| {
            let encoded = tables::encode(pieces, &mut tables);
            let (bytes, crc32) = encoded.map_err(|failed| failed_at(Path::new(name), failed))?;
            Ok(StoredFile { name: name.to_owned(), bytes, crc32, written_in: None })
        })?;
        Encoded::new(manifest, &tables).map_err(StateError::io("compress", Path::new("a checkpoint")))
    }

    /// Gives each table, its file's name and whether it was just made to `put`, which answers with the file; the manifest then.
    fn put_down(
        self,
        mut put: impl FnMut(&str, &[RecordBatch], bool) -> Result<StoredFile, StateError>,
    ) -> Result<Manifest, StateError> {
        let Draft { mut manifest, tables, later } = self;
        manifest.version = VERSION;
        manifest.files.clear();
        for (place, instance) in manifest.instances.iter_mut().enumerate() {
            instance.parts.clear();
            let made = tables.get(place).into_iter().flatten().cloned().map(|table| (Ok(table), false));
            let later = later.iter().filter(|later| later.instance == place);
            let all = made.chain(later.flat_map(|later| (later.make)()).map(|table| (table, true)));
            for (table, is_new) in all {
                let (name, pieces) =
                    table.map_err(|message| StateError::Unmade { query: manifest.query.clone(), message })?;
                let file = file_name(instance.node, instance.instance, &name, manifest.files.len());
                manifest.files.push(put(&file, &pieces, is_new)?);
                let rows = pieces.iter().map(|rows| rows.num_rows() as u64).sum();
                instance.parts.push(PartEntry { name, file, rows });
            }
        }
        Ok(manifest)
    }
}

impl Checkpoint {
    /// The tables of each instance, by name, in the order of the manifest's instances.
    ///
    /// # Errors
    /// The first file that is not what was written.
    pub fn tables(&self) -> Result<Vec<Vec<(String, RecordBatch)>>, Damaged> {
        let together = self.place.map(|place| read_tables(&self.path, place, self.manifest.bytes()));
        let together = together
            .transpose()
            .map_err(|error| Damaged { path: self.path.clone(), reason: error.to_string() })?;
        let table = |part: &PartEntry| {
            let path = match self.place {
                Some(_) => self.path.clone(),
                None => self.path.join(&part.file),
            };
            let rows = self.table(&part.file, &path, together.as_deref());
            rows.map(|rows| (part.name.clone(), rows)).map_err(|reason| Damaged { path, reason })
        };
        self.manifest.instances.iter().map(|instance| instance.parts.iter().map(table).collect()).collect()
    }

    /// The table in that file, or, where all tables are one behind the other, in these bytes.
    fn table(&self, name: &str, path: &Path, together: Option<&[u8]>) -> Result<RecordBatch, String> {
        let files = &self.manifest.files;
        let at = files.iter().position(|file| file.name == name).ok_or("the manifest does not list it")?;
        let stored = &files[at];
        let Some(together) = together else {
            return tables::decode(&std::fs::read(path).map_err(|error| error.to_string())?, stored);
        };
        let start = files[..at].iter().map(|file| file.bytes).sum::<u64>() as usize;
        let bytes = together.get(start..start + stored.bytes as usize).ok_or("it is cut off")?;
        tables::decode(bytes, stored)
    }

    /// Its folder, or the file that it is in with others.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn write_table(
    name: &str,
    pieces: &[RecordBatch],
    path: &Path,
    is_read_next: bool,
) -> Result<StoredFile, StateError> {
    let file = File::create_new(path).map_err(StateError::io("write", path))?;
    let mut file = DirectFile::new(file, !is_read_next);
    let (bytes, crc32) = tables::encode(pieces, &mut file).map_err(|failed| failed_at(path, failed))?;
    file.sync().map_err(StateError::io("write", path))?;
    Ok(StoredFile { name: name.to_owned(), bytes, crc32, written_in: None })
}

fn failed_at(path: &Path, failed: Failed) -> StateError {
    match failed {
        Failed::Disk(error) => StateError::io("write", path)(error),
        Failed::Table(message) => StateError::Table { path: path.to_owned(), message },
    }
}

pub(crate) fn folder_of(number: u64) -> String {
    format!("chk-{number}")
}

pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("chk-")?;
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

fn file_name(node: usize, instance: usize, part: &str, number: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '.' };
    let part: String = part.chars().take(60).map(plain).collect();
    format!("{node}-{instance}-{number}-{part}.arrow")
}

pub(crate) fn sync(folder: &Path) -> Result<(), StateError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(StateError::io("sync", folder))
}

#[cfg(test)]
mod tests;
