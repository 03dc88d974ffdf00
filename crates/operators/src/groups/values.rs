//! Values by group that can be handed out without a copy: a checkpoint stops its query only for as long as that takes. Those
//! that were not written to since the last one are handed out as the same arrays, by which it is known what to write again.

use arrow::array::ArrayRef;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::ArrowNativeType;

/// A value for each group.
#[derive(Debug)]
pub(super) enum Values<T: ArrowNativeType> {
    Few(Vec<T>),
    /// Many that were handed out at least once.
    Many(Chunks<T>),
}

/// Values in chunks, each of which is taken back or copied when it is next written to: memory for all of them at once would
/// have to be found, and cleared, while the query is stopped.
#[derive(Debug)]
pub(super) struct Chunks<T: ArrowNativeType> {
    /// Each of [`CHUNK`] values, but for the last.
    chunks: Vec<Chunk<T>>,
    len: usize,
    /// Those before it are not of the one piece that all were in at first.
    next: usize,
}

#[derive(Debug)]
struct Chunk<T: ArrowNativeType> {
    /// Empty while it is lent.
    own: Vec<T>,
    lent: Option<Lent<T>>,
}

/// Values that were handed out, and not written to since.
#[derive(Debug)]
struct Lent<T: ArrowNativeType> {
    values: ScalarBuffer<T>,
    /// What was made of them. `None` before they are handed out for the first time.
    array: Option<ArrayRef>,
}

/// Values of a chunk: 32 KB of eight bytes each. Fewer are more tables to write; more are copied for one that is touched.
pub(super) const CHUNK: usize = 4_096;

/// Chunks of the one piece that all were in at first which are taken out of it with a batch, beside those that it needs, so that it is
/// let go: a quarter of a megabyte, some 50 µs.
const CHUNKS_MORE: usize = 8;

/// Less than that is copied when it is handed out.
const SMALL_BYTES: usize = 64 << 10;

impl<T: ArrowNativeType> Values<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Few(values) => values.len(),
            Values::Many(chunks) => chunks.len,
        }
    }

    /// Calls with the value of each item's group. There are so many groups then; new ones are `start`.
    pub fn each<X>(
        &mut self,
        items: impl Iterator<Item = (usize, X)>,
        total: usize,
        start: T,
        mut call: impl FnMut(&mut T, X),
    ) {
        match self {
            Values::Few(values) => {
                values.resize(total, start);
                // A slice of its own: through `self` its place would be read again for every row.
                let values = &mut values[..];
                items.for_each(|(group, item)| call(&mut values[group], item));
            }
            Values::Many(chunks) => {
                chunks.take_back(CHUNKS_MORE);
                chunks.grow(total, start);
                let chunks = &mut chunks.chunks[..];
                items.for_each(|(group, item)| call(&mut chunks[group / CHUNK].own()[group % CHUNK], item));
            }
        }
    }

    /// That of a group.
    pub fn get(&self, group: usize) -> T {
        match self {
            Values::Few(values) => values[group],
            Values::Many(chunks) => chunks.chunks[group / CHUNK].values()[group % CHUNK],
        }
    }

    /// The same to be written to.
    pub fn slot(&mut self, group: usize) -> &mut T {
        match self {
            Values::Few(values) => &mut values[group],
            Values::Many(chunks) => &mut chunks.chunks[group / CHUNK].own()[group % CHUNK],
        }
    }

    /// Takes them out.
    pub fn take(&mut self) -> Vec<T> {
        match std::mem::take(self) {
            Values::Few(values) => values,
            Values::Many(chunks) => {
                let mut values = Vec::with_capacity(chunks.len);
                chunks.chunks.iter().for_each(|chunk| values.extend_from_slice(chunk.values()));
                values
            }
        }
    }

    /// What they are now, in pieces: `array` of the values of each, and of the number of its first group. Of many nothing is
    /// copied before they are written to, and a piece that was not since the last time is the same array.
    pub fn hand_out(&mut self, array: impl Fn(ScalarBuffer<T>, usize) -> ArrayRef) -> Vec<ArrayRef> {
        if let Values::Few(values) = self {
            if size_of_val(&values[..]) < SMALL_BYTES {
                return vec![array(values.clone().into(), 0)];
            }
            *self = Values::Many(Chunks::of(std::mem::take(values)));
        }
        match self {
            Values::Few(_) => Vec::new(),
            Values::Many(chunks) => {
                let firsts = (0..).step_by(CHUNK);
                chunks.chunks.iter_mut().zip(firsts).map(|(chunk, first)| chunk.lend(first, &array)).collect()
            }
        }
    }

    /// Bytes that are its own, whoever else reads them.
    pub fn bytes(&self) -> usize {
        match self {
            Values::Few(values) => values.capacity() * size_of::<T>(),
            Values::Many(chunks) => chunks.chunks.len() * (CHUNK * size_of::<T>() + size_of::<Chunk<T>>()),
        }
    }
}

impl<T: ArrowNativeType> Chunks<T> {
    fn of(values: Vec<T>) -> Chunks<T> {
        let len = values.len();
        let all = ScalarBuffer::from(values);
        let chunk = |start| {
            let lent = Lent { values: all.slice(start, CHUNK.min(len - start)), array: None };
            Chunk { own: Vec::new(), lent: Some(lent) }
        };
        Chunks { chunks: (0..len).step_by(CHUNK).map(chunk).collect(), len, next: 0 }
    }

    fn take_back(&mut self, most: usize) {
        let end = self.chunks.len().min(self.next + most);
        for chunk in &mut self.chunks[self.next..end] {
            chunk.own();
        }
        self.next = end;
    }

    fn grow(&mut self, total: usize, start: T) {
        while self.len < total {
            if self.len.is_multiple_of(CHUNK) {
                self.chunks.push(Chunk { own: Vec::with_capacity(CHUNK), lent: None });
            }
            let Some(last) = self.chunks.last_mut() else { return };
            let len = (self.len % CHUNK + total - self.len).min(CHUNK);
            last.own().resize(len, start);
            self.len += len - self.len % CHUNK;
        }
    }
}

impl<T: ArrowNativeType> Chunk<T> {
    fn values(&self) -> &[T] {
        self.lent.as_ref().map_or(&self.own, |lent| &lent.values)
    }

    /// To be written to: copied, if somebody still reads what was lent.
    fn own(&mut self) -> &mut Vec<T> {
        if let Some(Lent { values, array }) = self.lent.take() {
            drop(array);
            self.own = values.into();
        }
        &mut self.own
    }

    fn lend(&mut self, first: usize, make: impl Fn(ScalarBuffer<T>, usize) -> ArrayRef) -> ArrayRef {
        let own = &mut self.own;
        let lent = self.lent.get_or_insert_with(|| Lent { values: std::mem::take(own).into(), array: None });
        lent.array.get_or_insert_with(|| make(lent.values.clone(), first)).clone()
    }
}

impl<T: ArrowNativeType> Default for Values<T> {
    fn default() -> Values<T> {
        Values::Few(Vec::new())
    }
}

impl<T: ArrowNativeType> From<Vec<T>> for Values<T> {
    fn from(values: Vec<T>) -> Values<T> {
        Values::Few(values)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_handed_out_stays_as_it_was(
            first in prop_oneof![0..30_usize, 20_000..50_000_usize],
            batches in prop::collection::vec(
                (prop::collection::vec(0..70_000_usize, 0..40), any::<bool>(), any::<bool>()), 1..12,
            ),
        ) {
            let mut plain: Vec<i64> = (0..first as i64).collect();
            let mut values: Values<i64> = plain.clone().into();
            let mut handed_out = Vec::new();
            for (groups, asks, lets_go) in &batches {
                if *asks {
                    handed_out.push((values.hand_out(array), plain.clone()));
                }
                // It was written: what comes back is not copied.
                if *lets_go {
                    handed_out.clear();
                }
                let total = groups.iter().map(|group| group + 1).max().unwrap_or(0).max(plain.len());
                let items = groups.iter().map(|&group| (group, group as i64));
                values.each(items, total, 7, |value, more| *value = *value * 3 + more);
                plain.resize(total, 7);
                for &group in groups {
                    plain[group] = plain[group] * 3 + group as i64;
                }
                if let Some(&group) = groups.first() {
                    *values.slot(group) += 1;
                    plain[group] += 1;
                    prop_assert_eq!(values.get(group), plain[group]);
                }
                prop_assert_eq!(values.len(), plain.len());
            }
            for (found, then) in handed_out {
                prop_assert_eq!(found.iter().flat_map(values_of).collect::<Vec<_>>(), then);
            }
            prop_assert_eq!(values.take(), plain);
        }
    }

    fn array(values: ScalarBuffer<i64>, _first: usize) -> ArrayRef {
        Arc::new(Int64Array::new(values, None))
    }

    fn values_of(array: &ArrayRef) -> Vec<i64> {
        array.as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn what_comes_back_is_not_copied() {
        let mut values: Values<i64> = vec![1; 10 * CHUNK].into();
        drop(values.hand_out(array));
        (0..10).for_each(|chunk| *values.slot(chunk * CHUNK) = 2);
        let address = |piece: &ArrayRef| piece.as_primitive::<Int64Type>().values().as_ptr();
        let places: Vec<*const i64> = values.hand_out(array).iter().map(address).collect();
        *values.slot(3 * CHUNK) = 3;
        assert_eq!(address(&values.hand_out(array)[3]), places[3]);
        let kept = values.hand_out(array);
        *values.slot(3 * CHUNK) = 4;
        assert_eq!((values_of(&kept[3])[0], values.get(3 * CHUNK)), (3, 4));
    }

    #[test]
    fn what_is_not_written_to_is_handed_out_as_the_same_array() {
        let mut values: Values<i64> = vec![1; 10 * CHUNK - 1].into();
        let batch = |values: &mut Values<i64>, group, total| {
            values.each(std::iter::once((group, ())), total, 0, |value, ()| *value += 1)
        };
        drop(values.hand_out(array));
        // By then all have been taken out of the one piece.
        (0..2).for_each(|_| batch(&mut values, 0, 10 * CHUNK - 1));
        let first = values.hand_out(array);
        batch(&mut values, 3 * CHUNK, 10 * CHUNK - 1);
        let _is_read_only = values.get(5 * CHUNK);
        *values.slot(7 * CHUNK) = 9;
        batch(&mut values, 0, 10 * CHUNK);
        let second = values.hand_out(array);
        let is_same = |(a, b): (&ArrayRef, &ArrayRef)| Arc::ptr_eq(a, b);
        let same: Vec<bool> = first.iter().zip(&second).map(is_same).collect();
        assert_eq!(same, [false, true, true, false, true, true, true, false, true, false]);
    }
}
