//! Replay: rows of a file are offered at the pace of an ingestion-time column, times a speed factor.
//!
//! Open loop: the instant at which a row is due depends on the file and the start alone, never on how fast
//! rows are taken. A reader that comes late gets all rows due since, and their latency counts from when they
//! were due. Real delays and disorder of the data are kept, because only the ingestion time paces it.
//!
//! Start with [`ReplayOptions`].

mod passes;
mod piece;

use std::collections::VecDeque;
use std::time::Duration;

use arrow::datatypes::DataType;
use laxity_graph::{EventClock, EventTime, ProcessingTime};

use self::passes::{PassStep, Passes, Piece};
use self::piece::PieceDecoder;
use crate::dead_letter::DeadLetters;
use crate::options::OptionReader;
use crate::pace::{Pace, TICK_DEFAULT};
use crate::reader::TableReader;
use crate::spread::{Spread, can_spread};
use crate::{
    ConnectError, FileMetadata, MAX_BATCH_ROWS, OptionError, Preparation, Scan, ScanEnvironment, ScanEvent,
    ScanSpec, ScannedBatch,
};

/// The options `laxity.replay.*`.
#[derive(Clone, Debug)]
pub(crate) struct ReplayOptions {
    /// Ingestion-time column: TIMESTAMP, or BIGINT milliseconds.
    time_column: usize,
    /// Milliseconds of the file that pass in one of the clock.
    speed: f64,
    /// Times the file is read; `None` is for ever.
    passes: Option<u64>,
    copies: usize,
    spread_keys: Vec<usize>,
    cache_bytes_max: u64,
    tick: Duration,
}

impl ReplayOptions {
    /// `None` if the table is not replayed.
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<Option<ReplayOptions>, OptionError> {
        let schema = &options.table().schema;
        let column = |key: &str, name: &str| {
            schema.index_of(name).map_err(|_| {
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                options.error(key, format!("no column '{name}'; the table has {}", names.join(", ")))
            })
        };
        let time_key = "laxity.replay.time-column";
        let time_column = options.text(time_key).map(|name| column(time_key, name)).transpose()?;
        let speed =
            options.parsed("laxity.replay.speed", "a factor above 0, such as '1' or '3600'", |text| {
                text.parse().ok().filter(|speed: &f64| *speed > 0.0 && speed.is_finite())
            })?;
        let passes =
            options.parsed("laxity.replay.loop", "a number of passes or 'forever'", |text| match text {
                "forever" => Some(None),
                number => number.parse().ok().filter(|passes| *passes > 0).map(Some),
            })?;
        let copies = options.parsed("laxity.replay.copies", "a whole number from 1 to 8192", |text| {
            text.parse().ok().filter(|copies| (1..=MAX_BATCH_ROWS).contains(copies))
        })?;
        let spread_key = "laxity.replay.spread-keys";
        let mut spread_keys = Vec::new();
        for name in
            options.text(spread_key).unwrap_or("").split(',').map(str::trim).filter(|name| !name.is_empty())
        {
            let index = column(spread_key, name)?;
            if !can_spread(schema.field(index)) {
                let message = format!(
                    "column '{name}' is {}; keys of STRING, SMALLINT, INT and BIGINT can be spread",
                    schema.field(index).data_type()
                );
                return Err(options.error(spread_key, message));
            }
            spread_keys.push(index);
        }
        let cache = options.bytes("laxity.replay.cache")?;
        let tick = options.duration("laxity.replay.tick")?;
        let Some(time_column) = time_column else {
            let set = options.table().options.keys().find(|key| key.starts_with("laxity.replay."));
            return match set {
                Some(key) => {
                    Err(options.error(key, format!("needs '{time_key}': the column that paces the replay")))
                }
                None => Ok(None),
            };
        };
        let field = schema.field(time_column);
        if !matches!(field.data_type(), DataType::Timestamp(..) | DataType::Int64) {
            let message = format!(
                "column '{}' is {}; a TIMESTAMP, or BIGINT milliseconds, is needed",
                field.name(),
                field.data_type()
            );
            return Err(options.error(time_key, message));
        }
        Ok(Some(ReplayOptions {
            time_column,
            speed: speed.unwrap_or(1.0),
            passes: passes.unwrap_or(Some(1)),
            copies: copies.unwrap_or(1),
            spread_keys,
            cache_bytes_max: cache.unwrap_or(256 << 20),
            tick: tick.unwrap_or(TICK_DEFAULT),
        }))
    }
}

/// Opens a replay over the reader that `open_reader` makes for the columns it is given.
pub(crate) fn open_scan(
    spec: &ScanSpec,
    env: &ScanEnvironment,
    options: ReplayOptions,
    dead: DeadLetters,
    open_reader: impl FnOnce(Vec<usize>) -> Result<TableReader, ConnectError>,
) -> Result<Box<dyn Scan>, ConnectError> {
    // The time column is read even where no query asks for it. It comes last then, and is cut off.
    let mut columns = spec.columns.clone();
    let time_index = columns.iter().position(|column| *column == options.time_column).unwrap_or_else(|| {
        columns.push(options.time_column);
        columns.len() - 1
    });
    let is_shifted = |column: &usize| {
        let field = spec.table.schema.field(*column);
        let is_time =
            matches!(field.data_type(), DataType::Timestamp(..)) && FileMetadata::of(field).is_none();
        *column == options.time_column || is_time
    };
    let indices = |wanted: &dyn Fn(&usize) -> bool| -> Vec<usize> {
        spec.columns.iter().enumerate().filter(|(_, column)| wanted(column)).map(|(index, _)| index).collect()
    };
    let spread = Spread {
        copies: options.copies,
        shifted: indices(&is_shifted),
        keys: indices(&|column| options.spread_keys.contains(column)),
    };
    let copies = options.copies as u64;
    let decoder = PieceDecoder::new(open_reader(columns)?, time_index, spec.columns.len());
    let first_due = env.restored.map(|restored| restored.rows / copies);
    let skipped = env.skip_rows / copies;
    let passes = Passes::new(decoder, dead, options.passes, options.cache_bytes_max, skipped);
    Ok(Box::new(ReplayScan {
        passes: passes.due_from(first_due.unwrap_or(0)).behind(env.behind),
        spread,
        speed: options.speed,
        pace: Pace { start: env.start, tick: options.tick },
        ahead: VecDeque::with_capacity(PIECES_AHEAD),
        row: 0,
        copies_to_skip: (env.skip_rows % copies) as usize,
        decoded_until: env.start,
        end: None,
    }))
}

/// Pieces decoded ahead, the one that is given out just now included: while its last rows are due, the next one is
/// there in any case.
const PIECES_AHEAD: usize = 2;

/// See the module. `row` of the first of the pieces `ahead` is offered next.
struct ReplayScan {
    passes: Passes,
    spread: Spread,
    speed: f64,
    pace: Pace,
    /// Decoded, and not all given out.
    ahead: VecDeque<Piece>,
    row: usize,
    /// Of the first row that is delivered, the copies that are left out.
    copies_to_skip: usize,
    /// When the last decoded row is due.
    decoded_until: ProcessingTime,
    /// How the table ended; a fault is told once.
    end: Option<Result<(), ConnectError>>,
}

impl Scan for ReplayScan {
    fn poll(&mut self, now: ProcessingTime) -> Result<ScanEvent, ConnectError> {
        while self.ahead.is_empty() {
            if let Some(end) = &mut self.end {
                return std::mem::replace(end, Ok(())).map(|()| ScanEvent::End);
            }
            if self.decode()? == Preparation::Waiting {
                return Ok(ScanEvent::Waiting);
            }
        }
        Ok(self.offer(now))
    }

    fn prepare(&mut self) -> Result<Preparation, ConnectError> {
        if self.ahead.len() >= PIECES_AHEAD || self.end.is_some() {
            return Ok(Preparation::Ready);
        }
        self.decode()
    }

    fn prepared_until(&self) -> Option<ProcessingTime> {
        let is_needed = self.end.is_none() && !self.passes.is_cached();
        is_needed.then(|| self.pace.release(self.decoded_until))
    }

    fn is_repeatable(&self) -> bool {
        self.passes.is_repeatable()
    }

    fn records(&mut self) -> Option<u64> {
        while self.ahead.is_empty()
            && self.passes.is_skipping()
            && self.prepare().is_ok_and(|preparation| preparation == Preparation::More)
        {}
        Some(match self.ahead.front() {
            Some(piece) => piece.records_before + piece.batch.numbering.of_row(self.row),
            None => self.passes.records(),
        })
    }

    fn event_clock(&self) -> Option<EventClock> {
        let (first_ms, before_ms) = (self.passes.first_ms()?, self.passes.before_first_due_ms()?);
        Some(EventClock {
            event_origin: EventTime(first_ms.saturating_add(before_ms)),
            processing_origin: self.pace.start,
            speed: self.speed,
        })
    }

    fn held_bytes(&self) -> u64 {
        let ahead_bytes = match self.passes.keeps_pieces() {
            true => 0,
            false => self.ahead.iter().map(|piece| piece.batch.bytes()).sum(),
        };
        self.passes.held_bytes() + ahead_bytes
    }

    fn dead_rows(&self) -> u64 {
        self.passes.dead_rows()
    }

    fn progress(&self) -> Option<f64> {
        if self.end.is_some() && self.ahead.is_empty() {
            return Some(1.0);
        }
        let waiting: usize = self.ahead.iter().map(|piece| piece.batch.rows.num_rows()).sum();
        self.passes.progress((waiting - self.row) as u64)
    }
}

impl ReplayScan {
    /// What of the first piece is due at `now`.
    fn offer(&mut self, now: ProcessingTime) -> ScanEvent {
        let piece = &self.ahead[0];
        let due_ms = &piece.batch.due_ms;
        let due = |row: usize| self.due(due_ms[row], piece.shift_ms);
        let next_due = due(self.row);
        let Some(released) = self.pace.released(now).filter(|released| next_due <= *released) else {
            return ScanEvent::NotBefore(self.pace.release(next_due));
        };
        let limit = (MAX_BATCH_ROWS / self.spread.copies).max(1).min(due_ms.len() - self.row);
        let ahead = &due_ms[self.row..self.row + limit];
        let count = ahead.partition_point(|due_ms| self.due(*due_ms, piece.shift_ms) <= released);
        let arrival = due(self.row + count - 1);
        let rows = piece.batch.rows.slice(self.row, count);
        let mut rows = self.spread.apply(&rows, piece.pass, piece.shift_ms);
        self.row += count;
        if self.row == due_ms.len() {
            self.ahead.pop_front();
            self.row = 0;
        }
        let skipped = std::mem::take(&mut self.copies_to_skip);
        if skipped > 0 {
            rows = rows.slice(skipped, rows.num_rows() - skipped);
        }
        ScanEvent::Batch(ScannedBatch { rows, arrival })
    }

    /// Does one piece of work.
    fn decode(&mut self) -> Result<Preparation, ConnectError> {
        match self.passes.step() {
            Ok(PassStep::Piece(piece)) => {
                let last_ms = *piece.batch.due_ms.last().expect("a piece has rows");
                self.decoded_until = self.due(last_ms, piece.shift_ms);
                if self.ahead.is_empty() {
                    self.row = piece.skip;
                }
                self.ahead.push_back(piece);
                if self.ahead.len() >= PIECES_AHEAD {
                    return Ok(Preparation::Ready);
                }
            }
            Ok(PassStep::More) => {}
            Ok(PassStep::Waiting) => return Ok(Preparation::Waiting),
            Ok(PassStep::End) => self.end = Some(Ok(())),
            Err(error) => self.end = Some(Err(error)),
        }
        Ok(Preparation::More)
    }

    /// When a row is due whose pass is `shift_ms` after the first one.
    fn due(&self, due_ms: i64, shift_ms: i64) -> ProcessingTime {
        let first_ms = self.passes.first_ms().unwrap_or(due_ms);
        // Rows before the first one that has a time are due at once.
        let ahead_ms = due_ms.saturating_sub(first_ms).max(0) as f64 + shift_ms as f64;
        let before_ms = self.passes.before_first_due_ms().unwrap_or(0) as f64;
        self.pace.start.plus_ns(((ahead_ms - before_ms).max(0.0) * 1e6 / self.speed) as u64)
    }
}

#[cfg(test)]
mod tests;
