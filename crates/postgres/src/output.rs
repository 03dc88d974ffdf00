//! Rows into a table as they come, each batch whole or not at all. Runs on a thread of its own, which may block.

use std::io::Write;

use arrow::datatypes::SchemaRef;
use laxity_connect::{ConnectError, Output, OutputPosition, Waiting};
use postgres::{Client, GenericClient};

use crate::connection::{Fault, Patience};
use crate::options::ServerTable;
use crate::statements::Columns;

/// A table being written, at least once: a batch whose end the server did not confirm is written again.
pub(crate) struct PostgresOutput {
    server: ServerTable,
    schema: SchemaRef,
    /// Made with the first rows, and again when it is lost.
    open: Option<(Client, Columns)>,
    patience: Patience,
}

/// Where rows of a table with a key wait until the last of each key is known.
const STAGE: &str = "laxity_rows";

impl PostgresOutput {
    pub(crate) fn new(server: ServerTable, schema: SchemaRef, waiting: Waiting) -> PostgresOutput {
        PostgresOutput { server, schema, open: None, patience: Patience::new(waiting) }
    }

    fn open(&self) -> Result<(Client, Columns), Fault> {
        let mut client = self.server.connect_once()?;
        let columns = Columns::find(&mut client, &self.server, &self.schema)?;
        if !columns.keys.is_empty() {
            client.batch_execute(&columns.stage(STAGE)).map_err(|error| Fault::of(&error))?;
        }
        Ok((client, columns))
    }

    fn write_once(&mut self, rows: &[u8]) -> Result<(), Fault> {
        if self.open.is_none() {
            self.open = Some(self.open()?);
        }
        let Some((client, columns)) = &mut self.open else { return Ok(()) };
        if columns.keys.is_empty() {
            return copy(client, &columns.copy_into(&columns.table), rows);
        }
        let refused = |error: postgres::Error| Fault::of(&error);
        let mut transaction = client.transaction().map_err(refused)?;
        copy(&mut transaction, &columns.copy_into(STAGE), rows)?;
        transaction.batch_execute(&format!("{}; TRUNCATE {STAGE}", columns.merge(STAGE))).map_err(refused)?;
        transaction.commit().map_err(refused)
    }
}

/// Sends rows with a COPY.
pub(crate) fn copy(client: &mut impl GenericClient, sql: &str, rows: &[u8]) -> Result<(), Fault> {
    let refused = |error: postgres::Error| Fault::of(&error);
    let mut writer = client.copy_in(sql).map_err(refused)?;
    // What the server has against the rows is told at the end; a write that fails is followed by that.
    let written = writer.write_all(rows);
    writer.finish().map_err(refused)?;
    written.map_err(|error| Fault::World(error.to_string()))
}

impl Output for PostgresOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        loop {
            match self.write_once(bytes) {
                Ok(()) => {
                    self.patience.end(&self.server);
                    return Ok(());
                }
                Err(Fault::World(why)) => {
                    self.open = None;
                    self.patience.wait(&self.server, &why);
                }
                Err(Fault::Refused(why)) => return Err(self.server.failed("write", why)),
            }
        }
    }

    fn close(&mut self) -> Result<(), ConnectError> {
        self.open = None;
        Ok(())
    }

    /// What was written is there, and cannot be taken back.
    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        Ok(OutputPosition::None)
    }
}
