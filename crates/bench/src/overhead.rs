//! What share of a worker's CPU goes to anything but operators, and what share of it is the policy's?
//!
//! *Outside operators* is everything a worker does between two calls of an operator: lock, scheduler, clocks,
//! accounting, handing rows on. *The policy's* is what a run under it takes more than the same run under fifo,
//! which ranks nothing: what Cameo reports (§6.4). Non-goals: reading and writing, which other threads do.

use std::time::{Duration, Instant};

use anyhow::ensure;
use arrow::array::RecordBatch;
use laxity_engine::{Engine, EngineConfig};
use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowShape, WorkerId};
use laxity_sched::{Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler};

use crate::memory_table::{DDL, MemoryScan, rows};
use crate::queries::submit;
use crate::thread_cpu::cpu_ns_of;
use crate::{Findings, Size, median, spread};

struct Case {
    name: &'static str,
    sql: &'static str,
    batch_rows: usize,
    merge: bool,
    /// Share outside operators, per cent.
    target_outside: Option<f64>,
    /// The policy's share, per cent.
    target_policy: Option<f64>,
}

const WINDOW: &str = "CREATE TABLE output (k BIGINT, n BIGINT, total BIGINT, window_end TIMESTAMP(3)) \
                      WITH ('connector' = 'blackhole');\n\
                      INSERT INTO output SELECT k, COUNT(*), SUM(v), window_end \
                      FROM TABLE(TUMBLE(TABLE input, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE v > 10 \
                      GROUP BY window_start, window_end, k;";

/// Hands its rows on as they are.
const NO_OP: &str = "CREATE TABLE output (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole');\n\
                     INSERT INTO output SELECT k, v FROM input;";

const CASES: [Case; 3] = [
    Case {
        name: "1000-row batches through filter and window",
        sql: WINDOW,
        batch_rows: 1_000,
        merge: true,
        target_outside: Some(1.0),
        target_policy: Some(1.0),
    },
    Case {
        name: "1-row no-op messages",
        sql: NO_OP,
        batch_rows: 1,
        merge: false,
        target_outside: None,
        target_policy: Some(6.0),
    },
    Case {
        name: "1-row no-op messages merged",
        sql: NO_OP,
        batch_rows: 1,
        merge: true,
        target_outside: None,
        target_policy: None,
    },
];

const POLICIES: [&str; 4] = ["laxity", "llf", "klink", "fifo"];
const FIFO: usize = 3;

const CYCLE_QUERIES: u32 = 1_000;
const TARGET_CYCLE_PERCENT: f64 = 0.5;

/// Runs all cases under every policy, interleaved; then the cycle of klink alone.
///
/// # Errors
/// If a query does not run to its end, or the system does not account CPU time.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let mut findings = Findings {
        columns: vec!["case", "policy", "round", "rows", "worker_cpu_ns", "operator_ns", "outside_percent"],
        ..Findings::default()
    };
    let mut cpu_ns = vec![[const { Vec::new() }; POLICIES.len()]; CASES.len()];
    let mut outside = cpu_ns.clone();
    let single = rows(size.pick(400_000, 2_000), 1, 1_000);
    let thousands = rows(size.pick(20_000_000, 20_000), 1_000, 1_000);
    for round in 0..size.pick(5, 1) {
        for (place, case) in CASES.iter().enumerate() {
            let batches = if case.batch_rows == 1 { &single } else { &thousands };
            let count = batches.iter().map(RecordBatch::num_rows).sum();
            for (column, policy) in POLICIES.iter().enumerate() {
                let (worker_ns, operator_ns) = measure(case, policy, batches.clone(), count)?;
                // A small run may be over before the system has counted anything.
                let share = 100.0 * (1.0 - (operator_ns as f64 / worker_ns.max(1) as f64).min(1.0));
                cpu_ns[place][column].push(worker_ns as f64 / count as f64);
                outside[place][column].push(share);
                findings.rows.push(vec![
                    case.name.into(),
                    (*policy).into(),
                    round.to_string(),
                    count.to_string(),
                    worker_ns.to_string(),
                    operator_ns.to_string(),
                    format!("{share:.2}"),
                ]);
            }
        }
    }
    for (place, case) in CASES.iter().enumerate() {
        let verdict = |value: f64, target: Option<f64>| match target {
            Some(target) if value <= target => format!(", target at most {target} %: met"),
            Some(target) => format!(", target at most {target} %: MISSED"),
            None => String::new(),
        };
        for (column, policy) in POLICIES.iter().enumerate() {
            let share = median(&outside[place][column]);
            let mut line = format!(
                "{}, {policy}: {} of worker CPU a row, outside operators {share:.2} %{}",
                case.name,
                spread(&cpu_ns[place][column], "ns"),
                verdict(share, case.target_outside)
            );
            if column != FIFO {
                let own = median(&cpu_ns[place][column]);
                let policy_share = 100.0 * (own - median(&cpu_ns[place][FIFO])) / own;
                line.push_str(&format!(
                    "; the policy's {policy_share:.1} %{}",
                    verdict(policy_share, case.target_policy)
                ));
            }
            findings.summary.push(line);
        }
    }
    cycles(size, &mut findings)?;
    Ok(findings)
}

/// CPU time of the worker, and of that the time in operators.
fn measure(case: &Case, policy: &str, batches: Vec<RecordBatch>, count: usize) -> anyhow::Result<(u64, u64)> {
    let config =
        EngineConfig { workers: 1, merge: case.merge, policy: policy.parse()?, ..EngineConfig::default() };
    let engine = Engine::new(config);
    engine.provide("input", MemoryScan::opener(batches));
    submit(&engine, &format!("{DDL}{}", case.sql))?;
    engine.start()?;
    ensure!(engine.wait(Duration::from_secs(120)), "{} did not end in 120 s", case.name);
    let worker_ns = cpu_ns_of("laxity-worker")?;
    let snapshot = engine.snapshot();
    ensure!(snapshot.queries[0].rows_in == count as u64, "{}: rows were lost", case.name);
    Ok((worker_ns, snapshot.operator_ns))
}

/// What klink's cycle takes of a core, where every operator of a thousand queries changed since the last.
fn cycles(size: Size, findings: &mut Findings) -> anyhow::Result<()> {
    let queries = size.pick(CYCLE_QUERIES, 20);
    let mut shares = Vec::new();
    for round in 0..size.pick(5, 1) {
        let (cycle_ns, period_ns) = cycle_ns(queries, size.pick(50, 2))?;
        let share = 100.0 * cycle_ns / period_ns as f64;
        shares.push(share);
        findings.rows.push(vec![
            format!("klink cycle of {queries} queries"),
            "klink".into(),
            round.to_string(),
            "0".into(),
            format!("{cycle_ns:.0}"),
            "0".into(),
            format!("{share:.4}"),
        ]);
    }
    findings.summary.push(format!(
        "klink's cycle, {queries} queries of 4 operators, all changed: {} of a core, target at most {TARGET_CYCLE_PERCENT} %: {}",
        spread(&shares, "%"),
        if median(&shares) <= TARGET_CYCLE_PERCENT { "met" } else { "MISSED" }
    ));
    Ok(())
}

/// Mean time of a decision that begins a cycle, less one that does not; and the period.
fn cycle_ns(queries: u32, cycles: u32) -> anyhow::Result<(f64, u64)> {
    const OPERATORS: u32 = 4;
    let mut scheduler: Scheduler<()> =
        Scheduler::new(laxity_policies::recipe("klink")?.compose(), Config::default());
    for query in 0..queries {
        let target_ns = 1_000_000_000;
        scheduler.add_query(QuerySpec { id: QueryId(query), target_ns, weight: 1.0, qos: None });
        for place in 0..OPERATORS {
            let id = query * OPERATORS + place;
            let window =
                (place == 2).then_some(WindowShape { size_ms: 3_000, slide_ms: 3_000, end_ms: Some(0) });
            let upstream = if place == 0 { vec![] } else { vec![OperatorId(id - 1)] };
            scheduler.add_operator(OperatorSpec {
                id: OperatorId(id),
                query: QueryId(query),
                upstream,
                window,
                channels: 1,
            });
        }
    }
    let worker = WorkerId(0);
    let report = RunReport { rows_in: 10, rows_out: 5, cpu_ns: 5_000, more: false };
    let mut now = ProcessingTime(1);
    let decide = |scheduler: &mut Scheduler<()>, now: ProcessingTime| {
        let started = Instant::now();
        let grant = scheduler.next(worker, now);
        let ns = started.elapsed().as_nanos() as f64;
        if grant.is_some() {
            scheduler.on_finished(worker, report, now);
        }
        ns
    };
    decide(&mut scheduler, now);
    let period_ns = scheduler.next_timeout().map_or(1, |due| due.since_ns(now));
    let mut total_ns = 0.0;
    for cycle in 1..=cycles {
        now = ProcessingTime(1 + u64::from(cycle) * period_ns);
        let progress = EventTime((now.0 / 1_000_000) as i64);
        for id in 0..queries * OPERATORS {
            let message = Message {
                to: OperatorId(id),
                channel: 0,
                progress,
                ingested: now,
                rows: 10,
                bytes: 240,
                body: (),
            };
            scheduler.on_message(message, ProcessingTime(now.0 - 1));
        }
        let with_cycle_ns = decide(&mut scheduler, now);
        total_ns += with_cycle_ns - decide(&mut scheduler, now);
    }
    Ok((total_ns / f64::from(cycles), period_ns))
}
