//! Carney et al., "Operator Scheduling in a Data Stream Manager", VLDB 2003.
//!
//! The paper prints no overheads, and everything it shows follows from their ratio to box costs (0.1 to 1 ms per
//! tuple). Ours: a box call 0.1 ms, a decision of the scheduler 0.1 ms, one core. Only shapes should be read
//! out of these.

mod models;
mod qos;
mod trains;
mod traversals;

use std::time::Duration;

use laxity_sched::Config;
use laxity_sim::{Cluster, Cut, Keep, Outcome, Overheads, Setup};
use laxity_workload::aurora::Trees;
use laxity_workload::{Workload, offered_load};

use crate::{ExperimentError, Figure};

pub(crate) const FIGURES: &[Figure] = &[
    models::FIGURE_3,
    models::FIGURE_5,
    traversals::FIGURE_6,
    traversals::FIGURE_7,
    trains::FIGURE_8,
    trains::FIGURE_9,
    qos::FIGURE_11,
    qos::FIGURE_13,
    qos::FIGURE_14,
];

const PAPER: &str = "Carney et al., Aurora, VLDB 2003";

/// Of a box call: the low end of the boxes' costs.
const CALL_NS: u64 = 100_000;

/// Of a decision of the scheduler: as much.
const DECISION_NS: u64 = 100_000;

/// One core and queues without bound, boxes called with the overheads above; inputs and outputs are queues, not
/// boxes. The checkers do not watch: the bounds on waiting that they know are for trains of a quantum.
fn setup(seed: u64) -> Setup {
    Setup {
        cluster: Cluster::one(1),
        config: Config { ageing_bound_ns: 1 << 60, mailbox_bytes_max: u64::MAX, ..Config::default() },
        overheads: Overheads {
            switch_ns: CALL_NS,
            dispatch_ns: DECISION_NS,
            spares_free: true,
            ..Overheads::default()
        },
        seed,
        cut: Cut::Never,
        credit_bytes: u64::MAX,
        sample: Duration::from_secs(1),
        keep: Keep { timeline: false, results: false, trace: false, checks: false },
        ..Setup::default()
    }
}

/// The trees, and the setup in which so many tuples arrive in all.
fn sized(seed: u64, trees: &Trees, tuples: f64) -> Result<(Workload, Setup), ExperimentError> {
    let workload = trees.build(seed)?;
    let rows_per_s = offered_load(&workload)?.rows_per_s;
    let duration = Duration::from_secs_f64(tuples / rows_per_s);
    Ok((workload, Setup { duration, ..setup(seed) }))
}

/// Mean latency over all results, in seconds.
fn mean_latency_s(outcome: &Outcome) -> f64 {
    let results: u64 = outcome.queries.iter().map(|query| query.lateness.results).sum();
    let sum_ns: f64 =
        outcome.queries.iter().map(|query| query.latency_mean_ns * query.lateness.results as f64).sum();
    if results == 0 { 0.0 } else { sum_ns / results as f64 / 1e9 }
}

/// Mean utility over all results; those that wait at the end count as the curve stands for lateness: nothing.
fn mean_utility(outcome: &Outcome) -> f64 {
    let results: u64 = outcome.queries.iter().map(|query| query.lateness.results).sum();
    let sum: f64 =
        outcome.queries.iter().map(|query| query.utility_mean * query.lateness.results as f64).sum();
    if results == 0 { 0.0 } else { sum / results as f64 }
}
