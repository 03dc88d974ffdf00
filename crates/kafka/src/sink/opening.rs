//! What comes before the first record: a client, the numbers of schemas, an id for transactions where it is to have one, and
//! whether the topic is there. Each is asked for until whoever is asked has answered.

use std::time::Duration;

use laxity_connect::{ConnectError, SchemaFault};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer};

use super::deliveries::Deliveries;
use super::output::{KafkaOutput, Open, reason};
use crate::error::{self, Remedy};
use crate::offsets::ASK;
use crate::record_format::Part;

/// A client that cannot write yet.
pub(super) struct Opening {
    pub open: Open,
    has_headers: bool,
    /// Its id is known to the brokers, if it has one.
    is_initialised: bool,
    failures: u32,
    /// How often the topic was not there.
    looks: u32,
}

/// A topic that is not there is looked for so often, with growing pauses: a broker that has just started may not know it.
const LOOKS_FOR_TOPIC: u32 = 2;

impl KafkaOutput {
    /// Makes the client, for transactions if it gets an id for them.
    pub(super) fn begin(&self, transactional_id: Option<&str>) -> Result<Opening, ConnectError> {
        let mut client = self.options.client.clone();
        if let Some(id) = transactional_id {
            client.set("transactional.id", id);
        }
        let made = client.create_with_context(Deliveries::default());
        let producer: BaseProducer<Deliveries> = made.map_err(|fault| self.failed(error::text(&fault)))?;
        let is_initialised = transactional_id.is_none();
        Ok(Opening { open: Open::new(producer), has_headers: false, is_initialised, failures: 0, looks: 0 })
    }

    /// A client that can write, however long that takes.
    pub(super) fn open(&self, transactional_id: Option<&str>) -> Result<Open, ConnectError> {
        let mut opening = self.begin(transactional_id)?;
        while let Some(pause) = self.proceed(&mut opening)? {
            std::thread::sleep(pause);
        }
        Ok(opening.open)
    }

    /// Asks for what is not known yet, each once; how long to wait before the next time, if there has to be one.
    ///
    /// # Errors
    /// What asking again does not help against.
    pub(super) fn proceed(&self, opening: &mut Opening) -> Result<Option<Duration>, ConnectError> {
        let is_done = self.ask(opening)?;
        let Opening { open, failures, .. } = opening;
        open.producer.poll(Duration::ZERO);
        self.check(open)?;
        if is_done {
            self.is_heard(open);
            return Ok(None);
        }
        let pause = Duration::from_secs(error::pause_s(*failures));
        *failures += 1;
        Ok(Some(pause))
    }

    /// True if everything is known.
    fn ask(&self, opening: &mut Opening) -> Result<bool, ConnectError> {
        let Opening { open, has_headers, is_initialised, looks, .. } = opening;
        if !*has_headers {
            let value = self.header(Some(&self.options.formats.value))?;
            let key = self.header(self.options.formats.key.as_ref())?;
            let (Some(value), Some(key)) = (value, key) else { return Ok(false) };
            (open.value_header, open.key_header, *has_headers) = (value, key, true);
        }
        if !*is_initialised {
            match open.producer.init_transactions(ASK) {
                Ok(()) => *is_initialised = true,
                Err(KafkaError::Transaction(fault)) if fault.is_retriable() => {
                    self.is_silent(open, &KafkaError::Transaction(fault));
                    return Ok(false);
                }
                Err(fault) => return Err(self.failed_by(&open.producer, &fault)),
            }
        }
        if open.partitions == 0 {
            // Twice. An answer makes the client ask for its own id as a producer, if it is connected then. The first may have
            // come by a connection to an address of the options, which ends when it has told the broker's name: that id would
            // be asked for half a second later, and the first row would wait for it.
            let ask = |_| ask_for_partitions(&open.producer, &self.options.topic);
            match ask(0).and_then(ask) {
                Ok(partitions) => open.partitions = partitions,
                Err(fault) => match error::remedy(&fault) {
                    Remedy::None => return Err(self.failed(reason(&open.producer, &fault))),
                    Remedy::LookForTopic if *looks == LOOKS_FOR_TOPIC => {
                        return Err(self.failed("there is no such topic".to_owned()));
                    }
                    Remedy::LookForTopic => *looks += 1,
                    Remedy::Wait => self.is_silent(open, &fault),
                },
            }
        }
        Ok(open.partitions > 0)
    }

    /// What stands before the records of a key or a value: the number of a schema that a registry has. `None` if that does
    /// not answer.
    fn header(&self, part: Option<&Part>) -> Result<Option<Vec<u8>>, ConnectError> {
        let Some(schemas) = part.and_then(|part| part.format.schemas()) else { return Ok(Some(Vec::new())) };
        match schemas.header() {
            Ok(header) => {
                self.waiting.end(&self.table);
                Ok(Some(header))
            }
            Err(SchemaFault::End(message)) => {
                let action = format!("write topic '{}'", self.options.topic);
                Err(ConnectError::Service { service: schemas.service(), action, message })
            }
            Err(SchemaFault::Again(why)) => {
                self.waiting.begin(&self.table, &schemas.service(), &why);
                Ok(None)
            }
        }
    }
}

fn ask_for_partitions(producer: &BaseProducer<Deliveries>, topic: &str) -> Result<usize, KafkaError> {
    let metadata = producer.client().fetch_metadata(Some(topic), ASK)?;
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
