//! The decoding step of a replay: each row of a piece gets the time at which it is due, which never falls from row to
//! row.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};

use crate::ConnectError;
use crate::dead_letter::BadRow;
use crate::numbering::Numbering;
use crate::reader::{Step, TableReader};

/// Decoded rows with the times at which they are due.
pub(super) struct TimedBatch {
    /// The columns that are delivered.
    pub rows: RecordBatch,
    /// The highest time column so far: a row out of order is due with the rows around it. `i64::MIN` before the
    /// first row that has a time.
    pub due_ms: Vec<i64>,
    /// Where they stand among the records of a pass.
    pub numbering: Numbering,
}

impl TimedBatch {
    pub(super) fn bytes(&self) -> u64 {
        (self.rows.get_array_memory_size() + self.due_ms.len() * size_of::<i64>()) as u64
    }
}

/// Decodes the files of a replay, piece by piece, once or again and again.
pub(super) struct PieceDecoder {
    reader: TableReader,
    /// The time column among those that are read.
    time_index: usize,
    /// Columns that are delivered: the first ones of those that are read.
    output: Vec<usize>,
    /// The time of the first row of the files that has one.
    first_ms: Option<i64>,
    /// The highest time of this pass; `None` until a row has one.
    max_ms: Option<i64>,
    /// Rows of this pass.
    rows: u64,
}

/// What came of a step.
pub(super) enum DecoderStep {
    Piece(TimedBatch),
    More,
    Waiting,
    /// All files were read.
    End,
}

impl PieceDecoder {
    pub(super) fn new(reader: TableReader, time_index: usize, output: usize) -> PieceDecoder {
        let output = (0..output).collect();
        PieceDecoder { reader, time_index, output, first_ms: None, max_ms: None, rows: 0 }
    }

    pub(super) fn step(&mut self) -> Result<DecoderStep, ConnectError> {
        Ok(match self.reader.step()? {
            Step::Rows(rows) => DecoderStep::Piece(self.timed(rows)),
            Step::More => DecoderStep::More,
            Step::Waiting => DecoderStep::Waiting,
            Step::Quiet => unreachable!("a table is replayed or followed, not both"),
            Step::End => DecoderStep::End,
        })
    }

    /// As [`TableReader::take_bad`].
    pub(super) fn take_bad(&mut self) -> Option<(Arc<Path>, Vec<BadRow>)> {
        self.reader.take_bad()
    }

    /// As [`TableReader::numbering`].
    pub(super) fn numbering(&self) -> &Numbering {
        self.reader.numbering()
    }

    /// Records so far in this pass.
    pub(super) fn records(&self) -> u64 {
        self.reader.records()
    }

    /// Starts again with the first row.
    pub(super) fn rewind(&mut self) -> Result<(), ConnectError> {
        (self.max_ms, self.rows) = (None, 0);
        self.reader.rewind()
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.reader.held_bytes()
    }

    pub(super) fn is_repeatable(&self) -> bool {
        self.reader.is_repeatable()
    }

    /// Part of the files read in this pass.
    pub(super) fn progress(&self) -> Option<f64> {
        self.reader.progress()
    }

    pub(super) fn first_ms(&self) -> Option<i64> {
        self.first_ms
    }

    /// Rows so far in this pass.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// After a whole pass: from its first row to the first one of the next, which follows the last one at the mean
    /// distance of two rows.
    pub(super) fn span_ms(&self) -> i64 {
        let (Some(first), Some(max)) = (self.first_ms, self.max_ms) else { return 1 };
        let length = max.saturating_sub(first);
        let gaps = i64::try_from(self.rows).unwrap_or(i64::MAX).saturating_sub(1).max(1);
        length.saturating_add((length / gaps).max(1))
    }

    fn timed(&mut self, rows: RecordBatch) -> TimedBatch {
        let mut due_ms = times_ms(&rows, self.time_index);
        for time_ms in &mut due_ms {
            if *time_ms != NO_TIME {
                self.first_ms.get_or_insert(*time_ms);
                self.max_ms = Some(self.max_ms.map_or(*time_ms, |max| max.max(*time_ms)));
            }
            *time_ms = self.max_ms.unwrap_or(NO_TIME);
        }
        self.rows += due_ms.len() as u64;
        let rows = match self.output.len() == rows.num_columns() {
            true => rows,
            false => rows.project(&self.output).expect("the output is a part of the columns"),
        };
        TimedBatch { rows, due_ms, numbering: self.reader.numbering().clone() }
    }
}

const NO_TIME: i64 = i64::MIN;

fn times_ms(rows: &RecordBatch, column: usize) -> Vec<i64> {
    let column = rows.column(column);
    let (values, to_ms): (&[i64], fn(i64) -> i64) = match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            (column.as_primitive::<TimestampSecondType>().values(), |s| s.saturating_mul(1_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            (column.as_primitive::<TimestampMillisecondType>().values(), |ms| ms)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            (column.as_primitive::<TimestampMicrosecondType>().values(), |us| us.div_euclid(1_000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            (column.as_primitive::<TimestampNanosecondType>().values(), |ns| ns.div_euclid(1_000_000))
        }
        _ => (column.as_primitive::<Int64Type>().values(), |ms| ms),
    };
    let mut times: Vec<i64> = values.iter().map(|value| to_ms(*value)).collect();
    if let Some(nulls) = column.nulls() {
        for (time, valid) in times.iter_mut().zip(nulls) {
            *time = if valid { *time } else { NO_TIME };
        }
    }
    times
}
