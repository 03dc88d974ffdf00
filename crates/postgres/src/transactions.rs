//! Exactly once: rows that checkpoints commit.
//!
//! Rows wait on the server, in one of two tables of the connection. A checkpoint's rows are moved on from there in one
//! transaction with the checkpoint's number, which a table beside keeps for each writer; rows that come meanwhile go into
//! the other. Who starts again asks for that number: where it is n, the rows up to checkpoint n are there and no others.
//! What waits is lost with the connection, and made again from the last checkpoint.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use laxity_connect::{ConnectError, Output, OutputPosition, SinkEnvironment, Waiting};
use postgres::Client;

use crate::connection::{Fault, Patience};
use crate::options::ServerTable;
use crate::output::copy;
use crate::statements::Columns;

/// A table being written exactly once.
pub(crate) struct TransactionalOutput {
    server: ServerTable,
    schema: SchemaRef,
    writer: String,
    waiting: Waiting,
    open: Option<(Client, Columns)>,
    /// Which of the two takes rows.
    current: usize,
    /// This begins a new record of checkpoints, with number 0.
    is_new: bool,
    /// The other one waits for its checkpoint.
    is_prepared: bool,
}

/// By writer, the last checkpoint whose rows are in its table.
const RECORD: &str =
    "CREATE TABLE IF NOT EXISTS laxity_checkpoints (writer TEXT PRIMARY KEY, checkpoint BIGINT NOT NULL)";

const STAGES: [&str; 2] = ["laxity_rows_0", "laxity_rows_1"];

/// Attempts to be the only writer, with growing pauses: half a minute, in which a server notices that a client is dead.
const LOCK_ATTEMPTS: usize = 9;

/// Under which name checkpoints are kept, the same after every start.
pub(crate) fn writer(query: &str, table: &str) -> String {
    format!("{query} {table}")
}

/// The number of the last checkpoint whose rows are there; 0 if there is none. No other process writes under that name
/// then. Where the environment has a checkpoint to go on from, there has been a record of them.
pub(crate) fn committed(
    server: &ServerTable,
    writer: &str,
    env: &SinkEnvironment,
) -> Result<u64, ConnectError> {
    let mut client = locked(server, writer, &env.waiting)?;
    let found = client.batch_execute(RECORD).and_then(|()| {
        client.query_opt("SELECT checkpoint FROM laxity_checkpoints WHERE writer = $1", &[&writer])
    });
    match found.map_err(|error| server.failed("write", Fault::of(&error).text()))? {
        Some(row) => Ok(row.get::<_, i64>(0).unsigned_abs()),
        None if env.resume.is_some() => Err(server.failed(
            "write",
            format!(
                "its record in table laxity_checkpoints (writer '{writer}') is gone, so rows may be doubled: put it back, \
                 or begin anew without the state"
            ),
        )),
        None => Ok(0),
    }
}

/// A connection that alone writes under that name, for as long as it lives.
fn locked(server: &ServerTable, writer: &str, waiting: &Waiting) -> Result<Client, ConnectError> {
    let mut patience = Patience::new(waiting.clone());
    let mut attempts = 0;
    loop {
        let locked = server.connect_once().and_then(|mut client| {
            let sql = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
            let row =
                client.query_one(sql, &[&format!("laxity {writer}")]).map_err(|error| Fault::of(&error))?;
            Ok((client, row.get::<_, bool>(0)))
        });
        match locked {
            Ok((client, true)) => {
                patience.end(server);
                return Ok(client);
            }
            Ok((_, false)) if attempts == LOCK_ATTEMPTS => {
                let why = format!("another program writes it as '{writer}': the same file, run twice?");
                return Err(server.failed("write", why));
            }
            Ok((_, false)) => {
                attempts += 1;
                patience.wait(server, "another program writes as this query");
            }
            Err(Fault::World(why)) => patience.wait(server, &why),
            Err(Fault::Refused(why)) => return Err(server.failed("write", why)),
        }
    }
}

impl TransactionalOutput {
    pub(crate) fn new(
        server: ServerTable,
        schema: SchemaRef,
        writer: String,
        env: &SinkEnvironment,
    ) -> TransactionalOutput {
        TransactionalOutput {
            server,
            schema,
            writer,
            waiting: env.waiting.clone(),
            open: None,
            current: 0,
            is_new: env.resume.is_none(),
            is_prepared: false,
        }
    }

    fn opened(&mut self) -> Result<(), ConnectError> {
        if self.open.is_some() {
            return Ok(());
        }
        let mut client = locked(&self.server, &self.writer, &self.waiting)?;
        let found = Columns::find(&mut client, &self.server, &self.schema).and_then(|columns| {
            let stages = STAGES.map(|stage| columns.stage(stage)).join("; ");
            client.batch_execute(&format!("{RECORD}; {stages}")).map_err(|error| Fault::of(&error))?;
            Ok(columns)
        });
        let columns = found.map_err(|fault| self.failed(fault))?;
        self.open = Some((client, columns));
        match std::mem::replace(&mut self.is_new, false) {
            true => self.commit_stage(self.current, 0),
            false => Ok(()),
        }
    }

    fn commit_stage(&mut self, stage: usize, checkpoint: u64) -> Result<(), ConnectError> {
        let Some((client, columns)) = &mut self.open else { return Ok(()) };
        let stage = STAGES[stage];
        let number = checkpoint as i64;
        let committed = (|| {
            let mut transaction = client.transaction()?;
            transaction.batch_execute(&format!("{}; TRUNCATE {stage}", columns.merge(stage)))?;
            let sql = "INSERT INTO laxity_checkpoints VALUES ($1, $2) \
                       ON CONFLICT (writer) DO UPDATE SET checkpoint = EXCLUDED.checkpoint";
            transaction.execute(sql, &[&self.writer, &number])?;
            transaction.commit()
        })();
        committed.map_err(|error: postgres::Error| self.failed(Fault::of(&error)))
    }

    fn failed(&self, fault: Fault) -> ConnectError {
        let why = match fault {
            Fault::World(why) => {
                let why = format!("{why}; with the connection went what no checkpoint had committed");
                return self.server.lost("write", why);
            }
            Fault::Refused(why) => why,
        };
        self.server.failed("write", why)
    }
}

impl Output for TransactionalOutput {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        self.opened()?;
        let Some((client, columns)) = &mut self.open else { return Ok(()) };
        let copied = copy(client, &columns.copy_into(STAGES[self.current]), bytes);
        copied.map_err(|fault| self.failed(fault))
    }

    /// Rows that come from now on wait in the other table.
    fn prepare(&mut self, _checkpoint: u64) -> Result<OutputPosition, ConnectError> {
        self.opened()?;
        if std::mem::replace(&mut self.is_prepared, true) {
            return Err(self.server.lost("write", "the checkpoint before was given up".to_owned()));
        }
        self.current ^= 1;
        Ok(OutputPosition::Named(BTreeMap::from([("writer".to_owned(), self.writer.clone())])))
    }

    fn commit(&mut self, checkpoint: u64) -> Result<(), ConnectError> {
        self.commit_stage(self.current ^ 1, checkpoint)?;
        self.is_prepared = false;
        Ok(())
    }

    /// What no checkpoint has committed goes with the connection.
    fn close(&mut self) -> Result<(), ConnectError> {
        self.open = None;
        Ok(())
    }
}
