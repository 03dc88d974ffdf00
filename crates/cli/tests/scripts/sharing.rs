//! Queries that read a table together give what each of them gives alone: rows, and the counts of those that came late.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use laxity_engine::{Ending, Engine, EngineConfig, QueryPlan};
use laxity_sql::SqlFile;

use crate::{Dice, lines, sorted};

const QUERIES: usize = 128;

/// A minute of rows that are up to four seconds out of order, some of them late, some without a key.
fn rows(dice: &mut Dice) -> String {
    let mut text = String::from("a,t,k,s,v\n");
    for row in 0..6_000_u64 {
        let arrival_ms = row * 10;
        let at_ms = arrival_ms.saturating_sub(dice.roll(4_000) * dice.roll(2));
        let key = if dice.roll(20) == 0 { String::new() } else { dice.roll(12).to_string() };
        let word = ["ab", "abc", "b", "ca", "Cab"][dice.roll(5) as usize];
        let time = |ms: u64| format!("2024-01-01 00:00:{:02}.{:03}", ms / 1_000, ms % 1_000);
        let value = dice.roll(1_000);
        writeln!(text, "{},{},{key},{word},{value}", time(arrival_ms), time(at_ms)).unwrap();
    }
    text
}

/// One of many alike, but for its constants.
fn filter(dice: &mut Dice) -> String {
    let (key, value) = (dice.roll(12), dice.roll(1_000));
    match dice.roll(8) {
        0 | 1 => format!("WHERE k = {key}"),
        2 => format!("WHERE k IN ({key}, {}) AND v < 900", dice.roll(12)),
        3 => format!("WHERE v >= {value} AND v < {}", value + dice.roll(200)),
        4 => format!("WHERE s LIKE '{}%'", dice.pick(&["a", "ab", "c", "x"])),
        5 => format!("WHERE k = {key} OR s = '{}'", dice.pick(&["b", "ca"])),
        6 => format!("WHERE LOWER(s) = '{}' AND v > {value}", dice.pick(&["cab", "ab"])),
        _ => String::from(dice.pick(&["", "WHERE MOD(v, 7) = 3", "WHERE k IS NULL"])),
    }
}

/// The tables, and so many queries over one of them.
fn script(dice: &mut Dice) -> String {
    let mut sql = String::from(
        "CREATE TABLE events (a TIMESTAMP(3), t TIMESTAMP(3), k INT, s STRING, v BIGINT, WATERMARK FOR t AS t - INTERVAL '1' SECOND)
         WITH ('connector' = 'filesystem', 'path' = 'data/events.csv', 'format' = 'csv', 'csv.header' = 'true',
               'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '60');
         CREATE VIEW shown AS SELECT t, k, UPPER(s) AS word, v * 3 + COALESCE(k, 0) AS x, CHAR_LENGTH(s) AS l, v
         FROM events WHERE MOD(v, 7) <> 3;
         CREATE VIEW few AS SELECT t, k, SUBSTRING(s FROM 1 FOR 1) AS word, MOD(v, 10) + 1 AS x, v * k AS l, v
         FROM events WHERE k IN (1, 2, 3, 4, 5, 6, 7);
         CREATE VIEW bodies AS SELECT t, k, v, '{\"a\": \"' || s || '\", \"b\": ' || CAST(v AS STRING) || '}' AS body FROM events;
         CREATE VIEW taken AS SELECT t, k, v, JSON_VALUE(body, '$.a') AS word, CAST(JSON_VALUE(body, '$.b') AS BIGINT) AS x,
         CHAR_LENGTH(JSON_VALUE(body, '$.a')) AS l FROM bodies WHERE JSON_VALUE(body, '$.a') <> 'b';\n",
    );
    // Several get the same rows, for windows that differ.
    let often = [filter(dice), filter(dice), filter(dice)];
    let often = often.each_ref().map(String::as_str);
    for number in 0..QUERIES {
        let filter = if dice.roll(2) == 0 { filter(dice) } else { dice.pick(&often).to_owned() };
        let group = "GROUP BY window_start, window_end, k";
        // Several of a kind, so that some are done as one.
        let window = dice.pick(&[
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '7' SECOND)",
            "HOP(TABLE events, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
            "CUMULATE(TABLE events, DESCRIPTOR(t), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '4' SECOND, INTERVAL '1.3' SECOND)",
            "HOP(TABLE events, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '6' SECOND, INTERVAL '0.7' SECOND)",
            "SESSION(TABLE events PARTITION BY k, DESCRIPTOR(t), INTERVAL '1' SECOND)",
        ]);
        let sink = |columns: &str| {
            format!(
                "CREATE TABLE out{number} ({columns}) \
                 WITH ('connector' = 'filesystem', 'path' = 'out/{number}.csv', 'format' = 'csv');\n\
                 SET 'pipeline.name' = 'q{number}';\n"
            )
        };
        let view = dice.pick(&["shown", "shown", "few", "taken", "taken"]);
        let window_of_view = window.replace("TABLE events", &format!("TABLE {view}"));
        let own = dice.pick(&["", "", "", "WHERE x > 100", "WHERE v < 500"]);
        sql += &match dice.roll(12) {
            8 => {
                sink("t TIMESTAMP(3), s STRING, v BIGINT")
                    + &format!("INSERT INTO out{number} SELECT t, word, x FROM {view} {own};\n")
            }
            9 => {
                sink("e TIMESTAMP(3), s STRING, n BIGINT, m BIGINT")
                    + &format!(
                        "INSERT INTO out{number} SELECT window_end, word, COUNT(*), SUM(x) FROM TABLE({window_of_view}) {own} \
                         GROUP BY window_start, window_end, word;\n"
                    )
            }
            10 => {
                sink("e TIMESTAMP(3), k INT, n BIGINT, m BIGINT")
                    + &format!(
                        "INSERT INTO out{number} SELECT window_end, k, COUNT(DISTINCT word), MAX(l) \
                         FROM TABLE({window_of_view}) {own} {group};\n"
                    )
            }
            11 => {
                sink("e TIMESTAMP(3), n BIGINT, m BIGINT, a DOUBLE, s STRING")
                    + &format!(
                        "INSERT INTO out{number} SELECT window_end, COUNT(*), MIN(x + l), AVG(CAST(v AS DOUBLE)), MAX(word) \
                         FROM TABLE({window_of_view}) {own} GROUP BY window_start, window_end;\n"
                    )
            }
            0 => {
                sink("t TIMESTAMP(3), k INT, v BIGINT")
                    + &format!("INSERT INTO out{number} SELECT t, k, v FROM events {filter};\n")
            }
            1 => {
                sink("e TIMESTAMP(3), n BIGINT, m BIGINT")
                    + &format!(
                        "INSERT INTO out{number} SELECT window_end, COUNT(*), MAX(n) FROM (\
                         SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(\
                         TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)) {filter} {group}) \
                         GROUP BY window_start, window_end;\n"
                    )
            }
            2 => {
                sink("e TIMESTAMP(3), n BIGINT, m BIGINT, a DOUBLE, s STRING")
                    + &format!(
                        "INSERT INTO out{number} SELECT window_end, COUNT(*) FILTER (WHERE v > 500), COUNT(DISTINCT s), \
                         AVG(CAST(v AS DOUBLE)), MAX(s) FROM TABLE({window}) {filter} \
                         GROUP BY window_start, window_end;\n"
                    )
            }
            3 => {
                sink("e TIMESTAMP(3), n BIGINT, m BIGINT")
                    + &format!(
                        "INSERT INTO out{number} SELECT window_end, COUNT(*), SUM(v + k) FROM TABLE({window}) {filter} \
                         GROUP BY window_start, window_end HAVING COUNT(*) > 3;\n"
                    )
            }
            _ => {
                let of = ["SUM(v)", "AVG(v)", "SUM(k)"][number % 3];
                sink("e TIMESTAMP(3), k INT, n BIGINT, m BIGINT")
                    + &format!(
                        "INSERT INTO out{number} SELECT window_end, k, COUNT(*), {of} \
                         FROM TABLE({window}) {filter} {group};\n"
                    )
            }
        };
    }
    sql
}

/// Queries without a filter, and some with one, over the same columns.
fn script_without_filters(dice: &mut Dice) -> String {
    let mut sql = String::from(
        "CREATE TABLE events (a TIMESTAMP(3), t TIMESTAMP(3), k INT, s STRING, v BIGINT, WATERMARK FOR t AS t - INTERVAL '1' SECOND)
         WITH ('connector' = 'filesystem', 'path' = 'data/events.csv', 'format' = 'csv', 'csv.header' = 'true',
               'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '60');\n",
    );
    for number in 0..QUERIES {
        let window = dice.pick(&[
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '7' SECOND)",
            "HOP(TABLE events, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
            "CUMULATE(TABLE events, DESCRIPTOR(t), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '5' SECOND, INTERVAL '0.300' SECOND)",
            "HOP(TABLE events, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '6' SECOND, INTERVAL '1' SECOND)",
            "SESSION(TABLE events PARTITION BY k, DESCRIPTOR(t), INTERVAL '1' SECOND)",
        ]);
        // The last ones take up nothing of others: what they come to depends on the order of rows, or has to be kept.
        let of = dice.pick(&[
            "COUNT(*), SUM(v)",
            "COUNT(*), SUM(v)",
            "COUNT(k), MAX(v * 2 + 1)",
            "COUNT(v), CAST(SUM(CAST(v AS DOUBLE) / 3) AS BIGINT)",
            "COUNT(DISTINCT v), MIN(v)",
        ]);
        let filter = dice.pick(&["", "", "", "WHERE v >= 500", "WHERE v < 900 AND k = 3"]);
        sql += &format!(
            "CREATE TABLE out{number} (e TIMESTAMP(3), k INT, n BIGINT, m BIGINT) \
             WITH ('connector' = 'filesystem', 'path' = 'out/{number}.csv', 'format' = 'csv');\n\
             SET 'pipeline.name' = 'q{number}';\n\
             INSERT INTO out{number} SELECT window_end, k, {of} FROM TABLE({window}) {filter} \
             GROUP BY window_start, window_end, k;\n"
        );
    }
    sql
}

/// What the queries wrote, and how many rows were offered to each, came out and were late.
fn run(
    folder: &Path,
    before: &str,
    sql: &str,
    policy: &str,
) -> (Vec<Vec<String>>, BTreeMap<String, [u64; 3]>) {
    let _ = fs::remove_dir_all(folder.join("out"));
    fs::create_dir(folder.join("out")).unwrap();
    fs::write(folder.join("script.sql"), before.to_owned() + sql).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_laxity"))
        .current_dir(folder)
        .env_remove("LAXITY_LOG")
        .args([
            "run",
            "script.sql",
            "--plain",
            "--report",
            "report.json",
            "--policy",
            policy,
            "--workers",
            "2",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written =
        (0..QUERIES).map(|number| sorted(lines(&folder.join(format!("out/{number}.csv"))))).collect();
    let report = fs::read_to_string(folder.join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let counts = report["queries"].as_array().unwrap().iter().map(|query| {
        let count = |kind: &str| query[kind].as_u64().unwrap();
        (query["name"].to_string(), [count("rows_in"), count("rows_out"), count("rows_late")])
    });
    (written, counts.collect())
}

#[test]
fn queries_that_read_together_give_what_each_gives_alone() {
    each_gives_what_it_gives_alone(&[(1, "laxity"), (2, "fifo"), (3, "klink")], script);
}

#[test]
fn queries_that_get_every_row_give_what_each_gives_alone() {
    each_gives_what_it_gives_alone(&[(4, "laxity"), (5, "edf")], script_without_filters);
}

fn each_gives_what_it_gives_alone(runs: &[(u64, &str)], script: impl Fn(&mut Dice) -> String) {
    for &(seed, policy) in runs {
        let folder = tempfile::tempdir().unwrap();
        let mut dice = Dice(seed);
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/events.csv"), rows(&mut dice)).unwrap();
        let sql = script(&mut dice);
        let (alone, counts_alone) = run(folder.path(), "SET 'laxity.share' = 'off';\n", &sql, policy);
        let (together, counts) = run(folder.path(), "", &sql, policy);
        for (number, (alone, together)) in alone.iter().zip(&together).enumerate() {
            assert_eq!(alone, together, "seed {seed}, query {number} of\n{sql}");
        }
        assert_eq!(counts_alone, counts, "seed {seed}:\n{sql}");
        assert!(counts.values().any(|[.., late]| *late > 0), "no row was late");
    }
}

/// Of a view that divides by something, those fail who select that, each for its own reason; the others, and what one filters
/// out before, do not notice.
#[test]
fn a_row_ends_those_alone_who_compute_what_it_has_no_value_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("data")).unwrap();
    let mut text = String::from("t,k,v\n");
    for row in 0..3_000 {
        // What the view leaves out has no quotient, and of the rest one has none.
        let value = if row == 2_001 || row % 10 == 0 { 0 } else { row };
        let (second, ms) = (row / 100, row % 100 * 10);
        writeln!(text, "2024-01-01 00:00:{second:02}.{ms:03},{},{value}", row % 10).unwrap();
    }
    fs::write(folder.join("data/events.csv"), text).unwrap();
    let mut sql = String::from(
        "CREATE TABLE events (t TIMESTAMP(3), k INT, v BIGINT, WATERMARK FOR t AS t)
         WITH ('connector' = 'filesystem', 'path' = 'data/events.csv', 'format' = 'csv', 'csv.header' = 'true');
         CREATE VIEW shown AS SELECT t, k, v, 9000 / v AS q, v * 2 AS twice FROM events WHERE k <> 0;\n",
    );
    let window = "FROM TABLE(TUMBLE(TABLE shown, DESCRIPTOR(t), INTERVAL '1' SECOND)) GROUP BY window_start, window_end";
    let queries = [
        format!("SELECT window_end, SUM(twice) {window}"),
        format!("SELECT window_end, SUM(q) {window}"),
        format!("SELECT window_end, MAX(v) {window}, k"),
        "SELECT t, q + twice FROM shown".to_owned(),
        "SELECT t, twice FROM shown".to_owned(),
        format!("SELECT window_end, MIN(q + 1) {window}"),
    ];
    for (number, query) in queries.iter().enumerate() {
        writeln!(
            sql,
            "CREATE TABLE out{number} (e TIMESTAMP(3), n BIGINT) \
             WITH ('connector' = 'filesystem', 'path' = 'out/{number}.csv', 'format' = 'csv');\n\
             SET 'pipeline.name' = 'q{number}';\nINSERT INTO out{number} {query};"
        )
        .unwrap();
    }
    let run = |before: &str| {
        let _ = fs::remove_dir_all(folder.join("out"));
        fs::create_dir(folder.join("out")).unwrap();
        fs::write(folder.join("script.sql"), before.to_owned() + &sql).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_laxity"))
            .current_dir(folder)
            .env_remove("LAXITY_LOG")
            .args(["run", "script.sql", "--plain", "--report", "report.json", "--workers", "2"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        let report = fs::read_to_string(folder.join("report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let errors = report["queries"].as_array().unwrap().iter().map(|query| query["error"].to_string());
        let written = [0, 2, 4].map(|number| sorted(lines(&folder.join(format!("out/{number}.csv")))));
        (errors.collect::<Vec<_>>(), written)
    };
    let alone = run("SET 'laxity.share' = 'off';\n");
    let together = run("SET 'laxity.share' = 'on';\n");
    assert_eq!(alone, together);
    assert_eq!(alone.0.iter().filter(|error| error.contains("zero")).count(), 3, "{:?}", alone.0);
}

/// Windows on processing time end when the clock says so, which is another time each run: a row is in one of them, and each is
/// told of once.
#[test]
fn rows_are_counted_once_in_windows_of_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("data")).unwrap();
    let text = rows(&mut Dice(7));
    fs::write(folder.join("data/events.csv"), &text).unwrap();
    let mut sql = String::from(
        "CREATE TABLE events (a TIMESTAMP(3), t TIMESTAMP(3), k INT, s STRING, v BIGINT, p AS PROCTIME())
         WITH ('connector' = 'filesystem', 'path' = 'data/events.csv', 'format' = 'csv', 'csv.header' = 'true',
               'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '20');\n",
    );
    for key in 0..12 {
        let window = ["'1' SECOND", "'0.2' SECOND", "'0.3' SECOND"][key % 3];
        writeln!(
            sql,
            "CREATE TABLE out{key} (e TIMESTAMP(3), n BIGINT, m BIGINT) \
             WITH ('connector' = 'filesystem', 'path' = 'out/{key}.csv', 'format' = 'csv');\n\
             INSERT INTO out{key} SELECT window_end, COUNT(*), SUM(v) FROM TABLE(\
             TUMBLE(TABLE events, DESCRIPTOR(p), INTERVAL {window})) WHERE k = {} GROUP BY window_start, window_end;",
            key / 3
        )
        .unwrap();
    }
    fs::write(folder.join("script.sql"), &sql).unwrap();
    let laxity = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laxity"));
        let output = command.current_dir(folder).env_remove("LAXITY_LOG").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let explained = laxity(&["explain", "script.sql"]);
    assert_eq!(explained.matches("is one operator with 3 others").count(), 12, "{explained}");
    assert_eq!(explained.matches("aggregates its rows once with 2 others").count(), 12, "{explained}");
    laxity(&["run", "script.sql", "--plain", "--workers", "2"]);
    for key in 0..12_usize {
        let of_key = |line: &&str| line.split(',').nth(2) == Some((key / 3).to_string().as_str());
        let values = text.lines().skip(1).filter(of_key).map(|line| line.rsplit(',').next().unwrap());
        let wanted = values.fold((0, 0), |(n, m), v| (n + 1, m + v.parse::<i64>().unwrap()));
        let mut ends = std::collections::BTreeSet::new();
        let told = lines(&folder.join(format!("out/{key}.csv"))).iter().fold((0, 0), |(n, m), line| {
            let mut columns = line.split(',');
            assert!(ends.insert(columns.next().unwrap().to_owned()), "{key}: {line} twice");
            let mut number = || columns.next().unwrap().parse::<i64>().unwrap();
            (n + number(), m + number())
        });
        assert_eq!(told, wanted, "key {key}");
        assert!(ends.len() > 2, "{key}: {ends:?}");
    }
}

/// Six queries of one view, three of which come while the others run, and one of which goes.
fn of_one_view(share: &str, out: &str) -> String {
    let mut sql = format!(
        "SET 'laxity.share' = '{share}';
         CREATE TABLE events (a TIMESTAMP(3), t TIMESTAMP(3), k INT, s STRING, v BIGINT, WATERMARK FOR t AS t - INTERVAL '1' SECOND)
         WITH ('connector' = 'filesystem', 'path' = 'data/events.csv', 'format' = 'csv', 'csv.header' = 'true',
               'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '20');
         CREATE VIEW shown AS SELECT t, k, UPPER(s) AS word, v * 3 + COALESCE(k, 0) AS x, CHAR_LENGTH(s) AS l
         FROM events WHERE MOD(v, 7) <> 3;\n"
    );
    let window = "FROM TABLE(TUMBLE(TABLE shown, DESCRIPTOR(t), INTERVAL '1' SECOND)) GROUP BY window_start, window_end";
    for (number, what) in [
        format!("window_end, word, SUM(x) {window}, word"),
        format!("window_end, MAX(word), SUM(x * l) {window}, k"),
        "t, word, x FROM shown".to_owned(),
        format!("window_end, MIN(word), SUM(x) {window}, k"),
        format!("window_end, MIN(word), SUM(x * 2 + l) {window}"),
        "t, word || 'x', x + 1 FROM shown".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        writeln!(
            sql,
            "CREATE TABLE out{number} (e TIMESTAMP(3), s STRING, n BIGINT) \
             WITH ('connector' = 'filesystem', 'path' = '{out}/{number}.csv', 'format' = 'csv');\n\
             SET 'pipeline.name' = 'q{number}';\nINSERT INTO out{number} SELECT {what};"
        )
        .unwrap();
    }
    sql
}

#[test]
fn queries_join_a_view_and_leave_it_while_it_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ["data", "alone", "together"].iter().for_each(|name| fs::create_dir(folder.join(name)).unwrap());
    fs::write(folder.join("data/events.csv"), rows(&mut Dice(5))).unwrap();
    let run = |share: &str, out: &str, late: usize| {
        let file = SqlFile { path: folder.join("script.sql"), text: of_one_view(share, out) };
        let script = laxity_sql::compile(&[file]).unwrap();
        let engine = Engine::new(EngineConfig { workers: 2, ..EngineConfig::default() });
        let mut plans = script.queries.into_iter().map(|query| QueryPlan {
            dataflow: query.dataflow,
            late: None,
            state: None,
        });
        let first: Vec<_> = plans.by_ref().take(6 - late).map(|plan| engine.submit(plan).unwrap()).collect();
        engine.start().unwrap();
        for plan in plans {
            engine.wait(Duration::from_millis(300));
            engine.submit(plan).unwrap();
        }
        if late > 0 {
            engine.cancel(first[0], Ending::Drop);
        }
        assert!(engine.wait(Duration::from_secs(60)), "it has not come to its end");
        let queries = engine.snapshot().queries;
        assert!(
            queries.iter().all(|query| !format!("{:?}", query.outcome).contains("Failed")),
            "{queries:?}"
        );
        engine.stop();
        [0, 1, 2, 3, 4, 5].map(|number| sorted(lines(&folder.join(format!("{out}/{number}.csv")))))
    };
    let alone = run("off", "alone", 0);
    let together = run("on", "together", 3);
    assert_eq!(alone[1..3], together[1..3]);
    for late in 3..5 {
        // What it got of the windows that it came amid is a part of them.
        let from = together[late].iter().map(|line| &line[..19]).collect::<std::collections::BTreeSet<_>>();
        let from = from.into_iter().nth(4).expect("it came in time");
        let whole =
            |lines: &[String]| lines.iter().filter(|line| line[..19] >= *from).cloned().collect::<Vec<_>>();
        assert_eq!(whole(&alone[late]), whole(&together[late]), "query {late}");
    }
    assert!(together[5].len() > 100 && together[5].iter().all(|line| alone[5].binary_search(line).is_ok()));
    assert!(together[0].len() < alone[0].len() && !together[0].is_empty(), "it left amid them");
}
