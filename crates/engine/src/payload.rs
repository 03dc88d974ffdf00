use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use laxity_graph::EventTime;
use laxity_operators::StreamBatch;
use laxity_sched::Stamps;

/// What a message carries from one operator instance to the next: rows, then the watermark that follows
/// them. One message for both halves the number of dispatches.
#[derive(Debug)]
pub(crate) struct Payload {
    pub batch: Option<StreamBatch>,
    pub watermark: Option<EventTime>,
    /// The channel falls silent: it no longer holds the watermark back.
    pub idle: bool,
    pub stamps: Stamps,
    /// End of the window this is the result of.
    pub window_end: Option<EventTime>,
}

/// Bytes of the rows of a batch, without buffers shared with other slices. Exact for fixed widths and strings;
/// nested columns count what their buffers hold.
pub(crate) fn batch_bytes(rows: &RecordBatch) -> u64 {
    let count = rows.num_rows();
    rows.columns().iter().map(|column| column_bytes(column.as_ref(), count)).sum::<usize>() as u64
}

fn column_bytes(column: &dyn Array, rows: usize) -> usize {
    match column.data_type() {
        DataType::Utf8 => {
            let offsets = column.as_string::<i32>().value_offsets();
            (offsets[rows] - offsets[0]) as usize + 4 * rows
        }
        DataType::Binary => {
            let offsets = column.as_binary::<i32>().value_offsets();
            (offsets[rows] - offsets[0]) as usize + 4 * rows
        }
        DataType::Boolean => rows.div_ceil(8),
        other => match other.primitive_width() {
            Some(width) => width * rows,
            None => column.get_array_memory_size(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn bytes_of_a_slice_are_those_of_its_rows() {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "bcd", "", "efgh"]));
        let batch = RecordBatch::try_from_iter([("i", ints), ("s", text)]).unwrap();
        assert_eq!(batch_bytes(&batch), 4 * 8 + 8 + 4 * 4);
        // Two rows: two ints, the bytes of "bcd" and "", two offsets.
        assert_eq!(batch_bytes(&batch.slice(1, 2)), 2 * 8 + 3 + 2 * 4);
    }
}
