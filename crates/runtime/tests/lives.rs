//! Queries come, join, change, fail, are cancelled and go, at random and in virtual time, while their rows are on their
//! way: nothing is lost, doubled or out of order, and nothing is left.
//!
//! What the engine does on threads is done here in one, step by step in any order: a look at a table, a run and its
//! report, a write, and each part of an end are steps of their own. `LIVES=30000000` for longer, `SEED=7` for another.

#[path = "lives/numbers.rs"]
mod numbers;
#[path = "lives/sharing.rs"]
mod sharing;
#[path = "lives/world.rs"]
mod world;

use laxity_graph::WindowEnds;
use laxity_runtime::Rhythm;
use world::World;

/// They end at multiples of that.
fn windows_of(every_ms: i64, reach_ms: i64) -> Rhythm {
    Rhythm::Windows { ends: WindowEnds::new(every_ms, 0).expect("a distance"), reach_ms }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn random_lives_leave_nothing_behind() {
    let steps = from_environment("LIVES", 3_000_000);
    let seed = from_environment("SEED", 1);
    // On one lock or two, and under policies that keep something by query, by turn, or per cycle.
    let policies = [("laxity", 1), ("tokens", 2), ("rr", 1), ("klink", 2), ("qs", 1)];
    for (seed, (policy, shards)) in (seed..).zip(policies) {
        let mut world = World::new(policy, shards, seed);
        (0..steps / policies.len() as u64).for_each(|_| world.step());
        let seen = world.finish();
        // Each thing did happen.
        let steps = steps / policies.len() as u64;
        for (what, count) in [
            ("submitted", seen.submitted),
            ("refused", seen.refused),
            ("joined", seen.joined),
            ("drained", seen.drained),
            ("dropped", seen.dropped),
            ("altered", seen.altered),
            ("altered to what a curve says", seen.given_a_curve),
            ("had a table that failed", seen.tables_failed),
            ("waited for what a table had not", seen.waited),
            ("read on when it was there", seen.brought),
            ("failed inside", seen.failed),
            ("came to their end", seen.finished),
            ("went while they ran", seen.went_while_running),
            ("went while a row was half done", seen.went_while_resuming),
            ("split off", seen.split),
            ("ended while a copy was opened for them", seen.ended_while_split),
            ("done as one", seen.done_as_one),
            ("let go of their operators", seen.relieved),
            ("held", seen.held),
            ("held while they read with others", seen.held_with_others),
            ("drained while they were held", seen.drained_while_held),
            ("ended otherwise while they were held", seen.stopped_while_held),
            ("went on while another was held", seen.others_went_on),
            ("held while others did their work", seen.held_as_one),
            ("saved", seen.saved),
            ("saved while others did their work", seen.saved_as_one),
            ("restored", seen.restored),
            ("restored with what their windows held", seen.restored_with_windows),
            ("restored to have their work done by others", seen.restored_as_one),
        ] {
            assert!(count >= steps / 600_000, "{policy}: {what}: {count} of {steps} steps, {seen:?}");
        }
    }
}
