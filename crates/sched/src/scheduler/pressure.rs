//! Bounded mailboxes: where producers stop, when they go on, and why nobody waits for ever.

use laxity_graph::{OperatorId, ProcessingTime};

use crate::Scheduler;

/// How much there is of it: mostly nothing, and then no turn looks at neighbours, whose state is far from the caches.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// Mailboxes that hold more than the bound.
    full: usize,
    /// Operators that are blocked.
    blocked: usize,
}

impl Pressure {
    /// A mailbox of that bound held `before` bytes and holds `after`.
    #[inline]
    pub fn see(&mut self, bound: u64, before: u64, after: u64) {
        match (before > bound, after > bound) {
            (false, true) => self.full += 1,
            (true, false) => self.full -= 1,
            _ => {}
        }
    }
}

/// Back-pressure inside a query: who feeds a full mailbox is blocked until it has emptied to half.
///
/// Never a deadlock: a full mailbox has work, so its operator is ready, running, or blocked by one below it;
/// one with nothing below it is never blocked. The bound is soft: what one run sends on may pass it.
impl<T> Scheduler<T> {
    /// Blocks an operator that just ran, if a mailbox below it is full. True if it is blocked.
    ///
    /// Also one without work: else a producer that keeps up with its own input would never be blocked.
    #[inline]
    pub(super) fn block_if_downstream_is_full(&mut self, id: OperatorId) -> bool {
        let blocks = self.pressure.full > 0 && self.fullest_below(id) > self.config.mailbox_bytes_max;
        self.set_blocked(id, blocks);
        blocks
    }

    #[inline]
    fn set_blocked(&mut self, id: OperatorId, blocked: bool) {
        let operator = self.operators[id.index()].as_mut().expect("looked up by the caller");
        let was = std::mem::replace(&mut operator.blocked, blocked);
        self.pressure.blocked = self.pressure.blocked + usize::from(blocked) - usize::from(was);
    }

    /// An operator is gone, with all that it held.
    pub(super) fn relieve(&mut self, was_blocked: bool, bytes: u64) {
        self.pressure.see(self.config.mailbox_bytes_max, bytes, 0);
        self.pressure.blocked -= usize::from(was_blocked);
    }

    /// Lets the operators go on that fed `id`, once it has emptied to half.
    #[inline]
    pub(super) fn unblock_upstream(&mut self, id: OperatorId, now: ProcessingTime) {
        if self.pressure.blocked == 0 {
            return;
        }
        let Some(operator) = self.operator(id) else { return };
        if operator.mailbox.bytes() > self.mailbox_bytes_low() {
            return;
        }
        for place in 0..operator.links.upstream.len() {
            let Some(&above) = self.operator(id).and_then(|o| o.links.upstream.get(place)) else { return };
            self.unblock(above, now);
        }
    }

    /// Lets an operator go on if nothing below it holds it back any more.
    ///
    /// Half empty need only be the mailbox that gave the occasion: were all of them to be at once, producers that
    /// go round many consumers could keep one of their peers blocked for ever, one mailbox half full at a time.
    pub(super) fn unblock(&mut self, id: OperatorId, now: ProcessingTime) {
        if !self.operator(id).is_some_and(|o| o.blocked)
            || self.fullest_below(id) > self.config.mailbox_bytes_max
        {
            return;
        }
        self.set_blocked(id, false);
        self.view.touch(id);
        if let Some(unit) = self.operator(id).filter(|o| o.has_work()).map(|o| o.unit) {
            self.became_ready(unit, now);
        }
    }

    /// Where blocked producers go on, and where a mailbox has no room left to defer into.
    pub(super) fn mailbox_bytes_low(&self) -> u64 {
        self.config.mailbox_bytes_max / 2
    }

    fn fullest_below(&self, id: OperatorId) -> u64 {
        let Some(operator) = self.operator(id) else { return 0 };
        operator.links.downstream.iter().map(|&below| self.queued_bytes(below)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use laxity_graph::{EventTime, QueryId, WorkerId};

    use super::*;
    use crate::{Composition, Config, Llf, Message, OperatorSpec, QuerySpec, RunReport, Work};

    /// Operator 0 feeds `consumers` others, each with a mailbox of 100 bytes.
    fn producer_and(consumers: u32) -> Scheduler<()> {
        let config = Config { mailbox_bytes_max: 100, ..Config::default() };
        let mut scheduler = Scheduler::new(Composition::of(Llf), config);
        scheduler.add_query(QuerySpec { id: QueryId(0), target_ns: 1_000_000, weight: 1.0, qos: None });
        for id in 0..=consumers {
            let upstream = if id == 0 { vec![] } else { vec![OperatorId(0)] };
            scheduler.add_operator(OperatorSpec {
                id: OperatorId(id),
                query: QueryId(0),
                upstream,
                window: None,
                channels: 1,
            });
        }
        scheduler
    }

    fn message(to: u32, bytes: u64) -> Message<()> {
        Message {
            to: OperatorId(to),
            channel: 0,
            progress: EventTime::MIN,
            ingested: ProcessingTime(0),
            rows: 1,
            bytes,
            body: (),
        }
    }

    #[test]
    fn a_producer_waits_while_the_mailbox_below_is_full() {
        let mut scheduler = producer_and(1);
        let worker = WorkerId(0);
        let now = ProcessingTime(0);
        scheduler.on_message(message(0, 1), now);
        assert_eq!(scheduler.next(worker, now).unwrap().operator, OperatorId(0));
        // The producer has more, but has filled its consumer with three messages of 60 bytes.
        for _ in 0..3 {
            scheduler.on_message(message(1, 60), now);
        }
        scheduler.on_finished(worker, RunReport { more: true, ..RunReport::default() }, now);
        let mut order = Vec::new();
        assert_eq!((scheduler.pressure.full, scheduler.pressure.blocked), (1, 1));
        while let Some(grant) = scheduler.next(worker, now) {
            order.push((grant.operator.0, matches!(grant.work, Work::Resume)));
            scheduler.on_finished(worker, RunReport::default(), now);
        }
        assert_eq!((scheduler.pressure.full, scheduler.pressure.blocked), (0, 0));
        // 180 and 120 bytes are too many, 60 still more than half, 0 lets it go on.
        assert_eq!(order, [(1, false), (1, false), (1, false), (0, true)]);
    }

    #[test]
    fn a_query_that_is_removed_takes_its_pressure_along() {
        let mut scheduler = producer_and(1);
        let now = ProcessingTime(0);
        scheduler.on_message(message(0, 1), now);
        scheduler.next(WorkerId(0), now).unwrap();
        scheduler.on_message(message(1, 120), now);
        scheduler.on_finished(WorkerId(0), RunReport::default(), now);
        assert_eq!((scheduler.pressure.full, scheduler.pressure.blocked), (1, 1));
        scheduler.remove_query(QueryId(0));
        assert_eq!((scheduler.pressure.full, scheduler.pressure.blocked), (0, 0));
    }

    #[test]
    fn a_producer_goes_on_although_another_consumer_is_half_full() {
        let mut scheduler = producer_and(2);
        let worker = WorkerId(0);
        let now = ProcessingTime(0);
        scheduler.on_message(message(0, 1), now);
        assert_eq!(scheduler.next(worker, now).unwrap().operator, OperatorId(0));
        scheduler.on_message(message(1, 120), now);
        scheduler.on_message(message(2, 60), now);
        scheduler.on_finished(worker, RunReport { more: true, ..RunReport::default() }, now);
        // The full mailbox empties; the other stays above half, as others could keep it, but is not full.
        assert_eq!(scheduler.next(worker, now).unwrap().operator, OperatorId(1));
        assert!(!scheduler.operator(OperatorId(0)).unwrap().blocked);
    }
}
