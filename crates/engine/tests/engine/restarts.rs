//! Queries with checkpoints whose output fails before the first one: each begins again where it began. Whole engines on threads,
//! over a real file; an output that fails is the device that is always full.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use laxity_engine::{JoinFrom, Outcome, QuerySnapshot};

use super::positions::{RECORDS, Run, TIMEOUT, good, good_of_pieces, has, write_input, written};

/// Where a query writes, until there is room.
fn full(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(format!("{name}.csv"));
    symlink("/dev/full", &path).unwrap();
    path
}

/// Until the query is to be started again.
fn until_failed(run: &Run<'_>, name: &str) {
    let clock = run.engine.clock();
    let deadline = clock.now().plus(TIMEOUT);
    let is_it = |query: &QuerySnapshot| {
        query.name == name && matches!(query.outcome, Outcome::Failed(_)) && !query.waiting.is_empty()
    };
    while !run.engine.snapshot().queries.iter().any(is_it) {
        assert!(clock.now() < deadline, "{name} has not failed");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn one_that_began_with_the_engine_begins_again_at_the_first_row() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path());
    let path = full(folder.path(), "a");
    let mut run = Run::new(folder.path(), 3);
    run.submit("b", JoinFrom::Now);
    run.submit("a", JoinFrom::Now);
    run.engine.start().unwrap();
    until_failed(&run, "a");
    run.open_for(6);
    // Of both columns, and so fewer than of its own.
    run.until_out("b", (0..6 * 1_024).filter(|i| has(0, *i) && has(1, *i)).count() as u64);
    fs::remove_file(path).unwrap();
    run.finish();
    let both: Vec<u64> = good(0, 0).into_iter().filter(|i| has(1, *i)).collect();
    assert!(written(folder.path(), "b") == both);
    assert!(written(folder.path(), "a") == both, "the rows that it would have got beside the other");
}

#[test]
fn dead_letters_without_room_hold_up_who_has_checkpoints() {
    // Of rows that cannot be read, and of those that an operator refuses.
    for refuses in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        write_input(folder.path());
        if refuses {
            let all_can_be_read: String = (0..RECORDS).map(|i| format!("1,1,1,{i}\n")).collect();
            fs::write(folder.path().join("in.csv"), all_can_be_read).unwrap();
        }
        let path = full(folder.path(), "dead");
        let mut run = Run::new(folder.path(), 3);
        run.puts_aside("dead.csv");
        run.refuses = refuses;
        run.submit("a", JoinFrom::Now);
        run.engine.start().unwrap();
        until_failed(&run, "a");
        fs::remove_file(&path).unwrap();
        run.finish();
        let rows = written(folder.path(), "a");
        let letters = fs::read_to_string(path).unwrap().lines().count();
        assert!(letters > 0);
        assert_eq!(rows.len() + letters, RECORDS as usize, "{refuses}");
        assert!(refuses || rows == good(0, 0));
    }
}

#[test]
fn one_that_came_later_begins_again_at_the_row_with_which_it_came() {
    // Of the columns that are read already, and of others.
    for name in ["a2", "b"] {
        let folder = tempfile::tempdir().unwrap();
        write_input(folder.path());
        let path = full(folder.path(), name);
        let mut run = Run::of_first(folder.path());
        run.submit(name, JoinFrom::Now);
        run.open_for(5);
        until_failed(&run, name);
        run.open_for(8);
        run.until_out("a", good_of_pieces(0, 8));
        fs::remove_file(path).unwrap();
        run.finish();
        assert!(written(folder.path(), "a") == good(0, 0));
        let column = usize::from(name == "b");
        assert!(written(folder.path(), name) == good(column, 3 * 1_024), "{name}");
    }
}

#[test]
fn a_pipe_is_not_read_by_two() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path());
    let path = full(folder.path(), "a2");
    let mut run = Run::new(folder.path(), 3);
    run.input.is_pipe.store(true, Ordering::Relaxed);
    run.submit("a", JoinFrom::Now);
    run.submit("a2", JoinFrom::Now);
    run.engine.start().unwrap();
    until_failed(&run, "a2");
    fs::remove_file(&path).unwrap();
    let has_rows = |query: &QuerySnapshot| query.name == "a2" && query.rows_out > 0;
    for batches in 4.. {
        assert!(batches < 19, "it is not started again");
        run.open_for(batches);
        std::thread::sleep(Duration::from_millis(250));
        if run.engine.snapshot().queries.iter().any(has_rows) {
            break;
        }
    }
    let input = run.input.clone();
    run.finish();
    assert!(written(folder.path(), "a") == good(0, 0));
    let rest = written(folder.path(), "a2");
    assert!(!rest.is_empty() && good(0, 0).ends_with(&rest));
    assert_eq!(input.scans.load(Ordering::Relaxed), 1);
}
