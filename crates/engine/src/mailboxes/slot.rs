//! A shard behind its lock, and what is known of it without: the best priority, whether work waits, when to look next.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use laxity_graph::ProcessingTime;
use laxity_runtime::Agenda;
use laxity_sched::{Shard, Top};

use super::ahead::Ahead;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// A scheduler, what its operators are, and the tables that are to be looked at by it.
pub(super) struct Desk<T, U> {
    pub shard: Shard<T>,
    /// By local id: what a worker that is granted it gets in its hands.
    pub units: Vec<Option<U>>,
    /// By local id of a table that works for one query alone: the operators of that.
    pub fed: Vec<Range<u32>>,
    pub ahead: Ahead,
    pub agenda: Agenda,
}

/// A shard behind its lock, and beside it what workers elsewhere may know of it without the lock.
///
/// Aligned to cache lines, so that looking at it does not disturb who works on it.
#[repr(align(64))]
pub(super) struct Slot<T, U> {
    desk: Mutex<Desk<T, U>>,
    published: Published,
}

/// Written under the lock and read without, `Relaxed`: who goes by it takes the lock before it acts, and falls
/// asleep only after it has looked under the lock.
#[repr(align(64))]
struct Published {
    /// [`Shard::top`].
    top: AtomicU64,
    /// [`Shard::due`] or the next look at a table; `u64::MAX` for never.
    due_ns: AtomicU64,
}

impl<T, U> Slot<T, U> {
    pub fn new(shard: Shard<T>) -> Slot<T, U> {
        let published =
            Published { top: AtomicU64::new(Top::EMPTY.to_bits()), due_ns: AtomicU64::new(u64::MAX) };
        let desk = Desk {
            shard,
            units: Vec::new(),
            fed: Vec::new(),
            ahead: Ahead::default(),
            agenda: Agenda::default(),
        };
        Slot { desk: Mutex::new(desk), published }
    }

    pub fn lock(&self) -> MutexGuard<'_, Desk<T, U>> {
        self.desk.lock_soon()
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, Desk<T, U>>> {
        self.desk.try_lock()
    }

    /// Says how this shard, whose lock the caller has, is now.
    pub fn publish(&self, desk: &Desk<T, U>, now: ProcessingTime) {
        store(&self.published.top, desk.shard.top(now).to_bits());
        let due = desk.shard.due().into_iter().chain(desk.agenda.next()).min();
        store(&self.published.due_ns, due.map_or(u64::MAX, |due| due.0));
    }

    pub fn top(&self) -> Top {
        Top::from_bits(self.published.top.load(Relaxed))
    }

    pub fn is_due(&self, now: ProcessingTime) -> bool {
        self.published.due_ns.load(Relaxed) <= now.0
    }

    /// Whether work waits, and when a look at a table will.
    pub fn outlook(&self) -> (bool, Option<ProcessingTime>) {
        let desk = self.lock();
        (desk.shard.scheduler().waiting_units() > 0, desk.agenda.next())
    }
}

/// A line that others read is written only where it changes.
fn store(word: &AtomicU64, value: u64) {
    if word.load(Relaxed) != value {
        word.store(value, Relaxed);
    }
}
