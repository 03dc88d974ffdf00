//! The WITH clause: where the server is, who asks, and which table.

use std::time::Duration;

use laxity_connect::{OptionError, OptionReader};

/// How the connection is protected: `sslmode` of the URL, as libpq and the JDBC driver mean it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    Disable,
    /// Where the server offers it.
    Prefer,
    /// Whoever the server is.
    Require,
    /// The server's certificate is signed by one that is trusted.
    VerifyAuthority,
    /// And names the host.
    VerifyFull,
}

/// A table of a server.
#[derive(Clone)]
pub(crate) struct ServerTable {
    /// For people: `PostgreSQL at 127.0.0.1:5432/db`.
    pub service: String,
    pub config: postgres::Config,
    pub encryption: Encryption,
    /// PEM of those that sign servers' certificates; the system's otherwise.
    pub root_certificate: Option<String>,
    /// `name` or `schema.name`, as SQL would fold it.
    pub table: String,
}

const URL: &str = "url";
const START: &str = "jdbc:postgresql://";

/// How long a server may take to answer, unless the URL says otherwise. The JDBC driver's.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A host that is silent is asked so by the system whether it is there, and the connection is lost if it says nothing: one that was
/// switched off, or a cable that was cut, is known after a minute. A server that works on a long statement answers.
const ASKED_AFTER: Duration = Duration::from_secs(30);
const ASKED_EVERY: Duration = Duration::from_secs(10);
const ASKED_TIMES: u32 = 3;

/// Of the same table where it is read, written, or looked up in.
const OF_FLINK: &[&str] = &[
    "driver",
    "connection.max-retry-timeout",
    "scan.fetch-size",
    "scan.auto-commit",
    "sink.buffer-flush.max-rows",
    "sink.buffer-flush.interval",
    "sink.max-retries",
    "sink.parallelism",
    "lookup.cache",
    "lookup.max-retries",
    "lookup.full-cache.reload-strategy",
    "lookup.full-cache.periodic-reload.interval",
    "lookup.full-cache.periodic-reload.schedule-mode",
    "lookup.full-cache.timed-reload.iso-time",
    "lookup.full-cache.timed-reload.interval-in-days",
];

impl ServerTable {
    /// Reads what all tables have, and takes note of what reading and writing alone have.
    pub(crate) fn read(options: &OptionReader<'_>) -> Result<ServerTable, OptionError> {
        let url = options.required(URL, "the database, such as 'jdbc:postgresql://localhost:5432/mydb'")?;
        let table = options.required("table-name", "the table's name in the database")?.to_owned();
        for key in ["scan.partition.column", "scan.partition.num"] {
            if options.text(key).is_some() {
                return Err(options.error(key, "not supported: a table is read in one piece"));
            }
        }
        if let Some(driver) = options.text("driver").filter(|driver| *driver != "org.postgresql.Driver") {
            return Err(
                options.error("driver", format!("'{driver}' is not PostgreSQL's, which is the one there is"))
            );
        }
        for key in OF_FLINK {
            let _taken_and_ignored = options.text(key);
        }
        let address = url.strip_prefix(START).ok_or_else(|| {
            options.error(URL, "not of PostgreSQL, which is the one database there is: 'jdbc:postgresql://host:port/database'")
        })?;
        let (place, parameters) = address.split_once('?').unwrap_or((address, ""));
        let mut config: postgres::Config = format!("postgresql://{place}").parse().map_err(|_| {
            options.error(URL, "not understood; expected 'jdbc:postgresql://host:port/database'")
        })?;
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        config.application_name("laxity");
        config.connect_timeout(CONNECT_TIMEOUT);
        // The system's own first question comes after two hours.
        config.keepalives_idle(ASKED_AFTER).keepalives_interval(ASKED_EVERY).keepalives_retries(ASKED_TIMES);
        config.tcp_user_timeout(ASKED_AFTER + ASKED_EVERY * ASKED_TIMES);
        let mut found = ServerTable {
            service: format!("PostgreSQL at {place}"),
            config,
            encryption: Encryption::Prefer,
            root_certificate: None,
            table,
        };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            found.set(key, &decoded(value), options)?;
        }
        if let Some(user) = options.text("username") {
            found.config.user(user);
        }
        if let Some(password) = options.text("password") {
            found.config.password(password);
        }
        if found.config.get_user().is_none() {
            return Err(options.error("username", "missing; give the database's user"));
        }
        Ok(found)
    }

    /// A parameter of the URL. Values are not quoted back: one may be a secret.
    fn set(&mut self, key: &str, value: &str, options: &OptionReader<'_>) -> Result<(), OptionError> {
        let seconds = |value: &str| value.parse().ok().map(Duration::from_secs);
        let config = &mut self.config;
        match key {
            "user" => {
                config.user(value);
            }
            "password" => {
                config.password(value);
            }
            "ApplicationName" => {
                config.application_name(value);
            }
            "currentSchema" => {
                config.options(&format!("-c search_path={}", value.replace(' ', "\\ ")));
            }
            "connectTimeout" | "loginTimeout" => match seconds(value) {
                Some(time) => {
                    config.connect_timeout(time);
                }
                None => return Err(options.error(URL, format!("'{key}' is not a number of seconds"))),
            },
            "tcpKeepAlive" => {
                config.keepalives(value != "false");
            }
            "ssl" if value == "false" => self.encryption = Encryption::Disable,
            "ssl" => self.encryption = Encryption::VerifyFull,
            "sslrootcert" => self.root_certificate = Some(value.to_owned()),
            "sslmode" => {
                self.encryption = match value {
                    "disable" => Encryption::Disable,
                    "allow" | "prefer" => Encryption::Prefer,
                    "require" => Encryption::Require,
                    "verify-ca" => Encryption::VerifyAuthority,
                    "verify-full" => Encryption::VerifyFull,
                    _ => {
                        let message =
                            "'sslmode' is none of disable, allow, prefer, require, verify-ca and verify-full";
                        return Err(options.error(URL, message));
                    }
                }
            }
            // Of Java's driver: nothing here corresponds to them.
            "reWriteBatchedInserts" | "prepareThreshold" | "stringtype" | "socketTimeout" => {}
            _ => {
                let message = format!(
                    "its parameter '{key}' is not known; there are user, password, currentSchema, ApplicationName, \
                     connectTimeout, tcpKeepAlive, ssl, sslmode and sslrootcert"
                );
                return Err(options.error(URL, message));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for ServerTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerTable({}, {})", self.service, self.table)
    }
}

/// `%41` is `A`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let hex = behind.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use laxity_connect::TableSpec;

    use super::*;

    pub(crate) fn table(columns: &[(&str, DataType)], options: &[(&str, &str)]) -> TableSpec {
        let fixed = [
            ("connector", "jdbc"),
            ("url", "jdbc:postgresql://127.0.0.1:5432/db"),
            ("table-name", "t"),
            ("username", "me"),
        ];
        let options = fixed.iter().chain(options).map(|(key, value)| (key.to_string(), value.to_string()));
        // The last of two with one name counts.
        let options: std::collections::BTreeMap<String, String> = options.collect();
        let fields: Vec<Field> =
            columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect();
        TableSpec {
            name: "t".to_owned(),
            schema: Arc::new(Schema::new(fields)),
            options: options.into_iter().filter(|(_, value)| value != "(none)").collect(),
            base: PathBuf::new(),
        }
    }

    fn read(options: &[(&str, &str)]) -> Result<ServerTable, String> {
        ServerTable::read(&OptionReader::new(&table(&[], options))).map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_of_java_is_understood() {
        let url = "jdbc:postgresql://db.example:5433/shop?user=a&password=p%26w&sslmode=verify-ca&currentSchema=s&connectTimeout=3";
        let found = read(&[("url", url), ("username", "(none)")]);
        let found = found.unwrap();
        assert_eq!(found.service, "PostgreSQL at db.example:5433/shop");
        assert_eq!(found.config.get_password(), Some(&b"p&w"[..]));
        assert_eq!(found.config.get_dbname(), Some("shop"));
        assert_eq!(found.config.get_ports(), [5433]);
        assert_eq!(found.encryption, Encryption::VerifyAuthority);
        assert_eq!(found.config.get_options(), Some("-c search_path=s"));
        assert_eq!(found.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
    }

    #[test]
    fn a_silent_server_is_not_waited_for_for_hours() {
        let config = read(&[]).unwrap().config;
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(10)));
        assert!(config.get_keepalives());
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(60)));
        let config = read(&[("url", "jdbc:postgresql://h/d?tcpKeepAlive=false")]).unwrap().config;
        assert!(!config.get_keepalives());
    }

    #[test]
    fn what_is_wrong_is_said_without_its_value() {
        let said = |options: &[(&str, &str)]| read(options).unwrap_err();
        assert!(said(&[("url", "jdbc:mysql://h/d")]).contains("not of PostgreSQL"));
        assert!(said(&[("url", "jdbc:postgresql://h:x/d")]).contains("expected 'jdbc:postgresql://"));
        let unknown = said(&[("url", "jdbc:postgresql://h/d?pasword=hunter2")]);
        assert!(unknown.contains("'pasword' is not known") && !unknown.contains("hunter2"), "{unknown}");
        assert!(said(&[("driver", "com.mysql.Driver")]).contains("not PostgreSQL's"));
        assert!(said(&[("scan.partition.column", "a")]).contains("in one piece"));
    }
}
