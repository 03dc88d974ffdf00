//! A machine twice as fast, in a world twice as fast, does the same: with all times scaled, every rank orders
//! alike.

use std::time::Duration;

use laxity_graph::{ProcessingTime, QosCurve};
use laxity_sched::Snapshot;
use proptest::prelude::*;

use crate::operation;
use crate::policies::Policy;
use crate::world::World;

/// A power of two, so that nothing is rounded.
const FACTOR: u64 = 4;

const RANKS: [&str; 11] = [
    "laxity",
    "llf",
    "edf",
    "sjf",
    "fcfs",
    "qs",
    "hr",
    "rank=hr:global",
    "chain",
    "rank=qos",
    "rank=qos:8x8",
];

fn scaled(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    let scale = |time: &mut ProcessingTime| time.0 *= FACTOR;
    scale(&mut snapshot.now);
    for operator in &mut snapshot.operators {
        operator.cost.0 *= FACTOR as f64;
        operator.cost.1 *= FACTOR as f64;
        operator.usual_cost_ns *= FACTOR;
        operator.path_cost_ns *= FACTOR;
        operator.mean_ingested.iter_mut().for_each(scale);
        if let Some(head) = &mut operator.head {
            [&mut head.ingested, &mut head.enqueued, &mut head.deadline].into_iter().for_each(scale);
        }
    }
    for query in &mut snapshot.queries {
        query.target_ns *= FACTOR;
        let points = query.qos.points().iter();
        let points = points.map(|point| (Duration::from_nanos(point.latency_ns * FACTOR), point.utility));
        query.qos = QosCurve::new(points).unwrap();
    }
    snapshot
}

fn priorities(name: &str, snapshot: &Snapshot) -> Vec<f64> {
    let mut composition = laxity_policies::recipe(name).unwrap().compose();
    let mut priorities = vec![0.0; snapshot.operators.len()];
    composition.rank.cycle(snapshot, &mut priorities);
    priorities
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn scaling_all_times_leaves_the_order(operations in prop::collection::vec(operation(), 50..200)) {
        let policy = Policy::all().into_iter().find(|policy| policy.name == "llf").expect("it is listed");
        let mut world = World::new(&policy, 0);
        operations.iter().for_each(|operation| world.apply(operation));
        let mut snapshot = world.snapshot();
        // Whole nanoseconds: predictions are cut down to them.
        for operator in &mut snapshot.operators {
            operator.cost = (operator.cost.0.round(), operator.cost.1.round());
        }
        let scaled = scaled(&snapshot);
        for name in RANKS {
            let (before, after) = (priorities(name, &snapshot), priorities(name, &scaled));
            for (a, b) in (0..before.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                // Logarithms round, so equal ones may part by a little.
                let order = |of: &[f64]| {
                    let near = (of[a] - of[b]).abs() <= 1e-9 * of[a].abs();
                    if near || of[a] == of[b] { std::cmp::Ordering::Equal } else { of[a].total_cmp(&of[b]) }
                };
                let (before, after) = (order(&before), order(&after));
                // What lies between two cells of a grid may fall into either, and slopes of curves that are equal may part
                // by their last digit, which makes two positions of one.
                let may_part = name.starts_with("rank=qos");
                if may_part && (before.is_eq() || after.is_eq()) {
                    continue;
                }
                prop_assert_eq!(before, after, "{}: {} and {}", name, a, b);
            }
        }
    }
}
