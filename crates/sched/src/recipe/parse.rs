//! The grammar of policy texts. It knows no policy: all names are looked up in the catalogue.

use super::catalogue::Named;
use super::parts::{parse_duration_ns, parse_train, split};
use super::{Catalogue, Fault, Narrows, Parameters, RankRecipe, Recipe, UnknownPolicy};
use crate::{By, Train};

/// Switches the meaning of queries off, for the ranks that use it.
pub(super) const TOPOLOGY_ONLY: &str = "topology-only";

pub(super) const TOPOLOGY_ONLY_SUFFIX: &str = ":topology-only";

pub(super) const PARTS: [&str; 5] = ["unit", "rank", "traversal", "train", "period"];

/// The rank of parts that name none: the first in the catalogue.
const DEFAULT: usize = 0;

struct UnitChoice {
    text: String,
    is_query: bool,
    narrows: Option<Narrows>,
}

struct RankChoice {
    rank: RankRecipe,
    topology_only: bool,
    period_ns: Option<u64>,
}

impl Catalogue {
    /// `NAME[:PARAMETER]…[@PERIOD]`, `haren:RANK[@PERIOD]`, or parts
    /// `unit=…,rank=…,traversal=…,train=…,period=…`, of which any may be left out.
    pub fn recipe(&self, text: &str) -> Result<Recipe, UnknownPolicy> {
        let mut recipe = self.parse(text)?;
        recipe.asked = text.to_owned();
        recipe.name = self.shortest_name(&recipe);
        Ok(recipe)
    }

    /// But for its name.
    fn parse(&self, text: &str) -> Result<Recipe, UnknownPolicy> {
        if text.split([':', ',']).next().is_some_and(|first| first.contains('=')) {
            return self.by_parts(text, text);
        }
        let (name, rest) = text.split_at(text.find([':', '@']).unwrap_or(text.len()));
        let named = self.named().find(|named| named.name == name);
        let Some(named) = named else {
            let known = self.names().collect::<Vec<_>>().join(", ");
            return Err(UnknownPolicy::Policy { name: text.to_owned(), known });
        };
        self.by_parts(&named.with(rest), text)
    }

    /// `parts` as they stand in `policy`, or in what that is short for.
    fn by_parts(&self, parts: &str, policy: &str) -> Result<Recipe, UnknownPolicy> {
        let mut given: [Option<&str>; PARTS.len()] = [None; PARTS.len()];
        for part in parts.split(',') {
            let (name, choice) = part.split_once('=').unwrap_or((part, ""));
            let Some(place) = PARTS.iter().position(|&known| known == name.trim()) else {
                return Err(UnknownPolicy::Part { policy: policy.to_owned(), part: part.to_owned() });
            };
            if given[place].replace(choice.trim()).is_some() {
                let part = PARTS[place].to_owned();
                return Err(UnknownPolicy::Twice { policy: policy.to_owned(), part });
            }
        }
        let [unit, rank, traversal, train, period] = given;
        let fault = |fault: Fault| fault.of(policy);
        let unit = self.unit(unit.unwrap_or("operator")).map_err(fault)?;
        let default = self.rank_names()[DEFAULT];
        let rank = self.rank_choice(rank.unwrap_or(default), period).map_err(fault)?;
        let (traversal, plan) = self.traversal(traversal.unwrap_or("by-rank")).map_err(fault)?;
        let train = train.map_or(Ok(Train::Quantum), parse_train).map_err(fault)?;
        let UnitChoice { text: unit, is_query, narrows } = unit;
        let RankChoice { rank, topology_only, period_ns } = rank;
        let (asked, name) = (String::new(), String::new());
        Ok(Recipe {
            asked,
            name,
            unit,
            is_query,
            narrows,
            rank,
            topology_only,
            period_ns,
            traversal,
            plan,
            train,
        })
    }

    fn unit(&self, text: &str) -> Result<UnitChoice, Fault> {
        let (name, parameter) = split(text);
        let choice = |is_query, narrows| UnitChoice { text: text.to_owned(), is_query, narrows };
        match (name, parameter) {
            ("operator", None) => return Ok(choice(false, None)),
            ("query", None) => return Ok(choice(true, None)),
            _ => {}
        }
        let Some(narrowing) = self.narrowings.iter().find(|narrowing| narrowing.name == name) else {
            let mut known = vec!["operator", "query"];
            known.extend(self.narrowings.iter().map(|narrowing| narrowing.shown));
            return Err(Fault::unknown("unit", text, &known));
        };
        let number = parameter.unwrap_or_default();
        let parsed = number.parse().ok().filter(|&parsed| parsed > 0);
        let parsed = parsed.ok_or_else(|| Fault::value(format!("unit={name}"), number, narrowing.takes))?;
        Ok(choice(true, Some(narrowing.of(parsed))))
    }

    /// `NAME[:PARAMETER]…[@PERIOD]`.
    fn rank_choice(&self, text: &str, period: Option<&str>) -> Result<RankChoice, Fault> {
        let (rank, at) = text.split_once('@').map_or((text, None), |(rank, period)| (rank, Some(period)));
        let mut parameters = rank.split(':');
        let name = parameters.next().unwrap_or_default();
        let Some(entry) = self.rank(name) else {
            return Err(Fault::unknown("rank", name, &self.rank_names()));
        };
        let mut parameters = Parameters { entry, left: parameters.collect() };
        let topology_only = parameters.left.contains(&TOPOLOGY_ONLY);
        if topology_only && !entry.by_frontier {
            return Err(parameters.refuse(TOPOLOGY_ONLY));
        }
        parameters.left.retain(|parameter| *parameter != TOPOLOGY_ONLY);
        let rank = (entry.make)(&mut parameters)?;
        if let Some(left) = parameters.left.first() {
            return Err(parameters.refuse(left));
        }
        let Some(period) = at.or(period) else {
            return Ok(RankChoice { rank, topology_only, period_ns: None });
        };
        let period_ns = parse_duration_ns(period).filter(|&ns| ns > 0);
        let period_ns = period_ns.ok_or_else(|| Fault::value("period", period, "a time, as in 50ms"))?;
        if (rank.make)().needs().by == By::Turn {
            let expected = "no period: whose turn it is cannot be told from a snapshot";
            return Err(Fault::value(format!("rank={}", rank.label), period, expected));
        }
        Ok(RankChoice { rank, topology_only, period_ns: Some(period_ns) })
    }

    #[expect(clippy::type_complexity, reason = "a name and what makes it")]
    fn traversal(&self, text: &str) -> Result<(&'static str, Option<fn() -> Box<dyn crate::Plan>>), Fault> {
        if text == "by-rank" {
            return Ok(("by-rank", None));
        }
        let known = self.plans.iter().find(|plan| plan.name == text);
        known.map(|plan| (plan.name, Some(plan.make))).ok_or_else(|| {
            let mut known = vec!["by-rank"];
            known.extend(self.plans.iter().map(|plan| plan.name));
            Fault::unknown("traversal", text, &known)
        })
    }

    fn shortest_name(&self, recipe: &Recipe) -> String {
        let parts = recipe.to_string();
        let known = || self.named().filter_map(|named| Some((named, self.parse(named.name).ok()?)));
        if let Some((named, _)) = known().find(|(_, known)| known.to_string() == parts) {
            return named.name.to_owned();
        }
        let has_its_shape = |known: &Recipe| {
            (&known.unit, known.traversal, known.train) == (&recipe.unit, recipe.traversal, recipe.train)
        };
        let is_short = |named: &Named| named.name == recipe.rank_name() && named.rank == named.name;
        if known().any(|(named, known)| is_short(&named) && has_its_shape(&known)) {
            return recipe.label();
        }
        parts
    }
}

impl Named {
    /// The parts, with what stands behind the name given to its rank, or as its rank where it takes one.
    fn with(&self, rest: &str) -> String {
        let (bare, period) = self.rank.find('@').map_or((self.rank, ""), |at| self.rank.split_at(at));
        let given = match rest.strip_prefix(':') {
            Some(given) if self.takes_rank => given.to_owned(),
            _ => format!("{bare}{rest}"),
        };
        let period = if given.contains('@') { "" } else { period };
        let others = self.others.split(',').filter(|part| !part.is_empty() && !part.starts_with("rank="));
        let rank = format!("rank={given}{period}");
        others.chain([rank.as_str()]).collect::<Vec<_>>().join(",")
    }
}
