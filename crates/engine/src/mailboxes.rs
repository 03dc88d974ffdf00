//! The scheduler core behind a lock, and how workers fall asleep and wake.
//!
//! Sleeping protocol: a worker that finds nothing to do waits on `work_arrived` *while holding the lock under
//! which it looked*, so a message enqueued after it looked cannot be missed: its enqueuer needs the same lock,
//! and notifies after taking it. A worker that takes work and sees more ready wakes one other; so one wake-up
//! per enqueue is enough, and no wake-up is sent to workers that are all awake.

use laxity_graph::{OperatorId, ProcessingTime, QueryId, WorkerId};
use laxity_sched::{Composition, Grant, Message, OperatorSpec, QuerySpec, Scheduler, Work};

use crate::instance::Run;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Mailboxes of all operators, in the order the scheduler gives them out.
pub(crate) struct Mailboxes<T> {
    state: Mutex<State<T>>,
    work_arrived: Condvar,
    merging: Merging<T>,
}

struct State<T> {
    scheduler: Scheduler<T>,
    sleeping: usize,
    stopping: bool,
}

impl<T> State<T> {
    /// Takes the messages of operators that are there. True if a unit became ready.
    fn take(&mut self, messages: &mut Vec<Message<T>>, now: ProcessingTime) -> bool {
        let mut ready = false;
        let mut refused = Vec::new();
        for message in messages.drain(..) {
            if self.scheduler.has_operator(message.to) {
                ready |= self.scheduler.on_message(message, now);
            } else {
                refused.push(message);
            }
        }
        messages.append(&mut refused);
        ready
    }
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

/// Which messages a worker takes together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merging<T> {
    /// Rows of them all at most; 0 takes each alone.
    pub rows_max: u32,
    /// Messages at most, beside the one granted.
    pub messages_max: usize,
    /// Whether the second can be processed with the first.
    pub fits: fn(&Message<T>, &Message<T>) -> bool,
}

impl<T> Merging<T> {
    fn merge(
        &self,
        scheduler: &mut Scheduler<T>,
        worker: WorkerId,
        grant: &Grant<T>,
        now: ProcessingTime,
        merged: &mut Vec<Message<T>>,
    ) {
        let Work::Message { message: first, .. } = &grant.work else { return };
        if first.rows >= self.rows_max {
            return;
        }
        while merged.len() < self.messages_max {
            let next = scheduler.merge_if(worker, self.rows_max, now, |next| (self.fits)(first, next));
            let Some(next) = next else { return };
            merged.push(next);
        }
    }
}

impl<T> Mailboxes<T> {
    pub(crate) fn new(scheduler: Scheduler<T>, merging: Merging<T>) -> Mailboxes<T> {
        Mailboxes {
            state: Mutex::new(State { scheduler, sleeping: 0, stopping: false }),
            work_arrived: Condvar::new(),
            merging,
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

    /// Another policy from now on; nothing queued is lost.
    pub(crate) fn set_policy(&self, composition: Composition, now: ProcessingTime) {
        self.state.lock().scheduler.set_policy(composition, now);
        // Who sleeps until the next cycle of the old policy has to look at the new one.
        self.work_arrived.notify_all();
    }

    /// What the scheduler should know besides messages: how full the memory is.
    pub(crate) fn on_memory(&self, used_bytes: u64, bound_bytes: u64) {
        self.state.lock().scheduler.on_memory(used_bytes, bound_bytes);
    }

    /// Rows of the query may be dropped under overload.
    pub(crate) fn allow_shedding(&self, query: QueryId) {
        self.state.lock().scheduler.allow_shedding(query, true);
    }

    /// How many of the rows that have come to a source are to be dropped.
    pub(crate) fn rows_to_shed(&self, source: OperatorId, rows: u32, now: ProcessingTime) -> u32 {
        self.state.lock().scheduler.rows_to_shed(source, rows, now)
    }

    /// Asks the scheduler.
    pub(crate) fn ask<R>(&self, question: impl FnOnce(&Scheduler<T>) -> R) -> R {
        question(&self.state.lock().scheduler)
    }

    /// Messages from outside, in order per channel. What is left in `messages` is for operators that are gone.
    pub(crate) fn enqueue(&self, messages: &mut Vec<Message<T>>, now: ProcessingTime) {
        let mut state = self.state.lock();
        let ready = state.take(messages, now);
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
    /// waiting for it. What is left in `staged` is for operators that are gone; `merged` gets the messages that are to be processed with the one granted.
    pub(crate) fn exchange(
        &self,
        worker: WorkerId,
        finished: Option<Finished>,
        staged: &mut Vec<Message<T>>,
        merged: &mut Vec<Message<T>>,
        now: impl Fn() -> ProcessingTime,
        wait_until: impl Fn(ProcessingTime) -> Option<std::time::Instant>,
    ) -> Next<T> {
        let mut state = self.state.lock();
        let mut instant = now();
        state.take(staged, instant);
        if let Some(Finished { operator, run }) = finished {
            if let Some((progress, ingested)) = run.progress {
                state.scheduler.on_progress(operator, progress, ingested);
            }
            state.scheduler.on_finished(worker, run.report, instant);
        }
        loop {
            if let Some(grant) = state.scheduler.next(worker, instant) {
                self.merging.merge(&mut state.scheduler, worker, &grant, instant, merged);
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
        // While nothing waits, a new cycle has nothing to order: an idle process sleeps.
        let timeout = state.scheduler.next_timeout().filter(|_| state.scheduler.waiting_units() > 0);
        let deadline = timeout.and_then(wait_until);
        state.sleeping += 1;
        let mut state = self.work_arrived.wait_until(state, deadline);
        state.sleeping -= 1;
        state
    }
}

#[cfg(all(test, feature = "loom"))]
mod loom_tests {
    use laxity_graph::EventTime;
    use laxity_sched::{Config, Llf};
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::thread;

    use super::*;

    const NOW: ProcessingTime = ProcessingTime(1);

    fn mailboxes(operators: u32) -> Arc<Mailboxes<()>> {
        let merging = Merging { rows_max: 0, messages_max: 0, fits: |_, _| false };
        let mailboxes = Mailboxes::new(Scheduler::new(Composition::of(Llf), Config::default()), merging);
        let operators = (0..operators).map(|id| OperatorSpec {
            id: OperatorId(id),
            query: QueryId(0),
            upstream: vec![],
            window: None,
            channels: 1,
        });
        mailboxes.add_query(
            QuerySpec { id: QueryId(0), target_ns: 1, weight: 1.0, qos: None },
            operators.collect(),
        );
        Arc::new(mailboxes)
    }

    fn message(to: u32) -> Message<()> {
        Message {
            to: OperatorId(to),
            channel: 0,
            progress: EventTime::MIN,
            ingested: NOW,
            rows: 1,
            bytes: 1,
            body: (),
        }
    }

    /// Works until told to stop. Operator 0 sends a message to operator 1 if there is one.
    fn work(mailboxes: &Mailboxes<()>, worker: u32, forward: bool, done: &AtomicUsize) {
        let (mut staged, mut merged) = (Vec::new(), Vec::new());
        let mut finished = None;
        loop {
            let next = mailboxes.exchange(
                WorkerId(worker),
                finished.take(),
                &mut staged,
                &mut merged,
                || NOW,
                |_| None,
            );
            let Next::Run(grant) = next else { return };
            assert!(matches!(grant.work, Work::Message { .. }));
            if forward && grant.operator == OperatorId(0) {
                staged.push(message(1));
            }
            done.fetch_add(1, Ordering::SeqCst);
            finished = Some(Finished { operator: grant.operator, run: Run::default() });
        }
    }

    /// A lost wake-up would leave the worker waiting for ever, which loom reports as a deadlock.
    #[test]
    fn a_message_always_wakes_a_worker() {
        loom::model(|| {
            let mailboxes = mailboxes(1);
            let done = Arc::new(AtomicUsize::new(0));
            let worker = {
                let (mailboxes, done) = (mailboxes.clone(), done.clone());
                thread::spawn(move || work(&mailboxes, 0, false, &done))
            };
            mailboxes.enqueue(&mut vec![message(0)], NOW);
            mailboxes.enqueue(&mut vec![message(0)], NOW);
            mailboxes.stop();
            worker.join().unwrap();
            assert_eq!(done.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn work_made_by_a_worker_is_done_before_all_stop() {
        loom::model(|| {
            let mailboxes = mailboxes(2);
            let done = Arc::new(AtomicUsize::new(0));
            let workers: Vec<_> = (0..2)
                .map(|id| {
                    let (mailboxes, done) = (mailboxes.clone(), done.clone());
                    thread::spawn(move || work(&mailboxes, id, true, &done))
                })
                .collect();
            mailboxes.enqueue(&mut vec![message(0)], NOW);
            mailboxes.stop();
            for worker in workers {
                worker.join().unwrap();
            }
            assert_eq!(done.load(Ordering::SeqCst), 2);
        });
    }
}
