//! How one batch finds its pairs in the other side's buffer, and can stop and go on anywhere, since a batch may have
//! any number of them.

use std::ops::Range;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, take_arrays};
use laxity_graph::ProcessingTime;

use super::buffer::{Arrivals, Bucket, Buffer};
use super::{Bounds, LEFT, LOOKS_PER_RESULT};
use crate::expression::Selection;
use crate::join_output::JoinOutput;
use crate::join_side::NONE;
use crate::{DeadRows, OperatorError};

/// A batch on its way past the buffered rows of the other side, cut wherever its pairs fill an output batch.
#[derive(Debug)]
pub(super) struct Probe {
    /// The side that the batch belongs to.
    pub(super) side: usize,
    pub(super) rows: RecordBatch,
    pub(super) arrivals: Arrivals,
    /// Rows that can match, by time.
    pub(super) order: Vec<u32>,
    /// Rows that cannot match and are a result by themselves.
    pub(super) lonely: Vec<u32>,
    /// Buckets of the other side still to visit, the next one last.
    pub(super) buckets: Vec<i64>,
    /// Where to go on in the bucket being visited. `None`: it is new.
    pub(super) at: Option<Place>,
}

/// How far the visit of a bucket is.
#[derive(Debug)]
pub(super) struct Place {
    /// Positions in `order` still to look at.
    range: Range<usize>,
    /// Where in the bucket's chain of the first one's key to go on. [`NONE`]: at its first row.
    theirs: u32,
}

/// Pairs of one probe with one bucket.
pub(super) struct Pairs {
    pub(super) batch: RecordBatch,
    /// The watermark behind which a pair is, [`i64::MIN`] if it is ahead.
    pub(super) before: Vec<i64>,
    pub(super) ingested: ProcessingTime,
}

impl Probe {
    /// The next pairs: at most `wanted`, all with rows of one bucket. `None`: this bucket has no more.
    pub(super) fn next_pairs(
        &mut self,
        other: &mut Buffer,
        bounds: &Bounds,
        output: &JoinOutput,
        wanted: usize,
        budget: &mut usize,
        dead: &mut Vec<DeadRows>,
    ) -> Result<Option<Pairs>, OperatorError> {
        let Some(&number) = self.buckets.last() else { return Ok(None) };
        let bucket = other.bucket_mut(number);
        let mut place =
            self.at.take().unwrap_or_else(|| Place { range: self.near(bucket, bounds), theirs: NONE });
        let (mine, theirs) = self.candidates(bucket, bounds, &mut place, wanted, budget);
        if place.range.is_empty() {
            self.buckets.pop();
        } else {
            self.at = Some(place);
        }
        if mine.is_empty() {
            return Ok(None);
        }
        self.join(bucket, output, &mine, &theirs, dead)
    }

    /// Places in `order` of rows whose interval touches the bucket.
    fn near(&self, bucket: &Bucket, bounds: &Bounds) -> Range<usize> {
        let time = |&row: &u32| self.arrivals.times[row as usize];
        let start =
            self.order.partition_point(|row| *bounds.partners(self.side, time(row)).end() < bucket.time_min);
        let end = self
            .order
            .partition_point(|row| *bounds.partners(self.side, time(row)).start() <= bucket.time_max);
        start..end.max(start)
    }

    /// Pairs of equal keys and near times, as rows of the batch and of the bucket, from `place` on.
    fn candidates(
        &self,
        bucket: &Bucket,
        bounds: &Bounds,
        place: &mut Place,
        wanted: usize,
        budget: &mut usize,
    ) -> (Vec<u32>, Vec<u32>) {
        let Place { range, theirs } = place;
        let (mut mine_out, mut theirs_out) = (Vec::new(), Vec::new());
        while range.start < range.end && mine_out.len() < wanted && *budget > 0 {
            let mine = self.order[range.start];
            if *theirs == NONE {
                *budget -= 1;
                let key = bucket.keys.find(&self.arrivals.keys, mine as usize);
                *theirs = key.map_or(NONE, |key| bucket.side.first(key));
            }
            let (time, before) = (self.arrivals.times[mine as usize], self.arrivals.before[mine as usize]);
            while *theirs != NONE && mine_out.len() < wanted && *budget > 0 {
                *budget -= 1;
                let their_time = bucket.times[*theirs as usize];
                if bounds.joins(self.side, (time, before), (their_time, bucket.before(*theirs))) {
                    mine_out.push(mine);
                    theirs_out.push(*theirs);
                }
                *theirs = bucket.side.next(*theirs);
            }
            if *theirs == NONE {
                range.start += 1;
            }
        }
        *budget = budget.saturating_sub(mine_out.len() * (LOOKS_PER_RESULT - 1));
        (mine_out, theirs_out)
    }

    /// Puts pairs together and keeps those that fulfil the condition.
    fn join(
        &mut self,
        bucket: &mut Bucket,
        output: &JoinOutput,
        mine: &[u32],
        theirs: &[u32],
        dead: &mut Vec<DeadRows>,
    ) -> Result<Option<Pairs>, OperatorError> {
        let my_columns = take_arrays(self.rows.columns(), &UInt32Array::from(mine.to_vec()), None);
        let my_columns = my_columns.map_err(|e| output.bug(&e))?;
        let their_columns = bucket.side.rows.gather(theirs).map_err(|e| output.bug(&e))?;
        let mut batch = if self.side == LEFT {
            output.pairs(my_columns, their_columns)?
        } else {
            output.pairs(their_columns, my_columns)?
        };
        let mask = match output.select(&batch, dead)? {
            Selection::Nothing => return Ok(None),
            Selection::All => None,
            Selection::Some(mask) => {
                batch = filter_record_batch(&batch, &mask).map_err(|e| output.bug(&e))?;
                Some(mask)
            }
        };
        let (mut before, mut ingested) = (Vec::with_capacity(batch.num_rows()), self.arrivals.ingested);
        for (pair, (&mine, &theirs)) in mine.iter().zip(theirs).enumerate() {
            if mask.as_ref().is_some_and(|mask| !mask.value(pair)) {
                continue;
            }
            self.arrivals.matched[mine as usize] = true;
            if let Some(matched) = bucket.matched.get_mut(theirs as usize) {
                *matched = true;
            }
            before.push(self.arrivals.before[mine as usize].max(bucket.before(theirs)));
            ingested = ingested.max(bucket.ingested[theirs as usize]);
        }
        Ok(Some(Pairs { batch, before, ingested }))
    }
}
