//! Seeded random simulations with faults, watched by the checkers: a few of what `make simulate` runs by the
//! thousand. Cannot catch: what is wrong in the same way inside the scheduler and in what it says from outside.

use std::time::Duration;

use laxity_graph::{EventClock, ProcessingTime};
use laxity_sim::{Outcome, Scenario, ScheduledSources, Sources};
use laxity_workload::{Arrival, Arrivals, Recorded};

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
    for policy in laxity_policies::names() {
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
/// depends on when: no faults that stop sources, nothing shed, and drained to the end; and rows are taken in as they come,
/// since what no look has found at the end is not read.
#[test]
fn results_do_not_depend_on_the_policy() {
    for seed in 0..10 {
        let rows = |policy: &'static str| {
            let mut scenario = Scenario::of_seed(seed, Some(policy));
            let setup = &mut scenario.simulation.setup;
            (setup.shed, setup.memory_bound_bytes, setup.credit_bytes) = (false, None, u64::MAX);
            setup.rounding = laxity_sim::Rounding::Carry;
            setup.sources = Sources::AtOnce;
            let outcome = run(scenario);
            outcome.queries.iter().map(|q| (q.rows_in, q.rows_late)).collect::<Vec<_>>()
        };
        let fifo = rows("fifo");
        for policy in ["laxity", "llf", "klink", "aurora", "random"] {
            assert_eq!(rows(policy), fifo, "seed {seed}, {policy}");
        }
    }
}

/// What comes up to some time, and then nothing.
#[derive(Debug)]
struct Until(Box<dyn Arrivals>, ProcessingTime);

impl Arrivals for Until {
    fn next(&mut self) -> Option<Arrival> {
        let Until(arrivals, end) = self;
        arrivals.next().filter(|arrival| arrival.at < *end)
    }

    fn clock(&self) -> EventClock {
        self.0.clock()
    }
}

/// Looks decide when rows are taken in and in what bites, and neither what is taken in nor what is late.
#[test]
fn what_is_read_does_not_depend_on_looks() {
    for seed in 0..20 {
        let rows = |sources: &dyn Fn(Sources) -> Sources| {
            let mut scenario = Scenario::of_seed(seed, Some("laxity"));
            let end = ProcessingTime::ZERO.plus(scenario.simulation.setup.duration);
            for feed in scenario.simulation.workload.queries.iter_mut().flat_map(|query| &mut query.feeds) {
                let nothing = Box::new(Recorded::new(Vec::new(), None));
                let arrivals = std::mem::replace(&mut feed.arrivals, nothing);
                feed.arrivals = Box::new(Until(arrivals, end));
            }
            let setup = &mut scenario.simulation.setup;
            (setup.shed, setup.memory_bound_bytes, setup.credit_bytes) = (false, None, u64::MAX);
            setup.rounding = laxity_sim::Rounding::Carry;
            // Enough for a machine that stands still or is overloaded.
            setup.duration = Duration::from_secs(600);
            setup.sample = Duration::from_secs(60);
            setup.sources = sources(std::mem::take(&mut setup.sources));
            let outcome = run(scenario);
            outcome.queries.iter().map(|q| (q.rows_in, q.rows_late)).collect::<Vec<_>>()
        };
        let as_drawn = |drawn| match drawn {
            Sources::Scheduled(costs) => Sources::Scheduled(ScheduledSources { shared: Vec::new(), ..costs }),
            Sources::AtOnce => Sources::Scheduled(ScheduledSources::default()),
        };
        assert_eq!(rows(&as_drawn), rows(&|_| Sources::AtOnce), "seed {seed}");
    }
}
