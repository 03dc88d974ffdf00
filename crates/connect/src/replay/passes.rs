//! A replay that repeats its files: what the first pass has decoded is kept where memory suffices, and decoded again
//! where it does not.

use std::sync::Arc;

use super::piece::{DecoderStep, PieceDecoder, TimedBatch};
use crate::ConnectError;
use crate::dead_letter::DeadLetters;

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
    /// Rows and length of a pass. Known after the first one.
    whole: Option<Whole>,
    /// Rows of the file still to leave out.
    rows_to_skip: u64,
    /// Rows of the file still to come before the one that is due at the start.
    rows_to_first_due: u64,
    /// Time of the file from its first row to that one; `None` until it was loaded.
    before_first_due_ms: Option<i64>,
}

#[derive(Clone, Copy)]
struct Whole {
    rows: u64,
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
            whole: None,
            rows_to_skip,
            rows_to_first_due: 0,
            before_first_due_ms: Some(0),
        }
    }

    /// The row of this number is due at the start.
    pub(super) fn due_from(self, row: u64) -> Passes {
        Passes { rows_to_first_due: row, before_first_due_ms: (row == 0).then_some(0), ..self }
    }

    /// Time of the file from its first row to the one that is due at the start, ms. `None` until it was loaded.
    pub(super) fn before_first_due_ms(&self) -> Option<i64> {
        self.before_first_due_ms
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
        let rows = batch.rows.num_rows() as u64;
        self.rows += rows;
        if self.before_first_due_ms.is_none() {
            match batch.due_ms.get(usize::try_from(self.rows_to_first_due).unwrap_or(usize::MAX)) {
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
        Ok(PassStep::Piece(Piece { batch, pass: self.pass, shift_ms, skip: skipped as usize }))
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
        bad.map_or(Ok(()), |(file, rows)| self.dead.put(&file, &rows)).and(step)
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
        let whole = *self
            .whole
            .get_or_insert_with(|| Whole { rows: self.decoder.rows(), span_ms: self.decoder.span_ms() });
        self.pass += 1;
        if let Some(passes) = self.rows_to_skip.checked_div(whole.rows) {
            // Whole passes need not be loaded to be left out.
            let passes = passes.min(self.passes.map_or(u64::MAX, |passes| passes - self.pass));
            // The row that is due first is not left out before others are.
            let to_first_due = self.rows_to_first_due / whole.rows;
            let passes = if self.before_first_due_ms.is_none() { passes.min(to_first_due) } else { passes };
            self.pass += passes;
            self.rows_to_skip -= passes * whole.rows;
            self.rows_to_first_due = self.rows_to_first_due.saturating_sub(passes * whole.rows);
        }
        self.rows = 0;
        self.next_cached = 0;
        match self.cache.is_none() && !self.has_ended() {
            true => self.decoder.rewind(),
            false => Ok(()),
        }
    }
}
