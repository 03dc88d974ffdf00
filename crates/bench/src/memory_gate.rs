//! What does it give to hold all sources while memory is freed? Queries whose tables are read as fast as memory lets
//! them, under policies that hold sources from four fifths of the bound on and under the same ones without.
//!
//! Non-goals: what a bound on memory costs, and state, which no order frees.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use laxity_connect::{ConnectError, Scan, ScanEvent, ScannedBatch};
use laxity_engine::{Engine, EngineConfig, EngineSnapshot};
use laxity_graph::ProcessingTime;

use crate::queries::submit;
use crate::{Findings, Size, median, spread};

/// With the gate, and the same without.
const PAIRS: [[&str; 2]; 2] = [["laxity", "laxity:memory=off"], ["klink", "klink-no-memory"]];

/// How much less the mean latency is to be with the gate.
const TARGET: f64 = 0.35;

/// At the same throughput: so near.
const SAME: f64 = 0.05;

const BATCH_ROWS: usize = 8_192;

/// One run under one policy.
struct Seen {
    mean_ms: f64,
    p99_ms: f64,
    rows_per_s: f64,
    /// Share of the bound, mean over time.
    memory: f64,
}

/// Runs all policies in turn, several times.
///
/// # Errors
/// If a query cannot be submitted, or fails.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let mut findings = Findings {
        columns: vec!["round", "policy", "mean_ms", "p99_ms", "rows_per_s", "memory"],
        ..Findings::default()
    };
    let mut seen: Vec<(&str, Seen)> = Vec::new();
    for round in 0..size.pick(5, 1) {
        for policy in PAIRS.iter().flatten().copied() {
            let one = under(policy, size)?;
            findings.rows.push(vec![
                round.to_string(),
                policy.into(),
                format!("{:.1}", one.mean_ms),
                format!("{:.1}", one.p99_ms),
                format!("{:.0}", one.rows_per_s),
                format!("{:.3}", one.memory),
            ]);
            seen.push((policy, one));
        }
    }
    for [with, without] in PAIRS {
        let all = |policy: &str, of: fn(&Seen) -> f64| -> Vec<f64> {
            seen.iter().filter(|(name, _)| *name == policy).map(|(_, seen)| of(seen)).collect()
        };
        // Round by round: what else runs on the machine is then much the same for both.
        let ratio = |of: fn(&Seen) -> f64| {
            let pairs = all(with, of).into_iter().zip(all(without, of));
            median(&pairs.map(|(with, without)| with / without).collect::<Vec<f64>>())
        };
        let lower = 1.0 - ratio(|seen| seen.mean_ms);
        let throughput = ratio(|seen| seen.rows_per_s);
        let met = lower >= TARGET && throughput >= 1.0 - SAME;
        findings.summary.push(format!(
            "{with}: mean {}, {without}: {}: {:.0} % lower at {:.2} of the throughput, memory {:.2} and {:.2} of the \
             bound; target {:.0} % at the same: {}",
            spread(&all(with, |seen| seen.mean_ms), "ms"),
            spread(&all(without, |seen| seen.mean_ms), "ms"),
            100.0 * lower,
            throughput,
            median(&all(with, |seen| seen.memory)),
            median(&all(without, |seen| seen.memory)),
            100.0 * TARGET,
            if met { "met" } else { "MISSED" }
        ));
    }
    Ok(findings)
}

fn under(policy: &str, size: Size) -> anyhow::Result<Seen> {
    // What benchmarks before it in the process have left counts too: less would stop a query.
    let (queries, bound_bytes) = (size.pick(40, 4), 192 << 20);
    let config =
        EngineConfig { policy: policy.parse()?, memory_limit_bytes: bound_bytes, ..EngineConfig::default() };
    let engine = Engine::new(config);
    let mut sql = String::from("SET 'laxity.latency.target' = '1 s';\n");
    for i in 0..queries {
        engine
            .provide(&format!("input_{i}"), |_, environment| Ok(Box::new(FullSpeed::new(environment.start))));
        // Dear enough for a row that memory, and not the reading, is what there is too little of.
        writeln!(
            sql,
            "CREATE TABLE input_{i} (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) \
             WITH ('connector' = 'datagen');\n\
             CREATE TABLE output_{i} (k BIGINT, a DOUBLE, b DOUBLE, window_end TIMESTAMP(3)) \
             WITH ('connector' = 'blackhole');\n\
             INSERT INTO output_{i} SELECT k, SUM(SQRT(ABS(SIN(v)))), MAX(LN(1 + ABS(COS(v)))), window_end \
             FROM TABLE(TUMBLE(TABLE input_{i}, DESCRIPTOR(ts), INTERVAL '0.5' SECOND)) WHERE v > 10 \
             GROUP BY window_start, window_end, k;"
        )?;
    }
    submit(&engine, &sql)?;
    let started = Instant::now();
    engine.start()?;
    let (lasts, warm) = (size.pick(Duration::from_secs(12), Duration::from_millis(900)), 3);
    let mut memory = Vec::new();
    while started.elapsed() < lasts {
        std::thread::sleep(Duration::from_millis(20));
        if started.elapsed() > lasts / warm {
            let mut figures = laxity_engine::EngineFigures::default();
            engine.figures(&mut figures);
            memory.push(figures.memory_bytes as f64 / bound_bytes as f64);
        }
    }
    let snapshot = engine.snapshot();
    engine.stop();
    seen(&snapshot, &memory)
}

fn seen(snapshot: &EngineSnapshot, memory: &[f64]) -> anyhow::Result<Seen> {
    let mut means_ms = Vec::new();
    let (mut p99_ns, mut rows) = (0, 0);
    for query in &snapshot.queries {
        ensure!(query.outcome == laxity_engine::Outcome::Running, "{} {:?}", query.name, query.outcome);
        // One without results has waited for all the time.
        let (mean_ns, of_p99_ns) = match query.latency.count {
            0 => (snapshot.wall_ns, snapshot.wall_ns),
            _ => (query.latency.mean_ns, query.latency.p99_ns),
        };
        means_ms.push(mean_ns as f64 / 1e6);
        p99_ns = p99_ns.max(of_p99_ns);
        rows += query.rows_in - query.rows_queued;
    }
    Ok(Seen {
        mean_ms: means_ms.iter().sum::<f64>() / means_ms.len() as f64,
        p99_ms: p99_ns as f64 / 1e6,
        rows_per_s: rows as f64 / (snapshot.wall_ns as f64 / 1e9),
        memory: memory.iter().sum::<f64>() / memory.len().max(1) as f64,
    })
}

/// Rows without end, as fast as they are taken, whose event time is the clock.
struct FullSpeed {
    start: ProcessingTime,
    k: ArrayRef,
    v: ArrayRef,
}

impl FullSpeed {
    fn new(start: ProcessingTime) -> FullSpeed {
        let column = |of: fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..BATCH_ROWS as i64).map(of)))
        };
        FullSpeed {
            start,
            k: column(|i| (i * 7_919).rem_euclid(100)),
            v: column(|i| (i * 31).rem_euclid(1_000)),
        }
    }
}

impl Scan for FullSpeed {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        let ms = (now.since_ns(self.start) / 1_000_000) as i64;
        let ts: ArrayRef = Arc::new(TimestampMillisecondArray::from_value(ms, BATCH_ROWS));
        let columns = [("k", self.k.clone()), ("v", self.v.clone()), ("ts", ts)];
        let rows = RecordBatch::try_from_iter(columns).expect("three equal columns");
        Ok(ScanEvent::Batch(ScannedBatch { rows, arrival: now }))
    }
}
