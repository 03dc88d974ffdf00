//! What does a message of one row cost, all told: source, filter, window, and its share of the results?
//!
//! Rows come faster than they are processed, so a backlog waits before every operator: with merging the engine
//! takes many of them at a time, without it each is a message to the end. Wall time counts the thread that
//! hands rows in too, where that is the slower one.

use std::time::{Duration, Instant};

use anyhow::ensure;
use laxity_engine::{Engine, EngineConfig};

use crate::memory_table::{DDL, MemoryScan, rows};
use crate::queries::submit;
use crate::thread_cpu::cpu_ns_of;
use crate::{Findings, Size, median, spread};

const SQL: &str = "CREATE TABLE output (k BIGINT, n BIGINT, total BIGINT, window_end TIMESTAMP(3)) \
                   WITH ('connector' = 'blackhole');\n\
                   INSERT INTO output SELECT k, COUNT(*), SUM(v), window_end \
                   FROM TABLE(TUMBLE(TABLE input, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE v > 10 \
                   GROUP BY window_start, window_end, k;";

const TARGET_US: f64 = 3.0;

/// Feeds one-row batches to one worker, with merging and without, in turn.
///
/// # Errors
/// If the query does not run to its end.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let mut findings = Findings {
        columns: vec!["round", "merging", "messages", "ns_per_message", "worker_cpu_ns_per_message"],
        ..Findings::default()
    };
    let count = size.pick(400_000, 2_000);
    let batches = rows(count, 1, 100);
    let mut costs_us = [Vec::new(), Vec::new()];
    let mut worker_us = [Vec::new(), Vec::new()];
    for round in 0..size.pick(5, 1) {
        for (place, merge) in [true, false].into_iter().enumerate() {
            let engine = Engine::new(EngineConfig { workers: 1, merge, ..EngineConfig::default() });
            engine.provide("input", MemoryScan::opener(batches.clone()));
            submit(&engine, &format!("{DDL}{SQL}"))?;
            let started = Instant::now();
            engine.start()?;
            ensure!(engine.wait(Duration::from_secs(120)), "it did not end in 120 s");
            let ns = started.elapsed().as_nanos() as f64 / count as f64;
            let worker_ns = cpu_ns_of("laxity-worker")? as f64 / count as f64;
            ensure!(engine.snapshot().queries[0].rows_in == count as u64, "rows were lost");
            costs_us[place].push(ns / 1e3);
            worker_us[place].push(worker_ns / 1e3);
            findings.rows.push(vec![
                round.to_string(),
                merge.to_string(),
                count.to_string(),
                format!("{ns:.0}"),
                format!("{worker_ns:.0}"),
            ]);
        }
    }
    findings.summary.push(format!(
        "1-row message through filter, window, sink: {}, target at most {TARGET_US}: {}",
        spread(&costs_us[0], "µs"),
        if median(&costs_us[0]) <= TARGET_US { "met" } else { "MISSED" }
    ));
    findings.summary.push(format!("the same without merging: {}", spread(&costs_us[1], "µs")));
    findings.summary.push(format!(
        "of which the worker's CPU: {} with merging, {} without",
        spread(&worker_us[0], "µs"),
        spread(&worker_us[1], "µs")
    ));
    Ok(findings)
}
