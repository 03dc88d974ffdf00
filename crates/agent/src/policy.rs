//! Which operators go first: the ranks of `sched`, computed from a snapshot. Start with [`Policy`].

mod congestion;
mod queues;

use std::fmt;
use std::str::FromStr;

use laxity_sched::{By, Composition, Needs, Recipe, Scale, Snapshot, UnknownPolicy, rank_all};

use crate::metric::Metric;
use crate::snapshot::snapshot;
use crate::watermarks::Watermarks;
use crate::{Readings, Topology};

use self::queues::Queues;

pub use congestion::Congestion;

/// A policy, with what its rank remembers between periods.
#[derive(Debug)]
pub struct Policy {
    name: String,
    kind: Kind,
    /// Counts changes of the topology: what a rank derived from it stays true while this does.
    generation: u64,
    known: Topology,
    watermarks: Watermarks,
    queues: Queues,
}

#[derive(Debug)]
enum Kind {
    /// The numbers that the user gave.
    Static,
    Rank(Box<Composition>, Needs),
}

/// A priority per logical operator, lower first, and what differences mean. `None`: no data, neutral.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// By logical operator.
    pub priorities: Vec<Option<f64>>,
    /// What differences mean.
    pub scale: Scale,
}

/// A policy that the agent cannot follow. The user can fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// None of ours.
    #[error("{0}; attached to an engine also static and congestion")]
    Unknown(UnknownPolicy),
    /// It only makes sense where every message is granted.
    #[error(
        "policy {name} says whose turn it is among waiting messages, which is the operating system's part when \
         attached to an engine; expected one that ranks operators, such as llf, qs or hr"
    )]
    ByTurn {
        /// What was asked for.
        name: String,
    },
}

/// Metrics older than this describe another load. Flink renews its own every 10 s unless told otherwise.
const STALE_MS: f64 = 30_000.0;

/// A deadline that has passed counts as one so close, so that it has a logarithm.
const LEAST_LAXITY_NS: f64 = 1e6;

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        let kind = match text {
            "static" => Kind::Static,
            "congestion" => ranked(&Recipe::of("congestion", || Congestion)),
            _ => ranked(&laxity_policies::recipe(text).map_err(PolicyError::Unknown)?),
        };
        if let Kind::Rank(_, needs) = &kind
            && needs.by == By::Turn
        {
            return Err(PolicyError::ByTurn { name: text.to_owned() });
        }
        Ok(Policy {
            name: text.to_owned(),
            kind,
            generation: 0,
            known: Topology::default(),
            watermarks: Watermarks::default(),
            queues: Queues::default(),
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Policy {
    /// Metrics without which the rank would say nothing.
    pub fn needs(&self) -> Vec<Metric> {
        let Kind::Rank(_, needs) = &self.kind else { return Vec::new() };
        let reads = needs.reads;
        let of: [(bool, &[Metric]); 5] = [
            (reads.watermarks, &[Metric::WatermarkMs]),
            (reads.queues, &[Metric::QueueRows]),
            (reads.costs, &[Metric::Cost, Metric::Selectivity, Metric::PathCost]),
            (reads.heads, &[Metric::HeadAgeMs]),
            (reads.ages, &[Metric::IngestAgeMs]),
        ];
        of.into_iter().filter(|(is_read, _)| *is_read).flat_map(|(_, metrics)| metrics).copied().collect()
    }

    /// Metrics without which an operator cannot be placed among the others. Deadlines are known without any, and who has
    /// no message in front is last where that is what counts.
    fn places_by(&self) -> Vec<Metric> {
        match &self.kind {
            Kind::Rank(_, needs) if !needs.reads.heads => self.needs(),
            _ => Vec::new(),
        }
    }

    /// Metrics that it uses where they can be had.
    pub fn likes(&self) -> &'static [Metric] {
        match &self.kind {
            Kind::Static => &[],
            Kind::Rank(..) => &[
                Metric::WatermarkMs,
                Metric::HeadAgeMs,
                Metric::IngestAgeMs,
                Metric::QueueRows,
                Metric::Cost,
                Metric::Selectivity,
                Metric::PathCost,
            ],
        }
    }

    /// What its rank goes by and an engine that runs already does not tell, so that it has no effect: a line for the user.
    pub fn left_out(&self) -> Option<String> {
        let Kind::Rank(_, needs) = &self.kind else { return None };
        let unknown =
            [(needs.told.ran, "the CPU time of single runs"), (needs.holds_sources, "short memory")];
        let unknown: Vec<&str> =
            unknown.into_iter().filter(|(is_read, _)| *is_read).map(|(_, of)| of).collect();
        let name = &self.name;
        (!unknown.is_empty()).then(|| {
            format!("policy {name}: what it decides by {} has no effect here", unknown.join(" and by "))
        })
    }

    /// What the rank asked to be told how often, in ns, where it says so.
    pub fn period_ns(&self) -> Option<u64> {
        match &self.kind {
            Kind::Static => None,
            Kind::Rank(_, needs) => needs.cycle_ns(),
        }
    }

    /// Told once: where a random rank begins.
    pub fn seed(&mut self, seed: u64) {
        if let Kind::Rank(composition, _) = &mut self.kind {
            composition.rank.seed(seed);
        }
    }

    /// Ranks every operator of the topology.
    pub fn schedule(&mut self, topology: &Topology, readings: &Readings) -> Schedule {
        let mut schedule = match &mut self.kind {
            Kind::Static => {
                let priority = |query: usize| topology.queries[query].wishes.priority.unwrap_or(0.0);
                let priorities = topology.operators.iter().map(|operator| Some(-priority(operator.query)));
                return Schedule { priorities: priorities.collect(), scale: Scale::Linear };
            }
            Kind::Rank(composition, needs) => {
                if self.known != *topology {
                    self.generation += 1;
                    self.known = topology.clone();
                }
                let windows = self.watermarks.observe(topology, readings);
                let unit = composition.unit;
                rank(
                    composition,
                    needs,
                    topology,
                    readings,
                    &snapshot(topology, readings, &windows, unit, self.generation),
                )
            }
        };
        let by = self.places_by();
        let is_by_query = matches!(&self.kind, Kind::Rank(composition, _) if composition.unit.is_query());
        for (place, priority) in schedule.priorities.iter_mut().enumerate() {
            // What a query is ranked by is known where one of its operators tells it.
            let tells = |metric| {
                readings.get(metric, place).is_some()
                    || is_by_query
                        && topology.operators.iter().enumerate().any(|(other, operator)| {
                            operator.query == topology.operators[place].query
                                && readings.get(metric, other).is_some()
                        })
            };
            let is_known = by.iter().all(|&metric| tells(metric));
            let age_ms = readings.get(Metric::SampleAgeMs, place).unwrap_or(0.0);
            if !is_known || !by.is_empty() && age_ms > STALE_MS {
                *priority = None;
            }
        }
        if by == [Metric::QueueRows] {
            self.queues.average(&mut schedule, self.generation, readings.now_ns);
        }
        schedule
    }
}

fn ranked(recipe: &Recipe) -> Kind {
    let composition = recipe.compose();
    let needs = composition.rank.needs();
    Kind::Rank(Box::new(composition), needs)
}

fn rank(
    composition: &mut Composition,
    needs: &Needs,
    topology: &Topology,
    readings: &Readings,
    snapshot: &Snapshot,
) -> Schedule {
    let unit = composition.unit;
    let units = if unit.is_query() { topology.queries.len() } else { topology.operators.len() };
    let mut keys = vec![0.0; units];
    rank_all(&mut *composition.rank, snapshot, &mut keys);
    // Instants, whose differences mean nothing to an operating system; what is left until then, laxity, does: twice as
    // far is half as urgent.
    let scale = if needs.instants { Scale::Logarithmic } else { needs.scale };
    if needs.instants {
        for key in &mut keys {
            *key = (*key - readings.now_ns as f64).max(LEAST_LAXITY_NS).ln();
        }
    }
    let key =
        |operator: usize| keys[if unit.is_query() { topology.operators[operator].query } else { operator }];
    let priorities =
        (0..topology.operators.len()).map(|place| Some(key(place)).filter(|key| key.is_finite()));
    Schedule { priorities: priorities.collect(), scale }
}

#[cfg(test)]
mod tests;
