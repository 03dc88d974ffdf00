//! Small checkpoints of several queries in one file: one sync is enough for all of them.
//!
//! Each is there by itself, with a manifest and checksums of its own, as in a folder, but compressed: of a small one most is
//! names, and what stands around few rows. A file is removed with the last of its checkpoints that is still kept.
//!
//! ```text
//! tables of one, its manifest, tables of the next, its manifest … index (JSON) | length, CRC-32 of the index and its version, version, MAGIC
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::folder::{StateError, folder_name};
use crate::manifest::{Manifest, Unreadable};
use crate::mirror::Mirror;
use crate::query::{Damaged, StoredBytes};
use crate::{VERSION, tables};

/// The packs of a state folder.
#[derive(Debug)]
pub(crate) struct Packs {
    path: PathBuf,
    known: Mutex<Known>,
    /// The copy of the folder.
    mirror: Option<Arc<Mirror>>,
}

#[derive(Debug, Default)]
struct Known {
    /// The highest number in use, 0 if none is.
    last: u64,
    /// How many checkpoints of each are kept.
    live: BTreeMap<u64, usize>,
    /// By the name of a query's folder, and number.
    entries: HashMap<String, BTreeMap<u64, Place>>,
    /// Files that cannot be read, whoever has checkpoints in them.
    damaged: Vec<Damaged>,
}

/// Where a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pack: u64,
    /// Of its tables, one behind the other as the manifest lists them.
    offset: u64,
    table_bytes: u64,
    manifest_bytes: u64,
    checksums: Option<Checksums>,
}

/// A checkpoint as it goes to the disk.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub(crate) manifest: Manifest,
    /// Compressed.
    tables: Vec<u8>,
    /// The manifest's text, compressed.
    text: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Entry {
    query: String,
    checkpoint: u64,
    offset: u64,
    table_bytes: u64,
    manifest_bytes: u64,
    /// None where they are not compressed: before version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksums: Option<Checksums>,
}

/// CRC-32 of what is compressed, as it lies in the file: not every change of that is one of what comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Checksums {
    tables: u32,
    manifest: u32,
}

const MAGIC: [u8; 8] = *b"laxity\x00\x01";
/// Length of the index, checksum, version, magic.
const TRAILER_BYTES: u64 = 8 + 4 + 4 + 8;
/// No index is longer, and no manifest.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// Of zstd, the fastest of the plain ones: of a thousand small checkpoints it makes a fifth.
const LEVEL: i32 = 1;

impl Encoded {
    pub(crate) fn new(manifest: Manifest, tables: &[u8]) -> io::Result<Encoded> {
        let text = zstd::bulk::compress(manifest.to_text().as_bytes(), LEVEL)?;
        Ok(Encoded { manifest, tables: zstd::bulk::compress(tables, LEVEL)?, text })
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> StoredBytes {
        let held = (self.tables.len() + self.text.len()) as u64;
        StoredBytes { held, written: held }
    }
}

impl Packs {
    /// Those of a folder, which need not be there.
    ///
    /// # Errors
    /// If it cannot be read, or one is of a newer program.
    pub fn load(path: &Path) -> Result<Packs, StateError> {
        let mut known = Known::default();
        let failed = |error| StateError::io("list", path)(error);
        let files = match std::fs::read_dir(path) {
            Ok(files) => files.collect::<Result<Vec<_>, _>>().map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        for file in files {
            let name = file.file_name();
            let Some(number) = name.to_str().and_then(number_of) else { continue };
            known.last = known.last.max(number);
            let path = file.path();
            match read_index(&path) {
                Ok(entries) => {
                    known.live.insert(number, entries.len());
                    entries.into_iter().for_each(|entry| known.add(number, entry));
                }
                Err(Unreadable::Newer(version)) => return Err(StateError::Newer { path, found: version }),
                Err(Unreadable::Damaged(reason)) => known.damaged.push(Damaged { path, reason }),
            }
        }
        Ok(Packs { path: path.to_owned(), known: Mutex::new(known), mirror: None })
    }

    /// With a copy of the folder, if there is one.
    pub fn mirrored(self, mirror: Option<Arc<Mirror>>) -> Packs {
        Packs { mirror, ..self }
    }

    /// The copy of the folder.
    pub fn mirror(&self) -> Option<&Mirror> {
        self.mirror.as_deref()
    }

    /// Removes what was begun and not finished.
    pub fn clean(&self) {
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let begun = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(".tmp"));
            if begun.and_then(number_of).is_some() {
                let _next_time = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Names of the folders that queries with checkpoints here would have.
    pub fn folders(&self) -> Vec<String> {
        self.known.lock().entries.keys().cloned().collect()
    }

    /// Numbers of the checkpoints of a query, with where they are.
    pub fn of(&self, folder: &str) -> Vec<(u64, Place)> {
        let known = self.known.lock();
        known.entries.get(folder).into_iter().flatten().map(|(&number, &place)| (number, place)).collect()
    }

    /// Files that cannot be read.
    pub fn damaged(&self) -> Vec<Damaged> {
        self.known.lock().damaged.clone()
    }

    /// The file.
    pub fn path_of(&self, place: Place) -> PathBuf {
        self.path.join(name_of(place.pack))
    }

    /// The manifest of a checkpoint.
    pub fn manifest(&self, place: Place) -> Result<Manifest, Unreadable> {
        let at = place.offset + place.table_bytes;
        let checksum = place.checksums.map(|of| of.manifest);
        let bytes = read_part(&self.path_of(place), at, place.manifest_bytes, checksum, TEXT_BYTES_MAX);
        let bytes = bytes.map_err(|error| Unreadable::Damaged(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| Unreadable::Damaged(error.to_string()))?;
        Manifest::of_text(&text)
    }

    /// Writes checkpoints, each of another query; returns when all are on the disk.
    ///
    /// # Errors
    /// If the disk refuses; none of them is there then.
    pub fn write(&self, drafts: &[&Encoded]) -> Result<(), StateError> {
        let mut known = self.known.lock();
        let number = known.last + 1;
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for Encoded { manifest, tables, text } in drafts {
            entries.push(Entry {
                query: manifest.query.clone(),
                checkpoint: manifest.checkpoint,
                offset: bytes.len() as u64,
                table_bytes: tables.len() as u64,
                manifest_bytes: text.len() as u64,
                checksums: Some(Checksums {
                    tables: crc32fast::hash(tables),
                    manifest: crc32fast::hash(text),
                }),
            });
            bytes.extend_from_slice(tables);
            bytes.extend_from_slice(text);
        }
        let index = serde_json::to_vec(&entries).expect("its keys are text");
        bytes.extend_from_slice(&index);
        bytes.extend_from_slice(&(index.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&checksum(&index, &VERSION.to_le_bytes()).to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        let name = name_of(number);
        let unfinished = self.path.join(format!(".{name}.tmp"));
        // One that was begun before and could not be finished.
        let _is_new = std::fs::remove_file(&unfinished);
        tables::write_synced(&unfinished, &bytes).map_err(StateError::io("write", &unfinished))?;
        if let Some(mirror) = self.mirror() {
            // It may come to be there though nobody is told: then the next one has another name.
            known.last = number;
            mirror.put_last(&name, &bytes)?;
        }
        let path = self.path.join(&name);
        std::fs::rename(&unfinished, &path).map_err(StateError::io("write", &path))?;
        crate::query::sync(&self.path)?;
        known.last = number;
        known.live.insert(number, entries.len());
        entries.into_iter().for_each(|entry| known.add(number, entry));
        Ok(())
    }

    /// A checkpoint is not kept any longer. With the last of them its file goes.
    pub fn forget(&self, folder: &str, checkpoint: u64) -> bool {
        let mut known = self.known.lock();
        let Some(place) = known.entries.get_mut(folder).and_then(|of| of.remove(&checkpoint)) else {
            return false;
        };
        let Some(live) = known.live.get_mut(&place.pack) else { return true };
        *live -= 1;
        if *live == 0 {
            known.live.remove(&place.pack);
            let _stays = std::fs::remove_file(self.path_of(place));
            if let Some(mirror) = self.mirror() {
                mirror.remove(&name_of(place.pack));
            }
        }
        true
    }
}

impl Known {
    fn add(&mut self, pack: u64, entry: Entry) {
        let Entry { query, checkpoint, offset, table_bytes, manifest_bytes, checksums } = entry;
        let place = Place { pack, offset, table_bytes, manifest_bytes, checksums };
        let of_query = self.entries.entry(folder_name(&query)).or_default();
        // Of two of one number the later stands: the other was given up.
        let other = of_query.get(&checkpoint).filter(|other| other.pack > pack).copied();
        let replaced = of_query.insert(checkpoint, other.unwrap_or(place));
        let gone = if other.is_some() { Some(place) } else { replaced };
        if let Some(live) = gone.and_then(|gone| self.live.get_mut(&gone.pack)) {
            *live -= 1;
        }
    }
}

/// The tables of a checkpoint in that file, which are so many bytes in all.
pub(crate) fn read_tables(path: &Path, place: Place, bytes: u64) -> io::Result<Vec<u8>> {
    read_part(path, place.offset, place.table_bytes, place.checksums.map(|of| of.tables), bytes)
}

/// So many bytes of a file, out of which at most so many come; compressed where there is a checksum.
fn read_part(
    path: &Path,
    offset: u64,
    stored: u64,
    checksum: Option<u32>,
    bytes_max: u64,
) -> io::Result<Vec<u8>> {
    let bytes = read_at(path, offset, stored)?;
    let Some(checksum) = checksum else { return Ok(bytes) };
    if crc32fast::hash(&bytes) != checksum {
        return Err(io::Error::other("its checksum is another: it was changed or damaged"));
    }
    let mut whole = Vec::new();
    zstd::Decoder::with_buffer(&bytes[..])?.take(bytes_max).read_to_end(&mut whole)?;
    Ok(whole)
}

/// So many bytes of a file.
fn read_at(path: &Path, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    match read.len() as u64 == bytes {
        true => Ok(read),
        false => Err(io::Error::other(format!("it ends {} bytes early", bytes - read.len() as u64))),
    }
}

fn read_index(path: &Path) -> Result<Vec<Entry>, Unreadable> {
    let failed = |error: io::Error| Unreadable::Damaged(error.to_string());
    let damaged = |reason: &str| Unreadable::Damaged(reason.to_owned());
    let length = std::fs::metadata(path).map_err(failed)?.len();
    let at = length.checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("it is cut off"))?;
    let trailer = read_at(path, at, TRAILER_BYTES).map_err(failed)?;
    let (bytes, rest) = trailer.split_at(8);
    let (crc, rest) = rest.split_at(4);
    let (version, magic) = rest.split_at(4);
    if magic != MAGIC {
        return Err(damaged("it does not end as it was written: it was cut off, or is another's"));
    }
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    if word(version) > u64::from(VERSION) {
        return Err(Unreadable::Newer(word(version)));
    }
    let bytes = word(bytes);
    let start = at.checked_sub(bytes).filter(|_| bytes <= TEXT_BYTES_MAX);
    let start = start.ok_or_else(|| damaged("its index is longer than it is"))?;
    let index = read_at(path, start, bytes).map_err(failed)?;
    if u64::from(checksum(&index, version)) != word(crc) {
        return Err(damaged("the checksum of its index is another: it was changed or damaged"));
    }
    serde_json::from_slice(&index).map_err(|error| Unreadable::Damaged(format!("no index: {error}")))
}

/// Of the version too: one that was changed to an older one would be read as that.
fn checksum(index: &[u8], version: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(index);
    hasher.update(version);
    hasher.finalize()
}

/// It is the name of a pack.
pub(crate) fn is_pack(name: &str) -> bool {
    number_of(name).is_some()
}

fn name_of(number: u64) -> String {
    format!("checkpoints-{number}.pack")
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("checkpoints-")?.strip_suffix(".pack")?;
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

#[cfg(test)]
mod tests;
