//! What all queries of a process share: memory, and the list of those that have ended for who clears up after them.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use laxity_graph::QueryId;
use parking_lot::Mutex;

use crate::Memory;

/// What all queries of a process share.
pub struct Process {
    /// Bytes of them all, and the bound on those.
    pub memory: Memory,
    /// Bytes that a query may have in flight before its sources wait.
    pub credit_bytes: u64,
    ended: Mutex<Ended>,
    /// Some query has ended.
    has_ended: AtomicBool,
    /// Called with every end, and by [`Process::wake`].
    told: OnceLock<Box<dyn Fn() + Send + Sync>>,
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
            told: OnceLock::new(),
        }
    }

    /// The same, of a process that is not to [take more](Memory::kept) than the bound.
    pub fn kept(memory_limit_bytes: u64, credit_bytes: u64) -> Process {
        Process { memory: Memory::kept(memory_limit_bytes), ..Process::new(memory_limit_bytes, credit_bytes) }
    }

    /// How who clears up hears that there is something to [look at](Process::take_call): on whichever thread it came about.
    /// Once, before the first end.
    pub fn tells(&self, told: impl Fn() + Send + Sync + 'static) {
        let _ = self.told.set(Box::new(told));
    }

    pub(crate) fn on_ended(&self, query: QueryId) {
        self.ended.lock().queries.push(query);
        self.has_ended.store(true, Ordering::Release);
        self.tell();
    }

    /// Something of an ended query has changed.
    pub fn wake(&self) {
        self.ended.lock().is_woken = true;
        self.tell();
    }

    fn tell(&self) {
        if let Some(told) = self.told.get() {
            told();
        }
    }

    /// Whether a query has ended that nobody has [taken](Process::take_ended), or something of one has changed since the last
    /// call.
    pub fn take_call(&self) -> bool {
        let mut ended = self.ended.lock();
        std::mem::take(&mut ended.is_woken) || !ended.queries.is_empty()
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

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Process");
        shown.field("memory", &self.memory).field("ended", &self.ended).finish_non_exhaustive()
    }
}
