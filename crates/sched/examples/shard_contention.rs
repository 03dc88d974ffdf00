//! How many messages a second does the core hand out to k workers, with one lock and with a lock per shard?
//!
//! In virtual time, with the decisions of the real core: a worker takes the lock of the shard where it is,
//! reports, enqueues what it made, picks, and lets go after `HOLD_NS`; where the pick lies on another shard
//! it takes that lock too. Locks are handed over in order of arrival; a lock that was last held elsewhere
//! costs `HANDOVER_NS` more. Then the worker runs for `run_ns`. `pick_error` is how many waiting units were
//! more urgent than a pick, on average: what the shards cost in order. Non-goals: cache effects inside the
//! core, wake-ups, locks that spin or park.
//!
//! `cargo run --release -p laxity-sched --example shard_contention [--small]`

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{Config, Edf, Message, OperatorSpec, QuerySpec, Recipe, RunReport, Shards, Work};

/// Report, enqueue and pick: the three together measured by `pick_cost` at 10 000 operators.
const HOLD_NS: u64 = 150;

/// A cache line from another core: the usual order on one socket.
const HANDOVER_NS: u64 = 50;

/// Other shards that a worker looks at.
const SAMPLED: usize = 1;

fn main() {
    let small = std::env::args().any(|argument| argument == "--small");
    let (units, span_ns) = if small { (500, 200_000) } else { (10_000, 2_000_000) };
    println!("run_ns,workers,shards,messages_per_s,share_waiting_for_locks,pick_error");
    for run_ns in [500, 2_000, 10_000] {
        for workers in [1usize, 2, 4, 8, 16, 32, 64] {
            for shards in [1, workers.div_ceil(4), workers] {
                let Measured { messages, waited_ns, error } =
                    contend(workers, shards, run_ns, units, span_ns);
                let per_s = messages as f64 * 1e9 / span_ns as f64;
                let waiting = waited_ns as f64 / (span_ns * workers as u64) as f64;
                println!("{run_ns},{workers},{shards},{per_s:.0},{waiting:.3},{error:.1}");
            }
        }
    }
}

struct Measured {
    messages: u64,
    waited_ns: u64,
    error: f64,
}

#[derive(Clone, Copy, Default)]
struct Lock {
    free_at: u64,
    last: usize,
}

impl Lock {
    /// When the worker that comes at `now` lets go, and how long it waited.
    fn take(&mut self, worker: usize, now: u64) -> (u64, u64) {
        let begins = self.free_at.max(now);
        let handover_ns = if self.last == worker { 0 } else { HANDOVER_NS };
        self.last = worker;
        self.free_at = begins + handover_ns + HOLD_NS;
        (self.free_at, begins - now)
    }
}

/// So many units always have one message each; a unit's next comes as its last is done.
fn contend(workers: usize, shards: usize, run_ns: u64, units: u32, span_ns: u64) -> Measured {
    let config = Config { workers, quantum_ns: 0, ..Config::default() };
    let mut core: Shards<()> = Shards::new(shards, shards, SAMPLED, &Recipe::of("edf", || Edf), &config);
    // Targets from 1 to 8 ms, in no order that the placement knows.
    let target_ns = |id: u32| 1_000_000 + u64::from(id.wrapping_mul(2_654_435_761) >> 9) % 7_000_000;
    let message = |id: OperatorId, now: u64| Message {
        to: id,
        channel: 0,
        progress: EventTime(0),
        ingested: ProcessingTime(now),
        rows: 1,
        bytes: 1,
        body: (),
    };
    for id in 0..units {
        let query = QuerySpec { id: QueryId(id), target_ns: target_ns(id), weight: 1.0, qos: None };
        let (id, query_id) = (OperatorId(id), query.id);
        core.add_query(
            query,
            &[OperatorSpec { id, query: query_id, upstream: vec![], window: None, channels: 1 }],
        );
        core.on_message(message(id, 0), ProcessingTime(0));
    }
    // When what waits is due, by unit and in order.
    let mut waits: Vec<u64> = (0..units).map(target_ns).collect();
    let mut due = waits.clone();
    due.sort_unstable();
    let mut locks = vec![Lock::default(); core.shards().len()];
    let mut running: Vec<Option<OperatorId>> = vec![None; workers];
    let mut arrivals: BinaryHeap<Reverse<(u64, usize)>> = (0..workers).map(|w| Reverse((0, w))).collect();
    let (mut messages, mut waited_ns, mut errors) = (0, 0, 0);
    while let Some(Reverse((now, worker))) = arrivals.pop() {
        if now >= span_ns {
            continue;
        }
        let id = WorkerId(worker as u32);
        let at = core.shard_of_worker(id);
        let (mut ends, mut waited) = locks[at].take(worker, now);
        let decided = ProcessingTime(now + waited);
        if let Some(operator) = running[worker].take() {
            core.on_message(message(operator, decided.0), decided);
            let due_at = decided.0 + target_ns(operator.0);
            waits[operator.index()] = due_at;
            due.insert(due.partition_point(|&other| other < due_at), due_at);
            let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns: run_ns, more: false };
            core.on_finished(id, report, decided);
            messages += 1;
        }
        let Some(grant) = core.next(id, decided) else {
            arrivals.push(Reverse((ends + run_ns, worker)));
            continue;
        };
        debug_assert!(matches!(grant.work, Work::Message { .. }));
        let chosen = core.shard_of_worker(id);
        if chosen != at {
            let (other_ends, other_waited) = locks[chosen].take(worker, ends);
            (ends, waited) = (other_ends, waited + other_waited);
        }
        let place = due.partition_point(|&other| other < waits[grant.operator.index()]);
        due.remove(place);
        errors += place;
        waited_ns += waited;
        running[worker] = Some(grant.operator);
        arrivals.push(Reverse((ends + run_ns, worker)));
    }
    Measured { messages, waited_ns, error: errors as f64 / messages.max(1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lock_saturates_and_shards_go_on() {
        let per_s = |workers, shards| contend(workers, shards, 500, 2_000, 400_000).messages as f64 / 400e-6;
        // Alone: 1 / (500 + 150) ns. One lock: 1 / (150 + 50) ns however many want it.
        assert!((per_s(1, 1) * 650e-9 - 1.0).abs() < 0.01, "{}", per_s(1, 1));
        assert!((per_s(16, 1) * 200e-9 - 1.0).abs() < 0.02, "{}", per_s(16, 1));
        assert!(per_s(16, 16) > 3.0 * per_s(16, 1), "{} {}", per_s(16, 16), per_s(16, 1));
    }

    #[test]
    fn one_shard_always_picks_the_first() {
        assert_eq!(contend(4, 1, 2_000, 500, 200_000).error, 0.0);
        assert!(contend(4, 4, 2_000, 500, 200_000).error > 0.0);
    }
}
