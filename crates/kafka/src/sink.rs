//! Topics that are written.

mod encoder;
mod frame;
mod output;
#[cfg(test)]
mod tests;

use laxity_connect::{
    ConnectError, DeadLetterOptions, Direction, OpenSink, OptionError, OptionReader, SinkConnector,
    SinkEnvironment, TableSpec,
};
use rdkafka::config::ClientConfig;

use self::encoder::KafkaEncoder;
use self::output::KafkaOutput;
use crate::properties;
use crate::record_format::RecordFormats;
use crate::topics::Topics;

/// `'connector' = 'kafka'`, written.
pub(crate) struct KafkaSink;

/// The WITH clause.
#[derive(Clone, Debug)]
struct SinkOptions {
    client: ClientConfig,
    topic: String,
    formats: RecordFormats,
    guarantee: Guarantee,
    partitioner: Partitioner,
}

/// `sink.delivery-guarantee`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarantee {
    /// Rows are handed to the client, and what becomes of them is not waited for.
    None,
    /// Every row is there when the brokers have said so, which is waited for as long as it takes.
    AtLeastOnce,
}

/// `sink.partitioner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partitioner {
    /// By the key's hash, as Java's client; without a key, some partition for some time.
    Default,
    /// All rows of a query into one.
    Fixed,
    /// A row into each in turn.
    RoundRobin,
}

const GUARANTEE: &str = "sink.delivery-guarantee";
const PARTITIONER: &str = "sink.partitioner";

impl SinkOptions {
    fn read(options: &OptionReader<'_>) -> Result<SinkOptions, OptionError> {
        let topic = match Topics::read(options)? {
            Topics::Named(mut names) if names.len() == 1 => names.remove(0),
            Topics::Named(_) => {
                return Err(options.error("topic", "several; a table that is written has one"));
            }
            Topics::Pattern(_) => {
                let message = "a table that is written has one topic: name it in 'topic'";
                return Err(options.error("topic-pattern", message));
            }
        };
        let mut client = properties::read(options)?;
        let formats = RecordFormats::read(options, Direction::Write)?;
        let guarantees = [
            ("at-least-once", Some(Guarantee::AtLeastOnce)),
            ("none", Some(Guarantee::None)),
            ("exactly-once", None),
        ];
        let guarantee = options.choice(GUARANTEE, &guarantees)?.unwrap_or(Some(Guarantee::AtLeastOnce));
        let Some(guarantee) = guarantee else {
            let message = "'exactly-once' needs checkpoints, with which transactions are committed; there are none yet: take 'at-least-once'";
            return Err(options.error(GUARANTEE, message));
        };
        if options.text("sink.transactional-id-prefix").is_some() {
            let message = "is for 'sink.delivery-guarantee' = 'exactly-once'";
            return Err(options.error("sink.transactional-id-prefix", message));
        }
        let partitioners = [
            ("default", Partitioner::Default),
            ("fixed", Partitioner::Fixed),
            ("round-robin", Partitioner::RoundRobin),
        ];
        let partitioner = options.choice(PARTITIONER, &partitioners)?.unwrap_or(Partitioner::Default);
        if partitioner == Partitioner::RoundRobin && formats.key.is_some() {
            let message = "'round-robin' is for rows without a key, and 'key.fields' gives them one";
            return Err(options.error(PARTITIONER, message));
        }
        // Of the same table where it is read.
        ask_for_source_options(options)?;
        options.finish()?;
        set_defaults(&mut client, guarantee);
        Ok(SinkOptions { client, topic, formats, guarantee, partitioner })
    }
}

/// So that a table that is written too may be read.
pub(crate) fn ask_for_options(options: &OptionReader<'_>) {
    for key in [GUARANTEE, PARTITIONER, "sink.transactional-id-prefix"] {
        let _of_the_sink = options.text(key);
    }
}

fn ask_for_source_options(options: &OptionReader<'_>) -> Result<(), OptionError> {
    for key in [
        "scan.startup.mode",
        "scan.startup.timestamp-millis",
        "scan.startup.specific-offsets",
        "scan.bounded.mode",
        "scan.bounded.timestamp-millis",
        "scan.bounded.specific-offsets",
        "scan.topic-partition-discovery.interval",
        "scan.watermark.idle-timeout",
        "laxity.arrival",
    ] {
        let _of_the_source = options.text(key);
    }
    DeadLetterOptions::read(options).map(drop)
}

/// Where the client's own defaults are not Flink's, or not ours.
fn set_defaults(client: &mut ClientConfig, guarantee: Guarantee) {
    let has_acks = client.get("acks").is_some() || client.get("request.required.acks").is_some();
    let mut defaults = vec![
        ("partitioner", "murmur2_random"),
        // A row never waits in the client for others: they come as a batch already.
        ("linger.ms", "0"),
    ];
    if guarantee == Guarantee::AtLeastOnce {
        defaults.push(("message.timeout.ms", "0"));
        // Tried again, rows stay in order and are not doubled while the client lives.
        if !has_acks {
            defaults.push(("enable.idempotence", "true"));
        }
    }
    for (key, value) in defaults {
        if client.get(key).is_none() {
            client.set(key, value);
        }
    }
    // The group is for reading.
    client
        .remove("group.id")
        .remove("auto.offset.reset")
        .remove("enable.auto.commit")
        .remove("isolation.level");
}

impl SinkConnector for KafkaSink {
    fn validate(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        SinkOptions::read(options).map(drop)
    }

    fn open(
        &self,
        table: &TableSpec,
        env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<OpenSink, ConnectError> {
        let options = SinkOptions::read(options)?;
        // A partition for each query is what 'fixed' says.
        let serves_all = options.partitioner != Partitioner::Fixed;
        let encoder = KafkaEncoder::new(&options, &table.schema);
        let output = KafkaOutput::new(table.name.clone(), options, env.part);
        Ok(OpenSink {
            encoder: Box::new(encoder),
            output: Some(Box::new(output)),
            may_stall: true,
            serves_all,
        })
    }
}
