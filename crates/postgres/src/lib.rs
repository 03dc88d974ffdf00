//! `'connector' = 'jdbc'`: tables of PostgreSQL, with Flink's options.
//!
//! Rows go both ways as the text of COPY, which is the quickest way in and out of the server. Call [`register`] before any
//! SQL is read. Start with `sink` for what is written, with `source` for what is read.

mod connection;
mod copy_text;
mod options;
mod output;
mod sink;
mod source;
mod statements;
mod transactions;

use laxity_connect::{Connector, LookupConnector, SinkConnector, SourceConnector};

/// Makes `'connector' = 'jdbc'` known to this process.
pub fn register() {
    laxity_connect::register(&Jdbc);
}

struct Jdbc;

impl Connector for Jdbc {
    fn name(&self) -> &'static str {
        "jdbc"
    }

    fn source(&self) -> Option<&dyn SourceConnector> {
        Some(&source::PostgresSource)
    }

    fn sink(&self) -> Option<&dyn SinkConnector> {
        Some(&sink::PostgresSink)
    }

    fn lookup(&self) -> Option<&dyn LookupConnector> {
        Some(&source::PostgresSource)
    }
}
