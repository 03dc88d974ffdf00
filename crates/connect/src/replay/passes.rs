//! A replay that repeats its files: what the first pass has decoded is kept where memory suffices, and decoded again
//! where it does not.

use std::sync::Arc;

use super::piece::{DecoderStep, PieceDecoder, TimedBatch};
use crate::dead_letter::DeadLetters;
use crate::{ConnectError, RecordPlace};

/// The pieces of all passes, one after the other: decoded in the first pass, and from memory in the others where it
/// suffices.
pub(super) struct Passes {
    decoder: PieceDecoder,
    dead: DeadLetters,
    /// `None` is for ever.
    passes: Option<u64>,
    /// All decoded pieces, for the passes to come; `None` if there are none or memory does not suffice.
    cache: Option<Vec<Arc<TimedBatch>>>,
    cached_bytes: u64,
    cache_bytes_max: u64,
    next_cached: usize,
    pass: u64,
    /// Rows loaded in this pass.
    rows: u64,
    /// Records loaded in this pass, bad ones included.
    records: u64,
    /// Rows and length of a pass. Known after the first one.
    whole: Option<Whole>,
    /// Records of all passes before the first that is its.
    records_before: u64,
    /// Rows of the file behind those still to leave out.
    rows_to_skip: u64,
    /// Rows of the file still to come before the one that is due at the start.
    rows_to_first_due: u64,
    /// Time of the file from its first row to that one; `None` until it was loaded.
    before_first_due_ms: Option<i64>,
    /// The time that is due at the start, where another scan has found that out.
    due_at_start_ms: Option<i64>,
}

#[derive(Clone, Copy)]
struct Whole {
    rows: u64,
    records: u64,
    /// Distance between the starts of two passes.
    span_ms: i64,
}

/// Rows of one pass.
pub(super) struct Piece {
    pub batch: Arc<TimedBatch>,
    pub pass: u64,
    /// What this pass adds to the times of the first one.
    pub shift_ms: i64,
    /// Rows to leave out.
    pub skip: usize,
    /// Records of the passes before.
    pub records_before: u64,
}

/// What came of a step.
pub(super) enum PassStep {
    Piece(Piece),
    More,
    Waiting,
    /// The last pass has ended.
    End,
}

impl Passes {
    pub(super) fn new(
        decoder: PieceDecoder,
        dead: DeadLetters,
        passes: Option<u64>,
        cache_bytes_max: u64,
        rows_to_skip: u64,
    ) -> Passes {
        Passes {
            decoder,
            dead,
            passes,
            cache: (passes != Some(1)).then(Vec::new),
            cached_bytes: 0,
            cache_bytes_max,
            next_cached: 0,
            pass: 0,
            rows: 0,
            records: 0,
            whole: None,
            records_before: 0,
            rows_to_skip,
            rows_to_first_due: 0,
            before_first_due_ms: Some(0),
            due_at_start_ms: None,
        }
    }

    /// It begins there: what comes before is left out, and is not what rows are counted from.
    pub(super) fn behind(self, place: Option<RecordPlace>) -> Passes {
        let Some(RecordPlace { records, due_at_start }) = place else { return self };
        Passes { records_before: records, due_at_start_ms: due_at_start.map(|time| time.0), ..self }
    }

    /// The row of this number is due at the start.
    pub(super) fn due_from(self, row: u64) -> Passes {
        Passes { rows_to_first_due: row, before_first_due_ms: (row == 0).then_some(0), ..self }
    }

    /// Time of the file from its first row to the one that is due at the start, ms. `None` until it was loaded.
    pub(super) fn before_first_due_ms(&self) -> Option<i64> {
        match self.due_at_start_ms {
            Some(due_ms) => self.first_ms().map(|first_ms| due_ms.saturating_sub(first_ms)),
            None => self.before_first_due_ms,
        }
    }

    /// Does one piece of work.
    pub(super) fn step(&mut self) -> Result<PassStep, ConnectError> {
        if self.has_ended() {
            return Ok(PassStep::End);
        }
        let batch = match (&self.cache, self.pass > 0) {
            (Some(cache), true) => match cache.get(self.next_cached) {
                Some(batch) => {
                    self.next_cached += 1;
                    Arc::clone(batch)
                }
                None => return self.end_pass().map(|()| PassStep::More),
            },
            _ => match self.decode()? {
                DecoderStep::Piece(batch) => self.keep(batch),
                DecoderStep::More => return Ok(PassStep::More),
                DecoderStep::Waiting => return Ok(PassStep::Waiting),
                DecoderStep::End => return self.end_pass().map(|()| PassStep::More),
            },
        };
        let whole_rows = batch.rows.num_rows();
        self.rows += whole_rows as u64;
        self.records = batch.numbering.of_row(whole_rows);
        let foreign =
            batch.numbering.rows_below(self.records_before.saturating_sub(self.pass_at()), whole_rows);
        let rows = (whole_rows - foreign) as u64;
        if self.before_first_due_ms.is_none() {
            let due_ms = &batch.due_ms[foreign..];
            match due_ms.get(usize::try_from(self.rows_to_first_due).unwrap_or(usize::MAX)) {
                Some(due_ms) => {
                    let first_ms = self.first_ms().unwrap_or(*due_ms);
                    let shift_ms =
                        self.whole.map_or(0, |whole| (self.pass as i64).saturating_mul(whole.span_ms));
                    self.before_first_due_ms = Some(due_ms.saturating_sub(first_ms).max(0) + shift_ms);
                }
                None => self.rows_to_first_due -= rows,
            }
        }
        let skipped = self.rows_to_skip.min(rows);
        self.rows_to_skip -= skipped;
        if skipped == rows {
            return Ok(PassStep::More);
        }
        let shift_ms = self.whole.map_or(0, |whole| (self.pass as i64).saturating_mul(whole.span_ms));
        let (skip, records_before) = (foreign + skipped as usize, self.pass_at());
        Ok(PassStep::Piece(Piece { batch, pass: self.pass, shift_ms, skip, records_before }))
    }

    /// Records of the passes before this one.
    fn pass_at(&self) -> u64 {
        self.whole.map_or(0, |whole| self.pass * whole.records)
    }

    /// Rows are still to be left out, of those that are its.
    pub(super) fn is_skipping(&self) -> bool {
        self.rows_to_skip > 0
    }

    /// Records loaded in all passes, or left out.
    pub(super) fn records(&self) -> u64 {
        (self.pass_at() + self.records).max(self.records_before)
    }

    /// Nothing needs to be decoded any more.
    pub(super) fn is_cached(&self) -> bool {
        self.pass > 0 && self.cache.is_some()
    }

    /// Without the pieces that were given out and are not kept.
    pub(super) fn held_bytes(&self) -> u64 {
        self.decoder.held_bytes() + if self.cache.is_some() { self.cached_bytes } else { 0 }
    }

    /// True if pieces that were given out are held here too.
    pub(super) fn keeps_pieces(&self) -> bool {
        self.cache.is_some()
    }

    pub(super) fn is_repeatable(&self) -> bool {
        self.decoder.is_repeatable()
    }

    pub(super) fn first_ms(&self) -> Option<i64> {
        self.decoder.first_ms()
    }

    pub(super) fn dead_rows(&self) -> u64 {
        self.dead.count()
    }

    /// Part of all passes, where `waiting` rows of those loaded are still to be given out.
    pub(super) fn progress(&self, waiting: u64) -> Option<f64> {
        let passes = self.passes? as f64;
        let Some(whole) = self.whole else { return Some(self.decoder.progress()? / passes) };
        let loaded = self.pass as f64 * whole.rows as f64 + self.rows as f64;
        Some((loaded - waiting as f64) / (whole.rows.max(1) as f64 * passes))
    }

    fn has_ended(&self) -> bool {
        self.whole.is_some_and(|whole| whole.rows == 0) || self.passes == Some(self.pass)
    }

    fn decode(&mut self) -> Result<DecoderStep, ConnectError> {
        let step = self.decoder.step();
        // Bad rows were counted and written when they were first read.
        let bad = self.decoder.take_bad().filter(|_| self.pass == 0);
        let buried = bad.map_or(Ok(()), |(file, mut rows)| {
            rows.retain(|row| self.decoder.numbering().of_bad(row) >= self.records_before);
            self.dead.put(&file, &rows)
        });
        buried.and(step)
    }

    fn keep(&mut self, batch: TimedBatch) -> Arc<TimedBatch> {
        let batch = Arc::new(batch);
        if let Some(cache) = self.cache.as_mut().filter(|_| self.pass == 0) {
            self.cached_bytes += batch.bytes();
            cache.push(Arc::clone(&batch));
            if self.cached_bytes > self.cache_bytes_max {
                self.cache = None;
            }
        }
        batch
    }

    fn end_pass(&mut self) -> Result<(), ConnectError> {
        let whole = *self.whole.get_or_insert_with(|| Whole {
            rows: self.decoder.rows(),
            records: self.decoder.records(),
            span_ms: self.decoder.span_ms(),
        });
        self.pass += 1;
        // Whole passes need not be loaded to be left out.
        let passes_left = |pass: u64| self.passes.map_or(u64::MAX, |passes| passes - pass);
        let foreign = self.records_before.saturating_sub(self.pass_at());
        if let Some(passes) = foreign.checked_div(whole.records) {
            self.pass += passes.min(passes_left(self.pass));
        }
        let has_begun = self.pass_at() >= self.records_before;
        if let Some(passes) = self.rows_to_skip.checked_div(whole.rows).filter(|_| has_begun) {
            let passes = passes.min(passes_left(self.pass));
            // The row that is due first is not left out before others are.
            let to_first_due = self.rows_to_first_due / whole.rows;
            let passes = if self.before_first_due_ms.is_none() { passes.min(to_first_due) } else { passes };
            self.pass += passes;
            self.rows_to_skip -= passes * whole.rows;
            self.rows_to_first_due = self.rows_to_first_due.saturating_sub(passes * whole.rows);
        }
        (self.rows, self.records) = (0, 0);
        self.next_cached = 0;
        match self.cache.is_none() && !self.has_ended() {
            true => self.decoder.rewind(),
            false => Ok(()),
        }
    }
}
