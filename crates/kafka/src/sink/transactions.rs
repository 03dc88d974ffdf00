//! Exactly once: rows in transactions that checkpoints commit.
//!
//! A client cannot take over a transaction that another process has left open. So nothing is prepared at the brokers:
//! each transaction commits, with its rows, the number of its checkpoint as the offset of a consumer group, and who
//! starts again asks for that number. Where it is n, the rows up to checkpoint n are there and no others; the engine then
//! goes on from n, and what was written after it was never seen.
// How long a transaction has been open is asked for here, and nowhere where rows are.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use laxity_connect::{ConnectError, Output, OutputPosition};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};

use super::SinkOptions;
use super::deliveries::ANY_WRITE;
use super::frame::Frame;
use super::opening::Opening;
use super::output::{KafkaOutput, Open, is_fenced};
use crate::client::Quiet;
use crate::error;
use crate::offsets::ASK;

/// The transactions of one query into one topic.
pub(super) struct Transactions {
    topic: String,
    /// What all of its ids begin with, and the group in whose name checkpoints are numbered.
    name: String,
    client: ClientConfig,
}

/// A topic being written in transactions.
///
/// Two producers take turns: while the transaction of one waits for its checkpoint to be on disk, rows go on into that
/// of the other.
pub(super) struct TransactionalOutput {
    writer: KafkaOutput,
    of: Transactions,
    opening: Option<[Opening; 2]>,
    open: Option<[Lane; 2]>,
    /// Which of them takes rows.
    current: usize,
    /// This begins a new record, with number 0.
    is_new: bool,
    /// The other one waits for its checkpoint.
    is_prepared: bool,
}

struct Lane {
    open: Open,
    /// When its transaction began.
    began: Option<Instant>,
}

/// The partition in whose name checkpoints are numbered: every topic has it.
const PARTITION: i32 = 0;

impl Transactions {
    pub(super) fn new(options: &SinkOptions, table: &str, query: &str) -> Transactions {
        let prefix = options.transactional_id_prefix.as_deref().unwrap_or_default();
        Transactions {
            topic: options.topic.clone(),
            name: format!("{prefix}-{query}-{table}"),
            client: options.client.clone(),
        }
    }

    fn id(&self, lane: usize) -> String {
        format!("{}-{lane}", self.name)
    }

    /// The number of the last checkpoint whose rows can be seen; 0 if there is none. Whoever wrote before can commit
    /// nothing from now on. `has_checkpoints`: so there has been a record of them.
    pub(super) fn committed(&self, writer: &KafkaOutput, has_checkpoints: bool) -> Result<u64, ConnectError> {
        for lane in 0..2 {
            drop(writer.open(Some(&self.id(lane)))?);
        }
        let consumer = self.consumer(writer)?;
        let mut failures = 0;
        loop {
            let asked =
                self.numbered(Offset::Invalid).and_then(|asked| consumer.committed_offsets(asked, ASK));
            match asked {
                Ok(list) => {
                    let found = list.find_partition(&self.topic, PARTITION).map(|found| found.offset());
                    return match found {
                        Some(Offset::Offset(number)) => Ok(number.unsigned_abs()),
                        // Every output begins the record with 0, before its first checkpoint.
                        _ if has_checkpoints => Err(writer.failed(format!(
                            "the brokers no longer know which checkpoint was committed last (offset of group '{}'; \
                             offsets.retention.minutes), so rows may be doubled: begin anew without the state, or \
                             with another 'sink.transactional-id-prefix'",
                            self.name
                        ))),
                        _ => Ok(0),
                    };
                }
                Err(fault) if error::remedy(&fault) == error::Remedy::None || failures >= ASKED_MAX => {
                    return Err(writer.failed(error::text(&fault)));
                }
                Err(_) => {
                    let _nothing_is_read = consumer.poll(Duration::from_secs(error::pause_s(failures)));
                    failures += 1;
                }
            }
        }
    }

    fn consumer(&self, writer: &KafkaOutput) -> Result<BaseConsumer<Quiet>, ConnectError> {
        let mut client = self.client.clone();
        // An offset whose transaction is being committed is waited for.
        client
            .set("group.id", &self.name)
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false");
        client
            .create_with_context(Quiet::default())
            .map_err(|fault: KafkaError| writer.failed(error::text(&fault)))
    }

    fn numbered(&self, number: Offset) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, PARTITION, number)?;
        Ok(list)
    }
}

/// How often the brokers are asked which checkpoint was the last, with growing pauses.
const ASKED_MAX: u32 = 8;

impl TransactionalOutput {
    /// `is_new`: there is no checkpoint to go on from.
    pub(super) fn new(writer: KafkaOutput, of: Transactions, is_new: bool) -> TransactionalOutput {
        TransactionalOutput { writer, of, opening: None, open: None, current: 0, is_new, is_prepared: false }
    }

    /// Both producers, however long that takes.
    fn opened(&mut self) -> Result<(), ConnectError> {
        while let Some(pause) = self.connect()? {
            std::thread::sleep(pause);
        }
        Ok(())
    }

    fn begin(writer: &KafkaOutput, lane: &mut Lane) -> Result<(), ConnectError> {
        if lane.began.is_none() {
            writer.persist(&mut lane.open, |producer| producer.begin_transaction())?;
            lane.began = Some(Instant::now());
        }
        Ok(())
    }

    fn commit_lane(&mut self, lane: usize, checkpoint: u64) -> Result<(), ConnectError> {
        let (writer, of) = (&self.writer, &self.of);
        let Some(lanes) = &mut self.open else { return Ok(()) };
        let lane = &mut lanes[lane];
        let committed = TransactionalOutput::commit_open(writer, of, lane, checkpoint);
        committed.map_err(|error| TransactionalOutput::judged(writer, lane, error))?;
        lane.began = None;
        Ok(())
    }

    fn commit_open(
        writer: &KafkaOutput,
        of: &Transactions,
        lane: &mut Lane,
        checkpoint: u64,
    ) -> Result<(), ConnectError> {
        TransactionalOutput::begin(writer, lane)?;
        writer.wait(&mut lane.open)?;
        let consumer = of.consumer(writer)?;
        let failed = |fault: KafkaError| writer.failed(error::text(&fault));
        let number = of.numbered(Offset::Offset(checkpoint as i64)).map_err(failed)?;
        let Some(group) = consumer.group_metadata() else {
            return Err(writer.failed("the client knows no group".to_owned()));
        };
        writer
            .persist(&mut lane.open, |producer| producer.send_offsets_to_transaction(&number, &group, ASK))?;
        writer.persist(&mut lane.open, |producer| producer.commit_transaction(ASK))
    }

    /// Brokers abort what is open for too long by the same means by which another program would.
    fn judged(writer: &KafkaOutput, lane: &Lane, error: ConnectError) -> ConnectError {
        let timeout = writer.options.transaction_timeout();
        match lane.began.map(|began| began.elapsed()) {
            Some(open) if open >= timeout && is_fenced(&lane.open.producer) => writer.lost(format!(
                "its transaction was open for {open:.1?}, longer than 'properties.transaction.timeout.ms' allows ({timeout:?}), and \
                 the brokers have aborted it"
            )),
            _ => error,
        }
    }

    fn write_open(writer: &KafkaOutput, lane: &mut Lane, bytes: &[u8]) -> Result<(), ConnectError> {
        TransactionalOutput::begin(writer, lane)?;
        let mut rest = bytes;
        while let Some(frame) = Frame::take(&mut rest) {
            writer.send(&mut lane.open, &frame, ANY_WRITE)?;
        }
        lane.open.producer.poll(Duration::ZERO);
        writer.check(&lane.open)
    }
}

impl Output for TransactionalOutput {
    fn connects(&self) -> bool {
        true
    }

    /// The first time the record of checkpoints is begun.
    fn connect(&mut self) -> Result<Option<Duration>, ConnectError> {
        if self.open.is_some() {
            return Ok(None);
        }
        let begin = |lane: usize| self.writer.begin(Some(&self.of.id(lane)));
        let mut opening = match self.opening.take() {
            Some(opening) => opening,
            None => [begin(0)?, begin(1)?],
        };
        for one in &mut opening {
            let pause = self.writer.proceed(one)?;
            if pause.is_some() {
                self.opening = Some(opening);
                return Ok(pause);
            }
        }
        self.open = Some(opening.map(|one| Lane { open: one.open, began: None }));
        if std::mem::replace(&mut self.is_new, false) {
            self.commit_lane(self.current, 0)?;
        }
        Ok(None)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        self.opened()?;
        let Some(lanes) = &mut self.open else { return Ok(()) };
        let lane = &mut lanes[self.current];
        let written = TransactionalOutput::write_open(&self.writer, lane, bytes);
        written.map_err(|error| TransactionalOutput::judged(&self.writer, lane, error))
    }

    /// Rows that come from now on are in the other transaction. Whether the brokers have those before is seen when they
    /// are committed: if not, the checkpoint never took place.
    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        self.opened()?;
        if std::mem::replace(&mut self.is_prepared, true) {
            // Its rows are in a transaction of their own, and two do not commit as one.
            return Err(self.writer.lost("the checkpoint before was given up".to_owned()));
        }
        self.current ^= 1;
        Ok(OutputPosition::Named(BTreeMap::from([("group".to_owned(), self.of.name.clone())])))
    }

    fn commit(&mut self, checkpoint: u64) -> Result<(), ConnectError> {
        self.commit_lane(self.current ^ 1, checkpoint)?;
        self.is_prepared = false;
        Ok(())
    }

    /// What no checkpoint has committed is not to be seen: it is made again from the last one.
    fn close(&mut self) -> Result<(), ConnectError> {
        for mut lane in self.open.take().into_iter().flatten().filter(|lane| lane.began.is_some()) {
            let aborted = self.writer.persist(&mut lane.open, |producer| producer.abort_transaction(ASK));
            // Who takes a producer's right to write has aborted what it had open.
            if aborted.is_err() && !is_fenced(&lane.open.producer) {
                return aborted;
            }
        }
        Ok(())
    }
}
