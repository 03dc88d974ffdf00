//! Queries that read a table together give what each of them gives alone: rows, and the counts of those that came late.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{lines, sorted};

const QUERIES: usize = 96;

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len() as u64) as usize]
    }
}

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
               'laxity.replay.time-column' = 'a', 'laxity.replay.speed' = '60');\n",
    );
    for number in 0..QUERIES {
        let filter = filter(dice);
        let group = "GROUP BY window_start, window_end, k";
        // Several of a kind, so that some are done as one.
        let window = dice.pick(&[
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '1' SECOND)",
            "TUMBLE(TABLE events, DESCRIPTOR(t), INTERVAL '7' SECOND)",
            "HOP(TABLE events, DESCRIPTOR(t), INTERVAL '2' SECOND, INTERVAL '6' SECOND)",
            "CUMULATE(TABLE events, DESCRIPTOR(t), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
            "SESSION(TABLE events PARTITION BY k, DESCRIPTOR(t), INTERVAL '1' SECOND)",
        ]);
        let sink = |columns: &str| {
            format!(
                "CREATE TABLE out{number} ({columns}) \
                 WITH ('connector' = 'filesystem', 'path' = 'out/{number}.csv', 'format' = 'csv');\n\
                 SET 'pipeline.name' = 'q{number}';\n"
            )
        };
        sql += &match dice.roll(8) {
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
    for (seed, policy) in [(1, "laxity"), (2, "fifo"), (3, "klink")] {
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
