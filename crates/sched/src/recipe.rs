//! A policy as a value: what a user asks for, and what makes it, as often as there are schedulers. Start with
//! [`Recipe`]; what can be asked for stands in a [`Catalogue`].

mod catalogue;
mod fault;
mod parameters;
mod parse;
mod parts;

use std::fmt;
use std::sync::Arc;

use crate::{Composition, Needs, Periodic, Plan, Rank, Train, Traversal, Unit};

pub use catalogue::{Catalogue, Narrowing, PlanEntry, PolicyDescription, Preset, RankEntry};
pub use fault::{Fault, UnknownPolicy};
pub use parameters::Parameters;
pub use parts::format_duration;

use parts::format_train;

/// A policy as a value: made once, by [`Catalogue::recipe`] from a text or by [`Recipe::of`] from code, and composed for
/// every scheduler that follows it. Equal where they are written alike; prints all parts.
#[derive(Clone)]
pub struct Recipe {
    /// As it was asked for.
    asked: String,
    name: String,
    /// `operator`, `query`, or what narrows a query, with its parameter.
    unit: String,
    is_query: bool,
    narrows: Option<Narrows>,
    rank: RankRecipe,
    topology_only: bool,
    period_ns: Option<u64>,
    traversal: &'static str,
    plan: Option<fn() -> Box<dyn Plan>>,
    train: Train,
}

/// Makes a plan serve a part of its unit alone.
pub(crate) type Narrows = Arc<dyn Fn(Box<dyn Plan>) -> Box<dyn Plan> + Send + Sync>;

/// A rank as a value: what it is written as, and what makes it.
#[derive(Clone)]
pub struct RankRecipe {
    label: String,
    make: Arc<dyn Fn() -> Box<dyn Rank> + Send + Sync>,
}

impl RankRecipe {
    /// Written as the name with the parameters that make another one like it: `llf:sigma=100ms`.
    pub fn new<R: Rank + 'static>(
        label: impl Into<String>,
        make: impl Fn() -> R + Send + Sync + 'static,
    ) -> RankRecipe {
        RankRecipe { label: label.into(), make: Arc::new(move || Box::new(make())) }
    }

    /// Another rank made from this one, written with this behind it: `:sigma=100ms`.
    pub fn decorated<R: Rank + 'static>(
        self,
        suffix: &str,
        decorate: impl Fn(Box<dyn Rank>) -> R + Send + Sync + 'static,
    ) -> RankRecipe {
        let make = self.make;
        RankRecipe::new(format!("{}{suffix}", self.label), move || decorate(make()))
    }
}

impl Recipe {
    /// Operators one by one under this rank, with the quantum of the configuration: Cameo's shape.
    pub fn of<R: Rank + 'static>(
        name: impl Into<String>,
        rank: impl Fn() -> R + Send + Sync + 'static,
    ) -> Recipe {
        let rank = RankRecipe::new(name, rank);
        Recipe {
            asked: rank.label.clone(),
            name: rank.label.clone(),
            unit: "operator".into(),
            is_query: false,
            narrows: None,
            rank,
            topology_only: false,
            period_ns: None,
            traversal: "by-rank",
            plan: None,
            train: Train::Quantum,
        }
    }

    /// Makes the policy, for one scheduler.
    pub fn compose(&self) -> Composition {
        let rank = (self.rank.make)();
        let plan = self.plan.map(|make| make());
        let plan = match &self.narrows {
            Some(narrow) => plan.map(|plan| narrow(plan)),
            None => plan,
        };
        Composition {
            unit: if self.is_query { Unit::Query } else { Unit::Operator },
            rank: match self.period_ns {
                Some(period_ns) => Box::new(Periodic { rank, period_ns }),
                None => rank,
            },
            traversal: plan.map_or(Traversal::ByRank, Traversal::Planned),
            train: self.train,
            topology_only: self.topology_only,
        }
    }

    /// What its rank declares.
    pub fn needs(&self) -> Needs {
        self.compose().rank.needs()
    }

    /// What it was asked for by, as whoever did will know it.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// The shortest name that it can be asked for by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rank with its parameters, with the switch before the period.
    fn label(&self) -> String {
        let switch = if self.topology_only { parse::TOPOLOGY_ONLY_SUFFIX } else { "" };
        let period = self.period_ns.map_or_else(String::new, |ns| format!("@{}", format_duration(ns)));
        format!("{}{switch}{period}", self.rank.label)
    }

    /// What stands before the first parameter of its rank.
    fn rank_name(&self) -> &str {
        self.rank.label.split(':').next().unwrap_or_default()
    }
}

/// All parts, whatever the name.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recipe { unit, traversal, train, .. } = self;
        write!(f, "unit={unit},rank={},traversal={traversal},train={}", self.label(), format_train(*train))
    }
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipe({self})")
    }
}

impl PartialEq for Recipe {
    fn eq(&self, other: &Recipe) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Recipe {}

impl fmt::Debug for RankRecipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RankRecipe({})", self.label)
    }
}
