use std::collections::VecDeque;
use std::rc::Rc;

use laxity_graph::{EventClock, EventTime, ProcessingTime, QueryId};
use laxity_runtime::FeedEvent;
use laxity_workload::{Arrival, Arrivals};

use crate::Fault;
use crate::fault::burst;
use crate::modelled::Modelled;

/// What one source instance reads, and the batch it is about to take in.
pub(crate) struct Feed<B> {
    arrivals: Box<dyn Arrivals>,
    /// The rows themselves, where they are more than a number.
    pub rows: VecDeque<B>,
    /// Arrived, or about to; once it has been looked at.
    next: Option<Arrival>,
    has_begun: bool,
    /// Behind the last arrival the input ends; else nothing is known of what may still come.
    pub ends: bool,
    /// What cannot be taken in when it is due comes into being only then.
    pub is_closed_loop: bool,
    /// By how much everything comes later than its arrivals say: a closed loop's.
    behind_ms: u64,
    pub query: QueryId,
    /// Bursts among them.
    pub faults: Rc<[Fault]>,
}

impl<B> Feed<B> {
    pub fn new(arrivals: Box<dyn Arrivals>) -> Feed<B> {
        Feed {
            arrivals,
            rows: VecDeque::new(),
            next: None,
            has_begun: false,
            ends: false,
            is_closed_loop: false,
            behind_ms: 0,
            query: QueryId(0),
            faults: Rc::new([]),
        }
    }

    /// The batch that it has not given yet.
    pub fn next(&mut self) -> Option<Arrival> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.advance();
        }
        self.next
    }

    /// Looks at the batch after this one.
    fn advance(&mut self) {
        let behind_ms = self.behind_ms;
        self.next = self.arrivals.next().map(|arrival| later(arrival, behind_ms));
    }

    /// Its batch could only be taken in now: its rows come into being now, and all later ones as much later. In
    /// whole milliseconds, so that event time keeps up.
    fn fall_behind(&mut self, now: ProcessingTime) {
        let Some(arrival) = self.next else { return };
        let late_ms = now.since_ns(arrival.at).div_ceil(1_000_000);
        self.behind_ms += late_ms;
        self.next = Some(later(arrival, late_ms));
    }

    /// More rows than were meant to come, in a burst.
    fn burst(&self, arrival: Arrival) -> Arrival {
        let factor = burst(&self.faults, self.query, arrival.at);
        if factor == 1.0 {
            return arrival;
        }
        Arrival {
            rows: (f64::from(arrival.rows) * factor).round() as u32,
            bytes: (arrival.bytes as f64 * factor) as u64,
            ..arrival
        }
    }

    /// The batch that is due, or when there will be one.
    pub fn poll<C: Modelled<Batch = B>>(&mut self, now: ProcessingTime) -> FeedEvent<B> {
        let Some(due) = self.next() else {
            return if self.ends { FeedEvent::End } else { FeedEvent::Waiting };
        };
        if due.at > now {
            return FeedEvent::NotBefore(due.at);
        }
        if self.is_closed_loop {
            self.fall_behind(now);
        }
        let arrival = self.next.map_or(due, |arrival| self.burst(arrival));
        let batch = C::arrived(&mut self.rows, &arrival);
        self.advance();
        FeedEvent::Batch(batch, arrival.at)
    }

    pub fn event_clock(&self) -> EventClock {
        self.arrivals.clock()
    }
}

fn later(arrival: Arrival, ms: u64) -> Arrival {
    let shifted = |time: EventTime| EventTime(time.0.saturating_add_unsigned(ms));
    Arrival {
        at: arrival.at.plus_ns(ms.saturating_mul(1_000_000)),
        event_time: shifted(arrival.event_time),
        watermark: arrival.watermark.map(shifted),
        ..arrival
    }
}

#[cfg(test)]
mod tests {
    use laxity_workload::Recorded;

    use super::*;

    #[test]
    fn a_closed_loop_makes_everything_after_a_wait_later() {
        let at = |ms: u64| ProcessingTime(ms * 1_000_000);
        let arrival = |ms: u64| Arrival {
            at: at(ms),
            event_time: EventTime(ms as i64 - 1),
            rows: 1,
            bytes: 1,
            watermark: Some(EventTime(ms as i64 - 5)),
        };
        let arrivals = Recorded::new([10, 20, 30].map(arrival).to_vec(), None);
        let mut feed: Feed<()> = Feed::new(Box::new(arrivals));
        assert_eq!(feed.next(), Some(arrival(10)));
        feed.fall_behind(at(10));
        assert_eq!(feed.next(), Some(arrival(10)));
        // 1 ns late counts as a millisecond; what follows is as late, and falls behind further.
        feed.fall_behind(ProcessingTime(10_000_001));
        assert_eq!(feed.next(), Some(arrival(11)));
        feed.advance();
        assert_eq!(feed.next(), Some(arrival(21)));
        feed.fall_behind(at(25));
        assert_eq!(feed.next(), Some(arrival(25)));
        feed.advance();
        assert_eq!(feed.next(), Some(arrival(35)));
    }
}
