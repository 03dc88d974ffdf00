//! The policy `os`, a baseline alone: threads block where a mailbox is full, and no promise is looked at.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use laxity_graph::{OperatorId, ProcessingTime};
use laxity_runtime::{ArrowRows, Look, Parcel};
use laxity_sched::OperatorSpec;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::clock::Clock;
use crate::thread_room::thread_room;
use crate::unit::Unit;

/// A thread and a bounded mailbox for every operator instance, and a thread for every table: how the engines in use
/// today run, and the baseline to compare the scheduler with. The operating system shares the cores.
#[derive(Default)]
pub(crate) struct OperatorThreads {
    /// By operator.
    mailboxes: RwLock<Vec<Option<Arc<Mailbox>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What each of them does.
    body: OnceLock<Box<Body>>,
    /// How many there may be.
    room: OnceLock<u64>,
}

type Body = dyn Fn(&Unit, &Mailbox) + Send + Sync;

/// What waits for one of them.
pub(crate) struct Mailbox {
    state: Mutex<MailboxState>,
    arrived: Condvar,
    taken: Condvar,
}

#[derive(Default)]
struct MailboxState {
    messages: VecDeque<(Parcel<ArrowRows>, ProcessingTime)>,
    bytes: u64,
    /// Of a table: it is to be looked at now.
    woken: bool,
    stopping: bool,
}

impl OperatorThreads {
    /// What the thread of a unit does until its mailbox is stopped. Said once, before the first is started.
    pub(crate) fn run_by(&self, body: impl Fn(&Unit, &Mailbox) + Send + Sync + 'static) {
        let _ = self.body.set(Box::new(body));
    }

    /// So many more have no room: how many there are, and may be.
    pub(crate) fn lacks_room(&self, more: u64) -> Option<(u64, u64)> {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        let (used, room) = (threads.len() as u64, *self.room.get_or_init(thread_room));
        (used + more > room).then_some((used, room))
    }

    /// Starts a thread for each unit.
    pub(crate) fn add(self: &Arc<OperatorThreads>, specs: &[OperatorSpec], units: &[Unit]) {
        self.threads.lock().retain(|thread| !thread.is_finished());
        for (spec, unit) in specs.iter().zip(units) {
            let mailbox =
                Arc::new(Mailbox { state: Mutex::default(), arrived: Condvar::new(), taken: Condvar::new() });
            let mut mailboxes = self.mailboxes.write();
            let index = spec.id.index();
            if mailboxes.len() <= index {
                mailboxes.resize_with(index + 1, || None);
            }
            mailboxes[index] = Some(mailbox.clone());
            drop(mailboxes);
            let name = match unit {
                Unit::Operator(instance) => format!("op-{}", instance.name),
                Unit::Table(table) => format!("table-{}", table.spec.table.name),
            };
            let (threads, of_thread) = (self.clone(), unit.clone());
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                if let Some(body) = threads.body.get() {
                    body(&of_thread, &mailbox);
                }
            });
            match thread {
                Ok(thread) => {
                    self.threads.lock().push(thread);
                }
                Err(error) => {
                    let why = format!("cannot start a thread: {error}");
                    match unit {
                        Unit::Operator(instance) => instance.fail(why),
                        Unit::Table(table) => table.fail(&why),
                    }
                }
            }
        }
    }

    /// What is left in `messages` is for operators that are gone.
    pub(crate) fn enqueue(&self, messages: &mut Vec<Parcel<ArrowRows>>, now: ProcessingTime) {
        for message in std::mem::take(messages) {
            let refused = match self.mailbox(message.to) {
                Some(mailbox) => mailbox.put(message, now),
                None => Some(message),
            };
            messages.extend(refused);
        }
    }

    /// A table is to be looked at now.
    pub(crate) fn wake(&self, table: OperatorId) {
        if let Some(mailbox) = self.mailbox(table) {
            mailbox.state.lock().woken = true;
            mailbox.arrived.notify_one();
        }
    }

    /// Ends the threads of these; the messages that they still had.
    pub(crate) fn remove(&self, operators: &[OperatorId]) -> Vec<Parcel<ArrowRows>> {
        let mut left = Vec::new();
        let mut mailboxes = self.mailboxes.write();
        for operator in operators {
            if let Some(mailbox) = mailboxes.get_mut(operator.index()).and_then(Option::take) {
                mailbox.stop();
                let mut state = mailbox.state.lock();
                left.extend(state.messages.drain(..).map(|(message, _)| message));
                state.bytes = 0;
            }
        }
        left
    }

    /// Ends all threads once their mailboxes are empty, and waits for them.
    pub(crate) fn stop(&self) {
        for mailbox in self.mailboxes.read().iter().flatten() {
            mailbox.stop();
        }
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A panic inside an operator is caught where it runs; one here is ours and was printed.
            let _ = thread.join();
        }
    }

    pub(crate) fn mailbox(&self, id: OperatorId) -> Option<Arc<Mailbox>> {
        self.mailboxes.read().get(id.index()).cloned().flatten()
    }
}

/// A message and since when it waited; or an instant that has come.
pub(crate) type Taken = Result<(Parcel<ArrowRows>, ProcessingTime), ProcessingTime>;

impl Mailbox {
    /// Bytes that wait before producers do. About what Flink gives a task by default: a few dozen 32 KB
    /// buffers.
    const CAPACITY_BYTES: u64 = 1 << 20;

    /// Gives the message back where nobody takes it any more.
    #[must_use]
    fn put(&self, message: Parcel<ArrowRows>, now: ProcessingTime) -> Option<Parcel<ArrowRows>> {
        let mut state = self.state.lock();
        if state.stopping {
            return Some(message);
        }
        state.bytes += message.bytes;
        state.messages.push_back((message, now));
        drop(state);
        self.arrived.notify_one();
        None
    }

    /// As [`put`](Mailbox::put).
    #[must_use]
    pub(crate) fn put_when_there_is_room(
        &self,
        message: Parcel<ArrowRows>,
        now: ProcessingTime,
    ) -> Option<Parcel<ArrowRows>> {
        let mut state = self.state.lock();
        while state.bytes > Self::CAPACITY_BYTES && !state.stopping {
            self.taken.wait(&mut state);
        }
        drop(state);
        self.put(message, now)
    }

    /// The next message, or the instant given where that comes first. `None` at the end.
    pub(crate) fn take(&self, wake: Option<ProcessingTime>, clock: &Clock) -> Option<Taken> {
        let mut state = self.state.lock();
        loop {
            if let Some((message, enqueued)) = state.messages.pop_front() {
                state.bytes -= message.bytes;
                drop(state);
                self.taken.notify_all();
                return Some(Ok((message, enqueued)));
            }
            if state.stopping {
                return None;
            }
            match wake {
                None => self.arrived.wait(&mut state),
                Some(at) => {
                    if self.arrived.wait_until(&mut state, clock.instant(at)).timed_out()
                        && state.messages.is_empty()
                    {
                        return Some(Err(at));
                    }
                }
            }
        }
    }

    /// Of a table: sleeps until it is to be looked at or woken. False at the end.
    pub(crate) fn rest(&self, look: Option<Look>, clock: &Clock) -> bool {
        let mut state = self.state.lock();
        while !state.woken && !state.stopping {
            match look {
                None => self.arrived.wait(&mut state),
                Some(look) => {
                    if self.arrived.wait_until(&mut state, clock.instant(look.at)).timed_out() {
                        break;
                    }
                }
            }
        }
        state.woken = false;
        !state.stopping
    }

    fn stop(&self) {
        self.state.lock().stopping = true;
        self.arrived.notify_all();
        self.taken.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_said_before_a_thread_is_started() {
        let threads = OperatorThreads::default();
        threads.room.set(3).unwrap();
        assert_eq!(threads.lacks_room(3), None);
        assert_eq!(threads.lacks_room(4), Some((0, 3)));
        let waiting = Arc::new(Mutex::new(()));
        let held = waiting.lock();
        for _ in 0..2 {
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().spawn(move || drop(waiting.lock())).unwrap();
            threads.threads.lock().push(thread);
        }
        assert_eq!(threads.lacks_room(1), None);
        assert_eq!(threads.lacks_room(2), Some((2, 3)));
        drop(held);
        // Those that have ended need none.
        while threads.lacks_room(3).is_some() {
            std::thread::yield_now();
        }
    }
}
