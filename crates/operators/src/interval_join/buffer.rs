//! Rows of one side of an interval join, by event time.

mod saved;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use laxity_graph::ProcessingTime;

use self::saved::{Nothing, SavedPiece};
use crate::join_keys::{EncodedKeys, KeyTable};
use crate::join_side::JoinSide;

/// Rows of one side that later rows of the other may still match.
///
/// Rows lie in buckets of event time, so that a row looks for partners only in the few buckets that its
/// interval touches, and expired rows are dropped a bucket at a time.
#[derive(Debug)]
pub(super) struct Buffer {
    schema: SchemaRef,
    piece_rows: usize,
    width_ms: i64,
    /// A row of time t is kept while the watermark is below `t + kept_ms`.
    kept_ms: i64,
    /// By `time.div_euclid(width_ms)`.
    buckets: BTreeMap<i64, Bucket>,
    /// Times and rows of the outer side that had no partner when they came, earliest first. `None` on a side
    /// whose lonely rows are no result.
    lonely: Option<BinaryHeap<Reverse<(i64, u32)>>>,
    nothing: Nothing,
    bytes: usize,
}

/// Rows of one stretch of event time.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) keys: KeyTable,
    pub(super) side: JoinSide,
    pub(super) times: Vec<i64>,
    pub(super) ingested: Vec<ProcessingTime>,
    /// Which rows found a partner. Empty on a side whose lonely rows are no result.
    pub(super) matched: Vec<bool>,
    /// Watermark before the rows that were behind it, few if any.
    behind: BTreeMap<u32, i64>,
    pub(super) time_min: i64,
    pub(super) time_max: i64,
    /// What was saved last of pieces that are not copied.
    saved: Vec<SavedPiece>,
    bytes: usize,
}

/// What a buffer needs to know about the rows of one batch, by row.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) times: Vec<i64>,
    /// The watermark before rows that are behind it, [`i64::MIN`] for all others.
    pub(super) before: Vec<i64>,
    pub(super) matched: Vec<bool>,
    pub(super) keys: EncodedKeys,
    pub(super) ingested: ProcessingTime,
}

/// Lonely rows of one bucket, expired.
pub(super) struct Expired {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) before: Vec<i64>,
    pub(super) ingested: ProcessingTime,
}

impl Buffer {
    pub(super) fn new(
        schema: SchemaRef,
        piece_rows: usize,
        width_ms: i64,
        kept_ms: i64,
        keeps_lonely: bool,
    ) -> Buffer {
        Buffer {
            schema,
            piece_rows,
            width_ms,
            kept_ms,
            buckets: BTreeMap::new(),
            lonely: keeps_lonely.then(BinaryHeap::new),
            nothing: Nothing::of(0),
            bytes: 0,
        }
    }

    /// Whether lonely rows are a result.
    pub(super) fn keeps_lonely(&self) -> bool {
        self.lonely.is_some()
    }

    /// Whether no row that comes at that watermark can match a row of that time, not even a late one.
    pub(super) fn is_expired(&self, time: i64, watermark: i64) -> bool {
        time.saturating_add(self.kept_ms) <= watermark
    }

    /// Takes those `rows` that `order` names, which is sorted by time.
    pub(super) fn push(
        &mut self,
        rows: &RecordBatch,
        order: &[u32],
        arrivals: &Arrivals,
    ) -> Result<(), ArrowError> {
        let bucket_of = |row: u32| arrivals.times[row as usize].div_euclid(self.width_ms);
        let keeps_lonely = self.lonely.is_some();
        for chunk in order.chunk_by(|&a, &b| bucket_of(a) == bucket_of(b)) {
            let bucket = self
                .buckets
                .entry(bucket_of(chunk[0]))
                .or_insert_with(|| Bucket::new(&self.schema, self.piece_rows));
            let first = bucket.side.len() as u32;
            bucket.push(rows, chunk, arrivals, keeps_lonely)?;
            if let Some(lonely) = &mut self.lonely {
                let alone = (first..).zip(chunk).filter(|&(_, &row)| !arrivals.matched[row as usize]);
                lonely.extend(alone.map(|(place, &row)| Reverse((arrivals.times[row as usize], place))));
            }
            self.bytes -= bucket.bytes;
            bucket.bytes = bucket.size_bytes();
            self.bytes += bucket.bytes;
        }
        Ok(())
    }

    /// Numbers of the buckets that hold rows of times in that range, perhaps.
    pub(super) fn touched(&self, times: RangeInclusive<i64>) -> Vec<i64> {
        if times.is_empty() {
            return Vec::new();
        }
        let bucket_of = |time: &i64| time.div_euclid(self.width_ms);
        self.buckets
            .range(bucket_of(times.start())..=bucket_of(times.end()))
            .map(|(&number, _)| number)
            .collect()
    }

    /// # Panics
    /// If there is no such bucket. They go away with [`Buffer::drop_expired`] only.
    pub(super) fn bucket_mut(&mut self, number: i64) -> &mut Bucket {
        self.buckets.get_mut(&number).expect("buckets live until they expire")
    }

    /// Removes some of the lonely rows that have expired: at most `wanted`, of one bucket, looking at no more
    /// than `budget` rows. `None`: there are no more.
    pub(super) fn pop_lonely(
        &mut self,
        watermark: i64,
        wanted: usize,
        budget: &mut usize,
    ) -> Result<Option<Expired>, ArrowError> {
        let Some(lonely) = &mut self.lonely else { return Ok(None) };
        let (mut rows, mut number) = (Vec::new(), None);
        while let Some(&Reverse((time, row))) = lonely.peek() {
            let of = time.div_euclid(self.width_ms);
            let is_other = number.is_some_and(|number| number != of);
            if time.saturating_add(self.kept_ms) > watermark
                || is_other
                || rows.len() == wanted
                || *budget == 0
            {
                break;
            }
            lonely.pop();
            *budget -= 1;
            number = Some(of);
            if !self.buckets[&of].matched[row as usize] {
                rows.push(row);
            }
        }
        let Some(number) = number else { return Ok(None) };
        let bucket = &self.buckets[&number];
        Ok(Some(Expired {
            columns: bucket.side.rows.gather(&rows)?,
            before: rows.iter().map(|&row| bucket.before(row)).collect(),
            ingested: rows.iter().map(|&row| bucket.ingested[row as usize]).max().unwrap_or_default(),
        }))
    }

    /// Frees buckets all of whose rows have expired.
    pub(super) fn drop_expired(&mut self, watermark: i64) {
        while let Some(first) = self.buckets.first_entry() {
            if first.get().time_max.saturating_add(self.kept_ms) > watermark {
                break;
            }
            self.bytes -= first.remove().bytes;
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.bytes + self.lonely.as_ref().map_or(0, |lonely| lonely.capacity() * size_of::<(i64, u32)>())
    }
}

impl Bucket {
    fn new(schema: &SchemaRef, piece_rows: usize) -> Bucket {
        Bucket {
            keys: KeyTable::default(),
            side: JoinSide::new(Arc::clone(schema), piece_rows),
            times: Vec::new(),
            ingested: Vec::new(),
            matched: Vec::new(),
            behind: BTreeMap::new(),
            time_min: i64::MAX,
            time_max: i64::MIN,
            saved: Vec::new(),
            bytes: 0,
        }
    }

    /// The watermark before a row that was behind it, [`i64::MIN`] if it was not.
    pub(super) fn before(&self, row: u32) -> i64 {
        if self.behind.is_empty() { i64::MIN } else { self.behind.get(&row).copied().unwrap_or(i64::MIN) }
    }

    fn push(
        &mut self,
        rows: &RecordBatch,
        chunk: &[u32],
        arrivals: &Arrivals,
        keeps_lonely: bool,
    ) -> Result<(), ArrowError> {
        let first = self.side.len() as u32;
        // All rows in their order need no copy.
        let is_whole =
            chunk.len() == rows.num_rows() && chunk.iter().enumerate().all(|(i, &row)| i == row as usize);
        self.side.push(rows, (!is_whole).then_some(chunk), &arrivals.keys, &mut self.keys)?;
        for (place, &row) in (first..).zip(chunk) {
            let row = row as usize;
            let time = arrivals.times[row];
            self.time_min = self.time_min.min(time);
            self.time_max = self.time_max.max(time);
            self.times.push(time);
            self.ingested.push(arrivals.ingested);
            if keeps_lonely {
                self.matched.push(arrivals.matched[row]);
            }
            if arrivals.before[row] != i64::MIN {
                self.behind.insert(place, arrivals.before[row]);
            }
        }
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        size_of::<Bucket>()
            + self.keys.size_bytes()
            + self.side.size_bytes()
            + self.times.capacity() * size_of::<i64>()
            + self.ingested.capacity() * size_of::<ProcessingTime>()
            + self.matched.capacity()
            // A tree node holds keys, values and some slack.
            + self.behind.len() * 2 * size_of::<(u32, i64)>()
            + self.saved.iter().map(|piece| piece.own_bytes).sum::<usize>()
    }
}
