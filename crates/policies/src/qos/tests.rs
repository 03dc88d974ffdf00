//! P-tuples by hand, and properties of the order: buckets that are kept up against buckets made anew, and against exact
//! tuples. Cannot catch: costs that are estimated wrongly, because tests set them.

use std::time::Duration;

use laxity_graph::{OperatorId, QosCurve, QueryId};
use proptest::prelude::*;

use super::*;
use crate::superbox::tests::boxes;
use laxity_sched::Unit;

fn curve(points: &[(u64, f64)]) -> QosCurve {
    QosCurve::new(points.iter().map(|&(ns, utility)| (Duration::from_nanos(ns), utility))).unwrap()
}

/// Chains of two operators, one per query; all costs 0 but where a test sets them.
fn chains(curves: &[QosCurve]) -> Snapshot {
    let mut snapshot = Snapshot { graph: 1, workers: 1, ..Snapshot::default() };
    for (number, qos) in (0..).zip(curves) {
        let mut pair = boxes(&[&[1], &[]]);
        for operator in &mut pair {
            operator.id = OperatorId(2 * number + operator.id.0);
            operator.query = QueryId(number);
            operator.unit = operator.id.0;
            operator.cost = (0.0, 0.0);
            operator.usual_cost_ns = 0;
            operator.queued_messages = 0;
            operator.queued_rows = 0;
        }
        pair[0].downstream = [pair[1].id].into();
        pair[1].upstream = [pair[0].id].into();
        snapshot.queries.push(QuerySnapshot {
            id: QueryId(number),
            target_ns: qos.points()[0].latency_ns,
            weight: 1.0,
            qos: qos.clone(),
            operators: [pair[0].id, pair[1].id].into(),
            streams: Vec::new(),
            sweeping: None,
        });
        snapshot.operators.extend(pair);
    }
    snapshot
}

fn wait_since(operator: &mut OperatorSnapshot, ingested_ns: u64) {
    operator.queued_messages = 1;
    operator.queued_rows = 1;
    operator.mean_ingested = Some(ProcessingTime(ingested_ns));
}

fn by_query(snapshot: &mut Snapshot) {
    snapshot.unit = Unit::Query;
    snapshot.operators.iter_mut().for_each(|operator| operator.unit = operator.query.0);
}

fn units(snapshot: &Snapshot) -> usize {
    if snapshot.unit.is_query() { snapshot.queries.len() } else { snapshot.operators.len() }
}

fn priorities(rank: &mut Qos, snapshot: &Snapshot) -> Vec<f64> {
    let mut priorities = vec![0.0; units(snapshot)];
    rank.cycle(snapshot, &mut priorities);
    priorities
}

/// Units, most urgent first, equals together.
fn order(priorities: &[f64]) -> Vec<Vec<usize>> {
    let mut units: Vec<usize> = (0..priorities.len()).collect();
    units.sort_by(|&a, &b| priorities[a].total_cmp(&priorities[b]));
    units.chunk_by(|&a, &b| priorities[a] == priorities[b]).map(<[usize]>::to_vec).collect()
}

#[test]
fn a_p_tuple_by_hand() {
    // Fig. 10's shape: full until 100, down to a half at 200, to nothing at 600.
    let qos = curve(&[(100, 1.0), (200, 0.5), (600, 0.0)]);
    let mut snapshot = chains(&[qos]);
    snapshot.now = ProcessingTime(1_000);
    let (operators, queries) = (&mut snapshot.operators, &snapshot.queries);
    operators[0].cost = (10.0, 2.0);
    operators[0].path_cost_ns = 20;
    wait_since(&mut operators[0], 910);
    operators[0].queued_messages = 2;
    operators[0].queued_rows = 10;
    let tuple = |operator: &OperatorSnapshot| {
        let urgency = Urgency::of(operator, &queries[0], ProcessingTime(1_000));
        (urgency.utility, urgency.slack_ns)
    };
    // Age 90, own cost of 5 rows 10 + 2 · 5, path 20: eol 130, where 0.5 is lost in 100; the next point is at 200.
    assert_eq!(tuple(&operators[0]), (0.005, 70));
    // Ten younger by 60: eol 70, before the first point.
    operators[0].mean_ingested = Some(ProcessingTime(970));
    assert_eq!(tuple(&operators[0]), (0.0, 30));
    operators[0].mean_ingested = Some(ProcessingTime(500));
    assert_eq!(tuple(&operators[0]), (0.5 / 400.0, 60));
    // All is lost.
    operators[0].mean_ingested = Some(ProcessingTime(0));
    assert_eq!(tuple(&operators[0]), (0.0, 0));
    // Nothing waits: as if a usual message came now.
    operators[0].queued_messages = 0;
    operators[0].mean_ingested = None;
    operators[0].usual_cost_ns = 85;
    assert_eq!(tuple(&operators[0]), (0.005, 95));
}

#[test]
fn utility_falling_then_slack_rising() {
    let loose = curve(&[(0, 1.0), (4_000, 1.0), (5_000, 0.0)]);
    let tight = curve(&[(0, 1.0), (1, 1.0), (1_000, 0.0)]);
    let mut snapshot = chains(&[loose.clone(), tight, loose.clone(), loose]);
    snapshot.now = ProcessingTime(10_000);
    for (place, age) in [(0, 4_500), (2, 10), (4, 4_400), (6, 3_000)] {
        wait_since(&mut snapshot.operators[place], 10_000 - age);
    }
    // Queries 0 and 2 lose 1/1000, 0 is nearer to the end; query 1 loses a little less (1/999 is more!).
    let mut rank = Qos::default();
    let exact = order(&priorities(&mut rank, &snapshot));
    let first: Vec<usize> = exact.iter().flatten().copied().filter(|unit| unit % 2 == 0).collect();
    assert_eq!(first, [2, 0, 4, 6]);
    by_query(&mut snapshot);
    snapshot.graph = 2;
    let mut rank = Qos::default();
    assert_eq!(order(&priorities(&mut rank, &snapshot)), [[1], [0], [2], [3]]);
}

#[test]
fn a_query_is_as_urgent_as_its_most_urgent_operator() {
    let qos = QosCurve::of_target_ns(1_000);
    let mut snapshot = chains(&[qos.clone(), qos]);
    by_query(&mut snapshot);
    snapshot.now = ProcessingTime(10_000);
    // Query 0 has two operators with slack 900 and 500, query 1 one with 600.
    wait_since(&mut snapshot.operators[0], 9_900);
    wait_since(&mut snapshot.operators[1], 9_500);
    wait_since(&mut snapshot.operators[2], 9_600);
    for mut rank in [Qos::default(), Qos::bucketed(100, 100)] {
        assert_eq!(order(&priorities(&mut rank, &snapshot)), [[0], [1]], "{rank:?}");
    }
    snapshot.graph = 2;
    snapshot.operators[1].mean_ingested = Some(ProcessingTime(9_700));
    for mut rank in [Qos::default(), Qos::bucketed(100, 100)] {
        assert_eq!(order(&priorities(&mut rank, &snapshot)), [[1], [0]], "{rank:?}");
    }
}

#[test]
fn a_target_alone_implies_its_curve() {
    let given = chains(&[curve(&[(0, 1.0), (50, 1.0), (100, 0.0)])]);
    let implied = chains(&[QosCurve::of_target_ns(50)]);
    assert_eq!(given.queries[0].qos, implied.queries[0].qos);
}

/// Queries 0 and 1, where operator 1 (the end of query 0) also feeds operator 3 (the end of query 1).
fn shared(first: QosCurve, second: QosCurve) -> Snapshot {
    let mut snapshot = chains(&[first, second]);
    // The graph: 0 → 1, 2 → 3, and 0 → 3: operator 0 serves both.
    snapshot.operators[0].downstream = [OperatorId(1), OperatorId(3)].into();
    snapshot.operators[3].upstream = [OperatorId(0), OperatorId(2)].into();
    snapshot.now = ProcessingTime(1_000);
    wait_since(&mut snapshot.operators[0], 850);
    snapshot
}

#[test]
fn utilities_add_over_applications_and_the_least_slack_counts() {
    let mut snapshot = shared(curve(&[(100, 1.0), (200, 0.0)]), curve(&[(150, 1.0), (350, 0.0)]));
    let tuple = |snapshot: &Snapshot, place: usize| {
        let mut applications = Applications::default();
        applications.refresh(snapshot);
        let urgency = applications.urgency(place, snapshot).unwrap();
        (urgency.utility, urgency.slack_ns)
    };
    // Age 150: 1/100 is lost to the first with 50 to go, 1/200 to the second with 200 to go.
    assert_eq!(tuple(&snapshot, 0), (0.01 + 0.005, 50));
    // 60 on the way to the second alone change that one's alone: eol 210.
    snapshot.operators[3].usual_cost_ns = 60;
    assert_eq!(tuple(&snapshot, 0), (0.01 + 0.005, 50));
    // 60 on the way to the first: all is lost there.
    snapshot.operators[1].usual_cost_ns = 60;
    snapshot.operators[3].usual_cost_ns = 0;
    assert_eq!(tuple(&snapshot, 0), (0.005, 0));
    // Whoever serves one alone is as ever.
    wait_since(&mut snapshot.operators[2], 850);
    assert_eq!(tuple(&snapshot, 2), (0.005, 200));
}

#[test]
fn an_application_further_down_counts_too() {
    // 0 → 1 of query 0, 1 → 2 of query 1, 2 → 3 of query 1: query 0 has no output of its own.
    let first = curve(&[(100, 1.0), (200, 0.0)]);
    let mut snapshot = chains(&[first, curve(&[(150, 1.0), (350, 0.0)])]);
    snapshot.operators[1].downstream = [OperatorId(2)].into();
    snapshot.operators[2].upstream = [OperatorId(1)].into();
    snapshot.operators[1].usual_cost_ns = 10;
    snapshot.operators[2].usual_cost_ns = 20;
    snapshot.operators[2].path_cost_ns = 30;
    snapshot.now = ProcessingTime(1_000);
    wait_since(&mut snapshot.operators[0], 850);
    let mut applications = Applications::default();
    applications.refresh(&snapshot);
    // 150 + 10 + 20 + 30 = 210 on query 1's curve.
    let urgency = applications.urgency(0, &snapshot).unwrap();
    assert_eq!((urgency.utility, urgency.slack_ns), (0.005, 140));
}

/// Something that happens between two cycles.
#[derive(Clone, Debug)]
enum Event {
    Wait { place: usize, age_ns: u64 },
    Empty { place: usize },
    Cost { place: usize, own_ns: u64, path_ns: u64 },
}

fn event(operators: usize) -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..operators, 0u64..500).prop_map(|(place, age_ns)| Event::Wait { place, age_ns }),
        1 => (0..operators).prop_map(|place| Event::Empty { place }),
        1 => (0..operators, 0u64..50, 0u64..200)
            .prop_map(|(place, own_ns, path_ns)| Event::Cost { place, own_ns, path_ns }),
    ]
}

fn apply(snapshot: &mut Snapshot, event: &Event) -> OperatorId {
    let now = snapshot.now;
    let (Event::Wait { place, .. } | Event::Empty { place } | Event::Cost { place, .. }) = *event;
    let operator = &mut snapshot.operators[place];
    match *event {
        Event::Wait { age_ns, .. } => wait_since(operator, now.0.saturating_sub(age_ns)),
        Event::Empty { .. } => {
            operator.queued_messages = 0;
            operator.mean_ingested = None;
        }
        Event::Cost { own_ns, path_ns, .. } => {
            operator.cost = (own_ns as f64, 0.0);
            operator.path_cost_ns = path_ns;
        }
    }
    operator.id
}

/// A curve of up to three points within a microsecond.
fn some_curve() -> impl Strategy<Value = QosCurve> {
    prop::collection::vec((1u64..400, 0u32..=10), 1..4).prop_map(|steps| {
        let (mut latency, mut utility) = (0, 10);
        let points = steps.into_iter().map(|(step, drop)| {
            latency += step;
            utility -= drop.min(utility);
            (Duration::from_nanos(latency - 1), f64::from(utility) / 10.0)
        });
        QosCurve::new(points.collect::<Vec<_>>()).unwrap()
    })
}

/// Cycles apart, and what happens between.
fn cycles(operators: usize) -> impl Strategy<Value = Vec<(u64, Vec<Event>)>> {
    prop::collection::vec((0u64..300, prop::collection::vec(event(operators), 0..6)), 1..20)
}

fn play(
    snapshot: &mut Snapshot,
    cycles: &[(u64, Vec<Event>)],
    mut after: impl FnMut(&Snapshot) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    for (pass_ns, events) in cycles {
        snapshot.now = snapshot.now.plus_ns(*pass_ns);
        let mut changed: Vec<OperatorId> = events.iter().map(|event| apply(snapshot, event)).collect();
        changed.sort_unstable();
        changed.dedup();
        for changed in [changed, Vec::new()] {
            snapshot.changed = Some(changed);
            after(snapshot)?;
        }
    }
    Ok(())
}

proptest! {
    /// What is filed bit by bit is what is filed at once; and either is the exact tuple, rounded.
    #[test]
    fn buckets_kept_up_are_buckets_made_anew(
        curves in prop::collection::vec(some_curve(), 4),
        gradients in 1u32..8,
        slacks in 1u32..40,
        query_units in any::<bool>(),
        cycles in cycles(8),
    ) {
        let mut snapshot = chains(&curves);
        snapshot.now = ProcessingTime(1_000);
        if query_units {
            by_query(&mut snapshot);
        }
        // One operator serves two applications.
        snapshot.operators[2].downstream = [OperatorId(3), OperatorId(5)].into();
        let mut kept = Qos::bucketed(gradients, slacks);
        let mut kept_priorities = vec![0.0; units(&snapshot)];
        play(&mut snapshot, &cycles, |snapshot| {
            let before = kept_priorities.clone();
            let moved = kept.cycle(snapshot, &mut kept_priorities).moved.map(<[u32]>::to_vec);
            prop_assert_eq!(&kept_priorities, &priorities(&mut Qos::bucketed(gradients, slacks), snapshot));
            if let Some(moved) = moved {
                for unit in 0..before.len() {
                    let is_moved = moved.contains(&(unit as u32));
                    prop_assert_eq!(is_moved, before[unit] != kept_priorities[unit]);
                }
            }
            Ok(())
        })?;
    }

    /// Order by buckets contradicts the exact order by no more than the width of a bucket (§6.2).
    #[test]
    fn a_bucket_is_as_wide_as_it_may_be_wrong(
        curves in prop::collection::vec(some_curve(), 6),
        parts in 1u32..60,
        cycles in cycles(12),
    ) {
        let mut snapshot = chains(&curves);
        snapshot.now = ProcessingTime(1_000);
        let (mut steepest, mut widest) = (0f64, 0);
        for query in &snapshot.queries {
            let mut before = 0;
            for point in query.qos.points() {
                steepest = steepest.max(query.qos.loss_per_ns(point.latency_ns));
                widest = widest.max(point.latency_ns - before);
                before = point.latency_ns;
            }
        }
        play(&mut snapshot, &cycles, |snapshot| {
            let bucketed = priorities(&mut Qos::bucketed(parts, parts), snapshot);
            let tuple = |place: usize| {
                let operator = &snapshot.operators[place];
                Urgency::of(operator, snapshot.query(operator.query).unwrap(), snapshot.now)
            };
            for a in 0..bucketed.len() {
                for b in 0..bucketed.len() {
                    let (ours, theirs) = (tuple(a), tuple(b));
                    if bucketed[a] >= bucketed[b] {
                        let gap = steepest / f64::from(parts) * (1.0 + 1e-9);
                        prop_assert!(ours.utility <= theirs.utility + gap, "{ours:?} {theirs:?}");
                    }
                    if bucketed[a] == bucketed[b] {
                        let gap = widest.div_ceil(u64::from(parts));
                        prop_assert!(ours.slack_ns.abs_diff(theirs.slack_ns) <= gap, "{ours:?} {theirs:?}");
                    }
                }
            }
            Ok(())
        })?;
    }

    /// Exact order against every pair looked at on its own.
    #[test]
    fn positions_follow_the_tuples(
        curves in prop::collection::vec(some_curve(), 6),
        cycles in cycles(12),
    ) {
        let mut snapshot = chains(&curves);
        snapshot.now = ProcessingTime(1_000);
        let mut rank = Qos::default();
        play(&mut snapshot, &cycles, |snapshot| {
            let got = priorities(&mut rank, snapshot);
            for (a, left) in snapshot.operators.iter().enumerate() {
                for (b, right) in snapshot.operators.iter().enumerate() {
                    let tuple = |o: &OperatorSnapshot| {
                        let age = o.mean_ingested.map_or(0, |t| snapshot.now.0 - t.0);
                        let cost = if o.queued_messages > 0 { o.cost.0 as u64 } else { 0 };
                        let eol = age + cost + o.path_cost_ns;
                        let qos = &snapshot.queries[o.query.index()].qos;
                        (qos.loss_per_ns(eol), qos.slack_ns(eol).unwrap_or(0))
                    };
                    let ((u, s), (v, t)) = (tuple(left), tuple(right));
                    prop_assert_eq!(got[a] < got[b], u > v || (u == v && s < t));
                }
            }
            Ok(())
        })?;
    }

    /// Everything in time twice as long: the same order. By powers of two, so that rounding plays no part.
    #[test]
    fn scaling_all_times_leaves_the_order(
        curves in prop::collection::vec(some_curve(), 5),
        cycles in cycles(10),
        parts in 1u32..30,
    ) {
        let mut snapshot = chains(&curves);
        snapshot.now = ProcessingTime(1_000);
        play(&mut snapshot, &cycles, |snapshot| {
            let mut scaled = snapshot.clone();
            scaled.now = ProcessingTime(4 * snapshot.now.0);
            for operator in &mut scaled.operators {
                operator.mean_ingested = operator.mean_ingested.map(|t| ProcessingTime(4 * t.0));
                operator.cost.0 *= 4.0;
                operator.path_cost_ns *= 4;
            }
            for query in &mut scaled.queries {
                let points = query.qos.points().iter();
                query.qos = curve(&points.map(|p| (4 * p.latency_ns, p.utility)).collect::<Vec<_>>());
            }
            let ours = order(&priorities(&mut Qos::default(), snapshot));
            prop_assert_eq!(ours, order(&priorities(&mut Qos::default(), &scaled)));
            let ours = priorities(&mut Qos::bucketed(parts, parts), snapshot);
            prop_assert_eq!(ours, priorities(&mut Qos::bucketed(parts, parts), &scaled));
            Ok(())
        })?;
    }

    /// A query that does nothing changes nothing among the others, where its curve stretches no range.
    #[test]
    fn an_idle_query_changes_nothing(
        curves in prop::collection::vec(some_curve(), 5),
        cycles in cycles(10),
        parts in 1u32..30,
    ) {
        let mut more = curves.clone();
        more.push(curves[0].clone());
        let (mut snapshot, mut larger) = (chains(&curves), chains(&more));
        (snapshot.now, larger.now) = (ProcessingTime(1_000), ProcessingTime(1_000));
        play(&mut snapshot, &cycles, |snapshot| {
            larger.now = snapshot.now;
            larger.operators[..10].clone_from_slice(&snapshot.operators);
            let without_idle = |priorities: Vec<f64>| order(&priorities[..10]);
            let ours = without_idle(priorities(&mut Qos::default(), snapshot));
            prop_assert_eq!(ours, without_idle(priorities(&mut Qos::default(), &larger)));
            let ours = without_idle(priorities(&mut Qos::bucketed(parts, parts), snapshot));
            prop_assert_eq!(ours, without_idle(priorities(&mut Qos::bucketed(parts, parts), &larger)));
            Ok(())
        })?;
    }
}

#[test]
fn one_bucket_knows_no_difference() {
    let mut snapshot = chains(&[QosCurve::of_target_ns(100), QosCurve::of_target_ns(9)]);
    snapshot.now = ProcessingTime(1_000);
    for (place, since) in [(0, 990), (1, 850), (2, 0)] {
        wait_since(&mut snapshot.operators[place], since);
    }
    assert_eq!(priorities(&mut Qos::bucketed(1, 1), &snapshot), [0.0; 4]);
}

#[test]
fn a_cycle_costs_as_much_as_changes() {
    // A thousand queries; all rows wait since the same instant. Points at 1 000 and 2 000.
    let mut snapshot = chains(&vec![QosCurve::of_target_ns(1_000); 1_000]);
    for place in (0..2_000).step_by(2) {
        wait_since(&mut snapshot.operators[place], 0);
    }
    let mut rank = Qos::bucketed(4, 10);
    let mut priorities = vec![0.0; 2_000];
    let mut work = |now: u64| {
        snapshot.now = ProcessingTime(now);
        let looked_at = rank.cycle(&snapshot, &mut priorities).looked_at;
        snapshot.changed = Some(Vec::new());
        looked_at.unwrap()
    };
    assert_eq!(work(0), 2_000, "everything once");
    assert_eq!(work(50), 0, "all still in the first tenth");
    // A tenth of the longest stretch is 100: slack falls below 900 after 100.
    assert_eq!(work(101), 1_000);
    assert_eq!(work(150), 0);
    assert_eq!(work(1_000), 1_000, "many dates at once are one change");
    assert_eq!(work(5_000), 1_000);
    assert_eq!(work(1_000_000), 0, "past the last point nothing changes");
}
