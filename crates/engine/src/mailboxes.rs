//! The scheduler core behind a lock, and how workers fall asleep and wake.
//!
//! Sleeping protocol: a worker that finds nothing to do waits on `work_arrived` *while holding the lock under
//! which it looked*, so a message enqueued after it looked cannot be missed: its enqueuer needs the same lock,
//! and notifies after taking it. A worker that takes work and sees more ready wakes one other; so one wake-up
//! per enqueue is enough, and no wake-up is sent to workers that are all awake.

use laxity_graph::{OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{Grant, Message, OperatorSpec, QuerySpec, Scheduler};

use crate::instance::Run;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Mailboxes of all operators, in the order the scheduler gives them out.
pub(crate) struct Mailboxes<T> {
    state: Mutex<State<T>>,
    work_arrived: Condvar,
}

struct State<T> {
    scheduler: Scheduler<T>,
    sleeping: usize,
    stopping: bool,
}

/// What a worker has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub operator: OperatorId,
    pub run: Run,
}

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Next<T> {
    Run(Grant<T>),
    Stop,
}

impl<T> Mailboxes<T> {
    pub(crate) fn new(scheduler: Scheduler<T>) -> Mailboxes<T> {
        Mailboxes {
            state: Mutex::new(State { scheduler, sleeping: 0, stopping: false }),
            work_arrived: Condvar::new(),
        }
    }

    pub(crate) fn add_query(&self, query: QuerySpec, operators: Vec<OperatorSpec>) {
        let mut state = self.state.lock();
        state.scheduler.add_query(query);
        for operator in operators {
            state.scheduler.add_operator(operator);
        }
    }

    /// Forgets a query; the messages it still had.
    pub(crate) fn remove_query(&self, query: QueryId) -> Vec<Message<T>> {
        self.state.lock().scheduler.remove_query(query)
    }

    /// Messages from outside, in order per channel.
    pub(crate) fn enqueue(&self, messages: impl IntoIterator<Item = Message<T>>, now: ProcessingTime) {
        let mut state = self.state.lock();
        let mut ready = false;
        for message in messages {
            ready |= state.scheduler.on_message(message, now);
        }
        let wake = ready && state.sleeping > 0;
        drop(state);
        if wake {
            self.work_arrived.notify_one();
        }
    }

    /// Ends the waiting of all workers once they have nothing to do.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.work_arrived.notify_all();
    }

    /// Hands over what the last run produced and takes the next, sleeping while there is none.
    ///
    /// `now` is asked after the lock is held: a decision must not be made with a time that passed while
    /// waiting for it.
    pub(crate) fn exchange(
        &self,
        worker: WorkerId,
        finished: Option<Finished>,
        staged: &mut Vec<Message<T>>,
        now: impl Fn() -> ProcessingTime,
        wait_until: impl Fn(ProcessingTime) -> Option<std::time::Instant>,
    ) -> Next<T> {
        let mut state = self.state.lock();
        let mut instant = now();
        for message in staged.drain(..) {
            state.scheduler.on_message(message, instant);
        }
        if let Some(Finished { operator, run }) = finished {
            if let Some((progress, ingested)) = run.progress {
                state.scheduler.on_progress(operator, progress, ingested);
            }
            state.scheduler.on_finished(worker, run.report, instant);
        }
        loop {
            if let Some(grant) = state.scheduler.next(worker, instant) {
                let wake = state.sleeping > 0 && state.scheduler.waiting_units() > 0;
                drop(state);
                if wake {
                    self.work_arrived.notify_one();
                }
                return Next::Run(grant);
            }
            if state.stopping {
                return Next::Stop;
            }
            state = self.sleep(state, &wait_until);
            instant = now();
        }
    }

    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        wait_until: &impl Fn(ProcessingTime) -> Option<std::time::Instant>,
    ) -> MutexGuard<'a, State<T>> {
        let deadline = state.scheduler.next_timeout().and_then(wait_until);
        state.sleeping += 1;
        let mut state = self.work_arrived.wait_until(state, deadline);
        state.sleeping -= 1;
        state
    }
}
