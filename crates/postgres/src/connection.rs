//! Connections, and what helps against their errors.

use std::time::Duration;

use laxity_connect::{ConnectError, Waiting};
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use postgres::config::SslMode;
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use postgres_openssl::MakeTlsConnector;

use crate::options::{Encryption, ServerTable};

impl ServerTable {
    /// Asks once.
    pub(crate) fn connect_once(&self) -> Result<Client, Fault> {
        let mut config = self.config.clone();
        config.ssl_mode(match self.encryption {
            Encryption::Disable => SslMode::Disable,
            Encryption::Prefer => SslMode::Prefer,
            _ => SslMode::Require,
        });
        let connected = match self.encryption {
            Encryption::Disable => config.connect(NoTls),
            _ => config.connect(self.tls().map_err(|error| Fault::World(error.to_string()))?),
        };
        let mut client = connected.map_err(|error| Fault::of(&error))?;
        // Times come and go as text, in UTC.
        client
            .batch_execute("SET TIME ZONE 'UTC'; SET DATESTYLE TO ISO")
            .map_err(|error| Fault::of(&error))?;
        Ok(client)
    }

    fn tls(&self) -> Result<MakeTlsConnector, openssl::error::ErrorStack> {
        let mut builder = SslConnector::builder(SslMethod::tls())?;
        if let Some(path) = &self.root_certificate {
            builder.set_ca_file(path)?;
        }
        if matches!(self.encryption, Encryption::Prefer | Encryption::Require) {
            builder.set_verify(SslVerifyMode::NONE);
        }
        let names_host = self.encryption == Encryption::VerifyFull;
        let mut connector = MakeTlsConnector::new(builder.build());
        connector.set_callback(move |config, _| {
            config.set_verify_hostname(names_host);
            Ok(())
        });
        Ok(connector)
    }

    /// What no checkpoint had committed is gone.
    pub(crate) fn lost(&self, action: &str, message: String) -> ConnectError {
        let action = format!("{action} table '{}'", self.table);
        ConnectError::Lost { service: self.service.clone(), action, message }
    }

    /// An error about this table.
    pub(crate) fn failed(&self, action: &str, message: String) -> ConnectError {
        ConnectError::Service {
            service: self.service.clone(),
            action: format!("{action} table '{}'", self.table),
            message,
        }
    }
}

/// Why something did not work.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server is not there, or has no room now: patience helps, and a new connection.
    World(String),
    /// It refuses.
    Refused(String),
}

impl Fault {
    pub(crate) fn of(error: &postgres::Error) -> Fault {
        let Some(said) = error.as_db_error() else {
            // A connection that was lost, or never came about; a wrong password is the server's to say.
            return Fault::World(causes(error));
        };
        let mut text = said.message().to_owned();
        for more in [said.detail(), said.hint(), said.where_()].into_iter().flatten() {
            text.push_str("; ");
            text.push_str(&more.replace('\n', ", "));
        }
        let state = said.code();
        let passes = matches!(
            *state,
            SqlState::ADMIN_SHUTDOWN
                | SqlState::CRASH_SHUTDOWN
                | SqlState::CANNOT_CONNECT_NOW
                | SqlState::T_R_SERIALIZATION_FAILURE
                | SqlState::T_R_DEADLOCK_DETECTED
                | SqlState::LOCK_NOT_AVAILABLE
        );
        // Class 08: the connection; 53: no room on disk, no memory, too many connections.
        let class = state.code().get(..2);
        match passes || matches!(class, Some("08" | "53")) {
            true => Fault::World(text),
            false => Fault::Refused(text),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Fault::World(text) | Fault::Refused(text) => text,
        }
    }
}

fn causes(error: &postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let said = next.to_string();
        // What contains a cause often quotes it.
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    text
}

/// How long a server has been waited for.
#[derive(Default)]
pub(crate) struct Patience {
    waiting: Waiting,
    failures: u32,
}

impl Patience {
    /// One that says there that it waits.
    pub(crate) fn new(waiting: Waiting) -> Patience {
        Patience { waiting, failures: 0 }
    }

    /// Waits before the next attempt, longer each time up to 16 s, and says so once.
    pub(crate) fn wait(&mut self, server: &ServerTable, why: &str) {
        self.waiting.begin(&server.table, &server.service, why);
        std::thread::sleep(Duration::from_millis(250 << self.failures.min(6)));
        self.failures += 1;
    }

    /// It has answered.
    pub(crate) fn end(&mut self, server: &ServerTable) {
        self.failures = 0;
        self.waiting.end(&server.table);
    }
}
