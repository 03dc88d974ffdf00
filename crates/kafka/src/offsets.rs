//! Where reading begins and where it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use laxity_connect::{OptionError, OptionReader};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

/// `scan.startup.mode`, or `scan.bounded.mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Earliest,
    Latest,
    /// What the group has committed.
    Group,
    /// The first record of that time or later.
    Timestamp(i64),
    /// By partition.
    Specific(BTreeMap<i32, i64>),
}

/// How long the client may take over one question.
pub(crate) const ASK: Duration = Duration::from_secs(5);

impl Place {
    /// Where reading begins. Flink's default is the group's place.
    pub(crate) fn of_start(options: &OptionReader<'_>) -> Result<Place, OptionError> {
        let key = "scan.startup.mode";
        let modes = [
            ("earliest-offset", "earliest"),
            ("latest-offset", "latest"),
            ("group-offsets", "group"),
            ("timestamp", "timestamp"),
            ("specific-offsets", "specific"),
        ];
        let mode = options.choice(key, &modes)?.unwrap_or("group");
        Place::read(options, "scan.startup", mode)
    }

    /// Where reading ends, if it does.
    pub(crate) fn of_end(options: &OptionReader<'_>) -> Result<Option<Place>, OptionError> {
        let modes = [
            ("unbounded", None),
            ("latest-offset", Some("latest")),
            ("group-offsets", Some("group")),
            ("timestamp", Some("timestamp")),
            ("specific-offsets", Some("specific")),
        ];
        match options.choice("scan.bounded.mode", &modes)?.flatten() {
            Some(mode) => Place::read(options, "scan.bounded", mode).map(Some),
            None => Place::read(options, "scan.bounded", "unbounded").map(|_| None),
        }
    }

    fn read(options: &OptionReader<'_>, scan: &str, mode: &str) -> Result<Place, OptionError> {
        let mode_key = format!("{scan}.mode");
        let time_key = format!("{scan}.timestamp-millis");
        let offsets_key = format!("{scan}.specific-offsets");
        let time =
            options.parsed(&time_key, "a time in milliseconds since 1970", |text| text.parse().ok())?;
        let example = "offsets such as 'partition:0,offset:42;partition:1,offset:300'";
        let offsets = options.parsed(&offsets_key, example, specific)?;
        let unused = |key: &str, given: bool, of: &str| match given && mode != of {
            true => Err(options.error(key, format!("'{mode_key}' is not '{of}', which it is for"))),
            false => Ok(()),
        };
        unused(&time_key, time.is_some(), "timestamp")?;
        unused(&offsets_key, offsets.is_some(), "specific").map_err(|error| OptionError {
            message: error.message.replace("'specific'", "'specific-offsets'"),
            ..error
        })?;
        let missing = |key: &str| options.error(key, format!("missing; '{mode_key}' needs it"));
        Ok(match mode {
            "earliest" => Place::Earliest,
            "latest" => Place::Latest,
            "timestamp" => Place::Timestamp(time.ok_or_else(|| missing(&time_key))?),
            "specific" => Place::Specific(offsets.ok_or_else(|| missing(&offsets_key))?),
            "group" => {
                if options.text("properties.group.id").is_none() {
                    let message = match options.text(&mode_key) {
                        Some(_) => "missing; 'group-offsets' are those of a group",
                        None => {
                            "missing; without 'scan.startup.mode' reading begins where a group has committed: set one of them"
                        }
                    };
                    return Err(options.error("properties.group.id", message));
                }
                Place::Group
            }
            // Unbounded: the place is not used.
            _ => Place::Latest,
        })
    }

    /// The offset of a partition; `None` where nothing says one.
    pub(crate) fn find<C: ConsumerContext>(
        &self,
        consumer: &BaseConsumer<C>,
        topic: &str,
        partition: i32,
    ) -> Result<Option<i64>, KafkaError> {
        let asked = |offset: Offset| -> Result<TopicPartitionList, KafkaError> {
            let mut asked = TopicPartitionList::new();
            asked.add_partition_offset(topic, partition, offset)?;
            Ok(asked)
        };
        let answer = |list: TopicPartitionList| match list.find_partition(topic, partition)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        Ok(match self {
            Place::Earliest => Some(consumer.fetch_watermarks(topic, partition, ASK)?.0),
            Place::Latest => Some(consumer.fetch_watermarks(topic, partition, ASK)?.1),
            Place::Group => answer(consumer.committed_offsets(asked(Offset::Invalid)?, ASK)?),
            Place::Timestamp(ms) => {
                match answer(consumer.offsets_for_times(asked(Offset::Offset(*ms))?, ASK)?) {
                    Some(offset) => Some(offset),
                    // Nothing is so late yet.
                    None => Some(consumer.fetch_watermarks(topic, partition, ASK)?.1),
                }
            }
            Place::Specific(offsets) => offsets.get(&partition).copied(),
        })
    }
}

/// `partition:0,offset:42;partition:1,offset:300`.
fn specific(text: &str) -> Option<BTreeMap<i32, i64>> {
    let mut offsets = BTreeMap::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let (partition, offset) = part.split_once(',')?;
        let partition = partition.trim().strip_prefix("partition:")?.trim().parse().ok()?;
        let offset = offset.trim().strip_prefix("offset:")?.trim().parse().ok()?;
        if partition < 0 || offset < 0 || offsets.insert(partition, offset).is_some() {
            return None;
        }
    }
    (!offsets.is_empty()).then_some(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::table;

    fn start(options: &[(&str, &str)]) -> Result<Place, String> {
        let table = table(&[], options);
        Place::of_start(&OptionReader::new(&table)).map_err(|error| error.message)
    }

    #[test]
    fn modes_are_flinks() {
        assert_eq!(start(&[("scan.startup.mode", "earliest-offset")]), Ok(Place::Earliest));
        assert_eq!(start(&[("properties.group.id", "g")]), Ok(Place::Group));
        let at = [("scan.startup.mode", "timestamp"), ("scan.startup.timestamp-millis", "7")];
        assert_eq!(start(&at), Ok(Place::Timestamp(7)));
        let offsets = [
            ("scan.startup.mode", "specific-offsets"),
            ("scan.startup.specific-offsets", "partition:0,offset:42;partition:1,offset:300"),
        ];
        assert_eq!(start(&offsets), Ok(Place::Specific(BTreeMap::from([(0, 42), (1, 300)]))));
    }

    #[test]
    fn what_is_missing_or_too_much_is_said() {
        let said = |options: &[(&str, &str)]| start(options).unwrap_err();
        assert!(said(&[]).contains("where a group has committed"));
        assert!(said(&[("scan.startup.mode", "timestamp")]).contains("'scan.startup.mode' needs it"));
        let unused = [("scan.startup.mode", "earliest-offset"), ("scan.startup.timestamp-millis", "7")];
        assert!(said(&unused).contains("is not 'timestamp'"));
        assert!(said(&[("scan.startup.mode", "begin")]).contains("'earliest-offset'"));
        let offsets = [("scan.startup.mode", "specific-offsets"), ("scan.startup.specific-offsets", "0:42")];
        assert!(said(&offsets).contains("partition:0,offset:42"));
    }
}
