//! Costs made wrong on purpose, around any rank (Cameo §6.3).

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::{Decorator, Rank};
use crate::MessageContext;

/// `llf:sigma=100ms`: a rank whose cost profile is wrong by a random amount. Cameo §6.3's study of profile
/// inaccuracy: N(0, σ) is added to C_o of every message.
///
/// C_path is a sum of other operators' C_o; it is given an error of its own of the same σ, as if one of them
/// were wrong, so that ranks without C_o are hit as well. Costs stay at 0 at least. Not a policy to run: a
/// measure of how much a rank leans on its costs.
#[derive(Debug)]
pub struct Perturbed {
    rank: Box<dyn Rank>,
    sigma_ns: u64,
    random: Pcg32,
}

impl Perturbed {
    /// The rank, and σ.
    pub fn new(rank: Box<dyn Rank>, sigma_ns: u64) -> Perturbed {
        Perturbed { rank, sigma_ns, random: Pcg32::seed_from_u64(0) }
    }

    fn wrong(&mut self, cost_ns: u64) -> u64 {
        // Irwin and Hall: the sum of twelve uniforms less six is normal enough, of variance 1, and bounded.
        let uniforms: f64 = (0..12).map(|_| f64::from(self.random.next_u32()) / 2f64.powi(32)).sum();
        (cost_ns as f64 + (uniforms - 6.0) * self.sigma_ns as f64).max(0.0) as u64
    }
}

impl Decorator for Perturbed {
    fn inner(&self) -> &dyn Rank {
        &*self.rank
    }

    fn inner_mut(&mut self) -> &mut dyn Rank {
        &mut *self.rank
    }

    /// Keys are off by 12 σ at most, which changes a bound by as much and no more.
    fn message(&mut self, context: &MessageContext) -> f64 {
        let cost_ns = self.wrong(context.cost_ns);
        let path_cost_ns = self.wrong(context.path_cost_ns);
        self.rank.message(&MessageContext { cost_ns, path_cost_ns, ..*context })
    }

    fn seed(&mut self, seed: u64) {
        self.random = Pcg32::seed_from_u64(seed);
        self.rank.seed(seed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Needs, WaitBound};
    use laxity_graph::{OperatorId, ProcessingTime, QueryId};

    #[derive(Debug)]
    struct Cheapest;

    impl Rank for Cheapest {
        fn needs(&self) -> Needs {
            Needs::by_message(WaitBound::Ageing)
        }

        fn message(&mut self, context: &MessageContext) -> f64 {
            context.cost_ns as f64
        }
    }

    #[test]
    fn the_error_has_the_spread_that_was_asked_for_and_repeats() {
        const SIGMA_NS: u64 = 1_000;
        let context = MessageContext {
            operator: OperatorId(0),
            query: QueryId(0),
            is_source: true,
            is_from_outside: true,
            now: ProcessingTime(0),
            ingested: ProcessingTime(0),
            frontier: ProcessingTime(0),
            target_ns: 0,
            cost_ns: 100_000,
            path_cost_ns: 0,
            rows: 1,
            weight: 1.0,
        };
        let costs = |seed: u64| -> Vec<f64> {
            let mut rank: Box<dyn Rank> = Box::new(Perturbed::new(Box::new(Cheapest), SIGMA_NS));
            rank.seed(seed);
            (0..20_000).map(|_| rank.message(&context)).collect()
        };
        let sample = costs(1);
        let mean = sample.iter().sum::<f64>() / 20_000.0;
        let variance = sample.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>() / 20_000.0;
        // Standard errors: σ/√n = 7.1 of the mean, σ²·√(2/n) = 1 % of the variance; five of each.
        assert!((mean - 100_000.0).abs() < 36.0, "{mean}");
        assert!((variance / 1e6 - 1.0).abs() < 0.05, "{variance}");
        assert_eq!(sample, costs(1));
        assert_ne!(sample, costs(2));
    }
}
