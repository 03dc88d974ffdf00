use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use laxity_graph::{OperatorId, ProcessingTime, QueryId};
use laxity_sched::{Message, Work};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::clock::Clock;
use crate::instance::{Instance, RunContext};
use crate::payload::Payload;

/// A thread and a bounded mailbox for every operator instance: how the engines in use today run, and the
/// baseline to compare the scheduler with. The operating system shares the cores.
pub(crate) struct OperatorThreads {
    mailboxes: RwLock<Vec<Option<Arc<Mailbox>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    clock: Clock,
    quantum_ns: u64,
}

struct Mailbox {
    instance: Arc<Instance>,
    state: Mutex<MailboxState>,
    arrived: Condvar,
    taken: Condvar,
}

#[derive(Default)]
struct MailboxState {
    messages: VecDeque<(Message<Payload>, ProcessingTime)>,
    bytes: u64,
    stopping: bool,
}

impl OperatorThreads {
    pub(crate) fn new(clock: Clock, quantum_ns: u64) -> OperatorThreads {
        OperatorThreads {
            mailboxes: RwLock::new(Vec::new()),
            threads: Mutex::new(Vec::new()),
            clock,
            quantum_ns,
        }
    }

    /// Starts a thread for each instance.
    pub(crate) fn add(self: &Arc<OperatorThreads>, instances: &[Arc<Instance>]) {
        let mut mailboxes = self.mailboxes.write();
        for instance in instances {
            let mailbox = Arc::new(Mailbox {
                instance: instance.clone(),
                state: Mutex::default(),
                arrived: Condvar::new(),
                taken: Condvar::new(),
            });
            let index = instance.id.index();
            if mailboxes.len() <= index {
                mailboxes.resize_with(index + 1, || None);
            }
            mailboxes[index] = Some(mailbox.clone());
            let threads = self.clone();
            let thread = std::thread::Builder::new()
                .name(format!("op-{}", instance.name))
                .spawn(move || threads.run(&mailbox));
            match thread {
                Ok(thread) => self.threads.lock().push(thread),
                Err(error) => instance.fail(format!("cannot start a thread for an operator: {error}")),
            }
        }
    }

    /// What is left in `messages` is for operators that are gone.
    pub(crate) fn enqueue(&self, messages: &mut Vec<Message<Payload>>, now: ProcessingTime) {
        for message in std::mem::take(messages) {
            match self.mailbox(message.to) {
                Some(mailbox) => mailbox.put(message, now),
                None => messages.push(message),
            }
        }
    }

    pub(crate) fn remove_query(&self, query: QueryId) -> Vec<Message<Payload>> {
        let mut left = Vec::new();
        for slot in self.mailboxes.write().iter_mut() {
            if let Some(mailbox) = slot.take_if(|mailbox| mailbox.instance.query.id == query) {
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

    fn mailbox(&self, id: OperatorId) -> Option<Arc<Mailbox>> {
        self.mailboxes.read().get(id.index()).cloned().flatten()
    }

    fn run(&self, mailbox: &Mailbox) {
        let (mut staged, mut merged) = (Vec::new(), Vec::new());
        while let Some((message, enqueued)) = mailbox.take() {
            let mut work = Work::Message { message, enqueued };
            loop {
                let mut context = RunContext {
                    clock: &self.clock,
                    quantum_ns: self.quantum_ns,
                    merged: &mut merged,
                    staged: &mut staged,
                    operator_ns: 0,
                };
                let run = mailbox.instance.run(work, &mut context);
                let now = self.clock.now();
                for message in staged.drain(..) {
                    match self.mailbox(message.to) {
                        Some(to) => to.put_when_there_is_room(message, now),
                        None => mailbox.instance.query.release(message.rows, message.bytes),
                    }
                }
                if !run.report.more {
                    break;
                }
                work = Work::Resume;
            }
        }
    }
}

impl Mailbox {
    /// Bytes that wait before producers do. About what Flink gives a task by default: a few dozen 32 KB
    /// buffers.
    const CAPACITY_BYTES: u64 = 1 << 20;

    fn put(&self, message: Message<Payload>, now: ProcessingTime) {
        let mut state = self.state.lock();
        state.bytes += message.bytes;
        state.messages.push_back((message, now));
        drop(state);
        self.arrived.notify_one();
    }

    fn put_when_there_is_room(&self, message: Message<Payload>, now: ProcessingTime) {
        let mut state = self.state.lock();
        while state.bytes > Self::CAPACITY_BYTES && !state.stopping {
            self.taken.wait(&mut state);
        }
        drop(state);
        self.put(message, now);
    }

    fn take(&self) -> Option<(Message<Payload>, ProcessingTime)> {
        let mut state = self.state.lock();
        loop {
            if let Some((message, enqueued)) = state.messages.pop_front() {
                state.bytes -= message.bytes;
                drop(state);
                self.taken.notify_all();
                return Some((message, enqueued));
            }
            if state.stopping {
                return None;
            }
            self.arrived.wait(&mut state);
        }
    }

    fn stop(&self) {
        self.state.lock().stopping = true;
        self.arrived.notify_all();
        self.taken.notify_all();
    }
}
