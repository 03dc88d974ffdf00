//! What can be chosen of an engine before it starts, with the reason for each default.

use std::str::FromStr;
use std::time::Duration;

use laxity_sched::{Laxity, Recipe, UnknownPolicy};

/// How an engine runs. See each field for its default.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Worker threads. Default: the cores this process may use. More than cores only adds switching.
    pub workers: usize,
    /// Schedulers that share the queries between them, each behind a lock of its own; no more than workers. One
    /// always runs the most urgent operator of all; several run one near it
    /// ([the relaxation](laxity_sched::Shards)) and let more workers ask at once. Default: one for every
    /// [`WORKERS_PER_SHARD`] workers, and one for each worker among a [crowd](laxity_sched::CROWD) of queries.
    pub shards: Option<usize>,
    /// Who decides what runs next. Default: `laxity`.
    pub policy: Policy,
    /// How long a worker stays with an operator before it asks whether another is more urgent. Default:
    /// 1 ms, Cameo's re-scheduling grain (§6.2): shorter costs switches, longer costs latency.
    pub quantum: Duration,
    /// Rows in one batch at most. Default: 8 192, where Arrow kernels have reached their full speed.
    pub batch_rows: usize,
    /// Small messages that wait for one operator are processed as one batch while there is slack, or where they
    /// are late anyway: what one row costs falls by an order of magnitude. Results do not depend on it. Default:
    /// true; false is for measuring what it is worth.
    pub merge: bool,
    /// Sources keep what arrived ([`crate::Engine::recorded`]), for as long as they live. Default: false.
    pub record: bool,
    /// State and queued rows of all queries together. Above it sources wait; if it still grows, the largest
    /// query is stopped. Default: 2 GiB.
    pub memory_limit_bytes: u64,
    /// Bytes a query may have admitted and not yet processed before its sources wait. Default: 8 MiB, a few
    /// dozen full batches: enough to keep workers busy, little enough that waiting shows at the source.
    pub credit_bytes: u64,
    /// Bytes of a shared scan that a slow reader may leave unread before the scan waits for it, or, if urgent
    /// queries read it too, leaves it to a scan of its own. Default: 128 MiB, a second or two of a source that
    /// keeps a core busy.
    pub backlog_bytes: u64,
    /// Seed of the policies that draw lots. Default: 0.
    pub seed: u64,
    /// How long a stop waits for admitted rows to reach the sinks. Default: 10 s.
    pub drain_timeout: Duration,
}

/// Workers that share one lock. With runs of 0.5 µs, about the shortest there are, four wait for it an eighth of
/// their time and eight more than half of it; with runs of 2 µs four wait a thousandth. Modelled, by
/// `shard_contention` of `laxity-sched`, with a lock held for 0.15 µs a message; not measured on so many cores.
pub const WORKERS_PER_SHARD: usize = 4;

impl EngineConfig {
    /// Shards to use at first, and where queries crowd.
    pub(crate) fn shards(&self) -> (usize, usize) {
        match self.shards {
            Some(shards) => (shards, shards),
            None => (self.workers.div_ceil(WORKERS_PER_SHARD), self.workers),
        }
    }
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            shards: None,
            policy: Policy::default(),
            quantum: Duration::from_millis(1),
            batch_rows: 8_192,
            merge: true,
            record: false,
            memory_limit_bytes: 2 << 30,
            credit_bytes: 8 << 20,
            backlog_bytes: 128 << 20,
            seed: 0,
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// How a query is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It takes in no more rows; results of those that it has are written, for as long as a stop waits at most
    /// ([`EngineConfig::drain_timeout`]). Open windows are not fired: their results would be of half a window.
    Drain,
    /// At once: what it has taken in and not written is dropped.
    Drop,
}

/// From where a query that comes later reads tables that others read already. A table that nobody reads begins at its
/// first row in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinFrom {
    /// From the next row on, together with the others.
    #[default]
    Now,
    /// From the first row on, by a copy of its own, which also keeps the pace of a replay anew.
    Start,
}

/// Who decides what runs next.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Nobody: every operator instance has a thread and the operating system shares the cores, as in the
    /// engines in use today. The baseline.
    ThreadPerOperator,
    /// The scheduler core, with this policy.
    Scheduled(Recipe),
}

/// A policy that cannot be changed while the engine runs. The user can fix it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy os cannot be switched to or from while running: it is a thread per operator and no scheduler; start anew with the other policy"
)]
pub struct CannotSwitch;

impl Policy {
    /// A name as [`FromStr`] takes it.
    pub fn name(&self) -> &str {
        match self {
            Policy::ThreadPerOperator => "os",
            Policy::Scheduled(recipe) => recipe.asked(),
        }
    }

    /// What makes the policy, once for each shard; `None` without a scheduler.
    pub fn recipe(&self) -> Option<&Recipe> {
        match self {
            Policy::ThreadPerOperator => None,
            Policy::Scheduled(recipe) => Some(recipe),
        }
    }
}

impl Default for Policy {
    /// `laxity`.
    fn default() -> Policy {
        Policy::Scheduled(Recipe::of("laxity", Laxity::default))
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    /// A name as `--policy` takes it: `os`, or any name the scheduler knows.
    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        match name {
            "os" => Ok(Policy::ThreadPerOperator),
            _ => laxity_policies::recipe(name).map(Policy::Scheduled),
        }
    }
}
