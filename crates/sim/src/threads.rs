use std::time::Duration;

/// A thread for every operator instance, and how an operating system shares the cores among them.
#[derive(Clone, Debug)]
pub struct OsThreads {
    /// How long a thread runs before another has its turn. Default 3 ms, Linux's base slice on many cores.
    pub slice: Duration,
}

impl Default for OsThreads {
    fn default() -> OsThreads {
        OsThreads { slice: Duration::from_millis(3) }
    }
}

/// The threads of one machine.
#[derive(Debug)]
pub(crate) struct Threads {}
