use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Chance from a seed, which knows how often it was thrown: so another can go on where it stands.
#[derive(Debug)]
pub(super) struct Dice {
    random: Pcg64,
    thrown: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice { random: Pcg64::seed_from_u64(seed), thrown: 0 }
    }

    /// Of that seed, thrown so often.
    pub(super) fn at(seed: u64, thrown: u64) -> Dice {
        let mut dice = Dice::new(seed);
        dice.random.advance(u128::from(thrown));
        dice.thrown = thrown;
        dice
    }

    pub(super) fn thrown(&self) -> u64 {
        self.thrown
    }

    pub(super) fn number(&mut self) -> u32 {
        self.thrown += 1;
        self.random.next_u32()
    }

    /// Above 0 and below 1, uniformly.
    pub(super) fn share(&mut self) -> f64 {
        (f64::from(self.number()) + 0.5) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn another_goes_on_where_one_stands() {
        let mut one = Dice::new(7);
        (0..100).for_each(|_| assert!(one.share() > 0.0));
        let mut other = Dice::at(7, one.thrown());
        assert_eq!(
            (0..10).map(|_| one.number()).collect::<Vec<_>>(),
            (0..10).map(|_| other.number()).collect::<Vec<_>>()
        );
        assert_eq!(other.thrown(), 110);
    }
}
