//! Which operators go first: the ranks of `sched`, computed from a snapshot. Start with [`Policy`].

mod congestion;
mod queues;

use std::fmt;
use std::str::FromStr;

use laxity_sched::{Composition, Rank, Scale, Snapshot, UnknownPolicy, WaitBound};

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
    Rank(Box<Composition>),
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
            "congestion" => Kind::Rank(Box::new(Composition::of(Congestion))),
            // κ bounds waiting by the work of one message, which is microseconds; a thread's nice value holds for a
            // period. Here the target alone says how urgent a query is.
            "laxity" => {
                let mut laxity = laxity_sched::Laxity::default();
                laxity.stretch = f64::INFINITY;
                Kind::Rank(Box::new(Composition::of(laxity)))
            }
            _ => Kind::Rank(Box::new(text.parse().map_err(PolicyError::Unknown)?)),
        };
        if let Kind::Rank(composition) = &kind
            && composition.rank.by_turn()
            && composition.rank.name() != "random"
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
    pub fn needs(&self) -> &'static [Metric] {
        let Kind::Rank(composition) = &self.kind else { return &[] };
        match composition.rank.name() {
            "random" => &[],
            "qs" | "congestion" => &[Metric::QueueRows],
            "fcfs" => &[Metric::IngestAgeMs],
            "hr" | "chain" | "sjf" => &[Metric::Cost, Metric::Selectivity, Metric::PathCost],
            "klink" | "sbox" => {
                &[Metric::WatermarkMs, Metric::QueueRows, Metric::Cost, Metric::Selectivity, Metric::PathCost]
            }
            // Targets alone place operators; what is known besides makes it finer.
            _ if is_by_deadline(&*composition.rank) => &[],
            _ => &[
                Metric::QueueRows,
                Metric::Cost,
                Metric::Selectivity,
                Metric::PathCost,
                Metric::HeadAgeMs,
                Metric::IngestAgeMs,
            ],
        }
    }

    /// Metrics without which an operator cannot be placed among the others. Deadlines are known without any.
    fn places_by(&self) -> &'static [Metric] {
        let Kind::Rank(composition) = &self.kind else { return &[] };
        match composition.rank.name() {
            "qs" | "congestion" | "fcfs" | "hr" | "chain" | "sjf" | "klink" | "sbox" => self.needs(),
            _ => &[],
        }
    }

    /// Metrics that it uses where they can be had.
    pub fn likes(&self) -> &'static [Metric] {
        match &self.kind {
            Kind::Static => &[],
            Kind::Rank(_) => &[
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

    /// What the rank asked to be told how often, in ns, where it says so.
    pub fn period_ns(&self) -> Option<u64> {
        match &self.kind {
            Kind::Static => None,
            Kind::Rank(composition) => composition.rank.period_ns(),
        }
    }

    /// Told once: where a random rank begins.
    pub fn seed(&mut self, seed: u64) {
        if let Kind::Rank(composition) = &mut self.kind {
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
            Kind::Rank(composition) => {
                if self.known != *topology {
                    self.generation += 1;
                    self.known = topology.clone();
                }
                let windows = self.watermarks.observe(topology, readings);
                let unit = composition.unit;
                rank(
                    composition,
                    topology,
                    readings,
                    &snapshot(topology, readings, &windows, unit, self.generation),
                )
            }
        };
        let by = self.places_by();
        let is_by_query = matches!(&self.kind, Kind::Rank(composition) if composition.unit.is_query());
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

fn is_by_deadline(rank: &dyn Rank) -> bool {
    rank.name() != "fcfs" && (rank.name() == "laxity" || rank.wait_bound() == WaitBound::Deadline)
}

fn rank(
    composition: &mut Composition,
    topology: &Topology,
    readings: &Readings,
    snapshot: &Snapshot,
) -> Schedule {
    let unit = composition.unit;
    let units = if unit.is_query() { topology.queries.len() } else { topology.operators.len() };
    let rank = &mut composition.rank;
    let mut keys = vec![0.0; units];
    if rank.review_period_ns().is_some() {
        rank.review(snapshot);
    }
    rank.cycle(snapshot, &mut keys);
    if rank.period_ns().is_none() {
        for (unit, key) in keys.iter_mut().enumerate() {
            *key = rank.join(unit as u32, *key);
        }
    }
    // Deadlines are instants, whose differences mean nothing to an operating system; what is left until then, laxity,
    // does: twice as far is half as urgent.
    let is_deadline = is_by_deadline(&**rank);
    let scale = if is_deadline { Scale::Logarithmic } else { rank.scale() };
    if is_deadline {
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
