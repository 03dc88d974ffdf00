//! What was done for a query because not all that was promised can be kept, step by step, and for how long.

use laxity_graph::ProcessingTime;

/// The steps against too much work, of one query, the gentlest first. Approximate answers stand between the second and
/// the third; operators take that step, and tell of it themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ladder {
    /// The rank lets its work stand back behind that of others ([`crate::Rank::standing_back`]).
    pub stood_back: Spells,
    /// Messages that were late already were worked off together, which saves calls ([`crate::Scheduler::merge`]).
    pub larger_batches: Spells,
    /// Rows are dropped at its sources. Told by whoever drops them.
    pub shed: Spells,
}

/// How often, and for how long in all, something went on of which only moments are seen. It is over once it was not seen
/// for a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spells {
    times: u64,
    total_ns: u64,
    seen: ProcessingTime,
}

impl Spells {
    /// Longer than the longest time between two reviews of some hundred thousand operators. Picked.
    const OVER_AFTER_NS: u64 = 1_000_000_000;

    /// It goes on.
    pub fn see(&mut self, now: ProcessingTime) {
        if self.is_on(now) {
            self.total_ns += now.since_ns(self.seen);
        } else {
            self.times += 1;
        }
        self.seen = self.seen.max(now);
    }

    /// How often it began.
    pub fn times(&self) -> u64 {
        self.times
    }

    /// For how long it went on in all, from the first to the last moment that was seen of each time, ns.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Whether it goes on.
    pub fn is_on(&self, now: ProcessingTime) -> bool {
        self.times > 0 && now.since_ns(self.seen) <= Spells::OVER_AFTER_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at_ms(ms: u64) -> ProcessingTime {
        ProcessingTime(ms * 1_000_000)
    }

    #[test]
    fn it_is_over_once_it_was_not_seen_for_a_second() {
        let mut spells = Spells::default();
        assert!(!spells.is_on(at_ms(0)) && spells.times() == 0);
        for ms in [100, 500, 1_500] {
            spells.see(at_ms(ms));
        }
        assert_eq!((spells.times(), spells.total_ns()), (1, 1_400_000_000));
        assert!(spells.is_on(at_ms(2_500)) && !spells.is_on(at_ms(2_501)));
        spells.see(at_ms(4_000));
        assert_eq!((spells.times(), spells.total_ns()), (2, 1_400_000_000), "one moment takes no time");
        // Another thread's clock may be behind.
        spells.see(at_ms(3_999));
        assert_eq!((spells.times(), spells.total_ns()), (2, 1_400_000_000));
    }
}
