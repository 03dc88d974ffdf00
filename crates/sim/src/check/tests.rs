//! Every rule is broken once, by hand, and the checker of that rule must say so. A checker that cannot fail proves
//! nothing.

use laxity_graph::{
    Dataflow, EventTime, Input, Node, NodeId, Partitioning, ProcessingTime, QuerySettings, WindowShape,
};
use laxity_workload::{Cost, QueryModel, Stage, StageKind};

use super::*;
use crate::Cluster;

const fn at(ns: u64) -> ProcessingTime {
    ProcessingTime(ns)
}

/// Two chains of a source (0, 3), a half-passing filter or window (1, 4), and a sink (2, 5).
fn topology(setup: &Setup) -> Topology {
    let shape = WindowShape { size_ms: 10, slide_ms: 10, end_ms: Some(0) };
    let window =
        StageKind::Window { selectivity: 1.0, rows_max: 10.0, fire_per_row_ns: 0.0, state_row_bytes: 0 };
    let query = |name: &str, kind: StageKind, window| {
        let mut dataflow = Dataflow::new(QuerySettings::named(name));
        let stages = [(StageKind::Source, None), (kind, window), (StageKind::Sink, None)];
        for (place, (kind, window)) in stages.into_iter().enumerate() {
            let inputs = place
                .checked_sub(1)
                .map(|from| Input { from: NodeId(from), partitioning: Partitioning::Forward });
            let node = Node {
                name: format!("node {place}"),
                parallelism: 1,
                inputs: inputs.into_iter().collect(),
                window,
                stage: Stage::new(kind, Cost::NONE, 1),
            };
            dataflow.push(node).unwrap();
        }
        QueryModel { dataflow, feeds: vec![], deployed: at(0) }
    };
    let filter = query("filter", StageKind::Rows { selectivity: 0.5 }, None);
    let windowed = query("window", window, Some(shape));
    Topology::new(&[filter, windowed], &setup.cluster)
}

fn setup() -> Setup {
    let mut setup = Setup { cluster: Cluster::one(2), ..Setup::default() };
    (setup.config.quantum_ns, setup.config.ageing_bound_ns, setup.config.deferral_max_ns) = (100, 1_000, 50);
    setup.config.mailbox_bytes_max = 1_000;
    setup.config.quantum_max_ns = 0;
    setup
}

const TURNS: Promise = Promise { unit: Unit::Operator, bound: Some(WaitBound::Turns), shards: 1 };

/// What the checkers find in such events.
fn found(promise: Promise, events: &[(u64, Event)], ending: impl FnOnce(&mut Ending)) -> Vec<&'static str> {
    let setup = setup();
    let topology = topology(&setup);
    let mut checkers = Checkers::new(&topology, &setup, promise);
    for (ns, event) in events {
        checkers.on(at(*ns), event);
    }
    let mut end = Ending { waiting: vec![0; 6], ..Ending::default() };
    ending(&mut end);
    let last = events.last().map_or(0, |(ns, _)| *ns);
    checkers.end(at(last), &end).into_iter().map(|violation| violation.rule).collect()
}

fn enqueued(operator: u32, message: u64, rows: u32) -> Event {
    Event::Enqueued { machine: 0, operator, channel: 0, message, rows, bytes: 10, ingested: at(0) }
}

fn granted(core: u32, operator: u32, message: u64) -> Event {
    Event::Granted { machine: 0, core, operator, message: Some(message) }
}

fn finished(core: u32, operator: u32, rows_in: u32) -> Event {
    Event::Finished { machine: 0, core, operator, rows_in, late_rows: 0, more: false }
}

/// A source takes ten rows, the filter passes five, the sink writes them.
fn orderly() -> Vec<(u64, Event)> {
    vec![
        (0, enqueued(0, 1, 10)),
        (0, granted(0, 0, 1)),
        (5, Event::Sent { operator: 0, rows: 10 }),
        (5, Event::Watermark { operator: 0, watermark: EventTime(1) }),
        (5, enqueued(1, 2, 10)),
        (5, finished(0, 0, 10)),
        (5, granted(0, 1, 2)),
        (9, Event::Sent { operator: 1, rows: 5 }),
        (9, enqueued(2, 3, 5)),
        (9, finished(0, 1, 10)),
        (9, granted(0, 2, 3)),
        (9, Event::Sent { operator: 2, rows: 5 }),
        (9, finished(0, 2, 5)),
        (9, Event::Idle { machine: 0, core: 0 }),
    ]
}

fn nothing(_: &mut Ending) {}

/// The orderly events with one of them replaced; `None` leaves it out.
fn with(place: usize, event: Option<Event>) -> Vec<(u64, Event)> {
    let mut events = orderly();
    match event {
        Some(event) => events[place].1 = event,
        None => {
            events.remove(place);
        }
    }
    events
}

#[test]
fn order_is_no_violation() {
    assert_eq!(found(TURNS, &orderly(), |end| end.drained = true), [""; 0]);
}

#[test]
fn time_that_runs_back_is_seen() {
    let mut events = orderly();
    events[13].0 = 8;
    assert_eq!(found(TURNS, &events, nothing), ["time never runs back"]);
}

#[test]
fn lost_and_doubled_messages_are_seen() {
    let granted_twice = "a message is granted once, after it was enqueued";
    let again =
        [(0, enqueued(0, 1, 1)), (0, granted(0, 0, 1)), (1, finished(0, 0, 1)), (1, granted(0, 0, 1))];
    assert!(found(TURNS, &again, nothing).contains(&granted_twice));
    let never = [(0, granted(0, 0, 9))];
    assert!(found(TURNS, &never, nothing).contains(&granted_twice));
    let elsewhere = [(0, enqueued(0, 1, 1)), (0, granted(0, 3, 1))];
    assert!(found(TURNS, &elsewhere, nothing).contains(&"a message is granted to its operator"));
    let enqueued_twice = [(0, enqueued(0, 1, 1)), (0, enqueued(0, 1, 1))];
    assert!(found(TURNS, &enqueued_twice, |end| end.waiting[0] = 1).contains(&"a message is enqueued once"));
    // Enqueued, not granted, and nobody has it.
    assert_eq!(found(TURNS, &[(0, enqueued(0, 1, 1))], nothing), ["no message is lost"]);
    assert_eq!(found(TURNS, &[(0, enqueued(0, 1, 1))], |end| end.waiting[0] = 1), [""; 0]);
    let left = |end: &mut Ending| (end.waiting[0], end.drained) = (1, true);
    assert_eq!(found(TURNS, &[(0, enqueued(0, 1, 1))], left), ["what is drained has nothing left"]);
}

#[test]
fn a_channel_out_of_order_is_seen() {
    let events = [
        (0, enqueued(0, 1, 0)),
        (0, enqueued(0, 2, 0)),
        (0, granted(0, 0, 2)),
        (1, finished(0, 0, 0)),
        (1, granted(0, 0, 1)),
    ];
    assert_eq!(found(TURNS, &events, nothing), ["messages of a channel are granted in the order enqueued"]);
}

#[test]
fn an_operator_on_two_cores_is_seen() {
    let twice =
        [(0, enqueued(0, 1, 0)), (0, enqueued(0, 2, 0)), (0, granted(0, 0, 1)), (0, granted(1, 0, 2))];
    assert!(found(TURNS, &twice, nothing).contains(&"an operator runs on one core at a time"));
    let two = [(0, enqueued(0, 1, 0)), (0, enqueued(3, 2, 0)), (0, granted(0, 0, 1)), (0, granted(0, 3, 2))];
    assert!(found(TURNS, &two, nothing).contains(&"a core runs one operator at a time"));
    assert!(found(TURNS, &[(0, finished(0, 0, 0))], nothing).contains(&"a run that ends has begun"));
    let idle = [(0, enqueued(0, 1, 0)), (0, granted(0, 0, 1)), (0, Event::Idle { machine: 0, core: 0 })];
    assert!(found(TURNS, &idle, nothing).contains(&"a core that runs is not idle"));
    let left = Event::Finished { machine: 0, core: 0, operator: 0, rows_in: 0, late_rows: 0, more: true };
    let skipped = [
        (0, enqueued(0, 1, 0)),
        (0, enqueued(0, 2, 0)),
        (0, granted(0, 0, 1)),
        (1, left),
        (1, granted(0, 0, 2)),
    ];
    assert!(
        found(TURNS, &skipped, nothing).contains(&"an operator finishes a message before it takes the next")
    );
}

#[test]
fn an_idle_core_beside_a_ready_unit_is_seen() {
    let idle = |events: &[(u64, Event)]| {
        let setup = setup();
        let topology = topology(&setup);
        let mut checkers = Checkers::new(&topology, &setup, TURNS);
        events.iter().for_each(|(ns, event)| checkers.on(at(*ns), event));
        checkers.settled(0, 1);
        checkers.found.violations.len()
    };
    assert_eq!(idle(&[(0, enqueued(0, 1, 1))]), 1);
    assert_eq!(idle(&[(0, enqueued(0, 1, 1)), (0, granted(0, 0, 1))]), 0);
    // Its thread sleeps, until it has slept.
    let left = Event::Finished { machine: 0, core: 0, operator: 0, rows_in: 0, late_rows: 0, more: true };
    let asleep =
        [(0, enqueued(0, 1, 1)), (0, granted(0, 0, 1)), (0, left), (0, Event::Slept { operator: 0 })];
    assert_eq!(idle(&asleep), 0);
    assert_eq!(idle(&[&asleep[..], &[(9, Event::Woke { operator: 0 })]].concat()), 1);
    // The mailbox below is full: it may be blocked.
    let full = Event::Enqueued {
        machine: 0,
        operator: 1,
        channel: 0,
        message: 2,
        rows: 1,
        bytes: 2_000,
        ingested: at(0),
    };
    assert_eq!(idle(&[(0, full), (0, granted(0, 1, 2)), (0, enqueued(0, 1, 1))]), 1, "taken, so not full");
    let more = Event::Enqueued {
        machine: 0,
        operator: 1,
        channel: 0,
        message: 3,
        rows: 1,
        bytes: 2_000,
        ingested: at(0),
    };
    assert_eq!(idle(&[(0, full), (0, granted(0, 1, 2)), (0, more), (0, enqueued(0, 1, 1))]), 0);
}

#[test]
fn who_waits_too_long_is_seen() {
    let rule = "a ready unit waits no longer than its rank says";
    // A turn is 100 ns and what one run takes; one unit waits at most, and there are two cores.
    let waited = |ns: u64| [(0, enqueued(3, 1, 0)), (ns, granted(0, 3, 1))];
    assert_eq!(found(TURNS, &waited(300), nothing), [""; 0]);
    assert_eq!(found(TURNS, &waited(301), nothing), [rule]);
    let ageing = Promise { bound: Some(WaitBound::Ageing), ..TURNS };
    assert_eq!(found(ageing, &waited(1_000 + 4 * 4 * 100), nothing), [""; 0]);
    assert_eq!(found(ageing, &waited(1_001 + 4 * 4 * 100), nothing), [rule]);
    // Also who was never served.
    let never = [(0, enqueued(3, 1, 0)), (5_000, Event::Idle { machine: 0, core: 0 })];
    assert_eq!(found(TURNS, &never, |end| end.waiting[3] = 1), [rule]);
}

#[test]
fn who_passes_an_earlier_deadline_is_seen() {
    let deadline = Promise { bound: Some(WaitBound::Deadline), ..TURNS };
    // Operator 3 waits since 0, with a target of 60 s and at most 50 ns of deferral.
    let due = 60_000_000_050;
    let later = |ingested: u64| {
        let message = Event::Enqueued {
            machine: 0,
            operator: 0,
            channel: 0,
            message: 2,
            rows: 0,
            bytes: 0,
            ingested: at(ingested),
        };
        let ends = |end: &mut Ending| end.waiting[3] = 1;
        found(deadline, &[(0, enqueued(3, 1, 0)), (due, message), (due + 1, granted(0, 0, 2))], ends)
    };
    assert_eq!(later(due), [""; 0]);
    assert_eq!(later(due + 1), ["where deadlines rule, nothing goes before what was due before it came"]);
}

#[test]
fn a_query_on_two_cores_is_seen_where_queries_are_units() {
    let query = Promise { unit: Unit::Query, bound: None, shards: 1 };
    let events =
        [(0, enqueued(0, 1, 0)), (0, enqueued(1, 2, 0)), (0, granted(0, 0, 1)), (0, granted(1, 1, 2))];
    assert_eq!(found(query, &events, nothing), ["a unit is with one core at a time"]);
    assert_eq!(found(Promise { bound: None, ..TURNS }, &events, nothing), [""; 0]);
}

#[test]
fn rows_and_watermarks_that_go_wrong_are_seen() {
    let selectivity = "rows out are rows in times selectivity";
    let arrive = "rows that are sent arrive";
    // Three of five.
    let short = with(7, Some(Event::Sent { operator: 1, rows: 3 }));
    assert_eq!(found(TURNS, &short, nothing), [selectivity, arrive]);
    // Sent and not arrived, unless they are on the way.
    let mut lost = orderly();
    lost.truncate(10);
    lost.remove(8);
    assert_eq!(found(TURNS, &lost, nothing), [arrive]);
    assert_eq!(found(TURNS, &lost, |end| end.travelling_rows = vec![0, 5]), [""; 0]);
    let taken = with(5, Some(finished(0, 0, 11)));
    assert!(found(TURNS, &taken, nothing).contains(&"rows taken in were enqueued"));
    let mut back = orderly();
    back.push((9, Event::Watermark { operator: 0, watermark: EventTime(1) }));
    assert_eq!(found(TURNS, &back, nothing), ["watermarks only rise"]);
    // Ten rows go into a window.
    let windowed = [
        (0, enqueued(4, 1, 10)),
        (0, granted(0, 4, 1)),
        (1, Event::Finished { machine: 0, core: 0, operator: 4, rows_in: 10, late_rows: 2, more: false }),
    ];
    let ends = |held: u64, closed: u64| {
        let mut events = windowed.to_vec();
        // What came from nowhere is not this test's matter.
        events.insert(0, (0, Event::Sent { operator: 3, rows: 10 }));
        found(TURNS, &events, |end| {
            end.held_rows = vec![0, 0, 0, 0, held, 0];
            end.closed_rows = vec![0, 0, 0, 0, closed, 0];
        })
    };
    assert_eq!(ends(5, 3), [""; 0]);
    assert_eq!(ends(5, 4), ["rows taken in are held, late, or of a closed window"]);
}
