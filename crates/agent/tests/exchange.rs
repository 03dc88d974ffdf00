//! Agents on two machines, each a network namespace, joined by a cable that can be pulled; and what keeps strangers
//! out. What the machine does not permit is skipped, and says so. Cannot catch: engines that tell wrong things.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use laxity_agent::exchange::{Exchange, ExchangeOptions, Identity, Neighbour};
use laxity_agent::metric::{Driver, Metric, Values};
use laxity_agent::{
    Adapter, AdapterError, Operator, PolicyUse, Query, Ranges, Readings, Task, Thread, ThreadId, Topology,
    Translator, Wishes,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

/// Everything happens within this, or not at all.
const PATIENCE: Duration = Duration::from_secs(20);

const STALE: Duration = Duration::from_millis(1_500);

/// Signs the certificates of agents.
struct Authority {
    ca: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap().pem();
        Authority { ca, issuer: Issuer::new(params, key) }
    }

    fn identity(&self, host: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            ca: self.ca.clone().into_bytes(),
            cert: cert.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        }
    }
}

fn options(node: &str, listen: &str, peers: &[&str], identity: Option<Identity>) -> ExchangeOptions {
    ExchangeOptions {
        listen: listen.parse().unwrap(),
        peers: peers.iter().map(|&peer| peer.to_owned()).collect(),
        identity,
        stale: STALE,
        node: node.to_owned(),
    }
}

/// An agent that runs one of the two operators of a job, which costs 3 ms a row there.
struct Agent {
    exchange: Exchange,
    topology: Topology,
    runs: usize,
    cost_ns: f64,
    notes: Vec<String>,
}

impl Agent {
    fn new(exchange: Exchange, runs: usize) -> Agent {
        let operator = |place: usize| Operator {
            key: format!("job/{place}").into(),
            name: format!("operator {place}"),
            query: 0,
            upstream: (0..place).collect(),
            window: None,
            instances: 1,
        };
        let thread = Thread { id: ThreadId { pid: 1, tid: 1, started_ticks: 1 }, name: "thread".into() };
        let topology = Topology {
            queries: vec![Query { key: "job".into(), name: "job".into(), wishes: Wishes::default() }],
            operators: vec![operator(0), operator(1)],
            tasks: vec![Task {
                operators: vec![runs],
                instance: 0,
                threads: vec![thread],
                timer_slack_ns: None,
            }],
        };
        Agent { exchange, topology, runs, cost_ns: 3e6, notes: Vec::new() }
    }

    /// One round; answers what the other operator costs, as far as it is known here.
    fn round(&mut self) -> Option<f64> {
        let mut readings = Readings::at(now_ns(), 0.0, None, 1);
        let own = |place: usize| (place == self.runs).then_some(self.cost_ns);
        readings.set(Metric::Cost, (0..self.topology.operators.len()).map(own).collect());
        self.notes.extend(self.exchange.round(&self.topology, &mut readings));
        readings.get(Metric::Cost, usize::from(self.runs == 0))
    }

    fn neighbour(&self) -> Neighbour {
        self.exchange.neighbours(&self.topology, now_ns()).remove(0)
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn since(then_ns: u64) -> Duration {
    Duration::from_nanos(now_ns() - then_ns)
}

/// Rounds of both, until it is as wanted.
fn rounds_until(agents: [&mut Agent; 2], what: &str, mut wanted: impl FnMut(&Agent, Option<f64>) -> bool) {
    let began_ns = now_ns();
    let [above, below] = agents;
    loop {
        let told = above.round();
        below.round();
        if wanted(above, told) {
            return;
        }
        assert!(since(began_ns) < PATIENCE, "not {what}: {:?} {:?}", above.neighbour(), above.notes);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A network of its own, as long as the process that holds it lives.
struct Namespace(Child);

impl Namespace {
    fn new() -> Option<Namespace> {
        let child = Command::new("unshare").args(["-n", "sleep", "120"]).stderr(Stdio::null()).spawn();
        let namespace = Namespace(child.ok()?);
        let own = std::fs::read_link("/proc/self/ns/net").ok()?;
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(20));
            let other = std::fs::read_link(format!("/proc/{}/ns/net", namespace.0.id())).ok()?;
            if other != own {
                return Some(namespace);
            }
        }
        None
    }

    fn ip(&self, arguments: &str) -> Option<()> {
        let net = format!("--net=/proc/{}/ns/net", self.0.id());
        let mut command = Command::new("nsenter");
        command.args([net.as_str(), "ip"]).args(arguments.split(' ')).stderr(Stdio::null());
        command.status().ok()?.success().then_some(())
    }

    /// Its threads are in the network that they were started from.
    fn start(&self, options: ExchangeOptions) -> Exchange {
        let file = File::open(format!("/proc/{}/ns/net", self.0.id())).unwrap();
        let inside = std::thread::Builder::new().spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            Exchange::start(&options).unwrap()
        });
        inside.unwrap().join().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two networks with a cable between them.
fn joined() -> Option<[Namespace; 2]> {
    let (a, b) = (Namespace::new()?, Namespace::new()?);
    a.ip(&format!("link add cable type veth peer name cable netns {}", b.0.id()))?;
    for (namespace, address) in [(&a, "10.77.0.1/24"), (&b, "10.77.0.2/24")] {
        namespace.ip(&format!("addr add {address} dev cable"))?;
        namespace.ip("link set cable up")?;
    }
    Some([a, b])
}

#[test]
fn a_neighbour_that_is_cut_off_counts_no_more_until_it_is_back() {
    let Some([a, b]) = joined() else {
        return println!(
            "skipped: no network namespaces here (CAP_SYS_ADMIN, CAP_NET_ADMIN, ip, unshare, nsenter)"
        );
    };
    let authority = Authority::new();
    let exchange = |namespace: &Namespace, node, address, peer: &str| {
        let identity = Some(authority.identity(address));
        namespace.start(options(node, &format!("{address}:9465"), &[&format!("{peer}:9465")], identity))
    };
    let mut above = Agent::new(exchange(&a, "a", "10.77.0.1", "10.77.0.2"), 0);
    let mut below = Agent::new(exchange(&b, "b", "10.77.0.2", "10.77.0.1"), 1);

    rounds_until([&mut above, &mut below], "told", |_, told| told == Some(3e6));
    let neighbour = above.neighbour();
    assert_eq!((neighbour.node.as_str(), neighbour.is_used, neighbour.jobs), ("b", true, 1));
    assert!(neighbour.age.unwrap() < STALE);

    a.ip("link set cable down").unwrap();
    let cut_ns = now_ns();
    rounds_until([&mut above, &mut below], "local again", |_, told| told.is_none());
    // The last report may be a round old when the cable goes.
    assert!(since(cut_ns) >= STALE - Duration::from_millis(300), "{:?}", since(cut_ns));
    assert!(!above.neighbour().is_used);
    assert!(above.notes.iter().any(|note| note.contains("agent b has been silent")), "{:?}", above.notes);
    rounds_until([&mut above, &mut below], "said why", |agent, _| agent.neighbour().problem.is_some());

    a.ip("link set cable up").unwrap();
    rounds_until([&mut above, &mut below], "told again", |_, told| told == Some(3e6));
    assert!(above.notes.iter().any(|note| note == "agent b is heard again"), "{:?}", above.notes);
}

/// Two agents on loopback, where any port is free.
fn on_loopback(first: Option<Identity>, second: Option<Identity>) -> [Agent; 2] {
    // Each has to know the other's port before it listens. A socket finds one that is free, and until the agent has it
    // another test may take it.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let start = || {
        let (a, b) = (free(), free());
        let above = Exchange::start(&options("a", &a, &[&b], first.clone()))?;
        Exchange::start(&options("b", &b, &[&a], second.clone())).map(|below| [above, below])
    };
    let [above, below] = (0..10).find_map(|_| start().ok()).unwrap_or_else(|| start().unwrap());
    [Agent::new(above, 0), Agent::new(below, 1)]
}

#[test]
fn on_one_machine_no_certificates_are_needed() {
    let [mut above, mut below] = on_loopback(None, None);
    rounds_until([&mut above, &mut below], "told", |_, told| told == Some(3e6));
    drop(below);
    let gone_ns = now_ns();
    while above.neighbour().problem.is_none_or(|problem| !problem.starts_with("Connection refused")) {
        assert!(since(gone_ns) < PATIENCE, "{:?}", above.neighbour());
        above.round();
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Two jobs of equal targets; the second goes on at another machine.
struct Still(Topology);

impl Driver for Still {
    fn engine(&self) -> &str {
        "Still"
    }

    fn provides(&self, metric: Metric) -> bool {
        metric != Metric::PathCost
    }

    fn read(&mut self, metric: Metric, _: &Topology) -> Values {
        match metric {
            Metric::Cost => vec![Some(1e6), Some(2e7), Some(1e6), None],
            Metric::Selectivity => vec![Some(1.0); 4],
            Metric::QueueRows => vec![Some(5.0); 4],
            _ => vec![Some(0.0); 4],
        }
    }
}

impl Adapter for Still {
    fn refresh(&mut self, _: &dyn Fn(&str) -> Wishes) -> Result<bool, AdapterError> {
        Ok(false)
    }

    fn topology(&self) -> &Topology {
        &self.0
    }

    fn processes(&self) -> BTreeSet<u32> {
        BTreeSet::new()
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

fn two_jobs(here: &[usize]) -> Topology {
    let query = |job: usize| Query {
        key: format!("job {job}").into(),
        name: format!("job {job}"),
        wishes: Wishes::within(Duration::from_millis(50)).unwrap(),
    };
    let operator = |place: usize| Operator {
        key: format!("job {}/{place}", place / 2).into(),
        name: format!("operator {place}"),
        query: place / 2,
        upstream: if place.is_multiple_of(2) { Vec::new() } else { vec![place - 1] },
        window: None,
        instances: 1,
    };
    let task = |&place: &usize| {
        let id = ThreadId { pid: 1, tid: 10 + place as u32, started_ticks: 1 };
        Task {
            operators: vec![place],
            instance: 0,
            threads: vec![Thread { id, name: "thread".into() }],
            timer_slack_ns: None,
        }
    };
    Topology {
        queries: (0..2).map(query).collect(),
        operators: (0..4).map(operator).collect(),
        tasks: here.iter().map(task).collect(),
    }
}

#[test]
fn what_the_other_machine_tells_becomes_nice_values() {
    for policy in ["llf", "klink"] {
        let [above, mut below] = on_loopback(None, None);
        let uses = vec![PolicyUse::new(policy.parse().unwrap(), Duration::from_millis(20))];
        let engines: Vec<Box<dyn Adapter>> = vec![Box::new(Still(two_jobs(&[0, 1, 2])))];
        let mut agent =
            laxity_agent::Agent::new(engines, uses, Vec::new(), Translator::Nice, Ranges::default()).unwrap();
        let first = |report: &laxity_agent::report::Report| {
            let nice =
                |job: &str| report.rows.iter().filter(|row| row.job == job).map(|row| row.setting.nice).min();
            if nice("job 0") < nice("job 1") { 0 } else { 1 }
        };
        // Here the first has more to do, and so less time left.
        assert_eq!(first(&agent.round().unwrap()), 0, "{policy}");
        agent.exchange_with(above.exchange);
        (below.topology, below.runs, below.cost_ns) = (two_jobs(&[3]), 3, 4.5e7);
        let began_ns = now_ns();
        loop {
            below.round();
            let report = agent.round().unwrap();
            if first(&report) == 1 {
                assert!(report.neighbours[0].is_used);
                break;
            }
            assert!(since(began_ns) < PATIENCE, "{policy}: {:?}", report.neighbours);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_stranger_is_neither_told_nor_heard() {
    let (authority, other) = (Authority::new(), Authority::new());
    let own = authority.identity("127.0.0.1");
    // Signed by somebody else, and by nobody.
    for stranger in [Some(other.identity("127.0.0.1")), None] {
        let [mut above, mut below] = on_loopback(Some(own.clone()), stranger);
        rounds_until([&mut above, &mut below], "refused", |agent, _| agent.neighbour().problem.is_some());
        for _ in 0..5 {
            assert_eq!((above.round(), below.round()), (None, None));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(above.neighbour().age.is_none() && below.neighbour().age.is_none());
    }
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    let identities = ["127.0.0.1", "elsewhere.example"].map(|host| Some(authority.identity(host)));
    let [own, other] = identities;
    let [mut above, mut below] = on_loopback(own, other);
    // The other is heard, for it is one of ours; but it may be somewhere else than where it is called.
    rounds_until([&mut above, &mut below], "refused", |agent, _| {
        let known = agent.exchange.neighbours(&agent.topology, now_ns());
        known
            .iter()
            .any(|known| known.problem.as_ref().is_some_and(|problem| problem.contains("certificate")))
    });
}

#[test]
fn what_cannot_begin_says_why() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Exchange::start(&options("a", &address, &[], None)).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen for other agents on {address}"));
    let nothing = Identity { ca: Vec::new(), cert: Vec::new(), key: Vec::new() };
    let error = Exchange::start(&options("a", "127.0.0.1:0", &[], Some(nothing))).unwrap_err();
    assert!(error.to_string().contains("certificates"), "{error}");
}
