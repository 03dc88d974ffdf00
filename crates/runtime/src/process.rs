use std::sync::atomic::{AtomicBool, Ordering};

use laxity_graph::QueryId;
use parking_lot::Mutex;

use crate::Memory;

/// What all queries of a process share.
#[derive(Debug)]
pub struct Process {
    /// Bytes of them all, and the bound on those.
    pub memory: Memory,
    /// Bytes that a query may have in flight before its sources wait.
    pub credit_bytes: u64,
    /// Queries that have ended, to be cleared up after.
    ended: Mutex<Vec<QueryId>>,
    /// There are some.
    has_ended: AtomicBool,
}

impl Process {
    /// Without queries yet.
    pub fn new(memory_limit_bytes: u64, credit_bytes: u64) -> Process {
        Process {
            memory: Memory::new(memory_limit_bytes),
            credit_bytes,
            ended: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// The same, of a process that is not to [take more](Memory::kept) than the bound.
    pub fn kept(memory_limit_bytes: u64, credit_bytes: u64) -> Process {
        Process { memory: Memory::kept(memory_limit_bytes), ..Process::new(memory_limit_bytes, credit_bytes) }
    }

    pub(crate) fn on_ended(&self, query: QueryId) {
        self.ended.lock().push(query);
        self.has_ended.store(true, Ordering::Release);
    }

    /// Those that have ended since the last call.
    pub fn take_ended(&self) -> Vec<QueryId> {
        // Asked for often, and nearly always in vain.
        if !self.has_ended.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.ended.lock())
    }
}
