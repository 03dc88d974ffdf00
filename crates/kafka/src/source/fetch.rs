//! The thread that waits for messages: it asks which partitions there are, where to begin, and brings bytes. What fails
//! for a time, as a broker that is away, is tried again with growing pauses; what does not, ends the table.
// The time of the outside is asked for here, and nowhere where rows are.
#![allow(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use laxity_connect::{ConnectError, RecordSchemas, Records, ScanPosition, SchemaFault, Waiting};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::SourceOptions;
use super::chunk::{Chunk, Partition, Wanted};
use super::handover::Handover;
use crate::batches::{Batches, Record};
use crate::client::Quiet;
use crate::error::{self, Remedy};
use crate::offsets::{ASK, Place};
use crate::topics::Topics;

/// What is read, and from where.
pub(crate) struct Fetch {
    pub table: String,
    pub options: SourceOptions,
    pub wanted: Wanted,
    /// Offsets by partition that go before the option 'scan.startup.mode'.
    pub resume: Option<ScanPosition>,
    pub handover: Arc<Handover>,
    /// Where it says that the brokers, or a registry, do not answer.
    pub waiting: Waiting,
}

/// A message is waited for no longer than this, so that the thread sees when it is not needed any more.
const WAIT: Duration = Duration::from_millis(200);

/// Messages handed over at once, at most.
const CHUNK_MESSAGES: usize = 1_024;

/// Of topics that give nothing for so long it is asked whether they are there: nothing that is brought says that one was deleted.
const SILENCE: Duration = Duration::from_secs(10);

/// A topic that is not there is looked for so often, with growing pauses: a broker that has just started may not know it.
const LOOKS_FOR_TOPIC: u32 = 2;

impl Fetch {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the client cannot be made, or the system has no further thread.
    pub(crate) fn start(self) -> Result<(), ConnectError> {
        let consumer: BaseConsumer<Quiet> = self
            .options
            .client
            .create_with_context(Quiet::default())
            .map_err(|fault| self.failed("start a client", &fault))?;
        let name = format!("kafka-{}", self.table);
        let failed = ConnectError::Service {
            service: self.service(),
            action: "start a thread".to_owned(),
            message: String::new(),
        };
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            let handover = Arc::clone(&self.handover);
            let mut reader = Reader::new(self, consumer);
            handover.end(reader.read());
        });
        match spawned {
            Ok(_) => Ok(()),
            Err(error) => Err(with_message(failed, error.to_string())),
        }
    }

    fn service(&self) -> String {
        format!("Kafka at {}", self.options.client.get("bootstrap.servers").unwrap_or_default())
    }

    fn failed(&self, action: &str, fault: &KafkaError) -> ConnectError {
        self.failed_with(action, error::text(fault))
    }

    fn failed_with(&self, action: &str, message: String) -> ConnectError {
        ConnectError::Service { service: self.service(), action: action.to_owned(), message }
    }

    fn read_action(&self) -> String {
        format!("read {}", self.options.topics.text())
    }
}

fn with_action(error: ConnectError, action: String) -> ConnectError {
    match error {
        ConnectError::Service { service, message, .. } => ConnectError::Service { service, action, message },
        other => other,
    }
}

fn with_message(error: ConnectError, said: String) -> ConnectError {
    match error {
        ConnectError::Service { service, action, .. } => {
            ConnectError::Service { service, action, message: said }
        }
        other => other,
    }
}

/// The thread's state.
struct Reader {
    fetch: Fetch,
    consumer: Arc<BaseConsumer<Quiet>>,
    batches: Batches<Quiet>,
    partitions: Vec<Followed>,
    by_place: HashMap<Arc<str>, HashMap<i32, i32>>,
    /// Numbers of splits, also of partitions that are not there any more.
    splits: HashMap<(String, i32), i32>,
    chunk: Chunk,
    /// Of values and of keys, where they lie with a registry.
    schemas: Vec<Schemas>,
    /// When the brokers ceased to answer, and how often they were asked since.
    trouble: Option<Trouble>,
    looked_for_partitions: Instant,
    /// When records came last.
    brought: Instant,
    looks_for_topic: u32,
}

struct Followed {
    partition: Partition,
    /// Where reading ends.
    end: Option<i64>,
    is_done: bool,
}

/// Schemas of the values or of the keys.
struct Schemas {
    of_keys: bool,
    source: Arc<dyn RecordSchemas>,
    /// What was learnt last: most often the next record is of the same.
    last: Option<u32>,
}

struct Trouble {
    asked: Instant,
    failures: u32,
}

/// Why something was not done.
enum Fault {
    /// It is to be tried again.
    Again(KafkaError),
    /// It cannot be done.
    End(ConnectError),
    /// Nobody wants it any more.
    Dropped,
}

impl Reader {
    fn new(fetch: Fetch, consumer: BaseConsumer<Quiet>) -> Reader {
        let consumer = Arc::new(consumer);
        let formats = &fetch.options.formats;
        let of_values = formats.value.format.schemas();
        let of_keys = formats.key.as_ref().filter(|_| fetch.wanted.key).and_then(|key| key.format.schemas());
        let schemas = [(false, of_values), (true, of_keys)];
        let schemas = schemas
            .into_iter()
            .filter_map(|(of_keys, source)| source.map(|source| Schemas { of_keys, source, last: None }));
        let numbered = fetch.resume.iter().flat_map(|resume| resume.numbered.iter().cloned());
        let splits = numbered.zip(0..).collect();
        Reader {
            schemas: schemas.collect(),
            fetch,
            batches: Batches::new(Arc::clone(&consumer)),
            consumer,
            partitions: Vec::new(),
            by_place: HashMap::new(),
            splits,
            chunk: Chunk::default(),
            trouble: None,
            looked_for_partitions: Instant::now(),
            brought: Instant::now(),
            looks_for_topic: 0,
        }
    }

    fn read(&mut self) -> Result<(), ConnectError> {
        match self.read_all() {
            Ok(()) | Err(Fault::Dropped) => Ok(()),
            Err(Fault::End(error)) => Err(error),
            Err(Fault::Again(fault)) => Err(self.fetch.failed(&self.fetch.read_action(), &fault)),
        }
    }

    fn read_all(&mut self) -> Result<(), Fault> {
        self.until_answered(|reader| reader.find_partitions(true))?;
        while !self.is_done() {
            self.bring()?;
            if self.fetch.handover.is_dropped() {
                return Err(Fault::Dropped);
            }
            self.look_for_partitions()?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.fetch.options.end.is_some() && self.partitions.iter().all(|followed| followed.is_done)
    }

    /// Asks until there is an answer, with growing pauses.
    fn until_answered(&mut self, ask: impl Fn(&mut Reader) -> Result<(), Fault>) -> Result<(), Fault> {
        loop {
            match ask(self) {
                Ok(()) => {
                    self.no_trouble();
                    return Ok(());
                }
                Err(Fault::Again(fault)) => self.in_trouble(&fault),
                Err(other) => return Err(other),
            }
            let failures = self.trouble.as_ref().map_or(0, |trouble| trouble.failures);
            let until = Instant::now() + Duration::from_secs(error::pause_s(failures));
            while Instant::now() < until {
                // What the client has to tell is heard meanwhile.
                if let Some(Err(fault)) = self.consumer.poll(WAIT)
                    && error::remedy(&fault) == Remedy::None
                {
                    let said = self.consumer.context().text(&fault);
                    return Err(Fault::End(self.fetch.failed_with(&self.fetch.read_action(), said)));
                }
                if self.fetch.handover.is_dropped() {
                    return Err(Fault::Dropped);
                }
            }
        }
    }

    /// Waits for a message and brings it, with all that are there.
    fn bring(&mut self) -> Result<(), Fault> {
        self.hear()?;
        let (by_place, partitions) = (&self.by_place, &mut self.partitions);
        let (chunk, wanted) = (&mut self.chunk, self.fetch.wanted);
        let mut faults = Vec::new();
        self.batches.take(WAIT, CHUNK_MESSAGES, |taken| match taken {
            Ok(record) => {
                let Some(split) = split_of(by_place, record) else { return };
                let followed = &mut partitions[split as usize];
                if followed.end.is_none_or(|end| record.offset() < end) {
                    chunk.push(split, record, wanted);
                }
                followed.is_done |= followed.end.is_some_and(|end| record.offset() + 1 >= end);
            }
            Err(fault) => faults.push(fault),
        });
        if self.chunk.len() > 0 {
            self.brought = Instant::now();
            self.no_trouble();
        }
        for fault in faults {
            match fault {
                KafkaError::PartitionEOF(number) => self.at_end(number)?,
                fault => self.meet(fault)?,
            }
        }
        self.learn_schemas()?;
        match self.chunk.len() > 0 && !self.fetch.handover.put(&mut self.chunk) {
            true => Err(Fault::Dropped),
            false => Ok(()),
        }
    }

    /// Hears what the client has to tell besides messages.
    fn hear(&mut self) -> Result<(), Fault> {
        loop {
            // A message borrows the client.
            let told = self.consumer.poll(Duration::ZERO).map(|told| told.map(drop));
            match told {
                None => return Ok(()),
                Some(Ok(())) => {
                    let said =
                        "a message came past the queue of its partition: please report this".to_owned();
                    return Err(Fault::End(self.fetch.failed_with(&self.fetch.read_action(), said)));
                }
                Some(Err(fault)) => self.meet(fault)?,
            }
        }
    }

    /// Asks for the schemas that the records brought need, as long as it takes.
    fn learn_schemas(&mut self) -> Result<(), Fault> {
        let (chunk, partitions, fetch) = (&self.chunk, &self.partitions, &self.fetch);
        for schemas in &mut self.schemas {
            let records = if schemas.of_keys { &chunk.keys } else { &chunk.values };
            schemas.learn_all(records, fetch).map_err(|(fault, record)| match fault {
                Fault::End(error) => {
                    let at = &partitions[chunk.splits[record] as usize].partition;
                    let (topic, number, offset) = (&at.topic, at.number, chunk.offsets[record]);
                    let place = format!("read topic '{topic}', partition {number}, offset {offset}");
                    Fault::End(with_action(error, place))
                }
                other => other,
            })?;
        }
        Ok(())
    }

    /// A partition of that number has no more for now. Which topic's is not said.
    fn at_end(&mut self, number: i32) -> Result<(), Fault> {
        let position = self.consumer.position().map_err(Fault::Again)?;
        for followed in self.partitions.iter_mut().filter(|followed| followed.partition.number == number) {
            let found = position.find_partition(&followed.partition.topic, number);
            let at = found.and_then(|found| match found.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            let (Some(end), Some(at)) = (followed.end, at) else { continue };
            let (_, high) = self
                .consumer
                .fetch_watermarks(&followed.partition.topic, number, ASK)
                .map_err(Fault::Again)?;
            // Behind the last message there may be marks of transactions, which are no messages.
            followed.is_done |= at >= end || high <= end;
        }
        Ok(())
    }

    /// The client has met with an error.
    fn meet(&mut self, fault: KafkaError) -> Result<(), Fault> {
        match error::remedy(&fault) {
            Remedy::None => {
                let said = match fault.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::AutoOffsetReset) => {
                        "the records from which to read are not there any more; 'properties.auto.offset.reset' says where to go on"
                            .to_owned()
                    }
                    _ => self.consumer.context().text(&fault),
                };
                Err(Fault::End(self.fetch.failed_with(&self.fetch.read_action(), said)))
            }
            Remedy::Wait => {
                self.in_trouble(&fault);
                Ok(())
            }
            Remedy::LookForTopic => self.until_answered(|reader| reader.find_partitions(false)),
        }
    }

    fn in_trouble(&mut self, fault: &KafkaError) {
        let now = Instant::now();
        self.fetch.waiting.begin(&self.fetch.table, &self.fetch.service(), &error::text(fault));
        let trouble = self.trouble.get_or_insert(Trouble { asked: now, failures: 0 });
        trouble.failures += 1;
        trouble.asked = now;
    }

    fn no_trouble(&mut self) {
        if self.trouble.take().is_some() {
            self.fetch.waiting.end(&self.fetch.table);
        }
    }

    /// Looks for new partitions where that is due, and whether the brokers answer again.
    fn look_for_partitions(&mut self) -> Result<(), Fault> {
        let looked = self.looked_for_partitions.elapsed();
        let is_due = match &self.trouble {
            Some(trouble) => trouble.asked.elapsed().as_secs() >= error::pause_s(trouble.failures),
            None => {
                let is_named = matches!(self.fetch.options.topics, Topics::Named(_));
                let is_silent = is_named && self.brought.elapsed() >= SILENCE && looked >= SILENCE;
                is_silent || self.fetch.options.discovery.is_some_and(|interval| looked >= interval)
            }
        };
        if !is_due {
            return Ok(());
        }
        match self.find_partitions(false) {
            Ok(()) => {
                self.no_trouble();
                Ok(())
            }
            Err(Fault::Again(fault)) => {
                self.in_trouble(&fault);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// Follows the partitions that it did not follow yet: all of them at first, and from their beginning later.
    fn find_partitions(&mut self, at_first: bool) -> Result<(), Fault> {
        self.looked_for_partitions = Instant::now();
        let found = self.partitions_there()?;
        let is_new = |(topic, number): &(Arc<str>, i32)| {
            !self.by_place.get(topic).is_some_and(|of| of.contains_key(number))
        };
        let new: Vec<(Arc<str>, i32)> = found.into_iter().filter(is_new).collect();
        let follows = at_first || self.fetch.options.discovery.is_some();
        if new.is_empty() || !follows {
            return Ok(());
        }
        let mut assigned = TopicPartitionList::new();
        let mut followed = Vec::new();
        for (topic, number) in new {
            let start = self.start_of(&topic, number, at_first)?;
            let split = self.splits.len() as i32;
            let split = *self.splits.entry((topic.to_string(), number)).or_insert(split);
            let partition = Partition { topic, number, split, start };
            let end = self.end_of(&partition)?;
            let is_done = end.is_some_and(|end| start >= end);
            if !is_done {
                self.batches.join(&partition.topic, partition.number);
                let start = Offset::Offset(start);
                let added = assigned.add_partition_offset(&partition.topic, partition.number, start);
                added.map_err(Fault::Again)?;
            }
            followed.push(Followed { partition, end, is_done });
        }
        self.consumer.incremental_assign(&assigned).map_err(Fault::Again)?;
        let partitions: Vec<Partition> = followed.iter().map(|followed| followed.partition.clone()).collect();
        for followed in followed {
            let of_topic = self.by_place.entry(Arc::clone(&followed.partition.topic)).or_default();
            of_topic.insert(followed.partition.number, self.partitions.len() as i32);
            self.partitions.push(followed);
        }
        self.fetch.handover.add(&partitions);
        Ok(())
    }

    /// The partitions that there are, in order of their numbers.
    fn partitions_there(&mut self) -> Result<Vec<(Arc<str>, i32)>, Fault> {
        let topics = self.fetch.options.topics.clone();
        let names: Vec<Option<&str>> = match &topics {
            Topics::Named(names) => names.iter().map(|name| Some(name.as_str())).collect(),
            Topics::Pattern(_) => vec![None],
        };
        let mut found = Vec::new();
        for name in names {
            let metadata = self.consumer.fetch_metadata(name, ASK).map_err(|fault| self.judged(fault))?;
            for topic in metadata.topics() {
                let is_ours = match &topics {
                    Topics::Named(_) => true,
                    Topics::Pattern(pattern) => pattern.is_match(topic.name()),
                };
                if !is_ours {
                    continue;
                }
                let fault = topic.error().map(|code| KafkaError::MetadataFetch(code.into()));
                if let Some(fault) = fault {
                    return Err(self.judged_topic(topic.name(), fault));
                }
                let name: Arc<str> = Arc::from(topic.name());
                let numbers = topic.partitions().iter().map(|partition| partition.id());
                found.extend(numbers.map(|number| (Arc::clone(&name), number)));
            }
        }
        self.looks_for_topic = 0;
        found.sort();
        Ok(found)
    }

    fn judged(&self, fault: KafkaError) -> Fault {
        match error::remedy(&fault) {
            Remedy::None => Fault::End(self.fetch.failed(&self.fetch.read_action(), &fault)),
            _ => Fault::Again(fault),
        }
    }

    fn judged_topic(&mut self, topic: &str, fault: KafkaError) -> Fault {
        if error::remedy(&fault) != Remedy::LookForTopic {
            return self.judged(fault);
        }
        self.looks_for_topic += 1;
        match self.looks_for_topic > LOOKS_FOR_TOPIC {
            true => {
                let said = "there is no such topic".to_owned();
                Fault::End(self.fetch.failed_with(&format!("read topic '{topic}'"), said))
            }
            false => Fault::Again(fault),
        }
    }

    fn start_of(&self, topic: &Arc<str>, number: i32, at_first: bool) -> Result<i64, Fault> {
        let find =
            |place: &Place| place.find(&self.consumer, topic, number).map_err(|fault| self.judged(fault));
        if let Some(resume) = &self.fetch.resume {
            return match resume.offsets.get(&(topic.to_string(), number)) {
                Some(offset) => Ok(*offset),
                None => Ok(find(&Place::Earliest)?.unwrap_or(0)),
            };
        }
        let start = &self.fetch.options.start;
        // Nobody has had a chance to read what is in a partition that was added.
        let start = if at_first { start } else { &Place::Earliest };
        if let Some(offset) = find(start)? {
            return Ok(offset);
        }
        let said = match (start, self.fetch.options.client.get("auto.offset.reset")) {
            (_, Some("earliest" | "smallest" | "beginning")) => {
                return Ok(find(&Place::Earliest)?.unwrap_or(0));
            }
            (_, Some("latest" | "largest" | "end")) => return Ok(find(&Place::Latest)?.unwrap_or(0)),
            (Place::Specific(_), _) => {
                format!("'scan.startup.specific-offsets' has no offset for partition {number}")
            }
            _ => format!(
                "the group has committed no offset for partition {number}; set 'properties.auto.offset.reset' or another 'scan.startup.mode'"
            ),
        };
        Err(Fault::End(self.fetch.failed_with(&format!("read topic '{topic}'"), said)))
    }

    fn end_of(&self, partition: &Partition) -> Result<Option<i64>, Fault> {
        let Some(end) = &self.fetch.options.end else { return Ok(None) };
        let found = end.find(&self.consumer, &partition.topic, partition.number);
        // Nothing is to be read of a partition without an end.
        Ok(Some(found.map_err(|fault| self.judged(fault))?.unwrap_or(0)))
    }
}

impl Schemas {
    /// Has the schema of each of the records learnt. With a fault, which of them it was.
    fn learn_all(&mut self, records: &Records, fetch: &Fetch) -> Result<(), (Fault, usize)> {
        for record in (0..records.len()).filter(|record| !records.is_null(*record)) {
            let number = self.source.number(records.get(record));
            if let Some(number) = number.filter(|number| self.last != Some(*number)) {
                self.learn(number, fetch).map_err(|fault| (fault, record))?;
                self.last = Some(number);
            }
        }
        Ok(())
    }

    /// Asks until there is an answer, with growing pauses.
    fn learn(&self, number: u32, fetch: &Fetch) -> Result<(), Fault> {
        let mut failures = 0;
        loop {
            match self.source.learn(number) {
                Ok(()) if failures == 0 => return Ok(()),
                Ok(()) => {
                    fetch.waiting.end(&fetch.table);
                    return Ok(());
                }
                Err(SchemaFault::End(message)) => {
                    let (service, action) = (self.source.service(), String::new());
                    return Err(Fault::End(ConnectError::Service { service, action, message }));
                }
                Err(SchemaFault::Again(why)) => {
                    fetch.waiting.begin(&fetch.table, &self.source.service(), &why)
                }
            }
            let until = Instant::now() + Duration::from_secs(error::pause_s(failures));
            failures += 1;
            while Instant::now() < until {
                if fetch.handover.is_dropped() {
                    return Err(Fault::Dropped);
                }
                std::thread::sleep(WAIT);
            }
        }
    }
}

fn split_of(by_place: &HashMap<Arc<str>, HashMap<i32, i32>>, record: &Record) -> Option<i32> {
    let of_topic = match by_place.len() {
        1 => by_place.values().next()?,
        _ => by_place.get(record.topic())?,
    };
    of_topic.get(&record.partition()).copied()
}
