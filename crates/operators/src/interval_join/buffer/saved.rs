//! Rows of one side as a table, with what the buffer knows of each.

use std::cmp::Reverse;
use std::collections::HashSet;

use arrow::array::{Array, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use laxity_graph::ProcessingTime;

use super::{Arrivals, Bucket, Buffer};
use crate::join_keys::KeyEncoder;
use crate::state::{Part, Result, bug, named, table};
use crate::window_rows::timestamps;

/// Columns before those of the rows.
const OWN: usize = 3;

impl Buffer {
    /// Rows kept.
    pub(in crate::interval_join) fn rows(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.side.len()).sum()
    }

    /// Rows by bucket, in the order in which they came, with what is known of each besides its columns.
    pub(in crate::interval_join) fn save(&self, operator: &str) -> Result<Vec<RecordBatch>> {
        // Lonely rows that have left are still there to be matched.
        let bucket_of = |time: i64| time.div_euclid(self.width_ms);
        let lonely = self.lonely.iter().flatten();
        let lonely: HashSet<(i64, u32)> =
            lonely.map(|&Reverse((time, row))| (bucket_of(time), row)).collect();
        let pieces = self.buckets.iter().map(|(&number, bucket)| {
            let count = bucket.side.len() as u32;
            let behind = (0..count).map(|row| bucket.behind.get(&row).copied());
            let matched =
                (0..count).map(|row| Some(bucket.matched.get(row as usize).copied().unwrap_or(false)));
            let waits = (0..count).map(|row| Some(lonely.contains(&(number, row))));
            let mut columns = vec![
                named("watermark-before", behind.collect::<Int64Array>()),
                named("found-partner", matched.collect::<BooleanArray>()),
                named("leaves-alone", waits.collect::<BooleanArray>()),
            ];
            let rows =
                concat_batches(&self.schema, bucket.side.rows.pieces()).map_err(|e| bug(operator, e))?;
            let names = self.schema.fields().iter().map(|field| field.name().clone());
            columns.extend(names.zip(rows.columns().iter().cloned()));
            table(columns)
        });
        pieces.collect()
    }

    /// Takes over rows that were saved.
    pub(in crate::interval_join) fn restore(
        &mut self,
        part: &Part,
        encoder: &KeyEncoder,
        time: usize,
        operator: &str,
    ) -> Result<()> {
        let rows = part.rest_rows(OWN, &self.schema)?;
        let keys = encoder.encode(&rows).map_err(|e| bug(operator, e))?;
        let column = timestamps(&rows, time);
        if column.null_count() + keys.nulls.as_ref().map_or(0, |nulls| nulls.null_count()) > 0 {
            return Err(part.mismatch("rows with time and keys", "NULLs"));
        }
        let before = part.optional::<Int64Type>("watermark-before")?;
        let waits = part.flags("leaves-alone")?;
        let arrivals = Arrivals {
            times: column.values().to_vec(),
            before: before.iter().map(|before| before.unwrap_or(i64::MIN)).collect(),
            matched: part.flags("found-partner")?.values().iter().collect(),
            keys,
            ingested: ProcessingTime::ZERO,
        };
        let keeps_lonely = self.lonely.is_some();
        let bucket_of = |row: u32| arrivals.times[row as usize].div_euclid(self.width_ms);
        let all: Vec<u32> = (0..rows.num_rows() as u32).collect();
        for chunk in all.chunk_by(|&a, &b| bucket_of(a) == bucket_of(b)) {
            let new = || Bucket::new(&self.schema, self.piece_rows);
            let bucket = self.buckets.entry(bucket_of(chunk[0])).or_insert_with(new);
            let first = bucket.side.len() as u32;
            bucket.push(&rows, chunk, &arrivals, keeps_lonely).map_err(|e| bug(operator, e))?;
            if let Some(lonely) = &mut self.lonely {
                let alone = (first..).zip(chunk).filter(|&(_, &row)| waits.value(row as usize));
                lonely.extend(alone.map(|(place, &row)| Reverse((arrivals.times[row as usize], place))));
            }
            self.bytes -= bucket.bytes;
            bucket.bytes = bucket.size_bytes();
            self.bytes += bucket.bytes;
        }
        Ok(())
    }
}
