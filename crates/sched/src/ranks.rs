//! The policies of the core: the default, the deadline policies that it is compared with, and the plain ones. One entry
//! per rank.

mod edf;
mod fcfs;
mod fifo;
mod laxity;
mod llf;

pub use edf::Edf;
pub use fcfs::Fcfs;
pub use fifo::Fifo;
pub use laxity::Laxity;
pub use llf::Llf;

use crate::{Catalogue, RankEntry, RankRecipe};

/// The parameter of ranks that lean on costs.
pub const SIGMA: &str = "sigma=TIME, the error of its costs";

const RANKS: &[RankEntry] = &[
    RankEntry {
        by_frontier: true,
        paper: "this project",
        line: "the default: deadlines; under overload utility lost per CPU; memory first at its bound",
        takes: "PART=off, of forecasts, overload and memory,",
        ..RankEntry::new("laxity", Laxity::recipe)
    },
    RankEntry {
        takes: SIGMA,
        by_frontier: true,
        paper: "Cameo, Eq. 3",
        line: "least laxity first: who must start soonest to be in time",
        ..RankEntry::new("llf", |parameters| parameters.perturbed(RankRecipe::new("llf", || Llf)))
    },
    RankEntry {
        takes: SIGMA,
        by_frontier: true,
        paper: "Cameo §4.2",
        line: "earliest deadline first: llf without an operator's own cost",
        ..RankEntry::new("edf", |parameters| parameters.perturbed(RankRecipe::new("edf", || Edf)))
    },
    RankEntry {
        paper: "Klink §6.1.1, Haren",
        line: "first come, first served: the oldest message by its arrival in the system",
        ..RankEntry::new("fcfs", |_| Ok(RankRecipe::new("fcfs", || Fcfs)))
    },
    RankEntry {
        paper: "Cameo §6",
        line: "operators in the order in which they became ready",
        ..RankEntry::new("fifo", |_| Ok(RankRecipe::new("fifo", || Fifo)))
    },
];

/// What the core itself has.
pub const CORE: Catalogue = Catalogue { ranks: &[RANKS], plans: &[], narrowings: &[], presets: &[] };
