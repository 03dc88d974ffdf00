use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use laxity_graph::QueryId;
use parking_lot::{Condvar, Mutex};

use crate::Memory;

/// What all queries of a process share.
#[derive(Debug)]
pub struct Process {
    /// Bytes of them all, and the bound on those.
    pub memory: Memory,
    /// Bytes that a query may have in flight before its sources wait.
    pub credit_bytes: u64,
    ended: Mutex<Ended>,
    /// Some query has ended.
    has_ended: AtomicBool,
    /// Told with every end, and by [`Process::wake`].
    comes: Condvar,
}

#[derive(Debug, Default)]
struct Ended {
    /// Queries that have ended, to be cleared up after.
    queries: Vec<QueryId>,
    is_woken: bool,
}

impl Process {
    /// Without queries yet.
    pub fn new(memory_limit_bytes: u64, credit_bytes: u64) -> Process {
        Process {
            memory: Memory::new(memory_limit_bytes),
            credit_bytes,
            ended: Mutex::default(),
            has_ended: AtomicBool::new(false),
            comes: Condvar::new(),
        }
    }

    /// The same, of a process that is not to [take more](Memory::kept) than the bound.
    pub fn kept(memory_limit_bytes: u64, credit_bytes: u64) -> Process {
        Process { memory: Memory::kept(memory_limit_bytes), ..Process::new(memory_limit_bytes, credit_bytes) }
    }

    pub(crate) fn on_ended(&self, query: QueryId) {
        self.ended.lock().queries.push(query);
        self.has_ended.store(true, Ordering::Release);
        self.comes.notify_all();
    }

    /// Lets who clears up wait until a query has ended, or something is to be looked at, but for no longer; true if that is
    /// so. Of one thread.
    pub fn wait_for_ended(&self, timeout: Duration) -> bool {
        let mut ended = self.ended.lock();
        if ended.queries.is_empty() && !ended.is_woken {
            self.comes.wait_for(&mut ended, timeout);
        }
        std::mem::take(&mut ended.is_woken) || !ended.queries.is_empty()
    }

    /// Ends a [wait](Process::wait_for_ended), or the next one before it begins.
    pub fn wake(&self) {
        self.ended.lock().is_woken = true;
        self.comes.notify_all();
    }

    /// Those that have ended since the last call.
    pub fn take_ended(&self) -> Vec<QueryId> {
        // Asked for often, and nearly always in vain.
        if !self.has_ended.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut self.ended.lock().queries)
    }
}
