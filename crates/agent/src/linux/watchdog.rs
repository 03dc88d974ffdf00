//! A safety net for the real-time class: an agent that hangs must not leave a machine that nobody else can use.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::class::{Class, set_class};
use super::restore::is_same;
use crate::ThreadId;

/// Takes real-time threads out of their class when the agent no longer looks after them.
///
/// A real-time thread that never sleeps keeps everything else off its core, this agent included. The watchdog runs in
/// the real-time class itself, above those it watches, so that it can always intervene.
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    guarded: Vec<ThreadId>,
    fed: bool,
    stopping: bool,
    /// Times it had to intervene.
    bites: u64,
}

impl Watchdog {
    /// Starts it. It intervenes when it was not fed for `patience`.
    ///
    /// # Errors
    /// If no thread can be started, or it may not be real-time.
    pub fn start(patience: Duration) -> io::Result<Watchdog> {
        let shared = Arc::new(Shared::default());
        let (own, outcome) = (shared.clone(), Arc::new((Mutex::new(None), Condvar::new())));
        let told = outcome.clone();
        let thread = std::thread::Builder::new().name("laxity-watchdog".into()).spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            // Above the round-robin priorities that translators choose, which end at 10.
            let raised = set_class(tid, Class::round_robin(50));
            let is_raised = raised.is_ok();
            *lock(&told.0) = Some(raised);
            told.1.notify_all();
            if is_raised {
                own.watch(patience);
            }
        })?;
        let mut raised = lock(&outcome.0);
        while raised.is_none() {
            raised = outcome.1.wait(raised).unwrap_or_else(PoisonError::into_inner);
        }
        raised.take().unwrap_or(Ok(()))?;
        drop(raised);
        Ok(Watchdog { shared, thread: Some(thread) })
    }

    /// All is well, and these are the real-time threads.
    pub fn feed(&self, guarded: Vec<ThreadId>) {
        let mut state = lock(&self.shared.state);
        state.fed = true;
        state.guarded = guarded;
    }

    /// How often it intervened.
    pub fn bites(&self) -> u64 {
        lock(&self.shared.state).bites
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        lock(&self.shared.state).stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot panic; and if it did, there is nothing left to watch with.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn watch(&self, patience: Duration) {
        let mut state = lock(&self.state);
        while !state.stopping {
            let (woken, timeout) =
                self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() && !std::mem::take(&mut state.fed) && !state.guarded.is_empty() {
                state.bites += 1;
                for thread in state.guarded.drain(..).filter(|&thread| is_same(thread)) {
                    // One that ended meanwhile needs nothing.
                    let _ = set_class(thread.tid, Class::NORMAL);
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
