use laxity_sched::{By, Cycled, Event, Needs, Rank, Snapshot, Told, WaitBound};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// `random`: every ready unit is equally likely to be next. A baseline that any policy should beat.
///
/// Each unit joins with key V + E, where V is the key granted last and E is exponential with mean 1. The
/// exponential has no memory: given that they exceed V, all keys that wait are distributed alike, however long
/// they have waited, so the least of them is a uniform choice, at the cost of a heap.
#[derive(Clone, Debug)]
pub struct Random {
    random: Pcg32,
    reached: f64,
}

impl Default for Random {
    fn default() -> Random {
        Random { random: Pcg32::seed_from_u64(0), reached: 0.0 }
    }
}

impl Rank for Random {
    fn needs(&self) -> Needs {
        let told = Told { granted: true, ..Told::default() };
        Needs { by: By::Lot, told, ..Needs::by_message(WaitBound::Ageing) }
    }

    /// From a snapshot: every unit is equally likely to be first, anew each time.
    fn cycle<'a>(&'a mut self, _snapshot: &Snapshot, priorities: &mut [f64]) -> Cycled<'a> {
        priorities.fill_with(|| f64::from(self.random.next_u32()));
        Cycled::ALL
    }

    fn join(&mut self, _unit: u32, _head: f64) -> f64 {
        // In (0, 1], so that the logarithm is finite.
        let uniform = (f64::from(self.random.next_u32()) + 1.0) / (f64::from(u32::MAX) + 1.0);
        self.reached - uniform.ln()
    }

    fn on(&mut self, event: Event) {
        if let Event::Granted { priority, .. } = event {
            self.reached = self.reached.max(priority);
        }
    }

    fn seed(&mut self, seed: u64) {
        self.random = Pcg32::seed_from_u64(seed);
    }
}
