use laxity_graph::OperatorId;

use crate::{HighestRate, Snapshot};

/// Which operators go first inside a query that is given up: those that put out most for the time it gets
/// ([`HighestRate`], global). By deadline, no result of any of its branches would come in time.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    rates: HighestRate,
    /// By unit.
    places_ns: Vec<f64>,
    is_known: bool,
    /// Scratch: the operators of a query, best rate first.
    by_rate: Vec<(f64, OperatorId, u32)>,
}

/// From one place to the next: eleven days of nanoseconds, behind every deadline of the place before.
const PLACE_NS: f64 = 1e15;

/// All places together stay below what divides one query from the next ([`super::BEHIND_ALL`]).
const PLACES_MAX: f64 = 900.0;

/// Rates are estimates: those that are as close as this share one place, where deadlines decide.
const ALIKE: f64 = 0.999;

impl Default for Lost {
    fn default() -> Lost {
        Lost { rates: HighestRate::global(), places_ns: Vec::new(), is_known: false, by_rate: Vec::new() }
    }
}

impl Lost {
    /// Costs have changed.
    pub fn forget(&mut self) {
        self.is_known = false;
    }

    /// So many units: how far behind the first of its query each is.
    pub fn places_ns(&mut self, snapshot: &Snapshot, units: usize) -> &[f64] {
        if self.is_known {
            return &self.places_ns;
        }
        self.is_known = true;
        self.rates.learn(snapshot);
        self.places_ns.clear();
        self.places_ns.resize(units, PLACES_MAX * PLACE_NS);
        for query in &snapshot.queries {
            let operators = query.operators.iter().filter_map(|&id| snapshot.operator(id));
            self.by_rate.clear();
            self.by_rate.extend(operators.map(|o| (self.rates.rate(o.id), o.id, o.unit)));
            self.by_rate.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let (mut place, mut best) = (0.0, f64::INFINITY);
            for &(rate, _, unit) in &self.by_rate {
                if rate < ALIKE * best {
                    (place, best) = (f64::min(place + 1.0, PLACES_MAX), rate);
                }
                let place_ns = &mut self.places_ns[unit as usize];
                *place_ns = place_ns.min(place * PLACE_NS);
            }
        }
        &self.places_ns
    }
}
