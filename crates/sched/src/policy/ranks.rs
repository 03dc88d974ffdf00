//! Ranks by name, with their parameters.

use super::klink::{CYCLE_NS, NO_MEMORY};
use super::parse::Fault;
use super::parts::{parse_duration_ns, unknown};
use super::{
    ByMemory, Chain, Edf, Fcfs, Fifo, HighestRate, Klink, Laxity, Llf, Periodic, Perturbed, Qos, Qs, Random,
    Rank, RoundRobin, Sbox, Sjf, Tokens,
};

/// A rank that can be asked for.
struct Entry {
    name: &'static str,
    /// Its parameters, for the one who got them wrong; empty where it has none.
    takes: &'static str,
    /// It goes by the frontier, so that it can be told to ignore it.
    frontier: bool,
    make: Make,
}

/// Parts that a range may be divided into: finer than anybody could want, and few enough to count.
const PARTS_MAX: u32 = 1024;

type Make = fn(&mut Parameters) -> Result<Box<dyn Rank>, Fault>;

const fn entry(name: &'static str, takes: &'static str, make: Make) -> Entry {
    Entry { name, takes, frontier: false, make }
}

const fn by_frontier(name: &'static str, takes: &'static str, make: Make) -> Entry {
    Entry { name, takes, frontier: true, make }
}

const SIGMA: &str = "sigma=TIME, the error of its costs";

const CYCLE: &str = "a cycle, as in 60ms";

/// One line per rank.
const RANKS: &[Entry] = &[
    by_frontier("laxity", "", |_| Ok(Box::<Laxity>::default())),
    by_frontier("llf", SIGMA, |parameters| parameters.perturbed(Llf)),
    by_frontier("edf", SIGMA, |parameters| parameters.perturbed(Edf)),
    entry("sjf", SIGMA, |parameters| parameters.perturbed(Sjf)),
    entry("tokens", "messages a second for each unit of weight, as in tokens:12", |parameters| {
        let Some(text) = parameters.bare() else { return Ok(Box::<Tokens>::default()) };
        let rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
        let rate = rate.ok_or_else(|| parameters.refuse(text))?;
        Ok(Box::new(Tokens::of_rate(rate)))
    }),
    entry("fcfs", "", |_| Ok(Box::new(Fcfs))),
    entry("qos", "how many parts of utility and of slack, as in qos:20x20", |parameters| {
        let Some(text) = parameters.bare() else { return Ok(Box::<Qos>::default()) };
        let parts = text.split_once('x').and_then(|(gradients, slacks)| {
            let part = |text: &str| text.parse().ok().filter(|part| (1..=PARTS_MAX).contains(part));
            Some((part(gradients)?, part(slacks)?))
        });
        let (gradients, slacks) = parts.ok_or_else(|| parameters.refuse(text))?;
        Ok(Box::new(Qos::bucketed(gradients, slacks)))
    }),
    entry("qs", "", |_| Ok(Box::new(Qs))),
    entry("hr", "global", |parameters| {
        let rank = if parameters.flag("global") { HighestRate::global() } else { HighestRate::default() };
        Ok(Box::new(rank))
    }),
    entry("chain", "", |_| Ok(Box::<Chain>::default())),
    entry("klink", "a cycle and no-memory, as in klink:60ms:no-memory", |parameters| {
        let memory = !parameters.flag(NO_MEMORY);
        let klink = Klink::new(parameters.bare_duration_ns()?.unwrap_or(CYCLE_NS));
        Ok(Box::new(if memory { klink } else { klink.without_memory() }))
    }),
    entry("sbox", CYCLE, |parameters| {
        Ok(Box::new(Sbox::new(parameters.bare_duration_ns()?.unwrap_or(CYCLE_NS))))
    }),
    entry("memory", CYCLE, |parameters| {
        Ok(Box::new(ByMemory::new(parameters.bare_duration_ns()?.unwrap_or(CYCLE_NS))))
    }),
    entry("fifo", "", |_| Ok(Box::new(Fifo))),
    entry("rr", "", |_| Ok(Box::<RoundRobin>::default())),
    entry("random", "", |_| Ok(Box::<Random>::default())),
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

    /// Whether this word is given.
    pub fn flag(&mut self, word: &str) -> bool {
        let place = self.left.iter().position(|parameter| *parameter == word);
        place.is_some_and(|place| self.left.remove(place) == word)
    }

    /// The rank, with wrong costs where that is asked for.
    fn perturbed(&mut self, rank: impl Rank + 'static) -> Result<Box<dyn Rank>, Fault> {
        Ok(match self.named_duration_ns("sigma")? {
            Some(sigma_ns) => Box::new(Perturbed::new(Box::new(rank), sigma_ns)),
            None => Box::new(rank),
        })
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
        let known: Vec<&str> = RANKS.iter().map(|entry| entry.name).collect();
        return Err(unknown("rank", name, &known));
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
    let Some(period_ns) = parse_duration_ns(period).filter(|&ns| ns > 0) else {
        return Err(Fault::value("period", period, "a time, as in 50ms"));
    };
    if !can_be_periodic(&*rank) {
        let expected = "no period: whose turn it is cannot be told from a snapshot";
        return Err(Fault::value(format!("rank={}", rank.label()), period, expected));
    }
    Ok(Box::new(Periodic { rank, period_ns }))
}

fn can_be_periodic(rank: &dyn Rank) -> bool {
    !rank.by_turn() || rank.name() == "random"
}
