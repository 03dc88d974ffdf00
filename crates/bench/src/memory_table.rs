//! Tables held in memory, so that nothing but the engine is measured.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};
use laxity_connect::{ConnectError, Scan, ScanEnvironment, ScanEvent, ScanSpec, ScannedBatch};
use laxity_graph::ProcessingTime;

/// Declares the table that [`rows`] fills. The connector is not used: the engine is given the rows.
pub const DDL: &str = "CREATE TABLE input (k BIGINT, v BIGINT, ts TIMESTAMP(3), p AS PROCTIME(), \
                       WATERMARK FOR ts AS ts) \
                       WITH ('connector' = 'datagen');\n";

/// Batches of (k, v, ts): keys in turn from 0 to `keys`, values from 0 to 999, 1 000 rows a millisecond.
pub fn rows(rows: usize, batch_rows: usize, keys: i64) -> Vec<RecordBatch> {
    let column = |values: &mut dyn Iterator<Item = i64>| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    };
    (0..rows)
        .step_by(batch_rows)
        .map(|first| {
            let range = || (first as i64)..((first + batch_rows).min(rows) as i64);
            // Multiplied by a prime, so that neighbours are not neighbours in a hash table.
            let k = column(&mut range().map(|i| (i * 7_919).rem_euclid(keys)));
            let v = column(&mut range().map(|i| (i * 31).rem_euclid(1_000)));
            let ts: ArrayRef =
                Arc::new(TimestampMillisecondArray::from_iter_values(range().map(|i| i / 1_000)));
            RecordBatch::try_from_iter([("k", k), ("v", v), ("ts", ts)]).expect("three equal columns")
        })
        .collect()
}

/// Hands out batches as fast as they are taken.
pub struct MemoryScan {
    batches: std::vec::IntoIter<RecordBatch>,
}

impl MemoryScan {
    /// A scan of these batches, as `Engine::provide` wants it.
    pub fn opener(
        batches: Vec<RecordBatch>,
    ) -> impl Fn(&ScanSpec, &ScanEnvironment) -> Result<Box<dyn Scan>, ConnectError> + Send + Sync + 'static
    {
        move |spec, _| {
            let batches: Vec<RecordBatch> = batches
                .iter()
                .map(|batch| batch.project(&spec.columns).expect("columns of the table"))
                .collect();
            Ok(Box::new(MemoryScan { batches: batches.into_iter() }))
        }
    }
}

impl Scan for MemoryScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        Ok(match self.batches.next() {
            Some(rows) => ScanEvent::Batch(ScannedBatch { rows, arrival: now }),
            None => ScanEvent::End,
        })
    }
}

/// A table in which nothing ever happens.
pub struct SilentScan;

impl Scan for SilentScan {
    fn poll(&mut self, _: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        Ok(ScanEvent::NotBefore(ProcessingTime::MAX))
    }
}
