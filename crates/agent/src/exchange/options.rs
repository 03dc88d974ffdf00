//! How agents are told of each other, and by what they trust each other: beyond one machine only with certificates of
//! both sides.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::quantity::duration;

/// Who exchanges with whom.
#[derive(Clone, Debug)]
pub struct ExchangeOptions {
    /// Where other agents tell this one.
    pub listen: SocketAddr,
    /// HOST:PORT of the agents that this one tells.
    pub peers: Vec<String>,
    /// Mutual TLS; `None` on loopback alone.
    pub identity: Option<Identity>,
    /// How long what was heard counts.
    pub stale: Duration,
    /// What this agent calls itself: each another name.
    pub node: String,
}

/// PEM texts: who this agent is, and by whose signature it knows others.
#[derive(Clone)]
pub struct Identity {
    /// Certificates of the authority that signs those of all agents.
    pub ca: Vec<u8>,
    /// The agent's own certificate, for its host name or address, to serve and to call.
    pub cert: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// The file's `[exchange]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileExchange {
    listen: SocketAddr,
    #[serde(default)]
    peers: Vec<String>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    stale: Option<String>,
    node: Option<String>,
}

/// So many periods and so long: one report lost or late degrades nothing.
const STALE: (u32, Duration) = (3, Duration::from_secs(5));

impl std::fmt::Debug for Identity {
    /// A key is no matter for logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl FileExchange {
    /// What it says, to an agent that tells once a period; else the key that is wrong, and why.
    pub fn options(&self, period: Duration) -> Result<ExchangeOptions, (String, String)> {
        let wrong = |key: &str, why: String| (format!("exchange.{key}"), why);
        let read = |key: &str, path: &PathBuf| {
            fs::read(path).map_err(|error| wrong(key, format!("cannot read {}: {error}", path.display())))
        };
        let identity = match (&self.ca, &self.cert, &self.key) {
            (None, None, None) => None,
            (Some(ca), Some(cert), Some(key)) => {
                Some(Identity { ca: read("ca", ca)?, cert: read("cert", cert)?, key: read("key", key)? })
            }
            _ => {
                let missing = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)];
                let missing = missing.iter().find(|(_, path)| path.is_none()).map_or("ca", |(key, _)| key);
                return Err(wrong(missing, "missing; ca, cert and key go together".to_owned()));
            }
        };
        for peer in &self.peers {
            if host_of(peer).is_none() {
                return Err(wrong("peers", format!("{peer:?} is no agent's address; expected HOST:PORT")));
            }
        }
        if identity.is_none() {
            let open = |what: String| {
                format!(
                    "{what} is not on loopback; beyond one machine agents speak mutual TLS only: give ca, cert and key"
                )
            };
            if !self.listen.ip().is_loopback() {
                return Err(wrong("listen", open(self.listen.to_string())));
            }
            if let Some(peer) = self.peers.iter().find(|peer| !is_loopback(peer)) {
                return Err(wrong("peers", open(peer.clone())));
            }
        }
        let stale = self.stale.as_deref().map(duration).transpose().map_err(|why| wrong("stale", why))?;
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(ExchangeOptions {
            listen: self.listen,
            peers: self.peers.clone(),
            identity,
            stale: stale.unwrap_or(STALE.1.max(period * STALE.0)),
            node: self.node.clone().unwrap_or_else(host),
        })
    }
}

/// The host in HOST:PORT, without the brackets of an IPv6 address.
pub(super) fn host_of(peer: &str) -> Option<&str> {
    let (host, port) = peer.rsplit_once(':')?;
    port.parse::<u16>().ok().filter(|&port| port > 0)?;
    let host = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
    (!host.is_empty() && !host.contains('/')).then_some(host)
}

fn is_loopback(peer: &str) -> bool {
    let Some(host) = host_of(peer) else { return false };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<ExchangeOptions, String> {
        let file: FileExchange = toml::from_str(text).unwrap();
        file.options(Duration::from_secs(1)).map_err(|(key, why)| format!("{key}: {why}"))
    }

    #[test]
    fn loopback_needs_no_certificates_and_nothing_else_goes_without() {
        let local =
            options("listen = '127.0.0.1:9465'\npeers = ['localhost:9466', '[::1]:9467']\nstale = '3 s'");
        assert_eq!(local.unwrap().stale, Duration::from_secs(3));
        let error = options("listen = '10.0.0.1:9465'").unwrap_err();
        assert_eq!(
            error,
            "exchange.listen: 10.0.0.1:9465 is not on loopback; beyond one machine agents speak mutual TLS only: give \
             ca, cert and key"
        );
        let error = options("listen = '127.0.0.1:9465'\npeers = ['10.0.0.2:9465']").unwrap_err();
        assert!(error.starts_with("exchange.peers: 10.0.0.2:9465 is not on loopback"), "{error}");
    }

    #[test]
    fn what_was_heard_outlasts_a_report_that_is_lost() {
        let file: FileExchange = toml::from_str("listen = '127.0.0.1:9465'").unwrap();
        let stale = |period_s| file.options(Duration::from_secs(period_s)).unwrap().stale.as_secs();
        assert_eq!([1, 10].map(stale), [5, 30]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        let error = |rest: &str| options(&format!("listen = '127.0.0.1:9465'\n{rest}")).unwrap_err();
        assert_eq!(error("ca = '/a'\ncert = '/b'"), "exchange.key: missing; ca, cert and key go together");
        let unread = error("ca = '/nonesuch'\ncert = '/b'\nkey = '/c'");
        assert!(unread.starts_with("exchange.ca: cannot read /nonesuch: "), "{unread}");
        assert!(error("peers = ['here']").contains("expected HOST:PORT"));
        assert!(error("stale = 'soon'").starts_with("exchange.stale: "));
    }

    #[test]
    fn hosts_are_read_of_addresses() {
        assert_eq!(host_of("a.example:9465"), Some("a.example"));
        assert_eq!(host_of("[fe80::1]:9465"), Some("fe80::1"));
        for wrong in ["a", "a:", ":9465", "a:0", "a:99999", "http://a:1/x:2"] {
            assert_eq!(host_of(wrong), None, "{wrong}");
        }
    }
}
