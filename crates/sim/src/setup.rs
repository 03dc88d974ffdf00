//! The options of a simulation, with the defaults that figures and tests start from.

use std::time::Duration;

use laxity_sched::{Config, Recipe};

use crate::{Cluster, Fault, OsThreads, Sources};

/// Everything about a simulation but the workload and the policy.
///
/// ```
/// use std::time::Duration;
/// use laxity_sim::{Cluster, Setup};
///
/// let setup = Setup { cluster: Cluster::one(16), duration: Duration::from_secs(60), ..Setup::default() };
/// assert_eq!(setup.cluster.nodes, 1);
/// ```
#[derive(Debug)]
pub struct Setup {
    /// The machines.
    pub cluster: Cluster,
    /// How the scheduler core behaves. `workers` and `seed` are overwritten by `cluster` and `seed`.
    pub config: Config,
    /// What scheduling itself costs. Default: nothing.
    pub overheads: Overheads,
    /// What goes wrong. Default: nothing.
    pub faults: Vec<Fault>,
    /// Virtual time that passes. Default 60 s.
    pub duration: Duration,
    /// Results written before this are not counted. Default 0.
    pub warm_up: Duration,
    /// After `duration`, take nothing more in and go on until all that was taken in is done. Default off.
    pub drain: bool,
    /// Seed of every random choice. Default 0.
    pub seed: u64,
    /// How runs that take longer than the quantum are cut. Default: as the engine does.
    pub cut: Cut,
    /// Small batches that wait behind one another are run as one of at most so many rows, while slack allows
    /// ([`laxity_sched::Scheduler::merge`]). Default `None`: never.
    pub merge_rows_max: Option<u32>,
    /// Rows that a stage of fractional selectivity sends on. Default: exact on the long run.
    pub rounding: Rounding,
    /// Bytes of rows of one query, admitted and not yet processed, at which its sources hold arrivals back.
    /// Latency goes on counting. Default 64 MiB.
    pub credit_bytes: u64,
    /// Bytes of queued rows and state on a node at which the sources on it hold arrivals back. Default: no bound.
    pub memory_bound_bytes: Option<u64>,
    /// A heap that costs more the fuller it is, where there is a bound on memory. Default: memory costs nothing.
    pub heap: Option<Heap>,
    /// Rows that are held back come into being only when they are taken in, and all after them as much later, event
    /// times included: generators inside an engine are like that, and hide what they make their users wait. Default
    /// off: latency counts from the intended arrival.
    pub closed_loop: bool,
    /// Rows of any query may be dropped at its sources under overload, where that loses least utility, and not only of those
    /// that allow it themselves. Every one is counted. Default off.
    pub shed: bool,
    /// Who shares the cores among the operators. Default: the scheduler.
    pub driver: Driver,
    /// Schedulers of a machine that share its queries, each at home with some of the cores ([`laxity_sched::Shards`]); no
    /// more than cores, and one where queries span machines. The engine has one for every four workers. Default 1.
    pub shards: usize,
    /// So many once there is a [crowd](laxity_sched::CROWD) of operators on each of those. The engine has one for every
    /// worker then. Default 1: no more than those.
    pub shards_of_crowd: usize,
    /// How tables are read. Default: rows are taken in as they arrive, at no cost.
    pub sources: Sources,
    /// Policies that take over while it runs.
    pub switches: Vec<Switch>,
    /// How often nodes tell their neighbours what they know of queries that span them: what work costs and when
    /// watermarks are due. Default 120 ms, Klink's cycle.
    pub exchange: Duration,
    /// How often queues and memory are sampled. Default 100 ms.
    pub sample: Duration,
    /// Significant digits of latencies. Default 3; 1 or 2 where there are many thousand queries.
    pub latency_digits: u8,
    /// What is kept besides the numbers of every query.
    pub keep: Keep,
}

/// What a simulation keeps besides the numbers of every query. Default: only that checkers watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Who ran where when ([`crate::Outcome::timeline`]).
    pub timeline: bool,
    /// Every result ([`crate::Outcome::results`]).
    pub results: bool,
    /// Every event as text ([`crate::Outcome::trace`]).
    pub trace: bool,
    /// Let checkers watch ([`crate::Outcome::violations`]). Costs about as much as the simulation itself.
    pub checks: bool,
}

/// CPU time that is nobody's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Of every grant: the call of the operator. Measured with the operator, so cost models learn it.
    pub call_ns: u64,
    /// When a core runs another operator than before. With this, a train of messages pays once.
    pub switch_ns: u64,
    /// Of every decision.
    pub schedule_ns: u64,
    /// Of every message that is taken: locks, decisions and routing, which the operator's cost leaves out.
    pub message_ns: u64,
    /// Delay, and no CPU time, from the moment when there is work for a core that has none until it begins to look for
    /// it.
    pub wake_ns: u64,
    /// Of every decision by which a core takes a unit: with this, a train pays once for its scheduler.
    pub dispatch_ns: u64,
    /// Of a cycle of a rank per cycle, per operator that it looks at.
    pub cycle_ns_per_operator: u64,
    /// Calling, switching to and dispatching an operator whose [`laxity_workload::Cost`] is none costs nothing
    /// either: inputs and outputs that only stand for queues.
    pub spares_free: bool,
}

/// A heap with a tracing garbage collector: the more of it is taken, the more often all that is taken is looked
/// through. Work takes 1 + c · u / (1 − u) times as long, u being the share of the heap that rows and state take as a run
/// begins; what is more than the work counts as overhead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heap {
    /// Its size, in bounds of memory ([`Setup::memory_bound_bytes`]). Above 1.
    pub bounds: f64,
    /// c: what is looked through for what is freed, at half of the heap.
    pub cost: f64,
}

impl Heap {
    /// How many times as long work takes.
    pub(crate) fn slowdown(self, bytes: u64, bound_bytes: u64) -> f64 {
        let taken = bytes as f64 / (self.bounds * bound_bytes.max(1) as f64);
        // A row may still come in where the bound is reached.
        let taken = taken.min(TAKEN_MAX);
        1.0 + self.cost * taken / (1.0 - taken)
    }
}

/// Nearer to full than this no heap goes on.
const TAKEN_MAX: f64 = 0.99;

/// How runs that take longer than the quantum are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Batches and firings are cut once the quantum is over, but no batch into pieces of fewer rows than this.
    AtQuantum {
        /// The engine's is 128.
        rows_min: u32,
    },
    /// A message is worked off whole, as in the systems of the papers.
    Never,
}

/// What becomes of fractions of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// They are carried to the next batch: n rows in give ⌊n · s⌋ or one more, over any stretch.
    Carry,
    /// Every row passes with probability s on its own, from the seed.
    Binomial,
}

/// Who shares the cores among the operators.
#[derive(Debug, Default)]
#[expect(clippy::large_enum_variant, reason = "there is one per simulation")]
pub enum Driver {
    /// The scheduler core, as in the engine.
    #[default]
    Scheduler,
    /// A thread for every operator instance, under a fair scheduler of an operating system.
    OsThreads(OsThreads),
}

/// Another policy from some time on.
pub struct Switch {
    /// When.
    pub at: Duration,
    /// The policy, made once per node.
    pub to: Recipe,
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("at", &self.at).field("to", &self.to.name()).finish()
    }
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            cluster: Cluster::one(1),
            config: Config::default(),
            overheads: Overheads::default(),
            faults: Vec::new(),
            duration: Duration::from_secs(60),
            warm_up: Duration::ZERO,
            drain: false,
            seed: 0,
            cut: Cut::AtQuantum { rows_min: 128 },
            merge_rows_max: None,
            rounding: Rounding::Carry,
            credit_bytes: 64 << 20,
            memory_bound_bytes: None,
            heap: None,
            closed_loop: false,
            shed: false,
            driver: Driver::Scheduler,
            shards: 1,
            shards_of_crowd: 1,
            sources: Sources::AtOnce,
            switches: Vec::new(),
            exchange: Duration::from_millis(120),
            sample: Duration::from_millis(100),
            latency_digits: 3,
            keep: Keep { timeline: false, results: false, trace: false, checks: true },
        }
    }
}
