use std::collections::VecDeque;

use laxity_graph::ProcessingTime;

use crate::Message;

/// The messages that wait for one operator, in local order: by p_MF, ties by arrival.
///
/// # Invariants
/// - Messages of one channel stand in order of arrival: the caller never gives a `local` below the
///   channel's last one.
/// - Under `inherit`, `urgency` never falls from front to back: it is the least priority of the message and of
///   all behind it. What stands before an urgent message must run before it, so it is as urgent.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    queue: VecDeque<Queued<T>>,
    rows: u64,
    bytes: u64,
}

/// A message in its place.
#[derive(Debug)]
pub(crate) struct Queued<T> {
    pub message: Message<T>,
    pub enqueued: ProcessingTime,
    /// When its result is due: t_MF + L.
    pub deadline: ProcessingTime,
    /// Order inside the operator.
    pub local: i64,
    /// The priority the operator has while this message is its head. Lower runs first.
    pub urgency: f64,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        Mailbox { queue: VecDeque::new(), rows: 0, bytes: 0 }
    }
}

impl<T> Mailbox<T> {
    /// Puts a message in its place. O(1) where it belongs at the end, as it does when it comes in order.
    pub fn push(&mut self, mut queued: Queued<T>, inherit: bool) {
        self.rows += u64::from(queued.message.rows);
        self.bytes += queued.message.bytes;
        let mut place = self.queue.len();
        while place > 0 && self.queue[place - 1].local > queued.local {
            place -= 1;
        }
        if inherit {
            if let Some(behind) = self.queue.get(place) {
                queued.urgency = queued.urgency.min(behind.urgency);
            }
            for before in self.queue.range_mut(..place).rev() {
                if before.urgency <= queued.urgency {
                    break;
                }
                before.urgency = queued.urgency;
            }
        }
        if place == self.queue.len() {
            self.queue.push_back(queued);
        } else {
            self.queue.insert(place, queued);
        }
    }

    pub fn pop(&mut self) -> Option<Queued<T>> {
        let queued = self.queue.pop_front()?;
        self.rows -= u64::from(queued.message.rows);
        self.bytes -= queued.message.bytes;
        Some(queued)
    }

    pub fn head(&self) -> Option<&Queued<T>> {
        self.queue.front()
    }

    /// Local order of the last message, `i64::MIN` where there is none.
    pub fn last_local(&self) -> i64 {
        self.queue.back().map_or(i64::MIN, |last| last.local)
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
