//! How many rows a second does one worker take through SQL, from memory?
//!
//! Non-goals: reading (see `files`), latency (see `main_job`).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::memory_table::{DDL, MemoryScan, rows};
use crate::queries::{one_worker, submit};
use crate::{Findings, Size, median, spread};

struct Case {
    name: &'static str,
    sql: &'static str,
    batch_rows: usize,
    /// How many the table has.
    keys: i64,
    target_rows_per_s: f64,
}

const CASES: [Case; 8] = [
    Case {
        name: "filter + project, 8192-row batches",
        sql: "CREATE TABLE output (k BIGINT, w BIGINT) WITH ('connector' = 'blackhole');\n\
              INSERT INTO output SELECT k, v + 1 FROM input WHERE v > 500;",
        batch_rows: 8_192,
        keys: 1_000,
        target_rows_per_s: 30e6,
    },
    Case {
        name: "tumbling COUNT + SUM, 1000 keys, 8192-row batches",
        sql: TUMBLE,
        batch_rows: 8_192,
        keys: 1_000,
        target_rows_per_s: 40e6,
    },
    Case {
        name: "tumbling COUNT + SUM, 1000 keys, 128-row batches",
        sql: TUMBLE,
        batch_rows: 128,
        keys: 1_000,
        target_rows_per_s: 10e6,
    },
    Case {
        name: "OVER the last 100 ms COUNT + SUM, 1000 keys, 8192-row batches",
        sql: "CREATE TABLE output (k BIGINT, n BIGINT, total BIGINT) WITH ('connector' = 'blackhole');\n\
              INSERT INTO output SELECT k, COUNT(*) OVER w, SUM(v) OVER w FROM input WINDOW w AS \
              (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '0.1' SECOND PRECEDING AND CURRENT ROW);",
        batch_rows: 8_192,
        keys: 1_000,
        target_rows_per_s: 5e6,
    },
    Case {
        name: "OVER the last 10 rows SUM + MAX, 1000 keys, 8192-row batches",
        sql: "CREATE TABLE output (k BIGINT, total BIGINT, most BIGINT) WITH ('connector' = 'blackhole');\n\
              INSERT INTO output SELECT k, SUM(v) OVER w, MAX(v) OVER w FROM input WINDOW w AS \
              (PARTITION BY k ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW);",
        batch_rows: 8_192,
        keys: 1_000,
        target_rows_per_s: 5e6,
    },
    Case {
        name: "sessions COUNT + SUM, 1000 keys that go on, 8192-row batches",
        sql: "CREATE TABLE output (k BIGINT, n BIGINT, total BIGINT, window_end TIMESTAMP(3)) \
              WITH ('connector' = 'blackhole');\n\
              INSERT INTO output SELECT k, COUNT(*), SUM(v), window_end \
              FROM TABLE(SESSION(TABLE input PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
              GROUP BY window_start, window_end, k;",
        batch_rows: 8_192,
        keys: 1_000,
        target_rows_per_s: 5e6,
    },
    // A key comes each 100 ms.
    Case {
        name: "sessions COUNT + SUM, 100000 keys, each of a row, 8192-row batches",
        sql: "CREATE TABLE output (k BIGINT, n BIGINT, total BIGINT, window_end TIMESTAMP(3)) \
              WITH ('connector' = 'blackhole');\n\
              INSERT INTO output SELECT k, COUNT(*), SUM(v), window_end \
              FROM TABLE(SESSION(TABLE input PARTITION BY k, DESCRIPTOR(ts), INTERVAL '0.05' SECOND)) \
              GROUP BY window_start, window_end, k;",
        batch_rows: 8_192,
        keys: 100_000,
        target_rows_per_s: 5e6,
    },
    Case {
        name: "lookup join, 1000 rows, 8192-row batches",
        sql: "CREATE TABLE dim (k BIGINT, name STRING) \
              WITH ('connector' = 'filesystem', 'path' = 'LOOKUP', 'format' = 'csv');\n\
              CREATE TABLE output (v BIGINT, name STRING) WITH ('connector' = 'blackhole');\n\
              INSERT INTO output SELECT v, name FROM input \
              JOIN dim FOR SYSTEM_TIME AS OF input.p ON input.k = dim.k;",
        batch_rows: 8_192,
        keys: 1_000,
        target_rows_per_s: 5e6,
    },
];

/// A name for every key, beside the run's other files.
fn lookup_file() -> anyhow::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("laxity-bench-lookup-{}.csv", std::process::id()));
    let names: String = (0..1_000).map(|key| format!("{key},name of {key}\n")).collect();
    std::fs::write(&path, names).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

// A second holds 1 000 000 rows of the table: 1 000 rows a key and window.
const TUMBLE: &str = "CREATE TABLE output (k BIGINT, n BIGINT, total BIGINT, window_end TIMESTAMP(3)) \
                      WITH ('connector' = 'blackhole');\n\
                      INSERT INTO output SELECT k, COUNT(*), SUM(v), window_end \
                      FROM TABLE(TUMBLE(TABLE input, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
                      GROUP BY window_start, window_end, k;";

/// Runs all cases, interleaved.
///
/// # Errors
/// If a query does not run to its end.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let rounds = size.pick(5, 1);
    let mut findings =
        Findings { columns: vec!["case", "round", "rows", "rows_per_s"], ..Findings::default() };
    let mut rates = vec![Vec::new(); CASES.len()];
    for round in 0..rounds {
        for (case, rates) in CASES.iter().zip(&mut rates) {
            let count = size.pick(if case.batch_rows < 1_000 { 16_000_000 } else { 48_000_000 }, 20_000);
            let rate = measure(case, count)?;
            rates.push(rate / 1e6);
            findings.rows.push(vec![
                case.name.replace(',', ";"),
                round.to_string(),
                count.to_string(),
                format!("{rate:.0}"),
            ]);
        }
    }
    for (case, rates) in CASES.iter().zip(&rates) {
        let target = case.target_rows_per_s / 1e6;
        findings.summary.push(format!(
            "{}: {}, target at least {target}: {}",
            case.name,
            spread(rates, "million rows/s"),
            if median(rates) >= target { "met" } else { "MISSED" }
        ));
    }
    Ok(findings)
}

fn measure(case: &Case, count: usize) -> anyhow::Result<f64> {
    let engine = one_worker();
    engine.provide("input", MemoryScan::opener(rows(count, case.batch_rows, case.keys)));
    let lookup = case.sql.contains("LOOKUP").then(lookup_file).transpose()?;
    let path = lookup.as_ref().map_or(String::new(), |path| path.display().to_string());
    submit(&engine, &format!("{DDL}{}", case.sql.replace("LOOKUP", &path)))?;
    if let Some(path) = lookup {
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    let started = Instant::now();
    engine.start()?;
    ensure!(engine.wait(Duration::from_secs(120)), "{} did not end in 120 s", case.name);
    let seconds = started.elapsed().as_secs_f64();
    let query = &engine.snapshot().queries[0];
    ensure!(query.rows_in == count as u64, "{}: {} of {count} rows read", case.name, query.rows_in);
    ensure!(query.rows_out > 0, "{}: no results", case.name);
    Ok(count as f64 / seconds)
}
