//! What a run is asked for while it goes on: queries that are added, altered, replaced and cancelled.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::lines;

/// A source without an end, read by one query.
const BEGUN: &str = "
CREATE TABLE g (n BIGINT, k BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '100000000', 'fields.k.min' = '0', 'fields.k.max' = '3');
CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${query}.csv', 'format' = 'csv');
SET 'laxity.latency.target' = '1 s';
";

fn of(name: &str, select: &str) -> String {
    format!("{BEGUN}SET 'pipeline.name' = '{name}';\nINSERT INTO o {select};\n")
}

fn laxity(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder).env_remove("LAXITY_LOG").args(arguments);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What is said to a question, and the exit code.
fn asked(folder: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = laxity(folder, arguments).output().unwrap();
    (said(&output), output.status.code())
}

/// The file has rows, or has more than so many.
fn wait_for_rows(file: &Path, more_than: usize) {
    let has = || fs::read_to_string(file).is_ok_and(|text| text.lines().count() > more_than);
    for _ in 0..300 {
        if has() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{} does not come to {more_than} rows", file.display());
}

fn run(folder: &Path, place: &[&str]) -> Child {
    fs::write(folder.join("first.sql"), of("first", "SELECT n FROM g")).unwrap();
    let arguments =
        [&["run", "first.sql", "--plain", "--workers", "2", "--report", "report.json"], place].concat();
    let child = laxity(folder, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_rows(&folder.join("first.csv"), 0);
    child
}

fn numbers(file: &Path) -> Vec<u64> {
    lines(file).iter().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn queries_come_change_and_go_while_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut child = run(folder, &["--control", "desk"]);

    // Read with the others from the next row on.
    fs::write(folder.join("second.sql"), of("second", "SELECT n FROM g WHERE k < 2")).unwrap();
    let added = asked(folder, &["add", "desk", "second.sql"]);
    assert_eq!(added, ("query second runs\n".into(), Some(0)));
    wait_for_rows(&folder.join("second.csv"), 100);
    assert!(numbers(&folder.join("second.csv"))[0] > 0, "it joined a table that was read");
    let (taken, code) = asked(folder, &["add", "desk", "second.sql"]);
    assert!(taken.contains("query second does not run: there is already a query named"), "{taken}");
    assert_eq!(code, Some(2));

    // What is wrong is said by who asks, and nothing of it runs.
    fs::write(folder.join("wrong.sql"), of("third", "SELECT n FROM g") + "INSERT INTO o SELECT m FROM g;")
        .unwrap();
    let (wrong, code) = asked(folder, &["add", "desk", "wrong.sql"]);
    assert!(wrong.contains("wrong.sql:") && wrong.contains('m'), "{wrong}");
    assert_eq!(code, Some(2));

    let altered = asked(folder, &["alter", "desk", "second", "--target", "20 ms", "--weight", "3"]);
    assert_eq!(altered, ("query second: target 20 ms, weight 3\n".into(), Some(0)));
    let curve = asked(folder, &["alter", "desk", "second", "--qos", "(0 ms,1) (1 s,0)"]);
    assert_eq!(curve, ("query second: target 20 ms, weight 3, a curve of its own\n".into(), Some(0)));
    for (arguments, why) in [
        (&["alter", "desk", "secnd", "--weight", "2"][..], "no query 'secnd' runs there; there is 'second'"),
        (&["alter", "desk", "second", "--weight", "0"], "a weight is a number above zero"),
        (&["alter", "desk", "second", "--qos", "(0 ms,2)"], "utility"),
        (&["alter", "desk", "second"], "--target"),
        (&["cancel", "desk", "third"], "no query 'third' runs there"),
        (&["checkpoint", "desk"], "no query with checkpoints runs there"),
        (&["add", "desk", "none.sql"], "none.sql"),
    ] {
        let (said, code) = asked(folder, arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert_eq!(code, Some(2), "{arguments:?}");
    }

    // Another query of that name goes on with the next row, in the same file.
    let before = numbers(&folder.join("second.csv")).len();
    fs::write(folder.join("second.sql"), of("second", "SELECT n FROM g WHERE k >= 2")).unwrap();
    let replaced = asked(folder, &["add", "desk", "second.sql", "--replace"]);
    assert_eq!(replaced, ("query second runs in the place of the one before\n".into(), Some(0)));
    wait_for_rows(&folder.join("second.csv"), before + 100);
    let written = numbers(&folder.join("second.csv"));
    let ascends = |rows: &[u64]| rows.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(ascends(&written), "what was written before stays, and no row comes twice");

    let cancelled = asked(folder, &["cancel", "desk", "second"]);
    assert_eq!(cancelled, ("query second has ended\n".into(), Some(0)));
    let left = numbers(&folder.join("second.csv"));
    let before = numbers(&folder.join("first.csv")).len();
    wait_for_rows(&folder.join("first.csv"), before + 100);
    assert_eq!(numbers(&folder.join("second.csv")), left, "nothing comes behind its end");

    // The last query ends the run.
    assert_eq!(asked(folder, &["cancel", "desk", "first"]).1, Some(0));
    assert!(child.wait().unwrap().success());
    let all = numbers(&folder.join("first.csv"));
    assert!(
        all.iter().enumerate().all(|(place, &n)| n == place as u64),
        "no row is lost to who was there all along"
    );
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    let names: Vec<_> = report["queries"].as_array().unwrap().iter().map(|query| &query["name"]).collect();
    assert_eq!(names, ["first", "second", "second"]);
    let rows_out = |query: usize| report["queries"][query]["rows_out"].as_u64().unwrap();
    assert_eq!(rows_out(1) + rows_out(2), left.len() as u64);
    let (nobody, code) = asked(folder, &["cancel", "desk", "first"]);
    assert!(nobody.contains("no run works with state folder desk or is asked there"), "{nobody}");
    assert_eq!(code, Some(2));
}

/// In a state folder the queries that are added have checkpoints too, and go on from them.
#[test]
fn what_was_added_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("second.sql"), of("second", "SELECT n FROM g WHERE k < 2")).unwrap();
    let mut child = run(folder, &["--state", "state"]);
    assert_eq!(asked(folder, &["add", "state", "second.sql"]).0, "query second runs\n");
    wait_for_rows(&folder.join("second.csv"), 100);
    let (saved, code) = asked(folder, &["checkpoint", "state", "--query", "second"]);
    assert!(saved.starts_with("query second: checkpoint 1, "), "{saved}");
    assert_eq!(code, Some(0));
    child.kill().unwrap();
    child.wait().unwrap();
    let before = numbers(&folder.join("second.csv"))[0];

    let again = ["run", "first.sql", "second.sql", "--plain", "--state", "state", "--for", "2 s"];
    let (told, code) = asked(folder, &again);
    assert_eq!(code, Some(0), "{told}");
    let written = numbers(&folder.join("second.csv"));
    assert_eq!(written[0], before, "what its checkpoint had stays");
    assert!(written.windows(2).all(|pair| pair[0] < pair[1]), "no row is there twice");
}
