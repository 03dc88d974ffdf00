//! Klink through the scheduler, in virtual time: the thesis' Fig. 1.1, and how long anybody waits. Cannot catch: how
//! it does on the papers' workloads; that is the simulator's.

use std::collections::BTreeMap;

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowShape, WorkerId};
use laxity_policies::recipe;
use laxity_sched::{Config, Message, OperatorSpec, QuerySpec, RunReport, Scheduler, WaitBound, Work};

const SECOND_NS: u64 = 1_000_000_000;
const WORKER: WorkerId = WorkerId(0);

fn seconds(s: u64) -> ProcessingTime {
    ProcessingTime(s * SECOND_NS)
}

fn add_window(scheduler: &mut Scheduler<i64>, id: u32, slide_ms: i64) {
    scheduler.add_query(QuerySpec { id: QueryId(id), target_ns: SECOND_NS, weight: 1.0, qos: None });
    scheduler.add_operator(OperatorSpec {
        id: OperatorId(id),
        query: QueryId(id),
        upstream: vec![],
        window: Some(WindowShape { size_ms: slide_ms, slide_ms, end_ms: Some(0) }),
        channels: 1,
    });
}

/// A single row; `body` is the second it is named after.
fn event(window: u32, progress: EventTime, at: ProcessingTime, body: i64) -> Message<i64> {
    Message { to: OperatorId(window), channel: 0, progress, ingested: at, rows: 1, bytes: 1, body }
}

const UNIT: RunReport = RunReport { rows_in: 1, rows_out: 0, cpu_ns: SECOND_NS, more: false };

/// W1 spans 7 s and has the events 2, 3, 4, 5, 7; W2 spans 6 s and has 1, 2, 3, 6. Each takes a second, on one core;
/// event e is there from e − 1 on. The last event of a window releases it. Answers the order of events as (window,
/// event), and the latency of W1 and of W2: output less end of the window, in seconds.
///
/// Before that, windows have come and gone for more than an hour, so that costs and delays are known.
fn figure_1_1(policy: &str) -> (Vec<(u32, i64)>, [i64; 2]) {
    const START_S: u64 = 42 * 100;
    let slides_s = [7, 6];
    let mut scheduler = Scheduler::new(recipe(policy).unwrap().compose(), Config::default());
    add_window(&mut scheduler, 0, 7_000);
    add_window(&mut scheduler, 1, 6_000);
    for s in 0..START_S {
        for window in 0..2 {
            let slide_s = slides_s[window as usize];
            if (s + 1) % slide_s == 0 {
                let end = EventTime((s as i64 + 1) * 1_000 - 1);
                scheduler.on_progress(OperatorId(window), end, seconds(s));
            }
            if s % 2 == u64::from(window) && s < 4_000 {
                scheduler.on_message(event(window, EventTime::MIN, seconds(s), 0), seconds(s));
            }
        }
        if scheduler.next(WORKER, seconds(s)).is_some() {
            scheduler.on_finished(WORKER, UNIT, seconds(s + 1));
        }
    }
    let (mut order, mut latencies_s) = (Vec::new(), [-1; 2]);
    for slot in 0..9 {
        let now = seconds(START_S + slot);
        for (window, events) in [(0, &[2, 3, 4, 5, 7][..]), (1, &[1, 2, 3, 6])] {
            let here = slot as i64 + 1;
            if !events.contains(&here) {
                continue;
            }
            let watermark = EventTime((START_S as i64 + here) * 1_000 - 1);
            scheduler.on_message(event(window, watermark, now, here), now);
            if Some(&here) == events.last() {
                scheduler.on_progress(OperatorId(window), watermark, now);
            }
        }
        let grant = scheduler.next(WORKER, now).expect("something waits in every slot");
        let Work::Message { message, .. } = grant.work else { panic!("nothing resumes") };
        let (window, second) = (grant.operator.0, message.body);
        order.push((window + 1, second));
        let end = slides_s[window as usize] as i64;
        if second == end {
            latencies_s[window as usize] = slot as i64 + 1 - end;
        }
        scheduler.on_finished(WORKER, UNIT, seconds(START_S + slot + 1));
    }
    assert!(scheduler.next(WORKER, seconds(START_S + 9)).is_none());
    (order, latencies_s)
}

#[test]
fn thesis_figure_1_1() {
    // "FCFS initially consumes event 1 … alternates between the two … output is emitted at time 8 seconds".
    let (order, latencies_s) = figure_1_1("fcfs");
    assert_eq!(order, [(2, 1), (1, 2), (2, 2), (1, 3), (2, 3), (1, 4), (1, 5), (2, 6), (1, 7)]);
    assert_eq!(latencies_s, [2, 2]);
    // "Klink processes all of W2's events within the window's deadline"; W1 has its 2 seconds either way: mean 1.
    for policy in ["klink:1s", "klink:1s:no-memory"] {
        let (order, latencies_s) = figure_1_1(policy);
        assert_eq!(order[..2], [(2, 1), (2, 2)], "{policy}");
        assert_eq!(order[6..], [(1, 4), (1, 5), (1, 7)], "{policy}");
        assert_eq!(latencies_s, [2, 0], "{policy}");
    }
}

/// One query, of a window a day long, has one message; seven others are always overdue, and have always work. How
/// long does the one wait?
fn wait_behind_the_overdue(policy: &str, ageing_bound_ns: u64) -> u64 {
    const RUN_NS: u64 = 1_000_000;
    let config = Config { ageing_bound_ns, ..Config::default() };
    let mut scheduler: Scheduler<i64> = Scheduler::new(recipe(policy).unwrap().compose(), config);
    add_window(&mut scheduler, 0, 86_400_000);
    (1..8).for_each(|id| add_window(&mut scheduler, id, 100));
    let day = EventTime(86_400_000 * 20_000);
    let mut now = seconds(1);
    for id in 0..8 {
        for n in 0..2 {
            let watermark = EventTime(day.0 + 1_000 * n);
            scheduler.on_progress(OperatorId(id), watermark, now.plus_ns(n as u64 * SECOND_NS));
        }
    }
    // From here on no watermark comes: the seven wait for theirs.
    now = seconds(3);
    scheduler.on_memory(90, 100);
    for id in 0..8 {
        scheduler.on_message(event(id, EventTime::MIN, now, 0), now);
    }
    let started = now;
    let mut runs = BTreeMap::new();
    while now.since_ns(started) < 20 * ageing_bound_ns {
        let operator = scheduler.next(WORKER, now).expect("there is always work").operator;
        *runs.entry(operator.0).or_insert(0) += 1;
        if operator == OperatorId(0) {
            return now.since_ns(started);
        }
        now = now.plus_ns(RUN_NS);
        scheduler.on_message(event(operator.0, EventTime::MIN, now, 0), now);
        let report = RunReport { rows_in: 1, rows_out: 0, cpu_ns: RUN_NS, more: false };
        scheduler.on_finished(WORKER, report, now);
    }
    panic!("{policy} starved it: {runs:?}");
}

#[test]
fn the_last_in_line_waits_for_the_ageing_bound_and_those_that_aged_before_it() {
    for policy in ["klink", "klink-no-memory", "sbox", "memory", "klink:5ms", "sbox:5ms", "memory:5ms"] {
        for bound_ns in [SECOND_NS / 2, 2 * SECOND_NS] {
            let needs = recipe(policy).unwrap().compose().rank.needs();
            assert_eq!(needs.bound, WaitBound::Ageing);
            let wait_ns = wait_behind_the_overdue(policy, bound_ns);
            // A turn is a quantum and the run that ends after it.
            let turn_ns = 2 * 1_000_000;
            assert!(wait_ns <= bound_ns + 8 * turn_ns, "{policy}: {wait_ns} of {bound_ns}");
            // Without the guard it would have starved, but where memory decides, which does not see windows.
            assert!(wait_ns >= bound_ns || policy.starts_with("memory"), "{policy}: {wait_ns}");
        }
    }
}
