/// Rows out per row in, as an exponentially decayed ratio. 1 until something is known.
#[derive(Clone, Copy, Debug)]
pub struct Selectivity {
    rows_in: f32,
    rows_out: f32,
}

/// As for the cost: a memory of about 50 messages.
const KEEP: f32 = 0.98;

impl Default for Selectivity {
    fn default() -> Selectivity {
        // One row that passed: the prior of 1, outweighed by the first batch.
        Selectivity { rows_in: 1.0, rows_out: 1.0 }
    }
}

impl Selectivity {
    /// The estimate.
    pub fn get(&self) -> f64 {
        f64::from(self.rows_out / self.rows_in)
    }

    /// Takes in one processed message. A watermark brings no row in and may send many on.
    #[inline]
    pub fn observe(&mut self, rows_in: u32, rows_out: u32) {
        if rows_in > 0 {
            self.rows_in *= KEEP;
            self.rows_out *= KEEP;
        }
        self.rows_in = (self.rows_in + rows_in as f32).max(f32::MIN_POSITIVE);
        self.rows_out += rows_out as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_rows_not_of_batches() {
        let mut selectivity = Selectivity::default();
        assert_eq!(selectivity.get(), 1.0);
        for _ in 0..1_000 {
            selectivity.observe(100, 10);
            selectivity.observe(900, 490);
        }
        assert!((selectivity.get() - 0.5).abs() < 0.01, "{}", selectivity.get());
    }

    #[test]
    fn a_window_sends_on_when_the_watermark_comes() {
        let mut selectivity = Selectivity::default();
        for _ in 0..500 {
            (0..9).for_each(|_| selectivity.observe(100, 0));
            selectivity.observe(0, 90);
        }
        assert!((selectivity.get() - 0.1).abs() < 0.02, "{}", selectivity.get());
    }

    #[test]
    fn nothing_passes() {
        let mut selectivity = Selectivity::default();
        (0..100_000).for_each(|_| selectivity.observe(1, 0));
        assert!((0.0..1e-6).contains(&selectivity.get()));
    }
}
