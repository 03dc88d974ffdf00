//! Engines over HTTP: one connection that is kept, certificates, and Flink's SQL gateway. Start with [`Gateway`].
//!
//! Not here: what the answers of a JobManager mean, which the agent's adapters know.

mod gateway;
mod http;

pub use gateway::{Gateway, GatewayError, GatewaySession};
pub use http::{Http, HttpError, TIMEOUT, Tls, Verb, without_secret};
