//! Ranks by name, with their parameters.

use super::parse::Fault;
use super::parts::{parse_duration_ns, unknown};
use super::{Edf, Fcfs, Fifo, Laxity, Llf, Random, Rank, RoundRobin, Sjf};

/// A rank that can be asked for.
struct Entry {
    name: &'static str,
    /// Its parameters, for the one who got them wrong; empty where it has none.
    takes: &'static str,
    /// It goes by the frontier, so that it can be told to ignore it.
    frontier: bool,
    make: Make,
}

type Make = fn(&mut Parameters) -> Result<Box<dyn Rank>, Fault>;

/// One line per rank.
const RANKS: [Entry; 8] = [
    Entry { name: "laxity", takes: "", frontier: true, make: |_| Ok(Box::<Laxity>::default()) },
    Entry { name: "llf", takes: "", frontier: true, make: |_| Ok(Box::new(Llf)) },
    Entry { name: "edf", takes: "", frontier: true, make: |_| Ok(Box::new(Edf)) },
    Entry { name: "sjf", takes: "", frontier: false, make: |_| Ok(Box::new(Sjf)) },
    Entry { name: "fcfs", takes: "", frontier: false, make: |_| Ok(Box::new(Fcfs)) },
    Entry { name: "fifo", takes: "", frontier: false, make: |_| Ok(Box::new(Fifo)) },
    Entry { name: "rr", takes: "", frontier: false, make: |_| Ok(Box::<RoundRobin>::default()) },
    Entry { name: "random", takes: "", frontier: false, make: |_| Ok(Box::<Random>::default()) },
];

/// What stands behind the name of a rank: `key=value` or a bare value, each taken once.
pub(super) struct Parameters<'a> {
    entry: &'static Entry,
    left: Vec<&'a str>,
}

impl<'a> Parameters<'a> {
    /// The value of `key=value`.
    pub fn named(&mut self, key: &str) -> Option<&'a str> {
        let value = |parameter: &&'a str| parameter.strip_prefix(key)?.strip_prefix('=');
        let place = self.left.iter().position(|parameter| value(parameter).is_some())?;
        value(&self.left.remove(place))
    }

    /// The next parameter without a key.
    pub fn bare(&mut self) -> Option<&'a str> {
        let place = self.left.iter().position(|parameter| !parameter.contains('='))?;
        Some(self.left.remove(place))
    }

    /// The next parameter without a key, as a time.
    pub fn bare_duration_ns(&mut self) -> Result<Option<u64>, Fault> {
        let Some(text) = self.bare() else { return Ok(None) };
        match parse_duration_ns(text).filter(|&ns| ns > 0) {
            Some(ns) => Ok(Some(ns)),
            None => Err(self.refuse(text)),
        }
    }

    /// The value of `key=value`, as a time.
    pub fn named_duration_ns(&mut self, key: &str) -> Result<Option<u64>, Fault> {
        let Some(text) = self.named(key) else { return Ok(None) };
        match parse_duration_ns(text) {
            Some(ns) => Ok(Some(ns)),
            None => Err(self.refuse(text)),
        }
    }

    /// The rank does not take this.
    pub fn refuse(&self, value: &str) -> Fault {
        let switch = if self.entry.frontier { "topology-only" } else { "" };
        let takes = match (self.entry.takes, switch) {
            ("", "") => "nothing".to_owned(),
            (takes, "") => takes.to_owned(),
            ("", switch) => switch.to_owned(),
            (takes, switch) => format!("{takes} or {switch}"),
        };
        Fault::value(format!("rank={}", self.entry.name), value, takes)
    }
}

/// `NAME[:PARAMETER]…[@PERIOD]`.
pub(super) fn parse(text: &str, period: Option<&str>, topology_only: bool) -> Result<Box<dyn Rank>, Fault> {
    let (rank, at) = text.split_once('@').map_or((text, None), |(rank, period)| (rank, Some(period)));
    let mut parameters = rank.split(':');
    let name = parameters.next().unwrap_or_default();
    let Some(entry) = RANKS.iter().find(|entry| entry.name == name) else {
        return Err(unknown("rank", name, &RANKS.each_ref().map(|entry| entry.name)));
    };
    let mut parameters = Parameters { entry, left: parameters.collect() };
    if topology_only && !entry.frontier {
        return Err(parameters.refuse("topology-only"));
    }
    let rank = (entry.make)(&mut parameters)?;
    if let Some(left) = parameters.left.first() {
        return Err(parameters.refuse(left));
    }
    let Some(period) = at.or(period) else { return Ok(rank) };
    let Some(_period_ns) = parse_duration_ns(period).filter(|&ns| ns > 0) else {
        return Err(Fault::value("period", period, "a time, as in 50ms"));
    };
    Ok(rank)
}
