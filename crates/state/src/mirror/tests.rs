//! A store that fails at seeded moments, before or after it did what it was asked, and processes that are killed and begin
//! again, with their folder or on another machine. Cannot catch: a store that shows what was put only after a while.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parking_lot::Mutex;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::manifest::InstanceEntry;
use crate::{Draft, KEPT, QueryFolder};

/// Objects in memory. Of so many requests each one fails as one that is not answered, or that is answered with 500.
#[derive(Debug, Default)]
struct Flaky {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    dice: AtomicU64,
    fails_in: AtomicU64,
    failed: AtomicU64,
    copied: AtomicU64,
}

impl Flaky {
    fn roll(&self, sides: u64) -> u64 {
        let next = |state: u64| {
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
        };
        self.dice.fetch_update(Relaxed, Relaxed, |state| Some(next(state))).unwrap();
        (self.dice.load(Relaxed) >> 33) % sides
    }

    fn act<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> Result<T, StoreFault> {
        let fails_in = self.fails_in.load(Relaxed);
        let fails = fails_in > 0 && self.roll(fails_in) == 0;
        if fails {
            self.failed.fetch_add(1, Relaxed);
            if self.roll(2) == 0 {
                return Err(StoreFault { message: "answered 500".into(), may_pass: true });
            }
        }
        let done = act(&mut self.objects.lock());
        match fails {
            true => Err(StoreFault { message: "the answer was lost".into(), may_pass: true }),
            false => Ok(done),
        }
    }

    fn names(&self) -> Vec<String> {
        self.objects.lock().keys().filter(|name| !name.starts_with(OWNER)).cloned().collect()
    }
}

fn missing(name: &str) -> StoreFault {
    StoreFault { message: format!("there is no {name}"), may_pass: false }
}

impl ObjectStore for Flaky {
    fn shown(&self) -> &str {
        "memory"
    }

    fn list(&self) -> Result<Vec<String>, StoreFault> {
        self.act(|objects| objects.keys().cloned().collect())
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, StoreFault> {
        self.act(|objects| objects.get(name).cloned())?.ok_or_else(|| missing(name))
    }

    fn put(&self, name: &str, file: &Path) -> Result<(), StoreFault> {
        let bytes = fs::read(file).unwrap();
        self.act(|objects| drop(objects.insert(name.to_owned(), bytes)))
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreFault> {
        self.act(|objects| {
            let is_new = !objects.contains_key(name);
            objects.entry(name.to_owned()).or_insert_with(|| bytes.to_vec());
            is_new
        })
    }

    fn copy(&self, from: &str, to: &str) -> Result<(), StoreFault> {
        self.copied.fetch_add(1, Relaxed);
        self.act(|objects| {
            let copied = objects.get(from).cloned();
            copied.map(|bytes| objects.insert(to.to_owned(), bytes)).map(drop)
        })?
        .ok_or_else(|| missing(from))
    }

    fn remove(&self, name: &str) -> Result<(), StoreFault> {
        self.act(|objects| drop(objects.remove(name)))
    }
}

fn table(from: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 50));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

/// A checkpoint whose second table is as in those before.
fn draft(query: &str, checkpoint: u64, same: &RecordBatch) -> Draft {
    let instances = vec![InstanceEntry::default()];
    let manifest = Manifest { query: query.into(), checkpoint, instances, ..Manifest::default() };
    let tables =
        vec![vec![("own".into(), vec![table(checkpoint as i64)]), ("same".into(), vec![same.clone()])]];
    Draft { manifest, tables, later: Vec::new() }
}

fn open(folder: &TempDir, store: &Arc<Flaky>) -> Result<StateFolder, StateError> {
    let mirror = Mirror::begin(folder.path(), store.clone())?;
    StateFolder::open_mirrored(folder.path(), Some(mirror))
}

/// The last checkpoint of a query, which is whole; 0 if there is none.
fn last(query: &QueryFolder, same: &RecordBatch) -> u64 {
    let found = query.checkpoints().unwrap();
    assert_eq!(found.damaged, []);
    let Some(last) = found.whole.first() else { return 0 };
    let tables = last.tables().unwrap();
    let number = last.manifest.checkpoint;
    let named = |name: &str| tables[0].iter().find(|(of, _)| of == name).map(|(_, rows)| rows.clone());
    assert_eq!((named("own").unwrap(), named("same").unwrap()), (table(number as i64), same.clone()));
    number
}

#[test]
fn what_was_acknowledged_is_there_on_another_machine_whatever_failed() {
    let (mut refused, mut failed, mut copied) = (0, 0, 0);
    for seed in 0..10 {
        let store = Arc::new(Flaky { dice: AtomicU64::new(seed), ..Flaky::default() });
        let same = table(-1_000);
        let mut folder = tempdir().unwrap();
        // By query, the last that was written; a later one may be there whose writer was not told.
        let (mut safe, mut begun) = ([0, 0, 0], [0, 0, 0]);
        for _life in 0..4 {
            store.fails_in.store(0, Relaxed);
            if store.roll(2) == 0 {
                folder = tempdir().unwrap();
            }
            let state = open(&folder, &store).unwrap();
            let queries = ["large", "small-1", "small-2"].map(|name| state.query(name));
            for (place, query) in queries.iter().enumerate() {
                let found = last(query, &same);
                assert!(
                    (safe[place]..=begun[place]).contains(&found),
                    "seed {seed}: {found}, {safe:?} {begun:?}"
                );
                (safe[place], begun[place]) = (found, found);
            }
            store.fails_in.store(2 + store.roll(8), Relaxed);
            for _round in 0..6 {
                begun.iter_mut().for_each(|number| *number += 1);
                match queries[0].write(draft("large", begun[0], &same)) {
                    Ok(_) => safe[0] = begun[0],
                    Err(error) => {
                        refused += u64::from(matches!(error, StateError::Store { may_pass: true, .. }))
                    }
                }
                let drafts = [1, 2].map(|place| {
                    let query = format!("small-{place}");
                    (queries[place].clone(), draft(&query, begun[place], &same).encode().unwrap())
                });
                match state.write_together(&drafts) {
                    Ok(()) => (safe[1], safe[2]) = (begun[1], begun[2]),
                    Err(error) => {
                        refused += u64::from(matches!(error, StateError::Store { may_pass: true, .. }))
                    }
                }
                queries.iter().for_each(|query| query.keep_last(KEPT).unwrap());
            }
        }
        failed += store.failed.load(Relaxed);
        copied += store.copied.load(Relaxed);
        // Nobody fails any more: what is surplus goes.
        store.fails_in.store(0, Relaxed);
        let state = open(&folder, &store).unwrap();
        for (number, name) in (100..).zip(["large", "small-1", "small-2"]) {
            let query = state.query(name);
            query.write(draft(name, number, &same)).unwrap();
            query.keep_last(1).unwrap();
        }
        let left = store.names().into_iter().filter(|name| name.ends_with(MANIFEST) || is_pack(name)).count();
        assert_eq!(left, 3, "seed {seed}: {:?}", store.names());
    }
    assert!(refused > 0 && failed > 100 && copied > 20, "{refused} {failed} {copied}");
}

#[test]
fn who_begins_ends_the_one_before() {
    let store = Arc::new(Flaky::default());
    let (folder, other) = (tempdir().unwrap(), tempdir().unwrap());
    let same = table(-1_000);
    let first = open(&folder, &store).unwrap();
    first.query("q").write(draft("q", 1, &same)).unwrap();
    let second = open(&other, &store).unwrap();
    assert_eq!(last(&second.query("q"), &same), 1);
    let error = first.query("q").write(draft("q", 2, &same)).unwrap_err();
    assert!(!error.may_pass() && error.to_string().contains("taken over memory"), "{error}");
    second.query("q").write(draft("q", 2, &same)).unwrap();
    // It had begun to write when the other came.
    let mirror = Mirror { store: store.clone(), owner: u64::MAX };
    let error = mirror.put_last("q/chk-2/manifest.json", b"another").unwrap_err();
    assert!(matches!(error, StateError::TakenOver { .. }), "{error}");
}

#[test]
fn an_empty_store_gets_what_is_there_and_one_that_is_behind_is_refused() {
    let folder = tempdir().unwrap();
    let same = table(-1_000);
    let alone = StateFolder::open(folder.path()).unwrap();
    alone.query("q").write(draft("q", 1, &same)).unwrap();
    let small = (alone.query("s"), draft("s", 7, &same).encode().unwrap());
    alone.write_together(&[small]).unwrap();
    drop(alone);
    let store = Arc::new(Flaky::default());
    drop(open(&folder, &store).unwrap());
    let elsewhere = tempdir().unwrap();
    let state = open(&elsewhere, &store).unwrap();
    assert_eq!((last(&state.query("q"), &same), last(&state.query("s"), &same)), (1, 7));

    let alone = StateFolder::open(folder.path()).unwrap();
    alone.query("q").write(draft("q", 2, &same)).unwrap();
    drop(alone);
    let error = open(&folder, &store).unwrap_err().to_string();
    assert!(error.contains("chk-2\" is not in memory") && error.contains("take the folder away"), "{error}");
}

#[test]
fn names_that_lead_out_of_the_folder_are_nobodys() {
    let store = Arc::new(Flaky::default());
    for name in [
        "../q/chk-1/manifest.json",
        ".q/chk-1/manifest.json",
        "a/b/chk-1/manifest.json",
        "../checkpoints-1.pack",
    ] {
        store.put_new(name, b"{}").unwrap();
    }
    let parent = tempdir().unwrap();
    let folder = parent.path().join("state");
    Mirror::begin(&folder, store).unwrap();
    let names =
        |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!((names(parent.path()), names(&folder)), (vec!["state".into()], vec!["lock".into()]));
}
