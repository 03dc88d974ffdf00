//! Records by the batch. The Rust side of the client gives one after the other, which takes as much CPU as all else that is done for one
//! on its way from the broker: .55 us for a small one, .3 by the batch (`kafka_speed`).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

/// Where the records of partitions come together that were [joined](Batches::join). What else the client has to tell, its consumer
/// does when it is polled.
pub struct Batches<C: ConsumerContext> {
    queue: NonNull<sys::rd_kafka_queue_t>,
    taken: Vec<Record>,
    /// The queue is a part of it.
    consumer: Arc<BaseConsumer<C>>,
}

impl<C: ConsumerContext> Batches<C> {
    /// Of that consumer, and nothing in it yet.
    ///
    /// # Panics
    /// Without memory for a queue.
    pub fn new(consumer: Arc<BaseConsumer<C>>) -> Batches<C> {
        // SAFETY: the client lives, as its consumer does.
        let queue = unsafe { sys::rd_kafka_queue_new(consumer.client().native_ptr()) };
        Batches { queue: NonNull::new(queue).expect("memory for a queue"), taken: Vec::new(), consumer }
    }

    /// What a partition brings comes here and not to the consumer's poll. To be said before the partition is assigned: what has come
    /// before stays where it is.
    ///
    /// # Panics
    /// If the name of the topic has a NUL in it.
    pub fn join(&self, topic: &str, partition: i32) {
        let topic = CString::new(topic).expect("names of topics have no NUL");
        // SAFETY: the client and the queue live, and the partition's queue until it is given back. None is given to a producer only.
        unsafe {
            let of = sys::rd_kafka_queue_get_partition(
                self.consumer.client().native_ptr(),
                topic.as_ptr(),
                partition,
            );
            if let Some(of) = NonNull::new(of) {
                sys::rd_kafka_queue_forward(of.as_ptr(), self.queue.as_ptr());
                sys::rd_kafka_queue_destroy(of.as_ptr());
            }
        }
    }

    /// Waits for a record so long and takes it, with those that are there: at most so many, and no less than one. `each` is told
    /// every one, and what is wrong with a partition, in order.
    pub fn take(&mut self, wait: Duration, most: usize, mut each: impl FnMut(Result<&Record, KafkaError>)) {
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue lives, and what comes out is ours.
        let first = unsafe { sys::rd_kafka_consume_queue(self.queue.as_ptr(), wait_ms) };
        let Some(first) = NonNull::new(first).map(Record) else { return };
        each(first.outcome());
        self.taken.reserve(most);
        // SAFETY: it is empty and has room for `most` records, which are pointers to what is ours from now on; so many as it says
        // were written. It does not wait: if it did, it would until all have come.
        unsafe {
            let room = self.taken.as_mut_ptr().cast::<*mut sys::rd_kafka_message_t>();
            let came =
                sys::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, room, most.saturating_sub(1));
            self.taken.set_len(usize::try_from(came).unwrap_or(0));
        }
        self.taken.drain(..).for_each(|record| each(record.outcome()));
    }
}

impl<C: ConsumerContext> Drop for Batches<C> {
    fn drop(&mut self) {
        // SAFETY: it is ours, nobody has it after this, and the client lives longer.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// A record, or what is wrong with a partition, in the client's memory.
#[repr(transparent)]
pub struct Record(NonNull<sys::rd_kafka_message_t>);

impl Record {
    fn message(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: it is ours until it is dropped, and nobody writes to it.
        unsafe { self.0.as_ref() }
    }

    fn outcome(&self) -> Result<&Record, KafkaError> {
        match self.message().err.into() {
            RDKafkaErrorCode::NoError => Ok(self),
            RDKafkaErrorCode::PartitionEOF => Err(KafkaError::PartitionEOF(self.partition())),
            code => Err(KafkaError::MessageConsumption(code)),
        }
    }

    /// Its value; `None` for a tombstone.
    pub fn value(&self) -> Option<&[u8]> {
        let message = self.message();
        // SAFETY: the client's lengths are those of what it points to, which lives as long as the message.
        unsafe { bytes(message.payload.cast(), message.len) }
    }

    /// Its key, if it has one.
    pub fn key(&self) -> Option<&[u8]> {
        let message = self.message();
        // SAFETY: as for the value.
        unsafe { bytes(message.key.cast(), message.key_len) }
    }

    /// Its topic; empty if the name is not text.
    pub fn topic(&self) -> &str {
        let topic = self.message().rkt;
        if topic.is_null() {
            return "";
        }
        // SAFETY: the message holds its topic, and this its name, which ends with NUL.
        unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(topic)) }.to_str().unwrap_or_default()
    }

    /// Number of its partition.
    pub fn partition(&self) -> i32 {
        self.message().partition
    }

    /// Its place in the partition.
    pub fn offset(&self) -> i64 {
        self.message().offset
    }

    /// Milliseconds since 1970, and what they mean; -1 where it has none.
    pub fn timestamp_ms(&self) -> (i64, sys::rd_kafka_timestamp_type_t) {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is only read.
        let ms = unsafe { sys::rd_kafka_message_timestamp(self.0.as_ptr(), &mut kind) };
        (ms, kind)
    }

    /// In which term of the partition's leaders it was appended, if the broker said so.
    pub fn leader_epoch(&self) -> Option<i32> {
        // SAFETY: the message is only read.
        let epoch = unsafe { sys::rd_kafka_message_leader_epoch(self.0.as_ptr()) };
        (epoch >= 0).then_some(epoch)
    }

    /// Names and values of its headers.
    pub fn headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let mut headers = ptr::null_mut();
        let mut all = Vec::new();
        // SAFETY: the headers are read once, on this thread, and live as long as the message; names end with NUL, and lengths are
        // those of the values.
        unsafe {
            let code = sys::rd_kafka_message_headers(self.0.as_ptr(), &mut headers);
            if RDKafkaErrorCode::from(code) != RDKafkaErrorCode::NoError {
                return all;
            }
            loop {
                let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
                let code = sys::rd_kafka_header_get_all(headers, all.len(), &mut name, &mut value, &mut len);
                if RDKafkaErrorCode::from(code) != RDKafkaErrorCode::NoError {
                    return all;
                }
                let name = CStr::from_ptr(name).to_string_lossy().into_owned();
                all.push((name, bytes(value.cast(), len).map(<[u8]>::to_vec)));
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody has it after this.
        unsafe { sys::rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

/// # Safety
/// There are so many bytes at `at`, or it is null, for as long as what comes out is used.
unsafe fn bytes<'a>(at: *const u8, len: usize) -> Option<&'a [u8]> {
    // SAFETY: said above.
    (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at, len) })
}
