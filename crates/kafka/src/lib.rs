//! `'connector' = 'kafka'`: topics as tables, with Flink's options.
//!
//! The client is librdkafka's. A thread of each table waits for its messages and brings their bytes; they are decoded
//! wherever the engine has time for that, as those of files are. Call [`register`] before any SQL is read.
//!
//! Start with `source`; what is written, with `sink`.

mod batches;
mod client;
mod error;
mod metadata;
mod offsets;
mod properties;
mod record_format;
mod sink;
mod source;
mod topics;

use laxity_connect::{Connector, MetadataKey, SinkConnector, SourceConnector};

pub use self::batches::{Batches, Record};

/// Makes `'connector' = 'kafka'` known to this process.
pub fn register() {
    laxity_connect::register(&Kafka);
}

struct Kafka;

impl Connector for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn source(&self) -> Option<&dyn SourceConnector> {
        Some(&source::KafkaSource)
    }

    fn sink(&self) -> Option<&dyn SinkConnector> {
        Some(&sink::KafkaSink)
    }

    fn metadata(&self) -> &'static [MetadataKey] {
        metadata::KEYS
    }

    fn reads_fields(&self) -> bool {
        true
    }

    fn has_splits(&self) -> bool {
        true
    }
}
