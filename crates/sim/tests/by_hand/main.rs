//! Simulations small enough to be followed with a pencil; every number here was.
//! Cannot catch: anything that takes many events to go wrong. That is what seeded faults are for.

mod scene;
mod sources;

use std::time::Duration;

use laxity_graph::{NodeId, Partitioning, ProcessingTime};
use laxity_sched::{Config, Parts};
use laxity_sim::{
    Cluster, Cut, Driver, Keep, OsThreads, Outcome, Overheads, Placement, Renice, Setup, Simulation,
};
use laxity_workload::{Delay, Sleep, Stage, StageKind, Workload};
use scene::*;

fn run(workload: Workload, policy: &'static str, setup: Setup) -> Outcome {
    let outcome = Simulation::new(workload, laxity_policies::recipe(policy).unwrap(), setup).run().unwrap();
    assert_eq!(outcome.violations, []);
    outcome
}

fn setup(duration_ms: u64) -> Setup {
    let keep = Keep { timeline: true, results: true, trace: true, checks: true };
    Setup { duration: Duration::from_millis(duration_ms), keep, ..Setup::default() }
}

/// When each result was written, in ms, with its query.
fn written(outcome: &Outcome) -> Vec<(u32, f64)> {
    let results = outcome.results.as_ref().unwrap();
    results.iter().map(|result| (result.query.0, result.written.0 as f64 / 1e6)).collect()
}

/// A chain whose source costs nothing and whose one operator costs `ms`.
fn job(name: &str, target_ms: u64, ms: f64, at_ms: &[u64]) -> Drawn {
    let free = cost(0.0, 0.0, 0.0);
    let arrivals: Vec<_> = at_ms.iter().map(|&at| arrival(at, at as i64, 1, -1)).collect();
    query(name, target_ms)
        .chain(&[
            ("source", StageKind::Source, free, None),
            ("work", rows(1.0), cost(ms, 0.0, 0.0), None),
            ("sink", StageKind::Sink, free, None),
        ])
        .feed(0, 0, &arrivals)
}

#[test]
fn a_chain_takes_the_sum_of_its_costs() {
    let chain = query("chain", 100)
        .chain(&[
            ("source", StageKind::Source, cost(1.0, 0.1, 0.0), None),
            ("filter", rows(0.5), cost(0.5, 0.2, 0.0), None),
            ("sink", StageKind::Sink, cost(0.25, 0.05, 0.0), None),
        ])
        .feed(0, 0, &[arrival(5, 0, 10, -1)]);
    let outcome = run(workload(vec![chain]), "llf", setup(100));
    // 1 + 10 · 0.1, then 0.5 + 10 · 0.2, then 0.25 + 5 · 0.05.
    assert_eq!(written(&outcome), [(0, 5.0 + 2.0 + 2.5 + 0.5)]);
    let query = &outcome.queries[0];
    assert_eq!((query.rows_in, query.rows_out, query.rows_queued), (10, 5, 0));
    assert_eq!((query.lateness.results, query.lateness.met), (1, 1));
    assert_eq!((query.latency_mean_ns, query.utility_mean), (5e6, 1.0));
    assert_eq!((outcome.busy_ns, outcome.overhead_ns, outcome.idle_ns), (5 * MS, 0, 95 * MS));
    // The row arrived 5 ms after its event time, which adds to event-time latency.
    assert_eq!(query.event_time_latency_mean_ns, 10e6);
}

#[test]
fn the_policy_decides_who_waits() {
    let jobs = || {
        workload(vec![
            job("slow", 1_000, 10.0, &[0]),
            job("slow too", 1_000, 10.0, &[0]),
            job("urgent", 20, 1.0, &[1]),
        ])
    };
    let whole = || Setup { cut: Cut::Never, ..setup(100) };
    // Both slow sources run at 0. At 10 the second job is before the urgent source and the first sink.
    assert_eq!(written(&run(jobs(), "fifo", whole())), [(0, 20.0), (1, 20.0), (2, 21.0)]);
    // The urgent row goes from source to sink. The first sink has more laxity than the second job: less is left.
    assert_eq!(written(&run(jobs(), "llf", whole())), [(2, 11.0), (0, 21.0), (1, 21.0)]);
    let late = run(jobs(), "fifo", whole());
    let query = &late.queries[2];
    assert_eq!((query.lateness.results, query.lateness.met), (1, 1), "20 ms is on time");
    assert_eq!(query.latency.as_ref().unwrap().max() / MS, 20);
}

#[test]
fn rows_that_take_longer_than_the_quantum_are_cut() {
    let heavy = query("heavy", 1_000)
        .chain(&[
            ("source", StageKind::Source, cost(0.0, 0.0, 0.0), None),
            ("work", rows(1.0), cost(0.0, 0.1, 0.0), None),
            ("sink", StageKind::Sink, cost(0.0, 0.0, 0.0), None),
        ])
        .feed(0, 0, &[arrival(0, 0, 40, -1)]);
    let queries = vec![heavy, job("urgent", 5, 0.5, &[1])];
    let cut = Setup { cut: Cut::AtQuantum { rows_min: 1 }, ..setup(100) };
    // Pieces of 1 ms; the urgent row comes as the first ends and goes before the second.
    let outcome = run(workload(queries), "llf", cut);
    // The heavy sink has more laxity than the operator above it, which has that much more to do.
    assert_eq!(written(&outcome), [(1, 1.5), (0, 4.5), (0, 4.5), (0, 4.5), (0, 4.5)]);
    assert_eq!(outcome.queries[0].rows_out, 40);
}

#[test]
fn a_window_answers_when_the_watermark_has_passed_its_end() {
    let free = cost(0.0, 0.0, 0.0);
    let windowed = query("windowed", 5)
        .chain(&[
            ("source", StageKind::Source, free, None),
            ("window", window(0.5), cost(0.25, 0.0, 0.125), tumbling(10)),
            ("sink", StageKind::Sink, free, None),
        ])
        .feed(
            0,
            0,
            &[
                arrival(3, 3, 2, 2),
                arrival(8, 8, 1, 7),
                // Does not close the window: 9 would.
                arrival(14, 12, 1, 8),
                arrival(20, 18, 0, 9),
                // Late: its window closed with the watermark at 9.
                arrival(21, 5, 3, -1),
            ],
        );
    let outcome = run(workload(vec![windowed]), "llf", setup(100));
    let query = &outcome.queries[0];
    // The watermark is due at 20; the call costs 0.25, three rows 0.5 each.
    assert_eq!(written(&outcome), [(0, 21.75)]);
    let result = outcome.results.as_ref().unwrap()[0];
    assert_eq!((result.rows, result.event_time.0), (3, 10));
    // t_M is that of the releasing watermark, which is later than the last row's.
    assert_eq!(result.ingested, ProcessingTime(20 * MS));
    assert_eq!((query.rows_late, query.rows_out), (3, 3));
    assert_eq!(query.event_time_latency_mean_ns, 11.75e6);
    // The late rows, still in the hand of the source and already sent on, and one row in the second window.
    assert_eq!(outcome.memory_peak_bytes, 2 * 300 + 10);
}

#[test]
fn a_result_whose_rows_came_after_its_watermark_waits_for_nobody() {
    // Two sources: the second one's watermark is far ahead, the first one's last row is the one that counts.
    let free = cost(0.0, 0.0, 0.0);
    let joined = query("joined", 5)
        .node("left", 1, &[], StageKind::Source, free, None)
        .node("right", 1, &[], StageKind::Source, free, None)
        .node(
            "join",
            1,
            &[(0, Partitioning::Forward), (1, Partitioning::Forward)],
            window(0.0),
            cost(1.0, 0.0, 1.0),
            tumbling(10),
        )
        .node("sink", 1, &[(2, Partitioning::Forward)], StageKind::Sink, free, None)
        .feed(0, 0, &[arrival(4, 4, 1, 3), arrival(30, 9, 1, 9)])
        .feed(1, 0, &[arrival(12, 12, 1, 11)]);
    let outcome = run(workload(vec![joined]), "fifo", setup(100));
    // Rows cost 1 ms a batch; the watermark rides on the last one and closes the window in the same run.
    assert_eq!(written(&outcome), [(0, 31.0)]);
    let result = outcome.results.as_ref().unwrap()[0];
    assert_eq!((result.rows, result.ingested.0 / MS), (2, 30));
}

#[test]
fn fractions_of_rows_are_carried() {
    let arrivals: Vec<_> = (0..30).map(|at| arrival(at, at as i64, 1, -1)).collect();
    let free = cost(0.0, 0.0, 0.0);
    let thin = query("thin", 100)
        .chain(&[
            ("source", StageKind::Source, free, None),
            ("filter", rows(0.1), free, None),
            ("sink", StageKind::Sink, free, None),
        ])
        .feed(0, 0, &arrivals);
    let outcome = run(workload(vec![thin]), "llf", setup(100));
    assert_eq!(written(&outcome), [(0, 9.0), (0, 19.0), (0, 29.0)]);
}

#[test]
fn rows_are_spread_and_watermarks_reach_all() {
    let free = cost(0.0, 0.0, 0.0);
    let spread = query("spread", 100)
        .node("source", 1, &[], StageKind::Source, free, None)
        .node("window", 3, &[(0, Partitioning::Hash(vec![0]))], window(0.0), free, tumbling(10))
        .node("sink", 1, &[(1, Partitioning::Gather)], StageKind::Sink, free, None)
        .feed(0, 0, &[arrival(1, 1, 4, -1), arrival(2, 2, 4, -1), arrival(12, 12, 0, 11)]);
    let outcome = run(workload(vec![spread]), "llf", setup(100));
    // 4 rows on 3: two to the first, then, going on where that ended, two to the second.
    let rows: Vec<u32> = outcome.results.as_ref().unwrap().iter().map(|result| result.rows).collect();
    assert_eq!(rows.iter().sum::<u32>(), 8);
    assert_eq!(rows, [3, 3, 2]);
}

#[test]
fn overheads_are_nobodys_work() {
    let jobs = || workload(vec![job("a", 100, 1.0, &[0, 0])]);
    let overheads = Overheads { call_ns: 1_000, switch_ns: 20_000, schedule_ns: 300, ..Overheads::default() };
    let config = Config { quantum_ns: 100 * MS, ..Config::default() };
    let outcome = run(jobs(), "fifo", Setup { overheads, config, ..setup(100) });
    // No quantum is over: source twice, work twice, sink twice.
    assert_eq!((outcome.grants, outcome.switches), (6, 3));
    assert_eq!(outcome.overhead_ns, 6 * 300 + 3 * 20_000);
    assert_eq!(outcome.busy_ns, 2 * MS + 6 * 1_000);
}

#[test]
fn a_machine_away_costs_the_network() {
    let setup = Setup {
        cluster: Cluster {
            nodes: 3,
            cores_per_node: 1,
            network: Delay::Constant { ns: 2 * MS },
            placement: Placement::By(Box::new(|_, NodeId(node), _| node)),
        },
        ..setup(100)
    };
    let outcome = run(workload(vec![job("far", 100, 1.0, &[5])]), "llf", setup);
    assert_eq!(written(&outcome), [(0, 5.0 + 2.0 + 1.0 + 2.0)]);
}

#[test]
fn a_source_waits_for_credit_and_latency_does_not() {
    // 100 bytes a row, credit for one: each waits at the source until the one before is done.
    let setup = Setup { credit_bytes: 100, ..setup(100) };
    let outcome = run(workload(vec![job("held", 15, 10.0, &[0, 0])]), "llf", setup);
    assert_eq!(written(&outcome), [(0, 10.0), (0, 20.0)]);
    let lateness = outcome.queries[0].lateness;
    assert_eq!((lateness.results, lateness.met), (2, 1));
    let missed = Parts { source_ns: 10 * MS, execute_ns: 10 * MS, ..Parts::default() };
    assert_eq!(lateness.missed, missed);
    // In the hand of one operator and already sent on to the next.
    assert_eq!(outcome.memory_peak_bytes, 2 * 100);
}

#[test]
fn memory_at_its_bound_stops_the_sources_of_the_machine() {
    let jobs = || workload(vec![job("a", 100, 10.0, &[0, 1]), job("b", 100, 10.0, &[2, 3])]);
    let bound = Setup { memory_bound_bytes: Some(200), ..setup(100) };
    let outcome = run(jobs(), "fifo", bound);
    // Above the bound: b's first row, for it had none, and the one that is sent on before it is let go.
    assert_eq!(outcome.memory_peak_bytes, 400);
    assert_eq!(outcome.queries[0].rows_out + outcome.queries[1].rows_out, 4);
    assert_eq!(run(jobs(), "fifo", setup(100)).memory_peak_bytes, 500);
}

/// Bytes at every sample once the bound has been reached, of a source that always has more than the core can do.
fn bytes_at_the_bound(policy: &'static str) -> Vec<u64> {
    // Rows of 100 bytes come every ms and take 10.
    let at_ms: Vec<u64> = (0..300).collect();
    let bound = Setup { memory_bound_bytes: Some(1_000), sample: Duration::from_millis(10), ..setup(1_000) };
    let outcome = run(workload(vec![job("greedy", 50, 10.0, &at_ms)]), policy, bound);
    assert!(outcome.memory_peak_bytes <= 1_000 + 100);
    // What is done does not suffer: the core is never idle.
    assert_eq!(outcome.queries[0].rows_out, 100, "{policy}");
    let full = outcome.samples.iter().skip_while(|sample| sample.bytes < 800);
    full.map(|sample| sample.bytes).collect()
}

#[test]
fn memory_falls_under_a_source_at_full_speed_where_a_rank_frees_it() {
    // Every byte that comes free is filled again.
    assert!(bytes_at_the_bound("fcfs").iter().all(|&bytes| bytes >= 800));
    for policy in ["klink", "memory", "laxity"] {
        let bytes = bytes_at_the_bound(policy);
        // From 800 down to 400, again and again.
        assert!(bytes.iter().all(|&bytes| bytes <= 900), "{policy}: {bytes:?}");
        assert!(bytes.iter().filter(|&&bytes| bytes <= 500).count() > 10, "{policy}: {bytes:?}");
    }
    assert!(bytes_at_the_bound("klink:no-memory").iter().all(|&bytes| bytes >= 800));
}

#[test]
fn a_chain_is_drained_or_left() {
    let jobs = || workload(vec![job("long", 100, 10.0, &[0, 1, 2])]);
    let left = run(jobs(), "llf", setup(15));
    assert_eq!((left.queries[0].rows_out, left.queries[0].rows_queued, left.ended.0), (1, 1, 15 * MS));
    let drained = run(jobs(), "llf", Setup { drain: true, ..setup(15) });
    assert_eq!((drained.queries[0].rows_out, drained.queries[0].rows_queued), (3, 0));
    assert_eq!(drained.ended.0, 30 * MS);
}

#[test]
fn two_cores_are_used_by_two_operators() {
    let jobs =
        workload(vec![job("a", 100, 10.0, &[0]), job("b", 100, 10.0, &[0]), job("c", 100, 10.0, &[0])]);
    let config = Config { quantum_ns: 100 * MS, ..Config::default() };
    let two = Setup { cluster: Cluster::one(2), config, ..setup(100) };
    assert_eq!(written(&run(jobs, "fifo", two)), [(0, 10.0), (1, 10.0), (2, 20.0)]);
}

fn os(duration_ms: u64) -> Setup {
    Setup { driver: Driver::OsThreads(OsThreads::default()), ..setup(duration_ms) }
}

#[test]
fn threads_share_a_core_by_slices() {
    // Two threads with 9 ms of work each take turns of 3 ms. All else costs nothing.
    let jobs = || workload(vec![job("a", 100, 9.0, &[0]), job("b", 100, 9.0, &[0])]);
    let outcome = run(jobs(), "fifo", os(100));
    let slices: Vec<(u32, f64, f64)> = outcome
        .timeline
        .as_ref()
        .unwrap()
        .iter()
        .filter(|slice| slice.end > slice.start)
        .map(|slice| (slice.query.0, slice.start.0 as f64 / 1e6, slice.end.0 as f64 / 1e6))
        .map(|(query, start, end)| (query, start.round(), end.round()))
        .collect();
    assert_eq!(
        slices,
        [(0, 0.0, 3.0), (1, 3.0, 6.0), (0, 6.0, 9.0), (1, 9.0, 12.0), (0, 12.0, 15.0), (1, 15.0, 18.0)]
    );
    assert_eq!(outcome.busy_ns, 18 * MS);
    assert_eq!((outcome.queries[0].rows_out, outcome.queries[1].rows_out), (1, 1));
    // What a thread waits for between its slices is queueing, not work.
    let parts = outcome.queries[0].lateness;
    assert_eq!((parts.results, parts.met), (1, 1));
}

#[test]
fn a_thread_that_wakes_goes_before_one_that_runs_on() {
    let jobs = || workload(vec![job("long", 1_000, 50.0, &[0]), job("short", 1_000, 1.0, &[10, 20])]);
    let outcome = run(jobs(), "fifo", os(200));
    let short: Vec<f64> =
        written(&outcome).into_iter().filter(|(query, _)| *query == 1).map(|(_, at)| at).collect();
    // The source's thread and then the worker's have been asleep: each is due before the long one's next slice.
    assert!(short.iter().zip([10.0, 20.0]).all(|(at, due)| (0.9..4.1).contains(&(at - due))), "{short:?}");
}

/// An operator of 2 ms that sleeps 10 ms before, at 0; and one of 3 ms that comes at 1.
fn sleeper_and_worker() -> Workload {
    let free = cost(0.0, 0.0, 0.0);
    let sleep = Sleep { chance_per_row: 1.0, length: Delay::Constant { ns: 10 * MS } };
    let stage = Stage { sleep: Some(sleep), ..Stage::new(rows(1.0), cost(2.0, 0.0, 0.0), 100) };
    let forward = |from| [(from, Partitioning::Forward)];
    let sleeper = query("sleeper", 100)
        .node("source", 1, &[], StageKind::Source, free, None)
        .stage("work", 1, &forward(0), stage, None)
        .node("sink", 1, &forward(1), StageKind::Sink, free, None)
        .feed(0, 0, &[arrival(0, 0, 1, -1)]);
    workload(vec![sleeper, job("worker", 100, 3.0, &[1])])
}

#[test]
fn a_worker_sleeps_with_its_operator() {
    let outcome = run(sleeper_and_worker(), "fifo", setup(100));
    assert_eq!(written(&outcome), [(0, 12.0), (1, 15.0)]);
    // Nobody computes meanwhile.
    assert_eq!((outcome.busy_ns, outcome.asleep_ns, outcome.idle_ns), (5 * MS, 10 * MS, 95 * MS));
    assert_eq!((outcome.queries[0].busy_ns, outcome.results.unwrap()[0].execute_ns), (2 * MS, 12 * MS));
}

#[test]
fn a_thread_that_sleeps_leaves_its_core_to_others() {
    let outcome = run(sleeper_and_worker(), "fifo", os(100));
    assert_eq!(written(&outcome), [(1, 4.0), (0, 12.0)]);
    assert_eq!((outcome.busy_ns, outcome.asleep_ns, outcome.idle_ns), (5 * MS, 0, 95 * MS));
    assert_eq!((outcome.queries[0].busy_ns, outcome.results.unwrap()[1].execute_ns), (2 * MS, 12 * MS));
}

#[test]
fn a_slice_is_over_at_the_timer_interrupt() {
    // Slices of .7 ms on one core are looked at every 4 ms: the first has the core until then, the second is done at 7. Its sink is a
    // thread, too, which has the core when the next interrupt finds the first one's slice over.
    let jobs = workload(vec![job("a", 100, 9.0, &[0]), job("b", 100, 3.0, &[0])]);
    let linux = Setup { driver: Driver::OsThreads(OsThreads::linux(1)), ..setup(100) };
    assert_eq!(written(&run(jobs, "fifo", linux)), [(1, 8.0), (0, 12.0)]);
}

#[test]
fn nice_values_decide_who_gets_the_core() {
    // Two threads with 100 rows of 3 ms each; the urgent one's target makes its nice value the best.
    let backlog = vec![0; 100];
    let jobs = || workload(vec![job("patient", 1_000, 3.0, &backlog), job("urgent", 10, 3.0, &backlog)]);
    let done_but_one = |renice| {
        let driver = Driver::OsThreads(OsThreads { renice, ..OsThreads::default() });
        let outcome = run(jobs(), "fifo", Setup { driver, ..setup(2_000) });
        written(&outcome).into_iter().filter(|(query, _)| *query == 1).map(|(_, at)| at).nth(98).unwrap()
    };
    let fair = done_but_one(None);
    assert!((590.0..601.0).contains(&fair), "in turn with the other: {fair}");
    let renice = Renice {
        period: Duration::from_millis(1),
        rank: laxity_policies::recipe("edf").unwrap(),
        best: -10,
        worst: 0,
    };
    // Weights of 9537 and 1024: the patient one gets 297 · 1024 / 9537 = 32 ms meanwhile, give or take its slices. The
    // last message is left out: once it is in hand nothing is queued, and its thread counts as the least urgent.
    let reniced = done_but_one(Some(renice));
    assert!((300.0..345.0).contains(&reniced), "{reniced}");
}

#[test]
fn rows_that_are_shed_are_counted() {
    let at_ms: Vec<u64> = (0..4_000).collect();
    let jobs = || workload(vec![job("over", 20, 3.0, &at_ms)]);
    let shed = run(jobs(), "laxity", Setup { shed: true, ..setup(4_000) });
    let query = &shed.queries[0];
    assert!(query.rows_shed > 1_000, "a third of the load fits: {}", query.rows_shed);
    assert_eq!(query.rows_in + query.rows_shed, 4_000);
    let kept = run(jobs(), "laxity", setup(4_000));
    assert_eq!(kept.queries[0].rows_shed, 0);
}
