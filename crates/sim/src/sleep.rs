//! Operators that wait for something outside, as for a remote system: the same rows wait under every policy.

use laxity_workload::{DelayError, DelaySampler, Sleep};
use rand_core::Rng;
use rand_pcg::Pcg32;

/// The sleeps of one operator instance. Which of its rows make it sleep, counted in the order it takes them, and for how
/// long, is its own seed's matter: not the policy's, nor that of how rows were cut into batches.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// ln(1 − chance): how the chance to be awake still shrinks with every row.
    log_awake: f64,
    /// Rows to be taken before the next that makes it sleep.
    rows_awake: u64,
    random: Pcg32,
    length: DelaySampler,
}

impl Sleeper {
    /// `None` if no row ever makes it sleep.
    ///
    /// # Errors
    /// If the length is no delay.
    pub fn new(sleep: &Sleep, seed: u64, operator: u32) -> Result<Option<Sleeper>, DelayError> {
        let mut random = Pcg32::new(seed, operator.into());
        let length = sleep.length.sampler(random.next_u64())?;
        if sleep.chance_per_row.is_nan() || sleep.chance_per_row <= 0.0 {
            return Ok(None);
        }
        let log_awake = (-sleep.chance_per_row.min(1.0)).ln_1p();
        let mut sleeper = Sleeper { log_awake, rows_awake: 0, random, length };
        sleeper.rows_awake = sleeper.draw_rows();
        Ok(Some(sleeper))
    }

    /// For how long it sleeps over its next so many rows.
    pub fn sleep_ns(&mut self, rows: u32) -> u64 {
        let mut rows = u64::from(rows);
        let mut slept_ns = 0u64;
        while self.rows_awake < rows {
            rows -= self.rows_awake + 1;
            slept_ns = slept_ns.saturating_add(self.length.sample_ns());
            self.rows_awake = self.draw_rows();
        }
        self.rows_awake -= rows;
        slept_ns
    }

    /// The geometric law: ⌊ln U / ln(1 − chance)⌋ with U uniform in (0, 1].
    fn draw_rows(&mut self) -> u64 {
        const STEPS: f64 = (1u64 << 53) as f64;
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / STEPS;
        // The cast saturates.
        (uniform.ln() / self.log_awake) as u64
    }
}

#[cfg(test)]
mod tests {
    use laxity_workload::Delay;

    use super::*;

    fn sleeper(chance_per_row: f64, seed: u64, operator: u32) -> Option<Sleeper> {
        Sleeper::new(&Sleep { chance_per_row, length: Delay::Constant { ns: 7 } }, seed, operator).unwrap()
    }

    #[test]
    fn certain_and_impossible_sleeps() {
        assert_eq!(sleeper(1.0, 1, 0).unwrap().sleep_ns(10), 70);
        assert!(sleeper(0.0, 1, 0).is_none());
        assert!(sleeper(f64::NAN, 1, 0).is_none());
    }

    #[test]
    fn one_row_in_a_hundred_is_one_in_a_hundred() {
        let slept = sleeper(0.01, 3, 0).unwrap().sleep_ns(1_000_000) / 7;
        // Ten thousand, and the deviation is a hundred.
        assert!(slept.abs_diff(10_000) < 400, "{slept}");
    }

    #[test]
    fn sleeps_do_not_depend_on_batches_and_differ_between_operators() {
        let whole = sleeper(0.01, 5, 2).unwrap().sleep_ns(60_000);
        let mut cut = sleeper(0.01, 5, 2).unwrap();
        let pieces: u64 = (1..=300).map(|rows| cut.sleep_ns(rows)).sum();
        // 1 + … + 300 rows are 45 150.
        assert_eq!(pieces + cut.sleep_ns(60_000 - 45_150), whole);
        assert_ne!(sleeper(0.01, 5, 3).unwrap().sleep_ns(60_000), whole);
    }
}
