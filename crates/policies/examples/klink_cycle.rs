//! What does a cycle of `klink` cost? Goal: at most 0.5 % of one core at the cycle of 120 ms, that is 600 µs, with
//! 1 000 queries of 5 operators.
//!
//! Queries are chains source, filter, map, window, sink. Between two cycles a share of the operators changes, and
//! all sources see a watermark. Timed is the call of `next` in which the cycle falls: the refresh of the
//! snapshot, the rank, and the run queue. Non-goals: what the driver does.
//!
//! `cargo run --release -p laxity-policies --example klink_cycle [--small] [POLICY…]`

// An example is a driver, and a driver has a clock.
#![allow(clippy::disallowed_methods)]

use std::time::Instant;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowShape, WorkerId};
use laxity_sched::{Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler, UnknownPolicy, Work};

const CHAIN: u32 = 5;
const CYCLE_NS: u64 = 120_000_000;
const WORKER: WorkerId = WorkerId(0);

fn main() -> Result<(), UnknownPolicy> {
    let small = std::env::args().any(|argument| argument == "--small");
    let asked: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let policies = ["klink", "memory", "sbox"].map(str::to_owned).to_vec();
    let (sizes, cycles): (&[u32], usize) = if small { (&[10], 5) } else { (&[100, 1_000, 10_000], 101) };
    println!("policy,queries,changed_percent,us_per_cycle_min,us_per_cycle_median,percent_of_a_core");
    for policy in if asked.is_empty() { &policies } else { &asked } {
        for &queries in sizes {
            for changed_percent in [100, 10] {
                let times_ns = measure(policy, queries, changed_percent, cycles)?;
                let (least, median) = (times_ns[0], times_ns[times_ns.len() / 2]);
                let share = 100.0 * median as f64 / CYCLE_NS as f64;
                let (least, median) = (least as f64 / 1e3, median as f64 / 1e3);
                println!("{policy},{queries},{changed_percent},{least:.0},{median:.0},{share:.3}");
            }
        }
    }
    Ok(())
}

fn message(to: u32, progress: EventTime, at: ProcessingTime, rows: u32) -> Message<()> {
    let bytes = 64 * u64::from(rows);
    Message { to: OperatorId(to), channel: 0, progress, ingested: at, rows, bytes, body: () }
}

/// ns of every cycle, ascending.
fn measure(
    policy: &str,
    queries: u32,
    changed_percent: u32,
    cycles: usize,
) -> Result<Vec<u64>, UnknownPolicy> {
    let mut scheduler = Scheduler::new(laxity_policies::recipe(policy)?.compose(), Config::default());
    for query in 0..queries {
        scheduler.add_query(QuerySpec { id: QueryId(query), target_ns: 1_000_000, weight: 1.0, qos: None });
        for place in 0..CHAIN {
            let id = query * CHAIN + place;
            let slide_ms = 1_000 + 100 * i64::from(query % 20);
            scheduler.add_operator(OperatorSpec {
                id: OperatorId(id),
                query: QueryId(query),
                upstream: if place == 0 { vec![] } else { vec![OperatorId(id - 1)] },
                window: (place == 3).then_some(WindowShape { size_ms: slide_ms, slide_ms, end_ms: Some(0) }),
                channels: 1,
            });
        }
    }
    let mut now = ProcessingTime(1_000_000_000);
    let operators = queries * CHAIN;
    for id in 0..operators {
        scheduler.on_message(message(id, EventTime::MIN, now, 100), now);
        scheduler.on_message(message(id, EventTime::MIN, now, 100), now);
    }
    let mut times_ns = Vec::with_capacity(cycles);
    for cycle in 0..cycles as u32 + 50 {
        now = now.plus_ns(CYCLE_NS);
        for query in 0..queries {
            // Delays of 0 to 16 ms, so that there is something to predict.
            let late_ms = u64::from((query * 7 + cycle * 13) % 17);
            let watermark = EventTime((now.0 / 1_000_000 - late_ms) as i64);
            scheduler.on_progress(OperatorId(query * CHAIN), watermark, now);
        }
        for id in (0..operators).filter(|id| (id + cycle) % 100 < changed_percent) {
            scheduler.on_message(message(id, EventTime::MIN, now, 10 + id % 7), now);
        }
        let started = Instant::now();
        let grant = scheduler.next(WORKER, now);
        let ns = started.elapsed().as_nanos() as u64;
        if cycle >= 50 {
            times_ns.push(ns);
        }
        // Away with as much as came, so that queues stay as long as they are.
        let mut grant = grant;
        let mut left = operators * changed_percent / 100;
        while let Some(granted) = grant {
            let Work::Message { message, .. } = granted.work else { break };
            let cpu_ns = 500 + u64::from(message.rows) * u64::from(1 + granted.operator.0 % 7);
            let report = RunReport { rows_in: message.rows, rows_out: message.rows / 2, cpu_ns, more: false };
            scheduler.on_finished(WORKER, report, now);
            left -= 1;
            grant = if left > 0 { scheduler.next(WORKER, now) } else { None };
        }
    }
    times_ns.sort_unstable();
    Ok(times_ns)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_small_run_works() {
        for policy in ["klink", "memory", "sbox"] {
            assert_eq!(super::measure(policy, 10, 50, 3).unwrap().len(), 3);
        }
    }
}
