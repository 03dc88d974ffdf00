//! A STATEMENT SET is its INSERTs as queries of their own: what they share, what they are called, and what becomes of a checkpoint
//! that is from when it was one query.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::{lines, sorted};

const TABLES: &str = "
CREATE TABLE events (t TIMESTAMP(3), k BIGINT, v BIGINT, WATERMARK FOR t AS t)
WITH ('connector' = 'filesystem', 'path' = 'events.csv', 'format' = 'csv');
CREATE TABLE counted (e TIMESTAMP(3), k BIGINT, n BIGINT, s BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'counted.csv', 'format' = 'csv');
CREATE TABLE great (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'great.csv', 'format' = 'csv');
SET 'pipeline.name' = 'both';
";

/// Five that one operator can do, and one that is not like them.
fn inserts() -> String {
    let counted = (0..5).map(|k| {
        format!(
            "INSERT INTO counted SELECT window_end, k, COUNT(*), SUM(v)
             FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' MINUTE)) WHERE k = {k}
             GROUP BY window_start, window_end, k;\n"
        )
    });
    counted.chain(["INSERT INTO great SELECT k, v FROM events WHERE v > 990;\n".to_owned()]).collect()
}

fn laxity(folder: &Path, script: &str, arguments: &[&str]) -> Output {
    fs::write(folder.join("script.sql"), script).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder).env_remove("LAXITY_LOG").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn with_events() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let row =
        |n: u64| format!("2024-01-01 00:{:02}:{:02},{},{}\n", n / 60 % 60, n % 60, n * 7 % 6, n * 13 % 1_000);
    fs::write(folder.path().join("events.csv"), (0..3_000).map(row).collect::<String>()).unwrap();
    folder
}

#[test]
fn its_queries_do_together_what_they_have_in_common() {
    let folder = with_events();
    let folder = folder.path();
    let set = format!("{TABLES}EXECUTE STATEMENT SET BEGIN\n{}END;\n", inserts());
    let explained = said(&laxity(folder, &set, &["explain", "script.sql"]));
    assert_eq!(explained.matches("query both/counted").count(), 5, "{explained}");
    assert_eq!(explained.matches("query both/great\n").count(), 1, "{explained}");
    assert_eq!(explained.matches("one operator").count(), 5, "{explained}");

    let results = |script: &str| {
        let output = laxity(folder, script, &["run", "script.sql", "--plain", "--report", "report.json"]);
        assert!(output.status.success(), "{}", said(&output));
        ["counted.csv", "great.csv"].map(|name| sorted(lines(&folder.join(name))))
    };
    let of_set = results(&set);
    assert_eq!(of_set[0].len(), 250, "five keys and fifty minutes");
    let report = fs::read_to_string(folder.join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let rows_in = |name: &str| {
        let of_name = |query: &&serde_json::Value| query["name"] == name;
        report["queries"].as_array().unwrap().iter().find(of_name).expect(name)["rows_in"].clone()
    };
    assert_eq!((rows_in("both/counted-5"), rows_in("both/great")), (3_000.into(), 3_000.into()));
    assert_eq!(of_set, results(&format!("{TABLES}{}", inserts())));
}

#[test]
fn a_checkpoint_of_it_as_one_query_is_not_passed_over() {
    let folder = with_events();
    let folder = folder.path();
    let arguments = ["run", "script.sql", "--plain", "--state", "state"];
    let insert = "INSERT INTO great SELECT k, v FROM events WHERE v > 990;";
    assert!(laxity(folder, &format!("{TABLES}{insert}"), &arguments).status.success());

    let other = "INSERT INTO counted (k, n) SELECT k, v FROM events WHERE v < 3;";
    let set = format!("{TABLES}EXECUTE STATEMENT SET BEGIN {insert} {other} END;");
    let refused = laxity(folder, &set, &arguments);
    assert_eq!(refused.status.code(), Some(2));
    let reason = "state has checkpoints of the STATEMENT SET 'both' as one query, from an earlier version";
    assert!(said(&refused).contains(reason), "{}", said(&refused));
    assert!(said(&refused).contains("--state-ignore 'both'"), "{}", said(&refused));

    let anew = laxity(folder, &set, &[&arguments[..], &["--state-ignore", "both"]].concat());
    assert!(anew.status.success(), "{}", said(&anew));
    // From here on there are checkpoints of its own.
    let again = laxity(folder, &set, &arguments);
    assert!(
        again.status.success() && said(&again).contains("query both/great is complete"),
        "{}",
        said(&again)
    );
}
