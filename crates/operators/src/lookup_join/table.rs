//! The side of a lookup join that comes from outside: whole versions of a table, exchanged while batches are joined.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use crate::join_keys::{EncodedKeys, KeyEncoder, KeyTable};

/// A table that streams look rows up in. Whoever reads the table makes a new version beside the old one and puts it
/// in place; a batch that is being joined stays with the version it began with.
pub struct LookupTable {
    current: Mutex<Arc<LookupRows>>,
    /// How many instances of an operator share it.
    instances: usize,
}

impl LookupTable {
    /// A table for so many instances of an operator.
    pub fn new(rows: LookupRows, instances: usize) -> LookupTable {
        LookupTable { current: Mutex::new(Arc::new(rows)), instances: instances.max(1) }
    }

    /// Puts another version in place, for batches that come from now on.
    pub fn replace(&self, rows: LookupRows) {
        let rows = Arc::new(rows);
        let old = std::mem::replace(&mut *self.lock(), rows);
        // Freed outside of the lock, where nobody waits for it.
        drop(old);
    }

    /// The version that holds now.
    pub fn current(&self) -> Arc<LookupRows> {
        Arc::clone(&self.lock())
    }

    pub(super) fn instances(&self) -> usize {
        self.instances
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Arc<LookupRows>> {
        // An Arc is whole or not there: a panic elsewhere leaves nothing half done.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LookupTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LookupTable of {} rows", self.current().rows.num_rows())
    }
}

/// One version of a table's rows, found by their keys.
#[derive(Debug)]
pub struct LookupRows {
    rows: RecordBatch,
    keys: KeyTable,
    has_keys: bool,
    /// Rows by key: those of key `i` are `by_key[starts[i]..starts[i + 1]]`, in the table's order.
    by_key: Vec<u32>,
    starts: Vec<usize>,
}

impl LookupRows {
    /// Finds the rows of a table by these columns. A row with a NULL in one of them is never found.
    ///
    /// # Errors
    /// If the batches are not of this schema, or a column is of a type that no key can have.
    pub fn new(
        schema: &SchemaRef,
        keys: &[usize],
        batches: &[RecordBatch],
    ) -> Result<LookupRows, ArrowError> {
        let rows = concat_batches(schema, batches)?;
        if u32::try_from(rows.num_rows()).is_err() {
            return Err(ArrowError::InvalidArgumentError("more than 4 billion rows".into()));
        }
        let encoded = KeyEncoder::new(schema, keys)?.encode(&rows)?;
        let mut table = KeyTable::default();
        let found: Vec<(u32, u32)> = (0..rows.num_rows())
            .filter(|&row| !encoded.is_null(row))
            .map(|row| (table.intern(&encoded, row), row as u32))
            .collect();
        let mut starts = vec![0; table.len() + 1];
        for (key, _) in &found {
            starts[*key as usize + 1] += 1;
        }
        for key in 0..table.len() {
            starts[key + 1] += starts[key];
        }
        let mut next = starts.clone();
        let mut by_key = vec![0; found.len()];
        for (key, row) in found {
            by_key[next[key as usize]] = row;
            next[key as usize] += 1;
        }
        Ok(LookupRows { rows, keys: table, has_keys: !keys.is_empty(), by_key, starts })
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    /// How many rows have the same key as one before them; `None` if none has.
    pub fn repeated(&self) -> Option<usize> {
        Some(self.by_key.len() - (self.starts.len() - 1)).filter(|repeated| *repeated > 0)
    }

    pub(super) fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    pub(super) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Rows that have the key of that row of a stream.
    pub(super) fn partners(&self, keys: &EncodedKeys, row: usize) -> &[u32] {
        if keys.is_null(row) {
            return &[];
        }
        match self.keys.find(keys, row) {
            Some(key) => &self.by_key[self.starts[key as usize]..self.starts[key as usize + 1]],
            None => &[],
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.rows.get_array_memory_size()
            + self.keys.size_bytes()
            + self.by_key.capacity() * size_of::<u32>()
            + self.starts.capacity() * size_of::<usize>()
    }
}
