//! The worked examples of the Cameo paper, and the cases where its formulas are not taken literally.
//! Cannot catch: anything about order under load; that is the harness.

use std::sync::{Arc, Mutex};

use laxity_graph::{EventTime, OperatorId, ProcessingTime, QueryId, WindowShape, WorkerId};
use laxity_sched::{
    CORE, Composition, Config, Frontier, Llf, Message, MessageContext, Needs, OperatorSpec, QuerySpec, Rank,
    RunReport, Scheduler, Work,
};

const SECOND_NS: u64 = 1_000_000_000;

fn seconds(s: u64) -> ProcessingTime {
    ProcessingTime(s * SECOND_NS)
}

fn query(id: u32, target_ns: u64) -> QuerySpec {
    QuerySpec { id: QueryId(id), target_ns, weight: 1.0, qos: None }
}

fn operator(id: u32, upstream: &[u32], window: Option<WindowShape>) -> OperatorSpec {
    OperatorSpec {
        id: OperatorId(id),
        query: QueryId(0),
        upstream: upstream.iter().copied().map(OperatorId).collect(),
        window,
        channels: 1,
    }
}

fn message(to: u32, progress_ms: i64, ingested: ProcessingTime, rows: u32) -> Message<()> {
    let (to, progress) = (OperatorId(to), EventTime(progress_ms));
    Message { to, channel: 0, progress, ingested, rows, bytes: 0, body: () }
}

/// Ranks as llf and keeps the contexts it saw.
#[derive(Debug, Clone, Default)]
struct Spy(Arc<Mutex<Vec<MessageContext>>>);

impl Spy {
    fn last(&self) -> MessageContext {
        *self.0.lock().unwrap().last().expect("no message was ranked")
    }
}

impl Rank for Spy {
    fn needs(&self) -> Needs {
        Llf.needs()
    }

    fn message(&mut self, context: &MessageContext) -> f64 {
        self.0.lock().unwrap().push(*context);
        Llf.message(context)
    }
}

#[test]
fn figure_4_start_deadline_is_60() {
    let context = MessageContext {
        operator: OperatorId(0),
        query: QueryId(0),
        is_source: true,
        is_from_outside: true,
        now: ProcessingTime(30),
        ingested: ProcessingTime(30),
        frontier: ProcessingTime(30),
        target_ns: 50,
        cost_ns: 20,
        path_cost_ns: 0,
        rows: 1,
        weight: 1.0,
    };
    assert_eq!(Llf.message(&context), 60.0);
    assert_eq!(context.deadline(), ProcessingTime(80));
}

#[test]
fn tumbling_window_of_10_s_with_2_s_delay() {
    let mut frontier = Frontier::default();
    for s in 0..30 {
        frontier.observe(EventTime(s * 1_000 / 2), ProcessingTime(s as u64 * SECOND_NS / 2 + 2 * SECOND_NS));
    }
    let near = |p_s: i64, t_s: u64| {
        let t = frontier.predict(EventTime(p_s * 1_000)).expect("the line is exact");
        assert!(t.0.abs_diff(t_s * SECOND_NS) < 1_000, "p = {p_s} s came out at {t:?}");
    };
    near(1, 3);
    near(11, 13);
    near(21, 23);
}

const TUMBLE_10_S: Option<WindowShape> =
    Some(WindowShape { size_ms: 10_000, slide_ms: 10_000, end_ms: Some(0) });

/// A source and a window of 10 s; event time runs 2 s behind; 20 s have been seen.
fn windowed(topology_only: bool) -> (Scheduler<()>, Spy) {
    let spy = Spy::default();
    let composition = Composition { topology_only, ..Composition::of(spy.clone()) };
    let mut scheduler = Scheduler::new(composition, Config::default());
    scheduler.add_query(query(0, SECOND_NS));
    scheduler.add_operator(operator(0, &[], None));
    scheduler.add_operator(operator(1, &[0], TUMBLE_10_S));
    for s in 0..20 {
        scheduler.on_message(message(0, s * 1_000, seconds(s as u64 + 2), 10), seconds(s as u64 + 2));
    }
    (scheduler, spy)
}

fn frontier_of(scheduler: &mut Scheduler<()>, spy: &Spy, progress_ms: i64, at_s: u64, rows: u32) -> f64 {
    scheduler.on_message(message(1, progress_ms, seconds(at_s), rows), seconds(at_s));
    spy.last().frontier.0 as f64 / SECOND_NS as f64
}

#[test]
fn rows_of_an_open_window_wait_for_its_end_and_the_closer_does_not() {
    let (mut scheduler, spy) = windowed(false);
    let mut frontier = |progress_ms, at_s, rows| frontier_of(&mut scheduler, &spy, progress_ms, at_s, rows);
    // Nothing is known of the channel yet: regular.
    assert_eq!(frontier(20_500, 22, 10), 22.0);
    // Window [20, 30) closes at event time 30, which the source reaches at 32.
    assert!((frontier(21_000, 23, 10) - 32.0).abs() < 1e-3);
    // A watermark that closes nothing may wait as well, the first one excepted.
    assert_eq!(frontier(20_000, 23, 0), 23.0);
    assert!((frontier(21_000, 24, 0) - 32.0).abs() < 1e-3);
    // Rows that cross the end, and the watermark that does so later, are wanted at once. Literally, TRANSFORM
    // would defer both to 42.
    assert_eq!(frontier(30_200, 33, 10), 33.0);
    assert!((frontier(30_300, 33, 10) - 42.0).abs() < 1e-3);
    assert_eq!(frontier(29_999, 34, 0), 34.0);
    // Late by more than the fit expects: never earlier than t_M.
    assert_eq!(frontier(30_400, 50, 10), 50.0);
    // The end of the input closes everything.
    assert_eq!(frontier(i64::MAX, 51, 0), 51.0);
}

#[test]
fn the_closer_makes_what_stands_before_it_as_urgent() {
    let (mut scheduler, spy) = windowed(false);
    frontier_of(&mut scheduler, &spy, 20_500, 22, 10);
    let grant = scheduler.next(WorkerId(0), seconds(22)).unwrap();
    assert_eq!(grant.operator, OperatorId(0), "the source's backlog is older");
    // Another operator, whose work is due between the window's end and the closer.
    scheduler.add_operator(operator(2, &[], None));
    scheduler.on_message(message(2, 0, seconds(23), 10), seconds(23));
    let picks = |scheduler: &mut Scheduler<()>| {
        let mut order = Vec::new();
        while let Some(grant) = scheduler.next(WorkerId(1), seconds(60)) {
            order.push(grant.operator.0);
            scheduler.on_finished(WorkerId(1), RunReport::default(), seconds(60));
        }
        order
    };
    assert_eq!(picks(&mut scheduler), [1, 2]);
    scheduler.on_message(message(1, 21_000, seconds(23), 10), seconds(23));
    scheduler.on_message(message(2, 0, seconds(24), 10), seconds(24));
    // Rows due with the end of the window at 32 go behind the other's at 24 …
    assert_eq!(picks(&mut scheduler), [2, 1]);
    // … unless the watermark that closes the window stands behind them.
    scheduler.on_message(message(1, 19_000, seconds(23), 0), seconds(23));
    picks(&mut scheduler);
    scheduler.on_message(message(1, 21_500, seconds(23), 10), seconds(23));
    scheduler.on_message(message(1, 20_000, seconds(23), 0), seconds(23));
    scheduler.on_message(message(2, 0, seconds(24), 10), seconds(24));
    assert_eq!(picks(&mut scheduler), [1, 1, 2]);
}

#[test]
fn topology_only_defers_nothing() {
    let (mut scheduler, spy) = windowed(true);
    frontier_of(&mut scheduler, &spy, 20_500, 22, 10);
    assert_eq!(frontier_of(&mut scheduler, &spy, 21_000, 23, 10), 23.0);
}

#[test]
fn a_window_below_one_of_equal_slide_is_regular() {
    let (mut scheduler, spy) = windowed(false);
    scheduler.add_operator(operator(2, &[1], TUMBLE_10_S));
    scheduler.add_operator(operator(
        3,
        &[2],
        Some(WindowShape { size_ms: 20_000, slide_ms: 20_000, end_ms: Some(0) }),
    ));
    for (to, expected) in [(2, 23.0), (3, 42.0)] {
        scheduler.on_message(message(to, 20_500, seconds(22), 1), seconds(22));
        scheduler.on_message(message(to, 20_600, seconds(23), 1), seconds(23));
        let frontier = spy.last().frontier.0 as f64 / 1e9;
        assert!((frontier - expected).abs() < 1e-3, "operator {to} got {frontier}");
    }
}

#[test]
fn a_wrong_fit_defers_no_further_than_the_bound() {
    let (mut scheduler, spy) = windowed(false);
    let month_ms = 30 * 86_400_000;
    scheduler.add_operator(operator(
        2,
        &[0],
        Some(WindowShape { size_ms: month_ms, slide_ms: month_ms, end_ms: Some(0) }),
    ));
    scheduler.on_message(message(2, 20_500, seconds(22), 1), seconds(22));
    scheduler.on_message(message(2, 20_600, seconds(22), 1), seconds(22));
    assert_eq!(spy.last().frontier, seconds(22 + 60));
}

#[test]
fn path_costs_travel_one_hop_up_per_finished_run() {
    // 0 feeds 1 and 2; 2 feeds 3.
    let mut scheduler = Scheduler::new(CORE.recipe("fifo").unwrap().compose(), Config::default());
    scheduler.add_query(query(0, SECOND_NS));
    for (id, upstream) in [(0, vec![]), (1, vec![0]), (2, vec![0]), (3, vec![2])] {
        scheduler.add_operator(operator(id, &upstream, None));
    }
    let prior = scheduler.cost_ns(OperatorId(1), 500);
    assert_eq!(scheduler.path_cost_ns(OperatorId(0)), 2 * prior, "the longer path counts from the start");
    let mut run = |id: u32, cpu_ns: u64| {
        for _ in 0..2_000 {
            scheduler.on_message(message(id, 0, seconds(1), 1), seconds(1));
            let grant = scheduler.next(WorkerId(0), seconds(1)).unwrap();
            assert_eq!(grant.operator, OperatorId(id));
            let report = RunReport { rows_in: 1, rows_out: 1, cpu_ns, more: false };
            scheduler.on_finished(WorkerId(0), report, seconds(1));
        }
        [0, 2].map(|id| scheduler.path_cost_ns(OperatorId(id)))
    };
    let near = |got: u64, expected: u64| got.abs_diff(expected) <= expected / 32;
    // 3 costs 9 ms: 2 learns of it at once, 0 only when 2 has run.
    let [top, two] = run(3, 9_000_000);
    assert!(near(two, 9_000_000) && top == 2 * prior, "{top} {two}");
    let [top, _] = run(2, 1_000_000);
    assert!(near(top, 10_000_000), "{top}");
    // 1 becomes the dearest path, then a cheap one again.
    assert!(near(run(1, 40_000_000)[0], 40_000_000));
    assert!(near(run(1, 1_000)[0], 10_000_000));
}

#[test]
fn a_resumption_counts_with_its_message() {
    let mut scheduler = Scheduler::new(CORE.recipe("llf").unwrap().compose(), Config::default());
    scheduler.add_query(query(0, SECOND_NS));
    scheduler.add_operator(operator(0, &[], None));
    for _ in 0..1_000 {
        scheduler.on_message(message(0, 0, seconds(1), 100), seconds(1));
        for (more, resumed) in [(true, false), (true, true), (false, true)] {
            let grant = scheduler.next(WorkerId(0), seconds(1)).unwrap();
            assert_eq!(matches!(grant.work, Work::Resume), resumed);
            let rows_in = if resumed { 0 } else { 100 };
            let report = RunReport { rows_in, rows_out: 50, cpu_ns: 1_000_000, more };
            scheduler.on_finished(WorkerId(0), report, seconds(1));
        }
        assert!(scheduler.next(WorkerId(0), seconds(1)).is_none());
    }
    assert!(scheduler.cost_ns(OperatorId(0), 100).abs_diff(3_000_000) < 10_000);
    assert!((scheduler.selectivity(OperatorId(0)) - 1.5).abs() < 0.01);
}
