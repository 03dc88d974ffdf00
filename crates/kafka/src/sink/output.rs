//! Hands records to the client and waits until the brokers have them. Runs on a thread of its own, which may block.
// How long the brokers have been silent is asked for here, and nowhere where rows are.
#![allow(clippy::disallowed_methods)]

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use laxity_connect::{ConnectError, Output, OutputPosition, SchemaFault, Waiting};
use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};

use super::frame::Frame;
use super::{Guarantee, Partitioner, SinkOptions};
use crate::client::Quiet;
use crate::error::{self, Remedy};
use crate::offsets::ASK;
use crate::record_format::Part;

/// A topic being written.
pub(super) struct KafkaOutput {
    table: String,
    options: SinkOptions,
    /// Number of the writer among those of the topic.
    part: usize,
    /// Where it says that the brokers, or a registry, do not answer.
    waiting: Waiting,
    /// Made with the first record.
    open: Option<Open>,
}

pub(super) struct Open {
    pub(super) producer: BaseProducer<Deliveries>,
    partitions: usize,
    /// The next one in turn.
    next: usize,
    /// What stands before each value and each key.
    value_header: Vec<u8>,
    key_header: Vec<u8>,
    /// Bytes of a record with its header.
    framed: [Vec<u8>; 2],
    /// The brokers have ceased to answer.
    is_silent: bool,
}

/// What the client says of records that it could not deliver, and of itself.
#[derive(Default)]
pub(super) struct Deliveries {
    quiet: Quiet,
    fault: Mutex<Option<KafkaError>>,
}

/// How long the brokers may be silent before that is said.
const SILENCE: Duration = Duration::from_secs(2);

/// The client is asked what has become of records at distances that grow from the first to the last of these. Its own `poll`
/// and `flush` do not return before their time is over, whatever they hear meanwhile: a row would wait for them.
const LOOKS: RangeInclusive<Duration> = Duration::from_micros(50)..=Duration::from_millis(20);

/// A topic that is not there is looked for so often, with growing pauses: a broker that has just started may not know it.
const LOOKS_FOR_TOPIC: u32 = 2;

/// What is left in the client when a table without guarantee is closed is waited for no longer than this.
const LAST_WAIT: Duration = Duration::from_secs(5);

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.quiet.log(level, facility, message);
    }

    fn error(&self, fault: KafkaError, reason: &str) {
        self.quiet.error(fault.clone(), reason);
        if error::remedy(&fault) == Remedy::None {
            self.fault.lock().get_or_insert(fault);
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((fault, _)) = result {
            self.fault.lock().get_or_insert_with(|| fault.clone());
        }
    }
}

impl KafkaOutput {
    pub(super) fn new(table: String, options: SinkOptions, part: usize, waiting: Waiting) -> KafkaOutput {
        KafkaOutput { table, options, part, waiting, open: None }
    }

    fn service(&self) -> String {
        format!("Kafka at {}", self.options.client.get("bootstrap.servers").unwrap_or_default())
    }

    pub(super) fn failed(&self, message: String) -> ConnectError {
        let action = format!("write topic '{}'", self.options.topic);
        ConnectError::Service { service: self.service(), action, message }
    }

    /// Makes the client, for transactions if it gets an id for them, and asks whether the topic is there.
    pub(super) fn open(&self, transactional_id: Option<&str>) -> Result<Open, ConnectError> {
        let mut client = self.options.client.clone();
        if let Some(id) = transactional_id {
            client.set("transactional.id", id);
        }
        let made = client.create_with_context(Deliveries::default());
        let producer: BaseProducer<Deliveries> = made.map_err(|fault| self.failed(error::text(&fault)))?;
        let mut open = Open {
            producer,
            partitions: 0,
            next: 0,
            value_header: self.header(Some(&self.options.formats.value))?,
            key_header: self.header(self.options.formats.key.as_ref())?,
            framed: Default::default(),
            is_silent: false,
        };
        if transactional_id.is_some() {
            self.persist(&mut open, |producer| producer.init_transactions(ASK))?;
        }
        let (mut failures, mut looks) = (0, 0);
        while open.partitions == 0 {
            let fault = match open.ask_for_partitions(&self.options.topic) {
                Ok(partitions) => {
                    open.partitions = partitions;
                    break;
                }
                Err(fault) => fault,
            };
            match error::remedy(&fault) {
                Remedy::None => return Err(self.failed(reason(&open.producer, &fault))),
                Remedy::LookForTopic if looks == LOOKS_FOR_TOPIC => {
                    return Err(self.failed("there is no such topic".to_owned()));
                }
                Remedy::LookForTopic => looks += 1,
                Remedy::Wait => self.is_silent(&mut open, &fault),
            }
            open.producer.poll(Duration::from_secs(error::pause_s(failures)));
            self.check(&open)?;
            failures += 1;
        }
        self.is_heard(&mut open);
        Ok(open)
    }

    /// What stands before the records of a key or a value: the number of a schema that a registry has, which is asked for
    /// as long as it takes.
    fn header(&self, part: Option<&Part>) -> Result<Vec<u8>, ConnectError> {
        let Some(schemas) = part.and_then(|part| part.format.schemas()) else { return Ok(Vec::new()) };
        let mut failures = 0;
        loop {
            match schemas.header() {
                Ok(header) => {
                    self.waiting.end(&self.table);
                    return Ok(header);
                }
                Err(SchemaFault::End(message)) => {
                    let action = format!("write topic '{}'", self.options.topic);
                    return Err(ConnectError::Service { service: schemas.service(), action, message });
                }
                Err(SchemaFault::Again(why)) => self.waiting.begin(&self.table, &schemas.service(), &why),
            }
            std::thread::sleep(Duration::from_secs(error::pause_s(failures)));
            failures += 1;
        }
    }

    /// Does something with a transaction, as often as it takes while the brokers do not answer.
    pub(super) fn persist(
        &self,
        open: &mut Open,
        act: impl Fn(&BaseProducer<Deliveries>) -> KafkaResult<()>,
    ) -> Result<(), ConnectError> {
        let mut failures = 0;
        loop {
            match act(&open.producer) {
                Ok(()) => {
                    self.is_heard(open);
                    return Ok(());
                }
                Err(KafkaError::Transaction(fault)) if fault.is_retriable() => {
                    self.is_silent(open, &KafkaError::Transaction(fault));
                    open.producer.poll(Duration::from_secs(error::pause_s(failures)));
                    failures += 1;
                }
                Err(fault) => return Err(self.failed_by(&open.producer, &fault)),
            }
        }
    }

    /// What is in a transaction is gone with it: who goes on from the last checkpoint makes it again.
    pub(super) fn lost(&self, message: String) -> ConnectError {
        let action = format!("write topic '{}'", self.options.topic);
        ConnectError::Lost { service: self.service(), action, message }
    }

    fn failed_by(&self, producer: &BaseProducer<Deliveries>, fault: &KafkaError) -> ConnectError {
        let message = reason(producer, fault);
        let helps =
            self.options.guarantee == Guarantee::ExactlyOnce && producer.client().fatal_error().is_none();
        match helps && error::remedy(fault) == Remedy::Wait {
            true => self.lost(message),
            false => self.failed(message),
        }
    }

    pub(super) fn send(&self, open: &mut Open, frame: &Frame<'_>) -> Result<(), ConnectError> {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&self.options.topic);
        let Open { producer, next, partitions, value_header, key_header, framed: [value, key], .. } = open;
        record.key = frame.key.map(|bytes| with_header(key_header, bytes, key));
        record.payload = frame.value.map(|bytes| with_header(value_header, bytes, value));
        record.timestamp = frame.timestamp_ms;
        if !frame.headers.is_empty() {
            let headers = OwnedHeaders::new_with_capacity(frame.headers.len());
            let add = |headers: OwnedHeaders, (key, value): &(&str, Option<&[u8]>)| {
                headers.insert(Header { key, value: *value })
            };
            record.headers = Some(frame.headers.iter().fold(headers, add));
        }
        record.partition = match self.options.partitioner {
            Partitioner::Default => None,
            Partitioner::Fixed => Some((self.part % *partitions) as i32),
            Partitioner::RoundRobin => {
                *next = (*next + 1) % *partitions;
                Some(*next as i32)
            }
        };
        let mut pause = *LOOKS.start();
        loop {
            match producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    hear(producer, &mut pause);
                    self.check_producer(producer)?;
                }
                Err((fault, _)) => return Err(self.failed(error::text(&fault))),
            }
        }
    }

    /// Waits until the brokers have all records.
    pub(super) fn wait(&self, open: &mut Open) -> Result<(), ConnectError> {
        let (mut progress, mut pause) = (Instant::now(), *LOOKS.start());
        while open.producer.in_flight_count() > 0 {
            if hear(&open.producer, &mut pause) {
                progress = Instant::now();
            } else if progress.elapsed() >= SILENCE {
                self.is_silent(open, &KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut));
            }
            self.check(open)?;
        }
        self.check(open)?;
        self.is_heard(open);
        Ok(())
    }

    pub(super) fn check(&self, open: &Open) -> Result<(), ConnectError> {
        self.check_producer(&open.producer)
    }

    fn check_producer(&self, producer: &BaseProducer<Deliveries>) -> Result<(), ConnectError> {
        let fault = producer.context().fault.lock().take();
        fault.map_or(Ok(()), |fault| Err(self.failed_by(producer, &fault)))
    }

    fn is_silent(&self, open: &mut Open, fault: &KafkaError) {
        open.is_silent = true;
        self.waiting.begin(&self.table, &self.service(), &error::text(fault));
    }

    fn is_heard(&self, open: &mut Open) {
        if std::mem::take(&mut open.is_silent) {
            self.waiting.end(&self.table);
        }
    }
}

/// What a person can do something about, where the client knows more than the call that failed.
fn reason(producer: &BaseProducer<Deliveries>, fault: &KafkaError) -> String {
    match producer.client().fatal_error() {
        Some((RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced, _)) => {
            "another program writes under its 'sink.transactional-id-prefix': the same file, run twice?"
                .to_owned()
        }
        Some((_, said)) => said,
        None => producer.context().quiet.text(fault),
    }
}

/// The bytes behind their header, put together in `framed` where there is one.
fn with_header<'a>(header: &[u8], bytes: &'a [u8], framed: &'a mut Vec<u8>) -> &'a [u8] {
    if header.is_empty() {
        return bytes;
    }
    framed.clear();
    framed.extend_from_slice(header);
    framed.extend_from_slice(bytes);
    framed
}

/// Takes what the client has to tell; true if records were delivered. Otherwise pauses, and the next time for longer.
fn hear(producer: &BaseProducer<Deliveries>, pause: &mut Duration) -> bool {
    let before = producer.in_flight_count();
    producer.poll(Duration::ZERO);
    let is_progress = producer.in_flight_count() < before;
    if is_progress {
        *pause = *LOOKS.start();
    } else {
        std::thread::sleep(*pause);
        *pause = (*pause * 3 / 2).min(*LOOKS.end());
    }
    is_progress
}

impl Open {
    fn ask_for_partitions(&self, topic: &str) -> Result<usize, KafkaError> {
        let metadata = self.producer.client().fetch_metadata(Some(topic), ASK)?;
        let missing = KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopic);
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
            return Err(missing);
        };
        match found.error() {
            Some(code) => Err(KafkaError::MetadataFetch(code.into())),
            None if found.partitions().is_empty() => Err(missing),
            None => Ok(found.partitions().len()),
        }
    }
}

impl Output for KafkaOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open(None)?,
        };
        let mut rest = bytes;
        let mut sent = Ok(());
        while let (Ok(()), Some(frame)) = (&sent, Frame::take(&mut rest)) {
            sent = self.send(&mut open, &frame);
        }
        let done = sent.and_then(|()| match self.options.guarantee {
            Guarantee::None => {
                open.producer.poll(Duration::ZERO);
                self.check(&open)
            }
            _ => self.wait(&mut open),
        });
        self.open = Some(open);
        done
    }

    /// What was written is at the brokers; it cannot be taken back.
    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        if let (Some(open), Guarantee::None) = (&self.open, self.options.guarantee) {
            let _undelivered = open.producer.flush(LAST_WAIT);
            self.check(open)?;
        }
        Ok(OutputPosition::None)
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        match self.options.guarantee {
            Guarantee::None => {
                let _undelivered = open.producer.flush(LAST_WAIT);
                self.check(&open)
            }
            _ => self.wait(&mut open),
        }
    }
}
