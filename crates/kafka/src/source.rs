//! Topics that are read.

mod chunk;
mod columns;
mod fetch;
mod handover;
mod idle;
mod scan;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use laxity_connect::{
    ConnectError, DeadLetterOptions, Direction, OptionError, OptionReader, Scan, ScanEnvironment, ScanSpec,
    SourceConnector, TableSpec,
};
use rdkafka::config::ClientConfig;

use crate::offsets::Place;
use crate::properties;
use crate::record_format::RecordFormats;
use crate::topics::Topics;

/// `'connector' = 'kafka'`, read.
pub(crate) struct KafkaSource;

/// The WITH clause.
#[derive(Clone, Debug)]
struct SourceOptions {
    client: ClientConfig,
    topics: Topics,
    start: Place,
    end: Option<Place>,
    /// How often new partitions are looked for; `None` is never.
    discovery: Option<Duration>,
    formats: RecordFormats,
    dead_letters: DeadLetterOptions,
    /// From when the latency of a row counts.
    arrival: Arrival,
    /// A partition that is silent for so long is not waited for.
    idle_after: Option<Duration>,
}

/// `laxity.arrival`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// The record's own time.
    Record,
    /// When it came to us.
    Fetch,
}

/// Flink's.
const DISCOVERY_DEFAULT: Duration = Duration::from_secs(300);

impl SourceOptions {
    fn read(options: &OptionReader<'_>) -> Result<SourceOptions, OptionError> {
        let topics = Topics::read(options)?;
        let mut client = properties::read(options)?;
        let start = Place::of_start(options)?;
        let end = Place::of_end(options)?;
        let discovery = options.duration("scan.topic-partition-discovery.interval")?;
        let discovery = discovery.unwrap_or(DISCOVERY_DEFAULT);
        let formats = RecordFormats::read(options, Direction::Read)?;
        let mut dead_letters = DeadLetterOptions::read(options)?;
        if formats.tolerates_none() {
            dead_letters.tolerate_none();
        }
        let arrivals = [("record", Arrival::Record), ("fetch", Arrival::Fetch)];
        let arrival = options.choice("laxity.arrival", &arrivals)?.unwrap_or(Arrival::Record);
        let idle_after = options.duration("scan.watermark.idle-timeout")?;
        // Of the same table where it is written.
        crate::sink::ask_for_options(options);
        options.finish()?;
        set_defaults(&mut client, end.is_some());
        Ok(SourceOptions {
            client,
            topics,
            start,
            discovery: Some(discovery).filter(|interval| !interval.is_zero() && end.is_none()),
            end,
            formats,
            dead_letters,
            arrival,
            idle_after: idle_after.filter(|after| !after.is_zero()),
        })
    }
}

/// Where the client's own defaults are not Flink's, or not ours.
fn set_defaults(client: &mut ClientConfig, is_bounded: bool) {
    let defaults = [
        // Asked for even where there is no group; nothing is committed unless the user wants it.
        ("group.id", "laxity"),
        ("enable.auto.commit", "false"),
        // Where reading begins is found before; this is for records that are gone when they are to be read.
        ("auto.offset.reset", "error"),
        ("isolation.level", "read_uncommitted"),
        // What is brought ahead counts against nobody's bound, and librdkafka's 64 MB are many for a thousand tables.
        ("queued.max.messages.kbytes", "16384"),
        // Half a second between two requests to a partition that has nothing would be seen in latencies after a pause.
        ("fetch.queue.backoff.ms", "10"),
    ];
    for (key, value) in defaults {
        if client.get(key).is_none() {
            client.set(key, value);
        }
    }
    client.set("enable.partition.eof", if is_bounded { "true" } else { "false" });
}

impl SourceConnector for KafkaSource {
    fn validate(&self, _table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        SourceOptions::read(options).map(drop)
    }

    fn open(
        &self,
        spec: &ScanSpec,
        env: &ScanEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<Box<dyn Scan>, ConnectError> {
        let source = SourceOptions::read(options)?;
        Ok(Box::new(scan::KafkaScan::open(spec, env, source)?))
    }

    fn is_bounded(&self, table: &TableSpec) -> bool {
        table.options.get("scan.bounded.mode").is_some_and(|mode| mode != "unbounded")
    }
}
