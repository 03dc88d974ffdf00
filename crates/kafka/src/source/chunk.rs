//! Messages on their way from the client's thread to the scan: their parts are kept apart, so that keys and values can
//! be decoded together, and parts that nobody reads are not copied.

use std::sync::Arc;

use laxity_connect::Records;
use rdkafka::Message;
use rdkafka::Timestamp;
use rdkafka::message::{BorrowedMessage, Headers};

/// Which parts of a message are asked for, besides its value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub key: bool,
    pub headers: bool,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub topic: Arc<str>,
    pub number: i32,
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
}

/// What a message's timestamp is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimestampType {
    None,
    Create,
    LogAppend,
}

impl TimestampType {
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

    pub(crate) fn push(&mut self, split: i32, message: &BorrowedMessage<'_>, wanted: Wanted) {
        self.values.push(message.payload());
        if wanted.key {
            self.keys.push(message.key());
        }
        self.splits.push(split);
        self.offsets.push(message.offset());
        let (ms, kind) = match message.timestamp() {
            Timestamp::NotAvailable => (-1, TimestampType::None),
            Timestamp::CreateTime(ms) => (ms, TimestampType::Create),
            Timestamp::LogAppendTime(ms) => (ms, TimestampType::LogAppend),
        };
        self.timestamps_ms.push(ms);
        self.timestamp_types.push(kind);
        if wanted.headers {
            let headers = message.headers().map(|headers| {
                headers
                    .iter()
                    .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                    .collect()
            });
            self.headers.push(headers.unwrap_or_default());
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
    }
}
