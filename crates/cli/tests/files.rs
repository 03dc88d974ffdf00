//! Files that run together, and files that a run reads and writes: no file harms another, nothing is written over what
//! is read.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes the number of its rows, under settings of its own if `settings` has any.
fn tenant(settings: &str, rows: u32) -> String {
    format!(
        "{settings}
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'fields.n.kind' = 'sequence',
  'fields.n.start' = '1', 'fields.n.end' = '{rows}');
CREATE TABLE results (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'results.csv', 'format' = 'csv');
INSERT INTO results SELECT n FROM numbers;
"
    )
}

fn laxity(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder).env_remove("LAXITY_LOG").stdin(Stdio::null()).args(args).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

fn queries(folder: &Path) -> Vec<(String, f64)> {
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
    let queries = report["queries"].as_array().unwrap().iter();
    queries.map(|q| (q["name"].as_str().unwrap().to_string(), q["target_ms"].as_f64().unwrap())).collect()
}

/// Folders of two tenants whose tables and queries bear the same names.
fn two_tenants() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let settings = "SET 'laxity.latency.target' = '5 s';";
    fs::write(folder.path().join("a/alpha.sql"), tenant(settings, 10)).unwrap();
    fs::write(folder.path().join("b/beta.sql"), tenant("", 20)).unwrap();
    folder
}

#[test]
fn settings_tables_and_names_of_one_file_are_unknown_to_another() {
    let folder = two_tenants();
    let output = laxity(folder.path(), &["run", "a/alpha.sql", "b/beta.sql", "--report", "report.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(lines(&folder.path().join("a/results.csv")), 10);
    assert_eq!(lines(&folder.path().join("b/results.csv")), 20);
    // The target of the one is not that of the other.
    let expected =
        [("alpha/insert-into_results".to_string(), 5_000.0), ("beta/insert-into_results".into(), 60_000.0)];
    assert_eq!(queries(folder.path()), expected);
    let plans = laxity(folder.path(), &["explain", "a/alpha.sql", "b/beta.sql"]);
    let plans = String::from_utf8_lossy(&plans.stdout).into_owned();
    assert!(plans.contains("query alpha/insert-into_results\n") && plans.contains("query beta/"), "{plans}");
}

#[test]
fn files_of_one_name_are_told_apart_by_their_folders() {
    let folder = two_tenants();
    fs::rename(folder.path().join("b/beta.sql"), folder.path().join("b/alpha.sql")).unwrap();
    let output = laxity(folder.path(), &["run", "a/alpha.sql", "b/alpha.sql", "--report", "report.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let names: Vec<String> = queries(folder.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a/alpha/insert-into_results", "b/alpha/insert-into_results"]);
}

#[test]
fn shared_files_are_one_script() {
    let folder = tempfile::tempdir().unwrap();
    let sql = tenant("SET 'pipeline.name' = 'both';", 10);
    let (tables, insert) = sql.split_once("INSERT").unwrap();
    fs::write(folder.path().join("tables.sql"), tables).unwrap();
    fs::write(folder.path().join("queries.sql"), format!("INSERT{insert}")).unwrap();
    let files = ["run", "tables.sql", "queries.sql"];
    let apart = laxity(folder.path(), &files);
    assert_eq!(apart.status.code(), Some(2), "{}", told(&apart));
    let together = laxity(folder.path(), &[&files[..], &["--shared", "--report", "report.json"]].concat());
    assert_eq!(together.status.code(), Some(0), "{}", told(&together));
    assert_eq!(queries(folder.path()), [("both".to_string(), 60_000.0)]);
}

#[test]
fn a_file_that_is_wrong_is_reported_and_the_others_run() {
    let folder = two_tenants();
    let wrong = tenant("", 10).replace("SELECT n", "SELECT m");
    fs::write(folder.path().join("a/alpha.sql"), wrong).unwrap();
    for verb in ["run", "explain"] {
        let output = laxity(folder.path(), &[verb, "missing.sql", "a/alpha.sql", "b/beta.sql"]);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(1), "{verb}: {told}");
        assert!(told.contains("a/alpha.sql:5:28: unknown column 'm'"), "{told}");
        assert!(told.contains("cannot read missing.sql") && told.contains("2 of 3 files refused"), "{told}");
    }
    assert_eq!(lines(&folder.path().join("b/results.csv")), 20);
    let measure =
        ["simulate", "a/alpha.sql", "b/beta.sql", "--measure", "200 ms", "--for", "1 s", "--cores", "1"];
    assert_eq!(laxity(folder.path(), &measure).status.code(), Some(1));
    // Where nothing is left to run, nothing ran.
    assert_eq!(laxity(folder.path(), &["run", "missing.sql", "a/alpha.sql"]).status.code(), Some(2));
}

#[test]
fn a_table_that_cannot_be_opened_stops_its_own_query_alone() {
    let folder = two_tenants();
    let missing = "CREATE TABLE seen (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'missing.csv', 'format' = 'csv');
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');\nINSERT INTO nowhere SELECT n FROM seen;";
    fs::write(folder.path().join("a/missing.sql"), missing).unwrap();
    // What is declared alike in two files is one table, which both write.
    fs::write(folder.path().join("a/again.sql"), tenant("", 30)).unwrap();
    let output = laxity(folder.path(), &["run", "a/missing.sql", "a/alpha.sql", "a/again.sql", "b/beta.sql"]);
    let told = told(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("a/missing.sql:1:73: query") && told.contains("the others are started"), "{told}");
    assert_eq!(lines(&folder.path().join("a/results.csv")), 40, "{told}");
    assert_eq!(lines(&folder.path().join("b/results.csv")), 20, "{told}");
}

#[test]
fn what_a_run_reads_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let sql = tenant("", 10);
    fs::write(folder.path().join("a.sql"), &sql).unwrap();
    std::os::unix::fs::symlink("a.sql", folder.path().join("link")).unwrap();
    for report in ["a.sql", "link", "./results.csv"] {
        let output = laxity(folder.path(), &["run", "a.sql", "--report", report]);
        assert_eq!(output.status.code(), Some(2), "{report}: {}", told(&output));
        assert!(told(&output).contains("this run "), "{}", told(&output));
        assert_eq!(fs::read_to_string(folder.path().join("a.sql")).unwrap(), sql, "{report}");
    }
    // A result, and a dead letter, over the SQL itself.
    let over = sql.replace("'results.csv'", "'a.sql'");
    fs::write(folder.path().join("a.sql"), &over).unwrap();
    let output = laxity(folder.path(), &["run", "a.sql"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("a.sql: this run reads this file"), "{}", told(&output));
    let input = laxity_piped(folder.path(), &over);
    assert_eq!(input.status.code(), Some(2), "{}", told(&input));
    assert_eq!(fs::read_to_string(folder.path().join("a.sql")).unwrap(), over);
}

/// With the SQL as the standard input, redirected from the file `a.sql`.
fn laxity_piped(folder: &Path, sql: &str) -> Output {
    fs::write(folder.join("a.sql"), sql).unwrap();
    let input = fs::File::open(folder.join("a.sql")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder).args(["run", "-"]).stdin(input).output().unwrap()
}

#[test]
fn a_report_stays_until_there_is_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.sql"), tenant("", 10).replace("FROM numbers", "FROM nobody")).unwrap();
    fs::write(folder.path().join("report.json"), "the old one, which is longer than nothing").unwrap();
    let output = laxity(folder.path(), &["run", "a.sql", "--report", "report.json"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(fs::read_to_string(folder.path().join("report.json")).unwrap().starts_with("the old one"));
    fs::write(folder.path().join("report.json"), "x".repeat(100_000)).unwrap();
    fs::write(folder.path().join("a.sql"), tenant("", 10)).unwrap();
    assert_eq!(laxity(folder.path(), &["run", "a.sql", "--report", "report.json"]).status.code(), Some(0));
    assert_eq!(queries(folder.path()).len(), 1);
}

const TIMES: &str = "
CREATE TABLE times (n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
  'path' = 'times.csv', 'format' = 'csv', 'laxity.dead-letter.path' = 'dead.jsonl');
SET 'pipeline.name' = 'counts';
SELECT window_end, SUM(n) FROM TABLE(TUMBLE(TABLE times, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
";

#[test]
fn rows_without_a_time_are_dead_letters_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.sql"), TIMES).unwrap();
    fs::write(folder.path().join("times.csv"), "1,2020-01-01 00:00:01\n2,\nthree,2020-01-01 00:00:02\n")
        .unwrap();
    let output = laxity(folder.path(), &["run", "a.sql", "--report", "report.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let letters = fs::read_to_string(folder.path().join("dead.jsonl")).unwrap();
    let letters: Vec<serde_json::Value> =
        letters.lines().map(|letter| serde_json::from_str(letter).unwrap()).collect();
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert_eq!(letters[0]["raw"], "three,2020-01-01 00:00:02");
    let refused = serde_json::json!({
        "table": "times", "query": "counts", "reason": "event time is NULL", "raw": "{\"n\":2,\"ts\":null}",
    });
    assert_eq!(letters[1], refused);
}

const QUOTIENTS: &str = "
CREATE TABLE numbers (n BIGINT, divisor BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
  'path' = 'numbers.csv', 'format' = 'csv', 'laxity.dead-letter.path' = 'dead.jsonl');
CREATE TABLE results (n BIGINT, total BIGINT) WITH ('connector' = 'filesystem', 'path' = 'results.csv', 'format' = 'csv');
SET 'pipeline.name' = 'quotients';
SETTING
INSERT INTO results SELECT n, 60 / total FROM (
  SELECT window_end, n, SUM(divisor) AS total FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
  WHERE 12 / divisor <> 0 GROUP BY window_start, window_end, n);
";

#[test]
fn rows_over_which_an_expression_fails_are_dead_letters_where_they_are_asked_to_be() {
    let folder = tempfile::tempdir().unwrap();
    // The second row fails before the window; 4 and -4 come to nothing behind it.
    let rows = ["1,2", "2,0", "3,4", "5,4", "5,-4", "6,3"];
    let rows: String = rows.iter().map(|row| format!("{row},2020-01-01 00:00:01\n")).collect();
    fs::write(folder.path().join("numbers.csv"), rows).unwrap();
    let sql = folder.path().join("a.sql");

    fs::write(&sql, QUOTIENTS.replace("SETTING", "")).unwrap();
    let failed = laxity(folder.path(), &["run", "a.sql"]);
    assert_ne!(failed.status.code(), Some(0), "{}", told(&failed));

    let setting = "SET 'laxity.row.error' = 'dead-letter';";
    fs::write(&sql, QUOTIENTS.replace("SETTING", setting)).unwrap();
    let output = laxity(folder.path(), &["run", "a.sql", "--report", "report.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let results = fs::read_to_string(folder.path().join("results.csv")).unwrap();
    let mut results: Vec<&str> = results.lines().collect();
    results.sort_unstable();
    assert_eq!(results, ["1,30", "3,15", "6,20"]);
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(report["queries"][0]["rows_dead"], 2);
    let letters = fs::read_to_string(folder.path().join("dead.jsonl")).unwrap();
    let mut letters: Vec<serde_json::Value> =
        letters.lines().map(|letter| serde_json::from_str(letter).unwrap()).collect();
    assert_eq!(letters.len(), 2, "{letters:?}");
    letters.sort_by_key(|letter| letter["raw"].as_str().unwrap().contains("total"));
    for letter in &letters {
        assert_eq!((&letter["table"], &letter["query"]), (&"numbers".into(), &"quotients".into()));
        assert!(letter["reason"].as_str().unwrap().to_lowercase().contains("zero"), "{letter}");
    }
    let raw =
        |at: usize| serde_json::from_str::<serde_json::Value>(letters[at]["raw"].as_str().unwrap()).unwrap();
    assert_eq!((&raw(0)["n"], &raw(0)["divisor"]), (&2.into(), &0.into()));
    assert_eq!(raw(1)["n"], 5, "{letters:?}");
}

#[test]
fn dead_letters_go_to_any_table_by_a_query_over_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("in.csv"), "1\nx\n2\ny,z\n3\n").unwrap();
    let sql = "
        CREATE TABLE f (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv',
                                        'laxity.dead-letter.path' = 'dead.jsonl');
        CREATE TABLE letters (`table` STRING, line BIGINT, `raw` STRING) WITH ('connector' = 'filesystem', 'path' = 'dead.jsonl',
            'format' = 'json', 'source.monitor-interval' = '10 ms');
        CREATE TABLE good (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'good.csv', 'format' = 'csv');
        CREATE TABLE bad (line BIGINT, `raw` STRING) WITH ('connector' = 'filesystem', 'path' = 'bad.json', 'format' = 'json');
        INSERT INTO good SELECT n FROM f;
        INSERT INTO bad SELECT line, `raw` FROM letters WHERE `table` = 'f';";
    fs::write(folder.join("script.sql"), sql).unwrap();
    let all = "{\"line\":2,\"raw\":\"x\"}\n{\"line\":4,\"raw\":\"y,z\"}\n";
    // A machine that others keep busy may need a longer one.
    let written = ["500 ms", "2 s", "8 s"].into_iter().find_map(|time| {
        let output = laxity(folder, &["run", "script.sql", "--for", time]);
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert_eq!(lines(&folder.join("good.csv")), 3);
        fs::read_to_string(folder.join("bad.json")).ok().filter(|bad| bad == all)
    });
    assert!(written.is_some(), "{:?}", fs::read_to_string(folder.join("bad.json")));
}

#[test]
fn a_simulation_leaves_dead_letters_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.sql"), TIMES).unwrap();
    fs::write(folder.path().join("times.csv"), "1,2020-01-01 00:00:01\n2,\nthree,2020-01-01 00:00:02\n")
        .unwrap();
    fs::write(folder.path().join("dead.jsonl"), "those of the last run\n").unwrap();
    let output = laxity(folder.path(), &["simulate", "a.sql", "--measure", "200 ms", "--for", "1 s"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(fs::read_to_string(folder.path().join("dead.jsonl")).unwrap(), "those of the last run\n");
}

#[test]
fn below_a_root_no_file_outside_is_named() {
    let folder = two_tenants();
    let root = ["--root", "a"];
    let run = |file: &str| laxity(folder.path(), &[&["run", file][..], &root].concat());
    assert_eq!(run("a/alpha.sql").status.code(), Some(0));
    assert_eq!(lines(&folder.path().join("a/results.csv")), 10);
    std::os::unix::fs::symlink("../b", folder.path().join("a/link")).unwrap();
    let inputs = "CREATE TABLE seen (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'PATH', 'format' = 'csv');\nSELECT n FROM seen;";
    for (name, sql) in [
        ("sink.sql", tenant("", 10).replace("'results.csv'", "'../b/results.csv'")),
        ("linked.sql", tenant("", 10).replace("'results.csv'", "'link/results.csv'")),
        ("source.sql", inputs.replace("PATH", "../b/beta.sql")),
        ("absolute.sql", inputs.replace("PATH", "/etc/hostname")),
        (
            "letters.sql",
            inputs.replace(
                "'path' = 'PATH'",
                "'path' = 'results.csv', 'laxity.dead-letter.path' = '../b/dead'",
            ),
        ),
    ] {
        fs::write(folder.path().join("a").join(name), sql).unwrap();
        let output = run(&format!("a/{name}"));
        assert_eq!(output.status.code(), Some(2), "{name}: {}", told(&output));
        assert!(told(&output).contains("--root allows nothing else"), "{name}: {}", told(&output));
    }
    assert_eq!(fs::read_dir(folder.path().join("b")).unwrap().count(), 1, "nothing was made there");
}

#[test]
fn a_row_that_fails_is_shown_with_the_expression_and_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let table = "CREATE TABLE t (k BIGINT, s STRING, password STRING) WITH ('connector' = 'filesystem', 'path' = 'in.csv', \
                 'format' = 'csv', 'csv.ignore-parse-errors' = 'true');\n";
    let rows = "1,7,p\n0,8,hunter2\n5,x,hunter3\n";
    fs::write(folder.path().join("in.csv"), rows).unwrap();
    for (select, place, told_of) in [
        (
            "SELECT k + 1,\n  10 / (k - 0) AS q FROM t",
            "4:3",
            "Divide by zero in 10 / (k - 0); the row has k = 0",
        ),
        ("SELECT k, 1 +  MOD(7, k) FROM t", "3:16", "in MOD(7, k); the row has k = 0"),
        ("SELECT k FROM t WHERE CAST(s AS INT) > 1", "3:23", "in CAST(s AS INT); the row has s = x"),
        (
            "SELECT CASE WHEN k = 0 THEN 1 ELSE 5 / k END, CAST(s AS BIGINT), password FROM t",
            "3:47",
            "in CAST(s AS BIGINT); the row has s = x",
        ),
    ] {
        let sql = format!("{table}SET 'pipeline.name' = 'quotients';\n{select};\n");
        fs::write(folder.path().join("q.sql"), sql).unwrap();
        let output = laxity(folder.path(), &["run", "q.sql"]);
        let told = told(&output);
        assert_eq!(output.status.code(), Some(1), "{select}: {told}");
        assert!(told.contains(&format!("quotients failed: q.sql:{place}: ")), "{select}: {told}");
        assert!(told.contains(told_of), "{select}: {told}");
        assert!(!told.contains("hunter"), "{told}");
    }
}

#[test]
fn more_files_are_written_than_may_be_open() {
    const QUERIES: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let mut sql = String::from(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '2000',
           'rows-per-second' = '4000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1999');\n",
    );
    for query in 0..QUERIES {
        sql += &format!(
            "CREATE TABLE r{query} (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'r{query}.csv', 'format' = 'csv');
             INSERT INTO r{query} SELECT n FROM numbers WHERE MOD(n, {QUERIES}) = {query};\n"
        );
    }
    fs::write(folder.path().join("many.sql"), sql).unwrap();
    let limited = format!("ulimit -n 50; exec {} run many.sql", env!("CARGO_BIN_EXE_laxity"));
    let mut command = Command::new("sh");
    let output =
        command.current_dir(folder.path()).env_remove("LAXITY_LOG").args(["-c", &limited]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    for query in 0..QUERIES {
        let expected: String = (0..20).map(|row| format!("{}\n", row * QUERIES + query)).collect();
        assert_eq!(fs::read_to_string(folder.path().join(format!("r{query}.csv"))).unwrap(), expected);
    }
}
