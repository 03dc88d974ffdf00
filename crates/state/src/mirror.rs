//! The copy of a state folder in a store of objects, from which another machine goes on.
//!
//! ```text
//! owner-7                          who works with it: the highest number does
//! QUERY/chk-7/NODE-….arrow         as in the folder, and
//! QUERY/chk-7/manifest.json        put last: without it the others are no checkpoint
//! checkpoints-12.pack              as in the folder
//! ```
//!
//! What is in the store goes before what is in the folder: a checkpoint is there before it counts. Nobody can be kept from a
//! store, so who begins puts a higher number there than all before, and whoever sees one above his own puts nothing more
//! there. Names of manifests and packs are given once, so of two who have not seen each other yet one loses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::folder::{StateError, StateFolder};
use crate::manifest::Manifest;
use crate::pack::is_pack;
use crate::query::{MANIFEST, folder_of, number_of};
use crate::store::{ObjectStore, StoreFault};

/// The copy of a folder, which this process works with.
#[derive(Debug)]
pub struct Mirror {
    store: Arc<dyn ObjectStore>,
    /// Its number among those who did.
    owner: u64,
}

/// What the store fails to do is tried so often at once, with growing pauses; who writes a checkpoint begins anew later.
const ATTEMPTS: u32 = 4;
const PAUSE_FIRST: Duration = Duration::from_micros(if cfg!(test) { 1 } else { 50_000 });

const OWNER: &str = "owner-";

impl Mirror {
    /// Takes over the store from whoever worked with it, and makes the folder what is there; a store with nothing in it gets
    /// what is in the folder.
    ///
    /// # Errors
    /// If another process works with the folder, it has checkpoints behind those of the store, or the store or the disk does
    /// not do what it should.
    pub fn begin(folder: &Path, store: Arc<dyn ObjectStore>) -> Result<Arc<Mirror>, StateError> {
        let _lock = StateFolder::open(folder)?;
        let owner = take_over(&*store)?;
        let mirror = Mirror { store, owner };
        let names = mirror.try_to("list", || mirror.store.list())?;
        let there: BTreeSet<&str> =
            names.iter().map(String::as_str).filter(|name| !name.starts_with(OWNER)).collect();
        match there.is_empty() {
            true => mirror.give_all(folder)?,
            false => mirror.fetch(folder, &there)?,
        }
        Ok(Arc::new(mirror))
    }

    /// Puts the files of a checkpoint there, those that are as in another by a copy of that, and the manifest last.
    /// `copies`: by name, the number and name of the other.
    pub(crate) fn put_checkpoint(
        &self,
        query: &str,
        number: u64,
        from: &Path,
        manifest: &Manifest,
        copies: &BTreeMap<String, (u64, String)>,
    ) -> Result<(), StateError> {
        for file in &manifest.files {
            let name = object(query, number, &file.name);
            match copies.get(&file.name) {
                Some((other, other_name)) => {
                    let of = object(query, *other, other_name);
                    self.try_to("copy", || self.store.copy(&of, &name))?;
                }
                None => self.try_to("put", || self.store.put(&name, &from.join(&file.name)))?,
            }
        }
        let text = manifest.to_text();
        self.put_last(&object(query, number, MANIFEST), text.as_bytes())
    }

    /// What makes other objects count, or counts by itself.
    pub(crate) fn put_last(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        self.check_owner()?;
        // The answer to one that was put may have been lost.
        let is_new = self.try_to("put", || self.store.put_new(name, bytes))?;
        match is_new || self.try_to("get", || self.store.get(name))? == bytes {
            true => Ok(()),
            false => Err(self.taken_over()),
        }
    }

    /// What stays is removed by who begins the next time, or by nobody: it is never read.
    pub(crate) fn remove_checkpoint(&self, query: &str, number: u64, manifest: &Manifest) {
        let files = manifest.files.iter().map(|file| file.name.as_str());
        for file in std::iter::once(MANIFEST).chain(files) {
            self.remove(&object(query, number, file));
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        let _stays = self.try_to("remove", || self.store.remove(name));
    }

    fn check_owner(&self) -> Result<(), StateError> {
        let names = self.try_to("list", || self.store.list())?;
        match owners(&names).max() {
            Some(last) if last > self.owner => Err(self.taken_over()),
            _ => Ok(()),
        }
    }

    fn taken_over(&self) -> StateError {
        StateError::TakenOver { store: self.store.shown().to_owned() }
    }

    fn try_to<T>(
        &self,
        action: &'static str,
        act: impl Fn() -> Result<T, StoreFault>,
    ) -> Result<T, StateError> {
        try_to(&*self.store, action, act)
    }

    /// Puts all that the folder has there.
    fn give_all(&self, folder: &Path) -> Result<(), StateError> {
        let look = StateFolder::look(folder)?;
        for query in look.queries()? {
            for number in query.numbers()? {
                let from = query.path().join(folder_of(number));
                let Some(manifest) =
                    read(&from.join(MANIFEST)).and_then(|text| Manifest::of_text(&text).ok())
                else {
                    continue;
                };
                self.put_checkpoint(query.name(), number, &from, &manifest, &BTreeMap::new())?;
            }
        }
        for (name, path) in files_of(folder)?.into_iter().filter(|(name, _)| is_pack(name)) {
            let bytes = fs::read(&path).map_err(StateError::io("read", &path))?;
            self.put_last(&name, &bytes)?;
        }
        Ok(())
    }

    /// Makes the folder what is there.
    fn fetch(&self, folder: &Path, there: &BTreeSet<&str>) -> Result<(), StateError> {
        let manifests: BTreeSet<(&str, u64)> = there.iter().filter_map(|name| of_manifest(name)).collect();
        self.remove_others(folder, &manifests, there)?;
        for &(query, number) in &manifests {
            self.fetch_checkpoint(folder, query, number)?;
        }
        for name in there.iter().filter(|name| is_pack(name)) {
            let bytes = self.try_to("get", || self.store.get(name))?;
            let path = folder.join(name);
            let unfinished = folder.join(format!(".{name}.tmp"));
            fs::write(&unfinished, bytes).map_err(StateError::io("write", &unfinished))?;
            fs::rename(&unfinished, &path).map_err(StateError::io("write", &path))?;
        }
        Ok(())
    }

    /// Takes away what the store no longer has. What it never had is refused.
    fn remove_others(
        &self,
        folder: &Path,
        manifests: &BTreeSet<(&str, u64)>,
        there: &BTreeSet<&str>,
    ) -> Result<(), StateError> {
        let look = StateFolder::look(folder)?;
        let behind =
            |what: &Path| StateError::Behind { store: self.store.shown().to_owned(), path: what.to_owned() };
        for query in look.queries()? {
            let last =
                manifests.iter().filter(|(of, _)| *of == query.name()).map(|(_, number)| *number).max();
            for number in query.numbers()? {
                if manifests.contains(&(query.name(), number)) {
                    continue;
                }
                let path = query.path().join(folder_of(number));
                if last.is_none_or(|last| last < number) {
                    return Err(behind(&path));
                }
                query.remove_folder(number).map_err(StateError::io("remove", &path))?;
            }
        }
        let packs = || there.iter().filter(|name| is_pack(name));
        for (name, path) in files_of(folder)?.into_iter().filter(|(name, _)| is_pack(name)) {
            if !there.contains(name.as_str()) {
                let (length, last) = (name.len(), packs().map(|name| (name.len(), *name)).max());
                if last.is_none_or(|last| last < (length, name.as_str())) {
                    return Err(behind(&path));
                }
                fs::remove_file(&path).map_err(StateError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    fn fetch_checkpoint(&self, folder: &Path, query: &str, number: u64) -> Result<(), StateError> {
        let name = object(query, number, MANIFEST);
        let bytes = self.try_to("get", || self.store.get(&name))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let path = folder.join(query).join(folder_of(number));
        if read(&path.join(MANIFEST)).is_some_and(|own| own == text) {
            return Ok(());
        }
        // One that was damaged is told of by who reads it here.
        let files = Manifest::of_text(&text).map_or_else(|_| Vec::new(), |manifest| manifest.files);
        let unfinished = folder.join(query).join(format!(".{}.tmp", folder_of(number)));
        let _is_new = fs::remove_dir_all(&unfinished);
        fs::create_dir_all(&unfinished).map_err(StateError::io("create", &unfinished))?;
        for file in files.iter().filter(|file| is_plain(&file.name)) {
            let name = object(query, number, &file.name);
            let path = unfinished.join(&file.name);
            match self.try_to("get", || self.store.get(&name)) {
                Ok(bytes) => fs::write(&path, bytes).map_err(StateError::io("write", &path))?,
                Err(StateError::Store { may_pass: false, .. }) => {}
                Err(other) => return Err(other),
            }
        }
        let manifest = unfinished.join(MANIFEST);
        fs::write(&manifest, text).map_err(StateError::io("write", &manifest))?;
        let _was_not_there = fs::remove_dir_all(&path);
        fs::rename(&unfinished, &path).map_err(StateError::io("write", &path))
    }
}

/// Makes this process the one that works with it: its number.
fn take_over(store: &dyn ObjectStore) -> Result<u64, StateError> {
    let who = format!("process {}", std::process::id());
    loop {
        let names = try_to(store, "list", || store.list())?;
        let own = owners(&names).max().unwrap_or(0) + 1;
        let name = format!("{OWNER}{own}");
        // One that was put while the answer was lost is not known as ours, and the next number is.
        if try_to(store, "put", || store.put_new(&name, who.as_bytes()))? {
            for old in owners(&names) {
                let _stays = store.remove(&format!("{OWNER}{old}"));
            }
            return Ok(own);
        }
    }
}

fn owners(names: &[String]) -> impl Iterator<Item = u64> {
    names.iter().filter_map(|name| name.strip_prefix(OWNER)?.parse().ok())
}

fn try_to<T>(
    store: &dyn ObjectStore,
    action: &'static str,
    act: impl Fn() -> Result<T, StoreFault>,
) -> Result<T, StateError> {
    let mut pause = PAUSE_FIRST;
    for attempt in 1.. {
        match act() {
            Ok(done) => return Ok(done),
            Err(fault) if fault.may_pass && attempt < ATTEMPTS => std::thread::sleep(pause),
            Err(StoreFault { message, may_pass }) => {
                let store = store.shown().to_owned();
                return Err(StateError::Store { action, store, message, may_pass });
            }
        }
        pause *= 2;
    }
    unreachable!("the last attempt returns")
}

fn object(query: &str, number: u64, file: &str) -> String {
    format!("{query}/{}/{file}", folder_of(number))
}

/// The query's folder and the number, if it is the name of a manifest.
fn of_manifest(name: &str) -> Option<(&str, u64)> {
    let mut parts = name.split('/');
    let (query, number) = (parts.next()?, number_of(parts.next()?)?);
    (is_plain(query) && parts.next()? == MANIFEST && parts.next().is_none()).then_some((query, number))
}

/// It names something in the folder that it is looked for in. Whoever can write to the store could have put it there.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn files_of(folder: &Path) -> Result<Vec<(String, PathBuf)>, StateError> {
    let entries = fs::read_dir(folder).map_err(StateError::io("list", folder))?;
    let named =
        entries.flatten().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    Ok(named.collect())
}

#[cfg(test)]
mod tests;
