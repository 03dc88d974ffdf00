//! What do a query's accounts cost: taking in a result, the counts of all queries, the percentiles of one, and memory?
//!
//! Results come a second apart in every query, with latencies of 2 to 7 ms that spread over as many buckets as they can.
//! The least of the rounds is what it costs; the median beside it says how noisy the machine was. Non-goals: drawing, and
//! the sinks.
//!
//! `cargo run --release -p laxity-runtime --example result_cost [--small]`

// An example is a driver, and a driver has a clock.
#![allow(clippy::disallowed_methods)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use laxity_graph::{EventClock, EventTime, LatencyTarget, ProcessingTime, QueryId, QuerySettings};
use laxity_runtime::{Process, Query};
use laxity_sched::Stamps;

const SECOND_NS: u64 = 1_000_000_000;

fn main() {
    let small = std::env::args().any(|argument| argument == "--small");
    let rounds = if small { 3 } else { 21 };
    println!("what,queries,results_each,least,median,unit");

    let query = new_query(0, &process());
    let results = if small { 10_000 } else { 1_000_000 };
    let mut number = 0;
    let times = rounds_of(rounds, || {
        for _ in 0..results {
            // A hundred microseconds apart: a minute turns now and then.
            take_result(&query, number, number * 100_000);
            number += 1;
        }
    });
    print("result", 1, number, &times, results as f64, "ns");
    let now = ProcessingTime(SECOND_NS + number * 100_000);
    let times = rounds_of(rounds, || {
        black_box(query.results(now));
    });
    print("percentiles", 1, number, &times, 1.0, "ns");

    let count = if small { 100 } else { 10_000 };
    let before = resident_bytes();
    let process = process();
    let queries: Vec<Arc<Query>> = (0..count).map(|id| Arc::new(new_query(id, &process))).collect();
    let mut taken = 0;
    for results in [0, 60, 120, 1_000] {
        while taken < results {
            queries
                .iter()
                .for_each(|query| take_result(query, taken ^ u64::from(query.id.0), taken * SECOND_NS));
            taken += 1;
        }
        let now = ProcessingTime((taken + 1) * SECOND_NS);
        let mut kept = 0;
        let times = rounds_of(rounds, || {
            kept = black_box(queries.iter().map(|query| query.figures(now).met).sum());
        });
        assert_eq!(kept, taken * u64::from(count));
        print("figures", count, taken, &times, 1.0, "ns");
        let bytes = resident_bytes().saturating_sub(before) / u64::from(count);
        println!("memory of a query,{count},{taken},{bytes},{bytes},bytes");
    }
}

fn process() -> Arc<Process> {
    Arc::new(Process::new(1 << 30, 1 << 20))
}

fn new_query(id: u32, process: &Arc<Process>) -> Query {
    let mut settings = QuerySettings::named(format!("query number {id}"));
    settings.latency_target = LatencyTarget::new(Duration::from_millis(50)).expect("it is not zero");
    let query = Query::new(QueryId(id), settings, 1, process.clone());
    let clock = EventClock { event_origin: EventTime(0), processing_origin: ProcessingTime(0), speed: 1.0 };
    query.event_clock.get_or_init(|| clock);
    query
}

/// One result of a window, so long after the first second.
fn take_result(query: &Query, number: u64, after_ns: u64) {
    let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let latency_ns = 2_000_000 + (spread >> 44) * 5;
    let now = ProcessingTime(SECOND_NS + after_ns);
    let arrival = ProcessingTime(now.0 - latency_ns);
    let stamps = Stamps { queue_ns: latency_ns, ..Stamps::admitted(arrival, arrival) };
    query.record_result(&stamps, Some(EventTime((arrival.0 / 1_000_000) as i64)), now, now);
}

/// What each round took, ns, ascending.
fn rounds_of(rounds: usize, mut round: impl FnMut()) -> Vec<f64> {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            round();
            started.elapsed().as_nanos() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn print(what: &str, queries: u32, results: u64, times: &[f64], per: f64, unit: &str) {
    println!("{what},{queries},{results},{:.1},{:.1},{unit}", times[0] / per, times[times.len() / 2] / per);
}

/// Of this process; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
