//! Not of a paper: how far the default policy is from the best one on every workload of every paper, and all of
//! them from what no scheduler can beat.

mod all;
mod bound;
mod heldout;

use std::time::Duration;

use laxity_sim::{Cluster, Cut, Keep, Outcome, Overheads, Setup};
use laxity_workload::{Workload, catalogue};

use crate::experiment::simulate;
use crate::{ExperimentError, Figure, Run};

pub(crate) const FIGURES: &[Figure] =
    &[all::UNDER_LOAD, all::OVER_LOAD, bound::BOUND, heldout::HELD_OUT, heldout::PARTS];

const PAPER: &str = "ours";

/// Under test first, then what it is compared with.
const POLICIES: [&str; 14] = [
    "laxity", "llf", "edf", "sjf", "tokens", "klink", "sbox", "aurora", "hr", "chain", "qs", "fcfs", "fifo",
    "rr",
];

/// A workload of the catalogue at a quarter of its size, with rates that keep so many cores busy.
fn workload(name: &str, cores: f64, run: &Run) -> Result<Workload, ExperimentError> {
    let named = catalogue::all().iter().find(|named| named.name == name).expect("a name of the catalogue");
    Ok(named.build_at_load(run.seed, run.pick(0.25, 0.1), cores)?)
}

fn simulated(
    policy: &str,
    workload: Workload,
    cores: usize,
    seconds: u64,
    cut: Cut,
    keep_results: bool,
) -> Result<Outcome, ExperimentError> {
    let setup = Setup {
        cluster: Cluster::one(cores),
        duration: Duration::from_secs(seconds),
        warm_up: Duration::from_secs(seconds / 4),
        // What the engine was measured to spend, rounded.
        overheads: Overheads {
            call_ns: 500,
            switch_ns: 500,
            schedule_ns: 300,
            cycle_ns_per_operator: 50,
            ..Overheads::default()
        },
        cut,
        keep: Keep { timeline: false, results: keep_results, trace: false, checks: false },
        ..Setup::default()
    };
    simulate(policy, workload, setup)
}
