use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;

use crate::error::{self, Remedy};

/// Sends what the client says of itself to our log: what concerns a query is told by errors.
#[derive(Default)]
pub(crate) struct Quiet {
    /// The last reason for an error that waiting does not help against: errors themselves are numbers.
    reason: Mutex<Option<String>>,
}

impl Quiet {
    /// What a person can do something about: the reason of an error that ends a query, where the client gave one.
    pub(crate) fn text(&self, fault: &KafkaError) -> String {
        let reason = self.reason.lock().clone().filter(|_| error::remedy(fault) == Remedy::None);
        reason.unwrap_or_else(|| error::text(fault))
    }
}

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "laxity_kafka::client", ?level, facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "laxity_kafka::client", %error, "{reason}");
        if error::remedy(&error) == Remedy::None && !reason.is_empty() {
            *self.reason.lock() = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Quiet {}
