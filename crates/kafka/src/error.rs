use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// What helps against an error of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Patience: the client tries again by itself.
    Wait,
    /// Nothing that we could do.
    None,
    /// Nothing, if the topic is really gone: a broker that has just started may not know it yet.
    LookForTopic,
}

/// What helps against it.
pub(crate) fn remedy(error: &KafkaError) -> Remedy {
    match error.rdkafka_error_code() {
        Some(
            Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::IllegalSASLState
            | Code::SecurityDisabled
            | Code::SSL
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::AutoOffsetReset
            | Code::NoOffset
            | Code::OffsetOutOfRange
            | Code::InvalidTopic
            | Code::MessageSizeTooLarge
            | Code::InvalidMessageSize
            | Code::MessageBatchTooLarge
            | Code::InvalidRecord
            | Code::UnsupportedCompressionType
            | Code::UnsupportedVersion
            | Code::UnsupportedFeature
            | Code::InvalidRequiredAcks
            | Code::InvalidTimestamp
            | Code::PolicyViolation
            | Code::InvalidArgument
            | Code::Fatal,
        ) => Remedy::None,
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            Remedy::LookForTopic
        }
        Some(_) => Remedy::Wait,
        None => Remedy::None,
    }
}

/// What the client said, in a few words. An error about its configuration would quote the value, which may be a secret.
pub(crate) fn text(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, said, key, _) => format!("{key}: {said}"),
        KafkaError::ClientCreation(said) => said.clone(),
        other => match other.rdkafka_error_code() {
            Some(code) => code.to_string(),
            None => other.to_string(),
        },
    }
}

/// Seconds until the next attempt, after so many that failed.
pub(crate) fn pause_s(failures: u32) -> u64 {
    1 << failures.min(4)
}
