//! Hands records to the client, which gets them to the brokers while others follow. Runs on a thread of its own, which may
//! block.
// How long the brokers have been silent is asked for here, and nowhere where rows are.
#![allow(clippy::disallowed_methods)]

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use laxity_connect::{ConnectError, Output, OutputPosition, Waiting};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::deliveries::{ANY_WRITE, Deliveries};
use super::frame::Frame;
use super::opening::Opening;
use super::{Guarantee, Partitioner, SinkOptions};
use crate::error::{self, Remedy};

/// A topic being written.
pub(super) struct KafkaOutput {
    pub(super) table: String,
    pub(super) options: SinkOptions,
    /// Number of the writer among those of the topic.
    part: usize,
    /// Where it says that the brokers, or a registry, do not answer.
    pub(super) waiting: Waiting,
    opening: Option<Opening>,
    open: Option<Open>,
}

pub(super) struct Open {
    pub(super) producer: BaseProducer<Deliveries>,
    pub(super) partitions: usize,
    /// The next one in turn.
    next: usize,
    /// What stands before each value and each key.
    pub(super) value_header: Vec<u8>,
    pub(super) key_header: Vec<u8>,
    /// Bytes of a record with its header.
    framed: [Vec<u8>; 2],
    /// The brokers have ceased to answer.
    is_silent: bool,
    /// When they were last heard of, or need not have been.
    heard: Instant,
    /// Records that were on their way then.
    on_their_way: i32,
}

/// How long the brokers may be silent before that is said.
const SILENCE: Duration = Duration::from_secs(2);

/// The client is asked what has become of records at distances that grow from the first to the last of these. Its own `poll`
/// and `flush` do not return before their time is over, whatever they hear meanwhile: a row would wait for them.
const LOOKS: RangeInclusive<Duration> = Duration::from_micros(50)..=Duration::from_millis(20);

/// What is left in the client when a table without guarantee is closed is waited for no longer than this.
const LAST_WAIT: Duration = Duration::from_secs(5);

impl KafkaOutput {
    pub(super) fn new(table: String, options: SinkOptions, part: usize, waiting: Waiting) -> KafkaOutput {
        KafkaOutput { table, options, part, waiting, opening: None, open: None }
    }

    fn service(&self) -> String {
        format!("Kafka at {}", self.options.client.get("bootstrap.servers").unwrap_or_default())
    }

    pub(super) fn failed(&self, message: String) -> ConnectError {
        let action = format!("write topic '{}'", self.options.topic);
        ConnectError::Service { service: self.service(), action, message }
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

    pub(super) fn failed_by(&self, producer: &BaseProducer<Deliveries>, fault: &KafkaError) -> ConnectError {
        let message = reason(producer, fault);
        let helps =
            self.options.guarantee == Guarantee::ExactlyOnce && producer.client().fatal_error().is_none();
        match helps && error::remedy(fault) == Remedy::Wait {
            true => self.lost(message),
            false => self.failed(message),
        }
    }

    /// Hands over a record of a write.
    pub(super) fn send(&self, open: &mut Open, frame: &Frame<'_>, write: usize) -> Result<(), ConnectError> {
        let mut record: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(&self.options.topic, write);
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
        open.heard = Instant::now();
        let mut pause = *LOOKS.start();
        while open.producer.in_flight_count() > 0 {
            hear(&open.producer, &mut pause);
            self.listen(open);
            self.check(open)?;
        }
        self.check(open)?;
        self.is_heard(open);
        match open.producer.context().failed() {
            Some(fault) => Err(self.failed_by(&open.producer, &fault)),
            None => Ok(()),
        }
    }

    /// All frames as one write.
    fn hand_over(&self, open: &mut Open, mut frames: &[u8]) -> Result<(), ConnectError> {
        if open.producer.in_flight_count() == 0 {
            open.heard = Instant::now();
        }
        let write = open.producer.context().begin();
        let mut records = 0;
        while let Some(frame) = Frame::take(&mut frames) {
            if let Err(error) = self.send(open, &frame, write) {
                open.producer.context().give_up(write, records);
                return Err(error);
            }
            records += 1;
        }
        open.producer.context().ends(write, records);
        Ok(())
    }

    /// Waits for what is on its way.
    fn finish(&mut self) -> Result<(), ConnectError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let finished = match self.options.guarantee {
            Guarantee::None => {
                let _undelivered = open.producer.flush(LAST_WAIT);
                self.check(&open)
            }
            _ => self.wait(&mut open),
        };
        self.open = Some(open);
        finished
    }

    /// Says so where the brokers have not been heard of for too long.
    fn listen(&self, open: &mut Open) {
        let on_their_way = open.producer.in_flight_count();
        if on_their_way < open.on_their_way {
            open.heard = Instant::now();
            self.is_heard(open);
        } else if on_their_way > 0 && open.heard.elapsed() >= SILENCE {
            self.is_silent(open, &KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut));
        }
        open.on_their_way = on_their_way;
    }

    pub(super) fn check(&self, open: &Open) -> Result<(), ConnectError> {
        self.check_producer(&open.producer)
    }

    fn check_producer(&self, producer: &BaseProducer<Deliveries>) -> Result<(), ConnectError> {
        let fault = producer.context().take_fault();
        fault.map_or(Ok(()), |fault| Err(self.failed_by(producer, &fault)))
    }

    pub(super) fn is_silent(&self, open: &mut Open, fault: &KafkaError) {
        open.is_silent = true;
        self.waiting.begin(&self.table, &self.service(), &error::text(fault));
    }

    pub(super) fn is_heard(&self, open: &mut Open) {
        if std::mem::take(&mut open.is_silent) {
            self.waiting.end(&self.table);
        }
    }
}

/// What a person can do something about, where the client knows more than the call that failed.
pub(super) fn reason(producer: &BaseProducer<Deliveries>, fault: &KafkaError) -> String {
    match producer.client().fatal_error() {
        Some(_) if is_fenced(producer) => {
            "another program writes under its 'sink.transactional-id-prefix': the same file, run twice?"
                .to_owned()
        }
        Some((_, said)) => said,
        None => producer.context().quiet.text(fault),
    }
}

/// The brokers take nothing from this producer any more.
pub(super) fn is_fenced(producer: &BaseProducer<Deliveries>) -> bool {
    let fatal = producer.client().fatal_error().map(|(code, _)| code);
    matches!(fatal, Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced))
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

/// Takes what the client has to tell. Where no records were delivered, pauses, and the next time for longer.
fn hear(producer: &BaseProducer<Deliveries>, pause: &mut Duration) {
    let before = producer.in_flight_count();
    producer.poll(Duration::ZERO);
    if producer.in_flight_count() < before {
        *pause = *LOOKS.start();
    } else {
        std::thread::sleep(*pause);
        *pause = (*pause * 3 / 2).min(*LOOKS.end());
    }
}

impl Open {
    pub(super) fn new(producer: BaseProducer<Deliveries>) -> Open {
        Open {
            producer,
            partitions: 0,
            next: 0,
            value_header: Vec::new(),
            key_header: Vec::new(),
            framed: Default::default(),
            is_silent: false,
            heard: Instant::now(),
            on_their_way: 0,
        }
    }
}

impl Output for KafkaOutput {
    fn connects(&self) -> bool {
        true
    }

    fn connect(&mut self) -> Result<Option<Duration>, ConnectError> {
        if self.open.is_some() {
            return Ok(None);
        }
        let mut opening = match self.opening.take() {
            Some(opening) => opening,
            None => self.begin(None)?,
        };
        let pause = self.proceed(&mut opening)?;
        match pause {
            Some(_) => self.opening = Some(opening),
            None => self.open = Some(opening.open),
        }
        Ok(pause)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        while let Some(pause) = self.connect()? {
            std::thread::sleep(pause);
        }
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let handed = match self.options.guarantee {
            Guarantee::AtLeastOnce | Guarantee::ExactlyOnce => self.hand_over(&mut open, bytes),
            Guarantee::None => {
                let mut rest = bytes;
                let mut handed = Ok(());
                while let (Ok(()), Some(frame)) = (&handed, Frame::take(&mut rest)) {
                    handed = self.send(&mut open, &frame, ANY_WRITE);
                }
                open.producer.poll(Duration::ZERO);
                handed.and_then(|()| self.check(&open))
            }
        };
        self.open = Some(open);
        handed
    }

    fn arrived(&mut self) -> Option<Result<(), ConnectError>> {
        if self.options.guarantee == Guarantee::None {
            return Some(Ok(()));
        }
        let Some(mut open) = self.open.take() else { return Some(Ok(())) };
        open.producer.poll(Duration::ZERO);
        let _ends_all_that_is_on_its_way = open.producer.context().take_fault();
        let arrived = open.producer.context().next();
        self.listen(&mut open);
        let arrived = arrived.map(|arrived| arrived.map_err(|fault| self.failed_by(&open.producer, &fault)));
        self.open = Some(open);
        arrived
    }

    /// What was written is at the brokers; it cannot be taken back.
    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        self.finish()?;
        Ok(OutputPosition::None)
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        let finished = self.finish();
        self.open = None;
        finished
    }
}
