//! `properties.*`: what Flink gives to the Java client, for librdkafka. Most names are the same in both.

use laxity_connect::{OptionError, OptionReader, ROOT_OPTION};
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;

use crate::error;

/// The brokers, and everything that is to be said to the client.
pub(crate) fn read(options: &OptionReader<'_>) -> Result<ClientConfig, OptionError> {
    let servers = "properties.bootstrap.servers";
    if options.required(servers, "the brokers, such as 'localhost:9092'")?.trim().is_empty() {
        return Err(options.error(servers, "empty; give the brokers, such as 'localhost:9092'"));
    }
    let mut config = ClientConfig::new();
    for (key, value) in options.all_of("properties.") {
        let option = format!("properties.{key}");
        let of_java = |hint: &str| Err(options.error(&option, format!("the Java client's; {hint}")));
        match key {
            // They make the client load code, or run a command.
            "plugin.library.paths" | "ssl.engine.location" | "sasl.kerberos.kinit.cmd" => {
                return Err(options.error(&option, "not supported: it would run what the file names"));
            }
            _ if key.ends_with(".location") && options.text(ROOT_OPTION).is_some() => {
                return Err(options.error(&option, "a file, and --root allows none here: give PEM as text"));
            }
            "sasl.jaas.config" => {
                let (Some(user), Some(password)) = (jaas(value, "username"), jaas(value, "password")) else {
                    return of_java("no username and password are in it");
                };
                config.set("sasl.username", user).set("sasl.password", password);
            }
            "ssl.truststore.type" | "ssl.keystore.type" if value == "PEM" => {}
            "ssl.truststore.location" if is_pem(options, "truststore") => {
                config.set("ssl.ca.location", value);
            }
            "ssl.truststore.certificates" => {
                config.set("ssl.ca.pem", value);
            }
            "ssl.keystore.location" if is_pem(options, "keystore") => {
                config.set("ssl.certificate.location", value).set("ssl.key.location", value);
            }
            "ssl.keystore.certificate.chain" => {
                config.set("ssl.certificate.pem", value);
            }
            "ssl.keystore.key" => {
                config.set("ssl.key.pem", value);
            }
            "ssl.truststore.location" | "ssl.truststore.type" | "ssl.truststore.password" => {
                return of_java("give the certificates as PEM in 'properties.ssl.ca.location'");
            }
            "ssl.keystore.location" | "ssl.keystore.type" | "ssl.keystore.password" => {
                let hint =
                    "give PEM in 'properties.ssl.certificate.location' and 'properties.ssl.key.location'";
                return of_java(hint);
            }
            "fetch.max.wait.ms" => {
                config.set("fetch.wait.max.ms", value);
            }
            "auto.offset.reset" => {
                config.set(key, if value == "none" { "error" } else { value });
            }
            // Of Java's threads and buffers: nothing here corresponds to them.
            "key.serializer"
            | "value.serializer"
            | "key.deserializer"
            | "value.deserializer"
            | "max.poll.records"
            | "buffer.memory"
            | "default.api.timeout.ms"
            | "max.block.ms"
            | "partition.discovery.interval.ms" => {}
            _ => {
                config.set(key, value);
            }
        }
    }
    // The client checks names and values itself.
    config.create_native_config().map(drop).map_err(|fault| {
        let key = match &fault {
            KafkaError::ClientConfig(_, _, key, _) => key.clone(),
            _ => "bootstrap.servers".to_owned(),
        };
        options.error(&format!("properties.{key}"), error::text(&fault))
    })?;
    Ok(config)
}

fn is_pem(options: &OptionReader<'_>, store: &str) -> bool {
    options.text(&format!("properties.ssl.{store}.type")) == Some("PEM")
}

/// A value of Java's login module: `… username="u" password="p";`.
fn jaas(text: &str, key: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("{key}="))?;
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let mut value = String::new();
    let mut letters = rest[1..].chars();
    loop {
        match letters.next()? {
            '\\' => value.push(letters.next()?),
            letter if letter == quote => return Some(value),
            letter => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::table;

    fn read_with(properties: &[(&str, &str)]) -> Result<ClientConfig, String> {
        let table = table(&[], properties);
        read(&OptionReader::new(&table)).map_err(|error| error.to_string())
    }

    #[test]
    fn properties_of_java_are_understood() {
        let config = read_with(&[
            ("properties.group.id", "g"),
            ("properties.fetch.max.wait.ms", "50"),
            ("properties.max.poll.records", "500"),
            ("properties.auto.offset.reset", "none"),
            ("properties.security.protocol", "SASL_SSL"),
            ("properties.sasl.mechanism", "PLAIN"),
            (
                "properties.sasl.jaas.config",
                r#"org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\"w";"#,
            ),
        ])
        .unwrap();
        assert_eq!(config.get("fetch.wait.max.ms"), Some("50"));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        assert_eq!((config.get("sasl.username"), config.get("sasl.password")), (Some("u"), Some("p\"w")));
        assert_eq!(config.get("max.poll.records"), None);
    }

    #[test]
    fn what_is_wrong_is_said_without_its_value() {
        let said = |key: &str, value: &str| read_with(&[(key, value)]).unwrap_err();
        let unknown = said("properties.sasl.pasword", "hunter2");
        assert!(unknown.contains("option 'properties.sasl.pasword' of table t"), "{unknown}");
        assert!(unknown.contains("No such configuration property"), "{unknown}");
        let wrong = said("properties.security.protocol", "hunter2");
        assert!(wrong.contains("option 'properties.security.protocol' of table t"), "{wrong}");
        assert!(said("properties.plugin.library.paths", "/tmp/x.so").contains("not supported"));
        let store = said("properties.ssl.truststore.location", "hunter2");
        assert!(store.contains("'properties.ssl.ca.location'"), "{store}");
        let login = said("properties.sasl.jaas.config", "hunter2");
        for text in [unknown, store, login] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        assert!(said("properties.bootstrap.servers", " ").contains("empty"));
    }
}
