//! Many queries that write one table, and one table that is a file for each query: every row is there, whole, in the order
//! of its query, and counted where it belongs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{lines, sorted};

const QUERIES: usize = 40;
const ROWS: usize = 4_000;
const KEYS: usize = 50;

/// Rows of keys in turn, a millisecond apart; some keys nobody asks for, and some queries ask for keys that are not there.
fn rows() -> String {
    (0..ROWS).fold(String::new(), |mut text, row| {
        let (key, ms) = (row * 7 % KEYS, row);
        text += &format!("{key},{row},2024-01-01 00:00:{:02}.{:03}\n", ms / 1_000, ms % 1_000);
        text
    })
}

/// Queries that each write a result for every window of a tenth of a second, into the table of this path.
fn script(path: &str, before: &str) -> String {
    let mut sql = format!(
        "{before}CREATE TABLE events (k INT, v BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t)
         WITH ('connector' = 'filesystem', 'path' = 'data/events.csv', 'format' = 'csv');
         CREATE TABLE results (q INT, e TIMESTAMP(3), n BIGINT, v BIGINT)
         WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv');\n"
    );
    for query in 0..QUERIES {
        let key = query * 2;
        let division = if query == 3 { "SUM(v) / (COUNT(*) - COUNT(*))" } else { "SUM(v)" };
        sql += &format!(
            "SET 'pipeline.name' = 'q/{query}';
             INSERT INTO results SELECT {query}, window_end, COUNT(*), {division}
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '0.1' SECOND))
             WHERE k = {key} GROUP BY window_start, window_end;\n"
        );
    }
    sql
}

/// Runs a script; rows out of each query, and who failed.
fn run(folder: &Path, sql: &str) -> BTreeMap<String, (u64, bool)> {
    fs::write(folder.join("script.sql"), sql).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_laxity"))
        .current_dir(folder)
        .env_remove("LAXITY_LOG")
        .args(["run", "script.sql", "--plain", "--report", "report.json", "--workers", "2"])
        .output()
        .unwrap();
    let report = fs::read_to_string(folder.join("report.json"))
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let of = |query: &serde_json::Value| {
        let name = query["name"].as_str().unwrap().to_owned();
        (name, (query["rows_out"].as_u64().unwrap(), query["error"].is_string()))
    };
    report["queries"].as_array().unwrap().iter().map(of).collect()
}

/// The results of each query, by hand: the end of each window with its rows and their sum.
fn expected(query: usize) -> Vec<String> {
    let mut windows: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for row in (0..ROWS).filter(|row| row * 7 % KEYS == query * 2) {
        let window = windows.entry(row / 100 + 1).or_default();
        *window = (window.0 + 1, window.1 + row as u64);
    }
    let line = |(end, (count, sum)): (usize, (u64, u64))| {
        let fraction = if end % 10 == 0 { String::new() } else { format!(".{}00", end % 10) };
        format!("{query},2024-01-01 00:00:{:02}{fraction},{count},{sum}", end / 10)
    };
    windows.into_iter().map(line).collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/events.csv"), rows()).unwrap();
    folder
}

#[test]
fn rows_of_many_queries_are_one_stream() {
    let folder = folder();
    let (off, one, parts) = ("SET 'laxity.share' = 'off';\n", "out/all.csv", "out/parts");
    for (before, path, file) in [("", one, one), (off, parts, "out/parts/part-0-0.csv")] {
        let figures = run(folder.path(), &script(path, before));
        let mut of_queries: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for line in lines(&folder.path().join(file)) {
            let query = line.split_once(',').and_then(|(query, _)| query.parse().ok());
            of_queries.entry(query.unwrap_or_else(|| panic!("{line:?}"))).or_default().push(line);
        }
        for query in 0..QUERIES {
            let (rows_out, has_failed) = figures[&format!("q/{query}")];
            if query == 3 {
                // It divides by nothing, and ends alone.
                assert!(has_failed && rows_out == 0 && !of_queries.contains_key(&3));
                continue;
            }
            let written = of_queries.remove(&query).unwrap_or_default();
            assert_eq!(written, expected(query), "query {query}, {path}, {before}");
            assert_eq!((rows_out, has_failed), (written.len() as u64, false));
        }
        assert!(of_queries.is_empty());
        assert!(!folder.path().join("out/parts/part-1-0.csv").exists());
    }
}

#[test]
fn a_table_may_be_a_file_for_each_query() {
    let folder = folder();
    for before in ["", "SET 'laxity.share' = 'off';\n"] {
        let _ = fs::remove_dir_all(folder.path().join("out"));
        let figures = run(folder.path(), &script("out/of ${query}.csv", before));
        for query in 0..QUERIES {
            // A slash is in no name of a file.
            let file = folder.path().join(format!("out/of q%2F{query}.csv"));
            let expected = if query == 3 { vec![] } else { expected(query) };
            assert_eq!(file.exists(), !expected.is_empty(), "query {query}");
            if file.exists() {
                assert_eq!(sorted(lines(&file)), sorted(expected.clone()), "query {query}");
            }
            assert_eq!(figures[&format!("q/{query}")].0, expected.len() as u64);
        }
    }
}
