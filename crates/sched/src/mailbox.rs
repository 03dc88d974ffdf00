//! Where messages wait. The order inside an operator is made here, the order among operators in the run queue.

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
    /// Room for one message: most mailboxes never hold more, and a small one is near in memory to the next.
    pub fn for_one() -> Mailbox<T> {
        Mailbox { queue: VecDeque::with_capacity(1), rows: 0, bytes: 0 }
    }

    /// Whether its memory is worth keeping when it is empty: a backlog's is given back.
    pub fn is_small(&self) -> bool {
        self.queue.capacity() <= SMALL_MAX
    }

    /// As [`for_one`](Mailbox::for_one) made it.
    pub fn is_for_one(&self) -> bool {
        self.queue.capacity() <= 1
    }

    pub fn has_memory(&self) -> bool {
        self.queue.capacity() > 0
    }

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

    /// From the head on.
    pub fn iter(&self) -> impl Iterator<Item = &Queued<T>> {
        self.queue.iter()
    }

    /// Results are due so much earlier or later than they were.
    pub fn alter_deadlines(&mut self, before_ns: u64, after_ns: u64) {
        for queued in &mut self.queue {
            let frontier = ProcessingTime(queued.deadline.0.saturating_sub(before_ns));
            queued.deadline = frontier.plus_ns(after_ns);
        }
    }

    /// Gives every message another priority, asked for from front to back.
    pub fn rank_again(&mut self, inherit: bool, mut rank: impl FnMut(&Queued<T>) -> f64) {
        for queued in &mut self.queue {
            queued.urgency = rank(queued);
        }
        if inherit {
            let mut least = f64::INFINITY;
            for queued in self.queue.iter_mut().rev() {
                least = least.min(queued.urgency);
                queued.urgency = least;
            }
        }
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

/// Messages: with some hundred spare mailboxes of about 100 bytes a message, a megabyte or two. Picked.
const SMALL_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, OperatorId};

    use super::*;

    fn push(mailbox: &mut Mailbox<char>, body: char, local: i64, urgency: f64) {
        let message = Message {
            to: OperatorId(0),
            channel: 0,
            progress: EventTime(local),
            ingested: ProcessingTime::ZERO,
            rows: 2,
            bytes: 10,
            body,
        };
        let (enqueued, deadline) = (ProcessingTime::ZERO, ProcessingTime::ZERO);
        mailbox.push(Queued { message, enqueued, deadline, local, urgency }, true);
    }

    fn drain(mailbox: &mut Mailbox<char>) -> Vec<(char, f64)> {
        std::iter::from_fn(|| mailbox.pop()).map(|queued| (queued.message.body, queued.urgency)).collect()
    }

    #[test]
    fn order_is_local_then_arrival() {
        let mut mailbox = Mailbox::default();
        for (body, local) in [('a', 5), ('b', 7), ('c', 5), ('d', 1), ('e', 7)] {
            push(&mut mailbox, body, local, 0.0);
        }
        assert_eq!((mailbox.len(), mailbox.rows(), mailbox.bytes()), (5, 10, 50));
        let order: String = drain(&mut mailbox).into_iter().map(|(body, _)| body).collect();
        assert_eq!(order, "dacbe");
        assert_eq!((mailbox.rows(), mailbox.bytes()), (0, 0));
    }

    #[test]
    fn urgency_is_inherited_forwards_only() {
        let mut mailbox = Mailbox::default();
        push(&mut mailbox, 'a', 1, 50.0);
        push(&mut mailbox, 'b', 2, 90.0);
        push(&mut mailbox, 'd', 4, 60.0);
        // Comes between b and d: takes d's urgency, and gives none.
        push(&mut mailbox, 'c', 3, 70.0);
        push(&mut mailbox, 'e', 5, 80.0);
        assert_eq!(drain(&mut mailbox), [('a', 50.0), ('b', 60.0), ('c', 60.0), ('d', 60.0), ('e', 80.0)]);
    }
}
