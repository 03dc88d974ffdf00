//! Checkpoints that a person asks for, and going back to one that is not the last.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::lines;

const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '1 h';
CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'number-of-rows' = '4000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '3999');
CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'o.csv', 'format' = 'csv');
SET 'pipeline.name' = 'q';
INSERT INTO o SELECT n FROM g;
";

fn laxity(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder).env_remove("LAXITY_LOG").args(arguments);
    command
}

fn run(folder: &Path, more: &[&str]) -> Child {
    let arguments = [&["run", "script.sql", "--plain", "--workers", "2", "--state", "state"], more].concat();
    laxity(folder, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Asks until there is somebody to be asked: a run takes a moment to begin.
fn checkpoint(folder: &Path) -> String {
    let mut last = String::new();
    for _ in 0..300 {
        let output = laxity(folder, &["checkpoint", "state"]).output().unwrap();
        last = said(&output);
        if output.status.success() {
            return last;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nobody answers: {last}")
}

#[test]
fn a_checkpoint_is_taken_when_asked_for_and_gone_back_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("script.sql"), SCRIPT).unwrap();
    let nobody = laxity(folder, &["checkpoint", "state"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(said(&nobody).contains("no run works with state folder state"), "{}", said(&nobody));

    let mut first = run(folder, &[]);
    // A checkpoint before the first row says nothing of what was read.
    let has_written = || fs::metadata(folder.join("o.csv")).is_ok_and(|file| file.len() > 0);
    (0..300).take_while(|_| !has_written()).for_each(|_| std::thread::sleep(Duration::from_millis(100)));
    assert!(checkpoint(folder).starts_with("query q: checkpoint 1, "));
    std::thread::sleep(Duration::from_millis(300));
    assert!(checkpoint(folder).starts_with("query q: checkpoint 2, "));
    let unknown = laxity(folder, &["checkpoint", "state", "--query", "x"]).output().unwrap();
    assert!(said(&unknown).contains("no query 'x' with checkpoints runs there"), "{}", said(&unknown));
    first.kill().unwrap();
    first.wait().unwrap();

    let rows_at = |number: u64| -> usize {
        let shown = said(&laxity(folder, &["state", "show", "state"]).output().unwrap());
        let of = shown.split(&format!("checkpoint {number}: ")).nth(1).expect("it is there");
        let (_, rows) = of.split_once("g read up to row ").expect("it has read");
        rows.lines().next().unwrap().parse().unwrap()
    };
    let (at_1, at_2) = (rows_at(1), rows_at(2));
    assert!(at_1 < at_2, "{at_1} {at_2}");
    let missing = laxity(folder, &["run", "script.sql", "--state", "state", "--at", "q=7"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(said(&missing).contains("it has no checkpoint 7"), "{}", said(&missing));

    // Back to the first: what came behind it is written anew, and a checkpoint is taken at once, so that who runs it next
    // goes on from here.
    let mut back = run(folder, &["--at", "1"]);
    assert!(checkpoint(folder).starts_with("query q: checkpoint "));
    back.kill().unwrap();
    back.wait().unwrap();
    assert!(rows_at(3) < at_2, "it went back to row {at_1}, and the other was at {at_2}");
    assert_eq!(run(folder, &[]).wait().unwrap().code(), Some(0));
    let numbers: Vec<u64> = lines(&folder.join("o.csv")).iter().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..4_000), "{} rows", numbers.len());
}

/// Windows of a minute by slices of five seconds, of five thousand groups each; how long it runs is said by the rows.
const SLICES: &str = "
SET 'execution.checkpointing.interval' = '1 h';
CREATE TABLE g (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
  'rows-per-second' = '8000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '47999');
CREATE TABLE o (n BIGINT, s BIGINT, e TIMESTAMP_LTZ(3)) WITH ('connector' = 'filesystem', 'path' = 'o.csv', 'format' = 'csv');
SET 'pipeline.name' = 'q';
INSERT INTO o SELECT n, SUM(n), window_end
FROM TABLE(HOP(TABLE g, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '1' MINUTE))
GROUP BY n, window_start, window_end HAVING MOD(SUM(n), 50) = 0;
";

#[test]
fn slices_that_are_as_they_were_are_not_written_again_and_the_oldest_may_go() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("script.sql"), SLICES).unwrap();
    // It has to be there for as long as it is asked, and beside other programs asking takes seconds.
    let mut first = run(folder, &["--speed", "0.25"]);
    let is_shared = |_: &u32| {
        std::thread::sleep(Duration::from_millis(300));
        let text = checkpoint(folder);
        !text.contains(" of it new; ")
    };
    // At a quarter of the speed it runs for 24 s, and two slices, which fill a table, for five.
    let asked = (0..60).take_while(is_shared).count();
    assert!(asked < 60, "nothing was as it was");
    first.kill().unwrap();
    first.wait().unwrap();
    let shown = said(&laxity(folder, &["state", "show", "state"]).output().unwrap());
    assert!(shown.contains(" of it new"), "{shown}");

    // The last alone is whole.
    let checkpoints = fs::read_dir(folder.join("state/q")).unwrap().map(|entry| entry.unwrap().path());
    let mut checkpoints: Vec<_> = checkpoints.filter(|path| path.join("manifest.json").is_file()).collect();
    let number = |path: &Path| -> u64 { path.to_str().unwrap().rsplit('-').next().unwrap().parse().unwrap() };
    checkpoints.sort_by_key(|path| number(path));
    let last = checkpoints.pop().unwrap();
    assert!(!checkpoints.is_empty());
    checkpoints.iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    assert_eq!(run(folder, &[]).wait().unwrap().code(), Some(0), "from {}", last.display());

    let mut found = lines(&folder.join("o.csv"));
    found.sort_unstable();
    // A row is in twelve windows.
    let time = |ms: u64| format!("1970-01-01 00:{:02}:{:02}", ms / 60_000, ms / 1_000 % 60);
    let of_row = |n: u64| (1..=12).map(move |window| (n, (n / 5_000 + window) * 5_000));
    let expected = (0..48_000_u64).filter(|n| n % 50 == 0).flat_map(of_row);
    let mut expected: Vec<String> = expected.map(|(n, end_ms)| format!("{n},{n},{}", time(end_ms))).collect();
    expected.sort_unstable();
    let same = found.iter().zip(&expected).filter(|(a, b)| a.starts_with(&b[..])).count();
    assert_eq!(
        (found.len(), same),
        (expected.len(), expected.len()),
        "{:?} for {:?}",
        found.first(),
        expected.first()
    );
}
