//! What a join remembers of one input: rows are found by the number of their key, which both sides share.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use crate::join_keys::{EncodedKeys, KeyTable};
use crate::row_store::RowStore;

/// Buffered rows of one side of a join, with those of one key chained in the order they came.
#[derive(Debug)]
pub(crate) struct JoinSide {
    pub(crate) rows: RowStore,
    /// Key number of each row; [`NONE`] for a NULL key, which matches nothing.
    key_of: Vec<u32>,
    /// The next row of the same key, or [`NONE`].
    next: Vec<u32>,
    /// First and last row of each key. Shorter than the key table where later keys have no row here.
    chains: Vec<(u32, u32)>,
}

/// No row, or no key.
pub(crate) const NONE: u32 = u32::MAX;

impl JoinSide {
    pub(crate) fn new(schema: SchemaRef, piece_rows: usize) -> JoinSide {
        JoinSide {
            rows: RowStore::new(schema, piece_rows),
            key_of: Vec::new(),
            next: Vec::new(),
            chains: Vec::new(),
        }
    }

    /// Appends those of `rows` that `indices` names, or all, and numbers their keys in `table`.
    pub(crate) fn push(
        &mut self,
        rows: &RecordBatch,
        indices: Option<&[u32]>,
        keys: &EncodedKeys,
        table: &mut KeyTable,
    ) -> Result<(), ArrowError> {
        self.rows.push(rows, indices)?;
        match indices {
            Some(indices) => indices.iter().for_each(|&row| self.chain(row as usize, keys, table)),
            None => (0..rows.num_rows()).for_each(|row| self.chain(row, keys, table)),
        }
        Ok(())
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Key number of a row, or [`NONE`].
    pub(crate) fn key(&self, row: u32) -> u32 {
        self.key_of[row as usize]
    }

    /// First row of a key, or [`NONE`].
    pub(crate) fn first(&self, key: u32) -> u32 {
        self.chains.get(key as usize).map_or(NONE, |&(first, _)| first)
    }

    /// The next row of the same key, or [`NONE`].
    pub(crate) fn next(&self, row: u32) -> u32 {
        self.next[row as usize]
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.rows.size_bytes()
            + (self.key_of.capacity() + self.next.capacity() + 2 * self.chains.capacity()) * size_of::<u32>()
    }

    fn chain(&mut self, row: usize, keys: &EncodedKeys, table: &mut KeyTable) {
        let new = self.key_of.len() as u32;
        self.next.push(NONE);
        if keys.is_null(row) {
            self.key_of.push(NONE);
            return;
        }
        let key = table.intern(keys, row);
        self.key_of.push(key);
        if self.chains.len() <= key as usize {
            self.chains.resize(key as usize + 1, (NONE, NONE));
        }
        let (first, last) = &mut self.chains[key as usize];
        if *first == NONE {
            *first = new;
        } else {
            self.next[*last as usize] = new;
        }
        *last = new;
    }
}
