//! Tables of names, apart from the grammar that reads them: a crate adds policies and leaves the parser alone.

use super::{Fault, Narrows, Parameters, RankRecipe, Recipe};
use crate::{Needs, Plan, WaitBound};

/// What can be asked for by name: tables, so that to add a policy is to add a line.
///
/// A crate with policies of its own has a catalogue that begins with [`crate::CORE`] and goes on with its own tables.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    /// Ranks, table by table. A name stands in one of them.
    pub ranks: &'static [&'static [RankEntry]],
    /// Traversals beside `by-rank`.
    pub plans: &'static [PlanEntry],
    /// Parts of a query that a plan can be told to serve alone.
    pub narrowings: &'static [Narrowing],
    /// Names for compositions of what stands above.
    pub presets: &'static [Preset],
}

/// A rank that can be asked for.
#[derive(Clone, Copy, Debug)]
pub struct RankEntry {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, for the one who got them wrong; empty where it has none.
    pub takes: &'static str,
    /// It goes by the frontier, so that it can be told to ignore it (`:topology-only`).
    pub by_frontier: bool,
    /// The other parts that its name alone is short for: `unit=query`. Empty: an operator, by rank, for a quantum.
    pub parts: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// In one line, for somebody who chooses. Empty: the name alone is no policy, only a part of one.
    pub line: &'static str,
    /// Takes its parameters.
    pub make: fn(&mut Parameters<'_>) -> Result<RankRecipe, Fault>,
}

/// A traversal that can be asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlanEntry {
    /// Its name.
    pub name: &'static str,
    /// Makes it.
    pub make: fn() -> Box<dyn Plan>,
}

/// A part of a query that a plan can be told to serve alone: `unit=spanner:3`.
#[derive(Clone, Copy)]
pub struct Narrowing {
    /// Its name.
    pub name: &'static str,
    /// With its parameter, as somebody who chooses should see it.
    pub shown: &'static str,
    /// What its parameter must be.
    pub takes: &'static str,
    /// Takes its parameter, a number above 0, and makes a plan serve that part alone.
    pub narrow: fn(Box<dyn Plan>, u32) -> Box<dyn Plan>,
}

/// A name for a composition.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// What it is short for.
    pub parts: &'static str,
    /// What stands behind a colon is the rank, not a parameter of it.
    pub takes_rank: bool,
    /// Where it comes from.
    pub paper: &'static str,
    /// In one line, for somebody who chooses.
    pub line: &'static str,
}

/// A policy with a name, for a list to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDescription {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it does, in one line.
    pub line: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What it is short for.
    pub recipe: Recipe,
    /// What its rank goes by.
    pub needs: Needs,
}

/// A preset, or a rank whose name alone is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub name: &'static str,
    /// What its parts say of the rank.
    pub rank: &'static str,
    /// All others.
    pub others: &'static str,
    pub takes_rank: bool,
    paper: &'static str,
    line: &'static str,
}

impl Catalogue {
    /// Every policy that has a name.
    pub fn policies(&self) -> Vec<PolicyDescription> {
        let describe = |named: Named| {
            let recipe = self.recipe(named.name).expect("what has a name can be made");
            let needs = recipe.compose().rank.needs();
            PolicyDescription { name: named.name, line: named.line, paper: named.paper, recipe, needs }
        };
        self.named().map(describe).collect()
    }

    /// The names of all policies.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.named().map(|named| named.name)
    }

    pub(super) fn rank(&self, name: &str) -> Option<&'static RankEntry> {
        self.ranks.iter().flat_map(|table| table.iter()).find(|entry| entry.name == name)
    }

    pub(super) fn rank_names(&self) -> Vec<&'static str> {
        self.ranks.iter().flat_map(|table| table.iter()).map(|entry| entry.name).collect()
    }

    pub(super) fn named(&self) -> impl Iterator<Item = Named> + use<> {
        let ranks = self.ranks.iter().flat_map(|table| table.iter()).filter(|entry| !entry.line.is_empty());
        let ranks = ranks.map(|&RankEntry { name, parts, paper, line, .. }| Named {
            name,
            rank: name,
            others: parts,
            takes_rank: false,
            paper,
            line,
        });
        let presets = self.presets.iter().map(|&Preset { name, parts, takes_rank, paper, line }| {
            let rank = parts.split(',').find_map(|part| part.strip_prefix("rank="));
            let rank = rank.expect("every preset names its rank");
            Named { name, rank, others: parts, takes_rank, paper, line }
        });
        ranks.chain(presets)
    }
}

impl RankEntry {
    /// A rank without parameters, which ignores the frontier and whose name alone is no policy.
    pub const fn new(
        name: &'static str,
        make: fn(&mut Parameters<'_>) -> Result<RankRecipe, Fault>,
    ) -> RankEntry {
        RankEntry { name, takes: "", by_frontier: false, parts: "", paper: "", line: "", make }
    }
}

impl PolicyDescription {
    /// How long a ready unit waits at most.
    pub fn bound(&self) -> WaitBound {
        self.needs.bound
    }
}

impl Narrowing {
    pub(super) fn of(&'static self, parameter: u32) -> Narrows {
        std::sync::Arc::new(move |plan| (self.narrow)(plan, parameter))
    }
}

impl std::fmt::Debug for Narrowing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Narrowing").field("name", &self.name).finish_non_exhaustive()
    }
}
