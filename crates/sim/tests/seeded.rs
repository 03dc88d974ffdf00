//! Seeded random simulations with faults, watched by the checkers: a few of what `make simulate` runs by the
//! thousand. Cannot catch: what is wrong in the same way inside the scheduler and in what it says from outside.

use laxity_sched::POLICY_NAMES;
use laxity_sim::{Outcome, Scenario};

fn run(scenario: Scenario) -> Outcome {
    let summary = scenario.summary.clone();
    let seed = scenario.seed;
    let outcome = scenario.simulation.run().unwrap();
    let seen: Vec<String> = outcome.violations.iter().map(ToString::to_string).collect();
    assert!(seen.is_empty(), "{summary}\n{}\nagain: make simulate SEED={seed} RUNS=1", seen.join("\n"));
    outcome
}

#[test]
fn nothing_breaks_a_rule() {
    for seed in 1_000..1_100 {
        run(Scenario::of_seed(seed, None));
    }
}

#[test]
fn no_policy_breaks_a_rule() {
    for policy in POLICY_NAMES {
        for seed in 0..2 {
            run(Scenario::of_seed(seed, Some(policy)));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let traced = |seed| {
        let mut scenario = Scenario::of_seed(seed, None);
        scenario.simulation.setup.keep.trace = true;
        let outcome = run(scenario);
        (outcome.trace.unwrap(), outcome.digest)
    };
    let mut digests = Vec::new();
    for seed in 0..12 {
        let (first, digest) = traced(seed);
        let (second, again) = traced(seed);
        assert!(first == second, "seed {seed}");
        assert_eq!(digest, again);
        assert!(first.lines().count() > 10, "seed {seed} does something");
        digests.push(digest);
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 12, "another seed is another trace");
}

/// What is drained has been processed whole: a policy decides when results come, not what comes, as long as nothing
/// depends on when: no faults that stop sources, nothing shed, and drained to the end.
#[test]
fn results_do_not_depend_on_the_policy() {
    for seed in 0..10 {
        let rows = |policy: &'static str| {
            let mut scenario = Scenario::of_seed(seed, Some(policy));
            let setup = &mut scenario.simulation.setup;
            (setup.shed, setup.memory_bound_bytes, setup.credit_bytes) = (false, None, u64::MAX);
            setup.rounding = laxity_sim::Rounding::Carry;
            let outcome = run(scenario);
            outcome.queries.iter().map(|q| (q.rows_in, q.rows_late)).collect::<Vec<_>>()
        };
        let fifo = rows("fifo");
        for policy in ["laxity", "llf", "klink", "aurora", "random"] {
            assert_eq!(rows(policy), fifo, "seed {seed}, {policy}");
        }
    }
}
