//! The policies of the papers, on the public API of [`laxity_sched`], and every policy by name: [`recipe`].
//!
//! A policy is a file, and an entry in the one table here ([`RANKS`]); `docs/add-a-policy.md` builds one. How
//! those of the papers map on to the four parts of a composition:
//!
//! | Policy | unit | rank | traversal | train |
//! | --- | --- | --- | --- | --- |
//! | Cameo | operator | `llf`, `edf`, `sjf`: by message | – | quantum |
//! | token shares (Cameo §5.4) | operator | `tokens`, at a source as a unit joins: the time of its next token, `+inf` without one, spent as a message starts; behind it by message: that token's time, found again by query and t_M | – | one message |
//! | Aurora, box at a time | operator | `rr`: by turn | – | fraction of the queue |
//! | Aurora, superbox | query | `rr`, or utility and slack by cycle | a plan: min-cost, min-latency, min-memory | fraction 1 |
//! | Klink | query | slack by cycle, 120 ms; the top n keep the n workers | by rank: the oldest message | quantum |
//! | EdgeWise | operator | `qs`: by queue | – | 50 messages |
//! | Umbra | query | `stride`: by turn, the least pass | by rank: the oldest message | quantum |
//! | Jet's tasklets | operator | `rr`: by turn; any worker takes the next, where Jet's have tasklets of their own | – | 1 ms, what a call may take there |
//! | as late as possible | query | `alap`: latest start by cycle, 10 ms | by rank | fraction 1 |
//! | HR, Chain | operator | by cycle over costs and selectivities | – | quantum |
//! | Haren | operator | any, made anew by cycle ([`laxity_sched::Periodic`]) | – | 10 rows |

mod alap;
mod applications;
mod auto;
mod bucketed;
mod calendar;
mod chain;
mod hr;
mod klink;
mod memory;
mod min_cost;
mod min_latency;
mod min_memory;
mod qos;
mod qs;
mod random;
mod rr;
mod sbox;
mod sjf;
mod spanner;
mod stride;
mod superbox;
mod tokens;

use laxity_sched::{
    CORE, Catalogue, Narrowing, PlanEntry, Preset, RankEntry, RankRecipe, Recipe, SIGMA, UnknownPolicy,
    format_duration,
};

use klink::CYCLE_NS;

pub use alap::AsLateAsPossible;
pub use auto::Auto;
pub use chain::Chain;
pub use hr::HighestRate;
pub use klink::Klink;
pub use memory::ByMemory;
pub use min_cost::MinCost;
pub use min_latency::MinLatency;
pub use min_memory::MinMemory;
pub use qos::Qos;
pub use qs::Qs;
pub use random::Random;
pub use rr::RoundRobin;
pub use sbox::Sbox;
pub use sjf::Sjf;
pub use spanner::Spanner;
pub use stride::Stride;
pub use tokens::Tokens;

/// A policy as a user asks for it: `NAME[:PARAMETER]…[@PERIOD]`, or parts as in `unit=query,rank=qs,train=all`.
pub fn recipe(text: &str) -> Result<Recipe, UnknownPolicy> {
    CATALOGUE.recipe(text)
}

/// The names of all policies.
pub fn names() -> Vec<&'static str> {
    CATALOGUE.names().collect()
}

/// Parts that a range may be divided into: finer than anybody could want, and few enough to count.
const PARTS_MAX: u32 = 1024;

const CYCLE: &str = "a cycle, as in 60ms";

/// One entry per rank.
pub const RANKS: &[RankEntry] = &[
    RankEntry {
        takes: "global",
        paper: "Klink §6.1.1, Lachesis §5.1",
        line: "highest rate: most results per CPU time first",
        ..RankEntry::new("hr", |parameters| {
            Ok(match parameters.flag("global") {
                true => RankRecipe::new("hr:global", HighestRate::global),
                false => RankRecipe::new("hr", HighestRate::default),
            })
        })
    },
    RankEntry {
        takes: SIGMA,
        paper: "Cameo §4.2",
        line: "shortest job first: whose next message costs least",
        ..RankEntry::new("sjf", |parameters| parameters.perturbed(RankRecipe::new("sjf", || Sjf)))
    },
    RankEntry {
        takes: "messages a second for each unit of weight, as in tokens:12",
        parts: "train=one",
        paper: "Cameo §5.4",
        line: "shares by weight: tokens for each second, who has one goes first",
        ..RankEntry::new("tokens", |parameters| {
            let Some(text) = parameters.bare() else { return Ok(RankRecipe::new("tokens", Tokens::default)) };
            let rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
            let rate = rate.ok_or_else(|| parameters.refuse(text))?;
            Ok(RankRecipe::new(format!("tokens:{rate}"), move || Tokens::of_rate(rate)))
        })
    },
    RankEntry {
        takes: "how many parts of utility and of slack, as in qos:20x20",
        ..RankEntry::new("qos", |parameters| {
            let Some(text) = parameters.bare() else { return Ok(RankRecipe::new("qos", Qos::default)) };
            let parts = text.split_once('x').and_then(|(gradients, slacks)| {
                let part = |text: &str| text.parse().ok().filter(|part| (1..=PARTS_MAX).contains(part));
                Some((part(gradients)?, part(slacks)?))
            });
            let (gradients, slacks) = parts.ok_or_else(|| parameters.refuse(text))?;
            Ok(RankRecipe::new(format!("qos:{gradients}x{slacks}"), move || Qos::bucketed(gradients, slacks)))
        })
    },
    RankEntry {
        paper: "EdgeWise, Lachesis §5.1",
        line: "queue size: the longest queue first",
        ..RankEntry::new("qs", |_| Ok(RankRecipe::new("qs", || Qs)))
    },
    RankEntry {
        paper: "Babcock et al. 2003",
        line: "least memory: who frees queued rows fastest first",
        ..RankEntry::new("chain", |_| Ok(RankRecipe::new("chain", Chain::default)))
    },
    RankEntry {
        takes: "a cycle and no-memory, as in klink:60ms:no-memory",
        parts: "unit=query",
        paper: "Klink (SIGMOD 2021)",
        line: "queries by what is left until their next window result is due; by memory when it is short",
        ..RankEntry::new("klink", |parameters| {
            let memory = !parameters.flag(klink::NO_MEMORY);
            let period_ns = parameters.bare_duration_ns()?.unwrap_or(CYCLE_NS);
            let label = klink::labelled("klink", period_ns);
            Ok(match memory {
                true => RankRecipe::new(label, move || Klink::new(period_ns)),
                false => RankRecipe::new(format!("{label}:{}", klink::NO_MEMORY), move || {
                    Klink::new(period_ns).without_memory()
                }),
            })
        })
    },
    RankEntry {
        takes: CYCLE,
        parts: "unit=query",
        paper: "Klink §6.1.3, StreamBox",
        line: "the query of the nearest window end, until that window is out",
        ..RankEntry::new("sbox", |parameters| {
            let period_ns = parameters.bare_duration_ns()?.unwrap_or(CYCLE_NS);
            Ok(RankRecipe::new(klink::labelled("sbox", period_ns), move || Sbox::new(period_ns)))
        })
    },
    RankEntry {
        takes: CYCLE,
        parts: "unit=query",
        paper: "Klink §3.4",
        line: "the query that frees most memory in a cycle",
        ..RankEntry::new("memory", |parameters| {
            let period_ns = parameters.bare_duration_ns()?.unwrap_or(CYCLE_NS);
            Ok(RankRecipe::new(klink::labelled("memory", period_ns), move || ByMemory::new(period_ns)))
        })
    },
    RankEntry {
        paper: "Aurora §3.1, Klink §6.1.1",
        line: "round robin: operators in turn, a quantum each",
        ..RankEntry::new("rr", |_| Ok(RankRecipe::new("rr", RoundRobin::default)))
    },
    RankEntry {
        paper: "EdgeWise, Lachesis §6.3",
        line: "any ready operator; what every policy should beat",
        ..RankEntry::new("random", |_| Ok(RankRecipe::new("random", Random::default)))
    },
    RankEntry {
        takes: "a quantum, as in 4ms",
        parts: "unit=query",
        paper: "Umbra (SIGMOD 2021), §3",
        line: "decaying stride: who used least goes first, and what runs long counts ever more",
        ..RankEntry::new("stride", |parameters| {
            let quantum_ns = parameters.bare_duration_ns()?.unwrap_or(stride::QUANTUM_NS);
            let label = match quantum_ns {
                stride::QUANTUM_NS => "stride".to_owned(),
                _ => format!("stride:{}", format_duration(quantum_ns)),
            };
            Ok(RankRecipe::new(label, move || Stride::new(quantum_ns)))
        })
    },
    RankEntry {
        parts: "unit=query,train=all",
        paper: "EDL, Chetto and Chetto 1989",
        line: "as late as possible: what must begin now, else the largest batch",
        ..RankEntry::new("alap", |_| Ok(RankRecipe::new("alap", AsLateAsPossible::default)))
    },
];

const PLANS: &[PlanEntry] = &[
    PlanEntry { name: "min-cost", make: || Box::<MinCost>::default() },
    PlanEntry { name: "min-latency", make: || Box::<MinLatency>::default() },
    PlanEntry { name: "min-memory", make: || Box::<MinMemory>::default() },
    PlanEntry { name: "auto", make: || Box::<Auto>::default() },
];

const NARROWINGS: &[Narrowing] = &[Narrowing {
    name: "spanner",
    shown: "spanner:K",
    takes: "how many of the most urgent operators it spans, as in spanner:3",
    narrow: |plan, most_urgent| Box::new(Spanner::new(plan, most_urgent)),
}];

const PRESETS: &[Preset] = &[
    Preset { name: "cameo", parts: "rank=llf", takes_rank: false, paper: "Cameo", line: "the same as llf" },
    Preset {
        name: "haren",
        parts: "rank=qs@50ms,train=rows:10",
        takes_rank: true,
        paper: "Haren; Lachesis §6.4",
        line: "any rank, taken every 50 ms only, 10 rows a turn: haren:RANK@PERIOD",
    },
    Preset {
        name: "jet",
        parts: "rank=rr,train=time:1ms",
        takes_rank: false,
        paper: "Hazelcast Jet",
        line: "cooperative tasklets: operators in turn, each until nothing waits for it or 1 ms is over",
    },
    Preset {
        name: "edgewise",
        parts: "rank=qs,train=messages:50",
        takes_rank: false,
        paper: "EdgeWise",
        line: "the longest queue first, at most 50 messages a turn",
    },
    Preset {
        name: "aurora",
        parts: "unit=query,rank=qos,traversal=auto,train=all",
        takes_rank: false,
        paper: "Aurora (VLDB 2003), §4, §6.1",
        line: "whole queries, by utility being lost, then by nearness of the next loss",
    },
    Preset {
        name: "aurora-bucketed",
        parts: "unit=query,rank=qos:20x20,traversal=auto,train=all",
        takes_rank: false,
        paper: "Aurora §6.2",
        line: "aurora with its order rounded to 20 x 20 buckets, which costs less to keep",
    },
    Preset {
        name: "aurora-mc",
        parts: "unit=query,rank=rr,traversal=min-cost,train=all",
        takes_rank: false,
        paper: "Aurora §4.1.2",
        line: "queries in turn, each from sources to sinks in one sweep: fewest calls",
    },
    Preset {
        name: "aurora-ml",
        parts: "unit=query,rank=rr,traversal=min-latency,train=all",
        takes_rank: false,
        paper: "Aurora §4.1.2",
        line: "queries in turn, each result pushed out before the next is begun",
    },
    Preset {
        name: "aurora-mm",
        parts: "unit=query,rank=rr,traversal=min-memory,train=all",
        takes_rank: false,
        paper: "Aurora §4.1.2",
        line: "queries in turn, in each who frees most bytes per CPU time first",
    },
    Preset {
        name: "aurora-baat",
        parts: "unit=operator,rank=rr,train=all",
        takes_rank: false,
        paper: "Aurora §5.2",
        line: "box at a time: operators in turn, each with all that waits for it",
    },
    Preset {
        name: "klink-no-memory",
        parts: "unit=query,rank=klink:no-memory",
        takes_rank: false,
        paper: "Klink §6.2.1",
        line: "klink by time alone",
    },
];

/// What the core has and what the papers add.
pub const CATALOGUE: Catalogue =
    Catalogue { ranks: &[CORE.ranks[0], RANKS], plans: PLANS, narrowings: NARROWINGS, presets: PRESETS };
