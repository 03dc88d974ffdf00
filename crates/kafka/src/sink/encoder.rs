//! From rows to the key, value, timestamp and headers of records. It runs on a worker and never speaks to a broker;
//! `output.rs` does.

use arrow::array::{Array, AsArray, MapArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, TimeUnit, TimestampMillisecondType};
use laxity_connect::{ConnectError, Encoder, MetadataKey, RecordEncoder, Records};

use super::SinkOptions;
use super::frame::Frame;

/// Makes frames of rows.
pub(super) struct KafkaEncoder {
    topic: String,
    value: Part,
    key: Option<Part>,
    /// Columns of METADATA.
    timestamp: Option<usize>,
    headers: Option<usize>,
}

struct Part {
    columns: Vec<usize>,
    encoder: Box<dyn RecordEncoder>,
    records: Records,
}

impl Part {
    fn new(part: &crate::record_format::Part) -> Part {
        let (columns, encoder) = (part.columns.clone(), part.format.encoder());
        Part { columns, encoder, records: Records::default() }
    }

    fn encode(&mut self, rows: &RecordBatch) -> Result<(), String> {
        self.records.clear();
        let rows = rows.project(&self.columns).map_err(|error| error.to_string())?;
        self.encoder.encode(&rows, &mut self.records)
    }
}

impl KafkaEncoder {
    pub(super) fn new(options: &SinkOptions, schema: &Schema) -> KafkaEncoder {
        let of_key = |key: &str| schema.fields().iter().position(|field| MetadataKey::of(field) == Some(key));
        KafkaEncoder {
            topic: options.topic.clone(),
            value: Part::new(&options.formats.value),
            key: options.formats.key.as_ref().map(Part::new),
            timestamp: of_key("timestamp"),
            headers: of_key("headers"),
        }
    }

    fn failed(&self, message: String) -> ConnectError {
        let action = format!("write topic '{}'", self.topic);
        ConnectError::Service { service: "Kafka".to_owned(), action, message }
    }
}

impl Encoder for KafkaEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let encoded = self.value.encode(rows);
        let encoded = encoded.and_then(|()| self.key.as_mut().map_or(Ok(()), |key| key.encode(rows)));
        encoded.map_err(|message| self.failed(message))?;
        let times = self.timestamp.map(|column| {
            let ms = DataType::Timestamp(TimeUnit::Millisecond, None);
            cast(rows.column(column), &ms).expect("a time is one of milliseconds")
        });
        let times = times.as_ref().map(|times| times.as_primitive::<TimestampMillisecondType>());
        let headers = self.headers.map(|column| rows.column(column).as_map());
        for row in 0..rows.num_rows() {
            let frame = Frame {
                key: self.key.as_ref().and_then(|key| key.records.get_opt(row)),
                value: self.value.records.get_opt(row),
                timestamp_ms: times.filter(|times| times.is_valid(row)).map(|times| times.value(row)),
                headers: headers.map(|headers| headers_of(headers, row)).unwrap_or_default(),
            };
            frame.put(out);
        }
        Ok(())
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }
}

fn headers_of(headers: &MapArray, row: usize) -> Vec<(&str, Option<&[u8]>)> {
    if headers.is_null(row) {
        return Vec::new();
    }
    let range = headers.value_offsets()[row] as usize..headers.value_offsets()[row + 1] as usize;
    let (names, values) = (headers.keys().as_string::<i32>(), headers.values().as_binary::<i32>());
    range.map(|at| (names.value(at), values.is_valid(at).then(|| values.value(at)))).collect()
}
