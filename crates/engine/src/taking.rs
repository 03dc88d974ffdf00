//! How checkpoints are taken and get to the disk, by threads of their own.
//!
//! Of each query by itself. It is held: its readers take nothing in, each of its tables says how far it was read, and what
//! is on its way comes out, scheduled as ever. Then what its operators hold is all there is of it. That is copied, each of
//! its outputs is asked to make safe what was written so far, in order with its writes, and the query goes on. The rest
//! is done behind its back: the outputs say where they stand, the tables are written, and once all of it is on the disk the
//! outputs are told. No other query waits for any of this.
//!
//! Until a checkpoint is told to the outputs its query does not come to its end: so an output is never asked for two.

mod copy;
mod reading;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use laxity_graph::ProcessingTime;
use laxity_runtime::Outcome;

use self::copy::Taken;
use self::reading::{SourceRead, SourcesRead};
use self::writing::Writers;
use crate::checkpoints::Keeping;
use crate::shared::Shared;

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

/// So much memory the thread has ready when it copies: the first use of a page of 2 MiB takes .2 ms, and 3 ms on a virtual machine
/// whose host has had it back, while the query waits.
const RESERVE_BYTES: usize = 4 << 20;

/// Lets them be taken, if there are any.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<()> {
    shared.checkpoints.start_with(|| start_threads(shared))
}

fn start_threads(shared: &Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let (jobs, taken) = channel();
    let writers = Writers::start(shared, taken)?;
    let (large, of_large) = channel::<Drained>();
    let (of_copier, copied) = (shared.clone(), jobs.clone());
    let copier = std::thread::Builder::new().name("laxity-state-large".into());
    let copier = copier.spawn(move || {
        // All of it is written to, so that it is there.
        let new_reserve = || std::hint::black_box(vec![1_u8; RESERVE_BYTES]);
        let mut reserve = new_reserve();
        for drained in of_large {
            drop(reserve);
            take(&of_copier, &drained, &copied);
            reserve = new_reserve();
        }
    })?;
    let of_taker = shared.clone();
    let taker = std::thread::Builder::new().name("laxity-checkpoints".into());
    taker.spawn(move || {
        take_all(&of_taker, &jobs, &large);
        drop((jobs, large));
        let _ = copier.join();
        writers.join();
    })
}

/// What the thread does that begins with them.
fn take_all(shared: &Arc<Shared>, jobs: &Sender<Taken>, large: &Sender<Drained>) {
    let mut held: Vec<Held> = Vec::new();
    let mut waiting: VecDeque<Arc<Keeping>> = VecDeque::new();
    loop {
        let now = shared.clock.now();
        let (due, last_until) = shared.checkpoints.due(now);
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
            && (shared.clock.now() >= until || held.is_empty() && shared.checkpoints.is_empty())
        {
            break;
        }
        if held.is_empty() && !waiting.is_empty() {
            // Others want the locks of the tables, too.
            std::thread::sleep(BETWEEN_ROUNDS);
        } else {
            rest(shared, &held);
        }
    }
    for one in held {
        give_up(shared, &one.keeping, "the time to drain was over");
    }
}

fn rest(shared: &Shared, held: &[Held]) {
    let Some(youngest) = held.iter().map(|one| one.since).max() else {
        shared.checkpoints.wait_for_due(&shared.clock);
        return;
    };
    // A query that is held takes nothing in: it is looked at often, at first.
    let is_long = shared.clock.now().since_ns(youngest) > SLOW_NS;
    std::thread::sleep(Duration::from_micros(if is_long { 1_000 } else { 100 }));
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
            keeping.asking.take(taken.manifest.checkpoint);
            if !is_last {
                let_go(shared, keeping);
            }
            let now = shared.clock.now();
            // Nobody waits for what comes to its end with it.
            let pause_ns = if *is_last { 0 } else { now.since_ns(*since) };
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
