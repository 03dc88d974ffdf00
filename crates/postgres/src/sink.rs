//! Tables that are written.

use arrow::array::RecordBatch;
use laxity_connect::{
    ConnectError, Delivery, Encoder, OpenSink, OptionError, OptionReader, Output, SinkConnector,
    SinkEnvironment, TableSpec,
};

use crate::copy_text;
use crate::options::ServerTable;
use crate::output::PostgresOutput;
use crate::transactions::{self, TransactionalOutput};

/// `'connector' = 'jdbc'`, written.
pub(crate) struct PostgresSink;

const GUARANTEE: &str = "laxity.delivery-guarantee";

struct SinkOptions {
    server: ServerTable,
    is_once: bool,
}

impl SinkOptions {
    fn read(table: &TableSpec, options: &OptionReader<'_>) -> Result<SinkOptions, OptionError> {
        let server = ServerTable::read(options)?;
        let guarantees = [("at-least-once", false), ("exactly-once", true)];
        let is_once = options.choice(GUARANTEE, &guarantees)?.unwrap_or(false);
        refuse_types(table, options)?;
        options.finish()?;
        Ok(SinkOptions { server, is_once })
    }
}

/// Of the same table where it is read.
pub(crate) fn ask_for_options(options: &OptionReader<'_>) {
    let _of_the_sink = options.text(GUARANTEE);
}

pub(crate) fn refuse_types(table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
    match table.schema.fields().iter().find(|field| !copy_text::fits(field.data_type())) {
        None => Ok(()),
        Some(field) => {
            let message = format!(
                "column {}: no type of PostgreSQL is known here for ROW, ARRAY, MAP and intervals; CAST it to STRING",
                field.name()
            );
            Err(options.error("connector", message))
        }
    }
}

impl SinkConnector for PostgresSink {
    fn validate(&self, table: &TableSpec, options: &OptionReader<'_>) -> Result<(), OptionError> {
        SinkOptions::read(table, options).map(drop)
    }

    fn open(
        &self,
        table: &TableSpec,
        env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<OpenSink, ConnectError> {
        let SinkOptions { server, is_once } = SinkOptions::read(table, options)?;
        if is_once && !env.is_checkpointed {
            let message = "'exactly-once' commits with checkpoints: SET 'execution.checkpointing.interval', or take 'at-least-once'";
            return Err(options.error(GUARANTEE, message).into());
        }
        let schema = table.schema.clone();
        let encoder = CopyEncoder { server: server.clone() };
        let output: Box<dyn Output> = match is_once {
            true => {
                let writer = transactions::writer(&env.query, &table.name);
                Box::new(TransactionalOutput::new(server, schema, writer, env))
            }
            false => Box::new(PostgresOutput::new(server, schema, env.waiting.clone())),
        };
        let serves_all = !env.is_checkpointed;
        Ok(OpenSink { encoder: Box::new(encoder), output: Some(output), may_stall: true, serves_all })
    }

    fn committed(
        &self,
        table: &TableSpec,
        env: &SinkEnvironment,
        options: &OptionReader<'_>,
    ) -> Result<Option<u64>, ConnectError> {
        let SinkOptions { server, is_once } = SinkOptions::read(table, options)?;
        if !is_once {
            return Ok(None);
        }
        let writer = transactions::writer(&env.query, &table.name);
        transactions::committed(&server, &writer, env).map(Some)
    }

    fn keeps_record(&self, table: &TableSpec, options: &OptionReader<'_>) -> bool {
        SinkOptions::read(table, options).is_ok_and(|settings| settings.is_once)
    }

    fn delivery(&self, table: &TableSpec, options: &OptionReader<'_>) -> Delivery {
        match SinkOptions::read(table, options) {
            Ok(SinkOptions { is_once: true, .. }) => Delivery::ExactlyOnce,
            _ => Delivery::AtLeastOnce,
        }
    }
}

struct CopyEncoder {
    server: ServerTable,
}

impl Encoder for CopyEncoder {
    fn encode(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ConnectError> {
        copy_text::encode(rows, out).map_err(|error| self.server.failed("write", error.to_string()))
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), ConnectError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field};

    use super::*;
    use crate::options::tests::table;

    #[test]
    fn every_wrong_option_is_named() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
        type Case<'a> = (DataType, &'a [(&'a str, &'a str)], &'a str);
        let cases: &[Case<'_>] = &[
            (DataType::Int64, &[], "nothing"),
            (DataType::Int64, &[("sink.buffer-flush.interval", "1 s"), ("lookup.cache", "FULL")], "nothing"),
            (DataType::Int64, &[(GUARANTEE, "twice")], "laxity.delivery-guarantee: 'twice' is not known"),
            (
                DataType::Int64,
                &[("sink.max-retires", "3")],
                "sink.max-retires: unknown option, did you mean 'sink.max-retries'?",
            ),
            (DataType::Int64, &[("table-name", "(none)")], "table-name: missing"),
            (list, &[], "connector: column v: no type of PostgreSQL"),
        ];
        for (kind, options, expected) in cases {
            let table = table(&[("v", kind.clone())], options);
            let said = match PostgresSink.validate(&table, &OptionReader::new(&table)) {
                Ok(()) => "nothing".to_owned(),
                Err(error) => format!("{}: {}", error.key, error.message),
            };
            assert!(said.starts_with(expected), "{options:?}: {said}");
        }
    }

    #[test]
    fn exactly_once_asks_for_checkpoints() {
        let table = table(&[("v", DataType::Int64)], &[(GUARANTEE, "exactly-once")]);
        let open = |is_checkpointed| {
            let env = SinkEnvironment { query: "q".into(), is_checkpointed, ..SinkEnvironment::default() };
            PostgresSink.open(&table, &env, &OptionReader::new(&table)).map(drop)
        };
        assert!(open(false).unwrap_err().to_string().contains("commits with checkpoints"));
        assert!(open(true).is_ok());
    }
}
