//! Values by group that can be handed out without a copy: a checkpoint stops its query only for as long as that takes.

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::ArrowNativeType;

/// A value for each group.
#[derive(Debug, Default)]
pub(super) struct Values<T: ArrowNativeType> {
    own: Vec<T>,
    lent: Option<Lent<T>>,
}

/// What was handed out, as far as it is not copied yet.
#[derive(Debug)]
struct Lent<T: ArrowNativeType> {
    values: ScalarBuffer<T>,
    is_copied: Box<[bool]>,
    /// All chunks before it are copied.
    next: usize,
}

/// Values that are copied at once: a page of eight bytes each.
const CHUNK: usize = 512;

/// Chunks that are copied with a batch beside those that it needs, so that it ends: a quarter of a megabyte, some 50 µs.
const CHUNKS_MORE: usize = 64;

/// Less than that is copied when it is handed out.
const SMALL_BYTES: usize = 64 << 10;

impl<T: ArrowNativeType> Values<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// All of them for as many groups, of which the batch at hand touches these; new ones are `start`.
    pub fn touched(&mut self, groups: &[usize], total: usize, start: T) -> &mut [T] {
        if self.lent.is_some() {
            self.copy(groups, CHUNKS_MORE);
        }
        self.own.resize(total, start);
        &mut self.own
    }

    /// All of them.
    pub fn all(&mut self) -> &mut Vec<T> {
        if self.lent.is_some() {
            self.copy(&[], usize::MAX);
        }
        &mut self.own
    }

    /// Takes them out.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(self.all())
    }

    /// What they are now. Of many nothing is copied before they are touched.
    pub fn hand_out(&mut self) -> ScalarBuffer<T> {
        let len = self.all().len();
        if len * size_of::<T>() < SMALL_BYTES {
            return self.own.clone().into();
        }
        // Zeros come from the system when they are touched. Some more, so that the next group moves nothing.
        let mut own = vec![T::default(); len + len / 4];
        own.truncate(len);
        let values = ScalarBuffer::from(std::mem::replace(&mut self.own, own));
        let is_copied = vec![false; len.div_ceil(CHUNK)].into();
        self.lent = Some(Lent { values: values.clone(), is_copied, next: 0 });
        values
    }

    pub fn bytes(&self) -> usize {
        let lent = self.lent.as_ref().map_or(0, |lent| lent.values.len());
        (self.own.capacity() + lent) * size_of::<T>()
    }

    /// Copies what these groups need, and so many chunks more.
    fn copy(&mut self, groups: &[usize], more: usize) {
        let Some(lent) = &mut self.lent else { return };
        let chunks = lent.is_copied.len();
        for chunk in groups.iter().map(|&group| group / CHUNK).filter(|&chunk| chunk < chunks) {
            if !lent.is_copied[chunk] {
                lent.copy(chunk, &mut self.own);
            }
        }
        let mut left = more;
        while left > 0 && lent.next < chunks {
            if !lent.is_copied[lent.next] {
                lent.copy(lent.next, &mut self.own);
                left -= 1;
            }
            lent.next += 1;
        }
        if lent.next == chunks {
            self.lent = None;
        }
    }
}

impl<T: ArrowNativeType> Lent<T> {
    fn copy(&mut self, chunk: usize, own: &mut [T]) {
        let range = chunk * CHUNK..((chunk + 1) * CHUNK).min(self.values.len());
        own[range.clone()].copy_from_slice(&self.values[range]);
        self.is_copied[chunk] = true;
    }
}

impl<T: ArrowNativeType> From<Vec<T>> for Values<T> {
    fn from(own: Vec<T>) -> Values<T> {
        Values { own, lent: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_handed_out_stays_as_it_was(
            batches in prop::collection::vec((prop::collection::vec(0..70_000_usize, 0..40), any::<bool>()), 1..12),
        ) {
            let mut values: Values<i64> = (0..50_000_i64).collect::<Vec<_>>().into();
            let mut plain: Vec<i64> = (0..50_000).collect();
            let mut handed_out = Vec::new();
            for (groups, asks) in &batches {
                if *asks {
                    handed_out.push((values.hand_out(), plain.clone()));
                }
                let total = groups.iter().map(|group| group + 1).max().unwrap_or(0).max(plain.len());
                let slots = values.touched(groups, total, 7);
                plain.resize(total, 7);
                for &group in groups {
                    slots[group] = slots[group] * 3 + 1;
                    plain[group] = plain[group] * 3 + 1;
                }
                prop_assert_eq!(values.len(), plain.len());
            }
            for (found, then) in handed_out {
                prop_assert_eq!(&found[..], &then[..]);
            }
            prop_assert_eq!(values.take(), plain);
        }
    }
}
