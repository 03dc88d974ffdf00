//! The memory of one side of a join: rows come in small batches, are numbered once and are read in any order.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, interleave, take, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

/// Rows kept in the order they were pushed, numbered from 0, to be gathered in any order.
///
/// Small pushes are merged into larger pieces, sixteen of a size at a time, so that a row is copied at most
/// log16(`piece_rows`) times and a store of one-row pushes stays compact.
#[derive(Debug)]
pub(crate) struct RowStore {
    schema: SchemaRef,
    pieces: Vec<RecordBatch>,
    /// Number of the first row of each piece.
    starts: Vec<usize>,
    rows: usize,
    bytes: usize,
    /// A piece of at least so many rows is not merged any more.
    piece_rows: usize,
}

/// Pieces of one size class that are merged into one of the next.
const MERGE: usize = 16;

impl RowStore {
    pub(crate) fn new(schema: SchemaRef, piece_rows: usize) -> RowStore {
        RowStore { schema, pieces: Vec::new(), starts: Vec::new(), rows: 0, bytes: 0, piece_rows }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Appends those of `rows` that `indices` names, or all of them.
    pub(crate) fn push(&mut self, rows: &RecordBatch, indices: Option<&[u32]>) -> Result<(), ArrowError> {
        let piece = match indices {
            Some(indices) => take_record_batch(rows, &UInt32Array::from(indices.to_vec()))?,
            None => compact(rows)?,
        };
        if piece.num_rows() == 0 {
            return Ok(());
        }
        self.push_piece(piece);
        while self.tail_of_one_class() >= MERGE {
            let first = self.pieces.len() - self.tail_of_one_class();
            let merged = concat_batches(&self.schema, &self.pieces[first..])?;
            for piece in self.pieces.drain(first..) {
                self.bytes -= piece.get_array_memory_size();
                self.rows -= piece.num_rows();
            }
            self.starts.truncate(first);
            self.push_piece(merged);
        }
        Ok(())
    }

    /// The columns of the rows of these numbers, in that order.
    pub(crate) fn gather(&self, rows: &[u32]) -> Result<Vec<ArrayRef>, ArrowError> {
        if let [piece] = self.pieces.as_slice() {
            let rows = UInt32Array::from(rows.to_vec());
            return piece.columns().iter().map(|column| take(column, &rows, None)).collect();
        }
        let places: Vec<(usize, usize)> = rows
            .iter()
            .map(|&row| {
                let piece = self.starts.partition_point(|&start| start <= row as usize) - 1;
                (piece, row as usize - self.starts[piece])
            })
            .collect();
        (0..self.schema.fields().len())
            .map(|column| {
                let pieces: Vec<_> = self.pieces.iter().map(|piece| piece.column(column).as_ref()).collect();
                interleave(&pieces, &places)
            })
            .collect()
    }

    /// All rows in their order, as they lie.
    pub(crate) fn pieces(&self) -> &[RecordBatch] {
        &self.pieces
    }

    fn push_piece(&mut self, piece: RecordBatch) {
        self.starts.push(self.rows);
        self.rows += piece.num_rows();
        self.bytes += piece.get_array_memory_size();
        self.pieces.push(piece);
    }

    /// How many pieces at the end are no larger than the last one's size class.
    fn tail_of_one_class(&self) -> usize {
        let Some(last) = self.pieces.last() else { return 0 };
        let class = last.num_rows().ilog(MERGE);
        let is_merged =
            |rows: usize| rows < self.piece_rows && rows.checked_ilog(MERGE).is_none_or(|of| of <= class);
        self.pieces.iter().rev().take_while(|piece| is_merged(piece.num_rows())).count()
    }
}

/// The rows in memory of their own: a slice of a large batch must not keep all of it alive.
fn compact(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let needed: usize = rows.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    // Up to half of the memory may be wasted before a copy pays; 1 KiB covers the fixed part of small arrays.
    if rows.get_array_memory_size() <= 2 * needed + 1024 {
        return Ok(rows.clone());
    }
    take_record_batch(rows, &UInt32Array::from_iter_values(0..rows.num_rows() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn batch(values: std::ops::Range<i64>) -> RecordBatch {
        let strings = StringArray::from_iter_values(values.clone().map(|v| v.to_string()));
        RecordBatch::try_from_iter([
            ("n", Arc::new(Int64Array::from_iter_values(values)) as ArrayRef),
            ("s", Arc::new(strings) as ArrayRef),
        ])
        .unwrap()
    }

    proptest! {
        #[test]
        fn gather_finds_every_row(sizes in proptest::collection::vec(1i64..40, 1..60)) {
            let mut store = RowStore::new(batch(0..1).schema(), 64);
            let mut count = 0;
            for size in sizes {
                store.push(&batch(count..count + size), None).unwrap();
                count += size;
            }
            prop_assert_eq!(store.len(), count as usize);
            let rows: Vec<u32> = (0..count as u32).rev().step_by(3).collect();
            let columns = store.gather(&rows).unwrap();
            let expected: Vec<i64> = rows.iter().map(|&row| i64::from(row)).collect();
            prop_assert_eq!(columns[0].as_primitive::<Int64Type>().values(), &expected[..]);
            for (i, row) in rows.iter().enumerate() {
                prop_assert_eq!(columns[1].as_string::<i32>().value(i), row.to_string());
            }
        }
    }

    #[test]
    fn one_row_pushes_are_merged() {
        let mut store = RowStore::new(batch(0..1).schema(), 256);
        for i in 0..4096 {
            store.push(&batch(i..i + 1), None).unwrap();
        }
        assert_eq!(store.len(), 4096);
        assert_eq!(store.pieces.len(), 16);
    }

    #[test]
    fn a_full_piece_stays_as_it_is() {
        let mut store = RowStore::new(batch(0..1).schema(), 20);
        store.push(&batch(0..20), None).unwrap();
        let first = store.pieces()[0].column(0).clone();
        // Of the same class of sizes.
        (0..40).for_each(|at| store.push(&batch(at..at + 17), None).unwrap());
        assert_eq!(store.len(), 20 + 40 * 17);
        assert!(Arc::ptr_eq(&first, store.pieces()[0].column(0)));
        assert!(store.pieces().len() < 20, "{} pieces", store.pieces().len());
    }

    #[test]
    fn a_slice_does_not_keep_its_parent() {
        let mut store = RowStore::new(batch(0..1).schema(), 1024);
        store.push(&batch(0..100_000).slice(50_000, 10), None).unwrap();
        assert!(store.size_bytes() < 4096, "{} bytes", store.size_bytes());
        assert_eq!(store.gather(&[9]).unwrap()[0].as_primitive::<Int64Type>().value(0), 50_009);
        assert_eq!(store.gather(&[]).unwrap()[0].len(), 0);
    }

    #[test]
    fn chosen_rows_only() {
        let mut store = RowStore::new(batch(0..1).schema(), 1024);
        store.push(&batch(0..10), Some(&[3, 5])).unwrap();
        store.push(&batch(0..10), Some(&[])).unwrap();
        assert_eq!(store.gather(&[0, 1]).unwrap()[0].as_primitive::<Int64Type>().values(), &[3, 5]);
    }
}
