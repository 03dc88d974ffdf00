//! The part of what was recorded that is offered over and over: where every table that has a pace was looked at from its
//! begin to its end, so that no rows are missing where it begins anew.

use crate::simulate::costs::{ArrivalCosts, Costs, FeedCosts};

/// From when to when, since the first arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycle {
    /// Where it begins, ns.
    pub begin_ns: u64,
    /// How long it is. Whole milliseconds, as event time is.
    pub length_ms: u64,
}

/// Tables are looked at twice a second at least, where they have rows. One that brought nothing for longer had none.
const UNSEEN_NS: u64 = 500_000_000;
/// No more than this share of a measurement is given up at either end.
const SHARE_MAX: u64 = 4;

impl Cycle {
    /// That of all that was measured.
    pub fn of(costs: &Costs) -> Cycle {
        let measured_ns = (costs.measured_s * 1e9) as u64;
        let whole = Cycle { begin_ns: 0, length_ms: ((costs.measured_s * 1e3).ceil() as u64).max(1) };
        let own = costs.queries.iter().flat_map(|query| &query.feeds);
        let feeds = || own.clone().chain(costs.shared.iter().map(|shared| &shared.feed));
        let firsts = || feeds().filter_map(first_ns);
        let lasts = || feeds().filter_map(last_ns);
        let slack_ns = UNSEEN_NS.min(measured_ns / SHARE_MAX);
        let (Some(first), Some(last)) = (firsts().min(), lasts().max()) else { return whole };
        let (Some(begin), Some(end)) = (firsts().max(), lasts().min()) else { return whole };
        let begin_ns = begin.min(first + slack_ns);
        let end_ns = end.max(last.saturating_sub(slack_ns));
        match end_ns.saturating_sub(begin_ns) / 1_000_000 {
            0 => whole,
            length_ms => Cycle { begin_ns, length_ms },
        }
    }

    /// Its length, ns.
    pub fn length_ns(&self) -> u64 {
        self.length_ms * 1_000_000
    }
}

/// When the first row of a table that has a pace was due.
fn first_ns(feed: &FeedCosts) -> Option<u64> {
    let speed = feed.clock()?.speed;
    let first = feed.arrivals.first().filter(|first| first.event_times.is_some())?;
    Some(first.at_ns.saturating_sub(first.span_ns(speed)))
}

/// When the last row of such a table was due.
fn last_ns(feed: &FeedCosts) -> Option<u64> {
    feed.clock()?;
    let with_rows = |arrival: &&ArrivalCosts| arrival.rows > 0;
    feed.arrivals.iter().rfind(with_rows).map(|arrival| arrival.at_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::costs::QueryCosts;

    /// Tables of these, first and last arrival in ms, measured for 5 s.
    fn cycle(tables: &[(u64, u64)], speed: Option<f64>) -> Cycle {
        let arrival = |ms: u64| ArrivalCosts {
            at_ns: ms * 1_000_000,
            rows: 1,
            bytes: 8,
            event_times: Some((ms as i64, ms as i64)),
            watermark: None,
        };
        let feed = |&(first, last): &(u64, u64)| FeedCosts {
            node: 0,
            instance: 0,
            speed,
            due: Some((0, 0)),
            arrivals: vec![arrival(first), arrival(last)],
            shared: None,
        };
        let feeds = tables.iter().map(feed).collect();
        let queries = vec![QueryCosts { name: "q".into(), results: 1, nodes: vec![], feeds }];
        let (sources, shared) = (None, vec![]);
        Cycle::of(&Costs { measured_s: 5.0, workers: 2, call_ns: 0, sources, busy: 0.5, queries, shared })
    }

    #[test]
    fn it_ends_where_the_first_table_was_not_looked_at_any_more() {
        let of = |begin_ms: u64, length_ms| Cycle { begin_ns: begin_ms * 1_000_000, length_ms };
        assert_eq!(cycle(&[(0, 4_980), (12, 4_600)], Some(1.0)), of(12, 4_588));
        // A row now and then: the others go on.
        assert_eq!(cycle(&[(0, 4_980), (2_000, 3_000)], Some(1.0)), of(500, 3_980));
        assert_eq!(cycle(&[(0, 4_980), (12, 4_600)], None), of(0, 5_000));
        assert_eq!(cycle(&[], Some(1.0)), of(0, 5_000));
    }
}
