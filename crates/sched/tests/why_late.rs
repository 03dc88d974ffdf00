//! The account of lateness, driven by the scheduler in virtual time, with every number computed by hand.
//! Cannot catch: stamps that an engine forgets to carry.

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{
    CORE, Cause, Config, Lateness, Message, OperatorSpec, Parts, QuerySpec, RunReport, Scheduler, Stamps,
    Work,
};

const MS: u64 = 1_000_000;
const URGENT: u32 = 3;
const URGENT_TARGET_NS: u64 = 15 * MS;

/// Three heavy queries with 10 ms of work each, there from the start; an urgent one whose row, due at 1 ms, is read at
/// 2 ms, costs 1 ms and takes 0.5 ms to write. One worker. What becomes of the urgent result?
fn urgent_result(policy: &str) -> Parts {
    let mut scheduler = Scheduler::new(CORE.recipe(policy).unwrap().compose(), Config::default());
    for id in 0..=URGENT {
        let target_ns = if id == URGENT { URGENT_TARGET_NS } else { 1_000 * MS };
        scheduler.add_query(QuerySpec { id: QueryId(id), target_ns, weight: 1.0, qos: None });
        scheduler.add_operator(OperatorSpec {
            id: OperatorId(id),
            query: QueryId(id),
            upstream: vec![],
            window: None,
            channels: 1,
        });
    }
    let message = |id: u32, stamps: Stamps| Message {
        to: OperatorId(id),
        channel: 0,
        progress: EventTime(0),
        ingested: stamps.ingested,
        rows: 1,
        bytes: 0,
        body: stamps,
    };
    let mut now = ProcessingTime::ZERO;
    for id in 0..URGENT {
        scheduler.on_message(message(id, Stamps::admitted(now, now)), now);
    }
    let mut urgent = Some(Stamps::admitted(ProcessingTime(MS), ProcessingTime(2 * MS)));
    let worker = WorkerId(0);
    while let Some(grant) = scheduler.next(worker, now) {
        let Work::Message { message: taken, enqueued } = grant.work else { panic!("nothing was left") };
        let cpu_ns = if grant.operator == OperatorId(URGENT) { MS } else { 10 * MS };
        let finished = now.plus_ns(cpu_ns);
        // It arrives while the first heavy message runs.
        if let Some(stamps) = urgent.take() {
            scheduler.on_message(message(URGENT, stamps), stamps.admitted);
        }
        let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns, more: false };
        scheduler.on_finished(worker, report, finished);
        if grant.operator == OperatorId(URGENT) {
            return taken.body.hop(enqueued, now, finished).parts(finished, finished.plus_ns(MS / 2));
        }
        now = finished;
    }
    panic!("the urgent message was lost");
}

#[test]
fn fifo_makes_it_wait_for_all_three() {
    let parts = urgent_result("fifo");
    let expected =
        Parts { source_ns: MS, queue_ns: 28 * MS, execute_ns: MS, frontier_ns: 0, sink_ns: MS / 2 };
    assert_eq!(parts, expected);
    let mut lateness = Lateness::default();
    assert!(!lateness.record(URGENT_TARGET_NS, parts));
    assert_eq!(parts.cause(), Cause::Queue);
    // 28 of 30.5 ms.
    assert!((lateness.share(Cause::Queue) - 28.0 / 30.5).abs() < 1e-12);
}

#[test]
fn llf_makes_it_wait_for_the_one_that_runs() {
    let parts = urgent_result("llf");
    let expected = Parts { source_ns: MS, queue_ns: 8 * MS, execute_ns: MS, frontier_ns: 0, sink_ns: MS / 2 };
    assert_eq!(parts, expected);
    assert!(Lateness::default().record(URGENT_TARGET_NS, parts));
}
