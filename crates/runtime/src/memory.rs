use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use laxity_graph::ProcessingTime;
use parking_lot::Mutex;

use crate::{Outcome, Query};

/// Bytes of state and queued rows of all queries, and the bound on them.
///
/// At the bound sources wait. If that alone does not help, because state does not shrink, the largest query
/// is stopped, alone, with an error that says so.
#[derive(Debug)]
pub struct Memory {
    limit_bytes: u64,
    used_bytes: AtomicI64,
    over_since: Mutex<Option<ProcessingTime>>,
}

impl Memory {
    /// Nothing held yet, and so much allowed.
    pub fn new(limit_bytes: u64) -> Memory {
        Memory { limit_bytes, used_bytes: AtomicI64::new(0), over_since: Mutex::new(None) }
    }

    /// So much more, or less, is held.
    pub fn grow(&self, bytes: i64) {
        self.used_bytes.fetch_add(bytes, Relaxed);
    }

    /// Held now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed).max(0) as u64
    }

    /// Allowed.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Whether a source may admit more rows of this query.
    ///
    /// A query with nothing in flight always may: only rows move its watermark on and free its windows.
    pub(crate) fn admits(&self, query: &Query) -> bool {
        self.used_bytes() < self.limit_bytes || query.drained()
    }

    /// Whether the bound is passed by more than rows in flight can explain: [`relieve`](Memory::relieve) then, and once
    /// when that is over.
    pub fn is_over(&self) -> bool {
        self.used_bytes() as f64 >= self.limit_bytes as f64 * OVERSHOOT || self.over_since.lock().is_some()
    }

    /// Stops the largest query once the bound has been passed for longer than waiting can explain.
    pub fn relieve(&self, queries: &[Arc<Query>], now: ProcessingTime) {
        // Long enough for admitted rows to be processed and windows to fire.
        const PATIENCE_NS: u64 = 2_000_000_000;
        let mut over_since = self.over_since.lock();
        if (self.used_bytes() as f64) < self.limit_bytes as f64 * OVERSHOOT {
            *over_since = None;
            return;
        }
        if now.since_ns(*over_since.get_or_insert(now)) < PATIENCE_NS {
            return;
        }
        *over_since = None;
        let running = queries.iter().filter(|query| !query.stopped());
        if let Some(largest) = running.max_by_key(|query| query.bytes()) {
            let why = format!(
                "the process holds {} MB, over its bound of {} MB, and this query the most of it, {} MB: raise the bound, shorten its windows or group by fewer keys",
                self.used_bytes() >> 20,
                self.limit_bytes >> 20,
                largest.bytes() >> 20
            );
            tracing::error!(query = largest.settings.name, why, "query stopped");
            largest.end(Outcome::Failed(why));
        }
    }
}

/// Rows in flight may pass the bound a little; only state can pass it by so much.
const OVERSHOOT: f64 = 1.1;

#[cfg(test)]
mod tests {
    use laxity_graph::{QueryId, QuerySettings};

    use super::*;
    use crate::Process;

    #[test]
    fn the_largest_query_alone_is_stopped_and_only_after_patience() {
        let process = Arc::new(Process::new(8 << 20, 1 << 20));
        let memory = &process.memory;
        let query =
            |id, name| Arc::new(Query::new(QueryId(id), QuerySettings::named(name), 1, process.clone()));
        let queries = [query(0, "small"), query(1, "large")];
        queries[0].grow_state(3 << 20);
        queries[1].grow_state(6 << 20);
        let at_s = |seconds: u64| ProcessingTime(seconds * 1_000_000_000);
        memory.relieve(&queries, at_s(10));
        memory.relieve(&queries, at_s(11));
        assert!(queries.iter().all(|query| query.outcome() == Outcome::Running), "one second is too soon");
        // Falling below the bound starts the wait anew.
        queries[1].grow_state(-(4 << 20));
        memory.relieve(&queries, at_s(12));
        queries[1].grow_state(4 << 20);
        memory.relieve(&queries, at_s(13));
        assert_eq!(queries[1].outcome(), Outcome::Running);
        memory.relieve(&queries, at_s(15));
        assert_eq!(queries[0].outcome(), Outcome::Running);
        let Outcome::Failed(why) = queries[1].outcome() else { panic!("it went on") };
        assert!(
            why.contains("holds 9 MB, over its bound of 8 MB, and this query the most of it, 6 MB"),
            "{why}"
        );
    }
}
