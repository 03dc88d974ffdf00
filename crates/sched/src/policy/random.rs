use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::{Rank, WaitBound};
use crate::Snapshot;

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
    fn name(&self) -> &'static str {
        "random"
    }

    fn by_turn(&self) -> bool {
        true
    }

    fn wait_bound(&self) -> WaitBound {
        WaitBound::Ageing
    }

    /// From a snapshot: every unit is equally likely to be first, anew each time.
    fn cycle(&mut self, _snapshot: &Snapshot, priorities: &mut [f64]) {
        priorities.fill_with(|| f64::from(self.random.next_u32()));
    }

    fn join(&mut self, _unit: u32, _head: f64) -> f64 {
        // In (0, 1], so that the logarithm is finite.
        let uniform = (f64::from(self.random.next_u32()) + 1.0) / (f64::from(u32::MAX) + 1.0);
        self.reached - uniform.ln()
    }

    fn granted(&mut self, _unit: u32, priority: f64) {
        self.reached = self.reached.max(priority);
    }

    fn seed(&mut self, seed: u64) {
        self.random = Pcg32::seed_from_u64(seed);
    }
}
