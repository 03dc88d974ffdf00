//! Where a worker looks for work when there are several shards, decided without taking a lock.

use rand_core::Rng;

/// What a shard says of itself to workers elsewhere: how urgent the most urgent unit is that waits there.
///
/// One word, so that a driver can keep it in an atomic beside the shard's lock and write it, while it holds
/// the lock, after whatever changed the shard. Whoever reads it without the lock must expect it to be out of
/// date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Top(u64);

impl Top {
    /// Nothing waits.
    pub const EMPTY: Top = Top(u64::MAX);

    /// Of a priority, lower being more urgent; never NaN.
    #[inline]
    pub fn new(priority: Option<f64>) -> Top {
        let Some(priority) = priority else { return Top::EMPTY };
        // Adding 0 makes -0 and 0 one. Flipping the sign bit of positive and all bits of negative numbers
        // makes IEEE 754 order that of unsigned integers; the greatest of them are NaN.
        let bits = (priority + 0.0).to_bits();
        Top(if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits })
    }

    /// As a word.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// From that word.
    pub fn from_bits(bits: u64) -> Top {
        Top(bits)
    }

    /// By so much more urgent.
    fn ahead(self, by: f64) -> Top {
        if by == 0.0 || self == Top::EMPTY {
            return self;
        }
        let bits = if self.0 >> 63 == 1 { self.0 ^ (1 << 63) } else { !self.0 };
        Top::new(Some(f64::from_bits(bits) - by))
    }
}

/// Where a worker looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// The shard where it is; its home if it is nowhere.
    pub at: usize,
    /// What it would be given there.
    pub top: Top,
    /// The shard that it always looks at.
    pub home: usize,
    /// How many others, drawn at random.
    pub sampled: usize,
    /// By how much what waits at home counts as more urgent than it is ([`crate::Shard::lead`]).
    pub lead: f64,
}

impl Outlook {
    /// Which of so many shards the worker asks next: the most urgent of those it looks at, or any that has
    /// work if those have none. `None` if nothing waits anywhere.
    ///
    /// A tie goes to the home, which only more urgent work may pass over, and else stays where the worker is:
    /// each change is a lock and cold caches.
    pub fn choose(&self, shards: usize, top: impl Fn(usize) -> Top, random: &mut impl Rng) -> Option<usize> {
        let top = |shard: usize| top(shard).ahead(if shard == self.home { self.lead } else { 0.0 });
        let lead = if self.at == self.home { self.lead } else { 0.0 };
        let mut best = (self.at, self.top.ahead(lead));
        let consider = |best: (usize, Top), shard: usize| {
            if shard == self.at {
                return best;
            }
            let top = top(shard);
            if top < best.1 { (shard, top) } else { best }
        };
        if self.at != self.home {
            let home = top(self.home);
            best = if home <= best.1 { (self.home, home) } else { best };
        }
        if shards > 1 {
            for _ in 0..self.sampled {
                // Any shard but the home. The bias of the remainder is below shards / 2^32.
                let step = 1 + random.next_u32() as usize % (shards - 1);
                best = consider(best, (self.home + step) % shards);
            }
        }
        for step in 1..shards {
            if best.1 != Top::EMPTY {
                break;
            }
            best = consider(best, (self.home + step) % shards);
        }
        (best.1 != Top::EMPTY).then_some(best.0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rand_core::SeedableRng;
    use rand_pcg::Pcg32;

    use super::*;

    #[test]
    fn tops_order_as_priorities_do() {
        let ordered = [f64::NEG_INFINITY, -2.5, 0.0, 1e-300, 7.0, f64::INFINITY].map(|p| Top::new(Some(p)));
        assert!(ordered.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ordered[5] < Top::EMPTY);
        assert_eq!(Top::new(Some(-0.0)), Top::new(Some(0.0)));
        assert_eq!(Top::from_bits(ordered[1].to_bits()), ordered[1]);
    }

    fn choose(at: usize, home: usize, tops: [Option<f64>; 4], sampled: usize) -> Option<usize> {
        let top = |shard: usize| Top::new(tops[shard]);
        Outlook { at, top: top(at), home, sampled, lead: 0.0 }.choose(4, top, &mut Pcg32::seed_from_u64(1))
    }

    #[test]
    fn one_that_sees_all_takes_the_most_urgent_and_ties_go_home_or_stay() {
        // 40 draws of 3 miss one with a chance of (2/3)^40, 1e-7; the seed is fixed.
        assert_eq!(choose(0, 0, [Some(3.0), Some(2.0), Some(1.0), Some(2.0)], 40), Some(2));
        assert_eq!(choose(3, 0, [Some(2.0), None, Some(2.0), Some(2.0)], 40), Some(0));
        assert_eq!(choose(3, 0, [Some(3.0), None, Some(2.0), Some(2.0)], 40), Some(3));
        assert_eq!(choose(3, 0, [Some(1.0), None, None, Some(2.0)], 0), Some(0), "home is always looked at");
        assert_eq!(choose(3, 0, [Some(3.0), Some(1.0), None, Some(2.0)], 0), Some(3), "nobody else was");
    }

    #[test]
    fn an_empty_home_takes_from_whoever_has_work() {
        assert_eq!(choose(0, 0, [None, None, None, Some(9.0)], 0), Some(3));
        assert_eq!(choose(2, 2, [Some(f64::INFINITY), None, None, None], 0), Some(0));
        assert_eq!(choose(0, 0, [None; 4], 2), None);
    }

    #[test]
    fn all_others_are_sampled_alike() {
        // From home 1, shards 0, 2 and 3 are each looked at in a third of 9 000 draws; the standard deviation
        // is sqrt(9000 * 1/3 * 2/3) = 44.7; six of them are allowed.
        let mut random = Pcg32::seed_from_u64(3);
        let seen = RefCell::new([0u32; 4]);
        let top = |shard: usize| {
            seen.borrow_mut()[shard] += 1;
            Top::new(Some(1.0))
        };
        let outlook = Outlook { at: 1, top: Top::new(Some(1.0)), home: 1, sampled: 1, lead: 0.0 };
        for _ in 0..9_000 {
            outlook.choose(4, top, &mut random);
        }
        let seen = seen.into_inner();
        assert_eq!(seen[1], 0, "its own is known");
        assert!([0, 2, 3].iter().all(|&shard| seen[shard].abs_diff(3_000) < 268), "{seen:?}");
    }
}
