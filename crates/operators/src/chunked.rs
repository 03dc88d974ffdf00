//! Items by number that can be handed out without a copy: a checkpoint stops its query only for as long as that takes, and
//! makes tables of them behind its back.

use std::ops::Range;
use std::sync::Arc;

/// Items numbered from 0, in chunks. What was handed out stays as it was: a chunk is taken back, or copied while somebody
/// still reads it, when it is next written to.
///
/// `CHUNK` items are in each but the last. Fewer are more chunks to hand out, some 50 ns each; more are copied for one that is touched.
#[derive(Debug)]
pub(crate) struct Chunked<T, const CHUNK: usize> {
    chunks: Vec<Chunk<T>>,
    len: usize,
}

#[derive(Debug)]
enum Chunk<T> {
    Own(Vec<T>),
    /// Somebody reads it, or has.
    Lent(Arc<Vec<T>>),
}

/// What items were at some time, in their order.
#[derive(Debug)]
pub(crate) struct Handed<T, const CHUNK: usize>(Vec<Arc<Vec<T>>>);

impl<T: Clone, const CHUNK: usize> Chunked<T, CHUNK> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, number: usize) -> &T {
        &self.chunks[number / CHUNK].items()[number % CHUNK]
    }

    /// The same; `None` if there is none of that number.
    pub(crate) fn find(&self, number: usize) -> Option<&T> {
        (number < self.len).then(|| self.get(number))
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut T {
        &mut self.chunks[number / CHUNK].own()[number % CHUNK]
    }

    pub(crate) fn push(&mut self, item: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Chunk::Own(Vec::new()));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.own().push(item);
            self.len += 1;
        }
    }

    /// There are so many then, if there were fewer; new ones are made.
    pub(crate) fn grow_with(&mut self, len: usize, mut item: impl FnMut() -> T) {
        while self.len < len {
            self.push(item());
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.items())
    }

    /// What they are now.
    pub(crate) fn hand_out(&mut self) -> Handed<T, CHUNK> {
        Handed(self.chunks.iter_mut().map(Chunk::lend).collect())
    }

    /// Leaves these only, which ascend, and numbers them anew.
    pub(crate) fn keep(&mut self, kept: &[u32])
    where
        T: Default,
    {
        *self = kept.iter().map(|&number| std::mem::take(self.get_mut(number as usize))).collect();
    }

    /// Bytes that are allocated for them, without what they own.
    pub(crate) fn bytes(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        let last = self.chunks.last().map_or(0, Chunk::capacity);
        (full + last) * size_of::<T>() + self.chunks.capacity() * size_of::<Chunk<T>>()
    }
}

impl<T: Clone> Chunk<T> {
    fn items(&self) -> &[T] {
        match self {
            Chunk::Own(items) => items,
            Chunk::Lent(items) => items,
        }
    }

    fn own(&mut self) -> &mut Vec<T> {
        match self {
            Chunk::Own(items) => items,
            Chunk::Lent(_) => self.take_back(),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_back(&mut self) -> &mut Vec<T> {
        *self = match std::mem::replace(self, Chunk::Own(Vec::new())) {
            Chunk::Lent(lent) => Chunk::Own(Arc::unwrap_or_clone(lent)),
            own => own,
        };
        self.own()
    }

    fn lend(&mut self) -> Arc<Vec<T>> {
        if let Chunk::Own(items) = self {
            *self = Chunk::Lent(Arc::new(std::mem::take(items)));
        }
        match self {
            Chunk::Lent(lent) => lent.clone(),
            Chunk::Own(_) => Arc::default(),
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Chunk::Own(items) => items.capacity(),
            Chunk::Lent(items) => items.capacity(),
        }
    }
}

impl<T, const CHUNK: usize> Default for Chunked<T, CHUNK> {
    fn default() -> Chunked<T, CHUNK> {
        Chunked { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Clone, const CHUNK: usize> Extend<T> for Chunked<T, CHUNK> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: Clone, const CHUNK: usize> FromIterator<T> for Chunked<T, CHUNK> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Chunked<T, CHUNK> {
        let mut chunked = Chunked::default();
        chunked.extend(items);
        chunked
    }
}

impl<T, const CHUNK: usize> Handed<T, CHUNK> {
    pub(crate) fn len(&self) -> usize {
        let full = self.0.len().saturating_sub(1) * CHUNK;
        full + self.0.last().map_or(0, |last| last.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.0.iter().flat_map(|chunk| chunk.iter())
    }

    /// Those of these numbers, as far as there are so many. They are of whole chunks.
    pub(crate) fn range(&self, numbers: Range<usize>) -> impl Iterator<Item = &T> + Clone {
        debug_assert!(numbers.start.is_multiple_of(CHUNK));
        debug_assert!(numbers.end.is_multiple_of(CHUNK) || numbers.end >= self.len());
        let end = numbers.end.div_ceil(CHUNK).min(self.0.len());
        self.0[(numbers.start / CHUNK).min(end)..end].iter().flat_map(|chunk| chunk.iter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Write(usize),
        HandOut,
        LetGo,
        KeepEven,
    }

    proptest! {
        #[test]
        fn what_was_handed_out_stays_as_it_was(
            steps in prop::collection::vec(
                prop_oneof![
                    3 => Just(Step::Push),
                    3 => (0..40_usize).prop_map(Step::Write),
                    1 => Just(Step::HandOut),
                    1 => Just(Step::LetGo),
                    1 => Just(Step::KeepEven),
                ],
                1..120,
            ),
        ) {
            let (mut chunked, mut plain) = (Chunked::<String, 4>::default(), Vec::new());
            let mut handed: Vec<(Handed<String, 4>, Vec<String>)> = Vec::new();
            for (at, step) in steps.iter().enumerate() {
                match step {
                    Step::Push => {
                        chunked.push(at.to_string());
                        plain.push(at.to_string());
                    }
                    Step::Write(number) if *number < plain.len() => {
                        chunked.get_mut(*number).push('x');
                        plain[*number].push('x');
                        prop_assert_eq!(chunked.get(*number), &plain[*number]);
                    }
                    Step::Write(_) => {}
                    Step::HandOut => handed.push((chunked.hand_out(), plain.clone())),
                    Step::LetGo => handed.clear(),
                    Step::KeepEven => {
                        let kept: Vec<u32> = (0..plain.len() as u32).step_by(2).collect();
                        chunked.keep(&kept);
                        plain = kept.iter().map(|&number| plain[number as usize].clone()).collect();
                    }
                }
                prop_assert_eq!(chunked.len(), plain.len());
            }
            prop_assert_eq!(chunked.iter().collect::<Vec<_>>(), plain.iter().collect::<Vec<_>>());
            for (found, then) in handed {
                prop_assert_eq!(found.iter().collect::<Vec<_>>(), then.iter().collect::<Vec<_>>());
                prop_assert_eq!(found.len(), then.len());
                let some: Vec<_> = then.iter().skip(4).take(8).collect();
                prop_assert_eq!(found.range(4..12).collect::<Vec<_>>(), some);
            }
        }
    }

    #[test]
    fn few_items_take_few_bytes() {
        let mut chunked: Chunked<u64, 1_024> = (0..3).collect();
        assert!(chunked.bytes() < 500, "{} bytes", chunked.bytes());
        let handed = chunked.hand_out();
        assert!((24..500).contains(&chunked.bytes()), "{} bytes", chunked.bytes());
        drop(handed);
        chunked.extend(0..2_000);
        assert!((16_000..20_000).contains(&chunked.bytes()), "{} bytes", chunked.bytes());
    }

    #[test]
    fn what_comes_back_is_not_copied() {
        let mut chunked: Chunked<u64, 4> = (0..8).collect();
        let place = std::ptr::from_ref(chunked.get(1));
        drop(chunked.hand_out());
        *chunked.get_mut(0) = 7;
        assert_eq!(std::ptr::from_ref(chunked.get(1)), place);
        let kept = chunked.hand_out();
        *chunked.get_mut(0) = 8;
        assert_eq!((kept.iter().next(), chunked.get(0)), (Some(&7), &8));
    }
}
