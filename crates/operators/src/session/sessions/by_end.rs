//! Sessions in the order of their ends, and of those that end together in that of their numbers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::SessionId;

/// A heap for each end. Sessions of one millisecond are many where they are short, and one heap for all of them would be
/// walked through from top to bottom for each that leaves.
#[derive(Default)]
pub(super) struct ByEnd {
    ends: BTreeMap<i64, BinaryHeap<Reverse<SessionId>>>,
}

impl ByEnd {
    pub(super) fn push(&mut self, end: i64, id: SessionId) {
        self.ends.entry(end).or_default().push(Reverse(id));
    }

    /// The nearest end.
    pub(super) fn first_end(&self) -> Option<i64> {
        self.ends.first_key_value().map(|(end, _)| *end)
    }

    /// Takes out the first one that ends by then.
    pub(super) fn pop_until(&mut self, is_over: impl Fn(i64) -> bool) -> Option<(i64, SessionId)> {
        let mut first = self.ends.first_entry().filter(|first| is_over(*first.key()))?;
        let end = *first.key();
        let id = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        id.map(|Reverse(id)| (end, id))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_end_goes_first_and_then_the_lowest_number() {
        let mut by_end = ByEnd::default();
        for (end, id) in [(20, 1), (10, 7), (20, 0), (10, 3), (30, 2)] {
            by_end.push(end, id);
        }
        assert_eq!(by_end.first_end(), Some(10));
        let mut until = |until: i64| by_end.pop_until(|end| end <= until);
        let taken: Vec<_> = std::iter::from_fn(|| until(20)).collect();
        assert_eq!(taken, [(10, 3), (10, 7), (20, 0), (20, 1)]);
        assert_eq!((until(29), until(30), until(30)), (None, Some((30, 2)), None));
        assert!(by_end.is_empty());
    }
}
