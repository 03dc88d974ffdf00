//! What does the scheduler core cost per message (enqueue, pick, finish)?
//!
//! Every operator always has one message waiting and the quantum is 0, so each message goes through the run
//! queue: the dearest case. No threads and no lock.

use std::time::{Duration, Instant};

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{Composition, Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler, Work};

use crate::{Findings, Size, median, spread};

/// Enqueue, pick and finish together.
const TARGET_NS: f64 = 200.0;
/// Where the target is set.
const TARGET_READY: u32 = 10_000;
/// In the summary, and measured with more operators than the others.
const SUMMARISED: [&str; 2] = ["laxity", "llf"];
/// Between two looks at the clock.
const CHUNK: u64 = 1_000;

/// Measures every policy; the rounds are interleaved.
///
/// # Errors
/// If a policy's name is not known.
pub fn run(size: Size) -> anyhow::Result<Findings> {
    let ready: &[u32] = size.pick(&[10, 1_000, TARGET_READY, 100_000], &[10, 100]);
    // A policy with dear cycles gets fewer messages through in that time.
    let length = size.pick(Duration::from_millis(100), Duration::ZERO);
    let mut findings = Findings {
        columns: vec!["policy", "ready_operators", "round", "ns_per_message"],
        ..Findings::default()
    };
    let mut costs = [vec![Vec::new(); ready.len()], vec![Vec::new(); ready.len()]];
    for round in 0..size.pick(5, 1) {
        for policy in laxity_policies::names() {
            for (place, &operators) in ready.iter().enumerate() {
                let summarised = SUMMARISED.iter().position(|name| *name == policy);
                if operators > TARGET_READY && summarised.is_none() {
                    continue;
                }
                let ns = measure(laxity_policies::recipe(policy)?.compose(), operators, length);
                if let Some(column) = summarised {
                    costs[column][place].push(ns);
                }
                findings.rows.push(vec![
                    policy.to_string(),
                    operators.to_string(),
                    round.to_string(),
                    format!("{ns:.0}"),
                ]);
            }
        }
    }
    for (policy, costs) in SUMMARISED.iter().zip(&costs) {
        for (costs, &operators) in costs.iter().zip(ready) {
            let verdict = match operators {
                TARGET_READY if median(costs) <= TARGET_NS => ", target at most 200: met",
                TARGET_READY => ", target at most 200: MISSED",
                _ => "",
            };
            let cost = spread(costs, "ns per message");
            findings.summary.push(format!("{policy}, {operators} ready operators: {cost}{verdict}"));
        }
    }
    Ok(findings)
}

/// Nanoseconds per message, over so long or a little longer.
fn measure(policy: Composition, operators: u32, length: Duration) -> f64 {
    let mut scheduler = Scheduler::new(policy, Config { quantum_ns: 0, ..Config::default() });
    // Chains of three: source, window, what follows.
    for id in 0..operators {
        if id % 3 == 0 {
            let target_ns = 50_000_000 + u64::from(id) * 1_000;
            scheduler.add_query(QuerySpec { id: QueryId(id / 3), target_ns, weight: 1.0, qos: None });
        }
        let upstream = if id % 3 == 0 { vec![] } else { vec![OperatorId(id - 1)] };
        scheduler.add_operator(OperatorSpec {
            id: OperatorId(id),
            query: QueryId(id / 3),
            upstream,
            window: None,
            channels: 1,
        });
    }
    let message = |to: OperatorId, at: u64| Message {
        to,
        channel: 0,
        progress: EventTime(at as i64),
        ingested: ProcessingTime(at),
        rows: 1,
        bytes: 8,
        body: at,
    };
    for id in 0..operators {
        scheduler.on_message(message(OperatorId(id), u64::from(id)), ProcessingTime(0));
    }
    let worker = WorkerId(0);
    let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: 1_000, more: false };
    let started = Instant::now();
    let mut turns = 0;
    loop {
        for turn in turns..turns + CHUNK {
            let now = ProcessingTime(u64::from(operators) + turn * 1_000);
            let grant = scheduler.next(worker, now).expect("every operator has a message");
            let Work::Message { .. } = grant.work else { unreachable!("nothing was left") };
            scheduler.on_message(message(grant.operator, now.0), now);
            scheduler.on_finished(worker, report, now);
        }
        turns += CHUNK;
        let elapsed = started.elapsed();
        if elapsed >= length {
            return elapsed.as_nanos() as f64 / turns as f64;
        }
    }
}
