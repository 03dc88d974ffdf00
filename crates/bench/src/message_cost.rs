//! What does a message of one row cost, all told: source, filter, window, and its share of the results?

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::memory_table::{DDL, MemoryScan, rows};
use crate::queries::{one_worker, submit};
use crate::{Findings, Size, median, spread};

const SQL: &str = "CREATE TABLE output (k BIGINT, n BIGINT, total BIGINT, window_end TIMESTAMP(3)) \
                   WITH ('connector' = 'blackhole');\n\
                   INSERT INTO output SELECT k, COUNT(*), SUM(v), window_end \
                   FROM TABLE(TUMBLE(TABLE input, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE v > 10 \
                   GROUP BY window_start, window_end, k;";

const TARGET_US: f64 = 3.0;

/// Feeds one-row batches to one worker.
///
/// # Errors
/// If the query does not run to its end.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let mut findings =
        Findings { columns: vec!["round", "messages", "ns_per_message"], ..Findings::default() };
    let count = size.pick(2_000_000, 2_000);
    let mut costs_us = Vec::new();
    for round in 0..size.pick(5, 1) {
        let engine = one_worker();
        engine.provide("input", MemoryScan::opener(rows(count, 1, 100)));
        submit(&engine, &format!("{DDL}{SQL}"))?;
        let started = Instant::now();
        engine.start()?;
        ensure!(engine.wait(Duration::from_secs(120)), "it did not end in 120 s");
        let ns = started.elapsed().as_nanos() as f64 / count as f64;
        ensure!(engine.snapshot().queries[0].rows_in == count as u64, "rows were lost");
        costs_us.push(ns / 1e3);
        findings.rows.push(vec![round.to_string(), count.to_string(), format!("{ns:.0}")]);
    }
    findings.summary.push(format!(
        "1-row message through filter, window, sink: {}, target at most {TARGET_US}: {}",
        spread(&costs_us, "µs"),
        if median(&costs_us) <= TARGET_US { "met" } else { "MISSED" }
    ));
    Ok(findings)
}
