//! What the agents of several machines tell each other of jobs that span these (Klink §4): when watermarks are due,
//! to the machines behind; what operators cost, to those before. Direct neighbours in the job graph only, and each
//! passes on what it heard. The last value counts, and what is too old counts for nothing.
//!
//! Costs are told by operator, not summed by query as [`laxity_sched::CostReport`] has them: an agent knows the
//! operators of a job also where they run elsewhere, so what is told completes the snapshot for every rank.
//!
//! Not here: ranks, and what an engine's control process tells of all machines anyway.

mod grpc;
mod message;
mod neighbours;
mod options;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::watermarks::Watermarks;
use crate::{Readings, Topology};

use grpc::Transport;
pub use neighbours::Neighbour;
use neighbours::Neighbours;
pub(crate) use options::FileExchange;
pub use options::{ExchangeOptions, Identity};

/// Tells and hears, once a round.
#[derive(Debug)]
pub struct Exchange {
    transport: Transport,
    neighbours: Neighbours,
    watermarks: Watermarks,
}

/// Agents cannot exchange. The user can fix it.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// Nobody may listen there.
    #[error("cannot listen for other agents on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Not fit for TLS.
    #[error("the certificates for the exchange between agents are of no use")]
    Tls(#[source] tonic::transport::Error),
    /// No host and port.
    #[error("{peer:?} is no agent's address; expected HOST:PORT")]
    Peer {
        /// What was given.
        peer: String,
    },
    /// The world failed.
    #[error("cannot start the thread that exchanges")]
    Thread(#[source] io::Error),
}

impl Exchange {
    /// Listens, and tells the peers from the first round on.
    ///
    /// # Errors
    /// If it cannot listen, or the certificates are of no use.
    pub fn start(options: &ExchangeOptions) -> Result<Exchange, ExchangeError> {
        Ok(Exchange {
            transport: Transport::start(options)?,
            neighbours: Neighbours::new(options.node.clone(), options.stale),
            watermarks: Watermarks::default(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.transport.address()
    }

    /// How long what a silent neighbour said counts.
    pub fn stale(&self) -> Duration {
        self.neighbours.stale()
    }

    /// Completes what was read here by what was heard, and tells what was read here. Answers what to say to the user.
    pub fn round(&mut self, topology: &Topology, readings: &mut Readings) -> Vec<String> {
        for (report, at_ns) in self.transport.heard() {
            self.neighbours.on_report(report, at_ns);
        }
        self.watermarks.observe(topology, readings);
        let own = self.watermarks.reports(readings.now_ns);
        self.transport.tell(readings.now_ns, |peer| self.neighbours.report(peer, topology, readings, &own));
        self.neighbours.complete(topology, readings);
        self.neighbours.notes(readings.now_ns)
    }

    /// What is known of the other agents.
    pub fn neighbours(&self, topology: &Topology, now_ns: u64) -> Vec<Neighbour> {
        let mut known = self.neighbours.list(topology, now_ns);
        for peer in self.transport.peers() {
            let named =
                peer.node.as_ref().and_then(|node| known.iter_mut().find(|other| other.node == *node));
            match named {
                Some(neighbour) => {
                    neighbour.address = Some(peer.address);
                    neighbour.problem = peer.problem;
                }
                None => known.push(Neighbour {
                    node: peer.node.unwrap_or_default(),
                    address: Some(peer.address),
                    problem: peer.problem,
                    ..Neighbour::default()
                }),
            }
        }
        known
    }
}
