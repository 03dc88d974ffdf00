//! Aurora's rank by QoS curves, in its exact form; the form with buckets is `Bucketed`.

use std::cmp::Ordering;

use laxity_graph::ProcessingTime;
use laxity_sched::{Cycled, Needs, OperatorSnapshot, QuerySnapshot, Rank, Reads, Snapshot};

use crate::applications::Applications;
use crate::bucketed::Bucketed;

/// `qos`: first where most utility is being lost per unit of time; among equals, where the next loss is nearest.
///
/// Aurora §6.1. Every cycle each operator b gets its p-tuple (utility, slack); tuples are ordered by utility, falling,
/// then by slack, rising; the priority is the position in that order. With g × s partitions (§6.2) tuples are
/// rounded to buckets and only operators that change their bucket are looked at: `qos:20x20`.
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | latency(b) | now − [`OperatorSnapshot::mean_ingested`]; 0 where nothing waits: as a row that comes now | ns |
/// | cost(D(b)) | C_o of a mean message that waits + C_path, both of which carry selectivities in them | ns |
/// | eol(b) | latency(b) + cost(D(b)) | ns |
/// | utility(b) | weight × loss of the query's curve at eol(b), as a magnitude; summed over applications | 1/ns |
/// | est(b) | distance from eol(b) to the next critical point, the least over applications; 0 past the last | ns |
///
/// An application is a query; an operator has several where operators of other queries read it. The tuple of a
/// query, where queries are the unit, is that of its most urgent operator: a sum would favour queries for being
/// cut into many operators. Deviates from the paper in the weight (1 unless given), and in that it ranks every
/// period rather than whenever the execution queue runs empty: who is urgent may be served again at once, not
/// once per round, which is closer to the order and costs more dispatches where these are dear.
///
/// Does badly under overload: rows past their last critical point have utility 0 and slack 0, and so go before
/// rows that have lost nothing yet and still could be saved; and where curves have unlike scales, since one
/// that falls within milliseconds always beats one that falls within seconds. Waiting: no bound of its own; the
/// ageing guard's. Costs about 45 ns per operator and cycle; in buckets about 50 ns per operator that changed or was
/// due (`examples/plan_cost.rs`).
#[derive(Debug)]
pub struct Qos {
    period_ns: u64,
    bucketed: Option<Bucketed>,
    applications: Applications,
    /// By unit: what it has to offer this cycle.
    offers: Vec<Offer>,
    sorted: Vec<u32>,
}

/// How often priorities are made anew unless said: an order below the latency targets people ask for. Picked.
const PERIOD_NS: u64 = 10_000_000;

/// A p-tuple.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Urgency {
    pub utility: f64,
    pub slack_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Offer {
    urgency: Urgency,
    /// Of an operator that has work, not of one that might get some.
    works: bool,
}

impl Default for Qos {
    fn default() -> Qos {
        Qos {
            period_ns: PERIOD_NS,
            bucketed: None,
            applications: Applications::default(),
            offers: Vec::new(),
            sorted: Vec::new(),
        }
    }
}

impl Qos {
    /// Rounded to so many buckets of utility and of slack, each at least 1.
    pub fn bucketed(gradients: u32, slacks: u32) -> Qos {
        Qos { bucketed: Some(Bucketed::new(gradients.max(1), slacks.max(1))), ..Qos::default() }
    }

    /// Makes priorities anew so often.
    #[must_use]
    pub fn every(self, period_ns: u64) -> Qos {
        Qos { period_ns: period_ns.max(1), ..self }
    }

    /// The p-tuple of every unit, to be ordered.
    fn offer(&mut self, snapshot: &Snapshot, units: usize) {
        self.applications.refresh(snapshot);
        self.offers.clear();
        self.offers.resize(units, Offer { urgency: Urgency::LAST, works: false });
        let by_query = snapshot.unit.is_query();
        for (place, operator) in snapshot.operators.iter().enumerate() {
            let works = operator.has_work();
            // What comes to a query that has nothing comes to its sources.
            if by_query && !works && !operator.upstream.is_empty() {
                continue;
            }
            let Some(urgency) = self.applications.urgency(place, snapshot) else { continue };
            let Some(offer) = self.offers.get_mut(operator.unit as usize) else { continue };
            let better = match (works, offer.works) {
                (true, false) => true,
                (false, true) => false,
                _ => urgency.is_before(&offer.urgency),
            };
            if better {
                *offer = Offer { urgency, works };
            }
        }
    }
}

impl Rank for Qos {
    fn needs(&self) -> Needs {
        let reads = Reads { queues: true, costs: true, ages: true, heads: true, ..Reads::NOTHING };
        Needs { reads, ..Needs::by_cycle(self.period_ns) }
    }

    fn cycle<'a>(&'a mut self, snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        match &mut self.bucketed {
            Some(bucketed) => bucketed.cycle(snapshot, &mut self.applications, priorities),
            None => self.rank_exactly(snapshot, priorities),
        }
        match &self.bucketed {
            Some(bucketed) => Cycled { moved: bucketed.moved(), looked_at: Some(bucketed.work()) },
            None => Cycled::ALL,
        }
    }
}

impl Qos {
    fn rank_exactly(&mut self, snapshot: &Snapshot, priorities: &mut [f64]) {
        self.offer(snapshot, priorities.len());
        self.sorted.clear();
        self.sorted.extend(0..priorities.len() as u32);
        let urgency = |unit: u32| &self.offers[unit as usize].urgency;
        self.sorted.sort_unstable_by(|&a, &b| urgency(a).order(urgency(b)));
        let mut position = 0.0;
        for (place, &unit) in self.sorted.iter().enumerate() {
            // Equals share a position, so that ties are the run queue's to break.
            if place > 0 && urgency(self.sorted[place - 1]) != urgency(unit) {
                position = place as f64;
            }
            priorities[unit as usize] = position;
        }
    }
}

impl Urgency {
    /// Of units of which nothing is known.
    const LAST: Urgency = Urgency { utility: 0.0, slack_ns: u64::MAX };

    /// Of an operator whose only application is its query.
    pub fn of(operator: &OperatorSnapshot, query: &QuerySnapshot, now: ProcessingTime) -> Urgency {
        let latency_ns = operator.mean_ingested.map_or(0, |ingested| now.since_ns(ingested));
        let eol_ns = latency_ns.saturating_add(operator.own_cost_ns()).saturating_add(operator.path_cost_ns);
        Urgency::at(query, eol_ns)
    }

    /// At that expected output latency.
    pub fn at(query: &QuerySnapshot, eol_ns: u64) -> Urgency {
        Urgency {
            utility: query.weight * query.qos.loss_per_ns(eol_ns),
            slack_ns: query.qos.slack_ns(eol_ns).unwrap_or(0),
        }
    }

    /// Of something that serves both: utilities add, the nearest loss counts.
    pub fn and(self, other: Urgency) -> Urgency {
        Urgency { utility: self.utility + other.utility, slack_ns: self.slack_ns.min(other.slack_ns) }
    }

    /// Most urgent first.
    pub fn order(&self, other: &Urgency) -> Ordering {
        other.utility.total_cmp(&self.utility).then(self.slack_ns.cmp(&other.slack_ns))
    }

    pub fn is_before(&self, other: &Urgency) -> bool {
        self.order(other) == Ordering::Less
    }
}

#[cfg(test)]
pub(super) mod tests;
