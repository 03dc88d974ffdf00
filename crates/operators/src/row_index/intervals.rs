//! Range filters of many queries over one expression: who wants this value, without asking all of them.

use std::ops::Bound;

use super::key::{Key, KeyRef};

/// Intervals, to be asked which of them contain a value: sorted by where they begin, in a balanced tree that lies in the
/// array, each place knowing how far those below it reach. An answer costs the logarithm of their number and its own
/// length.
#[derive(Default)]
pub(super) struct Intervals {
    entries: Vec<Interval>,
    /// By place: where the farthest of its subtree ends.
    reach: Vec<Bound<Key>>,
    is_arranged: bool,
}

struct Interval {
    low: Bound<Key>,
    high: Bound<Key>,
    member: u32,
}

impl Intervals {
    pub fn add(&mut self, low: Bound<Key>, high: Bound<Key>, member: u32) {
        self.entries.push(Interval { low, high, member });
        self.is_arranged = false;
    }

    /// Takes one interval of the member out: if it has several, it leaves with all.
    pub fn remove(&mut self, member: u32) {
        self.entries.retain(|entry| entry.member != member);
        self.is_arranged = false;
    }

    /// To be called before the first question after a change.
    pub fn arrange(&mut self) {
        if self.is_arranged {
            return;
        }
        // Mostly in order already, which this sort is fast at.
        self.entries.sort_by(|a, b| lower(&a.low).cmp(&lower(&b.low)));
        self.reach.clear();
        self.reach.resize(self.entries.len(), Bound::Unbounded);
        self.measure(0, self.entries.len());
        self.is_arranged = true;
    }

    fn measure(&mut self, from: usize, to: usize) -> Option<usize> {
        if from == to {
            return None;
        }
        let middle = from.midpoint(to);
        let below = [self.measure(from, middle), self.measure(middle + 1, to)];
        let own = &self.entries[middle].high;
        let farthest = below.into_iter().flatten().map(|place| &self.reach[place]);
        self.reach[middle] = farthest.chain([own]).max_by_key(|bound| upper(bound)).unwrap_or(own).clone();
        Some(middle)
    }

    /// Who has an interval that this value lies in.
    pub fn containing(&self, value: &KeyRef<'_>, mut found: impl FnMut(u32)) {
        self.descend(0, self.entries.len(), value, &mut found);
    }

    fn descend(&self, from: usize, to: usize, value: &KeyRef<'_>, found: &mut impl FnMut(u32)) {
        if from == to {
            return;
        }
        let middle = from.midpoint(to);
        if !is_below(value, &self.reach[middle]) {
            return;
        }
        self.descend(from, middle, value, found);
        let entry = &self.entries[middle];
        if is_above(value, &entry.low) {
            if is_below(value, &entry.high) {
                found(entry.member);
            }
            self.descend(middle + 1, to, value, found);
        }
    }
}

pub(super) fn is_above(value: &KeyRef<'_>, low: &Bound<Key>) -> bool {
    match low {
        Bound::Unbounded => true,
        Bound::Included(low) => *value >= low.as_ref(),
        Bound::Excluded(low) => *value > low.as_ref(),
    }
}

pub(super) fn is_below(value: &KeyRef<'_>, high: &Bound<Key>) -> bool {
    match high {
        Bound::Unbounded => true,
        Bound::Included(high) => *value <= high.as_ref(),
        Bound::Excluded(high) => *value < high.as_ref(),
    }
}

/// In the order in which values are above them.
fn lower(bound: &Bound<Key>) -> Option<(&Key, bool)> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, false)),
        Bound::Excluded(key) => Some((key, true)),
    }
}

/// In the order in which values are below them.
fn upper(bound: &Bound<Key>) -> (bool, Option<(&Key, bool)>) {
    match bound {
        Bound::Unbounded => (true, None),
        Bound::Included(key) => (false, Some((key, true))),
        Bound::Excluded(key) => (false, Some((key, false))),
    }
}
