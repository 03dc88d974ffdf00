//! What the client says of records and of itself: which writes the brokers have, in the order of the writes, whatever that
//! of the records is.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::client::Quiet;
use crate::error::{self, Remedy};

/// Told by the client, asked by the output.
#[derive(Default)]
pub(super) struct Deliveries {
    pub quiet: Quiet,
    /// Of the client itself, or of records whose writes are not told apart.
    fault: Mutex<Option<KafkaError>>,
    writes: Mutex<Writes>,
}

/// The write of a record whose writes are not told apart.
pub(super) const ANY_WRITE: usize = usize::MAX;

/// Writes that nobody was told of yet.
#[derive(Default)]
struct Writes {
    /// Number of the first.
    first: usize,
    open: VecDeque<OneWrite>,
}

#[derive(Default)]
struct OneWrite {
    /// That the client has and the brokers may not. Below zero while it is being handed over: they are counted at its end.
    records: isize,
    /// No more records come.
    is_whole: bool,
    /// Its writer knows that it failed.
    is_given_up: bool,
    fault: Option<KafkaError>,
}

impl Deliveries {
    /// Begins a write, whose records bear its number.
    pub fn begin(&self) -> usize {
        let Writes { first, open } = &mut *self.writes.lock();
        open.push_back(OneWrite::default());
        *first + open.len() - 1
    }

    /// The client took so many records of it and not the next: nobody is told of the write.
    pub fn give_up(&self, write: usize, records: usize) {
        self.end(write, records, true);
    }

    /// All of its records were handed to the client, so many.
    pub fn ends(&self, write: usize, records: usize) {
        self.end(write, records, false);
    }

    fn end(&self, write: usize, records: usize, is_given_up: bool) {
        self.with(write, |write| {
            write.records += records as isize;
            (write.is_whole, write.is_given_up) = (true, is_given_up);
        });
    }

    /// What has become of the first write, if that is known.
    pub fn next(&self) -> Option<Result<(), KafkaError>> {
        let Writes { first, open } = &mut *self.writes.lock();
        while open.front().is_some_and(|write| write.is_whole && write.records == 0) {
            let write = open.pop_front()?;
            *first += 1;
            if !write.is_given_up {
                return Some(write.fault.map_or(Ok(()), Err));
            }
        }
        None
    }

    /// A fault of a write that nobody was told of yet.
    pub fn failed(&self) -> Option<KafkaError> {
        let is_open = |write: &&OneWrite| !write.is_given_up;
        self.writes.lock().open.iter().filter(is_open).find_map(|write| write.fault.clone())
    }

    /// What is wrong with the client itself, once. Nothing that is on its way is waited for then.
    pub fn take_fault(&self) -> Option<KafkaError> {
        let fault = self.fault.lock().take()?;
        let is_on_its_way = |write: &&mut OneWrite| write.is_whole && write.records > 0;
        for write in self.writes.lock().open.iter_mut().filter(is_on_its_way) {
            write.records = 0;
            write.fault.get_or_insert_with(|| fault.clone());
        }
        Some(fault)
    }

    fn with(&self, write: usize, act: impl FnOnce(&mut OneWrite)) {
        let Writes { first, open } = &mut *self.writes.lock();
        // Who was told already knows all that there is to know.
        let write = write.checked_sub(*first).and_then(|index| open.get_mut(index));
        if let Some(write) = write {
            act(write);
        }
    }

    fn on_delivery(&self, write: usize, fault: Option<KafkaError>) {
        if write == ANY_WRITE {
            if let Some(fault) = fault {
                self.fault.lock().get_or_insert(fault);
            }
            return;
        }
        self.with(write, |write| {
            // None is waited for any more if the client itself had failed.
            if !write.is_whole || write.records > 0 {
                write.records -= 1;
            }
            write.fault = write.fault.take().or(fault);
        });
    }
}

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
    /// The number of the write.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, write: usize) {
        self.on_delivery(write, result.as_ref().err().map(|(fault, _)| fault.clone()));
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::error::RDKafkaErrorCode;

    use super::*;

    fn too_large() -> KafkaError {
        KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge)
    }

    fn write(deliveries: &Deliveries, records: usize) -> usize {
        let write = deliveries.begin();
        deliveries.ends(write, records);
        write
    }

    #[test]
    fn writes_are_told_of_in_their_order_when_all_their_records_are_there() {
        let deliveries = Deliveries::default();
        let first = deliveries.begin();
        // The brokers have one before the client has all.
        deliveries.on_delivery(first, None);
        deliveries.ends(first, 3);
        let second = write(&deliveries, 1);
        deliveries.on_delivery(second, None);
        deliveries.on_delivery(first, None);
        assert_eq!(deliveries.next(), None);
        deliveries.on_delivery(first, None);
        assert_eq!([deliveries.next(), deliveries.next()], [Some(Ok(())), Some(Ok(()))]);
        assert_eq!(deliveries.next(), None);
        let empty = write(&deliveries, 0);
        assert_eq!((empty, deliveries.next()), (2, Some(Ok(()))));
    }

    #[test]
    fn a_fault_is_that_of_its_write() {
        let deliveries = Deliveries::default();
        let (first, second) = (write(&deliveries, 1), write(&deliveries, 2));
        let third = deliveries.begin();
        deliveries.give_up(third, 1);
        let fourth = write(&deliveries, 1);
        deliveries.on_delivery(second, Some(too_large()));
        assert_eq!(deliveries.failed(), Some(too_large()));
        for write in [second, third, first, fourth] {
            deliveries.on_delivery(write, None);
        }
        assert_eq!([deliveries.next(), deliveries.next()], [Some(Ok(())), Some(Err(too_large()))]);
        // Nobody is told of the third.
        assert_eq!([deliveries.next(), deliveries.next()], [Some(Ok(())), None]);
        assert_eq!((deliveries.failed(), deliveries.take_fault()), (None, None));
    }

    #[test]
    fn what_is_wrong_with_the_client_is_wrong_with_all_that_is_on_its_way() {
        let deliveries = Deliveries::default();
        let (first, second) = (write(&deliveries, 1), write(&deliveries, 1));
        deliveries.on_delivery(first, None);
        let fault = KafkaError::Global(RDKafkaErrorCode::Authentication);
        deliveries.error(fault.clone(), "no");
        assert_eq!(deliveries.take_fault(), Some(fault.clone()));
        assert_eq!(deliveries.take_fault(), None);
        assert_eq!([deliveries.next(), deliveries.next()], [Some(Ok(())), Some(Err(fault))]);
        // The client may find the brokers yet.
        deliveries.on_delivery(second, None);
        assert_eq!(deliveries.next(), None);
    }
}
