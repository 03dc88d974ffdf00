//! Checkpoints: when one of a query is due, how it is taken, and how it gets to the disk.
//!
//! Of each query by itself. It is held: its readers take nothing in, each of its tables says how far it was read, and what
//! is on its way comes out, scheduled as ever. Then what its operators hold is all there is of it. That is copied, each of
//! its outputs is asked to make safe what was written so far, in order with its writes, and the query goes on. The rest
//! is done behind its back: the outputs say where they stand, the tables are written, and once all of it is on the disk the
//! outputs are told. No other query waits for any of this.
//!
//! Until a checkpoint is told to the outputs its query does not come to its end: so an output is never asked for two.

mod asked;
mod finish;
mod keeping;
mod restore;
mod writing;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use laxity_connect::{Wait, Waiting};
use laxity_graph::{ProcessingTime, QueryId};
use laxity_runtime::Outcome;
use laxity_state::{StateError, StateFolder};
use parking_lot::{Condvar, Mutex};

pub(crate) use self::asked::Asking;
pub(crate) use self::finish::Finish;
pub(crate) use self::keeping::{
    Keeping, KeptOutlet, KeptSource, KeptWindows, Store, counts_of, instance_state, last_draft,
};
use self::keeping::{SourceRead, SourcesRead, Taken};
pub use self::restore::complete;
pub(crate) use self::restore::{Found, Restored, find};
use self::writing::Writers;
use crate::shared::Shared;

/// All that is kept of queries, and the threads that do it.
#[derive(Default)]
pub(crate) struct Checkpoints {
    state: Mutex<State>,
    wake: Condvar,
    folders: Mutex<HashMap<PathBuf, Arc<StateFolder>>>,
    /// By query: its checkpoint cannot be written for now.
    waits: Mutex<HashMap<QueryId, Waiting>>,
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

/// A query that is held.
struct Held {
    keeping: Arc<Keeping>,
    since: ProcessingTime,
    /// `None` until all of its tables have said how far it has read.
    sources: Option<Vec<SourceRead>>,
}

/// One of which nothing is on its way.
struct Drained {
    keeping: Arc<Keeping>,
    since: ProcessingTime,
    seen_at: ProcessingTime,
    sources: Vec<SourceRead>,
    is_last: bool,
}

/// How long a query is held at most, if its target is not longer than that: one that does not drain goes on without a
/// checkpoint.
const HOLD_NS_MAX: u64 = 5_000_000_000;

/// So many queries are held at once: each waits for those that are copied before it. Picked: as many take a few
/// milliseconds.
const HELD_AT_ONCE: usize = 32;

/// Between those that are held at once and the next of as many.
const BETWEEN_ROUNDS: Duration = Duration::from_micros(200);

/// One that is held for longer waits for its own operators or outputs, and others do not wait for that.
const SLOW_NS: u64 = 20_000_000;

/// A query that holds more than this is copied by a thread of its own: a million groups take many milliseconds, and those
/// that are held meanwhile should not wait for that.
const LARGE_BYTES: i64 = 1 << 20;

impl Checkpoints {
    /// A folder that no other process works with.
    ///
    /// # Errors
    /// If another one does, or it cannot be made.
    pub fn folder(&self, path: &Path) -> Result<Arc<StateFolder>, StateError> {
        let mut folders = self.folders.lock();
        if let Some(open) = folders.get(path) {
            return Ok(open.clone());
        }
        let open = Arc::new(StateFolder::open(path)?);
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

    /// Lets them be taken, if there are any.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(&self, shared: &Arc<Shared>) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_some() || self.state.lock().kept.is_empty() {
            return Ok(());
        }
        let (jobs, taken) = channel();
        let writers = Writers::start(shared, taken)?;
        let (large, of_large) = channel::<Drained>();
        let (of_copier, copied) = (shared.clone(), jobs.clone());
        let copier = std::thread::Builder::new().name("laxity-state-large".into());
        let copier = copier.spawn(move || {
            of_large.iter().for_each(|drained| take(&of_copier, &drained, &copied));
        })?;
        let of_taker = shared.clone();
        let taker = std::thread::Builder::new().name("laxity-checkpoints".into());
        *thread = Some(taker.spawn(move || {
            of_taker.checkpoints.take_all(&of_taker, &jobs, &large);
            drop((jobs, large));
            let _ = copier.join();
            writers.join();
        })?);
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

    /// What the thread does that takes them.
    fn take_all(&self, shared: &Arc<Shared>, jobs: &Sender<Taken>, large: &Sender<Drained>) {
        let mut held: Vec<Held> = Vec::new();
        let mut waiting: VecDeque<Arc<Keeping>> = VecDeque::new();
        loop {
            let now = shared.clock.now();
            let (due, last_until) = self.due(now);
            waiting.extend(due);
            let is_young = |one: &&Held| now.since_ns(one.since) < SLOW_NS;
            let mut young = held.iter().filter(is_young).count();
            while last_until.is_some() || young < HELD_AT_ONCE {
                let Some(keeping) = waiting.pop_front() else { break };
                let begun = begin(shared, keeping, now, last_until.is_some());
                young += usize::from(begun.is_some());
                held.extend(begun);
            }
            let is_last = last_until.is_some();
            held = held.into_iter().filter_map(|one| proceed(shared, one, jobs, large, is_last)).collect();
            if let Some(until) = last_until
                && (shared.clock.now() >= until || held.is_empty() && self.state.lock().kept.is_empty())
            {
                break;
            }
            if held.is_empty() && !waiting.is_empty() {
                // Others want the locks of the tables, too.
                std::thread::sleep(BETWEEN_ROUNDS);
            } else {
                self.rest(shared, &held);
            }
        }
        for one in held {
            give_up(shared, &one.keeping, "the time to drain was over");
        }
    }

    /// Those whose time has come. Of the last ones each is named once.
    fn due(&self, now: ProcessingTime) -> (Vec<Arc<Keeping>>, Option<ProcessingTime>) {
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

    fn rest(&self, shared: &Shared, held: &[Held]) {
        // A query that is held takes nothing in: it is looked at often, at first.
        let now = shared.clock.now();
        if let Some(youngest) = held.iter().map(|one| one.since).max() {
            let is_long = now.since_ns(youngest) > SLOW_NS;
            std::thread::sleep(Duration::from_micros(if is_long { 1_000 } else { 100 }));
            return;
        }
        let mut state = self.state.lock();
        let soon = now.plus_ns(if state.last_until.is_some() { 1_000_000 } else { 100_000_000 });
        if state.kept.iter().any(|due| due.keeping.asking.is_asked() && !due.keeping.is_busy.load(Acquire)) {
            return;
        }
        let next = state.kept.iter().map(|due| due.at).min().unwrap_or(soon).min(soon);
        self.wake.wait_until(&mut state, shared.clock.instant(next.max(now.plus_ns(1_000_000))));
    }
}

/// When the next of that interval is due. At the same instants for all of one interval: who works with others is saved with
/// them, and small ones go to the disk together.
fn next_round(now: ProcessingTime, interval_ns: u64) -> ProcessingTime {
    let soonest = now.0.saturating_add(interval_ns / 2);
    ProcessingTime((soonest / interval_ns).saturating_add(1).saturating_mul(interval_ns))
}

/// Holds a query. `None` if it cannot be checkpointed just now, or need not be.
fn begin(shared: &Shared, keeping: Arc<Keeping>, now: ProcessingTime, is_last: bool) -> Option<Held> {
    if !is_last && !keeping.asking.is_asked() && keeping.is_left_out(shared) {
        keeping.is_busy.store(false, Release);
        return None;
    }
    keeping.query.hold();
    match keeping.sources(shared, true) {
        SourcesRead::All(sources) => {
            let since = stopped_since(shared, &sources).unwrap_or(now);
            Some(Held { keeping, since, sources: Some(sources) })
        }
        SourcesRead::Later => Some(Held { keeping, since: now, sources: None }),
        SourcesRead::Unknown => {
            give_up(shared, &keeping, "");
            None
        }
    }
}

/// Since when nothing is done for a query whose work others do: they go on until they have told what they hold of it.
fn stopped_since(shared: &Shared, sources: &[SourceRead]) -> Option<ProcessingTime> {
    let work = sources.iter().find(|source| source.work.is_some())?;
    Some(ProcessingTime(shared.clock.now().0.saturating_sub(work.copy_ns)))
}

/// Takes the checkpoint of a held query once it is drained. `None` if it is held no longer, or by another thread.
fn proceed(
    shared: &Shared,
    mut held: Held,
    jobs: &Sender<Taken>,
    large: &Sender<Drained>,
    is_last: bool,
) -> Option<Held> {
    let Held { keeping, since, sources } = &mut held;
    let query = &keeping.query;
    if query.stopped() {
        give_up(shared, keeping, "");
        return None;
    }
    if sources.is_none() {
        match keeping.sources(shared, false) {
            SourcesRead::All(read) => {
                *since = stopped_since(shared, &read).unwrap_or(*since);
                *sources = Some(read);
            }
            SourcesRead::Later => {}
            SourcesRead::Unknown => {
                give_up(shared, keeping, "");
                return None;
            }
        }
    }
    if sources.is_none() || !query.drained() {
        let most_ns = HOLD_NS_MAX.max(query.target_ns().min(60_000_000_000));
        let is_stalled = || keeping.outlets.iter().any(|kept| shared.sinks.is_stalled(&kept.outlet));
        // At the end nobody waits for an output whose reader has stopped.
        let is_over = if is_last { is_stalled() } else { shared.clock.now().since_ns(*since) > most_ns };
        if is_over {
            give_up(shared, keeping, "what was on its way did not come out in time; the next one may");
            return None;
        }
        return Some(held);
    }
    let Held { keeping, since, sources } = held;
    let sources = sources.unwrap_or_default();
    if !is_last && !keeping.asking.is_asked() && keeping.is_as_saved(&sources) {
        give_up(shared, &keeping, "");
        return None;
    }
    let is_large = keeping.query.state_bytes.load(Relaxed) > LARGE_BYTES;
    let seen_at = shared.clock.now();
    let drained = Drained { keeping, since, seen_at, sources, is_last };
    match is_large {
        // The thread outlives this one's work.
        true => drop(large.send(drained)),
        false => take(shared, &drained, jobs),
    }
    None
}

/// Takes the checkpoint of a query of which nothing is on its way, lets it go on, unless that is the last, and leaves the
/// rest to those who write.
fn take(shared: &Shared, drained: &Drained, jobs: &Sender<Taken>) {
    let Drained { keeping, since, seen_at, sources, is_last } = drained;
    let begun_at = shared.clock.now();
    // An operator that panics ends its query and no other.
    let take = std::panic::AssertUnwindSafe(|| keeping.take(shared, sources.clone(), shared.clock.now()));
    let taken = std::panic::catch_unwind(take).unwrap_or_else(|panic| {
        let why = format!("internal error: {} (please report this)", laxity_runtime::panic_text(&*panic));
        keeping.query.end(Outcome::Failed(why.clone()));
        Err(why)
    });
    match taken {
        Ok(taken) => {
            keeping.asking.take(taken.draft.manifest.checkpoint);
            if !is_last {
                let_go(shared, keeping);
            }
            let now = shared.clock.now();
            let pause_ns = now.since_ns(*since);
            tracing::debug!(
                query = keeping.query.settings.name,
                drained_us = seen_at.since_ns(*since) / 1_000,
                waited_us = begun_at.since_ns(*seen_at) / 1_000,
                copied_us = now.since_ns(begun_at) / 1_000,
                "held for a checkpoint"
            );
            // The writers outlive this thread's work.
            let _ = jobs.send(Taken { pause_ns, ..taken });
        }
        Err(why) => give_up(shared, keeping, &why),
    }
}

fn let_go(shared: &Shared, keeping: &Keeping) {
    shared.wake(keeping.query.let_go());
}

fn give_up(shared: &Shared, keeping: &Keeping, why: &str) {
    if !why.is_empty() {
        tracing::warn!(query = keeping.query.settings.name, why, "no checkpoint was taken");
    }
    keeping.asking.refuse(why);
    let_go(shared, keeping);
    keeping.query.let_end();
    keeping.is_busy.store(false, Release);
}

impl Checkpoints {
    /// The last ones are being taken, or were.
    pub(crate) fn is_stopping(&self) -> bool {
        self.last_until().is_some()
    }

    /// What a query's checkpoints wait for, if for something.
    pub(crate) fn wait_of(&self, query: QueryId) -> Option<Wait> {
        self.waits.lock().get(&query).and_then(Waiting::get)
    }

    /// Until when the last ones may be taken, once that is asked for.
    fn last_until(&self) -> Option<ProcessingTime> {
        self.state.lock().last_until
    }
}

/// A flag that nothing was asked of yet.
pub(crate) fn not_busy() -> AtomicBool {
    AtomicBool::new(false)
}
