use std::fmt;
use std::str::FromStr;

use super::parts::{format_train, format_traversal, format_unit, parse_train, parse_traversal, parse_unit};
use super::presets::{POLICY_NAMES, PRESETS, Preset};
use super::ranks;
use super::{Composition, Train, Traversal, Unit};

/// Switches the meaning of queries off, for the ranks that use it.
const TOPOLOGY_ONLY: &str = "topology-only";

const PARTS: [&str; 5] = ["unit", "rank", "traversal", "train", "period"];

/// What is wrong with the text of a policy. The user can fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPolicy {
    /// The name is none of ours.
    #[error(
        "no policy is named {name:?}; expected one of {}, or parts as in \
         unit=query,rank=qs,traversal=by-rank,train=all",
        POLICY_NAMES.join(", ")
    )]
    Policy {
        /// What was asked for.
        name: String,
    },
    /// A part that there is not.
    #[error("in {policy:?}: {part:?} is no part of a policy; expected {}, each as NAME=CHOICE", list(&PARTS))]
    Part {
        /// The whole.
        policy: String,
        /// What was asked for.
        part: String,
    },
    /// A part is given twice.
    #[error("in {policy:?}: {part} is given twice; leave one of them out")]
    Twice {
        /// The whole.
        policy: String,
        /// The part.
        part: String,
    },
    /// A choice that there is not.
    #[error("in {policy:?}: no {part} is named {choice:?}; expected {expected}")]
    Choice {
        /// The whole.
        policy: String,
        /// The part.
        part: &'static str,
        /// What was asked for.
        choice: String,
        /// What there is.
        expected: String,
    },
    /// A parameter of a choice is not what it must be.
    #[error("in {policy:?}: {choice} does not take {value:?}; expected {expected}")]
    Value {
        /// The whole.
        policy: String,
        /// The choice.
        choice: String,
        /// Its parameter.
        value: String,
        /// What it must be.
        expected: String,
    },
}

/// What a part finds wrong, before it is known of which policy.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    Choice { part: &'static str, choice: String, expected: String },
    Value { choice: String, value: String, expected: String },
}

impl Fault {
    pub fn value(choice: impl Into<String>, value: &str, expected: impl Into<String>) -> Fault {
        Fault::Value { choice: choice.into(), value: value.to_owned(), expected: expected.into() }
    }

    fn of(self, policy: &str) -> UnknownPolicy {
        let policy = policy.to_owned();
        match self {
            Fault::Choice { part, choice, expected } => {
                UnknownPolicy::Choice { policy, part, choice, expected }
            }
            Fault::Value { choice, value, expected } => {
                UnknownPolicy::Value { policy, choice, value, expected }
            }
        }
    }
}

impl FromStr for Composition {
    type Err = UnknownPolicy;

    /// `NAME[:PARAMETER]…[@PERIOD]`, `haren:RANK[@PERIOD]`, or parts
    /// `unit=…,rank=…,traversal=…,train=…,period=…`, of which any may be left out.
    fn from_str(text: &str) -> Result<Composition, UnknownPolicy> {
        if text.split([':', ',']).next().is_some_and(|first| first.contains('=')) {
            return by_parts(text, text);
        }
        let (name, rest) = text.split_at(text.find([':', '@']).unwrap_or(text.len()));
        let preset = PRESETS.iter().find(|preset| preset.name == name);
        let Some(preset) = preset else { return Err(UnknownPolicy::Policy { name: text.to_owned() }) };
        by_parts(&preset.with(rest), text)
    }
}

/// `parts` as they stand in `policy`, or in what that is short for.
fn by_parts(parts: &str, policy: &str) -> Result<Composition, UnknownPolicy> {
    let mut given: [Option<&str>; PARTS.len()] = [None; PARTS.len()];
    for part in parts.split(',') {
        let (name, choice) = part.split_once('=').unwrap_or((part, ""));
        let Some(place) = PARTS.iter().position(|&known| known == name.trim()) else {
            return Err(UnknownPolicy::Part { policy: policy.to_owned(), part: part.to_owned() });
        };
        if given[place].replace(choice.trim()).is_some() {
            return Err(UnknownPolicy::Twice { policy: policy.to_owned(), part: PARTS[place].to_owned() });
        }
    }
    let [unit, rank, traversal, train, period] = given;
    let fault = |fault: Fault| fault.of(policy);
    let unit = unit.map_or(Ok(Unit::Operator), parse_unit).map_err(fault)?;
    let (rank, topology_only) = take_switch(rank.unwrap_or("laxity"));
    let rank = ranks::parse(&rank, period, topology_only).map_err(fault)?;
    let traversal = traversal.map_or(Ok(Traversal::ByRank), parse_traversal).map_err(fault)?;
    let train = train.map_or(Ok(Train::Quantum), parse_train).map_err(fault)?;
    Ok(Composition { unit, rank, traversal, train, topology_only })
}

/// The rank without the switch, and whether it was there.
fn take_switch(rank: &str) -> (String, bool) {
    let (rank, period) = rank.split_once('@').map_or((rank, None), |(rank, period)| (rank, Some(period)));
    let kept: Vec<&str> = rank.split(':').filter(|parameter| *parameter != TOPOLOGY_ONLY).collect();
    let topology_only = kept.len() < rank.split(':').count();
    let period = period.map_or_else(String::new, |period| format!("@{period}"));
    (format!("{}{period}", kept.join(":")), topology_only)
}

impl Composition {
    /// The shortest name that it can be asked for by.
    pub fn name(&self) -> String {
        let parts = self.to_string();
        let shape = |composition: &Composition| {
            let Composition { unit, traversal, train, .. } = composition;
            (format_unit(*unit), format_traversal(traversal), format_train(*train))
        };
        let known =
            || PRESETS.iter().filter_map(|preset| Some((preset, preset.name.parse::<Composition>().ok()?)));
        if let Some((preset, _)) = known().find(|(_, known)| known.to_string() == parts) {
            return preset.name.to_owned();
        }
        for (preset, known) in known() {
            if preset.name == self.rank.name() && preset.rank() == preset.name && shape(&known) == shape(self)
            {
                return self.label();
            }
        }
        parts
    }

    /// The rank with its parameters, and the switch before the period.
    fn label(&self) -> String {
        let label = self.rank.label();
        let (rank, period) = label.split_once('@').map_or((&*label, None), |(rank, p)| (rank, Some(p)));
        let switch = if self.topology_only { format!(":{TOPOLOGY_ONLY}") } else { String::new() };
        format!("{rank}{switch}{}", period.map_or_else(String::new, |period| format!("@{period}")))
    }
}

/// All parts, whatever the name.
impl fmt::Display for Composition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unit={},rank={},traversal={},train={}",
            format_unit(self.unit),
            self.label(),
            format_traversal(&self.traversal),
            format_train(self.train)
        )
    }
}

impl Preset {
    /// The parts, with what stands behind the name given to its rank, or as its rank where it takes one.
    fn with(&self, rest: &str) -> String {
        let rank = self.rank();
        let (bare, period) = rank.find('@').map_or((rank, ""), |at| rank.split_at(at));
        let given = match rest.strip_prefix(':') {
            Some(given) if self.takes_rank => given.to_owned(),
            _ => format!("{bare}{rest}"),
        };
        let period = if given.contains('@') { "" } else { period };
        self.parts.replacen(&format!("rank={rank}"), &format!("rank={given}{period}"), 1)
    }

    /// What its parts say of the rank.
    fn rank(&self) -> &'static str {
        let rank = self.parts.split(',').find_map(|part| part.strip_prefix("rank="));
        rank.expect("every preset names its rank")
    }
}

/// `a, b or c`.
pub(super) fn list(choices: &[&str]) -> String {
    match choices {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests;
