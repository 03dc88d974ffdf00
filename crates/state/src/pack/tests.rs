//! Small checkpoints of several queries in one file, on a real disk. Cannot catch: what a disk loses when the power fails.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use crate::manifest::InstanceEntry;
use crate::{Draft, Manifest, QueryFolder, StateError, StateFolder};

const NAMES: [&str; 3] = ["a", "b/ü", "lock"];

fn draft(query: &str, checkpoint: u64) -> Draft {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..checkpoint as i64 * 10));
    let table = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let manifest = Manifest {
        query: query.into(),
        checkpoint,
        instances: vec![InstanceEntry::default(), InstanceEntry { node: 1, ..InstanceEntry::default() }],
        ..Manifest::default()
    };
    let tables = vec![
        vec![("x".into(), vec![table.clone()]), ("y".into(), vec![table.slice(0, 1)])],
        vec![("x".into(), vec![table])],
    ];
    Draft { manifest, tables, later: Vec::new() }
}

fn write(folder: &StateFolder, queries: &[QueryFolder], numbers: &[(usize, u64)]) {
    let drafts = numbers
        .iter()
        .map(|&(query, number)| (queries[query].clone(), draft(NAMES[query], number).encode().unwrap()));
    folder.write_together(&drafts.collect::<Vec<_>>()).unwrap();
}

fn open(path: &std::path::Path) -> (StateFolder, Vec<QueryFolder>) {
    let folder = StateFolder::open(path).unwrap();
    let queries = NAMES.iter().map(|name| folder.query(name)).collect();
    (folder, queries)
}

/// Numbers of the checkpoints of a query that are whole, and can be read.
fn usable(folder: &QueryFolder) -> Vec<u64> {
    let found = folder.checkpoints().unwrap();
    let usable = found.whole.iter().filter(|one| {
        let written = draft(&one.manifest.query, one.manifest.checkpoint).tables;
        let only = |(name, pieces): (String, Vec<RecordBatch>)| (name, pieces[0].clone());
        let written: Vec<Vec<_>> =
            written.into_iter().map(|tables| tables.into_iter().map(only).collect()).collect();
        one.tables().is_ok_and(|tables| tables == written)
    });
    usable.map(|one| one.manifest.checkpoint).collect()
}

fn packs(folder: &TempDir) -> Vec<String> {
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name != "lock");
    names.sort();
    names
}

#[test]
fn each_is_found_again_in_a_file_or_in_its_folder() {
    let folder = tempdir().unwrap();
    let (state, queries) = open(folder.path());
    write(&state, &queries, &[(0, 1), (1, 1), (2, 4)]);
    queries[0].write(draft("a", 2)).unwrap();
    write(&state, &queries, &[(0, 3), (1, 2)]);
    let check = |queries: &[QueryFolder]| {
        assert_eq!(usable(&queries[0]), [3, 2, 1]);
        assert_eq!(usable(&queries[1]), [2, 1]);
        assert_eq!((usable(&queries[2]), queries[2].checkpoints().unwrap().last), (vec![4], 4));
    };
    check(&queries);
    drop(state);
    let (_state, queries) = open(folder.path());
    check(&queries);
    let look = StateFolder::look(folder.path()).unwrap();
    let found = look.queries().unwrap();
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|query| !usable(query).is_empty()));
    assert_eq!(usable(&look.query("a")), [3, 2, 1]);
}

#[test]
fn a_file_goes_with_the_last_that_is_kept_of_it() {
    let folder = tempdir().unwrap();
    let (state, queries) = open(folder.path());
    std::fs::write(folder.path().join("checkpoints-07.pack"), "mine").unwrap();
    for number in 1..=4 {
        // One of them is saved seldom.
        let which = if number % 2 == 1 { 0..3 } else { 0..2 };
        write(&state, &queries, &which.map(|query| (query, number)).collect::<Vec<_>>());
    }
    queries.iter().for_each(|query| query.keep_last(2).unwrap());
    let has = |numbers: &[u64]| {
        let mut names: Vec<String> =
            numbers.iter().map(|number| format!("checkpoints-{number}.pack")).collect();
        names.push("checkpoints-07.pack".into());
        names.sort();
        names
    };
    assert_eq!(packs(&folder), has(&[1, 3, 4]));
    assert_eq!([usable(&queries[0]), usable(&queries[2])], [vec![4, 3], vec![3, 1]]);
    // After a restart, too.
    drop(state);
    let (state, queries) = open(folder.path());
    write(&state, &queries, &[(2, 5), (0, 5)]);
    queries.iter().for_each(|query| query.keep_last(2).unwrap());
    assert_eq!(packs(&folder), has(&[3, 4, 5]));
    assert_eq!(
        [usable(&queries[0]), usable(&queries[1]), usable(&queries[2])],
        [vec![5, 4], vec![4, 3], vec![5, 3]]
    );
}

#[test]
fn what_was_not_finished_is_not_there_and_goes() {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join(".checkpoints-1.pack.tmp"), "begun").unwrap();
    std::fs::write(folder.path().join(".notes.tmp"), "mine").unwrap();
    let (state, queries) = open(folder.path());
    assert!(usable(&queries[0]).is_empty());
    write(&state, &queries, &[(0, 1)]);
    assert_eq!(packs(&folder), [".notes.tmp", "checkpoints-1.pack"]);
}

#[test]
fn a_newer_program_s_is_refused() {
    let folder = tempdir().unwrap();
    let (state, queries) = open(folder.path());
    write(&state, &queries, &[(0, 1)]);
    drop(state);
    let path = folder.path().join("checkpoints-1.pack");
    let mut bytes = std::fs::read(&path).unwrap();
    let version = bytes.len() - 12;
    bytes[version] += 1;
    std::fs::write(&path, bytes).unwrap();
    let error = StateFolder::open(folder.path()).unwrap_err();
    assert!(matches!(error, StateError::Newer { .. }), "{error}");
}

/// As version 4 wrote it.
#[test]
fn an_older_one_which_is_not_compressed_is_read() {
    let folder = tempdir().unwrap();
    let (state, queries) = open(folder.path());
    write(&state, &queries, &[(0, 1)]);
    drop(state);
    let encoded = draft("b/ü", 1).encode().unwrap();
    let tables = zstd::decode_all(&encoded.tables[..]).unwrap();
    let text = encoded.manifest.to_text();
    let (table_bytes, manifest_bytes) = (tables.len(), text.len());
    let index = format!(
        r#"[{{"query":"b/ü","checkpoint":1,"offset":0,"table-bytes":{table_bytes},"manifest-bytes":{manifest_bytes}}}]"#
    );
    let mut bytes = [&tables[..], text.as_bytes(), index.as_bytes()].concat();
    bytes.extend((index.len() as u64).to_le_bytes());
    bytes.extend(super::checksum(index.as_bytes(), &4_u32.to_le_bytes()).to_le_bytes());
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(super::MAGIC);
    std::fs::write(folder.path().join("checkpoints-2.pack"), bytes).unwrap();
    let (_state, queries) = open(folder.path());
    assert_eq!([usable(&queries[0]), usable(&queries[1])], [vec![1], vec![1]]);
}

proptest! {
    /// Any byte changed, or the end cut off: who is harmed uses the one before, the others the last.
    #[test]
    fn harm_is_seen_and_is_of_those_alone_whose_bytes_it_is(
        place in any::<prop::sample::Index>(),
        flip in 1_u8..=255,
        cuts in any::<bool>(),
    ) {
        let folder = tempdir().unwrap();
        let (state, queries) = open(folder.path());
        write(&state, &queries, &[(0, 1), (1, 1), (2, 1)]);
        write(&state, &queries, &[(0, 2), (1, 2), (2, 2)]);
        drop(state);
        let path = folder.path().join("checkpoints-2.pack");
        let mut bytes = std::fs::read(&path).unwrap();
        let place = place.index(bytes.len());
        if cuts {
            bytes.truncate(place);
        } else {
            bytes[place] ^= flip;
        }
        std::fs::write(&path, bytes).unwrap();
        let state = match StateFolder::open(folder.path()) {
            Ok(state) => state,
            // The version is what was harmed.
            Err(error) => {
                prop_assert!(matches!(error, StateError::Newer { .. }), "{}", error);
                return Ok(());
            }
        };
        let queries: Vec<QueryFolder> = NAMES.iter().map(|name| state.query(name)).collect();
        let mut harmed = 0;
        for query in &queries {
            match usable(query).as_slice() {
                [2, 1] => {}
                [1] => harmed += 1,
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert!(harmed == 1 || harmed == 3, "{}", harmed);
    }
}
