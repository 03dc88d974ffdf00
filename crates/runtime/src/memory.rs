//! The rule that keeps the process alive when state grows faster than it is freed; it holds sources back before it ends
//! anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use laxity_graph::ProcessingTime;
use parking_lot::Mutex;

use crate::{Outcome, Query};

/// Bytes of state and queued rows of all queries, and the bound on them.
///
/// Near the bound sources wait. If that alone does not help, because state does not shrink, the largest query
/// is stopped, alone, with an error that says so.
///
/// Operators count what they hold, and not what an allocator takes for it, nor a table that is being doubled. A driver
/// that knows what the process really takes [says so](Memory::observe_resident), and every byte that is counted from
/// then on stands for as many as were really taken.
#[derive(Debug)]
pub struct Memory {
    limit_bytes: u64,
    margins: Margins,
    used_bytes: AtomicI64,
    /// Bytes that the process takes for a thousand that are counted, at least a thousand.
    taken_per_thousand: AtomicU64,
    /// The most bytes counted when that was last learned.
    learned_at_bytes: AtomicU64,
    /// Of them, those that wait or are worked on: what can be freed while nothing comes in.
    in_flight_bytes: AtomicI64,
    /// Sources are held while memory is freed ([`hold_sources`](Memory::hold_sources)).
    holds_sources: AtomicBool,
    /// Until no more than so many are in flight; [`OPEN`] while they are not.
    held_until_bytes: AtomicI64,
    over_since: Mutex<Option<ProcessingTime>>,
}

/// At which shares of the bound something is done.
#[derive(Clone, Copy, Debug)]
struct Margins {
    /// Sources wait.
    wait: f64,
    /// The largest query is stopped, once this has been passed for as long as the patience.
    stop: f64,
    patience_ns: u64,
}

impl Margins {
    /// Where bytes are counted exactly. Rows in flight may pass the bound a little; only state can pass it by so much,
    /// for longer than admitted rows need to be processed and windows to fire.
    const COUNTED: Margins = Margins { wait: 1.0, stop: 1.1, patience_ns: 2_000_000_000 };

    /// Where the bound is one of a real process. Rows that have been admitted may still grow to many times their size,
    /// and a machine that has no more memory waits for nobody: what is left between the two is for those rows and for
    /// what is taken between two looks.
    const KEPT: Margins = Margins { wait: 0.85, stop: 0.95, patience_ns: 0 };
}

/// No estimate is believed to be further off than this: a process also keeps memory that it has freed.
const TAKEN_PER_THOUSAND_MAX: u64 = 3_000;

/// b of Klink §3.4, as the thesis sets it (§3.2.4).
const HELD_FROM: f64 = 0.8;

const OPEN: i64 = -1;

/// Below this share of the bound what a process takes besides would pass for state.
const LEARNED_FROM: u64 = 8;

impl Memory {
    /// Nothing held yet, and so much allowed. What is counted is all there is, as in a simulation.
    pub fn new(limit_bytes: u64) -> Memory {
        Memory {
            limit_bytes,
            margins: Margins::COUNTED,
            used_bytes: AtomicI64::new(0),
            taken_per_thousand: AtomicU64::new(1_000),
            learned_at_bytes: AtomicU64::new(0),
            in_flight_bytes: AtomicI64::new(0),
            holds_sources: AtomicBool::new(false),
            held_until_bytes: AtomicI64::new(OPEN),
            over_since: Mutex::new(None),
        }
    }

    /// The same for a process that is not to take more.
    pub fn kept(limit_bytes: u64) -> Memory {
        Memory { margins: Margins::KEPT, ..Memory::new(limit_bytes) }
    }

    /// So much more, or less, is held.
    pub fn grow(&self, bytes: i64) {
        self.used_bytes.fetch_add(bytes, Relaxed);
    }

    /// So many more, or fewer, of what is held are in flight.
    pub(crate) fn grow_in_flight(&self, bytes: i64) {
        self.in_flight_bytes.fetch_add(bytes, Relaxed);
    }

    /// From now on, or no longer, sources of all queries are held from four fifths of the bound on, until half of what was
    /// in flight then is gone; as a rank asks for that ranks by what frees memory. As long as sources refill every byte
    /// that comes free, memory stays at its bound under any order, and what comes waits for all of it.
    ///
    /// Klink §3.4: memory goes first "until half of the consumed memory has been freed", and sources are not among what
    /// runs meanwhile. State is left out of the half, for only what is in flight goes by running.
    pub fn hold_sources(&self, holds: bool) {
        self.holds_sources.store(holds, Relaxed);
        if !holds {
            self.held_until_bytes.store(OPEN, Relaxed);
        }
    }

    /// Whether sources are held so now. Threads that ask at once may answer unlike; the next answer settles it.
    pub fn are_sources_held(&self) -> bool {
        if !self.holds_sources.load(Relaxed) {
            return false;
        }
        let in_flight = self.in_flight_bytes.load(Relaxed).max(0);
        let until = self.held_until_bytes.load(Relaxed);
        if until == OPEN {
            let is_short = self.taken_bytes() as f64 >= self.limit_bytes as f64 * HELD_FROM;
            if is_short && in_flight > 0 {
                self.held_until_bytes.store(in_flight / 2, Relaxed);
                return true;
            }
            return false;
        }
        if in_flight <= until {
            self.held_until_bytes.store(OPEN, Relaxed);
        }
        in_flight > until
    }

    /// Counted as held now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed).max(0) as u64
    }

    /// What the process takes for it.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_for(self.used_bytes())
    }

    fn taken_for(&self, counted_bytes: u64) -> u64 {
        (u128::from(counted_bytes) * u128::from(self.taken_per_thousand.load(Relaxed)) / 1_000) as u64
    }

    /// Allowed.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The process takes so much more than before its first row. Of one thread.
    ///
    /// Memory that was freed may stay with the process until it is used again. So more is learned only while more is
    /// counted than ever before, and less at any time.
    pub fn observe_resident(&self, bytes: u64) {
        let used = self.used_bytes();
        if used < self.limit_bytes / LEARNED_FROM {
            return;
        }
        let found = (u128::from(bytes) * 1_000 / u128::from(used.max(1))) as u64;
        let found = found.clamp(1_000, TAKEN_PER_THOUSAND_MAX);
        if used >= self.learned_at_bytes.load(Relaxed) || found < self.taken_per_thousand.load(Relaxed) {
            self.taken_per_thousand.store(found, Relaxed);
            self.learned_at_bytes.fetch_max(used, Relaxed);
        }
    }

    /// Whether a source may admit more rows of this query.
    ///
    /// A query with nothing in flight always may: only rows move its watermark on and free its windows.
    pub(crate) fn admits(&self, query: &Query) -> bool {
        let has_room = (self.taken_bytes() as f64) < self.limit_bytes as f64 * self.margins.wait;
        has_room && !self.are_sources_held() || query.drained()
    }

    /// Whether the bound is passed by more than rows in flight can explain: [`relieve`](Memory::relieve) then, and once
    /// when that is over.
    pub fn is_over(&self) -> bool {
        self.passes(self.used_bytes()) || self.over_since.lock().is_some()
    }

    fn passes(&self, counted_bytes: u64) -> bool {
        self.taken_for(counted_bytes) as f64 >= self.limit_bytes as f64 * self.margins.stop
    }

    /// Stops the largest query once the bound has been passed for longer than waiting can explain. What a stopped one
    /// still holds is on its way out.
    pub fn relieve(&self, queries: &[Arc<Query>], now: ProcessingTime) {
        let mut over_since = self.over_since.lock();
        let (stopped, running): (Vec<_>, Vec<_>) = queries.iter().partition(|query| query.stopped());
        let leaving: u64 = stopped.iter().map(|query| query.bytes()).sum();
        let used = self.used_bytes().saturating_sub(leaving);
        if !self.passes(used) {
            *over_since = None;
            return;
        }
        if now.since_ns(*over_since.get_or_insert(now)) < self.margins.patience_ns {
            return;
        }
        *over_since = None;
        if let Some(largest) = running.into_iter().max_by_key(|query| query.bytes()) {
            let why = format!(
                "the process holds {} MB, over its bound of {} MB, and this query the most of it, {} MB: raise the bound, shorten its windows or group by fewer keys",
                self.taken_for(used) >> 20,
                self.limit_bytes >> 20,
                self.taken_for(largest.bytes()) >> 20
            );
            tracing::error!(query = largest.settings.name, why, "query stopped");
            largest.end(Outcome::Failed(why));
        }
    }
}

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

    #[test]
    fn what_is_counted_stands_for_what_is_taken() {
        let memory = Memory::kept(1_000 << 20);
        memory.grow(100 << 20);
        memory.observe_resident(400 << 20);
        assert_eq!(memory.taken_bytes(), 100 << 20, "too little to learn from");
        memory.grow(100 << 20);
        memory.observe_resident(300 << 20);
        assert_eq!(memory.taken_bytes(), 300 << 20);
        // Half of it is freed, and stays with the process.
        memory.grow(-(100 << 20));
        memory.grow(40 << 20);
        memory.observe_resident(300 << 20);
        assert_eq!(memory.taken_bytes(), 210 << 20);
        // It is used again, by what is counted better.
        memory.grow(50 << 20);
        memory.observe_resident(209 << 20);
        assert_eq!(memory.taken_bytes(), 209 << 20);
        // Nobody believes ten times as much.
        memory.grow(100 << 20);
        memory.observe_resident(3_000 << 20);
        assert_eq!(memory.taken_bytes() >> 20, 870);
    }

    #[test]
    fn sources_are_held_from_four_fifths_on_until_half_of_what_is_in_flight_is_gone() {
        let process = Arc::new(Process::new(100, 1 << 20));
        let query = Arc::new(Query::new(QueryId(0), QuerySettings::named("full"), 1, process.clone()));
        let memory = &process.memory;
        query.grow_state(10);
        query.admit(crate::InFlight::one(1, 70));
        assert!(memory.admits(&query), "nobody asked for it");
        memory.hold_sources(true);
        assert!(!memory.admits(&query));
        // 35 of 70 go; the state stays.
        for gone in [30, 5] {
            assert!(!memory.admits(&query));
            let gone = crate::InFlight { messages: 0, rows: 0, bytes: gone };
            let _never_for_more = query.release(gone);
        }
        assert!(memory.admits(&query), "half is free");
        query.admit(crate::InFlight::one(1, 34));
        assert!(memory.admits(&query), "79 of 100");
        query.admit(crate::InFlight::one(1, 1));
        assert!(!memory.admits(&query));
        memory.hold_sources(false);
        assert!(memory.admits(&query));
    }

    #[test]
    fn what_is_state_alone_holds_nobody() {
        let memory = Memory::new(100);
        memory.hold_sources(true);
        memory.grow(90);
        assert!(!memory.are_sources_held(), "waiting would free nothing");
    }

    #[test]
    fn a_kept_bound_is_patient_with_nobody_and_stops_one_at_a_time() {
        let process = Arc::new(Process::kept(100 << 20, 1 << 20));
        let query =
            |id, name| Arc::new(Query::new(QueryId(id), QuerySettings::named(name), 1, process.clone()));
        let queries = [query(0, "small"), query(1, "large")];
        queries[0].grow_state(30 << 20);
        queries[1].grow_state(54 << 20);
        assert!(process.memory.admits(&queries[0]));
        // Rows in flight: who has some waits from here on.
        queries[0].admit(crate::InFlight::one(1, 2 << 20));
        assert!(!process.memory.admits(&queries[0]) && process.memory.admits(&queries[1]));
        assert!(!process.memory.is_over());
        queries[1].grow_state(10 << 20);
        assert!(process.memory.is_over());
        process.memory.relieve(&queries, ProcessingTime(1));
        assert!(matches!(queries[1].outcome(), Outcome::Failed(_)));
        // It has not let go of anything yet.
        process.memory.relieve(&queries, ProcessingTime(2));
        assert_eq!(queries[0].outcome(), Outcome::Running);
    }
}
