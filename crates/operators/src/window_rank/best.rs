//! The best rows of each key of a window.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use crate::chunked::{Chunked, Handed};

/// A row as it is kept, shared with whoever saves it.
pub(super) type Kept = Arc<[u8]>;

/// The best rows of each key, by key number.
#[derive(Debug)]
pub(super) enum Best {
    /// Deduplication: one row. Empty until the first.
    One(Chunked<Kept, ONE_IN_CHUNK>),
    /// Up to so many, the worst on top.
    Many(usize, Chunked<BinaryHeap<Kept>, MANY_IN_CHUNK>),
}

/// The same as they were.
pub(super) enum HandedBest {
    One(Handed<Kept, ONE_IN_CHUNK>),
    Many(usize, Handed<BinaryHeap<Kept>, MANY_IN_CHUNK>),
}

/// A copy counts readers for each.
const ONE_IN_CHUNK: usize = if cfg!(test) { 4 } else { 128 };

/// A copy is an allocation for each.
const MANY_IN_CHUNK: usize = if cfg!(test) { 4 } else { 64 };

/// Rows of a key that are reckoned with, of those that there may be: most have fewer.
const RECKONED_ROWS: usize = 16;

/// Bytes of a kept row besides its contents: the slot, two counts and the allocator's header.
const ROW_OVERHEAD_BYTES: usize = size_of::<Kept>() + 32;

impl Best {
    /// So many of each key.
    pub(super) fn new(limit: usize) -> Best {
        if limit == 1 { Best::One(Chunked::default()) } else { Best::Many(limit, Chunked::default()) }
    }

    /// The row that a new one of that key must not be worse than. `None`: any row is welcome.
    pub(super) fn threshold(&self, key: u32) -> Option<&[u8]> {
        match self {
            Best::One(rows) => rows.find(key as usize).filter(|row| !row.is_empty()).map(AsRef::as_ref),
            Best::Many(limit, heaps) => {
                heaps.find(key as usize).filter(|heap| heap.len() >= *limit)?.peek().map(AsRef::as_ref)
            }
        }
    }

    /// Takes a row if it is among the best so far. Returns by how many bytes the rows grew.
    pub(super) fn offer(&mut self, key: u32, row: &[u8]) -> isize {
        let worst = self.threshold(key);
        if worst.is_some_and(|worst| row >= worst) {
            return 0;
        }
        let grown = match worst {
            Some(worst) => row.len() as isize - worst.len() as isize,
            None => (row.len() + ROW_OVERHEAD_BYTES) as isize,
        };
        let is_full = worst.is_some();
        let key = key as usize;
        match self {
            Best::One(rows) => {
                rows.grow_with(key + 1, Kept::default);
                *rows.get_mut(key) = row.into();
            }
            Best::Many(_, heaps) => {
                heaps.grow_with(key + 1, BinaryHeap::new);
                let heap = heaps.get_mut(key);
                if is_full {
                    heap.pop();
                }
                heap.push(row.into());
            }
        }
        grown
    }

    /// What they are now.
    pub(super) fn hand_out(&mut self) -> HandedBest {
        match self {
            Best::One(rows) => HandedBest::One(rows.hand_out()),
            Best::Many(limit, heaps) => HandedBest::Many(*limit, heaps.hand_out()),
        }
    }

    /// Bytes that are allocated for them, without their own.
    pub(super) fn slot_bytes(&self) -> usize {
        match self {
            Best::One(rows) => rows.bytes(),
            Best::Many(_, heaps) => heaps.bytes(),
        }
    }

    /// Removes the rows of a key, in order.
    pub(super) fn take_sorted(&mut self, key: usize) -> Vec<Kept> {
        match self {
            Best::One(rows) if key < rows.len() => {
                let row = std::mem::take(rows.get_mut(key));
                if row.is_empty() { Vec::new() } else { vec![row] }
            }
            Best::Many(_, heaps) if key < heaps.len() => std::mem::take(heaps.get_mut(key)).into_sorted_vec(),
            _ => Vec::new(),
        }
    }
}

impl HandedBest {
    /// Of all keys, one after the other, in no order within one.
    pub(super) fn all_rows(&self) -> impl Iterator<Item = &Kept> {
        self.rows(0..self.keys().next_multiple_of(self.keys_in_chunk()))
    }

    /// The same of these keys, which are whole chunks.
    pub(super) fn rows(&self, keys: Range<usize>) -> Box<dyn Iterator<Item = &Kept> + '_> {
        match self {
            HandedBest::One(rows) => Box::new(rows.range(keys).filter(|row| !row.is_empty())),
            HandedBest::Many(_, heaps) => Box::new(heaps.range(keys).flatten()),
        }
    }

    pub(super) fn keys(&self) -> usize {
        match self {
            HandedBest::One(rows) => rows.len(),
            HandedBest::Many(_, heaps) => heaps.len(),
        }
    }

    fn keys_in_chunk(&self) -> usize {
        match self {
            HandedBest::One(_) => ONE_IN_CHUNK,
            HandedBest::Many(..) => MANY_IN_CHUNK,
        }
    }

    /// Keys that have about so many rows: whole chunks, at least one.
    pub(super) fn keys_of_rows(&self, rows: usize) -> usize {
        let of_key = match self {
            HandedBest::One(_) => 1,
            HandedBest::Many(limit, _) => (*limit).min(RECKONED_ROWS),
        };
        (rows / of_key).max(1).next_multiple_of(self.keys_in_chunk())
    }

    /// About so many rows have these keys.
    pub(super) fn rows_of_keys(&self, keys: usize) -> usize {
        match self {
            HandedBest::One(_) => keys,
            HandedBest::Many(limit, _) => keys * (*limit).min(RECKONED_ROWS),
        }
    }
}
