//! Flink's SQL gateway. Start with [`Gateway`].

mod gateway;

pub use gateway::{Gateway, GatewayError, GatewaySession};
