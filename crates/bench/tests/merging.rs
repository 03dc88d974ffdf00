//! Results do not depend on which messages the engine happens to process as one batch.
//!
//! Rows out of order in batches of one to three, some of them late, through windows of every kind, with
//! merging and without. Catches a merge that loses rows, their order or their watermarks. Not how often the engine
//! merges: only that it does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use laxity_bench::memory_table::MemoryScan;
use laxity_bench::queries::submit;
use laxity_engine::{Engine, EngineConfig};

const TABLE: &str = "CREATE TABLE input (k BIGINT, v BIGINT, ts TIMESTAMP(3), \
                     WATERMARK FOR ts AS ts - INTERVAL '0.1' SECOND) WITH ('connector' = 'datagen');\n";

/// Name, columns, query.
const QUERIES: [(&str, &str, &str); 5] = [
    ("passed", "k BIGINT, w BIGINT", "SELECT k, v * 2 FROM input WHERE v > 10"),
    (
        "tumbling",
        "k BIGINT, n BIGINT, e TIMESTAMP(3)",
        "SELECT k, COUNT(*), window_end FROM TABLE(TUMBLE(TABLE input, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
         WHERE v > 100 GROUP BY window_start, window_end, k",
    ),
    (
        "sliding",
        "k BIGINT, n BIGINT, e TIMESTAMP(3)",
        "SELECT k, SUM(v), window_end FROM TABLE(HOP(TABLE input, DESCRIPTOR(ts), INTERVAL '0.2' SECOND, \
         INTERVAL '1' SECOND)) GROUP BY window_start, window_end, k",
    ),
    (
        "sessions",
        "k BIGINT, n BIGINT, e TIMESTAMP(3)",
        "SELECT k, COUNT(*), window_end FROM TABLE(SESSION(TABLE input PARTITION BY k, DESCRIPTOR(ts), \
         INTERVAL '0.15' SECOND)) GROUP BY k, window_start, window_end",
    ),
    (
        "joined",
        "k BIGINT, a BIGINT, b BIGINT",
        "SELECT x.k, x.v, y.v FROM input x, input y WHERE x.k = y.k AND y.ts BETWEEN x.ts AND \
         x.ts + INTERVAL '0.05' SECOND",
    ),
];

const ROWS: i64 = 6_000;

/// A row every 2 ms, up to 150 ms out of order, with silences that part sessions.
fn rows() -> Vec<RecordBatch> {
    let value = |i: i64| (i * 7_919) % 1_000;
    let time = |i: i64| 2 * i + (i * 104_729) % 300 - 150 + (i / 500) * 400;
    let mut batches = Vec::new();
    let mut first = 0;
    while first < ROWS {
        let last = (first + 1 + first % 3).min(ROWS);
        let column = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((first..last).map(of)))
        };
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values((first..last).map(time)));
        let columns = [("k", column(&|i| i % 7)), ("v", column(&value)), ("ts", times)];
        batches.push(RecordBatch::try_from_iter(columns).expect("three equal columns"));
        first = last;
    }
    batches
}

/// Sorted rows and late rows of every query, and how many batches operators took in.
fn run(
    folder: &Path,
    policy: &str,
    merge: bool,
    parallelism: usize,
) -> (BTreeMap<String, (Vec<String>, u64)>, u64) {
    let mut sql = format!("{TABLE}SET 'parallelism.default' = '{parallelism}';\n");
    for (name, columns, query) in QUERIES {
        let path = folder.join(format!("{name}.csv"));
        sql.push_str(&format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}');\n\
             SET 'pipeline.name' = '{name}';\nINSERT INTO {name} {query};\n",
            path.display()
        ));
    }
    let policy = policy.parse().expect("a policy");
    let engine = Engine::new(EngineConfig { workers: 1, merge, policy, ..EngineConfig::default() });
    engine.provide("input", MemoryScan::opener(rows()));
    submit(&engine, &sql).expect("the SQL is right");
    engine.start().expect("it starts");
    assert!(engine.wait(Duration::from_secs(60)), "it ends");
    engine.stop();
    let batches = engine.measurements().iter().map(|operator| operator.totals.batches).sum();
    let results = engine.snapshot().queries.into_iter().map(|query| {
        let text = fs::read_to_string(folder.join(format!("{}.csv", query.name))).expect("it was written");
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort();
        (query.name, (lines, query.rows_late))
    });
    (results.collect(), batches)
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn results_do_not_depend_on_merging() {
    let folder = Folder(std::env::temp_dir().join(format!("laxity-merging-{}", std::process::id())));
    fs::create_dir_all(&folder.0).expect("there is a temporary folder");
    let (expected, apart) = run(&folder.0, "laxity", false, 1);
    assert!(expected.values().all(|(rows, _)| rows.len() > 10), "every query answers");
    assert!(expected["tumbling"].1 > 0 && expected["sessions"].1 > 0, "some rows are late: {expected:?}");
    for policy in ["laxity", "llf", "rr", "klink", "aurora"] {
        for parallelism in [1, 3] {
            let (merged, together) = run(&folder.0, policy, true, parallelism);
            for (name, results) in &merged {
                assert!(*results == expected[name], "{name} differs under {policy}, {parallelism} copies");
            }
            assert!(
                parallelism > 1 || together < apart,
                "nothing was merged: {together} batches, {apart} apart"
            );
        }
    }
}
