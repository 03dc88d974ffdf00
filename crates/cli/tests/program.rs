//! The program as its users and their scripts meet it: exit codes, streams, signals, the report, the examples.
//!
//! Results are the golden tests' business.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const ENDLESS: &str = "
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000');
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
SET 'pipeline.name' = 'endless';
SET 'laxity.latency.target' = '100 ms';
INSERT INTO nowhere SELECT n FROM ticks;
";

const BOUNDED: &str = "
CREATE TABLE numbers (n BIGINT)
WITH ('connector' = 'datagen', 'number-of-rows' = '10', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '10');
SET 'pipeline.name' = 'evens';
SELECT n, n * n AS square FROM numbers WHERE MOD(n, 2) = 0;
";

#[test]
fn help_teaches_with_examples() {
    let help = stdout(&laxity().arg("--help").output().unwrap());
    assert!(help.contains("laxity run -") && help.contains("Exit code"), "{help}");
    let help = stdout(&laxity().args(["run", "--help"]).output().unwrap());
    assert!(
        help.contains("laxity run pipeline.sql --policy fifo") && help.contains("laxity.latency.target"),
        "{help}"
    );
    assert!(help.contains("A result is a batch of rows that a sink has written"), "{help}");
}

#[test]
fn the_first_query_of_the_help_runs() {
    let help = stdout(&laxity().arg("--help").output().unwrap());
    let (_, rest) = help.split_once("echo \"").unwrap();
    let (sql, _) = rest.split_once("\" | laxity run -").unwrap();
    let output = piped(sql, &["run", "-", "--for", "2500 ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("+I["), "{}", stderr(&output));
}

#[test]
fn results_go_to_stdout_and_everything_else_to_stderr() {
    let output = piped(BOUNDED, &["run", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<String> = stdout(&output).lines().map(str::to_string).collect();
    assert_eq!(lines, ["+I[2, 4]", "+I[4, 16]", "+I[6, 36]", "+I[8, 64]", "+I[10, 100]"]);
    let told = stderr(&output);
    assert!(told.contains("evens") && told.contains("kept its 1 min target"), "{told}");
}

#[test]
fn a_report_is_json_with_every_query() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let output = piped(BOUNDED, &["run", "-", "--workers", "1", "--report", report.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["policy"], "laxity");
    assert_eq!(report["workers"], 1);
    let query = &report["queries"][0];
    assert_eq!(query["name"], "evens");
    assert_eq!(query["target_ms"], 60_000.0);
    assert_eq!((&query["rows_in"], &query["rows_out"], &query["met"]), (&10.into(), &5.into(), &1.0.into()));
    assert!(query["results"].as_u64().unwrap() >= 1);
    assert!(query["latency_ms"]["p99"].as_f64().unwrap() > 0.0);
    // Everything came out, so nothing is owed.
    assert_eq!((&query["unfinished"], &query["rows_dropped"]), (&0.into(), &0.into()));
    assert!(query["oldest_unfinished_ms"].is_null(), "{query}");
    assert!(query["last_minute_latency_ms"]["p99"].as_f64().unwrap() > 0.0);
    assert!(report["peak_rss_bytes"].as_u64().unwrap() > 1_000_000);
    // The system may count CPU time in hundredths of a second, more than this run takes.
    assert!(report["wall_s"].as_f64().unwrap() > 0.0 && report["cpu_s"].is_number());
}

#[test]
fn every_field_of_the_report_is_documented() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    piped(BOUNDED, &["run", "-", "--report", report.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let documented = fs::read_to_string(repository().join("docs/report.md")).unwrap();
    let fields = [&report, &report["queries"][0], &report["queries"][0]["latency_ms"]];
    for field in fields.iter().flat_map(|object| object.as_object().unwrap().keys()) {
        assert!(documented.contains(&format!("`{field}`")), "docs/report.md says nothing of {field}");
    }
}

/// Each connector is given an option that none has: it then says which it takes.
#[test]
fn every_option_of_a_table_is_documented() {
    const FILES: &str = "'connector' = 'filesystem', 'path' = 'nothing', 'format' = ";
    const TOPICS: &str = "'connector' = 'kafka', 'topic' = 'x', 'scan.startup.mode' = 'earliest-offset', \
                          'properties.bootstrap.servers' = 'localhost:1', 'format' = ";
    const SERVER: &str = "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost:1/x', 'table-name' = 'y', \
                          'username' = 'u', 'password' = 'p'";
    const READ: &str =
        "CREATE TABLE o (a BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO o SELECT a FROM t;";
    const WRITTEN: &str =
        "CREATE TABLE i (a BIGINT) WITH ('connector' = 'datagen'); INSERT INTO t SELECT a FROM i;";
    let places = ["docs/connectors.md", "docs/kafka.md", "docs/postgres.md"];
    let docs: String =
        places.iter().map(|place| fs::read_to_string(repository().join(place)).unwrap()).collect();
    let formats = [
        "'json'",
        "'csv'",
        "'raw'",
        "'avro'",
        "'avro-confluent', 'avro-confluent.url' = 'http://localhost:1'",
    ];
    let mut tables: Vec<(String, &str)> =
        formats.iter().map(|format| (format!("{TOPICS}{format}"), READ)).collect();
    for format in ["'avro'", "'csv'", "'json'", "'parquet'"] {
        tables.extend([READ, WRITTEN].map(|query| (format!("{FILES}{format}"), query)));
    }
    tables.extend([READ, WRITTEN].map(|query| (SERVER.to_owned(), query)));
    tables.extend(["datagen", "nexmark"].map(|name| (format!("'connector' = '{name}'"), READ)));
    tables.extend(["print", "blackhole"].map(|name| (format!("'connector' = '{name}'"), WRITTEN)));
    let mut missing = Vec::new();
    for (options, query) in tables {
        let sql = format!("CREATE TABLE t (a BIGINT) WITH ({options}, 'zzz' = '1');\n{query}");
        let told = stderr(&piped(&sql, &["explain", "-"]));
        let (_, valid) = told.split_once("valid ones: ").unwrap_or_else(|| panic!("{sql}: {told}"));
        for option in valid.lines().next().unwrap_or("").split(", ") {
            let named = option.replace("fields.a.", "fields.NAME.");
            if !docs.contains(&format!("`{named}`")) {
                missing.push(format!("{option} of {options}"));
            }
        }
    }
    assert!(missing.is_empty(), "{places:?} say nothing of {missing:#?}");
}

#[test]
fn printed_columns_have_names_where_they_are_wanted() {
    let output = piped(BOUNDED, &["run", "-", "--header"]);
    let lines: Vec<String> = stdout(&output).lines().map(str::to_string).collect();
    assert_eq!(lines[..2], ["  [n, square]", "+I[2, 4]"], "{}", stderr(&output));
    assert_eq!(lines.len(), 6);
}

#[test]
fn keys_that_nobody_has_are_warned_of() {
    let sql = format!(
        "SET 'latency.target' = '5 ms'; SET 'pipline.name' = 'x';\nSET 'table.exec.state.ttl' = '1 h';\n{BOUNDED}"
    );
    for verb in ["run", "explain"] {
        let output = piped(&sql, &[verb, "-"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let told = stderr(&output);
        let warnings: Vec<&str> = told.lines().filter(|line| line.starts_with("warning")).collect();
        let expected = [
            "warning: -:1:5: key 'latency.target' has no effect; did you mean 'laxity.latency.target'?",
            "warning: -:1:36: key 'pipline.name' has no effect; did you mean 'pipeline.name'?",
        ];
        assert_eq!(warnings, expected, "{told}");
    }
}

#[test]
fn silence_and_losses_are_explained() {
    let told = stderr(&piped(&BOUNDED.replace("MOD(n, 2) = 0", "n > 100"), &["run", "-"]));
    let filtered = "evens gave no result: none of its 10 rows passed its conditions or found a match.";
    assert!(told.contains(filtered), "{told}");

    let waiting = "
CREATE TABLE ticks (n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '1000');
SET 'pipeline.name' = 'yearly';
SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '365' DAY)) GROUP BY window_start, window_end;
";
    let told = stderr(&piped(waiting, &["run", "-", "--for", "1 s"]));
    assert!(told.contains("yearly gave no result: its watermark stands at 20"), "{told}");
    assert!(told.contains(" while its next window ends at 20"), "{told}");

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("import.csv"), "1\n2\nthree\n").unwrap();
    let import = "
CREATE TABLE imported (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'import.csv', 'format' = 'csv');
SET 'pipeline.name' = 'import';
SELECT n FROM imported;
";
    fs::write(folder.path().join("import.sql"), import).unwrap();
    let told = stderr(&laxity().current_dir(folder.path()).args(["run", "import.sql"]).output().unwrap());
    let last = "Not in the results: 1 row dead (import, 33.3 % of its rows).";
    assert_eq!(told.trim_end().lines().last(), Some(last), "{told}");
}

#[test]
fn a_run_ends_when_its_time_is_over() {
    for policy in ["laxity", "os"] {
        let output = piped(ENDLESS, &["run", "-", "--for", "1500 ms", "--policy", policy]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains("endless kept its 100 ms target"), "{}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_drains_and_tells() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("endless.sql"), ENDLESS).unwrap();
    let mut running = Interruptible::start(folder.path(), "endless.sql");
    // The first line comes a second into the run: by then it listens to signals.
    assert!(running.line().contains("endless"));
    running.interrupt();
    let (code, rest) = running.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("stopping") && rest.contains("rows in"), "{rest}");
}

/// A folder with `stuck.sql`, which writes much to a pipe, `pipe.csv`.
#[cfg(unix)]
fn stuck() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe.csv")).status().unwrap().success());
    let sql = ENDLESS.replace("'1000'", "'1000000'").replace(
        "'connector' = 'blackhole'",
        "'connector' = 'filesystem', 'path' = 'pipe.csv', 'format' = 'csv'",
    );
    fs::write(folder.path().join("stuck.sql"), sql).unwrap();
    folder
}

#[cfg(unix)]
#[test]
fn a_second_interrupt_leaves_at_once() {
    // Draining would take until its time is over.
    let folder = stuck();
    let mut running = Interruptible::start(folder.path(), "stuck.sql");
    let _unread = fs::File::open(folder.path().join("pipe.csv")).unwrap();
    assert!(running.line().contains("endless"));
    running.interrupt();
    while !running.line().contains("stopping") {}
    running.interrupt();
    let (code, rest) = running.end();
    assert_eq!(code, Some(130), "{rest}");
    assert!(!rest.contains("rows in"), "{rest}");
}

#[cfg(unix)]
#[test]
fn rows_that_nobody_takes_are_dropped_counted_and_seen_in_the_exit_code() {
    let folder = stuck();
    let args = ["run", "stuck.sql", "--for", "1 s", "--report", "report.json"];
    let running = laxity().current_dir(folder.path()).args(args).stderr(Stdio::piped()).spawn().unwrap();
    let _unread = fs::File::open(folder.path().join("pipe.csv")).unwrap();
    let output = running.wait_with_output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(
        told.contains("endless dropped ") && told.contains(" rows dropped at the end (endless"),
        "{told}"
    );
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["queries"][0]["rows_dropped"].as_u64() > Some(0), "{report}");
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_the_table_is_redrawn() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("endless.sql"), ENDLESS).unwrap();
    let run = format!("stty cols 70 rows 20; {} run endless.sql --for 1500ms", env!("CARGO_BIN_EXE_laxity"));
    // util-linux's script gives the program a terminal.
    let script = Command::new("script").current_dir(folder.path()).args(["-qec", &run, "/dev/null"]).output();
    let Ok(output) = script else {
        eprintln!("skipped: no script here");
        return;
    };
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("\u{1b}[3F\u{1b}[J") || shown.contains("\u{1b}[4F\u{1b}[J"), "{shown:?}");
    assert!(shown.contains("cores busy") && shown.contains("endless kept its 100 ms target"), "{shown:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_query_that_fails_stops_alone_and_shows_in_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("full.csv")).unwrap();
    let sql = "
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000');
CREATE TABLE full_disk (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'full.csv', 'format' = 'csv');
CREATE TABLE good (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'good.csv', 'format' = 'csv');
SET 'pipeline.name' = 'doomed';
INSERT INTO full_disk SELECT n FROM numbers;
SET 'pipeline.name' = 'healthy';
INSERT INTO good SELECT n FROM numbers;
";
    fs::write(folder.path().join("two.sql"), sql).unwrap();
    let output = laxity().current_dir(folder.path()).args(["run", "two.sql"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("doomed failed") && stderr(&output).contains("full.csv"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(folder.path().join("good.csv")).unwrap().lines().count(), 1_000);
}

#[test]
fn what_the_user_can_correct_exits_with_2() {
    for (args, says) in [
        (&["run", "missing.sql"][..], "cannot read missing.sql"),
        (&["run", "-", "--policy", "fastest"], "no policy is named \"fastest\"; expected one of laxity, llf"),
        (&["run", "-", "--report", "missing/report.json"], "--report: cannot create missing/report.json"),
        (&["run", "-", "--for", "20"], "'20' has no unit"),
        (&["explain", "missing.sql"], "cannot read missing.sql"),
        (&["run"], "Usage"),
    ] {
        let output = piped(BOUNDED, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
}

/// A file as it runs on Flink; who tries it out does not take the store from the run that has it.
#[test]
fn a_store_that_a_file_names_is_used_where_the_command_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();
    let script = format!(
        "SET 'execution.checkpointing.interval' = '1 s';
SET 'state.checkpoints.dir' = 's3://bucket/prefix';\n{BOUNDED}"
    );
    let alone = piped(&script, &["run", "-", "--plain"]);
    assert_eq!(alone.status.code(), Some(2), "{}", stderr(&alone));
    assert!(
        stderr(&alone).contains("--state FOLDER, and --state-store 's3://bucket/prefix'"),
        "{}",
        stderr(&alone)
    );
    let here = piped(&script, &["run", "-", "--plain", "--state", state]);
    assert!(here.status.success(), "{}", stderr(&here));
    assert!(fs::read_dir(state).unwrap().count() > 0);
}

#[test]
fn a_missing_input_names_its_path() {
    let sql = "
CREATE TABLE lost (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'no/such/file.csv', 'format' = 'csv');
SELECT n FROM lost;
";
    let output = piped(sql, &["run", "-"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("-:2:73: query \"select\" cannot open"), "{}", stderr(&output));
    assert!(stderr(&output).contains("no/such/file.csv"), "{}", stderr(&output));
}

#[test]
fn explain_shows_the_plan_and_runs_nothing() {
    let folder = examples();
    let output =
        laxity().current_dir(folder.path()).args(["explain", "examples/two-tenants.sql"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("tower board") && text.contains("50 ms") && text.contains("storms"), "{text}");
    assert!(!folder.path().join("out").exists());
}

#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let sql = BOUNDED.replace("SELECT n, n", "EXPLAIN SELECT n, n");
    // Far more than a pipe holds, to a reader that takes a line and goes.
    let (tables, explain) = sql.split_once("SET").unwrap();
    fs::write(folder.path().join("many.sql"), format!("{tables}{}", format!("SET{explain}").repeat(500)))
        .unwrap();
    for verb in ["run", "explain"] {
        let line =
            format!("{} {verb} many.sql | head -n 1; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_laxity"));
        let output = Command::new("bash").current_dir(folder.path()).args(["-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stdout(&output).starts_with("query evens") && stderr(&output).is_empty(),
            "{}",
            stderr(&output)
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_may_not_grow_ends_the_query_that_writes_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '20000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '20000');
CREATE TABLE huge (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'large.csv', 'format' = 'csv');
CREATE TABLE small (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'small.csv', 'format' = 'csv');
SET 'pipeline.name' = 'doomed';
INSERT INTO huge SELECT n FROM numbers;
SET 'pipeline.name' = 'healthy';
INSERT INTO small SELECT n FROM numbers WHERE n <= 1000;
";
    fs::write(folder.path().join("two.sql"), sql).unwrap();
    // In blocks of 1 KB.
    let line = format!("ulimit -f 16; exec {} run two.sql", env!("CARGO_BIN_EXE_laxity"));
    let output = Command::new("bash").current_dir(folder.path()).args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("doomed failed") && stderr(&output).contains("large.csv"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(folder.path().join("small.csv")).unwrap().lines().count(), 1_000);
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_cannot_be_had_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("endless.sql"), ENDLESS).unwrap();
    // A stack larger than any address space. With a bound on the memory of the process instead, threads that are there
    // already would run out of it too.
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.current_dir(folder.path()).env("RUST_MIN_STACK", (1_u64 << 47).to_string());
    let output = command.args(["run", "endless.sql", "--for", "1s"]).output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot start a thread of the engine") && !told.contains("panicked"), "{told}");
}

#[test]
fn an_expression_that_would_take_all_memory_ends_its_query_alone() {
    let sql = "
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000');
SET 'pipeline.name' = 'constant';
SELECT n, CHAR_LENGTH(REPEAT('x', 2000000000)) FROM numbers;
SET 'pipeline.name' = 'of data';
SELECT CHAR_LENGTH(REPEAT('0123456789', CAST(n * 10000 AS INT))) FROM numbers;
SET 'pipeline.name' = 'healthy';
SELECT n FROM numbers;
";
    let output = piped(sql, &["run", "-", "--report", "/dev/stderr"]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for query in ["constant", "of data"] {
        assert!(told.contains(&format!("{query} failed: ")), "{told}");
    }
    assert!(told.contains("REPEAT would make") && told.contains("healthy kept"), "{told}");
    // Rows that come before the first that is too long may be out: their lengths are beyond all numbers.
    let written = stdout(&output);
    let number =
        |line: &&str| line.trim_start_matches("+I[").trim_end_matches(']').parse::<u64>().unwrap() <= 1_000;
    assert_eq!(written.lines().filter(number).count(), 1_000, "{told}");
}

#[test]
fn parquet_goes_out_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let squares = "CREATE TABLE squares (n BIGINT, square BIGINT) WITH ('connector' = 'filesystem', 'path' = 'squares.parquet', 'format' = 'parquet');\n";
    let write = BOUNDED.replace("SELECT n, n", "INSERT INTO squares SELECT n, n");
    let read = "SELECT n, square FROM squares;";
    fs::write(folder.path().join("write.sql"), squares.to_string() + &write).unwrap();
    fs::write(folder.path().join("read.sql"), squares.to_string() + read).unwrap();
    for (file, rows) in [("write.sql", 0), ("read.sql", 5)] {
        let output = laxity().current_dir(folder.path()).args(["run", file]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stdout(&output).lines().count(), rows, "{}", stdout(&output));
    }
}

#[test]
fn the_quickstart_is_the_one_of_the_readme_and_runs() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let sql = fs::read_to_string(repository().join("examples/quickstart.sql")).unwrap();
    assert!(readme.contains(sql.trim()), "README.md must show examples/quickstart.sql");

    let folder = examples();
    let output =
        laxity().current_dir(folder.path()).args(["run", "examples/quickstart.sql"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // 365 days and a bit are 13 windows of 30 days from the epoch on, at 3 airports.
    let results = stdout(&output);
    assert_eq!(results.lines().count() % 3, 0, "{results}");
    assert!(results.lines().count() >= 39, "{results}");
    let line = results.lines().find(|line| line.contains("2013-06-") && line.contains("JFK"));
    assert!(line.is_some() && readme.contains(line.unwrap()), "README.md must show what it prints: {line:?}");
}

#[test]
fn two_tenants_run() {
    let folder = examples();
    let args = ["run", "examples/two-tenants.sql", "--for", "3 s", "--report", "report.json"];
    let output = laxity().current_dir(folder.path()).args(args).output().unwrap();
    // A slow machine does not work off all of it in time, and says so.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let queries = report["queries"].as_array().unwrap();
    assert!(queries.len() >= 7);
    assert!(queries.iter().all(|query| query["rows_in"].as_u64() > Some(0)), "{report}");
    assert!(queries[0]["results"].as_u64() > Some(0), "{report}");
    assert!(fs::read_to_string(folder.path().join("out/board.csv")).unwrap().lines().count() > 0);
}

/// The example's year in some seconds, of so many copies of each departure, held against exact results.
fn verified_year(of: impl Fn(&str) -> String) -> serde_json::Value {
    let folder = examples();
    let sql = fs::read_to_string(folder.path().join("examples/approximate.sql")).unwrap();
    fs::write(folder.path().join("examples/fast.sql"), of(&sql.replace("'300000'", "'6000000'"))).unwrap();
    let args = ["run", "--verify-approx", "examples/fast.sql", "--report", "report.json"];
    let output = laxity().current_dir(folder.path()).args(args).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    report["queries"][0]["approx"].clone()
}

/// A millisecond is more than an hour and a half of event time, and no table is read so often. Rows that were due by a window's
/// end are not late for being read after it.
#[test]
fn a_bound_holds_however_late_a_table_is_read() {
    let approx = verified_year(|sql| sql.replace("copies' = '10'", "copies' = '3'"));
    assert_eq!(approx["windows"], 365, "{approx}");
    // 99 %; where they counted as late it was 84.
    assert!(approx["within"].as_f64() > Some(0.95), "{approx}");
    assert!(approx["sampling_rate"].as_f64() < Some(1.0), "{approx}");
}

/// Departures to one place within an hour of each other: what is judged has gone through a join of two tables first.
#[test]
fn a_bound_holds_behind_a_join_of_streams() {
    let approx = verified_year(|sql| {
        let (tables, query) = sql.split_once("\nSET ").unwrap();
        let tables = tables.replace("'laxity.replay.copies' = '10'", "'laxity.replay.copies' = '2'");
        let others = tables.replace("CREATE TABLE departures", "CREATE TABLE others");
        let join = "CREATE VIEW pairs AS SELECT d.event_ts, d.origin, d.distance_mi + o.air_time_min AS distance_mi \
                    FROM departures AS d JOIN others AS o ON d.dest = o.dest AND d.event_ts \
                    BETWEEN o.event_ts - INTERVAL '1' HOUR AND o.event_ts + INTERVAL '1' HOUR;";
        format!("{tables}\n{others}\n{join}\nSET {}", query.replace("TABLE departures", "TABLE pairs"))
    });
    assert_eq!(approx["windows"], 365, "{approx}");
    assert!(approx["within"].as_f64() > Some(0.95), "{approx}");
    assert!(approx["sampling_rate"].as_f64() < Some(1.0), "{approx}");
}

#[test]
fn the_main_job_is_many_urgent_queries_beside_six_heavy_ones() {
    let folder = examples();
    let args = ["explain", "--shared", "examples/two-tenants.sql", "examples/boards.sql"];
    let output = laxity().current_dir(folder.path()).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let boards = fs::read_to_string(folder.path().join("examples/boards.sql")).unwrap();
    let names: Vec<&str> =
        boards.lines().filter_map(|line| line.strip_prefix("SET 'pipeline.name' = '")).collect();
    assert!(names.len() >= 300, "{}", names.len());
    for name in names {
        assert!(text.contains(name.trim_end_matches("';")), "{name}");
    }
    assert!(text.contains("tower board") && text.contains("storms"));
}

#[test]
fn a_pace_is_measured_and_told() {
    // Rows are dear here, so that even a slow machine is soon found to be busy.
    let sql = "
CREATE TABLE ticks (n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '1000000', 'fields.n.min' = '0', 'fields.n.max' = '9999');
SET 'pipeline.name' = 'distinct';
SELECT window_end, COUNT(DISTINCT n) FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))
GROUP BY window_start, window_end;";
    let output = piped(sql, &["run", "-", "--workers", "1", "--pace", "0.5", "--for", "1 s"]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("so the most this machine can do is") && told.contains("ticks "), "{told}");
    // The run begins when the measuring is over: neither its rows nor its time count.
    let printed = stdout(&output).lines().count();
    assert!((2..=6).contains(&printed), "{printed} windows of 0.2 s in a second");
    assert!(told.lines().any(|line| line.contains(" rows in 1")), "{told}");
    let speed = told.lines().find_map(|line| line.strip_prefix("offered at ")?.split(' ').next()).unwrap();
    assert!(speed.parse::<f64>().unwrap() > 0.0, "{told}");

    let output = piped(sql, &["run", "-", "--speed", "0.002", "--for", "1200 ms"]);
    assert!(stderr(&output).contains("ticks 2000 rows/s"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("measured for"));
}

#[test]
fn a_pace_needs_a_table_that_has_one() {
    let sql = "
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'numbers.csv', 'format' = 'csv');
SELECT n FROM numbers;";
    for option in [["--pace", "0.9"], ["--speed", "2x"]] {
        let output = piped(sql, &[&["run", "-"][..], &option].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("laxity.replay.time-column"), "{}", stderr(&output));
    }
}

/// A run that goes on until it is interrupted.
#[cfg(unix)]
struct Interruptible {
    process: std::process::Child,
    told: BufReader<std::process::ChildStderr>,
}

#[cfg(unix)]
impl Interruptible {
    fn start(folder: &Path, file: &str) -> Interruptible {
        let mut process =
            laxity().current_dir(folder).args(["run", file]).stderr(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(process.stderr.take().unwrap());
        Interruptible { process, told }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.told.read_line(&mut line).unwrap() > 0, "it has ended");
        line
    }

    fn interrupt(&self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }

    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.told.read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap().code(), rest)
    }
}

fn laxity() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
    command.env_remove("LAXITY_LOG").stdin(Stdio::null());
    command
}

/// Runs with `sql` as the standard input, in a folder of its own.
fn piped(sql: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = laxity();
    command.current_dir(folder.path()).args(args);
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that refuses its options does not read its input.
    let _ = running.stdin.take().unwrap().write_all(sql.as_bytes());
    running.wait_with_output().unwrap()
}

/// The examples in a folder where they may write.
fn examples() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("examples");
    fs::create_dir_all(copy.join("data")).unwrap();
    for part in ["", "data"] {
        for entry in fs::read_dir(repository().join("examples").join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, copy.join(part).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    folder
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_simulation_says_what_it_is_and_repeats_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ticks.sql");
    fs::write(&file, ENDLESS).unwrap();
    let costs = folder.path().join("costs.json");
    let simulate = |more: &[&str]| {
        let mut command = laxity();
        command.arg("simulate").arg(&file).args([
            "--cores",
            "2",
            "--tenants",
            "3",
            "--up-to",
            "6",
            "--for",
            "2 s",
        ]);
        command.args(["--measure", "500 ms", "--costs"]).arg(&costs).args(more);
        command.output().unwrap()
    };
    let first = simulate(&[]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let told = stdout(&first);
    assert!(told.starts_with("Simulated, not run: 3 tenants on 2 cores, policy laxity, 1 times"), "{told}");
    assert!(told.contains("\nendless  100 ms") && told.contains("Every target would be kept."), "{told}");
    assert!(told.contains("6 tenants fit"), "{told}");
    // The same measurements give the same answer, but for where they come from.
    let answer = |told: String| told.split_once("\n\n").unwrap().1.to_string();
    let second = stdout(&simulate(&[]));
    assert_eq!(answer(second.clone()), answer(told));
    assert!(second.contains("Costs and arrivals taken from "), "{second}");
    let os = stdout(&simulate(&["--policy", "os"]));
    assert!(os.contains("policy os is simulated") || os.contains("Policy os is simulated"), "{os}");
    fs::write(&file, BOUNDED).unwrap();
    let other = simulate(&[]);
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("is of other SQL: it has no query \"evens\""), "{}", stderr(&other));
}

#[test]
fn explain_says_with_how_many_a_query_shares() {
    let folder = tempfile::tempdir().unwrap();
    let mut sql = String::from(
        "CREATE TABLE clicks (u INT, v INT, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector' = 'datagen');
         CREATE TABLE counts (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print');\n",
    );
    let mut query = |name: &str, what: &str, filter: &str| {
        sql += &format!(
            "SET 'pipeline.name' = '{name}';
             INSERT INTO counts SELECT window_end, {what} FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(t), INTERVAL '1' SECOND))
             WHERE {filter} GROUP BY window_start, window_end;\n"
        );
    };
    (0..5).for_each(|user| query(&format!("of {user}"), "COUNT(*)", &format!("u = {user}")));
    query("sum", "CAST(SUM(u) AS BIGINT)", "u = 1");
    query("of two columns", "COUNT(*)", "u = 1 AND v = 2");
    query("odd", "COUNT(*)", "MOD(u, 2) <> 0");
    query("odd of another column", "CAST(SUM(v) AS BIGINT)", "MOD(u, 2) <> 0");
    query("third", "COUNT(*)", "MOD(u, 3) <> 0");
    for window in [
        "TUMBLE(TABLE clicks, DESCRIPTOR(t), INTERVAL '1' SECOND)",
        "TUMBLE(TABLE clicks, DESCRIPTOR(t), INTERVAL '1' MINUTE)",
        "HOP(TABLE clicks, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
        "TUMBLE(TABLE clicks, DESCRIPTOR(t), INTERVAL '5' SECOND)",
        "TUMBLE(TABLE clicks, DESCRIPTOR(t), INTERVAL '1' HOUR)",
    ] {
        sql += &format!(
            "SET 'pipeline.name' = '{}';
             INSERT INTO counts SELECT window_end, COUNT(*) FROM TABLE({window}) WHERE v = 7 GROUP BY window_start, window_end;\n",
            window.rsplit("INTERVAL ").next().unwrap().replace(['\'', ')'], "")
        );
    }
    let mut of_all = |name: &str, what: &str, size: u32| {
        sql += &format!(
            "SET 'pipeline.name' = '{name}';
             INSERT INTO counts SELECT window_end, {what} FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(t), INTERVAL '{size}' SECOND))
             GROUP BY window_start, window_end;\n"
        );
    };
    [1, 1, 2, 3].into_iter().enumerate().for_each(|(number, size)| {
        of_all(&format!("all {number}"), "COUNT(v)", size);
    });
    of_all("more of all", "CAST(MAX(u) AS BIGINT)", 1);
    of_all("more of all for longer", "CAST(MAX(u) AS BIGINT)", 5);
    of_all("different ones of all", "COUNT(DISTINCT u)", 1);
    fs::write(folder.path().join("many.sql"), &sql).unwrap();
    let output = laxity().current_dir(folder.path()).args(["explain", "many.sql"]).output().unwrap();
    let told = stdout(&output);
    let of = |name: &str| {
        let plan = told.split("\n\n").find(|plan| plan.starts_with(&format!("query {name}\n")));
        plan.unwrap_or_else(|| panic!("{told}")).lines().last().unwrap().trim().to_owned()
    };
    let all = "writes counts as 21 others do";
    assert_eq!(of("of 2"), format!("reads clicks with 5 others, is one operator with 4 others, {all}"));
    let few_do = "shares no windows, as fewer than 4 aggregate the same rows in the same way";
    assert_eq!(of("sum"), format!("reads clicks with 5 others, {few_do}, {all}"));
    // An hour is too many seconds.
    let sliced = "aggregates its rows once with 3 others";
    for name in ["1 SECOND", "1 MINUTE", "10 SECOND", "5 SECOND"] {
        assert_eq!(of(name), format!("reads clicks with 8 others, {sliced}, {all}"));
    }
    let short = "shares no windows, as slices that fit windows of others too would be too short";
    assert_eq!(of("1 HOUR"), format!("reads clicks with 8 others, {short}, {all}"));
    assert_eq!(
        of("all 1"),
        format!("reads clicks with 8 others, is one operator with 1 other, {sliced}, {all}"),
        "those of v = 7 read the same columns"
    );
    assert_eq!(of("all 2"), format!("reads clicks with 8 others, {sliced}, {all}"));
    let few = "reads clicks alone, as fewer than 4 ask the same of it";
    assert_eq!(of("more of all for longer"), format!("{few}, {all}"));
    let distinct = "as COUNT(DISTINCT …) needs all values of a window";
    assert_eq!(of("different ones of all"), format!("{few}, shares no windows, {distinct}, {all}"));
    assert!(
        told.contains("| with others by all rows, as one where they differ in windows alone\n"),
        "{told}"
    );
    assert_eq!(of("of two columns"), format!("{few_do}, {all}"));
    let whole = "shares no windows, as its filter has parts that rows cannot be looked up by";
    assert_eq!(of("third"), format!("{whole}, {all}"));
    let once = "filters clicks, and computes what it selects, once with 1 other";
    assert_eq!(of("odd"), format!("{once}, {whole}, {all}"));
    assert_eq!(of("odd of another column"), format!("{once}, {whole}, {all}"));
}

#[test]
fn what_queries_share_is_simulated_as_shared() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shared.sql");
    let mut sql = String::from(
        "SET 'laxity.latency.target' = '100 ms';
         CREATE TABLE clicks (user_id INT, t TIMESTAMP(3), WATERMARK FOR t AS t)
         WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
               'fields.user_id.min' = '0', 'fields.user_id.max' = '7');\n",
    );
    for query in 0..8 {
        sql += &format!(
            "CREATE TABLE out{query} (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
             SET 'pipeline.name' = 'q{query}';
             INSERT INTO out{query} SELECT window_end, COUNT(*)
             FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(t), INTERVAL '0.1' SECOND))
             WHERE user_id = {query} GROUP BY window_start, window_end;\n"
        );
    }
    let simulate = |sql: &str, costs: &str| {
        fs::write(&file, sql).unwrap();
        let output = laxity()
            .arg("simulate")
            .arg(&file)
            .args(["--cores", "1", "--for", "2 s", "--measure", "1 s", "--up-to", "2", "--costs"])
            .arg(folder.path().join(costs))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let told = simulate(&sql, "shared.json");
    assert!(
        told.contains("Of a tenant 8 queries read tables with others, 8 of them done by 1 operator:"),
        "{told}"
    );
    assert!(told.contains("Every target would be kept."), "{told}");
    let alone = simulate(&format!("SET 'laxity.share' = 'off';\n{sql}"), "alone.json");
    assert!(!alone.contains("read tables with others"), "{alone}");
    // Each result of a query that is done as one is its own.
    let results_of =
        |told: &str| told.lines().filter(|line| line.starts_with('q') && line.contains("100 %")).count();
    assert_eq!((results_of(&told), results_of(&alone)), (8, 8), "{told}\n{alone}");
}

#[test]
fn figures_are_listed_and_a_mistyped_one_is_guessed() {
    let listed = stdout(&laxity().args(["bench", "list"]).output().unwrap());
    assert!(listed.lines().any(|line| line.starts_with("thesis-1.1 ")), "{listed}");
    let output = laxity().args(["bench", "thesis-1,1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean \"thesis-1.1\"?"), "{}", stderr(&output));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let output = laxity().args(["bench", "thesis-1.1", "--scale", "small", "--out", out]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("same direction: "), "{}", stdout(&output));
    assert!(
        folder.path().join("RESULTS.md").exists() && folder.path().join("thesis-1.1/thesis-1.1.csv").exists()
    );
}

#[test]
fn the_policy_of_a_file_holds_unless_an_option_says_otherwise() {
    let sql = format!("SET 'laxity.policy' = 'rr';\n{BOUNDED}");
    let told = stderr(&piped(&sql, &["run", "-"]));
    assert!(told.contains("policy rr,"), "{told}");
    let told = stderr(&piped(&sql, &["run", "-", "--policy", "llf"]));
    assert!(told.contains("policy llf,"), "{told}");
    let output = piped(&sql.replace("'rr'", "'rrr'"), &["run", "-"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert!(told.contains("-:1:5: 'laxity.policy': ") && told.contains("rrr"), "{told}");
    let output = piped(BOUNDED, &["run", "-", "--policy", "os", "--switch", "1s=rr"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("policy os cannot be switched"), "{}", stderr(&output));
}
