//! Tables that are as they were in the checkpoint before: not written again, and in each checkpoint by itself.

use std::os::unix::fs::MetadataExt;

use super::*;

/// A checkpoint of one instance with these tables.
fn of(number: u64, tables: &[(&str, &RecordBatch)]) -> Draft {
    let Draft { manifest, .. } = draft(number);
    let tables = tables.iter().map(|(name, rows)| ((*name).to_owned(), vec![(*rows).clone()])).collect();
    Draft { manifest, tables: vec![vec![], tables], later: Vec::new() }
}

fn number_of_file(query: &QueryFolder, checkpoint: u64, name: &str) -> u64 {
    let found = query.checkpoints().unwrap().whole;
    let one = found.iter().find(|one| one.manifest.checkpoint == checkpoint).unwrap();
    let part = one.manifest.instances[1].parts.iter().find(|part| part.name == name).unwrap();
    std::fs::metadata(one.path().join(&part.file)).unwrap().ino()
}

#[test]
fn what_is_as_it_was_has_the_file_that_it_had() {
    let (_folder, query) = written([]);
    let (slice, other) = (table(10_000), table(20_000));
    let first = query.write(of(1, &[("whole-0", &slice), ("filled", &table(5))])).unwrap();
    assert_eq!(first.written, first.held);
    // Under another name, in another place.
    let second = query.write(of(2, &[("new", &other), ("filled", &table(5)), ("whole-3", &slice)])).unwrap();
    let third = query.write(of(3, &[("whole-3", &slice)])).unwrap();
    assert_eq!(number_of_file(&query, 2, "whole-3"), number_of_file(&query, 1, "whole-0"));
    assert_eq!(number_of_file(&query, 3, "whole-3"), number_of_file(&query, 1, "whole-0"));
    assert_ne!(number_of_file(&query, 2, "filled"), number_of_file(&query, 1, "filled"));
    let found = query.checkpoints().unwrap().whole;
    let of_slice = found[0].manifest.files[0].clone();
    assert_eq!(of_slice.written_in, Some(1));
    assert_eq!(second.held - second.written, of_slice.bytes);
    assert_eq!(third.held - third.written, of_slice.bytes);
    // Equal is not the same: it is of others that may be changed.
    let fourth = query.write(of(4, &[("whole-3", &table(10_000))])).unwrap();
    assert_eq!(fourth.written, fourth.held);
}

#[test]
fn the_oldest_may_go() {
    let (folder, query) = written([]);
    let slice = table(10_000);
    for number in 1..=3 {
        query.write(of(number, &[("whole-0", &slice)])).unwrap();
    }
    query.keep_last(1).unwrap();
    assert!(!query.path().join("chk-1").exists() && !query.path().join("chk-2").exists());
    let query = StateFolder::look(folder.path()).unwrap().query("q");
    let found = query.checkpoints().unwrap().whole;
    assert_eq!(found[0].tables().unwrap()[1], [("whole-0".to_owned(), slice)]);
}

#[test]
fn what_cannot_be_shared_is_written() {
    let (_folder, query) = written([]);
    let slice = table(10_000);
    let write = |number| query.write(of(number, &[("whole-0", &slice)])).unwrap();
    let is_new = |bytes: StoredBytes| bytes.written == bytes.held;
    assert!(is_new(write(1)));
    // Somebody has taken it away.
    std::fs::remove_dir_all(query.path().join("chk-1")).unwrap();
    assert!(is_new(write(2)));
    // It was cut off since.
    let file = query.checkpoints().unwrap().whole[0].manifest.files[0].name.clone();
    std::fs::write(query.path().join("chk-2").join(&file), "cut").unwrap();
    assert!(is_new(write(3)));
    assert!(!is_new(write(4)));
    // What leads elsewhere is no file of ours.
    let path = query.path().join("chk-4").join(&file);
    let elsewhere = query.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(is_new(write(5)));
    assert_eq!(query.checkpoints().unwrap().whole[0].tables().unwrap()[1][0].1, slice);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Slices come, stay and go, checkpoints are removed, the folder is opened anew: each that is there has what it was
    /// made of, and what was there before is not written.
    #[test]
    fn each_has_what_it_was_made_of(
        steps in prop::collection::vec((0..6_usize, 0..3_usize, 1..4_usize, 0..8_u8), 1..20),
    ) {
        let (folder, mut query) = written([]);
        let mut slices: std::collections::VecDeque<RecordBatch> = std::collections::VecDeque::new();
        let mut drafts = std::collections::BTreeMap::new();
        let (mut number, mut rows, mut known) = (0, 0, 0);
        for (more, gone, kept, opens) in steps {
            let gone = gone.min(slices.len());
            slices.drain(..gone);
            known -= gone.min(known);
            for _ in 0..more {
                rows += 1;
                slices.push_back(table(rows));
            }
            number += 1;
            let names: Vec<String> = (0..slices.len()).map(|at| format!("whole-{at}")).collect();
            let tables: Vec<_> = names.iter().map(String::as_str).zip(&slices).collect();
            let draft = of(number, &tables);
            query.write(draft.clone()).unwrap();
            drafts.insert(number, read(draft));
            let found = query.checkpoints().unwrap().whole;
            let shared = found[0].manifest.files.iter().filter(|file| file.written_in.is_some()).count();
            prop_assert_eq!(shared, known);
            known = slices.len();
            query.keep_last(kept).unwrap();
            if opens == 0 {
                query = StateFolder::look(folder.path()).unwrap().query("q");
                known = 0;
            }
            for one in query.checkpoints().unwrap().whole {
                prop_assert_eq!(&one.tables().unwrap(), &drafts[&one.manifest.checkpoint]);
            }
        }
    }
}
