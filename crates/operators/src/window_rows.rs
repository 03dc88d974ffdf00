//! Rows that carry their window as columns: what of a batch is late, and which rows go to which window.

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Schema, TimeUnit};
use laxity_graph::EventTime;

use crate::expression::internal;
use crate::{DeadReason, DeadRows, LateRows, OperatorError, Outbox, StreamBatch};

/// A window by its end, then its start: the order in which windows close.
pub(crate) type WindowKey = (i64, i64);

/// The rows of one batch that belong to one window.
#[derive(Debug, PartialEq)]
pub(crate) struct WindowRows {
    pub(crate) window: WindowKey,
    /// `None`: all rows of the batch.
    pub(crate) rows: Option<Vec<u32>>,
}

/// Where the window columns are.
#[derive(Debug)]
pub(crate) struct WindowColumns {
    start: usize,
    end: usize,
}

impl WindowColumns {
    pub(crate) fn new(
        operator: &str,
        schema: &Schema,
        start: usize,
        end: usize,
    ) -> Result<WindowColumns, OperatorError> {
        check_timestamp(operator, schema, start)?;
        check_timestamp(operator, schema, end)?;
        Ok(WindowColumns { start, end })
    }

    /// Sorts the rows of a batch by window. Late rows (`window_end - 1 <=` the watermark before the row) go to
    /// `out.late`, rows without a window to `out.dead`.
    ///
    /// `watermark` is the operator's own. No later than the row's by contract, it only matters for rows of an
    /// input that had been declared idle.
    pub(crate) fn split(
        &self,
        batch: &StreamBatch,
        watermark: EventTime,
        out: &mut Outbox,
    ) -> Vec<WindowRows> {
        let (starts, ends) = (timestamps(&batch.rows, self.start), timestamps(&batch.rows, self.end));
        let count = batch.num_rows();
        if count == 0 {
            return Vec::new();
        }
        let no_nulls = starts.null_count() + ends.null_count() == 0;
        let window = (ends.value(0), starts.value(0));
        let is_one = no_nulls
            && batch.watermark_before.is_none()
            && ends.values().iter().all(|end| *end == window.0)
            && starts.values().iter().all(|start| *start == window.1);
        if is_one && !is_late(window.0, watermark.0) {
            return vec![WindowRows { window, rows: None }];
        }

        let (mut kept, mut late, mut dead) = (Vec::with_capacity(count), Vec::new(), Vec::new());
        for row in 0..count {
            if !no_nulls && (starts.is_null(row) || ends.is_null(row)) {
                dead.push(row as u32);
                continue;
            }
            let end = ends.value(row);
            let before = batch.watermark_before.as_ref().map_or(i64::MIN, |before| before[row]);
            if is_late(end, before.max(watermark.0)) {
                late.push(row as u32);
            } else {
                kept.push(((end, starts.value(row)), row as u32));
            }
        }
        if !late.is_empty() {
            let window_end = Int64Array::from_iter_values(late.iter().map(|&row| ends.value(row as usize)));
            out.late.push(LateRows { rows: choose(&batch.rows, late), window_end });
        }
        if !dead.is_empty() {
            out.dead.push(DeadRows { rows: choose(&batch.rows, dead), reason: DeadReason::NullTime });
        }
        // Sorting by row too keeps arrival order inside each window.
        kept.sort_unstable();
        kept.chunk_by(|a, b| a.0 == b.0)
            .map(|chunk| WindowRows {
                window: chunk[0].0,
                rows: Some(chunk.iter().map(|&(_, row)| row).collect()),
            })
            .collect()
    }
}

/// Flink's rule.
fn is_late(window_end: i64, watermark: i64) -> bool {
    window_end.saturating_sub(1) <= watermark
}

/// Milliseconds of a timestamp column, whatever its time zone.
///
/// # Panics
/// If the column is of another type, which [`check_timestamp`] excludes when the operator is made.
pub(crate) fn timestamps(rows: &RecordBatch, column: usize) -> &TimestampMillisecondArray {
    rows.column(column).as_any().downcast_ref().expect("checked when the operator was made")
}

/// Refuses a plan whose time column is of another type than `TIMESTAMP(3)` or `TIMESTAMP_LTZ(3)`.
pub(crate) fn check_timestamp(operator: &str, schema: &Schema, column: usize) -> Result<(), OperatorError> {
    match schema.fields().get(column) {
        Some(field) if matches!(field.data_type(), DataType::Timestamp(TimeUnit::Millisecond, _)) => Ok(()),
        Some(field) => {
            Err(internal(operator, format!("time column {} is a {}", field.name(), field.data_type())))
        }
        None => Err(internal(operator, format!("no column {column} in {} columns", schema.fields().len()))),
    }
}

/// Those rows, for reporting.
pub(crate) fn choose(rows: &RecordBatch, indices: Vec<u32>) -> RecordBatch {
    // Fails for indices out of range and overflowing offsets only; neither can come from rows of one batch.
    take_record_batch(rows, &UInt32Array::from(indices)).expect("indices are of this batch")
}

/// A timestamp column of the given type.
pub(crate) fn timestamp_column(values: Vec<i64>, data_type: &DataType) -> ArrayRef {
    let zone = match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    std::sync::Arc::new(TimestampMillisecondArray::from(values).with_timezone_opt(zone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn batch(windows: &[Option<(i64, i64)>], before: Option<Vec<i64>>) -> StreamBatch {
        let column = |pick: fn((i64, i64)) -> i64| -> ArrayRef {
            Arc::new(windows.iter().map(|w| w.map(pick)).collect::<TimestampMillisecondArray>())
        };
        let columns = [("s", column(|w| w.0), true), ("e", column(|w| w.1), true)];
        StreamBatch {
            rows: RecordBatch::try_from_iter_with_nullable(columns).unwrap(),
            watermark_before: before.map(Into::into),
        }
    }

    fn split(batch: &StreamBatch, watermark: i64) -> (Vec<WindowRows>, Outbox) {
        let mut out = Outbox::default();
        let columns = WindowColumns::new("w", &batch.rows.schema(), 0, 1).unwrap();
        let split = columns.split(batch, EventTime(watermark), &mut out);
        (split, out)
    }

    #[test]
    fn one_window_is_not_copied() {
        let (split, _) = split(&batch(&[Some((0, 10)), Some((0, 10))], None), 8);
        assert_eq!(split, [WindowRows { window: (10, 0), rows: None }]);
    }

    #[test]
    fn rows_are_sorted_by_window_end() {
        let windows = [Some((10, 20)), Some((0, 10)), None, Some((10, 20)), Some((0, 20))];
        let (split, out) = split(&batch(&windows, None), i64::MIN);
        let rows = |window, rows: &[u32]| WindowRows { window, rows: Some(rows.to_vec()) };
        assert_eq!(split, [rows((10, 0), &[1]), rows((20, 0), &[4]), rows((20, 10), &[0, 3])]);
        assert_eq!(out.dead[0].rows.num_rows(), 1);
    }

    #[test]
    fn late_is_judged_by_the_watermark_before_the_row() {
        // 10 - 1 <= 9 is late, 10 - 1 <= 8 is not.
        let windows = [Some((0, 10)); 3];
        let (split, out) = split(&batch(&windows, Some(vec![8, 9, 100])), i64::MIN);
        assert_eq!(split, [WindowRows { window: (10, 0), rows: Some(vec![0]) }]);
        assert_eq!(out.late[0].rows.num_rows(), 2);
        assert_eq!(out.late[0].window_end.values(), &[10, 10]);
    }

    #[test]
    fn rows_behind_the_own_watermark_are_late() {
        assert_eq!(split(&batch(&[Some((0, 10))], None), 9).1.late.len(), 1);
    }

    #[test]
    fn a_column_of_another_type_is_refused() {
        let schema = Schema::new(vec![arrow::datatypes::Field::new("s", DataType::Int64, true)]);
        let error = WindowColumns::new("w", &schema, 0, 1).unwrap_err();
        assert_eq!(error.to_string(), "w: internal error: time column s is a Int64 (please report this)");
    }
}
