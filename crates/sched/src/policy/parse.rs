use std::str::FromStr;

use super::{Composition, Edf, Fcfs, Fifo, Laxity, Llf, Random, RoundRobin, Sjf};

/// What [`Composition`] can be parsed from.
pub const POLICY_NAMES: [&str; 8] = ["laxity", "llf", "edf", "sjf", "fcfs", "fifo", "rr", "random"];

/// Switches the meaning of queries off, for the ranks that use it.
pub(super) const TOPOLOGY_ONLY: &str = ":topology-only";

/// The name is none of ours. The user can fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no policy is named {name:?}; expected one of {}, where laxity, llf and edf also take the suffix {TOPOLOGY_ONLY}",
    POLICY_NAMES.join(", ")
)]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
}

impl FromStr for Composition {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Composition, UnknownPolicy> {
        let (rank, topology_only) = match name.strip_suffix(TOPOLOGY_ONLY) {
            Some(rank) => (rank, true),
            None => (name, false),
        };
        let composition = match rank {
            "laxity" => Composition::of(Laxity::default()),
            "llf" => Composition::of(Llf),
            "edf" => Composition::of(Edf),
            "sjf" if !topology_only => Composition::of(Sjf),
            "fcfs" if !topology_only => Composition::of(Fcfs),
            "fifo" if !topology_only => Composition::of(Fifo),
            "rr" if !topology_only => Composition::of(RoundRobin::default()),
            "random" if !topology_only => Composition::of(Random::default()),
            _ => return Err(UnknownPolicy { name: name.to_owned() }),
        };
        Ok(Composition { topology_only, ..composition })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_parses_to_itself() {
        for name in POLICY_NAMES.iter().copied().chain(["llf:topology-only"]) {
            assert_eq!(name.parse::<Composition>().unwrap().name(), name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        for name in ["", "LLF", "fifo:topology-only", "llf:topology"] {
            let error = name.parse::<Composition>().unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")) && error.contains("laxity, llf, edf"), "{error}");
        }
    }
}
