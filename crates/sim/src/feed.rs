//! What a table reads: the arrivals of a workload, decoded ahead where that is asked for, and shared by its copies.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use laxity_graph::{EventClock, EventTime, ProcessingTime, QueryId};
use laxity_runtime::FeedEvent;
use laxity_workload::{Arrival, Arrivals};

use crate::Fault;
use crate::fault::{after_silence, burst};
use crate::modelled::Modelled;

/// What a table brings, and the batches that it is about to bring.
pub(crate) struct Feed<B> {
    arrivals: Rc<RefCell<Tee>>,
    /// Which of those that read them.
    copy: usize,
    /// The rows themselves, where they are more than a number.
    pub rows: VecDeque<B>,
    /// Looked at and not given: the first is the next.
    ahead: VecDeque<Arrival>,
    /// By piece that is decoded: how many of those ahead are of it.
    pieces: VecDeque<usize>,
    /// Nothing comes after those ahead.
    exhausted: bool,
    /// Behind the last arrival the input ends; else nothing is known of what may still come.
    pub ends: bool,
    /// What cannot be taken in when it is due comes into being only then.
    pub is_closed_loop: bool,
    /// By how much everything comes later than its arrivals say: a closed loop's.
    behind_ms: u64,
    pub query: QueryId,
    /// Bursts and silences among them.
    pub faults: Rc<[Fault]>,
}

impl<B> Feed<B> {
    pub fn new(arrivals: Box<dyn Arrivals>) -> Feed<B> {
        Feed {
            arrivals: Rc::new(RefCell::new(Tee { arrivals, kept: VecDeque::new(), first: 0, next: vec![0] })),
            copy: 0,
            rows: VecDeque::new(),
            ahead: VecDeque::new(),
            pieces: VecDeque::new(),
            exhausted: false,
            ends: false,
            is_closed_loop: false,
            behind_ms: 0,
            query: QueryId(0),
            faults: Rc::new([]),
        }
    }

    /// The batch that it has not given yet.
    pub fn next(&mut self) -> Option<Arrival> {
        if self.ahead.is_empty() {
            self.see();
        }
        self.ahead.front().copied()
    }

    /// Looks at one batch more. False if there is none.
    fn see(&mut self) -> bool {
        if self.exhausted {
            return false;
        }
        let Some(arrival) = self.arrivals.borrow_mut().next(self.copy) else {
            self.exhausted = true;
            return false;
        };
        let mut arrival = later(arrival, self.behind_ms);
        arrival.at = after_silence(&self.faults, self.query, arrival.at);
        self.ahead.push_back(arrival);
        true
    }

    /// The next batch is given.
    fn advance(&mut self) {
        self.ahead.pop_front();
        if let Some(left) = self.pieces.front_mut() {
            *left -= 1;
            if *left == 0 {
                self.pieces.pop_front();
            }
        }
    }

    /// Decodes so many rows, or what there is; how many.
    pub fn decode(&mut self, piece_rows: u32) -> u64 {
        let decoded: usize = self.pieces.iter().sum();
        let (mut rows, mut end) = (0, decoded);
        while rows < u64::from(piece_rows.max(1)) && (end < self.ahead.len() || self.see()) {
            rows += u64::from(self.ahead[end].rows);
            end += 1;
        }
        if end > decoded {
            self.pieces.push_back(end - decoded);
        }
        rows
    }

    /// Pieces that are decoded and not all given.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// When the last decoded row is due; `None` if all are.
    pub fn decoded_until(&self) -> Option<ProcessingTime> {
        let decoded: usize = self.pieces.iter().sum();
        match decoded.checked_sub(1) {
            _ if self.exhausted && decoded == self.ahead.len() => None,
            Some(last) => Some(self.ahead[last].at),
            None => Some(ProcessingTime::ZERO),
        }
    }

    /// Its batch could only be taken in now: its rows come into being now, and all later ones as much later. In
    /// whole milliseconds, so that event time keeps up.
    fn fall_behind(&mut self, now: ProcessingTime) {
        let Some(arrival) = self.next() else { return };
        let late_ms = now.since_ns(arrival.at).div_ceil(1_000_000);
        self.behind_ms += late_ms;
        self.ahead.iter_mut().for_each(|arrival| *arrival = later(*arrival, late_ms));
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
        let arrival = self.next().map_or(due, |arrival| self.burst(arrival));
        let batch = C::arrived(&mut self.rows, &arrival);
        self.advance();
        FeedEvent::Batch(batch, arrival.at)
    }

    /// The same from here on, for a copy of the table. What that must read again to get here costs nothing.
    pub fn split(&self) -> Feed<B>
    where
        B: Clone,
    {
        let mut tee = self.arrivals.borrow_mut();
        let (next, copy) = (tee.next[self.copy], tee.next.len());
        tee.next.push(next);
        Feed {
            arrivals: Rc::clone(&self.arrivals),
            copy,
            rows: self.rows.clone(),
            ahead: self.ahead.clone(),
            pieces: self.pieces.clone(),
            faults: Rc::clone(&self.faults),
            ..*self
        }
    }

    pub fn event_clock(&self) -> EventClock {
        self.arrivals.borrow().arrivals.clock()
    }
}

/// Batches in order, which copies of a table read each at its own place.
struct Tee {
    arrivals: Box<dyn Arrivals>,
    /// What not all have seen; the first has the number `first`.
    kept: VecDeque<Arrival>,
    first: usize,
    /// By copy: the number of the next.
    next: Vec<usize>,
}

impl Tee {
    fn next(&mut self, copy: usize) -> Option<Arrival> {
        let number = self.next[copy];
        if number == self.first + self.kept.len() {
            self.kept.push_back(self.arrivals.next()?);
        }
        let arrival = self.kept[number - self.first];
        self.next[copy] += 1;
        let seen_by_all = self.next.iter().copied().min().unwrap_or(number);
        self.kept.drain(..seen_by_all - self.first);
        self.first = seen_by_all;
        Some(arrival)
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
