//! What does a query cost that has nothing to do?

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;
use laxity_engine::{Engine, EngineConfig};

use crate::memory_table::SilentScan;
use crate::queries::submit;
use crate::{Findings, Size};

const TARGET_KB: f64 = 100.0;
const TARGET_S: f64 = 5.0;

/// Registers queries, each with a table of its own, and looks at the process.
///
/// # Errors
/// If the process cannot be looked at, or a query cannot be submitted.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let count = size.pick(1_000, 20);
    let engine = Engine::new(EngineConfig::default());
    let mut sql = String::from("SET 'laxity.latency.target' = '1 s';\n");
    for i in 0..count {
        engine.provide(&format!("input_{i}"), |_, _| Ok(Box::new(SilentScan)));
        writeln!(
            sql,
            "CREATE TABLE input_{i} (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
             WITH ('connector' = 'datagen');\n\
             CREATE TABLE output_{i} (k BIGINT, n BIGINT, window_end TIMESTAMP(3)) WITH ('connector' = 'blackhole');\n\
             INSERT INTO output_{i} SELECT k, COUNT(*), window_end \
             FROM TABLE(TUMBLE(TABLE input_{i}, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE v > 10 \
             GROUP BY window_start, window_end, k;"
        )?;
    }
    let (before_bytes, before_threads) = (resident_bytes()?, threads()?);
    let started = Instant::now();
    submit(&engine, &sql)?;
    engine.start()?;
    let seconds = started.elapsed().as_secs_f64();
    // Long enough for every scan to have been asked once.
    std::thread::sleep(Duration::from_millis(200));
    let kilobytes = (resident_bytes()? - before_bytes) / 1e3 / f64::from(count);
    let threads = threads()? - before_threads;
    engine.stop();
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    Ok(Findings {
        columns: vec!["queries", "kb_per_query", "engine_threads", "start_s"],
        rows: vec![vec![
            count.to_string(),
            format!("{kilobytes:.1}"),
            threads.to_string(),
            format!("{seconds:.3}"),
        ]],
        summary: vec![
            format!(
                "{count} idle queries: {kilobytes:.1} KB each, target at most {TARGET_KB}: {}",
                verdict(kilobytes <= TARGET_KB)
            ),
            format!(
                "{count} idle queries: {threads} threads, those of the engine, whatever the number of queries"
            ),
            format!(
                "{count} idle queries: compiled and started in {seconds:.2} s, target at most {TARGET_S}: {}",
                verdict(seconds <= TARGET_S)
            ),
        ],
    })
}

fn resident_bytes() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("needs Linux")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? * 1024.0)
}

fn threads() -> anyhow::Result<usize> {
    Ok(fs::read_dir("/proc/self/task").context("needs Linux")?.count())
}
