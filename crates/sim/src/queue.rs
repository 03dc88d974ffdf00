use std::cmp::Reverse;
use std::collections::BinaryHeap;

use laxity_graph::ProcessingTime;

/// What is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScheduledEvent {
    /// A query starts.
    Deploy(u32),
    /// A table is to be looked at: something arrives, or its thread has rested.
    Arrive(u32),
    /// Something that travels between machines reaches its end: place in the table of what is in transit.
    Deliver(u32),
    /// A core, numbered over all machines, ends its run.
    Finish { core: u32, run: u32 },
    /// A scheduler asked to be asked again.
    Tick(u32),
    /// A table of a machine is to be looked at, and somebody should be awake.
    Alarm(u32),
    /// A core, numbered over all machines, was woken and begins to look for work.
    Woken(u32),
    /// A machine without anything else to do has got work from elsewhere.
    Stir(u32),
    /// How busy the cores are is noted.
    Load,
    /// Nice values are set anew.
    Renice(u32),
    /// An operator is told the time that it asked for.
    Time { operator: u32, due: ProcessingTime },
    /// An operator on a thread of its own has slept.
    Wake(u32),
    /// Another policy, on all machines.
    Switch(u32),
    /// Neighbours tell each other what they know.
    Exchange,
    /// Queues and memory are noted.
    Sample,
}

/// What is going to happen, by time, and in the order it was foreseen where times are equal.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(ProcessingTime, u64, ScheduledEvent)>>,
    pushed: u64,
}

impl Queue {
    pub fn push(&mut self, at: ProcessingTime, scheduled: ScheduledEvent) {
        self.pushed += 1;
        self.heap.push(Reverse((at, self.pushed, scheduled)));
    }

    /// Puts something off. It keeps its place among equals, so that what travels together stays in order.
    pub fn put_off(&mut self, at: ProcessingTime, order: u64, scheduled: ScheduledEvent) {
        self.heap.push(Reverse((at, order, scheduled)));
    }

    pub fn pop(&mut self) -> Option<(ProcessingTime, u64, ScheduledEvent)> {
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}
