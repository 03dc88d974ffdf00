//! The program is killed at random moments, again and again, and run again with the same command: its output files are
//! those of a run that nobody disturbed. `CRASH_RUNS=200` for more runs, `SEED=7` for other moments.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{Dice, from_environment, lines};

/// A run is killed so often at most: then it may come to its end.
const KILLS_MAX: usize = 12;

/// Ten minutes of rows that are up to two seconds out of order, some of them late, some that cannot be read.
fn rows(dice: &mut Dice) -> String {
    let mut text = String::new();
    for row in 0..30_000_u64 {
        let arrival_ms = row * 20;
        let at_ms = arrival_ms.saturating_sub(dice.roll(2_000));
        let time =
            |ms: u64| format!("2024-01-01 00:{:02}:{:02}.{:03}", ms / 60_000, ms / 1_000 % 60, ms % 1_000);
        let value = if dice.roll(500) == 0 { "none".into() } else { dice.roll(1_000).to_string() };
        writeln!(text, "{row},{},{value},{},{}", dice.roll(40), time(at_ms), time(arrival_ms)).unwrap();
    }
    text
}

/// What holds state in as many ways as there are, over a replayed file, a file that is read as fast as it can be, and rows
/// that are made up; on one instance and on several.
const SCRIPT: &str = "
CREATE TABLE t (n BIGINT, k INT, v BIGINT, ts TIMESTAMP(3), a TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true',
      'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '400');
CREATE TABLE f (n BIGINT, k INT, v BIGINT, ts TIMESTAMP(3), a TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true');
CREATE TABLE g (n BIGINT, v BIGINT, ts AS TO_TIMESTAMP_LTZ(n * 5, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '20000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
      'fields.n.end' = '29999', 'fields.v.min' = '0', 'fields.v.max' = '100');
CREATE TABLE windows (k INT, c BIGINT, s BIGINT, d BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/windows.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE sessions (k INT, c BIGINT, b TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/sessions.json', 'format' = 'json');
CREATE TABLE joined (n BIGINT, m BIGINT, k INT) WITH ('connector' = 'filesystem', 'path' = 'out/joined.csv', 'format' = 'csv');
CREATE TABLE tops (k INT, c BIGINT, r BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/tops.csv', 'format' = 'csv');
CREATE TABLE overs (n BIGINT, s BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out/overs.csv', 'format' = 'csv');
CREATE TABLE made (c BIGINT, s BIGINT, e TIMESTAMP_LTZ(3)) WITH ('connector' = 'filesystem', 'path' = 'out/${query}.csv', 'format' = 'csv');
CREATE TABLE folders (k INT, c BIGINT, e TIMESTAMP(3)) PARTITIONED BY (k) WITH ('connector' = 'filesystem', 'path' = 'out/folders', 'format' = 'csv', 'sink.rolling-policy.file-size' = '1 kb');
CREATE TABLE slices (n BIGINT, s BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/slices.csv', 'format' = 'csv');
CREATE TABLE wide (k INT, c BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/wide.csv', 'format' = 'csv');
SET 'laxity.latency.target' = '50 ms';
INSERT INTO windows SELECT k, COUNT(*), SUM(v), COUNT(DISTINCT v), window_end
FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO sessions SELECT k, COUNT(*), window_start
FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO joined SELECT x.n, y.n, x.k FROM t x, f y
WHERE x.k = y.k AND x.ts BETWEEN y.ts - INTERVAL '0.5' SECOND AND y.ts AND x.n <> y.n;
INSERT INTO tops SELECT k, c, r, window_end FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY c DESC, k) AS r FROM (
    SELECT k, COUNT(*) AS c, window_start, window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY k, window_start, window_end)) WHERE r <= 3;
INSERT INTO overs SELECT n, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM t;
INSERT INTO made SELECT COUNT(*), SUM(v), window_end
FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;
INSERT INTO folders SELECT MOD(k, 5), COUNT(*), window_end
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY MOD(k, 5), window_start, window_end;
INSERT INTO slices SELECT n, SUM(v), window_end
FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '6' MINUTE)) GROUP BY n, window_start, window_end HAVING SUM(v) > 990;
SET 'parallelism.default' = '3';
INSERT INTO wide SELECT k, COUNT(*), window_end
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
";

fn start(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_laxity"))
        .current_dir(folder)
        .env_remove("LAXITY_LOG")
        .args(["run", "script.sql", "--plain", "--workers", "2"])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("said.txt")).unwrap())
        .spawn()
        .unwrap()
}

/// By file of the folder, how often each line is in it; of a folder in it, of all its files together.
fn written(folder: &Path) -> BTreeMap<String, BTreeMap<String, i64>> {
    let mut counts: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    let out = folder.join("out");
    let mut left = vec![out.clone()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let inside = path.strip_prefix(&out).unwrap();
        let parts: Vec<String> = inside.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        assert!(!parts.last().unwrap().starts_with('.'), "{inside:?} is not complete");
        // A row is where it is: its folder tells a column of it.
        let place = parts.get(1).filter(|_| parts.len() > 2).cloned().unwrap_or_default();
        let counts = counts.entry(parts[0].clone()).or_default();
        lines(&path).into_iter().for_each(|line| *counts.entry(format!("{place}{line}")).or_insert(0) += 1);
    }
    counts
}

/// Runs the script for so long at most, and kills it then.
fn live(folder: &Path, life_ms: u64) {
    let mut child = start(folder, &["--state", "state"]);
    if ends_within(&mut child, life_ms) {
        let said = fs::read_to_string(folder.join("said.txt")).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
    } else {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Waits for its end for about so long; false if it still runs.
fn ends_within(child: &mut Child, ms: u64) -> bool {
    for _ in 0..ms / 2 {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// Runs the script to its end, killed on the way. How often it was.
fn run_killed(folder: &Path, dice: &mut Dice) -> usize {
    let mut kills = 0;
    loop {
        let mut child = start(folder, &["--state", "state"]);
        let life_ms = if kills < KILLS_MAX { 50 + dice.roll(1_500) } else { 300_000 };
        if ends_within(&mut child, life_ms) {
            let status = child.wait().unwrap();
            let said = fs::read_to_string(folder.join("said.txt")).unwrap();
            assert!(status.success(), "after {kills} kills: {said}");
            return kills;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
}

/// Kills a script again and again, whose undisturbed run writes so many files, with so many lines each at least.
fn is_what_it_would_have_been(script: &str, files: usize, lines_min: usize) {
    let runs = from_environment("CRASH_RUNS", 3);
    let mut dice = Dice(from_environment("SEED", 1));
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    fs::write(folder.join("in.csv"), rows(&mut dice)).unwrap();
    fs::write(folder.join("script.sql"), script).unwrap();
    let status = start(folder, &[]).wait().unwrap();
    assert!(status.success(), "{}", fs::read_to_string(folder.join("said.txt")).unwrap());
    let expected = written(folder);
    assert_eq!(expected.len(), files);
    assert!(expected.values().all(|lines| lines.len() > lines_min), "each has results to lose");

    fs::write(
        folder.join("script.sql"),
        format!("SET 'execution.checkpointing.interval' = '100 ms';{script}"),
    )
    .unwrap();
    let (mut lost, mut doubled, mut kills) = (0, 0, 0);
    for run in 0..runs {
        fs::remove_dir_all(folder.join("out")).unwrap();
        let _none_yet = fs::remove_dir_all(folder.join("state"));
        kills += run_killed(folder, &mut dice);
        let got = written(folder);
        for (file, expected) in &expected {
            let none = BTreeMap::new();
            let got = got.get(file).unwrap_or(&none);
            let all = expected.keys().chain(got.keys());
            let mut differing: BTreeMap<&str, i64> = BTreeMap::new();
            for line in all {
                let more = got.get(line).unwrap_or(&0) - expected.get(line).unwrap_or(&0);
                if more != 0 {
                    differing.insert(line, more);
                }
            }
            lost += differing.values().filter(|more| **more < 0).count();
            doubled += differing.values().filter(|more| **more > 0).count();
            if !differing.is_empty() {
                eprintln!("run {run}, {file}: {} lines differ: {differing:?}", differing.len());
            }
        }
        // What it is that was lost is seen in what is there.
        assert_eq!((lost, doubled), (0, 0), "run {run}; see {}", temporary.keep().display());
    }
    println!("{runs} runs, {kills} kills, {lost} lost, {doubled} doubled");
    assert!(kills >= runs as usize, "each run is killed at least once, as a rule");
}

/// Rows that cannot be read are those of the file's queries, not of those that are left to be run.
#[test]
fn a_query_that_begins_anew_beside_one_that_is_complete_gets_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("in.csv"), "1,2\n2,none\n3,4\n").unwrap();
    let script = "SET 'execution.checkpointing.interval' = '100 ms';
CREATE TABLE t (n BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out/numbers.csv', 'format' = 'csv');
CREATE TABLE values_of (v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out/values.csv', 'format' = 'csv');
SET 'pipeline.name' = 'numbers';
INSERT INTO numbers SELECT n FROM t;
SET 'pipeline.name' = 'values';
INSERT INTO values_of SELECT v FROM t;
";
    fs::write(folder.join("script.sql"), script).unwrap();
    for arguments in [&["--state", "state"][..], &["--state", "state", "--state-ignore", "numbers"]] {
        let status = start(folder, arguments).wait().unwrap();
        assert!(status.success(), "{}", fs::read_to_string(folder.join("said.txt")).unwrap());
        assert_eq!(lines(&folder.join("out/numbers.csv")), ["1", "3"], "{arguments:?}");
        assert_eq!(lines(&folder.join("out/values.csv")), ["2", "4"], "{arguments:?}");
    }
}

#[test]
fn killed_at_random_moments_it_writes_what_it_would_have_written() {
    is_what_it_would_have_been(SCRIPT, 9, 30);
}

/// Queries that read a table with others, each by its filter: windows of two sizes, rows as they come, some without any,
/// some into one folder.
fn alike() -> String {
    let mut script = "
CREATE TABLE t (n BIGINT, k INT, v BIGINT, ts TIMESTAMP(3), a TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true',
      'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '400');
CREATE TABLE windows (c BIGINT, s BIGINT, d BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/${query}.csv', 'format' = 'csv', 'csv.header' = 'true');
CREATE TABLE single (n BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out/${query}.json', 'format' = 'json');
CREATE TABLE many (q INT, c BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/many', 'format' = 'csv', 'sink.rolling-policy.file-size' = '1 kb');
SET 'laxity.latency.target' = '50 ms';
"
    .to_owned();
    for query in 0..24 {
        // From 40 on there are none of them.
        let (key, size) = (query * 2 + 1, if query % 3 == 0 { 60 } else { 5 });
        let windows = format!(
            "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)) WHERE k = {key} GROUP BY window_start, window_end"
        );
        let insert = match query % 6 {
            4 => format!("INSERT INTO single SELECT n, v FROM t WHERE k = {key}"),
            5 => format!("INSERT INTO many SELECT {query}, COUNT(*), window_end {windows}"),
            _ => format!(
                "INSERT INTO windows SELECT COUNT(*), SUM(v), COUNT(DISTINCT v), window_end {windows}"
            ),
        };
        writeln!(script, "SET 'pipeline.name' = 'q{query}';\n{insert};").unwrap();
    }
    script
}

#[test]
fn queries_that_read_together_go_on_from_a_place_of_their_own_each() {
    is_what_it_would_have_been(&alike(), 18, 0);
}

/// Queries that differ in a constant alone, so that their work is done as one: some with results in each window, some
/// without any row.
fn of_one_template(queries: std::ops::Range<u32>) -> String {
    let mut script = "
CREATE TABLE t (n BIGINT, k INT, v BIGINT, ts TIMESTAMP(3), a TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true',
      'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '400');
CREATE TABLE o (v BIGINT, c BIGINT, s BIGINT, m DOUBLE, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/${query}.csv', 'format' = 'csv', 'csv.header' = 'true');
SET 'laxity.latency.target' = '50 ms';
"
    .to_owned();
    for query in queries {
        writeln!(
            script,
            "SET 'pipeline.name' = 'q{query}';
             INSERT INTO o SELECT v, COUNT(*), SUM(n), AVG(CAST(n AS DOUBLE)), window_end
             FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND))
             WHERE k = {query} GROUP BY v, window_start, window_end;"
        )
        .unwrap();
    }
    script
}

#[test]
fn queries_that_are_done_as_one_are_killed_and_go_on_as_one() {
    is_what_it_would_have_been(&of_one_template(0..28), 28, 100);
}

/// More or fewer queries than before: who worked alone is done as one with others now, and the other way round.
#[test]
fn who_was_done_as_one_goes_on_alone_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut dice = Dice(from_environment("SEED", 1));
    fs::write(folder.join("in.csv"), rows(&mut dice)).unwrap();
    fs::write(folder.join("script.sql"), of_one_template(0..12)).unwrap();
    assert!(start(folder, &[]).wait().unwrap().success());
    let expected = written(folder);
    let interval = "SET 'execution.checkpointing.interval' = '100 ms';";
    // Which run, killed after so long each, the last one not.
    for runs in [[0..12, 4..6, 0..12], [4..6, 0..12, 5..8], [0..8, 4..12, 7..9]] {
        fs::remove_dir_all(folder.join("out")).unwrap();
        let _none_yet = fs::remove_dir_all(folder.join("state"));
        for (place, queries) in runs.iter().enumerate() {
            fs::write(folder.join("script.sql"), interval.to_owned() + &of_one_template(queries.clone()))
                .unwrap();
            live(folder, if place < 2 { 400 + dice.roll(400) } else { 300_000 });
        }
        let got = written(folder);
        for query in runs[2].clone() {
            let file = format!("q{query}.csv");
            assert_eq!(got.get(&file), expected.get(&file), "{runs:?}: {file}");
        }
        let shown = Command::new(env!("CARGO_BIN_EXE_laxity"))
            .current_dir(folder)
            .args(["state", "show", "state"])
            .output()
            .unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        for query in runs[2].clone() {
            assert!(shown.contains(&format!("query q{query}\n")), "{shown}");
        }
    }
}

/// Queries of several shapes over one view.
fn of_one_view() -> String {
    "
CREATE TABLE t (n BIGINT, k INT, v BIGINT, ts TIMESTAMP(3), a TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true',
      'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '400');
CREATE VIEW shown AS SELECT ts, n, k, v * 2 + 1 AS x, MOD(v, 10) AS y FROM t WHERE MOD(n, 7) <> 3;
CREATE TABLE o (k INT, c BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'out/${query}.csv', 'format' = 'csv');
SET 'laxity.latency.target' = '50 ms';
SET 'pipeline.name' = 'rows';
INSERT INTO o SELECT k, x, ts FROM shown;
SET 'pipeline.name' = 'tumbling';
INSERT INTO o SELECT k, SUM(x), window_end FROM TABLE(TUMBLE(TABLE shown, DESCRIPTOR(ts), INTERVAL '5' SECOND))
GROUP BY k, window_start, window_end;
SET 'pipeline.name' = 'hopping';
INSERT INTO o SELECT CAST(y AS INT), COUNT(*), window_end
FROM TABLE(HOP(TABLE shown, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY y, window_start, window_end;
SET 'pipeline.name' = 'large';
INSERT INTO o SELECT k, COUNT(DISTINCT n), window_end FROM TABLE(TUMBLE(TABLE shown, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY k, window_start, window_end;
"
    .to_owned()
}

#[test]
fn queries_of_one_view_are_killed_and_go_on() {
    is_what_it_would_have_been(&of_one_view(), 4, 100);
}

/// What was saved by those who have a view computed together is what each saves alone.
#[test]
fn who_had_a_view_computed_with_others_goes_on_alone_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut dice = Dice(from_environment("SEED", 1));
    fs::write(folder.join("in.csv"), rows(&mut dice)).unwrap();
    fs::write(folder.join("script.sql"), of_one_view()).unwrap();
    assert!(start(folder, &[]).wait().unwrap().success());
    let expected = written(folder);
    for ways in [["on", "off", "on"], ["off", "on", "off"]] {
        fs::remove_dir_all(folder.join("out")).unwrap();
        let _none_yet = fs::remove_dir_all(folder.join("state"));
        for (place, share) in ways.iter().enumerate() {
            let before = format!(
                "SET 'execution.checkpointing.interval' = '100 ms';\nSET 'laxity.share' = '{share}';\n"
            );
            fs::write(folder.join("script.sql"), before + &of_one_view()).unwrap();
            live(folder, if place < 2 { 400 + dice.roll(400) } else { 300_000 });
        }
        assert_eq!(written(folder), expected, "{ways:?}");
    }
}

#[test]
fn what_is_complete_is_not_done_twice_and_a_changed_query_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = |factor: u32| {
        format!(
            "CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2000', 'fields.n.kind' = 'sequence',
                                             'fields.n.start' = '1', 'fields.n.end' = '2000');
             CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out.csv', 'format' = 'csv');
             SET 'execution.checkpointing.interval' = '50 ms';
             SET 'pipeline.name' = 'twice';
             INSERT INTO o SELECT n * {factor} FROM g;"
        )
    };
    let run = |factor: u32, arguments: &[&str]| {
        fs::write(folder.join("script.sql"), script(factor)).unwrap();
        let mut all = vec!["--state", "state"];
        all.extend_from_slice(arguments);
        let status = start(folder, &all).wait().unwrap();
        (
            status.success(),
            fs::read_to_string(folder.join("said.txt")).unwrap(),
            lines(&folder.join("out.csv")).len(),
        )
    };
    // On a machine that others keep busy nothing may be out by then: the next goes on from there.
    let mut begun = (0..20).map(|_| run(2, &["--for", "250 ms"]));
    let (_, said, written) = begun.find(|(_, _, written)| *written > 0).expect("it writes something");
    assert!(written < 2_000, "stopped in the middle: {written}, {said}");
    let (is_fine, said, _) = run(3, &[]);
    assert!(
        !is_fine && said.contains("its state is of another query") && said.contains("--state-ignore 'twice'"),
        "{said}"
    );
    let (is_fine, said, written) = run(2, &[]);
    assert!(is_fine && written == 2_000, "{said}");
    let (is_fine, said, written) = run(2, &[]);
    assert!(is_fine && written == 2_000 && said.contains("query twice is complete"), "{said}");
    let (is_fine, said, written) = run(3, &["--state-ignore", "twice"]);
    assert!(is_fine && written == 2_000 && !said.contains("complete,"), "{said}");
    let (is_fine, said, _) = run(2, &["--state-ignore", "nobody"]);
    assert!(!is_fine && said.contains("no query is named 'nobody'; there are twice"), "{said}");
}

#[test]
fn a_damaged_checkpoint_is_told_of_and_the_one_before_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = "
        CREATE TABLE g (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
            'rows-per-second' = '2000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '2999');
        CREATE TABLE o (c BIGINT, s BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out.csv', 'format' = 'csv');
        SET 'execution.checkpointing.interval' = '50 ms';
        SET 'pipeline.name' = 'q';
        INSERT INTO o SELECT COUNT(*), SUM(n) FROM TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '0.25' SECOND))
        GROUP BY window_start, window_end;";
    fs::write(folder.join("script.sql"), script).unwrap();
    let run = |arguments: &[&str]| {
        let mut all = vec!["--state", "state"];
        all.extend_from_slice(arguments);
        let status = start(folder, &all).wait().unwrap();
        (status.success(), fs::read_to_string(folder.join("said.txt")).unwrap())
    };
    let checkpoints = || -> Vec<u64> {
        let entries = fs::read_dir(folder.join("state/q")).into_iter().flatten();
        let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("chk-")?.parse().ok();
        entries.filter_map(|entry| number(entry.unwrap().file_name())).collect()
    };
    // On a machine that others keep busy there may be one only; the next run goes on from it.
    let mut begun = (0..10).map(|_| run(&["--for", "400 ms"]).0);
    assert!(begun.any(|is_fine| is_fine && checkpoints().len() > 1));
    let last = folder.join(format!("state/q/chk-{}", checkpoints().iter().max().unwrap()));
    let table = fs::read_dir(&last).unwrap().map(|entry| entry.unwrap().path());
    let table =
        table.filter(|path| path.extension().is_some_and(|extension| extension == "arrow")).max().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, bytes).unwrap();
    let (is_fine, said) = run(&[]);
    assert!(is_fine && said.contains("the one before is looked at") && said.contains("checksum"), "{said}");
    let wanted: Vec<String> = (0..12_u64)
        .map(|window| format!("250,{}", (0..250).map(|n| window * 250 + n).sum::<u64>()))
        .collect();
    assert_eq!(lines(&folder.join("out.csv")), wanted);
}

#[test]
fn what_was_prepared_when_the_last_checkpoint_was_safe_is_seen_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = "
        CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10000', 'fields.n.kind' = 'sequence',
                                        'fields.n.start' = '1', 'fields.n.end' = '1000');
        CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'parts', 'format' = 'csv',
                                        'sink.rolling-policy.file-size' = '1 mb');
        INSERT INTO o SELECT n FROM g;";
    fs::write(folder.join("script.sql"), script).unwrap();
    let run = || {
        let status = start(folder, &["--state", "state"]).wait().unwrap();
        (status.success(), fs::read_to_string(folder.join("said.txt")).unwrap())
    };
    let files = || -> Vec<std::path::PathBuf> {
        fs::read_dir(folder.join("parts")).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    assert!(run().0);
    let [file] = &files()[..] else { panic!("one file: {:?}", files()) };
    assert_eq!(lines(file).len(), 1_000);
    // As if it had been killed before it could say so.
    let name = file.file_name().unwrap().to_str().unwrap();
    fs::rename(file, file.with_file_name(format!(".{name}.inprogress"))).unwrap();
    let (is_fine, said) = run();
    assert!(is_fine && said.contains("is complete"), "{said}");
    assert_eq!((files(), lines(file).len()), (vec![file.clone()], 1_000), "{said}");
}

#[test]
fn a_query_that_gets_nothing_is_not_saved_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pipe = folder.join("in.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = |more: &str| {
        format!(
            "CREATE TABLE f (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv'{more});
             CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out.csv', 'format' = 'csv');
             SET 'execution.checkpointing.interval' = '20 ms';
             SET 'pipeline.name' = 'q';
             INSERT INTO o SELECT n FROM f;"
        )
    };
    fs::write(folder.join("script.sql"), script("")).unwrap();
    let mut child = start(folder, &["--state", "state", "--for", "2 s"]);
    let mut rows = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    rows.write_all(b"1\n2\n3\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(lines(&folder.join("out.csv")), ["1", "2", "3"]);
    let numbers = fs::read_dir(folder.join("state/q")).unwrap();
    let number = |name: &str| name.strip_prefix("chk-")?.parse::<u64>().ok();
    let last = numbers.filter_map(|entry| number(entry.unwrap().file_name().to_str()?)).max().unwrap();
    // One before the rows, one behind them, the last one, and one or two for rows that come apart.
    assert!(last <= 6, "{last} checkpoints");
}

#[test]
fn files_that_are_followed_are_gone_on_with_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = "
        CREATE TABLE f (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv',
                                        'source.monitor-interval' = '20 ms');
        CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out.csv', 'format' = 'csv');
        SET 'execution.checkpointing.interval' = '20 ms';
        SET 'pipeline.name' = 'q';
        INSERT INTO o SELECT n FROM f;";
    fs::write(folder.join("script.sql"), script).unwrap();
    fs::create_dir(folder.join("in")).unwrap();
    let mut dice = Dice(from_environment("SEED", 1));
    let mut next = 0;
    let mut more = |name: &str, rows: u64| {
        let path = folder.join("in").join(name);
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        let text: String = (next..next + rows).map(|n| format!("{n}\n")).collect();
        file.write_all(text.as_bytes()).unwrap();
        next += rows;
        next as usize
    };
    for round in 0..6 {
        more("grows.csv", 3_000);
        let mut child = start(folder, &["--state", "state"]);
        std::thread::sleep(Duration::from_millis(50 + dice.roll(300)));
        more("grows.csv", 5);
        more(&format!("new-{round}.csv"), 500);
        std::thread::sleep(Duration::from_millis(dice.roll(200)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let all = more("grows.csv", 1);
    let out = || {
        let mut rows: Vec<usize> =
            lines(&folder.join("out.csv")).iter().map(|line| line.parse().unwrap()).collect();
        rows.sort_unstable();
        rows
    };
    for _ in 0..10 {
        let is_fine = start(folder, &["--state", "state", "--for", "700 ms"]).wait().unwrap().success();
        assert!(is_fine, "{}", fs::read_to_string(folder.join("said.txt")).unwrap());
        if out().len() >= all {
            break;
        }
    }
    assert!(out().into_iter().eq(0..all), "each once");
    let said = Command::new(env!("CARGO_BIN_EXE_laxity"))
        .args(["state", "show", "state"])
        .current_dir(folder)
        .output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    assert!(said.contains("in/grows.csv line 18031"), "{said}");
}
