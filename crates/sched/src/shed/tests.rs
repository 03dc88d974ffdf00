//! What is shed, by hand, against all shares tried, and against the demand of every millisecond. Cannot catch: what
//! answers from fewer rows are worth.

use laxity_graph::QosCurve;
use proptest::prelude::*;

use super::*;
use crate::Unit;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn config() -> ShedConfig {
    ShedConfig { headroom: 1.0, bearable: 1.0, ..ShedConfig::default() }
}

/// Queries of one source each that costs so much per row, with a target of 50 ms.
fn queries(row_ns: &[f64]) -> Snapshot {
    let mut snapshot = Snapshot { workers: 1, graph: 1, unit: Unit::Operator, ..Snapshot::default() };
    for (number, &row_ns) in (0..).zip(row_ns) {
        let mut source = Snapshot::of_query(&[(&[], row_ns, 1.0)]).operators.remove(0);
        source.id = OperatorId(number);
        source.query = QueryId(number);
        source.unit = number;
        source.row_bytes = 1.0;
        source.cost = (0.0, row_ns);
        source.usual_cost_ns = row_ns as u64;
        source.queued_messages = 0;
        source.queued_rows = 0;
        snapshot.queries.push(QuerySnapshot {
            id: QueryId(number),
            target_ns: 50 * MS,
            weight: 1.0,
            qos: QosCurve::of_target_ns(50 * MS),
            operators: [source.id].into(),
            streams: Vec::new(),
            sweeping: None,
        });
        snapshot.operators.push(source);
    }
    snapshot
}

/// Rows come and run for a second, and a plan is made.
fn plan_after(shedder: &mut Shedder, snapshot: &mut Snapshot, rows: &[u32]) -> Vec<f64> {
    let before = snapshot.now;
    snapshot.now = snapshot.now.plus_ns(SECOND);
    for (query, &rows) in (0..).map(QueryId).zip(rows) {
        shedder.admit(query, rows, LeavesOut::Nothing, before);
        let row_ns = snapshot.operators[query.index()].cost.1;
        shedder.on_run(query, rows, (f64::from(rows) * row_ns) as u64);
    }
    shedder.plan(snapshot);
    (0..rows.len() as u32).map(|query| shedder.fraction(QueryId(query))).collect()
}

fn near(got: &[f64], want: &[f64]) {
    let same = got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6);
    assert!(got.len() == want.len() && same, "{got:?}, expected {want:?}");
}

#[test]
fn the_dearest_utility_is_kept() {
    // Half a core each of rows that cost 1 ms and 10 µs, and 0.3 cores of a query that weighs ten times as much:
    // 0.3 too much, of which the ratio 1 / 0.5 is least twice; ties go by id.
    let mut snapshot = queries(&[1e6, 1e4, 1e5]);
    snapshot.queries[2].weight = 10.0;
    let mut shedder = Shedder::new(config());
    (0..3).for_each(|query| shedder.allow(QueryId(query), true));
    let fractions = plan_after(&mut shedder, &mut snapshot, &[500, 50_000, 3_000]);
    near(&fractions, &[0.6, 0.0, 0.0]);
    // The first weighs twice as much now.
    snapshot.queries[0].weight = 2.0;
    let mut shedder = Shedder::new(config());
    (0..3).for_each(|query| shedder.allow(QueryId(query), true));
    near(&plan_after(&mut shedder, &mut snapshot, &[500, 50_000, 3_000]), &[0.0, 0.6, 0.0]);
}

#[test]
fn what_a_slow_source_holds_back_is_no_work() {
    // Half a core of rows that come two seconds late. Where ten wait, as between any two runs, and the worker rests now and
    // then, the source is slow.
    for (queued_rows, rests, sheds) in [(10, true, false), (10, false, true), (5_000, true, true)] {
        let mut snapshot = queries(&[1e6]);
        snapshot.operators[0].queued_rows = queued_rows;
        let mut shedder = Shedder::new(config());
        shedder.allow(QueryId(0), true);
        if rests {
            shedder.on_rest();
        }
        shedder.on_admitted(QueryId(0), snapshot.now, snapshot.now.plus_ns(2 * SECOND));
        let fractions = plan_after(&mut shedder, &mut snapshot, &[500]);
        assert_eq!(fractions[0] > 0.0, sheds, "{queued_rows} wait, it rests: {rests}: {fractions:?}");
    }
}

#[test]
fn nothing_is_shed_below_capacity_or_without_leave() {
    let mut snapshot = queries(&[1e6, 1e6]);
    let mut shedder = Shedder::new(config());
    shedder.allow(QueryId(0), true);
    near(&plan_after(&mut shedder, &mut snapshot, &[500, 499]), &[0.0, 0.0]);
    let mut shedder = Shedder::new(config());
    shedder.allow(QueryId(0), true);
    // Half a core too much, and the one that may be shed has but 0.3.
    near(&plan_after(&mut shedder, &mut snapshot, &[300, 1_200]), &[1.0, 0.0]);
    shedder.allow(QueryId(0), false);
    assert!(!shedder.is_on());
    assert_eq!(shedder.fraction(QueryId(0)), 0.0);
}

#[test]
fn a_burst_that_can_wait_is_not_overload() {
    let mut snapshot = queries(&[1e6, 1e6]);
    snapshot.now = ProcessingTime(100 * SECOND);
    // The second has a minute.
    snapshot.queries[1].qos = QosCurve::of_target_ns(60 * SECOND);
    let mut shedder = Shedder::new(config());
    (0..2).for_each(|query| shedder.allow(QueryId(query), true));
    near(&plan_after(&mut shedder, &mut snapshot, &[500, 900]), &[0.0, 0.0]);
    // But 0.3 s of it have waited for 59.5 s and take 1 ms each: due in 0.499 s, in which the first asks for half
    // a core from 49 ms on. That is 0.3 + 0.5 · 0.45 s of work until then, and what is shed of the first counts
    // from 49 ms on. The second is the dearer one: its rate has decayed from 0.9 to 0.63 cores.
    let source = &mut snapshot.operators[1];
    (source.queued_messages, source.queued_rows) = (300, 300);
    source.mean_ingested = Some(ProcessingTime(42_500 * MS));
    let fractions = plan_after(&mut shedder, &mut snapshot, &[500, 0]);
    near(&fractions, &[0.0, (0.525 - 0.499) / 0.45 / 0.63]);
}

#[test]
fn rows_past_saving_are_shed_first() {
    // The second needs 80 ms for a row: at 1.6 targets its utility is 0.4 at best.
    let mut snapshot = queries(&[1e6, 80e6]);
    let mut shedder = Shedder::new(config());
    (0..2).for_each(|query| shedder.allow(QueryId(query), true));
    let fractions = plan_after(&mut shedder, &mut snapshot, &[600, 8]);
    near(&fractions, &[0.0, 0.24 / 0.64]);
}

#[test]
fn a_little_lateness_is_borne_until_something_is_shed() {
    let mut snapshot = queries(&[1e6]);
    snapshot.now = ProcessingTime(100 * SECOND);
    let mut shedder = Shedder::new(ShedConfig { bearable: 0.9, ..config() });
    shedder.allow(QueryId(0), true);
    // 0.9 cores, and 5 ms of work that has waited for 48 ms: due in 1 ms if nothing is to be lost, in 6 ms with
    // a tenth lost.
    let wait = |snapshot: &mut Snapshot| {
        let source = &mut snapshot.operators[0];
        (source.queued_messages, source.queued_rows) = (5, 5);
        source.mean_ingested = Some(ProcessingTime(snapshot.now.0 + SECOND - 48 * MS));
    };
    wait(&mut snapshot);
    near(&plan_after(&mut shedder, &mut snapshot, &[900]), &[0.0]);
    // Once it sheds, it sheds until nothing is lost: 4 ms too much, to be made up for in a period of 100 ms.
    shedder.sheds = true;
    wait(&mut snapshot);
    near(&plan_after(&mut shedder, &mut snapshot, &[900]), &[0.04 / 0.9]);
    assert!(shedder.sheds);
    snapshot.operators[0].queued_messages = 0;
    near(&plan_after(&mut shedder, &mut snapshot, &[900]), &[0.0]);
    assert!(!shedder.sheds);
}

#[test]
fn dropped_rows_follow_the_fraction_and_are_counted() {
    let admit = |shedder: &mut Shedder, rows| {
        shedder.admit(QueryId(0), rows, LeavesOut::Nothing, ProcessingTime::ZERO).drop
    };
    let mut shedder = Shedder::new(config());
    shedder.allow(QueryId(0), true);
    shedder.ledgers[0].fraction = 0.3;
    let dropped: Vec<u32> = (0..10).map(|_| admit(&mut shedder, 1)).collect();
    assert_eq!(dropped.iter().sum::<u32>(), 3);
    assert!(dropped.iter().all(|&rows| rows <= 1));
    // 0.3 · 1 000 + what was owed.
    assert!((299..=301).contains(&admit(&mut shedder, 1_000)));
    assert_eq!(shedder.dropped(QueryId(0)), 303);
    shedder.ledgers[0].fraction = 1.0;
    assert_eq!(admit(&mut shedder, 7), 7);
    assert_eq!(shedder.dropped(QueryId(1)), 0);
}

/// A second in which rows of that cost come to queries that are so far with leaving rows out: who is told to, and what is dropped.
fn leave_out_after(
    shedder: &mut Shedder,
    snapshot: &mut Snapshot,
    rows: &[(u32, LeavesOut, f64)],
) -> (Vec<bool>, Vec<f64>) {
    for _tenth in 0..10 {
        for (query, &(rows, leaves_out, row_ns)) in (0..).map(QueryId).zip(rows) {
            shedder.admit(query, rows / 10, leaves_out, snapshot.now);
            shedder.on_run(query, rows / 10, (f64::from(rows / 10) * row_ns) as u64);
        }
        snapshot.now = snapshot.now.plus_ns(SECOND / 10);
    }
    shedder.plan(snapshot);
    let queries = (0..rows.len() as u32).map(QueryId);
    let told = queries.clone().map(|query| shedder.leaves_out(query)).collect();
    (told, queries.map(|query| shedder.fraction(query)).collect())
}

#[test]
fn rows_are_left_out_before_any_are_dropped() {
    use LeavesOut::{AllItCan, Nothing, Soon};
    // .6 cores each of one: .8 too much. The third may lose rows and the first two leave some out; the first weighs twice as much.
    let mut snapshot = queries(&[1e6, 1e6, 1e6]);
    snapshot.queries[0].weight = 2.0;
    let mut shedder = Shedder::new(ShedConfig { horizon_ns: 2 * SECOND, ..config() });
    shedder.allow_leaving_out(QueryId(0), true);
    shedder.allow_leaving_out(QueryId(1), true);
    shedder.allow(QueryId(1), true);
    shedder.allow(QueryId(2), true);
    let exact = (600, Nothing, 1e6);
    let (told, dropped) = leave_out_after(&mut shedder, &mut snapshot, &[exact; 3]);
    assert_eq!(told, [true, true, false]);
    near(&dropped, &[0.0; 3]);
    assert!(shedder.admit(QueryId(0), 1, Nothing, snapshot.now).leave_out);
    // What was promised counts as given.
    let soon = (600, Soon, 1e6);
    let (told, dropped) = leave_out_after(&mut shedder, &mut snapshot, &[soon, soon, exact]);
    assert_eq!(told, [true, true, false]);
    near(&dropped, &[0.0; 3]);
    // They cost a third now: all fits.
    let thinned = (600, AllItCan, 2e5);
    let (told, dropped) = leave_out_after(&mut shedder, &mut snapshot, &[thinned, thinned, exact]);
    assert_eq!(told, [true, true, false], "exact again they would be too much");
    near(&dropped, &[0.0; 3]);
    // They save nothing: then rows are dropped, where that is allowed.
    let full = (600, AllItCan, 1e6);
    let (told, dropped) = leave_out_after(&mut shedder, &mut snapshot, &[full, full, exact]);
    assert_eq!(told, [true, true, false]);
    assert!(dropped[0] == 0.0 && dropped[1] + dropped[2] > 0.5, "{dropped:?}");
    // One is exact again where there is room for one, and .1 of the capacity is left.
    let little = (200, AllItCan, 2e5);
    let mut rounds = Vec::new();
    while rounds.len() < 20 && rounds.last().is_none_or(|(told, _)| *told == [true, true, false]) {
        let rows = [little, (600, AllItCan, 2e5), (200, Nothing, 1e6)];
        rounds.push(leave_out_after(&mut shedder, &mut snapshot, &rows));
    }
    assert_eq!(rounds.pop(), Some((vec![false, true, false], vec![0.0; 3])), "after {rounds:?}");
}

#[test]
fn a_promise_to_leave_rows_out_holds_for_a_while() {
    let mut snapshot = queries(&[1e6]);
    let mut shedder = Shedder::new(ShedConfig { horizon_ns: 2 * SECOND, ..config() });
    shedder.allow_leaving_out(QueryId(0), true);
    shedder.allow(QueryId(0), true);
    let mut dropped = Vec::new();
    for _ in 0..5 {
        let soon = (1_500, LeavesOut::Soon, 1e6);
        dropped.push(leave_out_after(&mut shedder, &mut snapshot, &[soon]).1[0] > 0.0);
    }
    assert_eq!(dropped, [false, false, false, true, true]);
    shedder.forget(QueryId(0));
    assert!(!shedder.is_on() && !shedder.leaves_out(QueryId(0)));
}

/// All ways to give up shares in eighths: the least loss that saves enough.
fn least_loss_of_all(offers: &[Offer], cores: f64) -> f64 {
    let mut least = f64::INFINITY;
    for choice in 0..9usize.pow(offers.len() as u32) {
        let share = |place: usize| (choice / 9usize.pow(place as u32) % 9) as f64 / 8.0;
        let saved: f64 = offers.iter().enumerate().map(|(place, o)| share(place) * o.cores).sum();
        if saved >= cores - 1e-9 {
            least = least.min(offers.iter().enumerate().map(|(place, o)| share(place) * o.utility).sum());
        }
    }
    least
}

proptest! {
    #[test]
    fn no_other_choice_loses_less(
        offers in prop::collection::vec((1u32..20, 0u32..20), 1..5),
        missing in 0.0f64..1.2,
    ) {
        let mut offers: Vec<Offer> = (0..)
            .zip(offers)
            .map(|(query, (cores, utility))| Offer {
                query,
                gives: Gives::Rows,
                grace_ns: 0,
                cores: cores.into(),
                utility: utility.into(),
            })
            .collect();
        let before = offers.clone();
        let cores = missing * offers.iter().map(|offer| offer.cores).sum::<f64>();
        let shares: Vec<(u32, f64)> = least_loss(&mut offers, cores).collect();
        let of = |query: u32| shares.iter().find(|(q, _)| *q == query).map_or(0.0, |(_, share)| *share);
        prop_assert!(shares.iter().all(|(_, share)| (0.0..=1.0 + 1e-12).contains(share)));
        let saved: f64 = before.iter().map(|offer| of(offer.query) * offer.cores).sum();
        let lost: f64 = before.iter().map(|offer| of(offer.query) * offer.utility).sum();
        if missing <= 1.0 {
            prop_assert!((saved - cores).abs() < 1e-9);
            prop_assert!(lost <= least_loss_of_all(&before, cores) + 1e-9);
        } else {
            prop_assert!(shares.len() == before.len() && shares.iter().all(|(_, share)| *share == 1.0));
        }
    }

    /// Against the demand written down for every millisecond of the horizon.
    #[test]
    fn the_shortfall_is_the_worst_of_all_instants(
        loads in prop::collection::vec((0.0f64..1.0, 0u64..1_500), 0..6),
        backlog in prop::collection::vec((0u64..1_500, 0.0f64..300.0), 0..6),
        capacity in 0.5f64..3.0,
        relief_ms in 0u64..1_200,
    ) {
        let loads: Vec<Load> = loads
            .into_iter()
            .map(|(cores, grace_ms)| Load { cores, grace_ns: grace_ms * MS })
            .collect();
        let steps: Vec<DemandStep> = backlog
            .into_iter()
            .map(|(ms, work_ms)| DemandStep { at_ns: (ms * MS) as f64, work_ns: work_ms * MS as f64, cores: 0.0 })
            .collect();
        let config = config();
        let lasting: f64 = loads.iter().filter(|l| l.grace_ns < SECOND).map(|l| l.cores).sum();
        let mut want = (lasting - capacity).max(0.0);
        for ms in 0..=1_000u64 {
            let t = (ms * MS) as f64;
            let flowing = loads.iter().filter(|load| load.grace_ns < SECOND);
            let flowing = flowing.map(|load| load.cores * (t - load.grace_ns as f64).max(0.0));
            let waiting = steps.iter().filter(|step| step.at_ns <= t).map(|step| step.work_ns);
            let excess = flowing.sum::<f64>() + waiting.sum::<f64>() - capacity * t;
            want = want.max(excess / (t - (relief_ms * MS) as f64).max(1e8));
        }
        let got = excess(&loads, &mut steps.clone(), relief_ms * MS, capacity, &config).max(0.0);
        prop_assert!((got - want).abs() < 1e-9, "{got}, expected {want}");
    }
}
