//! Reports between agents over gRPC: the only file of the exchange that touches the network.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::{oneshot, watch};
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::{Router, TcpIncoming};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::message::{Heard, Report};
use super::options::{ExchangeOptions, host_of};
use super::{ExchangeError, Identity};
use crate::clock::since_boot_ns;

/// Carries reports, on a thread of its own: the agent's loop leaves one here and goes on, and takes what came last.
#[derive(Debug)]
pub(super) struct Transport {
    address: SocketAddr,
    heard: LastValues,
    peers: Vec<Line>,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

/// By node: the last report, and when it came.
type LastValues = Arc<Mutex<BTreeMap<String, (Report, u64)>>>;

/// What is to be told one peer.
#[derive(Debug)]
struct Line {
    state: Arc<Mutex<PeerState>>,
    /// The last value, and when it was made.
    reports: watch::Sender<(Report, u64)>,
}

/// What came of telling a peer.
#[derive(Clone, Debug)]
pub(super) struct PeerState {
    pub address: String,
    /// What it calls itself, once it was reached.
    pub node: Option<String>,
    /// Why it was not reached.
    pub problem: Option<String>,
}

/// No call takes longer, so that a peer behind a broken line is tried anew.
const PATIENCE: Duration = Duration::from_secs(2);

/// More nodes than this have nothing to say to each other directly.
const NODES_MAX: usize = 1_000;

const PATH: &str = "/laxity.agent.v1.Exchange/Tell";

impl Transport {
    pub fn start(options: &ExchangeOptions) -> Result<Transport, ExchangeError> {
        let listen = |source| ExchangeError::Listen { address: options.listen, source };
        let socket = TcpListener::bind(options.listen).map_err(listen)?;
        socket.set_nonblocking(true).map_err(listen)?;
        let address = socket.local_addr().map_err(listen)?;
        let heard = LastValues::default();
        let service = Listener { node: options.node.clone(), heard: heard.clone() };
        let mut server = Server::builder().timeout(PATIENCE);
        if let Some(identity) = &options.identity {
            let config = ServerTlsConfig::new()
                .identity(identity.of_tonic())
                .client_ca_root(Certificate::from_pem(&identity.ca));
            server = server.tls_config(config).map_err(ExchangeError::Tls)?;
        }
        let router = server.add_service(service);
        let mut callers = Vec::new();
        let mut peers = Vec::new();
        for peer in &options.peers {
            let endpoint = endpoint(peer, options.identity.as_ref())?;
            let state = PeerState { address: peer.clone(), node: None, problem: None };
            let state = Arc::new(Mutex::new(state));
            let (reports, receiver) = watch::channel((Report::default(), 0));
            peers.push(Line { state: state.clone(), reports });
            callers.push((endpoint, receiver, state));
        }
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ExchangeError::Thread)?;
        std::thread::Builder::new()
            .name("laxity-exchange".into())
            .spawn(move || {
                runtime.block_on(async move {
                    for (endpoint, reports, state) in callers {
                        tokio::spawn(call(endpoint, reports, state));
                    }
                    // The thread ends with its sender; an error here has nobody left to hear it.
                    let _ = serve(router, socket, stopped).await;
                });
            })
            .map_err(ExchangeError::Thread)?;
        Ok(Transport { address, heard, peers, _stop: stop })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came since the last call, of each node the last.
    pub fn heard(&self) -> Vec<(Report, u64)> {
        std::mem::take(&mut *lock(&self.heard)).into_values().collect()
    }

    /// Leaves for each peer, by its name as far as it is known, what it is to be told.
    pub fn tell(&self, now_ns: u64, report: impl Fn(Option<&str>) -> Report) {
        for peer in &self.peers {
            let node = lock(&peer.state).node.clone();
            peer.reports.send_replace((report(node.as_deref()), now_ns));
        }
    }

    pub fn peers(&self) -> Vec<PeerState> {
        self.peers.iter().map(|peer| lock(&peer.state).clone()).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn endpoint(peer: &str, identity: Option<&Identity>) -> Result<Endpoint, ExchangeError> {
    let wrong = || ExchangeError::Peer { peer: peer.to_owned() };
    let host = host_of(peer).ok_or_else(wrong)?;
    let scheme = if identity.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{peer}")).map_err(|_| wrong())?;
    let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
    let Some(identity) = identity else { return Ok(endpoint) };
    let config = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&identity.ca))
        .identity(identity.of_tonic())
        .domain_name(host);
    endpoint.tls_config(config).map_err(ExchangeError::Tls)
}

impl Identity {
    fn of_tonic(&self) -> tonic::transport::Identity {
        tonic::transport::Identity::from_pem(&self.cert, &self.key)
    }
}

/// Tells one peer the last value whenever there is a new one.
async fn call(endpoint: Endpoint, mut reports: watch::Receiver<(Report, u64)>, state: Arc<Mutex<PeerState>>) {
    let mut channel = endpoint.connect_lazy();
    while reports.changed().await.is_ok() {
        let (report, made_ns) = reports.borrow_and_update().clone();
        let report = report.delayed_by(since_boot_ns().saturating_sub(made_ns));
        let answer = tokio::time::timeout(PATIENCE, tell(channel.clone(), report)).await;
        let problem = match answer {
            Ok(Ok(heard)) => {
                lock(&state).node = Some(heard.node);
                None
            }
            Ok(Err(status)) => Some(reason(&status)),
            Err(_) => Some(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        if problem.is_some() {
            // A connection whose other end is gone would be waited for as long as TCP does.
            channel = endpoint.connect_lazy();
        }
        lock(&state).problem = problem;
    }
}

async fn tell(channel: tonic::transport::Channel, report: Report) -> Result<Heard, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
    let path = PathAndQuery::from_static(PATH);
    let codec: ProstCodec<Report, Heard> = ProstCodec::default();
    Ok(grpc.unary(Request::new(report), path, codec).await?.into_inner())
}

/// The cause that says most, which is the last: those before it only say that calling failed.
fn reason(status: &Status) -> String {
    let Some(mut cause) = std::error::Error::source(status) else { return status.message().to_owned() };
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

async fn serve(
    router: Router,
    socket: TcpListener,
    stopped: oneshot::Receiver<()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(socket)?);
    let ended = async {
        // Never sent: the sender is dropped.
        let _ = stopped.await;
    };
    tokio::select! {
        served = router.serve_with_incoming(incoming) => Ok(served?),
        () = ended => Ok(()),
    }
}

/// The service, declared by hand: one method of two messages needs no generated code.
#[derive(Clone, Debug)]
struct Listener {
    node: String,
    heard: LastValues,
}

impl NamedService for Listener {
    const NAME: &'static str = "laxity.agent.v1.Exchange";
}

impl UnaryService<Report> for Listener {
    type Response = Heard;
    type Future = Ready<Result<Response<Heard>, Status>>;

    fn call(&mut self, request: Request<Report>) -> Self::Future {
        let report = request.into_inner();
        let mut heard = lock(&self.heard);
        if heard.len() >= NODES_MAX && !heard.contains_key(&report.node) {
            return ready(Err(Status::resource_exhausted("too many agents speak to this one")));
        }
        heard.insert(report.node.clone(), (report, since_boot_ns()));
        ready(Ok(Response::new(Heard { node: self.node.clone() })))
    }
}

impl tower_service::Service<http::Request<Body>> for Listener {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let listener = self.clone();
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(Status::unimplemented("the only method is Tell").into_http());
            }
            Ok(tonic::server::Grpc::new(ProstCodec::default()).unary(listener, request).await)
        })
    }
}
