//! Keys as bytes: an encoder that turns key columns into them, and a table that numbers distinct keys.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_common::hash_utils::RandomState;
use hashbrown::HashTable;

/// Turns the key columns of a batch into bytes that are equal exactly if the keys are.
#[derive(Debug)]
pub(crate) struct KeyEncoder {
    columns: Vec<usize>,
    converter: Arc<RowConverter>,
    hasher: RandomState,
}

impl KeyEncoder {
    pub(crate) fn new(schema: &Schema, columns: &[usize]) -> Result<KeyEncoder, ArrowError> {
        let fields = columns.iter().map(|&c| SortField::new(schema.field(c).data_type().clone())).collect();
        Ok(KeyEncoder {
            columns: columns.to_vec(),
            converter: Arc::new(RowConverter::new(fields)?),
            hasher: RandomState::default(),
        })
    }

    /// Encodes every row. No columns at all means one key for all rows.
    pub(crate) fn encode(&self, rows: &RecordBatch) -> Result<EncodedKeys, ArrowError> {
        self.encode_keys(&self.columns.iter().map(|&c| rows.column(c).clone()).collect::<Vec<_>>())
    }

    /// The same of the key columns alone.
    pub(crate) fn encode_keys(&self, columns: &[ArrayRef]) -> Result<EncodedKeys, ArrowError> {
        if columns.is_empty() {
            return Ok(EncodedKeys { rows: None, hashes: Vec::new(), nulls: None });
        }
        let nulls = columns
            .iter()
            .fold(None, |nulls, c| NullBuffer::union(nulls.as_ref(), c.logical_nulls().as_ref()));
        let rows = self.converter.convert_columns(columns)?;
        let hashes = rows.iter().map(|row| (self.hasher.hash_one(row.data()) >> 32) as u32).collect();
        Ok(EncodedKeys { rows: Some(rows), hashes, nulls: nulls.filter(|n| n.null_count() > 0) })
    }

    /// The keys of these numbers, as the columns that they were encoded from.
    pub(crate) fn decode(
        &self,
        table: &KeyTable,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        decode(self.decoder(), &table.pages, numbers)
    }

    fn decoder(&self) -> Option<&Arc<RowConverter>> {
        (!self.columns.is_empty()).then_some(&self.converter)
    }

    /// The same of all of them as they are now, by whoever wants to know them later.
    pub(crate) fn hand_out(&self, table: &KeyTable) -> HandedKeys {
        HandedKeys { converter: self.decoder().cloned(), pages: table.pages.clone() }
    }
}

/// `converter`: none if there are no key columns.
fn decode(
    converter: Option<&Arc<RowConverter>>,
    pages: &[Arc<Page>],
    numbers: impl Iterator<Item = u32>,
) -> Result<Vec<ArrayRef>, ArrowError> {
    let Some(converter) = converter else { return Ok(Vec::new()) };
    let parser = converter.parser();
    converter.convert_rows(numbers.map(|number| parser.parse(key_of(pages, number))))
}

/// Keys as they were.
#[derive(Debug)]
pub(crate) struct HandedKeys {
    converter: Option<Arc<RowConverter>>,
    pages: Vec<Arc<Page>>,
}

impl HandedKeys {
    /// The keys of these numbers, as the columns that they were encoded from.
    pub(crate) fn decode(&self, numbers: impl Iterator<Item = u32>) -> Result<Vec<ArrayRef>, ArrowError> {
        decode(self.converter.as_ref(), &self.pages, numbers)
    }
}

/// The keys of one batch.
#[derive(Debug)]
pub(crate) struct EncodedKeys {
    /// `None` if there are no key columns.
    rows: Option<Rows>,
    hashes: Vec<u32>,
    /// Rows with a NULL in some key column. `None` if there is no such row.
    pub(crate) nulls: Option<NullBuffer>,
}

impl EncodedKeys {
    /// Whether some key column of that row is NULL.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn get(&self, row: usize) -> (u32, &[u8]) {
        match &self.rows {
            Some(rows) => (self.hashes[row], rows.row(row).data()),
            None => (0, &[]),
        }
    }
}

/// Numbers distinct keys from 0.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    ids: HashTable<Known>,
    pages: Vec<Arc<Page>>,
}

/// What is looked for lies with its hash: one that is elsewhere is a line of cache more for each row.
#[derive(Clone, Copy, Debug)]
struct Known {
    hash: u32,
    id: u32,
}

/// Some keys back to back. Only the last page is written to, so that all can be handed out without a copy.
#[derive(Clone, Debug, Default)]
struct Page {
    bytes: Vec<u8>,
    /// Bytes of each, while that is the same for all.
    width: usize,
    /// Where each ends; empty while all are of one width.
    ends: Vec<usize>,
}

/// Keys of a page. What is around them is small beside so many.
const PAGE_KEYS: usize = if cfg!(test) { 4 } else { 256 };

impl Known {
    /// The table looks at the lowest bits and at the highest.
    fn spread(self) -> u64 {
        spread(self.hash)
    }
}

fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Page {
    fn get(&self, place: usize) -> &[u8] {
        let Some(&end) = self.ends.get(place) else {
            return &self.bytes[place * self.width..(place + 1) * self.width];
        };
        &self.bytes[if place == 0 { 0 } else { self.ends[place - 1] }..end]
    }

    /// Adds one behind so many.
    fn push(&mut self, place: usize, key: &[u8]) {
        if place == 0 {
            self.width = key.len();
        } else if self.ends.is_empty() && key.len() != self.width {
            self.ends.extend((1..=place).map(|before| before * self.width));
        }
        self.bytes.extend_from_slice(key);
        if !self.ends.is_empty() {
            self.ends.push(self.bytes.len());
        }
    }

    fn size_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() + size_of::<Page>()
    }
}

impl KeyTable {
    pub(crate) fn with_capacity(keys: usize) -> KeyTable {
        KeyTable { ids: HashTable::with_capacity(keys), pages: Vec::with_capacity(keys.div_ceil(PAGE_KEYS)) }
    }

    /// The number of the key of that row, if it has one.
    pub(crate) fn find(&self, keys: &EncodedKeys, row: usize) -> Option<u32> {
        let (hash, key) = keys.get(row);
        let is_it = |known: &Known| known.hash == hash && key_of(&self.pages, known.id) == key;
        self.ids.find(spread(hash), is_it).map(|known| known.id)
    }

    /// The number of the key of that row, a new one if it was not seen before.
    pub(crate) fn intern(&mut self, keys: &EncodedKeys, row: usize) -> u32 {
        if let Some(id) = self.find(keys, row) {
            return id;
        }
        let (hash, key) = keys.get(row);
        self.push(hash, key)
    }

    fn push(&mut self, hash: u32, key: &[u8]) -> u32 {
        let id = self.len();
        if id.is_multiple_of(PAGE_KEYS) {
            if let Some(full) = self.pages.last_mut().and_then(Arc::get_mut) {
                full.bytes.shrink_to_fit();
            }
            self.pages.push(Arc::default());
        }
        if let Some(last) = self.pages.last_mut() {
            Arc::make_mut(last).push(id % PAGE_KEYS, key);
        }
        let known = Known { hash, id: id as u32 };
        self.ids.insert_unique(known.spread(), known, |known| known.spread());
        known.id
    }

    /// Leaves these keys only, which ascend, and numbers them anew in their order.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        let mut hashes = vec![0; self.len()];
        self.ids.iter().for_each(|known| hashes[known.id as usize] = known.hash);
        let mut left = KeyTable::with_capacity(kept.len());
        for &old in kept {
            left.push(hashes[old as usize], key_of(&self.pages, old));
        }
        *self = left;
    }

    /// Number of distinct keys.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let full = self.pages.len().saturating_sub(1);
        // Pages are about as large as the first; all of them are too many to look at each time.
        let pages = self.pages.first().map_or(0, |page| page.size_bytes()) * full;
        self.ids.allocation_size() + pages + self.pages.last().map_or(0, |page| page.size_bytes())
    }
}

fn key_of(pages: &[Arc<Page>], id: u32) -> &[u8] {
    pages[id as usize / PAGE_KEYS].get(id as usize % PAGE_KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    fn batch(numbers: Vec<Option<i64>>, strings: Vec<&str>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([
            ("n", Arc::new(Int64Array::from(numbers)) as ArrayRef, true),
            ("s", Arc::new(StringArray::from(strings)) as ArrayRef, true),
        ])
        .unwrap()
    }

    #[test]
    fn equal_keys_share_a_number() {
        let rows = batch(vec![Some(1), Some(2), Some(1), None, Some(1)], vec!["a", "a", "a", "a", "ab"]);
        let keys = KeyEncoder::new(&rows.schema(), &[0, 1]).unwrap().encode(&rows).unwrap();
        let mut table = KeyTable::default();
        assert_eq!(table.find(&keys, 0), None);
        let ids: Vec<u32> = (0..5).map(|row| table.intern(&keys, row)).collect();
        assert_eq!(ids, [0, 1, 0, 2, 3]);
        assert_eq!(table.find(&keys, 4), Some(3));
        assert_eq!(table.len(), 4);
        assert_eq!(
            (0..5).map(|row| keys.is_null(row)).collect::<Vec<_>>(),
            [false, false, false, true, false]
        );
    }

    #[test]
    fn numbers_survive_growth() {
        let rows = batch((0..10_000).map(Some).collect(), vec!["x"; 10_000]);
        let keys = KeyEncoder::new(&rows.schema(), &[0]).unwrap().encode(&rows).unwrap();
        let mut table = KeyTable::default();
        for row in 0..10_000 {
            assert_eq!(table.intern(&keys, row), row as u32);
        }
        assert!((0..10_000).all(|row| table.find(&keys, row) == Some(row as u32)));
    }

    #[test]
    fn keys_that_were_handed_out_stay_as_they_were() {
        let rows = batch((0..11).map(Some).collect(), vec!["x"; 11]);
        let encoder = KeyEncoder::new(&rows.schema(), &[0, 1]).unwrap();
        let keys = encoder.encode(&rows).unwrap();
        let mut table = KeyTable::default();
        (0..6).for_each(|row| assert_eq!(table.intern(&keys, row), row as u32));
        let handed = encoder.hand_out(&table);
        (6..11).for_each(|row| assert_eq!(table.intern(&keys, row), row as u32));
        let told = encoder.decode(&table, 0..11).unwrap();
        assert_eq!(told, rows.columns());
        table.keep(&[3, 9]);
        assert_eq!(encoder.decode(&table, 0..2).unwrap()[0].as_primitive::<Int64Type>().values(), &[3, 9]);
        assert_eq!(handed.decode(0..6).unwrap(), rows.slice(0, 6).columns());
    }

    #[test]
    fn no_columns_is_one_key() {
        let rows = batch(vec![Some(1), None], vec!["a", "b"]);
        let keys = KeyEncoder::new(&rows.schema(), &[]).unwrap().encode(&rows).unwrap();
        let mut table = KeyTable::default();
        assert_eq!((table.intern(&keys, 0), table.intern(&keys, 1)), (0, 0));
        assert!(!keys.is_null(1));
    }
}
