use laxity_graph::{EventTime, ProcessingTime};
use laxity_workload::{Arrival, Arrivals};

/// What one source instance reads, and the batch it is about to take in.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The source.
    pub operator: u32,
    arrivals: Box<dyn Arrivals>,
    /// Arrived, or about to.
    pub next: Option<Arrival>,
    /// Arrived, and held back.
    pub held: bool,
    /// It stands in the list of its query, and in that of its machine; in each at most once.
    pub in_query_list: bool,
    pub in_machine_list: bool,
    /// By how much everything comes later than its arrivals say: a closed loop's.
    behind_ms: u64,
}

impl Feed {
    pub fn new(operator: u32, arrivals: Box<dyn Arrivals>) -> Feed {
        Feed {
            operator,
            arrivals,
            next: None,
            held: false,
            in_query_list: false,
            in_machine_list: false,
            behind_ms: 0,
        }
    }

    /// Looks at the batch after this one.
    pub fn advance(&mut self) -> Option<Arrival> {
        let behind_ms = self.behind_ms;
        self.next = self.arrivals.next().map(|arrival| later(arrival, behind_ms));
        self.next
    }

    /// Its batch could only be taken in now: its rows come into being now, and all later ones as much later. In
    /// whole milliseconds, so that event time keeps up.
    pub fn fall_behind(&mut self, now: ProcessingTime) {
        let Some(arrival) = self.next else { return };
        let late_ms = now.since_ns(arrival.at).div_ceil(1_000_000);
        self.behind_ms += late_ms;
        self.next = Some(later(arrival, late_ms));
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
        let mut feed = Feed::new(0, Box::new(Recorded::new([10, 20, 30].map(arrival).to_vec(), None)));
        assert_eq!(feed.advance(), Some(arrival(10)));
        feed.fall_behind(at(10));
        assert_eq!(feed.next, Some(arrival(10)));
        // 1 ns late counts as a millisecond; what follows is as late, and falls behind further.
        feed.fall_behind(ProcessingTime(10_000_001));
        assert_eq!(feed.next, Some(arrival(11)));
        assert_eq!(feed.advance(), Some(arrival(21)));
        feed.fall_behind(at(25));
        assert_eq!((feed.next, feed.advance()), (Some(arrival(25)), Some(arrival(35))));
    }
}
