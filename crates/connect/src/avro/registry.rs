//! A registry of schemas as Confluent's speaks over HTTP, which others speak too. Each question is asked once: a number
//! stays what it is.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use laxity_http::{Http, Tls, Verb, without_secret};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use crate::OptionError;
use crate::options::OptionReader;
use crate::record::SchemaFault;

/// Where the registry is, and who asks.
#[derive(Clone)]
struct Address {
    /// Without names and passwords; they are asked in turn.
    urls: Vec<String>,
    authorization: Option<String>,
    /// Certificates by which the registry is known, and our own with its key; PEM.
    truststore: Option<PathBuf>,
    keystore: Option<PathBuf>,
}

/// One registry, and what it has said.
pub(super) struct Registry {
    address: Address,
    servers: OnceLock<Result<Vec<Http>, String>>,
    schemas: Mutex<HashMap<u32, Answer>>,
    registered: Mutex<HashMap<(String, String), u32>>,
}

/// What a number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A schema of Avro.
    Schema(Arc<str>),
    /// Nothing, or no schema of Avro.
    None(String),
}

const FORMAT: &str = "avro-confluent";

#[derive(Deserialize)]
struct SchemaBody {
    schema: String,
    #[serde(rename = "schemaType")]
    kind: Option<String>,
    #[serde(default)]
    references: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct IdBody {
    id: u32,
}

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    message: String,
}

impl Registry {
    /// Reads where it is; nothing is asked.
    ///
    /// # Errors
    /// Names the option that is missing or wrong.
    pub(super) fn read(options: &OptionReader<'_>) -> Result<Registry, OptionError> {
        let key = |name: &str| format!("{FORMAT}.{name}");
        let text = |name: &str| options.text(&key(name));
        let given = options.required(&key("url"), "the address of the schema registry")?;
        let mut urls = Vec::new();
        let mut in_url = None;
        for url in given.split(',').map(str::trim) {
            let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
            let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
                let message =
                    format!("'{}' is no address; it begins with http:// or https://", without_secret(url));
                return Err(options.error(&key("url"), message));
            };
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let (user, host) = host.rsplit_once('@').map_or((None, host), |(user, host)| (Some(user), host));
            in_url = in_url.or(user);
            urls.push(format!("{}{host}{path}", &url[..url.len() - rest.len()]));
        }
        let (info, token) = (text("basic-auth.user-info"), text("bearer-auth.token"));
        let sources = [("USER_INFO", true), ("URL", false)];
        let source = options.choice(&key("basic-auth.credentials-source"), &sources)?;
        let bearers = [("STATIC_TOKEN", ())];
        let bearer = options.choice(&key("bearer-auth.credentials-source"), &bearers)?;
        let user = match (source, info) {
            (Some(true), None) | (None, Some("")) => {
                let message =
                    "missing; 'basic-auth.credentials-source' = 'USER_INFO' takes 'USER:PASSWORD' from it";
                return Err(options.error(&key("basic-auth.user-info"), message));
            }
            (Some(false), _) if in_url.is_none() => {
                return Err(
                    options.error(&key("url"), "no USER:PASSWORD@ before the host, where 'URL' looks for it")
                );
            }
            (Some(false), _) | (None, None) => in_url,
            (_, info) => info,
        };
        if bearer.is_some() && token.is_none() {
            return Err(options.error(&key("bearer-auth.token"), "missing; 'STATIC_TOKEN' sends it"));
        }
        let basic = |user: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user));
        let authorization = token.map(|token| format!("Bearer {token}")).or_else(|| user.map(basic));
        let file = |name: &str| text(name).map(|path| options.table().base.join(path));
        let (truststore, keystore) = (file("ssl.truststore.location"), file("ssl.keystore.location"));
        for store in ["ssl.truststore.password", "ssl.keystore.password"] {
            if text(store).is_some() {
                return Err(options.error(&key(store), "stores are PEM files here, which have no password"));
            }
        }
        let address = Address { urls, authorization, truststore, keystore };
        Ok(Registry {
            address,
            servers: OnceLock::new(),
            schemas: Mutex::default(),
            registered: Mutex::default(),
        })
    }

    /// As it may be shown.
    pub(super) fn service(&self) -> String {
        format!("the schema registry at {}", self.address.urls.join(", "))
    }

    /// What is known of a number without asking.
    pub(super) fn known(&self, id: u32) -> Option<Answer> {
        self.schemas.lock().get(&id).cloned()
    }

    /// The schema of a number. May block.
    ///
    /// # Errors
    /// If the registry cannot be asked.
    pub(super) fn schema(&self, id: u32) -> Result<Answer, SchemaFault> {
        if let Some(answer) = self.known(id) {
            return Ok(answer);
        }
        let answer = match self.ask(&format!("/schemas/ids/{id}"), || Verb::Get)? {
            (404, body) => Answer::None(format!("the registry has no schema {id}{}", said(&body))),
            (200, body) => match serde_json::from_str::<SchemaBody>(&body) {
                Ok(SchemaBody { kind: Some(kind), .. }) if kind != "AVRO" => {
                    Answer::None(format!("schema {id} of the registry is {kind}, not Avro"))
                }
                Ok(SchemaBody { references, .. }) if !references.is_empty() => {
                    let why = format!(
                        "schema {id} refers to other subjects, which is not supported: register it whole"
                    );
                    return Err(SchemaFault::End(why));
                }
                Ok(body) => Answer::Schema(body.schema.into()),
                Err(error) => {
                    return Err(SchemaFault::End(format!("no answer of a schema registry: {error}")));
                }
            },
            other => return Err(refused(other)),
        };
        self.schemas.lock().insert(id, answer.clone());
        Ok(answer)
    }

    /// Registers a schema under a subject; its number. May block.
    ///
    /// # Errors
    /// If the registry cannot be asked, or refuses it.
    pub(super) fn register(&self, subject: &str, schema: &str) -> Result<u32, SchemaFault> {
        let place = (subject.to_owned(), schema.to_owned());
        if let Some(id) = self.registered.lock().get(&place) {
            return Ok(*id);
        }
        let body = json!({ "schema": schema });
        let path = format!("/subjects/{}/versions", escaped(subject));
        let id = match self.ask(&path, || Verb::Post(&body))? {
            (200, body) => match serde_json::from_str::<IdBody>(&body) {
                Ok(IdBody { id }) => id,
                Err(error) => {
                    return Err(SchemaFault::End(format!("no answer of a schema registry: {error}")));
                }
            },
            (409, body) => {
                let why = format!(
                    "the columns make a schema that subject '{subject}' does not take{}",
                    said(&body)
                );
                return Err(SchemaFault::End(why));
            }
            other => return Err(refused(other)),
        };
        self.registered.lock().insert(place, id);
        Ok(id)
    }

    /// Status and body of the first address that answers.
    fn ask<'a>(&self, path: &str, verb: impl Fn() -> Verb<'a>) -> Result<(u16, String), SchemaFault> {
        let servers = self.servers.get_or_init(|| self.address.servers());
        let servers = servers.as_ref().map_err(|why| SchemaFault::End(why.clone()))?;
        let mut fault = SchemaFault::Again("no address".to_owned());
        for server in servers {
            match server.ask(path, verb()) {
                Ok((status @ (429 | 500..), body)) => {
                    fault = SchemaFault::Again(format!("answered {status}{}", said(&body)));
                }
                Ok(answer) => return Ok(answer),
                Err(error) => fault = SchemaFault::Again(error.to_string()),
            }
        }
        Err(fault)
    }
}

impl Address {
    fn servers(&self) -> Result<Vec<Http>, String> {
        let own = self.keystore.as_deref().map(|pem| (pem, pem));
        let tls = Tls::read(self.truststore.as_deref(), own).map_err(|(which, why)| match which {
            "ca" => format!("'{FORMAT}.ssl.truststore.location': {why}"),
            _ => format!("'{FORMAT}.ssl.keystore.location', which holds our certificate and its key: {why}"),
        })?;
        let server = |url: &String| {
            let http = Http::new(url, &tls);
            match &self.authorization {
                Some(value) => http.authorized(value.clone()),
                None => http,
            }
        };
        Ok(self.urls.iter().map(server).collect())
    }
}

fn refused((status, body): (u16, String)) -> SchemaFault {
    let hint = match status {
        401 | 403 => "; 'avro-confluent.basic-auth.user-info' says who asks",
        404 => "; is this the address of a schema registry?",
        _ => "",
    };
    SchemaFault::End(format!("it answered {status}{}{hint}", said(&body)))
}

/// What the registry says of an error, on one line.
fn said(body: &str) -> String {
    let message = serde_json::from_str::<ErrorBody>(body).unwrap_or_default().message;
    match message.lines().next().unwrap_or("") {
        "" => String::new(),
        line => format!(": {}", line.chars().take(200).collect::<String>()),
    }
}

/// Of a subject, as a part of a path.
fn escaped(subject: &str) -> String {
    let mut path = String::with_capacity(subject.len());
    for byte in subject.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte))
            }
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    path
}

/// Names and passwords are not in it.
impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("urls", &self.address.urls).finish_non_exhaustive()
    }
}
