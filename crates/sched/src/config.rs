/// How the core behaves whatever the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Workers that will ask; more may ask later. Default 1.
    pub workers: usize,
    /// Schedulers that share these workers ([`crate::Shards`]): what is weighed against what workers can do, is
    /// weighed against this one's share of them. Default 1.
    pub shards: usize,
    /// How long a worker keeps an operator before it looks whether another is more urgent. Shorter reacts
    /// sooner, longer switches less. Default 1 ms, the re-scheduling grain of Cameo §5.
    pub quantum_ns: u64,
    /// Where calls are dear, a quantum grows until they take 2 % of it, but to no more than this. Default 5 ms: with .2 ms a
    /// dispatch, quanta of 1 ms lose a sixth of the cores to dispatches, and of 5 ms a 26th. Calls of our own engine take
    /// some microseconds, for which 1 ms does. Not above `quantum_ns`: quanta never grow.
    pub quantum_max_ns: u64,
    /// Seed of every random choice. Default 0.
    pub seed: u64,
    /// A ready operator that waited so long is served in order of arrival, before all others, under ranks
    /// that could starve it ([`crate::WaitBound::Ageing`]). Default 10 s.
    pub ageing_bound_ns: u64,
    /// The frontier of a window is never believed to be further off than this, so that a bad fit of event
    /// time to processing time delays a message by this much at most. Default 60 s, the target of a query
    /// that names none.
    pub deferral_max_ns: u64,
    /// Bytes in a mailbox above which the operators that feed it are blocked until it has fallen to half.
    /// Bounds what a window with many groups or a join with many matches can pile up. Default 4 MiB: several
    /// full batches, so that a fast consumer does not run dry.
    pub mailbox_bytes_max: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            workers: 1,
            shards: 1,
            quantum_ns: 1_000_000,
            quantum_max_ns: 5_000_000,
            seed: 0,
            ageing_bound_ns: 10_000_000_000,
            deferral_max_ns: 60_000_000_000,
            mailbox_bytes_max: 4 << 20,
        }
    }
}
