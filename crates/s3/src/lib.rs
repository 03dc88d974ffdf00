//! S3, and what speaks its protocol (MinIO, Ceph, R2, Google's in its XML form), as a store of objects: the only crate that
//! signs requests. Each waits for its answer; who asks is a thread that may. Start with [`S3`].
//!
//! The store has to know `If-None-Match: *` where something is put, as S3 does since 2024. Objects of more than 5 GB are refused
//! by it: they would have to be put in parts.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use laxity_state::{ObjectStore, StoreFault};
use rusty_s3::actions::S3Action;
use rusty_s3::{Bucket, Credentials, UrlStyle};
use ureq::http::Response;
use ureq::{Agent, Body};

/// What is under one prefix of a bucket.
pub struct S3 {
    bucket: Bucket,
    credentials: Credentials,
    /// Empty, or with a slash at its end.
    prefix: String,
    shown: String,
    agent: Agent,
}

/// Why a store cannot be named so. The user can fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum S3Error {
    /// Another address, or none.
    #[error("'{0}' is no store: write 's3://BUCKET/PREFIX'")]
    Address(String),
    /// Who asks is not known.
    #[error(
        "{0} is not set: it says who asks S3, with AWS_REGION, and AWS_ENDPOINT_URL for another server than Amazon's"
    )]
    Unset(&'static str),
    /// It is no URL.
    #[error("AWS_ENDPOINT_URL is no address: {0}")]
    Endpoint(String),
}

/// Signatures are good for so long: a clock that is a little wrong does not matter.
const SIGNED_FOR: Duration = Duration::from_secs(900);

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A gigabyte at 2 MB/s.
const CARRY_WITHIN: Duration = Duration::from_secs(500);

impl S3 {
    /// `s3://BUCKET/PREFIX`, with the rest from variables as all programs for S3 take them.
    ///
    /// # Errors
    /// What is missing or cannot be read.
    pub fn new(address: &str, variable: impl Fn(&str) -> Option<String>) -> Result<S3, S3Error> {
        let wrong = || S3Error::Address(address.to_owned());
        let rest = address.strip_prefix("s3://").ok_or_else(wrong)?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if name.is_empty() || prefix.split('/').any(|part| part == "." || part == "..") {
            return Err(wrong());
        }
        let needed = |key: &'static str| variable(key).ok_or(S3Error::Unset(key));
        let (key, secret) = (needed("AWS_ACCESS_KEY_ID")?, needed("AWS_SECRET_ACCESS_KEY")?);
        let credentials = match variable("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let own = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let style = if own.is_some() { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let endpoint = own.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint.parse().map_err(|_| S3Error::Endpoint(endpoint.clone()))?;
        let bucket = Bucket::new(endpoint, style, name.to_owned(), region);
        let bucket = bucket.map_err(|error| S3Error::Endpoint(error.to_string()))?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_recv_response(Some(ANSWER_WITHIN))
            .timeout_send_body(Some(CARRY_WITHIN))
            .timeout_recv_body(Some(CARRY_WITHIN))
            .build();
        let shown = format!("s3://{name}/{prefix}");
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(S3 { bucket, credentials, prefix, shown, agent: config.into() })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Puts there what `body` is, with these headers; the status that is no fault, and what was said.
    fn put_with(
        &self,
        name: &str,
        headers: &[(&'static str, String)],
        body: impl ureq::AsSendBody,
        fine: &[u16],
    ) -> Result<(u16, String), StoreFault> {
        let key = self.key(name);
        let mut action = self.bucket.put_object(Some(&self.credentials), &key);
        headers.iter().for_each(|(name, value)| action.headers_mut().insert(*name, value.clone()));
        let url = action.sign(SIGNED_FOR);
        let mut request = self.agent.put(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = request.send(body).map_err(|error| no_answer(name, &error))?;
        told(name, answer, fine)
    }
}

impl ObjectStore for S3 {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn list(&self) -> Result<Vec<String>, StoreFault> {
        let mut names = Vec::new();
        let mut from: Option<String> = None;
        loop {
            // The bucket itself is listed.
            let mut action = self.bucket.get_object(Some(&self.credentials), "");
            let query = action.query_mut();
            query.insert("list-type", "2");
            query.insert("encoding-type", "url");
            query.insert("prefix", self.prefix.as_str());
            if let Some(token) = &from {
                query.insert("continuation-token", token.clone());
            }
            let answer = self.agent.get(action.sign(SIGNED_FOR).as_str()).call();
            let (_, text) = told(&self.shown, answer.map_err(|error| no_answer(&self.shown, &error))?, &[])?;
            if !text.contains("<ListBucketResult") {
                let message = "it does not answer as S3".to_owned();
                return Err(StoreFault { message, may_pass: false });
            }
            let keys = elements(&text, "Key").map(unescaped);
            names.extend(keys.filter_map(|key| Some(key.strip_prefix(&self.prefix)?.to_owned())));
            match elements(&text, "NextContinuationToken").next() {
                Some(token) => from = Some(token.replace("&amp;", "&")),
                None => return Ok(names),
            }
        }
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, StoreFault> {
        let key = self.key(name);
        let url = self.bucket.get_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        let mut answer = self.agent.get(url.as_str()).call().map_err(|error| no_answer(name, &error))?;
        if answer.status() != 200 {
            return told(name, answer, &[]).and(Err(no_bytes(name)));
        }
        // A manifest says how long each is.
        let body = answer.body_mut().with_config().limit(u64::MAX);
        body.read_to_vec().map_err(|error| no_answer(name, &error))
    }

    fn put(&self, name: &str, file: &Path) -> Result<(), StoreFault> {
        let opened = File::open(file);
        let file = opened.map_err(|error| StoreFault { message: error.to_string(), may_pass: false })?;
        self.put_with(name, &[], file, &[]).map(drop)
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreFault> {
        let (status, _) = self.put_with(name, &[("if-none-match", "*".to_owned())], bytes, &[412])?;
        Ok(status != 412)
    }

    fn copy(&self, from: &str, to: &str) -> Result<(), StoreFault> {
        let source = format!("/{}/{}", self.bucket.name(), escaped(&self.key(from)));
        let (_, text) = self.put_with(to, &[("x-amz-copy-source", source)], &[0_u8; 0][..], &[])?;
        // It may find out while it answers already.
        match text.contains("<Error>") {
            true => Err(StoreFault { message: said(&text), may_pass: true }),
            false => Ok(()),
        }
    }

    fn remove(&self, name: &str) -> Result<(), StoreFault> {
        let key = self.key(name);
        let url = self.bucket.delete_object(Some(&self.credentials), &key).sign(SIGNED_FOR);
        let answer = self.agent.delete(url.as_str()).call().map_err(|error| no_answer(name, &error))?;
        told(name, answer, &[404]).map(drop)
    }
}

/// Who asks is not in it.
impl std::fmt::Debug for S3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// The address is not in it: it bears the signature.
fn no_answer(name: &str, error: &ureq::Error) -> StoreFault {
    let reason = match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        ureq::Error::HostNotFound => "its host is not known".to_owned(),
        ureq::Error::ConnectionFailed => "nobody listens".to_owned(),
        ureq::Error::Protocol(error) => error.to_string(),
        _ => "the connection failed".to_owned(),
    };
    StoreFault { message: format!("{name}: {reason}"), may_pass: true }
}

fn no_bytes(name: &str) -> StoreFault {
    StoreFault { message: format!("{name}: an answer without what is in it"), may_pass: true }
}

/// Status and text of an answer that is none of a fault.
fn told(name: &str, mut answer: Response<Body>, fine: &[u16]) -> Result<(u16, String), StoreFault> {
    let status = answer.status().as_u16();
    let text = answer.body_mut().with_config().limit(64 << 20).read_to_string();
    let text = text.map_err(|error| no_answer(name, &error))?;
    if (200..300).contains(&status) || fine.contains(&status) {
        return Ok((status, text));
    }
    // 409: somebody else puts something there just now.
    let may_pass = status >= 500 || matches!(status, 408 | 409 | 429);
    Err(StoreFault {
        message: format!("{name}: answered {status} {}", said(&text)).trim_end().to_owned(),
        may_pass,
    })
}

/// What an error says of itself.
fn said(text: &str) -> String {
    let parts = ["Code", "Message"].map(|name| elements(text, name).next().unwrap_or_default());
    parts.join(" ").trim().chars().take(200).collect()
}

/// What stands in elements of that name, which have neither attributes nor others in them.
fn elements<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = rest.find(&begin)? + begin.len();
        let to = from + rest[from..].find(&end)?;
        let found = &rest[from..to];
        rest = &rest[to..];
        Some(found)
    })
}

/// A key as it stands in an address.
fn escaped(key: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    key.bytes().map(escape).collect()
}

/// A key as it is listed: escaped so too, which leaves nothing that means something in XML.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key;
    while let Some(first) = rest.bytes().next() {
        let escape = rest.get(1..3).filter(|_| first == b'%');
        let byte = escape.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(if first == b'+' { b' ' } else { first }));
        rest = rest.get(if byte.is_some() { 3 } else { 1 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
