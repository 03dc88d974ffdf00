//! Rows that were taken, until their values are computed: for those of many batches at once, since a kernel's call costs alike
//! for ten rows and for three hundred.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result;

use super::super::aion::{Offer, Told};
use crate::{DeadReason, DeadRows};

/// See the file's beginning.
#[derive(Default)]
pub(super) struct Deferred {
    batches: Vec<RecordBatch>,
    held_rows: usize,
    held_bytes: usize,
    /// By row that was taken: its batch and its place there.
    places: Vec<(usize, usize)>,
    offers: Vec<Offer>,
    times: Vec<i64>,
    groups: Vec<usize>,
    /// When rows came, and how many had by then.
    arrivals: Vec<(i64, usize)>,
    /// 0, 1, …
    numbers: Vec<u32>,
}

/// So many are worth a call.
const ROWS: usize = 1_024;

/// So many rows at most are held for the few of them that were taken.
const HELD_ROWS: usize = 16_384;

impl Deferred {
    /// Rows of a batch that came now.
    pub(super) fn push(&mut self, batch: &RecordBatch, now: i64, told: Told<'_>) {
        let number = self.batches.len();
        self.batches.push(batch.clone());
        self.held_rows += batch.num_rows();
        self.held_bytes += batch.get_array_memory_size();
        self.places.extend(told.rows.iter().map(|&row| (number, row as usize)));
        self.offers.extend_from_slice(told.offers);
        self.times.extend(told.rows.iter().map(|&row| told.times[row as usize]));
        let group = |&row: &u32| told.groups.map_or(0, |groups| groups[row as usize]);
        self.groups.extend(told.rows.iter().map(group));
        self.arrivals.push((now, self.places.len()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= ROWS || self.held_rows >= HELD_ROWS
    }

    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.held_rows = 0;
        self.held_bytes = 0;
        self.places.clear();
        self.offers.clear();
        self.times.clear();
        self.groups.clear();
        self.arrivals.clear();
    }

    /// Those columns of the rows.
    pub(super) fn rows(&self, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
        let gathered = |&column: &usize| {
            let of_batches: Vec<_> = self.batches.iter().map(|batch| batch.column(column).as_ref()).collect();
            interleave(&of_batches, &self.places)
        };
        let gathered: Vec<ArrayRef> = match &*self.batches {
            // All of a batch, as it is.
            [batch] if batch.num_rows() == self.places.len() && self.places.is_sorted() => {
                columns.iter().map(|&column| batch.column(column).clone()).collect()
            }
            _ => columns.iter().map(gathered).collect::<std::result::Result<_, _>>()?,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(self.places.len()));
        Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), gathered, &options)?)
    }

    /// The rows that are not kept, by their place in their batch.
    pub(super) fn failing(&self, keep: &[bool]) -> impl Iterator<Item = u32> {
        self.places.iter().zip(keep).filter(|(_, keep)| !**keep).map(|(&(_, row), _)| row as u32)
    }

    /// Puts aside the rows that are not kept, each as it came and with its reason.
    pub(super) fn put_aside(&mut self, keep: &[bool], reasons: Vec<DeadReason>) -> Vec<DeadRows> {
        let places = self.places.iter().zip(keep).filter(|(_, keep)| !**keep).map(|(&place, _)| place);
        let dead = places
            .zip(reasons)
            .map(|((batch, row), reason)| DeadRows { rows: self.batches[batch].slice(row, 1), reason });
        let dead = dead.collect();
        retain(&mut self.places, keep);
        retain(&mut self.offers, keep);
        retain(&mut self.times, keep);
        retain(&mut self.groups, keep);
        for (_, until) in &mut self.arrivals {
            *until = keep[..*until].iter().filter(|keep| **keep).count();
        }
        dead
    }

    /// Calls for the rows of each arrival: when that was, what is to be told of them, and the number of the first.
    pub(super) fn each_arrival(&mut self, mut call: impl FnMut(i64, Told<'_>, usize)) {
        self.numbers.extend(self.numbers.len() as u32..self.places.len() as u32);
        let mut from = 0;
        for &(now, to) in &self.arrivals {
            let told = Told {
                rows: &self.numbers[..to - from],
                offers: &self.offers[from..to],
                times: &self.times[from..to],
                groups: Some(&self.groups[from..to]),
            };
            call(now, told, from);
            from = to;
        }
    }

    /// Bytes held, about: a batch counts for its rows that were taken, since it is mostly a piece of an array that others hold.
    /// Asked for at every message, so that nothing is added up here.
    pub(super) fn bytes(&self) -> usize {
        self.held_bytes * self.places.len() / self.held_rows.max(1)
    }
}

/// Those of them that are kept.
pub(super) fn retain<T>(what: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    what.retain(|_| keep.next().is_none_or(|keep| *keep));
}
