//! Agents that hand each other their reports. Cannot catch: what becomes of them on the way.

use laxity_graph::WindowShape;

use super::*;
use crate::topology::tests::chains;
use crate::{Policy, Wishes};

const SECOND_NS: u64 = 1_000_000_000;
const STALE: Duration = Duration::from_secs(5);

/// A job of three operators, the last of which closes windows, as a machine sees it that runs some of them.
fn part(here: &[usize]) -> Topology {
    let mut topology = chains(&[3]);
    topology.operators[2].window = Some(WindowShape { size_ms: 1_000, slide_ms: 1_000, end_ms: Some(0) });
    topology.tasks.retain(|task| here.contains(&task.operators[0]));
    topology
}

fn agent(node: &str) -> Neighbours {
    Neighbours::new(node.to_owned(), STALE)
}

/// What each of these operators costs, and nothing else.
fn readings(seconds: u64, costs_ns: &[Option<f64>]) -> Readings {
    let mut readings = Readings::at(seconds * SECOND_NS, 0.0, None, 2);
    readings.set(Metric::Cost, costs_ns.to_vec());
    readings
}

/// A watermark of the job's window is due 2 s from then.
fn due(now_ns: u64) -> BTreeMap<usize, StreamReport> {
    let report = StreamReport {
        query: QueryId(0),
        source: OperatorId(2),
        end: EventTime(7_000),
        forecast: SwmForecast { mean_ns: now_ns as f64 + 2e9, deviation_ns: 1e6, epochs: 40 },
        ns_per_ms: 1e6,
        at: ProcessingTime(now_ns),
    };
    [(2, report)].into()
}

fn nothing() -> BTreeMap<usize, StreamReport> {
    BTreeMap::new()
}

#[test]
fn costs_go_up_and_watermarks_down() {
    let (first, second) = (part(&[0, 1]), part(&[2]));
    let (mut a, mut b) = (agent("a"), agent("b"));
    let of_first = readings(100, &[Some(1e3), Some(2e3), None]);
    // On another machine another clock.
    let of_second = readings(7, &[None, None, Some(4e6)]);
    let hello = a.report(None, &first, &of_first, &due(100 * SECOND_NS));
    assert_eq!(hello.queries[0].operators, ["q0/0", "q0/1"]);
    assert!(hello.queries[0].streams.is_empty() && hello.queries[0].costs.is_empty());

    b.on_report(hello, 7 * SECOND_NS);
    let up = b.report(Some("a"), &second, &of_second, &nothing());
    assert!(up.queries[0].streams.is_empty());
    assert_eq!(up.queries[0].costs.len(), 1);
    a.on_report(up, 100 * SECOND_NS);
    let down = a.report(Some("b"), &first, &of_first, &due(100 * SECOND_NS));
    assert!(down.queries[0].costs.is_empty());
    b.on_report(down, 7 * SECOND_NS);

    let mut of_first = readings(101, &[Some(1e3), Some(2e3), None]);
    a.complete(&first, &mut of_first);
    assert_eq!(of_first.get(Metric::Cost, 2), Some(4e6));
    // C_path: 4 ms behind the second, and that and its own 2 µs behind the first.
    let paths = [0, 1, 2].map(|operator| of_first.get(Metric::PathCost, operator).unwrap());
    assert_eq!(paths, [4_002_000.0, 4_000_000.0, 0.0]);
    let mut of_second = readings(8, &[None, None, Some(4e6)]);
    b.complete(&second, &mut of_second);
    let told = of_second.streams[&2];
    assert_eq!((told.end, told.at), (EventTime(7_000), ProcessingTime(7 * SECOND_NS)));
    assert_eq!(told.forecast.mean_ns, 9e9);
    assert_eq!(a.list(&first, 101 * SECOND_NS)[0].jobs, 1);
}

#[test]
fn a_machine_between_two_passes_on_what_it_heard() {
    let parts = [part(&[0]), part(&[1]), part(&[2])];
    let mut agents = ["a", "b", "c"].map(agent);
    let costs = [[Some(1e3), None, None], [None, Some(2e3), None], [None, None, Some(4e6)]];
    let mut tell = |from: usize, to: usize, seconds: u64| {
        let name = agents[to].node.clone();
        let own = if from == 0 { due(seconds * SECOND_NS) } else { nothing() };
        let report = agents[from].report(Some(&name), &parts[from], &readings(seconds, &costs[from]), &own);
        agents[to].on_report(report.clone(), seconds * SECOND_NS);
        report
    };
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 1), (2, 1)] {
        tell(from, to, 10);
    }
    let up = tell(1, 0, 12);
    let told: Vec<_> = up.queries[0].costs.iter().map(|cost| (cost.cost_ns, cost.age_ns)).collect();
    assert_eq!(told, [(Some(2e3), 0), (Some(4e6), 2 * SECOND_NS)]);
    let down = tell(1, 2, 13);
    let stream = &down.queries[0].streams[0];
    assert_eq!((stream.due_in_ns, stream.age_ns), (-1e9, 3 * SECOND_NS));
    // The outer two are no neighbours: they tell each other where they run, and no more.
    let far = tell(0, 2, 13);
    assert!(far.queries[0].streams.is_empty() && far.queries[0].costs.is_empty());
    // What was heard at 10 s is too old for the first after 15 s, however lately it was passed on.
    let mut late = readings(16, &costs[0]);
    agents[0].complete(&parts[0], &mut late);
    assert_eq!((late.get(Metric::Cost, 1), late.get(Metric::Cost, 2)), (Some(2e3), None));
}

#[test]
fn what_is_told_changes_who_goes_first() {
    // Two jobs of equal targets; the second goes on elsewhere, where it costs 30 ms a row.
    let mut here = chains(&[2, 2]);
    here.tasks.pop();
    let mut there = chains(&[2, 2]);
    there.tasks = vec![there.tasks.remove(3)];
    for topology in [&mut here, &mut there] {
        for query in &mut topology.queries {
            query.wishes = Wishes::within(Duration::from_millis(50)).unwrap();
        }
    }
    let read = |costs: [Option<f64>; 4]| {
        let mut readings = readings(100, &costs);
        readings.set(Metric::QueueRows, [5.0, 5.0, 5.0, 5.0].map(Some).to_vec());
        readings.set(Metric::Selectivity, [1.0; 4].map(Some).to_vec());
        readings.set(Metric::PathCost, [2e6, 0.0, 0.0, 0.0].map(Some).to_vec());
        readings.set(Metric::WatermarkMs, [1.0; 4].map(Some).to_vec());
        readings
    };
    let alone = [Some(1e6), Some(2e6), Some(1e6), None];
    let first = |policy: &str, readings: &Readings| {
        let schedule = policy.parse::<Policy>().unwrap().schedule(&here, readings);
        let [own, other] = [0, 2].map(|operator| schedule.priorities[operator].unwrap());
        if own < other { 0 } else { 1 }
    };
    let (mut a, mut b) = (agent("a"), agent("b"));
    b.on_report(a.report(None, &here, &read(alone), &nothing()), 0);
    a.on_report(
        b.report(Some("a"), &there, &read([None, None, None, Some(3e7)]), &nothing()),
        100 * SECOND_NS,
    );
    for policy in ["klink", "llf"] {
        let mut readings = read(alone);
        assert_eq!(first(policy, &readings), 0, "{policy} by what is known here");
        a.complete(&here, &mut readings);
        assert_eq!(first(policy, &readings), 1, "{policy} by what was told");
        let mut late = read(alone);
        late.now_ns += STALE.as_nanos() as u64 + 1;
        a.complete(&here, &mut late);
        assert_eq!(first(policy, &late), 0, "{policy} by what is known here, once what was told is too old");
    }
}

#[test]
fn silence_is_said_once_and_ends() {
    let mut a = agent("a");
    let hello = |node: &str| agent(node).report(None, &part(&[2]), &readings(0, &[]), &nothing());
    a.on_report(hello("b"), SECOND_NS);
    assert_eq!(a.notes(6 * SECOND_NS), ["agent b is heard"]);
    assert_eq!(
        a.notes(6 * SECOND_NS + 1),
        ["agent b has been silent for 5 s: jobs that go on there are ranked by what is known here"]
    );
    assert!(a.notes(60 * SECOND_NS).is_empty());
    assert!(!a.list(&part(&[0]), 60 * SECOND_NS)[0].is_used);
    a.on_report(hello("b"), 60 * SECOND_NS);
    assert_eq!(a.notes(61 * SECOND_NS), ["agent b is heard again"]);
    // One that came by a detour changes nothing.
    a.on_report(Report { node: "b".into(), queries: Vec::new() }, 59 * SECOND_NS);
    assert_eq!(a.heard["b"].report.queries.len(), 1);
    a.notes(660 * SECOND_NS);
    assert_eq!(a.list(&part(&[0]), 660 * SECOND_NS).len(), 1);
    a.notes(661 * SECOND_NS);
    assert!(a.list(&part(&[0]), 661 * SECOND_NS).is_empty());
}

#[test]
fn a_namesake_is_not_listened_to() {
    let mut a = agent("a");
    for _ in 0..2 {
        a.on_report(Report { node: "a".into(), queries: Vec::new() }, 1);
    }
    let notes = a.notes(2);
    assert!(notes.len() == 1 && notes[0].contains("calls itself \"a\" too"), "{notes:?}");
    assert!(a.list(&part(&[0]), 2).is_empty());
}

#[test]
fn numbers_that_mean_nothing_are_not_taken() {
    let topology = part(&[0, 1]);
    let said = |cost_ns: f64, due_in_ns: f64| {
        let operator = "q0/2".to_owned();
        Report {
            node: "b".into(),
            queries: vec![QueryReport {
                query: "q0".into(),
                operators: vec![operator.clone(), "of no job here".into()],
                streams: vec![Stream { operator: operator.clone(), due_in_ns, ..Stream::default() }],
                costs: vec![OperatorCost {
                    operator,
                    cost_ns: Some(cost_ns),
                    age_ns: if cost_ns > 1.0 { u64::MAX } else { 0 },
                    ..OperatorCost::default()
                }],
            }],
        }
    };
    for (cost_ns, due_in_ns) in [(f64::NAN, f64::INFINITY), (-1.0, f64::NAN), (2.0, f64::NEG_INFINITY)] {
        let mut a = agent("a");
        a.on_report(said(cost_ns, due_in_ns), 1);
        let mut readings = readings(0, &[Some(1.0), Some(1.0), None]);
        a.complete(&topology, &mut readings);
        assert_eq!(readings.get(Metric::Cost, 2), None, "{cost_ns}");
        assert!(readings.streams.is_empty());
    }
}
