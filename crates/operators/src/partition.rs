//! Which parallel instance a row goes to; keyed operators rely on it to see all rows of their keys.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion_common::hash_utils::{RandomState, create_hashes};

use crate::{OperatorError, StreamBatch};

/// Spreads rows over parallel instances by hash of their key columns. Equal keys meet in one instance.
///
/// The hash is seeded with a constant: the same row goes to the same instance in every run.
#[derive(Debug)]
pub struct HashPartitioner {
    columns: Vec<usize>,
    state: RandomState,
    hashes: Vec<u64>,
    indices: Vec<Vec<u32>>,
}

impl HashPartitioner {
    /// A partitioner by `columns` over `partitions` instances.
    pub fn new(columns: Vec<usize>, partitions: usize) -> HashPartitioner {
        HashPartitioner {
            columns,
            state: RandomState::with_seed(0),
            hashes: Vec::new(),
            indices: vec![Vec::new(); partitions],
        }
    }

    /// The rows of each partition, in their order; `None` where a partition gets none.
    ///
    /// # Errors
    /// If a key column is of a type that cannot be hashed.
    pub fn split(&mut self, batch: &StreamBatch) -> Result<Vec<Option<StreamBatch>>, OperatorError> {
        let keys: Vec<ArrayRef> = self.columns.iter().map(|&c| batch.rows.column(c).clone()).collect();
        self.hashes.clear();
        self.hashes.resize(batch.num_rows(), 0);
        create_hashes(&keys, &self.state, &mut self.hashes).map_err(internal)?;
        let partitions = self.indices.len() as u64;
        for (row, hash) in self.hashes.iter().enumerate() {
            self.indices[(hash % partitions) as usize].push(row as u32);
        }
        self.indices
            .iter_mut()
            .map(|rows| {
                if rows.is_empty() {
                    return Ok(None);
                }
                if rows.len() == batch.num_rows() {
                    rows.clear();
                    return Ok(Some(batch.clone()));
                }
                let index = UInt32Array::from(std::mem::take(rows));
                pick(batch, &index).map(Some)
            })
            .collect()
    }
}

fn pick(batch: &StreamBatch, index: &UInt32Array) -> Result<StreamBatch, OperatorError> {
    let rows: RecordBatch = take_record_batch(&batch.rows, index).map_err(internal)?;
    let before = batch.watermark_before.as_ref();
    let watermark_before =
        before.map(|before| index.values().iter().map(|&row| before[row as usize]).collect());
    Ok(StreamBatch { rows, watermark_before })
}

fn internal(error: impl std::fmt::Display) -> OperatorError {
    OperatorError::Internal { operator: "exchange".into(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::sync::Arc;

    use arrow::array::{Array, AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn equal_keys_meet_and_no_row_is_lost() {
        let keys: ArrayRef = Arc::new(StringArray::from_iter(
            (0..1_000).map(|i| (i % 10 != 0).then(|| format!("k{}", i % 37))),
        ));
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
        let batch = StreamBatch {
            rows: RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap(),
            watermark_before: Some((1_000..2_000).collect()),
        };
        let mut partitioner = HashPartitioner::new(vec![0], 3);
        let mut home: HashMap<Option<String>, usize> = HashMap::new();
        let mut seen = HashSet::new();
        // Twice: scratch space left over from the first split must not leak into the second.
        for _ in 0..2 {
            seen.clear();
            for (partition, part) in partitioner.split(&batch).unwrap().into_iter().enumerate() {
                let part = part.expect("37 keys reach all of 3 partitions");
                let keys = part.rows.column(0).as_string::<i32>();
                let values = part.rows.column(1).as_primitive::<Int64Type>();
                let before = part.watermark_before.as_ref().unwrap();
                for row in 0..part.num_rows() {
                    let key = keys.is_valid(row).then(|| keys.value(row).to_string());
                    assert_eq!(*home.entry(key).or_insert(partition), partition);
                    assert!(seen.insert(values.value(row)));
                    assert_eq!(before[row], values.value(row) + 1_000);
                }
            }
            assert_eq!(seen.len(), 1_000);
        }
    }
}
