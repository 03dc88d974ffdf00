//! One harness, run over every policy in virtual time.
//!
//! Random operations go to the scheduler and to a slow literal model side by side. After every step: nothing
//! is lost or duplicated; channel order is kept; an operator runs on one worker; `next` answers `None` only
//! if nothing is ready; and, for every rank that can be written down without estimates of its own, the pick
//! is the model's pick. At the end everything drains. The same run twice gives the same trace, byte for byte.
//!
//! Catches: wrong order, lost wake-ups, stale keys, leaks on removal or when the policy changes. Cannot
//! catch: wrong cost estimates (the model asks the scheduler for them), anything about threads.

mod bounds;
mod literal;
mod model;
mod policies;
mod scaling;
#[path = "../add_a_policy/weighted_fair.rs"]
mod weighted_fair;
mod world;

use laxity_graph::ProcessingTime;
use proptest::prelude::*;

use policies::Policy;
use world::{Operation, World};

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0u32..12, 0u32..2, -50i64..50, 0u64..2_000, 0u32..300).prop_map(
            |(operator, channel, progress_step, age_ns, rows)| Operation::Message {
                operator, channel, progress_step, age_ns, rows
            }
        ),
        10 => (0u32..3).prop_map(|worker| Operation::Next { worker }),
        10 => (0u32..3, 0u64..3_000, prop::bool::weighted(0.2), 0u32..3).prop_map(
            |(worker, cpu_ns, more, sends)| Operation::Finish { worker, cpu_ns, more, sends }
        ),
        1 => (0u32..3).prop_map(|worker| Operation::Release { worker }),
        3 => (0u64..30_000).prop_map(|ns| Operation::Pass { ns }),
        1 => prop::bool::weighted(0.1).prop_map(|really| Operation::Remove { really }),
    ]
}

fn composition() -> impl Strategy<Value = usize> {
    0..Policy::COMPOSITIONS
}

/// Runs the operations and drains; gives the trace.
fn run(policy: &Policy, seed: u64, operations: &[Operation]) -> String {
    finish(World::new(policy, seed), operations)
}

fn finish(mut world: World, operations: &[Operation]) -> String {
    for operation in operations {
        world.apply(operation);
    }
    world.drain();
    world.into_trace()
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(operation(), 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_policy_keeps_the_invariants(seed in any::<u64>(), operations in operations()) {
        for policy in Policy::all() {
            run(&policy, seed, &operations);
        }
    }

    #[test]
    fn every_composition_keeps_the_invariants(
        seed in any::<u64>(),
        operations in operations(),
        compositions in prop::collection::vec(composition(), 16),
    ) {
        for number in compositions {
            run(&Policy::composed(number), seed, &operations);
        }
    }

    #[test]
    fn a_policy_switched_under_load_loses_nothing(
        seed in any::<u64>(),
        mut operations in operations(),
        switches in prop::collection::vec((any::<prop::sample::Index>(), composition()), 1..12),
        first in composition(),
    ) {
        for (place, composition) in switches {
            operations.insert(place.index(operations.len() + 1), Operation::Switch { composition });
        }
        run(&Policy::composed(first), seed, &operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_same_seed_gives_the_same_trace(
        seed in any::<u64>(),
        operations in operations(),
        compositions in prop::collection::vec(composition(), 16),
    ) {
        for policy in Policy::all().into_iter().chain(compositions.into_iter().map(Policy::composed)) {
            let (first, second) = (run(&policy, seed, &operations), run(&policy, seed, &operations));
            prop_assert_eq!(first, second, "{}", policy.name);
        }
    }

    #[test]
    fn an_idle_query_changes_nothing(
        seed in any::<u64>(),
        operations in operations(),
        compositions in prop::collection::vec(composition(), 16),
    ) {
        for policy in Policy::all().into_iter().chain(compositions.into_iter().map(Policy::composed)) {
            // An idle query has its share of tokens and weights, its place in a lot drawn for all, and its curve in the
            // range that is divided into buckets.
            let shared = ["tokens", "wfq", "random@", "qos:", "aurora-bucketed"];
            if shared.iter().any(|name| policy.name.contains(name)) {
                continue;
            }
            let beside = finish(World::beside(&policy, seed, 2), &operations);
            prop_assert_eq!(run(&policy, seed, &operations), beside, "{}", policy.name);
        }
    }
}

#[test]
fn the_seed_matters_to_random_alone() {
    let pick = |worker| Operation::Next { worker };
    let finish = |worker| Operation::Finish { worker, cpu_ns: 100, more: false, sends: 0 };
    let message =
        |operator| Operation::Message { operator, channel: 0, progress_step: 1, age_ns: 0, rows: 1 };
    let mut operations: Vec<Operation> = (0..12).map(message).collect();
    for _ in 0..12 {
        operations.extend([pick(0), finish(0)]);
    }
    for policy in Policy::all() {
        let same = (1..20).all(|seed| run(&policy, seed, &operations) == run(&policy, 0, &operations));
        assert_eq!(same, policy.name != "random", "{}", policy.name);
    }
}

#[test]
fn time_that_stands_still_is_fine() {
    for policy in Policy::all() {
        let mut world = World::new(&policy, 0);
        for operator in 0..12 {
            world.apply(&Operation::Message { operator, channel: 0, progress_step: 0, age_ns: 0, rows: 0 });
        }
        world.drain();
        assert_eq!(world.now(), ProcessingTime(world::START_NS), "{}", policy.name);
    }
}
