//! How checkpoints get to the disk, behind the backs of their queries: outputs say where they stand, then it is written,
//! then the outputs are told.
//!
//! What is large goes into a folder of its own. Small ones that come at about the same time go into one file: what a file
//! costs is the same for one as for a thousand of them, and each is in it by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow::array::{Array, ArrayRef};
use laxity_connect::{OutputPosition, Waiting};
use laxity_runtime::{LastCheckpoint, Outcome};
use laxity_state::{Draft, KEPT, StateError, StoredBytes};
use parking_lot::Mutex;

use super::copy::{Taken, draft};
use super::give_up;
use crate::chain_of_causes;
use crate::checkpoints::{Keeping, Progress, counts_of, output_entries};
use crate::fault::Fault;
use crate::shared::Shared;
use crate::sink_io::Prepared;

/// Threads that hear outputs and write. A disk that syncs for several at once does more of it.
const WRITERS: usize = 4;

/// For how long outputs may take to say where they stand: a disk that syncs, brokers that answer.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// A checkpoint of at most so many bytes is written with others.
const SMALL_BYTES: usize = 64 << 10;

/// It waits for others for so long.
const WAIT_FOR_OTHERS: Duration = Duration::from_millis(20);

/// So many go into one file.
const TOGETHER_MAX: usize = 4_096;

/// The threads.
pub(super) struct Writers(Vec<JoinHandle<()>>);

/// A checkpoint that is complete but for the disk.
struct Ready {
    keeping: Arc<Keeping>,
    progress: Progress,
    /// Which outputs wait to be told.
    outputs: Vec<usize>,
    number: u64,
    pause_ns: u64,
}

impl Writers {
    /// Writes what comes, until nobody is there to send anything.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(shared: &Arc<Shared>, taken: Receiver<Taken>) -> std::io::Result<Writers> {
        let taken = Arc::new(Mutex::new(taken));
        let (small, of_small) = channel();
        let mut threads = Vec::new();
        for number in 0..WRITERS {
            let (shared, taken, small) = (shared.clone(), taken.clone(), small.clone());
            let writer = std::thread::Builder::new().name(format!("laxity-state-{number}"));
            threads.push(writer.spawn(move || write_all(&shared, &taken, &small))?);
        }
        let shared = shared.clone();
        let together = std::thread::Builder::new().name("laxity-state-small".into());
        threads.push(together.spawn(move || write_together(&shared, &of_small))?);
        Ok(Writers(threads))
    }

    /// Waits until all is written.
    pub fn join(self) {
        for thread in self.0 {
            let _ = thread.join();
        }
    }
}

/// What each of the threads does. No two have one of the same query.
fn write_all(shared: &Shared, jobs: &Mutex<Receiver<Taken>>, small: &Sender<(Ready, Draft)>) {
    loop {
        // The lock is held while it waits: so do the others.
        let taken = jobs.lock().recv();
        let Ok(taken) = taken else { return };
        let keeping = taken.keeping.clone();
        let written = complete(shared, taken).and_then(|(ready, draft)| {
            let pieces = draft.tables.iter().flatten().flat_map(|(_, pieces)| pieces);
            // They may be slices of what all members of a template hold.
            let of_column =
                |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX);
            let mut bytes = pieces.flat_map(|rows| rows.columns()).map(of_column);
            let small_sum =
                bytes.try_fold(0, |sum: usize, more| Some(sum + more).filter(|&sum| sum <= SMALL_BYTES));
            if small_sum.is_some() && draft.later.is_empty() {
                // The thread outlives this one.
                let _ = small.send((ready, draft));
                return Ok(());
            }
            let folder = &keeping.store.folder;
            let bytes = with_patience(shared, &[&keeping], || folder.write(draft.clone()))?;
            on_safe(shared, ready, bytes);
            Ok(())
        });
        if let Err(why) = written {
            give_up(shared, &keeping, &why);
        }
    }
}

/// Writes small ones together that come at about the same time.
fn write_together(shared: &Shared, small: &Receiver<(Ready, Draft)>) {
    while let Ok(first) = small.recv() {
        let mut batch = vec![first];
        while batch.len() < TOGETHER_MAX
            && let Ok(next) = small.recv_timeout(WAIT_FOR_OTHERS)
        {
            batch.push(next);
        }
        // Of each folder by itself.
        while let Some((first, _)) = batch.first() {
            let open = first.keeping.store.open.clone();
            let of_it = |one: &mut (Ready, Draft)| Arc::ptr_eq(&one.0.keeping.store.open, &open);
            let of_folder: Vec<(Ready, Draft)> = batch.extract_if(.., of_it).collect();
            if let [(ready, draft)] = &of_folder[..] {
                let (keeping, folder) = (ready.keeping.clone(), ready.keeping.store.folder.clone());
                match with_patience(shared, &[&keeping], || folder.write(draft.clone())) {
                    Ok(bytes) => of_folder.into_iter().for_each(|(ready, _)| on_safe(shared, ready, bytes)),
                    Err(why) => give_up(shared, &keeping, &why),
                }
                continue;
            }
            let (mut ready, mut drafts) = (Vec::new(), Vec::new());
            for (one, draft) in of_folder {
                match draft.encode() {
                    Ok(encoded) => {
                        drafts.push((one.keeping.store.folder.clone(), encoded));
                        ready.push(one);
                    }
                    Err(error) => give_up(shared, &one.keeping, &chain_of_causes(&error)),
                }
            }
            let keepings: Vec<&Keeping> = ready.iter().map(|ready| &*ready.keeping).collect();
            match with_patience(shared, &keepings, || open.write_together(&drafts)) {
                Ok(()) => {
                    for (ready, (_, encoded)) in ready.into_iter().zip(&drafts) {
                        on_safe(shared, ready, encoded.bytes());
                    }
                }
                Err(why) => ready.iter().for_each(|ready| give_up(shared, &ready.keeping, &why)),
            }
        }
    }
}

/// Hears where the outputs stand.
fn complete(shared: &Shared, taken: Taken) -> Result<(Ready, Draft), String> {
    let Taken { keeping, manifest, states, work, replies, awaited, mut outputs, handed, pause_ns } = taken;
    // An operator that panics ends its query and no other, also where its tables are made behind its back.
    let make = std::panic::AssertUnwindSafe(|| draft(manifest, states, work, SMALL_BYTES));
    let made = std::panic::catch_unwind(make).unwrap_or_else(|panic| {
        let why = format!("internal error: {} (please report this)", laxity_runtime::panic_text(&*panic));
        keeping.query.end(Outcome::Failed(why.clone()));
        Err(why)
    });
    let mut draft = made?;
    for _ in 0..awaited {
        match answer(shared, &replies) {
            Ok(Prepared { number, position, rest }) => {
                if let Some(Err(error)) = rest.map(|rest| rest()) {
                    let fault = Fault::from(error);
                    fault.end(&keeping.query);
                    return Err(fault.why);
                }
                outputs.push((number, position));
            }
            // Who could not prepare has ended its query.
            Err(RecvTimeoutError::Disconnected) => return Err(String::new()),
            Err(RecvTimeoutError::Timeout) => return Err("an output does not say where it stands".into()),
        }
    }
    draft.manifest.outputs = output_entries(&keeping.outlets, &outputs);
    let progress = Progress {
        sources: draft.manifest.sources.clone(),
        counts: counts_of(&draft.manifest.counts),
        handed,
    };
    let outputs = outputs.into_iter().map(|(number, _): (usize, OutputPosition)| number).collect();
    let number = draft.manifest.checkpoint;
    Ok((Ready { keeping, progress, outputs, number, pause_ns }, draft))
}

/// Tries to write until that is done, or none of these queries needs it any more.
fn with_patience<T>(
    shared: &Shared,
    of: &[&Keeping],
    write: impl Fn() -> Result<T, StateError>,
) -> Result<T, String> {
    // One for all of them.
    let waiting = Waiting::default();
    let query = &of[0].query.settings.name;
    let mut pause_ms = 100;
    let written = loop {
        let error = match write() {
            Ok(written) => break Ok(written),
            Err(error) => error,
        };
        let why = chain_of_causes(&error);
        if !error.may_pass() {
            for keeping in of {
                keeping.query.end(Outcome::Failed(why.clone()));
            }
            break Err(why);
        }
        let are_over = of.iter().all(|keeping| keeping.query.stopped());
        if are_over || shared.stopping.load(Acquire) || shared.checkpoints.is_stopping() {
            break Err(why);
        }
        shared.checkpoints.begin_to_wait(of, &waiting);
        let place = match &error {
            StateError::Store { store, .. } => format!("the store of checkpoints at {store}"),
            _ => format!("room for checkpoints in {}", of[0].store.folder.path().display()),
        };
        waiting.begin(query, &place, &why);
        std::thread::sleep(Duration::from_millis(pause_ms));
        pause_ms = (2 * pause_ms).min(10_000);
    };
    if waiting.get().is_some() {
        shared.checkpoints.end_to_wait(of);
        if written.is_ok() {
            waiting.end(query);
        }
    }
    written
}

/// It is on the disk: the outputs are told, and the query may come to its end.
fn on_safe(shared: &Shared, ready: Ready, bytes: StoredBytes) {
    let Ready { keeping, progress, outputs, number, pause_ns } = ready;
    let query = &keeping.query;
    *keeping.last.lock() = Some(progress);
    keeping.left_out.store(0, Relaxed);
    for (place, kept) in keeping.outlets.iter().enumerate() {
        if outputs.contains(&place) {
            shared.sinks.commit(&kept.outlet, number);
        }
    }
    if let Err(fault) = keeping.finish.on_safe() {
        fault.end(query);
    }
    let safe_at = shared.clock.now();
    query.on_checkpoint(LastCheckpoint {
        number,
        safe_at,
        bytes: bytes.held,
        written_bytes: bytes.written,
        longest_pause_ns: pause_ns,
    });
    if let Err(error) = keeping.store.folder.keep_last(KEPT) {
        tracing::warn!(query = query.settings.name, why = chain_of_causes(&error), "old checkpoints stay");
    }
    query.let_end();
    keeping.is_busy.store(false, Release);
}

/// What the next output says, as long as there is time for that.
fn answer(shared: &Shared, replies: &Receiver<Prepared>) -> Result<Prepared, RecvTimeoutError> {
    const LOOK: Duration = Duration::from_millis(100);
    let deadline = shared.clock.now().plus(ANSWER_MAX);
    loop {
        let answer = replies.recv_timeout(LOOK);
        let now = shared.clock.now();
        let is_over = now >= deadline || shared.checkpoints.last_until().is_some_and(|until| now >= until);
        if is_over || !matches!(answer, Err(RecvTimeoutError::Timeout)) {
            return answer;
        }
    }
}
