//! Rows of one side as a table, with what the buffer knows of each.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, Int64Builder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use laxity_graph::ProcessingTime;

use super::{Arrivals, Bucket, Buffer};
use crate::join_keys::KeyEncoder;
use crate::state::{COPIED_ROWS, Part, Result, bug};
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
    ///
    /// The query waits while this is made, and fresh memory comes slower than all else: what is the same for most rows is
    /// made once, and what is not, in one array.
    pub(in crate::interval_join) fn save(&mut self) -> Result<Vec<Vec<RecordBatch>>> {
        // Lonely rows that have left are still there to be matched.
        let bucket_of = |time: i64| time.div_euclid(self.width_ms);
        let lonely = self.lonely.iter().flatten();
        let lonely: HashSet<(i64, u32)> =
            lonely.map(|&Reverse((time, row))| (bucket_of(time), row)).collect();
        let pieces = self.buckets.values().flat_map(|bucket| bucket.side.rows.pieces());
        self.nothing.reach(pieces.map(RecordBatch::num_rows).max().unwrap_or(0));
        let schema = saved_schema(&self.schema);
        let mut groups = Vec::with_capacity(self.buckets.len());
        for (&number, bucket) in &mut self.buckets {
            groups.push(bucket.save(&schema, &self.nothing, |row| lonely.contains(&(number, row)))?);
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

/// Rows as they are saved: what is known of each, then its columns.
fn saved_schema(rows: &SchemaRef) -> SchemaRef {
    let own = [
        Field::new("watermark-before", DataType::Int64, true),
        Field::new("found-partner", DataType::Boolean, true),
        Field::new("leaves-alone", DataType::Boolean, true),
    ];
    let columns = rows.fields().iter().map(|field| Field::new(field.name(), field.data_type().clone(), true));
    Arc::new(Schema::new(own.into_iter().chain(columns).collect::<Vec<_>>()))
}

/// What there is to say of most rows.
#[derive(Debug)]
pub(super) struct Nothing {
    behind: Int64Array,
    flags: BooleanArray,
}

impl Nothing {
    pub(super) fn of(rows: usize) -> Nothing {
        let flags = BooleanArray::new(BooleanBuffer::new_unset(rows), None);
        Nothing { behind: Int64Array::new_null(rows), flags }
    }

    fn reach(&mut self, rows: usize) {
        if self.behind.len() < rows {
            *self = Nothing::of(rows.next_power_of_two());
        }
    }
}

/// A piece as it was saved.
#[derive(Debug)]
pub(super) struct SavedPiece {
    /// Its first row in the bucket.
    start: u32,
    table: RecordBatch,
    /// Bytes of it that are neither the rows' nor shared by all.
    pub(super) own_bytes: usize,
}

impl SavedPiece {
    /// Rows stay what they are, and so does the watermark before them: it is theirs as long as this is so of the rest.
    fn is(&self, start: u32, found_partner: &BooleanArray, leaves_alone: &BooleanArray) -> bool {
        let flags = |column: usize| self.table.column(column).as_boolean();
        self.start == start && flags(1) == found_partner && flags(2) == leaves_alone
    }
}

/// A piece that was not saved as it is.
struct Changed {
    number: usize,
    /// Its rows in the bucket.
    range: Range<u32>,
    found_partner: BooleanArray,
    leaves_alone: BooleanArray,
    is_behind: bool,
}

impl Bucket {
    fn save(
        &mut self,
        schema: &SchemaRef,
        nothing: &Nothing,
        waits: impl Fn(u32) -> bool,
    ) -> Result<Vec<RecordBatch>> {
        let pieces = self.side.rows.pieces();
        let before = std::mem::replace(&mut self.saved, Vec::with_capacity(pieces.len()));
        let saved_rows: usize = before.iter().map(|saved| saved.table.num_rows()).sum();
        let mut before = before.into_iter().peekable();
        let new_rows = if self.behind.is_empty() { 0 } else { self.side.len().saturating_sub(saved_rows) };
        let mut behind = Int64Builder::with_capacity(new_rows);
        let mut tables = Vec::with_capacity(pieces.len());
        let mut changed = Vec::new();
        let mut start = 0;
        for (number, rows) in pieces.iter().enumerate() {
            let range = start..start + rows.num_rows() as u32;
            start = range.end;
            // On a side whose lonely rows are no result there are none of either, and rows may be millions.
            let flags = |of: &dyn Fn(u32) -> bool| match self.matched.is_empty() {
                true => nothing.flags.slice(0, range.len()),
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
            let is_behind = self.append_behind(&range, &mut behind);
            changed.push(Changed { number, range, found_partner, leaves_alone, is_behind });
            // Until it is put together.
            tables.push(rows.clone());
        }
        let (behind, mut taken) = (behind.finish(), 0);
        for Changed { number, range, found_partner, leaves_alone, is_behind } in changed {
            let (rows, mut own_bytes) = (range.len(), 0);
            let mut watermarks = nothing.behind.slice(0, rows);
            if is_behind {
                watermarks = behind.slice(taken, rows);
                taken += rows;
                own_bytes += rows * size_of::<i64>();
            }
            if !self.matched.is_empty() {
                own_bytes += 2 * rows.div_ceil(8);
            }
            let own: [ArrayRef; OWN] =
                [Arc::new(watermarks), Arc::new(found_partner), Arc::new(leaves_alone)];
            let columns = own.into_iter().chain(tables[number].columns().iter().cloned()).collect();
            let table = RecordBatch::try_new(schema.clone(), columns).map_err(|e| bug("state", e))?;
            if rows >= COPIED_ROWS {
                self.saved.push(SavedPiece { start: range.start, table: table.clone(), own_bytes });
            }
            tables[number] = table;
        }
        self.saved.sort_unstable_by_key(|saved| saved.start);
        Ok(tables)
    }

    /// Says `false`, and appends nothing, where no row was behind the watermark.
    fn append_behind(&self, rows: &Range<u32>, to: &mut Int64Builder) -> bool {
        let mut next = rows.start;
        for (&row, &watermark) in self.behind.range(rows.clone()) {
            to.append_nulls((row - next) as usize);
            to.append_value(watermark);
            next = row + 1;
        }
        if next > rows.start {
            to.append_nulls((rows.end - next) as usize);
        }
        next > rows.start
    }
}
