//! Small messages of one operator processed as one batch, while there is slack (which the scheduler judges).
//!
//! Results do not depend on it: a row carries the watermark before it, and watermarks that fall away were passed
//! by a later one, as inside a batch that a source has cut. A merged batch is stamped as the earliest of its
//! messages: its results, and those of windows it goes into, count from the earliest arrival in it, so merging
//! never makes a result look faster than it was. What it says of the frontier counts from the latest.

use laxity_graph::ProcessingTime;

use crate::Content;
use crate::payload::Parcel;

/// Rows of a merged batch at most. A call's fixed cost of a microsecond is then a nanosecond a row, and a batch
/// of twice as many gains little more.
pub const MERGED_ROWS_MAX: u32 = 1_024;

/// Messages merged at most: they are taken out under the scheduler's lock, at some 50 ns each.
pub const MERGED_MESSAGES_MAX: usize = 256;

/// Whether `next` may be processed together with what was granted before it.
pub fn fits<C: Content>(first: &Parcel<C>, next: &Parcel<C>) -> bool {
    first.body.goes_with(&next.body)
}

/// Appends the rows of `others` to `first`, and empties it. Returns the latest arrival among all.
///
/// # Errors
/// If the schemas differ, which those of one channel never do.
pub(crate) fn merge<C: Content>(
    first: &mut Parcel<C>,
    others: &mut Vec<Parcel<C>>,
) -> Result<ProcessingTime, C::Error> {
    let mut latest = first.body.stamps.ingested;
    if others.is_empty() {
        return Ok(latest);
    }
    let batch = {
        let messages = std::iter::once(&*first).chain(others.iter());
        let batches: Vec<&C::Batch> = messages.filter_map(|message| message.body.batch.as_ref()).collect();
        C::concat(&batches)
    };
    for message in others.drain(..) {
        first.rows += message.rows;
        first.bytes += message.bytes;
        first.body.watermark = first.body.watermark.max(message.body.watermark);
        let ingested = message.body.stamps.ingested;
        latest = latest.max(ingested);
        if ingested < first.body.stamps.ingested {
            // Only where a channel is out of order; the way to here was as long as the first one's.
            first.body.stamps = first.body.stamps.released(ingested);
        }
    }
    first.body.batch = Some(batch?);
    Ok(latest)
}

#[cfg(all(test, feature = "operators"))]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use arrow::record_batch::RecordBatch;
    use laxity_graph::{EventTime, OperatorId};
    use laxity_operators::StreamBatch;
    use laxity_sched::{Message, Stamps};

    use super::*;
    use crate::{ArrowRows, Payload};

    fn message(
        values: &[i64],
        before: Option<i64>,
        watermark: Option<i64>,
        ingested: u64,
    ) -> Parcel<ArrowRows> {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let rows = RecordBatch::try_from_iter([("v", column)]).unwrap();
        let watermark_before = before.map(|w| vec![w; values.len()].into());
        let arrived = ProcessingTime(ingested);
        Message {
            to: OperatorId(0),
            channel: 0,
            progress: EventTime::MIN,
            ingested: arrived,
            rows: values.len() as u32,
            bytes: 8 * values.len() as u64,
            body: Payload {
                batch: Some(StreamBatch { rows, watermark_before }),
                watermark: watermark.map(EventTime),
                idle: false,
                is_alone: false,
                tells_time: false,
                stamps: Stamps::admitted(arrived, ProcessingTime(ingested + 10)),
                window_end: None,
            },
        }
    }

    #[test]
    fn rows_keep_their_order_and_their_watermarks() {
        let mut first = message(&[1, 2], None, Some(5), 100);
        let mut others = vec![message(&[3], Some(7), None, 120), message(&[4], None, Some(9), 140)];
        let latest = merge::<ArrowRows>(&mut first, &mut others).unwrap();
        let batch = first.body.batch.as_ref().unwrap();
        assert_eq!(batch.rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3, 4]);
        let before = batch.watermark_before.as_ref().unwrap();
        assert_eq!(&before[..], &[i64::MIN, i64::MIN, 7, i64::MIN]);
        assert_eq!((first.rows, first.bytes, first.body.watermark), (4, 32, Some(EventTime(9))));
        // Counted from the first arrival; the frontier learns from the last.
        assert_eq!((first.body.stamps.ingested, latest), (ProcessingTime(100), ProcessingTime(140)));
        assert!(others.is_empty());
    }

    #[test]
    fn an_earlier_message_behind_a_later_one_is_not_forgotten() {
        let mut first = message(&[1], None, None, 100);
        merge::<ArrowRows>(&mut first, &mut vec![message(&[2], None, None, 60)]).unwrap();
        let stamps = first.body.stamps;
        assert_eq!((stamps.ingested, stamps.admitted), (ProcessingTime(60), ProcessingTime(70)));
        assert!(first.body.batch.unwrap().watermark_before.is_none());
    }

    #[test]
    fn results_of_different_windows_stay_apart() {
        let first = message(&[1], None, None, 1);
        let mut next = message(&[2], None, None, 2);
        assert!(fits::<ArrowRows>(&first, &next));
        next.body.window_end = Some(EventTime(9));
        assert!(!fits::<ArrowRows>(&first, &next));
    }
}
