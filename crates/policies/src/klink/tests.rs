//! Klink over hand-made snapshots, against the sums of the paper. Cannot catch: what the scheduler puts into a
//! snapshot (`scheduler/streams.rs`) and what it does with the order (the harness, `tests/klink.rs`).

use std::sync::Arc;

use laxity_graph::{EventTime, OperatorId, QosCurve, QueryId};
use proptest::prelude::*;

use super::*;
use laxity_sched::{HeadSnapshot, Memory, OperatorSnapshot, StreamSnapshot, Sweeping, SwmForecast, Unit};

/// An operator of a chain: what waits, and what a row costs and becomes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub rows: u64,
    pub cost_ns: f64,
    pub selectivity: f64,
}

/// A chain and when its next SWM is expected: mean and deviation in ns.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub boxes: Vec<Stage>,
    pub expected: Option<(f64, f64)>,
}

pub(crate) fn forecast((mean_ns, deviation_ns): (f64, f64)) -> SwmForecast {
    SwmForecast { mean_ns, deviation_ns, epochs: 400 }
}

pub(crate) fn stream(expected: (f64, f64)) -> StreamSnapshot {
    StreamSnapshot {
        source: OperatorId(0),
        watermark: EventTime(0),
        end: EventTime(1_000),
        forecast: Some(forecast(expected)),
        told: None,
    }
}

/// Queries as units; each row is a message of 10 bytes, ingested at 0.
pub(crate) fn snapshot(now: u64, chains: &[Chain]) -> Snapshot {
    let mut snapshot =
        Snapshot { now: ProcessingTime(now), workers: 1, unit: Unit::Query, ..Snapshot::default() };
    for (query, chain) in chains.iter().enumerate() {
        let first = snapshot.operators.len() as u32;
        let ids: Arc<[OperatorId]> = (first..first + chain.boxes.len() as u32).map(OperatorId).collect();
        for (place, operator) in chain.boxes.iter().enumerate() {
            snapshot.operators.push(OperatorSnapshot {
                id: ids[place],
                query: QueryId(query as u32),
                unit: query as u32,
                upstream: ids[..place].last().copied().into_iter().collect(),
                downstream: ids.get(place + 1).copied().into_iter().collect(),
                window: None,
                running: false,
                resumes: false,
                blocked: false,
                queued_messages: operator.rows as usize,
                queued_rows: operator.rows,
                queued_bytes: 10 * operator.rows,
                head: (operator.rows > 0).then_some(HeadSnapshot {
                    ingested: ProcessingTime(0),
                    enqueued: ProcessingTime(0),
                    deadline: ProcessingTime(0),
                    rows: 1,
                }),
                mean_ingested: None,
                cost: (0.0, operator.cost_ns),
                usual_cost_ns: operator.cost_ns as u64,
                usual_rows: 1.0,
                path_cost_ns: 0,
                selectivity: operator.selectivity,
                row_bytes: 10.0,
            });
        }
        snapshot.queries.push(QuerySnapshot {
            id: QueryId(query as u32),
            target_ns: 1,
            weight: 1.0,
            qos: QosCurve::of_target_ns(1),
            operators: ids,
            streams: chain.expected.map(stream).into_iter().collect(),
            sweeping: None,
        });
    }
    snapshot
}

pub(crate) fn chain(boxes: &[(u64, f64, f64)], expected: Option<(f64, f64)>) -> Chain {
    let boxes = boxes.iter().map(|&(rows, cost_ns, selectivity)| Stage { rows, cost_ns, selectivity });
    Chain { boxes: boxes.collect(), expected }
}

pub(crate) fn any_chain() -> impl Strategy<Value = Chain> {
    let operator = (0u64..50, 1.0f64..1e4, prop_oneof![Just(0.0), 0.0f64..1.0, 0.5f64..2.0]);
    let expected = prop::option::weighted(0.9, (1e5f64..5e6, 0.0f64..1e5));
    (prop::collection::vec(operator, 1..6), expected).prop_map(|(boxes, expected)| chain(&boxes, expected))
}

fn cycled(klink: &mut Klink, snapshot: &Snapshot) -> Vec<f64> {
    let mut priorities = vec![0.0; snapshot.queries.len()];
    klink.cycle(snapshot, &mut priorities);
    priorities
}

fn near(got: f64, expected: f64) {
    // The tie-break is a millionth of the wait.
    assert!((got - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{got}, expected {expected}");
}

/// cost(t) of the paper for a chain: Σ_k queue_k · Σ_{j ≥ k} c_j · Π_{k ≤ i < j} s_i.
fn literal_cost(boxes: &[Stage]) -> f64 {
    let mut cost = 0.0;
    for k in 0..boxes.len() {
        for j in k..boxes.len() {
            let passed: f64 = boxes[k..j].iter().map(|i| i.selectivity).product();
            cost += boxes[k].rows as f64 * boxes[j].cost_ns * passed;
        }
    }
    cost
}

#[test]
fn slack_is_wait_less_cost() {
    // 10 rows at 5 ns, of which half go on at 8 ns; and 4 rows that wait for the second operator.
    let work = [(10, 5.0, 0.5), (4, 8.0, 1.0)];
    let cost = 10.0 * (5.0 + 0.5 * 8.0) + 4.0 * 8.0;
    let mut snapshot = snapshot(1_000, &[chain(&work, Some((5_000.0, 0.0))), chain(&work, None)]);
    let got = cycled(&mut Klink::default(), &snapshot);
    near(got[0], 4_000.0 - cost);
    // Without a window, the oldest message is due when it came: at 0.
    near(got[1], -1_000.0 - cost);
    // Ingested at 700 and on its way: known.
    snapshot.queries[0].sweeping = Some(Sweeping { end: EventTime(1), ingested: ProcessingTime(700) });
    near(cycled(&mut Klink::default(), &snapshot)[0], -300.0 - cost);
    // Overdue: 300 ns past the interval.
    snapshot.queries[0].sweeping = None;
    snapshot.queries[0].streams = vec![stream((600.0, 100.0 / 1.959_963_985))];
    near(cycled(&mut Klink::default(), &snapshot)[0], -300.0 - cost);
}

#[test]
fn a_join_has_the_least_slack_of_its_streams() {
    let mut snapshot = snapshot(0, &[chain(&[(1, 10.0, 1.0)], None)]);
    snapshot.queries[0].streams =
        vec![stream((9_000.0, 0.0)), stream((4_000.0, 0.0)), stream((6_000.0, 0.0))];
    near(cycled(&mut Klink::default(), &snapshot)[0], 3_990.0);
    // A stream of which nothing is known does not count.
    snapshot.queries[0].streams[1].forecast = None;
    near(cycled(&mut Klink::default(), &snapshot)[0], 5_990.0);
}

#[test]
fn equal_slacks_go_by_the_nearer_watermark() {
    let chains =
        [chain(&[(3, 10.0, 1.0)], Some((1_030.0, 0.0))), chain(&[(1, 10.0, 1.0)], Some((1_010.0, 0.0)))];
    let got = cycled(&mut Klink::default(), &snapshot(0, &chains));
    assert!(got[1] < got[0], "{got:?}");
}

#[test]
fn parallel_instances_share_the_rows() {
    // 0 feeds 1 and 2, which are dear and cheap. A row of 0 goes to one of them.
    let mut snapshot =
        snapshot(0, &[chain(&[(10, 1.0, 1.0), (0, 30.0, 1.0), (0, 10.0, 1.0)], Some((1e6, 0.0)))]);
    snapshot.operators[0].downstream = [1, 2].map(OperatorId).into();
    snapshot.operators[1].downstream = [].into();
    near(cycled(&mut Klink::default(), &snapshot)[0], 1e6 - 10.0 * (1.0 + 20.0));
}

#[test]
fn operators_as_units_have_the_slack_of_their_query() {
    let mut snapshot = snapshot(0, &[chain(&[(1, 10.0, 1.0), (1, 10.0, 1.0)], Some((1_000.0, 0.0)))]);
    snapshot.unit = Unit::Operator;
    snapshot.operators.iter_mut().for_each(|operator| operator.unit = operator.id.0);
    let mut priorities = [0.0; 2];
    Klink::default().cycle(&snapshot, &mut priorities);
    priorities.iter().for_each(|&priority| near(priority, 970.0));
}

#[test]
fn short_memory_ranks_by_memory_unless_told_not_to() {
    // The first is late, the second has a filter to empty its queue by.
    let chains = [chain(&[(5, 10.0, 1.0)], Some((0.0, 0.0))), chain(&[(9, 10.0, 0.0)], Some((1e9, 0.0)))];
    let mut snapshot = snapshot(1_000, &chains);
    for (used_bytes, memory_first) in [(79, false), (80, true)] {
        snapshot.memory = Memory { used_bytes, bound_bytes: 100 };
        let got = cycled(&mut Klink::default(), &snapshot);
        assert_eq!(got[1] < got[0], memory_first, "{used_bytes}: {got:?}");
        let got = cycled(&mut Klink::default().without_memory(), &snapshot);
        assert!(got[0] < got[1]);
    }
}

/// Algorithm 1 and its evaluator, corrected as stated at [`Klink`], with steps of `r`.
fn literal_slack(chain: &Chain, now: f64, r: f64) -> f64 {
    let cost = literal_cost(&chain.boxes);
    let Some((mean, deviation)) = chain.expected else { return if cost > 0.0 { -now - cost } else { 0.0 } };
    let reach = laxity_sched::normal::deviations(SHARE) * deviation;
    if now >= mean + reach {
        return mean + reach - now - cost;
    }
    if deviation == 0.0 {
        return mean - now - cost;
    }
    let below = |x: f64| laxity_sched::normal::probability((x - mean) / deviation);
    let from = now.max(mean - reach);
    let (mut x, mut sum) = (from, 0.0);
    while x < mean + reach {
        let end = (x + r).min(mean + reach);
        sum += (below(end) - below(x)) / (below(mean + reach) - below(from)) * (end - now);
        x += r;
    }
    sum - cost
}

proptest! {
    #[test]
    fn slacks_are_those_of_algorithm_1(chains in prop::collection::vec(any_chain(), 1..8), now in 0u64..5_000_000) {
        let got = cycled(&mut Klink::default().without_memory(), &snapshot(now, &chains));
        let r = 1_000.0;
        for (chain, got) in chains.iter().zip(&got) {
            let literal = literal_slack(chain, now as f64, r);
            let slop = 1e-5 * (1e6 + literal.abs());
            prop_assert!((-slop..r + slop).contains(&(literal - got)), "{literal} and {got} of {chain:?}");
        }
    }

    #[test]
    fn what_did_not_change_is_not_summed_again(
        chains in prop::collection::vec(any_chain(), 1..6),
        changes in prop::collection::vec((0usize..30, 0u64..100), 0..20),
    ) {
        let mut snapshot = snapshot(0, &chains);
        let mut work = Backlog::default();
        work.refresh(&snapshot);
        for change in changes.chunks(3) {
            let mut changed = Vec::new();
            for &(place, rows) in change {
                let place = place % snapshot.operators.len();
                let operator = &mut snapshot.operators[place];
                operator.queued_rows = rows;
                operator.queued_messages = rows as usize;
                changed.push(operator.id);
            }
            snapshot.changed = Some(changed);
            work.refresh(&snapshot);
            let mut fresh = Backlog::default();
            fresh.refresh(&Snapshot { changed: None, ..snapshot.clone() });
            for place in 0..snapshot.queries.len() {
                prop_assert_eq!(work.of(place), fresh.of(place));
            }
        }
    }

    #[test]
    fn scaling_all_times_changes_no_order(
        chains in prop::collection::vec(any_chain(), 2..8), now in 0u64..5_000_000, factor in 2u64..20,
    ) {
        let order = |snapshot: &Snapshot| {
            let priorities = cycled(&mut Klink::default().without_memory(), snapshot);
            let mut order: Vec<usize> = (0..priorities.len()).collect();
            order.sort_by(|&a, &b| priorities[a].total_cmp(&priorities[b]));
            (order, priorities)
        };
        let by = factor as f64;
        let mut scaled = chains.clone();
        for chain in &mut scaled {
            chain.boxes.iter_mut().for_each(|operator| operator.cost_ns *= by);
            chain.expected = chain.expected.map(|(mean, deviation)| (mean * by, deviation * by));
        }
        let (before, slacks) = order(&snapshot(now, &chains));
        let (after, _) = order(&snapshot(now * factor, &scaled));
        let apart = before.windows(2).all(|pair| slacks[pair[1]] - slacks[pair[0]] > 1e-3);
        prop_assert!(!apart || before == after, "{before:?} {after:?}");
    }

    #[test]
    fn an_idle_query_changes_nothing(chains in prop::collection::vec(any_chain(), 1..8), now in 0u64..5_000_000) {
        let mut more = chains.clone();
        more.push(chain(&[(0, 10.0, 1.0)], Some((1.0, 0.0))));
        let (mut with, mut without) = (snapshot(now, &more), snapshot(now, &chains));
        for used_bytes in [0, 90] {
            let memory = Memory { used_bytes, bound_bytes: 100 };
            (with.memory, without.memory) = (memory, memory);
            let got = cycled(&mut Klink::default(), &with);
            prop_assert_eq!(&got[..chains.len()], &cycled(&mut Klink::default(), &without)[..]);
        }
    }
}
