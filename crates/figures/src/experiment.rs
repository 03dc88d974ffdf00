//! A simulation for a figure, by the name of its policy. Two names are baselines that are no policies: `OS` and
//! `ORLEANS`.

use std::path::PathBuf;
use std::time::Duration;

use hdrhistogram::Histogram;
use laxity_policies::recipe;
use laxity_sched::{Recipe, UnknownPolicy};
use laxity_sim::{Driver, OsThreads, Outcome, Renice, Setup, Simulation, SimulationError};
use laxity_workload::{Workload, WorkloadError};

use crate::cameo::Orleans;

/// Why an experiment could not be run: in a figure of ours our bug, but for a file that is not there.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A policy that is not there.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// The checkers that watch every run saw a rule broken.
    #[error("under {policy} the simulation broke a rule {count} times, first {first}")]
    Violation {
        /// The policy.
        policy: String,
        /// How often.
        count: usize,
        /// The first time.
        first: String,
    },
    /// A file of rows that were observed.
    #[error("cannot read {}: {detail}; it is in the repository's examples/data: run there, or say where with --data", path.display())]
    Input {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// A simulation that cannot be set up.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A workload that cannot be built.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// The thread-per-operator baseline: no policy, a thread for each operator instance under the operating
/// system's fair scheduler. With `:RANK` behind it, the rank sets nice values every second: Lachesis.
pub(crate) const OS: &str = "os";

/// A switch of threads with its cold caches: a few microseconds on any machine of the papers. Picked.
const THREAD_SWITCH_NS: u64 = 5_000;

/// Orleans' default run queue; ours to compare with, not a policy of the scheduler.
pub(crate) const ORLEANS: &str = "orleans";

/// Runs a workload under a policy, by the name that users give, or [`OS`] or [`ORLEANS`].
pub(crate) fn simulate(policy: &str, workload: Workload, setup: Setup) -> Result<Outcome, ExperimentError> {
    let mut setup = setup;
    let name = match policy.strip_prefix(OS) {
        Some(rank) => {
            let rank = rank.strip_prefix(':');
            let rank = rank.map(recipe).transpose()?;
            let renice =
                rank.map(|rank| Renice { period: Duration::from_secs(1), rank, best: -20, worst: 19 });
            setup.driver = Driver::OsThreads(OsThreads { renice, ..OsThreads::default() });
            setup.overheads.switch_ns = setup.overheads.switch_ns.max(THREAD_SWITCH_NS);
            "fifo"
        }
        None => policy,
    };
    let policy_of = |name: &str| match name {
        ORLEANS => Ok(Recipe::of(ORLEANS, Orleans::default)),
        name => recipe(name),
    };
    let outcome = Simulation::new(workload, policy_of(name)?, setup).run()?;
    // Bounds on waiting hold for runs that are cut at the quantum; the papers' are not.
    let broken: Vec<_> =
        outcome.violations.iter().filter(|violation| !violation.rule.contains("waits")).collect();
    match broken.first() {
        None => Ok(outcome),
        Some(first) => Err(ExperimentError::Violation {
            policy: policy.into(),
            count: broken.len(),
            first: first.to_string(),
        }),
    }
}

/// Seconds.
pub(crate) fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

/// The value at this quantile, in seconds; 0 where nothing was recorded.
pub(crate) fn quantile_s(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    if histogram.is_empty() { 0.0 } else { seconds(histogram.value_at_quantile(quantile) as f64) }
}

/// The distribution function in seconds, at every per cent and closer to the end.
pub(crate) fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let steps = (1..100).map(|percent| f64::from(percent) / 100.0).chain([0.995, 0.999, 1.0]);
    steps.map(|quantile| (quantile_s(histogram, quantile), quantile)).collect()
}
