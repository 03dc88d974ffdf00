//! Checkpoints on a real disk: which are kept, and that a harmed one is seen and the one before it used. Cannot catch:
//! what a disk loses when the power fails.

mod shared_files;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::StateFolder;
use crate::manifest::{InstanceEntry, SourceEntry};

fn table(rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|n| format!("key {n}"))));
    RecordBatch::try_from_iter([("n", numbers), ("k", text)]).unwrap()
}

fn draft(checkpoint: u64) -> Draft {
    let instance = |node, instance| InstanceEntry {
        node,
        instance,
        channels: vec![(i64::MIN, false), (i64::MAX, true)],
        ..InstanceEntry::default()
    };
    let source = SourceEntry { table: "t".into(), rows: 10 * checkpoint, ..SourceEntry::default() };
    let manifest = Manifest {
        query: "q".into(),
        checkpoint,
        sources: vec![source],
        instances: vec![instance(0, 0), instance(1, 0)],
        ..Manifest::default()
    };
    let pieces = vec![table(100).slice(0, 60), table(100).slice(60, 40)];
    let tables = vec![vec![], vec![("0-a/groups".into(), pieces), ("empty".into(), vec![table(0)])]];
    Draft { manifest, tables, later: Vec::new() }
}

/// What is read of it.
fn read(draft: Draft) -> Vec<Vec<(String, RecordBatch)>> {
    let put_together = |(name, pieces): (String, Vec<RecordBatch>)| {
        (name, arrow::compute::concat_batches(&pieces[0].schema(), &pieces).unwrap())
    };
    draft.tables.into_iter().map(|tables| tables.into_iter().map(put_together).collect()).collect()
}

fn written(numbers: impl IntoIterator<Item = u64>) -> (TempDir, QueryFolder) {
    let folder = tempdir().unwrap();
    let query = StateFolder::open(folder.path()).unwrap().query("q");
    for number in numbers {
        assert!(query.write(draft(number)).unwrap().held > 0);
    }
    (folder, query)
}

#[test]
fn what_was_written_is_read() {
    let (_folder, query) = written([1, 2, 10]);
    let found = query.checkpoints().unwrap();
    assert_eq!((found.last, found.damaged.len()), (10, 0));
    let numbers: Vec<u64> = found.whole.iter().map(|one| one.manifest.checkpoint).collect();
    assert_eq!(numbers, [10, 2, 1]);
    let last = &found.whole[0];
    assert_eq!(last.tables().unwrap(), read(draft(10)));
    assert_eq!(last.manifest.instances[1].parts[0].rows, 100);
    assert_eq!(last.manifest.sources, draft(10).manifest.sources);
    assert_eq!(last.manifest.instances[0].channels, [(i64::MIN, false), (i64::MAX, true)]);
    assert!(query.write(draft(10)).is_err(), "a checkpoint is never written over");
}

/// With tables of the last instance that are made as they are written, one of which cannot be, if `fails`.
fn with_later(checkpoint: u64, fails: bool) -> Draft {
    let make = move || -> Box<dyn Iterator<Item = Result<NamedTable, String>>> {
        Box::new((0..3_i64).map(move |at| match fails && at == 2 {
            true => Err("internal error: there is no such row".into()),
            false => Ok((format!("later-{at}"), vec![table(at + 1)])),
        }))
    };
    let later = vec![LaterTables { instance: 1, make: Arc::new(make) }];
    Draft { later, ..draft(checkpoint) }
}

#[test]
fn tables_that_are_made_as_they_are_written_are_read_like_others() {
    let (_folder, query) = written([1]);
    query.write(with_later(2, false)).unwrap();
    let mut expected = read(draft(2));
    expected[1].extend((0..3).map(|at| (format!("later-{at}"), table(at + 1))));
    assert_eq!(query.checkpoints().unwrap().whole[0].tables().unwrap(), expected);
    let encoded = with_later(3, false).encode().unwrap();
    assert_eq!(encoded.manifest.instances[1].parts.len(), 5);
}

#[test]
fn a_table_that_cannot_be_made_leaves_no_checkpoint() {
    let (_folder, query) = written([1]);
    let error = query.write(with_later(2, true)).unwrap_err();
    assert_eq!(error.to_string(), "checkpoint of q: internal error: there is no such row");
    assert!(!error.may_pass(), "another time it cannot be made either");
    assert_eq!(query.checkpoints().unwrap().whole.len(), 1);
    query.write(draft(2)).unwrap();
}

#[test]
fn the_last_are_kept_and_what_others_put_there_stays() {
    let (_folder, query) = written(1..=5);
    std::fs::write(query.path().join("chk-2/mine.txt"), "mine").unwrap();
    std::fs::write(query.path().join("chk-1/manifest.json"), "{}").unwrap();
    std::fs::create_dir(query.path().join("notes")).unwrap();
    query.keep_last(2).unwrap();
    let found = query.checkpoints().unwrap();
    let numbers: Vec<u64> = found.whole.iter().map(|one| one.manifest.checkpoint).collect();
    assert_eq!(numbers, [5, 4]);
    assert!(query.path().join("notes").is_dir());
    // A folder that has something of somebody else's is not removed, and a damaged one is left to be looked at.
    let left: Vec<_> =
        std::fs::read_dir(query.path().join("chk-2")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.txt"]);
    assert!(query.path().join("chk-1").is_dir() && !query.path().join("chk-3").exists());
}

#[test]
fn what_was_not_finished_is_not_there_and_goes() {
    let (folder, query) = written([1]);
    let unfinished = query.path().join(".chk-2.tmp");
    std::fs::create_dir(&unfinished).unwrap();
    std::fs::write(unfinished.join("0-0-0-x.arrow"), "half").unwrap();
    assert_eq!(query.checkpoints().unwrap().whole.len(), 1);
    let query = StateFolder::look(folder.path()).unwrap().query("q");
    query.write(draft(2)).unwrap();
    assert!(!unfinished.exists());
    assert_eq!(query.checkpoints().unwrap().whole.len(), 2);
    assert!(query.write(draft(2)).is_err());
    assert!(unfinished.exists(), "what fails leaves it");
    query.write(draft(3)).unwrap();
    assert!(!unfinished.exists());
}

proptest! {
    /// Whoever looks, and whoever has looked before: the last are there, and those between that were harmed.
    #[test]
    fn the_last_are_kept_however_often_the_folder_is_opened(
        steps in prop::collection::vec((0..4_u8, 1..4_usize), 1..24),
    ) {
        let (folder, mut query) = written([1]);
        let (mut whole, mut harmed) = (vec![1], Vec::new());
        let mut last = 1;
        for (step, kept) in steps {
            match step {
                0 | 1 => {
                    last += 1;
                    query.write(draft(last)).unwrap();
                    whole.push(last);
                }
                2 => {
                    query.keep_last(kept).unwrap();
                    let surplus = whole.len().saturating_sub(kept);
                    whole.drain(..surplus);
                }
                // By another process, which looks for itself.
                _ => {
                    if whole.len() > 1 {
                        let first = whole.remove(0);
                        std::fs::write(query.path().join(format!("chk-{first}/manifest.json")), "{}").unwrap();
                        harmed.insert(0, first);
                    }
                    query = StateFolder::look(folder.path()).unwrap().query("q");
                }
            }
            let found = query.checkpoints().unwrap();
            let numbers: Vec<u64> = found.whole.iter().rev().map(|one| one.manifest.checkpoint).collect();
            prop_assert_eq!(&numbers, &whole);
            prop_assert_eq!(found.damaged.len(), harmed.len());
        }
    }
}

#[test]
fn one_that_was_harmed_since_it_was_written_stays() {
    let (_folder, query) = written(1..=3);
    query.keep_last(3).unwrap();
    std::fs::write(query.path().join("chk-1/manifest.json"), "{}").unwrap();
    query.write(draft(4)).unwrap();
    query.write(draft(5)).unwrap();
    query.keep_last(3).unwrap();
    let found = query.checkpoints().unwrap();
    let numbers: Vec<u64> = found.whole.iter().map(|one| one.manifest.checkpoint).collect();
    assert_eq!((numbers, found.damaged.len()), (vec![5, 4, 3], 1));
}

#[test]
fn a_newer_program_s_is_refused() {
    let (_folder, query) = written([1, 2]);
    let path = query.path().join("chk-2/manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let version = |version: u32| format!("\"version\": {version}");
    std::fs::write(&path, text.replace(&version(VERSION), &version(VERSION + 1))).unwrap();
    let error = query.checkpoints().unwrap_err().to_string();
    let newer = format!("version {}", VERSION + 1);
    assert!(error.contains(&newer) && error.contains("chk-2"), "{error}");
}

/// A byte of the checkpoint is another, or its file ends there, or is gone.
fn harm(path: &Path, place: prop::sample::Index, how: u8) -> bool {
    let mut bytes = std::fs::read(path).unwrap();
    let place = place.index(bytes.len());
    match how {
        0 => bytes[place] ^= 0x10,
        1 => bytes.truncate(place),
        _ => {
            std::fs::remove_file(path).unwrap();
            return true;
        }
    }
    std::fs::write(path, bytes).unwrap();
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn harm_is_seen_and_the_one_before_is_there(
        file in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), how in 0_u8..3
    ) {
        let (_folder, query) = written([1, 2]);
        let mut files: Vec<_> =
            std::fs::read_dir(query.path().join("chk-2")).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        let harmed = &files[file.index(files.len())];
        harm(harmed, place, how);
        match query.checkpoints() {
            // The digit of the version.
            Err(StateError::Newer { .. }) => {}
            Err(error) => panic!("{error}"),
            Ok(found) => {
                let usable = found.whole.iter().find(|one| one.tables().is_ok()).unwrap();
                let is_same = || usable.manifest.sources == draft(2).manifest.sources;
                // White space between the parts of JSON may change without harm.
                prop_assert!(usable.manifest.checkpoint == 1 || harmed.ends_with("manifest.json") && is_same());
            }
        }
    }
}
