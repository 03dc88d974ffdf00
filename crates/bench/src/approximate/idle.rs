//! What does Aion cost while it decides nothing?
//!
//! The same query without and with an allowed error that is for overload alone, of which there is none: Aion keeps its
//! statistics of every row and leaves none out. Its share of the output latency is how the thesis counts ("0.15 % of the
//! obtained output latency per window"); its share of the CPU is what a machine pays.

use std::time::Duration;

use anyhow::ensure;
use laxity_engine::{Engine, EngineConfig};

use super::delayed_table::{DelayedTable, Pace};
use super::{DDL, DISTANCE};
use crate::queries::submit;
use crate::thread_cpu::cpu_ns_of;
use crate::{Findings, Size, median, spread};

const TARGET_PERCENT: f64 = 0.15;

/// From a window's end to its result, and what a window took.
struct Run {
    latency_ms: f64,
    cpu_ms: f64,
}

/// Runs both in turn.
///
/// # Errors
/// If a query does not run to its end, or the system does not account CPU time.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let mut findings = Findings {
        columns: vec!["round", "aion", "latency_mean_ms", "worker_cpu_ms_per_window"],
        ..Findings::default()
    };
    let event_s = size.pick(60.0, 9.0);
    let rate = size.pick(5_000.0, 1_000.0);
    let pace =
        Pace { stretches: vec![(rate, event_s)], delay_ms: 240.0, speed: size.pick(6.0, 9.0), seed: 2 };
    let table = DelayedTable::new(&pace);
    let (mut cpu, mut of_latency, mut longer) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.pick(5, 1) {
        let [without, with] = [false, true].map(|aion| measure(aion, &table, event_s));
        let (without, with) = (without?, with?);
        for (run, aion) in [(&without, "no"), (&with, "yes")] {
            findings.rows.push(vec![
                round.to_string(),
                aion.into(),
                format!("{:.3}", run.latency_ms),
                format!("{:.4}", run.cpu_ms),
            ]);
        }
        // Of event time, as the latency is: what it would be at speed 1.
        of_latency.push(100.0 * (with.cpu_ms - without.cpu_ms).max(0.0) / (without.latency_ms * pace.speed));
        longer.push(100.0 * (with.latency_ms / without.latency_ms - 1.0));
        cpu.push(100.0 * (with.cpu_ms / without.cpu_ms - 1.0));
    }
    let verdict = if median(&of_latency) <= TARGET_PERCENT { "met" } else { "MISSED" };
    findings.summary.push(format!(
        "Aion that leaves nothing out, {rate} rows/s, windows of 3 s: its CPU is {} of a window's output latency, target at \
         most {TARGET_PERCENT} %: {verdict}",
        spread(&of_latency, "%")
    ));
    findings.summary.push(format!("the latency itself: {:+.2} %", median(&longer)));
    findings.summary.push(format!("the query's CPU: {:+.1} %", median(&cpu)));
    Ok(findings)
}

fn measure(aion: bool, table: &DelayedTable, event_s: f64) -> anyhow::Result<Run> {
    let set = match aion {
        true => "SET 'laxity.approximate.error' = '5%';\nSET 'laxity.approximate.when' = 'overload';\n",
        false => "",
    };
    let sql = format!(
        "{DDL}CREATE TABLE output (r DOUBLE) WITH ('connector' = 'blackhole');\nSET 'laxity.latency.target' = '10 s';\n{set}\
         INSERT INTO output SELECT AVG({DISTANCE}) FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '3' SECOND)) \
         GROUP BY window_start, window_end;"
    );
    let engine = Engine::new(EngineConfig { workers: 1, ..EngineConfig::default() });
    engine.provide("trips", table.opener());
    submit(&engine, &sql)?;
    engine.start()?;
    ensure!(engine.wait(Duration::from_secs(120)), "it did not end in 120 s");
    let cpu_ms = cpu_ns_of("laxity-worker")? as f64 / 1e6;
    let query = &engine.snapshot().queries[0];
    let left_out = query.approximation.map_or(0, |done| done.rows_seen - done.rows_taken - done.rows_late);
    ensure!(left_out == 0, "{left_out} rows were left out: it was behind");
    let latency = query.event_time_latency.unwrap_or(query.latency);
    Ok(Run { latency_ms: latency.mean_ns as f64 / 1e6, cpu_ms: cpu_ms / (event_s / 3.0) })
}
