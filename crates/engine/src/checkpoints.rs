//! Checkpoints of queries: what is known of each for its own, when its next one is due, and which one it goes on from.
//! Plain state; the threads that take them stand in `taking`.

mod asked;
mod keeping;
mod restore;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::thread::JoinHandle;
use std::time::Duration;

use laxity_connect::{Wait, Waiting};
use laxity_graph::{ProcessingTime, QueryId};
use laxity_state::{Mirror, StateError, StateFolder};
use parking_lot::{Condvar, Mutex};

pub(crate) use self::asked::Asking;
pub(crate) use self::keeping::{
    Keeping, KeptOutlet, KeptSource, KeptWindows, Progress, Store, count_names, counts_of, instance_state,
    last_draft, output_entries,
};
pub use self::restore::complete;
pub(crate) use self::restore::{Found, Restored, difference, find};
use crate::clock::Clock;

/// All that is kept of queries.
#[derive(Default)]
pub(crate) struct Checkpoints {
    state: Mutex<State>,
    wake: Condvar,
    folders: Mutex<HashMap<PathBuf, Arc<StateFolder>>>,
    /// By query: its checkpoint cannot be written for now.
    waits: Mutex<HashMap<QueryId, Waiting>>,
    /// Takes them.
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    kept: Vec<Due>,
    /// A last one of each is to be taken, until then at most.
    last_until: Option<ProcessingTime>,
}

/// When a query's next one is due.
#[derive(Clone)]
struct Due {
    keeping: Arc<Keeping>,
    at: ProcessingTime,
}

impl Checkpoints {
    /// A folder that no other process works with.
    ///
    /// # Errors
    /// If another one does, or it cannot be made.
    pub fn folder(&self, path: &Path, mirror: Option<&Arc<Mirror>>) -> Result<Arc<StateFolder>, StateError> {
        let mut folders = self.folders.lock();
        if let Some(open) = folders.get(path) {
            return Ok(open.clone());
        }
        let open = Arc::new(StateFolder::open_mirrored(path, mirror.cloned())?);
        folders.insert(path.to_owned(), open.clone());
        Ok(open)
    }

    /// A query that is checkpointed from now on.
    pub fn keep(&self, keeping: Keeping, now: ProcessingTime) {
        // What was saved behind the checkpoint that it went back to is not what it goes on from any more.
        let at = if keeping.goes_back { now } else { next_round(now, keeping.interval_ns) };
        self.state.lock().kept.push(Due { keeping: Arc::new(keeping), at });
        self.wake.notify_all();
    }

    /// Has `start` give the thread that takes them, once, if there are any to take.
    ///
    /// # Errors
    /// Those of `start`.
    pub fn start_with(&self, start: impl FnOnce() -> std::io::Result<JoinHandle<()>>) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() && !self.is_empty() {
            *thread = Some(start()?);
        }
        Ok(())
    }

    /// Takes a last one of each query, which takes nothing in from then on. Returns when they are on the disk, or after that
    /// long.
    pub fn stop(&self, clock_now: ProcessingTime, patience: Duration) {
        let Some(thread) = self.thread.lock().take() else { return };
        self.state.lock().last_until = Some(clock_now.plus(patience));
        self.wake.notify_all();
        if thread.join().is_err() {
            tracing::error!("the thread that takes checkpoints panicked; please report this");
        }
    }

    /// Those whose time has come. Of the last ones each is named once.
    pub fn due(&self, now: ProcessingTime) -> (Vec<Arc<Keeping>>, Option<ProcessingTime>) {
        let mut state = self.state.lock();
        state.kept.retain(|due| !due.keeping.query.stopped());
        let last_until = state.last_until;
        let mut due = Vec::new();
        state.kept.retain_mut(|one| {
            let is_wanted = one.at <= now || one.keeping.asking.is_asked();
            let is_due = last_until.is_some() || is_wanted && !one.keeping.query.wants_to_end();
            let comes = is_due && !one.keeping.is_busy.swap(true, AcqRel);
            if comes {
                due.push(one.keeping.clone());
                // One that took long is not followed at once by the next.
                one.at = next_round(now, one.keeping.interval_ns);
            }
            !comes || last_until.is_none()
        });
        (due, last_until)
    }

    /// Waits until the next is due or somebody asks for one, but not for long.
    pub fn wait_for_due(&self, clock: &Clock) {
        let now = clock.now();
        let mut state = self.state.lock();
        let soon = now.plus_ns(if state.last_until.is_some() { 1_000_000 } else { 100_000_000 });
        if state.kept.iter().any(|due| due.keeping.asking.is_asked() && !due.keeping.is_busy.load(Acquire)) {
            return;
        }
        let next = state.kept.iter().map(|due| due.at).min().unwrap_or(soon).min(soon);
        self.wake.wait_until(&mut state, clock.instant(next.max(now.plus_ns(1_000_000))));
    }

    /// Of no query is one to be taken any more.
    pub fn is_empty(&self) -> bool {
        self.state.lock().kept.is_empty()
    }

    /// The checkpoints of these queries cannot be written for now.
    pub fn begin_to_wait(&self, of: &[&Keeping], waiting: &Waiting) {
        self.waits.lock().extend(of.iter().map(|keeping| (keeping.query.id, waiting.clone())));
    }

    /// They are, or are not to be any more.
    pub fn end_to_wait(&self, of: &[&Keeping]) {
        let mut waits = self.waits.lock();
        of.iter().for_each(|keeping| drop(waits.remove(&keeping.query.id)));
    }

    /// The last ones are being taken, or were.
    pub fn is_stopping(&self) -> bool {
        self.last_until().is_some()
    }

    /// What a query's checkpoints wait for, if for something.
    pub fn wait_of(&self, query: QueryId) -> Option<Wait> {
        self.waits.lock().get(&query).and_then(Waiting::get)
    }

    /// Until when the last ones may be taken, once that is asked for.
    pub fn last_until(&self) -> Option<ProcessingTime> {
        self.state.lock().last_until
    }
}

/// When the next of that interval is due. At the same instants for all of one interval: who works with others is saved with
/// them, and small ones go to the disk together.
fn next_round(now: ProcessingTime, interval_ns: u64) -> ProcessingTime {
    let soonest = now.0.saturating_add(interval_ns / 2);
    ProcessingTime((soonest / interval_ns).saturating_add(1).saturating_mul(interval_ns))
}

/// A flag that nothing was asked of yet.
pub(crate) fn not_busy() -> AtomicBool {
    AtomicBool::new(false)
}
