//! One HTTP server, asked over one connection that is kept, with TLS where it is asked for: engines, gateways, registries.
//! What would tell a secret is never shown. Start with [`Http`].

use std::fs;
use std::path::Path;
use std::time::Duration;

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig};

/// Asks one HTTP server, over one connection that is kept.
pub struct Http {
    base: String,
    /// The same, as it may be shown.
    shown: String,
    authorization: Option<String>,
    agent: ureq::Agent,
}

/// What is asked for.
#[derive(Debug)]
pub enum Verb<'a> {
    /// What is there.
    Get,
    /// To take it away.
    Delete,
    /// To do something with this.
    Post(&'a serde_json::Value),
}

/// An engine's HTTP interface does not answer as one. The user can fix it, or the world failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nobody listens.
    #[error("nothing answers at {url}: {reason}; is it running, and is this its REST address?")]
    NoAnswer {
        /// Where.
        url: String,
        /// What happened.
        reason: String,
    },
    /// It says no.
    #[error(
        "{url} answered {status}{}{}",
        if body.is_empty() { String::new() } else { format!(": {body}") },
        if *status == 404 { "; is this the engine's REST address?" } else { "" }
    )]
    Refused {
        /// Where.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of what it said.
        body: String,
    },
    /// Something else is there.
    #[error("{url} did not answer as {expected}; is this its REST address?")]
    Strange {
        /// Where.
        url: String,
        /// What was expected there.
        expected: String,
        /// What is wrong with the answer.
        #[source]
        source: serde_json::Error,
    },
}

/// An engine that does not answer within this time cannot be scheduled by what it says.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// By whose signature a server is known over https, and who we are to it.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// `None`: as browsers know it.
    roots: Option<Vec<Certificate<'static>>>,
    own: Option<ClientCert>,
}

impl Tls {
    /// From PEM files. `own` are our certificate and its key, for a server that asks who we are.
    ///
    /// # Errors
    /// Which of `ca`, `cert` and `key` is of no use, and why.
    pub fn read(ca: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Tls, (&'static str, String)> {
        let roots = ca.map(|path| certificates(path).map_err(|why| ("ca", why))).transpose()?;
        let own = own.map(|(cert, key)| {
            let certs = certificates(cert).map_err(|why| ("cert", why))?;
            let text = read(key).map_err(|why| ("key", why))?;
            let key = PrivateKey::from_pem(&text)
                .map_err(|error| ("key", format!("{} is no private key: {error}", key.display())))?;
            Ok(ClientCert::new_with_certs(&certs, key))
        });
        Ok(Tls { roots, own: own.transpose()? })
    }

    fn config(&self) -> TlsConfig {
        let roots = self.roots.as_ref().map_or(RootCerts::WebPki, |roots| RootCerts::new_with_certs(roots));
        TlsConfig::builder().root_certs(roots).client_cert(self.own.clone()).build()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let text = read(path)?;
    let items = ureq::tls::parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(format!("{}: {error}", path.display()))),
    });
    let found = items.collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err(format!("{} holds no certificate", path.display())) } else { Ok(found) }
}

impl Http {
    /// `base` is the address without a path. An answer is waited for [`TIMEOUT`].
    pub fn new(base: &str, tls: &Tls) -> Http {
        Http::patient(base, tls, TIMEOUT)
    }

    /// One that waits so long for an answer.
    pub fn patient(base: &str, tls: &Tls, timeout: Duration) -> Http {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .tls_config(tls.config())
            .build();
        let base = base.trim_end_matches('/').to_owned();
        Http { shown: without_secret(&base), base, authorization: None, agent: config.into() }
    }

    /// The same with this header `Authorization` on every question.
    #[must_use]
    pub fn authorized(self, value: String) -> Http {
        Http { authorization: Some(value), ..self }
    }

    /// The address, without a password that stands in it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The body of an answer of status 200.
    ///
    /// # Errors
    /// If nobody answers, or with another status.
    pub fn get(&self, path: &str) -> Result<String, HttpError> {
        match self.ask(path, Verb::Get)? {
            (200, body) => Ok(body),
            (status, body) => {
                let body = body.lines().next().unwrap_or("").chars().take(120).collect();
                Err(HttpError::Refused { url: format!("{}{path}", self.shown()), status, body })
            }
        }
    }

    /// Status and body of whatever is answered.
    ///
    /// # Errors
    /// If nobody answers.
    pub fn ask(&self, path: &str, verb: Verb<'_>) -> Result<(u16, String), HttpError> {
        let asked = format!("{}{path}", self.base);
        let no_answer = |error: ureq::Error| {
            let reason = error.to_string().replace(&self.base, &self.shown);
            HttpError::NoAnswer { url: format!("{}{path}", self.shown()), reason: without_secret(&reason) }
        };
        let answer = match verb {
            Verb::Get => self.known(self.agent.get(&asked)).call(),
            Verb::Delete => self.known(self.agent.delete(&asked)).call(),
            Verb::Post(body) => self
                .known(self.agent.post(&asked))
                .header("Content-Type", "application/json")
                .send(body.to_string()),
        };
        let mut answer = answer.map_err(no_answer)?;
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_string().map_err(no_answer)?;
        Ok((answer.status().as_u16(), body))
    }

    /// Says who asks.
    fn known<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        }
    }
}

/// Who asks is not in it.
impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// A URL as it may be shown: what stands before its host is a name and a password.
pub fn without_secret(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', ' ']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://***{}", &rest[at..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    #[test]
    fn a_password_in_the_address_is_never_shown() {
        for (url, shown) in [
            ("http://user:secret@host:8081/x", "http://***@host:8081/x"),
            ("https://host/a@b", "https://host/a@b"),
            ("http://u:p@ss@host", "http://***@host"),
            ("no url", "no url"),
        ] {
            assert_eq!(without_secret(url), shown);
        }
        // Nobody listens at a port that was just free.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let http = Http::new(&format!("http://user:secret@{free}"), &Tls::default());
        let error = http.get("/jobs").unwrap_err();
        let shown = format!("{error} {error:?} {}", http.shown());
        assert!(!shown.contains("secret") && shown.contains("***@127.0.0.1"), "{shown}");
    }

    #[test]
    fn each_way_to_fail_says_what_to_look_at() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::Builder::new().spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let body = "not here";
            let head = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).unwrap();
        });
        let http = Http::new(&format!("{url}/"), &Tls::default());
        let refused = http.get("/config").unwrap_err().to_string();
        assert_eq!(
            refused,
            format!("{url}/config answered 404: not here; is this the engine's REST address?")
        );
        server.unwrap().join().unwrap();
        let silent = http.get("/config").unwrap_err().to_string();
        assert!(silent.starts_with(&format!("nothing answers at {url}/config: ")), "{silent}");
    }

    /// A server that is known by its own certificate, and asks for the same one of its clients.
    #[test]
    fn https_is_spoken_with_whom_the_certificates_say() {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [cert_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        fs::write(&cert_file, cert.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();

        let own = CertificateDer::from(cert.der().to_vec());
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![own], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let config = Arc::new(config);
        let server = std::thread::Builder::new().spawn(move || {
            for _ in 0..3 {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
                // Who does not know us, or is not known, hangs up.
                if stream.read(&mut [0; 1024]).is_ok_and(|bytes| bytes > 0) {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
                        .unwrap();
                }
            }
        });
        let get = |ca: Option<&Path>, own: Option<(&Path, &Path)>| {
            Http::new(&url, &Tls::read(ca, own).unwrap()).get("/config").map_err(|error| error.to_string())
        };
        let both = Some((cert_file.as_path(), key_file.as_path()));
        assert_eq!(get(Some(&cert_file), both), Ok("hi".to_owned()));
        let unknown = get(None, both).unwrap_err();
        assert!(unknown.contains("certificate"), "{unknown}");
        assert!(get(Some(&cert_file), None).is_err());
        server.unwrap().join().unwrap();
    }

    #[test]
    fn files_that_hold_no_certificate_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        fs::write(&empty, "").unwrap();
        let wrong = |ca: Option<&Path>, own| Tls::read(ca, own).unwrap_err();
        assert_eq!(wrong(Some(&empty), None), ("ca", format!("{} holds no certificate", empty.display())));
        assert_eq!(wrong(None, Some((&empty, &empty))).0, "cert");
    }
}
