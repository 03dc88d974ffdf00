//! The thread that clears up after ended queries and watches the memory bound, and the one that it starts to start queries
//! again.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use laxity_runtime::Query;
use parking_lot::{Condvar, Mutex};

use crate::process;
use crate::restarts::Next;
use crate::shared::Shared;

/// What the keeper sleeps by.
#[derive(Default)]
pub(crate) struct Alarm {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Alarm {
    /// Ends a wait, or the next one before it begins.
    pub fn ring(&self) {
        *self.has_rung.lock() = true;
        self.rings.notify_all();
    }

    fn wait(&self, timeout: Duration) {
        let mut has_rung = self.has_rung.lock();
        if !*has_rung {
            self.rings.wait_for(&mut has_rung, timeout);
        }
        *has_rung = false;
    }
}

/// What the keeper does.
pub(crate) fn body(shared: Arc<Shared>) -> impl FnOnce() + Send + 'static {
    move || {
        let rss_before = process::rss_bytes();
        while !shared.stopping.load(Acquire) {
            watch_memory(&shared, rss_before);
            let memory = &shared.process.memory;
            shared.dispatch.on_memory(memory.taken_bytes(), memory.limit_bytes());
            clear_up_ended(&shared);
        }
    }
}

fn clear_up_ended(shared: &Arc<Shared>) {
    for id in shared.process.take_ended() {
        let query = || shared.registry.read().get(id).map(|entry| entry.query.clone());
        let goes_on = || query().filter(|_| !shared.is_stopping());
        if shared.restarts.on_ended(id, &shared.clock, goes_on) {
            let of_thread = shared.clone();
            let thread = std::thread::Builder::new().name("laxity-restarts".into());
            if let Err(error) = thread.spawn(move || start_again(&of_thread)) {
                tracing::error!(%error, "no thread to start queries again");
                shared.restarts.give_up();
            }
        }
        shared.retire(id);
    }
    shared.clear_up();
}

/// What the thread does that starts queries again; it ends when none is left.
fn start_again(shared: &Arc<Shared>) {
    /// How often it is seen whether one is due.
    const LOOK: Duration = Duration::from_millis(50);
    let is_gone = |id| shared.registry.read().is_gone(id);
    loop {
        match shared.restarts.next(shared.clock.now(), shared.is_stopping(), is_gone) {
            Next::Wait => std::thread::sleep(LOOK),
            Next::Over => return,
            Next::Start(old) => {
                if shared.restarts.start(old, &shared.clock) {
                    shared.forget(old);
                }
            }
        }
    }
}

/// For one period: looks at what the process takes, the more often the nearer that is to the bound. Queries that end are
/// cleared up after at once, for somebody may wait for that.
fn watch_memory(shared: &Arc<Shared>, rss_before: u64) {
    const PERIOD: Duration = Duration::from_millis(50);
    // While queries that end have something left, which is over without anybody's saying so, or the bound is not far.
    const SHORT: Duration = Duration::from_millis(20);
    // In these a worker fills some megabytes at most.
    const NEAR: Duration = Duration::from_millis(2);
    let memory = &shared.process.memory;
    let began = shared.clock.now();
    while !shared.stopping.load(Acquire) {
        // Far from it nothing is learned, and nothing has to be.
        let is_near = memory.taken_bytes() >= memory.limit_bytes() / 8;
        let period = if is_near || shared.registry.read().is_waiting() { SHORT } else { PERIOD };
        let left = Duration::from_nanos(began.plus(period).since_ns(shared.clock.now()));
        if left.is_zero() {
            return;
        }
        let step = if is_near { NEAR.min(left) } else { left };
        shared.alarm.wait(step);
        if shared.process.take_call() {
            clear_up_ended(shared);
        }
        if is_near {
            memory.observe_resident(process::rss_bytes().saturating_sub(rss_before));
        }
        if memory.is_over() {
            let queries: Vec<Arc<Query>> =
                shared.registry.read().entries().map(|entry| entry.query.clone()).collect();
            memory.relieve(&queries, shared.clock.now());
        }
    }
}
