//! Messages on their way from the client's thread to the scan: their parts are kept apart, so that keys and values can
//! be decoded together, and parts that nobody reads are not copied.

use std::sync::Arc;

use laxity_connect::Records;
use rdkafka::bindings::rd_kafka_timestamp_type_t;

use crate::Record;

/// Which parts of a message are asked for, besides its value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub key: bool,
    pub headers: bool,
    pub leader_epoch: bool,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub topic: Arc<str>,
    pub number: i32,
    /// Its number in the column of splits, the same after a restart, whichever partitions are found first then.
    pub split: i32,
    /// Offset of the first message that is read of it.
    pub start: i64,
}

/// Some messages in the order in which they came, part by part.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub values: Records,
    pub keys: Records,
    /// Number of the partition, as they were found.
    pub splits: Vec<i32>,
    pub offsets: Vec<i64>,
    /// Milliseconds since 1970; -1 where a message has none.
    pub timestamps_ms: Vec<i64>,
    pub timestamp_types: Vec<TimestampType>,
    pub headers: Vec<Vec<(String, Option<Vec<u8>>)>>,
    pub leader_epochs: Vec<Option<i32>>,
}

/// What a message's timestamp is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimestampType {
    None,
    Create,
    LogAppend,
}

impl TimestampType {
    fn of(kind: rd_kafka_timestamp_type_t) -> TimestampType {
        match kind {
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => TimestampType::None,
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME => TimestampType::Create,
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => TimestampType::LogAppend,
        }
    }

    /// As Flink writes it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            TimestampType::None => "NoTimestampType",
            TimestampType::Create => "CreateTime",
            TimestampType::LogAppend => "LogAppendTime",
        }
    }
}

impl Chunk {
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of the messages.
    pub(crate) fn bytes(&self) -> usize {
        // The numbers of a message take about as much.
        self.values.bytes() + self.keys.bytes() + 64 * self.len()
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.values.held_bytes() + self.keys.held_bytes() + 32 * self.offsets.capacity() as u64
    }

    pub(crate) fn push(&mut self, split: i32, record: &Record, wanted: Wanted) {
        self.values.push(record.value());
        if wanted.key {
            self.keys.push(record.key());
        }
        self.splits.push(split);
        self.offsets.push(record.offset());
        let (ms, kind) = record.timestamp_ms();
        self.timestamps_ms.push(ms);
        self.timestamp_types.push(TimestampType::of(kind));
        if wanted.headers {
            self.headers.push(record.headers());
        }
        if wanted.leader_epoch {
            self.leader_epochs.push(record.leader_epoch());
        }
    }

    pub(crate) fn append(&mut self, other: &mut Chunk) {
        self.values.append(&other.values);
        self.keys.append(&other.keys);
        self.splits.append(&mut other.splits);
        self.offsets.append(&mut other.offsets);
        self.timestamps_ms.append(&mut other.timestamps_ms);
        self.timestamp_types.append(&mut other.timestamp_types);
        self.headers.append(&mut other.headers);
        self.leader_epochs.append(&mut other.leader_epochs);
        other.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.keys.clear();
        self.splits.clear();
        self.offsets.clear();
        self.timestamps_ms.clear();
        self.timestamp_types.clear();
        self.headers.clear();
        self.leader_epochs.clear();
    }
}
