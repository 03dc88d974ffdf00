//! What the experiments of Cameo §6 share: the machines, the three schedulers, and the two groups of tenants.

use std::time::Duration;

use hdrhistogram::Histogram;
use laxity_sched::Config;
use laxity_sim::{Cluster, Cut, Keep, Outcome, Placement, QueryOutcome, Setup};
use laxity_workload::ipq::{Tenants, jobs};
use laxity_workload::{Delay, Workload, offered_load};

use crate::experiment::{ORLEANS, quantile_s, simulate};
use crate::{ExperimentError, Run};

/// As the paper calls them, and as we do; ours last.
pub(super) const POLICIES: [(&str, &str); 4] =
    [("Cameo", "llf"), ("FIFO", "fifo"), ("Orleans", ORLEANS), ("laxity", "laxity")];

/// Longer than any run; no overflow where it is added to.
const NEVER_NS: u64 = 1 << 60;

/// The 32 servers of four cores at paper size, two of one at the small one.
pub(super) struct Machines {
    pub nodes: usize,
    pub cores: usize,
}

impl Machines {
    pub fn of(run: &Run) -> Machines {
        run.pick(Machines { nodes: 32, cores: 4 }, Machines { nodes: 2, cores: 1 })
    }

    /// One server.
    pub fn single() -> Machines {
        Machines { nodes: 1, cores: 4 }
    }

    pub fn total(&self) -> f64 {
        (self.nodes * self.cores) as f64
    }

    /// Messages are not cut and queues have no bound, as in the paper; nothing ages, since its baselines do not
    /// either. Operators are dealt over the servers; 0.2 to 1 ms between two of them is ours.
    pub fn setup(&self, run: &Run, seed: u64, duration_s: u64, warm_up_s: u64) -> Setup {
        let cluster = Cluster {
            nodes: self.nodes,
            cores_per_node: self.cores,
            network: Delay::Uniform { low_ns: 200_000, high_ns: 1_000_000 },
            placement: Placement::Operators,
        };
        Setup {
            cluster,
            config: Config { ageing_bound_ns: NEVER_NS, mailbox_bytes_max: u64::MAX, ..Config::default() },
            credit_bytes: u64::MAX,
            duration: Duration::from_secs(duration_s),
            warm_up: Duration::from_secs(warm_up_s),
            seed,
            cut: Cut::Never,
            keep: Keep { timeline: false, results: false, trace: false, checks: run.pick(false, true) },
            ..Setup::default()
        }
    }
}

/// Tenants at paper size; an eighth of the sources and instances at the small one.
pub(super) fn tenants(run: &Run) -> Tenants {
    run.pick(Tenants::default(), Tenants { sources: 8, instances: [2, 2, 1], ..Tenants::default() })
}

/// The tenants' jobs; messages of bulk jobs have so many rows.
pub(super) fn workload(
    tenants: &Tenants,
    bulk_message_rows: u32,
    seed: u64,
) -> Result<Workload, ExperimentError> {
    let mut all = tenants.jobs();
    all.iter_mut().filter(|job| job.name.starts_with("BA")).for_each(|job| {
        job.message_rows = bulk_message_rows;
    });
    Ok(jobs("cameo tenants", &all, seed)?)
}

/// Rows in a message of a bulk job. The paper says it of group 1 only, and that up to 20 000 make no difference.
pub(super) fn bulk_message_rows(run: &Run) -> u32 {
    run.pick(5_000, 1_000)
}

/// Cores that the tenants keep busy.
pub(super) fn load(tenants: &Tenants) -> Result<f64, ExperimentError> {
    Ok(offered_load(&tenants.build(0)?)?.cores())
}

/// The bulk rate per source at which the tenants ask for this share of the machines.
pub(super) fn bulk_rate(tenants: &Tenants, machines: &Machines, share: f64) -> Result<f64, ExperimentError> {
    let at = |bulk_rows_per_s: f64| load(&Tenants { bulk_rows_per_s, ..tenants.clone() });
    // Load is a line in the rate, up to what windows and calls bend it: two points and one correction.
    let (low, high) = (at(1_000.0)?, at(11_000.0)?);
    let slope = (high - low) / 10_000.0;
    let wanted = share * machines.total();
    let first = 1_000.0 + (wanted - low) / slope;
    let error = wanted - at(first.max(1.0))?;
    Ok((first + error / slope).max(1.0))
}

/// What one group of tenants saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub median_s: f64,
    pub p90_s: f64,
    pub p99_s: f64,
    pub deviation_s: f64,
    pub met: f64,
    pub rows_per_s: f64,
    pub results: u64,
}

impl Group {
    pub fn of(outcome: &Outcome, of: impl Fn(&QueryOutcome) -> bool) -> Group {
        let latency: Histogram<u64> = outcome.latency(&of);
        let queries = || outcome.queries.iter().filter(|query| of(query));
        let results: u64 = queries().map(|query| query.lateness.results).sum();
        let met: u64 = queries().map(|query| query.lateness.met).sum();
        Group {
            median_s: quantile_s(&latency, 0.5),
            p90_s: quantile_s(&latency, 0.9),
            p99_s: quantile_s(&latency, 0.99),
            deviation_s: if latency.is_empty() { 0.0 } else { latency.stdev() / 1e9 },
            met: if results == 0 { 0.0 } else { met as f64 / results as f64 },
            rows_per_s: queries().map(|query| query.throughput).sum(),
            results,
        }
    }

    /// The latency-sensitive tenants.
    pub fn sensitive(outcome: &Outcome) -> Group {
        Group::of(outcome, is_sensitive)
    }

    /// The bulk tenants.
    pub fn bulk(outcome: &Outcome) -> Group {
        Group::of(outcome, |query| !is_sensitive(query))
    }
}

pub(super) fn is_sensitive(query: &QueryOutcome) -> bool {
    query.name.starts_with("LS")
}

/// Runs the tenants under a policy.
pub(super) fn trial(
    run: &Run,
    policy: &str,
    tenants: &Tenants,
    seed: u64,
    setup: Setup,
) -> Result<Outcome, ExperimentError> {
    simulate(policy, workload(tenants, bulk_message_rows(run), seed)?, setup)
}

/// By how much the first is smaller.
pub(super) fn factor(ours: f64, theirs: f64) -> f64 {
    if ours > 0.0 { theirs / ours } else { 0.0 }
}
