use std::collections::BTreeMap;

/// Numbers for things that come and go: what is given back is given out again, so that tables by number stay as long as
/// the most there ever was at once.
///
/// Numbers come in blocks that follow each other, as operators of one query do, and go back as the same blocks.
#[derive(Clone, Debug, Default)]
pub struct IdSpace {
    next: u32,
    /// By length: where blocks begin that came back.
    free: BTreeMap<u32, Vec<u32>>,
}

impl IdSpace {
    /// So many numbers, from the one returned on.
    ///
    /// # Panics
    /// If there are no more: four thousand million are in use.
    pub fn take(&mut self, length: u32) -> u32 {
        if let Some(first) = self.free.get_mut(&length).and_then(Vec::pop) {
            return first;
        }
        let first = self.next;
        self.next = first.checked_add(length).expect("fewer than 2^32 ids are in use");
        first
    }

    /// Nothing knows these numbers any more. They are a block that [`take`](IdSpace::take) gave out.
    pub fn give_back(&mut self, first: u32, length: u32) {
        debug_assert!(first + length <= self.next, "{first} and {length} after it were never given out");
        if length > 0 {
            self.free.entry(length).or_default().push(first);
        }
    }

    /// One more than the largest number given out so far.
    pub fn bound(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_again_and_never_overlap() {
        let mut ids = IdSpace::default();
        assert_eq!((ids.take(3), ids.take(2), ids.take(3)), (0, 3, 5));
        ids.give_back(0, 3);
        assert_eq!((ids.take(2), ids.take(3), ids.take(3)), (8, 0, 10), "a block is of one length");
        for _ in 0..1_000 {
            let first = ids.take(2);
            ids.give_back(first, 2);
        }
        assert_eq!(ids.bound(), 15);
        assert_eq!((ids.take(0), ids.take(0)), (15, 15));
    }
}
