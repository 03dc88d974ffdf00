use super::{Composition, WaitBound};

/// A policy that has a name.
pub(super) struct Preset {
    pub name: &'static str,
    /// What it is short for.
    pub parts: &'static str,
    /// What stands behind a colon is the rank, not a parameter of it.
    pub takes_rank: bool,
    pub paper: &'static str,
    /// In one line, for somebody who chooses.
    pub line: &'static str,
}

/// What `laxity policies` shows, in this order: ours, Cameo's, by queue, by turn.
pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "laxity",
        parts: "rank=laxity",
        takes_rank: false,
        paper: "this project",
        line: "the default: deadlines; under overload utility lost per CPU; memory first at its bound",
    },
    Preset {
        name: "llf",
        parts: "rank=llf",
        takes_rank: false,
        paper: "Cameo, Eq. 3",
        line: "least laxity first: who must start soonest to be in time",
    },
    Preset {
        name: "edf",
        parts: "rank=edf",
        takes_rank: false,
        paper: "Cameo §4.2",
        line: "earliest deadline first: llf without an operator's own cost",
    },
    Preset {
        name: "sjf",
        parts: "rank=sjf",
        takes_rank: false,
        paper: "Cameo §4.2",
        line: "shortest job first: whose next message costs least",
    },
    Preset { name: "cameo", parts: "rank=llf", takes_rank: false, paper: "Cameo", line: "the same as llf" },
    Preset {
        name: "tokens",
        parts: "rank=tokens,train=one",
        takes_rank: false,
        paper: "Cameo §5.4",
        line: "shares by weight: tokens for each second, who has one goes first",
    },
    Preset {
        name: "fcfs",
        parts: "rank=fcfs",
        takes_rank: false,
        paper: "Klink §6.1.1, Haren",
        line: "first come, first served: the oldest message by its arrival in the system",
    },
    Preset {
        name: "qs",
        parts: "rank=qs",
        takes_rank: false,
        paper: "EdgeWise, Lachesis §5.1",
        line: "queue size: the longest queue first",
    },
    Preset {
        name: "hr",
        parts: "rank=hr",
        takes_rank: false,
        paper: "Klink §6.1.1, Lachesis §5.1",
        line: "highest rate: most results per CPU time first",
    },
    Preset {
        name: "chain",
        parts: "rank=chain",
        takes_rank: false,
        paper: "Babcock et al. 2003",
        line: "least memory: who frees queued rows fastest first",
    },
    Preset {
        name: "haren",
        parts: "rank=qs@50ms,train=rows:10",
        takes_rank: true,
        paper: "Haren; Lachesis §6.4",
        line: "any rank, taken every 50 ms only, 10 rows a turn: haren:RANK@PERIOD",
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
        name: "klink",
        parts: "unit=query,rank=klink",
        takes_rank: false,
        paper: "Klink (SIGMOD 2021)",
        line: "queries by what is left until their next window result is due; by memory when it is short",
    },
    Preset {
        name: "klink-no-memory",
        parts: "unit=query,rank=klink:no-memory",
        takes_rank: false,
        paper: "Klink §6.2.1",
        line: "klink by time alone",
    },
    Preset {
        name: "sbox",
        parts: "unit=query,rank=sbox",
        takes_rank: false,
        paper: "Klink §6.1.3, StreamBox",
        line: "the query of the nearest window end, until that window is out",
    },
    Preset {
        name: "memory",
        parts: "unit=query,rank=memory",
        takes_rank: false,
        paper: "Klink §3.4",
        line: "the query that frees most memory in a cycle",
    },
    Preset {
        name: "fifo",
        parts: "rank=fifo",
        takes_rank: false,
        paper: "Cameo §6",
        line: "operators in the order in which they became ready",
    },
    Preset {
        name: "rr",
        parts: "rank=rr",
        takes_rank: false,
        paper: "Aurora §3.1, Klink §6.1.1",
        line: "round robin: operators in turn, a quantum each",
    },
    Preset {
        name: "random",
        parts: "rank=random",
        takes_rank: false,
        paper: "EdgeWise, Lachesis §6.3",
        line: "any ready operator; what every policy should beat",
    },
];

/// What [`Composition`] can be parsed from, parts and parameters aside.
pub const POLICY_NAMES: [&str; PRESETS.len()] = {
    let mut names = [""; PRESETS.len()];
    let mut place = 0;
    while place < PRESETS.len() {
        names[place] = PRESETS[place].name;
        place += 1;
    }
    names
};

/// A named policy, for a list to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDescription {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it does, in one line.
    pub line: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What it is short for, all parts spelled out.
    pub parts: String,
    /// When it ranks.
    pub kind: PolicyKind,
    /// How long a ready unit waits at most.
    pub bound: WaitBound,
}

/// When a rank is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// For a message, as it is enqueued.
    Message,
    /// For all units, every so many nanoseconds.
    Cycle(u64),
    /// For a unit, as it joins the run queue.
    Turn,
}

/// Every policy that has a name, in the order of [`POLICY_NAMES`].
pub fn policies() -> Vec<PolicyDescription> {
    let describe = |preset: &Preset| {
        let composition: Composition = preset.name.parse().expect("a preset parses");
        let rank = &composition.rank;
        PolicyDescription {
            name: preset.name,
            line: preset.line,
            paper: preset.paper,
            parts: composition.to_string(),
            kind: match rank.period_ns() {
                Some(period_ns) => PolicyKind::Cycle(period_ns),
                None if rank.by_turn() => PolicyKind::Turn,
                None => PolicyKind::Message,
            },
            bound: rank.wait_bound(),
        }
    };
    PRESETS.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_list_says_of_each_what_it_is() {
        let all = policies();
        let names: BTreeSet<&str> = all.iter().map(|policy| policy.name).collect();
        assert_eq!(names.len(), all.len(), "a name is given twice");
        assert_eq!(all[0].name, "laxity", "the default comes first");
        for PolicyDescription { name, line, paper, parts, .. } in &all {
            assert!((10..=90).contains(&line.len()) && !paper.is_empty(), "{name}: {line} [{paper}]");
            assert_eq!(parts.parse::<Composition>().unwrap().to_string(), *parts, "{name}");
        }
        let of = |name: &str| {
            let policy = all.iter().find(|policy| policy.name == name).expect("it is listed");
            (policy.kind, policy.bound)
        };
        assert_eq!(of("llf"), (PolicyKind::Message, WaitBound::Deadline));
        assert_eq!(of("qs"), (PolicyKind::Message, WaitBound::Ageing));
        assert_eq!(of("haren"), (PolicyKind::Cycle(50_000_000), WaitBound::Ageing));
        assert_eq!(of("klink"), (PolicyKind::Cycle(120_000_000), WaitBound::Ageing));
        assert_eq!(of("rr"), (PolicyKind::Turn, WaitBound::Turns));
    }
}
