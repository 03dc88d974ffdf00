use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::ScalarBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampMillisecondType;
use datafusion_common::DataFusionError;

use crate::{DeadReason, DeadRows, Outbox, StreamBatch};

/// Takes rows without a time out. A source lets none through, an expression in between might.
pub(crate) fn without_null_times(
    batch: StreamBatch,
    columns: &[usize],
    out: &mut Outbox,
) -> Result<StreamBatch, DataFusionError> {
    if columns.iter().all(|&i| batch.rows.column(i).null_count() == 0) {
        return Ok(batch);
    }
    let is_valid = |row| columns.iter().all(|&i| batch.rows.column(i).is_valid(row));
    let keep: BooleanArray = (0..batch.num_rows()).map(|row| Some(is_valid(row))).collect();
    let refused = BooleanArray::new(!keep.values(), None);
    let rows = filter_record_batch(&batch.rows, &refused)?;
    out.dead.push(DeadRows { rows, reason: DeadReason::NullTime });
    let kept = |before: ScalarBuffer<i64>| {
        before.iter().zip(keep.values()).filter(|(_, keep)| *keep).map(|(before, _)| *before).collect()
    };
    Ok(StreamBatch {
        rows: filter_record_batch(&batch.rows, &keep)?,
        watermark_before: batch.watermark_before.map(kept),
    })
}

/// The milliseconds of a window's time column.
pub(crate) fn timestamps(column: &ArrayRef) -> Result<&[i64], DataFusionError> {
    match column.as_primitive_opt::<TimestampMillisecondType>() {
        Some(times) => Ok(times.values()),
        None => Err(DataFusionError::Internal(format!("a window's time is {}", column.data_type()))),
    }
}
