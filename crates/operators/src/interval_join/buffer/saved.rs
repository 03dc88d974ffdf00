//! Rows of one side as a table, with what the buffer knows of each.

use std::cmp::Reverse;
use std::collections::HashSet;

use arrow::array::{Array, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Int64Type, SchemaRef};
use laxity_graph::ProcessingTime;

use super::{Arrivals, Bucket, Buffer};
use crate::join_keys::KeyEncoder;
use crate::state::{COPIED_ROWS, Part, Result, bug, named, table};
use crate::window_rows::timestamps;

/// Columns before those of the rows.
const OWN: usize = 3;

impl Buffer {
    /// Rows kept.
    pub(in crate::interval_join) fn rows(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.side.len()).sum()
    }

    /// Rows by bucket, in the order in which they came, with what is known of each besides its columns. Pieces that are as they
    /// were the last time are the same arrays, unless their rows are so few that they are copied anyway.
    pub(in crate::interval_join) fn save(&mut self) -> Result<Vec<Vec<RecordBatch>>> {
        // Lonely rows that have left are still there to be matched.
        let bucket_of = |time: i64| time.div_euclid(self.width_ms);
        let lonely = self.lonely.iter().flatten();
        let lonely: HashSet<(i64, u32)> =
            lonely.map(|&Reverse((time, row))| (bucket_of(time), row)).collect();
        let mut groups = Vec::with_capacity(self.buckets.len());
        for (&number, bucket) in &mut self.buckets {
            groups.push(bucket.save(&self.schema, |row| lonely.contains(&(number, row)))?);
            self.bytes -= bucket.bytes;
            bucket.bytes = bucket.size_bytes();
            self.bytes += bucket.bytes;
        }
        Ok(groups)
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

/// A piece as it was saved.
#[derive(Debug)]
pub(super) struct SavedPiece {
    /// Its first row in the bucket.
    start: u32,
    table: RecordBatch,
}

impl SavedPiece {
    /// Bytes that are not the rows'.
    pub(super) fn own_bytes(&self) -> usize {
        self.table.columns()[..OWN].iter().map(|column| column.get_array_memory_size()).sum()
    }

    /// Rows stay what they are, and so does the watermark before them: it is theirs as long as this is so of the rest.
    fn is(&self, start: u32, found_partner: &BooleanArray, leaves_alone: &BooleanArray) -> bool {
        let flags = |column: usize| self.table.column(column).as_boolean();
        self.start == start && flags(1) == found_partner && flags(2) == leaves_alone
    }
}

impl Bucket {
    fn save(&mut self, schema: &SchemaRef, waits: impl Fn(u32) -> bool) -> Result<Vec<RecordBatch>> {
        let mut tables = Vec::new();
        let mut before = std::mem::take(&mut self.saved).into_iter().peekable();
        let mut start = 0;
        for rows in self.side.rows.pieces() {
            let range = start..start + rows.num_rows() as u32;
            start = range.end;
            // On a side whose lonely rows are no result there are none of either, and rows may be millions.
            let flags = |of: &dyn Fn(u32) -> bool| match self.matched.is_empty() {
                true => BooleanArray::new(BooleanBuffer::new_unset(range.len()), None),
                false => range.clone().map(|row| Some(of(row))).collect(),
            };
            let found_partner = flags(&|row| self.matched[row as usize]);
            let leaves_alone = flags(&waits);
            while before.next_if(|saved| saved.start < range.start).is_some() {}
            if let Some(saved) = before.next_if(|saved| saved.is(range.start, &found_partner, &leaves_alone))
            {
                tables.push(saved.table.clone());
                self.saved.push(saved);
                continue;
            }
            let mut watermarks_before = vec![None; range.len()];
            for (&row, &before) in self.behind.range(range.clone()) {
                watermarks_before[(row - range.start) as usize] = Some(before);
            }
            let mut columns = vec![
                named("watermark-before", Int64Array::from(watermarks_before)),
                named("found-partner", found_partner),
                named("leaves-alone", leaves_alone),
            ];
            let names = schema.fields().iter().map(|field| field.name().clone());
            columns.extend(names.zip(rows.columns().iter().cloned()));
            let table = table(columns)?;
            if rows.num_rows() >= COPIED_ROWS {
                self.saved.push(SavedPiece { start: range.start, table: table.clone() });
            }
            tables.push(table);
        }
        Ok(tables)
    }
}
