//! Topics that are written.

mod deliveries;
mod encoder;
mod frame;
mod opening;
mod output;
#[cfg(test)]
mod tests;
mod transactions;

use std::time::Duration;

use laxity_connect::{
    ConnectError, DeadLetterOptions, Delivery, Direction, OpenSink, OptionError, OptionReader, Output,
    SinkConnector, SinkEnvironment, TableSpec,
};
use rdkafka::config::ClientConfig;

use self::encoder::KafkaEncoder;
use self::output::KafkaOutput;
use self::transactions::{TransactionalOutput, Transactions};
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
    /// `sink.transactional-id-prefix`; only with `exactly-once`.
    transactional_id_prefix: Option<String>,
    partitioner: Partitioner,
}

/// `sink.delivery-guarantee`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarantee {
    /// Rows are handed to the client, and what becomes of them is not waited for.
    None,
    /// Every row is there when the brokers have said so, which is waited for as long as it takes.
    AtLeastOnce,
    /// Rows are in a transaction that a checkpoint commits.
    ExactlyOnce,
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
const PREFIX: &str = "sink.transactional-id-prefix";
const TIMEOUT: &str = "transaction.timeout.ms";
const TIMEOUT_DEFAULT: &str = "900000";

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
            ("at-least-once", Guarantee::AtLeastOnce),
            ("exactly-once", Guarantee::ExactlyOnce),
            ("none", Guarantee::None),
        ];
        let guarantee = options.choice(GUARANTEE, &guarantees)?.unwrap_or(Guarantee::AtLeastOnce);
        let prefix = options.text(PREFIX).map(str::to_owned);
        match (guarantee, prefix.as_deref()) {
            (Guarantee::ExactlyOnce, None | Some("")) => {
                let message = "missing; 'exactly-once' writes in transactions, whose ids begin so: take a name that no other program has";
                return Err(options.error(PREFIX, message));
            }
            (Guarantee::ExactlyOnce, Some(_)) | (_, None) => {}
            (_, Some(_)) => {
                return Err(options.error(PREFIX, "is for 'sink.delivery-guarantee' = 'exactly-once'"));
            }
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
        Ok(SinkOptions { client, topic, formats, guarantee, transactional_id_prefix: prefix, partitioner })
    }

    /// Brokers abort a transaction that is open for longer.
    fn transaction_timeout(&self) -> Duration {
        let given = self.client.get(TIMEOUT).unwrap_or(TIMEOUT_DEFAULT);
        Duration::from_millis(given.parse().unwrap_or(u64::MAX))
    }
}

/// So that a table that is written too may be read.
pub(crate) fn ask_for_options(options: &OptionReader<'_>) {
    for key in [GUARANTEE, PARTITIONER, PREFIX] {
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
    if guarantee == Guarantee::ExactlyOnce {
        // As long as brokers allow if nobody has told them otherwise: a checkpoint may be late.
        defaults.push((TIMEOUT, TIMEOUT_DEFAULT));
    }
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
        let settings = SinkOptions::read(options)?;
        let once = settings.guarantee == Guarantee::ExactlyOnce;
        if once && !env.is_checkpointed {
            let message = "'exactly-once' commits with checkpoints: SET 'execution.checkpointing.interval', or take 'at-least-once'";
            return Err(options.error(GUARANTEE, message).into());
        }
        let timeout = settings.transaction_timeout();
        if let Some(interval) = env.checkpoint_interval.filter(|interval| once && *interval >= timeout) {
            let message = format!(
                "{timeout:?}, and a transaction is open from one checkpoint to the next, {interval:?}: the brokers would abort \
                 it; let it be longer, or checkpoints more frequent"
            );
            return Err(options.error(&format!("properties.{TIMEOUT}"), message).into());
        }
        // A partition for each query is what 'fixed' says, and a transaction ends with a query's own checkpoint.
        let serves_all = settings.partitioner != Partitioner::Fixed && !env.is_checkpointed;
        let encoder = KafkaEncoder::new(&settings, &table.schema);
        let transactions = once.then(|| Transactions::new(&settings, &table.name, &env.query));
        let writer = KafkaOutput::new(table.name.clone(), settings, env.part, env.waiting.clone());
        let output: Box<dyn Output> = match transactions {
            Some(of) => Box::new(TransactionalOutput::new(writer, of, env.resume.is_none())),
            None => Box::new(writer),
        };
        Ok(OpenSink { encoder: Box::new(encoder), output: Some(output), may_stall: true, serves_all })
    }

    fn committed(
        &self,
        table: &TableSpec,
        env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<Option<u64>, ConnectError> {
        let settings = SinkOptions::read(options)?;
        if settings.guarantee != Guarantee::ExactlyOnce {
            return Ok(None);
        }
        let of = Transactions::new(&settings, &table.name, &env.query);
        let writer = KafkaOutput::new(table.name.clone(), settings, env.part, env.waiting.clone());
        of.committed(&writer, env.resume.is_some()).map(Some)
    }

    fn keeps_record(&self, _table: &TableSpec, options: &OptionReader<'_>) -> bool {
        SinkOptions::read(options).is_ok_and(|settings| settings.guarantee == Guarantee::ExactlyOnce)
    }

    fn delivery(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Delivery {
        match SinkOptions::read(options).map(|settings| settings.guarantee) {
            Ok(Guarantee::ExactlyOnce) => Delivery::ExactlyOnce,
            _ => Delivery::AtLeastOnce,
        }
    }
}
