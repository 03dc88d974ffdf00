//! The rank of shares that shrink for a query with what it uses.

use laxity_graph::QueryId;
use laxity_sched::{Event, Needs, Rank, Told, WaitBound};

/// `stride`: shares of the cores, which shrink for a query with every millisecond that it uses.
///
/// Stride scheduling (Waldspurger and Weihl 1995) with the decaying priorities of Umbra: Wagner, Kohn and Neumann, "Self-tuning
/// query scheduling for analytical workloads", SIGMOD 2021, §3. Who has the least pass is next; what runs for c moves its own
/// pass on by c / p.
///
/// p(d) = 1 for d ≤ d_start, then max(p_min, λ^(d − d_start))
///
/// | Symbol | Here | Unit |
/// | --- | --- | --- |
/// | pass | `pass_ns` of the unit; who joins begins at that of the unit served last, if its own is behind | ns at full priority |
/// | c | CPU time of the run | ns |
/// | d | whole quanta that it used since its work began | 1 ms, or as in `stride:4ms` |
/// | d_start, λ, p_min | 7, 0.9, 0.01 | – |
///
/// Umbra's queries end, and a new one has its full priority. Here a query is new whenever it has worked off what waited
/// for it: what was used is forgotten, and its pass too. So a small batch goes before a large one, without a guess at costs.
///
/// Deviates from the paper in that λ and d_start stay as they are, where Umbra finds them while it runs, and that weights
/// do not count. Blind to deadlines. Long work starves while short work keeps coming, hence the ageing guard.
#[derive(Clone, Debug)]
pub struct Stride {
    quantum_ns: u64,
    units: Vec<Used>,
    /// Pass of the unit that was served last.
    served_ns: f64,
}

/// Since its work began.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// Whose, for when that is removed.
    query: Option<QueryId>,
    pass_ns: f64,
    cpu_ns: u64,
}

/// The engine's quantum.
pub(crate) const QUANTUM_NS: u64 = 1_000_000;

/// Picked: about the first milliseconds of a query are at full priority.
const FULL_QUANTA: u64 = 7;

/// λ. Picked: a tenth less with each quantum, so that 44 more reach the least.
const DECAY: f64 = 0.9;

/// More of them change nothing: λ to this is far below the least.
const FORGOTTEN_QUANTA: u64 = 1_000;

/// p_min over p_0. Picked.
const PRIORITY_MIN: f64 = 0.01;

impl Stride {
    /// With this quantum, above 0.
    pub fn new(quantum_ns: u64) -> Stride {
        Stride { quantum_ns, units: Vec::new(), served_ns: 0.0 }
    }

    fn of(&mut self, unit: u32) -> &mut Used {
        let unit = unit as usize;
        if self.units.len() <= unit {
            self.units.resize(unit + 1, Used::default());
        }
        &mut self.units[unit]
    }
}

/// p(d).
fn priority(quanta: u64) -> f64 {
    let decayed = quanta.saturating_sub(FULL_QUANTA).min(FORGOTTEN_QUANTA);
    DECAY.powi(decayed as i32).max(PRIORITY_MIN)
}

impl Default for Stride {
    fn default() -> Stride {
        Stride::new(QUANTUM_NS)
    }
}

impl Rank for Stride {
    fn needs(&self) -> Needs {
        let told = Told { granted: true, ran: true, ..Told::default() };
        Needs { told, ..Needs::by_turn(WaitBound::Ageing) }
    }

    fn join(&mut self, unit: u32, _head: f64) -> f64 {
        let served_ns = self.served_ns;
        let used = self.of(unit);
        used.pass_ns = used.pass_ns.max(served_ns);
        used.pass_ns
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Granted { priority, .. } => self.served_ns = priority,
            Event::Ran { unit, rests: true, .. } => *self.of(unit) = Used::default(),
            Event::Ran { query, unit, cpu_ns, .. } => {
                let quantum_ns = self.quantum_ns;
                let used = self.of(unit);
                used.query = Some(query);
                used.pass_ns += cpu_ns as f64 / priority(used.cpu_ns / quantum_ns);
                used.cpu_ns += cpu_ns;
            }
            Event::Removed { query } => {
                let of_query = self.units.iter_mut().filter(|used| used.query == Some(query));
                of_query.for_each(|used| *used = Used::default());
            }
            Event::Started { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ran(rank: &mut Stride, unit: u32, ms: u64, rests: bool) {
        let query = QueryId(unit);
        rank.on(Event::Ran { query, unit, rests, source_rows: 0, cpu_ns: ms * MS });
    }

    #[test]
    fn the_share_shrinks_from_the_eighth_quantum_on() {
        let mut rank = Stride::default();
        ran(&mut rank, 0, 8, false);
        assert_eq!(rank.join(0, 0.0), 8e6);
        // At d = 8: 1 ms / 0.9.
        ran(&mut rank, 0, 1, false);
        assert!((rank.join(0, 0.0) - (8.0 + 1.0 / 0.9) * 1e6).abs() < 1.0);
        ran(&mut rank, 0, 100, false);
        let before = rank.join(0, 0.0);
        ran(&mut rank, 0, 1, false);
        assert_eq!(rank.join(0, 0.0) - before, 100e6, "a hundredth is the least");
    }

    #[test]
    fn what_has_worked_off_all_is_new() {
        let mut rank = Stride::default();
        ran(&mut rank, 0, 50, false);
        rank.on(Event::Granted { unit: 1, priority: 3e6 });
        ran(&mut rank, 0, 1, true);
        assert_eq!(rank.join(0, 0.0), 3e6, "from where the others are");
        ran(&mut rank, 0, 2, false);
        assert_eq!(rank.join(0, 0.0), 5e6, "at full priority");
        rank.on(Event::Removed { query: QueryId(0) });
        assert_eq!(rank.join(0, 0.0), 3e6);
    }
}
